//! What a plan means: [`Wire`] → [`Plan`], with every problem collected.

use std::path::Path;

use super::diagnostic::Diagnostic;
use super::value::Item;
use super::warnings::{self, Parts};
use super::wire::{Fields, Wire};
use super::workloads::Workloads;
use super::{
    AnalysisOptions, Binlog, DataSize, Dataset, Guard, HouseRule, LoadOptions, OnFailure, Plan,
    Protocol, ReportOptions, Reset, Warmup, criteria, ladder, place, replicas, risk, soak,
    variants, writes,
};
use crate::units::{Millis, PerSecond, Ratio};
use crate::workload::{Access, Distribution};

type Problems = Vec<Diagnostic>;

/// Longest name of a plan, in characters.
const LONGEST_NAME: usize = 200;

/// Builds the plan; worthless when `problems` holds an error afterwards. `base` is the plan's folder.
pub(super) fn validate(wire: &Wire, base: &Path, problems: &mut Problems) -> Plan {
    let fields = &wire.plan;
    let target = place::target(fields, base, problems);
    let variants = variants::variants(wire, &target.place, problems);
    let replicas = replicas::replicas(wire, base, problems);
    let dataset = dataset(fields, problems);
    let workloads = Workloads::new(fields, &dataset, base, problems);
    let accept = accept(fields, problems);
    let warmup = warmup(fields, &workloads, problems);
    let ladder = ladder::ladder(fields, &workloads, problems);
    writes::refuse(fields, &dataset, &ladder, &warmup, problems);
    let soak = soak::soak(fields, &ladder, problems);
    let warnings = warnings::of_plan(&Parts {
        accept: &accept,
        dataset: &dataset,
        warmup: &warmup,
        ladder: &ladder,
        soak: soak.as_ref(),
        variants: &variants,
    });
    Plan {
        name: name(fields, problems),
        seed: fields
            .integer("seed")
            .and_then(|n| u64::try_from(n).ok())
            .unwrap_or_default(),
        accept,
        on_failure: match fields.text("on_failure").as_deref() {
            Some("stop") => OnFailure::Stop,
            Some("continue") => OnFailure::Continue,
            _ => OnFailure::NextLadder,
        },
        environment: fields.strings("environment"),
        target,
        replicas,
        dataset,
        warmup,
        ladder,
        access: access(fields),
        load: load(fields),
        variants,
        guard: guard(fields, problems),
        soak,
        criteria: criteria::criteria(fields, problems),
        analysis: analysis(fields),
        report: ReportOptions {
            template: fields
                .text("report.template")
                .map(|text| place::resolve(base, &text)),
        },
        warnings,
    }
}

fn name(fields: &Fields, problems: &mut Problems) -> String {
    if !fields.given("name") {
        problems.push(
            Diagnostic::error(None, "the plan has no `name`")
                .hint("add name = \"…\" as the first line: what is tested, and for what"),
        );
        return String::new();
    }
    let name = fields.text("name").unwrap_or_default();
    if fields.broken("name") {
        return name;
    }
    let problem = if name.trim().is_empty() {
        "`name` is empty"
    } else if name.contains(['\n', '\t']) {
        "`name` must be a single line"
    } else if name.chars().count() > LONGEST_NAME {
        "`name` is longer than 200 characters"
    } else {
        return name.trim().to_owned();
    };
    problems.push(
        Diagnostic::error(fields.at("name"), problem)
            .hint("say what is tested in a few words; [environment] has room for the rest"),
    );
    name
}

fn accept(fields: &Fields, problems: &mut Problems) -> Vec<String> {
    let known = warnings::warning_names();
    let items = fields.texts("accept");
    for (i, item) in items.iter().enumerate() {
        if !known.contains(&item.value.as_str()) {
            let meant = super::suggest::nearest(&item.value, known.iter().copied());
            problems.push(
                Diagnostic::error(
                    item.at.clone(),
                    format!("`accept`: there is no warning `{}`", item.value),
                )
                .hint(match meant {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("the warnings are {}", known.join(", ")),
                }),
            );
        } else if let Some(first) = items[..i].iter().find(|e| e.value == item.value) {
            problems.push(twice("accept", &item.value, item, first));
        }
    }
    items.into_iter().map(|item| item.value).collect()
}

