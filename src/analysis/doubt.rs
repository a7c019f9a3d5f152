//! Steps that ran, but whose figures may be those of something else: nothing is passed or failed on them.

use super::findings::{CellSummary, LadderFinding, Reason, Rule, StepSummary, Validity};
use super::knee::from_points_with_noise;
use super::limit;
use crate::plan::Criteria;

/// Why a knee is not to be trusted when it is so at every step.
pub(crate) const CROWDED: &str = "other processes had the CPU at every step (V7)";

/// The objection by which a cell's figures may be rubbish although it ran: time that no transaction
/// accounts for (V4), stalls (V5), other processes on the server's CPU (V7). A cell that is only unsteady
/// (V6) measured what it says.
fn objection(cell: &CellSummary) -> Option<&Reason> {
    cell.reasons.iter().find(|r| {
        r.severity == Validity::Suspect && matches!(r.rule, Rule::V4 | Rule::V5 | Rule::V7)
    })
}

/// Whether a cell's figures may be rubbish.
pub(crate) fn of_cell(cell: &CellSummary) -> bool {
    objection(cell).is_some()
}

/// Whether others took the server's CPU from a cell.
pub(crate) fn crowded(cell: &CellSummary) -> bool {
    cell.reasons
        .iter()
        .any(|r| r.rule == Rule::V7 && r.severity == Validity::Suspect)
}

/// The first objection against a step.
pub(crate) fn of_step(step: &StepSummary, cells: &[CellSummary]) -> Option<String> {
    cells
        .iter()
        .filter(|c| step.cells.contains(&c.index))
        .find_map(objection)
        .map(|r| format!("{}: {}", r.rule.as_str(), r.text))
}

/// Why nothing can be decided on these steps of a ladder: one of them is doubtful, or more than half of the
/// ladder is.
pub(crate) fn of_decision(
    ladder: &LadderFinding,
    on: &[&StepSummary],
    cells: &[CellSummary],
) -> Option<String> {
    for step in on {
        if let Some(objection) = of_step(step, cells) {
            return Some(format!(
                "the step of {} that decides is suspect ({objection})",
                step.step
            ));
        }
    }
    let measured = || ladder.steps.iter().filter(|s| !s.cells.is_empty());
    let doubtful: Vec<String> = measured().filter_map(|s| of_step(s, cells)).collect();
    let all = measured().count();
    let first = doubtful.first()?;
    (2 * doubtful.len() > all).then(|| {
        format!(
            "{} of {all} steps are suspect, the lowest by {first}",
            doubtful.len()
        )
    })
}

/// What a ladder shows on its sound steps alone, with the knee and limit of these.
pub(crate) fn sound_part(
    ladder: &LadderFinding,
    cells: &[CellSummary],
    criteria: &Criteria,
) -> LadderFinding {
    let mut sound = ladder.clone();
    sound.steps.retain(|s| of_step(s, cells).is_none());
    if let Some(knee) = &ladder.knee {
        let points: Vec<_> = knee
            .points
            .iter()
            .filter(|p| sound.steps.iter().any(|s| s.threads == p.threads))
            .copied()
            .collect();
        let knee = from_points_with_noise(&points, knee.required_gain, Some(knee.run_noise));
        sound.limit = limit::recommend(&knee, criteria);
        sound.knee = Some(knee);
    }
    if let Some(open) = &mut sound.open {
        // What was held is known only where both sides of it are.
        let known = |rate| {
            let step = crate::plan::Step::Rate(rate);
            sound.steps.iter().any(|s| s.step == step)
        };
        let above = open.first_not_held.is_none_or(known);
        open.highest_held = open.highest_held.filter(|held| above && known(*held));
    }
    sound
}
