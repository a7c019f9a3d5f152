//! What the probes saw within a cell's window, as rates, shares and means.

use std::collections::BTreeSet;

use super::findings::Window;
use super::stats::mean;
use super::swings::Swing;
use crate::probe::names::{host, replica, server};
use crate::record::{CellRecord, Place, Sample};
use crate::units::PerSecond;

/// A window's end finds a sample up to this share of the window away, not farther. \[H\]
const NEAR: f64 = 0.25;

/// The busiest disk in the window.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Disk {
    pub(crate) name: String,
    /// Mean requests in flight.
    pub(crate) queue: f64,
    /// Share of the time with a request in flight.
    pub(crate) busy: f64,
    /// Mean milliseconds of a read; `None` without reads.
    pub(crate) read_ms: Option<f64>,
    /// Mean milliseconds of a write.
    pub(crate) write_ms: Option<f64>,
}

/// The fullest network link whose speed is known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Link {
    pub(crate) name: String,
    /// Share of the speed in the busier direction.
    pub(crate) used: f64,
}

/// A replica in the window.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ReplicaLag {
    pub(crate) name: String,
    /// Seconds behind at the first and at the last reading that knew it.
    pub(crate) first: Option<f64>,
    pub(crate) last: Option<f64>,
    pub(crate) highest: Option<f64>,
    /// Bytes fetched and not applied at the last reading.
    pub(crate) bytes: Option<f64>,
    /// A thread of it stood at some reading.
    pub(crate) stopped: bool,
    /// Length of the window, seconds.
    pub(crate) seconds: f64,
}

impl ReplicaLag {
    /// Seconds that it fell back within the window.
    pub(crate) fn growth(&self) -> Option<f64> {
        Some(self.last? - self.first?)
    }
}

/// Signals of one step; `None`: not available.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Signals {
    // Host, as shares of all CPUs.
    pub(crate) cpu_user: Option<f64>,
    pub(crate) cpu_system: Option<f64>,
    pub(crate) cpu_iowait: Option<f64>,
    pub(crate) cpu_steal: Option<f64>,
    pub(crate) cpus: Option<f64>,
    pub(crate) runnable: Option<f64>,
    pub(crate) server_cpu: Option<f64>,
    pub(crate) self_cpu: Option<f64>,
    /// CPUs that the server's control group allows it; `None`: no limit, or not to be seen.
    pub(crate) server_quota: Option<f64>,
    /// Share of the quota's periods in which the server used it up.
    pub(crate) server_throttled: Option<f64>,
    /// Share of the time in which capbench's busiest thread wanted a CPU, and in which it had none.
    pub(crate) self_wanted: Option<f64>,
    pub(crate) self_waited: Option<f64>,
    pub(crate) pressure_cpu: Option<f64>,
    pub(crate) pressure_io: Option<f64>,
    /// Of the whole host: other processes switch as well.
    pub(crate) switches_per_transaction: Option<f64>,
    /// Of the server process alone.
    pub(crate) server_switches_per_transaction: Option<f64>,
    pub(crate) retransmits: Option<f64>,
    pub(crate) disk: Option<Disk>,
    pub(crate) link: Option<Link>,
    /// Whether the host's figures come from a probe on the server's own host.
    pub(crate) remote_host: bool,
    /// User and system share of the load machine's CPUs.
    pub(crate) generator_busy: Option<f64>,
    // Server.
    pub(crate) threads_running: Option<f64>,
    pub(crate) questions_per_second: Option<f64>,
    pub(crate) buffer_pool_hits: Option<f64>,
    pub(crate) misses_per_transaction: Option<f64>,
    pub(crate) misses_per_second: Option<f64>,
    pub(crate) misses_per_statement: Option<f64>,
    pub(crate) wait_free_per_second: Option<f64>,
    pub(crate) pending_reads: Option<f64>,
    pub(crate) pending_fsyncs: Option<f64>,
    /// Share of the clients that wait for their commit.
    pub(crate) committing_share: Option<f64>,
    /// Share of the clients that wait for a table, its definition, a global or a named lock.
    pub(crate) table_wait_share: Option<f64>,
    /// Statements that wait for the thread pool or `innodb_thread_concurrency`.
    pub(crate) queued: Option<f64>,
    pub(crate) checkpoint_fill: Option<f64>,
    pub(crate) log_waits_per_second: Option<f64>,
    pub(crate) fsyncs_per_transaction: Option<f64>,
    pub(crate) redo_bytes_per_second: Option<f64>,
    pub(crate) row_lock_share: Option<f64>,
    pub(crate) row_lock_waits_per_transaction: Option<f64>,
    pub(crate) deadlocks_per_transaction: Option<f64>,
    pub(crate) history: Option<f64>,
    pub(crate) history_growth: Option<f64>,
    pub(crate) connections: Option<f64>,
    pub(crate) refused_connections: Option<f64>,
    pub(crate) prepared_statements: Option<f64>,
    pub(crate) disk_tables_share: Option<f64>,
    pub(crate) disk_tables_per_second: Option<f64>,
    pub(crate) sort_merges_per_second: Option<f64>,
    pub(crate) table_cache_overflows: Option<f64>,
    pub(crate) semi_sync_share: Option<f64>,
    pub(crate) flow_control: Option<f64>,
    pub(crate) rows_per_statement: Option<f64>,
    /// Sleeps for a read-write latch per transaction; `MySQL`.
    pub(crate) latch_waits_per_transaction: Option<f64>,
    /// Share of the clients' time that Group Replication's flow control took.
    pub(crate) group_throttle_share: Option<f64>,
    // Replicas.
    pub(crate) replicas: Vec<ReplicaLag>,
    // capbench's own intervals.
    pub(crate) swing: Option<Swing>,
}

