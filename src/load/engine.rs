//! A cell's load from the first connection to the last count: sets up, releases, gathers, ends.

use std::collections::BTreeMap;
use std::net::ToSocketAddrs;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use mio::{Poll, Waker};
use rustix::process::{Resource, getrlimit, setrlimit};

use super::arrivals::Arrivals;
use super::link::Peer;
use super::script::Script;
use super::shared::{NEVER, Outage, Shared, lock};
use super::spec::{Flow, LoadError, LoadOutcome, LoadSpec, Observer, Pace, Totals};
use super::tally::{Slot, Tally, slots};
use super::tls;
use super::usage::{process_cpu, resident};
use super::wire::LoginConfig;
use super::worker::{Message, Report, WAKER, Worker};
use crate::interrupt::Interrupt;
use crate::plan::Address;
use crate::record::{CellStatus, ClientUsage, Interval, Latency, StatementRecord};
use crate::units::{Millis, Ratio};
use crate::workload::{KeySampler, UniquePermutation};

/// Open files that are not connections: the program's own, each worker's poll, timer and wake-up, control
/// connections, probes.
const RESERVE: u64 = 64;
/// How often the coordinator looks at the interrupt.
const TICK: Duration = Duration::from_millis(50);

/// Runs one cell's load.
///
/// # Errors
/// [`LoadError`] for what prevents the start. Whatever happens after the release of the clients is in
/// the outcome, with everything measured so far.
pub fn run(
    spec: &LoadSpec,
    observer: &dyn Observer,
    interrupt: &Interrupt,
) -> Result<LoadOutcome, LoadError> {
    let clients = spec.pace.clients().max(1);
    let system = |e: std::io::Error| LoadError::System(e.to_string());
    let script = Script::compile(&spec.program, spec.options.protocol)?;
    open_files(clients)?;
    let peers = resolve(spec)?;
    ports(spec, clients, &peers)?;
    let tls = tls::setup(&spec.endpoint.tls, &spec.endpoint.address)?;

    let workers = workers(spec.options.workers, clients);
    let mut polls = Vec::new();
    let mut wakers = Vec::new();
    for _ in 0..workers {
        let poll = Poll::new().map_err(system)?;
        wakers.push(Waker::new(poll.registry(), WAKER).map_err(system)?);
        polls.push(poll);
    }
    let arrivals = match spec.pace {
        Pace::Closed { .. } => None,
        Pace::Open {
            rate,
            arrivals,
            backlog,
            ..
        } => Some(Mutex::new(Arrivals::new(
            rate, arrivals, backlog, spec.seed,
        ))),
    };
    let (discard, measure) = (nanos(spec.discard), nanos(spec.measure).max(1));
    let shared = Shared {
        spec,
        login: LoginConfig {
            user: spec.endpoint.user.clone(),
            password: spec.endpoint.password.clone(),
            database: spec.endpoint.database.clone(),
        },
        tls,
        peers,
        peer: AtomicUsize::new(0),
        without_tls: AtomicBool::new(false),
        sampler: KeySampler::new(&spec.access, spec.rows),
        unique: UniquePermutation::new(spec.seed),
        slots: slots(discard, measure, nanos(spec.interval)),
        base: Instant::now(),
        released: AtomicU64::new(NEVER),
        end: AtomicU64::new(NEVER),
        abort: AtomicBool::new(false),
        failure: Mutex::new(None),
        events: AtomicU64::new(0),
        arrivals,
        connected: AtomicU32::new(0),
        hurry: AtomicBool::new(false),
        idle: AtomicU32::new(0),
        outage: Mutex::new(Outage::default()),
        cipher: OnceLock::new(),
        wakers,
        script,
    };
    let (outbox, inbox) = channel();
    let spare = Arc::new(Mutex::new(Vec::new()));
    let mut ready = Vec::new();
    for (number, poll) in polls.into_iter().enumerate() {
        // Dealt one by one: neighbours sit on different workers.
        let indices = (0..clients).skip(number).step_by(workers);
        let worker = Worker::new(&shared, poll, indices, outbox.clone(), Arc::clone(&spare));
        ready.push(worker.map_err(system)?);
    }
    drop(outbox);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, worker) in ready.into_iter().enumerate() {
            let thread = std::thread::Builder::new()
                .name(format!("load-{number}"))
                .spawn_scoped(scope, move || worker.run());
            match thread {
                Ok(thread) => threads.push(thread),
                Err(e) => {
                    shared.abort.store(true, Ordering::SeqCst);
                    shared.wake();
                    return Err(system(e));
                }
            }
        }
        let mut coordinator = Coordinator {
            shared: &shared,
            observer,
            interrupt,
            inbox,
            spare,
            workers,
            clients,
            gathering: BTreeMap::new(),
            intervals: Vec::new(),
            reports: Vec::new(),
            stopped: None,
            interrupted: false,
            cpu_from: None,
            cpu_to: None,
            started_at: None,
        };
        let outcome = coordinator.run(&|| threads.iter().all(|t| t.is_finished()));
        let panicked = threads
            .into_iter()
            .fold(false, |panicked, thread| thread.join().is_err() || panicked);
        if panicked {
            return Err(LoadError::System("a worker panicked".into()));
        }
        outcome
    })
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER / 4)
}

