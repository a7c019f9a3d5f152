//! Open loop: when transactions become due, and which wait.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

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
    /// Instants after `start` at which the next arrivals become due, as far as anyone has looked: at least
    /// one. Kept as f64 so that gaps below a nanosecond add up.
    ahead: VecDeque<f64>,
    /// Number of the first of them.
    number: u64,
    capacity: usize,
    queue: VecDeque<Arrival>,
}

impl Arrivals {
    /// `rate` per second, from `start` on (set by [`Arrivals::release`]).
    pub(super) fn new(rate: f64, spacing: Spacing, backlog: u32, seed: u64) -> Self {
        Self {
            spacing,
            gap: 1e9 / rate.max(1e-9),
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            start: 0,
            discard_until: 0,
            end: u64::MAX,
            ahead: VecDeque::from([0.0]),
            number: 0,
            capacity: backlog as usize,
            queue: VecDeque::new(),
        }
        .started()
    }

    /// The first arrival comes after a gap too.
    fn started(mut self) -> Self {
        self.step();
        self
    }

    /// The clock of the cell starts at `start`; the measured time at `discard_until`; nothing arrives from `end` on.
    pub(super) fn release(&mut self, start: u64, discard_until: u64, end: u64) {
        (self.start, self.discard_until, self.end) = (start, discard_until, end);
    }

    /// Goes on to the next arrival.
    fn step(&mut self) {
        let passed = self.instant(0);
        self.ahead.pop_front();
        if self.ahead.is_empty() {
            let next = self.after(passed);
            self.ahead.push_back(next);
        }
    }

    /// The instant of the arrival after the one at `instant`.
    fn after(&mut self, instant: f64) -> f64 {
        instant
            + match self.spacing {
                Spacing::Even => self.gap,
                // Inverse transform of the exponential distribution; 1−u lies in (0, 1].
                Spacing::Poisson => -(1.0 - self.rng.random::<f64>()).ln() * self.gap,
            }
    }

    /// The instant of the next arrival but `further`.
    fn instant(&mut self, further: usize) -> f64 {
        let mut last = self.ahead.back().copied().unwrap_or(0.0);
        while self.ahead.len() <= further {
            last = self.after(last);
            self.ahead.push_back(last);
        }
        self.ahead[further]
    }

    fn due(&mut self, further: usize) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and saturating is right"
        )]
        self.start.saturating_add(self.instant(further) as u64)
    }

    /// When the next arrival becomes due.
    pub(super) fn next_due(&mut self) -> u64 {
        self.due(0)
    }

    /// When worker `worker` has to be awake: the next of the arrivals that fall to it. They are dealt in
    /// turn among the workers, of which `idle` tells the waiting clients; one that has none is passed over.
    /// So each arrival wakes one worker and not all, and all share the work.
    pub(super) fn next_for(&mut self, worker: usize, idle: &[AtomicU32]) -> Option<u64> {
        let workers = idle.len();
        let waits = |w: usize| idle[w % workers].load(Ordering::SeqCst) > 0;
        if !waits(worker) {
            return None;
        }
        (0..workers)
            .find(|further| {
                let turn = (self.number + *further as u64) % workers as u64;
                let first = usize::try_from(turn).unwrap_or(0);
                let taker = (first..first + workers).find(|w| waits(*w));
                taker.is_some_and(|taker| taker % workers == worker)
            })
            .map(|further| self.due(further))
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
    fn each_arrival_wakes_one_worker() {
        for spacing in [Spacing::Even, Spacing::Poisson] {
            let idle: Vec<AtomicU32> = [2, 1, 3].map(AtomicU32::new).into();
            let mut arrivals = Arrivals::new(1000.0, spacing, 10, 1);
            arrivals.release(0, 0, u64::MAX);
            let mut plain = Arrivals::new(1000.0, spacing, 10, 1);
            plain.release(0, 0, u64::MAX);
            for number in 0..30 {
                // The second has nobody to take them for a while: its arrivals fall to the third.
                idle[1].store(u32::from(number < 10), Ordering::SeqCst);
                let due = plain.next_due();
                let takers: Vec<usize> = (0..3)
                    .filter(|w| arrivals.next_for(*w, &idle) == Some(due))
                    .collect();
                let expected = match number % 3 {
                    1 if number >= 10 => 2,
                    turn => turn,
                };
                assert_eq!(takers, [expected], "{number}");
                // Looking ahead changes no instant.
                assert_eq!(arrivals.next_due(), due);
                assert_eq!(arrivals.advance(due, 6), plain.advance(due, 6));
            }
            for waiting in &idle {
                waiting.store(0, Ordering::SeqCst);
            }
            assert_eq!(arrivals.next_for(0, &idle), None);
        }
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
