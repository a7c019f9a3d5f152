//! The plan's criteria: pass, fail, not tested or inconclusive. Missing evidence is never a pass, doubtful
//! evidence neither that nor a fail.

use super::findings::{
    CellSummary, CriterionResult, LadderFinding, Outcome, SoakFinding, SoakOutcome, StepSummary,
};
use super::knee::KneeKind;
use super::verdict::{Bench, Judged, result};
use super::{doubt, instance};
use crate::plan::Step;
use crate::record::Run;
use crate::units::{Millis, PerSecond, Ratio};

/// Judges all criteria that the plan states, against the baseline's ladders. `held`: these at the limit of the
/// instance.
pub(crate) fn judge(
    run: &Run,
    ladders: &[LadderFinding],
    held: &[LadderFinding],
    cells: &[CellSummary],
    soak: Option<&SoakFinding>,
) -> Vec<CriterionResult> {
    let own: Vec<&LadderFinding> = ladders.iter().filter(|l| l.baseline).collect();
    let criteria = &run.criteria;
    let bench = Bench {
        instance: instance::limit(&own),
        cells,
        criteria,
    };
    let held: Vec<&LadderFinding> = held.iter().collect();
    let mut results = Vec::new();
    if let Some(peak) = criteria.expected_peak_tps {
        results.push(bench.over(&held, "expected_peak_tps", |ladder, _| {
            throughput(ladder, peak, criteria.min_headroom)
        }));
    } else if let Some(headroom) = criteria.min_headroom {
        results.push(CriterionResult {
            name: "min_headroom".to_owned(),
            required: format!("≥ {headroom}"),
            found: "n/a".to_owned(),
            outcome: Outcome::NotTested,
            why: "the plan states no expected_peak_tps to measure it against".to_owned(),
            place: None,
            remark: None,
        });
    }
    if let Some(limit) = criteria.max_p95 {
        results.push(bench.over(&held, "max_p95", |ladder, _| {
            latency(ladder, limit, criteria.at, "p95", |s| s.p95)
        }));
    }
    if let Some(limit) = criteria.max_p99 {
        results.push(bench.over(&held, "max_p99", |ladder, _| {
            latency(ladder, limit, criteria.at, "p99", |s| s.p99)
        }));
    }
    if let Some(least) = criteria.min_threads {
        results.push(bench.over(&own, "min_threads", |ladder, _| threads(ladder, least)));
    }
    if let Some(most) = criteria.max_errors {
        results.push(bench.over(&held, "max_errors", |ladder, cells| {
            errors(ladder, cells, most)
        }));
    }
    if criteria.soak_held {
        results.push(soak_held(soak, cells));
    }
    results
}

/// Held is a pass; a decline or a load that broke is a fail; anything else was not tested.
/// A soak from which others took the CPU shows neither.
fn soak_held(soak: Option<&SoakFinding>, cells: &[CellSummary]) -> CriterionResult {
    let crowded = soak
        .and_then(|s| s.cell)
        .and_then(|index| cells.iter().find(|c| c.index == index))
        .is_some_and(doubt::crowded);
    let outcome = match soak.map(|s| s.outcome) {
        Some(SoakOutcome::Held) => Outcome::Pass,
        Some(SoakOutcome::Declined | SoakOutcome::Broken) => Outcome::Fail,
        Some(SoakOutcome::NotJudged | SoakOutcome::NotRun) | None => Outcome::NotTested,
    };
    let remark = (crowded && outcome != Outcome::NotTested)
        .then(|| "other processes had the CPU during the soak (V7)".to_owned());
    CriterionResult {
        name: "soak_held".to_owned(),
        required: soak.map_or_else(
            || "held".to_owned(),
            |s| format!("{} held for {}", s.asked, s.planned),
        ),
        found: soak.map_or("n/a", |s| s.outcome.as_str()).to_owned(),
        outcome: match remark {
            Some(_) => Outcome::Inconclusive,
            None => outcome,
        },
        why: soak.map_or_else(
            || "the soak was not run".to_owned(),
            |s| {
                let said = s.sentence.trim_end_matches('.');
                match &remark {
                    Some(remark) => format!("{said}; {remark}"),
                    None => said.to_owned(),
                }
            },
        ),
        // What a share of the knee came to.
        place: soak.and_then(|s| {
            let step = s.step?;
            Some(match &s.place {
                Some(place) => format!("at {step}: {place}"),
                None => format!("at {step}"),
            })
        }),
        remark,
    }
}

