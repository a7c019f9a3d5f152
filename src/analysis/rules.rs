//! The rules of the bottleneck: signals against thresholds, one method a class.
//!
//! Each threshold carries its standing: \[M\] measured, \[S\] from a published source, \[H\] heuristic.

use super::bottleneck::{Diagnosis, percent};
use super::findings::{Cause, Evidence, Rule};
use super::rules_cpu::UNSTEADY;
use super::stats::mean_of;
use super::validity::CLIENT_BUSY;
use crate::record::Flavour;
use crate::units::{Millis, Ratio};

/// us+sy, with as many runnable tasks as CPUs: the 32G tier at 128 threads and more stood at 90–99 % \[M\].
pub(super) const CPU_BUSY: f64 = 0.85;
/// iowait and queue that prove a disk limit; %util alone is no proof on `NVMe` \[M\].
const IOWAIT: f64 = 0.15;
const QUEUE: f64 = 8.0;
/// Read time against the ladder's smallest \[M\].
const READ_TIME_FACTOR: f64 = 1.5;
/// Buffer pool misses a statement that count beside one a transaction. \[H\]
const MISSES_PER_STATEMENT: f64 = 0.25;
/// `InnoDB`'s own pending reads where the server's host cannot be seen. \[H\]
const PENDING_READS: f64 = 8.0;
/// Share of client time spent waiting for row locks: hot rows gave 5 % at 16, 20 % at 32 and 50 % at
/// 64 threads \[M\].
pub(super) const LOCKS_PRIMARY: f64 = 0.20;
pub(super) const LOCKS_CONTRIBUTE: f64 = 0.10;
/// Deadlocks a transaction. \[H\]
const DEADLOCKS: f64 = 0.01;
const DEADLOCKS_NOTE: f64 = 0.001;
/// Checkpoint age against capacity: `MySQL`'s writers stood still at 72 to 74 % of a configured 8 MiB \[M\] (it keeps
/// room for those under way), `MariaDB`'s own maximum age \[M\].
const CHECKPOINT_MYSQL: f64 = 0.70;
const CHECKPOINT_MARIADB: f64 = 0.90;
/// Waits for the log buffer a second (awesome-prometheus-alerts) \[S\].
const LOG_WAITS: f64 = 10.0;
/// fsyncs a transaction near 1 with many clients: no group commit (measured 1.00 at 1 thread, 0.07 at 64) \[M\].
const NO_GROUP_COMMIT: f64 = 0.90;
const MANY_CLIENTS: f64 = 8.0;
/// Log flushes under way on average: someone always waits for one. \[H\]
const PENDING_FSYNCS: f64 = 0.5;
/// Clients that wait for their commit, on average. \[H\]
const COMMITTING: f64 = 0.50;
/// Temporary tables on disk (`MySQLTuner`) \[S\], from a rate on that matters \[H\].
const DISK_TABLES: f64 = 0.25;
const DISK_TABLES_RATE: f64 = 1.0;
/// Link use: 124 MB/s on one gigabit link at 36 % CPU \[S\].
const LINK_FULL: f64 = 0.90;
/// Threads at work in the server against clients: 2.5 of 32 when the work was elsewhere, 52 of 64 when
/// the server was the limit \[M\]; the boundary between \[H\].
const INSIDE: f64 = 0.25;
/// Share of all CPUs below which the server's process leaves them idle or to others. \[H\]
const IDLE_SERVER: f64 = 0.25;
/// Share of the time in which a load worker wants a CPU, and of that the share without one. \[H\]
const WANTED: f64 = 0.80;
const STARVED: f64 = 0.50;
/// A plateau this even is the signature of a cap \[M\].
const CAPPED: f64 = 0.007;
/// Semi-sync waits \[H\], flow control \[H\], history \[S\], unfairness \[H\].
const SEMI_SYNC: f64 = 0.20;
const FLOW_CONTROL: f64 = 0.05;
const HISTORY: f64 = 50_000.0;
const UNFAIR: f64 = 0.30;
impl Diagnosis<'_> {
    pub(super) fn load_generator(&mut self) {
        let busiest = self
            .step
            .cells
            .iter()
            .map(|c| c.busiest_worker.0)
            .reduce(f64::max);
        let mut bound = self.weigh(
            Cause::LoadGenerator,
            "busiest load worker",
            busiest.map(percent),
            (CLIENT_BUSY, "≥ 80 %"),
            "capbench's workers",
        );
        let cpu = mean_of(self.step.cells.iter().map(|c| c.client_cpu.map(|r| r.0)));
        bound |= self.weigh(
            Cause::LoadGenerator,
            "CPU of the load machine used by capbench",
            cpu.map(percent),
            (CLIENT_BUSY, "≥ 80 %"),
            "capbench's own usage",
        );
        if !self.local
            && let Some(busy) = self.step.signals.generator_busy
        {
            bound |= self.weigh(
                Cause::LoadGenerator,
                "CPU of the load machine",
                Some(percent(busy)),
                (CLIENT_BUSY, "≥ 80 %"),
                "/proc/stat of the load machine",
            );
        }
        bound |= self.starved();
        let invalid = self.step.cells.iter().any(|c| {
            c.reasons
                .iter()
                .any(|r| r.rule == Rule::V7 && r.text.starts_with("client-bound"))
        });
        if bound || invalid {
            self.prove(Cause::LoadGenerator);
        }
    }

    /// A worker that always wants a CPU and mostly has none, while few clients get into the server: others on
    /// the load machine take it. Clients that are in the server say that it is the server's load.
    fn starved(&mut self) -> bool {
        let signals = self.step.signals;
        let (Some(wanted), Some(idle)) = (signals.self_wanted, signals.self_waited) else {
            return false;
        };
        let few = self.clients() >= MANY_CLIENTS
            && signals
                .threads_running
                .is_some_and(|running| running <= INSIDE * self.clients());
        // On a host that both share, whoever takes the CPU takes it from the server as well, unless that
        // has little to do.
        let apart = !self.local || signals.server_cpu.is_some_and(|cpu| cpu < IDLE_SERVER);
        let met = wanted >= WANTED && idle >= STARVED * wanted && few && apart;
        self.weigh(
            Cause::LoadGenerator,
            "busiest load worker with its wait for a CPU",
            Some((
                f64::from(u8::from(met)),
                format!(
                    "{}, {} of it waiting",
                    Ratio(wanted),
                    Ratio(idle / wanted.max(1e-9))
                ),
            )),
            (
                1.0,
                "≥ 80 %, half of it waiting, with few clients in a server that has little to do",
            ),
            "/proc/self/task/*/schedstat of the load machine",
        )
    }

    pub(super) fn network(&mut self) {
        let link = self.step.signals.link.clone();
        // Loopback and virtual links have no speed: nothing is missing then when the server is local.
        if let Some(link) = link {
            let full = self.weigh(
                Cause::Network,
                &format!("use of link {}", link.name),
                Some(percent(link.used)),
                (LINK_FULL, "≥ 90 % of its speed"),
                "/proc/net/dev",
            );
            if full {
                self.prove(Cause::Network);
            }
        } else if !self.local {
            self.missing
                .push("network link: its speed is not known".to_owned());
        }
        if self.clients() < MANY_CLIENTS {
            return;
        }
        // What waits in a thread pool's queue is inside too, though it does not run.
        let signals = self.step.signals;
        let inside = if self.thread_pool() {
            signals.threads_running.zip(signals.queued)
        } else {
            signals.threads_running.map(|running| (running, 0.0))
        };
        let shown = inside.map(|(running, queued)| {
            let queue = if queued > 0.0 {
                format!(" and {queued:.1} in the thread pool's queues")
            } else {
                String::new()
            };
            (
                (running + queued) / self.clients(),
                format!("{running:.1}{queue} of {}", self.step.threads),
            )
        });
        // "Met" means few, so the weighing is of the share outside.
        let outside = self.weigh(
            Cause::OutsideServer,
            "clients at work in the server (Threads_running)",
            shown.map(|(share, text)| (1.0 - share, text)),
            (1.0 - INSIDE, "≤ 25 % of the clients"),
            "SHOW GLOBAL STATUS",
        );
        // On a full host whoever has the CPU keeps the clients from it, and is told by the rules of the CPU.
        let cpu_free = self
            .host(self.step.signals.cpu_busy())
            .is_none_or(|busy| busy < CPU_BUSY);
        // Think time keeps clients out of the server on purpose.
        let thinking = self.step.cells.iter().any(|c| c.think_time_ms > 0.0);
        if outside && self.step.reference.saturated && cpu_free && !thinking {
            if let Some(cv) = self.cv() {
                self.weigh(
                    Cause::Network,
                    "evenness of a capped plateau (CV of throughput)",
                    Some((-cv, Ratio(cv).to_string())),
                    (-CAPPED, "≤ 0.7 %"),
                    "capbench's intervals",
                );
            }
            self.prove(Cause::OutsideServer);
        }
    }

    pub(super) fn row_locks(&mut self) {
        let share = self.step.signals.row_lock_share;
        let source = "SHOW GLOBAL STATUS (Innodb_row_lock_time)";
        if self.weigh(
            Cause::RowLocks,
            "client time waiting for row locks",
            share.map(percent),
            (LOCKS_CONTRIBUTE, "≥ 10 % contributes, ≥ 20 % is primary"),
            source,
        ) {
            if share.is_some_and(|s| s >= LOCKS_PRIMARY) {
                self.prove(Cause::RowLocks);
            } else {
                self.contribute(Cause::RowLocks);
            }
        }
        // Without the server's counter the errors that clients saw still tell.
        let deadlocks = self.step.signals.deadlocks_per_transaction.or_else(|| {
            let done: u64 = self.step.cells.iter().map(|c| c.done).sum();
            (done > 0).then(|| self.errors(&[1213]) as f64 / done as f64)
        });
        if self.weigh(
            Cause::RowLocks,
            "deadlocks per transaction",
            deadlocks.map(|d| (d, Ratio(d).to_string())),
            (DEADLOCKS_NOTE, "> 0.1 % is noted, > 1 % contributes"),
            "server counter or errors seen",
        ) && deadlocks.is_some_and(|d| d > DEADLOCKS)
        {
            self.contribute(Cause::RowLocks);
        }
    }

    pub(super) fn cluster(&mut self) {
        if let Some(share) = self.step.signals.semi_sync_share.filter(|s| *s > 0.0)
            && self.weigh(
                Cause::SemiSync,
                "client time waiting for a semi-synchronous replica",
                Some(percent(share)),
                (SEMI_SYNC, "≥ 20 %"),
                "SHOW GLOBAL STATUS (Rpl_semi_sync_*_tx_wait_time)",
            )
        {
            self.prove(Cause::SemiSync);
        }
        if let Some(share) = self.step.signals.group_throttle_share
            && self.weigh(
                Cause::FlowControl,
                "client time held back by Group Replication's flow control",
                Some(percent(share)),
                (FLOW_CONTROL, "≥ 5 %"),
                "SHOW GLOBAL STATUS (Gr_flow_control_throttle_time_sum)",
            )
        {
            self.prove(Cause::FlowControl);
        }
        if let Some(paused) = self.step.signals.flow_control
            && self.weigh(
                Cause::FlowControl,
                "time paused by flow control",
                Some(percent(paused)),
                (FLOW_CONTROL, "≥ 5 %"),
                "SHOW GLOBAL STATUS (wsrep_flow_control_paused_ns)",
            )
        {
            self.prove(Cause::FlowControl);
        }
    }

    pub(super) fn disk(&mut self) {
        let disk = self.step.signals.disk.clone().filter(|_| self.seen);
        let waiting = self.weigh(
            Cause::Disk,
            "CPU waiting for I/O",
            self.host(self.step.signals.cpu_iowait).map(percent),
            (IOWAIT, "≥ 15 %, with a queue ≥ 8"),
            "/proc/stat",
        );
        let queued = self.weigh(
            Cause::Disk,
            &disk.as_ref().map_or_else(
                || "disk queue".to_owned(),
                |d| format!("requests in flight on {}", d.name),
            ),
            disk.as_ref()
                .map(|d| (d.queue, format!("{:.1} (busy {})", d.queue, Ratio(d.busy)))),
            (QUEUE, "≥ 8"),
            "/proc/diskstats",
        );
        let slower = disk
            .as_ref()
            .and_then(|d| d.read_ms)
            .zip(self.step.reference.read_ms.filter(|ms| *ms > 0.0))
            .map(|(now, least)| {
                (
                    now / least,
                    format!("{} (×{:.1})", Millis(now), now / least),
                )
            });
        let slower = slower.is_some()
            && self.weigh(
                Cause::Disk,
                "time of a read against the ladder's shortest",
                slower,
                (READ_TIME_FACTOR, "≥ ×1.5"),
                "/proc/diskstats",
            );
        let misses = self.step.signals.misses_per_transaction;
        // A transaction of one statement never misses as often as one of twenty.
        let statement = self.step.signals.misses_per_statement;
        let reading = misses.is_some_and(|m| m >= 1.0)
            || statement.is_some_and(|m| m >= MISSES_PER_STATEMENT);
        let cause = if reading {
            Cause::DiskReads
        } else {
            Cause::Disk
        };
        let mut busy = true;
        if waiting && queued {
            self.prove(cause);
        } else if slower && (waiting || queued) {
            self.contribute(cause);
        } else {
            busy = false;
        }
        // A remote server's disk, and one that is no local device (a network file system), show only in
        // InnoDB's own queue.
        let pending = !busy
            && self.weigh(
                Cause::DiskReads,
                "reads under way in InnoDB",
                self.step
                    .signals
                    .pending_reads
                    .map(|n| (n, format!("{n:.1}"))),
                (PENDING_READS, "≥ 8, with misses"),
                "SHOW GLOBAL STATUS (Innodb_data_pending_reads)",
            );
        if pending && reading {
            self.prove(Cause::DiskReads);
        }
        self.misses(misses, reading && (busy || pending));
        if let Some(waits) = self.step.signals.wait_free_per_second.filter(|w| *w > 0.0) {
            self.weigh(
                Cause::DiskReads,
                "waits for a free page",
                Some((waits, format!("{waits:.1}/s"))),
                (f64::MIN_POSITIVE, "> 0"),
                "SHOW GLOBAL STATUS (Innodb_buffer_pool_wait_free)",
            );
            self.contribute(cause);
        }
    }

    /// Misses prove disk reads only beside a disk that is busy: the system's cache may serve them.
    fn misses(&mut self, misses: Option<f64>, met: bool) {
        let Some(misses) = misses else {
            self.missing
                .push("buffer pool misses: SHOW GLOBAL STATUS was not available".to_owned());
            return;
        };
        let hits = self
            .step
            .signals
            .buffer_pool_hits
            .map_or_else(String::new, |h| format!(", hit rate {:.2} %", h * 100.0));
        self.evidence.push(Evidence {
            cause: Cause::DiskReads,
            signal: "buffer pool misses per transaction".to_owned(),
            value: format!("{misses:.2}{hits}"),
            threshold: "≥ 1 (or 0.25 per statement), with disk evidence".to_owned(),
            met: Some(met),
            source: "SHOW GLOBAL STATUS".to_owned(),
        });
    }

    pub(super) fn redo(&mut self) {
        let mariadb = self
            .step
            .run
            .server
            .as_ref()
            .is_some_and(|s| s.flavour == Flavour::MariaDb);
        let (limit, words) = if mariadb {
            (
                CHECKPOINT_MARIADB,
                "≥ 90 % of the maximum age, with unsteady or waiting writes",
            )
        } else {
            (
                CHECKPOINT_MYSQL,
                "≥ 70 % of the capacity, with unsteady or waiting writes",
            )
        };
        let full = self.weigh(
            Cause::Redo,
            "checkpoint age against redo capacity",
            self.step.signals.checkpoint_fill.map(percent),
            (limit, words),
            "SHOW GLOBAL STATUS",
        );
        if !full {
            return;
        }
        // A full redo log alone only says that it is small.
        let unsteady = self.cv().is_some_and(|cv| cv > UNSTEADY);
        let tail = self
            .step
            .p95
            .zip(self.step.reference.knee_p95)
            .is_some_and(|(p95, knee)| knee.0 > 0.0 && p95.0 / knee.0 >= 2.0);
        let pressed = self
            .step
            .signals
            .wait_free_per_second
            .is_some_and(|w| w > 0.0)
            || self
                .step
                .signals
                .log_waits_per_second
                .is_some_and(|w| w > 0.0);
        if unsteady || tail || pressed {
            self.prove(Cause::Redo);
        } else {
            self.contribute(Cause::Redo);
        }
    }

    pub(super) fn log_flush(&mut self) {
        let waits = self.step.signals.log_waits_per_second;
        if self.weigh(
            Cause::LogFlush,
            "waits for the log buffer",
            waits.map(|w| (w, format!("{w:.1}/s"))),
            (LOG_WAITS, "> 10/s"),
            "SHOW GLOBAL STATUS (Innodb_log_waits)",
        ) {
            self.prove(Cause::LogFlush);
        }
        let writing = self
            .step
            .signals
            .redo_bytes_per_second
            .zip(self.step.tps)
            .is_some_and(|(bytes, tps)| tps > 0.0 && bytes / tps > 1.0);
        if !writing {
            return;
        }
        let fsyncs = self.step.signals.fsyncs_per_transaction;
        let many = self.clients() >= MANY_CLIENTS;
        let mut alone = self.weigh(
            Cause::LogFlush,
            "fsyncs per transaction",
            fsyncs.map(|f| (f, format!("{f:.2}"))),
            (
                NO_GROUP_COMMIT,
                "≈ 1 with 8 clients or more: no group commit",
            ),
            "SHOW GLOBAL STATUS",
        );
        // A few clients have nobody to share an fsync with.
        if !many {
            alone = false;
            if fsyncs.is_some() {
                self.amend(None);
            }
        }
        let pending = self.weigh(
            Cause::LogFlush,
            "log flushes under way",
            self.step
                .signals
                .pending_fsyncs
                .map(|n| (n, format!("{n:.2}"))),
            (PENDING_FSYNCS, "≥ 0.5 on average"),
            "SHOW GLOBAL STATUS (pending fsyncs)",
        );
        let committing = self.weigh(
            Cause::LogFlush,
            "clients that wait for their commit",
            self.step.signals.committing_share.map(percent),
            (COMMITTING, "≥ 50 %"),
            "SHOW PROCESSLIST (needs the PROCESS privilege)",
        );
        // A flush under way keeps nobody waiting where commits do not wait for it.
        let pending = pending
            && self
                .step
                .signals
                .committing_share
                .is_none_or(|share| share >= 0.5 * COMMITTING);
        if alone || pending || committing {
            // Commits that wait for the disk are the limit only while the CPU is not; a CPU that others fill
            // is not the server's.
            if self
                .host(self.step.signals.cpu_busy())
                .is_none_or(|busy| busy < CPU_BUSY)
                || self
                    .host(self.step.signals.server_cpu)
                    .is_some_and(|cpu| cpu < IDLE_SERVER)
            {
                self.prove(Cause::LogFlush);
            } else {
                self.contribute(Cause::LogFlush);
            }
        }
    }

    pub(super) fn others(&mut self) {
        let share = self.step.signals.disk_tables_share.filter(|_| {
            self.step
                .signals
                .disk_tables_per_second
                .is_some_and(|rate| rate >= DISK_TABLES_RATE)
        });
        if let Some(share) = share
            && self.weigh(
                Cause::TemporaryTables,
                "temporary tables on disk",
                Some(percent(share)),
                (DISK_TABLES, "≥ 25 %"),
                "SHOW GLOBAL STATUS (Created_tmp_disk_tables)",
            )
        {
            // The last of the order: only where nothing else is full.
            self.prove(Cause::TemporaryTables);
        }
        if let Some(merges) = self
            .step
            .signals
            .sort_merges_per_second
            .filter(|m| *m >= 1.0)
        {
            self.weigh(
                Cause::TemporaryTables,
                "sort merge passes",
                Some((merges, format!("{merges:.1}/s"))),
                (1.0, "≥ 1/s"),
                "SHOW GLOBAL STATUS",
            );
            self.contribute(Cause::TemporaryTables);
        }
        if let Some(n) = self.step.signals.table_cache_overflows.filter(|n| *n > 0.0) {
            self.weigh(
                Cause::TableCache,
                "table cache overflows",
                Some((n, format!("{n:.0}"))),
                (1.0, "any"),
                "SHOW GLOBAL STATUS",
            );
            self.contribute(Cause::TableCache);
        }
        let growth = self.step.signals.history_growth.unwrap_or(0.0);
        if let Some(length) = self.step.signals.history
            && self.weigh(
                Cause::Purge,
                "history list length",
                Some((length, format!("{length:.0} ({growth:+.0} in the window)"))),
                (HISTORY, "≥ 50 000"),
                "server counter",
            )
        {
            self.contribute(Cause::Purge);
        }
        let spread = mean_of(
            self.step
                .cells
                .iter()
                .map(|c| c.fairness.map(|f| f.spread.0)),
        );
        let least = self.step.reference.unfair.unwrap_or(0.0);
        if let Some(spread) = spread
            && self.weigh(
                Cause::Unfair,
                "spread of transactions per client (stddev / mean)",
                Some(percent(spread)),
                (
                    UNFAIR.max(3.0 * least),
                    "≥ 30 % and ×3 of the ladder's smallest",
                ),
                "capbench",
            )
        {
            self.contribute(Cause::Unfair);
        }
    }
}
