//! A private server under settings for loading: what is lost when it dies now is thrown away with it. All of them
//! are put back before anything is measured or copied.

use super::variables::quoted;
use super::{Server, TargetError};
use crate::record::Flavour;

/// Redo log of a `MariaDB` that loads, at least: with its default of 96 MiB the server writes out changed pages
/// again and again to make room. It can be resized while the server runs since 10.9; older ones keep theirs.
const REDO: u64 = 1 << 30;
/// Codes of servers that do not have a setting, or not while they run: unknown variable or statement, read-only.
const NOT_HERE: [u16; 5] = [1064, 1193, 1238, 1235, 3186];

/// What was changed for a load.
#[derive(Debug, Default)]
pub struct FastLoad {
    /// Variables and the values they had.
    before: Vec<(String, String)>,
    redo_off: bool,
}

impl Server {
    /// Changes a private server to settings for loading; any other server is left as it is. A server that dies
    /// meanwhile has a data directory that cannot start: it is never started again, and removed.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn begin_loading(&mut self) -> Result<FastLoad, TargetError> {
        let mut changed = FastLoad::default();
        if !self.is_managed() {
            return Ok(changed);
        }
        let variables = self.variables()?;
        let mut wanted = vec![("innodb_flush_log_at_trx_commit", 0)];
        match self.flavour() {
            Flavour::MySql => {
                changed.redo_off = self.attempt("ALTER INSTANCE DISABLE INNODB REDO_LOG")?;
            }
            Flavour::MariaDb => {
                let size = variables.get("innodb_log_file_size");
                let size: Option<u64> = size.and_then(|value| value.parse().ok());
                if size.is_some_and(|size| size < REDO) {
                    wanted.push(("innodb_log_file_size", REDO));
                }
            }
        }
        for (name, value) in wanted {
            let Some(was) = variables.get(name) else {
                continue;
            };
            if self.attempt(&format!("SET GLOBAL {name} = {value}"))? {
                changed.before.push((name.to_owned(), was.clone()));
            }
        }
        Ok(changed)
    }

    /// Puts back what [`Self::begin_loading`] has changed.
    ///
    /// # Errors
    /// A setting cannot be put back: the server must not be measured.
    pub fn end_loading(&mut self, changed: FastLoad) -> Result<(), TargetError> {
        if changed.redo_off {
            self.control.run("ALTER INSTANCE ENABLE INNODB REDO_LOG")?;
            let on = self
                .control
                .pairs("SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'")?;
            if on.first().is_none_or(|(_, value)| value != "ON") {
                return Err(TargetError::Lost(
                    "the private server's redo log is still off after loading\nhint: its error log says why"
                        .to_owned(),
                ));
            }
        }
        for (name, value) in changed.before {
            let value = if value.parse::<u64>().is_ok() {
                value
            } else {
                quoted(&value)
            };
            self.control.run(&format!("SET GLOBAL {name} = {value}"))?;
        }
        Ok(())
    }

    /// Runs a statement that not every server has; whether this one has it.
    fn attempt(&mut self, sql: &str) -> Result<bool, TargetError> {
        match self.control.run(sql) {
            Ok(()) => Ok(true),
            Err(error) if error.code().is_some_and(|code| NOT_HERE.contains(&code)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
