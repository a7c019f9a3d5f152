//! `[ladder]`: workloads, steps and times.

use super::diagnostic::Diagnostic;
use super::validate::twice;
use super::value::Item;
use super::wire::Fields;
use super::workloads::Workloads;
use super::{Arrivals, Ladder, OpenLoop, Step};
use crate::units::{PerSecond, Span};
use crate::workload::Program;

type Problems = Vec<Diagnostic>;

/// The ladder as it will be climbed.
pub(super) fn ladder(
    fields: &Fields,
    workloads: &Workloads<'_>,
    problems: &mut Problems,
) -> Ladder {
    let table = || fields.table("ladder");
    let names = fields.texts("ladder.workloads");
    if fields.missing("ladder.workloads") {
        problems.push(
            Diagnostic::error(table(), "the plan measures no workload")
                .hint("add workloads = [\"oltp_read_only\", \"oltp_read_write\", \"oltp_write_only\"] to [ladder]"),
        );
    } else if names.is_empty() && !fields.broken("ladder.workloads") {
        problems.push(
            Diagnostic::error(fields.at("ladder.workloads"), "`ladder.workloads` is empty").hint(
                "name at least one workload; `capbench workload list` shows the built-in ones",
            ),
        );
    }
    let mut programs = Vec::new();
    for (i, item) in names.iter().enumerate() {
        if let Some(first) = names[..i].iter().find(|e| e.value == item.value) {
            problems.push(twice("ladder.workloads", &item.value, item, first));
            continue;
        }
        let at = item.at.clone();
        let Some(program) = workloads.load("ladder.workloads", &item.value, Some(at), problems)
        else {
            continue;
        };
        if programs.iter().any(|p: &Program| p.name == program.name) {
            problems.push(
                Diagnostic::error(
                    item.at.clone(),
                    format!("two workloads are called `{}`", program.name),
                )
                .hint("results are filed under the file's name without folder; rename the file"),
            );
        }
        programs.push(program);
    }
    let (steps, open) = steps(fields, problems);
    let discard = fields.duration("ladder.discard").unwrap_or_default();
    let measure = fields.duration("ladder.measure").unwrap_or_default();
    let interval = fields.duration("ladder.interval").unwrap_or_default();
    check_times(fields, discard, measure, interval, problems);
    Ladder {
        workloads: programs,
        steps,
        open,
        discard,
        measure,
        until_steady: until_steady(fields, measure, problems),
        events: fields
            .integer("ladder.events")
            .and_then(|n| u64::try_from(n).ok()),
        interval,
        repeats: fields.count("ladder.repeats"),
        reference: fields.flag("ladder.reference"),
        refine: refine(fields, problems),
        refine_budget: fields.duration("ladder.refine_budget").unwrap_or_default(),
    }
}

fn refine(fields: &Fields, problems: &mut Problems) -> bool {
    let refine = fields.flag("ladder.refine");
    if refine && fields.given("ladder.rates") {
        problems.push(
            Diagnostic::error(
                fields.key_at("ladder.refine"),
                "`ladder.refine` narrows a knee, and a ladder of rates has none",
            )
            .also(fields.key_at("ladder.rates"), "the rates stand here")
            .hint("leave `refine` out, and state the rates between which it matters"),
        );
    }
    refine
}

fn check_times(
    fields: &Fields,
    discard: Span,
    measure: Span,
    interval: Span,
    problems: &mut Problems,
) {
    let wrong = ["ladder.discard", "ladder.measure", "ladder.interval"];
    if wrong.iter().any(|path| fields.broken(path)) {
        return;
    }
    let place = |path: &str| fields.at(path).or_else(|| fields.at("ladder.measure"));
    if interval > measure {
        problems.push(
            Diagnostic::error(
                place("ladder.interval"),
                format!("an interval of {interval} is longer than the measured {measure}"),
            )
            .hint("state an `interval` of a tenth of `measure` or less"),
        );
    }
    if discard > measure {
        problems.push(
            Diagnostic::error(
                place("ladder.discard"),
                format!("each cell would discard {discard} and measure only {measure}"),
            )
            .hint(
                "state a shorter `discard`, or a longer `measure`; caches are filled by [warmup]",
            ),
        );
    }
}

