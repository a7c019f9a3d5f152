//! What was seen beside the load: plans, rows read, digests, replicas, and what looking at it cost.

use serde::Serialize;

use super::ladders::step;
use crate::analysis::{CellEvidenceFinding, Findings, LadderFinding, ReplicaFinding};
use crate::record::{CellRecord, Digest, Place, Run, Sample};
use crate::report::figures::{MISSING, count, figure, or_missing, percent, whole};
use crate::units::Ratio;

/// Statements of a cell that the report shows.
const DIGESTS_SHOWN: usize = 5;
/// Characters of a statement that the report shows.
const TEXT_SHOWN: usize = 110;

/// What was seen beside the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct SeenView {
    /// Execution plans; of variants beside the baseline and of further passes only those with a finding.
    pub plans: Vec<PlanView>,
    /// By cell: rows read, lag, swings.
    pub cells: Vec<SeenCellView>,
    /// Whether any cell tells of a replica.
    pub replicas: bool,
    /// Whether any cell swings.
    pub swings: bool,
    /// Whether steps could be made longer until they were steady.
    pub extended: bool,
    /// Statements by time in the server, one table a ladder.
    pub digests: Vec<DigestsView>,
    /// What a reading of each probe took, one line a probe.
    pub probes: Vec<String>,
}

/// One statement's plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanView {
    /// Workload.
    pub workload: String,
    /// Variant.
    pub variant: String,
    /// Statement class.
    pub class: String,
    /// Before the ladder.
    pub before: String,
    /// After it: `as before`, another plan, or `n/a`.
    pub after: String,
    /// What is wrong; `–`: nothing.
    pub finding: String,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeenCellView {
    /// Workload.
    pub workload: String,
    /// Variant.
    pub variant: String,
    /// Pass.
    pub repeat: String,
    /// Threads or rate.
    pub step: String,
    /// Rows read per statement.
    pub rows: String,
    /// Lag of each replica.
    pub replicas: String,
    /// Period, depth and the counters that move.
    pub swing: String,
    /// Seconds by which the step was made longer.
    pub extended: String,
}

/// The statements of one cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DigestsView {
    /// Workload, variant and step.
    pub title: String,
    /// The statements, those with the most time first.
    pub rows: Vec<DigestView>,
}

/// One normalised statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DigestView {
    /// Its text, shortened.
    pub text: String,
    /// Executions.
    pub count: String,
    /// Share of the time of all that were kept, percent.
    pub share: String,
    /// Mean time in the server, ms.
    pub avg: String,
    /// Rows examined per row sent, or per execution where none is sent.
    pub examined: String,
    /// Share of the time that waited for table locks, percent.
    pub locks: String,
    /// Temporary tables on disk per execution.
    pub disk_tables: String,
}

pub(super) fn seen(run: &Run, findings: &Findings) -> SeenView {
    let cells: Vec<SeenCellView> = findings
        .evidence
        .cells
        .iter()
        .filter_map(|seen| {
            let cell = run.cells.iter().find(|c| c.index == seen.cell)?;
            Some(of_cell(cell, seen))
        })
        .collect();
    let any = |pick: fn(&SeenCellView) -> &String| cells.iter().any(|c| pick(c) != MISSING);
    let nothing = !any(|c| &c.rows) && !any(|c| &c.replicas) && !any(|c| &c.swing);
    SeenView {
        plans: plans(run, findings),
        replicas: any(|c| &c.replicas),
        swings: any(|c| &c.swing),
        extended: any(|c| &c.extended),
        cells: if nothing { Vec::new() } else { cells },
        digests: findings
            .ladders
            .iter()
            .filter_map(|ladder| digests(run, ladder))
            .collect(),
        probes: probes(run),
    }
}

fn plans(run: &Run, findings: &Findings) -> Vec<PlanView> {
    let baseline = run.variants.first().map(|v| v.name.as_str());
    findings
        .evidence
        .plans
        .iter()
        .filter(|plan| {
            let first = plan.repeat == 1 && Some(plan.variant.as_str()) == baseline;
            first || plan.finding.is_some()
        })
        .map(|plan| {
            let ladder = run.evidence.plans.iter().find(|p| {
                p.repeat == plan.repeat && p.variant == plan.variant && p.workload == plan.workload
            });
            let looked = ladder.is_some_and(|p| !p.after.is_empty());
            PlanView {
                workload: plan.workload.clone(),
                variant: plan.variant.clone(),
                class: plan.class.clone(),
                before: plan.before.clone(),
                after: match &plan.after {
                    Some(after) => after.clone(),
                    None if looked => "as before".to_owned(),
                    None => MISSING.to_owned(),
                },
                finding: plan.finding.clone().unwrap_or_else(|| "–".to_owned()),
            }
        })
        .collect()
}