/// One per core, at least two (one alone costs throughput where the server shares the machine), and no
/// more than clients.
fn workers(wanted: u32, clients: u32) -> usize {
    let workers = if wanted > 0 {
        wanted as usize
    } else {
        std::thread::available_parallelism().map_or(2, |n| n.get().max(2))
    };
    workers.min(clients as usize)
}

/// Raises the soft limit of open files if needed.
fn open_files(clients: u32) -> Result<(), LoadError> {
    let needed = u64::from(clients) + RESERVE;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(LoadError::OpenFiles {
            clients,
            needed,
            reserve: RESERVE,
            limit: limit.maximum.unwrap_or(0),
        });
    }
    limit.current = Some(needed);
    setrlimit(Resource::Nofile, limit).map_err(|e| LoadError::System(e.to_string()))
}

fn resolve(spec: &LoadSpec) -> Result<Vec<Peer>, LoadError> {
    match &spec.endpoint.address {
        Address::Socket(path) => Ok(vec![Peer::Socket(path.clone())]),
        Address::Tcp { host, port } => {
            let fail = |error: String| LoadError::Resolve {
                host: host.clone(),
                error,
            };
            let addresses: Vec<Peer> = (host.as_str(), *port)
                .to_socket_addrs()
                .map_err(|e| fail(e.to_string()))?
                .map(Peer::Tcp)
                .collect();
            if addresses.is_empty() {
                return Err(fail("the name has no address".into()));
            }
            Ok(addresses)
        }
    }
}

/// Every TCP connection to one address needs a local port of its own.
fn ports(spec: &LoadSpec, clients: u32, peers: &[Peer]) -> Result<(), LoadError> {
    if !matches!(peers, [Peer::Tcp(_), ..]) {
        return Ok(());
    }
    // Unknown where /proc is missing; connecting then finds out.
    let Ok(range) = fs_err::read_to_string("/proc/sys/net/ipv4/ip_local_port_range") else {
        return Ok(());
    };
    let mut bounds = range.split_whitespace().map(str::parse::<u32>);
    if let (Some(Ok(low)), Some(Ok(high))) = (bounds.next(), bounds.next()) {
        let ports = high.saturating_sub(low) + 1;
        if ports < clients {
            return Err(LoadError::Ports {
                clients,
                address: spec.endpoint.address.to_string(),
                ports,
            });
        }
    }
    Ok(())
}

/// The calling thread's part.
struct Coordinator<'a> {
    shared: &'a Shared<'a>,
    observer: &'a dyn Observer,
    interrupt: &'a Interrupt,
    inbox: Receiver<Message>,
    spare: Arc<Mutex<Vec<Box<Tally>>>>,
    workers: usize,
    clients: u32,
    /// By slot: what has come so far, and from how many workers.
    gathering: BTreeMap<usize, (Box<Tally>, usize)>,
    intervals: Vec<Interval>,
    reports: Vec<Report>,
    stopped: Option<String>,
    interrupted: bool,
    cpu_from: Option<(f64, f64)>,
    cpu_to: Option<(f64, f64)>,
    started_at: Option<SystemTime>,
}

impl Coordinator<'_> {
    fn run(&mut self, all_gone: &dyn Fn() -> bool) -> Result<LoadOutcome, LoadError> {
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
                Ok(Message::Interval { slot, tally, last }) => self.interval(slot, tally, last),
                Ok(Message::Stuck(ids)) if !ids.is_empty() => self.observer.kill(&ids),
                Ok(Message::Finished(report)) => self.reports.push(*report),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if !all_gone() => {}
                Err(_) if self.reports.len() < self.workers && self.inbox_is_dry() => {
                    self.shared
                        .fail("a worker ended early".into(), self.shared.now());
                    return;
                }
                Err(_) => {}
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
                self.interval(slot, tally, last);
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

    fn interval(&mut self, slot: usize, tally: Box<Tally>, last: bool) {
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
            self.publish(planned, *tally);
        }
    }

    fn publish(&mut self, slot: Slot, tally: Tally) {
        let open = self.shared.arrivals.is_some();
        let interval = tally.into_interval(&slot, open, &self.shared.script.classes);
        if let Flow::Stop(reason) = self.observer.interval(&interval) {
            self.stopped.get_or_insert(reason);
            self.shared.end_at(self.shared.now());
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
            rest = Some((planned, *tally));
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

        let mut classes = vec![Latency::new(); shared.script.classes.len()];
        let mut lateness = Latency::new();
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
        debug_assert!(totals.balance(), "every arrival in one bucket: {totals:?}");

        let failure = lock(&shared.failure).take();
        let (status, reason) = if let Some(reason) = failure {
            (CellStatus::Failed, Some(reason))
        } else if self.interrupted {
            (
                CellStatus::Interrupted,
                Some("interrupted by the user".into()),
            )
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

fn statements(names: &[String], classes: &[Latency]) -> Vec<StatementRecord> {
    names
        .iter()
        .zip(classes)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_workers_or_more_but_never_more_than_clients() {
        assert_eq!(workers(0, 1), 1);
        assert!(workers(0, 100) >= 2);
        assert_eq!(workers(5, 3), 3);
        assert_eq!(workers(1, 100), 1);
    }
}
