//! The calling thread's part of a cell: waits for the clients, releases them, gathers their counts.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

use super::recorder::Recorder;
use super::shared::{NEVER, Shared, lock};
use super::spec::{Flow, LoadError, LoadOutcome, Observer, Totals};
use super::tally::{Slot, Tally};
use super::usage::{process_cpu, resident};
use super::worker::{Message, Report, Spare};
use crate::interrupt::Interrupt;
use crate::record::{CellStatus, ClientUsage, Interval, StatementRecord};
use crate::units::{Millis, Ratio};

/// How often the coordinator looks at the interrupt.
const TICK: Duration = Duration::from_millis(50);

/// The calling thread's part.
pub(super) struct Coordinator<'a> {
    shared: &'a Shared<'a>,
    observer: &'a dyn Observer,
    interrupt: &'a Interrupt,
    inbox: Receiver<Message>,
    spare: Spare,
    workers: usize,
    clients: u32,
    /// By slot: what has come so far, and from how many workers.
    gathering: BTreeMap<usize, (Tally, usize)>,
    intervals: Vec<Interval>,
    reports: Vec<Report>,
    stopped: Option<String>,
    interrupted: bool,
    cpu_from: Option<(f64, f64)>,
    cpu_to: Option<(f64, f64)>,
    started_at: Option<SystemTime>,
}

impl<'a> Coordinator<'a> {
    /// For `workers` workers that write into `inbox` and take used tallies from `spare`.
    pub(super) fn new(
        shared: &'a Shared<'a>,
        observer: &'a dyn Observer,
        interrupt: &'a Interrupt,
        inbox: Receiver<Message>,
        spare: Spare,
        workers: usize,
    ) -> Self {
        Self {
            shared,
            observer,
            interrupt,
            inbox,
            spare,
            workers,
            clients: shared.spec.pace.clients().max(1),
            gathering: BTreeMap::new(),
            intervals: Vec::new(),
            reports: Vec::new(),
            stopped: None,
            interrupted: false,
            cpu_from: None,
            cpu_to: None,
            started_at: None,
        }
    }

    /// From the first connection to the outcome. `all_gone`: whether all workers have ended.
    pub(super) fn run(&mut self, all_gone: &dyn Fn() -> bool) -> Result<LoadOutcome, LoadError> {
        if let Err(error) = self.wait_for_connections(all_gone) {
            self.shared.abort.store(true, Ordering::SeqCst);
            self.shared.wake();
            return Err(error);
        }
        self.observer.connected(self.clients);
        self.release();
        self.observer.released();
        self.gather(all_gone);
        Ok(self.outcome())
    }

