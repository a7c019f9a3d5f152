//! Where server, network and machine depart from the method; each finding can be accepted by name.

use std::net::IpAddr;

use mysql::prelude::Queryable;

use super::connect::connect;
use super::identity::addresses;
use super::server::Server;
use crate::plan::{Address, Plan, Warning};
use crate::record::HostFacts;
use crate::units::{Bytes, Millis, Ratio};

/// Above this the network shows in the latency of short statements.
const ROUND_TRIP: Millis = Millis(0.5);
/// Above this a test of short statements measures the network.
const ROUND_TRIP_HIGH: Millis = Millis(2.0);
/// A load machine below this swaps or shares before the server is busy.
const MIN_MEMORY: Bytes = Bytes(4 << 30);
/// Stolen CPU above this share means that neighbours are in the measurement.
const MAX_STOLEN: Ratio = Ratio(0.01);

/// Privileges that bypass `read_only`, `max_connections` or both, in the words of SHOW GRANTS.
const BYPASSING: [&str; 4] = [
    "SUPER",
    "CONNECTION_ADMIN",
    "CONNECTION ADMIN",
    "READ_ONLY ADMIN",
];

/// What speaks against this server, its network and this machine, as warnings: `same-host`, `round-trip`,
/// `round-trip-high`, `public-address`, `super-load-account`, `weak-load-machine`, `stolen-cpu`, `unencrypted`.
pub fn warnings(plan: &Plan, server: &mut Server, host: &HostFacts) -> Vec<Warning> {
    let identity = server.identity();
    let mut found = facts(identity.local, identity.round_trip, host);
    if !server.is_managed() {
        let ips = addresses(&server.admin.address);
        found.extend(public(&ips, &server.admin.address, &identity.tls));
        found.extend(super_account(server));
    }
    found
        .into_iter()
        .map(|(name, text)| Warning {
            accepted: plan.accept.iter().any(|a| a == name),
            name: name.to_owned(),
            text,
        })
        .collect()
}

type Finding = (&'static str, String);

fn facts(local: bool, round_trip: Millis, host: &HostFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    if local {
        found.push((
            "same-host",
            "the load runs on the server's own host: both share its CPU, so that the limit found lies below the server's own"
                .to_owned(),
        ));
    }
    if round_trip.0 > ROUND_TRIP_HIGH.0 {
        found.push((
            "round-trip-high",
            format!(
                "the round trip to the server is {round_trip}, over {ROUND_TRIP_HIGH}: with short statements the test measures the network; move the load nearer"
            ),
        ));
    } else if round_trip.0 > ROUND_TRIP.0 {
        found.push((
            "round-trip",
            format!(
                "the round trip to the server is {round_trip}, over {ROUND_TRIP}: it is part of every statement's latency"
            ),
        ));
    }
    if host.memory.0 > 0 && host.memory < MIN_MEMORY {
        found.push((
            "weak-load-machine",
            format!("the load machine has {}, under {MIN_MEMORY}", host.memory),
        ));
    }
    if let Some(stolen) = host.stolen.filter(|s| s.0 > MAX_STOLEN.0) {
        found.push((
            "stolen-cpu",
            format!(
                "{stolen} of the load machine's CPU went to other guests of its host since it booted: its neighbours are part of every figure"
            ),
        ));
    }
    found
}

fn public(ips: &[IpAddr], address: &Address, tls: &str) -> Vec<Finding> {
    if !ips.iter().any(|ip| is_public(*ip)) {
        return Vec::new();
    }
    let mut found = vec![(
        "public-address",
        format!(
            "{address} is a public address: the load crosses networks that others use, and costs traffic"
        ),
    )];
    if tls == "none" {
        found.push((
            "unencrypted",
            format!(
                "the connections to {address} are not encrypted, although the address is public"
            ),
        ));
    }
    found
}

/// Whether an address is routed on the internet, by the special-purpose registries of RFC 6890 as far
/// as hosts use them.
fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_unspecified()
                || v4.is_documentation()
                || v4.is_broadcast()
                // Shared address space of carriers and clouds, RFC 6598.
                || (a == 100 && (64..128).contains(&b))
                // Benchmarking, RFC 2544.
                || (a == 198 && (18..20).contains(&b)))
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                // Documentation, RFC 3849.
                || v6.segments()[..2] == [0x2001, 0x0db8])
        }
    }
}

