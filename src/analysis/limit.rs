//! The recommended limit on concurrently active clients.

use super::findings::{Limit, LimitBasis, SoakFinding};
use super::knee::{Confidence, Knee, KneeKind, LadderPoint, gain_per_doubling, percent_beside};
use crate::plan::{Criteria, Step};
use crate::units::{Millis, PerSecond, Ratio};

/// Share of the knee to stay at when a cliff follows it: one source throttles at "about 75 % of the
/// resource's limit" (cockroachdb/docs#2463) \[S\].
const CLIFF_LIMIT: f64 = 0.75;
/// Throughput to plan with, as a share of the measured one. \[H\]
const PLANNING: f64 = 0.75;
/// Neighbouring steps closer than this have their midpoint measured: √2 with room for rounding. \[H\]
const MIDPOINT_MEASURED: f64 = 1.5;
/// A step that loses 30 % against the one before.
const CLIFF_SHARE: f64 = 0.70;

/// Derives the limit from a knee and what the plan requires.
pub(crate) fn recommend(knee: &Knee, criteria: &Criteria) -> Limit {
    let mut limit = Limit {
        threads: None,
        basis: None,
        why: String::new(),
        p95_never_met: false,
        step: None,
        throughput: None,
        planning: None,
        headroom: None,
        refine: Vec::new(),
    };
    let points = &knee.points;
    let Some(k) = knee
        .threads
        .and_then(|n| points.iter().position(|p| p.threads == n))
    else {
        "no valid step".clone_into(&mut limit.why);
        return limit;
    };
    match knee.kind {
        KneeKind::Insufficient => {
            let are = if points.len() == 1 { "is" } else { "are" };
            limit.why = format!(
                "at least 3 valid steps are needed, there {are} {}",
                points.len()
            );
        }
        kind => {
            let (at, basis) = base(knee, k, kind);
            // A percentile that is asked for at one step says nothing about the others.
            let max_p95 = criteria.max_p95.filter(|_| criteria.at.is_none());
            choose(&mut limit, knee, k, at, basis, max_p95);
            limit.refine = refine(knee, k);
        }
    }
    finish(&mut limit, points, criteria);
    limit
}

/// Where the limit starts from, before latency is asked.
fn base(knee: &Knee, k: usize, kind: KneeKind) -> (usize, LimitBasis) {
    if kind != KneeKind::NotReached
        && knee.confidence == Confidence::Low
        && let Some((low, _)) = knee.range
        && let Some(i) = knee.points.iter().position(|p| p.threads == low)
        && i < k
    {
        return (i, LimitBasis::RangeLow);
    }
    (k, LimitBasis::Knee)
}

fn choose(
    limit: &mut Limit,
    knee: &Knee,
    k: usize,
    base: usize,
    basis: LimitBasis,
    max_p95: Option<Millis>,
) {
    let points = &knee.points;
    let reached = knee.kind != KneeKind::NotReached;
    let last = points[k].threads;
    if let Some(slo) = max_p95 {
        let candidates = &points[..=base];
        if candidates.iter().all(|p| p.p95.is_none()) {
            // Without percentiles the requirement cannot be tested; the knee stands, and the criterion
            // says that it was not tested.
        } else {
            match candidates
                .iter()
                .rposition(|p| p.p95.is_some_and(|p95| p95 <= slo))
            {
                None => {
                    limit.p95_never_met = true;
                    limit.why = format!(
                        "no step up to {} keeps p95 within {slo}",
                        Step::Threads(points[base].threads)
                    );
                    return;
                }
                Some(i) if i < base => {
                    let next = &points[i + 1];
                    let over = next
                        .p95
                        .map_or_else(|| "n/a".to_owned(), |p95| p95.to_string());
                    limit.why = format!(
                        "highest step that keeps p95 within {slo} (at {} it is {over})",
                        Step::Threads(next.threads)
                    );
                    set(limit, &points[i], LimitBasis::Latency);
                    return;
                }
                Some(_) => {}
            }
        }
    }
    if !reached {
        limit.step = Some(last);
        limit.throughput = Some(points[k].tps);
        limit.why = format!(
            "the ladder ends before the knee, no limit found up to {}",
            Step::Threads(last)
        );
        return;
    }
    // Three quarters of a knee at one client is that client.
    let distance = three_quarters(points[k].threads);
    if base == k && distance < points[k].threads && cliff_follows(points, k) {
        keep_distance(limit, points, k, distance);
        return;
    }
    set(limit, &points[base], basis);
    limit.why = match basis {
        LimitBasis::RangeLow => format!(
            "low end of the range {}: confidence in the knee at {last} is low",
            knee.range_words()
        ),
        _ => format!(
            "the knee: from {} to any later step throughput gains less than {} per doubling{}",
            Step::Threads(last),
            knee.required_gain,
            most_gained(knee, k)
        ),
    };
}

