//! From an open server to a finished record: the order of things in a run.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::cell::{self, CellObserver, Label};
use super::data;
use super::guard::{HostCpu, Watch};
use crate::dataset::{self, DatasetError, Resolved};
use crate::interrupt::Interrupt;
use crate::load::LoadError;
use crate::matrix::{self, Cell};
use crate::plan::{OnFailure, Plan, Reset, Step};
use crate::probe;
use crate::record::{CellRecord, CellStatus, Run, RunEnd, VariantRecord, reason};
use crate::target::{self, Journal, Operator, Server, TargetError};
use crate::terminal::Terminal;
use crate::units::Span;
use crate::workload::{Program, TableLayout};

/// What ends a run outside a cell.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The server.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The data.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Too little disk.
    #[error("{0}")]
    Disk(String),
    /// The warm-up could not start.
    #[error("warm-up: {0}")]
    Warmup(LoadError),
    /// The warm-up started and failed.
    #[error("warm-up with `{workload}` failed: {reason}")]
    WarmupFailed {
        /// Workload.
        workload: String,
        /// Why.
        reason: String,
    },
    /// The records could not be written.
    #[error("{0}")]
    Save(String),
    /// The user ended it.
    #[error("interrupted")]
    Interrupted,
}

impl SessionError {
    /// Whether the user's wish is behind it.
    pub fn is_interrupt(&self) -> bool {
        match self {
            Self::Interrupted => true,
            Self::Target(error) => error.is_interrupt(),
            Self::Dataset(error) => error.is_interrupt(),
            _ => false,
        }
    }
}

/// A run in progress on an open server.
pub struct Session<'a> {
    /// What is to be done.
    pub plan: &'a Plan,
    /// The server under test.
    pub server: &'a mut Server,
    /// Every change to it.
    pub journal: &'a mut Journal,
    /// The record that grows.
    pub run: &'a mut Run,
    /// Writes the record to the run folder; called after every cell.
    pub save: &'a mut dyn FnMut(&Run) -> Result<(), String>,
    /// The screen.
    pub terminal: &'a Terminal,
    /// The user's wish to end.
    pub interrupt: &'a Interrupt,
    /// The size of the data, once it is ready.
    pub resolved: Option<Resolved>,
    /// All settings of the server as the present variant was applied: what every cell of it must find.
    pub expected: BTreeMap<String, String>,
}

/// How long one reading of the server's status may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// What a cell's end means for the cells after it.
enum Next {
    Continue,
    SkipLadder(String),
    Stop(String),
}

