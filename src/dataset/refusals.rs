//! What keeps the data from being made ready, found before anything is changed: all of it for a run that is about
//! to begin and for `capbench check`, and again, the first of it, before tables are dropped or loaded.

use super::binlog;
use super::connect::{connect, enter, first};
use super::error::DatasetError;
use super::existing;
use super::marker::{self, Marker, State};
use super::ownership::{database_exists, owned};
use super::progress::Silent;
use super::references;
use super::rights;
use super::schema::has_rows;
use super::size::{Resolved, disk_space, measured};
use crate::plan::{Plan, Reset};
use crate::target::{Attended, Endpoint};
use crate::units::Bytes;
use crate::workload::TableLayout;

/// Everything for which the tables of `layout` could not be made ready, or put back later in the run. Asks the
/// server, changes nothing.
///
/// # Errors
/// What the server says to a question.
pub fn refusals(
    admin: &Endpoint,
    plan: &Plan,
    layout: TableLayout,
    resolved: &Resolved,
) -> Result<Vec<DatasetError>, DatasetError> {
    if plan.dataset.existing && layout == TableLayout::Standard {
        return Ok(existing::accept(admin, plan, resolved, &Silent)
            .err()
            .into_iter()
            .collect());
    }
    let database = plan.target.database.as_str();
    let wanted = Marker::wanted(plan, layout, resolved.rows);
    let mut conn = connect(admin)?;
    let mut found: Vec<DatasetError> = read_only(&mut conn)?.into_iter().collect();
    found.extend(rights::missing(&mut conn, database)?);
    let mut marker = None;
    if database_exists(&mut conn, database)? {
        enter(&mut conn, database)?;
        marker = marker::read(&mut conn, database)?
            .into_iter()
            .find(|marker| marker.layout == layout);
        found.extend(of_tables(&mut conn, plan, marker.as_ref(), &wanted)?);
    }
    let ready = marker
        .as_ref()
        .is_some_and(|marker| marker.fits(&wanted) && marker.state == State::Complete);
    let kept = ready && (keeps_dirty(plan, layout) || !marker.as_ref().is_some_and(|m| m.dirty));
    if !kept || written(plan, layout) {
        found.extend(of_load(
            &mut conn,
            admin,
            plan,
            resolved,
            marker.as_ref(),
            &wanted,
        )?);
    }
    Ok(found)
}

/// Whether tables of this layout that were written to are used as they are.
pub(super) fn keeps_dirty(plan: &Plan, layout: TableLayout) -> bool {
    plan.dataset.reset == Reset::Never && layout == TableLayout::Standard
}

/// Whether the run writes to tables of this layout and puts them back.
fn written(plan: &Plan, layout: TableLayout) -> bool {
    let mut programs = plan.ladder.workloads.iter().chain(&plan.warmup.workload);
    !keeps_dirty(plan, layout)
        && programs.any(|program| program.tables == layout && program.writes())
}

/// A load that would bypass `read_only` by an administrator's rights damages a replica.
pub(super) fn read_only(conn: &mut Attended) -> Result<Option<DatasetError>, DatasetError> {
    let read_only = first(conn, "SELECT @@read_only", || {
        "reading @@read_only".to_owned()
    })?;
    // MariaDB 12 has more values than ON and OFF.
    let off = |row: super::connect::Cells| matches!(row.text(0), Some("0" | "OFF"));
    Ok((!read_only.is_none_or(off)).then(|| {
        DatasetError::Plan(
            "the server is read_only, so no data is loaded into it\nhint: prepare the data on its source and say `existing = true`, or lift read_only if this is no replica".to_owned(),
        )
    }))
}

/// What the tables that are there stand in the way of, before any of them is dropped.
pub(super) fn of_tables(
    conn: &mut Attended,
    plan: &Plan,
    found: Option<&Marker>,
    wanted: &Marker,
) -> Result<Vec<DatasetError>, DatasetError> {
    let database = plan.target.database.as_str();
    let mut all: Vec<DatasetError> = foreign(conn, database, found, wanted)?
        .into_iter()
        .collect();
    all.extend(binlog::mixture(database, found, wanted));
    let mut names = wanted.table_names();
    names.extend(found.map(Marker::table_names).unwrap_or_default());
    all.extend(references::refusal(conn, database, &names)?);
    Ok(all)
}

/// What stands in the way of loading.
pub(super) fn of_load(
    conn: &mut Attended,
    admin: &Endpoint,
    plan: &Plan,
    resolved: &Resolved,
    found: Option<&Marker>,
    wanted: &Marker,
) -> Result<Vec<DatasetError>, DatasetError> {
    let mut all: Vec<DatasetError> = binlog::unsaid(conn, plan)?.into_iter().collect();
    if has_rows(wanted.layout) {
        all.extend(disk(conn, admin, plan, resolved, found)?);
    }
    Ok(all)
}

/// A table that would be made exists and is not capbench's.
fn foreign(
    conn: &mut Attended,
    database: &str,
    found: Option<&Marker>,
    wanted: &Marker,
) -> Result<Option<DatasetError>, DatasetError> {
    let named = found.map(Marker::table_names).unwrap_or_default();
    let (own, foreign) = owned(conn, database, &wanted.table_names())?;
    // A table with capbench's comment that no marker names was restored from a dump, or its marker was
    // dropped: not provably ours either.
    let unnamed = own.into_iter().filter(|table| !named.contains(table));
    let hint = if wanted.layout == TableLayout::Standard {
        "use another database, drop the table yourself, or, if sysbench prepared it, say `existing = true` in [dataset]"
    } else {
        "use another database, or drop the table yourself"
    };
    Ok(foreign
        .into_iter()
        .chain(unnamed)
        .min()
        .map(|table| DatasetError::Foreign {
            database: database.to_owned(),
            table,
            hint,
        }))
}

/// The data does not fit. What an earlier load takes up is freed before.
fn disk(
    conn: &mut Attended,
    admin: &Endpoint,
    plan: &Plan,
    resolved: &Resolved,
    found: Option<&Marker>,
) -> Result<Vec<DatasetError>, DatasetError> {
    let held = match found {
        Some(found) => measured(conn, &plan.target.database, &found.table_names())?,
        None => Bytes(0),
    };
    let Some(spaces) = disk_space(conn, admin, plan, resolved, held)? else {
        return Ok(Vec::new());
    };
    Ok(spaces
        .into_iter()
        .filter(|space| !space.suffices())
        .map(DatasetError::Disk)
        .collect())
}

/// The first refusal as the error that it is.
pub(super) fn refuse(found: impl IntoIterator<Item = DatasetError>) -> Result<(), DatasetError> {
    found.into_iter().next().map_or(Ok(()), Err)
}
