//! The lease: a table in the plan's database that names the run which holds changes on the server, and
//! holds the old values too. The next run, from any folder or machine, finds it and refuses until everything
//! is put back; and when the run's folder is lost, the server can still be put back from it.
//!
//! One row a change that was made and not undone; the table is made before the first change and dropped after
//! the last undoing. Whether that run still lives tells the lock ([`super::RunLock`]).
//!
//! What the lease names are settings of this one server, so that it stays out of the binary log where the
//! account may leave it out (`sql_log_bin`); its comment says how it was made, since a table that replicas do
//! not have must not be written to through the log.

use mysql::params;
use mysql::prelude::Queryable;
use serde::{Deserialize, Serialize};

use super::attended::Attended;
use super::connect::Control;
use super::journal::Entry;
use super::variables::quoted;
use super::{Endpoint, TargetError};
use crate::interrupt::Interrupt;

/// Name of the table.
pub const LEASE_TABLE: &str = "capbench_lease";
/// Its comment when it was made through the binary log.
const LOGGED: &str = "capbench";
/// Its comment when it was kept out of the binary log.
const UNLOGGED: &str = "capbench, not in the binary log";

/// Who holds changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The plan's name.
    pub plan: String,
    /// The machine that capbench ran on.
    pub host: String,
    /// Its run folder there; `None`: a command that keeps none (`prepare`).
    pub folder: Option<String>,
    /// Since when, UTC.
    pub since: String,
    /// The lease made the database.
    pub made_database: bool,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "plan “{}” on host {}", self.plan, self.host)?;
        if let Some(folder) = &self.folder {
            write!(f, ", folder {folder}")?;
        }
        write!(f, ", since {}", self.since)
    }
}

/// Changes that a run holds on the server.
#[derive(Debug, Clone)]
pub struct Held {
    /// Database whose table says so.
    pub database: String,
    /// Id of the run.
    pub run: String,
    /// Who.
    pub holder: Holder,
    /// What, newest first.
    pub entries: Vec<Entry>,
}

/// The lease of this run, which is taken with its first change.
#[derive(Debug)]
pub struct Lease {
    control: Control,
    /// What a note heeds.
    interrupt: Interrupt,
    database: String,
    holder: Holder,
    /// The table is there and written to through the binary log or not.
    logged: Option<bool>,
}

impl Lease {
    /// A lease that is not taken yet.
    pub fn new(admin: &Endpoint, database: &str, holder: Holder) -> Self {
        Self {
            control: Control::new(admin.clone(), Some(admin.connect_timeout)),
            interrupt: admin.interrupt.clone(),
            database: database.to_owned(),
            holder,
            logged: None,
        }
    }

    /// The database was made by capbench: it goes with the lease if nothing else is in it.
    pub(super) fn owns_database(&mut self) {
        self.holder.made_database = true;
    }

    /// Writes a change that is about to be made, or what came of it.
    pub(super) fn note(&mut self, run: &str, entry: &Entry) -> Result<(), TargetError> {
        self.control.heed(&self.interrupt);
        let json = |error: serde_json::Error| TargetError::Unsupported(error.to_string());
        let entry_text = serde_json::to_string(entry).map_err(json)?;
        self.take().map_err(refused)?;
        let holder = serde_json::to_string(&self.holder).map_err(json)?;
        let sql = format!(
            "REPLACE INTO {} (run, seq, holder, entry) VALUES (:run, :seq, :holder, :entry)",
            self.table()
        );
        self.session()?
            .ask(|conn| {
                conn.exec_drop(
                    &sql,
                    params! { run, "seq" => entry.seq, holder, "entry" => entry_text },
                )
            })
            .map_err(|error| refused(TargetError::statement(&sql, &error)))
    }