impl Session<'_> {
    /// Prepares the data, then runs all cells in order. Every cell ends up in the record: measured,
    /// failed with its reason, or skipped.
    ///
    /// # Errors
    /// What keeps the rest of the run from making sense: the server is gone, the data cannot be made,
    /// the records cannot be written, or the user's wish to end.
    pub fn run(&mut self, cells: &[Cell]) -> Result<RunEnd, SessionError> {
        let result = self.run_cells(cells);
        if let (Err(error), Some(last)) = (&result, self.run.cells.last()) {
            let why = if error.is_interrupt() {
                "not started: the user ended the run"
            } else {
                "not started: the run failed before"
            };
            let last = last.index;
            for cell in cells.iter().filter(|cell| cell.index > last) {
                self.skip(cell, why);
            }
        }
        result
    }

    fn run_cells(&mut self, cells: &[Cell]) -> Result<RunEnd, SessionError> {
        self.prepare()?;
        let ends = Instant::now() + matrix::estimate(self.plan).duration.0;
        let mut end = RunEnd::Completed;
        for visit in matrix::visits(cells) {
            if let RunEnd::Completed = end {
                end = self.visit(visit, cells.len(), ends)?;
            } else {
                let RunEnd::Stopped(why) = &end else { break };
                let why = format!("not started: {why}");
                for cell in visit {
                    self.skip(cell, &why);
                }
            }
        }
        self.server
            .undo_variant(self.journal, &AtScreen(self.terminal, self.interrupt))?;
        self.clean_up()?;
        Ok(end)
    }

    /// Makes the data ready, or recognises it.
    ///
    /// # Errors
    /// The server's, or a table that is not ours.
    pub fn prepare(&mut self) -> Result<(), SessionError> {
        let resolved = data::resolve(self.plan, self.server)?;
        let facts = data::ready(
            self.plan,
            self.server,
            &resolved,
            self.terminal,
            self.interrupt,
        )?;
        self.terminal.say(format_args!(
            "data: {} tables of {} rows, {} with index ({})",
            facts.tables, facts.rows, facts.bytes, facts.origin
        ));
        self.run.dataset = Some(facts);
        self.resolved = Some(resolved);
        for warning in data::warnings(self.plan, self.server, self.run) {
            // The plan may have said it already, from what it states.
            if self
                .run
                .warnings
                .iter()
                .all(|known| known.name != warning.name)
            {
                self.terminal.warning(&warning);
                self.run.warnings.push(warning);
            }
        }
        self.save()
    }

    /// One visit of a variant: apply, reset, warm up, climb each workload's ladder, undo.
    fn visit(
        &mut self,
        cells: &[Cell],
        total: usize,
        ends: Instant,
    ) -> Result<RunEnd, SessionError> {
        let variant = &self.plan.variants[cells[0].variant];
        if self.plan.variants.len() > 1 {
            self.terminal
                .say(format_args!("variant `{}`", variant.name));
        }
        let applied = self.server.apply_variant(
            self.plan,
            variant,
            self.journal,
            &AtScreen(self.terminal, self.interrupt),
        )?;
        self.keep_variant(applied);
        self.expected = self.server.variables()?;
        // What holds for the whole run must hold here too, unless the variant is about it.
        for setting in &self.run.settings {
            let moved = variant
                .set
                .iter()
                .chain(&variant.options)
                .any(|own| own.name == setting.name);
            if let (Some(took), false) = (&setting.took, moved) {
                self.expected.insert(setting.name.clone(), took.clone());
            }
        }
        let fresh = cells[0].index == 1;
        if self.plan.dataset.reset == Reset::PerVariant && !fresh {
            self.reset()?;
        }
        self.warm_up()?;
        for ladder in cells.chunk_by(|a, b| a.workload == b.workload) {
            let mut skipping: Option<String> = None;
            for cell in ladder {
                if self.interrupt.raised() {
                    return Err(SessionError::Interrupted);
                }
                if let Some(why) = &skipping {
                    self.skip(cell, why);
                    continue;
                }
                if self.plan.dataset.reset == Reset::PerCell && cell.index > 1 {
                    self.reset()?;
                }
                let left = ends.saturating_duration_since(Instant::now());
                let record = self.cell(cell, total, left)?;
                let next = next(self.plan, &record);
                self.run.cells.push(record);
                self.save()?;
                if let Some(death) = self.server.death() {
                    return Err(death.into());
                }
                match next {
                    Next::Continue => {}
                    Next::SkipLadder(why) => skipping = Some(why),
                    Next::Stop(why) => {
                        let rest = cells.iter().filter(|other| other.index > cell.index);
                        rest.for_each(|other| self.skip(other, &format!("not started: {why}")));
                        return Ok(RunEnd::Stopped(why));
                    }
                }
            }
        }
        Ok(RunEnd::Completed)
    }

    fn keep_variant(&mut self, applied: VariantRecord) {
        for setting in &applied.settings {
            let took = setting.took.as_deref().unwrap_or("n/a");
            self.terminal.say(format_args!(
                "  {} = {took} (asked for {})",
                setting.name, setting.asked
            ));
        }
        // Each pass applies a variant anew; what differs between passes is judged cell by cell.
        if let Some(known) = self
            .run
            .variants
            .iter_mut()
            .find(|known| known.name == applied.name)
        {
            *known = applied;
        } else {
            self.run.variants.push(applied);
        }
    }

    fn reset(&mut self) -> Result<(), SessionError> {
        self.terminal
            .say("putting the data back to its first state");
        let Some(resolved) = self.resolved else {
            return Ok(());
        };
        data::reset(
            self.plan,
            self.server,
            &resolved,
            self.terminal,
            self.interrupt,
        )
    }

    fn warm_up(&mut self) -> Result<(), SessionError> {
        let Some(program) = &self.plan.warmup.workload else {
            return Ok(());
        };
        let (threads, duration) = (self.plan.warmup.threads, self.plan.warmup.duration);
        if duration.0.is_zero() {
            return Ok(());
        }
        self.before_load(program)?;
        self.terminal.say(format_args!(
            "warming up: {} with {threads} threads for {duration}",
            program.name
        ));
        let mut spec = cell::spec(
            self.plan,
            self.server.load_endpoint(),
            self.rows(),
            program,
            Step::Threads(threads),
        );
        spec.discard = Duration::ZERO;
        spec.measure = duration.0;
        spec.events = None;
        let label = Label {
            position: "warm-up".into(),
            text: program.name.clone(),
        };
        let admin = self.server.admin_endpoint().clone();
        let observer = CellObserver::new(
            self.terminal,
            &label,
            &admin,
            Watch::new(&self.plan.guard),
            self.server.pid(),
            &|| None,
            &|_| {},
        );
        let outcome =
            cell::drive(&spec, &observer, self.interrupt).map_err(SessionError::Warmup)?;
        match outcome.status {
            CellStatus::Completed | CellStatus::Truncated => Ok(()),
            CellStatus::Interrupted => Err(SessionError::Interrupted),
            CellStatus::Failed | CellStatus::Stopped | CellStatus::Skipped => {
                Err(SessionError::WarmupFailed {
                    workload: program.name.clone(),
                    reason: outcome.reason.unwrap_or_default(),
                })
            }
        }
    }

    /// Drops the tables at the end of a run whose plan does not keep them.
    fn clean_up(&mut self) -> Result<(), SessionError> {
        let dataset = &self.plan.dataset;
        if dataset.keep || dataset.existing || self.server.is_managed() {
            return Ok(());
        }
        dataset::cleanup(self.server.admin_endpoint(), &self.plan.target.database)?;
        Ok(())
    }

    /// Before a program touches the data: tables that a workload fills from empty are emptied, and what is
    /// about to be written to is marked, so that a crash cannot leave changed data that passes for fresh.
    fn before_load(&mut self, program: &Program) -> Result<(), SessionError> {
        let Some(resolved) = self.resolved else {
            return Ok(());
        };
        let layout = program.tables;
        if layout != TableLayout::Standard {
            data::reset_layout(
                self.plan,
                self.server,
                layout,
                &resolved,
                self.terminal,
                self.interrupt,
            )?;
        }
        if program.writes() {
            dataset::mark_dirty(self.server.admin_endpoint(), self.plan, layout)?;
        }
        Ok(())
    }

    fn rows(&self) -> u64 {
        self.run.dataset.as_ref().map_or(0, |facts| facts.rows)
    }

    /// Measures one cell. Whatever goes wrong inside it ends up in its record.
    fn cell(
        &mut self,
        cell: &Cell,
        total: usize,
        left: Duration,
    ) -> Result<CellRecord, SessionError> {
        let plan = self.plan;
        let program = &plan.ladder.workloads[cell.workload];
        let label = label(plan, cell, program, total);
        self.terminal.say(format_args!(
            "[{}] {}  (about {} left)",
            label.position,
            label.text,
            Span(Duration::from_secs(left.as_secs()))
        ));
        let blank = |status, reason| cell::blank(plan, cell, status, reason);
        let before = match self.server.variables() {
            Ok(variables) => variables,
            Err(error) => {
                self.terminal
                    .warn(format_args!("[{}] {}: {error}", label.position, label.text));
                return Ok(blank(CellStatus::Failed, Some(reason(&error.to_string()))));
            }
        };
        self.before_load(program)?;
        let spec = cell::spec(
            plan,
            self.server.load_endpoint(),
            self.rows(),
            program,
            cell.step,
        );
        let recorder = Mutex::new(self.recorder());
        let released = |at: Instant| {
            recorder
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .released(at);
        };
        let host = Mutex::new(HostCpu::new(self.server.identity().local));
        let server_cpu = || {
            host.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .since_last()
        };
        let admin = self.server.admin_endpoint().clone();
        let observer = CellObserver::new(
            self.terminal,
            &label,
            &admin,
            Watch::new(&plan.guard),
            self.server.pid(),
            &server_cpu,
            &released,
        );
        let outcome = cell::drive(&spec, &observer, self.interrupt);
        drop(observer);
        let readings = recorder
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .finish();
        let mut record = match outcome {
            Ok(outcome) => {
                if let Some(server) = &mut self.run.server {
                    server.tls.clone_from(&outcome.tls);
                }
                cell::filled(blank(CellStatus::Completed, None), outcome)
            }
            Err(error) => blank(CellStatus::Failed, Some(reason(&error.to_string()))),
        };
        let death = self.server.death();
        if let Some(death) = &death {
            record.status = CellStatus::Failed;
            record.reason = Some(reason(&death.to_string()));
        }
        let death = death.is_some();
        record.server = readings.server;
        record.host = readings.host;
        for missing in readings.unavailable {
            if !self.run.unavailable.contains(&missing) {
                self.run.unavailable.push(missing);
            }
        }
        match self.server.variables() {
            Err(_) if death => {}
            Ok(after) => {
                record.differences = lost(&self.expected, &before);
                record.differences.extend(differences(&before, &after));
            }
            Err(error) => record.differences.push(format!(
                "variables could not be read after the cell: {}",
                reason(&error.to_string())
            )),
        }
        // What follows from these ends is said once the run has ended.
        let told = record.status == CellStatus::Interrupted || death;
        if let Some(reason) = record.reason.as_ref().filter(|_| !told) {
            self.terminal.warn(format_args!(
                "[{}] {}: {reason}",
                label.position, label.text
            ));
        }
        Ok(record)
    }

    /// Probes of server and hosts for one cell. A server that gives no connection for it is said to be
    /// unread; the cell itself will tell why.
    fn recorder(&mut self) -> probe::Recorder {
        let identity = self.server.identity();
        let limit = Some(PROBE_TIMEOUT);
        let server: Option<Box<dyn probe::Sampled>> =
            match target::connect(self.server.admin_endpoint(), limit) {
                Ok(conn) => Some(Box::new(probe::server::Probe::new(conn, identity.flavour))),
                Err(error) => {
                    self.run.unavailable.push(format!("server status: {error}"));
                    None
                }
            };
        let host = probe::host::Probe::new(self.server.local_pid());
        probe::Recorder::start(server, Some(Box::new(host)), self.plan.ladder.interval.0)
    }

    fn skip(&mut self, cell: &Cell, why: &str) {
        self.run.cells.push(cell::blank(
            self.plan,
            cell,
            CellStatus::Skipped,
            Some(why.to_owned()),
        ));
    }

    fn save(&mut self) -> Result<(), SessionError> {
        (self.save)(self.run).map_err(SessionError::Save)
    }
}

