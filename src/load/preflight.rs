//! What is checked before the first connection: descriptors, ports, names.

use std::net::ToSocketAddrs;

use rustix::process::{Resource, getrlimit, setrlimit};

use super::link::Peer;
use super::spec::{LoadError, LoadSpec};
use crate::plan::Address;

/// Open files that are not connections: the program's own, each worker's poll, timer and wake-up, control
/// connections, probes.
const RESERVE: u64 = 64;

/// One per core, at least two (one alone costs throughput where the server shares the machine), and no
/// more than clients.
pub(super) fn workers(wanted: u32, clients: u32) -> usize {
    let workers = if wanted > 0 {
        wanted as usize
    } else {
        std::thread::available_parallelism().map_or(2, |n| n.get().max(2))
    };
    workers.min(clients as usize)
}

/// Raises the soft limit of open files if needed.
pub(super) fn open_files(clients: u32) -> Result<(), LoadError> {
    let needed = u64::from(clients) + RESERVE;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(LoadError::OpenFiles {
            clients,
            needed,
            reserve: RESERVE,
            limit: limit.maximum.unwrap_or(0),
        });
    }
    limit.current = Some(needed);
    setrlimit(Resource::Nofile, limit).map_err(|e| LoadError::System(e.to_string()))
}

pub(super) fn resolve(spec: &LoadSpec) -> Result<Vec<Peer>, LoadError> {
    match &spec.endpoint.address {
        Address::Socket(path) => Ok(vec![Peer::Socket(path.clone())]),
        Address::Tcp { host, port } => {
            let fail = |error: String| LoadError::Resolve {
                host: host.clone(),
                error,
            };
            let addresses: Vec<Peer> = (host.as_str(), *port)
                .to_socket_addrs()
                .map_err(|e| fail(e.to_string()))?
                .map(Peer::Tcp)
                .collect();
            if addresses.is_empty() {
                return Err(fail("the name has no address".into()));
            }
            Ok(addresses)
        }
    }
}

/// Every TCP connection to one address needs a local port of its own.
pub(super) fn ports(spec: &LoadSpec, clients: u32, peers: &[Peer]) -> Result<(), LoadError> {
    if !matches!(peers, [Peer::Tcp(_), ..]) {
        return Ok(());
    }
    // Unknown where /proc is missing; connecting then finds out.
    let Ok(range) = fs_err::read_to_string("/proc/sys/net/ipv4/ip_local_port_range") else {
        return Ok(());
    };
    let mut bounds = range.split_whitespace().map(str::parse::<u32>);
    if let (Some(Ok(low)), Some(Ok(high))) = (bounds.next(), bounds.next()) {
        let ports = high.saturating_sub(low) + 1;
        if ports < clients {
            return Err(LoadError::Ports {
                clients,
                address: spec.endpoint.address.to_string(),
                ports,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_workers_or_more_but_never_more_than_clients() {
        assert_eq!(workers(0, 1), 1);
        assert!(workers(0, 100) >= 2);
        assert_eq!(workers(5, 3), 3);
        assert_eq!(workers(1, 100), 1);
    }
}