/// All steps that were measured: what none of them keeps is decided on each.
fn all_steps(ladder: &LadderFinding) -> Vec<Step> {
    ladder
        .steps
        .iter()
        .filter(|s| s.tps.is_some())
        .map(|s| s.step)
        .collect()
}

/// No step keeps `max_p95`: whatever else is asked fails by that. Nothing is further from being met.
fn latency_fails(required: String, found: String, ladder: &LadderFinding) -> Judged {
    let mut failed = result(
        required,
        found,
        Outcome::Fail,
        format!("max_p95 fails: {}", ladder.limit.why),
    )
    .margin(f64::NEG_INFINITY);
    failed.on = all_steps(ladder);
    failed
}

/// The step whose figures stand for the ladder: the limit's, or the highest tested one.
pub(super) fn deciding_step(ladder: &LadderFinding) -> Option<&StepSummary> {
    if ladder.open.is_some() {
        let held = ladder.open.as_ref()?.highest_held?;
        return ladder
            .steps
            .iter()
            .find(|s| s.step == Step::Rate(held) && s.tps.is_some());
    }
    let threads = ladder.limit.step?;
    ladder
        .steps
        .iter()
        .find(|s| s.threads == threads && s.tps.is_some())
}

/// Where a figure was taken.
fn place(ladder: &LadderFinding, step: &StepSummary) -> String {
    match ladder.knee.as_ref().map(|k| k.kind) {
        Some(KneeKind::NotReached) if ladder.limit.threads.is_none() => {
            format!("at {}, the highest step tested", step.step)
        }
        _ if ladder
            .limit
            .threads
            .is_some_and(|limit| step.threads > limit) =>
        {
            format!("at {}, above the limit", step.step)
        }
        _ => format!("at {}", step.step),
    }
}

fn not_tested(required: String, ladder: &LadderFinding) -> Judged {
    result(
        required,
        "n/a".to_owned(),
        Outcome::NotTested,
        ladder
            .open
            .as_ref()
            .map_or_else(|| ladder.limit.why.clone(), |open| open.sentence.clone()),
    )
}

fn throughput(ladder: &LadderFinding, peak: f64, headroom: Option<Ratio>) -> Judged {
    let factor = 1.0 + headroom.map_or(0.0, |h| h.0);
    let needed = PerSecond(peak * factor);
    let required = match headroom {
        Some(headroom) => format!("{} + {headroom} headroom = {needed}", PerSecond(peak)),
        None => needed.to_string(),
    };
    if ladder.limit.p95_never_met {
        let best = ladder
            .steps
            .iter()
            .filter_map(|s| Some((s.tps?, s.step)))
            .reduce(|a, b| if b.0 > a.0 { b } else { a });
        let found = best.map_or_else(
            || "n/a".to_owned(),
            |(tps, step)| format!("{tps} at best (at {step})"),
        );
        return latency_fails(required, found, ladder);
    }
    // What does not suffice for the peak with room to spare is met, but is no plan.
    let spare = ladder
        .limit
        .planning
        .filter(|planning| headroom.is_none() && planning.0 < peak)
        .map(|planning| {
            format!(
                "met only without reserve: the throughput to plan with is {planning}, below the expected peak"
            )
        });
    if ladder.limit.threads.is_some() && ladder.limit.throughput.is_none() {
        return between_steps(ladder, required, peak, needed, spare);
    }
    let Some((step, tps)) = deciding_step(ladder).and_then(|s| Some((s, s.tps?))) else {
        return not_tested(required, ladder);
    };
    // Too few valid steps: the highest throughput that was measured is no limit's.
    if ladder.open.is_none() && ladder.limit.throughput.is_none() {
        return not_tested(required, ladder);
    }
    let enough = tps.0 >= needed.0;
    let headroom = Ratio(tps.0 / peak - 1.0);
    let at = place(ladder, step);
    // Below a knee that was not reached the server may carry more: not enough is not yet a fail.
    let open_end = ladder.limit.threads.is_none() && ladder.open.is_none();
    let outcome = match (enough, open_end) {
        (true, _) => Outcome::Pass,
        (false, true) => Outcome::NotTested,
        (false, false) => Outcome::Fail,
    };
    let mut why = format!(
        "{tps} {at}: {:+.0} % against the expected peak",
        headroom.0 * 100.0
    );
    if outcome == Outcome::NotTested {
        why.push_str("; the ladder ends before the knee, extend it");
    }
    result(required, tps.to_string(), outcome, why)
        .margin(tps.0 / needed.0 - 1.0)
        .at(step.step, at)
        .remark(spare.filter(|_| enough))
}

