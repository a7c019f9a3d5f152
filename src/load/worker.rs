//! One thread with its connections: waits for readiness, answers it, hands over its counts.

use std::any::Any;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mio::{Events, Poll, Token};

use super::client::{Client, State, stream};
use super::context::{Context, Stage};
use super::recorder::Recorder;
use super::shared::{NEVER, Shared, lock};
use super::spec::LoadError;
use super::tally::Tally;
use super::timers::Timers;
use crate::target::LOGINS;

/// Reports the wake-ups of other threads.
pub(super) const WAKER: Token = Token(usize::MAX);
/// Reports the worker's timer.
const TIMER: Token = Token(usize::MAX - 1);
/// Size of the buffer into which all sockets of a worker are read.
const INPUT: usize = 128 * 1024;
/// A poll that took longer has waited: what it reports became ready just now.
const WAITED: u64 = 50_000;
/// After the drain time-out: time for killed statements to come back.
const GRACE: u64 = 1_000_000_000;
/// Tallies whose counts were taken over, for the next interval.
pub(super) type Spare = Arc<Mutex<Vec<Tally>>>;
/// Longest drain after an interrupt: the user waits.
const HURRY: u64 = 2_000_000_000;
/// From a worker to the coordinator.
pub(super) type Outbox = Sender<Message>;

/// What a worker tells the coordinator.
#[derive(Debug)]
pub(super) enum Message {
    /// All its clients are connected.
    Ready,
    /// A client cannot connect.
    SetupFailed(LoadError),
    /// Its counts of an interval.
    Interval {
        slot: usize,
        tally: Box<Tally>,
        /// It has reached the end.
        last: bool,
    },
    /// Connections whose transactions outlived the drain time-out.
    Stuck(Vec<u64>),
    /// It has ended.
    Finished(Box<Report>),
}

/// What a worker has at its end.
#[derive(Debug)]
pub(super) struct Report {
    /// By class, in the measured time.
    pub(super) classes: Vec<Recorder>,
    pub(super) lateness: Recorder,
    /// Client number, transactions in the measured time.
    pub(super) per_client: Vec<(u32, u64)>,
    pub(super) drained: u64,
    pub(super) given_up: u64,
    /// Transactions for which the drain time-out was too short.
    pub(super) killed: u64,
    /// CPU of this thread in the measured time over its length.
    pub(super) busy: f64,
}

/// A panic in words for the user.
fn fault(panic: &(dyn Any + Send)) -> String {
    let words = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    format!(
        "a fault of capbench itself ({words})\nhint: what was measured until then is recorded; please report \
         this with the plan"
    )
}

/// A worker.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    ctx: Context<'a>,
    clients: Vec<Client>,
    poll: Poll,
    /// All sockets are read into it.
    input: Vec<u8>,
    /// The next client to connect.
    next: usize,
    drain_at: u64,
    killed: Option<u64>,
    /// When the last poll returned.
    last_poll: u64,
}

impl<'a> Worker<'a> {
    /// Worker `number` for the clients `indices`.
    pub(super) fn new(
        shared: &'a Shared<'a>,
        number: usize,
        poll: Poll,
        indices: impl Iterator<Item = u32>,
        channel: (Outbox, Spare),
    ) -> std::io::Result<Self> {
        let registry = poll.registry().try_clone()?;
        let timers = Timers::new(&registry, TIMER)?;
        let clients = indices
            .zip(0..)
            .map(|(index, slot)| Client::new(index, slot, shared))
            .collect();
        Ok(Self {
            ctx: Context::new(shared, number, registry, timers, channel),
            clients,
            poll,
            input: vec![0; INPUT],
            next: 0,
            drain_at: NEVER,
            killed: None,
            last_poll: 0,
        })
    }

