//! Medians and their spread.

/// Median and an interval around it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Median of `values`; not a number without any.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    match n {
        0 => f64::NAN,
        _ if n % 2 == 1 => sorted[n / 2],
        _ => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Median with the narrowest interval between two order statistics, equally far from both ends, that
/// covers the true median with at least 95 % (no assumption on the distribution: the number of values below
/// the median is binomial with one half). Six values: the smallest and the largest, 96.9 %. Fewer
/// cannot reach 95 %: the smallest and the largest too.
pub(crate) fn spread(values: &[f64]) -> Spread {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let mut cut = 0;
    // P(fewer than cut + 2 of n below) on either side must stay under 5 %.
    let mut tail = 0.5f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut term = tail;
    while cut + 1 < n / 2 {
        term *= (n - cut) as f64 / (cut + 1) as f64;
        tail += term;
        if 2.0 * tail > 0.05 {
            break;
        }
        cut += 1;
    }
    Spread {
        median: median(values),
        low: sorted.get(cut).copied().unwrap_or(f64::NAN),
        high: n
            .checked_sub(cut + 1)
            .and_then(|i| sorted.get(i))
            .copied()
            .unwrap_or(f64::NAN),
    }
}