/// The limit lies between two steps. It carries at least what the highest step within it does, and at most
/// what the next one does; what lies between was not measured.
fn between_steps(
    ladder: &LadderFinding,
    required: String,
    peak: f64,
    needed: PerSecond,
    spare: Option<String>,
) -> Judged {
    let (Some(limit), Some(above)) = (
        ladder.limit.threads,
        deciding_step(ladder).and_then(|s| Some((s.tps?, s.step))),
    ) else {
        return not_tested(required, ladder);
    };
    let within = ladder
        .steps
        .iter()
        .filter(|s| s.threads <= limit)
        .filter_map(|s| Some((s.tps?, s.step)))
        .next_back();
    let against = |tps: PerSecond| (tps.0 / peak - 1.0) * 100.0;
    match within {
        Some((tps, step)) if tps.0 >= needed.0 => result(
            required,
            format!("≥ {tps}"),
            Outcome::Pass,
            format!(
                "{tps} at {step}, the highest step within the limit: {:+.0} % against the expected peak",
                against(tps)
            ),
        )
        .margin(tps.0 / needed.0 - 1.0)
        .at(step, format!("at {step}, within the limit"))
        .remark(spare),
        _ if above.0.0 < needed.0 => result(
            required,
            format!("≤ {}", above.0),
            Outcome::Fail,
            format!(
                "{} at {}, above the limit: {:+.0} % against the expected peak",
                above.0,
                above.1,
                against(above.0)
            ),
        )
        .margin(above.0.0 / needed.0 - 1.0)
        .at(above.1, format!("at {}, above the limit", above.1)),
        _ => result(
            required,
            within.map_or_else(|| "n/a".to_owned(), |(tps, _)| format!("≥ {tps}")),
            Outcome::NotTested,
            format!("the limit itself was not measured: run {}", Step::Threads(limit)),
        )
        .margin(within.map_or(f64::INFINITY, |(tps, _)| tps.0 / needed.0 - 1.0)),
    }
}

fn latency(
    ladder: &LadderFinding,
    most: Millis,
    at: Option<Step>,
    name: &str,
    figure: fn(&StepSummary) -> Option<Millis>,
) -> Judged {
    if let Some(at) = at {
        return latency_at(ladder, most, at, name, figure);
    }
    let required = format!("{name} ≤ {most} at the limit");
    if ladder.limit.p95_never_met {
        let best = ladder
            .steps
            .iter()
            .filter_map(figure)
            .reduce(|a, b| if b < a { b } else { a });
        let found = best.map_or_else(|| "n/a".to_owned(), |b| format!("{b} at best"));
        if name == "p95" {
            let over = best.map_or(f64::NEG_INFINITY, |b| 1.0 - b.0 / most.0);
            let mut failed =
                result(required, found, Outcome::Fail, ladder.limit.why.clone()).margin(over);
            failed.on = all_steps(ladder);
            return failed;
        }
        return latency_fails(required, found, ladder);
    }
    let Some(step) = deciding_step(ladder) else {
        return not_tested(required, ladder);
    };
    let at = place(ladder, step);
    let place = at.clone();
    let Some(found) = figure(step) else {
        return result(
            required,
            "n/a".to_owned(),
            Outcome::NotTested,
            format!("{name} was not measured {at}"),
        );
    };
    // A percentile above the limit bounds the limit's from above only; the highest step within it from below.
    let within = ladder
        .limit
        .threads
        .filter(|limit| step.threads > *limit)
        .map(|limit| {
            let below = ladder.steps.iter().rfind(|s| s.threads <= limit);
            (limit, below.and_then(figure))
        });
    let outcome = match within {
        _ if found <= most => Outcome::Pass,
        Some((limit, below)) if below.is_none_or(|below| below <= most) => {
            return result(
                required,
                format!("≤ {found}"),
                Outcome::NotTested,
                format!(
                    "{name} {found} {at}; the limit itself was not measured: run {}",
                    Step::Threads(limit)
                ),
            );
        }
        _ => Outcome::Fail,
    };
    result(
        required,
        found.to_string(),
        outcome,
        format!("{name} {found} {at}"),
    )
    .margin(1.0 - found.0 / most.0)
    .at(step.step, place)
}

