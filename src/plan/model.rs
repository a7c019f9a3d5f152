//! What a plan means once every key has been read and checked. No I/O types, no secrets.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Risk;
use crate::units::{Bytes, Millis, PerSecond, Ratio, Span};
use crate::workload::{Access, Program};

/// A validated plan.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What the test is called; the run folder is named after it.
    pub name: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// Names of warnings that the author accepts.
    pub accept: Vec<String>,
    /// What happens after a cell has failed.
    pub on_failure: OnFailure,
    /// The author's words on the environment, in the order of the file.
    pub environment: Vec<(String, String)>,
    /// The server under test.
    pub target: Target,
    /// Replicas whose lag is watched.
    pub replicas: Vec<Replica>,
    /// The data.
    pub dataset: Dataset,
    /// What runs before each variant's ladder.
    pub warmup: Warmup,
    /// What is measured.
    pub ladder: Ladder,
    /// How row ids are drawn.
    pub access: Access,
    /// How the load is sent.
    pub load: LoadOptions,
    /// The variants, at least one; the first is the baseline.
    pub variants: Vec<Variant>,
    /// Limits that end the ladder.
    pub guard: Guard,
    /// The load that must hold after the ladder; `None`: none.
    pub soak: Option<Soak>,
    /// What the release needs.
    pub criteria: Criteria,
    /// Policy of the analysis.
    pub analysis: AnalysisOptions,
    /// How the report is written.
    pub report: ReportOptions,
    /// Findings about the plan itself that do not stop it (short steps, few tables …).
    pub warnings: Vec<Warning>,
}

/// A departure from the method, named so that it can be accepted in the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Stable name, for example `short-steps`.
    pub name: String,
    /// What is wrong and what follows from it, one or two sentences.
    pub text: String,
    /// Accepted by name in the plan.
    pub accepted: bool,
}

/// What happens after a failed cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// Go on with the next workload or variant (higher steps of the same ladder are skipped).
    NextLadder,
    /// End the run.
    Stop,
    /// Go on with the next cell.
    Continue,
}

/// The server under test.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where it is.
    pub place: Place,
    /// Database that holds the tables.
    pub database: String,
    /// Global variables set for the whole run, put back at its end.
    pub set: Vec<Setting>,
    /// Time limit of a control connection's connect, and of each control statement that is not a load.
    pub connect_timeout: Span,
    /// Pause before a server that restarts counts as lost.
    pub start_timeout: Span,
    /// How the server's own host is read; `None`: by /proc when it is this machine, else not.
    pub probe: Option<HostProbe>,
}

/// How another host is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostProbe {
    /// A `node_exporter` by plain HTTP.
    Exporter {
        /// Host name or address.
        host: String,
        /// Port.
        port: u16,
        /// Path, from the slash on.
        path: String,
    },
    /// A shell command that prints /proc files.
    Command(String),
}

impl std::fmt::Display for HostProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exporter { host, port, path } => write!(f, "http://{host}:{port}{path}"),
            Self::Command(command) => write!(f, "`{command}`"),
        }
    }
}

/// A replica of the server under test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// Name, unique.
    pub name: String,
    /// Where it is.
    pub address: Address,
    /// Its account; `None`: that of the control connections.
    pub account: Option<Account>,
}

/// Where the server is.
#[derive(Debug, Clone)]
pub enum Place {
    /// A server that someone else runs.
    Server(ServerPlace),
    /// A private server that capbench starts, and removes at the end.
    Managed(Managed),
}

/// A server that is not ours.
#[derive(Debug, Clone)]
pub struct ServerPlace {
    /// TCP address or Unix socket.
    pub address: Address,
    /// The load's account; no administrative rights.
    pub account: Account,
    /// Control connections; `None`: the load's account is used for both.
    pub admin: Option<Account>,
    /// Transport security.
    pub tls: Tls,
    /// Commands that change the server from outside.
    pub hooks: Hooks,
}

/// TCP address or Unix socket. In option files either may be missing; defaults apply there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// Host name or address, and port.
    Tcp {
        /// Host name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// Path of a Unix socket.
    Socket(PathBuf),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// An account by name; its password is read when it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// User name; `None`: from the option file.
    pub user: Option<String>,
    /// Where its password is.
    pub password: PasswordSource,
}

/// Where a password is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordSource {
    /// No password.
    Empty,
    /// An environment variable.
    Env(String),
    /// The first line of a file.
    File(PathBuf),
    /// `[client]` of a MySQL option file; `None`: `~/.my.cnf`.
    OptionFile(Option<PathBuf>),
}

/// Transport security of all connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Mode, in MySQL's words.
    pub mode: TlsMode,
    /// Certificate authority (PEM); needed by the verify modes unless the system's roots serve.
    pub ca: Option<PathBuf>,
}

/// MySQL's `--ssl-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsMode {
    /// Never encrypted.
    Disabled,
    /// Encrypted if the server can.
    Preferred,
    /// Encrypted or refused; the certificate is not checked.
    Required,
    /// The certificate must be signed by a known authority.
    VerifyCa,
    /// And must name the host.
    VerifyIdentity,
}

