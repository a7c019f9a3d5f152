//! Temporary stand-in for the workload library; replaced at the merge.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{
    Generator, Group, Program, Statement, TableLayout, Transaction, Value, WorkloadOptions,
};

/// Why a workload cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WorkloadError(String);

const NAMES: &[&str] = &[
    "bulk_insert",
    "oltp_delete",
    "oltp_insert",
    "oltp_point_select",
    "oltp_read_only",
    "oltp_read_write",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_write_only",
    "select_random_points",
    "select_random_ranges",
];

/// Names of the built-in workloads.
pub fn builtin_names() -> &'static [&'static str] {
    NAMES
}

/// Options of the built-in workloads and their defaults.
pub fn known_options() -> BTreeMap<String, serde_json::Value> {
    [
        ("range_size", serde_json::json!(100)),
        ("point_selects", serde_json::json!(10)),
        ("skip_trx", serde_json::json!(false)),
        ("auto_inc", serde_json::json!(true)),
        ("think_time_ms", serde_json::json!(0.0)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// Option names that a template uses.
///
/// # Errors
/// When the file cannot be read.
pub fn undeclared(name: &str, base: &Path) -> Result<BTreeSet<String>, WorkloadError> {
    if Path::new(name).extension().is_some_and(|e| e == "toml") {
        let text = std::fs::read_to_string(base.join(name))
            .map_err(|e| WorkloadError(format!("cannot read workload `{name}`: {e}")))?;
        return Ok(text
            .split("{{")
            .skip(1)
            .filter_map(|part| part.split("}}").next())
            .map(|word| word.trim().to_owned())
            .collect());
    }
    Ok(BTreeSet::new())
}

/// A workload by name or file.
///
/// # Errors
/// When there is none of this name.
pub fn load(name: &str, base: &Path, _options: &WorkloadOptions) -> Result<Program, WorkloadError> {
    if Path::new(name).extension().is_some_and(|e| e == "toml") {
        std::fs::read_to_string(base.join(name))
            .map_err(|e| WorkloadError(format!("cannot read workload `{name}`: {e}")))?;
    } else if !NAMES.contains(&name) {
        return Err(WorkloadError(format!("no workload `{name}`")));
    }
    let writes = ["write", "update", "delete", "insert"]
        .iter()
        .any(|word| name.contains(word));
    let sql = if writes {
        "UPDATE sbtest{table} SET k=k+1 WHERE id=?"
    } else {
        "SELECT c FROM sbtest{table} WHERE id=?"
    };
    Ok(Program {
        name: name.to_owned(),
        description: String::new(),
        transactions: vec![Transaction {
            name: "t".to_owned(),
            weight: 1,
            begin: false,
            groups: vec![Group {
                repeat: 1,
                binds: Vec::new(),
                statements: vec![Statement {
                    class: "s".to_owned(),
                    sql: sql.to_owned(),
                    parameters: vec![Value::Draw(Generator::Key)],
                    text_only: false,
                }],
            }],
        }],
        think_time_ms: 0.0,
        tables: TableLayout::Standard,
    })
}
