//! One visit of a variant: apply it, put the data back, warm up, climb each workload's ladder.

use std::time::{Duration, Instant};

use super::cell::{self, CellObserver, Label};
use super::guard::{Watch, outside_window};
use super::sentinel::Sentinel;
use super::session::AtScreen;
use super::{Session, SessionError, data};
use crate::dataset;
use crate::matrix::Cell;
use crate::plan::{OnFailure, Plan, Reset, Step};
use crate::record::{CellRecord, CellStatus, RunEnd, VariantRecord};
use crate::workload::{Program, TableLayout};

/// What a cell's end means for the cells after it.
enum Next {
    Continue,
    SkipLadder(String),
    Stop(String),
}

impl Session<'_> {
    /// One visit of a variant: apply, reset, warm up, climb each workload's ladder, undo.
    pub(super) fn visit(
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
                if let Some(why) = outside_window(&self.plan.guard, &jiff::ZonedDateTime::now()) {
                    let rest = cells.iter().filter(|other| other.index >= cell.index);
                    rest.for_each(|other| self.skip(other, &format!("not started: {why}")));
                    return Ok(RunEnd::Stopped(why));
                }
                self.server.keep_lock()?;
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
        let sentinel = Sentinel::start(&self.plan.guard, self.server);
        let observer = CellObserver::new(
            self.terminal,
            &label,
            &admin,
            Watch::new(&self.plan.guard),
            &sentinel,
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

    /// Before a program touches the data: tables that a workload fills from empty are emptied, and what is
    /// about to be written to is marked, so that a crash cannot leave changed data that passes for fresh.
    pub(super) fn before_load(&mut self, program: &Program) -> Result<(), SessionError> {
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
}

/// What follows from a cell's end: by its status and the plan's `on_failure`.
fn next(plan: &Plan, record: &CellRecord) -> Next {
    let reason = record.reason.clone().unwrap_or_default();
    match record.status {
        // Interrupted: the flag is up, and the loop sees it before the next cell.
        CellStatus::Completed | CellStatus::Skipped | CellStatus::Interrupted => Next::Continue,
        CellStatus::Stopped => Next::SkipLadder(format!(
            "the guard ended this ladder at {}: {reason}",
            record.step
        )),
        // The server did not finish what it had begun: no state to climb further from.
        CellStatus::Failed | CellStatus::Truncated => match plan.on_failure {
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
