//! What tells prepared data apart before a server has been asked, and the proof that restored data is it.

use super::connect::connect_to;
use super::error::DatasetError;
use super::intact;
use super::marker::{self, Marker, State, VERSION};
use super::schema::{has_rows, layout_name};
use super::size::{Resolved, measured};
use crate::plan::{DataSize, Plan};
use crate::record::DatasetFacts;
use crate::target::Endpoint;
use crate::workload::TableLayout;

/// Everything in the plan that decides what the tables of `layout` hold, in one comparable text. A size in
/// buffer pools stands as it is stated: the server that resolves it is not asked yet.
pub fn identity(plan: &Plan, layout: TableLayout) -> String {
    let wanted = Marker::wanted(plan, layout, 0);
    let tables = wanted.tables;
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

/// Recognises tables whose files were just put back: complete, never written to, defined as they were, with first
/// and last id. Unlike [`super::prepare`] it counts and compares no rows, which would fill the buffer pool: by their
/// size and time, the files are those that were loaded and counted. `None`: they are not what the plan wants.
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
    let wanted = Marker::wanted(plan, layout, resolved.rows);
    let mut conn = connect_to(admin, database)?;
    let found = marker::read(&mut conn, database)?
        .into_iter()
        .find(|m| m.layout == layout)
        .filter(|m| m.fits(&wanted) && m.state == State::Complete && !m.dirty);
    let Some(found) = found else {
        return Ok(None);
    };
    if intact::altered(&mut conn, database, &found, &wanted)?.is_some() {
        return Ok(None);
    }
    if has_rows(layout) && intact::ids_missing(&mut conn, &wanted)?.is_some() {
        return Ok(None);
    }
    let bytes = measured(&mut conn, database, &found.table_names())?;
    Ok(Some(DatasetFacts {
        tables: found.tables,
        rows: wanted.rows,
        bytes,
        buffer_pool: resolved.buffer_pool,
        load_seconds: None,
        compared: Some(0),
        origin: "kept from an earlier run".to_owned(),
    }))
}
