//! What was measured, before anything is concluded from it. One [`CellRecord`] a cell; the whole
//! [`Run`] is what a run folder holds, and all that the analysis and the report may look at.

mod evidence;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::{Criteria, HouseRule, OpenLoop, Step, Warning};
use crate::units::{Bytes, Millis, Ratio, Span};

mod start;

mod values;

pub use crate::latency::Latency;
pub use evidence::{CellEvidence, Digest, LadderPlans, PlanStep, RunEvidence, StatementPlan};
pub use start::{SettleStep, StartRecord, WarmupRecord};
pub use values::{Names, Place, Values};

/// Which part of a cell an interval belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The per-cell discard: shown, never part of a figure.
    Discard,
    /// The measured time.
    Measure,
}

/// Errors of one kind within an interval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCount {
    /// The server's error code; 0: the connection was lost.
    pub code: u16,
    /// Statement class, or `connect`, `begin`, `commit`.
    pub statement: String,
    /// How many.
    pub count: u64,
}

/// One interval of a cell. An event belongs to the interval in which it ended.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Start and end in seconds after all clients were connected and released.
    pub start: f64,
    /// See `start`.
    pub end: f64,
    /// Discarded or measured.
    pub phase: Phase,
    /// Transactions that ended well.
    pub done: u64,
    /// Transactions given up after their retries.
    pub failed: u64,
    /// Open loop: arrivals for which the backlog had no room.
    pub dropped: u64,
    /// Open loop: arrivals that became due.
    pub arrivals: u64,
    /// Attempts of a transaction after its first.
    pub retries: u64,
    /// Connections made anew after a loss.
    pub reconnects: u64,
    /// Statements with a result set.
    pub reads: u64,
    /// Statements with affected rows.
    pub writes: u64,
    /// Other statements (BEGIN, COMMIT, ROLLBACK, an update that found no row).
    pub others: u64,
    /// Client-seconds in which a client was connected.
    pub connected_seconds: f64,
    /// Open loop: largest backlog seen.
    pub backlog: u64,
    /// Latency of transactions that ended well. Closed loop: from the first statement sent to the last answer
    /// (retries included). Open loop: response time, from the due instant.
    pub latency: Latency,
    /// Open loop only: service time, from when a client took the transaction up.
    pub service: Option<Latency>,
    /// Errors by code and statement.
    pub errors: Vec<ErrorCount>,
}

impl Interval {
    /// An interval in which nothing happened.
    pub fn empty(start: f64, end: f64, phase: Phase) -> Self {
        Self {
            start,
            end,
            phase,
            done: 0,
            failed: 0,
            dropped: 0,
            arrivals: 0,
            retries: 0,
            reconnects: 0,
            reads: 0,
            writes: 0,
            others: 0,
            connected_seconds: 0.0,
            backlog: 0,
            latency: Latency::new(),
            service: None,
            errors: Vec::new(),
        }
    }

    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.end - self.start
    }

    /// Statements sent and answered.
    pub fn queries(&self) -> u64 {
        self.reads + self.writes + self.others
    }
}

/// Figures of one statement class over the measured time of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatementRecord {
    /// Class name.
    pub class: String,
    /// Answers received.
    pub count: u64,
    /// Mean; `None` without events.
    pub avg: Option<Millis>,
    /// 95th percentile.
    pub p95: Option<Millis>,
    /// 99th percentile.
    pub p99: Option<Millis>,
    /// Maximum, exact.
    pub max: Option<Millis>,
}

/// How a cell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellStatus {
    /// It ran to its end.
    Completed,
    /// It ended on time but transactions in flight had to be killed.
    Truncated,
    /// An error ended it.
    Failed,
    /// The guard ended it.
    Stopped,
    /// The user ended it.
    Interrupted,
    /// It was not started.
    Skipped,
}

/// What a cell was measured for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellKind {
    /// A step of the ladder as planned.
    #[default]
    Ladder,
    /// A step that refines the ladder: part of it, but measured afterwards, where the knee is decided.
    Refined,
    /// The baseline once more, at a step of its ladder: shows drift, enters no ladder.
    Reference,
    /// The soak: long, below the knee; enters no ladder.
    Soak,
}

