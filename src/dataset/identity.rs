//! What tells prepared data apart before a server has been asked, and the proof that restored data is it.

use std::collections::BTreeSet;

use super::connect::{connect_to, first};
use super::error::DatasetError;
use super::existing;
use super::marker::{self, Marker, State, VERSION};
use super::ownership::tables_among;
use super::prepare::tables_needed;
use super::schema::{has_index, has_rows, layout_name};
use super::size::{Resolved, measured};
use crate::plan::{DataSize, Plan};
use crate::record::DatasetFacts;
use crate::target::Endpoint;
use crate::workload::TableLayout;

/// Everything in the plan that decides what the tables of `layout` hold, in one comparable text. A size in
/// buffer pools stands as it is stated: the server that resolves it is not asked yet.
pub fn identity(plan: &Plan, layout: TableLayout) -> String {
    let tables = tables_needed(plan, layout);
    let wanted = Marker::wanted(plan, layout, tables, 0);
    let size = match plan.dataset.size {
        DataSize::Rows(rows) => format!("{rows} rows"),
        DataSize::Bytes(bytes) => format!("{} bytes", bytes.0),
        DataSize::BufferPools(pools) => format!("{pools} buffer pools"),
    };
    format!(
        "{} version={VERSION} database={} tables={tables} size={size} seed={} {}",
        layout_name(layout),
        plan.target.database,
        wanted.seed,
        wanted.options
    )
}

/// Recognises tables whose files were just put back: complete, never written to, with their columns, indexes,
/// first and last id. Unlike [`super::prepare`] it counts no rows, which would fill the buffer pool: the files
/// are known to be those that were loaded and counted. `None`: they are not what the plan wants.
///
/// # Errors
/// What the server says.
pub fn recognise(
    admin: &Endpoint,
    plan: &Plan,
    layout: TableLayout,
    resolved: &Resolved,
) -> Result<Option<DatasetFacts>, DatasetError> {
    let database = plan.target.database.as_str();
    let rows = if has_rows(layout) { resolved.rows } else { 0 };
    let wanted = Marker::wanted(plan, layout, tables_needed(plan, layout), rows);
    let mut conn = connect_to(admin, database)?;
    let found = marker::read(&mut conn, database)?
        .into_iter()
        .find(|m| m.layout == layout)
        .filter(|m| m.fits(&wanted) && m.state == State::Complete && !m.dirty);
    let Some(found) = found else {
        return Ok(None);
    };
    let names: BTreeSet<String> = found.table_names();
    if tables_among(&mut conn, database, &names)?.len() != names.len() {
        return Ok(None);
    }
    if has_rows(layout) {
        let indexed = has_index(&plan.dataset, layout);
        for name in &names {
            if existing::check_columns(&mut conn, database, name, indexed)?.is_some() {
                return Ok(None);
            }
            let ends = first(
                &mut conn,
                &format!("SELECT MIN(id), MAX(id) FROM {name}"),
                || format!("reading the ids of table `{name}`"),
            )?;
            let ends = ends.map(|row| (row.number(0), row.number(1)));
            if ends != Some((Some(1), Some(rows))) {
                return Ok(None);
            }
        }
    }
    let bytes = measured(&mut conn, database, &names)?;
    Ok(Some(DatasetFacts {
        tables: found.tables,
        rows,
        bytes,
        buffer_pool: resolved.buffer_pool,
        load_seconds: None,
        origin: "kept from an earlier run".to_owned(),
    }))
}
