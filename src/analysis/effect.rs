//! What a comparison says: effect, verdict and decision.

use serde::Serialize;

use crate::plan::Step;
use crate::units::Ratio;

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
    /// p-value of the two one-sided tests (TOST) for "the change lies within the smallest one that matters";
    /// `None` below 3 runs a side.
    pub equivalence_p: Option<f64>,
    /// The verdict.
    pub verdict: EffectVerdict,
    /// Runs a side that would settle an inconclusive one.
    pub runs_needed: Option<u32>,
    /// Coefficient of variation of throughput that left no verdict on fewer than 3 runs a side; `None`: it did not.
    pub uneven: Option<Ratio>,
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
    /// What besides one stated variable differs: several variables, one that the variant does not state, a cold
    /// cache. Empty: nothing.
    pub confounded: Vec<String>,
    /// Changes that weaken durability.
    pub durability: Vec<String>,
    /// What the baseline's throughput moved by through the run; no claim smaller than it is made.
    pub drift: Option<Ratio>,
    /// The same of its 95th percentile.
    pub drift_p95: Option<Ratio>,
}

/// The baseline at one step through the run: its passes and, where the plan has one, the closing reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReferenceFinding {
    /// Workload name.
    pub workload: String,
    /// The step.
    pub step: Step,
    /// Throughput of each valid measurement in the order of the run, transactions/s.
    pub tps: Vec<f64>,
    /// What throughput moved by; `None`: nothing beyond noise, or fewer than two measurements.
    pub drift: Option<Ratio>,
    /// The same of the 95th percentile.
    pub drift_p95: Option<Ratio>,
    /// One sentence.
    pub sentence: String,
}
