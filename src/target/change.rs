//! Changing a server's settings, reading back what it made of them, and putting them back.

use std::collections::BTreeMap;
use std::time::Instant;

use mysql::prelude::Queryable;

use super::TargetError;
use super::access::{self, Access};
use super::connect::Control;
use super::hooks::{Operator, run_hook};
use super::journal::{Journal, Undo};
use super::server::{POLL, Server};
use super::variables::{literal, option, option_effect, quoted, same_value, shown};
use crate::plan::{Plan, Setting, Variant};
use crate::record::{AppliedSetting, Flavour, VariantRecord};

/// ER_WRONG_TYPE_FOR_VAR
const WRONG_TYPE: u16 = 1232;
/// ER_BUFPOOL_RESIZE_INPROGRESS
const RESIZING: u16 = 3166;
/// How often an operator is asked again when the server does not show the change.
const OPERATOR_ATTEMPTS: u32 = 3;

/// A change that was made and not yet undone.
#[derive(Debug, Clone)]
pub(super) struct Change {
    seq: u64,
    name: String,
    undo: Undo,
    /// Only a restart makes the undoing effective.
    restart: bool,
}

/// How a variant's settings reach the server.
#[derive(Debug, Default)]
struct Route {
    /// By SET GLOBAL, after any restart.
    global: Vec<Setting>,
    /// By SET PERSIST or, if the flag says read-only, SET PERSIST_ONLY, before the restart.
    persist: Vec<(Setting, bool)>,
    /// As start-up options: of the private server, or for the hook.
    options: Vec<Setting>,
    restart: bool,
}

impl Server {
    /// Makes the settings that hold for the whole run: by SET GLOBAL, or by start-up options where only they
    /// serve and the server is private. They are made again after every restart.
    ///
    /// # Errors
    /// A variable cannot be set or did not take its value.
    pub fn apply_run_settings(
        &mut self,
        settings: &[Setting],
        journal: &mut Journal,
    ) -> Result<Vec<AppliedSetting>, TargetError> {
        let before = self.variables()?;
        self.run_settings = settings.to_vec();
        let mut at_start = false;
        for setting in settings {
            if self.private.is_some()
                && access::global(&mut self.control, &setting.name)? == Access::ReadOnly
            {
                at_start = true;
            }
        }
        if self.private.is_some() {
            self.base_options.extend(settings.iter().cloned());
        }
        if at_start {
            for setting in settings {
                let change = note_option(setting, &before, journal)?;
                self.run_changes.push(change);
            }
            self.restart()?;
        } else {
            for setting in settings {
                let change = self.set_global(setting, journal)?;
                self.run_changes.push(change);
            }
        }
        let asked: Vec<(String, String)> = settings
            .iter()
            .map(|s| (s.name.clone(), shown(&s.value)))
            .collect();
        self.read_back(&asked, &before)
    }

    /// Applies a variant on top of the baseline: undoes the one before, changes what this one changes, restarts
    /// where that is needed and allowed, waits for asynchronous resizes, and reads everything back.
    ///
    /// # Errors
    /// The server refuses a change, does not come back, or shows after all the value it had before; the
    /// operator declined.
    pub fn apply_variant(
        &mut self,
        plan: &Plan,
        variant: &Variant,
        journal: &mut Journal,
        operator: &dyn Operator,
    ) -> Result<VariantRecord, TargetError> {
        let asked = self.asked_of(variant);
        let restarted = if self.private.is_some() {
            self.apply_private(variant, journal)?
        } else {
            let undone_needs_restart = self.undo_changes(true, journal, operator)?;
            if variant.operator {
                self.note_before_operator(undone_needs_restart)?;
                return self.apply_by_operator(plan, variant, &asked, journal, operator);
            }
            self.apply_external(variant, undone_needs_restart, journal)?
        };
        self.record(plan, variant, &asked, restarted)
    }