fn label(plan: &Plan, cell: &Cell, program: &Program, total: usize) -> Label {
    let mut text = format!("{} {}", program.name, cell.step);
    if plan.variants.len() > 1 {
        text = format!("{text} · {}", plan.variants[cell.variant].name);
    }
    Label {
        position: format!("{}/{total}", cell.index),
        text,
    }
}

/// What follows from a cell's end: by its status and the plan's `on_failure`.
fn next(plan: &Plan, record: &CellRecord) -> Next {
    let reason = record.reason.clone().unwrap_or_default();
    match record.status {
        // Interrupted: the flag is up, and the loop sees it before the next cell.
        CellStatus::Completed
        | CellStatus::Truncated
        | CellStatus::Skipped
        | CellStatus::Interrupted => Next::Continue,
        CellStatus::Stopped => Next::SkipLadder(format!(
            "the guard ended this ladder at {}: {reason}",
            record.step
        )),
        CellStatus::Failed => match plan.on_failure {
            OnFailure::Continue => Next::Continue,
            OnFailure::NextLadder => Next::SkipLadder(format!(
                "the step before failed ({}): {reason}",
                record.step
            )),
            OnFailure::Stop => Next::Stop(format!(
                "a cell failed and `on_failure` is \"stop\": {reason}"
            )),
        },
    }
}

