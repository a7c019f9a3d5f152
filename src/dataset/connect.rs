//! Control connections of the loader.

use mysql::prelude::Queryable;
use mysql::{Conn, DriverError};

use super::error::{DatasetError, words};
use crate::plan::{Address, TlsMode};
use crate::target::Endpoint;

/// Opens a connection without a default database. Statements may take as long as they do: an index on a
/// large table takes hours.
pub(super) fn connect(endpoint: &Endpoint) -> Result<Conn, DatasetError> {
    let mut endpoint = endpoint.clone();
    endpoint.database = None;
    // A socket does not leave the host and stays plain.
    let tls =
        matches!(endpoint.address, Address::Tcp { .. }) && endpoint.tls.mode != TlsMode::Disabled;
    let result = match Conn::new(endpoint.opts(tls)) {
        Err(mysql::Error::DriverError(DriverError::TlsNotSupported))
            if endpoint.tls.mode == TlsMode::Preferred =>
        {
            Conn::new(endpoint.opts(false))
        }
        other => other,
    };
    result.map_err(|error| DatasetError::Connect {
        address: endpoint.address.to_string(),
        user: endpoint.user.clone(),
        reason: words(&error),
    })
}

/// Opens a connection and enters `database`.
pub(super) fn connect_to(endpoint: &Endpoint, database: &str) -> Result<Conn, DatasetError> {
    let mut conn = connect(endpoint)?;
    run(&mut conn, &format!("USE {}", quoted(database)), || {
        format!("entering database `{database}`")
    })?;
    Ok(conn)
}

/// Runs a statement without a result; `doing` names it in errors.
pub(super) fn run(
    conn: &mut Conn,
    sql: &str,
    doing: impl FnOnce() -> String,
) -> Result<(), DatasetError> {
    conn.query_drop(sql)
        .map_err(|error| DatasetError::statement(doing(), &error))
}

/// An identifier in backticks.
pub(super) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
