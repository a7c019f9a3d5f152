//! Control connections of the loader, and the few statements they need. Everything goes through the text
//! protocol: a server at its limit of prepared statements can still be loaded.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, DriverError, Row, Value};

use super::error::{DatasetError, words};
use crate::plan::{Address, TlsMode};
use crate::target::Endpoint;
use crate::units::Span;

/// Opens a connection without a default database. Statements may take as long as they do: an index on a
/// large table takes hours. What has its own limit, `target.connect_timeout`, is whether the server answers at
/// all, and how long a statement waits for a table that another session holds: servers wait a day or a year.
pub(super) fn connect(endpoint: &Endpoint) -> Result<Conn, DatasetError> {
    let mut endpoint = endpoint.clone();
    endpoint.database = None;
    let refused = |reason| DatasetError::Connect {
        address: endpoint.address.to_string(),
        user: endpoint.user.clone(),
        reason,
    };
    // A socket does not leave the host and stays plain.
    let tls =
        matches!(endpoint.address, Address::Tcp { .. }) && endpoint.tls.mode != TlsMode::Disabled;
    let (plain, preferred) = (
        endpoint.opts(false),
        endpoint.tls.mode == TlsMode::Preferred,
    );
    let first = endpoint.opts(tls);
    let result = within(endpoint.connect_timeout, move || match Conn::new(first) {
        Err(mysql::Error::DriverError(DriverError::TlsNotSupported)) if preferred => {
            Conn::new(plain)
        }
        other => other,
    })
    .map_err(&refused)?;
    let mut conn = result.map_err(|error| refused(words(&error)))?;
    // A known way of quoting, and patience: a control connection idles while others load.
    let patience = endpoint.connect_timeout.as_secs_f64().ceil().max(1.0);
    run(
        &mut conn,
        &format!(
            "SET SESSION sql_mode = 'STRICT_ALL_TABLES', wait_timeout = 2592000, autocommit = 1, lock_wait_timeout = {patience}"
        ),
        || "preparing a control connection".to_owned(),
    )?;
    Ok(conn)
}

/// Does it in a thread of its own, which is left to itself when it takes longer than `limit`: the driver's limit on
/// an answer stays with a connection for good, and statements here have none. The error says what was missing.
fn within<T: Send + 'static>(
    limit: Duration,
    act: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let (done, result) = mpsc::channel();
    thread::Builder::new()
        .name("connect".to_owned())
        .spawn(move || {
            // Nobody waits any longer: what was opened is closed again.
            let _ = done.send(act());
        })
        .map_err(|error| format!("no thread for it: {error}"))?;
    result
        .recv_timeout(limit)
        .map_err(|_| format!("no answer within {}", Span(limit)))
}

/// Where the data is, and whether what is done to it goes into the binary log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Control<'a> {
    admin: &'a Endpoint,
    database: &'a str,
    unlogged: bool,
}

impl<'a> Control<'a> {
    pub(super) fn new(admin: &'a Endpoint, database: &'a str, unlogged: bool) -> Self {
        Self {
            admin,
            database,
            unlogged,
        }
    }

    /// Opens a connection without a default database.
    pub(super) fn open(&self) -> Result<Conn, DatasetError> {
        let mut conn = connect(self.admin)?;
        if self.unlogged {
            unlog(&mut conn)?;
        }
        Ok(conn)
    }

    /// Opens a connection and enters the database.
    pub(super) fn enter(&self) -> Result<Conn, DatasetError> {
        let mut conn = self.open()?;
        enter(&mut conn, self.database)?;
        Ok(conn)
    }
}

/// Keeps what this session does out of the binary log.
pub(super) fn unlog(conn: &mut Conn) -> Result<(), DatasetError> {
    run(conn, "SET SESSION sql_log_bin = 0", || {
        "keeping the load out of the binary log (`dataset.binlog` = \"unlogged\")".to_owned()
    })
}

/// Opens a connection and enters `database`.
pub(super) fn connect_to(endpoint: &Endpoint, database: &str) -> Result<Conn, DatasetError> {
    let mut conn = connect(endpoint)?;
    enter(&mut conn, database)?;
    Ok(conn)
}

/// Makes `database` the default one.
pub(super) fn enter(conn: &mut Conn, database: &str) -> Result<(), DatasetError> {
    run(conn, &format!("USE {}", quoted(database)), || {
        format!("entering database `{database}`")
    })
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

/// Runs a statement that not every server knows.
pub(super) fn attempt(
    conn: &mut Conn,
    sql: &str,
    doing: impl FnOnce() -> String,
) -> Result<(), DatasetError> {
    match conn.query_drop(sql) {
        Ok(()) | Err(mysql::Error::MySqlError(_)) => Ok(()),
        Err(error) => Err(DatasetError::statement(doing(), &error)),
    }
}

/// A row of texts. Servers differ in the types of their answers; what is needed is parsed from here, since
/// the driver's own conversion panics on a surprise.
pub(super) struct Cells(Vec<Option<String>>);

impl Cells {
    /// A column as text; `None`: NULL.
    pub(super) fn text(&self, column: usize) -> Option<&str> {
        self.0.get(column)?.as_deref()
    }

    /// A column as a number; `None`: NULL or none.
    pub(super) fn number<T: std::str::FromStr>(&self, column: usize) -> Option<T> {
        self.text(column)?.parse().ok()
    }

    /// A column as a switch.
    pub(super) fn on(&self, column: usize) -> bool {
        matches!(self.text(column), Some("1" | "ON"))
    }
}

/// Runs a query and takes its rows.
pub(super) fn select(
    conn: &mut Conn,
    sql: &str,
    doing: impl FnOnce() -> String,
) -> Result<Vec<Cells>, DatasetError> {
    let rows: Vec<Row> = conn
        .query(sql)
        .map_err(|error| DatasetError::statement(doing(), &error))?;
    let cell = |value: Value| match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(false)),
    };
    Ok(rows
        .into_iter()
        .map(|row| Cells(row.unwrap().into_iter().map(cell).collect()))
        .collect())
}

/// Runs a query and takes its first row.
pub(super) fn first(
    conn: &mut Conn,
    sql: &str,
    doing: impl FnOnce() -> String,
) -> Result<Option<Cells>, DatasetError> {
    Ok(select(conn, sql, doing)?.into_iter().next())
}

/// An identifier in backticks.
pub(super) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text as an SQL literal.
pub(super) fn literal(text: &str) -> String {
    Value::from(text).as_sql(false)
}
