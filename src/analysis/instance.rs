//! The ladders of the baseline together: one instance has one limit.

use super::findings::{LadderFinding, LimitBasis};
use super::knee::KneeKind;
use super::limit;
use crate::plan::Criteria;

/// The ladder that decides: one that nothing can be recommended for (insufficient, p95 never met)
/// before all, then the smallest limit, then one whose knee was not reached. Among equal limits the lower
/// throughput to plan with.
pub(crate) fn deciding<'a>(baseline: &[&'a LadderFinding]) -> Option<&'a LadderFinding> {
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

/// The recommended limit of all together; one workload without any leaves none for the instance.
pub(crate) fn limit(baseline: &[&LadderFinding]) -> Option<u32> {
    deciding(baseline)?.limit.threads
}

/// The baseline's ladders at the limit of the instance: whoever keeps to it gets of every workload what that
/// carries there, not what it would carry at a higher limit of its own.
pub(crate) fn at_the_limit(ladders: &[LadderFinding], criteria: &Criteria) -> Vec<LadderFinding> {
    let own: Vec<&LadderFinding> = ladders.iter().filter(|l| l.baseline).collect();
    let threads = limit(&own);
    own.into_iter()
        .map(|ladder| held_to(ladder, threads, criteria))
        .collect()
}

/// A ladder at a limit below its own.
pub(crate) fn held_to(
    ladder: &LadderFinding,
    threads: Option<u32>,
    criteria: &Criteria,
) -> LadderFinding {
    let mut held = ladder.clone();
    if let (Some(knee), Some(threads)) = (&ladder.knee, threads)
        && knee.kind != KneeKind::Insufficient
    {
        limit::hold(&mut held.limit, &knee.points, threads, criteria);
    }
    held
}
