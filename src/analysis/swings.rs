//! Periodic swings of throughput: the mark of flushing and checkpoints.

use serde::Serialize;

use super::stats::mean;
use crate::probe::names::server as n;
use crate::record::{Interval, Place, Sample};

/// Fewer intervals show no period.
const FEWEST: usize = 20;
/// Correlation of the series with itself one period on. \[H\]
const CORRELATION: f64 = 0.4;
/// Smallest difference between the high and the low of a swing, as a share of the mean. \[H\]
const DEPTH: f64 = 0.10;
/// A peak of at least this share of the highest is as good.
const NEARLY: f64 = 0.8;
/// Periods that must fit the series at least.
const PERIODS: usize = 3;

/// Correlation from which on a counter is said to move with the throughput. \[H\]
const MOVES: f64 = 0.5;
/// Counters that are named with a swing at most.
const MOST_NAMED: usize = 4;

/// How a figure is read over an interval.
#[derive(Debug, Clone, Copy)]
enum Reading {
    /// By its growth.
    Counter,
    /// By the mean of both ends.
    Gauge,
}

/// What can make throughput swing; counts that follow it by themselves (statements, bytes) say nothing.
const WATCHED: &[(&str, Reading)] = &[
    (n::BUFFER_POOL_PAGES_FLUSHED, Reading::Counter),
    (n::BUFFER_POOL_PAGES_DIRTY, Reading::Gauge),
    (n::BUFFER_POOL_WAIT_FREE, Reading::Counter),
    (n::BUFFER_POOL_READS, Reading::Counter),
    (n::CHECKPOINT_AGE, Reading::Gauge),
    (n::DATA_WRITTEN, Reading::Counter),
    (n::DATA_FSYNCS, Reading::Counter),
    (n::DATA_PENDING_WRITES, Reading::Gauge),
    (n::DATA_PENDING_FSYNCS, Reading::Gauge),
    (n::LOG_WAITS, Reading::Counter),
    (n::ROW_LOCK_TIME, Reading::Counter),
    (n::HISTORY_LENGTH, Reading::Gauge),
    (n::TMP_DISK_TABLES, Reading::Counter),
    (n::THREADS_RUNNING, Reading::Gauge),
];

/// A counter that moves with the throughput.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Moving {
    /// Its name in server.csv.
    pub counter: String,
    /// Correlation with the throughput of the same intervals; negative: high when the throughput is low.
    pub correlation: f64,
}

/// A periodic swing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Swing {
    /// Seconds from one low to the next.
    pub(crate) period: f64,
    /// Ninth decile minus first decile, as a share of the mean.
    pub(crate) depth: f64,
    /// Counters that move with it, the closest first.
    pub(crate) moves: Vec<Moving>,
}

/// Counters that move with the throughputs of `intervals`, the closest first.
pub(crate) fn moving(samples: &[Sample], intervals: &[&Interval], tps: &[f64]) -> Vec<Moving> {
    let nearest = |at: f64, tolerance: f64| {
        samples
            .iter()
            .min_by(|a, b| (a.at - at).abs().total_cmp(&(b.at - at).abs()))
            .filter(|sample| (sample.at - at).abs() <= tolerance)
    };
    let ends: Vec<(f64, Option<(&Sample, &Sample)>)> = intervals
        .iter()
        .zip(tps)
        .map(|(interval, tps)| {
            let tolerance = 0.5 * interval.seconds();
            let from = nearest(interval.start, tolerance);
            (*tps, from.zip(nearest(interval.end, tolerance)))
        })
        .collect();
    let mut found: Vec<Moving> = WATCHED
        .iter()
        .filter_map(|(name, reading)| {
            let mut place = Place::default();
            let pairs: Vec<(f64, f64)> = ends
                .iter()
                .filter_map(|(tps, ends)| {
                    let (from, to) = (*ends)?;
                    let a = from.values.get_again(name, &mut place)?;
                    let b = to.values.get_again(name, &mut place)?;
                    let seconds = to.at - from.at;
                    let value = match reading {
                        Reading::Counter if seconds > 0.0 && b >= a => (b - a) / seconds,
                        Reading::Counter => return None,
                        Reading::Gauge => f64::midpoint(a, b),
                    };
                    Some((*tps, value))
                })
                .collect();
            let correlation = correlation(&pairs)?;
            (correlation.abs() >= MOVES).then(|| Moving {
                counter: (*name).to_owned(),
                correlation,
            })
        })
        .collect();
    found.sort_by(|a, b| b.correlation.abs().total_cmp(&a.correlation.abs()));
    found.truncate(MOST_NAMED);
    found
}

