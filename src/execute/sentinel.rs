//! Limits that only the server or its host can tell: watched beside the load, on a connection of their own, so
//! that a server that hangs holds up nobody.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable as _;

use crate::plan::Guard;
use crate::record::Flavour;
use crate::target::{self, Endpoint, Server};
use crate::units::{PerSecond, Ratio, Span};

/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// Time limit of one look.
const PATIENCE: Duration = Duration::from_secs(2);
/// Looks in a row that must be above a limit: one is a hiccup [H].
const IN_A_ROW: usize = 3;
/// Rates and shares are judged over so many looks back: about ten seconds [H].
const WINDOW: usize = 10;

/// What one look saw; `None`: not asked for, or not to be seen just now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Look {
    /// Seconds on a clock that only runs forward.
    at: f64,
    threads_running: Option<u64>,
    slow_queries: Option<u64>,
    /// Seconds behind the source; infinite: replication has stopped.
    lag: Option<f64>,
    disk_busy_millis: Option<u64>,
    disk_free: Option<Ratio>,
}

/// Watches until it is dropped.
pub(super) struct Sentinel {
    why: Arc<Mutex<Option<String>>>,
    /// Ends the thread when it goes.
    _orders: Option<Sender<()>>,
}

impl Sentinel {
    /// Begins to watch what the plan limits; without such limits nothing is started.
    pub(super) fn start(guard: &Guard, server: &Server) -> Self {
        let why = Arc::new(Mutex::new(None));
        let asks_server = guard.max_threads_running.is_some()
            || guard.max_slow_queries.is_some()
            || guard.max_replica_lag.is_some();
        let asks_disk = guard.max_disk_utilisation.is_some() || guard.min_disk_free.is_some();
        if !asks_server && !asks_disk {
            return Self { why, _orders: None };
        }
        let (orders, told) = mpsc::channel();
        let identity = server.identity();
        let mut watcher = Watcher {
            guard: guard.clone(),
            endpoint: asks_server.then(|| server.admin_endpoint().clone()),
            conn: None,
            flavour: identity.flavour,
            local: identity.local,
            datadir: identity
                .variables
                .get("datadir")
                .cloned()
                .unwrap_or_default(),
            device: None,
            started: Instant::now(),
        };
        watcher.device = target::device(watcher.local, &watcher.datadir);
        let seen = Arc::clone(&why);
        // Without a thread nothing is watched by it; the limits on latency and errors still are.
        let _ = thread::Builder::new()
            .name("sentinel".to_owned())
            .spawn(move || {
                let mut looks = VecDeque::new();
                loop {
                    looks.push_back(watcher.look());
                    if looks.len() > WINDOW + 1 {
                        looks.pop_front();
                    }
                    if let Some(found) = judge(&watcher.guard, looks.make_contiguous()) {
                        *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                    }
                    if !matches!(told.recv_timeout(PAUSE), Err(RecvTimeoutError::Timeout)) {
                        return;
                    }
                }
            });
        Self {
            why,
            _orders: Some(orders),
        }
    }