impl Signals {
    /// Reads the signals of a cell in its window. Counters go by their difference between the samples
    /// nearest to both ends, gauges by the samples strictly within: the one at a cell's end already sees
    /// clients that leave.
    ///
    /// `local`: the server runs on the load machine, whose figures are then the server's too. A probe on the
    /// server's own host goes before that; without either the server's host is not known.
    pub(crate) fn read(
        cell: &CellRecord,
        window: Option<Window>,
        tps: Option<PerSecond>,
        local: bool,
    ) -> Self {
        let mut signals = Self::default();
        let Some(window) = window else {
            return signals;
        };
        let tps = tps.map(|t| t.0).filter(|t| *t > 0.0);
        let here = Span::new(&cell.host, window);
        let there = Span::new(&cell.evidence.server_host, window);
        if let Some(span) = &here {
            let mut generator = Self::default();
            generator.read_host(span, tps);
            signals.generator_busy = generator.cpu_busy();
            signals.self_wanted = span.gauge(host::SELF_WANTED);
            signals.self_waited = span.gauge(host::SELF_WAITED);
            signals.link = generator.link;
            signals.retransmits = generator.retransmits;
        }
        if let Some(span) = there.as_ref().or(here.as_ref().filter(|_| local)) {
            let (link, retransmits) = (signals.link.take(), signals.retransmits);
            // capbench's own figures stay the load machine's.
            signals.read_host(span, tps);
            // Both ends of the path count: the fuller link, and what either had to send again.
            signals.link = signals
                .link
                .into_iter()
                .chain(link)
                .max_by(|a, b| a.used.total_cmp(&b.used));
            signals.retransmits = signals
                .retransmits
                .into_iter()
                .chain(retransmits)
                .reduce(f64::max);
            signals.remote_host = there.is_some();
        }
        signals.replicas = replicas(&cell.evidence.replicas, window);
        if let Some(span) = Span::new(&cell.server, window) {
            signals.read_server(&span, tps, f64::from(cell.clients));
        }
        signals
    }

    /// User and system share together.
    pub(crate) fn cpu_busy(&self) -> Option<f64> {
        Some(self.cpu_user? + self.cpu_system?)
    }

    /// What neither the server nor capbench used of all CPUs; `None` when the server's process is not
    /// known, as on a remote host.
    pub(crate) fn others_cpu(&self) -> Option<f64> {
        Some((self.cpu_busy()? - self.server_cpu? - self.self_cpu?).max(0.0))
    }

