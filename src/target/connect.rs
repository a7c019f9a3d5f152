//! Control connections: opened with the plan's TLS mode, opened again when lost.

use std::fmt;
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, DriverError, OptsBuilder};

use super::attended::{Attended, Cut, within};
use super::error::{code, words};
use super::{Endpoint, TargetError};
use crate::interrupt::Interrupt;
use crate::plan::{Address, TlsMode};

/// Opens one connection, within the endpoint's `connect_timeout` and no longer than shortly after the user wishes
/// to end. `statement_timeout` limits each answer; `None`: no limit.
///
/// [`TlsMode::Preferred`] falls back to plain text when the server has no TLS or none that is fit for use
/// (MySQL 5.6 stops at TLS 1.0), as the client programs do; a socket stays plain in any mode, since it does not
/// leave the host.
///
/// # Errors
/// [`TargetError::Connect`] with the server's words and a way out where one is known; the user's wish to end.
pub fn connect(
    endpoint: &Endpoint,
    statement_timeout: Option<Duration>,
) -> Result<Conn, TargetError> {
    let attempt = endpoint.clone();
    let result = within(endpoint.connect_timeout, &endpoint.interrupt, move || {
        open(&attempt, statement_timeout)
    });
    result.map_err(|error| match Cut::of(&error) {
        Some(Cut::Wish) => TargetError::Interrupted,
        _ => TargetError::Connect {
            address: endpoint.address.clone(),
            user: endpoint.user.clone(),
            reason: words(&error),
            code: code(&error),
            hint: hint(endpoint, &error),
        },
    })
}

/// As [`connect`], for as long as the server takes.
pub(super) fn open(
    endpoint: &Endpoint,
    statement_timeout: Option<Duration>,
) -> Result<Conn, mysql::Error> {
    let tcp = matches!(endpoint.address, Address::Tcp { .. });
    let tls = tcp && endpoint.tls.mode != TlsMode::Disabled;
    let attempt = |tls: bool| {
        Conn::new(
            OptsBuilder::from_opts(endpoint.opts(tls))
                .read_timeout(statement_timeout)
                .write_timeout(statement_timeout),
        )
    };
    match attempt(tls) {
        Err(error) if tls && endpoint.tls.mode == TlsMode::Preferred && is_tls(&error) => {
            attempt(false)
        }
        other => other,
    }
}

fn hint(endpoint: &Endpoint, error: &mysql::Error) -> String {
    let text = match (code(error), error) {
        (Some(1045), _) => format!(
            "wrong password, or no account '{0}' for this host; `capbench grants` prints the accounts a plan needs. Anonymous accounts, where there are any (SELECT host FROM mysql.user WHERE user = ''), stand before '{0}'@'%'",
            endpoint.user
        ),
        (Some(1040), _) => {
            "the server is at max_connections; raise it or end idle sessions".to_owned()
        }
        (Some(1044 | 1049), _) => format!(
            "the account `{}` has no access to database `{}`; `capbench grants` prints the rights it needs",
            endpoint.user,
            endpoint.database.as_deref().unwrap_or_default()
        ),
        (_, error) if tls_failed(error) => {
            "state tls.ca, the authority that signed the server's certificate, or another tls.mode"
                .to_owned()
        }
        (_, mysql::Error::DriverError(DriverError::TlsNotSupported)) => {
            "the server has no TLS; enable it there or state tls.mode = \"preferred\"".to_owned()
        }
        (None, _) => "is the server running, and are address, port and firewall right?".to_owned(),
        _ => return String::new(),
    };
    format!("\nhint: {text}")
}

/// Whether TLS, and not the network or the account, is known to stand between.
fn tls_failed(error: &mysql::Error) -> bool {
    matches!(error, mysql::Error::TlsError(_)) || words(error).contains("certificate")
}

/// Whether an attempt with TLS failed in a way that one without may not: a handshake that breaks off shows as
/// any error of reading or writing.
fn is_tls(error: &mysql::Error) -> bool {
    matches!(
        error,
        mysql::Error::TlsError(_)
            | mysql::Error::CodecError(_)
            | mysql::Error::IoError(_)
            | mysql::Error::DriverError(DriverError::TlsNotSupported)
    )
}

