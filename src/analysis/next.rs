//! What the measurements so far ask for: reference cells, refinement, the soak's place.

use super::analyse::{analyse, workload_names};
use super::findings::{Findings, LadderFinding};
use super::knee::KneeKind;
use super::refinement;
use crate::plan::{SoakLevel, Step};
use crate::record::{CellStatus, NextCell, Run};
use crate::units::PerSecond;

/// A share of the knee that differs from the one asked for by less is that one. \[H\]
const SAME_SHARE: f64 = 0.05;

/// Where the baseline is measured once more at the end of the run, a cell a workload: the knee, where
/// variants are judged; the middle of the ladder where there is none.
pub fn reference_cells(run: &Run) -> Vec<NextCell> {
    let findings = analyse(run);
    let names = workload_names(run);
    names
        .into_iter()
        .filter_map(|workload| {
            let ladder = baseline(&findings, workload)?;
            let knee = ladder
                .knee
                .as_ref()
                .filter(|k| k.kind != KneeKind::Insufficient)
                .and_then(|k| k.threads.map(Step::Threads));
            let held = ladder.open.as_ref().and_then(|o| o.highest_held);
            let measured: Vec<Step> = ladder
                .steps
                .iter()
                .filter(|s| s.tps.is_some())
                .map(|s| s.step)
                .collect();
            let step = knee
                .or_else(|| held.map(Step::Rate))
                .or_else(|| measured.get(measured.len().saturating_sub(1) / 2).copied())?;
            Some(NextCell {
                workload: workload.to_owned(),
                step,
                why: "the baseline once more, to see drift".to_owned(),
            })
        })
        .collect()
}

/// The next cell that narrows a knee of the baseline, that of the workload that decides the limit before the
/// others; `None`: nothing would.
pub fn refined_cell(run: &Run) -> Option<NextCell> {
    let findings = analyse(run);
    let decides = |l: &LadderFinding| Some(&l.workload) == findings.headline.workload.as_ref();
    let mut ladders: Vec<&LadderFinding> = findings.ladders.iter().filter(|l| l.baseline).collect();
    ladders.sort_by_key(|ladder| !decides(ladder));
    ladders
        .into_iter()
        .find_map(|ladder| refinement::next(run, ladder))
}

fn baseline<'a>(findings: &'a Findings, workload: &str) -> Option<&'a LadderFinding> {
    findings
        .ladders
        .iter()
        .find(|l| l.baseline && l.workload == workload)
}

/// Where the soak runs: `level` of the knee of `workload`, or of the workload that decides the limit.
///
/// # Errors
/// Why there is no load to hold, as the end of a sentence.
pub fn soak_cell(run: &Run, level: SoakLevel, workload: Option<&str>) -> Result<NextCell, String> {
    let findings = analyse(run);
    let workload = workload
        .or(findings.headline.workload.as_deref())
        .ok_or("no cell of the baseline was measured")?;
    let ladder = baseline(&findings, workload)
        .ok_or_else(|| format!("{workload} was not measured on the baseline"))?;
    // Where the guard had to end a ladder nothing is held for long.
    if let Some(stopped) = run.cells.iter().find(|c| {
        c.status == CellStatus::Stopped && c.variant == ladder.variant && c.workload == workload
    }) {
        return Err(format!(
            "the guard ended the ladder of {workload} at {}",
            stopped.step
        ));
    }
    let (step, why) = match level {
        SoakLevel::Threads(n) => (Step::Threads(n), "as the plan states".to_owned()),
        SoakLevel::OfKnee(share) => match &ladder.open {
            Some(open) => {
                let held = open.highest_held.ok_or("no rate was held")?;
                (
                    Step::Rate(PerSecond(held.0 * share.0)),
                    format!("{share} of the highest rate held, {held}"),
                )
            }
            None => below_knee(ladder, share.0, &level.to_string())?,
        },
    };
    Ok(NextCell {
        workload: workload.to_owned(),
        step,
        why,
    })
}

/// A share of the knee, rounded down, never above the recommended limit.
fn below_knee(ladder: &LadderFinding, share: f64, words: &str) -> Result<(Step, String), String> {
    if ladder.limit.p95_never_met {
        return Err(ladder.limit.why.clone());
    }
    let (knee, n) = ladder
        .knee
        .as_ref()
        .filter(|k| k.kind != KneeKind::Insufficient)
        .and_then(|k| Some((k, k.threads?)))
        .ok_or_else(|| {
            format!(
                "the knee of {} is not known: {}",
                ladder.workload, ladder.limit.why
            )
        })?;
    let exact = f64::from(n) * share;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a u32"
    )]
    let below = (exact.floor() as u32).max(1);
    // Of a small knee whole clients are quite another share than the one asked for.
    let rounded = if (f64::from(below) / f64::from(n) - share).abs() < SAME_SHARE {
        String::new()
    } else if exact < 1.0 {
        format!(" is {exact:.1}, and one client is the least")
    } else {
        format!(" is {exact:.1}, rounded down")
    };
    if let Some(limit) = ladder.limit.threads.filter(|limit| *limit < below) {
        return Ok((
            Step::Threads(limit),
            format!("the recommended limit, which is below {words} at {n}"),
        ));
    }
    let why = if knee.kind == KneeKind::NotReached {
        format!(
            "the knee was not reached: {share} of the highest step, {n}{rounded}",
            share = crate::units::Ratio(share)
        )
    } else {
        format!("{words} at {n}{rounded}")
    };
    Ok((Step::Threads(below), why))
}
