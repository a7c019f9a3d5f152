//! The knee of a concurrency ladder: the last step whose threads still pay.
//!
//! `k = argmax ln X − β·ln N` with `β = log2(1 + g)` is the step after which no later step repays at
//! least `g` per doubling of threads. Adding or dropping a step moves the answer only if that step
//! wins itself; no fit, any spacing.

use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::Serialize;

use crate::plan::Step;
use crate::units::{Millis, PerSecond, Ratio, percent};

/// Gain per doubling of threads below which more threads do not pay: the DBA's 20 % rule.
pub const DEFAULT_GAIN: Ratio = Ratio(0.20);
/// Between-run noise assumed while fewer than 3 runs measure it. With noise understated (true 5 %,
/// assumed 2 %) false `retrograde` rose to 19 of 150 saturating and 70 of 150 flat ladders; hence 3 % \[M\].
pub const DEFAULT_RUN_NOISE: Ratio = Ratio(0.03);
/// Bootstrap resamples.
const RESAMPLES: u32 = 2000;
/// Fixed, so that the same ladder always gets the same confidence.
const BOOTSTRAP_SEED: u64 = 0x6361_7062_656e_6368;
/// The bootstrap draws the threshold from U(15 %, 30 %) around the policy of 20 %; as multiples of the
/// policy, so that another policy keeps its own neighbourhood.
const THRESHOLD_LOW: f64 = 0.75;
const THRESHOLD_HIGH: f64 = 1.50;
/// Frequencies of the chosen step from which confidence is high or medium. Calibration: high 99 %
/// exact, medium 71–79 %, low 50–64 % \[M, synthetic\].
const HIGH: f64 = 0.80;
const MEDIUM: f64 = 0.50;
/// Steps chosen at least this often make up the range.
const IN_RANGE: f64 = 0.05;
/// The last step chosen at least this often: throughput may still rise.
const MAY_STILL_RISE: f64 = 0.10;
/// Throughput below this share of the peak, beyond noise, is retrograde.
const RETROGRADE_SHARE: f64 = 0.90;
/// … beyond noise: this many standard deviations.
const RETROGRADE_SIGMAS: f64 = 2.6;
/// One step that loses 30 % or more is a cliff.
const CLIFF_SHARE: f64 = 0.70;
/// Thresholds over which robustness is stated: 10 % up to Kleinrock's power, 41 % a doubling.
const ROBUST_LOW: f64 = 0.10;
const ROBUST_HIGH: f64 = 0.41;

/// One step of a ladder as the knee sees it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LadderPoint {
    /// Concurrent clients.
    pub threads: u32,
    /// Throughput; transactions or queries, the same for all points.
    pub tps: PerSecond,
    /// Mean latency.
    pub avg: Option<Millis>,
    /// 95th percentile.
    pub p95: Option<Millis>,
    /// 99th percentile.
    pub p99: Option<Millis>,
    /// Relative standard error of `tps` within the run(s); `None`: unknown, the run noise alone counts.
    pub se: Option<Ratio>,
}

impl LadderPoint {
    /// A point without latencies.
    pub fn new(threads: u32, tps: f64) -> Self {
        Self {
            threads,
            tps: PerSecond(tps),
            avg: None,
            p95: None,
            p99: None,
            se: None,
        }
    }
}

/// The shape of a ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KneeKind {
    /// Fewer than 3 valid steps.
    Insufficient,
    /// The last step still paid.
    NotReached,
    /// More threads no longer pay.
    Plateau,
    /// More threads cost throughput.
    Retrograde,
}

impl KneeKind {
    /// The word of the JSON output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Insufficient => "insufficient",
            Self::NotReached => "not_reached",
            Self::Plateau => "plateau",
            Self::Retrograde => "retrograde",
        }
    }

    /// The word for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotReached => "not reached",
            other => other.as_str(),
        }
    }
}

/// How often the answer survives noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Below half of the resamples: read the range, not the step.
    Low,
    /// At least half.
    Medium,
    /// At least 80 %.
    High,
}

