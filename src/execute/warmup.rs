//! Load that is not measured, for a stated time or until reads from files are level.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable as _;

use super::cell::{self, CellObserver, Label};
use super::guard::Watch;
use super::level::is_level;
use super::sentinel::Sentinel;
use super::{Session, SessionError};
use crate::load::{Flow, Observer};
use crate::plan::Step;
use crate::record::{CellStatus, Interval, WarmupRecord};
use crate::target::{self, Endpoint};

/// How long a reading may take.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

impl Session<'_> {
    /// Warms the server up as the plan says; `None`: it says not to.
    pub(super) fn warm_up(&mut self) -> Result<Option<WarmupRecord>, SessionError> {
        let plan = &self.plan.warmup;
        let Some(program) = &plan.workload else {
            return Ok(None);
        };
        if plan.duration.0.is_zero() {
            return Ok(None);
        }
        self.before_load(program)?;
        let most = if plan.until_level {
            plan.limit
        } else {
            plan.duration
        };
        let time = if plan.until_level {
            format!(
                "for {} and until reads from files are level, at most {most}",
                plan.duration
            )
        } else {
            format!("for {most}")
        };
        self.terminal.say(format_args!(
            "warming up: {} with {} threads {time}",
            program.name, plan.threads
        ));
        let mut spec = cell::spec(
            self.plan,
            self.server.load_endpoint(),
            self.rows(),
            program,
            Step::Threads(plan.threads),
        );
        spec.discard = Duration::ZERO;
        spec.measure = most.0;
        spec.events = None;
        let label = Label {
            position: "warm-up".into(),
            text: program.name.clone(),
        };
        let admin = self.server.admin_endpoint().clone();
        let sentinel = Sentinel::start(&self.plan.guard, self.server);
        let observer = WarmupObserver {
            cell: CellObserver::new(
                self.terminal,
                &label,
                &admin,
                Watch::new(&self.plan.guard),
                &sentinel,
                self.server.pid(),
                &|| None,
                &|_| {},
            ),
            least: plan.until_level.then_some(plan.duration.0),
            reads: Mutex::new(Reads::new(&admin)),
        };
        let outcome =
            crate::load::run(&spec, &observer, self.interrupt).map_err(SessionError::Warmup)?;
        let reads = observer
            .reads
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        match outcome.status {
            CellStatus::Completed | CellStatus::Truncated => {}
            CellStatus::Stopped if reads.level => {}
            CellStatus::Interrupted => return Err(SessionError::Interrupted),
            // What fails after the user's wish to end is no fault of the server.
            CellStatus::Failed if self.interrupt.raised() => {
                return Err(SessionError::Interrupted);
            }
            CellStatus::Failed | CellStatus::Stopped | CellStatus::Skipped => {
                return Err(SessionError::WarmupFailed {
                    workload: program.name.clone(),
                    reason: outcome.reason.unwrap_or_default(),
                });
            }
        }
        if plan.until_level && !reads.level {
            let why = if reads.counts.is_empty() {
                "Innodb_buffer_pool_reads could not be read".to_owned()
            } else {
                format!("the pages that InnoDB reads from its files were not level after {most}")
            };
            self.warn_once(
                "warmup-not-level",
                format!("{why}: the first steps may measure caches that still fill"),
            );
        }
        Ok(Some(WarmupRecord {
            seconds: outcome.seconds,
            reads: reads.rates(),
            level: plan.until_level.then_some(reads.level),
        }))
    }
}

/// Watches a warm-up as a cell is watched, and its reads from files besides.
struct WarmupObserver<'a> {
    cell: CellObserver<'a>,
    /// Ends it when reads are level after this time; `None`: the plan's duration ends it.
    least: Option<Duration>,
    reads: Mutex<Reads>,
}

impl Observer for WarmupObserver<'_> {
    fn connected(&self, clients: u32) {
        self.cell.connected(clients);
    }

    fn released(&self) {
        self.cell.released();
        self.lock().begin();
    }

    fn interval(&self, interval: &Interval) -> Flow {
        if let Flow::Stop(why) = self.cell.interval(interval) {
            return Flow::Stop(why);
        }
        let mut reads = self.lock();
        reads.count();
        let long_enough = self
            .least
            .is_some_and(|least| interval.end >= least.as_secs_f64());
        if long_enough && is_level(&reads.counts) {
            reads.level = true;
            return Flow::Stop("reads from files are level".to_owned());
        }
        Flow::Continue
    }

    fn kill(&self, connection_ids: &[u64]) {
        self.cell.kill(connection_ids);
    }
}

impl WarmupObserver<'_> {
    fn lock(&self) -> std::sync::MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pages that InnoDB read from its files, interval by interval.
struct Reads {
    /// `None`: they cannot be read.
    conn: Option<mysql::Conn>,
    last: Option<(f64, Instant)>,
    counts: Vec<f64>,
    seconds: Vec<f64>,
    level: bool,
}

impl Reads {
    fn new(admin: &Endpoint) -> Self {
        Self {
            conn: target::connect(admin, Some(READ_TIMEOUT)).ok(),
            last: None,
            counts: Vec::new(),
            seconds: Vec::new(),
            level: false,
        }
    }

    fn read(&mut self) -> Option<(f64, Instant)> {
        let row: (String, String) = self
            .conn
            .as_mut()?
            .query_first("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_reads'")
            .ok()??;
        Some((row.1.parse().ok()?, Instant::now()))
    }

    fn begin(&mut self) {
        self.last = self.read();
    }

    fn count(&mut self) {
        let now = self.read();
        if let (Some((before, since)), Some((count, at))) = (self.last, now) {
            self.counts.push((count - before).max(0.0));
            self.seconds.push(at.duration_since(since).as_secs_f64());
        } else {
            // Neighbours in the list are neighbours in time.
            self.counts.clear();
            self.seconds.clear();
        }
        self.last = now;
    }

    fn rates(&self) -> Vec<f64> {
        self.counts
            .iter()
            .zip(&self.seconds)
            .map(|(count, seconds)| count / seconds.max(1e-9))
            .collect()
    }
}
