//! Whose tables they are, and removing capbench's own.

use std::collections::BTreeSet;

use super::connect::{connect, enter, first, literal, quoted, run, select, unlog};
use super::error::DatasetError;
use super::marker::{self, COMMENT};
use super::references;
use super::refusals::refuse;
use crate::target::{Attended, Endpoint};

/// What [`cleanup`] removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Tables that were dropped.
    pub tables: Vec<String>,
    /// Tables that the marker names but that were made anew by something else, and were left.
    pub left: Vec<String>,
    /// Whether the database went too: capbench had made it and nothing else was in it.
    pub database: bool,
    /// capbench had made the database, and it had to stay.
    pub database_left: bool,
}

impl std::fmt::Display for Cleaned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.tables.len() {
            0 => f.write_str("nothing of capbench's was there")?,
            1 => write!(f, "dropped {}", self.tables[0])?,
            n => write!(
                f,
                "dropped {n} tables: {} … {}",
                self.tables[0],
                self.tables[n - 1]
            )?,
        }
        if self.database {
            f.write_str(", and the database, which capbench had made and nothing else used")?;
        }
        for table in &self.left {
            write!(
                f,
                "\nleft `{table}`: it was made anew by something else since capbench made it"
            )?;
        }
        Ok(())
    }
}

/// Drops the tables that the marker in `database` names, the marker, and the database if capbench created
/// it and nothing else is in it. Without a marker nothing is dropped.
///
/// # Errors
/// Foreign keys of others refer to the tables, and nothing was dropped; what the server says.
pub fn cleanup(admin: &Endpoint, database: &str) -> Result<Cleaned, DatasetError> {
    let mut cleaned = Cleaned::default();
    let mut conn = connect(admin)?;
    if !database_exists(&mut conn, database)? {
        return Ok(cleaned);
    }
    enter(&mut conn, database)?;
    let markers = marker::read(&mut conn, database)?;
    if !has_marker_table(&mut conn, database)? {
        return Ok(cleaned);
    }
    lock(&mut conn, database)?;
    if markers.iter().any(marker::Marker::unlogged) {
        unlog(&mut conn)?;
    }
    let names = markers.iter().flat_map(marker::Marker::table_names);
    refuse(references::refusal(&mut conn, database, &names.collect())?)?;
    for marker in &markers {
        let (own, foreign) = owned(&mut conn, database, &marker.table_names())?;
        for table in own {
            drop_table(&mut conn, &table)?;
            cleaned.tables.push(table);
        }
        cleaned.left.extend(foreign);
    }
    drop_table(&mut conn, marker::CHUNKS)?;
    drop_table(&mut conn, marker::MARKER)?;
    if markers.iter().any(|m| m.created_database) {
        let name = literal(database);
        let sql = format!(
            "SELECT (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = {name}) \
             + (SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = {name}) \
             + (SELECT COUNT(*) FROM information_schema.events WHERE event_schema = {name})"
        );
        let others = first(&mut conn, &sql, || "looking for other tables".to_owned())?;
        let others: Option<u64> = others.and_then(|row| row.number(0));
        if others == Some(0) {
            run(
                &mut conn,
                &format!("DROP DATABASE {}", quoted(database)),
                || format!("dropping database `{database}`"),
            )?;
            cleaned.database = true;
        }
        cleaned.database_left = !cleaned.database;
    }
    Ok(cleaned)
}

/// Drops a table.
pub(super) fn drop_table(conn: &mut Attended, table: &str) -> Result<(), DatasetError> {
    run(
        conn,
        &format!("DROP TABLE IF EXISTS {}", quoted(table)),
        || format!("dropping table `{table}`"),
    )
}

/// Whether the server has this database.
pub(super) fn database_exists(conn: &mut Attended, database: &str) -> Result<bool, DatasetError> {
    let sql = format!(
        "SELECT 1 FROM information_schema.schemata WHERE schema_name = {}",
        literal(database)
    );
    let found = first(conn, &sql, || "looking for the database".to_owned())?;
    Ok(found.is_some())
}

fn has_marker_table(conn: &mut Attended, database: &str) -> Result<bool, DatasetError> {
    let names = BTreeSet::from([marker::MARKER.to_owned()]);
    Ok(!tables_among(conn, database, &names)?.is_empty())
}

/// The tables of `names` that exist, with their comments, by number.
pub(super) fn tables_among(
    conn: &mut Attended,
    database: &str,
    names: &BTreeSet<String>,
) -> Result<Vec<(String, String)>, DatasetError> {
    let sql = format!(
        "SELECT table_name, table_comment FROM information_schema.tables WHERE table_schema = {}",
        literal(database)
    );
    let mut found: Vec<(String, String)> =
        select(conn, &sql, || "reading the list of tables".to_owned())?
            .iter()
            .filter_map(|row| {
                let name = row.text(0).filter(|name| names.contains(*name))?;
                Some((name.to_owned(), row.text(1).unwrap_or_default().to_owned()))
            })
            .collect();
    found.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
    Ok(found)
}

/// The tables of `names` that exist: those that carry capbench's comment, and the others.
pub(super) fn owned(
    conn: &mut Attended,
    database: &str,
    names: &BTreeSet<String>,
) -> Result<(Vec<String>, Vec<String>), DatasetError> {
    let (own, foreign): (Vec<_>, Vec<_>) = tables_among(conn, database, names)?
        .into_iter()
        .partition(|(_, comment)| comment == COMMENT);
    let names = |pairs: Vec<(String, String)>| pairs.into_iter().map(|(name, _)| name).collect();
    Ok((names(own), names(foreign)))
}

/// Takes the server's lock on a database's data, held by the connection and gone with it. Clusters that
/// have no such locks are worked on without.
pub(super) fn lock(conn: &mut Attended, database: &str) -> Result<(), DatasetError> {
    // Lock names have at most 64 characters.
    let short: String = database.chars().take(50).collect();
    let sql = format!(
        "SELECT GET_LOCK({}, 5)",
        literal(&format!("capbench {short}"))
    );
    let got = match first(conn, &sql, || "locking the data".to_owned()) {
        Err(error) if error.code().is_some() => return Ok(()),
        other => other?,
    };
    if got.is_some_and(|row| row.on(0)) {
        return Ok(());
    }
    Err(DatasetError::Plan(format!(
        "another capbench is at work on the data in database `{database}`\nhint: wait for it, or use another database"
    )))
}
