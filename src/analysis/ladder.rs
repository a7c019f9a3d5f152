//! A ladder: the cells of one variant and workload, step by step.

use super::doubt;
use super::findings::{CellSummary, StepSummary, Validity};
use super::knee::{Knee, KneeKind, LadderPoint, from_points_with_noise, gain_per_doubling};
use super::signals::Signals;
use super::stats::{geometric_mean, mean_of, variance};
use crate::plan::Step;
use crate::record::CellStatus;
use crate::units::{Millis, PerSecond, Ratio};

/// Runs of a step from which their spread is measured rather than assumed.
pub(crate) const RUNS_FOR_NOISE: usize = 3;

/// A cell with the signals in its window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured<'a> {
    pub(crate) summary: &'a CellSummary,
    pub(crate) signals: &'a Signals,
}

/// One step and its cells, the repeats.
pub(crate) struct StepCells<'a> {
    pub(crate) step: Step,
    pub(crate) cells: Vec<Measured<'a>>,
}

impl<'a> StepCells<'a> {
    /// The cells that count.
    pub(crate) fn usable(&self) -> impl Iterator<Item = Measured<'a>> + '_ {
        self.cells
            .iter()
            .copied()
            .filter(|m| m.summary.validity != Validity::Invalid && m.summary.tps.is_some())
    }
}

/// Cells of one variant and workload by step, ascending.
pub(crate) fn by_step<'a>(cells: impl Iterator<Item = Measured<'a>>) -> Vec<StepCells<'a>> {
    let mut steps: Vec<StepCells<'a>> = Vec::new();
    for measured in cells {
        let step = measured.summary.step;
        match steps.iter_mut().find(|s| s.step == step) {
            Some(found) => found.cells.push(measured),
            None => steps.push(StepCells {
                step,
                cells: vec![measured],
            }),
        }
    }
    steps.sort_by(|a, b| height(a.step).total_cmp(&height(b.step)));
    steps
}

/// Threads or rate as a number to sort by.
pub(crate) fn height(step: Step) -> f64 {
    match step {
        Step::Threads(n) => f64::from(n),
        Step::Rate(rate) => rate.0,
    }
}

