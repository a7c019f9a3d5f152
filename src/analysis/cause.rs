//! What stops a server, with the evidence beside it.

use serde::Serialize;

/// What stops a server, in the order of decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// capbench or its machine.
    LoadGenerator,
    /// The network link.
    Network,
    /// Work does not get into the server: network or load machine.
    OutsideServer,
    /// `max_connections` or another connection limit.
    Connections,
    /// `max_prepared_stmt_count`.
    PreparedStatements,
    /// Row locks.
    RowLocks,
    /// Locks on whole tables, their definitions, global and named locks.
    TableLocks,
    /// Latches and mutexes.
    Latches,
    /// CPU quota of the server's control group.
    CpuQuota,
    /// CPU of the server's host.
    Cpu,
    /// Processes on the server's host that are neither the server nor capbench.
    OtherProcesses,
    /// CPU stolen by other guests.
    StolenCpu,
    /// Disk reads for pages that the buffer pool does not hold.
    DiskReads,
    /// Disk in general.
    Disk,
    /// Redo log full: checkpoints.
    Redo,
    /// Log buffer, fsync, group commit.
    LogFlush,
    /// Commits wait for a semi-synchronous replica.
    SemiSync,
    /// What lets statements in: a thread pool, `innodb_thread_concurrency`.
    Admission,
    /// A replica cannot follow.
    Replication,
    /// Nothing completed for whole intervals, and nothing else explains it.
    Stall,
    /// Cluster flow control.
    FlowControl,
    /// Temporary tables on disk, sort merges.
    TemporaryTables,
    /// Table cache.
    TableCache,
    /// Purge lags behind.
    Purge,
    /// Some clients are starved.
    Unfair,
    /// No resource is at its limit: latency bounds a closed loop.
    NotSaturated,
    /// Throughput no longer grows with the clients, so that something is at its limit, and no signal shows what.
    Unseen,
    /// The signals that would tell are missing.
    Unknown,
}

impl Cause {
    /// The name for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LoadGenerator => "load generator",
            Self::Network => "network",
            Self::OutsideServer => "outside the server (network or load machine)",
            Self::Connections => "connection limit",
            Self::PreparedStatements => "prepared statement limit",
            Self::RowLocks => "row locks",
            Self::TableLocks => "table, metadata or named locks",
            Self::Latches => "latch or mutex contention",
            Self::CpuQuota => "CPU quota of the server's control group",
            Self::Cpu => "CPU",
            Self::OtherProcesses => "other processes on this host",
            Self::StolenCpu => "stolen CPU",
            Self::DiskReads => "disk reads (buffer pool misses)",
            Self::Disk => "disk I/O",
            Self::Redo => "redo log and checkpoints",
            Self::LogFlush => "log flush (fsync, group commit)",
            Self::SemiSync => "semi-synchronous replication",
            Self::Admission => {
                "limit on statements at work (thread pool, innodb_thread_concurrency)"
            }
            Self::Replication => "replication lag",
            Self::Stall => "stall",
            Self::FlowControl => "cluster flow control",
            Self::TemporaryTables => "temporary tables on disk",
            Self::TableCache => "table cache",
            Self::Purge => "purge lag",
            Self::Unfair => "unevenly served clients",
            Self::NotSaturated => "latency-bound, not saturated",
            Self::Unseen => "saturated, by what no signal shows",
            Self::Unknown => "unknown: signals missing",
        }
    }
}

/// One signal beside its threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// What it speaks for.
    pub cause: Cause,
    /// What was looked at.
    pub signal: String,
    /// What was found, with its unit.
    pub value: String,
    /// From where on it counts.
    pub threshold: String,
    /// Whether it counts here; `None`: shown for information, or not to be judged at this step.
    pub met: Option<bool>,
    /// Where the value comes from.
    pub source: String,
}

/// Why a ladder stops at a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// Concurrent clients of the step looked at.
    pub threads: u32,
    /// Whether this is the step after the knee, looked at because nothing is full at the knee itself.
    pub after_knee: bool,
    /// The first cause in the order of decision that is proved.
    pub primary: Cause,
    /// Others that take part.
    pub contributing: Vec<Cause>,
    /// One sentence with the figures.
    pub sentence: String,
    /// All signals that were looked at.
    pub evidence: Vec<Evidence>,
    /// Signals that could not be looked at, with the reason.
    pub missing: Vec<String>,
    /// What can be tried, with the trade-off.
    pub advice: Vec<String>,
}
