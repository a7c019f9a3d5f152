//! What a worker counts: one [`Tally`] per interval, handed to the coordinator as a whole.

use super::recorder::Recorder;
use crate::record::{ErrorCount, Interval, Phase};

/// Counts of one worker in one interval. All fields add up over workers.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) arrivals: u64,
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) dropped: u64,
    pub(super) retries: u64,
    pub(super) reconnects: u64,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) others: u64,
    /// Client-nanoseconds connected.
    pub(super) connected: u64,
    /// Largest backlog; the one field where the maximum counts.
    pub(super) backlog: u64,
    pub(super) latency: Recorder,
    /// Open loop.
    pub(super) service: Recorder,
    /// Code, class, count. A cell that lives has a handful of kinds.
    pub(super) errors: Vec<(u16, u16, u64)>,
}

impl Tally {
    /// Counts an error.
    pub(super) fn error(&mut self, code: u16, class: u16) {
        match self
            .errors
            .iter_mut()
            .find(|(c, s, _)| (*c, *s) == (code, class))
        {
            Some((_, _, count)) => *count += 1,
            None => self.errors.push((code, class, 1)),
        }
    }

    /// Adds another worker's counts.
    pub(super) fn merge(&mut self, other: &Self) {
        self.arrivals += other.arrivals;
        self.done += other.done;
        self.failed += other.failed;
        self.dropped += other.dropped;
        self.retries += other.retries;
        self.reconnects += other.reconnects;
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
        self.connected += other.connected;
        self.backlog = self.backlog.max(other.backlog);
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
        for &(code, class, count) in &other.errors {
            match self
                .errors
                .iter_mut()
                .find(|(c, s, _)| (*c, *s) == (code, class))
            {
                Some((_, _, sum)) => *sum += count,
                None => self.errors.push((code, class, count)),
            }
        }
    }

    /// Forgets everything, keeping the memory.
    pub(super) fn clear(&mut self) {
        let (mut latency, mut service) = (
            std::mem::take(&mut self.latency),
            std::mem::take(&mut self.service),
        );
        let mut errors = std::mem::take(&mut self.errors);
        latency.clear();
        service.clear();
        errors.clear();
        *self = Self {
            latency,
            service,
            errors,
            ..Self::default()
        };
    }

    /// The record of an interval.
    pub(super) fn into_interval(self, slot: &Slot, open: bool, classes: &[String]) -> Interval {
        let mut errors: Vec<ErrorCount> = self
            .errors
            .iter()
            .map(|&(code, class, count)| ErrorCount {
                code,
                statement: classes.get(usize::from(class)).cloned().unwrap_or_default(),
                count,
            })
            .collect();
        errors.sort_by(|a, b| (a.code, &a.statement).cmp(&(b.code, &b.statement)));
        Interval {
            start: slot.start as f64 / 1e9,
            end: slot.end as f64 / 1e9,
            phase: slot.phase,
            done: self.done,
            failed: self.failed,
            dropped: self.dropped,
            arrivals: self.arrivals,
            retries: self.retries,
            reconnects: self.reconnects,
            reads: self.reads,
            writes: self.writes,
            others: self.others,
            connected_seconds: self.connected as f64 / 1e9,
            backlog: self.backlog,
            latency: self.latency.latency(),
            service: open.then(|| self.service.latency()),
            errors,
        }
    }
}

/// An interval of the cell as planned, in nanoseconds after the release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) phase: Phase,
}

/// Cuts discard and measured time into intervals; the last of each may be shorter, none has both.
pub(super) fn slots(discard: u64, measure: u64, interval: u64) -> Vec<Slot> {
    let interval = interval.max(1_000_000);
    let mut slots = Vec::new();
    let mut cut = |from: u64, to: u64, phase| {
        let mut start = from;
        while start < to {
            // A remainder below a tenth of an interval is no interval of its own.
            let end = if to - start < interval + interval / 10 {
                to
            } else {
                start + interval
            };
            slots.push(Slot { start, end, phase });
            start = end;
        }
    };
    cut(0, discard, Phase::Discard);
    cut(discard, discard + measure, Phase::Measure);
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slots_tile_the_cell(
            discard in 0..100_000_000_000u64,
            measure in 1..400_000_000_000u64,
            interval in 1_000_000_000..20_000_000_000u64,
        ) {
            let slots = slots(discard, measure, interval);
            let mut at = 0;
            for slot in &slots {
                prop_assert_eq!(slot.start, at);
                prop_assert!(slot.end > slot.start);
                prop_assert_eq!(slot.phase == Phase::Discard, slot.end <= discard);
                at = slot.end;
            }
            prop_assert_eq!(at, discard + measure);
        }
    }

    #[test]
    fn tallies_add_up() {
        let mut a = Tally::default();
        a.error(1213, 2);
        a.latency.record(5);
        a.backlog = 7;
        let mut b = Tally::default();
        b.error(1213, 2);
        b.error(0, 1);
        b.done = 3;
        b.latency.record(9);
        b.backlog = 2;
        a.merge(&b);
        assert_eq!(a.errors, [(1213, 2, 2), (0, 1, 1)]);
        assert_eq!((a.done, a.backlog, a.latency.count()), (3, 7, 2));
        a.clear();
        assert_eq!(
            (a.done, a.backlog, a.latency.count(), a.errors.len()),
            (0, 0, 0, 0)
        );
    }
}
