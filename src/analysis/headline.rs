//! The answer of a run in one sentence, one word and one exit code.

use std::fmt::Write as _;

use super::criteria;
use super::findings::{
    CellSummary, CriterionResult, Headline, LadderFinding, LimitBasis, Outcome, Overall, Rule,
    StepSummary, Validity,
};
use super::knee::{Confidence, KneeKind};
use crate::record::{CellStatus, Run, RunEnd};
use crate::units::{PerSecond, Ratio};

/// Puts the baseline's ladders and the criteria together.
pub(crate) fn headline(
    run: &Run,
    ladders: &[LadderFinding],
    criteria: &[CriterionResult],
    cells: &[CellSummary],
) -> Headline {
    let baseline: Vec<&LadderFinding> = ladders.iter().filter(|l| l.baseline).collect();
    let decides = deciding(&baseline);
    let knee = decides.and_then(|l| l.knee.as_ref());
    let (overall, why) = overall(run, &baseline, criteria, cells);
    Headline {
        // One workload without any limit to recommend leaves none for the instance.
        limit: decides.and_then(|l| l.limit.threads),
        workload: decides.map(|l| l.workload.clone()),
        knee: knee
            .filter(|k| k.kind != KneeKind::Insufficient)
            .and_then(|k| k.threads),
        kind: knee.map(|k| k.kind.words().to_owned()),
        confidence: knee.map(|k| k.confidence),
        headroom: headroom(&baseline),
        bottleneck: decides
            .and_then(|l| l.bottleneck.as_ref())
            .map(|b| b.primary.as_str().to_owned()),
        sentence: sentence(decides, &baseline) + &reservations(run, cells),
        overall,
        why,
        exit_code: exit_code(overall),
    }
}

/// The ladder that decides: one that nothing can be recommended for (insufficient, p95 never met)
/// before all, then the smallest limit, then one whose knee was not reached. Among equal limits the lower
/// throughput to plan with.
fn deciding<'a>(baseline: &[&'a LadderFinding]) -> Option<&'a LadderFinding> {
    let rank = |ladder: &LadderFinding| match (&ladder.knee, ladder.limit.threads) {
        (Some(_), Some(threads)) => (1, threads),
        (Some(knee), None)
            if knee.kind == KneeKind::NotReached
                && !ladder.limit.p95_never_met
                && ladder.limit.basis != Some(LimitBasis::Soak) =>
        {
            (2, ladder.limit.step.unwrap_or(u32::MAX))
        }
        (Some(_), None) => (0, 0),
        (None, _) => (3, 0),
    };
    let planning = |ladder: &LadderFinding| ladder.limit.planning.map_or(f64::INFINITY, |p| p.0);
    baseline.iter().copied().min_by(|a, b| {
        rank(a)
            .cmp(&rank(b))
            .then_with(|| planning(a).total_cmp(&planning(b)))
    })
}

