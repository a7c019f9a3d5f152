//! Applying a variant: which way each of its settings goes on this server, and what came of it.

use std::collections::BTreeMap;
use std::time::Instant;

use super::TargetError;
use super::access::{self, Access};
use super::change::{Change, note_option};
use super::hooks::{Operator, run_hook};
use super::journal::{Journal, Undo};
use super::server::{POLL, Server};
use super::settle::differences;
use super::variables::{option, option_effect, shown};
use crate::plan::{Plan, Setting, Variant};
use crate::record::{Flavour, VariantRecord};

/// How often an operator is asked again when the server does not show the change.
const OPERATOR_ATTEMPTS: u32 = 3;

/// How a variant's settings reach the server.
#[derive(Debug, Default)]
pub(super) struct Route {
    /// By SET GLOBAL, after any restart.
    pub(super) global: Vec<Setting>,
    /// By SET PERSIST or, if the flag says read-only, SET `PERSIST_ONLY`, before the restart.
    pub(super) persist: Vec<(Setting, bool)>,
    /// As start-up options: of the private server, or for the hook.
    pub(super) options: Vec<Setting>,
    pub(super) restart: bool,
}

impl Server {
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
        let anew = self.is_due();
        let mut restart = variant.restart
            || !variant.options.is_empty()
            || !self.variant_options.is_empty()
            || !running;
        for setting in &variant.set {
            restart =
                restart || access::global(&mut self.control, &setting.name)? == Access::ReadOnly;
        }
        if !restart {
            if self.is_due() {
                // What the former variant set goes away with the process.
                let former = std::mem::take(&mut self.variant_changes);
                self.restart()?;
                for change in former {
                    journal.undone(change.seq)?;
                }
            } else {
                self.undo_sql(journal)?;
            }
            for setting in &variant.set {
                let change = self.set_global(setting, journal)?;
                self.variant_changes.push(change);
            }
            return Ok(anew);
        }
        let before = self.before_variants.clone();
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
        let before = match route.global.as_slice() {
            [] => BTreeMap::new(),
            _ => self.variables()?,
        };
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
                asked: None,
                took: None,
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
    pub(super) fn route(&mut self, variant: &Variant) -> Result<Route, TargetError> {
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

    pub(super) fn run_apply_hook(
        &mut self,
        variant: &str,
        options: &str,
    ) -> Result<(), TargetError> {
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

    pub(super) fn wait_for_answer(&mut self) -> Result<(), TargetError> {
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
            asked: None,
            took: None,
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
            .unwrap_or_else(|| self.before_variants.clone());
        let (settings, now) = self.read_back(asked, &reference)?;
        if is_baseline && self.baseline.is_none() {
            self.baseline = Some(now.clone());
        }
        let reference = self.baseline.as_ref().unwrap_or(&reference);
        let differs = differences(reference, &now);
        self.as_applied = now;
        Ok(VariantRecord {
            name: variant.name.clone(),
            settings,
            restarted,
            differs,
            several: variant.several,
        })
    }

    fn exited(&mut self) -> Option<std::process::ExitStatus> {
        self.private
            .as_mut()
            .and_then(super::managed::PrivateServer::exited)
    }
}
