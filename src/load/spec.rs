//! What the engine is asked for and what it hands back.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::wire::WireError;
use crate::plan::{Arrivals, LoadOptions};
use crate::record::{CellStatus, ClientUsage, Interval, StatementRecord};
use crate::target::Endpoint;
use crate::workload::{Access, Program};

/// One cell's load.
#[derive(Debug, Clone)]
pub struct LoadSpec {
    /// The server, with the database that holds the tables.
    pub endpoint: Endpoint,
    /// What each client does.
    pub program: Arc<Program>,
    /// Number of tables.
    pub tables: u32,
    /// Rows of each table.
    pub rows: u64,
    /// How row ids are drawn.
    pub access: Access,
    /// How the load is sent.
    pub options: LoadOptions,
    /// Who sets the pace.
    pub pace: Pace,
    /// Shown but not measured, at the start.
    pub discard: Duration,
    /// Measured time.
    pub measure: Duration,
    /// The cell also ends after this many transactions that ended well in the measured time.
    pub events: Option<u64>,
    /// Length of an interval.
    pub interval: Duration,
    /// Seed of all random streams, already derived from the plan's seed, workload and step.
    pub seed: u64,
}

/// Who sets the pace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Each client starts its next transaction when the last one has ended.
    Closed {
        /// Concurrent clients.
        clients: u32,
    },
    /// Transactions arrive at a rate, whatever the server makes of it.
    Open {
        /// Arrivals per second.
        rate: f64,
        /// Clients that share them.
        clients: u32,
        /// Spacing.
        arrivals: Arrivals,
        /// Arrivals that may wait for a client; further ones are dropped and counted.
        backlog: u32,
    },
}

impl Pace {
    /// Concurrent clients.
    pub fn clients(&self) -> u32 {
        match self {
            Self::Closed { clients } | Self::Open { clients, .. } => *clients,
        }
    }
}

/// Whether a cell goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    Continue,
    /// It ends, for this reason.
    Stop(String),
    /// It ends well, before its measured time is over: nothing more would be learnt.
    Enough,
}

/// Who watches a cell. Called from the thread that called [`run`](super::run).
pub trait Observer: Sync {
    /// All clients are connected and wait for their release.
    fn connected(&self, clients: u32);
    /// The clients were released: second 0 of the cell.
    fn released(&self);
    /// An interval is complete.
    fn interval(&self, interval: &Interval) -> Flow;
    /// Transactions outlived the drain time-out: KILL QUERY these connections from a control connection.
    /// Must return within a second or so, whatever the server does; the sockets are closed soon after.
    fn kill(&self, connection_ids: &[u64]);
}

/// What a cell came to.
#[derive(Debug, Clone)]
pub struct LoadOutcome {
    /// How it ended.
    pub status: CellStatus,
    /// Why it did not complete.
    pub reason: Option<String>,
    /// When the clients were released.
    pub started_at: Option<SystemTime>,
    /// Seconds from the release to the end of the measured time.
    pub seconds: f64,
    /// The intervals, discarded ones first.
    pub intervals: Vec<Interval>,
    /// Transactions that ended well in the measured time, by client.
    pub per_client: Vec<u64>,
    /// By statement class, in the program's order, then `begin`, `commit`, `rollback`; classes that occurred.
    pub statements: Vec<StatementRecord>,
    /// capbench's own use in the measured time.
    pub client: ClientUsage,
    /// Seconds in which at least one client was not connected.
    pub outage_seconds: f64,
    /// Longest time from losing a connection to having it back.
    pub recovery_seconds: Option<f64>,
    /// Negotiated TLS version and cipher, or `none`.
    pub tls: String,
    /// Every arrival, in exactly one bucket.
    pub totals: Totals,
}

/// Every arrival from the release on, in exactly one bucket:
/// `arrivals = done + failed + dropped + drained + given_up + waiting`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Transactions started (closed loop), or due (open loop).
    pub arrivals: u64,
    /// Ended well before the end of the cell.
    pub done: u64,
    /// Given up after their retries, or lost with their connection, before the end of the cell.
    pub failed: u64,
    /// Open loop: no room in the backlog, or still waiting when the discard ended.
    pub dropped: u64,
    /// In flight at the end, ended within the drain time-out. In no interval.
    pub drained: u64,
    /// In flight at the end, refused, killed or cut off.
    pub given_up: u64,
    /// Open loop: waiting for a client at the end.
    pub waiting: u64,
}

impl Totals {
    /// Whether every arrival is in exactly one bucket.
    pub fn balance(&self) -> bool {
        self.arrivals
            == self.done + self.failed + self.dropped + self.drained + self.given_up + self.waiting
    }
}

/// Why a cell could not start. What happens after the release is an outcome, not an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The server refused a client.
    #[error("client {client} of {clients} could not connect to {address}: {error}{hint}")]
    Refused {
        /// Number of the client, from 1, in the order of connecting.
        client: u32,
        /// All clients.
        clients: u32,
        /// Where to.
        address: String,
        /// The server's or the protocol's words.
        error: WireError,
        /// A line with the way out; empty if there is none.
        hint: String,
    },
    /// The network refused a client.
    #[error("client {client} of {clients} could not connect to {address}: {error}{hint}")]
    Network {
        /// Number of the client, from 1, in the order of connecting.
        client: u32,
        /// All clients.
        clients: u32,
        /// Where to.
        address: String,
        /// The system's words.
        error: String,
        /// A line with the way out; empty if there is none.
        hint: String,
    },
    /// Not all clients got a connection in time.
    #[error(
        "{connected} of {clients} clients connected to {address} within {limit}\nhint: is the server \
         reachable and idle? raise load.connect_timeout if it needs longer"
    )]
    ConnectTimeout {
        /// How many did.
        connected: u32,
        /// All clients.
        clients: u32,
        /// Where to.
        address: String,
        /// The time limit.
        limit: String,
    },
    /// Too few file descriptors.
    #[error(
        "{clients} clients need {needed} open files ({clients} connections + {reserve} of capbench's \
         own), the limit is {limit}\nhint: raise it (`ulimit -n {needed}`, or LimitNOFILE in a service) \
         or use fewer clients"
    )]
    OpenFiles {
        /// Clients.
        clients: u32,
        /// Descriptors that they need.
        needed: u64,
        /// Of which not for connections.
        reserve: u64,
        /// The hard limit.
        limit: u64,
    },
    /// Too few local ports.
    #[error(
        "{clients} clients need as many local ports to {address}, net.ipv4.ip_local_port_range has \
         {ports}\nhint: widen it (`sysctl net.ipv4.ip_local_port_range=\"1024 65535\"`) or use fewer clients"
    )]
    Ports {
        /// Clients.
        clients: u32,
        /// Where to.
        address: String,
        /// Ports in the range.
        ports: u32,
    },
    /// The host name does not resolve.
    #[error("cannot resolve `{host}`: {error}")]
    Resolve {
        /// Host name.
        host: String,
        /// The resolver's words.
        error: String,
    },
    /// TLS cannot be set up.
    #[error("cannot set up tls: {0}")]
    Tls(String),
    /// The program cannot be run.
    #[error("workload `{name}` cannot be run: {problem}")]
    Program {
        /// Workload name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// The operating system refused something that has nothing to do with the server.
    #[error("the load engine could not start: {0}")]
    System(String),
    /// The user ended it before the release.
    #[error("interrupted while the clients were connecting")]
    Interrupted,
}