/// The workloads whose limit is the deciding one's, that first: `A and B`.
fn deciders(decides: &LadderFinding, baseline: &[&LadderFinding]) -> String {
    let mut names = vec![decides.workload.as_str()];
    if decides.limit.threads.is_some() {
        names.extend(
            baseline
                .iter()
                .filter(|l| l.workload != decides.workload)
                .filter(|l| l.limit.threads == decides.limit.threads)
                .map(|l| l.workload.as_str()),
        );
    }
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// The smallest of all. A workload that has none to state leaves none for the instance: the others'
/// would be too rosy.
fn headroom(baseline: &[&LadderFinding]) -> Option<Ratio> {
    let all: Option<Vec<Ratio>> = baseline.iter().map(|l| l.limit.headroom).collect();
    all?.into_iter().reduce(|a, b| if b < a { b } else { a })
}

/// What the reader of one sentence must know about its evidence; empty when there is nothing to say.
fn reservations(run: &Run, cells: &[CellSummary]) -> String {
    let are = |n: usize| if n == 1 { "is" } else { "are" };
    let count = |validity| cells.iter().filter(|c| c.validity == validity).count();
    let mut parts = Vec::new();
    for (n, what) in [
        (count(Validity::Suspect), "suspect"),
        (count(Validity::Invalid), "invalid"),
    ] {
        if n > 0 {
            parts.push(match parts.is_empty() {
                true if cells.len() == 1 => format!("the only cell is {what}"),
                true => format!("{n} of {} cells {} {what}", cells.len(), are(n)),
                false => format!("{n} {} {what}", are(n)),
            });
        }
    }
    let open = run.warnings.iter().filter(|w| !w.accepted).count();
    if open > 0 {
        let warnings = if open == 1 { "warning" } else { "warnings" };
        parts.push(format!("{open} {warnings} {} not accepted", are(open)));
    }
    if parts.is_empty() {
        return String::new();
    }
    let mut text = parts.join(", ");
    if let Some(first) = text.get(..1) {
        let first = first.to_uppercase();
        text.replace_range(..1, &first);
    }
    format!(" {text}.")
}

/// `276 transactions/s`, for sentences.
fn transactions(rate: PerSecond) -> String {
    format!("{} transactions/s", rate.to_string().trim_end_matches("/s"))
}

fn sentence(decides: Option<&LadderFinding>, baseline: &[&LadderFinding]) -> String {
    let Some(ladder) = decides else {
        return "Nothing was measured: no limit to recommend.".to_owned();
    };
    if let Some(open) = &ladder.open {
        return format!(
            "{} ({}).",
            open.sentence.trim_end_matches('.'),
            ladder.workload
        );
    }
    let of = if baseline.len() > 1 {
        format!(", decided by {}", deciders(ladder, baseline))
    } else {
        format!(" ({})", ladder.workload)
    };
    let mut text = match ladder.limit.threads {
        Some(threads) => {
            let planning = ladder.limit.planning.map_or_else(String::new, |tps| {
                format!("; plan with {}", transactions(tps))
            });
            let clients = if threads == 1 { "client" } else { "clients" };
            format!(
                "Recommended limit: {threads} concurrently active {clients}{of}: {}{planning}.",
                ladder.limit.why
            )
        }
        None => format!("No limit to recommend{of}: {}.", ladder.limit.why),
    };
    if let Some(knee) = &ladder.knee {
        // A limit at the low end of the range has said so already.
        let said = ladder.limit.basis == Some(LimitBasis::RangeLow);
        if knee.confidence == Confidence::Low && knee.kind != KneeKind::Insufficient && !said {
            let _ = write!(
                text,
                " Confidence is low: the knee lies within {}.",
                knee.range_words()
            );
        }
        if knee.saturated_at_first && knee.kind != KneeKind::Insufficient {
            text.push_str(" Saturated at or before the first step: run lower steps.");
        }
    }
    if let Some(bottleneck) = &ladder.bottleneck {
        let _ = write!(text, " Bottleneck: {}.", bottleneck.primary.as_str());
    }
    text
}

/// Order: a run that did not end by itself; a criterion that failed on valid evidence; a run that
/// cannot be relied on; a criterion without evidence; an answer that is open, or criteria that were met on
/// weak evidence; passed.
fn overall(
    run: &Run,
    baseline: &[&LadderFinding],
    criteria: &[CriterionResult],
    cells: &[CellSummary],
) -> (Overall, Option<String>) {
    if let RunEnd::Failed(why) = &run.end {
        return (Overall::RunFailed, Some(why.clone()));
    }
    // A run whose last cell the user ended had nothing left to do, and may call itself complete.
    let cut = run
        .cells
        .iter()
        .any(|c| c.status == CellStatus::Interrupted);
    if cut || run.end == RunEnd::Interrupted {
        return (
            Overall::Interrupted,
            Some("the user ended the run; the findings cover what was measured".to_owned()),
        );
    }
    if let Some(failed) = criteria.iter().find(|c| c.outcome == Outcome::Fail) {
        return (
            Overall::Failed,
            Some(format!("{}: {}", failed.name, failed.why)),
        );
    }
    if let Some(why) = unreliable(run, baseline) {
        return (Overall::CannotBeReliedOn, Some(why));
    }
    if let Some(open) = criteria.iter().find(|c| c.outcome == Outcome::NotTested) {
        return (
            Overall::NotTested,
            Some(format!("{}: {}", open.name, open.why)),
        );
    }
    if !criteria.is_empty() {
        return match baseline.iter().find_map(|l| weak(l, cells)) {
            Some(why) => (
                Overall::Inconclusive,
                Some(format!("criteria met, but {why}")),
            ),
            None => (Overall::Passed, None),
        };
    }
    let open = baseline.iter().find_map(|ladder| {
        let knee = ladder.knee.as_ref()?;
        match knee.kind {
            KneeKind::Insufficient => Some(format!("{}: {}", ladder.workload, ladder.limit.why)),
            _ if knee.confidence == Confidence::Low && knee.kind != KneeKind::NotReached => {
                Some(format!(
                    "{}: longer steps, or repeats of those within {}, would settle the knee",
                    ladder.workload,
                    knee.range_words()
                ))
            }
            _ => None,
        }
    });
    match open {
        Some(why) => (Overall::Inconclusive, Some(why)),
        None => (Overall::NothingRequired, None),
    }
}

/// Why criteria that this ladder met are not simply passed; `None`: they are. Low confidence is no reason:
/// the limit then is the low end of the range, and what was met there is met.
fn weak(ladder: &LadderFinding, cells: &[CellSummary]) -> Option<String> {
    let workload = &ladder.workload;
    if ladder
        .knee
        .as_ref()
        .is_some_and(|k| k.kind == KneeKind::Insufficient)
    {
        return Some(format!("{workload}: {}", ladder.limit.why));
    }
    if let Some(step) = criteria::deciding_step(ladder)
        && let Some(objection) = time_is_missing(step, cells)
    {
        return Some(format!(
            "{workload}: the step of {} that decides is suspect ({objection})",
            step.step
        ));
    }
    let measured = ladder.steps.iter().filter(|s| !s.cells.is_empty());
    let doubtful = measured
        .clone()
        .filter(|s| time_is_missing(s, cells).is_some())
        .count();
    let measured = measured.count();
    (2 * doubtful > measured).then(|| {
        format!(
            "{workload}: {doubtful} of {measured} steps are suspect by stalls or unaccounted time"
        )
    })
}

/// The first objection by which the figures of a step may be rubbish although it ran: time that no
/// transaction accounts for (V4), and stalls (V5).
fn time_is_missing(step: &StepSummary, cells: &[CellSummary]) -> Option<String> {
    cells
        .iter()
        .filter(|c| step.cells.contains(&c.index))
        .flat_map(|c| &c.reasons)
        .find(|r| matches!(r.rule, Rule::V4 | Rule::V5))
        .map(|r| format!("{}: {}", r.rule.as_str(), r.text))
}

fn unreliable(run: &Run, baseline: &[&LadderFinding]) -> Option<String> {
    match &run.end {
        RunEnd::Stopped(why) => return Some(format!("the run was stopped: {why}")),
        RunEnd::Running => return Some("the record ends in the middle of the run".to_owned()),
        _ => {}
    }
    if baseline.is_empty() {
        return Some("no cell of the baseline was measured".to_owned());
    }
    if let Some(cell) = run.cells.iter().find(|c| c.status == CellStatus::Stopped) {
        return Some(format!(
            "the guard stopped {}, {}, {}: {}",
            cell.variant,
            cell.workload,
            cell.step,
            cell.reason.as_deref().unwrap_or("no reason given")
        ));
    }
    baseline
        .iter()
        .find_map(|l| Some(format!("{}: {}", l.workload, l.unreliable.as_ref()?)))
}

fn exit_code(overall: Overall) -> u8 {
    match overall {
        Overall::Passed | Overall::NothingRequired | Overall::Inconclusive => 0,
        Overall::Failed | Overall::NotTested => 1,
        Overall::RunFailed => 3,
        Overall::CannotBeReliedOn => 4,
        Overall::Interrupted => 130,
    }
}
