//! The built-in workloads and the user's: found by name, rendered with the plan's options, read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde_json::{Value as Json, json};

use super::WorkloadOptions;
use super::error::{Problem, WorkloadError, suggestion};
use super::program::Program;
use super::wire;

macro_rules! builtin {
    ($($name:literal),+ $(,)?) => {
        const NAMES: &[&str] = &[$($name),+];
        const TEMPLATES: &[&str] = &[$(include_str!(concat!("../../templates/workloads/", $name, ".toml"))),+];
    };
}

builtin!(
    "oltp_point_select",
    "oltp_read_only",
    "oltp_read_write",
    "oltp_write_only",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_insert",
    "oltp_delete",
    "bulk_insert",
    "select_random_points",
    "select_random_ranges",
);

/// An option of the built-in workloads.
struct OptionRule {
    name: &'static str,
    default: fn() -> Json,
    least: i64,
    most: i64,
}

/// sysbench's options at sysbench's defaults, and capbench's own `think_time` and `bulk_rows` (512 KiB
/// of rows a statement, sysbench's buffer).
const OPTIONS: &[OptionRule] = &[
    int("auto_inc", || json!(true), 0, 0),
    int("bulk_rows", || json!(25_000), 1, 400_000),
    int("delete_inserts", || json!(1), 0, 10_000),
    int("delta", || json!(5), 0, 1_000_000_000),
    int("distinct_ranges", || json!(1), 0, 10_000),
    int("index_updates", || json!(1), 0, 10_000),
    int("non_index_updates", || json!(1), 0, 10_000),
    int("number_of_ranges", || json!(10), 1, 10_000),
    int("order_ranges", || json!(1), 0, 10_000),
    int("point_selects", || json!(10), 0, 10_000),
    int("random_points", || json!(10), 1, 10_000),
    int("range_selects", || json!(true), 0, 0),
    int("range_size", || json!(100), 1, 1_000_000_000),
    int("simple_ranges", || json!(1), 0, 10_000),
    int("skip_trx", || json!(false), 0, 0),
    int("sum_ranges", || json!(1), 0, 10_000),
    int("think_time", || json!("0ms"), 0, 0),
];

const fn int(name: &'static str, default: fn() -> Json, least: i64, most: i64) -> OptionRule {
    OptionRule {
        name,
        default,
        least,
        most,
    }
}

/// Names of the built-in workloads.
pub fn builtin_names() -> &'static [&'static str] {
    NAMES
}

/// Name and one sentence of each built-in workload.
pub fn describe() -> Vec<(&'static str, String)> {
    NAMES
        .iter()
        .map(|name| {
            let description = load(name, Path::new("."), &WorkloadOptions::new())
                .map(|program| program.description)
                .unwrap_or_default();
            (*name, description)
        })
        .collect()
}

/// The options of the built-in workloads with their defaults.
pub fn known_options() -> WorkloadOptions {
    OPTIONS
        .iter()
        .map(|rule| (rule.name.to_owned(), (rule.default)()))
        .collect()
}

/// The workload `name`: a built-in one, or a path that ends in `.toml`, relative to `base` (the folder of
/// the plan). `options` fill the template; options it does not use are ignored, missing ones have their
/// defaults.
///
/// # Errors
/// An unknown name, an unreadable file, an option of a wrong type, a fault in the file.
pub fn load(name: &str, base: &Path, options: &WorkloadOptions) -> Result<Program, WorkloadError> {
    let source = find(name, base)?;
    let rendered = source.render(options)?;
    let shown = source.short_name();
    wire::parse(&shown, &rendered).map_err(|problem| problem.of(&source.origin))
}

/// The rendered workload with a comment on where it comes from: itself a workload file.
///
/// # Errors
/// As [`load`]; an option that the workload does not have, which would otherwise change nothing in silence.
pub fn show(name: &str, base: &Path, options: &WorkloadOptions) -> Result<String, WorkloadError> {
    let source = find(name, base)?;
    let has = source.undeclared()?;
    if let Some(unknown) = options.keys().find(|option| !has.contains(*option)) {
        let known: Vec<&str> = has.iter().map(String::as_str).collect();
        let hint = match suggestion(unknown, &known) {
            nearest if nearest.is_empty() => format!("; its options are {}", known.join(", ")),
            nearest => nearest,
        };
        return Err(WorkloadError {
            origin: source.origin.clone(),
            line: None,
            message: format!("there is no option `{unknown}`{hint}"),
        });
    }
    let rendered = source.render(options)?;
    wire::parse(name, &rendered).map_err(|problem| problem.of(&source.origin))?;
    let used: Vec<String> = source
        .undeclared()?
        .into_iter()
        .filter_map(|name| {
            let value = options.get(&name).cloned().or_else(|| default_of(&name))?;
            Some(format!("# {name} = {value}"))
        })
        .collect();
    let mut text = format!("# capbench workload `{}`", source.short_name());
    if used.is_empty() {
        text.push_str(".\n");
    } else {
        text.push_str(", rendered with\n");
        text.push_str(&used.join("\n"));
        text.push('\n');
    }
    text.push_str("# Save it under a name of your own that ends in .toml, change it, and name its path in the plan.\n\n");
    let mut blank = false;
    for line in rendered.trim().lines() {
        // Switched-off parts of the template leave runs of empty lines behind.
        if !(blank && line.trim().is_empty()) {
            text.push_str(line);
            text.push('\n');
        }
        blank = line.trim().is_empty();
    }
    Ok(text)
}

