//! The soak: one long cell below the knee.

use std::time::Duration;

use super::visit::Next;
use super::{Session, SessionError};
use crate::record::{CellKind, SoakRecord};

impl Session<'_> {
    /// Holds the load that the plan asks for, or records why not.
    pub(super) fn soak(&mut self, present: &mut bool) -> Result<(), SessionError> {
        if self.plan.soak.is_none() {
            return Ok(());
        }
        let advisor = self.advisor;
        let place = match advisor.soak(self.run) {
            Ok(place) => place,
            Err(why) => {
                self.terminal.warn(format_args!("no soak: {why}"));
                self.no_soak(&why);
                return Ok(());
            }
        };
        self.record_soak(Some(place.why.clone()), None);
        self.baseline(present)?;
        self.terminal
            .say(format_args!("soak: {}, {}", place.step, place.why));
        let before = self.run.cells.len();
        let next = self.extra(CellKind::Soak, &place, Duration::ZERO)?;
        if let (Next::Stop(why), true) = (next, self.run.cells.len() == before) {
            self.terminal.warn(format_args!("no soak: {why}"));
            self.no_soak(&why);
        }
        // Any other end stands in its record, and it is the last cell.
        Ok(())
    }

    /// Records that the soak of the plan was not run.
    pub(super) fn no_soak(&mut self, why: &str) {
        self.record_soak(None, Some(why.to_owned()));
    }

    fn record_soak(&mut self, place: Option<String>, not_run: Option<String>) {
        self.run.after.soak = self.plan.soak.as_ref().map(|soak| SoakRecord {
            asked: soak.level.to_string(),
            duration: soak.duration,
            place,
            not_run,
        });
    }
}
