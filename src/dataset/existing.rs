//! Tables that something else prepared, accepted after a look.

use std::collections::BTreeSet;

use super::connect::{connect_to, first, literal, select};
use super::error::DatasetError;
use super::progress::Progress;
use super::schema::table_name;
use super::size::Resolved;
use super::size::measured;
use crate::plan::{DataSize, Plan};
use crate::record::DatasetFacts;
use crate::target::{Attended, Endpoint};
use crate::workload::TableLayout;

/// Tables of up to this many rows are counted; larger ones are judged by the server's statistics, since
/// counting reads a whole index.
const COUNTED_ROWS: u64 = 5_000_000;
/// Share of the ids that must be in use for statistics to be believed.
const PLAUSIBLE: f64 = 0.5;

/// Checks that the plan's tables exist, have sysbench's columns and an index on `id`, and hold the rows
/// that the plan draws ids from.
pub(super) fn accept(
    admin: &Endpoint,
    plan: &Plan,
    resolved: &Resolved,
    progress: &dyn Progress,
) -> Result<DatasetFacts, DatasetError> {
    progress.phase("checking the existing tables");
    let database = plan.target.database.as_str();
    let mut conn = connect_to(admin, database)?;
    let mut fewest = u64::MAX;
    let mut names = BTreeSet::new();
    for number in 1..=plan.dataset.tables {
        let name = table_name(TableLayout::Standard, number);
        let refuse = |reason: String| DatasetError::Existing {
            table: name.clone(),
            reason,
        };
        check_columns(&mut conn, database, &name, plan.dataset.secondary_index)?
            .map_or(Ok(()), |reason| Err(refuse(reason)))?;
        let rows = rows(&mut conn, database, &name)?.map_err(refuse)?;
        fewest = fewest.min(rows);
        names.insert(name);
    }
    let rows = match plan.dataset.size {
        DataSize::Rows(rows) if rows > fewest => {
            let (table, reason) = (
                "sbtest1 …".to_owned(),
                format!("the smallest table holds {fewest} rows, the plan says rows = {rows}"),
            );
            return Err(DatasetError::Existing { table, reason });
        }
        DataSize::Rows(rows) => rows,
        _ => fewest,
    };
    Ok(DatasetFacts {
        tables: plan.dataset.tables,
        rows,
        bytes: measured(&mut conn, database, &names)?,
        buffer_pool: resolved.buffer_pool,
        load_seconds: None,
        compared: None,
        origin: "existing".to_owned(),
    })
}

/// What is wrong with a table's columns and indexes.
fn check_columns(
    conn: &mut Attended,
    database: &str,
    table: &str,
    index_on_k: bool,
) -> Result<Option<String>, DatasetError> {
    let doing = || format!("reading the columns of table `{table}`");
    let of_table = format!(
        "WHERE table_schema = {} AND table_name = {}",
        literal(database),
        literal(table)
    );
    let columns: Vec<(String, String)> = select(
        conn,
        &format!("SELECT column_name, data_type FROM information_schema.columns {of_table}"),
        doing,
    )?
    .iter()
    .filter_map(|row| {
        let lower = |column| Some(row.text(column)?.to_ascii_lowercase());
        Some((lower(0)?, lower(1)?))
    })
    .collect();
    if columns.is_empty() {
        return Ok(Some(format!(
            "there is no such table in database `{database}`"
        )));
    }
    let numbers = ["int", "bigint"];
    let texts = ["char", "varchar"];
    for (column, kinds) in [
        ("id", numbers),
        ("k", numbers),
        ("c", texts),
        ("pad", texts),
    ] {
        match columns.iter().find(|(name, _)| name == column) {
            None => return Ok(Some(format!("it has no column `{column}`"))),
            Some((_, kind)) if !kinds.contains(&kind.as_str()) => {
                return Ok(Some(format!(
                    "its column `{column}` is {kind}, not {}",
                    kinds.join(" or ")
                )));
            }
            Some(_) => {}
        }
    }
    let indexed: Vec<String> = select(
        conn,
        &format!(
            "SELECT DISTINCT column_name FROM information_schema.statistics {of_table} AND seq_in_index = 1"
        ),
        doing,
    )?
    .iter()
    .filter_map(|row| Some(row.text(0)?.to_ascii_lowercase()))
    .collect();
    if !indexed.iter().any(|column| column == "id") {
        return Ok(Some("it has no index on `id`".to_owned()));
    }
    if index_on_k && !indexed.iter().any(|column| column == "k") {
        return Ok(Some(
            "it has no index on `k` (secondary_index = false accepts that)".to_owned(),
        ));
    }
    Ok(None)
}

/// Rows of a table whose ids run from 1 without large gaps, or why it is none.
fn rows(
    conn: &mut Attended,
    database: &str,
    table: &str,
) -> Result<Result<u64, String>, DatasetError> {
    let doing = || format!("counting the rows of table `{table}`");
    let ends = first(
        conn,
        &format!("SELECT MIN(id), MAX(id) FROM {table}"),
        doing,
    )?;
    let Some(last) = ends.and_then(|row| row.number::<u64>(1)) else {
        return Ok(Err("it is empty".to_owned()));
    };
    let sql = if last <= COUNTED_ROWS {
        format!("SELECT COUNT(*) FROM {table}")
    } else {
        format!(
            "SELECT table_rows FROM information_schema.tables WHERE table_schema = {} AND table_name = {}",
            literal(database),
            literal(table)
        )
    };
    let count: u64 = first(conn, &sql, doing)?
        .and_then(|row| row.number(0))
        .unwrap_or_default();
    if (count as f64) < last as f64 * PLAUSIBLE {
        return Ok(Err(format!(
            "its ids go up to {last} but only about {count} rows exist: most lookups would find nothing"
        )));
    }
    Ok(Ok(last))
}