    fn read_host(&mut self, span: &Span<'_>, tps: Option<f64>) {
        let states = [
            host::CPU_USER,
            host::CPU_SYSTEM,
            host::CPU_IDLE,
            host::CPU_IOWAIT,
            host::CPU_STEAL,
        ]
        .map(|name| span.delta(name));
        let all: f64 = states.iter().flatten().sum();
        let share = |i: usize| states[i].filter(|_| all > 0.0).map(|s| s / all);
        self.cpu_user = share(0);
        self.cpu_system = share(1);
        self.cpu_iowait = share(3);
        self.cpu_steal = share(4);
        self.cpus = span.last(host::CPUS);
        self.runnable = span.gauge(host::RUNNABLE);
        let of_all = |name: &str| Some(span.rate(name)? / self.cpus.filter(|n| *n > 0.0)?);
        self.server_cpu = of_all(host::SERVER_CPU);
        self.self_cpu = of_all(host::SELF_CPU);
        self.server_quota = span.last(host::SERVER_CPU_QUOTA);
        self.server_throttled = per(
            span.delta(host::SERVER_THROTTLED_PERIODS),
            span.delta(host::SERVER_CPU_PERIODS).filter(|n| *n > 0.0),
        );
        self.pressure_cpu = span.rate(host::PRESSURE_CPU).map(|us| us / 1e6);
        self.pressure_io = span.rate(host::PRESSURE_IO).map(|us| us / 1e6);
        self.switches_per_transaction = per(span.rate(host::CONTEXT_SWITCHES), tps);
        self.server_switches_per_transaction = per(span.rate(host::SERVER_SWITCHES), tps);
        self.retransmits = per(
            span.delta(host::TCP_RETRANSMITS),
            span.delta(host::TCP_SENT).filter(|n| *n > 0.0),
        );
        self.disk = busiest_disk(span);
        self.link = fullest_link(span);
    }