impl CellKind {
    /// Whether it is a point of a ladder.
    pub fn is_step(self) -> bool {
        matches!(self, Self::Ladder | Self::Refined)
    }

    /// The word for tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ladder => "ladder",
            Self::Refined => "refined",
            Self::Reference => "reference",
            Self::Soak => "soak",
        }
    }
}

/// A cell that what was measured so far asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct NextCell {
    /// Workload name.
    pub workload: String,
    /// Threads or rate.
    pub step: Step,
    /// Why there, one sentence.
    pub why: String,
}

/// What capbench itself used during the measured time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientUsage {
    /// CPU in user mode, seconds, whole process.
    #[serde(deserialize_with = "number")]
    pub user_seconds: f64,
    /// CPU in kernel mode, seconds, whole process.
    #[serde(deserialize_with = "number")]
    pub system_seconds: f64,
    /// Resident memory at the end.
    pub resident: Bytes,
    /// CPU time of the busiest worker's thread against the measured time.
    #[serde(deserialize_with = "share")]
    pub busiest_worker: Ratio,
    /// 99th percentile of the time an answer waited for its worker (readable until handled).
    pub lateness_p99: Option<Millis>,
    /// Largest such time.
    pub lateness_max: Option<Millis>,
}

/// One cell: repeat × variant × workload × step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CellRecord {
    /// Position in the run, from 1.
    pub index: u32,
    /// Pass over the variants, from 1.
    pub repeat: u32,
    /// Variant name.
    pub variant: String,
    /// Workload name.
    pub workload: String,
    /// Ladder step.
    pub step: Step,
    /// Concurrent clients.
    pub clients: u32,
    /// What it was measured for.
    #[serde(default)]
    pub kind: CellKind,
    /// How it ended.
    pub status: CellStatus,
    /// Why it did not complete.
    pub reason: Option<String>,
    /// When the clients were released (UTC, RFC 3339); `None`: never.
    pub started_at: Option<String>,
    /// Seconds from the release to the end of the measured time.
    #[serde(deserialize_with = "number")]
    pub seconds: f64,
    /// Mean think time per transaction, milliseconds (0: none).
    #[serde(deserialize_with = "number")]
    pub think_time_ms: f64,
    /// Transactions per client in the measured time.
    pub per_client: Vec<u64>,
    /// Seconds in which at least one client was not connected.
    #[serde(deserialize_with = "number")]
    pub outage_seconds: f64,
    /// Longest time from losing a connection to having it back; `None`: nothing was lost or nothing came back.
    pub recovery_seconds: Option<f64>,
    /// By statement class.
    pub statements: Vec<StatementRecord>,
    /// capbench's own use.
    pub client: ClientUsage,
    /// Settings or facts that differed from the declared ones before or after the cell.
    pub differences: Vec<String>,
    /// What was seen beside the load.
    #[serde(default)]
    pub evidence: CellEvidence,
    /// The intervals; stored in intervals.csv and latency/, not in run.json.
    #[serde(skip)]
    pub intervals: Vec<Interval>,
    /// Server counters, raw values, once an interval and at both ends; stored in server.csv.
    #[serde(skip)]
    pub server: Vec<Sample>,
    /// Host figures once an interval; stored in host.csv.
    #[serde(skip)]
    pub host: Vec<Sample>,
    /// What a run folder keeps beside the intervals; stored in latency/.
    #[serde(skip)]
    pub merged: Merged,
}

impl CellRecord {
    /// The intervals that figures may rest on.
    pub fn measured(&self) -> impl Iterator<Item = &Interval> {
        let counts = |i: &&Interval| i.phase == Phase::Measure && i.seconds() > 0.0;
        self.intervals.iter().filter(counts)
    }
}

/// The latencies of all [measured](CellRecord::measured) intervals of a cell in one: unpacking it is a
/// hundred times cheaper than unpacking each. Only a help: where it is missing, the intervals say all.
#[derive(Debug, Clone, Default)]
pub struct Merged {
    /// See [`Interval::latency`].
    pub latency: Option<Latency>,
    /// See [`Interval::service`].
    pub service: Option<Latency>,
}

