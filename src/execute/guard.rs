//! Limits that end a ladder while it runs.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::ZonedDateTime;

use crate::plan::Guard;
use crate::record::{Interval, Latency, Phase};
use crate::units::{Ratio, Span};

/// How much of the immediate past a limit is judged on: one bad interval of a second is a hiccup,
/// ten seconds are not [H].
const JUDGED_SECONDS: f64 = 10.0;

/// Watches the intervals of one cell.
#[derive(Debug)]
pub(super) struct Watch<'p> {
    guard: &'p Guard,
    recent: VecDeque<Seen>,
}

#[derive(Debug)]
struct Seen {
    seconds: f64,
    latency: Latency,
    done: u64,
    failed: u64,
}

impl<'p> Watch<'p> {
    /// Nothing seen yet.
    pub(super) fn new(guard: &'p Guard) -> Self {
        Self {
            guard,
            recent: VecDeque::new(),
        }
    }

    /// Judges the last ten seconds (at least one interval) with `interval` as the newest. The discard at
    /// a cell's start is not judged by its latency. Returns why the ladder must end.
    pub(super) fn interval(
        &mut self,
        interval: &Interval,
        server_cpu: Option<Ratio>,
        now: &ZonedDateTime,
    ) -> Option<String> {
        if interval.phase == Phase::Measure {
            self.recent.push_back(Seen {
                seconds: interval.seconds(),
                latency: interval.latency.clone(),
                done: interval.done,
                failed: interval.failed,
            });
            let mut seconds: f64 = self.recent.iter().map(|seen| seen.seconds).sum();
            while self.recent.len() > 1 && seconds - self.recent[0].seconds >= JUDGED_SECONDS {
                seconds -= self.recent.pop_front().map_or(0.0, |seen| seen.seconds);
            }
        }
        self.p95()
            .or_else(|| self.errors())
            .or_else(|| self.cpu(server_cpu))
            .or_else(|| outside_window(self.guard, now))
    }

    fn p95(&self) -> Option<String> {
        let limit = self.guard.max_p95?;
        let mut merged = Latency::new();
        self.recent
            .iter()
            .for_each(|seen| merged.merge(&seen.latency));
        let p95 = merged.quantile(0.95)?;
        (p95 > limit).then(|| {
            format!(
                "p95 of the last {} was {p95}, above `guard.max_p95` = {limit}",
                self.seconds()
            )
        })
    }

    fn errors(&self) -> Option<String> {
        let limit = self.guard.max_errors?;
        let done: u64 = self.recent.iter().map(|seen| seen.done).sum();
        let failed: u64 = self.recent.iter().map(|seen| seen.failed).sum();
        let share = Ratio(failed as f64 / (done + failed).max(1) as f64);
        (share > limit).then(|| {
            format!(
                "{failed} of {} transactions of the last {} failed ({share}), above `guard.max_errors` = {limit}",
                done + failed,
                self.seconds()
            )
        })
    }

    fn cpu(&self, server_cpu: Option<Ratio>) -> Option<String> {
        let (limit, cpu) = (self.guard.max_server_cpu?, server_cpu?);
        (cpu > limit).then(|| {
            format!("CPU of the server's host was {cpu}, above `guard.max_server_cpu` = {limit}")
        })
    }

    /// The time that is judged, to the tenth of a second.
    fn seconds(&self) -> Span {
        let seconds: f64 = self.recent.iter().map(|seen| seen.seconds).sum();
        Span(Duration::from_secs_f64(
            (seconds * 10.0).round().max(0.0) / 10.0,
        ))
    }
}

/// Why load may not run at `now`, by `guard.window` in local time; a window may pass midnight.
pub fn outside_window(guard: &Guard, now: &ZonedDateTime) -> Option<String> {
    let (from, to) = guard.window?;
    let minute = u16::try_from(i32::from(now.hour()) * 60 + i32::from(now.minute())).unwrap_or(0);
    let inside = if from <= to {
        (from..to).contains(&minute)
    } else {
        minute >= from || minute < to
    };
    (!inside).then(|| {
        format!(
            "local time {:02}:{:02} is outside `guard.window` = {:02}:{:02}-{:02}:{:02}",
            minute / 60,
            minute % 60,
            from / 60,
            from % 60,
            to / 60,
            to % 60
        )
    })
}

/// CPU use of the host between two looks; `None` when the server runs elsewhere or nothing can be read.
#[derive(Debug)]
pub(super) struct HostCpu {
    last: Option<(u64, u64)>,
}