/// Pearson's coefficient; `None` for too few pairs or without any movement.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < FEWEST {
        return None;
    }
    let centre = |pick: fn(&(f64, f64)) -> f64| mean(&pairs.iter().map(pick).collect::<Vec<_>>());
    let (x, y) = (centre(|p| p.0)?, centre(|p| p.1)?);
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        xy += (a - x) * (b - y);
        xx += (a - x).powi(2);
        yy += (b - y).powi(2);
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

/// Looks for a period in the throughputs of consecutive intervals of `seconds` each: the lag of the
/// highest autocorrelation behind its first negative one, at least three periods long in the series.
pub(crate) fn find(tps: &[f64], seconds: f64) -> Option<Swing> {
    let n = tps.len();
    if n < FEWEST {
        return None;
    }
    let centre = mean(tps).filter(|m| *m > 0.0)?;
    let off: Vec<f64> = tps.iter().map(|t| t - centre).collect();
    let power: f64 = off.iter().map(|o| o * o).sum();
    if power <= 0.0 {
        return None;
    }
    let correlation = |lag: usize| -> f64 {
        let sum: f64 = off.iter().zip(&off[lag..]).map(|(a, b)| a * b).sum();
        // Each lag has fewer pairs; without this a long period looks weaker than it is.
        sum / power * n as f64 / (n - lag) as f64
    };
    let longest = n / PERIODS;
    // A trend or slow drift stays positive: no swing without a dip in between.
    let dip = (1..longest).find(|&lag| correlation(lag) < 0.0)?;
    let height = (dip + 1..=longest).map(correlation).reduce(f64::max)?;
    // Twice the period correlates as well: the first peak that is nearly as high is the period.
    let lag = (dip + 1..=longest).find(|&lag| {
        let here = correlation(lag);
        here >= NEARLY * height && here >= correlation(lag - 1) && here >= correlation(lag + 1)
    })?;
    let mut sorted = tps.to_vec();
    sorted.sort_by(f64::total_cmp);
    let depth = (sorted[n - 1 - n / 10] - sorted[n / 10]) / centre;
    (height >= CORRELATION && depth >= DEPTH).then_some(Swing {
        period: lag as f64 * seconds,
        depth,
        moves: Vec::new(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
mod tests {
    use super::*;

    fn noise(i: usize) -> f64 {
        20.0 * (i as f64 * 12.9898).sin() * (i as f64 * 78.233).cos()
    }

    #[test]
    fn a_checkpoint_every_eight_intervals_is_found() {
        let series: Vec<f64> = (0..60)
            .map(|i| if i % 8 < 2 { 600.0 } else { 1000.0 } + noise(i))
            .collect();
        let swing = find(&series, 10.0).unwrap();
        assert_eq!(swing.period, 80.0);
        assert!(swing.depth > 0.3);
    }

    #[test]
    fn the_counter_behind_a_swing_is_named() {
        let level = |i: usize| if i % 8 < 2 { 600.0 } else { 1000.0 } + noise(i);
        let tps: Vec<f64> = (0..40).map(level).collect();
        let intervals: Vec<Interval> = (0..40)
            .map(|i| {
                let start = 10.0 * f64::from(i);
                Interval::empty(start, start + 10.0, crate::record::Phase::Measure)
            })
            .collect();
        let kept: Vec<&Interval> = intervals.iter().collect();
        let mut flushed = 0.0;
        let samples: Vec<Sample> = (0..=40)
            .map(|i| {
                if i > 0 {
                    // Pages are flushed when the throughput is low.
                    flushed += if (i - 1) % 8 < 2 { 9000.0 } else { 500.0 };
                }
                let values = [
                    (n::BUFFER_POOL_PAGES_FLUSHED, flushed),
                    (n::LOG_WAITS, 5.0),
                    (n::HISTORY_LENGTH, 100.0 + noise(7 * i + 3)),
                ];
                Sample {
                    at: 10.0 * i as f64 + 0.1,
                    values: values.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
                }
            })
            .collect();
        let moves = moving(&samples, &kept, &tps);
        assert_eq!(moves.len(), 1, "{moves:?}");
        assert_eq!(moves[0].counter, n::BUFFER_POOL_PAGES_FLUSHED);
        assert!(moves[0].correlation < -0.9, "{moves:?}");
        assert!(moving(&[], &kept, &tps).is_empty());
    }

    #[test]
    fn noise_a_trend_and_a_step_are_no_swing() {
        let cases: [fn(usize) -> f64; 4] = [
            |i| 1000.0 + noise(i),
            |i| 1000.0 - 10.0 * i as f64 + noise(i),
            |i| if i < 30 { 1000.0 } else { 700.0 },
            |_| 1000.0,
        ];
        for (case, level) in cases.iter().enumerate() {
            let series: Vec<f64> = (0..60).map(level).collect();
            assert_eq!(find(&series, 10.0), None, "case {case}");
        }
        assert_eq!(find(&[1.0; 5], 10.0), None);
    }
}
