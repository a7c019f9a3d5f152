//! Small statistics on top of `statrs`.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Arithmetic mean; `None` when empty.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Sample variance (n − 1); `None` below two values.
pub(crate) fn variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let centre = mean(values)?;
    let squares: f64 = values.iter().map(|v| (v - centre).powi(2)).sum();
    Some(squares / (values.len() - 1) as f64)
}

/// Mean of the values that there are; `None` when there is none.
pub(crate) fn mean_of(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    mean(&values.into_iter().flatten().collect::<Vec<_>>())
}

/// Geometric mean of the positive values that there are.
pub(crate) fn geometric_mean(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let logs: Vec<f64> = values
        .into_iter()
        .flatten()
        .filter(|v| *v > 0.0)
        .map(f64::ln)
        .collect();
    mean(&logs).map(f64::exp)
}

/// Quantile of Student's t with `df` degrees of freedom.
pub(crate) fn t_quantile(probability: f64, df: f64) -> Option<f64> {
    StudentsT::new(0.0, 1.0, df)
        .ok()
        .map(|t| t.inverse_cdf(probability))
        .filter(|q| q.is_finite())
}

/// Two-sided p-value of a t statistic.
pub(crate) fn t_p_value(t: f64, df: f64) -> Option<f64> {
    let p = 2.0 * StudentsT::new(0.0, 1.0, df).ok()?.sf(t.abs());
    p.is_finite().then_some(p.min(1.0))
}

/// Upper tail of Student's t.
pub(crate) fn t_sf(t: f64, df: f64) -> Option<f64> {
    let p = StudentsT::new(0.0, 1.0, df).ok()?.sf(t);
    p.is_finite().then_some(p)
}

/// Two-sided p-value of a standard normal statistic.
pub(crate) fn normal_p_value(z: f64) -> Option<f64> {
    let p = 2.0 * Normal::standard().sf(z.abs());
    p.is_finite().then_some(p.min(1.0))
}

/// `p = 0.013`, `p < 0.001`.
pub(crate) fn p_words(p: f64) -> String {
    if p < 0.001 {
        "p < 0.001".to_owned()
    } else {
        format!("p = {p:.3}")
    }
}

/// Median; `None` when empty.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if !even {
        return Some(upper);
    }
    let lower = below.iter().copied().reduce(f64::max)?;
    Some(f64::midpoint(lower, upper))
}

/// Welch's comparison of two means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Welch {
    /// Mean of `b` minus mean of `a`.
    pub(crate) difference: f64,
    /// Standard error of the difference.
    pub(crate) se: f64,
    /// Welch–Satterthwaite degrees of freedom.
    pub(crate) df: f64,
    /// Half width of the 95 % interval.
    pub(crate) half_width: f64,
    /// Two-sided p-value.
    pub(crate) p: f64,
}

impl Welch {
    /// The same with a standard deviation `noise` of each side's mean that its values cannot show, since they
    /// share it. It is taken as known, so the degrees of freedom grow by Satterthwaite's rule.
    pub(crate) fn widened(self, noise: f64) -> Option<Self> {
        if noise <= 0.0 {
            return Some(self);
        }
        let (own, shared) = (self.se.powi(2), 2.0 * noise.powi(2));
        let se = (own + shared).sqrt();
        // A known variance has infinitely many degrees of freedom.
        let df = if own > 0.0 {
            (self.df * ((own + shared) / own).powi(2)).min(1e6)
        } else {
            1e6
        };
        Some(Self {
            se,
            df,
            half_width: t_quantile(0.975, df)? * se,
            p: t_p_value(self.difference / se, df)?,
            ..self
        })
    }
}