    /// Variables and values that a variant declares, those of its options included.
    fn asked_of(&self, variant: &Variant) -> Vec<(String, String)> {
        let sets = variant
            .set
            .iter()
            .map(|s| (s.name.clone(), shown(&s.value)));
        let options = variant
            .options
            .iter()
            .filter_map(|o| option_effect(o, &self.identity.variables));
        sets.chain(options).collect()
    }

    fn apply_private(
        &mut self,
        variant: &Variant,
        journal: &mut Journal,
    ) -> Result<bool, TargetError> {
        let running = self.pid().is_some() && self.exited().is_none();
        let mut restart = variant.restart
            || !variant.options.is_empty()
            || !self.variant_options.is_empty()
            || !running;
        for setting in &variant.set {
            restart =
                restart || access::global(&mut self.control, &setting.name)? == Access::ReadOnly;
        }
        if !restart {
            self.undo_sql(journal)?;
            for setting in &variant.set {
                let change = self.set_global(setting, journal)?;
                self.variant_changes.push(change);
            }
            return Ok(false);
        }
        let before = self.identity.variables.clone();
        let former = std::mem::take(&mut self.variant_changes);
        self.variant_options = variant
            .set
            .iter()
            .chain(&variant.options)
            .cloned()
            .collect();
        for setting in self.variant_options.clone() {
            let change = note_option(&setting, &before, journal)?;
            self.variant_changes.push(change);
        }
        self.restart()?;
        for change in former {
            journal.undone(change.seq)?;
        }
        Ok(true)
    }

    fn apply_external(
        &mut self,
        variant: &Variant,
        undone_needs_restart: bool,
        journal: &mut Journal,
    ) -> Result<bool, TargetError> {
        let route = self.route(variant)?;
        let before = self.variables()?;
        for (setting, read_only) in &route.persist {
            let change = self.set_persist(setting, *read_only, journal)?;
            self.variant_changes.push(change);
        }
        let started = Instant::now();
        if !route.options.is_empty() {
            let options: Vec<String> = route.options.iter().map(option).collect();
            let options = options.join(" ");
            let names: Vec<&str> = route.options.iter().map(|s| s.name.as_str()).collect();
            let seq = journal.write(
                "hook-apply",
                &names.join(" "),
                None,
                Some(&options),
                Undo::Hook,
            )?;
            self.variant_changes.push(Change {
                seq,
                name: names.join(" "),
                undo: Undo::Hook,
                restart: true,
            });
            self.run_apply_hook(&variant.name, &options)?;
        }
        let mut restarted = false;
        if route.restart || undone_needs_restart {
            if self.hooks.restart.is_some() {
                self.restart()?;
            } else {
                // The hook that applies is then the one that restarts.
                self.wait_for_restart(started)?;
            }
            restarted = true;
        } else if !route.options.is_empty() {
            self.wait_for_answer()?;
            restarted = self.uptime()? <= started.elapsed().as_secs() + 1;
        }
        if restarted {
            self.repeat_run_settings()?;
        }
        for setting in &route.global {
            let change = self.set_global_from(setting, before.get(&setting.name), journal)?;
            self.variant_changes.push(change);
        }
        Ok(restarted)
    }

    /// Which way each setting of a variant goes on a server that is not ours.
    fn route(&mut self, variant: &Variant) -> Result<Route, TargetError> {
        let mut route = Route {
            options: variant.options.clone(),
            restart: variant.restart,
            ..Route::default()
        };
        for setting in &variant.set {
            let read_only = match access::global(&mut self.control, &setting.name)? {
                Access::ReadOnly => true,
                Access::Settable => false,
                Access::Denied(reason) => {
                    return Err(TargetError::Unsupported(format!(
                        "account `{}` may not set `{}`: {reason}",
                        self.admin.user, setting.name
                    )));
                }
                Access::Unknown | Access::Session => {
                    return Err(TargetError::Unsupported(format!(
                        "this server has no global variable `{}`",
                        setting.name
                    )));
                }
            };
            let persistable = self.identity.flavour == Flavour::MySql
                && variant.restart
                && access::persist(&mut self.control, &setting.name)? == Access::Settable;
            if persistable {
                route.persist.push((setting.clone(), read_only));
            } else if self.hooks.apply.is_some() && (read_only || variant.restart) {
                route.options.push(setting.clone());
            } else if read_only {
                return Err(TargetError::Unsupported(format!(
                    "variable `{}` can only be changed at start-up, and nothing in the plan can do that on this server\n\
                     hint: {}",
                    setting.name,
                    super::support::START_UP_HINT
                )));
            } else {
                route.global.push(setting.clone());
            }
        }
        Ok(route)
    }

