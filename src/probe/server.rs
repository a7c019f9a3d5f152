//! Server counters over a control connection of the probe's own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mysql::prelude::Queryable;

use super::counters::{COUNTERS, Source};
use super::innodb_status::{self, Figure};
use super::names::server::{
    PROBE_STATEMENTS, QUEUED_STATEMENTS, THREADS_COMMITTING, THREADS_CONNECTED, THREADS_RUNNING,
    THREADS_WAITING_FOR_TABLES,
};

/// Above so many connections the list of threads is not read: it would be megabytes.
const MOST_THREADS: f64 = 2000.0;
/// States of a thread that waits for its commit, as both families call them (seen on `MariaDB` 10.11 and
/// `MySQL` 9.7 with slow flushes \[M\]), in lower case.
const COMMITTING: [&str; 4] = [
    "commit",
    "updating status",
    "waiting for handler commit",
    "waiting for semi-sync ack from",
];
/// States of a thread that waits for a table, its definition, a global or a named lock, likewise.
const WAITING_FOR_TABLES: [&str; 7] = [
    "user lock",
    "waiting for backup lock",
    "waiting for commit lock",
    "waiting for global read lock",
    "waiting for schema metadata lock",
    "waiting for stored",
    // … metadata lock, level lock, flush.
    "waiting for table",
];
use crate::record::{Flavour, Sample};

/// Why a sample could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The server did not answer SHOW GLOBAL STATUS.
    #[error("the server's status could not be read: {0}")]
    Status(#[source] mysql::Error),
}

/// Reads the counters of [`COUNTERS`].
pub struct Probe {
    conn: mysql::Conn,
    flavour: Flavour,
    /// Statement that reads the metrics that are needed; `None`: none is, or they cannot be read.
    metrics: Option<String>,
    /// Products of variables, read once.
    constants: BTreeMap<&'static str, f64>,
    unavailable: BTreeMap<String, String>,
    prepared: bool,
    /// Whether SHOW ENGINE INNODB STATUS is needed and allowed.
    innodb_status: bool,
    /// Whether statements queue for a thread pool whose queues can be read.
    thread_pool: bool,
    /// Statements sent so far: they are in the server's counts and not in the load's.
    sent: u32,
}

/// What one reading brought, beside the status.
#[derive(Debug, Default)]
struct Extra {
    metrics: HashMap<String, f64>,
    innodb_status: HashMap<Figure, f64>,
}

impl Probe {
    /// Takes over a connection. Give it read and write time limits, so that a server that hangs ends
    /// a sample with an error.
    pub fn new(conn: mysql::Conn, flavour: Flavour) -> Self {
        Self {
            conn,
            flavour,
            metrics: None,
            constants: BTreeMap::new(),
            unavailable: BTreeMap::new(),
            prepared: false,
            innodb_status: false,
            thread_pool: false,
            sent: 0,
        }
    }

    /// Reads all counters once; `at` is left 0 for the caller to set.
    ///
    /// # Errors
    /// The server's words when it does not answer at all. A counter that it lacks is no error: it is
    /// not in the sample, and [`Self::unavailable`] says why.
    pub fn sample(&mut self) -> Result<Sample, ProbeError> {
        // Those before this one: SHOW GLOBAL STATUS counts itself, at both ends of any window.
        let sent = f64::from(self.sent);
        self.sent += 1;
        let status: HashMap<String, String> = self
            .conn
            .query_map("SHOW GLOBAL STATUS", |(name, value): (String, String)| {
                (name.to_ascii_lowercase(), value)
            })
            .map_err(ProbeError::Status)?
            .into_iter()
            .collect();
        if !self.prepared {
            self.prepared = true;
            self.look_around(&status);
        }
        let extra = Extra {
            metrics: self.read_metrics()?,
            innodb_status: self.read_innodb_status().unwrap_or_default(),
        };
        let mut resolved = resolve(self.flavour, &status, &extra, &self.constants);
        resolved.insert(PROBE_STATEMENTS.to_owned(), sent);
        if let Some(states) = self.states(&resolved) {
            let begins = |with: &[&str]| {
                let count = states
                    .iter()
                    .filter(|state| with.iter().any(|w| state.starts_with(w)));
                count.count() as f64
            };
            resolved.insert(THREADS_COMMITTING.to_owned(), begins(&COMMITTING));
            let tables = begins(&WAITING_FOR_TABLES);
            resolved.insert(THREADS_WAITING_FOR_TABLES.to_owned(), tables);
        }
        if let Some(queued) = self.queued(&extra) {
            resolved.insert(QUEUED_STATEMENTS.to_owned(), queued);
        }
        Ok(Sample {
            at: 0.0,
            values: resolved.into(),
        })
    }

