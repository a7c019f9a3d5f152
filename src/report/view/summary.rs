//! The verdict first, and at the end what every figure means.

use crate::analysis::knee::KneeKind;
use crate::analysis::{
    Comparison, CriterionResult, Decision, Effect, EffectVerdict, Findings, LadderFinding,
};
use crate::plan::Warning;
use crate::record::{Run, RunEnd};
use crate::report::figures::{MISSING, change, counted, figure, or_missing, rate};
use crate::units::Ratio;

use super::environment;
use super::ladders::{confidence, knee_words, proof, sentence, step};
use super::model::{ComparisonView, CriterionView, Pair, Summary, WarningView};

pub(super) fn summary(run: &Run, findings: &Findings) -> Summary {
    let headline = &findings.headline;
    let all = warnings(run);
    let (accepted, open) = all.into_iter().partition(|w: &WarningView| w.state != OPEN);
    Summary {
        name: run.name.clone(),
        overall: headline.overall.as_str().to_owned(),
        why: headline.why.as_deref().map(sentence),
        sentence: sentence(&headline.sentence),
        incomplete: match run.end {
            RunEnd::Completed => None,
            ref end => Some(sentence(&environment::end(end))),
        },
        answers: answers(run, findings),
        criteria: findings.criteria.iter().map(criterion).collect(),
        accepted,
        open,
    }
}

