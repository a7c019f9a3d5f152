//! What the analysis concludes: the types that the report reads.

use serde::Serialize;

use super::evidence::EvidenceFindings;
use super::knee::{Confidence, Knee};
use crate::plan::Step;
use crate::record::{CellStatus, ErrorCount};
use crate::units::{Millis, PerSecond, Ratio};

/// Everything that the measurements of a run say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Findings {
    /// One per cell, in the order of the run.
    pub cells: Vec<CellSummary>,
    /// One per variant and workload, baseline first.
    pub ladders: Vec<LadderFinding>,
    /// Variants against the baseline.
    pub comparisons: Vec<Comparison>,
    /// What the release needs, one by one.
    pub criteria: Vec<CriterionResult>,
    /// The answer.
    pub headline: Headline,
    /// What was seen beside the load.
    pub evidence: EvidenceFindings,
    /// What a reader should know besides.
    pub notes: Vec<String>,
}

/// How far a cell can be trusted. Ordered: the worse is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// No objection.
    Valid,
    /// Shown and used, but lowers confidence.
    Suspect,
    /// Shown, but enters no fit, mean or recommendation.
    Invalid,
}

impl Validity {
    /// The word for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Suspect => "suspect",
            Self::Invalid => "invalid",
        }
    }
}

/// The rules of validity; docs/method.md says what each means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Rule {
    /// Ran to its end, with intervals to judge.
    V1,
    /// All clients connected.
    V2,
    /// Few failed transactions.
    V3,
    /// Little's law holds.
    V4,
    /// No stalls.
    V5,
    /// Steady.
    V6,
    /// Load machine not saturated, settings as declared.
    V7,
    /// Client statements agree with the server's count.
    Counts,
}

impl Rule {
    /// The name for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "V1",
            Self::V2 => "V2",
            Self::V3 => "V3",
            Self::V4 => "V4",
            Self::V5 => "V5",
            Self::V6 => "V6",
            Self::V7 => "V7",
            Self::Counts => "counts",
        }
    }
}

/// An objection against a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Which rule.
    pub rule: Rule,
    /// What it makes of the cell.
    pub severity: Validity,
    /// What was found, with figures.
    pub text: String,
}

/// The part of a cell that all its figures come from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Window {
    /// Seconds after the release of the clients.
    pub start: f64,
    /// Seconds after the release of the clients.
    pub end: f64,
    /// Intervals inside.
    pub intervals: usize,
    /// Measured intervals dropped before it by the steady-state cut.
    pub dropped: usize,
}

impl Window {
    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.end - self.start
    }
}

/// What the steady-state test found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Steadiness {
    /// Whether the cell counts as steady.
    pub steady: bool,
    /// Whether MSER found no cut within the first half.
    pub limit_reached: bool,
    /// Throughput of the second half of the window against the first, minus 1; `None`: too few intervals.
    pub halves: Option<Ratio>,
}

/// Percentiles of one kind of latency over the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Latencies {
    /// Mean, exact.
    pub avg: Option<Millis>,
    /// Median.
    pub p50: Option<Millis>,
    /// 95th percentile.
    pub p95: Option<Millis>,
    /// 99th percentile.
    pub p99: Option<Millis>,
    /// 99.9th percentile.
    pub p999: Option<Millis>,
    /// Smallest, exact.
    pub min: Option<Millis>,
    /// Largest, exact.
    pub max: Option<Millis>,
}

/// How evenly the clients were served over the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fairness {
    /// Transactions per client, mean.
    pub mean: f64,
    /// Standard deviation over the clients.
    pub stddev: f64,
    /// `stddev / mean`.
    pub spread: Ratio,
}

