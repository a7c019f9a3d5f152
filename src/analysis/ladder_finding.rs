//! What a ladder answers: its steps, its knee and the limit that it supports.

use serde::Serialize;

use super::cause::Bottleneck;
use super::findings::Validity;
use super::knee::Knee;
use crate::plan::Step;
use crate::units::{Millis, PerSecond, Ratio};

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
    /// The highest step below a soak that did not hold.
    Soak,
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
