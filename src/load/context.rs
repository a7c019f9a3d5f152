//! What a worker's clients share: its sockets' registry, its buffers, its counts.

use std::sync::atomic::Ordering;

use mio::Registry;

use super::arrivals::{Advance, Arrival};
use super::recorder::Recorder;
use super::shared::{NEVER, Shared, lock};
use super::spec::LoadError;
use super::tally::Tally;
use super::timers::Timers;
use super::usage::thread_cpu;
use super::worker::{Message, Outbox, Spare};
use crate::record::Phase;

/// Where a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Clients connect, and wait for the others.
    Connecting,
    /// Released.
    Running,
    /// The measured time is over.
    Over,
}

/// Everything of a worker but its clients.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) shared: &'a Shared<'a>,
    /// Number of the worker.
    pub(super) worker: usize,
    pub(super) registry: Registry,
    pub(super) timers: Timers,
    /// What TLS has decrypted.
    pub(super) plain: Vec<u8>,
    /// The command under construction.
    pub(super) out: Vec<u8>,
    /// What TLS has encrypted.
    pub(super) scratch: Vec<u8>,
    pub(super) tally: Tally,
    pub(super) stage: Stage,
    pub(super) measuring: bool,
    /// Start of the measured time.
    pub(super) measure_from: u64,
    /// Clients in a transaction.
    pub(super) busy: u64,
    pub(super) drained: u64,
    pub(super) given_up: u64,
    /// Earliest instant at which what the last poll reported can have been ready.
    pub(super) ready_since: u64,
    pub(super) classes: Vec<Recorder>,
    pub(super) lateness: Recorder,
    /// The last reading of the clock. Read twice a round of the loop, and after each event but the first:
    /// a reading costs as much as drawing a row.
    pub(super) now: u64,
    /// The clock was read just now: the first event needs no reading of its own.
    pub(super) fresh: bool,
    /// Clients that wait for an arrival.
    pub(super) idle: Vec<u32>,
    /// Other workers may have seen that a client of this one waits, and rely on it.
    pub(super) offered: bool,
    pub(super) slot: usize,
    pub(super) slot_end: u64,
    pub(super) released: u64,
    pub(super) ended: u64,
    connected: u64,
    pub(super) connected_until: u64,
    cpu_from: u64,
    pub(super) cpu: u64,
    pub(super) outbox: Outbox,
    spare: Spare,
}

impl<'a> Context<'a> {
    /// Before the first connection.
    pub(super) fn new(
        shared: &'a Shared<'a>,
        worker: usize,
        registry: Registry,
        timers: Timers,
        (outbox, spare): (Outbox, Spare),
    ) -> Self {
        Self {
            shared,
            worker,
            registry,
            timers,
            plain: Vec::new(),
            out: Vec::new(),
            scratch: Vec::new(),
            tally: Tally::default(),
            stage: Stage::Connecting,
            measuring: false,
            measure_from: 0,
            busy: 0,
            drained: 0,
            given_up: 0,
            ready_since: 0,
            classes: vec![Recorder::default(); shared.script.classes.len()],
            lateness: Recorder::default(),
            now: 0,
            fresh: false,
            idle: Vec::new(),
            offered: false,
            slot: 0,
            slot_end: NEVER,
            released: NEVER,
            ended: NEVER,
            connected: 0,
            connected_until: 0,
            cpu_from: 0,
            cpu: 0,
            outbox,
            spare,
        }
    }

    /// Hands over intervals that ended before `now`, and notices the end of the cell. Called before
    /// anything that happened at `now` is counted, so that every event counts in the interval in which
    /// it ended.
    pub(super) fn roll(&mut self, now: u64) {
        if now >= self.slot_end || now >= self.shared.end.load(Ordering::Relaxed) {
            self.hand_over(now);
        }
    }

