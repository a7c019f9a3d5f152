//! A load while it runs: shown on the screen, and watched by the guard.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use jiff::ZonedDateTime;

use super::guard::{HostCpu, outside_window};
use super::sentinel::Sentinel;
use crate::dataset::{Progress, Verdict};
use crate::plan::Guard;
use crate::target::Server;
use crate::terminal::{Bar, Terminal};
use crate::units::Ratio;

/// A line for each phase, a bar for the rows; limits of `[guard]` that make sense without transactions.
pub(super) struct Loading<'t> {
    terminal: &'t Terminal,
    guard: &'t Guard,
    /// The kinds of phase that were said.
    said: Mutex<BTreeSet<String>>,
    bar: Mutex<Option<Bar<'t>>>,
    cpu: Mutex<HostCpu>,
    sentinel: Sentinel,
}

impl<'t> Loading<'t> {
    /// Begins to watch.
    pub(super) fn new(guard: &'t Guard, server: &Server, terminal: &'t Terminal) -> Self {
        Self {
            terminal,
            guard,
            said: Mutex::default(),
            bar: Mutex::new(None),
            cpu: Mutex::new(HostCpu::new(server.identity().local)),
            sentinel: Sentinel::start(guard, server),
        }
    }
}

impl Progress for Loading<'_> {
    fn phase(&self, text: &str) {
        // `building the index on k of sbtest7`: once for all tables is enough to read.
        let kind = text.split(" of ").next().unwrap_or(text).to_owned();
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.insert(kind.clone()) {
            self.terminal.say(format_args!("  {kind}"));
        }
    }

    fn rows(&self, done: u64, total: u64) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = bar.get_or_insert_with(|| self.terminal.bar("  loading", "rows", done, total));
        bar.at(done);
    }

    fn guard(&self) -> Verdict {
        let cpu = {
            let mut cpu = self.cpu.lock().unwrap_or_else(PoisonError::into_inner);
            cpu.since_last()
        };
        judge(
            self.guard,
            outside_window(self.guard, &ZonedDateTime::now()).or_else(|| self.sentinel.why()),
            cpu,
        )
    }
}

/// A full CPU is what a load makes by itself: it pauses, and goes on when there is room again.
fn judge(guard: &Guard, why: Option<String>, cpu: Option<Ratio>) -> Verdict {
    match (why, guard.max_server_cpu, cpu) {
        (Some(why), _, _) => Verdict::End(why),
        (None, Some(limit), Some(cpu)) if cpu > limit => Verdict::Pause,
        _ => Verdict::GoOn,
    }
}

#[cfg(test)]
mod tests {
    use super::super::guard::tests::guard;
    use super::*;

    #[test]
    fn a_full_cpu_pauses_and_other_limits_end() {
        let limited = Guard {
            max_server_cpu: Some(Ratio(0.8)),
            ..guard()
        };
        assert_eq!(judge(&limited, None, Some(Ratio(0.9))), Verdict::Pause);
        assert_eq!(judge(&limited, None, Some(Ratio(0.7))), Verdict::GoOn);
        assert_eq!(judge(&limited, None, None), Verdict::GoOn);
        assert_eq!(judge(&guard(), None, Some(Ratio(1.0))), Verdict::GoOn);
        let why = "local time 12:00 is outside".to_owned();
        assert_eq!(
            judge(&limited, Some(why.clone()), Some(Ratio(0.9))),
            Verdict::End(why)
        );
    }
}