    /// Signals that this server does not give, each with the reason.
    pub fn unavailable(&self) -> Vec<String> {
        self.unavailable
            .iter()
            .map(|(name, why)| format!("{name}: {why}"))
            .collect()
    }

    /// Finds out once what this server has: enabled metrics, variables, and what is missing.
    fn look_around(&mut self, status: &HashMap<String, String>) {
        let wanted = wanted_metrics(self.flavour, status);
        let mut metrics_problem = None;
        if !wanted.is_empty() {
            match self.enabled_metrics(&wanted) {
                Ok(enabled) if enabled.is_empty() => {
                    metrics_problem = Some("INNODB_METRICS: not enabled".to_owned());
                }
                Ok(enabled) => self.metrics = Some(metrics_query(&enabled)),
                Err(error) => metrics_problem = Some(format!("INNODB_METRICS: {}", words(&error))),
            }
        }
        for (name, (a, b)) in wanted_variables(self.flavour, status) {
            let sql = format!("SELECT @@GLOBAL.{a} * @@GLOBAL.{b}");
            self.sent += 1;
            if let Ok(Some(value)) = self.conn.query_first::<f64, _>(sql) {
                self.constants.insert(name, value);
            }
        }
        let mut extra = Extra {
            metrics: self.read_metrics().unwrap_or_default(),
            ..Extra::default()
        };
        let mut status_problem = None;
        let limited = self.look_for_queues();
        if limited || self.needs_innodb_status(status, &extra) {
            self.innodb_status = true;
            match self.read_innodb_status() {
                Ok(figures) => extra.innodb_status = figures,
                Err(error) => {
                    // It would be refused again and again.
                    self.innodb_status = false;
                    status_problem = Some(words(&error));
                }
            }
        }
        let found = resolve(self.flavour, status, &extra, &self.constants);
        for counter in COUNTERS {
            if counter.optional || found.contains_key(counter.name) {
                continue;
            }
            let sources = counter.sources(self.flavour);
            // The text of INNODB STATUS is the last resort of a counter, not its place.
            let place = sources
                .iter()
                .rfind(|source| !matches!(source, Source::InnodbStatus(_)));
            let why = match (place, &metrics_problem) {
                (None, _) => "this server does not have it".to_owned(),
                (Some(Source::Metric(metric)), Some(problem)) => format!("{problem} ({metric})"),
                (Some(Source::Metric(metric)), None) => {
                    format!("INNODB_METRICS has no enabled {metric}")
                }
                (Some(Source::Metrics(metrics)), _) => {
                    format!("INNODB_METRICS has no enabled {}", metrics.join(", "))
                }
                (Some(Source::InnodbStatus(_)), _) => "no source".to_owned(),
                (Some(Source::Status(status)), _) => {
                    format!("SHOW GLOBAL STATUS has no {status}")
                }
                (Some(Source::Difference(a, b)), _) => {
                    format!("SHOW GLOBAL STATUS has no {a} or {b}")
                }
                (Some(Source::Variables(a, b)), _) => format!("no variables {a}, {b}"),
            };
            let why = match &status_problem {
                Some(problem)
                    if sources
                        .iter()
                        .any(|source| matches!(source, Source::InnodbStatus(_))) =>
                {
                    format!("{why}; SHOW ENGINE INNODB STATUS: {problem}")
                }
                _ => why,
            };
            self.unavailable.insert(counter.name.to_owned(), why);
        }
    }

