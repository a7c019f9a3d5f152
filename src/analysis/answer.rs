//! The answer of a run: its criteria one by one, one word, one exit code.

use serde::Serialize;

use super::knee::Confidence;
use crate::units::Ratio;

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
    /// Met or missed as measured, but on steps that are suspect by unaccounted time, stalls or other processes.
    Inconclusive,
}

impl Outcome {
    /// The words for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::NotTested => "not tested",
            Self::Inconclusive => "inconclusive",
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
    /// Where `found` was found: step and, among several, workload.
    pub place: Option<String>,
    /// What a reader of the outcome must know besides; `why` says it too.
    pub remark: Option<String>,
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
    /// The ladder does not answer the question, or what met or missed the criteria is suspect.
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
