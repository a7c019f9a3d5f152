//! The knee on published ladders, on an exact queueing model, and under changes that must not matter.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

use capbench::analysis::knee::{
    Confidence, DEFAULT_GAIN, Knee, KneeKind, LadderPoint, from_points,
};
use capbench::units::{Millis, PerSecond, Ratio};
use proptest::prelude::*;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::Deserialize;

#[derive(Deserialize)]
struct Published {
    id: String,
    rows: Vec<Row>,
    knee_expected: Expected,
}

#[derive(Deserialize)]
struct Row {
    threads: u32,
    tps: Option<f64>,
    qps: Option<f64>,
    p95_ms: Option<f64>,
}

#[derive(Deserialize)]
struct Expected {
    acceptable: Vec<u32>,
    kinds_accepted: Vec<String>,
}

fn points(rows: &[Row]) -> Vec<LadderPoint> {
    rows.iter()
        .map(|row| LadderPoint {
            p95: row.p95_ms.map(Millis),
            ..LadderPoint::new(row.threads, row.tps.or(row.qps).unwrap())
        })
        .collect()
}

fn knee(points: &[LadderPoint]) -> Knee {
    from_points(points, DEFAULT_GAIN)
}

fn ladder(points: &[(u32, f64)]) -> Vec<LadderPoint> {
    points
        .iter()
        .map(|&(n, x)| LadderPoint::new(n, x))
        .collect()
}

fn published() -> Vec<Published> {
    serde_json::from_str(include_str!("data/ladders.json")).unwrap()
}