impl Confidence {
    /// The word for reports and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A fall of 30 % or more from one step to the next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cliff {
    /// Last step before it.
    pub from: u32,
    /// First step after it.
    pub to: u32,
    /// Throughput lost.
    pub loss: Ratio,
}

/// The knee of a ladder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Knee {
    /// The chosen step. For `insufficient` the best of what there is, not a knee; `None` without a point.
    pub threads: Option<u32>,
    /// The shape.
    pub kind: KneeKind,
    /// Gain per doubling that was asked for.
    pub required_gain: Ratio,
    /// How often the answer survives noise.
    pub confidence: Confidence,
    /// Why confidence is lower than its frequency says; `None`: it is not.
    pub lowered: Option<String>,
    /// Share of the resamples that chose the step.
    pub frequency: Ratio,
    /// Smallest and largest step that at least 5 % of the resamples chose; `None` without a point.
    pub range: Option<(u32, u32)>,
    /// The first step is the knee: saturated at or before it; run lower steps.
    pub saturated_at_first: bool,
    /// At least 10 % of the resamples chose the last step.
    pub may_still_rise: bool,
    /// The first cliff.
    pub cliff: Option<Cliff>,
    /// Step of the highest throughput.
    pub peak: Option<u32>,
    /// Lowest throughput beyond the peak against the peak, minus 1; `None` when nothing lies beyond.
    pub loss_after_peak: Option<Ratio>,
    /// Throughput at the knee.
    pub tps: Option<PerSecond>,
    /// Step after the knee.
    pub next: Option<u32>,
    /// Throughput of the next step against the knee, minus 1.
    pub change_after: Option<Ratio>,
    /// The same per doubling of threads.
    pub gain_after: Option<Ratio>,
    /// p95 of the next step against the knee's.
    pub p95_factor: Option<f64>,
    /// Knees for thresholds from 41 % down to 10 %.
    pub robust: Option<(u32, u32)>,
    /// Between-run noise assumed or measured.
    pub run_noise: Ratio,
    /// The points that were used, ascending, one per step.
    pub points: Vec<LadderPoint>,
    /// What was done to the input (points left out, repeats averaged).
    pub notes: Vec<String>,
}

/// Finds the knee with the default run noise. Points may come in any order; repeats of a step are
/// combined by geometric mean; points without a positive finite throughput are left out, and said.
pub fn from_points(points: &[LadderPoint], gain: Ratio) -> Knee {
    from_points_with_noise(points, gain, None)
}

