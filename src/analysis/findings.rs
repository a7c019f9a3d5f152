//! What the analysis concludes: the types that the report reads.

use serde::Serialize;

pub use super::answer::*;
pub use super::cause::*;
pub use super::effect::*;
use super::evidence::EvidenceFindings;
pub use super::ladder_finding::*;
pub use super::refinement::Refinement;
pub use super::soak_finding::*;

use crate::plan::Step;
use crate::record::{CellKind, CellStatus, ErrorCount};
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
    /// The baseline's reference measurements through the run; empty without variants.
    pub references: Vec<ReferenceFinding>,
    /// What refining the ladder did; `None`: the plan did not ask for it.
    pub refinement: Option<Refinement>,
    /// The soak; `None`: the plan asked for none.
    pub soak: Option<SoakFinding>,
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
    /// What it was measured for.
    pub kind: CellKind,
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
