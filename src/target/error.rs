//! What can go wrong with the server under test.

use std::io;
use std::path::PathBuf;

use super::attended::Cut;
use crate::plan::Address;

/// An error of the target: names the thing and the value, with a way out on a `hint:` line.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// A file could not be read, written or made.
    #[error("cannot {doing} `{}`: {source}", path.display())]
    File {
        /// `read`, `write`, `create`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// User or password cannot be had from where the plan says.
    #[error("{0}")]
    Account(String),
    /// The server does not answer, or not to this account.
    #[error("cannot connect to {address} as `{user}`: {reason}{hint}")]
    Connect {
        /// Where.
        address: Address,
        /// Account name.
        user: String,
        /// The server's or the system's words.
        reason: String,
        /// The server's error code; `None`: it did not answer.
        code: Option<u16>,
        /// Starts with a line break, or empty.
        hint: String,
    },
    /// The plan names a file, folder or program of this machine that cannot be used.
    #[error("{0}")]
    Input(String),
    /// A control statement failed.
    #[error("`{sql}` failed: {reason}")]
    Statement {
        /// The statement, without secrets.
        sql: String,
        /// The server's words.
        reason: String,
        /// The server's error code, if it was the server that refused.
        code: Option<u16>,
    },
    /// The plan asks for something that cannot be done on this server.
    #[error("{0}")]
    Unsupported(String),
    /// A private server could not be made, started or found.
    #[error("{0}")]
    Private(String),
    /// A server did not come back in time, or ended by itself.
    #[error("{0}")]
    Lost(String),
    /// The server kept another value than the one asked for.
    #[error("variable `{name}` was set to `{asked}` but is `{took}`\nhint: {hint}")]
    NotTaken {
        /// Variable.
        name: String,
        /// Value asked for.
        asked: String,
        /// Value read back.
        took: String,
        /// A way out.
        hint: &'static str,
    },
    /// A hook of the plan failed.
    #[error("hook `{hook}` failed: {reason}")]
    Hook {
        /// `apply` or `restart`.
        hook: &'static str,
        /// Exit code and the last lines it wrote.
        reason: String,
    },
    /// Some changes could not be undone; each on its own line.
    #[error("not everything could be put back:\n{}", .0.join("\n"))]
    Restore(Vec<String>),
    /// Someone else has set a variable since capbench did, so that it is left as it is.
    #[error(
        "`{name}` is {present}: someone else, or a restart, has set it since capbench did, so it is left as it is\nhint: `capbench restore DIR --force` runs {former} all the same, `capbench restore DIR --keep` accepts {present}"
    )]
    Overtaken {
        /// Variable.
        name: String,
        /// Its present value.
        present: String,
        /// The statement that would put it back.
        former: String,
    },
    /// A change could not be noted on the server first, so that it was not made.
    #[error(
        "the server is not changed, since the change cannot be noted on it first: {0}\nhint: `capbench grants PLAN` prints the rights that the account of the control connections needs; a server that refuses writes cannot be tested with changed settings"
    )]
    NotNoted(String),
    /// The operator declined.
    #[error("the operator did not make the change of variant `{0}`")]
    Declined(String),
    /// The user asked to end.
    #[error("interrupted")]
    Interrupted,
}

impl TargetError {
    /// Whether the user's wish to end is the cause.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, Self::Interrupted)
    }

    /// Whether the plan, or what it names on this machine, is wrong by itself: no server was asked.
    pub fn is_input(&self) -> bool {
        matches!(self, Self::Account(_) | Self::Input(_))
    }

    /// What keeps an account from being read stands in the plan or beside it.
    pub(super) fn into_input(self) -> Self {
        match self {
            Self::File { .. } | Self::Private(_) => Self::Input(self.to_string()),
            other => other,
        }
    }

    /// Whether the server's settings stay as they are because the account may not change or note them.
    pub(super) fn is_refusal(&self) -> bool {
        self.code().is_some() || matches!(self, Self::NotNoted(_))
    }

    /// The server's error code, if the server refused a statement.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Statement { code, .. } => *code,
            _ => None,
        }
    }

    pub(crate) fn file(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            doing,
            path,
            source,
        }
    }

    pub(crate) fn statement(sql: &str, error: &mysql::Error) -> Self {
        match Cut::of(error) {
            Some(Cut::Wish) => Self::Interrupted,
            _ => Self::Statement {
                sql: sql.to_owned(),
                reason: words(error),
                code: code(error),
            },
        }
    }
}

/// The server's or the driver's own words, without the driver's wrapping.
pub fn words(error: &mysql::Error) -> String {
    match error {
        mysql::Error::MySqlError(e) => format!("error {}: {}", e.code, e.message),
        mysql::Error::IoError(e) => io_words(e),
        mysql::Error::DriverError(mysql::DriverError::CouldNotConnect(Some((_, why, _)))) => {
            why.clone()
        }
        mysql::Error::DriverError(e) => e.to_string(),
        // A failed TLS handshake comes in this wrapping.
        mysql::Error::CodecError(mysql_common::proto::codec::error::PacketCodecError::Io(e)) => {
            io_words(e)
        }
        mysql::Error::TlsError(e) => format!("TLS: {e}"),
        other => other.to_string(),
    }
}

/// What became of a connection. A time limit that has passed has two names in the system, neither of which tells
/// that the server is there and says nothing.
pub(crate) fn io_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            "no answer within the time limit".to_owned()
        }
        // The TLS library tells it in a sentence of its own, with a link to its manual.
        io::ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
        _ => error.to_string(),
    }
}

/// The server's error code; `None` when the connection or the driver failed.
pub(crate) fn code(error: &mysql::Error) -> Option<u16> {
    match error {
        mysql::Error::MySqlError(e) => Some(e.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_of_the_stream_is_told_in_words_and_not_in_the_librarys() {
        let end = || {
            io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "peer closed connection without sending TLS close_notify: see the manual",
            )
        };
        let said = "the server closed the connection";
        assert_eq!(words(&mysql::Error::IoError(end())), said);
        let framed = mysql_common::proto::codec::error::PacketCodecError::Io(end());
        assert_eq!(words(&mysql::Error::CodecError(framed)), said);
    }
}