    /// Takes away a change that was undone; with the last one the table goes, and the database if the lease
    /// had made it and nothing else is in it.
    pub(super) fn forget(&mut self, run: &str, seq: u64) -> Result<(), TargetError> {
        // Undone is undone: the user's wish to end must not keep the server from knowing.
        self.control.heed(&Interrupt::new());
        let table = self.table();
        let sql = format!("DELETE FROM {table} WHERE run = :run AND seq = :seq");
        if self.logged.is_none() && !self.find_table()? {
            return Ok(());
        }
        self.session()?
            .ask(|conn| conn.exec_drop(&sql, params! { run, seq }))
            .map_err(|error| TargetError::statement(&sql, &error))?;
        let left = self
            .control
            .value(&format!("SELECT COUNT(*) FROM {table}"))?;
        if left.as_deref() != Some("0") {
            return Ok(());
        }
        let sql = format!("DROP TABLE IF EXISTS {table}");
        self.session()?
            .ask(|conn| conn.query_drop(&sql))
            .map_err(|error| TargetError::statement(&sql, &error))?;
        self.logged = None;
        self.drop_database()
    }

    fn table(&self) -> String {
        format!("{}.{LEASE_TABLE}", identifier(&self.database))
    }

    /// The connection, with the session as the lease's statements need it: also after it was lost.
    fn session(&mut self) -> Result<&mut Attended, TargetError> {
        let logged = self.logged;
        let conn = self.control.conn()?;
        let mut sql = "SET SESSION autocommit = 1".to_owned();
        if logged == Some(false) {
            sql.push_str(", SESSION sql_log_bin = 0");
        }
        conn.ask(|conn| conn.query_drop(&sql))
            .map_err(|error| TargetError::statement(&sql, &error))?;
        Ok(conn)
    }

    /// Makes the table where it is missing.
    fn take(&mut self) -> Result<(), TargetError> {
        if self.logged.is_some() || self.find_table()? {
            return Ok(());
        }
        let exists = self.control.value(&format!(
            "SELECT 1 FROM information_schema.schemata WHERE schema_name = {}",
            super::variables::quoted(&self.database)
        ))?;
        if exists.is_none() {
            // Through the log: the data that comes after it may be too.
            self.control
                .run(&format!("CREATE DATABASE {}", identifier(&self.database)))?;
            self.holder.made_database = true;
        }
        let logged = !self.may_leave_log()?;
        let comment = if logged { LOGGED } else { UNLOGGED };
        let sql = format!(
            "CREATE TABLE {} (run VARCHAR(32) NOT NULL, seq BIGINT UNSIGNED NOT NULL, \
             holder TEXT NOT NULL, entry MEDIUMTEXT NOT NULL, \
             noted_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, \
             PRIMARY KEY (run, seq)) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = '{comment}'",
            self.table()
        );
        self.logged = Some(logged);
        let made = self.session().and_then(|conn| {
            conn.ask(|conn| conn.query_drop(&sql))
                .map_err(|error| TargetError::statement(&sql, &error))
        });
        if made.is_err() {
            self.logged = None;
        }
        made
    }

    /// Whether the table is there; finds out how it is written to.
    fn find_table(&mut self) -> Result<bool, TargetError> {
        let comment = self.control.value(&format!(
            "SELECT table_comment FROM information_schema.tables WHERE table_schema = {} AND table_name = '{LEASE_TABLE}'",
            super::variables::quoted(&self.database)
        ))?;
        match comment.as_deref() {
            None => return Ok(false),
            Some(LOGGED) => self.logged = Some(true),
            Some(UNLOGGED) => {
                if !self.may_leave_log()? {
                    return Err(TargetError::Unsupported(format!(
                        "{} was kept out of the binary log, and account `{}` may not write past it: replicas do not have the table\nhint: use the account that made it, or GRANT it the right to set sql_log_bin",
                        self.table(),
                        self.control.user()
                    )));
                }
                self.logged = Some(false);
            }
            Some(_) => {
                return Err(TargetError::Unsupported(format!(
                    "table {} was not made by capbench, which keeps its lease under this name\nhint: use another database, or rename the table",
                    self.table()
                )));
            }
        }
        Ok(true)
    }