/// `, at most +16 % (to 16)`: the most that a step beyond the knee gains against it. From one later step to the
/// next it may well be more.
fn most_gained(knee: &Knee, k: usize) -> String {
    knee.points[k + 1..]
        .iter()
        .filter_map(|p| Some((gain_per_doubling(&knee.points[k], p)?, p.threads)))
        .reduce(|a, b| if b.0 > a.0 { b } else { a })
        .map_or_else(String::new, |(gain, threads)| {
            let gain = percent_beside(gain, knee.required_gain);
            format!(", at most {gain} % (to {threads})")
        })
}

/// The limit below a cliff, mostly between two steps. What it carries was not measured, so the plan rests
/// on the highest step within it; below the first step, on three quarters of the knee's throughput.
fn keep_distance(limit: &mut Limit, points: &[LadderPoint], k: usize, threads: u32) {
    let within = points[..k].iter().rfind(|p| p.threads <= threads);
    // The knee's latency bounds the limit's from above, unless the limit itself was measured.
    let at = within.filter(|p| p.threads == threads);
    set(limit, at.unwrap_or(&points[k]), LimitBasis::Cliff);
    limit.threads = Some(threads);
    limit.throughput = at.map(|p| p.tps);
    let carried = within.map_or(points[k].tps.0 * CLIFF_LIMIT, |p| p.tps.0);
    limit.planning = Some(PerSecond(carried * PLANNING));
    limit.why = format!(
        "three quarters of the knee at {}: throughput falls off a cliff before {}, and nothing was measured between",
        points[k].threads,
        Step::Threads(points[k + 1].threads)
    );
}

fn set(limit: &mut Limit, point: &LadderPoint, basis: LimitBasis) {
    limit.threads = Some(point.threads);
    limit.basis = Some(basis);
    limit.step = Some(point.threads);
    limit.throughput = Some(point.tps);
    limit.planning = Some(PerSecond(point.tps.0 * PLANNING));
}

/// Holds a limit to fewer clients than its own, for a limit that another workload sets. Between two steps it is
/// known like one below a cliff: it carries at least what the highest step within does.
pub(crate) fn hold(limit: &mut Limit, points: &[LadderPoint], threads: u32, criteria: &Criteria) {
    if limit.p95_never_met || limit.threads.is_some_and(|own| own <= threads) {
        return;
    }
    let Some(at) = points.iter().find(|p| p.threads >= threads) else {
        return;
    };
    let within = points.iter().rfind(|p| p.threads <= threads);
    limit.threads = Some(threads);
    limit.step = Some(at.threads);
    limit.throughput = (at.threads == threads).then_some(at.tps);
    limit.planning = within.map(|p| PerSecond(p.tps.0 * PLANNING));
    "the limit of the instance, which another workload sets".clone_into(&mut limit.why);
    finish(limit, points, criteria);
}

fn cliff_follows(points: &[LadderPoint], k: usize) -> bool {
    points.get(k + 1).is_some_and(|next| {
        next.tps.0 < CLIFF_SHARE * points[k].tps.0
            && f64::from(next.threads) / f64::from(points[k].threads) > MIDPOINT_MEASURED
    })
}

/// Rounded down, at least one client.
fn three_quarters(threads: u32) -> u32 {
    u32::try_from(u64::from(threads) * 3 / 4)
        .unwrap_or(u32::MAX)
        .max(1)
}