/// The options that the template of a workload uses.
///
/// # Errors
/// An unknown name, an unreadable file, a fault in the template.
pub fn undeclared(name: &str, base: &Path) -> Result<BTreeSet<String>, WorkloadError> {
    find(name, base)?.undeclared()
}

fn default_of(name: &str) -> Option<Json> {
    OPTIONS
        .iter()
        .find(|rule| rule.name == name)
        .map(|rule| (rule.default)())
}

/// A workload's template and where it comes from.
struct Source {
    name: String,
    origin: String,
    text: String,
}

fn find(name: &str, base: &Path) -> Result<Source, WorkloadError> {
    if let Some(index) = NAMES.iter().position(|known| *known == name) {
        return Ok(Source {
            name: name.to_owned(),
            origin: format!("built-in workload `{name}`"),
            text: TEMPLATES[index].to_owned(),
        });
    }
    let path: PathBuf = base.join(name);
    if path.extension().is_none_or(|e| e != "toml") {
        let hint = suggestion(name, NAMES);
        let hint = if hint.is_empty() {
            format!(
                "; there are {}, and any file whose name ends in .toml",
                NAMES.join(", ")
            )
        } else {
            hint
        };
        return Err(
            Problem::new(format!("no such workload{hint}")).of(&format!("workload `{name}`"))
        );
    }
    let origin = format!("workload {}", path.display());
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Source {
            name: name.to_owned(),
            origin,
            text,
        }),
        Err(error) => Err(Problem::new(format!("cannot be read: {error}")).of(&origin)),
    }
}

impl Source {
    /// What reports call it: the name of a built-in one, the stem of a file.
    fn short_name(&self) -> String {
        Path::new(&self.name).file_stem().map_or_else(
            || self.name.clone(),
            |stem| stem.to_string_lossy().into_owned(),
        )
    }

    fn environment(&self) -> Result<Environment<'_>, WorkloadError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment
            .add_template("workload", &self.text)
            .map_err(|error| self.template_problem(&error))?;
        Ok(environment)
    }

    fn undeclared(&self) -> Result<BTreeSet<String>, WorkloadError> {
        let environment = self.environment()?;
        let globals: BTreeSet<String> = environment
            .globals()
            .map(|(name, _)| name.to_owned())
            .collect();
        let template = environment
            .get_template("workload")
            .map_err(|error| self.template_problem(&error))?;
        Ok(template
            .undeclared_variables(false)
            .into_iter()
            .filter(|name| !globals.contains(name))
            .collect())
    }

    fn render(&self, options: &WorkloadOptions) -> Result<String, WorkloadError> {
        let environment = self.environment()?;
        let mut values = known_options();
        for (name, value) in options {
            check_option(name, value).map_err(|message| Problem::new(message).of(&self.origin))?;
            values.insert(name.clone(), value.clone());
        }
        environment
            .get_template("workload")
            .and_then(|template| template.render(minijinja::value::Serde(&values)))
            .map_err(|error| {
                // Several options may be missing, some of them with a default in the template: the one on
                // the line of the error is meant.
                let line = error
                    .line()
                    .and_then(|n| self.text.lines().nth(n.saturating_sub(1)))
                    .unwrap_or_default();
                let missing = self
                    .undeclared()
                    .unwrap_or_default()
                    .into_iter()
                    .find(|name| !values.contains_key(name) && line.contains(name.as_str()));
                match missing {
                    Some(name) if error.kind() == minijinja::ErrorKind::UndefinedError => {
                        let known: Vec<&str> = values.keys().map(String::as_str).collect();
                        let hint = suggestion(&name, &known);
                        WorkloadError {
                            origin: self.origin.clone(),
                            line: error.line(),
                            message: format!(
                                "needs the option `{name}`, which the plan does not set{hint}"
                            ),
                        }
                    }
                    _ => self.template_problem(&error),
                }
            })
    }

    fn template_problem(&self, error: &minijinja::Error) -> WorkloadError {
        let detail = error.detail().map(|d| format!(": {d}")).unwrap_or_default();
        WorkloadError {
            origin: self.origin.clone(),
            line: error.line(),
            message: format!("{}{detail}", error.kind()).replace('\n', " "),
        }
    }
}

/// Whether a value fits a built-in option; options of the user's own may be anything.
fn check_option(name: &str, value: &Json) -> Result<(), String> {
    let Some(rule) = OPTIONS.iter().find(|rule| rule.name == name) else {
        return Ok(());
    };
    match ((rule.default)(), value) {
        (Json::Bool(_), Json::Bool(_)) => Ok(()),
        (Json::Bool(_), other) => Err(format!("option `{name}` = {other} must be true or false")),
        (Json::String(_), Json::String(text)) => crate::units::Span::parse(text)
            .map(drop)
            .map_err(|message| format!("option `{name}`: {message}")),
        (Json::String(_), other) => Err(format!(
            "option `{name}` = {other} must be a duration with its unit, for example \"50ms\""
        )),
        (_, other) => match other.as_i64() {
            Some(number) if (rule.least..=rule.most).contains(&number) => Ok(()),
            _ => Err(format!(
                "option `{name}` = {other} must be a whole number between {} and {}",
                rule.least, rule.most
            )),
        },
    }
}