/// Settings of the variant that a cell no longer found, as sentences: a server that was restarted under an
/// earlier cell has forgotten what SET GLOBAL told it.
fn lost(expected: &BTreeMap<String, String>, before: &BTreeMap<String, String>) -> Vec<String> {
    expected
        .iter()
        .filter_map(|(name, applied)| match before.get(name) {
            Some(found) if found == applied => None,
            Some(found) => Some(format!(
                "{name} was {found} at the start of the cell, {applied} when the variant was applied"
            )),
            None => Some(format!("{name} = {applied} was gone at the start of the cell")),
        })
        .collect()
}

/// Variables that changed while a cell ran, as sentences.
fn differences(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, old) in before {
        match after.get(name) {
            Some(new) if new != old => found.push(format!(
                "{name} changed from {old} to {new} during the cell"
            )),
            Some(_) => {}
            None => found.push(format!("{name} = {old} was gone after the cell")),
        }
    }
    for (name, new) in after {
        if !before.contains_key(name) {
            found.push(format!("{name} = {new} appeared during the cell"));
        }
    }
    found
}

/// A person at the screen who changes what capbench cannot.
pub struct AtScreen<'a>(pub &'a Terminal, pub &'a Interrupt);

impl Operator for AtScreen<'_> {
    fn ask(&self, request: &str) -> bool {
        self.0.ask(request, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_variable_that_moves_under_a_cell_is_named_with_both_values() {
        let before = variables(&[("sync_binlog", "1"), ("gone", "x"), ("same", "y")]);
        let after = variables(&[("sync_binlog", "0"), ("same", "y"), ("new", "z")]);
        assert_eq!(
            differences(&before, &after),
            [
                "gone = x was gone after the cell",
                "sync_binlog changed from 1 to 0 during the cell",
                "new = z appeared during the cell",
            ]
        );
        assert!(differences(&after, &after).is_empty());
        assert_eq!(
            lost(&before, &after),
            [
                "gone = x was gone at the start of the cell",
                "sync_binlog was 0 at the start of the cell, 1 when the variant was applied",
            ]
        );
        assert!(lost(&before, &before).is_empty());
    }
}