/// Finds the knee. `run_noise`: the measured coefficient of variation between runs; `None`: 3 %.
pub fn from_points_with_noise(
    points: &[LadderPoint],
    gain: Ratio,
    run_noise: Option<Ratio>,
) -> Knee {
    let (points, notes) = prepare(points);
    let run_noise = run_noise
        .filter(|noise| noise.0.is_finite() && noise.0 >= 0.0)
        .unwrap_or(DEFAULT_RUN_NOISE);
    let gain = if gain.0.is_finite() && gain.0 > 0.0 {
        gain
    } else {
        DEFAULT_GAIN
    };
    let n = points.len();
    let mut knee = Knee {
        threads: None,
        kind: KneeKind::Insufficient,
        required_gain: gain,
        confidence: Confidence::Low,
        lowered: None,
        frequency: Ratio(0.0),
        range: None,
        saturated_at_first: false,
        may_still_rise: false,
        cliff: None,
        peak: None,
        loss_after_peak: None,
        tps: None,
        next: None,
        change_after: None,
        gain_after: None,
        p95_factor: None,
        robust: None,
        run_noise,
        points,
        notes,
    };
    let ln_x: Vec<f64> = knee.points.iter().map(|p| p.tps.0.ln()).collect();
    let ln_n: Vec<f64> = knee
        .points
        .iter()
        .map(|p| f64::from(p.threads).ln())
        .collect();
    let (Some(k), Some(peak)) = (best(&ln_x, &ln_n, gain.0), argmax(ln_x.iter().copied())) else {
        return knee;
    };
    let sigma: Vec<f64> = knee
        .points
        .iter()
        .map(|p| p.se.map_or(0.0, |se| se.0).hypot(run_noise.0))
        .collect();
    describe(&mut knee, k, peak);
    let threads = |i: usize| knee.points[i].threads;
    if n < 3 {
        knee.range = Some((threads(0), threads(n - 1)));
        return knee;
    }
    let frequencies = bootstrap(&ln_x, &ln_n, &sigma, gain.0);
    let in_range: Vec<usize> = (0..n)
        .filter(|&i| i == k || frequencies[i] >= IN_RANGE)
        .collect();
    knee.range = in_range
        .first()
        .zip(in_range.last())
        .map(|(&low, &high)| (threads(low), threads(high)));
    knee.robust = best(&ln_x, &ln_n, ROBUST_HIGH)
        .zip(best(&ln_x, &ln_n, ROBUST_LOW))
        .map(|(low, high)| (threads(low), threads(high)));
    knee.frequency = Ratio(frequencies[k]);
    knee.confidence = match frequencies[k] {
        f if f >= HIGH => Confidence::High,
        f if f >= MEDIUM => Confidence::Medium,
        _ => Confidence::Low,
    };
    let retrograde = (peak + 1..n).any(|j| {
        let share = knee.points[j].tps.0 / knee.points[peak].tps.0;
        share < RETROGRADE_SHARE && (1.0 - share) / sigma[j].hypot(sigma[peak]) > RETROGRADE_SIGMAS
    });
    knee.kind = if k == n - 1 {
        KneeKind::NotReached
    } else if retrograde {
        KneeKind::Retrograde
    } else {
        KneeKind::Plateau
    };
    knee.saturated_at_first = k == 0;
    knee.may_still_rise = k != n - 1 && frequencies[n - 1] >= MAY_STILL_RISE;
    knee
}

/// Fills in what needs no statistics.
fn describe(knee: &mut Knee, k: usize, peak: usize) {
    let points = &knee.points;
    let at = points[k];
    knee.threads = Some(at.threads);
    knee.tps = Some(at.tps);
    knee.peak = Some(points[peak].threads);
    knee.loss_after_peak = points[peak + 1..]
        .iter()
        .map(|p| p.tps.0 / points[peak].tps.0 - 1.0)
        .reduce(f64::min)
        .map(Ratio);
    knee.cliff = points.windows(2).find_map(|pair| {
        let share = pair[1].tps.0 / pair[0].tps.0;
        (share < CLIFF_SHARE).then(|| Cliff {
            from: pair[0].threads,
            to: pair[1].threads,
            loss: Ratio(1.0 - share),
        })
    });
    if let Some(next) = points.get(k + 1) {
        knee.next = Some(next.threads);
        knee.change_after = Some(Ratio(next.tps.0 / at.tps.0 - 1.0));
        knee.gain_after = gain_per_doubling(&at, next);
        knee.p95_factor = next
            .p95
            .zip(at.p95)
            .filter(|(_, before)| before.0 > 0.0)
            .map(|(after, before)| after.0 / before.0);
    }
}

impl Knee {
    /// Lowers the confidence by one level, for a reason that the points do not show (suspect steps).
    pub fn lower_confidence(&mut self, why: String) {
        self.confidence = match self.confidence {
            Confidence::High => Confidence::Medium,
            _ => Confidence::Low,
        };
        self.lowered = Some(why);
    }

    /// Lowers the confidence to the lowest level, where the points themselves are in doubt.
    pub fn distrust(&mut self, why: String) {
        self.confidence = Confidence::Low;
        self.lowered = Some(why);
    }