    fn read_server(&mut self, span: &Span<'_>, tps: Option<f64>, clients: f64) {
        // The probe's own SHOW GLOBAL STATUS is always one of them.
        self.threads_running = span
            .gauge(server::THREADS_RUNNING)
            .map(|n| (n - 1.0).max(0.0));
        // The probe's own statements are not the load's.
        let own = span.rate(server::PROBE_STATEMENTS).unwrap_or(0.0);
        self.questions_per_second = span.rate(server::QUESTIONS).map(|q| (q - own).max(0.0));
        let misses = span.rate(server::BUFFER_POOL_READS);
        self.buffer_pool_hits = span
            .delta(server::BUFFER_POOL_READ_REQUESTS)
            .filter(|requests| *requests > 0.0)
            .and_then(|requests| Some(1.0 - span.delta(server::BUFFER_POOL_READS)? / requests));
        self.misses_per_second = misses;
        self.misses_per_transaction = per(misses, tps);
        self.misses_per_statement = per(misses, self.questions_per_second.filter(|q| *q > 0.0));
        self.wait_free_per_second = span.rate(server::BUFFER_POOL_WAIT_FREE);
        self.pending_reads = span
            .gauge(server::ASYNC_READS_PENDING)
            .into_iter()
            .chain(span.gauge(server::DATA_PENDING_READS))
            .reduce(f64::max);
        self.pending_fsyncs = span
            .gauge(server::LOG_PENDING_FSYNCS)
            .into_iter()
            .chain(span.gauge(server::DATA_PENDING_FSYNCS))
            .reduce(f64::max);
        self.committing_share = per(
            span.gauge(server::THREADS_COMMITTING),
            (clients > 0.0).then_some(clients),
        );
        self.table_wait_share = per(
            span.gauge(server::THREADS_WAITING_FOR_TABLES),
            (clients > 0.0).then_some(clients),
        );
        self.queued = span.gauge(server::QUEUED_STATEMENTS);
        self.checkpoint_fill = per(
            // It rises and falls with each flush: what it comes up to counts, not the middle.
            span.upper_quartile(server::CHECKPOINT_AGE),
            span.last(server::CHECKPOINT_CAPACITY).filter(|c| *c > 0.0),
        );
        self.log_waits_per_second = span.rate(server::LOG_WAITS);
        self.fsyncs_per_transaction = per(
            span.rate(server::LOG_FSYNCS)
                .or_else(|| span.rate(server::DATA_FSYNCS)),
            tps,
        );
        self.redo_bytes_per_second = span.rate(server::LOG_WRITTEN);
        self.row_lock_share = per(
            span.rate(server::ROW_LOCK_TIME),
            (clients > 0.0).then_some(1000.0 * clients),
        );
        self.row_lock_waits_per_transaction = per(span.rate(server::ROW_LOCK_WAITS), tps);
        self.deadlocks_per_transaction = per(span.rate(server::DEADLOCKS), tps);
        let history = span.inside(server::HISTORY_LENGTH);
        self.history = history.last().copied();
        self.history_growth = history.first().zip(history.last()).map(|(a, b)| b - a);
        // The highest since the server's start says nothing about this window.
        self.connections = span
            .highest(server::THREADS_CONNECTED)
            .or_else(|| span.highest(server::MAX_USED_CONNECTIONS));
        self.refused_connections = span.delta(server::CONNECTION_ERRORS_MAX);
        self.prepared_statements = span.highest(server::PREPARED_STMT_COUNT);
        self.disk_tables_share = per(
            span.delta(server::TMP_DISK_TABLES),
            span.delta(server::TMP_TABLES).filter(|n| *n > 0.0),
        );
        self.disk_tables_per_second = span.rate(server::TMP_DISK_TABLES);
        self.sort_merges_per_second = span.rate(server::SORT_MERGE_PASSES);
        self.table_cache_overflows = span.delta(server::TABLE_CACHE_OVERFLOWS);
        self.semi_sync_share = per(
            span.rate(server::SEMI_SYNC_WAIT_TIME),
            (clients > 0.0).then_some(1e6 * clients),
        );
        self.latch_waits_per_transaction = per(span.rate(server::LATCH_WAITS), tps);
        self.group_throttle_share = per(
            span.rate(server::GROUP_THROTTLE_US),
            (clients > 0.0).then_some(1e6 * clients),
        );
        self.flow_control = span.rate(server::FLOW_CONTROL_PAUSED_NS).map(|ns| ns / 1e9);
        // Without a count of rows: not Handler_read_rnd_next, since each SHOW GLOBAL STATUS of the probe itself reads some 560 rows that
        // way, which outweighs a trickle of load. A plan that turns to scans shows in the rows it no
        // longer reads through an index.
        let rows = span.rate(server::ROWS_READ).or_else(|| {
            [server::HANDLER_READ_KEY, server::HANDLER_READ_NEXT]
                .iter()
                .map(|name| span.rate(name))
                .sum()
        });
        self.rows_per_statement = per(rows, self.questions_per_second.filter(|q| *q > 0.0));
    }
}

/// Each replica's lag in the window. Its name stands in front of its figures.
fn replicas(samples: &[Sample], window: Window) -> Vec<ReplicaLag> {
    let inside: Vec<&Sample> = samples
        .iter()
        .filter(|s| s.at >= window.start && s.at <= window.end)
        .collect();
    let names: BTreeSet<&str> = inside
        .iter()
        .flat_map(|s| s.values.keys())
        .filter_map(|key| key.rsplit_once('.').map(|(name, _)| name))
        .collect();
    names
        .into_iter()
        .map(|name| {
            let of = |figure: &str| -> Vec<f64> {
                let key = format!("{name}.{figure}");
                inside
                    .iter()
                    .filter_map(|s| s.values.get(&key).copied())
                    .collect()
            };
            let lags = of(replica::LAG);
            let stood = |figure| of(figure).iter().any(|running| *running < 0.5);
            ReplicaLag {
                name: name.to_owned(),
                first: lags.first().copied(),
                last: lags.last().copied(),
                highest: lags.iter().copied().reduce(f64::max),
                bytes: of(replica::BYTES).last().copied(),
                stopped: stood(replica::IO_RUNNING) || stood(replica::SQL_RUNNING),
                seconds: window.seconds(),
            }
        })
        .collect()
}

/// `a / b`, when both are there.
fn per(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? / b?)
}

/// The samples of a window: from the one nearest to its start to the one nearest to its end.
struct Span<'a> {
    samples: &'a [Sample],
    window: Window,
    seconds: f64,
}