fn super_account(server: &Server) -> Option<Finding> {
    let endpoint = super::Endpoint {
        database: None,
        ..server.load_endpoint().clone()
    };
    let grants: Vec<String> = connect(&endpoint, Some(endpoint.connect_timeout))
        .ok()?
        .query("SHOW GRANTS")
        .ok()?;
    let privilege = grants.iter().find_map(|g| bypassing(g))?;
    Some((
        "super-load-account",
        format!(
            "the load's account `{}` has {privilege}: it bypasses read_only or the connection limit, which falsifies the test; give the load an account of its own and state this one as admin",
            endpoint.user
        ),
    ))
}

/// The privilege in a line of SHOW GRANTS that bypasses what limits an application's account.
fn bypassing(grant: &str) -> Option<&'static str> {
    let (privileges, on) = grant.strip_prefix("GRANT ")?.split_once(" ON ")?;
    if !on.starts_with("*.*") {
        return None;
    }
    let mut all = privileges.split(',').map(str::trim);
    if privileges.trim() == "ALL PRIVILEGES" {
        return Some("ALL PRIVILEGES on everything");
    }
    all.find_map(|p| BYPASSING.iter().find(|b| **b == p).copied())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    fn names(found: &[Finding]) -> Vec<&'static str> {
        found.iter().map(|(name, _)| *name).collect()
    }

    #[test]
    fn thresholds() {
        let host = HostFacts {
            memory: Bytes(8 << 30),
            ..HostFacts::default()
        };
        assert_eq!(names(&facts(false, Millis(0.5), &host)), [""; 0]);
        assert_eq!(names(&facts(false, Millis(0.6), &host)), ["round-trip"]);
        assert_eq!(
            names(&facts(true, Millis(2.1), &host)),
            ["same-host", "round-trip-high"]
        );
        let weak = HostFacts {
            memory: Bytes(2 << 30),
            stolen: Some(Ratio(0.05)),
            ..HostFacts::default()
        };
        assert_eq!(
            names(&facts(false, Millis(0.1), &weak)),
            ["weak-load-machine", "stolen-cpu"]
        );
        // Unknown memory is not small memory.
        assert_eq!(
            names(&facts(false, Millis(0.1), &HostFacts::default())),
            [""; 0]
        );
    }

    #[test]
    fn public_addresses() {
        for ip in [
            "8.8.8.8",
            "172.32.0.1",
            "2a00::1",
            "::ffff:8.8.8.8",
            "100.128.0.1",
        ] {
            assert!(is_public(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "10.0.0.5",
            "127.0.0.1",
            "192.168.1.1",
            "172.16.0.1",
            "100.64.0.1",
            "fd00::1",
            "fe80::1",
            "::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(!is_public(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn privileges_that_bypass_limits() {
        for (grant, found) in [
            (
                "GRANT ALL PRIVILEGES ON *.* TO `root`@`localhost` WITH GRANT OPTION",
                true,
            ),
            ("GRANT SELECT, SUPER ON *.* TO `a`@`%`", true),
            ("GRANT CONNECTION_ADMIN,ROLE_ADMIN ON *.* TO `a`@`%`", true),
            ("GRANT READ_ONLY ADMIN ON *.* TO `a`@`%`", true),
            ("GRANT ALL PRIVILEGES ON `bench`.* TO `a`@`%`", false),
            ("GRANT USAGE ON *.* TO `a`@`%`", false),
            ("GRANT PROXY ON ``@`%` TO `root`@`localhost`", false),
        ] {
            assert_eq!(bypassing(grant).is_some(), found, "{grant}");
        }
    }
}
