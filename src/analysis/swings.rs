//! Periodic swings of throughput: the mark of flushing and checkpoints.

use super::stats::mean;

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

/// A periodic swing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Swing {
    /// Seconds from one low to the next.
    pub(crate) period: f64,
    /// Ninth decile minus first decile, as a share of the mean.
    pub(crate) depth: f64,
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