    fn run_apply_hook(&mut self, variant: &str, options: &str) -> Result<(), TargetError> {
        let Some(command) = self.hooks.apply.clone() else {
            return Err(TargetError::Unsupported(format!(
                "variant `{variant}` needs start-up options `{options}`, and the plan has no hook that applies them\n\
                 hint: {}",
                super::support::START_UP_HINT
            )));
        };
        self.control.close();
        run_hook(
            "apply",
            &command,
            &[("CAPBENCH_VARIANT", variant), ("CAPBENCH_OPTIONS", options)],
            &self.hidden,
            self.start_timeout,
            &self.wish(),
        )
    }

    fn wait_for_answer(&mut self) -> Result<(), TargetError> {
        let deadline = Instant::now() + self.start_timeout;
        loop {
            self.control.close();
            match self.uptime() {
                Ok(_) => return Ok(()),
                Err(_) if self.wish().raised() => return Err(TargetError::Interrupted),
                Err(error) if Instant::now() >= deadline => {
                    return Err(TargetError::Lost(format!(
                        "the server does not answer after the change: {error}"
                    )));
                }
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }

    fn note_before_operator(&mut self, undone_needs_restart: bool) -> Result<(), TargetError> {
        if undone_needs_restart && self.hooks.restart.is_some() {
            self.restart()?;
            self.repeat_run_settings()?;
        }
        Ok(())
    }

    fn apply_by_operator(
        &mut self,
        plan: &Plan,
        variant: &Variant,
        asked: &[(String, String)],
        journal: &mut Journal,
        operator: &dyn Operator,
    ) -> Result<VariantRecord, TargetError> {
        let before = self.variables()?;
        let list = |pairs: &mut dyn Iterator<Item = String>| pairs.collect::<Vec<_>>().join(", ");
        let wanted = list(&mut variant.set.iter().chain(&variant.options).map(option));
        let former = list(&mut asked.iter().map(|(name, _)| {
            let value = before.get(name).map_or("n/a", String::as_str);
            format!("{name} = {value}")
        }));
        let undo = Undo::Operator(format!("put back by hand: {former}"));
        let seq = journal.write(
            "operator",
            &variant.name,
            Some(&former),
            Some(&wanted),
            undo.clone(),
        )?;
        self.variant_changes.push(Change {
            seq,
            name: variant.name.clone(),
            undo,
            restart: false,
        });
        let mut request = format!(
            "variant `{}`: start the server with {wanted}{}",
            variant.name,
            if variant.restart { " (restart it)" } else { "" }
        );
        let started = Instant::now();
        for attempt in 1..=OPERATOR_ATTEMPTS {
            if !operator.ask(&request) {
                return Err(TargetError::Declined(variant.name.clone()));
            }
            self.wait_for_answer()?;
            let restarted = self.uptime()? <= started.elapsed().as_secs() + 1;
            if restarted {
                self.repeat_run_settings()?;
            }
            match self.record(plan, variant, asked, restarted) {
                Err(error @ TargetError::NotTaken { .. }) if attempt < OPERATOR_ATTEMPTS => {
                    request = format!("{error}\nplease change it and confirm again");
                }
                other => return other,
            }
        }
        Err(TargetError::Declined(variant.name.clone()))
    }

    /// Reads a variant back and compares all variables with the baseline's.
    fn record(
        &mut self,
        plan: &Plan,
        variant: &Variant,
        asked: &[(String, String)],
        restarted: bool,
    ) -> Result<VariantRecord, TargetError> {
        let is_baseline = plan
            .variants
            .first()
            .is_some_and(|v| v.name == variant.name);
        let reference = self
            .baseline
            .clone()
            .unwrap_or_else(|| self.identity.variables.clone());
        let settings = self.read_back(asked, &reference)?;
        let now = self.variables()?;
        if is_baseline && self.baseline.is_none() {
            self.baseline = Some(now.clone());
        }
        let reference = self.baseline.as_ref().unwrap_or(&reference);
        Ok(VariantRecord {
            name: variant.name.clone(),
            settings,
            restarted,
            differs: differences(reference, &now),
            several: variant.several,
        })
    }

    /// The values the server has now for what was asked, once it has settled.
    fn read_back(
        &mut self,
        asked: &[(String, String)],
        before: &BTreeMap<String, String>,
    ) -> Result<Vec<AppliedSetting>, TargetError> {
        for (name, _) in asked {
            self.wait_until_settled(name)?;
        }
        let now = self.variables()?;
        asked
            .iter()
            .map(|(name, value)| {
                let (was, took) = (before.get(name), now.get(name));
                if let Some(took) = took {
                    // Another number is the server's rounding; the number from before is no change at all.
                    let unchanged = was == Some(took) && !same_value(value, took);
                    if unchanged {
                        return Err(TargetError::NotTaken {
                            name: name.clone(),
                            asked: value.clone(),
                            took: took.clone(),
                            hint: "the server kept the value it had: the change was not made, or it rounds to this; ask for a value that it takes",
                        });
                    }
                }
                Ok(AppliedSetting {
                    name: name.clone(),
                    before: was.cloned(),
                    asked: value.clone(),
                    took: took.cloned(),
                })
            })
            .collect()
    }

    /// Waits for resizes that go on after the statement has ended.
    fn wait_until_settled(&mut self, name: &str) -> Result<(), TargetError> {
        let status = match name {
            "innodb_buffer_pool_size" => "Innodb_buffer_pool_resize_status",
            "innodb_redo_log_capacity" => "Innodb_redo_log_resize_status",
            _ => return Ok(()),
        };
        let sql = format!("SHOW GLOBAL STATUS LIKE '{status}%'");
        let deadline = Instant::now() + self.start_timeout;
        loop {
            let values: BTreeMap<String, String> = self.control.pairs(&sql)?.into_iter().collect();
            if !resizing(status, &values) {
                return Ok(());
            }
            if self.wish().raised() {
                return Err(TargetError::Interrupted);
            }
            if Instant::now() >= deadline {
                return Err(TargetError::Lost(format!(
                    "`{name}` is still being resized after {} s: {}\nhint: raise start_timeout under [target]",
                    self.start_timeout.as_secs(),
                    values.get(status).map_or("n/a", String::as_str)
                )));
            }
            std::thread::sleep(POLL);
        }
    }

    /// SET GLOBAL, journalled.
    fn set_global(
        &mut self,
        setting: &Setting,
        journal: &mut Journal,
    ) -> Result<Change, TargetError> {
        self.set_global_from(setting, None, journal)
    }

    /// SET GLOBAL, journalled; `former` is the value to go back to when the present one is not it (a restart
    /// lies between).
    fn set_global_from(
        &mut self,
        setting: &Setting,
        former: Option<&String>,
        journal: &mut Journal,
    ) -> Result<Change, TargetError> {
        let name = &setting.name;
        let now = current(&mut self.control, name)?;
        let value = shown(&setting.value);
        let undo = Undo::Sql(vec![format!("SET GLOBAL {name} = {now}")]);
        let seq = journal.write(
            "set-global",
            name,
            Some(former.map_or(now.trim_matches('\''), String::as_str)),
            Some(&value),
            undo.clone(),
        )?;
        let change = Change {
            seq,
            name: name.clone(),
            undo,
            restart: false,
        };
        match self.set("GLOBAL", name, &value) {
            Ok(()) => Ok(change),
            Err(error) => Err(self.set_failed(change, error, journal)),
        }
    }

    /// SET PERSIST (PERSIST_ONLY for a variable that is read-only while the server runs), journalled.
    fn set_persist(
        &mut self,
        setting: &Setting,
        read_only: bool,
        journal: &mut Journal,
    ) -> Result<Change, TargetError> {
        let name = &setting.name;
        let persisted = self.control.value(&format!(
            "SELECT variable_value FROM performance_schema.persisted_variables WHERE variable_name = {}",
            quoted(name)
        ))?;
        let now = current(&mut self.control, name)?;
        let mut undo = vec![match &persisted {
            Some(old) => format!("SET PERSIST_ONLY {name} = {}", literal(old)),
            None => format!("RESET PERSIST IF EXISTS {name}"),
        }];
        if !read_only {
            undo.push(format!("SET GLOBAL {name} = {now}"));
        }
        let undo = Undo::Sql(undo);
        let value = shown(&setting.value);
        let seq = journal.write(
            "set-persist",
            name,
            persisted.as_deref(),
            Some(&value),
            undo.clone(),
        )?;
        let scope = if read_only { "PERSIST_ONLY" } else { "PERSIST" };
        let change = Change {
            seq,
            name: name.clone(),
            undo,
            restart: read_only,
        };
        match self.set(scope, name, &value) {
            Ok(()) => Ok(change),
            Err(error) => Err(self.set_failed(change, error, journal)),
        }
    }

    /// After a SET that failed: a refusal has changed nothing, whereas a lost connection leaves that open, so
    /// that the change stays to be undone.
    fn set_failed(
        &mut self,
        change: Change,
        error: TargetError,
        journal: &mut Journal,
    ) -> TargetError {
        if error.code().is_none() {
            self.variant_changes.push(change);
        } else if let Err(unwritten) = journal.undone(change.seq) {
            return unwritten;
        }
        self.explain(error)
    }

    /// One SET statement: again as text when the variable is no number, again later while a resize runs.
    fn set(&mut self, scope: &str, name: &str, value: &str) -> Result<(), TargetError> {
        let deadline = Instant::now() + self.start_timeout;
        let mut text = literal(value);
        loop {
            let result = self.control.run(&format!("SET {scope} {name} = {text}"));
            match &result {
                Err(e) if e.code() == Some(WRONG_TYPE) && text != quoted(value) => {
                    text = quoted(value);
                }
                Err(e) if e.code() == Some(RESIZING) && Instant::now() < deadline => {
                    if self.wish().raised() {
                        return Err(TargetError::Interrupted);
                    }
                    std::thread::sleep(POLL);
                }
                _ => return result,
            }
        }
    }

    /// A restart has made the server forget what SET GLOBAL told it.
    pub(super) fn repeat_run_settings(&mut self) -> Result<(), TargetError> {
        for setting in self.run_settings.clone() {
            self.set("GLOBAL", &setting.name, &shown(&setting.value))?;
        }
        Ok(())
    }

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
    fn undo_sql(&mut self, journal: &mut Journal) -> Result<(), TargetError> {
        self.undo_changes(true, journal, &super::hooks::Unattended)
            .map(|_| ())
    }

    /// Undoes the changes of the variant or of the run, the last one first; whether a restart is needed to make
    /// that effective. What fails stays on the list and in the journal.
    fn undo_changes(
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

    fn undo_one(&mut self, change: &Change, operator: &dyn Operator) -> Result<(), TargetError> {
        match &change.undo {
            Undo::Sql(statements) => statements.iter().try_for_each(|sql| self.control.run(sql)),
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

    fn exited(&mut self) -> Option<std::process::ExitStatus> {
        self.private
            .as_mut()
            .and_then(super::managed::PrivateServer::exited)
    }
}

/// Journals a start-up option of the private server, which goes away with it.
fn note_option(
    setting: &Setting,
    before: &BTreeMap<String, String>,
    journal: &mut Journal,
) -> Result<Change, TargetError> {
    let seq = journal.write(
        "start-option",
        &setting.name,
        before.get(&setting.name).map(String::as_str),
        Some(&shown(&setting.value)),
        Undo::Nothing,
    )?;
    Ok(Change {
        seq,
        name: setting.name.clone(),
        undo: Undo::Nothing,
        restart: false,
    })
}

/// The present value as a literal that SET takes back: the column's type says whether it is a number.
fn current(control: &mut Control, name: &str) -> Result<String, TargetError> {
    let sql = format!("SELECT @@GLOBAL.{name}");
    let row: Option<mysql::Row> = control
        .conn()?
        .query_first(&sql)
        .map_err(|e| TargetError::statement(&sql, &e))?;
    let value = row.as_ref().and_then(|r| r.as_ref(0));
    let numeric = row
        .as_ref()
        .and_then(|r| {
            r.columns_ref()
                .first()
                .map(|c| c.column_type().is_numeric_type())
        })
        .unwrap_or(false);
    Ok(match value {
        Some(mysql::Value::Bytes(bytes)) => {
            let text = String::from_utf8_lossy(bytes);
            if numeric {
                text.into_owned()
            } else {
                quoted(&text)
            }
        }
        Some(mysql::Value::NULL) | None => "NULL".to_owned(),
        Some(other) => other.as_sql(false),
    })
}

/// Variables that are not the same in both, each with both values; one that a server lacks is `n/a`.
fn differences(
    baseline: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> BTreeMap<String, (String, String)> {
    baseline
        .keys()
        .chain(now.keys())
        .filter(|name| baseline.get(*name) != now.get(*name))
        .map(|name| {
            let value = |of: &BTreeMap<String, String>| {
                of.get(name).cloned().unwrap_or_else(|| "n/a".to_owned())
            };
            (name.clone(), (value(baseline), value(now)))
        })
        .collect()
}

/// Whether a status says that a resize is under way. MySQL ≥ 8.0.31 has a code for the buffer pool
/// (0: done); others say it in words that begin with “Completed” at the end, or say nothing.
fn resizing(status: &str, values: &BTreeMap<String, String>) -> bool {
    if let Some(code) = values.get(&format!("{status}_code")) {
        return code != "0";
    }
    let words = values
        .get(status)
        .map(|v| v.to_ascii_lowercase())
        .unwrap_or_default();
    !(words.is_empty()
        || words == "ok"
        || [
            "completed",
            "size did not change",
            "failed",
            "aborted",
            "error",
        ]
        .iter()
        .any(|end| words.contains(end)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn a_resize_is_over_when_the_server_says_so() {
        let name = "Innodb_buffer_pool_resize_status";
        let code = "Innodb_buffer_pool_resize_status_code";
        let says = |pairs: &[(&str, &str)]| resizing(name, &map(pairs));
        assert!(says(&[
            (name, "buffer pool 0 : resizing with chunks 1 to 2."),
            (code, "5")
        ]));
        assert!(says(&[(name, "Withdrawing blocks to be shrunken.")]));
        assert!(!says(&[
            (name, "Completed resizing buffer pool at 261130 14:00:00."),
            (code, "0")
        ]));
        assert!(!says(&[(name, "Completed resizing buffer pool.")]));
        assert!(!says(&[(name, "")]));
        assert!(!says(&[]));
        assert!(!resizing(
            "Innodb_redo_log_resize_status",
            &map(&[("Innodb_redo_log_resize_status", "OK")])
        ));
        assert!(resizing(
            "Innodb_redo_log_resize_status",
            &map(&[("Innodb_redo_log_resize_status", "Resizing down")])
        ));
    }

    #[test]
    fn differences_name_both_values() {
        let found = differences(
            &map(&[("a", "1"), ("b", "2"), ("gone", "x")]),
            &map(&[("a", "1"), ("b", "3"), ("new", "y")]),
        );
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(found.len(), 3);
        assert_eq!(found["b"], pair("2", "3"));
        assert_eq!(found["gone"], pair("x", "n/a"));
        assert_eq!(found["new"], pair("n/a", "y"));
    }
}