/// One reading of a probe.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample {
    /// Seconds after the clients were released (negative: before).
    pub at: f64,
    /// Name → value. A counter the server does not have is not in it.
    pub values: Values,
}

/// An error's words as a record keeps them: on one line, without the `hint:` lines, which are for the person
/// at the screen.
pub fn reason(words: &str) -> String {
    let lines = words.lines().map(str::trim);
    let kept: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with("hint:"))
        .collect();
    kept.join(" ")
}

/// Which family a server belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    /// MySQL and Percona Server.
    MySql,
    /// MariaDB.
    MariaDb,
}

impl std::fmt::Display for Flavour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::MySql => "MySQL",
            Self::MariaDb => "MariaDB",
        })
    }
}

/// Who the server is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerIdentity {
    /// MySQL or MariaDB.
    pub flavour: Flavour,
    /// `SELECT VERSION()`.
    pub version: String,
    /// `@@version_comment`.
    pub comment: String,
    /// `@@server_uuid` (MySQL) or `@@server_uid` (MariaDB ≥ 10.11), if any.
    pub uuid: Option<String>,
    /// Address or socket as shown to people; `private server` for a managed one.
    pub address: String,
    /// Whether it runs on this host, as far as can be told.
    pub local: bool,
    /// Negotiated TLS version and cipher of the load, or `none`.
    pub tls: String,
    /// Round trip of an empty query, median of 21.
    pub round_trip: Millis,
    /// All global variables at the start of the run.
    pub variables: BTreeMap<String, String>,
}

/// The machine that makes the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Host name.
    pub name: String,
    /// Kernel and distribution.
    pub system: String,
    /// Processor model.
    pub cpu: String,
    /// Cores that capbench may use.
    pub cores: u32,
    /// Memory.
    pub memory: Bytes,
    /// Mean stolen CPU share since boot, if known.
    pub stolen: Option<Ratio>,
}

/// What data there was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DatasetFacts {
    /// Tables.
    pub tables: u32,
    /// Rows per table as loaded.
    pub rows: u64,
    /// Data and index length of all tables, measured after loading.
    pub bytes: Bytes,
    /// The buffer pool it was compared with (the largest of the variants).
    pub buffer_pool: Bytes,
    /// Seconds that loading took; `None`: found as it was.
    pub load_seconds: Option<f64>,
    /// Rows of all tables together that were compared with those that were loaded, and are equal; 0: none was read,
    /// since the data starts cold; `None`: the data was loaded just now, was written to, or is not capbench's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<u64>,
    /// `loaded`, `reused`, `existing`, `kept from an earlier run`.
    pub origin: String,
}

impl DatasetFacts {
    /// Data against buffer pool; `None` when the pool is unknown.
    pub fn ratio(&self) -> Option<f64> {
        (self.buffer_pool.0 > 0).then(|| self.bytes.0 as f64 / self.buffer_pool.0 as f64)
    }
}

/// A variable that a variant asked for and what the server made of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppliedSetting {
    /// Variable.
    pub name: String,
    /// Value before.
    pub before: Option<String>,
    /// Value asked for.
    pub asked: String,
    /// Value read back.
    pub took: Option<String>,
}

/// A variant as it was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantRecord {
    /// Name.
    pub name: String,
    /// What it changed.
    pub settings: Vec<AppliedSetting>,
    /// Whether the server was restarted for it.
    pub restarted: bool,
    /// Variables that differ from the baseline's as measured, name → (baseline, this); the declared ones included.
    pub differs: BTreeMap<String, (String, String)>,
    /// Several variables moved at once, with the author's consent.
    pub several: bool,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "how", content = "why")]
pub enum RunEnd {
    /// Not yet: the record of a run that was cut off.
    Running,
    /// All cells were tried.
    Completed,
    /// The guard or `on_failure = "stop"` ended it.
    Stopped(String),
    /// The user ended it.
    Interrupted,
    /// An error outside a cell ended it.
    Failed(String),
}