/// The figures of one cell, all from one window. Missing figures are `None`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellSummary {
    /// Position in the run, from 1.
    pub index: u32,
    /// Pass, from 1.
    pub repeat: u32,
    /// Variant name.
    pub variant: String,
    /// Workload name.
    pub workload: String,
    /// Ladder step.
    pub step: Step,
    /// Concurrent clients.
    pub clients: u32,
    /// How it ended.
    pub status: CellStatus,
    /// The verdict on the cell.
    pub validity: Validity,
    /// Why it is not simply valid.
    pub reasons: Vec<Reason>,
    /// Where the figures come from.
    pub window: Option<Window>,
    /// Steady-state test.
    pub steadiness: Option<Steadiness>,
    /// Transactions that ended well, per second.
    pub tps: Option<PerSecond>,
    /// Relative standard error of `tps` from its intervals (batch means, autocorrelation-aware).
    pub tps_se: Option<Ratio>,
    /// Coefficient of variation of the intervals' throughput.
    pub cv: Option<Ratio>,
    /// Statements per second.
    pub qps: Option<PerSecond>,
    /// Statements with a result set per second.
    pub reads: Option<PerSecond>,
    /// Statements with affected rows per second.
    pub writes: Option<PerSecond>,
    /// Other statements per second.
    pub others: Option<PerSecond>,
    /// Latency: service under N clients (closed loop), response from the due instant (open loop).
    pub latency: Latencies,
    /// Open loop: service time, from when a client took the transaction up.
    pub service: Option<Latencies>,
    /// Open loop: arrivals per second that became due.
    pub offered: Option<PerSecond>,
    /// Open loop: share of arrivals that the backlog had no room for.
    pub dropped_share: Option<Ratio>,
    /// Open loop: whether the offered rate was held (done at least 99 % of the arrivals, none dropped).
    pub held: Option<bool>,
    /// Transactions that ended well.
    pub done: u64,
    /// Transactions given up.
    pub failed: u64,
    /// Errors by code and statement, including those that a retry cured.
    pub errors: Vec<ErrorCount>,
    /// `failed / (done + failed)`; `None` without transactions.
    pub error_share: Option<Ratio>,
    /// Attempts of a transaction after its first.
    pub retries: u64,
    /// Connections made anew.
    pub reconnects: u64,
    /// Seconds in which a client was missing.
    pub outage_seconds: f64,
    /// Longest time until a lost connection was back.
    pub recovery_seconds: Option<f64>,
    /// Intervals in which nothing completed.
    pub stalls: usize,
    /// The longest run of such intervals, seconds; 0: none.
    pub longest_stall: f64,
    /// Spread among the clients.
    pub fairness: Option<Fairness>,
    /// Gain in throughput per doubling of threads against the previous valid step.
    pub gain: Option<Ratio>,
    /// Mean think time, milliseconds.
    pub think_time_ms: f64,
    /// Little's law: `X·(R+Z)/N`, 1 in a closed loop without unaccounted time; `None` in open loop.
    pub littles_law: Option<f64>,
    /// Busy share of the busiest worker.
    pub busiest_worker: Ratio,
    /// Share of the load machine's cores that capbench itself used.
    pub client_cpu: Option<Ratio>,
    /// Buffer-pool hit rate in the window.
    pub buffer_pool_hits: Option<Ratio>,
}

/// Where a recommended limit comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitBasis {
    /// The knee itself.
    Knee,
    /// The low end of the range, since confidence is low.
    RangeLow,
    /// The highest step that meets `criteria.max_p95`.
    Latency,
    /// Three quarters of the knee, since throughput falls off a cliff after it.
    Cliff,
}

/// The limit on concurrently active clients that a ladder supports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Limit {
    /// Recommended concurrent clients; `None`: there is none to recommend.
    pub threads: Option<u32>,
    /// Where it comes from; `None` without a limit.
    pub basis: Option<LimitBasis>,
    /// Why, one sentence.
    pub why: String,
    /// No step meets `criteria.max_p95`.
    pub p95_never_met: bool,
    /// The measured step whose figures stand for the limit (or the highest one tested, when the knee was
    /// not reached).
    pub step: Option<u32>,
    /// Throughput measured at the limit (or at the highest step tested, when the knee was not reached);
    /// `None` where the limit itself was not measured, below a cliff.
    pub throughput: Option<PerSecond>,
    /// Throughput to plan with: 0.75 of what was measured at the limit. Below a cliff 0.75 of the highest
    /// step within the limit, or 0.75·0.75 of the knee's when there is none. `None` without a limit.
    pub planning: Option<PerSecond>,
    /// `throughput / expected_peak_tps − 1`; below a cliff with the throughput of the highest step within the
    /// limit, `None` when there is none.
    pub headroom: Option<Ratio>,
    /// Steps that would narrow the answer.
    pub refine: Vec<u32>,
}

