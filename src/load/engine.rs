//! A cell's load: sets up what the workers share, starts them, hands over to the coordinator.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::ScopedJoinHandle;

use mio::{Poll, Waker};

use super::arrivals::Arrivals;
use super::coordinator::{Coordinator, nanos};
use super::preflight::{open_files, ports, resolve, workers};
use super::script::Script;
use super::shared::{Base, NEVER, Outage, Shared};
use super::spec::{LoadError, LoadOutcome, LoadSpec, Observer, Pace};
use super::tally::slots;
use super::tls;
use super::wire::LoginConfig;
use super::worker::{WAKER, Worker};
use crate::interrupt::Interrupt;
use crate::workload::{KeySampler, UniquePermutation};

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
    let workers = workers(spec.options.workers, clients);
    let mut polls = Vec::new();
    let mut wakers = Vec::new();
    for _ in 0..workers {
        let poll = Poll::new().map_err(|e| system(&e))?;
        wakers.push(Waker::new(poll.registry(), WAKER).map_err(|e| system(&e))?);
        polls.push(poll);
    }
    let shared = shared(spec, clients, wakers)?;
    let (outbox, inbox) = channel();
    let spare = Arc::new(Mutex::new(Vec::new()));
    let mut ready = Vec::new();
    for (number, poll) in polls.into_iter().enumerate() {
        // Dealt one by one: neighbours sit on different workers.
        let indices = (0..clients).skip(number).step_by(workers);
        let channel = (outbox.clone(), Arc::clone(&spare));
        let worker = Worker::new(&shared, number, poll, indices, channel);
        ready.push(worker.map_err(|e| system(&e))?);
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
                    return Err(system(&e));
                }
            }
        }
        let outcome = Coordinator::new(&shared, observer, interrupt, inbox, spare, workers)
            .run(&|| threads.iter().all(ScopedJoinHandle::is_finished));
        let panics = threads
            .into_iter()
            .filter_map(|thread| thread.join().err())
            .count();
        // The outcome says so too, with everything that the other workers measured.
        if panics > 0 && outcome.is_err() {
            return Err(LoadError::System(format!("{panics} workers panicked")));
        }
        outcome
    })
}

fn system(error: &std::io::Error) -> LoadError {
    LoadError::System(error.to_string())
}

/// Checks what can be checked before the first connection.
fn shared(spec: &LoadSpec, clients: u32, wakers: Vec<Waker>) -> Result<Shared<'_>, LoadError> {
    let script = Script::compile(&spec.program, spec.options.protocol)?;
    open_files(clients)?;
    let peers = resolve(spec)?;
    ports(spec, clients, &peers)?;
    let tls = tls::setup(&spec.endpoint.tls, &spec.endpoint.address)?;
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
    Ok(Shared {
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
        base: Base::now(),
        released: AtomicU64::new(NEVER),
        end: AtomicU64::new(NEVER),
        abort: AtomicBool::new(false),
        failure: Mutex::new(None),
        fault: AtomicBool::new(false),
        events: AtomicU64::new(0),
        arrivals,
        connected: AtomicU32::new(0),
        hurry: AtomicBool::new(false),
        idle: wakers.iter().map(|_| AtomicU32::new(0)).collect(),
        outage: Mutex::new(Outage::default()),
        cipher: OnceLock::new(),
        wakers,
        tables: spec.tables.max(1),
        script,
    })
}