impl<'a> Span<'a> {
    /// `None` without two samples, or when none is near an end.
    fn new(samples: &'a [Sample], window: Window) -> Option<Self> {
        let nearest = |at: f64| {
            (0..samples.len()).min_by(|&a, &b| {
                let distance = |i: usize| (samples[i].at - at).abs();
                distance(a).total_cmp(&distance(b))
            })
        };
        let (first, last) = (nearest(window.start)?, nearest(window.end)?);
        let samples = samples.get(first..=last)?;
        let (from, to) = (samples.first()?.at, samples.last()?.at);
        let tolerance = NEAR * window.seconds();
        (to > from
            && (from - window.start).abs() <= tolerance
            && (to - window.end).abs() <= tolerance)
            .then_some(Self {
                samples,
                window,
                seconds: to - from,
            })
    }

    fn ends(&self, name: &str) -> Option<(f64, f64)> {
        let first = self.samples.first()?.values.get(name)?;
        let last = self.samples.last()?.values.get(name)?;
        Some((*first, *last))
    }

    /// Growth of a counter; `None` when it fell: the server restarted or the counter was flushed.
    fn delta(&self, name: &str) -> Option<f64> {
        self.ends(name)
            .map(|(first, last)| last - first)
            .filter(|d| *d >= 0.0)
    }

    fn rate(&self, name: &str) -> Option<f64> {
        self.delta(name).map(|d| d / self.seconds)
    }

    fn last(&self, name: &str) -> Option<f64> {
        self.samples.last()?.values.get(name).copied()
    }

    /// Values of a gauge in the samples that were taken within the window.
    fn inside(&self, name: &str) -> Vec<f64> {
        let mut place = Place::default();
        self.samples
            .iter()
            .filter(|s| s.at >= self.window.start && s.at <= self.window.end)
            .filter_map(|s| s.values.get_again(name, &mut place))
            .collect()
    }

    /// Mean of a gauge.
    fn gauge(&self, name: &str) -> Option<f64> {
        mean(&self.inside(name))
    }

    /// Upper quartile of a gauge.
    fn upper_quartile(&self, name: &str) -> Option<f64> {
        let mut values = self.inside(name);
        values.sort_by(f64::total_cmp);
        values.get(values.len() * 3 / 4).copied()
    }

    /// Maximum of a gauge.
    fn highest(&self, name: &str) -> Option<f64> {
        self.inside(name).into_iter().reduce(f64::max)
    }

    /// Names between a prefix and a last dot: the disks or the links.
    fn devices(&self, prefix: &str) -> BTreeSet<&'a str> {
        let Some(first) = self.samples.first() else {
            return BTreeSet::new();
        };
        first
            .values
            .keys_under(prefix)
            .filter_map(|name| name.strip_prefix(prefix))
            .filter_map(|rest| rest.rsplit_once('.').map(|(device, _)| device))
            .collect()
    }
}

fn busiest_disk(span: &Span<'_>) -> Option<Disk> {
    span.devices(host::DISK_PREFIX)
        .into_iter()
        .filter_map(|name| {
            let delta = |figure: &str| span.delta(&format!("{}{name}.{figure}", host::DISK_PREFIX));
            let mean_ms = |ms: &str, count: &str| per(delta(ms), delta(count).filter(|n| *n > 0.0));
            Some(Disk {
                name: name.to_owned(),
                queue: delta(host::DISK_QUEUE_MS)? / 1e3 / span.seconds,
                busy: delta(host::DISK_BUSY_MS)? / 1e3 / span.seconds,
                read_ms: mean_ms(host::DISK_READ_MS, host::DISK_READS),
                write_ms: mean_ms(host::DISK_WRITE_MS, host::DISK_WRITES),
            })
        })
        .max_by(|a, b| a.queue.total_cmp(&b.queue))
}