impl HostCpu {
    /// Starts counting; a server that is not `local` has no figure.
    pub(super) fn new(local: bool) -> Self {
        Self {
            last: local.then(busy_and_total).flatten(),
        }
    }

    /// Busy share of all cores since the last call.
    pub(super) fn since_last(&mut self) -> Option<Ratio> {
        let before = self.last?;
        let now = busy_and_total()?;
        self.last = Some(now);
        let total = now.1.saturating_sub(before.1);
        (total > 0).then(|| Ratio(now.0.saturating_sub(before.0) as f64 / total as f64))
    }
}

fn busy_and_total() -> Option<(u64, u64)> {
    use procfs::CurrentSI as _;
    let cpu = procfs::KernelStats::current().ok()?.total;
    let idle = cpu.idle + cpu.iowait.unwrap_or(0);
    let busy = cpu.user
        + cpu.nice
        + cpu.system
        + cpu.irq.unwrap_or(0)
        + cpu.softirq.unwrap_or(0)
        + cpu.steal.unwrap_or(0);
    Some((busy, busy + idle))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;
    use crate::units::Millis;

    pub(in super::super) fn guard() -> Guard {
        Guard {
            max_p95: None,
            max_errors: None,
            max_server_cpu: None,
            window: None,
            max_threads_running: None,
            max_slow_queries: None,
            max_replica_lag: None,
            max_disk_utilisation: None,
            min_disk_free: None,
            acknowledge: Vec::new(),
        }
    }

    fn noon() -> ZonedDateTime {
        "2026-01-15T12:00:00[UTC]".parse().unwrap()
    }

    fn interval(start: f64, millis: u64, done: u64, failed: u64) -> Interval {
        let mut latency = Latency::new();
        (0..done).for_each(|_| latency.record(millis * 1_000_000));
        Interval {
            done,
            failed,
            latency,
            ..Interval::empty(start, start + 5.0, Phase::Measure)
        }
    }

    #[test]
    fn p95_is_judged_over_the_last_ten_seconds() {
        let guard = Guard {
            max_p95: Some(Millis(50.0)),
            ..guard()
        };
        let mut watch = Watch::new(&guard);
        assert_eq!(
            watch.interval(&interval(0.0, 10, 1000, 0), None, &noon()),
            None
        );
        // 4 % of slow ones within the window: p95 still holds.
        assert_eq!(
            watch.interval(&interval(5.0, 80, 40, 0), None, &noon()),
            None
        );
        let why = watch
            .interval(&interval(10.0, 80, 1000, 0), None, &noon())
            .unwrap();
        assert!(
            why.contains("80.0 ms") && why.contains("guard.max_p95"),
            "{why}"
        );
        assert!(why.starts_with("p95 of the last 10s was"), "{why}");
    }

    #[test]
    fn intervals_of_less_than_a_second_are_told_as_what_they_are() {
        let guard = Guard {
            max_p95: Some(Millis(50.0)),
            ..guard()
        };
        let short = Interval {
            end: 0.2,
            ..interval(0.0, 80, 1000, 0)
        };
        let why = Watch::new(&guard).interval(&short, None, &noon()).unwrap();
        assert!(why.starts_with("p95 of the last 200ms was"), "{why}");
    }

    #[test]
    fn errors_and_cpu_end_the_ladder() {
        let guard = Guard {
            max_errors: Some(Ratio(0.01)),
            max_server_cpu: Some(Ratio(0.95)),
            ..guard()
        };
        let mut watch = Watch::new(&guard);
        assert_eq!(
            watch.interval(&interval(0.0, 1, 995, 5), Some(Ratio(0.9)), &noon()),
            None
        );
        assert!(
            watch
                .interval(&interval(5.0, 1, 900, 100), None, &noon())
                .unwrap()
                .contains("105 of 2000")
        );
        let mut watch = Watch::new(&guard);
        assert!(
            watch
                .interval(&interval(0.0, 1, 10, 0), Some(Ratio(0.97)), &noon())
                .unwrap()
                .contains("97 %")
        );
    }

    #[test]
    fn a_window_may_pass_midnight() {
        let night = Guard {
            window: Some((22 * 60, 6 * 60)),
            ..guard()
        };
        assert!(
            outside_window(&night, &noon())
                .unwrap()
                .contains("22:00-06:00")
        );
        for inside in ["2026-01-15T22:00:00[UTC]", "2026-01-15T05:59:00[UTC]"] {
            assert_eq!(outside_window(&night, &inside.parse().unwrap()), None);
        }
        assert!(outside_window(&night, &"2026-01-15T06:00:00[UTC]".parse().unwrap()).is_some());
    }
}
