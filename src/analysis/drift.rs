//! Drift: what the baseline itself moved by while nothing about it was changed.

use super::effect::ReferenceFinding;
use super::findings::Validity;
use super::ladder::StepCells;
use super::stats::t_p_value;
use crate::record::CellKind;
use crate::units::Ratio;

/// Significance of a trend through the run.
const ALPHA: f64 = 0.05;
/// Measurements from which a trend can be told from noise; with fewer, all that they moved by counts.
const FEWEST_FOR_TREND: usize = 4;

/// The baseline's measurements of one step as drift sees them: the ladder's passes and the closing reference,
/// not the steps that were run again to refine the knee, which all stand at one moment of the run.
pub(crate) fn reference(
    step: &StepCells<'_>,
    references: &StepCells<'_>,
    workload: &str,
) -> ReferenceFinding {
    let mut cells: Vec<_> = step
        .cells
        .iter()
        .filter(|m| m.summary.kind == CellKind::Ladder)
        .chain(&references.cells)
        .map(|m| m.summary)
        .filter(|c| c.validity != Validity::Invalid)
        .collect();
    cells.sort_by_key(|c| c.index);
    let tps: Vec<f64> = cells.iter().filter_map(|c| c.tps).map(|t| t.0).collect();
    let logs = |values: &mut dyn Iterator<Item = (u32, Option<f64>)>| -> Vec<(f64, f64)> {
        values
            .filter_map(|(index, value)| {
                let value = value.filter(|v| *v > 0.0)?;
                Some((f64::from(index), value.ln()))
            })
            .collect()
    };
    let drift_tps = drift(&logs(
        &mut cells.iter().map(|c| (c.index, c.tps.map(|t| t.0))),
    ));
    let drift_p95 = drift(&logs(
        &mut cells.iter().map(|c| (c.index, c.latency.p95.map(|p| p.0))),
    ));
    ReferenceFinding {
        workload: workload.to_owned(),
        step: step.step,
        sentence: sentence(tps.len(), drift_tps),
        tps,
        drift: drift_tps.map(Ratio),
        drift_p95: drift_p95.map(Ratio),
    }
}

fn sentence(measured: usize, drift: Option<f64>) -> String {
    match (measured, drift) {
        (0 | 1, _) => "measured only once: drift cannot be told".to_owned(),
        (n, Some(drift)) if n < FEWEST_FOR_TREND => format!(
            "moved by {:+.1} % from the first to the last of {n} measurements, noise included: no smaller effect is claimed",
            drift * 100.0
        ),
        (n, Some(drift)) => format!(
            "drifted by {:+.1} % over {n} measurements: no smaller effect is claimed",
            drift * 100.0
        ),
        (n, None) => format!("no drift beyond noise over {n} measurements"),
    }
}

/// The change from the first to the last of (moment, logarithm). From four measurements on only a significant
/// trend counts (least squares, t-test of the slope); two or three tell no trend from noise, so what they moved
/// by counts as it is.
pub(crate) fn drift(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len();
    let (first, last) = (points.first()?, points.last()?);
    if n < 2 {
        return None;
    }
    if n < FEWEST_FOR_TREND {
        return Some((last.1 - first.1).exp_m1());
    }
    let count = n as f64;
    let (mx, my) = (
        points.iter().map(|p| p.0).sum::<f64>() / count,
        points.iter().map(|p| p.1).sum::<f64>() / count,
    );
    let sxx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    if sxx <= 0.0 {
        return None;
    }
    let slope = sxy / sxx;
    let rest: f64 = points
        .iter()
        .map(|p| (p.1 - my - slope * (p.0 - mx)).powi(2))
        .sum();
    let se = (rest / (count - 2.0) / sxx).sqrt();
    let p = if se > 0.0 {
        t_p_value(slope / se, count - 2.0)?
    } else if slope == 0.0 {
        1.0
    } else {
        0.0
    };
    (p < ALPHA).then(|| (slope * (last.0 - first.0)).exp_m1())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
mod tests {
    use super::*;

    #[test]
    fn a_trend_of_the_baseline_is_drift_and_noise_is_not() {
        let falling: Vec<(f64, f64)> = (0..5_i32)
            .map(|i| {
                (
                    f64::from(i),
                    7.0 - 0.02 * f64::from(i) + 0.001 * f64::from(i % 2),
                )
            })
            .collect();
        assert!((drift(&falling).unwrap() + 0.077).abs() < 0.01);
        let noisy: Vec<(f64, f64)> = [0.0, 0.01, -0.01, 0.005, 0.0]
            .iter()
            .enumerate()
            .map(|(i, y)| (i as f64, 7.0 + y))
            .collect();
        assert_eq!(drift(&noisy), None);
    }

    #[test]
    fn two_measurements_bound_every_claim_by_what_lies_between_them() {
        assert!((drift(&[(1.0, 7.0), (9.0, 7.04)]).unwrap() - 0.0408).abs() < 1e-3);
        assert_eq!(drift(&[(1.0, 7.0)]), None);
        assert_eq!(drift(&[]), None);
    }
}
