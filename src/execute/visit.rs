//! One visit of a variant: begin it, climb each workload's ladder.

use super::guard::outside_window;
use super::{Session, SessionError, data};
use crate::dataset;
use crate::matrix::{self, Cell};
use crate::plan::{OnFailure, Plan};
use crate::record::{CellRecord, CellStatus, RunEnd, VariantRecord};
use crate::workload::{Program, TableLayout};

/// What a cell's end means for the cells after it.
pub(super) enum Next {
    Continue,
    SkipLadder(String),
    Stop(String),
}

impl Session<'_> {
    /// One visit of a variant: apply, reset, settle, warm up, climb each workload's ladder. `planned`: all cells
    /// of the plan, in order.
    pub(super) fn visit(
        &mut self,
        cells: &[Cell],
        planned: &[Cell],
    ) -> Result<RunEnd, SessionError> {
        self.begin(cells[0].variant, cells[0].index)?;
        for ladder in cells.chunk_by(|a, b| a.workload == b.workload) {
            let mut skipping = self.ended_before(&ladder[0]);
            let plan = self.plan;
            let program = &plan.ladder.workloads[ladder[0].workload];
            let plans = self.plans_before(
                ladder[0].repeat,
                &plan.variants[ladder[0].variant].name,
                program,
            );
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
                self.begin_cell(cell)?;
                let rest = planned.partition_point(|other| other.index < cell.index);
                let left = matrix::left(plan, &planned[rest..]);
                let record = self.cell(cell, planned.len(), left)?;
                match self.measured(record)? {
                    Next::Continue => {}
                    Next::SkipLadder(why) => skipping = Some(why),
                    Next::Stop(why) => {
                        let rest = cells.iter().filter(|other| other.index > cell.index);
                        rest.for_each(|other| self.skip(other, &format!("not started: {why}")));
                        return Ok(RunEnd::Stopped(why));
                    }
                }
            }
            self.plans_after(plans, program);
            self.save()?;
        }
        Ok(RunEnd::Completed)
    }

    /// Takes a cell's record in, and says what follows from it.
    ///
    /// # Errors
    /// The user's wish to end; the server's death; the records could not be written.
    pub(super) fn measured(&mut self, record: CellRecord) -> Result<Next, SessionError> {
        let next = next(self.plan, &record);
        let interrupted = record.status == CellStatus::Interrupted;
        self.run.cells.push(record);
        self.save()?;
        if let Some(death) = self.server.death() {
            return Err(death.into());
        }
        // Also after the last cell: a run with an interrupted cell is not complete.
        if interrupted {
            return Err(SessionError::Interrupted);
        }
        Ok(next)
    }

    /// Why a ladder that was begun before the run was cut off goes no further.
    fn ended_before(&self, first: &Cell) -> Option<String> {
        let last = self.run.cells.last()?;
        let plan = self.plan;
        let same = last.repeat == first.repeat
            && last.variant == plan.variants[first.variant].name
            && last.workload == plan.ladder.workloads[first.workload].name;
        match next(plan, last) {
            _ if !same => None,
            Next::SkipLadder(why) => Some(why),
            _ if last.status == CellStatus::Skipped => last.reason.clone(),
            _ => None,
        }
    }

    pub(super) fn keep_variant(&mut self, applied: VariantRecord) {
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
        if program.writes() || layout != TableLayout::Standard {
            self.written = true;
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
        // Interrupted: ends the run by itself.
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