/// What an open-loop ladder shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenFinding {
    /// Highest rate that was held, all lower ones held too.
    pub highest_held: Option<PerSecond>,
    /// First rate that was not.
    pub first_not_held: Option<PerSecond>,
    /// One sentence.
    pub sentence: String,
}

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
    /// Latches and mutexes.
    Latches,
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
            Self::Latches => "latch or mutex contention",
            Self::Cpu => "CPU",
            Self::OtherProcesses => "other processes on this host",
            Self::StolenCpu => "stolen CPU",
            Self::DiskReads => "disk reads (buffer pool misses)",
            Self::Disk => "disk I/O",
            Self::Redo => "redo log and checkpoints",
            Self::LogFlush => "log flush (fsync, group commit)",
            Self::SemiSync => "semi-synchronous replication",
            Self::Replication => "replication lag",
            Self::Stall => "stall",
            Self::FlowControl => "cluster flow control",
            Self::TemporaryTables => "temporary tables on disk",
            Self::TableCache => "table cache",
            Self::Purge => "purge lag",
            Self::Unfair => "unevenly served clients",
            Self::NotSaturated => "latency-bound, not saturated",
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

/// One step of a ladder, its valid repeats combined.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepSummary {
    /// The step.
    pub step: Step,
    /// Concurrent clients.
    pub threads: u32,
    /// Positions of the cells that were combined.
    pub cells: Vec<u32>,
    /// Cells of this step that are invalid.
    pub invalid: u32,
    /// The worst verdict among the cells that were combined; invalid when there is none.
    pub validity: Validity,
    /// Geometric mean.
    pub tps: Option<PerSecond>,
    /// Mean.
    pub avg: Option<Millis>,
    /// Geometric mean of the runs' 95th percentiles.
    pub p95: Option<Millis>,
    /// Geometric mean of the runs' 99th percentiles.
    pub p99: Option<Millis>,
    /// Standard deviation of ln TPS between runs; `None` below 3 valid runs.
    pub run_sd: Option<Ratio>,
    /// Gain per doubling against the previous valid step.
    pub gain: Option<Ratio>,
}

/// The answer of one ladder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LadderFinding {
    /// Variant name.
    pub variant: String,
    /// Workload name.
    pub workload: String,
    /// Whether the variant is the baseline.
    pub baseline: bool,
    /// The steps, ascending.
    pub steps: Vec<StepSummary>,
    /// The knee; `None` in open loop.
    pub knee: Option<Knee>,
    /// Open loop.
    pub open: Option<OpenFinding>,
    /// The recommended limit.
    pub limit: Limit,
    /// Why it stops; `None` without a valid step.
    pub bottleneck: Option<Bottleneck>,
    /// Why it falls beyond the knee; `None` when nothing lies beyond that `bottleneck` does not tell.
    pub beyond: Option<Bottleneck>,
    /// Why the answer cannot be relied on: an invalid step decides it.
    pub unreliable: Option<String>,
    /// What a reader should know besides.
    pub notes: Vec<String>,
}

/// What a comparison of one figure says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectVerdict {
    /// Proved better (at least 3 runs a side).
    Better,
    /// Proved worse (at least 3 runs a side).
    Worse,
    /// Proved alike within the smallest effect of interest.
    Equivalent,
    /// Nothing proved.
    Inconclusive,
    /// Fewer than 3 runs a side: better by more than the threshold and beyond noise.
    BetterBeyondNoise,
    /// Fewer than 3 runs a side: worse by more than the threshold and beyond noise.
    WorseBeyondNoise,
}

