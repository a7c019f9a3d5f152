//! What the control account may not do in the plan's database, found without doing it.

use super::connect::{first, literal, quoted, run, select};
use super::error::DatasetError;
use super::marker::MARKER;
use crate::target::Attended;

/// `ER_TABLEACCESS_DENIED_ERROR`, `ER_DBACCESS_DENIED_ERROR`
const DENIED: [u16; 2] = [1142, 1044];
/// Rights of which a prepared statement does not tell: the first drops what a load replaces, the second makes the
/// index of a table that is loaded.
const LISTED: [&str; 2] = ["DROP", "INDEX"];

/// Everything that the account lacks for making, loading and dropping tables.
///
/// # Errors
/// The server does not answer.
pub(super) fn missing(
    conn: &mut Attended,
    database: &str,
) -> Result<Vec<DatasetError>, DatasetError> {
    let mut found = refused(conn, database)?;
    found.extend(unlisted(conn, database)?);
    Ok(found)
}

/// What the server refuses to prepare, which runs nothing. Rights are looked at before a table's existence, seen so
/// on MariaDB 10.11 and MySQL 9.7.
fn refused(conn: &mut Attended, database: &str) -> Result<Vec<DatasetError>, DatasetError> {
    let table = format!("{}.{MARKER}", quoted(database));
    let mut found = Vec::new();
    for (doing, sql) in [
        ("making tables", format!("CREATE TABLE {table} (id INT)")),
        ("reading tables", format!("SELECT 1 FROM {table}")),
        ("loading rows", format!("INSERT INTO {table} VALUES (1)")),
        (
            "noting that rows are changed",
            format!("UPDATE {table} SET dirty = 1"),
        ),
        ("forgetting what was loaded", format!("DELETE FROM {table}")),
    ] {
        let asked = run(
            conn,
            &format!("PREPARE capbench FROM {}", literal(&sql)),
            || doing.to_owned(),
        );
        match asked {
            Err(error) if error.code().is_some_and(|code| DENIED.contains(&code)) => {
                found.push(error);
            }
            // Anything else that it says is about a table that is yet to be made.
            Err(error) if error.code().is_none() => return Err(error),
            _ => {}
        }
    }
    Ok(found)
}

/// Those of [`LISTED`] that the server's lists of rights do not have for the account. It may have them by a role, or
/// as everybody (`MariaDB`'s PUBLIC), of which those lists do not tell: then nothing is said.
fn unlisted(conn: &mut Attended, database: &str) -> Result<Option<DatasetError>, DatasetError> {
    let doing = || "reading the account's rights".to_owned();
    let role = match first(conn, "SELECT CURRENT_ROLE()", doing) {
        Ok(row) => row.and_then(|row| row.text(0).map(str::to_owned)),
        // A server without roles has no such function.
        Err(error) if error.code().is_some() => None,
        Err(error) => return Err(error),
    };
    if role.is_some_and(|role| !role.eq_ignore_ascii_case("none"))
        || granted_to_everybody(conn, database)?
    {
        return Ok(None);
    }
    let account = first(conn, "SELECT CURRENT_USER()", doing)?;
    let account = account.and_then(|row| row.text(0).map(str::to_owned));
    let Some((user, host)) = account.as_deref().and_then(|name| name.rsplit_once('@')) else {
        return Ok(None);
    };
    let grantee = literal(&format!("'{user}'@'{host}'"));
    let rights: Vec<String> = select(
        conn,
        &format!(
            "SELECT privilege_type FROM information_schema.user_privileges WHERE grantee = {grantee} \
             UNION SELECT privilege_type FROM information_schema.schema_privileges \
             WHERE grantee = {grantee} AND {} LIKE table_schema",
            literal(database)
        ),
        doing,
    )?
    .iter()
    .filter_map(|row| row.text(0).map(str::to_ascii_uppercase))
    .collect();
    let lacking: Vec<&str> = LISTED
        .into_iter()
        .filter(|right| !rights.iter().any(|held| held == right))
        .collect();
    Ok((!rights.is_empty() && !lacking.is_empty()).then(|| {
        DatasetError::Plan(format!(
            "the account of the control connections ({user}@{host}) lacks {} on database `{database}`, without which its tables can be neither loaded nor put back\nhint: `capbench grants PLAN` prints the rights it needs",
            lacking.join(" and ")
        ))
    }))
}

/// Whether PUBLIC has any right on the database: `MariaDB` gives it all on databases whose names begin with `test`.
fn granted_to_everybody(conn: &mut Attended, database: &str) -> Result<bool, DatasetError> {
    let doing = || "reading the account's rights".to_owned();
    let grants = select(conn, "SHOW GRANTS", doing)?;
    let patterns: Vec<&str> = grants
        .iter()
        .filter_map(|row| row.text(0)?.strip_suffix(" TO PUBLIC")?.split_once(" ON "))
        .map(|(_, object)| match object.strip_suffix(".*") {
            Some(name) => name.trim_matches('`'),
            None => "%",
        })
        .collect();
    for pattern in patterns {
        let sql = format!("SELECT {} LIKE {}", literal(database), literal(pattern));
        if pattern == "*" || first(conn, &sql, doing)?.is_some_and(|row| row.on(0)) {
            return Ok(true);
        }
    }
    Ok(false)
}
