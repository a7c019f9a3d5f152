//! What making the data would change, for `capbench check`.

use super::connect::quoted;
use super::error::DatasetError;
use super::marker::{CHUNKS, MARKER};
use super::ownership::database_exists;
use super::prepare::tables_needed;
use super::schema::{create_index, create_table, has_index, has_rows, table_name};
use super::size::Resolved;
use crate::plan::{Plan, Reset};
use crate::target::Attended;
use crate::target::Planned;
use crate::workload::TableLayout;

/// The statements that make the tables of `layout`, in order; none for tables that something else made.
///
/// # Errors
/// The server's.
pub fn planned(
    conn: &mut Attended,
    plan: &Plan,
    layout: TableLayout,
    resolved: &Resolved,
) -> Result<Vec<Planned>, DatasetError> {
    let mut all = Vec::new();
    if plan.dataset.existing && layout == TableLayout::Standard {
        return Ok(all);
    }
    let database = &plan.target.database;
    if !database_exists(conn, database)? {
        all.push(Planned::new(
            format!("CREATE DATABASE {}", quoted(database)),
            "dropped by `capbench cleanup` if nothing else is in it",
        ));
    }
    let tables = tables_needed(plan, layout);
    let rows = if has_rows(layout) { resolved.rows } else { 0 };
    let each = match tables {
        1 => String::new(),
        n => format!("and so on up to {}; ", table_name(layout, n)),
    };
    all.push(Planned::new(
        format!("CREATE TABLE {MARKER}, {CHUNKS} (…)"),
        "what capbench made, and how far it is",
    ));
    all.push(Planned::new(
        create_table(&plan.dataset, layout, 1, rows),
        format!("{each}unless they are there and fit; older ones of capbench's are dropped first"),
    ));
    if rows > 0 {
        all.push(Planned::new(
            format!("INSERT INTO {} …", table_name(layout, 1)),
            format!(
                "{each}{rows} rows each; on MariaDB by arrays of parameters, elsewhere by LOAD DATA LOCAL INFILE where the server takes it"
            ),
        ));
    }
    if has_index(&plan.dataset, layout) {
        all.push(Planned::new(
            create_index(layout, 1),
            each.trim_end_matches("; "),
        ));
    }
    Ok(all)
}

/// What puts tables that were written to back to their first state; `None`: nothing does.
pub fn planned_reset(plan: &Plan) -> Option<Planned> {
    let when = match plan.dataset.reset {
        Reset::Never => return None,
        Reset::PerVariant => "before each variant",
        Reset::PerCell => "before each cell",
    };
    Some(Planned::new(
        "DROP TABLE, CREATE TABLE, LOAD DATA as above".to_owned(),
        format!("{when}, where a workload wrote to them"),
    ))
}
