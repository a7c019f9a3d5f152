//! Child processes in groups of their own: waited for, ended, and their last words.

use std::fs::File;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::TargetError;
use crate::interrupt::Interrupt;

/// Pause between two looks at a process.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Waits for a child; `None` when it still runs after `timeout`.
pub(crate) fn wait_for_child(
    child: &mut Child,
    timeout: Duration,
    interrupt: &Interrupt,
) -> Result<Option<ExitStatus>, TargetError> {
    let deadline = Instant::now() + timeout;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(Some(status)),
            Ok(None) => {}
            Err(e) => {
                return Err(TargetError::Private(format!(
                    "cannot wait for a child: {e}"
                )));
            }
        }
        if interrupt.raised() {
            return Err(TargetError::Interrupted);
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

/// Ends a child and all of its process group: asks, waits up to `patience` or the user's wish to end, kills.
pub(crate) fn end_group(child: &mut Child, patience: Duration, interrupt: &Interrupt) {
    let group = group_of(child);
    let _ = kill_process_group(group, Signal::TERM);
    // A server that was stopped (SIGSTOP) takes its SIGTERM only when it goes on.
    let _ = kill_process_group(group, Signal::CONT);
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline && !interrupt.raised() {
        let reaped = !matches!(child.try_wait(), Ok(None));
        if reaped && test_kill_process_group(group).is_err() {
            return;
        }
        std::thread::sleep(POLL);
    }
    kill_group(child);
}

/// Kills a child and all of its process group.
pub(crate) fn kill_group(child: &mut Child) {
    let group = group_of(child);
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
    wait_for_group_end(group, Duration::from_secs(5));
}

pub(crate) fn wait_for_group_end(group: Pid, patience: Duration) {
    let deadline = Instant::now() + patience;
    while test_kill_process_group(group).is_ok() && Instant::now() < deadline {
        std::thread::sleep(POLL);
    }
}

/// Whether a process runs; one that ended and was not waited for yet does not.
pub fn is_alive(pid: u32) -> bool {
    i32::try_from(pid)
        .ok()
        .and_then(|pid| procfs::process::Process::new(pid).ok())
        .is_some_and(|process| process.is_alive())
}

/// The last lines of a file, for errors; starts with a line break unless empty.
pub(crate) fn tail(file: &mut File, lines: usize) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let mut text = Vec::new();
    if file.seek(SeekFrom::Start(0)).is_err() || file.read_to_end(&mut text).is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    all[all.len().saturating_sub(lines)..]
        .iter()
        .fold(String::new(), |shown, line| shown + "\n  | " + line)
}

pub(crate) fn group_of(child: &Child) -> Pid {
    Pid::from_child(child)
}