/// A name that stands twice in a list.
pub(super) fn twice<T, U>(path: &str, what: &str, item: &Item<T>, first: &Item<U>) -> Diagnostic {
    Diagnostic::error(item.at.clone(), format!("`{path}` names `{what}` twice"))
        .also(first.at.clone(), "the first stands here")
        .hint("keep one of them")
}

/// Longest `dataset.table_options` in characters: the marker of the data keeps them in a column of 1,000, with the
/// rest of what tells data apart.
const LONGEST_TABLE_OPTIONS: usize = 500;

/// What is appended to CREATE TABLE: options only.
fn table_options(fields: &Fields, problems: &mut Problems) -> String {
    let table_options = fields.text("dataset.table_options").unwrap_or_default();
    if table_options.contains(';') {
        problems.push(
            Diagnostic::error(
                fields.at("dataset.table_options"),
                "`dataset.table_options` holds a `;`",
            )
            .hint("state options of CREATE TABLE only, such as \"ROW_FORMAT=COMPRESSED\""),
        );
    }
    if table_options.to_ascii_uppercase().contains("COMMENT") {
        problems.push(
            Diagnostic::error(
                fields.at("dataset.table_options"),
                "`dataset.table_options` sets a comment, by which capbench knows its own tables",
            )
            .hint("leave COMMENT out"),
        );
    }
    let length = table_options.chars().count();
    if length > LONGEST_TABLE_OPTIONS {
        problems.push(
            Diagnostic::error(
                fields.at("dataset.table_options"),
                format!("`dataset.table_options` has {length} characters"),
            )
            .hint(format!("at most {LONGEST_TABLE_OPTIONS} are kept")),
        );
    }
    table_options
}

fn dataset(fields: &Fields, problems: &mut Problems) -> Dataset {
    if let (Some(rows), Some(size)) = (fields.key_at("dataset.rows"), fields.key_at("dataset.size"))
    {
        problems.push(
            Diagnostic::error(rows, "`dataset.rows` and `dataset.size` exclude each other")
                .also(size, "the size stands here")
                .hint(
                    "keep `size` to follow the buffer pool, or `rows` for a fixed number per table",
                ),
        );
    }
    let size = match fields.integer("dataset.rows").map(u64::try_from) {
        Some(Ok(rows)) => DataSize::Rows(rows),
        _ => fields
            .data_size("dataset.size")
            .unwrap_or(DataSize::BufferPools(3.0)),
    };
    let existing = fields.flag("dataset.existing");
    let stated = match fields.text("dataset.reset").as_deref() {
        Some("never") => Reset::Never,
        Some("per-cell") => Reset::PerCell,
        _ => Reset::PerVariant,
    };
    let explicit = fields.given("dataset.reset") && !fields.broken("dataset.reset");
    if let (true, Some(managed)) = (existing, fields.table("target.managed")) {
        problems.push(
            Diagnostic::error(
                fields.key_at("dataset.existing"),
                "a private server starts empty: there are no existing tables to accept",
            )
            .also(managed, "a private server is asked for here")
            .hint("leave `existing` out; capbench makes the tables"),
        );
    }
    if existing && explicit && stated != Reset::Never {
        problems.push(
            Diagnostic::error(
                fields.at("dataset.reset"),
                "tables that capbench did not make cannot be reset",
            )
            .also(
                fields.key_at("dataset.existing"),
                "existing tables are accepted here",
            )
            .hint("write reset = \"never\", or let capbench make its own tables"),
        );
    }
    let engine = fields.text("dataset.engine").unwrap_or_default();
    if engine.is_empty()
        || !engine
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_')
    {
        problems.push(
            Diagnostic::error(
                fields.at("dataset.engine"),
                format!("`dataset.engine`: `{engine}` is not the name of a storage engine"),
            )
            .hint("write \"InnoDB\""),
        );
    }
    let table_options = table_options(fields, problems);
    Dataset {
        tables: fields.count("dataset.tables"),
        size,
        load_threads: fields.count("dataset.load_threads"),
        load_rate: fields
            .integer("dataset.load_rate")
            .and_then(|n| u64::try_from(n).ok()),
        binlog: match fields.text("dataset.binlog").as_deref() {
            Some("logged") => Some(Binlog::Logged),
            Some("unlogged") => Some(Binlog::Unlogged),
            _ => None,
        },
        reset: if existing { Reset::Never } else { stated },
        existing,
        change_existing: fields.flag("dataset.change_existing"),
        keep: fields.flag("dataset.keep"),
        auto_inc: fields.flag("dataset.auto_inc"),
        secondary_index: fields.flag("dataset.secondary_index"),
        secondary: fields.flag("dataset.secondary"),
        table_options,
        engine,
    }
}

