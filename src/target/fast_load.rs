//! A private server under settings for loading: what is lost when it dies now is thrown away with it. All of them
//! are put back before anything is measured or copied.

use super::variables::quoted;
use super::{Server, TargetError};
use crate::record::Flavour;

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
        // A larger redo log gains MariaDB nothing: putting it back waits for all changed pages to be written.
        if self.flavour() == Flavour::MySql {
            changed.redo_off = self.attempt("ALTER INSTANCE DISABLE INNODB REDO_LOG")?;
        }
        let name = "innodb_flush_log_at_trx_commit";
        if let Some(was) = variables.get(name)
            && self.attempt(&format!("SET GLOBAL {name} = 0"))?
        {
            changed.before.push((name.to_owned(), was.clone()));
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