    /// Runs to the end of the cell.
    pub(super) fn run(mut self) {
        // A fault of capbench must not take what was measured with it: counts are plain numbers, valid at
        // any point, and at most the one transaction that was being handled is in no bucket.
        let driven = catch_unwind(AssertUnwindSafe(|| {
            self.connect_all().and_then(|()| self.drive())
        }));
        let failure = match driven {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(panic) => {
                self.ctx.shared.fault.store(true, Ordering::SeqCst);
                Some(fault(panic.as_ref()))
            }
        };
        if let Some(failure) = failure {
            if self.ctx.stage == Stage::Connecting {
                self.ctx.setup_failed(LoadError::System(failure));
            } else {
                let now = self.ctx.shared.now();
                let reason = format!("the load engine could not go on: {failure}");
                self.ctx.shared.fail(reason, now);
                self.ctx.roll(now);
            }
        }
        let now = self.ctx.shared.now();
        for client in &mut self.clients {
            if client.state == State::Busy {
                client.fail_transaction(&mut self.ctx);
            }
            client.retire(&mut self.ctx, now);
        }
        let ctx = self.ctx;
        let length = ctx.ended.saturating_sub(ctx.measure_from);
        let report = Report {
            classes: ctx.classes,
            lateness: ctx.lateness,
            per_client: self.clients.iter().map(|c| (c.index, c.done)).collect(),
            drained: ctx.drained,
            given_up: ctx.given_up,
            killed: self.killed.unwrap_or(0),
            busy: if ctx.cpu > 0 && length > 0 {
                ctx.cpu as f64 / length as f64
            } else {
                0.0
            },
        };
        let _ = ctx.outbox.send(Message::Finished(Box::new(report)));
    }

