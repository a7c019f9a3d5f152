//! What was seen beside the load, compared: plans before and after, rows read, swings, replicas.

use std::fmt::Write as _;

use serde::Serialize;

use super::signals::Signals;
use super::swings::Moving;
use crate::record::{CellRecord, LadderPlans, PlanStep, Run, StatementPlan};
use crate::units::Ratio;

/// An optimizer's estimate of rows that grew by this factor is told, although the plan is the same. \[H\]
const ESTIMATE_FACTOR: f64 = 10.0;
/// Rows read per statement at one step against the fewest of the ladder, from which on it is a jump. \[H\]
const ROWS_FACTOR: f64 = 2.0;

/// What was seen beside the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct EvidenceFindings {
    /// Execution plans, statement by statement.
    pub plans: Vec<PlanFinding>,
    /// By cell, those that ran.
    pub cells: Vec<CellEvidenceFinding>,
}

/// The plan of one statement before and after a ladder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanFinding {
    /// Pass, from 1.
    pub repeat: u32,
    /// Variant name.
    pub variant: String,
    /// Workload name.
    pub workload: String,
    /// Statement class.
    pub class: String,
    /// The plan before the ladder in one line, or why there is none.
    pub before: String,
    /// The plan after it; `None`: as before.
    pub after: Option<String>,
    /// What is wrong with it; `None`: nothing.
    pub finding: Option<String>,
}

/// What a cell saw beside its load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellEvidenceFinding {
    /// Position in the run.
    pub cell: u32,
    /// Rows read per statement, by the server's counter.
    pub rows_per_statement: Option<f64>,
    /// Periodic swing of throughput.
    pub swing: Option<SwingFinding>,
    /// Replicas.
    pub replicas: Vec<ReplicaFinding>,
    /// Seconds by which the step was made longer to become steady; `None`: not asked for.
    pub extended_seconds: Option<f64>,
}

/// A periodic swing of throughput.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SwingFinding {
    /// Seconds from one low to the next.
    pub period_seconds: f64,
    /// Ninth decile less first decile, of the mean.
    pub depth: Ratio,
    /// Counters that move with it, the closest first.
    pub moves: Vec<Moving>,
}

/// A replica in a cell's window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplicaFinding {
    /// Name.
    pub name: String,
    /// Seconds behind at the start of the window; `None`: the replica did not know.
    pub first: Option<f64>,
    /// … at its end.
    pub last: Option<f64>,
    /// The most.
    pub highest: Option<f64>,
    /// A thread of it stood.
    pub stopped: bool,
}

/// Gathers what the cells and ladders saw beside the load.
pub(crate) fn gather(run: &Run, signals: &[Signals]) -> EvidenceFindings {
    let baseline = run.variants.first().map(|v| v.name.as_str());
    let plans = run
        .evidence
        .plans
        .iter()
        .flat_map(|plans| {
            let reference = run.evidence.plans.iter().find(|other| {
                Some(other.variant.as_str()) == baseline
                    && other.workload == plans.workload
                    && other.variant != plans.variant
            });
            of_ladder(plans, reference)
        })
        .collect();
    let cells = run
        .cells
        .iter()
        .zip(signals)
        .filter(|(cell, _)| !cell.intervals.is_empty())
        .map(|(cell, signals)| of_cell(cell, signals))
        .collect();
    EvidenceFindings { plans, cells }
}

fn of_cell(cell: &CellRecord, signals: &Signals) -> CellEvidenceFinding {
    CellEvidenceFinding {
        cell: cell.index,
        rows_per_statement: signals.rows_per_statement,
        swing: signals.swing.as_ref().map(|swing| SwingFinding {
            period_seconds: swing.period,
            depth: Ratio(swing.depth),
            moves: swing.moves.clone(),
        }),
        replicas: signals
            .replicas
            .iter()
            .map(|replica| ReplicaFinding {
                name: replica.name.clone(),
                first: replica.first,
                last: replica.last,
                highest: replica.highest,
                stopped: replica.stopped,
            })
            .collect(),
        extended_seconds: cell.evidence.extended_seconds,
    }
}

fn of_ladder<'a>(
    plans: &'a LadderPlans,
    reference: Option<&'a LadderPlans>,
) -> impl Iterator<Item = PlanFinding> + 'a {
    plans.before.iter().map(move |before| {
        let same = |other: &&StatementPlan| other.sql == before.sql;
        let after = plans.after.iter().find(same);
        let baseline = reference.and_then(|plans| plans.before.iter().find(same));
        let mut finding = after
            .and_then(|after| change(before, after))
            .map(|what| format!("the plan changed while the ladder ran: {what}"));
        if finding.is_none()
            && let Some(what) = baseline.and_then(|baseline| change(baseline, before))
        {
            finding = Some(format!("the plan is not the baseline's: {what}"));
        }
        PlanFinding {
            repeat: plans.repeat,
            variant: plans.variant.clone(),
            workload: plans.workload.clone(),
            class: before.class.clone(),
            before: in_words(before),
            after: after
                .map(in_words)
                .filter(|after| *after != in_words(before)),
            finding,
        }
    })
}

