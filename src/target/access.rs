//! Whether a variable can be changed on this server by this account, found out without changing it.

use super::TargetError;
use super::connect::Control;
use super::variables::is_name;

/// `ER_UNKNOWN_SYSTEM_VARIABLE`
const UNKNOWN: u16 = 1193;
/// `ER_LOCAL_VARIABLE`: a session variable.
const LOCAL: u16 = 1228;
/// `ER_INCORRECT_GLOBAL_LOCAL_VAR`: “read only variable”, “SESSION variable”, “non persistent read only variable”.
const INCORRECT: u16 = 1238;
/// `ER_PARSE_ERROR`, of a server that has no SET PERSIST.
const PARSE: u16 = 1064;
/// `ER_SPECIFIC_ACCESS_DENIED_ERROR`, `ER_PERSIST_ONLY_ACCESS_DENIED_ERROR`, `ER_ACCESS_DENIED`
const DENIED: [u16; 3] = [1227, 3630, 1142];

/// What `SET` can do with a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Access {
    /// It can be set while the server runs, or for its next start, as was asked.
    Settable,
    /// Only at start-up; of persisting: not at all.
    ReadOnly,
    /// It has no global value.
    Session,
    /// The server does not have it.
    Unknown,
    /// The account may not; the server's words.
    Denied(String),
}

/// What `SET GLOBAL` can do with `name`.
pub(crate) fn global(control: &mut Control, name: &str) -> Result<Access, TargetError> {
    dry_run(control, "GLOBAL", name)
}

/// What `SET PERSIST_ONLY` (MySQL ≥ 8.0) can do with `name`.
pub(crate) fn persist(control: &mut Control, name: &str) -> Result<Access, TargetError> {
    dry_run(control, "PERSIST_ONLY", name)
}

/// Asks the server to set the variable to the value it has, together with `version`, which nobody can
/// set: a SET statement is all or nothing, so that it always fails and changes nothing, and the error says
/// whether it was the variable or `version` that failed. Seen so on MariaDB 10.11 and MySQL 9.7; MariaDB's
/// `information_schema.system_variables` would tell too, but nothing comparable exists in MySQL.
fn dry_run(control: &mut Control, scope: &str, name: &str) -> Result<Access, TargetError> {
    if !is_name(name) {
        return Ok(Access::Unknown);
    }
    if name == "version" {
        return Ok(Access::ReadOnly);
    }
    let sql = format!("SET {scope} {name} = @@GLOBAL.{name}, GLOBAL version = 'x'");
    match control.run(&sql) {
        Err(TargetError::Statement {
            code: Some(code),
            reason,
            ..
        }) => Ok(match code {
            INCORRECT if reason.contains("'version'") => Access::Settable,
            INCORRECT if reason.contains("SESSION") => Access::Session,
            INCORRECT | PARSE => Access::ReadOnly,
            LOCAL => Access::Session,
            UNKNOWN => Access::Unknown,
            code if DENIED.contains(&code) => Access::Denied(reason),
            // The value the server has may not be one that it takes back (an empty path); `version` was not
            // reached, but neither was a refusal of the variable as such.
            _ => Access::Settable,
        }),
        Err(error) => Err(error),
        Ok(()) => Ok(Access::Settable),
    }
}