    /// The statement of the result in one line, with its confidence and robustness.
    pub fn statement(&self) -> String {
        let Some(threads) = self.threads else {
            return "No knee: no step with a throughput.".to_owned();
        };
        let at = Step::Threads(threads);
        let steps = self.points.len();
        let range = self.range_words();
        let confidence = self.confidence.as_str();
        let share = percent(self.frequency.0 * 100.0);
        // A lowered level beside its share would contradict the documented thresholds.
        let frequency = match &self.lowered {
            None => format!("{confidence}: {share} % of resamples"),
            Some(why) => format!("{confidence} ({share} % of resamples, lowered: {why})"),
        };
        let mut text = match self.kind {
            KneeKind::Insufficient => {
                let are = if steps == 1 { "is" } else { "are" };
                return format!("No knee: at least 3 valid steps are needed, there {are} {steps}.");
            }
            KneeKind::NotReached => {
                format!("Knee not reached: ≥ {at}, extend the ladder ({frequency}; range {range}).")
            }
            kind => format!("Knee {at} ({}, {frequency}; range {range}).", kind.words()),
        };
        let mut add = |sentence: String| {
            text.push(' ');
            text.push_str(&sentence);
        };
        if let (Some(next), Some(change)) = (self.next, self.change_after) {
            let p95 = self
                .p95_factor
                .map_or_else(String::new, |factor| format!(", p95 ×{factor:.1}"));
            add(format!(
                "{threads}→{next}: {} % throughput{p95}.",
                percent_beside(change, self.required_gain)
            ));
        }
        if let Some((low, high)) = self.robust {
            add(if low == high {
                format!("Robust to thresholds 10–41 %: {low}.")
            } else {
                format!("Thresholds from 41 % down to 10 % a doubling choose {low}…{high}.")
            });
        }
        if let (KneeKind::Retrograde, Some(peak), Some(loss)) =
            (self.kind, self.peak, self.loss_after_peak)
        {
            add(format!(
                "Throughput falls by up to {:.0} % beyond its peak at {peak}.",
                -loss.0 * 100.0
            ));
        }
        if let Some(cliff) = self.cliff {
            add(format!(
                "Cliff from {} to {}: −{:.0} %.",
                cliff.from,
                cliff.to,
                cliff.loss.0 * 100.0
            ));
        }
        if self.saturated_at_first {
            add(format!("Saturated at or before {at}: run lower steps."));
        }
        if self.may_still_rise {
            add("Throughput may still rise at the last step.".to_owned());
        }
        text
    }

    /// `64` or `64–128`.
    pub fn range_words(&self) -> String {
        match self.range {
            None => "n/a".to_owned(),
            Some((low, high)) if low == high => low.to_string(),
            Some((low, high)) => format!("{low}–{high}"),
        }
    }
}

/// A change in percent with its sign, with as many decimals as it takes not to be shown as the threshold
/// that it missed or passed: "+20 %" beside "gains less than 20 %" would read as a contradiction.
pub(crate) fn percent_beside(change: Ratio, threshold: Ratio) -> String {
    /// A difference that shows in none of these is noise.
    const DECIMALS: usize = 2;
    let shown = |ratio: f64, decimals: usize| format!("{:+.decimals$}", ratio * 100.0);
    let decimals = (0..DECIMALS)
        .find(|&d| shown(change.0, d) != shown(threshold.0, d))
        .unwrap_or(
            if shown(change.0, DECIMALS) == shown(threshold.0, DECIMALS) {
                0
            } else {
                DECIMALS
            },
        );
    shown(change.0, decimals)
}

/// Gain in throughput per doubling of threads from `before` to `after`:
/// `(X₂/X₁)^(1/log2(N₂/N₁)) − 1`; `None` unless threads rise and both throughputs are positive.
pub fn gain_per_doubling(before: &LadderPoint, after: &LadderPoint) -> Option<Ratio> {
    let doublings = (f64::from(after.threads) / f64::from(before.threads)).log2();
    let gain = (after.tps.0 / before.tps.0).powf(doublings.recip()) - 1.0;
    (doublings > 0.0 && before.tps.0 > 0.0 && gain.is_finite()).then_some(Ratio(gain))
}