/// Combines the valid repeats of each step.
pub(crate) fn combine(steps: &[StepCells<'_>]) -> Vec<StepSummary> {
    let mut combined: Vec<StepSummary> = Vec::with_capacity(steps.len());
    for step in steps {
        let usable: Vec<&CellSummary> = step.usable().map(|m| m.summary).collect();
        let figure = |of: fn(&CellSummary) -> Option<Millis>| {
            usable
                .iter()
                .map(move |c| of(c).map(|m| m.0))
                .collect::<Vec<_>>()
        };
        let logs: Vec<f64> = usable
            .iter()
            .filter_map(|c| c.tps.map(|t| t.0))
            .filter(|t| *t > 0.0)
            .map(f64::ln)
            .collect();
        let mut summary = StepSummary {
            step: step.step,
            threads: step.cells.first().map_or(0, |m| match step.step {
                Step::Threads(n) => n,
                Step::Rate(_) => m.summary.clients,
            }),
            cells: usable.iter().map(|c| c.index).collect(),
            invalid: u32::try_from(step.cells.len() - usable.len()).unwrap_or(u32::MAX),
            validity: usable
                .iter()
                .map(|c| c.validity)
                .max()
                .unwrap_or(Validity::Invalid),
            tps: geometric_mean(usable.iter().map(|c| c.tps.map(|t| t.0))).map(PerSecond),
            avg: mean_of(figure(|c| c.latency.avg)).map(Millis),
            p95: geometric_mean(figure(|c| c.latency.p95)).map(Millis),
            p99: geometric_mean(figure(|c| c.latency.p99)).map(Millis),
            run_sd: (logs.len() >= RUNS_FOR_NOISE)
                .then(|| variance(&logs).map(|v| Ratio(v.sqrt())))
                .flatten(),
            gain: None,
        };
        let previous = combined.iter().rev().find(|s| s.tps.is_some());
        summary.gain = previous
            .and_then(|before| gain_per_doubling(&point(before, None)?, &point(&summary, None)?));
        combined.push(summary);
    }
    combined
}

/// The step as a point of a knee; `None` in open loop or without throughput.
fn point(step: &StepSummary, se: Option<Ratio>) -> Option<LadderPoint> {
    let Step::Threads(threads) = step.step else {
        return None;
    };
    Some(LadderPoint {
        threads,
        tps: step.tps.filter(|t| t.0 > 0.0)?,
        avg: step.avg,
        p95: step.p95,
        p99: step.p99,
        se,
    })
}

/// The knee of a closed-loop ladder; `None` in open loop.
pub(crate) fn knee(steps: &[StepCells<'_>], combined: &[StepSummary], gain: Ratio) -> Option<Knee> {
    if steps.iter().any(|s| matches!(s.step, Step::Rate(_))) || steps.is_empty() {
        return None;
    }
    let points: Vec<LadderPoint> = steps
        .iter()
        .zip(combined)
        .filter_map(|(cells, summary)| point(summary, combined_se(cells)))
        .collect();
    let mut knee = from_points_with_noise(&points, gain, run_noise(combined));
    if knee.kind != KneeKind::Insufficient {
        lower_if_suspect(&mut knee, combined);
        let crowded = |step: &StepCells<'_>| {
            let mut usable = step.usable().peekable();
            usable.peek().is_some() && usable.all(|m| doubt::crowded(m.summary))
        };
        // Noise of the points is no measure of what others took from all of them.
        if steps
            .iter()
            .filter(|s| s.usable().next().is_some())
            .all(crowded)
        {
            knee.distrust(doubt::CROWDED.to_owned());
        }
    }
    Some(knee)
}

/// Relative standard error of the mean of a step's runs, from the intervals within them.
fn combined_se(step: &StepCells<'_>) -> Option<Ratio> {
    let errors: Vec<f64> = step
        .usable()
        .filter_map(|m| m.summary.tps_se)
        .map(|se| se.0 * se.0)
        .collect();
    (!errors.is_empty()).then(|| Ratio(errors.iter().sum::<f64>().sqrt() / errors.len() as f64))
}

/// Between-run spread pooled over the steps that have at least three valid runs; one step's own
/// estimate from three runs is too wild.
fn run_noise(combined: &[StepSummary]) -> Option<Ratio> {
    let mut squares = 0.0;
    let mut freedom = 0.0;
    for step in combined {
        if let Some(sd) = step.run_sd {
            let df = (step.cells.len() - 1) as f64;
            squares += df * sd.0 * sd.0;
            freedom += df;
        }
    }
    (freedom > 0.0).then(|| Ratio((squares / freedom).sqrt()))
}

/// Suspect steps that decide (the knee, its neighbours, the peak) lower the confidence by one level.
fn lower_if_suspect(knee: &mut Knee, combined: &[StepSummary]) {
    let Some(k) = knee
        .threads
        .and_then(|n| knee.points.iter().position(|p| p.threads == n))
    else {
        return;
    };
    let deciding: Vec<u32> = knee.points[k.saturating_sub(1)..(k + 2).min(knee.points.len())]
        .iter()
        .map(|p| p.threads)
        .chain(knee.peak)
        .collect();
    let mut suspect: Vec<u32> = combined
        .iter()
        .filter(|s| s.validity == Validity::Suspect && deciding.contains(&s.threads))
        .map(|s| s.threads)
        .collect();
    suspect.dedup();
    if !suspect.is_empty() {
        let list = suspect
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        knee.lower_confidence(match suspect[..] {
            [one] => format!("suspect step of {}", Step::Threads(one)),
            _ => format!("suspect steps of {list} threads"),
        });
    }
}

/// Why an invalid step leaves the answer open; `None`: none does. It does when it stands next to the
/// knee in the ladder as planned, or when too few valid steps are left.
pub(crate) fn unreliable(
    knee: &Knee,
    steps: &[StepCells<'_>],
    combined: &[StepSummary],
) -> Option<String> {
    let not_run = |step: &StepSummary| {
        steps
            .iter()
            .filter(|s| s.step == step.step)
            .flat_map(|s| &s.cells)
            .all(|m| m.summary.status == CellStatus::Skipped)
    };
    if knee.kind == KneeKind::Insufficient {
        let left_out = combined.iter().filter(|s| s.cells.is_empty());
        let (skipped, invalid): (Vec<&StepSummary>, Vec<&StepSummary>) =
            left_out.partition(|s| not_run(s));
        let parts: Vec<String> = [(invalid, "invalid"), (skipped, "not run")]
            .into_iter()
            .filter(|(steps, _)| !steps.is_empty())
            .map(|(steps, what)| {
                let names: Vec<String> = steps.iter().map(|s| s.step.to_string()).collect();
                format!("{} {what}", names.join(", "))
            })
            .collect();
        return (!parts.is_empty()).then(|| format!("too few valid steps: {}", parts.join("; ")));
    }
    let k = combined
        .iter()
        .position(|s| !s.cells.is_empty() && Some(s.threads) == knee.threads)?;
    let beside = [k.checked_sub(1), Some(k + 1)]
        .into_iter()
        .flatten()
        .filter_map(|i| combined.get(i))
        .find(|s| s.cells.is_empty())?;
    let what = if not_run(beside) {
        "was not run"
    } else {
        "is invalid"
    };
    Some(format!(
        "the step of {} beside the knee {what}",
        beside.step
    ))
}