/// A statement mix of a workload as it was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadRecord {
    /// Name.
    pub name: String,
    /// One sentence.
    pub description: String,
    /// `10 × point_select: SELECT c FROM sbtest{table} WHERE id=?` … one line a statement, transaction by transaction.
    pub mix: Vec<String>,
}

/// What followed the ladder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AfterLadder {
    /// Refining the knee; `None`: not asked for.
    pub refine: Option<RefineRecord>,
    /// The soak; `None`: not asked for.
    pub soak: Option<SoakRecord>,
}

/// How refining the ladder went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RefineRecord {
    /// Time it might take.
    pub budget: Span,
    /// Why no further step was run.
    pub ended: String,
}

/// What soak was asked for, and why where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SoakRecord {
    /// Threads or share of the knee, as planned.
    pub asked: String,
    /// How long.
    pub duration: Span,
    /// Why it ran where it ran.
    pub place: Option<String>,
    /// Why it did not run; `None`: it did.
    pub not_run: Option<String>,
}

/// A run that had ended before it was through, and was taken up again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resumption {
    /// When, UTC, RFC 3339.
    pub at: String,
    /// The last cell that had ended before; 0: none.
    pub after_cell: u32,
    /// How the run had ended before; `None`: recorded by an older version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<RunEnd>,
    /// When it had, UTC, RFC 3339; `None`: it was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
}

/// The manifest and the cells of one run: everything a run folder holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// Version of this format.
    pub format: u32,
    /// capbench's version.
    pub tool: String,
    /// The plan's name.
    pub name: String,
    /// SHA-256 of plan.toml, hexadecimal.
    pub plan_sha256: String,
    /// The command line.
    pub command: String,
    /// Seed.
    pub seed: u64,
    /// Start, UTC, RFC 3339.
    pub started_at: String,
    /// End, UTC, RFC 3339.
    pub ended_at: Option<String>,
    /// How it ended.
    pub end: RunEnd,
    /// The author's words.
    pub environment: Vec<(String, String)>,
    /// The server; `None`: it was never reached.
    pub server: Option<ServerIdentity>,
    /// The load machine.
    pub host: HostFacts,
    /// The data; `None`: never made.
    pub dataset: Option<DatasetFacts>,
    /// Settings for the whole run.
    pub settings: Vec<AppliedSetting>,
    /// The variants in order.
    pub variants: Vec<VariantRecord>,
    /// The workloads in order.
    pub workloads: Vec<WorkloadRecord>,
    /// `prepared` or `text`.
    pub protocol: String,
    /// Distribution of row ids, for people.
    pub access: String,
    /// Open loop, if any.
    pub open: Option<OpenLoop>,
    /// Per-cell discard.
    pub discard: Span,
    /// Measured time of a cell.
    pub measure: Span,
    /// Interval.
    pub interval: Span,
    /// Passes.
    pub repeats: u32,
    /// Warm-up before each variant, for people.
    pub warmup: String,
    /// Data reset, for people.
    pub reset: String,
    /// Knee policy.
    pub knee_gain: Ratio,
    /// When a change is worth keeping.
    #[serde(default)]
    pub house: HouseRule,
    /// What followed the ladder.
    #[serde(default)]
    pub after: AfterLadder,
    /// Criteria of the plan.
    pub criteria: Criteria,
    /// Warnings about plan, server and machine.
    pub warnings: Vec<Warning>,
    /// When the run was taken up again after it had been cut off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<Resumption>,
    /// In what state variants and cells began; missing in run folders of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<StartRecord>,
    /// The cells in the order of the run.
    pub cells: Vec<CellRecord>,
    /// Signals that could not be read, with the reason (`INNODB_METRICS: access denied`).
    pub unavailable: Vec<String>,
    /// What was seen beside the cells.
    #[serde(default)]
    pub evidence: RunEvidence,
}

/// A number that JSON could not hold (not a number, infinite) stands there as null; it comes back as not a
/// number, which reports show as missing, and does not make the whole run unreadable.
fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

fn share<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Ratio, D::Error> {
    number(deserializer).map(Ratio)
}