fn fullest_link(span: &Span<'_>) -> Option<Link> {
    span.devices(host::NET_PREFIX)
        .into_iter()
        .filter_map(|name| {
            let key = |figure: &str| format!("{}{name}.{figure}", host::NET_PREFIX);
            let speed = span.last(&key(host::NET_SPEED)).filter(|s| *s > 0.0)?;
            let bytes = span
                .rate(&key(host::NET_RECEIVED))?
                .max(span.rate(&key(host::NET_SENT))?);
            Some(Link {
                name: name.to_owned(),
                used: bytes * 8.0 / speed,
            })
        })
        .max_by(|a, b| a.used.total_cmp(&b.used))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
mod tests {
    use super::*;

    fn sample(at: f64, values: &[(&str, f64)]) -> Sample {
        Sample {
            at,
            values: values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
        }
    }

    const WINDOW: Window = Window {
        start: 10.0,
        end: 40.0,
        intervals: 3,
        dropped: 0,
    };

    #[test]
    fn counters_go_by_their_growth_within_the_window() {
        let samples = [
            sample(-1.0, &[("q", 0.0), ("g", 1000.0)]),
            sample(10.1, &[("q", 100.0), ("g", 1.0)]),
            sample(20.0, &[("q", 5000.0), ("g", 2.0)]),
            sample(40.1, &[("q", 3100.0), ("g", 6.0)]),
            sample(60.0, &[("q", 9999.0), ("g", 1000.0)]),
        ];
        let span = Span::new(&samples, WINDOW).unwrap();
        assert_eq!(span.rate("q"), Some(100.0));
        assert_eq!(span.gauge("g"), Some(1.5));
        assert_eq!(span.rate("absent"), None, "missing is never 0");
    }

    #[test]
    fn the_sample_at_a_cells_end_is_no_gauge() {
        // Clients have left by then: 1 running (the probe), no statements prepared.
        let at = |t: f64, running: f64, prepared: f64, connected: f64, history: f64| {
            sample(
                t,
                &[
                    (server::THREADS_RUNNING, running),
                    (server::PREPARED_STMT_COUNT, prepared),
                    (server::THREADS_CONNECTED, connected),
                    (server::MAX_USED_CONNECTIONS, 900.0),
                    (server::HISTORY_LENGTH, history),
                ],
            )
        };
        let samples = [
            at(9.9, 1.0, 9000.0, 500.0, 7.0),
            at(20.0, 9.0, 80.0, 9.0, 10.0),
            at(30.0, 9.0, 70.0, 8.0, 40.0),
            at(40.1, 1.0, 0.0, 2.0, 0.0),
        ];
        let mut signals = Signals::default();
        signals.read_server(&Span::new(&samples, WINDOW).unwrap(), None, 8.0);
        assert_eq!(signals.threads_running, Some(8.0));
        assert_eq!(signals.prepared_statements, Some(80.0));
        assert_eq!(signals.connections, Some(9.0));
        assert_eq!(signals.history, Some(40.0));
        assert_eq!(signals.history_growth, Some(30.0));
    }

    #[test]
    fn the_probes_own_scans_are_no_rows_of_a_statement() {
        let at = |t: f64, scans: f64| {
            sample(
                t,
                &[
                    (server::QUESTIONS, t * 10.0),
                    (server::HANDLER_READ_KEY, t * 10.0),
                    (server::HANDLER_READ_NEXT, t * 20.0),
                    (server::HANDLER_READ_RND_NEXT, scans),
                ],
            )
        };
        let samples = [at(10.0, 0.0), at(40.0, 30.0 * 560.0)];
        let mut signals = Signals::default();
        signals.read_server(&Span::new(&samples, WINDOW).unwrap(), None, 8.0);
        assert_eq!(signals.rows_per_statement, Some(3.0));
    }

    #[test]
    fn each_replica_is_followed_through_the_window() {
        let samples = [
            sample(5.0, &[("r.a.lag_seconds", 99.0)]),
            sample(
                11.0,
                &[("r.a.lag_seconds", 1.0), ("r.a.applier_running", 1.0)],
            ),
            sample(12.0, &[("b.receiver_running", 0.0), ("b.probe_ms", 2.0)]),
            sample(20.0, &[("r.a.lag_seconds", 9.0), ("r.a.bytes_behind", 5.0)]),
            sample(39.0, &[("r.a.lag_seconds", 7.0)]),
        ];
        let found = replicas(&samples, WINDOW);
        assert_eq!(found.len(), 2);
        let (b, a) = (&found[0], &found[1]);
        assert_eq!((b.name.as_str(), b.stopped, b.growth()), ("b", true, None));
        assert_eq!(
            (a.name.as_str(), a.stopped, a.growth()),
            ("r.a", false, Some(6.0))
        );
        assert_eq!((a.highest, a.bytes), (Some(9.0), Some(5.0)));
    }

    #[test]
    fn a_server_elsewhere_is_its_own_host_and_not_the_load_machine() {
        let cpu = |t: f64, busy: f64| {
            sample(
                t,
                &[
                    (host::CPU_USER, busy),
                    (host::CPU_SYSTEM, 0.0),
                    (host::CPU_IDLE, 2.0 * t - busy),
                    (host::CPUS, 2.0),
                ],
            )
        };
        let mut cell = CellRecord {
            host: vec![cpu(10.0, 10.0), cpu(40.0, 16.0)],
            ..blank_cell()
        };
        let read = |cell: &CellRecord, local| Signals::read(cell, Some(WINDOW), None, local);
        let unseen = read(&cell, false);
        assert_eq!(
            (unseen.cpu_busy(), unseen.generator_busy),
            (None, Some(0.1))
        );
        assert_eq!(read(&cell, true).cpu_busy(), Some(0.1));
        cell.evidence.server_host = vec![cpu(10.0, 10.0), cpu(40.0, 64.0)];
        let seen = read(&cell, false);
        assert_eq!(
            (seen.cpu_busy(), seen.generator_busy),
            (Some(0.9), Some(0.1))
        );
        assert!(seen.remote_host && !unseen.remote_host);
    }

    fn blank_cell() -> CellRecord {
        CellRecord {
            index: 1,
            repeat: 1,
            variant: String::new(),
            workload: String::new(),
            step: crate::plan::Step::Threads(8),
            kind: crate::record::CellKind::Ladder,
            clients: 8,
            status: crate::record::CellStatus::Completed,
            reason: None,
            started_at: None,
            seconds: 40.0,
            think_time_ms: 0.0,
            per_client: Vec::new(),
            outage_seconds: 0.0,
            recovery_seconds: None,
            statements: Vec::new(),
            client: crate::record::ClientUsage::default(),
            differences: Vec::new(),
            evidence: crate::record::CellEvidence::default(),
            intervals: Vec::new(),
            server: Vec::new(),
            host: Vec::new(),
            merged: crate::record::Merged::default(),
        }
    }

    #[test]
    fn a_counter_that_fell_says_nothing() {
        let samples = [sample(10.0, &[("q", 500.0)]), sample(40.0, &[("q", 20.0)])];
        assert_eq!(Span::new(&samples, WINDOW).unwrap().rate("q"), None);
    }

    #[test]
    fn samples_far_from_the_window_do_not_count() {
        let samples = [sample(-5.0, &[("q", 0.0)]), sample(41.0, &[("q", 9.0)])];
        assert!(Span::new(&samples, WINDOW).is_none());
        assert!(Span::new(&samples[..1], WINDOW).is_none());
    }

    #[test]
    fn the_disk_with_the_longest_queue_is_shown() {
        let at = |t: f64, queue: f64, reads: f64, ms: f64| {
            sample(
                t,
                &[
                    ("disk.sda.queue_ms", 0.0),
                    ("disk.sda.busy_ms", 0.0),
                    ("disk.nvme0n1.queue_ms", queue),
                    ("disk.nvme0n1.busy_ms", queue / 10.0),
                    ("disk.nvme0n1.reads", reads),
                    ("disk.nvme0n1.read_ms", ms),
                ],
            )
        };
        let samples = [
            at(10.0, 0.0, 0.0, 0.0),
            at(40.0, 300_000.0, 1000.0, 250_000.0),
        ];
        let disk = busiest_disk(&Span::new(&samples, WINDOW).unwrap()).unwrap();
        assert_eq!(disk.name, "nvme0n1");
        assert_eq!(disk.queue, 10.0);
        assert_eq!(disk.busy, 1.0);
        assert_eq!(disk.read_ms, Some(250.0));
        assert_eq!(disk.write_ms, None);
    }
}
