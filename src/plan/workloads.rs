//! The workloads that a plan names, and the options it gives them.

use std::collections::BTreeSet;
use std::path::Path;

use super::Dataset;
use super::diagnostic::{At, Diagnostic};
use super::suggest::nearest;
use super::wire::Fields;
use crate::workload::{self, Program, WorkloadOptions};

/// Options that describe the tables, not the statements; `[dataset]` states them for both.
const OF_THE_TABLES: &[&str] = &["auto_inc", "secondary"];

/// The library of workloads as a plan sees it.
pub(super) struct Workloads<'a> {
    base: &'a Path,
    options: WorkloadOptions,
}

impl<'a> Workloads<'a> {
    /// Reads and checks `[workload]`.
    pub(super) fn new(
        fields: &Fields,
        dataset: &Dataset,
        base: &'a Path,
        problems: &mut Vec<Diagnostic>,
    ) -> Self {
        let known = workload::known_options();
        let mut options = WorkloadOptions::new();
        let stated = fields.json("workload");
        let used = if stated.is_empty() {
            BTreeSet::new()
        } else {
            used_options(fields, base)
        };
        for item in stated {
            let (name, value) = item.value;
            if OF_THE_TABLES.contains(&name.as_str()) {
                problems.push(
                    Diagnostic::error(
                        item.at,
                        format!("`workload.{name}` is a property of the tables"),
                    )
                    .hint(format!(
                        "state `{name}` in [dataset]; the workloads follow it"
                    )),
                );
                continue;
            }
            if known.contains_key(&name) {
                match fault(&name, &value) {
                    Some(message) => problems.push(Diagnostic::error(item.at, message)),
                    None => {
                        options.insert(name, value);
                    }
                }
            } else if used.contains(&name) {
                options.insert(name, value);
            } else {
                let names = known.keys().chain(&used).map(String::as_str);
                let names = names.filter(|n| !OF_THE_TABLES.contains(n));
                let all: BTreeSet<&str> = names.collect();
                let hint = match nearest(&name, all.iter().copied()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!(
                        "known options: {}",
                        all.into_iter().collect::<Vec<_>>().join(", ")
                    ),
                };
                problems.push(
                    Diagnostic::error(
                        item.at,
                        format!("`workload.{name}`: no workload of this plan has such an option"),
                    )
                    .hint(hint),
                );
            }
        }
        for (name, value) in [
            ("auto_inc", dataset.auto_inc),
            ("secondary", dataset.secondary),
        ] {
            if known.contains_key(name) || used.contains(name) {
                options.insert(name.to_owned(), value.into());
            }
        }
        Self { base, options }
    }

    /// The workload of this name; `None` when there is none, which `problems` then says. `path` is the key
    /// that names it.
    pub(super) fn load(
        &self,
        path: &str,
        name: &str,
        at: Option<At>,
        problems: &mut Vec<Diagnostic>,
    ) -> Option<Program> {
        let names = workload::builtin_names();
        if !is_file(name) && !names.contains(&name) {
            let diagnostic =
                Diagnostic::error(at, format!("`{path}`: there is no workload `{name}`"));
            problems.push(match nearest(name, names.iter().copied()) {
                Some(meant) => diagnostic.hint(format!("did you mean `{meant}`?")),
                None => diagnostic.hint(format!(
                    "the built-in ones are {}; a file of your own ends in .toml",
                    names.join(", ")
                )),
            });
            return None;
        }
        match workload::load(name, self.base, &self.options) {
            Ok(program) => Some(program),
            Err(error) => {
                let text = error.to_string();
                let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
                let mut diagnostic = Diagnostic::error(at, format!("`{path}`: {first}"));
                if !rest.trim().is_empty() {
                    diagnostic = diagnostic.hint(rest.trim_end());
                } else if is_file(name) && !self.base.join(name).exists() {
                    diagnostic = diagnostic.hint("paths are relative to the plan's folder");
                }
                problems.push(diagnostic);
                None
            }
        }
    }
}

/// Whether a workload is named by its file.
fn is_file(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("toml"))
}

/// Names of all options that the plan's workloads use. Workloads that cannot be read say so when they are
/// loaded.
fn used_options(fields: &Fields, base: &Path) -> BTreeSet<String> {
    let mut names: Vec<String> = fields
        .texts("ladder.workloads")
        .into_iter()
        .map(|item| item.value)
        .collect();
    names.extend(fields.text("warmup.workload"));
    names
        .iter()
        .filter_map(|name| workload::undeclared(name, base).ok())
        .flatten()
        .collect()
}

/// What is wrong with the value of a built-in option. The library says it about whichever workload is
/// rendered with it; here it is said once, where the option stands.
fn fault(name: &str, value: &serde_json::Value) -> Option<String> {
    let probe = workload::builtin_names().first()?;
    let options = WorkloadOptions::from([(name.to_owned(), value.clone())]);
    workload::load(probe, Path::new(""), &options)
        .err()
        .map(|error| error.message)
}