    /// Whether this account may keep statements out of the binary log; true as well when there is none, which
    /// needs the same right.
    fn may_leave_log(&mut self) -> Result<bool, TargetError> {
        match self.control.run("SET SESSION sql_log_bin = 0") {
            Ok(()) => {
                self.control.run("SET SESSION sql_log_bin = 1")?;
                Ok(true)
            }
            Err(error) if error.code().is_some() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn drop_database(&mut self) -> Result<(), TargetError> {
        if !self.holder.made_database {
            return Ok(());
        }
        let name = super::variables::quoted(&self.database);
        let others = self.control.value(&format!(
            "SELECT (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = {name}) \
             + (SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = {name}) \
             + (SELECT COUNT(*) FROM information_schema.events WHERE event_schema = {name})"
        ))?;
        if others.as_deref() == Some("0") {
            self.control.run("SET SESSION autocommit = 1")?;
            self.control
                .run(&format!("DROP DATABASE {}", identifier(&self.database)))?;
            self.holder.made_database = false;
        }
        Ok(())
    }
}

/// What keeps the lease from being written keeps the change from being made.
fn refused(error: TargetError) -> TargetError {
    match error {
        TargetError::Statement {
            sql,
            reason,
            code: Some(_),
        } => TargetError::NotNoted(format!("`{sql}` failed: {reason}")),
        other => other,
    }
}

/// The leases on this server that the account can see, with changes in them.
///
/// # Errors
/// The server does not answer; a lease cannot be read.
pub(super) fn held(control: &mut Control) -> Result<Vec<Held>, TargetError> {
    let tables = control.pairs(&format!(
        "SELECT table_schema, table_comment FROM information_schema.tables WHERE table_name = '{LEASE_TABLE}' ORDER BY table_schema"
    ))?;
    let mut all: Vec<Held> = Vec::new();
    for (database, comment) in tables {
        if comment != LOGGED && comment != UNLOGGED {
            continue;
        }
        let sql = format!(
            "SELECT run, holder, entry FROM {}.{LEASE_TABLE} ORDER BY run, seq DESC",
            identifier(&database)
        );
        let rows: Vec<(String, String, String)> = control.ask(&sql, |conn| conn.query(&sql))?;
        for (run, holder, entry) in rows {
            let damaged = |error: serde_json::Error| {
                TargetError::Lost(format!(
                    "the lease in {database}.{LEASE_TABLE} is damaged: {error}\nhint: look at it, put back by hand what it names, and drop the table"
                ))
            };
            let entry: Entry = serde_json::from_str(&entry).map_err(damaged)?;
            if let Some(known) = all
                .iter_mut()
                .find(|known| known.run == run && known.database == database)
            {
                known.entries.push(entry);
                continue;
            }
            all.push(Held {
                holder: serde_json::from_str(&holder).map_err(damaged)?,
                database: database.clone(),
                run,
                entries: vec![entry],
            });
        }
    }
    Ok(all)
}

/// Whether the lease in the current database says that capbench made the database: whoever puts tables into it
/// then owns it.
///
/// # Errors
/// The server's.
pub fn lease_made_database(conn: &mut Attended, database: &str) -> Result<bool, mysql::Error> {
    // As text: data can be loaded into a server at its limit of prepared statements.
    let sql = format!(
        "SELECT table_comment FROM information_schema.tables WHERE table_schema = {} AND table_name = '{LEASE_TABLE}'",
        quoted(database)
    );
    let there: Option<String> = conn.ask(|conn| conn.query_first(sql))?;
    if !there.is_some_and(|comment| comment == LOGGED || comment == UNLOGGED) {
        return Ok(false);
    }
    let sql = format!("SELECT holder FROM {}.{LEASE_TABLE}", identifier(database));
    let holders: Vec<String> = conn.ask(|conn| conn.query(sql))?;
    Ok(holders
        .iter()
        .any(|text| serde_json::from_str::<Holder>(text).is_ok_and(|holder| holder.made_database)))
}

fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