/// The workloads whose limit is the recommended one: `first`, then the others.
fn deciders(findings: &Findings, limit: u32, first: &str) -> String {
    let others = findings
        .ladders
        .iter()
        .filter(|l| l.baseline && l.workload != first && l.limit.threads == Some(limit))
        .map(|l| l.workload.as_str());
    let names: Vec<&str> = std::iter::once(first).chain(others).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

fn answers(run: &Run, findings: &Findings) -> Vec<Pair> {
    let headline = &findings.headline;
    let deciding: Option<&LadderFinding> = findings
        .ladders
        .iter()
        .find(|l| l.baseline && Some(&l.workload) == headline.workload.as_ref());
    let limit = match (headline.limit, headline.workload.as_deref()) {
        (Some(limit), Some(workload)) => format!(
            "{}, decided by {}",
            counted(limit.into(), "concurrently active client"),
            deciders(findings, limit, workload)
        ),
        (Some(limit), None) => counted(limit.into(), "concurrently active client"),
        (None, _) => match deciding {
            Some(ladder) => format!("none: {}", ladder.limit.why),
            None => "none".to_owned(),
        },
    };
    let mut rows = vec![Pair::new("Recommended limit", limit)];
    if let Some(open) = deciding.and_then(|l| l.open.as_ref()) {
        rows.push(Pair::new("Highest rate held", held(open.highest_held)));
    } else {
        let knee = deciding.and_then(|l| l.knee.as_ref());
        rows.push(Pair::new(
            "Knee",
            or_missing(knee.map(|k| match k.kind {
                KneeKind::Insufficient => knee_words(k),
                _ => format!(
                    "{}, confidence {}, range {}",
                    knee_words(k),
                    confidence(k),
                    k.range_words()
                ),
            })),
        ));
    }
    let bottleneck = deciding.and_then(|l| l.bottleneck.as_ref());
    rows.push(Pair::new(
        "Bottleneck",
        bottleneck.map_or_else(
            || or_missing(headline.bottleneck.clone()),
            |b| {
                let place = if b.after_knee {
                    format!(" (at {} clients, the step after the knee)", b.threads)
                } else {
                    String::new()
                };
                format!("{}{place}: {}", b.primary.as_str(), proof(b))
            },
        ),
    ));
    if let Some(ladder) = deciding {
        let planning = ladder.limit.planning.map_or_else(
            || MISSING.to_owned(),
            |p| format!("{} transactions/s", figure(p.0)),
        );
        rows.push(Pair::new("Throughput to plan with", planning));
        if let Some(peak) = run.criteria.expected_peak_tps {
            let headroom = headline.headroom.map(|headroom| {
                let side = if headroom.0 < 0.0 { "below" } else { "over" };
                format!(
                    "{} {side} the expected peak of {} transactions/s",
                    Ratio(headroom.0.abs()),
                    figure(peak)
                )
            });
            rows.push(Pair::new("Headroom", or_missing(headroom)));
        }
        if let Some(soak) = &findings.soak {
            let held = format!("{}. {}", soak.outcome.as_str(), soak.sentence);
            rows.push(Pair::new("Soak", held));
        }
        if let Some(why) = &ladder.unreliable {
            rows.push(Pair::new("Cannot be relied on", why));
        }
    }
    rows
}

fn held(rate: Option<crate::units::PerSecond>) -> String {
    rate.map_or_else(
        || "none".to_owned(),
        |r| format!("{} transactions/s", figure(r.0)),
    )
}

fn criterion(c: &CriterionResult) -> CriterionView {
    CriterionView {
        name: c.name.clone(),
        required: c.required.clone(),
        found: c.found.clone(),
        outcome: c.outcome.as_str().to_owned(),
        why: c.why.clone(),
        found_at: match &c.place {
            Some(place) => format!("{} {place}", c.found),
            None => c.found.clone(),
        },
        remark: c.remark.clone(),
    }
}

const OPEN: &str = "open";

pub(super) fn warnings(run: &Run) -> Vec<WarningView> {
    let view = |w: &Warning| WarningView {
        name: w.name.clone(),
        text: sentence(&w.text),
        state: if w.accepted {
            "accepted in the plan"
        } else {
            OPEN
        }
        .to_owned(),
    };
    run.warnings.iter().map(view).collect()
}

pub(in crate::report) fn comparisons(comparisons: &[Comparison]) -> Vec<ComparisonView> {
    comparisons.iter().map(comparison).collect()
}

fn comparison(c: &Comparison) -> ComparisonView {
    let mut text = sentence(&c.sentence);
    // A sentence that rests on it has said so already.
    if !c.durability.iter().all(|d| text.contains(d)) {
        text = format!("{text} Durability: {}.", c.durability.join(", "));
    }
    if let Some(drift) = c.drift {
        text = format!(
            "{text} The baseline itself moved by {} % through the run; no smaller claim is made.",
            change(Some(drift))
        );
    }
    let tps = |value: f64| rate(Some(crate::units::PerSecond(value)));
    ComparisonView {
        variant: c.variant.clone(),
        baseline: c.baseline.clone(),
        workload: c.workload.clone(),
        step: step(c.step),
        deciding: c.deciding,
        runs: format!("{} / {}", c.runs.0, c.runs.1),
        tps_baseline: tps(c.tps.baseline),
        tps_variant: tps(c.tps.variant),
        tps_change: effect(&c.tps),
        tps_verdict: verdict(&c.tps),
        p95_change: or_missing(c.p95.as_ref().map(effect)),
        p95_verdict: or_missing(c.p95.as_ref().map(verdict)),
        decision: match c.decision {
            Decision::Keep => "keep",
            Decision::NeedsSignOff => "needs sign-off",
            Decision::Confounded => "confounded",
            Decision::RollBack => "roll back",
            Decision::Undecided => "undecided",
        }
        .to_owned(),
        sentence: text,
    }
}

fn effect(effect: &Effect) -> String {
    let interval = effect.interval.map_or_else(String::new, |(low, high)| {
        format!(" ({} … {})", change(Some(low)), change(Some(high)))
    });
    format!("{}{interval}", change(Some(effect.change)))
}

fn verdict(effect: &Effect) -> String {
    let words = match effect.verdict {
        EffectVerdict::Better => "better",
        EffectVerdict::Worse => "worse",
        EffectVerdict::Equivalent => "equivalent",
        EffectVerdict::Inconclusive => "inconclusive",
        EffectVerdict::BetterBeyondNoise => "better, beyond noise",
        EffectVerdict::WorseBeyondNoise => "worse, beyond noise",
    };
    match effect.runs_needed {
        Some(runs) => format!("{words}; {runs} runs a side would tell"),
        None => words.to_owned(),
    }
}

/// What the load is not, for whoever takes the numbers for a promise.
pub(super) fn not_this(run: &Run) -> Vec<String> {
    let mut lines = Vec::new();
    if run.open.is_some() {
        lines.push(
            "The arrival rates stand for requests that do not wait for one another; retries and users who give up are not modelled.".to_owned(),
        );
    } else {
        lines.push(
            "Threads are clients that are active all the time: each sends its next transaction when the last has been answered. A limit on them is a limit on active sessions, not the size of a connection pool, whose connections are mostly idle.".to_owned(),
        );
        lines.push(
            "Percentiles are service times under that many clients, not what users feel when requests arrive faster than they are answered.".to_owned(),
        );
    }
    lines.push(
        "The built-in workloads have no joins, no long transactions and no business skew; an application with them has other limits.".to_owned(),
    );
    lines.push(
        "Rows hold random text, which compresses worse than real rows and caches no better than the access distribution says.".to_owned(),
    );
    lines.push(
        "The figures hold for this server, these settings and this amount of data on that day; they promise nothing for the application.".to_owned(),
    );
    lines
}

/// How each figure is defined: one window for all.
pub(super) fn definitions(run: &Run) -> Vec<Pair> {
    let mut rows = vec![
        Pair::new(
            "Window",
            format!(
                "Measuring begins when all clients are connected and after the discard ({}). The steady-state cut (MSER) removes whole intervals from its start. Every figure of a cell comes from the intervals that remain, here and in cells.csv, except those by statement, which are kept for the measured time as a whole. The column \"window\" gives its length.",
                run.discard
            ),
        ),
        Pair::new(
            "TPS",
            "Transactions that ended well in the window, per second.",
        ),
        Pair::new(
            "QPS",
            "Statements answered in the window, per second, BEGIN and COMMIT included.",
        ),
    ];
    if run.open.is_some() {
        rows.push(Pair::new(
            "Response, ms",
            "From the instant at which a transaction was due until its last answer: the wait for a free client counts.",
        ));
        rows.push(Pair::new(
            "Service, ms",
            "From when a client took the transaction up until its last answer: without that wait.",
        ));
        rows.push(Pair::new(
            "Dropped, %",
            "Arrivals for which the backlog had no room, of all arrivals. Arrivals are done, failed or dropped.",
        ));
    } else {
        rows.push(Pair::new(
            "Latency, ms",
            "From the first statement sent until the last answer of a transaction that ended well, retries included, think time not.",
        ));
    }
    rows.extend([
        Pair::new(
            "p50 … p99.9",
            "From the merged HdrHistograms of the window (3 significant digits), never an average of percentiles. Mean and max are exact.",
        ),
        Pair::new(
            "Errors",
            "All errors by code and statement, those included that a retry cured. Given up: transactions that failed after their retries.",
        ),
        Pair::new(
            "Spread, %",
            "Standard deviation of transactions per client, of their mean: 0 is perfectly fair.",
        ),
        Pair::new(
            "CV, %",
            "Coefficient of variation of the intervals' TPS: high values mean swings, often flushing or overload.",
        ),
        Pair::new(
            "Gain, %",
            "Change of TPS per doubling of threads, step to step: against the previous valid step. The knee is held against every later step instead, so that a row beyond it may show more than the threshold.",
        ),
        Pair::new(
            "Verdict",
            "Valid, suspect (shown and used, lowers confidence) or invalid (enters no fit, mean or recommendation). V1 ran to its end; V2 clients connected; V3 failed transactions; V4 Little's law; V5 stalls; V6 steady; V7 load machine, other processes on it, and settings.",
        ),
        Pair::new(
            "Knee",
            format!(
                "The step after which no later step repays at least {} TPS per doubling of threads. Confidence: how often it is chosen again under noise and with other thresholds; \"lowered\" means that suspect steps took it one level down from what that share says, or to low where other processes had the CPU at every step.",
                run.knee_gain
            ),
        ),
        Pair::new(
            "Throughput to plan with",
            "Three quarters of the throughput measured at the limit.",
        ),
        Pair::new(MISSING, "Not measured or not available. Never 0."),
    ]);
    rows
}
