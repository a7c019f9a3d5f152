//! Putting back what was changed, the last change first.

use super::TargetError;
use super::change::{Change, current, persisted_value};
use super::hooks::{Operator, Unattended};
use super::journal::{Entry, Journal, Undo};
use super::server::Server;
use super::variables::{literal, quoted, same_value};
use crate::interrupt::Interrupt;

/// What happens to a variable that someone else has set since capbench did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overtaken {
    /// It is left alone, said, and stays in the journal.
    #[default]
    Refuse,
    /// capbench's old value is put back all the same.
    Overwrite,
    /// It is left alone, and the journal forgets it.
    Keep,
}

impl Server {
    /// Undoes the variant that is applied, so that the baseline holds again.
    ///
    /// # Errors
    /// [`TargetError::Restore`] with everything that could not be undone; or the server did not come back.
    pub fn undo_variant(
        &mut self,
        journal: &mut Journal,
        operator: &dyn Operator,
    ) -> Result<(), TargetError> {
        if self.private.is_some() {
            if self.variant_options.is_empty() {
                return self.undo_sql(journal);
            }
            self.variant_options.clear();
            let former = std::mem::take(&mut self.variant_changes);
            self.restart()?;
            return former.iter().try_for_each(|c| journal.undone(c.seq));
        }
        if self.undo_changes(true, journal, operator)? {
            self.restart()?;
            self.repeat_run_settings()?;
        }
        Ok(())
    }

    /// Takes over changes that a run which was cut off left in its journal, newest first as
    /// [`Journal::read_pending`] gives them, so that [`Server::restore`] undoes them.
    pub fn adopt(&mut self, pending: Vec<Entry>) {
        self.run_changes = pending
            .into_iter()
            .rev()
            .map(|entry| Change {
                seq: entry.seq,
                restart: takes_effect_at_restart(&entry),
                name: entry.name,
                undo: entry.undo,
                asked: entry.after,
                took: entry.took,
            })
            .collect();
    }

    /// Puts back every change, the last one first. A private server keeps its settings, since it is about
    /// to be removed with them. The user's wish to end does not cut this short.
    ///
    /// # Errors
    /// [`TargetError::Restore`] with everything that could not be put back; all else has been.
    pub fn restore(
        &mut self,
        journal: &mut Journal,
        operator: &dyn Operator,
    ) -> Result<(), TargetError> {
        self.heed(&Interrupt::new());
        // Whether the server is there shows sooner on a new connection than on one that may be waiting.
        self.control.close();
        let result = self.restore_all(journal, operator);
        self.heed(&self.interrupt.clone());
        result
    }

    fn restore_all(
        &mut self,
        journal: &mut Journal,
        operator: &dyn Operator,
    ) -> Result<(), TargetError> {
        if self.private.is_some() {
            let run = std::mem::take(&mut self.run_changes);
            let variant = std::mem::take(&mut self.variant_changes);
            return run
                .iter()
                .chain(&variant)
                .rev()
                .try_for_each(|c| journal.undone(c.seq));
        }
        self.run_settings.clear();
        let mut failed = Vec::new();
        let mut restart = false;
        for of_variant in [true, false] {
            match self.undo_changes(of_variant, journal, operator) {
                Ok(needed) => restart |= needed,
                Err(TargetError::Restore(more)) => failed.extend(more),
                Err(error) => failed.push(error.to_string()),
            }
        }
        if restart && let Err(error) = self.restart() {
            failed.push(format!(
                "start-up settings are back, but take effect at the next restart only: {error}"
            ));
        }
        if failed.is_empty() {
            Ok(())
        } else {
            Err(TargetError::Restore(failed))
        }
    }

    /// Undoes the statements of a variant on a private server.
    pub(super) fn undo_sql(&mut self, journal: &mut Journal) -> Result<(), TargetError> {
        self.undo_changes(true, journal, &Unattended).map(|_| ())
    }

    /// Undoes the changes of the variant or of the run, the last one first; whether a restart is needed to make
    /// that effective. What fails stays on the list and in the journal.
    pub(super) fn undo_changes(
        &mut self,
        of_variant: bool,
        journal: &mut Journal,
        operator: &dyn Operator,
    ) -> Result<bool, TargetError> {
        let changes = std::mem::take(if of_variant {
            &mut self.variant_changes
        } else {
            &mut self.run_changes
        });
        let mut restart = false;
        let mut failed = Vec::new();
        let mut kept = Vec::new();
        let mut changes = changes.into_iter().rev();
        while let Some(change) = changes.next() {
            match self.undo_one(&change, operator) {
                Ok(()) => {
                    restart |= change.restart && !self.apply_hook_restarts(&change);
                    if let Err(error) = journal.undone(change.seq) {
                        failed.push(error.to_string());
                    }
                }
                Err(error @ TargetError::Overtaken { .. }) => {
                    failed.push(error.to_string());
                    kept.push(change);
                }
                // A server that is not there hears nothing of the others either.
                Err(error @ TargetError::Connect { code: None, .. }) => {
                    let unheard: Vec<Change> =
                        std::iter::once(change).chain(&mut changes).collect();
                    let names: Vec<&str> = unheard.iter().map(|c| c.name.as_str()).collect();
                    failed.push(format!("{}: {error}", names.join(", ")));
                    kept.extend(unheard);
                }
                Err(error) => {
                    failed.push(format!("{}: {error}", change.name));
                    kept.push(change);
                }
            }
        }
        kept.reverse();
        if of_variant {
            self.variant_changes = kept;
        } else {
            self.run_changes = kept;
        }
        if failed.is_empty() {
            Ok(restart)
        } else {
            Err(TargetError::Restore(failed))
        }
    }