fn warmup(fields: &Fields, workloads: &Workloads<'_>, problems: &mut Problems) -> Warmup {
    let duration = fields.duration("warmup.duration").unwrap_or_default();
    let name = fields.text("warmup.workload").unwrap_or_default();
    let at = fields.at("warmup.workload");
    let workload = workloads.load("warmup.workload", &name, at, problems);
    let until_level = fields.flag("warmup.until_level");
    let limit = fields.duration("warmup.limit").unwrap_or_default();
    if until_level && limit < duration {
        problems.push(
            Diagnostic::error(
                fields.at("warmup.limit").or(fields.at("warmup.duration")),
                format!("`warmup.limit` of {limit} is shorter than the warm-up's `duration` of {duration}"),
            )
            .hint("the warm-up lasts at least `duration` and at most `limit`"),
        );
    }
    Warmup {
        workload: workload.filter(|_| !duration.0.is_zero()),
        duration,
        until_level,
        limit,
        settle: fields.duration("warmup.settle").unwrap_or_default(),
        threads: fields.count("warmup.threads"),
    }
}

fn access(fields: &Fields) -> Access {
    let percent = |path: &str| fields.count(path);
    let distribution = match fields.text("access.distribution").as_deref() {
        Some("gaussian") => Distribution::Gaussian,
        Some("special") => Distribution::Special {
            pct: percent("access.special_pct"),
            res: percent("access.special_res"),
        },
        Some("pareto") => Distribution::Pareto {
            h: fields.number("access.pareto_h").unwrap_or_default(),
        },
        Some("zipfian") => Distribution::Zipfian {
            theta: fields.number("access.zipfian_theta").unwrap_or_default(),
            scrambled: fields.flag("access.scrambled"),
        },
        _ => Distribution::Uniform,
    };
    Access { distribution }
}

fn load(fields: &Fields) -> LoadOptions {
    LoadOptions {
        protocol: match fields.text("load.protocol").as_deref() {
            Some("text") => Protocol::Text,
            _ => Protocol::Prepared,
        },
        retries: fields.count("load.retries"),
        workers: fields.count("load.workers"),
        max_prepared_per_connection: fields.count("load.max_prepared_per_connection"),
        connect_timeout: fields.duration("load.connect_timeout").unwrap_or_default(),
        drain_timeout: fields.duration("load.drain_timeout").unwrap_or_default(),
        reconnect_backoff: fields
            .duration("load.reconnect_backoff")
            .unwrap_or_default(),
    }
}

pub(super) fn latency(fields: &Fields, path: &str) -> Option<Millis> {
    fields
        .duration(path)
        .map(|span| Millis(span.seconds() * 1e3))
}

fn guard(fields: &Fields, problems: &mut Problems) -> Guard {
    Guard {
        max_p95: latency(fields, "guard.max_p95"),
        max_errors: fields.number("guard.max_errors").map(Ratio),
        max_server_cpu: fields.number("guard.max_server_cpu").map(Ratio),
        window: fields.window("guard.window"),
        max_threads_running: fields
            .integer("guard.max_threads_running")
            .and_then(|n| u64::try_from(n).ok()),
        max_slow_queries: fields.number("guard.max_slow_queries").map(PerSecond),
        max_replica_lag: fields.duration("guard.max_replica_lag"),
        max_disk_utilisation: fields.number("guard.max_disk_utilisation").map(Ratio),
        min_disk_free: fields.number("guard.min_disk_free").map(Ratio),
        acknowledge: risk::acknowledge(fields, problems),
    }
}

fn analysis(fields: &Fields) -> AnalysisOptions {
    let share = |path: &str| Ratio(fields.number(path).unwrap_or_default());
    AnalysisOptions {
        knee_gain: share("analysis.knee_gain"),
        house: HouseRule {
            keep_gain: share("analysis.keep_gain"),
            smallest_tps: share("analysis.smallest_tps"),
            smallest_p95: share("analysis.smallest_p95"),
        },
    }
}
