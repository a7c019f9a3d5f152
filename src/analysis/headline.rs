//! The answer of a run in one sentence, one word and one exit code.

use std::fmt::Write as _;

use super::findings::{CriterionResult, Headline, LadderFinding, LimitBasis, Outcome, Overall};
use super::knee::{Confidence, KneeKind};
use crate::record::{CellStatus, Run, RunEnd};

/// Puts the baseline's ladders and the criteria together.
pub(crate) fn headline(
    run: &Run,
    ladders: &[LadderFinding],
    criteria: &[CriterionResult],
) -> Headline {
    let baseline: Vec<&LadderFinding> = ladders.iter().filter(|l| l.baseline).collect();
    let decides = deciding(&baseline);
    let knee = decides.and_then(|l| l.knee.as_ref());
    let (overall, why) = overall(run, &baseline, criteria);
    Headline {
        // One workload without any limit to recommend leaves none for the instance.
        limit: decides.and_then(|l| l.limit.threads),
        workload: decides.map(|l| l.workload.clone()),
        knee: knee
            .filter(|k| k.kind != KneeKind::Insufficient)
            .and_then(|k| k.threads),
        kind: knee.map(|k| k.kind.words().to_owned()),
        confidence: knee.map(|k| k.confidence),
        bottleneck: decides
            .and_then(|l| l.bottleneck.as_ref())
            .map(|b| b.primary.as_str().to_owned()),
        sentence: sentence(decides, &baseline),
        overall,
        why,
        exit_code: exit_code(overall),
    }
}

/// The ladder that decides: one that nothing can be recommended for (insufficient, p95 never met)
/// before all, then the smallest limit, then one whose knee was not reached.
fn deciding<'a>(baseline: &[&'a LadderFinding]) -> Option<&'a LadderFinding> {
    baseline
        .iter()
        .copied()
        .min_by_key(|ladder| match (&ladder.knee, ladder.limit.threads) {
            (Some(_), Some(threads)) => (1, threads),
            (Some(knee), None)
                if knee.kind == KneeKind::NotReached && !ladder.limit.p95_never_met =>
            {
                (2, ladder.limit.step.unwrap_or(u32::MAX))
            }
            (Some(_), None) => (0, 0),
            (None, _) => (3, 0),
        })
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
        format!(", decided by {}", ladder.workload)
    } else {
        format!(" ({})", ladder.workload)
    };
    let mut text = match ladder.limit.threads {
        Some(threads) => {
            let planning = ladder
                .limit
                .planning
                .map_or_else(String::new, |tps| format!("; plan with {tps}"));
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
/// cannot be relied on; a criterion without evidence; an answer that is open; passed.
fn overall(
    run: &Run,
    baseline: &[&LadderFinding],
    criteria: &[CriterionResult],
) -> (Overall, Option<String>) {
    match &run.end {
        RunEnd::Failed(why) => return (Overall::RunFailed, Some(why.clone())),
        RunEnd::Interrupted => {
            return (
                Overall::Interrupted,
                Some("the user ended the run; the findings cover what was measured".to_owned()),
            );
        }
        RunEnd::Running | RunEnd::Completed | RunEnd::Stopped(_) => {}
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
    match (open, criteria.is_empty()) {
        // Criteria that were met at the low end of the range are met.
        (_, false) => (Overall::Passed, None),
        (Some(why), true) => (Overall::Inconclusive, Some(why)),
        (None, true) => (Overall::NothingRequired, None),
    }
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
