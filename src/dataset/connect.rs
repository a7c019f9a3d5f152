//! Control connections of the loader, and the few statements they need. Everything goes through the text
//! protocol: a server at its limit of prepared statements can still be loaded.

use mysql::prelude::Queryable;
use mysql::{Row, Value};

use super::error::DatasetError;
use crate::target::{Attended, Endpoint};

/// Opens a connection without a default database. Statements may take as long as the server lives: an index on a
/// large table takes hours. What has its own limit, `target.connect_timeout`, is whether the server answers at
/// all, and how long a statement waits for a table that another session holds: servers wait a day or a year.
pub(super) fn connect(endpoint: &Endpoint) -> Result<Attended, DatasetError> {
    let mut endpoint = endpoint.clone();
    endpoint.database = None;
    let mut conn = Attended::open(&endpoint, None)?;
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
    pub(super) fn open(&self) -> Result<Attended, DatasetError> {
        let mut conn = connect(self.admin)?;
        if self.unlogged {
            unlog(&mut conn)?;
        }
        Ok(conn)
    }

    /// Opens a connection and enters the database.
    pub(super) fn enter(&self) -> Result<Attended, DatasetError> {
        let mut conn = self.open()?;
        enter(&mut conn, self.database)?;
        Ok(conn)
    }
}

/// Keeps what this session does out of the binary log.
pub(super) fn unlog(conn: &mut Attended) -> Result<(), DatasetError> {
    run(conn, "SET SESSION sql_log_bin = 0", || {
        "keeping the load out of the binary log (`dataset.binlog` = \"unlogged\")".to_owned()
    })
}

/// Opens a connection and enters `database`.
pub(super) fn connect_to(endpoint: &Endpoint, database: &str) -> Result<Attended, DatasetError> {
    let mut conn = connect(endpoint)?;
    enter(&mut conn, database)?;
    Ok(conn)
}

/// Makes `database` the default one.
pub(super) fn enter(conn: &mut Attended, database: &str) -> Result<(), DatasetError> {
    run(conn, &format!("USE {}", quoted(database)), || {
        format!("entering database `{database}`")
    })
}

/// Runs a statement without a result; `doing` names it in errors.
pub(super) fn run(
    conn: &mut Attended,
    sql: &str,
    doing: impl FnOnce() -> String,
) -> Result<(), DatasetError> {
    conn.ask(|conn| conn.query_drop(sql))
        .map_err(|error| DatasetError::statement(doing(), &error))
}

/// Runs a statement that not every server knows.
pub(super) fn attempt(
    conn: &mut Attended,
    sql: &str,
    doing: impl FnOnce() -> String,
) -> Result<(), DatasetError> {
    match conn.ask(|conn| conn.query_drop(sql)) {
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
    conn: &mut Attended,
    sql: &str,
    doing: impl FnOnce() -> String,
) -> Result<Vec<Cells>, DatasetError> {
    let rows: Vec<Row> = conn
        .ask(|conn| conn.query(sql))
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
    conn: &mut Attended,
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