    /// Connects all clients and waits for the release.
    fn connect_all(&mut self) -> std::io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut ready = false;
        let logins = (usize::from(LOGINS) / self.ctx.shared.wakers.len().max(1)).max(2);
        loop {
            let now = self.ctx.tick();
            if self.ctx.shared.abort.load(Ordering::SeqCst) {
                return Ok(());
            }
            let released = self.ctx.shared.released.load(Ordering::SeqCst);
            if released != NEVER {
                self.release(released);
                return Ok(());
            }
            let mut pending = 0;
            let mut connected = 0;
            for client in &self.clients[..self.next] {
                match client.state {
                    State::Ready => connected += 1,
                    State::Connecting | State::Backoff => pending += 1,
                    _ => {}
                }
            }
            while self.next < self.clients.len() && pending < logins {
                self.clients[self.next].connect(&mut self.ctx, now);
                self.next += 1;
                pending += 1;
            }
            if connected == self.clients.len() && !ready {
                ready = true;
                let _ = self.ctx.outbox.send(Message::Ready);
            }
            self.ctx.timers.arm(now, None)?;
            self.wait(&mut events, Some(Duration::from_millis(100)))?;
            self.handle(&events);
        }
    }

    /// The clock of the cell has started.
    fn release(&mut self, released: u64) {
        let ctx = &mut self.ctx;
        ctx.released = released;
        ctx.connected_until = released;
        ctx.stage = Stage::Running;
        ctx.enter_slot(0);
        let spec = ctx.shared.spec;
        let think = ctx.shared.script.think;
        for client in &mut self.clients {
            let now = ctx.shared.now();
            if client.state != State::Ready {
                continue;
            }
            client.idle_since = released;
            if ctx.open() {
                ctx.wait_for_arrival(client.slot);
            } else if think > 0 {
                // Clients that think do not all start in the same instant.
                use rand::RngExt;
                let first = stream(spec.seed, 2, u64::from(client.index)).random_range(0..think);
                client.enter(State::Thinking);
                client.wake_at(ctx, released + first);
            } else {
                ctx.roll(now);
                if ctx.stage == Stage::Running {
                    let started = client.begin(ctx, None, now);
                    client.check(ctx, started, now);
                }
            }
        }
    }

    /// The cell and what it leaves.
    fn drive(&mut self) -> std::io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while self.ctx.stage != Stage::Connecting {
            let now = self.ctx.tick();
            self.ctx.roll(now);
            if self.ctx.stage == Stage::Over && self.wind_up(now) {
                return Ok(());
            }
            let next_arrival = self.dispatch(now);
            self.ctx.timers.arm(now, next_arrival)?;
            let until = match self.ctx.stage {
                Stage::Over => self.drain_at,
                _ => self
                    .ctx
                    .slot_end
                    .min(self.ctx.shared.end.load(Ordering::Relaxed)),
            };
            let limit = (until != NEVER).then(|| Duration::from_nanos(until.saturating_sub(now)));
            self.wait(&mut events, limit)?;
            self.handle(&events);
        }
        Ok(())
    }

    fn wait(&mut self, events: &mut Events, limit: Option<Duration>) -> std::io::Result<()> {
        let before = self.ctx.now;
        match self.poll.poll(events, limit) {
            Err(e) if e.kind() != ErrorKind::Interrupted => return Err(e),
            _ => {}
        }
        let after = self.ctx.tick();
        self.ctx.fresh = true;
        self.ctx.ready_since = if after.saturating_sub(before) > WAITED {
            after
        } else {
            // It was ready before we looked: at the earliest since we looked last.
            self.last_poll
        };
        self.last_poll = after;
        Ok(())
    }

    fn handle(&mut self, events: &Events) {
        for event in events {
            #[cfg(test)]
            super::fault_tests::strike(&self.ctx);
            let Token(slot) = event.token();
            if let Some(client) = self.clients.get_mut(slot) {
                client.ready(&mut self.ctx, &mut self.input, event);
            }
        }
        if self.ctx.timers.is_empty() {
            return;
        }
        let now = self.ctx.tick();
        while let Some(due) = self.ctx.timers.pop(now) {
            self.ctx.roll(now);
            if let Some(client) = self.clients.get_mut(due.client as usize) {
                client.wake(&mut self.ctx, due, now);
            }
        }
    }

    /// Open loop: gives what has arrived to clients that wait; returns when to look again.
    fn dispatch(&mut self, now: u64) -> Option<u64> {
        let shared = self.ctx.shared;
        let arrivals = shared.arrivals.as_ref()?;
        while self.ctx.stage == Stage::Running && !self.ctx.idle.is_empty() {
            let Some(arrival) = self.ctx.take_arrival(now) else {
                break;
            };
            // A client that has lost its connection meanwhile waits no more.
            let taker = loop {
                match self.ctx.pop_idle() {
                    Some(slot) if self.clients[slot as usize].state == State::Ready => {
                        break Some(slot);
                    }
                    Some(_) => {}
                    None => break None,
                }
            };
            let Some(slot) = taker else {
                lock(arrivals).put_back(arrival);
                break;
            };
            let client = &mut self.clients[slot as usize];
            let started = client.take_up(&mut self.ctx, arrival, now);
            client.check(&mut self.ctx, started, now);
        }
        if self.ctx.stage != Stage::Running {
            return None;
        }
        let waits = !self.ctx.idle.is_empty();
        if !waits && std::mem::take(&mut self.ctx.offered) {
            shared.pass_on(self.ctx.worker);
        }
        // The lock is not worth its price when there is nobody to take anything up.
        waits.then(|| lock(arrivals).next_for(self.ctx.worker, &shared.idle))?
    }

    /// After the end: lets transactions in flight end, within limits. True: nothing is left.
    fn wind_up(&mut self, now: u64) -> bool {
        let ctx = &mut self.ctx;
        if self.drain_at == NEVER {
            let drain = ctx.shared.spec.options.drain_timeout.0.as_nanos();
            let drain = u64::try_from(drain).unwrap_or(NEVER / 4);
            self.drain_at = ctx.ended.max(ctx.released).saturating_add(drain);
            for client in &mut self.clients {
                if client.state != State::Busy {
                    client.retire(ctx, now);
                }
            }
        }
        if ctx.busy == 0 {
            return true;
        }
        if self.killed.is_none() && ctx.shared.hurry.load(Ordering::Relaxed) {
            self.drain_at = self.drain_at.min(ctx.ended.saturating_add(HURRY));
        }
        if now < self.drain_at {
            return false;
        }
        if self.killed.is_some() {
            return true;
        }
        let stuck: Vec<u64> = self
            .clients
            .iter()
            .filter(|c| c.state == State::Busy)
            .map(|c| u64::from(c.connection_id))
            .collect();
        self.killed = Some(stuck.len() as u64);
        let _ = ctx.outbox.send(Message::Stuck(stuck));
        self.drain_at = now + GRACE;
        false
    }
}
