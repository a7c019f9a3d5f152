//! Open loop: when transactions become due, and which wait.

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::plan::Arrivals as Spacing;

/// An arrival that a client takes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// When it became due, nanoseconds on the engine's clock.
    pub(super) due: u64,
    /// Its number, from 0: decides what it asks.
    pub(super) number: u64,
}

/// What [`Arrivals::advance`] saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Advance {
    pub(super) arrived: u64,
    pub(super) dropped: u64,
    /// Largest backlog on the way.
    pub(super) backlog: u64,
}

/// The arrival process and its queue, shared by all workers.
#[derive(Debug)]
pub(super) struct Arrivals {
    spacing: Spacing,
    /// Mean gap in nanoseconds.
    gap: f64,
    rng: Xoshiro256PlusPlus,
    start: u64,
    /// Arrivals that are still waiting here when the measured time begins are dropped.
    discard_until: u64,
    end: u64,
    /// Due instant of the next arrival after `start`, kept as f64 so that gaps below a nanosecond add up.
    next: f64,
    number: u64,
    capacity: usize,
    queue: VecDeque<Arrival>,
}

impl Arrivals {
    /// `rate` per second, from `start` on (set by [`Arrivals::release`]).
    pub(super) fn new(rate: f64, spacing: Spacing, backlog: u32, seed: u64) -> Self {
        let mut arrivals = Self {
            spacing,
            gap: 1e9 / rate.max(1e-9),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            start: 0,
            discard_until: 0,
            end: u64::MAX,
            next: 0.0,
            number: 0,
            capacity: backlog as usize,
            queue: VecDeque::new(),
        };
        arrivals.step();
        arrivals
    }

    /// The clock of the cell starts at `start`; the measured time at `discard_until`; nothing arrives from `end` on.
    pub(super) fn release(&mut self, start: u64, discard_until: u64, end: u64) {
        (self.start, self.discard_until, self.end) = (start, discard_until, end);
    }

    fn step(&mut self) {
        self.next += match self.spacing {
            Spacing::Even => self.gap,
            // Inverse transform of the exponential distribution; 1−u lies in (0, 1].
            Spacing::Poisson => -(1.0 - self.rng.random::<f64>()).ln() * self.gap,
        };
    }

    /// When the next arrival becomes due.
    pub(super) fn next_due(&self) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and saturating is right"
        )]
        self.start.saturating_add(self.next as u64)
    }

    /// Lets everything arrive that is due at `now`. `idle` clients wait: as many arrivals need no room in
    /// the backlog, since they are taken up at once.
    pub(super) fn advance(&mut self, now: u64, idle: usize) -> Advance {
        let mut seen = Advance::default();
        loop {
            let due = self.next_due();
            if self.discard_until <= now && self.discard_until <= due && self.discard_until > 0 {
                // The measured time starts without the backlog of the discard.
                seen.dropped += self.queue.len() as u64;
                self.queue.clear();
                self.discard_until = 0;
            }
            if due > now || due >= self.end {
                return seen;
            }
            seen.arrived += 1;
            let number = self.number;
            self.number += 1;
            self.step();
            if self.queue.len() < self.capacity.saturating_add(idle) {
                self.queue.push_back(Arrival { due, number });
                seen.backlog = seen
                    .backlog
                    .max(self.queue.len().saturating_sub(idle) as u64);
            } else {
                seen.dropped += 1;
            }
        }
    }

    /// The arrival that has waited longest.
    pub(super) fn take(&mut self) -> Option<Arrival> {
        self.queue.pop_front()
    }

    /// The client that took it cannot serve it: it waits on, first in line.
    pub(super) fn put_back(&mut self, arrival: Arrival) {
        self.queue.push_front(arrival);
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> u64 {
        self.queue.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_arrivals_come_at_their_instants() {
        let mut arrivals = Arrivals::new(1000.0, Spacing::Even, 10, 1);
        arrivals.release(500, 0, u64::MAX);
        assert_eq!(arrivals.next_due(), 1_000_500);
        assert_eq!(arrivals.advance(1_000_499, 0).arrived, 0);
        assert_eq!(arrivals.advance(3_000_500, 0).arrived, 3);
        assert_eq!(
            arrivals.take(),
            Some(Arrival {
                due: 1_000_500,
                number: 0
            })
        );
    }

    #[test]
    fn poisson_arrivals_have_their_rate_and_spread() {
        let mut arrivals = Arrivals::new(10_000.0, Spacing::Poisson, u32::MAX, 7);
        arrivals.release(0, 0, u64::MAX);
        // 100 s: a million arrivals, standard deviation 1,000.
        let arrived = arrivals.advance(100_000_000_000, 0).arrived;
        assert!((995_000..1_005_000).contains(&arrived), "{arrived}");
        let mut gaps = Vec::new();
        let mut last = 0;
        while let Some(arrival) = arrivals.take() {
            gaps.push((arrival.due - last) as f64);
            last = arrival.due;
        }
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Exponential: the coefficient of variation is 1.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_full_backlog_drops_and_every_arrival_is_counted() {
        let mut arrivals = Arrivals::new(1000.0, Spacing::Even, 5, 1);
        arrivals.release(0, 0, u64::MAX);
        let seen = arrivals.advance(20_000_000, 2);
        assert_eq!(
            (seen.arrived, seen.dropped, arrivals.waiting()),
            (20, 13, 7)
        );
        assert_eq!(seen.backlog, 5);
    }

    #[test]
    fn the_backlog_of_the_discard_does_not_reach_the_measured_time() {
        let mut arrivals = Arrivals::new(1000.0, Spacing::Even, 100, 1);
        arrivals.release(0, 10_000_000, 30_000_000);
        let seen = arrivals.advance(25_500_000, 0);
        // 1..9 ms wait and are dropped at 10 ms; 10..25 ms are of the measured time.
        assert_eq!(
            (seen.arrived, seen.dropped, arrivals.waiting()),
            (25, 9, 16)
        );
        assert_eq!(arrivals.take().map(|a| a.due), Some(10_000_000));
        // Nothing arrives from the end on.
        assert_eq!(arrivals.advance(u64::MAX, 0).arrived, 4);
    }
}
