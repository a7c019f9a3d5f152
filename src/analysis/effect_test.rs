//! One figure of two sides: effect, interval, verdict.
//!
//! The run is the unit of replication: a naive t-test on 1-second samples raises 38–67 % false alarms
//! on A/A windows, and autocorrelation corrections do not cure drift \[M\].

use std::fmt::Write as _;

use super::effect::{Effect, EffectVerdict};
use super::ladder::{Measured, RUNS_FOR_NOISE};
use super::stats::{mean, p_words, t_quantile, t_sf, variance, welch};
use crate::plan::HouseRule;
use crate::units::Ratio;

/// One pair: least change, and between-run noise assumed (0–1.7 % false alarms, 70–74 % detection of
/// +5 % \[M\], optimistic across restarts).
const PAIR_TPS: f64 = 0.03;
pub(super) const PAIR_NOISE: f64 = 0.015;
/// The same of p95, which is noisier than the mean: with the noise of throughput alone one pair raised 11 % false
/// alarms on p95 (see the simulation). \[H\]
const PAIR_NOISE_P95: f64 = 2.0 * PAIR_NOISE;
/// A throughput less even than this gives no pair verdict (5–11 % false alarms, ≤ 15 % detection) \[M\].
pub(super) const PAIR_CV: f64 = 0.10;
/// Normal quantile of a two-sided 95 % interval.
const Z: f64 = 1.96;
/// Significance of the tests.
const ALPHA: f64 = 0.05;
/// More runs than this are not worth naming.
const RUNS_CAP: f64 = 1000.0;

/// Figures of one side, a value a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Side {
    pub(super) ln_tps: Vec<f64>,
    /// Relative standard errors within the runs.
    pub(super) se: Vec<f64>,
    pub(super) cv: Option<f64>,
    pub(super) ln_p95: Vec<f64>,
}