    fn wait_for_connections(&mut self, all_gone: &dyn Fn() -> bool) -> Result<(), LoadError> {
        let limit = self.shared.spec.options.connect_timeout;
        let deadline = Instant::now() + limit.0;
        let mut ready = 0;
        while ready < self.workers {
            match self.inbox.recv_timeout(TICK) {
                Ok(Message::Ready) => ready += 1,
                Ok(Message::SetupFailed(error)) => return Err(error),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if !all_gone() => {}
                Err(_) => return Err(LoadError::System("a worker ended early".into())),
            }
            if self.interrupt.raised() {
                return Err(LoadError::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(LoadError::ConnectTimeout {
                    connected: self.shared.connected.load(Ordering::Relaxed),
                    clients: self.clients,
                    address: self.shared.spec.endpoint.address.to_string(),
                    limit: limit.to_string(),
                });
            }
        }
        Ok(())
    }

    fn release(&mut self) {
        let shared = self.shared;
        let discard = nanos(shared.spec.discard);
        let length = shared.slots.last().map_or(0, |slot| slot.end);
        self.started_at = Some(SystemTime::now());
        let now = shared.now();
        if let Some(arrivals) = &shared.arrivals {
            lock(arrivals).release(now, now + discard, now + length);
        }
        shared.end.store(now + length, Ordering::SeqCst);
        shared.released.store(now, Ordering::SeqCst);
        shared.wake();
    }

    /// Until all workers have ended.
    fn gather(&mut self, all_gone: &dyn Fn() -> bool) {
        let released = self.shared.released.load(Ordering::SeqCst);
        let measure_from = released + nanos(self.shared.spec.discard);
        while self.reports.len() < self.workers {
            let now = self.shared.now();
            if self.cpu_from.is_none() && now >= measure_from {
                self.cpu_from = process_cpu();
            }
            if self.cpu_to.is_none() && now >= self.shared.end.load(Ordering::SeqCst) {
                self.cpu_to = process_cpu();
            }
            if self.interrupt.raised() && !self.interrupted {
                self.interrupted = true;
                self.shared.hurry.store(true, Ordering::SeqCst);
                self.shared.end_at(now);
            }
            match self.inbox.recv_timeout(self.patience(now, measure_from)) {
                Ok(Message::Interval { slot, tally, last }) => self.interval(slot, *tally, last),
                Ok(Message::Stuck(ids)) if !ids.is_empty() => self.observer.kill(&ids),
                Ok(Message::Finished(report)) => self.reports.push(*report),
                Err(error)
                    if (error == RecvTimeoutError::Disconnected || all_gone())
                        && self.inbox_is_dry()
                        && self.reports.len() < self.workers =>
                {
                    self.shared
                        .fail("a worker ended early".into(), self.shared.now());
                    return;
                }
                _ => {}
            }
        }
    }

    /// All workers are gone: whether all that they sent was read.
    fn inbox_is_dry(&mut self) -> bool {
        match self.inbox.try_recv() {
            Ok(Message::Finished(report)) => {
                self.reports.push(*report);
                false
            }
            Ok(Message::Interval { slot, tally, last }) => {
                self.interval(slot, *tally, last);
                false
            }
            Ok(_) => false,
            Err(_) => true,
        }
    }

    /// How long to wait for a message: the ends of the measured time are met exactly.
    fn patience(&self, now: u64, measure_from: u64) -> Duration {
        let mut next = TICK;
        for instant in [measure_from, self.shared.end.load(Ordering::SeqCst)] {
            if instant > now {
                next = next.min(Duration::from_nanos(instant - now));
            }
        }
        next
    }

    fn interval(&mut self, slot: usize, tally: Tally, last: bool) {
        match self.gathering.get_mut(&slot) {
            Some((sum, from)) => {
                sum.merge(&tally);
                *from += 1;
                let mut used = tally;
                used.clear();
                lock(&self.spare).push(used);
            }
            None => {
                self.gathering.insert(slot, (tally, 1));
            }
        }
        // The last ones wait: the end may have come in the middle, for some workers earlier than for others.
        if !last {
            self.publish_complete();
        }
    }

    fn publish_complete(&mut self) {
        while let Some(entry) = self.gathering.first_entry() {
            let slot = *entry.key();
            let complete = entry.get().1 == self.workers;
            let planned = self.shared.slots[slot];
            let released = self.shared.released.load(Ordering::SeqCst);
            let ended = self.shared.end.load(Ordering::SeqCst) <= released + planned.end;
            if !complete || ended {
                return;
            }
            let (tally, _) = entry.remove();
            self.publish(planned, tally);
        }
    }

    fn publish(&mut self, slot: Slot, tally: Tally) {
        let open = self.shared.arrivals.is_some();
        let mut interval = tally.into_interval(&slot, open, &self.shared.script.classes);
        match self.observer.interval(&interval) {
            Flow::Continue => {}
            Flow::Enough => self.shared.end_at(self.shared.now()),
            Flow::Stop(reason) => {
                self.stopped.get_or_insert(reason);
                self.shared.end_at(self.shared.now());
            }
        }
        // Many intervals stay in memory until the cell ends.
        interval.latency.pack();
        if let Some(service) = &mut interval.service {
            service.pack();
        }
        self.intervals.push(interval);
    }

    /// What is left when all workers have ended: the interval in which the end came.
    fn publish_rest(&mut self) {
        let released = self.shared.released.load(Ordering::SeqCst);
        let end = self
            .shared
            .end
            .load(Ordering::SeqCst)
            .saturating_sub(released);
        let mut rest: Option<(Slot, Tally)> = None;
        for (slot, (tally, _)) in std::mem::take(&mut self.gathering) {
            let mut planned = self.shared.slots[slot];
            if planned.start >= end
                && let Some((_, before)) = &mut rest
            {
                // A worker was past the end when it heard of it: nothing but what came at once.
                before.merge(&tally);
                continue;
            }
            if let Some((slot, tally)) = rest.take() {
                self.publish(slot, tally);
            }
            planned.end = planned.end.min(end.max(planned.start));
            rest = Some((planned, tally));
        }
        if let Some((slot, tally)) = rest {
            self.publish(slot, tally);
        }
    }

    fn outcome(&mut self) -> LoadOutcome {
        // The status is decided before the last interval is shown: nothing can be stopped any more.
        let stopped = self.stopped.clone();
        self.publish_rest();
        let shared = self.shared;
        let released = shared.released.load(Ordering::SeqCst);
        let end = shared.end.load(Ordering::SeqCst);
        let spec = shared.spec;

        let mut classes = vec![Recorder::default(); shared.script.classes.len()];
        let mut lateness = Recorder::default();
        let mut per_client = vec![0; self.clients as usize];
        let mut totals = Totals::default();
        let mut killed = 0;
        let mut busiest: f64 = 0.0;
        for report in &self.reports {
            for (sum, class) in classes.iter_mut().zip(&report.classes) {
                sum.merge(class);
            }
            lateness.merge(&report.lateness);
            for &(client, done) in &report.per_client {
                per_client[client as usize] = done;
            }
            totals.drained += report.drained;
            totals.given_up += report.given_up;
            killed += report.killed;
            busiest = busiest.max(report.busy);
        }
        for interval in &self.intervals {
            totals.arrivals += interval.arrivals;
            totals.done += interval.done;
            totals.failed += interval.failed;
            totals.dropped += interval.dropped;
        }
        totals.waiting = shared.arrivals.as_ref().map_or(0, |a| lock(a).waiting());
        debug_assert!(
            totals.balance()
                || shared.fault.load(Ordering::SeqCst)
                || self.reports.len() < self.workers,
            "every arrival in one bucket: {totals:?}"
        );

        let failure = lock(&shared.failure).take();
        let (status, reason) = if let Some(reason) = failure {
            (CellStatus::Failed, Some(reason))
        } else if self.interrupted {
            (CellStatus::Interrupted, Some("the user ended it".into()))
        } else if let Some(reason) = stopped {
            (CellStatus::Stopped, Some(reason))
        } else if killed > 0 {
            let reason = format!(
                "{killed} transactions were still running {} after the end and were killed",
                spec.options.drain_timeout
            );
            (CellStatus::Truncated, Some(reason))
        } else {
            (CellStatus::Completed, None)
        };
        let lateness = lateness.latency();
        let (outage, recovery) = lock(&shared.outage).figures(end);
        let cpu = |pick: fn((f64, f64)) -> f64| match (self.cpu_from, self.cpu_to) {
            (Some(from), Some(to)) => (pick(to) - pick(from)).max(0.0),
            _ => 0.0,
        };
        LoadOutcome {
            status,
            reason,
            started_at: self.started_at,
            seconds: end.saturating_sub(released) as f64 / 1e9,
            intervals: std::mem::take(&mut self.intervals),
            per_client,
            statements: statements(&shared.script.classes, &classes),
            client: ClientUsage {
                user_seconds: cpu(|(user, _)| user),
                system_seconds: cpu(|(_, system)| system),
                resident: resident().unwrap_or_default(),
                busiest_worker: Ratio(busiest),
                lateness_p99: lateness.quantile(0.99),
                lateness_max: lateness.max_nanos().map(Millis::from_nanos),
            },
            outage_seconds: outage as f64 / 1e9,
            recovery_seconds: recovery.map(|nanos| nanos as f64 / 1e9),
            tls: shared
                .cipher
                .get()
                .cloned()
                .unwrap_or_else(|| "none".into()),
            totals,
        }
    }
}

/// A duration in the engine's unit.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER / 4)
}

fn statements(names: &[String], classes: &[Recorder]) -> Vec<StatementRecord> {
    names
        .iter()
        .zip(classes.iter().map(Recorder::latency))
        .filter(|(_, latency)| latency.count() > 0)
        .map(|(name, latency)| StatementRecord {
            class: name.clone(),
            count: latency.count(),
            avg: latency.mean(),
            p95: latency.quantile(0.95),
            p99: latency.quantile(0.99),
            max: latency.max_nanos().map(Millis::from_nanos),
        })
        .collect()
}
