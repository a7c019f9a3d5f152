//! Departures from the method: their names, and those that the plan alone shows.

use super::{DataSize, Dataset, Ladder, Plan, Soak, Step, Variant, Warmup, Warning};
use crate::workload::Program;

/// Every warning that capbench knows, with what it is about. The ones that need the server or the
/// machine are raised when those are there; all are accepted by these names.
pub static WARNINGS: &[(&str, &str)] = &[
    ("short-steps", "a step measures less than 120s"),
    ("short-soak", "the soak holds for less than 600s"),
    ("few-tables", "fewer than 16 tables"),
    ("single-workload", "only one workload is measured"),
    (
        "ladder-starts-high",
        "the ladder does not start small, or jumps",
    ),
    (
        "writer-before-reader",
        "a workload that writes runs before one that reads",
    ),
    (
        "several-variables",
        "a variant moves several variables at once",
    ),
    ("small-data", "less data than twice the buffer pool"),
    ("no-warmup", "no warm-up"),
    (
        "single-repeat-with-variants",
        "variants are compared on one pass",
    ),
    ("interval-too-coarse", "fewer than 6 intervals in a step"),
    ("same-host", "generator and server share one machine"),
    ("round-trip", "the round trip to the server is above 0.5 ms"),
    (
        "round-trip-high",
        "the round trip to the server is above 2 ms",
    ),
    ("public-address", "the server has a public address"),
    (
        "unencrypted",
        "connections to a public address are not encrypted",
    ),
    (
        "weak-load-machine",
        "the load machine has under 4 GB of memory, or less than half the server's cores where these can be seen",
    ),
    (
        "stolen-cpu",
        "the hypervisor takes CPU time from the load machine",
    ),
    (
        "fits-page-cache",
        "the data fits the operating system's page cache",
    ),
    (
        "not-settled",
        "the server had not settled when a warm-up began",
    ),
    (
        "warmup-not-level",
        "a warm-up ended before reads from files had become level",
    ),
    (
        "super-load-account",
        "the load's account has administrative rights",
    ),
];

/// Names of all warnings, for `accept`.
pub fn warning_names() -> Vec<&'static str> {
    WARNINGS.iter().map(|(name, _)| *name).collect()
}

impl Warning {
    /// A warning, accepted when `accept` names it. `name` is one of [`warning_names`].
    pub fn new(name: &str, text: impl Into<String>, accept: &[String]) -> Self {
        debug_assert!(WARNINGS.iter().any(|(known, _)| *known == name), "{name}");
        Self {
            name: name.to_owned(),
            text: text.into(),
            accepted: accept.iter().any(|a| a == name),
        }
    }
}

impl Plan {
    /// Whether the author accepts this warning.
    pub fn accepts(&self, name: &str) -> bool {
        self.accept.iter().any(|a| a == name)
    }

    /// A warning about this plan's run, accepted when the plan names it.
    pub fn warning(&self, name: &str, text: impl Into<String>) -> Warning {
        Warning::new(name, text, &self.accept)
    }
}

/// Shortest step of the method, in seconds (product.md: never under 120 s).
const SHORT_STEP: f64 = 120.0;
/// Shortest soak of the method, in seconds (product.md: 600 s or more).
const SHORT_SOAK: f64 = 600.0;
/// Fewest tables of the method.
const FEW_TABLES: u32 = 16;
/// Data against buffer pool below which the disk is not really asked.
const SMALL_DATA: f64 = 2.0;
/// Largest first step that counts as small [H].
const SMALL_START: f64 = 16.0;
/// Largest factor from step to step that does not skip the knee [H].
const JUMP: f64 = 4.0;
/// Fewest intervals that show whether a step was steady [H].
const FEW_INTERVALS: f64 = 6.0;

/// The parts of a plan that its own warnings look at.
pub(super) struct Parts<'a> {
    pub(super) accept: &'a [String],
    pub(super) dataset: &'a Dataset,
    pub(super) warmup: &'a Warmup,
    pub(super) ladder: &'a Ladder,
    pub(super) soak: Option<&'a Soak>,
    pub(super) variants: &'a [Variant],
}