    /// Finds out whether statements queue for a thread pool, and answers whether they do for
    /// `innodb_thread_concurrency`.
    fn look_for_queues(&mut self) -> bool {
        self.sent += 1;
        let found: Result<Vec<(String, String)>, _> = self.conn.query(
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('thread_handling', 'innodb_thread_concurrency')",
        );
        let found: HashMap<String, String> = found.unwrap_or_default().into_iter().collect();
        let is = |name: &str| found.get(name).map(String::as_str);
        if is("thread_handling") == Some("pool-of-threads") {
            match self.pool_queue() {
                Ok(_) => self.thread_pool = true,
                Err(error) => {
                    let why = format!("THREAD_POOL_GROUPS: {}", words(&error));
                    self.unavailable.insert(QUEUED_STATEMENTS.to_owned(), why);
                }
            }
        }
        is("innodb_thread_concurrency").is_some_and(|limit| limit != "0")
    }

    /// Statements in all queues that are in use; `None`: none is, or they cannot be read.
    fn queued(&mut self, extra: &Extra) -> Option<f64> {
        let pool = if self.thread_pool {
            self.pool_queue().ok().flatten()
        } else {
            None
        };
        let innodb = extra.innodb_status.get(&Figure::Queued).copied();
        pool.into_iter().chain(innodb).reduce(|a, b| a + b)
    }

    fn pool_queue(&mut self) -> Result<Option<f64>, mysql::Error> {
        self.sent += 1;
        self.conn.query_first(
            "SELECT SUM(QUEUE_LENGTH) + 0e0 FROM INFORMATION_SCHEMA.THREAD_POOL_GROUPS",
        )
    }

    /// States of the threads that execute something; `None` when the list is too long, refused, or holds fewer
    /// than half of the threads that run (the account sees only its own).
    fn states(&mut self, values: &BTreeMap<String, f64>) -> Option<Vec<String>> {
        let value = |name: &str| values.get(name).copied();
        if value(THREADS_CONNECTED)? > MOST_THREADS {
            return None;
        }
        self.sent += 1;
        let rows: Vec<mysql::Row> = self.conn.query("SHOW PROCESSLIST").ok()?;
        let own = self.conn.connection_id();
        let active: Vec<String> = rows.iter().filter_map(|row| state(row, own)).collect();
        // The probe's own thread runs too, and on MySQL the event scheduler's.
        let running = value(THREADS_RUNNING)? - 2.0;
        (active.len() as f64 >= 0.5 * running).then_some(active)
    }

    /// Whether a counter has no source but the status text.
    fn needs_innodb_status(&self, status: &HashMap<String, String>, extra: &Extra) -> bool {
        let found = resolve(self.flavour, status, extra, &self.constants);
        COUNTERS.iter().any(|counter| {
            !found.contains_key(counter.name)
                && counter
                    .sources(self.flavour)
                    .iter()
                    .any(|source| matches!(source, Source::InnodbStatus(_)))
        })
    }

    fn read_innodb_status(&mut self) -> Result<HashMap<Figure, f64>, mysql::Error> {
        if !self.innodb_status {
            return Ok(HashMap::new());
        }
        self.sent += 1;
        let row: Option<mysql::Row> = self.conn.query_first("SHOW ENGINE INNODB STATUS")?;
        let text: Option<String> = row.and_then(|row| row.get(2));
        Ok(innodb_status::figures(&text.unwrap_or_default()))
    }

    /// Which of `wanted` count. `MySQL` says so in STATUS; `MariaDB` has no such column but ENABLED.
    fn enabled_metrics(&mut self, wanted: &BTreeSet<&str>) -> Result<Vec<String>, mysql::Error> {
        let column = match self.flavour {
            Flavour::MySql => "STATUS = 'enabled'",
            Flavour::MariaDb => "ENABLED = 1",
        };
        let list = wanted
            .iter()
            .map(|name| format!("'{name}'"))
            .collect::<Vec<_>>()
            .join(",");
        self.sent += 1;
        self.conn.query(format!(
            "SELECT NAME FROM INFORMATION_SCHEMA.INNODB_METRICS WHERE NAME IN ({list}) AND {column}"
        ))
    }

    fn read_metrics(&mut self) -> Result<HashMap<String, f64>, ProbeError> {
        let Some(query) = &self.metrics else {
            return Ok(HashMap::new());
        };
        self.sent += 1;
        let rows: Vec<(String, f64)> = self.conn.query(query).map_err(ProbeError::Status)?;
        Ok(rows.into_iter().collect())
    }
}