#[test]
fn published_ladders_get_an_accepted_knee_and_kind() {
    let ladders = published();
    assert!(ladders.len() >= 50);
    let mut wrong = Vec::new();
    for ladder in ladders {
        let found = knee(&points(&ladder.rows));
        let expected = &ladder.knee_expected;
        if !expected.acceptable.contains(&found.threads.unwrap())
            || !expected
                .kinds_accepted
                .contains(&found.kind.as_str().to_owned())
        {
            wrong.push(format!("{}: {}", ladder.id, found.statement()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn dropping_a_step_that_did_not_win_keeps_the_knee() {
    for ladder in published() {
        let all = points(&ladder.rows);
        let chosen = knee(&all).threads;
        for i in 0..all.len() {
            if Some(all[i].threads) == chosen {
                continue;
            }
            let mut rest = all.clone();
            rest.remove(i);
            assert_eq!(knee(&rest).threads, chosen, "{} without {}", ladder.id, i);
        }
    }
}

#[test]
fn the_example_of_the_method_has_its_knee_at_32() {
    // 8→32 almost linear, 32→64 +18 % with p95 38.9→68.4 ms.
    let mut steps = ladder(&[
        (8, 520.0),
        (16, 960.0),
        (32, 1550.0),
        (64, 1830.0),
        (128, 1850.0),
    ]);
    steps[2].p95 = Some(Millis(38.9));
    steps[3].p95 = Some(Millis(68.4));
    let found = knee(&steps);
    assert_eq!(found.threads, Some(32));
    assert_eq!(found.kind, KneeKind::Plateau);
    let statement = found.statement();
    assert!(
        statement.contains("32→64: +18 % throughput, p95 ×1.8"),
        "{statement}"
    );
}

#[test]
fn a_gain_just_below_the_threshold_is_not_shown_as_the_threshold() {
    let statement =
        |next: f64| knee(&ladder(&[(1, 500.0), (2, 1000.0), (4, next), (8, 1200.0)])).statement();
    let near = statement(1198.0);
    assert!(near.contains("2→4: +19.8 % throughput"), "{near}");
    let far = statement(1150.0);
    assert!(far.contains("2→4: +15 % throughput"), "{far}");
}

#[test]
fn a_lowered_confidence_says_so_beside_its_share() {
    let mut found = knee(&ladder(&[(1, 1000.0), (2, 900.0), (4, 800.0)]));
    assert_eq!(found.confidence, Confidence::High);
    found.lower_confidence("suspect step of 1 thread".to_owned());
    let statement = found.statement();
    assert!(
        statement.starts_with(
            "Knee 1 thread (retrograde, medium (100 % of resamples, lowered: suspect step of 1 thread); range 1)."
        ),
        "{statement}"
    );
}

#[test]
fn each_kind() {
    let kind = |points: &[(u32, f64)]| {
        let found = knee(&ladder(points));
        (found.threads, found.kind)
    };
    assert_eq!(knee(&[]).kind, KneeKind::Insufficient);
    assert_eq!(knee(&[]).threads, None);
    assert_eq!(kind(&[(8, 1.0), (16, 2.0)]).1, KneeKind::Insufficient);
    assert_eq!(
        kind(&[(8, 500.0), (16, 950.0), (32, 1800.0)]),
        (Some(32), KneeKind::NotReached)
    );
    assert_eq!(
        kind(&[(8, 500.0), (16, 950.0), (32, 960.0), (64, 955.0)]),
        (Some(16), KneeKind::Plateau)
    );
    assert_eq!(
        kind(&[(8, 500.0), (16, 950.0), (32, 960.0), (64, 600.0)]),
        (Some(16), KneeKind::Retrograde)
    );
    // 10 % below the peak is not below 90 % of it, and 11 % is within 2.6 σ of 3 % noise a step (11.03 %).
    assert_eq!(
        kind(&[(8, 500.0), (16, 1000.0), (32, 1000.0), (64, 891.0)]).1,
        KneeKind::Plateau
    );
    assert_eq!(
        kind(&[(8, 500.0), (16, 1000.0), (32, 1000.0), (64, 885.0)]).1,
        KneeKind::Retrograde
    );
}

#[test]
fn a_tie_goes_to_fewer_threads() {
    // Exactly 20 % a doubling.
    let found = knee(&ladder(&[
        (8, 1000.0),
        (16, 1200.0),
        (32, 1440.0),
        (64, 1440.0),
    ]));
    assert_eq!(found.threads, Some(8));
    assert!(found.saturated_at_first);
}

#[test]
fn flags_for_both_ends() {
    let first = knee(&ladder(&[(8, 1000.0), (16, 1010.0), (32, 1005.0)]));
    assert!(first.saturated_at_first);
    let rising = knee(&ladder(&[(8, 1000.0), (16, 1900.0), (32, 2250.0)]));
    assert_eq!(rising.threads, Some(16));
    assert!(rising.may_still_rise, "{}", rising.statement());
    assert_eq!(rising.range, Some((16, 32)));
    let cliff = knee(&ladder(&[(8, 1000.0), (16, 1900.0), (32, 1000.0)]));
    assert_eq!(cliff.cliff.map(|c| (c.from, c.to)), Some((16, 32)));
}

#[test]
fn unusable_points_are_left_out_and_said() {
    let mut steps = ladder(&[
        (64, 1000.0),
        (8, 500.0),
        (16, f64::NAN),
        (32, 980.0),
        (128, 0.0),
        (256, -4.0),
        (0, 10.0),
        (512, f64::INFINITY),
    ]);
    let found = knee(&steps);
    assert_eq!(
        found.points.iter().map(|p| p.threads).collect::<Vec<_>>(),
        [8, 32, 64]
    );
    assert_eq!(found.notes.len(), 5);
    steps.push(LadderPoint::new(32, 1020.0));
    let averaged = knee(&steps);
    assert!((averaged.points[1].tps.0 - (980.0_f64 * 1020.0).sqrt()).abs() < 1e-9);
    assert!(averaged.notes.iter().any(|n| n.contains("averaged")));
}

#[test]
fn a_wide_error_widens_the_range() {
    let mut steps = ladder(&[
        (8, 500.0),
        (16, 950.0),
        (32, 1500.0),
        (64, 1700.0),
        (128, 1720.0),
    ]);
    let sure = knee(&steps);
    for step in &mut steps {
        step.se = Some(Ratio(0.20));
    }
    let unsure = knee(&steps);
    assert_eq!(sure.threads, unsure.threads);
    assert!(unsure.frequency.0 < sure.frequency.0);
    assert!(unsure.confidence < Confidence::High);
    let width = |k: &Knee| k.range.map(|(low, high)| high / low).unwrap();
    assert!(width(&unsure) > width(&sure));
}

/// Throughput of a closed network with one station of `servers` servers (service time 1) and a delay
/// `think`, in product form: `X(n) = G(n−1)/G(n)`, `G(n) = Σ_j Z^(n−j)/(n−j)! · 1/∏_{i≤j} min(i, c)`.
/// In logarithms; mean value analysis loses its digits near saturation.
fn closed_queue(servers: u32, think: f64, clients: u32) -> f64 {
    let ln_g = |n: u32| -> f64 {
        let terms: Vec<f64> = (0..=n)
            .filter(|&j| think > 0.0 || j == n)
            .map(|j| {
                let station: f64 = (1..=j).map(|i| f64::from(i.min(servers)).ln()).sum();
                let delay: f64 = (1..=n - j).map(|i| (think / f64::from(i)).ln()).sum();
                delay - station
            })
            .collect();
        let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        top + terms.iter().map(|t| (t - top).exp()).sum::<f64>().ln()
    };
    (ln_g(clients - 1) - ln_g(clients)).exp()
}

#[test]
fn the_model_of_a_queue_is_right() {
    // One client never waits; far beyond saturation the servers are the limit.
    assert!((closed_queue(4, 1.0, 1) - 0.5).abs() < 1e-12);
    assert!((closed_queue(4, 1.0, 64) - 4.0).abs() < 1e-6);
    // One server, two clients, equal rates: p ∝ (1/2, 1, 1), so X = 1 − 0.2.
    assert!((closed_queue(1, 1.0, 2) - 0.8).abs() < 1e-12);
}

#[test]
fn confidence_is_calibrated_on_a_queue_with_a_known_answer() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
    // (exact, near, all) by confidence.
    let mut counts = [(0, 0, 0); 3];
    for servers in [4, 8, 12, 16, 24, 32, 48, 64] {
        for think in [0.0, 1.0, 3.0] {
            let steps: Vec<u32> = (0..9).map(|i| 1 << i).collect();
            let exact = ladder(
                &steps
                    .iter()
                    .map(|&n| (n, closed_queue(servers, think, n)))
                    .collect::<Vec<_>>(),
            );
            let truth = knee(&exact).threads.unwrap();
            // N* = servers · (think + 1): the noiseless knee is that step or one beside it.
            let ideal = f64::from(servers) * (think + 1.0);
            let off = (f64::from(truth) / ideal).log2().abs();
            assert!(
                off <= 1.0 || truth == 256,
                "{servers} {think}: {truth} for {ideal}"
            );
            for _ in 0..6 {
                let noisy: Vec<LadderPoint> = exact
                    .iter()
                    .map(|p| {
                        let z: f64 = StandardNormal.sample(&mut rng);
                        LadderPoint {
                            tps: PerSecond(p.tps.0 * (1.0 + 0.03 * z)),
                            ..*p
                        }
                    })
                    .collect();
                let found = knee(&noisy);
                let count = &mut counts[found.confidence as usize];
                let n = found.threads.unwrap();
                count.0 += i32::from(n == truth);
                count.1 += i32::from(n == truth || n == 2 * truth || 2 * n == truth);
                count.2 += 1;
            }
        }
    }
    let [low, medium, high] = counts;
    assert!(high.2 >= 40, "{counts:?}");
    assert!(f64::from(high.0) >= 0.90 * f64::from(high.2), "{counts:?}");
    for (_, near, all) in [low, medium, high] {
        assert!(f64::from(near) >= 0.98 * f64::from(all), "{counts:?}");
    }
}

/// A ladder of doublings with gains between −40 % and +110 %.
fn any_ladder() -> impl Strategy<Value = Vec<LadderPoint>> {
    (
        1_u32..16,
        10.0..1e5_f64,
        proptest::collection::vec(0.6..2.1_f64, 2..9),
    )
        .prop_map(|(first, base, factors)| {
            let mut threads = first;
            let mut tps = base;
            let mut points = vec![LadderPoint::new(threads, tps)];
            for factor in factors {
                threads *= 2;
                tps *= factor;
                points.push(LadderPoint::new(threads, tps));
            }
            points
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_step_that_does_not_win_moves_nothing(
        points in any_ladder(), at in 0.0..1.0_f64, share in 0.3..0.999_f64,
    ) {
        let before = knee(&points);
        let (k, x) = (before.threads.unwrap(), before.tps.unwrap().0);
        let beta = (1.0 + DEFAULT_GAIN.0).log2();
        let top = f64::from(points.last().unwrap().threads);
        let threads = (top.powf(at)).round().max(1.0) as u32;
        prop_assume!(points.iter().all(|p| p.threads != threads));
        // Below the line through the knee by `share`.
        let line = x * (f64::from(threads) / f64::from(k)).powf(beta);
        let mut more = points.clone();
        more.push(LadderPoint::new(threads, line * share));
        prop_assert_eq!(knee(&more).threads, Some(k));
    }

    #[test]
    fn scale_and_order_do_not_matter(points in any_ladder(), scale in 1e-3..1e3_f64, seed: u64) {
        let before = knee(&points);
        let mut changed: Vec<LadderPoint> = points
            .iter()
            .map(|p| LadderPoint { tps: PerSecond(p.tps.0 * scale), ..*p })
            .collect();
        // Any rotation and reversal.
        let n = changed.len();
        changed.rotate_left(usize::try_from(seed % 97).unwrap() % n);
        if seed % 2 == 1 {
            changed.reverse();
        }
        let after = knee(&changed);
        prop_assert_eq!(before.threads, after.threads);
        prop_assert_eq!(before.kind, after.kind);
        prop_assert_eq!(before.range, after.range);
    }

    #[test]
    fn the_knee_lies_in_its_range_and_never_beyond_the_peak(points in any_ladder()) {
        let found = knee(&points);
        let (low, high) = found.range.unwrap();
        let k = found.threads.unwrap();
        prop_assert!(low <= k && k <= high);
        prop_assert!(k <= found.peak.unwrap());
        prop_assert_eq!(found.kind == KneeKind::NotReached, k == points.last().unwrap().threads);
        let (strict, lax) = found.robust.unwrap();
        prop_assert!(strict <= k && k <= lax);
    }
}
