//! The answer of a run in one sentence, one word and one exit code.

use std::fmt::Write as _;

use super::findings::{
    CellSummary, CriterionResult, Headline, LadderFinding, LimitBasis, Outcome, Overall,
    StepSummary, Validity,
};
use super::instance::deciding;
use super::knee::{Confidence, Knee, KneeKind};
use super::{criteria, doubt};
use crate::record::{CellStatus, Run, RunEnd};
use crate::units::{PerSecond, Ratio};

/// Puts the baseline's ladders and the criteria together. `held`: these ladders at the limit of the instance.
pub(crate) fn headline(
    run: &Run,
    ladders: &[LadderFinding],
    held: &[LadderFinding],
    criteria: &[CriterionResult],
    cells: &[CellSummary],
) -> Headline {
    let baseline: Vec<&LadderFinding> = ladders.iter().filter(|l| l.baseline).collect();
    let decides = deciding(&baseline);
    let knee = decides.and_then(|l| l.knee.as_ref());
    let held: Vec<&LadderFinding> = held.iter().collect();
    let (overall, why) = overall(run, &held, criteria, cells);
    Headline {
        // One workload without any limit to recommend leaves none for the instance.
        limit: decides.and_then(|l| l.limit.threads),
        workload: decides.map(|l| l.workload.clone()),
        knee: knee
            .filter(|k| k.kind != KneeKind::Insufficient)
            .and_then(|k| k.threads),
        kind: knee.map(|k| k.kind.words().to_owned()),
        confidence: knee.map(|k| k.confidence),
        headroom: headroom(&held),
        bottleneck: decides
            .and_then(|l| l.bottleneck.as_ref())
            .map(|b| b.primary.as_str().to_owned()),
        sentence: sentence(run, decides, &baseline) + &reservations(run, cells),
        overall,
        why,
        exit_code: exit_code(overall),
    }
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
    let of = |ladder: &&LadderFinding| {
        let known = |knee: &Knee| knee.kind != KneeKind::Insufficient;
        ladder
            .limit
            .headroom
            .filter(|_| ladder.knee.as_ref().is_none_or(known))
    };
    let all: Option<Vec<Ratio>> = baseline.iter().map(of).collect();
    all?.into_iter().reduce(|a, b| if b < a { b } else { a })
}

/// How many cells cannot simply be trusted.
pub(crate) struct Doubts {
    /// Used, with objections.
    pub(crate) suspect: usize,
    /// Run, but not used.
    pub(crate) invalid: usize,
    /// Never begun.
    pub(crate) not_run: usize,
}

impl Doubts {
    /// Counts them; a cell that was not run is neither suspect nor invalid.
    pub(crate) fn of(cells: &[CellSummary]) -> Self {
        let ran = |c: &&CellSummary| c.status != CellStatus::Skipped;
        let count = |validity| {
            cells
                .iter()
                .filter(ran)
                .filter(|c| c.validity == validity)
                .count()
        };
        Self {
            suspect: count(Validity::Suspect),
            invalid: count(Validity::Invalid),
            not_run: cells.len() - cells.iter().filter(ran).count(),
        }
    }
}

/// What the reader of one sentence must know about its evidence; empty when there is nothing to say.
fn reservations(run: &Run, cells: &[CellSummary]) -> String {
    let are = |n: usize| if n == 1 { "is" } else { "are" };
    let doubts = Doubts::of(cells);
    let mut parts = Vec::new();
    for (n, what, verb) in [
        (doubts.suspect, "suspect", are(doubts.suspect)),
        (doubts.invalid, "invalid", are(doubts.invalid)),
        (
            doubts.not_run,
            "not run",
            if doubts.not_run == 1 { "was" } else { "were" },
        ),
    ] {
        if n > 0 {
            parts.push(match parts.is_empty() {
                true if cells.len() == 1 => format!("the only cell {verb} {what}"),
                true => format!("{n} of {} cells {verb} {what}", cells.len()),
                false => format!("{n} {verb} {what}"),
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

fn sentence(run: &Run, decides: Option<&LadderFinding>, baseline: &[&LadderFinding]) -> String {
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
                let below = run
                    .criteria
                    .expected_peak_tps
                    .filter(|peak| tps.0 < *peak)
                    .map_or_else(String::new, |peak| {
                        format!(", below the expected peak of {}", PerSecond(peak))
                    });
                format!("; plan with {}{below}", transactions(tps))
            });
            let clients = if threads == 1 { "client" } else { "clients" };
            format!(
                "Recommended limit: {threads} concurrently active {clients}{of}: {}{planning}.",
                ladder.limit.why
            )
        }
        // Nothing was decided; the first that keeps the instance from a limit says why.
        None => format!(
            "No limit to recommend ({}): {}.",
            ladder.workload, ladder.limit.why
        ),
    };
    if let Some(knee) = &ladder.knee {
        // A limit at the low end of the range has said so already.
        let said = ladder.limit.basis == Some(LimitBasis::RangeLow);
        if knee.confidence == Confidence::Low && knee.kind != KneeKind::Insufficient && !said {
            let _ = match &knee.lowered {
                Some(why) if why == doubt::CROWDED => write!(text, " Confidence is low: {why}."),
                _ => write!(
                    text,
                    " Confidence is low: the knee lies within {}.",
                    knee.range_words()
                ),
            };
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
/// cannot be relied on; a criterion without evidence; one with doubtful evidence; an answer that is open, or
/// criteria that were met on weak evidence; passed.
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
    if let Some(open) = criteria.iter().find(|c| c.outcome == Outcome::Inconclusive) {
        let why = open.remark.as_ref().unwrap_or(&open.why);
        let place = open
            .place
            .as_ref()
            .map_or_else(String::new, |place| format!(" {place}"));
        return (
            Overall::Inconclusive,
            Some(format!("{}{place}: {why}", open.name)),
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
            _ if knee.lowered.as_deref() == Some(doubt::CROWDED) => Some(format!(
                "{}: {}: stop them, or measure on a host without them, and run again",
                ladder.workload,
                doubt::CROWDED
            )),
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
    let on: Vec<&StepSummary> = criteria::deciding_step(ladder).into_iter().collect();
    doubt::of_decision(ladder, &on, cells).map(|why| format!("{workload}: {why}"))
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
