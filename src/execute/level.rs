//! When a warm-up has done its work: reads from files that no longer change.

/// Intervals that are looked at together.
pub(super) const WINDOW: usize = 5;
/// Largest spread of the window's values, as a share of their mean.
const SPREAD: f64 = 0.20;
/// Largest change of the line fitted to them from the window's begin to its end, as a share of their mean.
const DRIFT: f64 = 0.10;
/// Few reads vary by chance: for counts of mean m with standard deviation √m, the range of five is 2.3 √m on
/// average and under 4 √m in 95 of 100 windows (the studentised range), and the fitted line's change has the
/// standard deviation 4 √(m/10), under 2.5 √m in as many.
const CHANCE_SPREAD: f64 = 4.0;
const CHANCE_DRIFT: f64 = 2.5;

/// Whether the last [`WINDOW`] counts are level: the steady state of the SNIA's Solid State Storage
/// Performance Test Specification (2.0.2, “steady state”: over five rounds the values lie within 20 % of their
/// mean and the fitted line within 10 %), widened by what chance does to small counts.
pub(super) fn is_level(counts: &[f64]) -> bool {
    let Some(from) = counts.len().checked_sub(WINDOW) else {
        return false;
    };
    let window = &counts[from..];
    let n = window.len() as f64;
    let mean = window.iter().sum::<f64>() / n;
    let (low, high) = window
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), count| {
            (low.min(*count), high.max(*count))
        });
    let middle = (n - 1.0) / 2.0;
    let (mut together, mut apart) = (0.0, 0.0);
    for (at, count) in window.iter().enumerate() {
        let x = at as f64 - middle;
        together += x * (count - mean);
        apart += x * x;
    }
    let drift = (together / apart * (n - 1.0)).abs();
    let chance = mean.sqrt();
    high - low <= (SPREAD * mean).max(CHANCE_SPREAD * chance)
        && drift <= (DRIFT * mean).max(CHANCE_DRIFT * chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_level_by_its_spread_and_its_drift() {
        for (counts, level) in [
            (vec![], false),
            (vec![1000.0; 4], false),
            (vec![1000.0; 5], true),
            // Everything is in memory.
            (vec![0.0; 5], true),
            // Only the last five count.
            (vec![90_000.0, 1000.0, 1010.0, 990.0, 1005.0, 1000.0], true),
            // A cache that fills.
            (vec![16_000.0, 8000.0, 4000.0, 2000.0, 1000.0], false),
            (vec![10_000.0, 9700.0, 9400.0, 9100.0, 8800.0], false),
            // One burst.
            (
                vec![10_000.0, 10_000.0, 13_000.0, 10_000.0, 10_000.0],
                false,
            ),
            // Few reads vary by chance.
            (vec![9.0, 12.0, 7.0, 11.0, 8.0], true),
            (vec![100.0, 60.0, 30.0, 10.0, 2.0], false),
        ] {
            assert_eq!(is_level(&counts), level, "{counts:?}");
        }
    }
}