/// One figure of a variant against the baseline's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Effect {
    /// Baseline, geometric mean over runs (TPS in 1/s, latency in ms).
    pub baseline: f64,
    /// Variant.
    pub variant: f64,
    /// `variant / baseline − 1`.
    pub change: Ratio,
    /// 95 % interval of the change; `None` below 3 runs a side.
    pub interval: Option<(Ratio, Ratio)>,
    /// Two-sided p-value of Welch's test on logarithms, adjusted by Holm among the deciding comparisons.
    pub p_value: Option<f64>,
    /// The verdict.
    pub verdict: EffectVerdict,
    /// Runs a side that would settle an inconclusive one.
    pub runs_needed: Option<u32>,
    /// Why, one sentence.
    pub why: String,
}

/// What to do with a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Keep the change.
    Keep,
    /// Faster, durability reduced: someone must sign for it.
    NeedsSignOff,
    /// Several variables moved: the cause cannot be told.
    Confounded,
    /// Roll back.
    RollBack,
    /// Not shown either way; not kept on this evidence.
    Undecided,
}

/// A variant against the baseline at one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Variant name.
    pub variant: String,
    /// Baseline name.
    pub baseline: String,
    /// Workload name.
    pub workload: String,
    /// The step.
    pub step: Step,
    /// Whether it is the step that decides (the baseline's knee); the others are exploratory.
    pub deciding: bool,
    /// Valid runs of baseline and variant.
    pub runs: (u32, u32),
    /// Throughput.
    pub tps: Effect,
    /// 95th percentile; `None` when missing.
    pub p95: Option<Effect>,
    /// What to do.
    pub decision: Decision,
    /// One sentence.
    pub sentence: String,
    /// Variables that differ, when more than one does.
    pub confounded: Vec<String>,
    /// Changes that weaken durability.
    pub durability: Vec<String>,
    /// Significant trend of the baseline over the passes; no claim smaller than it is made.
    pub drift: Option<Ratio>,
}

/// How a criterion came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Met.
    Pass,
    /// Not met.
    Fail,
    /// There is no evidence; never a pass.
    NotTested,
}

impl Outcome {
    /// The words for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::NotTested => "not tested",
        }
    }
}

/// One criterion of the plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CriterionResult {
    /// Its key in the plan.
    pub name: String,
    /// What is required.
    pub required: String,
    /// What was found; `n/a` when nothing was.
    pub found: String,
    /// How it came out.
    pub outcome: Outcome,
    /// Evidence or what is missing.
    pub why: String,
}

/// The run in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Overall {
    /// All criteria met.
    Passed,
    /// Measured; the plan states no criteria.
    NothingRequired,
    /// A criterion failed.
    Failed,
    /// A criterion could not be tested.
    NotTested,
    /// Nothing failed, but the ladder does not answer the question, or what met the criteria is suspect.
    Inconclusive,
    /// A deciding cell is invalid, or the guard stopped the run.
    CannotBeReliedOn,
    /// The user ended it.
    Interrupted,
    /// The run failed.
    RunFailed,
}

impl Overall {
    /// The words for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::NothingRequired => "measured, no criteria stated",
            Self::Failed => "FAILED",
            Self::NotTested => "NOT PASSED: a criterion could not be tested",
            Self::Inconclusive => "inconclusive",
            Self::CannotBeReliedOn => "cannot be relied on",
            Self::Interrupted => "interrupted",
            Self::RunFailed => "run failed",
        }
    }
}

/// The answer of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Headline {
    /// Recommended limit on concurrently active clients; `None`: none.
    pub limit: Option<u32>,
    /// The workload that decides it.
    pub workload: Option<String>,
    /// Knee of that workload's ladder.
    pub knee: Option<u32>,
    /// Kind of that knee in words.
    pub kind: Option<String>,
    /// Confidence in it.
    pub confidence: Option<Confidence>,
    /// Smallest headroom among the baseline's workloads; `None` when one of them has none to state.
    pub headroom: Option<Ratio>,
    /// The bottleneck in words.
    pub bottleneck: Option<String>,
    /// A few sentences; the last counts suspect and invalid cells and open warnings, when there are any.
    pub sentence: String,
    /// The run in one word.
    pub overall: Overall,
    /// Why `overall` is what it is, when it is not plain.
    pub why: Option<String>,
    /// Process exit code (0, 1, 3, 4, 130).
    pub exit_code: u8,
}
