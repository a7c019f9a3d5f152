//! From an open server to a finished record: the order of things in a run.

use std::collections::BTreeMap;

use thiserror::Error;

use super::comparable::Ground;
use super::{Advisor, cell, data};
use crate::dataset::{self, DatasetError, Resolved};
use crate::interrupt::Interrupt;
use crate::load::LoadError;
use crate::matrix::{self, Cell};
use crate::plan::Plan;
use crate::record::{CellStatus, Run, RunEnd};
use crate::target::{Journal, Operator, Server, TargetError};
use crate::terminal::Terminal;

/// What ends a run outside a cell.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The server.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The data.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Files that were put back are not what was copied.
    #[error(
        "the data that was put back from the copy of its files is not what was loaded\nhint: something else writes into the private server's folder, or its disk loses data"
    )]
    Copy,
    /// A run that was taken up again finds other data.
    #[error(
        "the data is not that of the run: it had {known}, and there are {found}\nhint: run the plan anew"
    )]
    OtherData {
        /// What the run had.
        known: String,
        /// What there is.
        found: String,
    },
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
            Self::Interrupted | Self::Warmup(LoadError::Interrupted) => true,
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
    /// What the measurements so far ask for next.
    pub advisor: &'a dyn Advisor,
    /// The screen.
    pub terminal: &'a Terminal,
    /// The user's wish to end.
    pub interrupt: &'a Interrupt,
    /// The size of the data, once it is ready.
    pub resolved: Option<Resolved>,
    /// What all cells must find alike.
    pub ground: Ground,
    /// All settings of the server as the present variant was applied: what every cell of it must find.
    pub expected: BTreeMap<String, String>,
    /// Whether anything has written to the data since it was prepared or put back.
    pub written: bool,
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
        let mut end = RunEnd::Completed;
        // Those of a run that was taken up again.
        let ended = self.run.cells.last().map_or(0, |last| last.index);
        let rest: Vec<Cell> = cells
            .iter()
            .filter(|cell| cell.index > ended)
            .copied()
            .collect();
        for visit in matrix::visits(&rest) {
            if let RunEnd::Completed = end {
                end = self.visit(visit, cells)?;
            } else {
                let RunEnd::Stopped(why) = &end else { break };
                let why = format!("not started: {why}");
                for cell in visit {
                    self.skip(cell, &why);
                }
            }
        }
        if let RunEnd::Completed = end {
            end = self.after_ladder(cells)?;
        } else {
            self.no_soak("the run ended before");
        }
        // A private server goes as it is.
        if !self.server.is_managed() {
            self.server
                .undo_variant(self.journal, &AtScreen(self.terminal, self.interrupt))?;
        }
        self.clean_up()?;
        Ok(end)
    }

    /// Makes the data ready, or recognises it.
    ///
    /// # Errors
    /// The server's, or a table that is not ours.
    pub fn prepare(&mut self) -> Result<(), SessionError> {
        let resolved = data::resolve(self.plan, self.server)?;
        let facts = match data::kept(self.plan, self.server, &resolved, self.terminal)? {
            Some(facts) => facts,
            None => data::ready(
                self.plan,
                self.server,
                &resolved,
                self.terminal,
                self.interrupt,
            )?,
        };
        self.terminal.say(format_args!(
            "data: {} tables of {} rows, {} with index ({})",
            facts.tables, facts.rows, facts.bytes, facts.origin
        ));
        if let Some(known) = &self.run.dataset
            && (known.tables, known.rows) != (facts.tables, facts.rows)
        {
            return Err(SessionError::OtherData {
                known: format!("{} tables of {} rows", known.tables, known.rows),
                found: format!("{} tables of {} rows", facts.tables, facts.rows),
            });
        }
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
        self.keep_data(matrix::estimate(self.plan).loads)?;
        self.save()
    }

    /// Drops the tables at the end of a run whose plan does not keep them.
    fn clean_up(&mut self) -> Result<(), SessionError> {
        let dataset = &self.plan.dataset;
        if dataset.keep || dataset.existing || self.server.is_managed() {
            return Ok(());
        }
        let cleaned = dataset::cleanup(self.server.admin_endpoint(), &self.plan.target.database)?;
        if cleaned.database_left {
            // The lease is still in it, and takes it along.
            self.journal.owns_database();
        }
        Ok(())
    }

    pub(super) fn skip(&mut self, cell: &Cell, why: &str) {
        self.run.cells.push(cell::blank(
            self.plan,
            cell,
            CellStatus::Skipped,
            Some(why.to_owned()),
        ));
    }

    pub(super) fn save(&mut self) -> Result<(), SessionError> {
        (self.save)(self.run).map_err(SessionError::Save)
    }
}

/// A person at the screen who changes what capbench cannot.
pub struct AtScreen<'a>(pub &'a Terminal, pub &'a Interrupt);

impl Operator for AtScreen<'_> {
    fn ask(&self, request: &str) -> bool {
        self.0.ask(request, self.1)
    }
}