/// A connection that is opened when it is first needed, and again when it was lost.
pub(crate) struct Control {
    endpoint: Endpoint,
    statement_timeout: Option<Duration>,
    conn: Option<Attended>,
}

// Not derived: the driver's own Debug shows the password.
impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("endpoint", &self.endpoint)
            .field("open", &self.conn.is_some())
            .finish_non_exhaustive()
    }
}

impl Control {
    pub(crate) fn new(endpoint: Endpoint, statement_timeout: Option<Duration>) -> Self {
        Self {
            endpoint,
            statement_timeout,
            conn: None,
        }
    }

    /// The connection, alive as far as a ping tells.
    pub(crate) fn conn(&mut self) -> Result<&mut Attended, TargetError> {
        let lost = |conn: &mut Attended| conn.ask(Conn::ping).is_err();
        if self.conn.as_mut().is_some_and(lost) {
            self.conn = None;
        }
        match &mut self.conn {
            Some(conn) => Ok(conn),
            empty => Ok(empty.insert(Attended::open(&self.endpoint, self.statement_timeout)?)),
        }
    }

    /// From now on this wish to end counts.
    pub(super) fn heed(&mut self, interrupt: &Interrupt) {
        self.endpoint.interrupt = interrupt.clone();
        if let Some(conn) = &mut self.conn {
            conn.heed(interrupt);
        }
    }

    /// Runs statements that `sql` stands for in errors.
    pub(super) fn ask<T>(
        &mut self,
        sql: &str,
        act: impl FnOnce(&mut Conn) -> Result<T, mysql::Error>,
    ) -> Result<T, TargetError> {
        self.conn()?
            .ask(act)
            .map_err(|error| TargetError::statement(sql, &error))
    }

    /// Account name.
    pub(crate) fn user(&self) -> &str {
        &self.endpoint.user
    }

    /// Id of the session, where one is open.
    pub(crate) fn open_connection_id(&self) -> Option<u32> {
        self.conn.as_ref().map(Attended::connection_id)
    }

    /// Forgets the connection, for a server that is about to go away.
    pub(crate) fn close(&mut self) {
        self.conn = None;
    }

    /// Runs a statement without a result. `shown` stands in errors in its place when the statement
    /// holds a secret.
    pub(crate) fn run(&mut self, sql: &str) -> Result<(), TargetError> {
        self.ask(sql, |conn| conn.query_drop(sql))
    }

    /// As [`Self::run`], for a statement that holds a secret: errors show `shown` in its place.
    pub(crate) fn run_secret(&mut self, sql: &str, shown: &str) -> Result<(), TargetError> {
        self.ask(shown, |conn| conn.query_drop(sql))
    }

    /// The first column of the first row.
    pub(crate) fn value(&mut self, sql: &str) -> Result<Option<String>, TargetError> {
        let row: Option<mysql::Row> = self.ask(sql, |conn| conn.query_first(sql))?;
        Ok(row.and_then(|r| text(r.as_ref(0))))
    }

    /// Each row by the names of its columns; NULL is left out.
    pub(crate) fn maps(
        &mut self,
        sql: &str,
    ) -> Result<Vec<std::collections::BTreeMap<String, String>>, TargetError> {
        let rows: Vec<mysql::Row> = self.ask(sql, |conn| conn.query(sql))?;
        Ok(rows
            .iter()
            .map(|row| {
                let columns = row.columns_ref().iter().enumerate();
                columns
                    .filter_map(|(n, column)| {
                        Some((column.name_str().into_owned(), text(row.as_ref(n))?))
                    })
                    .collect()
            })
            .collect())
    }

    /// Name and value of each row.
    pub(crate) fn pairs(&mut self, sql: &str) -> Result<Vec<(String, String)>, TargetError> {
        let rows: Vec<mysql::Row> = self.ask(sql, |conn| conn.query(sql))?;
        Ok(rows
            .iter()
            .filter_map(|r| Some((text(r.as_ref(0))?, text(r.as_ref(1)).unwrap_or_default())))
            .collect())
    }
}

/// A column as text; binary data is read as UTF-8 with replacement, NULL is `None`.
pub(super) fn text(value: Option<&mysql::Value>) -> Option<String> {
    match value? {
        mysql::Value::NULL => None,
        mysql::Value::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        other => Some(other.as_sql(true).trim_matches('\'').to_owned()),
    }
}
