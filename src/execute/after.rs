//! What follows the ladder, on the baseline: reference cells, refining the knee, the soak.

use std::time::Duration;

use super::guard::outside_window;
use super::visit::Next;
use super::{Session, SessionError};
use crate::matrix::{self, Cell};
use crate::plan::Plan;
use crate::record::{CellKind, NextCell, Run, RunEnd};

/// What the measurements so far ask for. The conclusions are drawn elsewhere; the run only carries them out.
pub trait Advisor {
    /// Where the baseline is measured once more, so that drift shows.
    fn references(&self, run: &Run) -> Vec<NextCell>;

    /// The next cell that narrows the knee; `None`: nothing would narrow it further.
    fn refine(&self, run: &Run) -> Option<NextCell>;

    /// Where the soak runs.
    ///
    /// # Errors
    /// Why it cannot.
    fn soak(&self, run: &Run) -> Result<NextCell, String>;
}

impl Session<'_> {
    /// Everything after the ladder. The baseline is applied again where the last pass ended with another
    /// variant, and only once for all of it.
    pub(super) fn after_ladder(&mut self, planned: &[Cell]) -> Result<RunEnd, SessionError> {
        let advisor = self.advisor;
        let references = if matrix::closes_with_reference(self.plan) {
            advisor.references(self.run)
        } else {
            Vec::new()
        };
        let refining = self.plan.ladder.refine && advisor.refine(self.run).is_some();
        if references.is_empty() && !refining && self.plan.soak.is_none() {
            self.note_refining();
            return Ok(RunEnd::Completed);
        }
        // A run that was taken up again after its ladder has nothing on its server yet.
        let mut present = planned.last().map_or(0, |cell| cell.variant) == 0 && !self.first_start();
        for (place, to_come) in references.iter().zip((0..references.len()).rev()) {
            self.baseline(&mut present)?;
            let after = matrix::after_references(self.plan, to_come);
            if let Next::Stop(why) = self.extra(CellKind::Reference, place, after)? {
                return Ok(RunEnd::Stopped(why));
            }
        }
        if let Some(why) = self.refine(&mut present)? {
            self.no_soak("the run ended before");
            return Ok(RunEnd::Stopped(why));
        }
        self.soak(&mut present)?;
        Ok(RunEnd::Completed)
    }

    /// The baseline as at the start of a visit, unless it is there.
    pub(super) fn baseline(&mut self, present: &mut bool) -> Result<(), SessionError> {
        if !*present {
            self.begin(0, next_index(self.run))?;
            *present = true;
        }
        Ok(())
    }

    /// Measures a cell that is not in the plan's matrix, on the baseline. `after`: what the run will take once it
    /// has ended.
    pub(super) fn extra(
        &mut self,
        kind: CellKind,
        at: &NextCell,
        after: Duration,
    ) -> Result<Next, SessionError> {
        if self.interrupt.raised() {
            return Err(SessionError::Interrupted);
        }
        let Some(cell) = cell_at(self.plan, self.run, kind, at) else {
            return Ok(Next::Continue);
        };
        if let Some(why) = outside_window(&self.plan.guard, &jiff::ZonedDateTime::now()) {
            return Ok(Next::Stop(why));
        }
        self.server.keep_lock()?;
        self.begin_cell(&cell)?;
        let length = if kind == CellKind::Soak {
            matrix::soak_time(self.plan)
        } else {
            matrix::cell_time(self.plan)
        };
        let record = self.cell(&cell, 0, length.saturating_add(after))?;
        self.measured(record)
    }
}

fn next_index(run: &Run) -> u32 {
    run.cells.iter().map(|cell| cell.index).max().unwrap_or(0) + 1
}

/// The cell after all that were run; `None`: the plan has no such workload.
fn cell_at(plan: &Plan, run: &Run, kind: CellKind, at: &NextCell) -> Option<Cell> {
    let workload = plan
        .ladder
        .workloads
        .iter()
        .position(|program| program.name == at.workload)?;
    // A pass of its own: the runs of a step are told apart by it.
    let runs = run.cells.iter().filter(|cell| {
        cell.variant == plan.variants[0].name
            && cell.workload == at.workload
            && cell.step == at.step
            && cell.kind.is_step()
    });
    let repeat = match kind {
        CellKind::Soak => 1,
        _ => u32::try_from(runs.count())
            .unwrap_or(u32::MAX)
            .saturating_add(1),
    };
    Some(Cell {
        index: next_index(run),
        repeat,
        variant: 0,
        workload,
        step: at.step,
        clients: matrix::clients(plan, at.step),
        kind,
    })
}
