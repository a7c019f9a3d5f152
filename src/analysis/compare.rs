//! A variant against the baseline: is the change real, and is it worth keeping.
//!
//! The run is the unit of replication: a naive t-test on 1-second samples raises 38–67 % false alarms
//! on A/A windows, and autocorrelation corrections do not cure drift \[M\].

use std::fmt::Write as _;

use super::durability;
use super::findings::{Comparison, Decision, Effect, EffectVerdict};
use super::ladder::{RUNS_FOR_NOISE, StepCells};
use super::stats::{mean, t_p_value, t_quantile, variance, welch};
use crate::plan::Step;
use crate::record::VariantRecord;
use crate::units::Ratio;

/// Smallest effects of interest: throughput 2 %, percentiles 5 %.
const SMALLEST_TPS: f64 = 0.02;
const SMALLEST_P95: f64 = 0.05;
/// The house keeps a change from this gain on.
const KEEP_GAIN: f64 = 0.03;
/// One pair: least change, and between-run noise assumed (0–1.7 % false alarms, 70–74 % detection of
/// +5 % \[M\], optimistic across restarts).
const PAIR_TPS: f64 = 0.03;
const PAIR_NOISE: f64 = 0.015;
/// A throughput less even than this gives no pair verdict (5–11 % false alarms, ≤ 15 % detection) \[M\].
const PAIR_CV: f64 = 0.10;
/// Normal quantile of a two-sided 95 % interval.
const Z: f64 = 1.96;
/// Significance of the test, and of a drift.
const ALPHA: f64 = 0.05;
/// More runs than this are not worth naming.
const RUNS_CAP: f64 = 1000.0;

/// Figures of one side, a value a run.
#[derive(Debug, Clone, Default)]
struct Side {
    ln_tps: Vec<f64>,
    /// Relative standard errors within the runs.
    se: Vec<f64>,
    cv: Option<f64>,
    ln_p95: Vec<f64>,
    /// (pass, ln TPS), for drift.
    passes: Vec<(f64, f64)>,
}

impl Side {
    fn of(step: &StepCells<'_>) -> Self {
        let mut side = Self::default();
        for measured in step.usable() {
            let summary = measured.summary;
            if let Some(tps) = summary.tps.filter(|t| t.0 > 0.0) {
                side.ln_tps.push(tps.0.ln());
                side.passes.push((f64::from(summary.repeat), tps.0.ln()));
            }
            if let Some(se) = summary.tps_se {
                side.se.push(se.0);
            }
            if let Some(cv) = summary.cv {
                side.cv = Some(side.cv.map_or(cv.0, |known: f64| known.max(cv.0)));
            }
            if let Some(p95) = summary.latency.p95.filter(|p| p.0 > 0.0) {
                side.ln_p95.push(p95.0.ln());
            }
        }
        side
    }

    fn runs(&self) -> u32 {
        u32::try_from(self.ln_tps.len()).unwrap_or(u32::MAX)
    }

    /// Squared standard error of the mean within and between runs, for fewer than three runs.
    fn squared_error(&self) -> f64 {
        let n = self.ln_tps.len().max(1) as f64;
        let within: f64 = self.se.iter().map(|se| se * se).sum::<f64>() / n;
        (within + PAIR_NOISE * PAIR_NOISE) / n
    }
}

/// How a figure is judged.
#[derive(Clone, Copy)]
struct Policy {
    /// Higher is better.
    higher: bool,
    smallest: f64,
    pair: f64,
}

const TPS: Policy = Policy {
    higher: true,
    smallest: SMALLEST_TPS,
    pair: PAIR_TPS,
};
const P95: Policy = Policy {
    higher: false,
    smallest: SMALLEST_P95,
    pair: SMALLEST_P95,
};