/// A percentile at the step that the plan names.
fn latency_at(
    ladder: &LadderFinding,
    most: Millis,
    at: Step,
    name: &str,
    figure: fn(&StepSummary) -> Option<Millis>,
) -> Judged {
    let required = format!("{name} ≤ {most} at {at}");
    let step = ladder.steps.iter().find(|s| s.step == at);
    let Some(found) = step.and_then(figure) else {
        let why = match step {
            Some(step) if step.cells.is_empty() => format!("no valid run at {at}"),
            Some(_) => format!("{name} was not measured at {at}"),
            None => format!("{at} was not run"),
        };
        return result(required, "n/a".to_owned(), Outcome::NotTested, why);
    };
    let outcome = if found <= most {
        Outcome::Pass
    } else {
        Outcome::Fail
    };
    result(
        required,
        found.to_string(),
        outcome,
        format!("{name} {found} at {at}"),
    )
    .margin(1.0 - found.0 / most.0)
    .at(at, format!("at {at}"))
}

fn threads(ladder: &LadderFinding, least: u32) -> Judged {
    let required = format!("limit ≥ {}", Step::Threads(least));
    let margin = |threads: u32| f64::from(threads) / f64::from(least) - 1.0;
    // A limit is decided at the step that stands for it, but is itself where it was found.
    let decided = |mut judged: Judged| {
        judged.on = deciding_step(ladder).map(|s| s.step).into_iter().collect();
        judged
    };
    if ladder.limit.p95_never_met {
        return latency_fails(required, "none".to_owned(), ladder);
    }
    if let Some(limit) = ladder.limit.threads {
        let outcome = if limit >= least {
            Outcome::Pass
        } else {
            Outcome::Fail
        };
        let found = result(
            required,
            limit.to_string(),
            outcome,
            format!("recommended limit {limit}: {}", ladder.limit.why),
        );
        return decided(found.margin(margin(limit)));
    }
    match ladder.limit.step {
        Some(tested) if tested >= least => {
            let found = result(
                required,
                format!("≥ {tested}"),
                Outcome::Pass,
                format!("no limit found up to {}", Step::Threads(tested)),
            );
            decided(found.margin(margin(tested)))
        }
        _ => not_tested(required, ladder),
    }
}

/// Errors count on every cell up to the limit, also on those that are invalid because of them.
fn errors(ladder: &LadderFinding, cells: &[CellSummary], most: Ratio) -> Judged {
    let required = format!("≤ {most} of transactions failed");
    let up_to = deciding_step(ladder).map(|s| super::ladder::height(s.step));
    let worst = cells
        .iter()
        .filter(|c| c.variant == ladder.variant && c.workload == ladder.workload)
        .filter(|c| up_to.is_none_or(|top| super::ladder::height(c.step) <= top))
        .filter_map(|c| c.error_share.map(|share| (share, c.step)))
        .reduce(|a, b| if b.0 > a.0 { b } else { a });
    let Some((share, step)) = worst else {
        return not_tested(required, ladder);
    };
    let outcome = if share <= most {
        Outcome::Pass
    } else {
        Outcome::Fail
    };
    result(
        required,
        share.to_string(),
        outcome,
        format!("at most {share} (at {step})"),
    )
    // Not a share of the requirement, which may be 0; all ladders have the same.
    .margin(most.0 - share.0)
    .at(step, format!("at {step}"))
}