    /// Why the ladder must end, once a limit was exceeded.
    pub(super) fn why(&self) -> Option<String> {
        self.why
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

struct Watcher {
    guard: Guard,
    /// `None`: no limit needs the server's answer.
    endpoint: Option<Endpoint>,
    conn: Option<mysql::Conn>,
    flavour: Flavour,
    local: bool,
    datadir: String,
    device: Option<PathBuf>,
    started: Instant,
}

impl Watcher {
    fn look(&mut self) -> Look {
        let mut look = Look {
            at: self.started.elapsed().as_secs_f64(),
            disk_busy_millis: self.device.as_deref().and_then(target::busy_millis),
            disk_free: target::space(self.local, &self.datadir).map(target::DiskSpace::free_share),
            ..Look::default()
        };
        if self.conn.is_none()
            && let Some(endpoint) = &self.endpoint
        {
            let mut endpoint = endpoint.clone();
            endpoint.connect_timeout = PATIENCE;
            self.conn = target::connect(&endpoint, Some(PATIENCE)).ok();
        }
        if let Some(conn) = &mut self.conn
            && ask(conn, &self.guard, self.flavour, &mut look).is_err()
        {
            self.conn = None;
        }
        look
    }
}

fn ask(
    conn: &mut mysql::Conn,
    guard: &Guard,
    flavour: Flavour,
    look: &mut Look,
) -> Result<(), mysql::Error> {
    let status: Vec<(String, String)> = conn
        .query("SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_running', 'Slow_queries')")?;
    let number = |name: &str| {
        let found = status.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| value.parse().ok())
    };
    look.threads_running = number("Threads_running");
    look.slow_queries = number("Slow_queries");
    if guard.max_replica_lag.is_some() {
        look.lag = lag(conn, flavour)?;
    }
    Ok(())
}

/// The longest lag of any channel; `None`: not a replica.
fn lag(conn: &mut mysql::Conn, flavour: Flavour) -> Result<Option<f64>, mysql::Error> {
    let sql = match flavour {
        Flavour::MariaDb => "SHOW ALL SLAVES STATUS",
        Flavour::MySql => "SHOW REPLICA STATUS",
    };
    let rows: Vec<mysql::Row> = conn.query(sql)?;
    let behind = rows.iter().map(|row| {
        let column = row
            .columns_ref()
            .iter()
            .position(|column| column.name_str().starts_with("Seconds_Behind"));
        match column.and_then(|at| row.as_ref(at)) {
            // NULL: a thread of the replication has stopped.
            None | Some(mysql::Value::NULL) => f64::INFINITY,
            Some(value) => value
                .as_sql(true)
                .trim_matches('\'')
                .parse()
                .unwrap_or(f64::INFINITY),
        }
    });
    Ok(behind.reduce(f64::max))
}

/// Why the ladder must end, by the last looks, the newest last.
fn judge(guard: &Guard, looks: &[Look]) -> Option<String> {
    let recent = &looks[looks.len().saturating_sub(IN_A_ROW)..];
    let newest = looks.last()?;
    let all_above = |value: &dyn Fn(&Look) -> Option<f64>, limit: f64| {
        recent.len() == IN_A_ROW
            && recent
                .iter()
                .all(|look| value(look).is_some_and(|v| v > limit))
    };
    if let (Some(limit), Some(now)) = (guard.max_threads_running, newest.threads_running)
        && all_above(&|look| look.threads_running.map(|n| n as f64), limit as f64)
    {
        return Some(format!(
            "Threads_running was {now}, above `guard.max_threads_running` = {limit} {IN_A_ROW} times in a row"
        ));
    }
    if let (Some(limit), Some(now)) = (guard.max_replica_lag, newest.lag)
        && all_above(&|look| look.lag, limit.0.as_secs_f64())
    {
        let now = if now.is_finite() {
            format!(
                "was {} behind its source",
                Span(Duration::from_secs_f64(now.max(0.0)))
            )
        } else {
            "has stopped replicating".to_owned()
        };
        return Some(format!(
            "the server {now}, above `guard.max_replica_lag` = {limit} {IN_A_ROW} times in a row"
        ));
    }
    let first = looks.first()?;
    let seconds = newest.at - first.at;
    if looks.len() >= IN_A_ROW && seconds > 0.0 {
        if let (Some(limit), Some(from), Some(to)) = (
            guard.max_slow_queries,
            first.slow_queries,
            newest.slow_queries,
        ) {
            let rate = PerSecond(to.saturating_sub(from) as f64 / seconds);
            if rate > limit {
                return Some(format!(
                    "the server counted {rate} slow queries over {seconds:.0} s, above `guard.max_slow_queries` = {limit}"
                ));
            }
        }
        if let (Some(limit), Some(from), Some(to)) = (
            guard.max_disk_utilisation,
            first.disk_busy_millis,
            newest.disk_busy_millis,
        ) {
            let share = Ratio(to.saturating_sub(from) as f64 / (seconds * 1e3));
            if share > limit {
                return Some(format!(
                    "the disk of the server's data was busy {share} of {seconds:.0} s, above `guard.max_disk_utilisation` = {limit}"
                ));
            }
        }
    }
    match (guard.min_disk_free, newest.disk_free) {
        (Some(limit), Some(free)) if free < limit => Some(format!(
            "{free} of the server's disk is free, below `guard.min_disk_free` = {limit}"
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::guard::tests::guard;
    use super::*;

    fn looks(of: impl Fn(f64) -> Look) -> Vec<Look> {
        (0..5)
            .map(|n| Look {
                at: f64::from(n),
                ..of(f64::from(n))
            })
            .collect()
    }

    #[test]
    fn nothing_is_judged_without_limits_or_looks() {
        let busy = looks(|_| Look {
            threads_running: Some(1000),
            lag: Some(f64::INFINITY),
            disk_free: Some(Ratio(0.0)),
            ..Look::default()
        });
        assert_eq!(judge(&guard(), &busy), None);
        assert_eq!(judge(&guard(), &[]), None);
    }

    #[test]
    fn threads_must_be_above_three_times_in_a_row() {
        let guard = Guard {
            max_threads_running: Some(10),
            ..guard()
        };
        let mut seen = looks(|_| Look {
            threads_running: Some(11),
            ..Look::default()
        });
        assert_eq!(judge(&guard, &seen[..2]), None);
        assert!(judge(&guard, &seen).is_some_and(|why| why.contains("Threads_running was 11")));
        seen[3].threads_running = Some(10);
        assert_eq!(judge(&guard, &seen), None);
        // A look that saw nothing proves nothing.
        seen[3].threads_running = None;
        assert_eq!(judge(&guard, &seen), None);
    }

    #[test]
    fn lag_counts_and_so_does_a_replication_that_stopped() {
        let guard = Guard {
            max_replica_lag: Some(Span(Duration::from_secs(5))),
            ..guard()
        };
        let lagging = |lag| {
            looks(|_| Look {
                lag: Some(lag),
                ..Look::default()
            })
        };
        assert_eq!(judge(&guard, &lagging(5.0)), None);
        assert!(judge(&guard, &lagging(6.0)).is_some_and(|why| why.contains("6s behind")));
        assert!(judge(&guard, &lagging(f64::INFINITY)).is_some_and(|why| why.contains("stopped")));
    }

    #[test]
    fn slow_queries_and_disk_are_rates() {
        let guard = Guard {
            max_slow_queries: Some(PerSecond(2.0)),
            max_disk_utilisation: Some(Ratio(0.9)),
            ..guard()
        };
        let rates = |slow: u64, busy: u64| -> Vec<Look> {
            (0..5_u32)
                .map(|n| Look {
                    at: f64::from(n),
                    slow_queries: Some(u64::from(n) * slow),
                    disk_busy_millis: Some(u64::from(n) * busy),
                    ..Look::default()
                })
                .collect()
        };
        assert_eq!(judge(&guard, &rates(2, 900)), None);
        assert!(judge(&guard, &rates(3, 0)).is_some_and(|why| why.contains("max_slow_queries")));
        assert!(
            judge(&guard, &rates(0, 950)).is_some_and(|why| why.contains("max_disk_utilisation"))
        );
    }

    #[test]
    fn a_full_disk_ends_it_at_once() {
        let guard = Guard {
            min_disk_free: Some(Ratio(0.1)),
            ..guard()
        };
        let look = |free| Look {
            disk_free: Some(Ratio(free)),
            ..Look::default()
        };
        assert_eq!(judge(&guard, &[look(0.1)]), None);
        assert!(judge(&guard, &[look(0.09)]).is_some_and(|why| why.contains("min_disk_free")));
    }
}