/// State of a thread that executes something, in lower case; `None`: it does not, or is the probe's own.
fn state(row: &mysql::Row, own: u32) -> Option<String> {
    let id: u64 = row.get_opt(0)?.ok()?;
    let command: Option<String> = row.get_opt(4)?.ok()?;
    let state: Option<String> = row.get_opt(6)?.ok()?;
    let active = command.is_some_and(|c| c == "Query" || c == "Execute");
    (active && id != u64::from(own)).then(|| state.unwrap_or_default().to_lowercase())
}

fn metrics_query(names: &[String]) -> String {
    let list = names
        .iter()
        .map(|name| format!("'{name}'"))
        .collect::<Vec<_>>()
        .join(",");
    // A string is sent for COUNT otherwise on some versions; the sum is a number everywhere (MySQL 5.7 has no
    // CAST … AS DOUBLE).
    format!(
        "SELECT NAME, COUNT + 0e0 FROM INFORMATION_SCHEMA.INNODB_METRICS WHERE NAME IN ({list})"
    )
}

/// Metrics that are needed because no better source of their counter is there.
fn wanted_metrics(flavour: Flavour, status: &HashMap<String, String>) -> BTreeSet<&'static str> {
    let mut wanted = BTreeSet::new();
    for counter in COUNTERS {
        for source in counter.sources(flavour) {
            match source {
                Source::Metric(name) => {
                    wanted.insert(*name);
                }
                Source::Metrics(names) => wanted.extend(*names),
                source if from_status(*source, status).is_some() => break,
                _ => {}
            }
        }
    }
    wanted
}

/// Products of variables that are needed for the same reason.
fn wanted_variables(
    flavour: Flavour,
    status: &HashMap<String, String>,
) -> BTreeMap<&'static str, (&'static str, &'static str)> {
    let mut wanted = BTreeMap::new();
    for counter in COUNTERS {
        for source in counter.sources(flavour) {
            match source {
                Source::Variables(a, b) => {
                    wanted.insert(counter.name, (*a, *b));
                }
                source if from_status(*source, status).is_some() => break,
                _ => {}
            }
        }
    }
    wanted
}

/// Canonical name → value, for all counters that a source can be found for.
fn resolve(
    flavour: Flavour,
    status: &HashMap<String, String>,
    extra: &Extra,
    constants: &BTreeMap<&'static str, f64>,
) -> BTreeMap<String, f64> {
    COUNTERS
        .iter()
        .filter_map(|counter| {
            counter
                .sources(flavour)
                .iter()
                .find_map(|source| match source {
                    Source::Metric(name) => extra.metrics.get(*name).copied(),
                    Source::Metrics(names) => names
                        .iter()
                        .map(|name| extra.metrics.get(*name).copied())
                        .sum(),
                    Source::InnodbStatus(figure) => extra.innodb_status.get(figure).copied(),
                    Source::Variables(..) => constants.get(counter.name).copied(),
                    source => from_status(*source, status),
                })
                .map(|value| (counter.name.to_owned(), value))
        })
        .collect()
}

/// Value of a source that stands in SHOW GLOBAL STATUS (keys in lower case).
fn from_status(source: Source, status: &HashMap<String, String>) -> Option<f64> {
    let number = |name: &str| -> Option<f64> {
        status
            .get(&name.to_ascii_lowercase())?
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite())
    };
    match source {
        Source::Status(name) => number(name),
        Source::Difference(a, b) => Some((number(a)? - number(b)?).max(0.0)),
        Source::Metric(_)
        | Source::Metrics(_)
        | Source::InnodbStatus(_)
        | Source::Variables(..) => None,
    }
}

