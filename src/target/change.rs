//! The ways to change one setting, each journalled before it is made.

use std::collections::BTreeMap;
use std::time::Instant;

use mysql::prelude::Queryable;

use super::TargetError;
use super::access::{self, Access};
use super::connect::Control;
use super::journal::{Collateral, Journal, Taken, Undo};
use super::server::{POLL, Server};
use super::variables::{literal, quoted, shown};
use crate::plan::Setting;
use crate::record::AppliedSetting;

/// `ER_WRONG_TYPE_FOR_VAR`
const WRONG_TYPE: u16 = 1232;
/// `ER_BUFPOOL_RESIZE_INPROGRESS`
const RESIZING: u16 = 3166;

/// A change that was made and not yet undone.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) seq: u64,
    pub(super) name: String,
    pub(super) undo: Undo,
    /// Only a restart makes the undoing effective.
    pub(super) restart: bool,
    /// Value asked for.
    pub(super) asked: Option<String>,
    /// What the server made of it; `None`: not known.
    pub(super) took: Option<Taken>,
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
        if settings.is_empty() {
            self.before_variants = before;
            return Ok(Vec::new());
        }
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
        let (applied, now) = self.read_back(&asked, &before)?;
        self.before_variants = now;
        Ok(applied)
    }

    /// SET GLOBAL, journalled.
    pub(super) fn set_global(
        &mut self,
        setting: &Setting,
        journal: &mut Journal,
    ) -> Result<Change, TargetError> {
        self.set_global_from(setting, None, journal)
    }

    /// SET GLOBAL, journalled; `former` is the value to go back to when the present one is not it (a restart
    /// lies between).
    pub(super) fn set_global_from(
        &mut self,
        setting: &Setting,
        former: Option<&String>,
        journal: &mut Journal,
    ) -> Result<Change, TargetError> {
        let name = &setting.name;
        let all = self.variables()?;
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
            asked: Some(value.clone()),
            took: None,
        };
        match self.set("GLOBAL", name, &value) {
            Ok(()) => self.note_taken(change, &all, true, false, journal),
            Err(error) => Err(self.set_failed(change, error, journal)),
        }
    }

    /// Notes what the server made of a change, so that it is undone only while that still holds.
    fn note_taken(
        &mut self,
        mut change: Change,
        before: &BTreeMap<String, String>,
        global: bool,
        persisted: bool,
        journal: &mut Journal,
    ) -> Result<Change, TargetError> {
        let noted = self
            .taken(&change.name, before, global, persisted)
            .and_then(|taken| {
                change.took = Some(taken.clone());
                journal.took(change.seq, taken)
            });
        match noted {
            Ok(()) => Ok(change),
            Err(error) => {
                // It was made, so that it stays to be undone.
                self.variant_changes.push(change);
                Err(self.explain(error))
            }
        }
    }

    fn taken(
        &mut self,
        name: &str,
        before: &BTreeMap<String, String>,
        global: bool,
        persisted: bool,
    ) -> Result<Taken, TargetError> {
        self.wait_until_settled(name)?;
        let mut taken = Taken::default();
        if persisted {
            taken.persisted = persisted_value(&mut self.control, name)?;
        }
        if !global {
            return Ok(taken);
        }
        taken.value = Some(current(&mut self.control, name)?);
        // A server may move a second variable along, such as an upper limit that the first one passes.
        let now = self.variables()?;
        for (other, was) in before.iter().filter(|(other, _)| *other != name) {
            let moved = now.get(other).is_some_and(|is| is != was);
            if moved && access::global(&mut self.control, other)? == Access::Settable {
                taken.collateral.push(Collateral {
                    name: other.clone(),
                    before: literal(was),
                    after: current(&mut self.control, other)?,
                });
            }
        }
        Ok(taken)
    }

    /// SET PERSIST (`PERSIST_ONLY` for a variable that is read-only while the server runs), journalled.
    pub(super) fn set_persist(
        &mut self,
        setting: &Setting,
        read_only: bool,
        journal: &mut Journal,
    ) -> Result<Change, TargetError> {
        let name = &setting.name;
        let all = self.variables()?;
        let persisted = persisted_value(&mut self.control, name)?;
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
            asked: Some(value.clone()),
            took: None,
        };
        match self.set(scope, name, &value) {
            Ok(()) => self.note_taken(change, &all, !read_only, true, journal),
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

    /// One SET statement, again as text when the variable is no number.
    fn set(&mut self, scope: &str, name: &str, value: &str) -> Result<(), TargetError> {
        let as_number = literal(value);
        match self.run_patiently(&format!("SET {scope} {name} = {as_number}")) {
            Err(e) if e.code() == Some(WRONG_TYPE) && as_number != quoted(value) => {
                self.run_patiently(&format!("SET {scope} {name} = {}", quoted(value)))
            }
            result => result,
        }
    }

    /// A statement, again later while a resize of the buffer pool runs.
    pub(super) fn run_patiently(&mut self, sql: &str) -> Result<(), TargetError> {
        let deadline = Instant::now() + self.start_timeout;
        loop {
            match self.control.run(sql) {
                Err(e) if e.code() == Some(RESIZING) && Instant::now() < deadline => {
                    if self.wish().raised() {
                        return Err(TargetError::Interrupted);
                    }
                    std::thread::sleep(POLL);
                }
                result => return result,
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
}

/// Journals a start-up option of the private server, which goes away with it.
pub(super) fn note_option(
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
        asked: None,
        took: None,
    })
}

/// What is persisted for the next start of a MySQL server.
pub(super) fn persisted_value(
    control: &mut Control,
    name: &str,
) -> Result<Option<String>, TargetError> {
    control.value(&format!(
        "SELECT variable_value FROM performance_schema.persisted_variables WHERE variable_name = {}",
        quoted(name)
    ))
}

/// The present value as a literal that SET takes back: the column's type says whether it is a number.
pub(super) fn current(control: &mut Control, name: &str) -> Result<String, TargetError> {
    let sql = format!("SELECT @@GLOBAL.{name}");
    let row: Option<mysql::Row> = control.ask(&sql, |conn| conn.query_first(&sql))?;
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