/// What differs between two plans that both exist; the optimizer's estimates only when far apart.
fn change(before: &StatementPlan, after: &StatementPlan) -> Option<String> {
    if before.none.is_some() || after.none.is_some() {
        return None;
    }
    // Extra tells of small things (ICP, read-ahead) as well: sorts and temporary tables are the ones that cost.
    let shape = |step: &PlanStep| {
        (
            step.select.clone(),
            step.table.clone(),
            step.access.clone(),
            step.key.clone(),
            step.extra.contains("filesort"),
            step.extra.contains("temporary"),
        )
    };
    let shapes = |plan: &StatementPlan| plan.steps.iter().map(shape).collect::<Vec<_>>();
    if shapes(before) != shapes(after) {
        return Some(format!("{} → {}", in_words(before), in_words(after)));
    }
    before.steps.iter().zip(&after.steps).find_map(|(a, b)| {
        let (least, most) = (a.rows?.max(1.0), b.rows?.max(1.0));
        (most / least >= ESTIMATE_FACTOR || least / most >= ESTIMATE_FACTOR).then(|| {
            format!(
                "the optimizer expects {most:.0} rows of {} instead of {least:.0}",
                b.table
            )
        })
    })
}

/// A plan in one line.
pub(crate) fn in_words(plan: &StatementPlan) -> String {
    if let Some(why) = &plan.none {
        return format!("no plan: {why}");
    }
    let mut line = String::new();
    for step in &plan.steps {
        if !line.is_empty() {
            line.push_str("; ");
        }
        let _ = write!(line, "{} {}", step.table, step.access);
        match &step.key {
            Some(key) => {
                let _ = write!(line, " by {key}");
            }
            None => line.push_str(" without an index"),
        }
        if let Some(rows) = step.rows {
            let unit = if format!("{rows:.0}") == "1" {
                "row"
            } else {
                "rows"
            };
            let _ = write!(line, ", about {rows:.0} {unit}");
        }
        if !step.extra.is_empty() {
            let _ = write!(line, " ({})", step.extra);
        }
    }
    line
}

/// What a ladder's notes say of its plans and its replicas.
pub(crate) fn ladder_notes(run: &Run, variant: &str, workload: &str) -> Vec<String> {
    let baseline = run.variants.first().map(|v| v.name.as_str());
    let mut notes: Vec<String> = Vec::new();
    for plans in &run.evidence.plans {
        if plans.variant != variant || plans.workload != workload {
            continue;
        }
        if let Some(problem) = &plans.problem {
            notes.push(format!("execution plans could not be read: {problem}"));
        }
        let reference = run.evidence.plans.iter().find(|other| {
            Some(other.variant.as_str()) == baseline
                && other.workload == workload
                && other.variant != variant
        });
        for found in of_ladder(plans, reference) {
            if let Some(what) = found.finding {
                let note = format!("{}: {what}", found.class);
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
    }
    notes
}

/// The jump of rows read per statement between the steps of a ladder, each with its rows.
pub(crate) fn rows_jump(rows: &[(String, f64)]) -> Option<String> {
    let least = rows.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let most = rows.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (least.1 > 0.0 && most.1 / least.1 > ROWS_FACTOR).then(|| {
        format!(
            "rows read per statement jumped between steps ({:.1} at {}, {:.1} at {}): an execution plan may have changed",
            least.1, least.0, most.1, most.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(access: &str, key: Option<&str>, rows: f64, extra: &str) -> StatementPlan {
        StatementPlan {
            class: "s".into(),
            sql: "SELECT".into(),
            steps: vec![PlanStep {
                select: "SIMPLE".into(),
                table: "sbtest1".into(),
                access: access.into(),
                key: key.map(str::to_owned),
                rows: Some(rows),
                extra: extra.into(),
            }],
            none: None,
        }
    }

    #[test]
    fn a_plan_that_turns_to_a_scan_is_a_change() {
        let before = plan("range", Some("PRIMARY"), 100.0, "Using where");
        let after = plan("ALL", None, 10_000.0, "Using where");
        assert_eq!(
            change(&before, &after).as_deref(),
            Some(
                "sbtest1 range by PRIMARY, about 100 rows (Using where) → sbtest1 ALL without an index, about 10000 rows (Using where)"
            )
        );
        let sorted = plan(
            "range",
            Some("PRIMARY"),
            100.0,
            "Using where; Using filesort",
        );
        assert!(change(&before, &sorted).is_some());
    }

    #[test]
    fn small_things_and_missing_plans_are_none() {
        let before = plan("range", Some("PRIMARY"), 100.0, "Using where");
        let icp = plan("range", Some("PRIMARY"), 180.0, "Using where; Using MRR");
        assert_eq!(change(&before, &icp), None);
        let gone = StatementPlan {
            none: Some("no matching row in const table".into()),
            steps: Vec::new(),
            ..before.clone()
        };
        assert_eq!(change(&before, &gone), None);
        let many = plan("range", Some("PRIMARY"), 5000.0, "Using where");
        assert!(change(&before, &many).is_some_and(|c| c.contains("5000 rows")));
    }

    #[test]
    fn a_jump_names_both_steps() {
        let rows = [
            ("1 thread".to_owned(), 10.0),
            ("8 threads".to_owned(), 900.0),
        ];
        let jump = rows_jump(&rows);
        assert!(jump.is_some_and(|j| j.contains("10.0 at 1 thread, 900.0 at 8 threads")));
        assert_eq!(rows_jump(&rows[..1]), None);
        assert_eq!(rows_jump(&[]), None);
    }
}
