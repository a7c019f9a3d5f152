//! Wake-ups of a worker at exact instants: mio's own time-outs are rounded up to milliseconds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// What is due: a client, as it was when it asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    /// Nanoseconds on the engine's clock.
    pub(super) at: u64,
    pub(super) client: u32,
    /// The client has moved on if its own differs.
    pub(super) generation: u32,
}

/// A heap of instants over one timer of the kernel.
#[derive(Debug)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<Due>>,
    timer: OwnedFd,
    /// The instant that the timer is set to; `u64::MAX`: none.
    armed: u64,
}

impl Timers {
    /// Makes the timer, which reports under `token`.
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self {
            heap: BinaryHeap::new(),
            timer,
            armed: u64::MAX,
        })
    }

    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Asks for a wake-up.
    pub(super) fn add(&mut self, due: Due) {
        self.heap.push(Reverse(due));
    }

    /// The earliest wake-up that is due at `now`.
    pub(super) fn pop(&mut self, now: u64) -> Option<Due> {
        if self.heap.peek()?.0.at > now {
            return None;
        }
        self.heap.pop().map(|Reverse(due)| due)
    }

    /// Sets the kernel's timer to the earliest wake-up or `other`, whichever comes first.
    pub(super) fn arm(&mut self, now: u64, other: Option<u64>) -> io::Result<()> {
        let next = self
            .heap
            .peek()
            .map(|Reverse(due)| due.at)
            .into_iter()
            .chain(other)
            .min()
            .unwrap_or(u64::MAX);
        // A timer that has fired does not fire again by itself.
        if next == self.armed && next > now {
            return Ok(());
        }
        self.armed = next;
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let value = if next == u64::MAX {
            zero
        } else {
            // All zero would switch the timer off.
            let wait = next.saturating_sub(now).max(1);
            Timespec {
                tv_sec: i64::try_from(wait / 1_000_000_000).unwrap_or(i64::MAX),
                tv_nsec: i64::try_from(wait % 1_000_000_000).unwrap_or(0),
            }
        };
        timerfd_settime(
            &self.timer,
            TimerfdTimerFlags::empty(),
            &Itimerspec {
                it_interval: zero,
                it_value: value,
            },
        )?;
        Ok(())
    }
}
