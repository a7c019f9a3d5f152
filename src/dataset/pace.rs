//! How fast rows may be sent: a rate that the plan sets, and pauses that the guard asks for.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest sleep before looking again whether all is to end.
const NAP: Duration = Duration::from_millis(50);

/// Shared by all connections of a load. Rows are due one after another at the rate, as if from one queue.
#[derive(Debug)]
pub(super) struct Pace {
    /// Time of one row; `None`: no limit.
    row: Option<Duration>,
    /// When the next block may go.
    due: Mutex<Instant>,
    paused: AtomicBool,
    ended: AtomicBool,
}

impl Pace {
    /// `rate`: rows per second of all tables together; `None`: as fast as it goes.
    pub(super) fn new(rate: Option<u64>) -> Self {
        Self {
            row: rate.map(|rate| Duration::from_secs(1).div_f64(rate.max(1) as f64)),
            due: Mutex::new(Instant::now()),
            paused: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        }
    }

    /// Holds all connections back, or lets them go on.
    pub(super) fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
    }

    /// Nobody waits any longer.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Waits until the rows of these ids may be sent.
    pub(super) fn wait(&self, ids: Range<u64>) {
        if let Some(row) = self.row {
            let rows = ids.end - ids.start;
            let turn = {
                let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
                // Time that nobody used is gone: after a pause the rate is the rate.
                let turn = (*due).max(Instant::now());
                *due = turn + row.mul_f64(rows as f64);
                turn
            };
            self.sleep_while(|| Instant::now() < turn);
        }
        self.sleep_while(|| self.paused.load(Ordering::Relaxed));
    }

    fn sleep_while(&self, waiting: impl Fn() -> bool) {
        while waiting() && !self.ended.load(Ordering::Relaxed) {
            std::thread::sleep(NAP.min(self.row.map_or(NAP, |row| row.mul_f64(100.0))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_take_turns_at_the_rate() {
        let pace = Pace::new(Some(100_000));
        let started = Instant::now();
        for block in 0..5 {
            pace.wait(block * 1_000..(block + 1) * 1_000);
        }
        // The first goes at once, the fifth after four times ten milliseconds.
        assert!(started.elapsed() >= Duration::from_millis(40));
    }

    #[test]
    fn an_end_wakes_who_waits() {
        let pace = Pace::new(Some(1));
        pace.pause(true);
        pace.end();
        // Would be two thousand seconds.
        pace.wait(0..1_000);
        pace.wait(0..1_000);
    }
}
