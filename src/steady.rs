//! Steady state: where a cell's warm-up ends, and whether it holds afterwards. Arithmetic on throughputs
//! alone, so that the run itself can ask it while a step goes on.

/// Batches of 5 for intervals shorter than this many seconds, single intervals otherwise: with 10-s
/// lines and m = 5 the cut hit its limit needlessly, with m = 1 it found a 50-s decay \[M\].
const SHORT_INTERVAL: f64 = 5.0;
const BATCH: usize = 5;
/// Series too short for batches of 5 use single intervals as well. \[H\]
const FEWEST_BATCHES: usize = 4;
/// Below this many batches a cut at the limit proves nothing: even with 24 batches 15 % of the real
/// 120-s steps hit it \[M\]. The halves decide alone there. \[H\]
const BATCHES_TO_REJECT: usize = 8;
/// Halves that differ by more are not steady (6 % of real 900-s runs) \[M\].
pub(crate) const HALVES: f64 = 0.05;

/// The steady part of a cell's measured intervals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cut {
    /// Intervals to drop from the start.
    pub(crate) drop: usize,
    /// Whether what remains counts as steady.
    pub(crate) steady: bool,
    /// Whether MSER found no cut within the first half.
    pub(crate) limit_reached: bool,
    /// Throughput of the second half of what remains against the first, minus 1; `None`: too few intervals.
    pub(crate) halves: Option<f64>,
}

/// MSER-m (White): the cut `d` minimises `Σ_{i≥d}(y_i−ȳ_d)²/(n−d)²` over batch means; it is refused
/// when it reaches n/2. `tps` are the throughputs of consecutive intervals of about `seconds` each.
pub(crate) fn cut(tps: &[f64], seconds: f64) -> Cut {
    let size = if seconds < SHORT_INTERVAL && tps.len() >= BATCH * FEWEST_BATCHES {
        BATCH
    } else {
        1
    };
    let batches = batch_means(tps, size);
    let limit = batches.len() / 2;
    let chosen = mser(&batches, limit);
    let at_limit = limit > 0 && chosen == limit;
    let limit_reached = at_limit && batches.len() >= BATCHES_TO_REJECT;
    // A short series that hits the limit keeps everything; a long one keeps its later half, which is
    // the least unsteady part, and says that it is not steady.
    let batches_dropped = if at_limit && !limit_reached {
        0
    } else {
        chosen
    };
    let drop = if batches_dropped == 0 {
        0
    } else {
        tps.len() % size + batches_dropped * size
    };
    let halves = halves(&tps[drop..]);
    Cut {
        drop,
        steady: !limit_reached && halves.is_none_or(|h| h.abs() <= HALVES),
        limit_reached,
        halves,
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Means of whole batches; the odd rest is left out at the start.
fn batch_means(values: &[f64], size: usize) -> Vec<f64> {
    values[values.len() % size..]
        .chunks_exact(size)
        .filter_map(mean)
        .collect()
}

/// The cut in batches, at most `limit`.
fn mser(batches: &[f64], limit: usize) -> usize {
    let mut smallest = (0, f64::INFINITY);
    for d in 0..=limit.min(batches.len().saturating_sub(1)) {
        let rest = &batches[d..];
        let Some(centre) = mean(rest) else { break };
        let squares: f64 = rest.iter().map(|y| (y - centre).powi(2)).sum();
        let score = squares / (rest.len() as f64).powi(2);
        if score < smallest.1 {
            smallest = (d, score);
        }
    }
    smallest.0
}

/// Second half against the first, minus 1; the middle interval of an odd number is in neither.
fn halves(tps: &[f64]) -> Option<f64> {
    let half = tps.len() / 2;
    let first = mean(&tps[..half]).filter(|m| *m > 0.0)?;
    let second = mean(&tps[tps.len() - half..])?;
    Some(second / first - 1.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
mod tests {
    use super::*;

    /// Small deterministic noise around a level.
    fn series(levels: &[(f64, usize)]) -> Vec<f64> {
        let mut out = Vec::new();
        for &(level, count) in levels {
            for _ in 0..count {
                let i = out.len() as f64;
                out.push(level * (1.0 + 0.01 * (i * 12.9898).sin()));
            }
        }
        out
    }

    #[test]
    fn a_ramp_is_cut_and_the_rest_is_steady() {
        let found = cut(
            &series(&[(300.0, 2), (600.0, 1), (900.0, 1), (1000.0, 26)]),
            10.0,
        );
        assert!((4..=8).contains(&found.drop), "{found:?}");
        assert!(found.steady, "{found:?}");
    }

    #[test]
    fn short_intervals_are_batched_by_five() {
        let found = cut(&series(&[(500.0, 12), (1000.0, 108)]), 1.0);
        assert_eq!(found.drop, 15, "whole batches of five");
        assert!(found.steady);
    }

    #[test]
    fn a_series_without_a_ramp_keeps_nearly_everything() {
        let found = cut(&series(&[(1000.0, 30)]), 10.0);
        assert!(found.drop <= 10, "{found:?}");
        assert!(found.steady);
    }

    #[test]
    fn a_decay_through_the_whole_cell_is_not_steady() {
        let falling: Vec<f64> = (0..30).map(|i| 10_100.0 - 210.0 * f64::from(i)).collect();
        let found = cut(&falling, 10.0);
        assert!(found.limit_reached);
        assert!(!found.steady);
    }

    #[test]
    fn a_step_within_the_window_shows_in_the_halves() {
        // Six intervals: too few for MSER to refuse, so the halves tell.
        let found = cut(&[100.0, 100.0, 100.5, 92.0, 92.5, 92.0], 10.0);
        assert_eq!(found.drop, 0);
        assert!(!found.limit_reached);
        assert!(!found.steady, "{found:?}");
    }

    #[test]
    fn tiny_series_do_not_panic_and_are_not_judged() {
        for n in 0..4 {
            let found = cut(&vec![100.0; n], 10.0);
            assert_eq!(found.drop, 0);
            assert!(found.steady);
        }
        assert_eq!(cut(&[100.0], 10.0).halves, None);
        assert!(cut(&[0.0; 12], 1.0).halves.is_none());
    }
}
