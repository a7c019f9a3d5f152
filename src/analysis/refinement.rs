//! Refining the ladder: which cell narrows the knee next, and what that saved.

use serde::Serialize;

use super::findings::LadderFinding;
use super::knee::{Knee, KneeKind};
use super::soak::minutes;
use super::stats::{t_quantile, variance};
use crate::plan::Step;
use crate::record::{CellKind, CellRecord, CellStatus, NextCell, Run};
use crate::units::{Ratio, Span};

/// A step is repeated until the 95 % interval of its throughput is within this: the gain that the house keeps
/// a change for, and half the noise that a single run is assumed to have.
const NARROW: Ratio = Ratio(0.03);
/// Runs before an interval is believed.
const FEWEST_RUNS: usize = 3;
/// A step that is not narrow by then is noisy; more runs of it would use up the budget.
const MOST_RUNS: usize = 7;
/// Neighbours closer than this need no step between them: √2 with room for rounding. \[H\]
const CLOSE: f64 = 1.5;

/// What refining did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Refinement {
    /// Cells that refining ran.
    pub cells: usize,
    /// Time they took.
    pub spent: Span,
    /// Steps that it added to the ladder, threads.
    pub added: Vec<u32>,
    /// Cells of a full grid with as many runs a step and a step between each pair of neighbours.
    pub grid_cells: usize,
    /// Time that was saved against it.
    pub saved: Span,
    /// Why it ended.
    pub ended: String,
    /// One or two sentences.
    pub sentence: String,
}

/// The next cell that narrows the knee of this ladder; `None`: nothing would.
pub(super) fn next(run: &Run, ladder: &LadderFinding) -> Option<NextCell> {
    let knee = ladder.knee.as_ref()?;
    if knee.kind == KneeKind::Insufficient {
        return None;
    }
    let k = knee
        .points
        .iter()
        .position(|p| Some(p.threads) == knee.threads)?;
    let own: Vec<&CellRecord> = cells(run, ladder).collect();
    // Never above what the guard or a failure has ended.
    let ended = |c: &&&CellRecord| matches!(c.status, CellStatus::Stopped | CellStatus::Failed);
    let ceiling = own.iter().filter(ended).filter_map(|c| threads(c)).min();
    let allowed = |n: u32| ceiling.is_none_or(|c| n < c);
    let at = |n: u32, why: String| NextCell {
        workload: ladder.workload.clone(),
        step: Step::Threads(n),
        why,
    };
    for n in between(knee, k) {
        if allowed(n) && !own.iter().any(|c| threads(c) == Some(n)) {
            return Some(at(
                n,
                format!("beside the knee at {}", knee.points[k].threads),
            ));
        }
    }
    let deciding = &knee.points[k.saturating_sub(1)..(k + 2).min(knee.points.len())];
    deciding
        .iter()
        .map(|p| p.threads)
        .filter(|&n| allowed(n))
        .filter_map(|n| {
            let runs = own.iter().filter(|c| threads(c) == Some(n)).count();
            let width = width(ladder, run, n);
            let wide = width.is_none_or(|w| w > NARROW);
            (wide && runs < MOST_RUNS).then_some((runs, n, width))
        })
        .min_by_key(|&(runs, n, _)| (runs, n))
        .map(|(runs, n, width)| {
            let why = match width {
                Some(width) => format!("95 % interval ±{width} after {runs} runs"),
                None => format!("decides the knee on {runs} of {FEWEST_RUNS} runs"),
            };
            at(n, why)
        })
}

/// The baseline's steps of this ladder.
fn cells<'a>(run: &'a Run, ladder: &'a LadderFinding) -> impl Iterator<Item = &'a CellRecord> {
    run.cells.iter().filter(|c| {
        c.kind.is_step() && c.variant == ladder.variant && c.workload == ladder.workload
    })
}

fn threads(cell: &CellRecord) -> Option<u32> {
    match cell.step {
        Step::Threads(n) => Some(n),
        Step::Rate(_) => None,
    }
}

/// Steps between the knee and its neighbours, rounded geometric means; none between close neighbours.
fn between(knee: &Knee, k: usize) -> Vec<u32> {
    let low = k.saturating_sub(1);
    let high = (k + 1).min(knee.points.len() - 1);
    knee.points[low..=high]
        .windows(2)
        .filter_map(|pair| middle(pair[0].threads, pair[1].threads))
        .collect()
}