/// What the plan alone shows.
pub(super) fn of_plan(parts: &Parts<'_>) -> Vec<Warning> {
    let mut found = Vec::new();
    of_times(parts.ladder, &mut found);
    if let Some(duration) = parts
        .soak
        .map(|s| s.duration)
        .filter(|d| d.seconds() < SHORT_SOAK)
    {
        found.push(("short-soak", format!(
            "the soak holds for {duration}, under 600s: memory that fills up and slow flushing do not show in it"
        )));
    }
    of_data(parts.dataset, &mut found);
    if parts.warmup.workload.is_none() {
        found.push((
            "no-warmup",
            "no warm-up: the first steps measure a cold cache and read as a slow server".to_owned(),
        ));
    }
    of_workloads(&parts.ladder.workloads, &mut found);
    if let Some(text) = starts_high(&parts.ladder.steps) {
        found.push(("ladder-starts-high", text));
    }
    of_variants(parts.variants, parts.ladder.repeats, &mut found);
    found
        .into_iter()
        .map(|(name, text)| Warning::new(name, text, parts.accept))
        .collect()
}

type Found = Vec<(&'static str, String)>;

fn of_times(ladder: &Ladder, found: &mut Found) {
    let (measure, interval) = (ladder.measure, ladder.interval);
    if measure.seconds() < SHORT_STEP {
        found.push(("short-steps", format!(
            "each step measures {measure}, under 120s: one checkpoint or flush cycle more or less decides the result, so figures of such steps do not repeat"
        )));
    }
    if measure.seconds() < FEW_INTERVALS * interval.seconds() {
        found.push(("interval-too-coarse", format!(
            "intervals of {interval} in steps of {measure}: fewer than 6 do not show whether a step was steady"
        )));
    }
}

fn of_data(dataset: &Dataset, found: &mut Found) {
    let tables = dataset.tables;
    if tables < FEW_TABLES {
        let noun = if tables == 1 { "table" } else { "tables" };
        found.push(("few-tables", format!(
            "{tables} {noun}, under 16: contention on single tables and indexes weighs more than in an application"
        )));
    }
    if let DataSize::BufferPools(pools) = dataset.size
        && pools < SMALL_DATA
        && !dataset.existing
    {
        found.push(("small-data", format!(
            "data of {pools} buffer pools, under 2: most reads hit memory, so the result says little about the disk"
        )));
    }
}

fn of_workloads(order: &[Program], found: &mut Found) {
    if let [only] = order {
        found.push(("single-workload", format!(
            "`{}` is the only workload: one mix hides what another would show, such as a weak write path behind reads",
            only.name
        )));
    }
    let late_reader = order.iter().position(Program::writes).and_then(|writer| {
        let reader = order[writer..].iter().find(|w| !w.writes())?;
        Some((&order[writer].name, &reader.name))
    });
    if let Some((writer, reader)) = late_reader {
        found.push(("writer-before-reader", format!(
            "`{writer}` writes and runs before the reader `{reader}`, which then reads changed data and shares the server with its flushing and purging"
        )));
    }
}

fn of_variants(variants: &[Variant], repeats: u32, found: &mut Found) {
    for variant in variants {
        let moved = variant.variables();
        if moved.len() > 1 {
            found.push(("several-variables", format!(
                "variant `{}` moves {} variables at once ({}): a difference cannot be put down to any one of them",
                variant.name,
                moved.len(),
                moved.join(", ")
            )));
        }
    }
    if variants.len() > 1 && repeats == 1 {
        found.push((
            "single-repeat-with-variants",
            "variants are compared on one pass each: a single pair may only say “inconclusive” or “beyond noise”; 3 repeats or more give a verdict".to_owned(),
        ));
    }
}

fn starts_high(steps: &[Step]) -> Option<String> {
    let size = |step: &Step| match step {
        Step::Threads(n) => f64::from(*n),
        Step::Rate(rate) => rate.0,
    };
    if let Some(Step::Threads(first)) = steps.first()
        && f64::from(*first) > SMALL_START
    {
        return Some(format!(
            "the ladder starts at {first} threads, above 16: a server that fails there takes its monitoring with it, and a knee below stays unseen"
        ));
    }
    let jump = steps
        .windows(2)
        .find(|pair| size(&pair[1]) > JUMP * size(&pair[0]))?;
    Some(format!(
        "the ladder jumps from {} to {}, more than 4 times: the knee between them stays unseen, and the load comes as a blow",
        jump[0], jump[1]
    ))
}

impl Variant {
    /// The distinct variables that it moves, in the order of the plan. `skip_log_bin` and `log_bin`
    /// are one.
    pub fn variables(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for setting in self.set.iter().chain(&self.options) {
            let name = setting.name.strip_prefix("skip_").unwrap_or(&setting.name);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}