/// Welch's t-test; `None` below two values a side.
pub(crate) fn welch(a: &[f64], b: &[f64]) -> Option<Welch> {
    let (va, vb) = (variance(a)? / a.len() as f64, variance(b)? / b.len() as f64);
    let difference = mean(b)? - mean(a)?;
    let se = (va + vb).sqrt();
    if se <= 0.0 {
        // Equal runs to the last digit: no noise to speak of, so any difference is certain.
        return Some(Welch {
            difference,
            se: 0.0,
            df: (a.len() + b.len() - 2) as f64,
            half_width: 0.0,
            p: if difference == 0.0 { 1.0 } else { 0.0 },
        });
    }
    let df =
        (va + vb).powi(2) / (va.powi(2) / (a.len() - 1) as f64 + vb.powi(2) / (b.len() - 1) as f64);
    Some(Welch {
        difference,
        se,
        df,
        half_width: t_quantile(0.975, df)? * se,
        p: t_p_value(difference / se, df)?,
    })
}

/// Relative standard error of the mean of a time series, robust against autocorrelation: the largest
/// of the batch-means estimates over doubling batch sizes, as long as at least 5 batches remain (the
/// idea of latte's effective sample size, spec section 3). `None` below 4 values.
pub(crate) fn series_se(values: &[f64]) -> Option<f64> {
    const FEWEST_BATCHES: usize = 5;
    if values.len() < 4 {
        return None;
    }
    let centre = mean(values).filter(|m| *m > 0.0)?;
    let mut largest = variance(values)? / values.len() as f64;
    let mut size = 2;
    while values.len() / size >= FEWEST_BATCHES {
        let batches = batch_means(values, size);
        largest = largest.max(variance(&batches)? / batches.len() as f64);
        size *= 2;
    }
    Some(largest.sqrt() / centre)
}

/// Means of consecutive full batches; the remainder at the start is left out, so that the latest
/// values always count.
pub(crate) fn batch_means(values: &[f64], size: usize) -> Vec<f64> {
    let size = size.max(1);
    values[values.len() % size..]
        .chunks_exact(size)
        .filter_map(mean)
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance, "{a} is not near {b}");
    }

    #[test]
    fn t_quantiles_equal_the_tables() {
        close(t_quantile(0.975, 1.0).unwrap(), 12.706, 1e-3);
        close(t_quantile(0.975, 4.0).unwrap(), 2.776, 1e-3);
        close(t_quantile(0.975, 8.0).unwrap(), 2.306, 1e-3);
        close(t_quantile(0.80, 8.0).unwrap(), 0.889, 1e-3);
        close(t_quantile(0.975, 3.7).unwrap(), 2.8668, 2e-3);
    }

    #[test]
    fn welch_equals_a_worked_example() {
        // R: t.test(c(1.0,1.2,1.1,0.9,1.05), c(1.3,1.5,1.2,1.4,1.35)): t = 4.4721 (equal spread
        // by design: variances .0125 each), df = 8.
        let a = [1.0, 1.2, 1.1, 0.9, 1.05];
        let b = [1.3, 1.5, 1.2, 1.4, 1.35];
        let w = welch(&a, &b).unwrap();
        close(w.difference, 0.3, 1e-12);
        close(w.se, (2.0 * 0.0125_f64 / 5.0).sqrt(), 1e-12);
        close(w.df, 8.0, 1e-9);
        close(w.half_width, 2.306 * w.se, 1e-4);
        close(w.p, 0.0028, 3e-4);
        assert!(welch(&a, &[1.0]).is_none());
        assert_eq!(welch(&[1.0, 1.0], &[1.0, 1.0]).unwrap().p, 1.0);
    }

    #[test]
    fn autocorrelation_widens_the_error() {
        let alternating: Vec<f64> = (0..64).map(|i| 100.0 + f64::from(i % 2)).collect();
        let drifting: Vec<f64> = (0..64).map(|i| 100.0 + f64::from(i / 32)).collect();
        // Same values, same variance, other order.
        assert!(series_se(&drifting).unwrap() > 2.0 * series_se(&alternating).unwrap());
        assert_eq!(series_se(&[1.0, 2.0, 3.0]), None);
        assert_eq!(series_se(&[0.0; 10]), None);
    }

    #[test]
    fn batches_keep_the_end() {
        assert_eq!(batch_means(&[9.0, 1.0, 3.0, 5.0, 7.0], 2), [2.0, 6.0]);
    }
}
