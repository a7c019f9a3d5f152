//! Refining the ladder: the steps that decide the knee, within a budget.

use std::time::Instant;

use super::visit::Next;
use super::{Session, SessionError};
use crate::matrix;
use crate::record::{CellKind, RefineRecord};

/// No refinement needs more cells; only keeps the loop bounded.
const MOST_CELLS: u32 = 1000;

impl Session<'_> {
    /// Runs what narrows the knee until nothing does or the budget is used up. Returns why the run must end.
    pub(super) fn refine(&mut self, present: &mut bool) -> Result<Option<String>, SessionError> {
        let ladder = &self.plan.ladder;
        if !ladder.refine {
            return Ok(None);
        }
        let budget = ladder.refine_budget;
        let cell = ladder.discard.0 + ladder.until_steady.unwrap_or(ladder.measure).0;
        let advisor = self.advisor;
        let mut started: Option<Instant> = None;
        for _ in 0..MOST_CELLS {
            let Some(place) = advisor.refine(self.run) else {
                break;
            };
            // Applying the baseline again is no part of the budget: what narrows the knee is the cells.
            self.baseline(present)?;
            let used = started.get_or_insert_with(Instant::now).elapsed();
            if used + cell > budget.0 {
                self.ended_refining(&format!(
                    "the budget of {budget} was used up; next would have come {} {} ({})",
                    place.workload, place.step, place.why
                ));
                return Ok(None);
            }
            self.terminal
                .say(format_args!("refining: {}, {}", place.step, place.why));
            let after = budget.0.saturating_sub(used + cell) + matrix::soak_time(self.plan);
            match self.extra(CellKind::Refined, &place, after)? {
                Next::Continue => {}
                Next::SkipLadder(why) => {
                    self.ended_refining(&why);
                    return Ok(None);
                }
                Next::Stop(why) => {
                    self.ended_refining(&why);
                    return Ok(Some(why));
                }
            }
        }
        self.note_refining();
        Ok(None)
    }

    /// Nothing is left to refine.
    pub(super) fn note_refining(&mut self) {
        if self.plan.ladder.refine {
            self.ended_refining("no step is left that would narrow the knee");
        }
    }

    fn ended_refining(&mut self, why: &str) {
        self.terminal.say(format_args!("refining ended: {why}"));
        self.run.after.refine = Some(RefineRecord {
            budget: self.plan.ladder.refine_budget,
            ended: why.to_owned(),
        });
    }
}
