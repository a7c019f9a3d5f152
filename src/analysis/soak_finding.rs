//! What a soak says: the types that the report reads.

use serde::Serialize;

use crate::plan::Step;
use crate::units::{Millis, PerSecond, Ratio, Span};

/// How a soak came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SoakOutcome {
    /// No decline, and one of 10 % would have been seen.
    Held,
    /// Throughput declined, or p95 rose.
    Declined,
    /// It did not run to its end: the server failed, or the guard had to end it.
    Broken,
    /// Measured, but it does not tell.
    NotJudged,
    /// Not run.
    NotRun,
}

impl SoakOutcome {
    /// The words for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Declined => "DECLINED",
            Self::Broken => "DID NOT HOLD",
            Self::NotJudged => "not judged",
            Self::NotRun => "not run",
        }
    }

    /// Whether it speaks against the load that was held.
    pub fn is_against(self) -> bool {
        matches!(self, Self::Declined | Self::Broken)
    }
}

/// A trend over a soak.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Trend {
    /// Theil–Sen: change over the whole soak against its start.
    pub change: Ratio,
    /// Two-sided p-value of Mann–Kendall's test, corrected for autocorrelation.
    pub p_value: f64,
}

/// A lasting change of level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LevelShift {
    /// Seconds after the start of the soak's measured time.
    pub at: f64,
    /// Against the level before.
    pub change: Ratio,
}

/// The soak of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SoakFinding {
    /// Workload; `None`: not run.
    pub workload: Option<String>,
    /// Threads or rate that was held; `None`: not run.
    pub step: Option<Step>,
    /// Position of its cell.
    pub cell: Option<u32>,
    /// Threads or share of the knee, as planned.
    pub asked: String,
    /// Length as planned.
    pub planned: Span,
    /// Why there.
    pub place: Option<String>,
    /// Seconds measured.
    pub seconds: f64,
    /// Transactions per second over all of it.
    pub tps: Option<PerSecond>,
    /// 95th percentile over all of it.
    pub p95: Option<Millis>,
    /// Trend of throughput; `None`: too few intervals.
    pub tps_trend: Option<Trend>,
    /// Trend of the intervals' 95th percentile.
    pub p95_trend: Option<Trend>,
    /// Last third against the first, with its 95 % interval.
    pub thirds: Option<(Ratio, Ratio, Ratio)>,
    /// Whether it was long enough (30 minutes) to show a decline in steps.
    pub could_show_steps: bool,
    /// Lasting shifts of throughput; only looked for where they could show.
    pub shifts: Vec<LevelShift>,
    /// A decline in steps.
    pub staircase: bool,
    /// How it came out.
    pub outcome: SoakOutcome,
    /// One or two sentences.
    pub sentence: String,
}