/// `√(N_k·N_{k+1})`, and `√(N_{k−1}·N_k)` if the range spans it; none between close neighbours.
fn refine(knee: &Knee, k: usize) -> Vec<u32> {
    let points = &knee.points;
    let between = |a: &LadderPoint, b: &LadderPoint| {
        if f64::from(b.threads) / f64::from(a.threads) <= MIDPOINT_MEASURED {
            return None;
        }
        let middle = (f64::from(a.threads) * f64::from(b.threads)).sqrt().round();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between two u32"
        )]
        let middle = middle as u32;
        (middle > a.threads && middle < b.threads).then_some(middle)
    };
    let mut steps = Vec::new();
    if k > 0 && knee.range.is_some_and(|(low, _)| low < points[k].threads) {
        steps.extend(between(&points[k - 1], &points[k]));
    }
    if let Some(next) = points.get(k + 1) {
        steps.extend(between(&points[k], next));
    }
    steps
}

/// A soak that did not hold lowers the limit below its clients: to the highest step measured there. Without
/// one there is no limit to recommend.
pub(crate) fn lower_by_soak(
    limit: &mut Limit,
    knee: Option<&Knee>,
    soak: &SoakFinding,
    criteria: &Criteria,
) {
    let (Some(knee), Some(Step::Threads(held))) = (knee, soak.step) else {
        return;
    };
    if !soak.outcome.is_against()
        || limit.p95_never_met
        || limit.threads.is_some_and(|n| n < held)
        || knee.kind == KneeKind::Insufficient
    {
        return;
    }
    let why = format!("the soak at {} did not hold", Step::Threads(held));
    if let Some(point) = knee.points.iter().rfind(|p| p.threads < held) {
        set(limit, point, LimitBasis::Soak);
        limit.why = format!("{why}; the highest step measured below it");
    } else {
        (limit.threads, limit.basis) = (None, Some(LimitBasis::Soak));
        (limit.step, limit.throughput, limit.planning) = (None, None, None);
        limit.why = format!("{why}, and no lower step was measured");
    }
    limit.headroom = None;
    if limit.threads.is_some() {
        finish(limit, &knee.points, criteria);
    }
}

