//! What can go wrong with the data.

use super::size::DiskSpace;
use crate::target::{Cut, TargetError, io_words};

/// Data that could not be made, accepted or removed. The first line names the thing; a hint follows on a
/// line of its own where there is a way out.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The server could not be reached.
    #[error(transparent)]
    Connect(TargetError),
    /// A statement failed.
    #[error("{doing} failed: {reason}{}", .hint.map(|h| format!("\nhint: {h}")).unwrap_or_default())]
    Statement {
        /// What was being done, with the table.
        doing: String,
        /// The server's words.
        reason: String,
        /// The server's error code; `None`: the connection was lost.
        code: Option<u16>,
        /// A way out, if one is known.
        hint: Option<&'static str>,
    },
    /// A table of that name exists and is not capbench's.
    #[error(
        "table `{table}` in database `{database}` was not made by capbench, so it is left alone\nhint: {hint}"
    )]
    Foreign {
        /// Database.
        database: String,
        /// The first such table.
        table: String,
        /// The way out.
        hint: &'static str,
    },
    /// Foreign keys of others refer to capbench's tables.
    #[error(
        "foreign keys refer to capbench's tables in database `{database}`, which can then be neither dropped nor loaded anew: {keys}\nhint: {drops}; or use another database"
    )]
    Referenced {
        /// Database.
        database: String,
        /// The keys, for people.
        keys: String,
        /// The statements that drop them.
        drops: String,
    },
    /// `existing = true`, and a table is not as the plan needs it.
    #[error(
        "existing table `{table}` does not fit the plan: {reason}\nhint: prepare it again (sysbench prepare, or `existing = false`), or change [dataset] to what it is"
    )]
    Existing {
        /// The table.
        table: String,
        /// What does not fit.
        reason: String,
    },
    /// The marker table was written by another version.
    #[error(
        "the marker table `capbench_marker` in database `{database}` has version {found}, this capbench knows {known}\nhint: use the capbench that made it to clean up, or another database"
    )]
    Version {
        /// Database.
        database: String,
        /// Version in the marker.
        found: u32,
        /// Version of this program.
        known: u32,
    },
    /// The server took other rows than were sent.
    #[error("{doing}: {sent} rows sent, {taken} taken, {warnings} warnings{}", .first.as_ref().map(|w| format!(" (the first: {w})")).unwrap_or_default())]
    RowsLost {
        /// Table and rows.
        doing: String,
        /// Rows sent.
        sent: u64,
        /// Rows that the server reports.
        taken: u64,
        /// Warnings that it reports.
        warnings: u64,
        /// The first warning.
        first: Option<String>,
    },
    /// The tables do not hold what the generator makes.
    #[error("table `{table}` does not hold the rows of the plan: {reason}")]
    Different {
        /// The table.
        table: String,
        /// What differs.
        reason: String,
    },
    /// The data does not fit on the disk.
    #[error("{0}\nhint: fewer rows or tables, or more free space")]
    Disk(DiskSpace),
    /// The plan asks for what cannot be.
    #[error("{0}")]
    Plan(String),
    /// The guard ended it.
    #[error(
        "the guard ended the load: {0}\nhint: the next run, or `capbench prepare`, continues from there"
    )]
    Ended(String),
    /// The user ended it.
    #[error("interrupted while the data was being loaded; the next run continues from there")]
    Interrupted,
}

impl From<TargetError> for DatasetError {
    fn from(error: TargetError) -> Self {
        if error.is_interrupt() {
            Self::Interrupted
        } else {
            Self::Connect(error)
        }
    }
}

impl DatasetError {
    pub(super) fn statement(doing: impl Into<String>, error: &mysql::Error) -> Self {
        if Cut::of(error) == Some(&Cut::Wish) {
            return Self::Interrupted;
        }
        let code = match error {
            mysql::Error::MySqlError(e) => Some(e.code),
            _ => None,
        };
        Self::Statement {
            doing: doing.into(),
            reason: words(error),
            code,
            hint: code.and_then(hint),
        }
    }

    /// Whether the user ended it.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, Self::Interrupted)
    }

    /// The server's error code, if it spoke.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Statement { code, .. } => *code,
            _ => None,
        }
    }
}

/// The server's or the driver's words without the driver's wrapping.
pub(super) fn words(error: &mysql::Error) -> String {
    match error {
        mysql::Error::MySqlError(e) => format!("error {}: {}", e.code, e.message),
        mysql::Error::IoError(e) => format!("connection lost: {}", io_words(e)),
        mysql::Error::DriverError(e) => e.to_string(),
        other => other.to_string(),
    }
}

fn hint(code: u16) -> Option<&'static str> {
    match code {
        1044 | 1045 | 1142 | 1227 => {
            Some("the control account lacks a right; `capbench grants` prints what the plan needs")
        }
        1114 | 3 | 28 => Some("the disk or the tablespace is full"),
        1286 => Some("the server does not have this storage engine: see [dataset] engine"),
        1290 | 1836 => {
            Some("the server is read-only (a replica?): point the plan at a writable one")
        }
        1205 => Some(
            "another session holds the table or rows of it (LOCK TABLES, an open transaction, a backup): end it, or let it end; `target.connect_timeout` is how long a table is waited for",
        ),
        1264 => Some("more rows than the column can number; is the table an older one?"),
        _ => None,
    }
}