/// Shell commands that change a server that is not ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Applies a variant's start-up options. Receives `CAPBENCH_VARIANT` and `CAPBENCH_OPTIONS`
    /// (space separated `--name=value`).
    pub apply: Option<String>,
    /// Restarts the server.
    pub restart: Option<String>,
}

/// A private server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Managed {
    /// Server program; `None`: the first of mariadbd, mysqld found.
    pub binary: Option<PathBuf>,
    /// Folder under which the temporary folder is made; `None`: the system's.
    pub directory: Option<PathBuf>,
    /// Start-up options, `name` → value (empty: a bare `--name`).
    pub options: Vec<Setting>,
    /// Keep the loaded data for later runs.
    pub cache: bool,
}

/// A variable or option and its value as the plan states it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Variable name in lower case, `-` replaced by `_`.
    pub name: String,
    /// Its value.
    pub value: SettingValue,
}

/// The value of a variable. Sizes stand as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// A number, or a size in bytes.
    Integer(i64),
    /// ON or OFF.
    Bool(bool),
    /// Anything else.
    Text(String),
    /// An option without a value (`skip-log-bin`).
    Bare,
}

/// The data.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the plan")]
pub struct Dataset {
    /// Number of tables.
    pub tables: u32,
    /// How many rows each has.
    pub size: DataSize,
    /// Threads that load.
    pub load_threads: u32,
    /// Most rows per second that are loaded, all tables together.
    pub load_rate: Option<u64>,
    /// Whether the load goes through the binary log; `None`: the plan does not say.
    pub binlog: Option<Binlog>,
    /// When the data is put back to its first state.
    pub reset: Reset,
    /// Accept tables that something else made (sysbench), after checking them.
    pub existing: bool,
    /// Workloads may write to tables that something else made.
    pub change_existing: bool,
    /// Leave the tables in place at the end, for the next run.
    pub keep: bool,
    /// `AUTO_INCREMENT` on `id`.
    pub auto_inc: bool,
    /// Secondary index on `k`.
    pub secondary_index: bool,
    /// `KEY xid(id)` instead of a primary key.
    pub secondary: bool,
    /// Appended to CREATE TABLE.
    pub table_options: String,
    /// Storage engine.
    pub engine: String,
}

/// How much data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DataSize {
    /// Rows per table.
    Rows(u64),
    /// A multiple of the largest buffer pool among the variants.
    BufferPools(f64),
    /// Data and index length in total.
    Bytes(Bytes),
}

/// What replicas get of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binlog {
    /// All of it.
    Logged,
    /// Nothing: `sql_log_bin = 0`.
    Unlogged,
}

/// When data is put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reset {
    /// Never.
    Never,
    /// Before each variant but the first use.
    PerVariant,
    /// Before each cell.
    PerCell,
}

/// What runs before a variant's ladder.
#[derive(Debug, Clone)]
pub struct Warmup {
    /// The workload; `None`: no warm-up.
    pub workload: Option<Program>,
    /// How long; with `until_level` at least so long.
    pub duration: Span,
    /// Go on until reads from files are level.
    pub until_level: bool,
    /// With `until_level`: how long at most.
    pub limit: Span,
    /// Time limit of each thing that is waited for before.
    pub settle: Span,
    /// Concurrent clients.
    pub threads: u32,
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct Ladder {
    /// The workloads, readers before writers.
    pub workloads: Vec<Program>,
    /// The steps.
    pub steps: Vec<Step>,
    /// Open loop: the clients that share a rate, and how arrivals come.
    pub open: Option<OpenLoop>,
    /// Discarded at the start of each cell, after all clients are connected.
    pub discard: Span,
    /// Measured time of a cell.
    pub measure: Span,
    /// Longest measured time of a step that is not steady at the end of `measure`; `None`: it stays as it is.
    pub until_steady: Option<Span>,
    /// A cell also ends after this many transactions.
    pub events: Option<u64>,
    /// Length of an interval.
    pub interval: Span,
    /// Passes over all variants.
    pub repeats: u32,
    /// With variants: the baseline is measured once more at the end of a run that does not end with it.
    pub reference: bool,
    /// Run the steps that decide the knee again and between, once the ladder is climbed.
    pub refine: bool,
    /// Time that refining may take.
    pub refine_budget: Span,
}

/// The load that must hold once the ladder is climbed.
#[derive(Debug, Clone, PartialEq)]
pub struct Soak {
    /// How much load.
    pub level: SoakLevel,
    /// Position of its workload in the ladder's; `None`: the one that decides the limit.
    pub workload: Option<usize>,
    /// How long, after the discard.
    pub duration: Span,
}

/// How much load a soak is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SoakLevel {
    /// Concurrent clients.
    Threads(u32),
    /// A share of the knee (open loop: of the highest rate that was held).
    OfKnee(Ratio),
}

