//! `[criteria]`: what the release needs.

use super::diagnostic::Diagnostic;
use super::validate::latency;
use super::value::Item;
use super::wire::Fields;
use super::{Criteria, Step};
use crate::units::{PerSecond, Ratio};

/// What the release needs, with what can never be met reported.
pub(super) fn criteria(fields: &Fields, problems: &mut Vec<Diagnostic>) -> Criteria {
    let criteria = Criteria {
        expected_peak_tps: fields.number("criteria.expected_peak_tps"),
        min_headroom: fields.number("criteria.min_headroom").map(Ratio),
        max_p95: latency(fields, "criteria.max_p95"),
        max_p99: latency(fields, "criteria.max_p99"),
        min_threads: fields
            .given("criteria.min_threads")
            .then(|| fields.count("criteria.min_threads"))
            .filter(|n| *n > 0),
        max_errors: fields.number("criteria.max_errors").map(Ratio),
        at: at(fields, problems),
        soak_held: fields.flag("criteria.soak_held"),
    };
    if criteria.soak_held && fields.table("soak").is_none() {
        problems.push(
            Diagnostic::error(
                fields.key_at("criteria.soak_held"),
                "`criteria.soak_held` asks for a soak, and the plan has none",
            )
            .hint("add a [soak] table; without a key it holds 80% of the knee for 600s"),
        );
    }
    if let Some(at) = fields.key_at("criteria.min_headroom")
        && !fields.given("criteria.expected_peak_tps")
    {
        problems.push(
            Diagnostic::error(
                at,
                "`criteria.min_headroom` is room above a peak that is not stated",
            )
            .hint("add expected_peak_tps = … (transactions per second)"),
        );
    }
    if let (Some(p95), Some(p99)) = (criteria.max_p95, criteria.max_p99)
        && p99.0 < p95.0
    {
        problems.push(
            Diagnostic::error(
                fields.at("criteria.max_p99"),
                format!("`criteria.max_p99` of {p99} is below `max_p95` of {p95}"),
            )
            .also(fields.at("criteria.max_p95"), "p95 may be higher here")
            .hint("p99 is never below p95; perhaps the two are swapped"),
        );
    }
    let last = fields.integers("ladder.threads").last().map(|i| i.value);
    if let (Some(min), Some(last)) = (criteria.min_threads, last)
        && i64::from(min) > last
    {
        problems.push(
            Diagnostic::error(
                fields.at("criteria.min_threads"),
                format!("`criteria.min_threads` is {min}, but the ladder ends at {last} threads: it can never pass"),
            )
            .also(fields.at("ladder.threads"), "the ladder stands here")
            .hint("add higher steps to the ladder"),
        );
    }
    criteria
}

/// The step of the ladder that `criteria.at` names.
fn at(fields: &Fields, problems: &mut Vec<Diagnostic>) -> Option<Step> {
    let stated = fields.given("criteria.at");
    let value = fields.number("criteria.at").filter(|_| stated)?;
    let (path, steps): (_, Vec<(f64, Step)>) = if fields.given("ladder.rates") {
        let rates = fields.numbers("ladder.rates").into_iter();
        let step = |i: Item<f64>| (i.value, Step::Rate(PerSecond(i.value)));
        ("ladder.rates", rates.map(step).collect())
    } else {
        let threads = fields.integers("ladder.threads").into_iter();
        let step = |i: Item<i64>| {
            let threads = u32::try_from(i.value).unwrap_or(u32::MAX);
            (f64::from(threads), Step::Threads(threads))
        };
        ("ladder.threads", threads.map(step).collect())
    };
    let found = steps.iter().find(|(size, _)| (size - value).abs() < 1e-9);
    if found.is_none() && !fields.broken(path) && !steps.is_empty() {
        let names: Vec<String> = steps.iter().map(|(size, _)| size.to_string()).collect();
        problems.push(
            Diagnostic::error(
                fields.at("criteria.at"),
                format!("`criteria.at` is {value}, which is no step of the ladder: it would never be tested"),
            )
            .also(fields.at(path), "the ladder stands here")
            .hint(format!("add the step, or name one of {}", names.join(", "))),
        );
    }
    if !fields.given("criteria.max_p95") && !fields.given("criteria.max_p99") {
        problems.push(
            Diagnostic::error(
                fields.key_at("criteria.at"),
                "`criteria.at` names the step for percentiles that the plan does not state",
            )
            .hint("add max_p95 = \"…ms\" or max_p99 = \"…ms\", or leave `at` out"),
        );
    }
    found.map(|(_, step)| *step)
}