/// The server's own words without the crate's frame.
fn words(error: &mysql::Error) -> String {
    match error {
        mysql::Error::MySqlError(server) => format!("{} ({})", server.message, server.code),
        other => other.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
mod tests {
    use super::super::names::server as n;
    use super::*;

    fn dump(text: &str) -> HashMap<String, String> {
        text.lines()
            .filter_map(|line| line.split_once('\t'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect()
    }

    const MYSQL: [&str; 2] = [
        include_str!("../../tests/data/server-status/mysql_8.4.8.status.txt"),
        include_str!("../../tests/data/server-status/mysql_9.7.0-er2.status.txt"),
    ];
    const MARIADB: [&str; 3] = [
        include_str!("../../tests/data/server-status/mariadb_10.11.status.txt"),
        include_str!("../../tests/data/server-status/mariadb_11.8.6-MariaDB-ubu2404.status.txt"),
        include_str!("../../tests/data/server-status/mariadb_12.2.2-MariaDB-ubu2404.status.txt"),
    ];

    fn missing(flavour: Flavour, text: &str) -> Vec<&'static str> {
        let found = resolve(flavour, &dump(text), &Extra::default(), &BTreeMap::new());
        COUNTERS
            .iter()
            .filter(|c| !c.optional && !found.contains_key(c.name))
            .map(|c| c.name)
            .collect()
    }

    #[test]
    fn real_mysql_dumps_hold_every_counter_but_the_metrics() {
        for text in MYSQL {
            assert_eq!(
                missing(Flavour::MySql, text),
                [n::DEADLOCKS, n::HISTORY_LENGTH]
            );
        }
    }

    #[test]
    fn real_mariadb_dumps_hold_every_counter_but_the_redo_fsyncs() {
        for text in MARIADB {
            assert_eq!(missing(Flavour::MariaDb, text), [n::LOG_FSYNCS]);
        }
    }

    #[test]
    fn figures_of_the_dumps_are_read_right() {
        let maria = resolve(
            Flavour::MariaDb,
            &dump(MARIADB[0]),
            &Extra::default(),
            &BTreeMap::new(),
        );
        assert_eq!(maria[n::DEADLOCKS], 21437.0);
        assert_eq!(maria[n::CHECKPOINT_AGE], 7_301_820.0);
        assert_eq!(maria[n::CHECKPOINT_CAPACITY], 80_819_529.0);
        let mysql = resolve(
            Flavour::MySql,
            &dump(MYSQL[0]),
            &Extra {
                metrics: HashMap::from([("lock_deadlocks".to_owned(), 7.0)]),
                ..Extra::default()
            },
            &BTreeMap::new(),
        );
        assert_eq!(mysql[n::CHECKPOINT_AGE], 29_678_583.0 - 29_603_127.0);
        assert_eq!(mysql[n::CHECKPOINT_CAPACITY], 4_294_967_296.0);
        assert_eq!(mysql[n::DEADLOCKS], 7.0);
        assert!(!mysql.contains_key(n::HISTORY_LENGTH), "never 0");
    }

    #[test]
    fn asynchronous_reads_are_there_from_11_8_on() {
        let has = |text: &str| {
            resolve(
                Flavour::MariaDb,
                &dump(text),
                &Extra::default(),
                &BTreeMap::new(),
            )
            .contains_key(n::ASYNC_READS_PENDING)
        };
        assert!(!has(MARIADB[0]));
        assert!(has(MARIADB[1]));
    }

    #[test]
    fn metrics_are_asked_only_where_status_has_no_answer() {
        assert_eq!(
            wanted_metrics(Flavour::MySql, &dump(MYSQL[0])),
            BTreeSet::from([
                "innodb_rwlock_s_os_waits",
                "innodb_rwlock_sx_os_waits",
                "innodb_rwlock_x_os_waits",
                "lock_deadlocks",
                "trx_rseg_history_len"
            ])
        );
        assert!(wanted_metrics(Flavour::MariaDb, &dump(MARIADB[0])).is_empty());
        // MySQL before 8.0.30: no LSNs in the status.
        let old = HashMap::new();
        assert!(wanted_metrics(Flavour::MySql, &old).contains("log_lsn_checkpoint_age"));
        assert!(wanted_variables(Flavour::MySql, &old).contains_key(n::CHECKPOINT_CAPACITY));
        assert!(wanted_variables(Flavour::MySql, &dump(MYSQL[1])).is_empty());
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = COUNTERS.iter().map(|c| c.name).collect();
        assert_eq!(names.len(), COUNTERS.len());
    }
}
