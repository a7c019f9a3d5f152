//! Who the server is and where it stands.

use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::time::Instant;

use mysql::prelude::Queryable;

use super::connect::Control;
use super::variables::settings_only;
use super::{Endpoint, TargetError};
use crate::plan::Address;
use crate::record::{Flavour, ServerIdentity};
use crate::units::Millis;

/// Empty queries of which the median counts as the round trip.
const ROUND_TRIPS: usize = 21;

/// Before the server has been asked.
pub(super) fn unknown() -> ServerIdentity {
    ServerIdentity {
        flavour: Flavour::MySql,
        version: String::new(),
        comment: String::new(),
        uuid: None,
        address: String::new(),
        local: false,
        tls: String::new(),
        round_trip: Millis(0.0),
        variables: BTreeMap::new(),
    }
}

/// Asks the server.
pub(super) fn identify(
    control: &mut Control,
    endpoint: &Endpoint,
    private: bool,
) -> Result<ServerIdentity, TargetError> {
    let version = control.value("SELECT VERSION()")?.unwrap_or_default();
    let comment = control
        .value("SELECT @@version_comment")?
        .unwrap_or_default();
    let variables = settings_only(control.pairs("SHOW GLOBAL VARIABLES")?);
    let flavour = flavour(&version, &comment);
    let uuid = ["server_uuid", "server_uid"]
        .iter()
        .find_map(|name| variables.get(*name).cloned());
    let status: BTreeMap<String, String> = control
        .pairs("SHOW SESSION STATUS LIKE 'Ssl_%'")?
        .into_iter()
        .collect();
    let ssl = |name: &str| status.get(name).filter(|v| !v.is_empty());
    let tls = match (ssl("Ssl_version"), ssl("Ssl_cipher")) {
        (Some(version), Some(cipher)) => format!("{version} {cipher}"),
        _ => "none".to_owned(),
    };
    Ok(ServerIdentity {
        flavour,
        version,
        comment,
        uuid,
        address: if private {
            "private server".to_owned()
        } else {
            endpoint.address.to_string()
        },
        local: private || is_local(&endpoint.address),
        tls,
        round_trip: Millis(0.0),
        variables,
    })
}

fn flavour(version: &str, comment: &str) -> Flavour {
    let maria = |text: &str| text.to_ascii_lowercase().contains("mariadb");
    if maria(version) || maria(comment) {
        Flavour::MariaDb
    } else {
        Flavour::MySql
    }
}

pub(super) fn round_trip(control: &mut Control) -> Result<Millis, TargetError> {
    const SQL: &str = "DO 0";
    let mut times = control.ask(SQL, |conn| {
        let mut times = Vec::with_capacity(ROUND_TRIPS);
        for _ in 0..ROUND_TRIPS {
            let start = Instant::now();
            conn.query_drop(SQL)?;
            times.push(start.elapsed());
        }
        Ok(times)
    })?;
    times.sort();
    let median = times[ROUND_TRIPS / 2];
    Ok(Millis(median.as_secs_f64() * 1e3))
}

/// Addresses that a name stands for; empty when it cannot be resolved.
pub(super) fn addresses(address: &Address) -> Vec<IpAddr> {
    match address {
        Address::Socket(_) => Vec::new(),
        Address::Tcp { host, port } => (host.as_str(), *port)
            .to_socket_addrs()
            .map(|all| all.map(|a| a.ip()).collect())
            .unwrap_or_default(),
    }
}

/// Process id of a server on this host by its `pid_file`; `None` when it runs elsewhere, when the file
/// cannot be read, or when that process is no database server (a container's id means another one here).
pub(super) fn local_pid(identity: &ServerIdentity) -> Option<u32> {
    if !identity.local {
        return None;
    }
    let file = Path::new(identity.variables.get("pid_file")?);
    let file = match identity.variables.get("datadir") {
        Some(datadir) if file.is_relative() => Path::new(datadir).join(file),
        _ => file.to_owned(),
    };
    let pid: u32 = fs_err::read_to_string(file).ok()?.trim().parse().ok()?;
    let name = fs_err::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    (is_server(name.trim()) || started_as_server(pid)).then_some(pid)
}

fn is_server(name: &str) -> bool {
    matches!(name, "mysqld" | "mariadbd")
}

/// Whether a process that bears another name (that of a loader or a sandbox) was started with a server
/// program among its arguments.
fn started_as_server(pid: u32) -> bool {
    let Ok(line) = fs_err::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    String::from_utf8_lossy(&line)
        .split('\0')
        .take_while(|word| !word.starts_with("--datadir"))
        .any(|word| {
            Path::new(word)
                .file_name()
                .is_some_and(|n| is_server(&n.to_string_lossy()))
        })
}

/// Whether the server is on this host, as far as can be told: a tunnel or a port forwarded into a
/// container looks local as well.
pub(super) fn is_local(address: &Address) -> bool {
    match address {
        Address::Socket(_) => true,
        // Only an address of one of this host's interfaces can be bound.
        Address::Tcp { .. } => addresses(address)
            .iter()
            .any(|ip| ip.is_loopback() || UdpSocket::bind((*ip, 0)).is_ok()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn flavours_by_their_own_words() {
        assert_eq!(
            flavour("10.11.19-MariaDB-0+deb12u1", "Debian 12"),
            Flavour::MariaDb
        );
        assert_eq!(
            flavour("10.6.1", "mariadb.org binary distribution"),
            Flavour::MariaDb
        );
        assert_eq!(flavour("9.7.4-2", "(Debian)"), Flavour::MySql);
        assert_eq!(flavour("8.0.36-28", "Percona Server (GPL)"), Flavour::MySql);
    }

    #[test]
    fn a_pid_file_that_names_no_database_server_tells_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("s.pid"),
            format!("{}\n", std::process::id()),
        )
        .unwrap();
        let mut identity = unknown();
        identity.local = true;
        assert_eq!(local_pid(&identity), None, "no such variable");
        let datadir = dir.path().to_str().unwrap().to_owned();
        identity.variables = BTreeMap::from([
            ("datadir".to_owned(), datadir),
            ("pid_file".to_owned(), "s.pid".to_owned()),
        ]);
        assert_eq!(local_pid(&identity), None, "that is this test");
    }

    #[test]
    fn local_is_what_this_host_owns() {
        let tcp = |host: &str| Address::Tcp {
            host: host.to_owned(),
            port: 3306,
        };
        assert!(is_local(&Address::Socket("/run/mysqld.sock".into())));
        assert!(is_local(&tcp("127.0.0.1")));
        assert!(is_local(&tcp("::1")));
        // TEST-NET-1 (RFC 5737) is nobody's.
        assert!(!is_local(&tcp("192.0.2.1")));
    }
}
