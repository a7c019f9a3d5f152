//! What this process and its threads use.

use procfs::process::Process;
use rustix::time::{ClockId, clock_gettime};

use crate::units::Bytes;

/// CPU of the whole process so far, in seconds: user, system. Read from /proc/self/stat in clock ticks
/// (10 ms), enough for cells of seconds. `None` where /proc is missing.
pub(super) fn process_cpu() -> Option<(f64, f64)> {
    let stat = Process::myself().ok()?.stat().ok()?;
    let ticks = procfs::ticks_per_second() as f64;
    Some((stat.utime as f64 / ticks, stat.stime as f64 / ticks))
}

/// Resident memory now, from /proc/self/statm.
pub(super) fn resident() -> Option<Bytes> {
    let statm = Process::myself().ok()?.statm().ok()?;
    Some(Bytes(statm.resident * procfs::page_size()))
}

/// CPU of the calling thread so far, in nanoseconds.
pub(super) fn thread_cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}