fn middle(a: u32, b: u32) -> Option<u32> {
    if f64::from(b) / f64::from(a) <= CLOSE {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between two u32"
    )]
    let middle = (f64::from(a) * f64::from(b)).sqrt().round() as u32;
    (middle > a && middle < b).then_some(middle)
}

/// Half the relative 95 % interval of a step's throughput; `None` below three valid runs.
fn width(ladder: &LadderFinding, run: &Run, n: u32) -> Option<Ratio> {
    let step = ladder.steps.iter().find(|s| s.step == Step::Threads(n))?;
    let logs: Vec<f64> = run
        .cells
        .iter()
        .filter(|c| step.cells.contains(&c.index))
        .filter_map(|c| {
            let (done, seconds) = c
                .measured()
                .fold((0, 0.0), |(d, s), i| (d + i.done, s + i.seconds()));
            (done > 0 && seconds > 0.0).then(|| (done as f64 / seconds).ln())
        })
        .collect();
    if logs.len() < FEWEST_RUNS {
        return None;
    }
    let n = logs.len() as f64;
    Some(Ratio(
        t_quantile(0.975, n - 1.0)? * (variance(&logs)? / n).sqrt(),
    ))
}

/// What refining did to the baseline's ladders; `None`: it was not asked for.
pub(crate) fn summary(run: &Run, ladders: &[LadderFinding]) -> Option<Refinement> {
    let refined: Vec<&CellRecord> = run
        .cells
        .iter()
        .filter(|c| c.kind == CellKind::Refined)
        .collect();
    let record = run.after.refine.as_ref();
    if record.is_none() && refined.is_empty() {
        return None;
    }
    let length = run.discard.seconds() + run.measure.seconds();
    let mut added = Vec::new();
    let (mut grid, mut ran) = (0_usize, 0_usize);
    for ladder in ladders.iter().filter(|l| l.baseline) {
        let own: Vec<&CellRecord> = cells(run, ladder).collect();
        let planned: Vec<u32> = steps(own.iter().filter(|c| c.kind == CellKind::Ladder));
        let all: Vec<u32> = steps(own.iter());
        added.extend(all.iter().copied().filter(|n| !planned.contains(n)));
        let most = all
            .iter()
            .map(|n| own.iter().filter(|c| threads(c) == Some(*n)).count())
            .max()
            .unwrap_or(0);
        // A full grid has every step that refining might have added anywhere.
        let finer = planned
            .windows(2)
            .filter(|pair| middle(pair[0], pair[1]).is_some())
            .count();
        let steps = (planned.len() + finer).max(all.len());
        grid += steps * most;
        ran += own.len();
    }
    added.sort_unstable();
    added.dedup();
    let span = |cells: usize| {
        let seconds = (cells as f64 * length).round();
        Span(std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default())
    };
    let spent = span(refined.len());
    let saved = span(grid.saturating_sub(ran));
    let ended = record.map_or_else(|| "the run ended".to_owned(), |r| r.ended.clone());
    Some(Refinement {
        cells: refined.len(),
        sentence: sentence(refined.len(), spent, &added, grid, saved, &ended),
        spent,
        added,
        grid_cells: grid,
        saved,
        ended,
    })
}

fn steps<'a>(cells: impl Iterator<Item = &'a &'a CellRecord>) -> Vec<u32> {
    let mut steps: Vec<u32> = cells.filter_map(|c| threads(c)).collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

fn sentence(
    cells: usize,
    spent: Span,
    added: &[u32],
    grid: usize,
    saved: Span,
    ended: &str,
) -> String {
    if cells == 0 {
        return format!("Nothing was refined: {ended}.");
    }
    let noun = if cells == 1 { "cell" } else { "cells" };
    let steps: Vec<String> = added.iter().map(u32::to_string).collect();
    let added = match steps.len() {
        0 => String::new(),
        1 => format!(", with a new step at {} threads", steps[0]),
        _ => format!(", with new steps at {} threads", steps.join(", ")),
    };
    format!(
        "{cells} {noun} ({}) refined the knee{added}; a full grid of {grid} cells, all steps as often and as fine, would have taken {} more. Ended: {ended}.",
        minutes(spent.seconds()),
        minutes(saved.seconds())
    )
}