fn of_cell(cell: &CellRecord, seen: &CellEvidenceFinding) -> SeenCellView {
    let replicas: Vec<String> = seen.replicas.iter().map(replica).collect();
    SeenCellView {
        workload: cell.workload.clone(),
        variant: cell.variant.clone(),
        repeat: cell.repeat.to_string(),
        step: step(cell.step),
        rows: or_missing(seen.rows_per_statement.map(figure)),
        replicas: if replicas.is_empty() {
            MISSING.to_owned()
        } else {
            replicas.join("; ")
        },
        swing: or_missing(seen.swing.as_ref().map(|swing| {
            let names: Vec<String> = swing
                .moves
                .iter()
                .map(|m| format!("{} {:+.2}", m.counter, m.correlation))
                .collect();
            let with = if names.is_empty() {
                String::new()
            } else {
                format!(", with {}", names.join(", "))
            };
            format!(
                "{} % every {} s{with}",
                percent(Some(swing.depth)),
                figure(swing.period_seconds)
            )
        })),
        extended: or_missing(seen.extended_seconds.map(figure)),
    }
}

fn replica(replica: &ReplicaFinding) -> String {
    let lag = |seconds: Option<f64>| or_missing(seconds.map(figure));
    if replica.stopped {
        return format!("{}: stopped", replica.name);
    }
    format!(
        "{}: {} → {} s, highest {}",
        replica.name,
        lag(replica.first),
        lag(replica.last),
        lag(replica.highest)
    )
}

/// The statements at the knee, or at the highest step that has any.
fn digests(run: &Run, ladder: &LadderFinding) -> Option<DigestsView> {
    let of = |step: &crate::analysis::StepSummary| {
        let index = step.cells.first()?;
        let cell = run.cells.iter().find(|c| c.index == *index)?;
        (!cell.evidence.digests.is_empty()).then_some(cell)
    };
    let knee = ladder.knee.as_ref().and_then(|k| k.threads);
    let at_knee = ladder
        .steps
        .iter()
        .filter(|s| Some(s.threads) == knee)
        .find_map(of);
    let cell = at_knee.or_else(|| ladder.steps.iter().rev().find_map(of))?;
    let all: f64 = cell.evidence.digests.iter().map(|d| d.seconds).sum();
    Some(DigestsView {
        title: format!("{}, {}, {}", ladder.workload, ladder.variant, cell.step),
        rows: cell
            .evidence
            .digests
            .iter()
            .take(DIGESTS_SHOWN)
            .map(|d| digest(d, all))
            .collect(),
    })
}

fn digest(digest: &Digest, all: f64) -> DigestView {
    let per = |a: f64, b: f64| (b > 0.0).then(|| a / b);
    let mut text: String = digest.text.chars().take(TEXT_SHOWN).collect();
    if text.len() < digest.text.len() {
        text.push('…');
    }
    let rows = if digest.rows_sent > 0.0 {
        digest.rows_sent
    } else {
        digest.count
    };
    DigestView {
        text,
        count: whole(digest.count),
        share: percent(per(digest.seconds, all).map(Ratio)),
        avg: or_missing(per(digest.seconds * 1e3, digest.count).map(figure)),
        examined: or_missing(per(digest.rows_examined, rows).map(figure)),
        locks: percent(per(digest.lock_seconds, digest.seconds).map(Ratio)),
        disk_tables: or_missing(per(digest.tmp_disk_tables, digest.count).map(figure)),
    }
}

/// What the probes themselves took.
fn probes(run: &Run) -> Vec<String> {
    let line = |what: &str, samples: &mut dyn Iterator<Item = &Sample>| {
        let mut place = Place::default();
        let took: Vec<f64> = samples
            .filter_map(|s| s.values.get_again(crate::analysis::PROBE_MS, &mut place))
            .collect();
        let highest = took.iter().copied().reduce(f64::max)?;
        let mean = took.iter().sum::<f64>() / took.len() as f64;
        Some(format!(
            "{what}: {} readings of {} ms on average, {} ms at most",
            count(took.len() as u64),
            figure(mean),
            figure(highest)
        ))
    };
    [
        line("server", &mut run.cells.iter().flat_map(|c| &c.server)),
        line("this host", &mut run.cells.iter().flat_map(|c| &c.host)),
        line(
            "server's host",
            &mut run.cells.iter().flat_map(|c| &c.evidence.server_host),
        ),
        line(
            "replicas",
            &mut run.cells.iter().flat_map(|c| &c.evidence.replicas),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_told_by_its_shares() {
        let seen = digest(
            &Digest {
                text: "SELECT".into(),
                count: 100.0,
                seconds: 2.0,
                lock_seconds: 0.5,
                rows_examined: 5000.0,
                rows_sent: 50.0,
                tmp_disk_tables: 100.0,
                ..Digest::default()
            },
            8.0,
        );
        let found = [
            &seen.count,
            &seen.share,
            &seen.avg,
            &seen.examined,
            &seen.locks,
            &seen.disk_tables,
        ];
        assert_eq!(found, ["100", "25", "20.0", "100", "25", "1.00"]);
        let nothing = digest(&Digest::default(), 0.0);
        assert_eq!(
            (nothing.share.as_str(), nothing.avg.as_str()),
            (MISSING, MISSING)
        );
    }
}
