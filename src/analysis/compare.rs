//! A variant against the baseline, step by step: is the change real.

use super::durability;
use super::effect::{Comparison, Decision, Effect, ReferenceFinding};
use super::effect_test::{Policy, Side, bounded_by_drift, effect, judge};
use super::ladder::{Measured, StepCells, height};
use super::{decision, drift};
use crate::plan::{HouseRule, Step};
use crate::record::{CellKind, VariantRecord};

/// What is compared, and how.
pub(crate) struct Pairing<'a> {
    pub(crate) baseline: (&'a VariantRecord, &'a [StepCells<'a>]),
    pub(crate) variant: (&'a VariantRecord, &'a [StepCells<'a>]),
    /// The baseline's closing references, by step.
    pub(crate) references: &'a [StepCells<'a>],
    pub(crate) workload: &'a str,
    /// The step that the baseline's ladder stops at.
    pub(crate) knee: Option<Step>,
    pub(crate) house: HouseRule,
    /// Whether caches were warmed before each variant.
    pub(crate) warmed: bool,
    /// Relative noise of throughput between two series of runs, 0 within one; p95 has twice that.
    pub(crate) between: f64,
}

impl Pairing<'_> {
    fn policies(&self) -> (Policy, Policy) {
        (
            Policy::tps(&self.house).between(self.between),
            Policy::p95(&self.house).between(2.0 * self.between),
        )
    }
}

/// The passes of a step: what was run again to refine the knee is no pass, since the variants were not
/// interleaved with it.
fn passes<'a>(step: &'a StepCells<'a>) -> impl Iterator<Item = Measured<'a>> {
    step.usable().filter(|m| m.summary.kind == CellKind::Ladder)
}

/// Compares one workload of a variant with the baseline's, at every step that both have.
pub(crate) fn compare(pairing: &Pairing<'_>) -> Vec<Comparison> {
    let (baseline, variant) = (pairing.baseline, pairing.variant);
    let confounded = durability::confounded(variant.0, baseline.0, pairing.warmed);
    let weakened = durability::weakened(variant.0);
    let policies = pairing.policies();
    let mut comparisons = Vec::new();
    for theirs in variant.1 {
        let Some(ours) = baseline.1.iter().find(|s| s.step == theirs.step) else {
            continue;
        };
        let (a, b) = (Side::of(passes(ours)), Side::of(passes(theirs)));
        let Some(tps) = effect(&a, &b, &a.ln_tps, &b.ln_tps, policies.0) else {
            continue;
        };
        let reference = reference(ours, pairing.references, pairing.workload);
        comparisons.push(Comparison {
            variant: variant.0.name.clone(),
            baseline: baseline.0.name.clone(),
            workload: pairing.workload.to_owned(),
            step: theirs.step,
            deciding: false,
            runs: (a.runs(), b.runs()),
            tps,
            p95: effect(&a, &b, &a.ln_p95, &b.ln_p95, policies.1),
            decision: Decision::Undecided,
            sentence: String::new(),
            confounded: confounded.clone(),
            durability: weakened.clone(),
            drift: reference.drift,
            drift_p95: reference.drift_p95,
        });
    }
    mark_deciding(&mut comparisons, pairing.knee);
    comparisons
}

/// The baseline at this step through the run.
pub(crate) fn reference(
    step: &StepCells<'_>,
    references: &[StepCells<'_>],
    workload: &str,
) -> ReferenceFinding {
    let none = StepCells {
        step: step.step,
        cells: Vec::new(),
    };
    let closing = references.iter().find(|s| s.step == step.step);
    drift::reference(step, closing.unwrap_or(&none), workload)
}

/// The step that decides: the knee where both have it, else the highest below it that both have (a refined
/// knee was run for the baseline alone), else the lowest.
fn mark_deciding(comparisons: &mut [Comparison], knee: Option<Step>) {
    let Some(knee) = knee.map(height) else { return };
    let below = comparisons
        .iter()
        .map(|c| height(c.step))
        .filter(|h| *h <= knee)
        .reduce(f64::max);
    let lowest = comparisons.iter().map(|c| height(c.step)).reduce(f64::min);
    if let Some(chosen) = below.or(lowest)
        && let Some(found) = comparisons
            .iter_mut()
            .find(|c| (height(c.step) - chosen).abs() < f64::EPSILON)
    {
        found.deciding = true;
    }
}

/// Adjusts the deciding p-values for their number (Holm), takes back what drift may have made, and decides
/// each comparison.
pub(crate) fn decide(comparisons: &mut [Comparison], house: &HouseRule, between: f64) {
    let tps = Policy::tps(house).between(between);
    let p95 = Policy::p95(house).between(2.0 * between);
    holm(comparisons, |c| Some(&mut c.tps), tps);
    holm(comparisons, |c| c.p95.as_mut(), p95);
    for comparison in comparisons {
        bounded_by_drift(&mut comparison.tps, comparison.drift, tps);
        if let Some(effect) = &mut comparison.p95 {
            bounded_by_drift(effect, comparison.drift_p95, p95);
        }
        decision::conclude(comparison, house);
    }
}

/// Holm's step-down over the deciding comparisons of one figure; exploratory ones keep their own.
fn holm(
    comparisons: &mut [Comparison],
    figure: impl Fn(&mut Comparison) -> Option<&mut Effect>,
    policy: Policy,
) {
    let mut order: Vec<(usize, f64)> = Vec::new();
    for (i, comparison) in comparisons.iter_mut().enumerate() {
        if comparison.deciding
            && let Some(p) = figure(comparison).and_then(|e| e.p_value)
        {
            order.push((i, p));
        }
    }
    if order.len() < 2 {
        return;
    }
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut floor: f64 = 0.0;
    for (rank, &(i, p)) in order.iter().enumerate() {
        floor = floor.max(p * (order.len() - rank) as f64).min(1.0);
        if let Some(effect) = figure(&mut comparisons[i]) {
            let runs = effect.runs_needed;
            effect.p_value = Some(floor);
            judge(effect, policy);
            effect.runs_needed = runs;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
mod tests {
    use super::super::decision::tests::{comparison, made};
    use super::super::effect::EffectVerdict;
    use super::*;
    use crate::units::Ratio;

    #[test]
    fn holm_makes_two_borderline_findings_stricter() {
        let mut effect = made(0.05, EffectVerdict::Better);
        effect.interval = Some((Ratio(0.001), Ratio(0.1)));
        effect.p_value = Some(0.03);
        let mut both = [comparison(effect.clone(), None), comparison(effect, None)];
        holm(
            &mut both,
            |c| Some(&mut c.tps),
            Policy::tps(&HouseRule::default()),
        );
        assert_eq!(both[0].tps.p_value, Some(0.06));
        assert_eq!(both[0].tps.verdict, EffectVerdict::Inconclusive);
    }

    #[test]
    fn a_knee_that_only_the_baseline_has_is_judged_at_the_step_below() {
        let at = |threads| {
            let mut c = comparison(made(0.05, EffectVerdict::Better), None);
            (c.step, c.deciding) = (Step::Threads(threads), false);
            c
        };
        let mut steps = [at(16), at(32), at(64)];
        mark_deciding(&mut steps, Some(Step::Threads(45)));
        assert_eq!(steps.map(|c| c.deciding), [false, true, false]);
        let mut steps = [at(16), at(32)];
        mark_deciding(&mut steps, Some(Step::Threads(8)));
        assert_eq!(steps.map(|c| c.deciding), [true, false]);
    }
}