    #[cold]
    fn hand_over(&mut self, now: u64) {
        while self.stage == Stage::Running {
            let end = self.shared.end.load(Ordering::SeqCst);
            let boundary = self.slot_end.min(end);
            if now < boundary {
                return;
            }
            if self.open() {
                let idle = self.shared.all_idle();
                let seen = self
                    .shared
                    .arrivals
                    .as_ref()
                    .map(|a| lock(a).advance(boundary, idle))
                    .unwrap_or_default();
                self.arrived(seen);
            }
            self.integrate(boundary);
            let last = boundary >= end;
            let fresh = lock(&self.spare).pop().unwrap_or_default();
            let tally = std::mem::replace(&mut self.tally, fresh);
            // Fails only when the coordinator is gone, and then nobody counts.
            let _ = self.outbox.send(Message::Interval {
                slot: self.slot,
                tally: Box::new(tally),
                last,
            });
            if last {
                if self.measuring {
                    self.cpu = thread_cpu().saturating_sub(self.cpu_from);
                }
                self.measuring = false;
                self.ended = end;
                self.stage = Stage::Over;
                return;
            }
            self.enter_slot(self.slot + 1);
        }
    }

    /// The planned interval `slot` begins.
    pub(super) fn enter_slot(&mut self, slot: usize) {
        self.slot = slot;
        let Some(planned) = self.shared.slots.get(slot) else {
            self.slot_end = NEVER;
            return;
        };
        self.slot_end = self.released.saturating_add(planned.end);
        if planned.phase == Phase::Measure && !self.measuring {
            self.measuring = true;
            self.measure_from = self.released + planned.start;
            self.cpu_from = thread_cpu();
        }
    }

    fn arrived(&mut self, seen: Advance) {
        self.tally.arrivals += seen.arrived;
        self.tally.dropped += seen.dropped;
        self.tally.backlog = self.tally.backlog.max(seen.backlog);
    }

    fn integrate(&mut self, now: u64) {
        let span = now.saturating_sub(self.connected_until);
        self.tally.connected += span * self.connected;
        self.connected_until = self.connected_until.max(now);
    }

    /// A client came or went.
    pub(super) fn connected(&mut self, now: u64, change: i64) {
        if self.stage == Stage::Running {
            self.integrate(now);
        }
        self.connected = self.connected.saturating_add_signed(change);
        if change > 0 {
            self.shared.connected.fetch_add(1, Ordering::Relaxed);
        } else {
            self.shared.connected.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A statement of `class` was answered after `nanos`.
    pub(super) fn statement(&mut self, class: u16, nanos: u64) {
        if self.measuring {
            self.classes[usize::from(class)].record(nanos);
        }
    }

    /// Something was handled `nanos` late.
    pub(super) fn late(&mut self, nanos: u64) {
        if self.measuring {
            self.lateness.record(nanos);
        }
    }

    /// Whether transactions arrive by themselves.
    pub(super) fn open(&self) -> bool {
        self.shared.arrivals.is_some()
    }

    /// Reads the clock.
    pub(super) fn tick(&mut self) -> u64 {
        self.now = self.shared.now();
        self.now
    }

    /// The instant of an event that was reported: the reading after the poll for the first, a new one for
    /// each further one, since handling those before it took time.
    pub(super) fn event_time(&mut self) -> u64 {
        if std::mem::take(&mut self.fresh) {
            self.now
        } else {
            self.tick()
        }
    }

    /// A client cannot connect before the release: the cell does not start.
    pub(super) fn setup_failed(&mut self, error: LoadError) {
        self.shared.abort.store(true, Ordering::SeqCst);
        let _ = self.outbox.send(Message::SetupFailed(error));
    }

    /// The arrival that has waited longest.
    pub(super) fn take_arrival(&mut self, now: u64) -> Option<Arrival> {
        let shared = self.shared;
        let mut arrivals = lock(shared.arrivals.as_ref()?);
        let seen = arrivals.advance(now, shared.all_idle());
        let arrival = arrivals.take();
        drop(arrivals);
        self.arrived(seen);
        arrival
    }

    /// Client `slot` waits for an arrival.
    pub(super) fn wait_for_arrival(&mut self, slot: u32) {
        self.shared.idle[self.worker].fetch_add(1, Ordering::SeqCst);
        self.idle.push(slot);
        self.offered = true;
    }

    /// A client that waits for an arrival.
    pub(super) fn pop_idle(&mut self) -> Option<u32> {
        let slot = self.idle.pop()?;
        self.shared.idle[self.worker].fetch_sub(1, Ordering::SeqCst);
        Some(slot)
    }
}
