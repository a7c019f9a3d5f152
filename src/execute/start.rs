//! How a variant, or a cell with data of its own, begins: the variant applied, the data as it was at first, the
//! server settled, its caches warm. All of them begin alike.

use std::time::Instant;

use super::session::AtScreen;
use super::{Session, SessionError, data};
use crate::matrix::Cell;
use crate::plan::{Reset, Variant};
use crate::record::{SettleStep, StartRecord};
use crate::target::Anew;

impl Session<'_> {
    /// Brings the server to the state in which the cell of this number, and those after it, find it.
    pub(super) fn begin(&mut self, variant: usize, cell: u32) -> Result<(), SessionError> {
        // After the user's wish to end nothing is applied, dropped or loaded any more.
        if self.interrupt.raised() {
            return Err(SessionError::Interrupted);
        }
        let plan = self.plan;
        let variant = &plan.variants[variant];
        let known = self
            .run
            .starts
            .last()
            .is_some_and(|last| last.variant == variant.name);
        if plan.variants.len() > 1 && !known {
            self.terminal
                .say(format_args!("variant `{}`", variant.name));
        }
        let first = self.first_start();
        let reset = plan.dataset.reset != Reset::Never && !first;
        let copy = self.server.has_copy();
        let written = self.written;
        let started = Instant::now();
        if reset && copy {
            // Unchanged data too begins on a server that was just started, as the first variant's does.
            self.server.start_anew(if written {
                Anew::Restore
            } else {
                Anew::Restart
            });
            if written {
                self.terminal
                    .say("putting the data back from the copy of its files");
            }
        }
        self.apply(variant)?;
        let data = match (reset, copy, written) {
            (true, true, true) => {
                self.check_copy()?;
                "put back from the copy of its files"
            }
            (true, true, false) => "unchanged; the server was restarted",
            (true, false, true) => {
                self.reset()?;
                "loaded again"
            }
            (_, _, false) => "unchanged",
            (false, _, true) => "as the cells before left it",
        };
        // The first to begin finds the data as it was just made ready.
        let data = match &self.run.dataset {
            Some(facts) if first && self.run.resumed.is_empty() => facts.origin.clone(),
            Some(facts) if first => {
                format!("{} when the run was taken up again", facts.origin)
            }
            _ => data.to_owned(),
        };
        let seconds = (reset && (copy || written)).then(|| started.elapsed().as_secs_f64());
        if reset {
            self.written = false;
        }
        let settled = self.settle()?;
        let warmup = self.warm_up()?;
        self.run.starts.push(StartRecord {
            variant: variant.name.clone(),
            cell,
            data,
            seconds,
            settled,
            warmup,
        });
        Ok(())
    }

    /// Whether nothing has begun since the data was made ready, when the run began or was taken up again.
    pub(super) fn first_start(&self) -> bool {
        let before = self.run.resumed.last().map_or(0, |again| again.after_cell);
        self.run
            .starts
            .last()
            .is_none_or(|start| start.cell <= before)
    }

    /// Begins a cell that has data of its own, unless it has begun already as the first of its variant.
    pub(super) fn begin_cell(&mut self, cell: &Cell) -> Result<(), SessionError> {
        let begun = self
            .run
            .starts
            .last()
            .is_some_and(|last| last.cell == cell.index);
        if self.plan.dataset.reset == Reset::PerCell && self.written && !begun {
            self.begin(cell.variant, cell.index)?;
        }
        Ok(())
    }

    fn apply(&mut self, variant: &Variant) -> Result<(), SessionError> {
        let applied = self.server.apply_variant(
            self.plan,
            variant,
            self.journal,
            &AtScreen(self.terminal, self.interrupt),
        )?;
        self.keep_variant(applied);
        self.expected = self.server.as_applied().clone();
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
        Ok(())
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

    /// A copy that was put back must be what was copied.
    fn check_copy(&mut self) -> Result<(), SessionError> {
        let Some(resolved) = self.resolved else {
            return Ok(());
        };
        match data::recognise(self.plan, self.server, &resolved)? {
            Some(_) => Ok(()),
            None => Err(SessionError::Copy),
        }
    }

    fn settle(&mut self) -> Result<Vec<SettleStep>, SessionError> {
        let limit = self.plan.warmup.settle;
        let steps = self.server.settle(limit.0, self.journal)?;
        let late: Vec<String> = steps
            .iter()
            .filter(|step| step.timed_out)
            .map(|step| {
                let number = |n: Option<f64>| n.map_or("n/a".to_owned(), |n| n.to_string());
                format!(
                    "{} {} (settled: {} or less)",
                    step.name,
                    number(step.after),
                    number(step.limit)
                )
            })
            .collect();
        if !late.is_empty() {
            self.warn_once(
                "not-settled",
                format!(
                    "the server had not settled {limit} after its data was ready: {}; what it still does is part of the first steps",
                    late.join(", ")
                ),
            );
        }
        Ok(steps)
    }

    /// A warning of the run; of one that was raised already, only the first words are kept.
    pub(super) fn warn_once(&mut self, name: &str, text: String) {
        let warning = self.plan.warning(name, text);
        self.terminal.warning(&warning);
        if self.run.warnings.iter().all(|known| known.name != name) {
            self.run.warnings.push(warning);
        }
    }

    /// Copies the prepared data of a private server where that saves loading it again, here or in a later run.
    pub(super) fn keep_data(&mut self, loads: u32) -> Result<(), SessionError> {
        let had = self.server.has_copy();
        if self.server.copies_data(loads > 1) {
            self.terminal
                .say("copying the files of the data, with the server shut down");
        }
        let keeping = self.server.keep_data(loads > 1)?;
        for note in &keeping.notes {
            self.terminal.say(format_args!("note: {note}"));
        }
        if let Some(bytes) = keeping.kept.filter(|_| !had) {
            self.terminal.say(format_args!(
                "the data is kept for later runs: {bytes} (`capbench cache list`; stopped and copied in {:.1} s)",
                keeping.seconds
            ));
        }
        Ok(())
    }
}
