//! Making a step longer until it is steady.

use std::sync::{Mutex, PoisonError};

use crate::plan::Ladder;
use crate::record::{Interval, Phase};
use crate::steady;

/// Watches the throughput of a step whose measured time may be made longer.
#[derive(Debug)]
pub(super) struct Extension {
    /// Measured seconds that a step has at least.
    measure: f64,
    /// Seconds of an interval as planned.
    interval: f64,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    throughputs: Vec<f64>,
    seconds: f64,
}

impl Extension {
    /// `None` when the plan does not ask for it.
    pub(super) fn of(ladder: &Ladder) -> Option<Self> {
        ladder.until_steady.map(|_| Self {
            measure: ladder.measure.seconds(),
            interval: ladder.interval.seconds(),
            seen: Mutex::default(),
        })
    }

    /// Whether the step has been measured for long enough: the plan's time is over, and it is steady.
    pub(super) fn enough(&self, interval: &Interval) -> bool {
        if interval.phase != Phase::Measure || interval.seconds() <= 0.0 {
            return false;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.throughputs
            .push(interval.done as f64 / interval.seconds());
        seen.seconds += interval.seconds();
        // Intervals end a little early or late; a step is never made longer for that.
        seen.seconds >= self.measure - 0.01 * self.interval
            && steady::cut(&seen.throughputs, self.interval).steady
    }

    /// Seconds beyond the plan's measured time.
    pub(super) fn beyond(&self) -> f64 {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let beyond = seen.seconds - self.measure;
        if beyond < 0.5 * self.interval {
            0.0
        } else {
            beyond
        }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use super::*;

    fn extension() -> Extension {
        Extension {
            measure: 120.0,
            interval: 10.0,
            seen: Mutex::default(),
        }
    }

    fn interval(n: u32, done: u64, phase: Phase) -> Interval {
        let start = f64::from(n) * 10.0;
        Interval {
            done,
            ..Interval::empty(start, start + 10.0, phase)
        }
    }

    #[test]
    fn a_steady_step_ends_with_the_plans_time() {
        let extension = extension();
        assert!(!extension.enough(&interval(0, 1, Phase::Discard)));
        for n in 0..11 {
            let jitter = u64::from(n % 3);
            assert!(!extension.enough(&interval(n, 1000 + jitter, Phase::Measure)));
        }
        assert!(extension.enough(&interval(11, 1000, Phase::Measure)));
        assert_eq!(extension.beyond(), 0.0);
    }

    #[test]
    fn a_falling_step_goes_on_until_it_has_settled() {
        let extension = extension();
        let mut end = None;
        for n in 0..90 {
            let done = 10_000 - 500 * u64::from(n.min(15)) + u64::from(n % 2);
            if extension.enough(&interval(n, done, Phase::Measure)) {
                end = Some(n + 1);
                break;
            }
        }
        assert!(end.is_some_and(|n| n > 16), "{end:?}");
        assert_eq!(
            extension.beyond(),
            f64::from(end.unwrap_or(0)) * 10.0 - 120.0
        );
    }
}
