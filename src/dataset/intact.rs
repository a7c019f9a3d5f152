//! Whether the data of an earlier load is still what was loaded.

use super::connect::first;
use super::definition;
use super::error::DatasetError;
use super::marker::Marker;
use super::ownership::tables_among;
use super::rows::RowSource;
use super::schema::table_name;
use super::verify;
use crate::plan::Plan;
use crate::target::Attended;

/// Why the tables that a complete marker stands for are not defined as they were when they had been loaded;
/// `None`: all are there, and so defined.
pub(super) fn altered(
    conn: &mut Attended,
    database: &str,
    found: &Marker,
    wanted: &Marker,
) -> Result<Option<String>, DatasetError> {
    let names = wanted.table_names();
    if tables_among(conn, database, &names)?.len() != names.len() {
        return Ok(Some("a table is missing".to_owned()));
    }
    let Some(defined) = &found.defined else {
        return Ok(Some(
            "how the tables were defined was not noted when they were loaded".to_owned(),
        ));
    };
    for number in 1..=wanted.tables {
        if definition::digest(conn, database, wanted.layout, number)? != *defined {
            return Ok(Some(format!(
                "table `{}` was altered since it was loaded",
                table_name(wanted.layout, number)
            )));
        }
    }
    Ok(None)
}

/// Why the tables do not hold the ids that were loaded, as far as first and last tell; `None`: they do.
pub(super) fn ids_missing(
    conn: &mut Attended,
    wanted: &Marker,
) -> Result<Option<String>, DatasetError> {
    for name in wanted.table_names() {
        let ends = first(
            conn,
            &format!("SELECT MIN(id), MAX(id) FROM {name}"),
            || format!("reading the ids of table `{name}`"),
        )?;
        let ends = ends.map(|row| (row.number(0), row.number(1)));
        if ends != Some((Some(1), Some(wanted.rows))) {
            return Ok(Some(format!(
                "table `{name}` has other ids than were loaded"
            )));
        }
    }
    Ok(None)
}

/// How many rows were compared with those that were loaded, and found equal; else what differs.
pub(super) fn compared(
    conn: &mut Attended,
    plan: &Plan,
    wanted: &Marker,
) -> Result<Result<u64, String>, DatasetError> {
    let source = RowSource::new(wanted.seed, wanted.rows, &plan.access);
    match verify::sample(conn, &source, wanted.tables, wanted.seed) {
        Ok(rows) => Ok(Ok(rows)),
        Err(DatasetError::Different { table, reason }) => Ok(Err(format!(
            "table `{table}` does not hold what was loaded: {reason}"
        ))),
        Err(error) => Err(error),
    }
}