fn finish(limit: &mut Limit, points: &[LadderPoint], criteria: &Criteria) {
    // Without a knee the highest throughput measured is still a fact to hold against the peak; behind a
    // limit that was not measured, what the steps within it carried.
    let best = limit.throughput.or_else(|| {
        if limit.p95_never_met {
            return None;
        }
        if let Some(threads) = limit.threads {
            return points.iter().rfind(|p| p.threads <= threads).map(|p| p.tps);
        }
        points
            .iter()
            .map(|p| p.tps)
            .reduce(|a, b| if b > a { b } else { a })
    });
    limit.headroom = best
        .zip(criteria.expected_peak_tps.filter(|peak| *peak > 0.0))
        .map(|(tps, peak)| Ratio(tps.0 / peak - 1.0));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
mod tests {
    use super::super::knee::{DEFAULT_GAIN, from_points};
    use super::*;

    fn ladder(points: &[(u32, f64, f64)]) -> Knee {
        let points: Vec<LadderPoint> = points
            .iter()
            .map(|&(threads, tps, p95)| LadderPoint {
                p95: Some(Millis(p95)),
                ..LadderPoint::new(threads, tps)
            })
            .collect();
        from_points(&points, DEFAULT_GAIN)
    }

    fn max_p95(ms: f64) -> Criteria {
        Criteria {
            max_p95: Some(Millis(ms)),
            ..Criteria::default()
        }
    }

    const PLATEAU: [(u32, f64, f64); 5] = [
        (8, 500.0, 20.0),
        (16, 950.0, 22.0),
        (32, 1800.0, 25.0),
        (64, 1850.0, 50.0),
        (128, 1840.0, 100.0),
    ];

    #[test]
    fn a_clear_knee_is_the_limit() {
        let limit = recommend(&ladder(&PLATEAU), &Criteria::default());
        assert_eq!(
            (limit.threads, limit.basis),
            (Some(32), Some(LimitBasis::Knee))
        );
        assert_eq!(limit.planning, Some(PerSecond(1350.0)));
        assert_eq!(limit.refine, [45]);
    }

    #[test]
    fn latency_lowers_the_limit_and_can_leave_none() {
        let limit = recommend(&ladder(&PLATEAU), &max_p95(23.0));
        assert_eq!(
            (limit.threads, limit.basis),
            (Some(16), Some(LimitBasis::Latency))
        );
        let none = recommend(&ladder(&PLATEAU), &max_p95(10.0));
        assert_eq!(none.threads, None);
        assert!(none.p95_never_met);
    }

    #[test]
    fn a_cliff_right_after_the_knee_keeps_a_distance() {
        let cliff = [
            (8, 500.0, 20.0),
            (16, 990.0, 22.0),
            (32, 1900.0, 25.0),
            (64, 900.0, 90.0),
            (128, 500.0, 200.0),
        ];
        let limit = recommend(&ladder(&cliff), &Criteria::default());
        assert_eq!(
            (limit.threads, limit.basis),
            (Some(24), Some(LimitBasis::Cliff))
        );
        // 24 was not measured: no throughput is claimed there, and the plan rests on what 16 carried.
        assert_eq!(limit.throughput, None);
        assert_eq!(limit.planning, Some(PerSecond(0.75 * 990.0)));
        assert!(limit.why.contains("before 64 threads"), "{}", limit.why);
        // With the midpoint measured the knee itself will do.
        let measured = [
            (8, 500.0, 20.0),
            (16, 990.0, 22.0),
            (32, 1900.0, 25.0),
            (45, 900.0, 90.0),
            (64, 500.0, 200.0),
        ];
        let limit = recommend(&ladder(&measured), &Criteria::default());
        assert_eq!(
            (limit.threads, limit.basis),
            (Some(32), Some(LimitBasis::Knee))
        );
    }

    #[test]
    fn below_a_cliff_only_what_was_measured_counts() {
        let peak = Criteria {
            expected_peak_tps: Some(1000.0),
            ..Criteria::default()
        };
        // The limit is a step of the ladder.
        let step = [
            (8, 500.0, 20.0),
            (24, 1500.0, 22.0),
            (32, 1900.0, 25.0),
            (64, 900.0, 90.0),
        ];
        let limit = recommend(&ladder(&step), &peak);
        assert_eq!(limit.basis, Some(LimitBasis::Cliff));
        assert_eq!((limit.threads, limit.step), (Some(24), Some(24)));
        assert_eq!(limit.throughput, Some(PerSecond(1500.0)));
        assert_eq!(limit.planning, Some(PerSecond(1125.0)));
        assert_eq!(limit.headroom, Some(Ratio(0.5)));
        // Nothing was measured up to the limit.
        let first = [(4, 400.0, 20.0), (8, 200.0, 40.0), (16, 150.0, 90.0)];
        let limit = recommend(&ladder(&first), &peak);
        assert_eq!((limit.threads, limit.throughput), (Some(3), None));
        assert_eq!(limit.planning, Some(PerSecond(0.75 * 0.75 * 400.0)));
        assert_eq!(limit.headroom, None);
    }

    #[test]
    fn three_quarters_of_one_client_is_no_distance() {
        let first = [(1, 400.0, 20.0), (2, 200.0, 40.0), (4, 150.0, 90.0)];
        let limit = recommend(&ladder(&first), &Criteria::default());
        assert_eq!(
            (limit.threads, limit.basis),
            (Some(1), Some(LimitBasis::Knee))
        );
        assert!(
            limit
                .why
                .starts_with("the knee: from 1 thread to any later step"),
            "{}",
            limit.why
        );
    }

    #[test]
    fn a_knee_that_was_not_reached_gives_no_limit_but_a_throughput() {
        let rising = [(8, 500.0, 20.0), (16, 950.0, 22.0), (32, 1800.0, 25.0)];
        let criteria = Criteria {
            expected_peak_tps: Some(1200.0),
            ..Criteria::default()
        };
        let limit = recommend(&ladder(&rising), &criteria);
        assert_eq!(limit.threads, None);
        assert_eq!(limit.planning, None);
        assert_eq!(limit.headroom, Some(Ratio(0.5)));
        assert!(limit.why.contains("no limit found up to 32"));
    }

    #[test]
    fn low_confidence_recommends_the_low_end() {
        let mut knee = ladder(&PLATEAU);
        knee.confidence = Confidence::Low;
        knee.range = Some((16, 64));
        let limit = recommend(&knee, &Criteria::default());
        assert_eq!(
            (limit.threads, limit.basis),
            (Some(16), Some(LimitBasis::RangeLow))
        );
        assert_eq!(limit.refine, [23, 45]);
    }
}