/// Sorted, one point a step, positive throughput only; and what was done.
fn prepare(points: &[LadderPoint]) -> (Vec<LadderPoint>, Vec<String>) {
    let mut notes = Vec::new();
    let mut usable: Vec<LadderPoint> = Vec::with_capacity(points.len());
    for point in points {
        if point.threads == 0 || !point.tps.0.is_finite() || point.tps.0 <= 0.0 {
            notes.push(if point.tps.0.is_nan() {
                format!(
                    "step of {} left out: no throughput",
                    Step::Threads(point.threads)
                )
            } else {
                format!(
                    "step of {} left out: throughput {} is not a positive number",
                    Step::Threads(point.threads),
                    point.tps.0
                )
            });
        } else {
            usable.push(*point);
        }
    }
    usable.sort_by_key(|p| p.threads);
    let merged = usable
        .chunk_by(|a, b| a.threads == b.threads)
        .filter_map(|group| {
            if group.len() > 1 {
                notes.push(format!(
                    "{} points of {} averaged (geometric mean)",
                    group.len(),
                    Step::Threads(group[0].threads)
                ));
            }
            combine(group)
        })
        .collect();
    (merged, notes)
}

/// Repeats of one step as one point.
fn combine(group: &[LadderPoint]) -> Option<LadderPoint> {
    let [first, rest @ ..] = group else {
        return None;
    };
    if rest.is_empty() {
        return Some(*first);
    }
    let n = group.len() as f64;
    let geometric = |figure: fn(&LadderPoint) -> Option<Millis>| {
        super::stats::geometric_mean(group.iter().map(|p| figure(p).map(|m| m.0))).map(Millis)
    };
    let squares: Option<f64> = group.iter().map(|p| p.se.map(|se| se.0 * se.0)).sum();
    Some(LadderPoint {
        threads: first.threads,
        tps: PerSecond(super::stats::geometric_mean(
            group.iter().map(|p| Some(p.tps.0)),
        )?),
        avg: geometric(|p| p.avg),
        p95: geometric(|p| p.p95),
        p99: geometric(|p| p.p99),
        se: squares.map(|sum| Ratio(sum.sqrt() / n)),
    })
}

/// Index of the knee for a threshold; a tie goes to the smaller N.
fn best(ln_x: &[f64], ln_n: &[f64], gain: f64) -> Option<usize> {
    let beta = (1.0 + gain).log2();
    argmax(ln_x.iter().zip(ln_n).map(|(x, n)| x - beta * n))
}

/// Index of the largest value, the first among equals up to rounding.
fn argmax(values: impl Iterator<Item = f64>) -> Option<usize> {
    /// An exact tie in real numbers must stay one in floating point.
    const ROUNDING: f64 = 1e-12;
    let mut largest: Option<(usize, f64)> = None;
    for (i, value) in values.enumerate() {
        if largest.is_none_or(|(_, top)| value > top + ROUNDING) {
            largest = Some((i, value));
        }
    }
    largest.map(|(i, _)| i)
}

/// Share of resamples that choose each step: throughput with noise, the threshold with a spread.
fn bootstrap(ln_x: &[f64], ln_n: &[f64], sigma: &[f64], gain: f64) -> Vec<f64> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(BOOTSTRAP_SEED);
    let mut wins = vec![0_u32; ln_x.len()];
    let mut noisy = vec![0.0; ln_x.len()];
    for _ in 0..RESAMPLES {
        let threshold = gain * (THRESHOLD_LOW + (THRESHOLD_HIGH - THRESHOLD_LOW) * unit(&mut rng));
        for ((noisy, x), sigma) in noisy.iter_mut().zip(ln_x).zip(sigma) {
            let z: f64 = StandardNormal.sample(&mut rng);
            // A wild σ must not make a throughput negative.
            *noisy = x + (1.0 + sigma * z).max(1e-9).ln();
        }
        if let Some(winner) = best(&noisy, ln_n, threshold) {
            wins[winner] += 1;
        }
    }
    wins.iter()
        .map(|&n| f64::from(n) / f64::from(RESAMPLES))
        .collect()
}

/// Uniform in [0, 1) with 53 bits.
fn unit(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}