impl Side {
    /// The runs of a step that may be compared.
    pub(super) fn of<'a>(runs: impl Iterator<Item = Measured<'a>>) -> Self {
        let mut side = Self::default();
        for measured in runs {
            let summary = measured.summary;
            if let Some(tps) = summary.tps.filter(|t| t.0 > 0.0) {
                side.ln_tps.push(tps.0.ln());
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

    pub(super) fn runs(&self) -> u32 {
        u32::try_from(self.ln_tps.len()).unwrap_or(u32::MAX)
    }

    /// Squared standard error of the mean within and between runs, for fewer than three runs.
    fn squared_error(&self, noise: f64) -> f64 {
        let n = self.ln_tps.len().max(1) as f64;
        let within: f64 = self.se.iter().map(|se| se * se).sum::<f64>() / n;
        (within + noise * noise) / n
    }
}

/// How a figure is judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    /// Higher is better.
    higher: bool,
    smallest: f64,
    pair: f64,
    /// Relative noise between single runs.
    run_noise: f64,
    /// Standard deviation of what whole series of runs differ by, 0 within one run: two runs on other days are
    /// one pair of days, however many repeats each has.
    pub(super) between_series: f64,
}

impl Policy {
    /// Throughput, within one run.
    pub(super) fn tps(house: &HouseRule) -> Self {
        Self {
            higher: true,
            smallest: house.smallest_tps.0,
            pair: PAIR_TPS.max(house.smallest_tps.0),
            run_noise: PAIR_NOISE,
            between_series: 0.0,
        }
    }

    /// The 95th percentile, within one run.
    pub(super) fn p95(house: &HouseRule) -> Self {
        Self {
            higher: false,
            smallest: house.smallest_p95.0,
            pair: house.smallest_p95.0,
            run_noise: PAIR_NOISE_P95,
            between_series: 0.0,
        }
    }

    /// The same between two series of runs.
    pub(super) fn between(self, noise: f64) -> Self {
        Self {
            between_series: noise,
            ..self
        }
    }
}

/// One figure, both sides as logarithms of a value a run; `None` without a run on a side.
pub(super) fn effect(a: &Side, b: &Side, va: &[f64], vb: &[f64], policy: Policy) -> Option<Effect> {
    let (mean_a, mean_b) = (mean(va)?, mean(vb)?);
    let difference = mean_b - mean_a;
    let mut effect = Effect {
        baseline: mean_a.exp(),
        variant: mean_b.exp(),
        change: Ratio(difference.exp_m1()),
        interval: None,
        p_value: None,
        equivalence_p: None,
        verdict: EffectVerdict::Inconclusive,
        runs_needed: None,
        uneven: None,
        why: String::new(),
    };
    if va.len() < RUNS_FOR_NOISE || vb.len() < RUNS_FOR_NOISE {
        pair(&mut effect, a, b, difference, policy);
        return Some(effect);
    }
    let test = welch(va, vb)?.widened(policy.between_series)?;
    let (low, high) = (
        (difference - test.half_width).exp_m1(),
        (difference + test.half_width).exp_m1(),
    );
    effect.interval = Some((Ratio(low), Ratio(high)));
    effect.p_value = Some(test.p);
    effect.equivalence_p = equivalence(difference, test.se, test.df, policy.smallest);
    judge(&mut effect, policy);
    // Between two series more repeats do not help: the days are one pair.
    if effect.verdict == EffectVerdict::Inconclusive && policy.between_series <= 0.0 {
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

/// Two one-sided tests (Schuirmann 1987): the larger of the p-values of "not below −margin" and "not above
/// +margin". Below 5 % the change is proved to lie within the margin.
fn equivalence(difference: f64, se: f64, df: f64, margin: f64) -> Option<f64> {
    let (low, high) = ((-margin).ln_1p(), margin.ln_1p());
    if se <= 0.0 {
        return Some(if difference > low && difference < high {
            0.0
        } else {
            1.0
        });
    }
    Some(t_sf((difference - low) / se, df)?.max(t_sf((high - difference) / se, df)?))
}

/// The verdict from interval and (adjusted) p-value.
pub(super) fn judge(effect: &mut Effect, policy: Policy) {
    let (Some((low, high)), Some(p)) = (effect.interval, effect.p_value) else {
        return;
    };
    let change = effect.change.0;
    let excludes_zero = low.0 > 0.0 || high.0 < 0.0;
    let alike = effect.equivalence_p.is_some_and(|p| p < ALPHA);
    effect.verdict = if excludes_zero && p < ALPHA && change.abs() >= policy.smallest {
        if (change > 0.0) == policy.higher {
            EffectVerdict::Better
        } else {
            EffectVerdict::Worse
        }
    } else if alike {
        EffectVerdict::Equivalent
    } else {
        EffectVerdict::Inconclusive
    };
    effect.why = format!(
        "{:+.1} %, 95 % interval {:+.1} … {:+.1} %, {}",
        change * 100.0,
        low.0 * 100.0,
        high.0 * 100.0,
        p_words(p)
    );
    if alike {
        let _ = write!(
            effect.why,
            "; within ±{} by TOST, {}",
            Ratio(policy.smallest),
            p_words(effect.equivalence_p.unwrap_or(1.0))
        );
    }
}

/// No claim smaller than what the baseline itself moved by.
pub(super) fn bounded_by_drift(effect: &mut Effect, drift: Option<Ratio>, policy: Policy) {
    let Some(drift) = drift else { return };
    let claimed = match effect.verdict {
        EffectVerdict::Inconclusive => return,
        EffectVerdict::Equivalent => policy.smallest,
        _ => effect.change.0.abs(),
    };
    if claimed <= drift.0.abs() {
        effect.verdict = EffectVerdict::Inconclusive;
        let _ = write!(
            effect.why,
            "; the baseline itself moved by {:+.1} % during the run",
            drift.0 * 100.0
        );
    }
}

/// Fewer than three runs a side: "inconclusive", or beyond the least change and beyond noise.
fn pair(effect: &mut Effect, a: &Side, b: &Side, difference: f64, policy: Policy) {
    let change = effect.change.0 * 100.0;
    let uneven = [a.cv, b.cv].into_iter().flatten().reduce(f64::max);
    if let Some(cv) = uneven.filter(|cv| *cv > PAIR_CV) {
        effect.uneven = Some(Ratio(cv));
        effect.why = format!(
            "{change:+.1} % as measured, but throughput within a run varies by {} (CV): a verdict on fewer than 3 runs a side needs at most {}",
            Ratio(cv),
            Ratio(PAIR_CV)
        );
        return;
    }
    let squares = a.squared_error(policy.run_noise) + b.squared_error(policy.run_noise);
    let noise = Z * squares.sqrt();
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
mod tests {
    use super::*;

    fn side(tps: &[f64], p95: &[f64]) -> Side {
        Side {
            ln_tps: tps.iter().map(|t| t.ln()).collect(),
            se: vec![0.002; tps.len()],
            cv: Some(0.02),
            ln_p95: p95.iter().map(|t| t.ln()).collect(),
        }
    }

    fn tps_effect(a: &Side, b: &Side) -> Effect {
        effect(
            a,
            b,
            &a.ln_tps,
            &b.ln_tps,
            Policy::tps(&HouseRule::default()),
        )
        .unwrap()
    }

    #[test]
    fn five_runs_a_side_tell_a_gain_from_noise() {
        let a = side(&[1000.0, 1010.0, 995.0, 1005.0, 990.0], &[]);
        let b = side(&[1050.0, 1061.0, 1045.0, 1055.0, 1040.0], &[]);
        assert_eq!(tps_effect(&a, &b).verdict, EffectVerdict::Better);
        assert_eq!(tps_effect(&b, &a).verdict, EffectVerdict::Worse);
        let c = side(&[1001.0, 1009.0, 996.0, 1004.0, 991.0], &[]);
        let alike = tps_effect(&a, &c);
        assert_eq!(alike.verdict, EffectVerdict::Equivalent);
        assert!(alike.equivalence_p.unwrap() < 0.01, "{alike:?}");
        assert!(alike.why.contains("within ±2.0 % by TOST"), "{}", alike.why);
    }

    #[test]
    fn two_one_sided_tests_equal_a_worked_example() {
        // By hand: d = 0.005, se = 0.006, df = 8, margin 2 %: ln 0.98 = −0.020203, ln 1.02 = 0.019803;
        // t = 4.2005 and 2.4671; pt(−2.4671, 8) = 0.0195.
        let p = equivalence(0.005, 0.006, 8.0, 0.02).unwrap();
        assert!((p - 0.0195).abs() < 5e-4, "{p}");
        // Outside the margin nothing is proved.
        assert!(equivalence(0.03, 0.006, 8.0, 0.02).unwrap() > 0.5);
        assert_eq!(equivalence(0.0, 0.0, 8.0, 0.02), Some(0.0));
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
        let policy = Policy::p95(&HouseRule::default());
        let found = effect(&a, &b, &a.ln_p95, &b.ln_p95, policy).unwrap();
        assert_eq!(found.verdict, EffectVerdict::Better);
    }

    #[test]
    fn the_house_says_what_is_too_small_to_matter() {
        let a = side(&[1000.0, 1001.0, 999.0], &[]);
        let b = side(&[1025.0, 1026.0, 1024.0], &[]);
        assert_eq!(tps_effect(&a, &b).verdict, EffectVerdict::Better);
        let cloud = HouseRule {
            smallest_tps: Ratio(0.03),
            ..HouseRule::default()
        };
        let found = effect(&a, &b, &a.ln_tps, &b.ln_tps, Policy::tps(&cloud)).unwrap();
        assert_eq!(found.verdict, EffectVerdict::Equivalent);
    }

    #[test]
    fn a_claim_within_the_drift_is_not_made() {
        let a = side(&[1000.0, 1010.0, 995.0, 1005.0, 990.0], &[]);
        let b = side(&[1050.0, 1061.0, 1045.0, 1055.0, 1040.0], &[]);
        let c = side(&[1001.0, 1009.0, 996.0, 1004.0, 991.0], &[]);
        let policy = Policy::tps(&HouseRule::default());
        let bounded = |other: &Side, drift: f64| {
            let mut effect = tps_effect(&a, other);
            bounded_by_drift(&mut effect, Some(Ratio(drift)), policy);
            effect.verdict
        };
        assert_eq!(bounded(&b, -0.06), EffectVerdict::Inconclusive);
        assert_eq!(bounded(&b, -0.04), EffectVerdict::Better);
        // "Alike within 2 %" is a claim of 2 %.
        assert_eq!(bounded(&c, 0.03), EffectVerdict::Inconclusive);
        assert_eq!(bounded(&c, 0.01), EffectVerdict::Equivalent);
    }
}
