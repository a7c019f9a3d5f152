//! Putting back what was changed, the last change first.

use super::TargetError;
use super::change::Change;
use super::hooks::{Operator, Unattended};
use super::journal::{Entry, Journal, Undo};
use super::server::Server;

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
        self.restoring = true;
        let result = self.restore_all(journal, operator);
        self.restoring = false;
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
        for change in changes.into_iter().rev() {
            match self.undo_one(&change, operator) {
                Ok(()) => {
                    restart |= change.restart && !self.apply_hook_restarts(&change);
                    if let Err(error) = journal.undone(change.seq) {
                        failed.push(error.to_string());
                    }
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
                for sql in statements {
                    self.run_patiently(sql)?;
                }
                self.wait_until_settled(&change.name)
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