    /// Without a hook `restart`, the hook `apply` is the one that restarts.
    fn apply_hook_restarts(&self, change: &Change) -> bool {
        change.undo == Undo::Hook && self.hooks.restart.is_none()
    }

    pub(super) fn undo_one(
        &mut self,
        change: &Change,
        operator: &dyn Operator,
    ) -> Result<(), TargetError> {
        match &change.undo {
            Undo::Sql(statements) => {
                let mut overtaken = None;
                for sql in statements {
                    match self.standing(change, sql)? {
                        Standing::Back => {}
                        Standing::Ours => self.run_patiently(sql)?,
                        Standing::Theirs(present) => match self.overtaken {
                            Overtaken::Overwrite => self.run_patiently(sql)?,
                            Overtaken::Keep => {}
                            Overtaken::Refuse => overtaken = Some((sql, present)),
                        },
                    }
                }
                self.undo_collateral(change)?;
                match overtaken {
                    None => self.wait_until_settled(&change.name),
                    Some((sql, present)) => Err(TargetError::Overtaken {
                        name: change.name.clone(),
                        present,
                        former: sql.clone(),
                    }),
                }
            }
            Undo::Hook => {
                self.run_apply_hook("", "")?;
                self.wait_for_answer()
            }
            Undo::Operator(text) => {
                if operator.ask(text) {
                    self.wait_for_answer()
                } else {
                    Err(TargetError::Unsupported(text.clone()))
                }
            }
            Undo::Restart | Undo::PrivateServer { .. } | Undo::Nothing => Ok(()),
        }
    }
}

/// Whose value a variable has when it is to be put back.
enum Standing {
    /// The former one already.
    Back,
    /// The one that capbench set.
    Ours,
    /// Another, for people.
    Theirs(String),
}

impl Server {
    /// Whose value stands where `sql`, a statement of an undo, would put the former one back.
    fn standing(&mut self, change: &Change, sql: &str) -> Result<Standing, TargetError> {
        let name = &change.name;
        let former = sql.split_once(" = ").map(|(_, value)| value.to_owned());
        let (present, took) = if sql.starts_with("SET GLOBAL ") {
            let took = change.took.as_ref().and_then(|took| took.value.clone());
            (Some(current(&mut self.control, name)?), took)
        } else if sql.starts_with("SET PERSIST_ONLY ") || sql.starts_with("RESET PERSIST ") {
            let took = change.took.as_ref().and_then(|took| took.persisted.clone());
            let present = persisted_value(&mut self.control, name)?;
            (present.map(|v| literal(&v)), took.map(|v| literal(&v)))
        } else {
            return Ok(Standing::Ours);
        };
        if present == former {
            return Ok(Standing::Back);
        }
        let Some(present) = present else {
            // No longer persisted: someone has reset it.
            return Ok(Standing::Theirs("not persisted".to_owned()));
        };
        let ours = match (&took, &change.asked) {
            (Some(took), _) => *took == present,
            // Cut off between the change and its note: what was asked for is all that is known.
            (None, Some(asked)) => {
                *asked == present
                    || same_value(&quoted(asked), &present)
                    || same_value(asked, &present)
            }
            (None, None) => true,
        };
        Ok(if ours {
            Standing::Ours
        } else {
            Standing::Theirs(present)
        })
    }

    /// Puts back what the server moved along, where it still is as it moved it.
    fn undo_collateral(&mut self, change: &Change) -> Result<(), TargetError> {
        let Some(took) = &change.took else {
            return Ok(());
        };
        for moved in &took.collateral {
            if current(&mut self.control, &moved.name)? == moved.after {
                let sql = format!("SET GLOBAL {} = {}", moved.name, moved.before);
                match self.run_patiently(&sql) {
                    // `ER_WRONG_TYPE_FOR_VAR`: text that looks like a number.
                    Err(error) if error.code() == Some(1232) => {
                        let sql = format!("SET GLOBAL {} = {}", moved.name, quoted(&moved.before));
                        self.run_patiently(&sql)?;
                    }
                    other => other?,
                }
            }
        }
        Ok(())
    }
}

/// Whether undoing an entry is felt only after a restart: a start-up option, or a persisted variable that
/// could not be set while the server ran (its way back has no SET GLOBAL).
fn takes_effect_at_restart(entry: &Entry) -> bool {
    match &entry.undo {
        Undo::Hook => true,
        Undo::Sql(statements) => {
            entry.action == "set-persist"
                && !statements.iter().any(|sql| sql.starts_with("SET GLOBAL"))
        }
        _ => false,
    }
}
