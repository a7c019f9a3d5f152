//! What all workers of a cell share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use mio::Waker;
use rustix::time::{ClockId, clock_gettime};

use super::arrivals::Arrivals;
use super::link::Peer;
use super::script::Script;
use super::spec::LoadSpec;
use super::tally::Slot;
use super::tls::TlsSetup;
use super::wire::LoginConfig;
use crate::workload::{KeySampler, UniquePermutation};

/// No instant.
pub(super) const NEVER: u64 = u64::MAX;

/// Read by all, written by few. Instants are nanoseconds after `base`.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) spec: &'a LoadSpec,
    pub(super) script: Script,
    /// Tables among which is drawn, at least one; or the clients' own.
    pub(super) tables: u32,
    pub(super) login: LoginConfig,
    pub(super) tls: Option<TlsSetup>,
    pub(super) peers: Vec<Peer>,
    /// The first address that answered.
    pub(super) peer: AtomicUsize,
    /// "preferred" and TLS has failed: go on without.
    pub(super) without_tls: AtomicBool,
    pub(super) sampler: KeySampler,
    pub(super) unique: UniquePermutation,
    pub(super) slots: Vec<Slot>,
    pub(super) base: Base,
    /// When the clients were released; [`NEVER`] before.
    pub(super) released: AtomicU64,
    /// When the measured time ends; may be moved forward in time, never back.
    pub(super) end: AtomicU64,
    /// The cell does not start: everyone goes home.
    pub(super) abort: AtomicBool,
    /// Why the cell failed.
    pub(super) failure: Mutex<Option<String>>,
    /// A worker panicked: its counts may lack the transaction that it was handling.
    pub(super) fault: AtomicBool,
    /// Transactions that ended well in the measured time, when they are limited.
    pub(super) events: AtomicU64,
    pub(super) arrivals: Option<Mutex<Arrivals>>,
    /// Clients that are connected.
    pub(super) connected: AtomicU32,
    /// The user waits: drain for a moment only.
    pub(super) hurry: AtomicBool,
    /// Open loop: clients that wait for an arrival, by worker.
    pub(super) idle: Vec<AtomicU32>,
    pub(super) outage: Mutex<Outage>,
    /// Negotiated TLS version and cipher.
    pub(super) cipher: OnceLock<String>,
    pub(super) wakers: Vec<Waker>,
}

impl Shared<'_> {
    /// Now.
    pub(super) fn now(&self) -> u64 {
        self.base.elapsed()
    }

    /// Ends the measured time at `at` unless it ends before; everyone is told.
    pub(super) fn end_at(&self, at: u64) {
        self.end.fetch_min(at, Ordering::SeqCst);
        self.wake();
    }

    /// Ends the cell as failed; the first reason stays.
    pub(super) fn fail(&self, reason: String, now: u64) {
        lock(&self.failure).get_or_insert(reason);
        self.end_at(now);
    }

    /// Open loop: clients that wait for an arrival.
    pub(super) fn all_idle(&self) -> usize {
        self.idle
            .iter()
            .map(|idle| idle.load(Ordering::SeqCst) as usize)
            .sum()
    }

    /// Open loop: worker `worker` has no client left that waits. Another one that has must take over what
    /// would have fallen to it, and sets its timer anew.
    pub(super) fn pass_on(&self, worker: usize) {
        let workers = self.idle.len();
        let next = (worker + 1..worker + workers)
            .map(|w| w % workers)
            .find(|&w| self.idle[w].load(Ordering::SeqCst) > 0);
        if let Some(waker) = next.and_then(|w| self.wakers.get(w)) {
            // Cannot fail but for a full counter, and then the worker is awake.
            let _ = waker.wake();
        }
    }

    /// Wakes all workers.
    pub(super) fn wake(&self) {
        for waker in &self.wakers {
            // Cannot fail but for a full counter, and then the worker is awake.
            let _ = waker.wake();
        }
    }
}

/// The instant 0 of the engine's clock: the kernel's monotonic one, in nanoseconds, without the detour over
/// seconds and a fraction that `Instant` takes at each reading.
#[derive(Debug, Clone, Copy)]
pub(super) struct Base(u64);

impl Base {
    /// Now.
    pub(super) fn now() -> Self {
        Self(monotonic())
    }

    /// Nanoseconds since then.
    pub(super) fn elapsed(self) -> u64 {
        monotonic().saturating_sub(self.0)
    }
}

fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Counts from the start of the machine: neither part is negative.
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Locks, whatever happened to another thread that held the lock: all values here are valid at any time.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time without all clients.
#[derive(Debug, Default)]
pub(super) struct Outage {
    missing: u32,
    since: u64,
    total: u64,
    longest: Option<u64>,
}

impl Outage {
    /// A client lost its connection.
    pub(super) fn lost(&mut self, now: u64) {
        if self.missing == 0 {
            self.since = now;
        }
        self.missing += 1;
    }

    /// A client that lost its connection at `since` has it back.
    pub(super) fn back(&mut self, since: u64, now: u64) {
        self.missing = self.missing.saturating_sub(1);
        if self.missing == 0 {
            self.total += now.saturating_sub(self.since);
        }
        let took = now.saturating_sub(since);
        self.longest = Some(self.longest.map_or(took, |longest| longest.max(took)));
    }

    /// Nanoseconds with at least one client missing up to `end`, and the longest recovery.
    pub(super) fn figures(&self, end: u64) -> (u64, Option<u64>) {
        let open = if self.missing > 0 {
            end.saturating_sub(self.since)
        } else {
            0
        };
        (self.total + open, self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_overlap_and_recoveries_do_not_add_up() {
        let mut outage = Outage::default();
        assert_eq!(outage.figures(100), (0, None));
        outage.lost(10);
        outage.lost(20);
        outage.back(10, 30);
        outage.back(20, 50);
        assert_eq!(outage.figures(100), (40, Some(30)));
        outage.lost(90);
        assert_eq!(outage.figures(100), (50, Some(30)));
    }
}