/// How long a step may become.
fn until_steady(fields: &Fields, measure: Span, problems: &mut Problems) -> Option<Span> {
    let limit = fields.duration("ladder.until_steady")?;
    if limit <= measure && !fields.broken("ladder.measure") {
        problems.push(
            Diagnostic::error(
                fields.at("ladder.until_steady"),
                format!("`ladder.until_steady` of {limit} leaves no room to make a step of {measure} longer"),
            )
            .also(fields.at("ladder.measure"), "the measured time stands here")
            .hint("state the longest measured time, such as three times `measure`"),
        );
    }
    Some(limit)
}

/// The steps of the ladder, closed or open.
fn steps(fields: &Fields, problems: &mut Problems) -> (Vec<Step>, Option<OpenLoop>) {
    let (threads, rates) = (fields.given("ladder.threads"), fields.given("ladder.rates"));
    if threads && rates {
        problems.push(
            Diagnostic::error(
                fields.key_at("ladder.rates"),
                "`ladder.threads` and `ladder.rates` exclude each other",
            )
            .also(fields.key_at("ladder.threads"), "the threads stand here")
            .hint("keep `threads` to find the knee, or `rates` to test an arrival rate"),
        );
    } else if fields.missing("ladder.threads") && fields.missing("ladder.rates") {
        problems.push(
            Diagnostic::error(fields.table("ladder"), "the ladder has no steps")
                .hint("add threads = [8, 16, 32, 64, 128] to [ladder]"),
        );
    }
    if !rates {
        let items = fields.integers("ladder.threads");
        if items.is_empty() && threads && !fields.broken("ladder.threads") {
            problems.push(
                Diagnostic::error(fields.at("ladder.threads"), "`ladder.threads` is empty")
                    .hint("state the steps, such as [8, 16, 32, 64, 128]"),
            );
        }
        check_ascending("ladder.threads", &items, problems);
        let steps = items
            .iter()
            .map(|item| Step::Threads(u32::try_from(item.value).unwrap_or(u32::MAX)))
            .collect();
        return (steps, None);
    }
    let items = fields.numbers("ladder.rates");
    if items.is_empty() && !fields.broken("ladder.rates") {
        problems.push(
            Diagnostic::error(fields.at("ladder.rates"), "`ladder.rates` is empty")
                .hint("state the steps, such as [500, 1000, 2000]"),
        );
    }
    check_ascending("ladder.rates", &items, problems);
    let open = OpenLoop {
        clients: fields.count("ladder.clients"),
        arrivals: match fields.text("ladder.arrivals").as_deref() {
            Some("even") => Arrivals::Even,
            _ => Arrivals::Poisson,
        },
        backlog: fields.count("ladder.backlog"),
    };
    let steps = items
        .iter()
        .map(|item| Step::Rate(PerSecond(item.value)))
        .collect();
    (steps, Some(open))
}

fn check_ascending<T: PartialOrd + std::fmt::Display>(
    path: &str,
    items: &[Item<T>],
    problems: &mut Problems,
) {
    for pair in items.windows(2) {
        let (a, b) = (&pair[0], &pair[1]);
        if b.value == a.value {
            problems.push(
                Diagnostic::error(
                    b.at.clone(),
                    format!("`{path}` has the step {} twice", b.value),
                )
                .also(a.at.clone(), "the first stands here")
                .hint("keep one of them; `repeats` measures everything again"),
            );
        } else if b.value < a.value {
            problems.push(
                Diagnostic::error(
                    b.at.clone(),
                    format!("`{path}` does not ascend: {} after {}", b.value, a.value),
                )
                .also(a.at.clone(), "the larger step")
                .hint("order the steps from small to large: the load must reach the server gently"),
            );
        }
    }
}