impl std::fmt::Display for SoakLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Threads(n) => write!(f, "{}", Step::Threads(*n)),
            Self::OfKnee(share) => write!(f, "{share} of the knee"),
        }
    }
}

/// One step of a ladder.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Closed loop: this many concurrent clients.
    Threads(u32),
    /// Open loop: transactions per second that arrive.
    Rate(PerSecond),
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Threads(1) => f.write_str("1 thread"),
            Self::Threads(n) => write!(f, "{n} threads"),
            Self::Rate(r) => write!(f, "rate {r}"),
        }
    }
}

/// How an open loop arrives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// Clients that share the rate.
    pub clients: u32,
    /// Spacing of arrivals.
    pub arrivals: Arrivals,
    /// Arrivals that may wait for a client; further ones are dropped and counted.
    pub backlog: u32,
}

/// Spacing of arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Even,
}

/// How the load is sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoadOptions {
    /// Text or prepared statements.
    pub protocol: Protocol,
    /// Attempts after the first for a transaction that lost a deadlock or lock wait.
    pub retries: u32,
    /// Worker threads; 0: one per core.
    pub workers: u32,
    /// Prepared statements one connection may hold; 0: as many as the workload has.
    pub max_prepared_per_connection: u32,
    /// Time limit for connecting all clients.
    pub connect_timeout: Span,
    /// After the cell's end: how long transactions in flight may take before their queries are killed.
    pub drain_timeout: Span,
    /// Longest pause between two attempts to connect again.
    pub reconnect_backoff: Span,
}

/// Protocol of statements with parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// `COM_STMT_EXECUTE`.
    Prepared,
    /// `COM_QUERY` with the values in the SQL.
    Text,
}

/// One variant of the server's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// Name, unique.
    pub name: String,
    /// Variables that it sets.
    pub set: Vec<Setting>,
    /// Start-up options that it needs.
    pub options: Vec<Setting>,
    /// Whether the server is restarted after it is applied.
    pub restart: bool,
    /// A person applies it; capbench pauses and verifies.
    pub operator: bool,
    /// The author states that moving several variables at once is meant.
    pub several: bool,
}

/// Limits that end a ladder.
#[derive(Debug, Clone, PartialEq)]
pub struct Guard {
    /// Highest p95 of an interval window.
    pub max_p95: Option<Millis>,
    /// Highest share of failed transactions.
    pub max_errors: Option<Ratio>,
    /// Highest CPU use of the server's host.
    pub max_server_cpu: Option<Ratio>,
    /// Local time of day in which load may run: minutes after midnight, from and to.
    pub window: Option<(u16, u16)>,
    /// Highest `Threads_running`.
    pub max_threads_running: Option<u64>,
    /// Most slow queries per second.
    pub max_slow_queries: Option<PerSecond>,
    /// Longest lag of the server behind its source.
    pub max_replica_lag: Option<Span>,
    /// Highest utilisation of the disk that holds the server's data.
    pub max_disk_utilisation: Option<Ratio>,
    /// Smallest free share of the file system that holds the server's data.
    pub min_disk_free: Option<Ratio>,
    /// Dangers that the author has taken on.
    pub acknowledge: Vec<Risk>,
}

/// What the release needs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Criteria {
    /// Transactions per second at the expected peak.
    pub expected_peak_tps: Option<f64>,
    /// Room above the expected peak that the recommended limit must leave.
    pub min_headroom: Option<Ratio>,
    /// Highest p95 at the recommended limit.
    pub max_p95: Option<Millis>,
    /// Highest p99 at the recommended limit.
    pub max_p99: Option<Millis>,
    /// Smallest recommended limit that is good enough.
    pub min_threads: Option<u32>,
    /// Highest share of failed transactions up to the recommended limit.
    pub max_errors: Option<Ratio>,
    /// The step at which the percentiles are judged; `None`: the recommended limit.
    #[serde(default)]
    pub at: Option<Step>,
    /// The soak must hold.
    #[serde(default)]
    pub soak_held: bool,
}

/// Policy of the analysis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AnalysisOptions {
    /// Gain in throughput per doubling of threads below which more threads do not pay (0.20).
    pub knee_gain: Ratio,
    /// When a change is worth keeping.
    pub house: HouseRule,
}

/// When a change counts, and when it is kept: the rule of the house.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HouseRule {
    /// Gain in throughput from which on a change is kept (0.03).
    pub keep_gain: Ratio,
    /// Smallest change of throughput that matters; within it two variants are equivalent (0.02).
    pub smallest_tps: Ratio,
    /// The same for the 95th percentile (0.05).
    pub smallest_p95: Ratio,
}

impl Default for HouseRule {
    fn default() -> Self {
        Self {
            keep_gain: Ratio(0.03),
            smallest_tps: Ratio(0.02),
            smallest_p95: Ratio(0.05),
        }
    }
}

/// How the report is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportOptions {
    /// A template of the user's own for report.md.
    pub template: Option<PathBuf>,
}