/// Compares one workload of a variant with the baseline's, at every step that both have.
pub(crate) fn compare(
    baseline: (&VariantRecord, &[StepCells<'_>]),
    variant: (&VariantRecord, &[StepCells<'_>]),
    workload: &str,
    knee: Option<u32>,
) -> Vec<Comparison> {
    let confounded = durability::confounded(variant.0);
    let weakened = durability::weakened(variant.0);
    let mut comparisons = Vec::new();
    for theirs in variant.1 {
        let Some(ours) = baseline.1.iter().find(|s| s.step == theirs.step) else {
            continue;
        };
        let (a, b) = (Side::of(ours), Side::of(theirs));
        let Some(tps) = effect(&a, &b, &a.ln_tps, &b.ln_tps, TPS) else {
            continue;
        };
        comparisons.push(Comparison {
            variant: variant.0.name.clone(),
            baseline: baseline.0.name.clone(),
            workload: workload.to_owned(),
            step: theirs.step,
            deciding: matches!(theirs.step, Step::Threads(n) if Some(n) == knee),
            runs: (a.runs(), b.runs()),
            tps,
            p95: effect(&a, &b, &a.ln_p95, &b.ln_p95, P95),
            decision: Decision::Undecided,
            sentence: String::new(),
            confounded: confounded.clone(),
            durability: weakened.clone(),
            drift: drift(&a.passes).map(Ratio),
        });
    }
    comparisons
}

/// Adjusts the deciding p-values for their number (Holm) and decides each comparison.
pub(crate) fn decide(comparisons: &mut [Comparison]) {
    holm(comparisons, |c| Some(&mut c.tps), TPS);
    holm(comparisons, |c| c.p95.as_mut(), P95);
    for comparison in comparisons {
        conclude(comparison);
    }
}

/// One figure, both sides as logarithms of a value a run; `None` without a run on a side.
fn effect(a: &Side, b: &Side, va: &[f64], vb: &[f64], policy: Policy) -> Option<Effect> {
    let (mean_a, mean_b) = (mean(va)?, mean(vb)?);
    let difference = mean_b - mean_a;
    let mut effect = Effect {
        baseline: mean_a.exp(),
        variant: mean_b.exp(),
        change: Ratio(difference.exp_m1()),
        interval: None,
        p_value: None,
        verdict: EffectVerdict::Inconclusive,
        runs_needed: None,
        why: String::new(),
    };
    if va.len() < RUNS_FOR_NOISE || vb.len() < RUNS_FOR_NOISE {
        pair(&mut effect, a, b, difference, policy);
        return Some(effect);
    }
    let test = welch(va, vb)?;
    let (low, high) = (
        (difference - test.half_width).exp_m1(),
        (difference + test.half_width).exp_m1(),
    );
    effect.interval = Some((Ratio(low), Ratio(high)));
    effect.p_value = Some(test.p);
    judge(&mut effect, policy);
    if effect.verdict == EffectVerdict::Inconclusive {
        effect.runs_needed = runs_needed(va, vb, policy.smallest);
        if let Some(n) = effect.runs_needed {
            let _ = write!(
                effect.why,
                "; about {n} runs a side would settle {}",
                Ratio(policy.smallest)
            );
        }
    }
    Some(effect)
}

/// The verdict from interval and (adjusted) p-value.
fn judge(effect: &mut Effect, policy: Policy) {
    let (Some((low, high)), Some(p)) = (effect.interval, effect.p_value) else {
        return;
    };
    let change = effect.change.0;
    let excludes_zero = low.0 > 0.0 || high.0 < 0.0;
    effect.verdict = if excludes_zero && p < ALPHA && change.abs() >= policy.smallest {
        if (change > 0.0) == policy.higher {
            EffectVerdict::Better
        } else {
            EffectVerdict::Worse
        }
    } else if low.0 > -policy.smallest && high.0 < policy.smallest {
        EffectVerdict::Equivalent
    } else {
        EffectVerdict::Inconclusive
    };
    effect.why = format!(
        "{:+.1} %, 95 % interval {:+.1} … {:+.1} %, p = {p:.3}",
        change * 100.0,
        low.0 * 100.0,
        high.0 * 100.0
    );
}

/// Fewer than three runs a side: "inconclusive", or beyond the least change and beyond noise.
fn pair(effect: &mut Effect, a: &Side, b: &Side, difference: f64, policy: Policy) {
    let change = effect.change.0 * 100.0;
    if let Some(cv) = [a.cv, b.cv].into_iter().flatten().find(|cv| *cv > PAIR_CV) {
        effect.why = format!(
            "{change:+.1} % on fewer than 3 runs a side, but throughput is too uneven for a verdict (CV {})",
            Ratio(cv)
        );
        return;
    }
    let noise = Z * (a.squared_error() + b.squared_error()).sqrt();
    let least = policy.pair.max(noise);
    if difference.abs() > least {
        effect.verdict = if (difference > 0.0) == policy.higher {
            EffectVerdict::BetterBeyondNoise
        } else {
            EffectVerdict::WorseBeyondNoise
        };
    }
    effect.why = format!(
        "{change:+.1} % on fewer than 3 runs a side, {} {} (the larger of {} and the noise)",
        if difference.abs() > least {
            "beyond"
        } else {
            "within"
        },
        Ratio(least),
        Ratio(policy.pair)
    );
}

/// Runs a side that detect `delta` with 80 % power: `n ≈ 2·(t₉₇₅+t₈₀)²·s²/δ²`.
fn runs_needed(a: &[f64], b: &[f64], delta: f64) -> Option<u32> {
    let (na, nb) = ((a.len() - 1) as f64, (b.len() - 1) as f64);
    let pooled = (na * variance(a)? + nb * variance(b)?) / (na + nb);
    let delta = delta.ln_1p();
    let mut n = 5.0_f64;
    // The quantiles depend on n: a few rounds settle it.
    for _ in 0..20 {
        let df = (2.0 * (n - 1.0)).max(2.0);
        let t = t_quantile(0.975, df)? + t_quantile(0.80, df)?;
        let next = (2.0 * t * t * pooled / (delta * delta)).ceil().max(3.0);
        if !next.is_finite() || next > RUNS_CAP {
            return None;
        }
        if (next - n).abs() < 0.5 {
            break;
        }
        n = next;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 3 and 1000"
    )]
    Some(n as u32)
}

/// Trend of the baseline over the passes: the change from the first to the last, when it is significant.
fn drift(passes: &[(f64, f64)]) -> Option<f64> {
    let n = passes.len();
    if n < 4 {
        return None;
    }
    let count = n as f64;
    let (mx, my) = (
        passes.iter().map(|p| p.0).sum::<f64>() / count,
        passes.iter().map(|p| p.1).sum::<f64>() / count,
    );
    let sxx: f64 = passes.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let sxy: f64 = passes.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    if sxx <= 0.0 {
        return None;
    }
    let slope = sxy / sxx;
    let rest: f64 = passes
        .iter()
        .map(|p| (p.1 - my - slope * (p.0 - mx)).powi(2))
        .sum();
    let se = (rest / (count - 2.0) / sxx).sqrt();
    let first = passes.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let last = passes.iter().map(|p| p.0).fold(f64::NEG_INFINITY, f64::max);
    let p = if se > 0.0 {
        t_p_value(slope / se, count - 2.0)?
    } else if slope == 0.0 {
        1.0
    } else {
        0.0
    };
    (p < ALPHA).then(|| (slope * (last - first)).exp_m1())
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

/// Keep or roll back: throughput at least +3 % beyond noise and p95 not worse beyond noise.
fn conclude(comparison: &mut Comparison) {
    let change = comparison.tps.change.0;
    let drifted = comparison.drift.is_some_and(|d| change.abs() <= d.0.abs());
    let p95 = comparison.p95.as_ref().map(|e| e.verdict);
    let p95_worse = matches!(
        p95,
        Some(EffectVerdict::Worse | EffectVerdict::WorseBeyondNoise)
    );
    let (decision, mut sentence) = match comparison.tps.verdict {
        EffectVerdict::Worse | EffectVerdict::WorseBeyondNoise => (
            Decision::RollBack,
            format!("roll back: throughput {:+.1} %", change * 100.0),
        ),
        EffectVerdict::Equivalent => (
            Decision::RollBack,
            "roll back: no difference worth having".to_owned(),
        ),
        _ if p95_worse => (
            Decision::RollBack,
            format!(
                "roll back: p95 rises by {:.1} % (throughput {:+.1} %)",
                comparison.p95.as_ref().map_or(0.0, |e| e.change.0) * 100.0,
                change * 100.0
            ),
        ),
        EffectVerdict::Inconclusive => (
            Decision::Undecided,
            format!("not shown to be better: {}", comparison.tps.why),
        ),
        EffectVerdict::BetterBeyondNoise => (
            Decision::Undecided,
            format!(
                "promising ({:+.1} %, ≥ 3 % and beyond noise), but one or two runs a side prove nothing: repeat with at least 3",
                change * 100.0
            ),
        ),
        EffectVerdict::Better if drifted => (
            Decision::Undecided,
            "the baseline itself drifted by as much during the run".to_owned(),
        ),
        EffectVerdict::Better if change < KEEP_GAIN => (
            Decision::RollBack,
            format!(
                "roll back: {:+.1} % is real but below the 3 % that a change must bring",
                change * 100.0
            ),
        ),
        EffectVerdict::Better => keep(comparison, change),
    };
    if let Some(effect) = &comparison.p95 {
        let _ = write!(
            sentence,
            "; p95 {:+.1} % ({})",
            effect.change.0 * 100.0,
            verdict_words(effect.verdict)
        );
    } else {
        sentence.push_str("; p95 n/a");
    }
    if !comparison.deciding {
        sentence.push_str(" (exploratory step)");
    }
    comparison.decision = decision;
    comparison.sentence = sentence;
}

/// Better by enough: what keeps it from a plain "keep".
fn keep(comparison: &Comparison, change: f64) -> (Decision, String) {
    let gain = format!("{:+.1} % throughput", change * 100.0);
    if !comparison.durability.is_empty() {
        return (
            Decision::NeedsSignOff,
            format!(
                "faster ({gain}), durability reduced ({}): needs sign-off",
                comparison.durability.join(", ")
            ),
        );
    }
    if !comparison.confounded.is_empty() {
        return (
            Decision::Confounded,
            format!(
                "faster ({gain}), but confounded: {} moved together",
                comparison.confounded.join(", ")
            ),
        );
    }
    if comparison.p95.is_none() {
        return (
            Decision::Undecided,
            format!("faster ({gain}), but p95 was not measured"),
        );
    }
    (Decision::Keep, format!("keep: {gain}"))
}

fn verdict_words(verdict: EffectVerdict) -> &'static str {
    match verdict {
        EffectVerdict::Better => "falls",
        EffectVerdict::Worse => "rises",
        EffectVerdict::Equivalent => "alike",
        EffectVerdict::Inconclusive => "inconclusive",
        EffectVerdict::BetterBeyondNoise => "falls, beyond noise",
        EffectVerdict::WorseBeyondNoise => "rises, beyond noise",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
mod tests {
    use super::*;
    use rand_distr::{Distribution, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

    fn side(tps: &[f64], p95: &[f64]) -> Side {
        Side {
            ln_tps: tps.iter().map(|t| t.ln()).collect(),
            se: vec![0.002; tps.len()],
            cv: Some(0.02),
            ln_p95: p95.iter().map(|t| t.ln()).collect(),
            passes: Vec::new(),
        }
    }

    fn tps_effect(a: &Side, b: &Side) -> Effect {
        effect(a, b, &a.ln_tps, &b.ln_tps, TPS).unwrap()
    }

    #[test]
    fn five_runs_a_side_tell_a_gain_from_noise() {
        let a = side(&[1000.0, 1010.0, 995.0, 1005.0, 990.0], &[]);
        let b = side(&[1050.0, 1061.0, 1045.0, 1055.0, 1040.0], &[]);
        assert_eq!(tps_effect(&a, &b).verdict, EffectVerdict::Better);
        assert_eq!(tps_effect(&b, &a).verdict, EffectVerdict::Worse);
        let c = side(&[1001.0, 1009.0, 996.0, 1004.0, 991.0], &[]);
        assert_eq!(tps_effect(&a, &c).verdict, EffectVerdict::Equivalent);
    }

    #[test]
    fn an_inconclusive_test_names_the_runs_it_needs() {
        let a = side(&[1000.0, 1100.0, 950.0], &[]);
        let b = side(&[1020.0, 1130.0, 940.0], &[]);
        let found = tps_effect(&a, &b);
        assert_eq!(found.verdict, EffectVerdict::Inconclusive);
        assert!(found.runs_needed.unwrap() > 20, "{found:?}");
    }

    #[test]
    fn one_pair_never_proves_anything() {
        let a = side(&[1000.0], &[]);
        assert_eq!(
            tps_effect(&a, &side(&[1100.0], &[])).verdict,
            EffectVerdict::BetterBeyondNoise
        );
        assert_eq!(
            tps_effect(&a, &side(&[1025.0], &[])).verdict,
            EffectVerdict::Inconclusive
        );
        let mut uneven = side(&[1500.0], &[]);
        uneven.cv = Some(0.2);
        assert_eq!(tps_effect(&a, &uneven).verdict, EffectVerdict::Inconclusive);
    }

    #[test]
    fn a_lower_p95_is_better() {
        let a = side(&[1.0; 3], &[50.0, 51.0, 49.0]);
        let b = side(&[1.0; 3], &[40.0, 41.0, 39.0]);
        let found = effect(&a, &b, &a.ln_p95, &b.ln_p95, P95).unwrap();
        assert_eq!(found.verdict, EffectVerdict::Better);
    }

    #[test]
    fn false_alarms_stay_below_five_percent_and_five_percent_is_found() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut runs = |level: f64, n: usize| -> Vec<f64> {
            (0..n)
                .map(|_| {
                    let z: f64 = StandardNormal.sample(&mut rng);
                    level * (1.0 + 0.02 * z)
                })
                .collect()
        };
        let (mut alarms, mut found) = (0, 0);
        for _ in 0..1000 {
            let a = side(&runs(1000.0, 5), &[]);
            let same = side(&runs(1000.0, 5), &[]);
            let faster = side(&runs(1050.0, 5), &[]);
            alarms += i32::from(matches!(
                tps_effect(&a, &same).verdict,
                EffectVerdict::Better | EffectVerdict::Worse
            ));
            found += i32::from(tps_effect(&a, &faster).verdict == EffectVerdict::Better);
        }
        assert!(alarms <= 60, "{alarms} of 1000 false alarms");
        assert!(found >= 800, "{found} of 1000 found");
    }

    fn comparison(tps: Effect, p95: Option<Effect>) -> Comparison {
        Comparison {
            variant: "b".to_owned(),
            baseline: "a".to_owned(),
            workload: "w".to_owned(),
            step: Step::Threads(32),
            deciding: true,
            runs: (5, 5),
            tps,
            p95,
            decision: Decision::Undecided,
            sentence: String::new(),
            confounded: Vec::new(),
            durability: Vec::new(),
            drift: None,
        }
    }

    fn made(change: f64, verdict: EffectVerdict) -> Effect {
        Effect {
            baseline: 1.0,
            variant: 1.0 + change,
            change: Ratio(change),
            interval: None,
            p_value: None,
            verdict,
            runs_needed: None,
            why: String::new(),
        }
    }

    #[test]
    fn the_rule_of_the_house() {
        use Decision::*;
        use EffectVerdict::*;
        let alike = || Some(made(0.0, Equivalent));
        let decision = |mut c: Comparison| {
            conclude(&mut c);
            (c.decision, c.sentence)
        };
        assert_eq!(decision(comparison(made(0.05, Better), alike())).0, Keep);
        assert_eq!(
            decision(comparison(made(0.025, Better), alike())).0,
            RollBack
        );
        assert_eq!(
            decision(comparison(made(0.05, Better), Some(made(0.1, Worse)))).0,
            RollBack
        );
        assert_eq!(
            decision(comparison(made(0.05, BetterBeyondNoise), alike())).0,
            Undecided
        );
        let mut risky = comparison(made(0.5, Better), alike());
        risky.durability = vec!["innodb_flush_log_at_trx_commit 1 → 2".to_owned()];
        let (outcome, sentence) = decision(risky);
        assert_eq!(outcome, NeedsSignOff);
        assert!(sentence.contains("needs sign-off"));
        let mut two = comparison(made(0.5, Better), alike());
        two.confounded = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(decision(two).0, Confounded);
        let mut drifting = comparison(made(0.05, Better), alike());
        drifting.drift = Some(Ratio(-0.06));
        assert_eq!(decision(drifting).0, Undecided);
    }

    #[test]
    fn holm_makes_two_borderline_findings_stricter() {
        let mut effect = made(0.05, EffectVerdict::Better);
        effect.interval = Some((Ratio(0.001), Ratio(0.1)));
        effect.p_value = Some(0.03);
        let mut both = [comparison(effect.clone(), None), comparison(effect, None)];
        holm(&mut both, |c| Some(&mut c.tps), TPS);
        assert_eq!(both[0].tps.p_value, Some(0.06));
        assert_eq!(both[0].tps.verdict, EffectVerdict::Inconclusive);
    }

    #[test]
    fn a_trend_of_the_baseline_is_drift_and_noise_is_not() {
        let falling: Vec<(f64, f64)> = (0..5_i32)
            .map(|i| {
                (
                    f64::from(i),
                    7.0 - 0.02 * f64::from(i) + 0.001 * f64::from(i % 2),
                )
            })
            .collect();
        assert!((drift(&falling).unwrap() + 0.077).abs() < 0.01);
        let noisy: Vec<(f64, f64)> = [0.0, 0.01, -0.01, 0.005, 0.0]
            .iter()
            .enumerate()
            .map(|(i, y)| (i as f64, 7.0 + y))
            .collect();
        assert_eq!(drift(&noisy), None);
    }
}
