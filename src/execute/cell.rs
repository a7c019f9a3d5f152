//! One cell → its record.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use super::extend::Extension;
use super::guard::Watch;
use super::sentinel::Sentinel;
use crate::dataset;
use crate::interrupt::Interrupt;
use crate::load::{self, Flow, LoadOutcome, LoadSpec, Observer, Pace};
use crate::matrix::Cell;
use crate::plan::{Plan, Step};
use crate::record::{CellEvidence, CellRecord, CellStatus, ClientUsage, Interval, Merged, Phase};
use crate::target::{self, Endpoint};
use crate::terminal::Terminal;
use crate::units::{Millis, PerSecond};
use crate::workload::Program;

/// The seed of a cell's random streams: from the plan's seed, the workload and the step, so that every
/// variant and every pass is asked the same questions.
pub(super) fn stream_seed(seed: u64, workload: &str, step: Step) -> u64 {
    let mut hash = Sha256::new();
    hash.update(seed.to_le_bytes());
    hash.update(workload.as_bytes());
    match step {
        Step::Threads(threads) => hash.update(threads.to_le_bytes()),
        Step::Rate(PerSecond(rate)) => hash.update(rate.to_le_bytes()),
    }
    let digest = hash.finalize();
    digest
        .iter()
        .take(8)
        .fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

/// What the load engine is asked to do in a cell.
pub(super) fn spec(
    plan: &Plan,
    endpoint: &Endpoint,
    rows: u64,
    program: &Program,
    step: Step,
) -> LoadSpec {
    let pace = match (step, plan.ladder.open) {
        (Step::Rate(rate), Some(open)) => Pace::Open {
            rate: rate.0,
            clients: open.clients,
            arrivals: open.arrivals,
            backlog: open.backlog,
        },
        (Step::Rate(rate), None) => Pace::Open {
            rate: rate.0,
            clients: 1,
            arrivals: crate::plan::Arrivals::Poisson,
            backlog: 1,
        },
        (Step::Threads(clients), _) => Pace::Closed { clients },
    };
    LoadSpec {
        endpoint: endpoint.clone(),
        program: Arc::new(program.clone()),
        tables: dataset::tables_needed(plan, program.tables),
        rows,
        access: plan.access,
        options: plan.load,
        pace,
        discard: plan.ladder.discard.0,
        // What is steady earlier ends with the plan's measured time.
        measure: plan.ladder.until_steady.unwrap_or(plan.ladder.measure).0,
        events: plan.ladder.events,
        interval: plan.ladder.interval.0,
        seed: stream_seed(plan.seed, &program.name, step),
    }
}

/// What a cell is called in progress lines.
#[derive(Debug, Clone)]
pub(super) struct Label {
    /// `3/10`.
    pub position: String,
    /// `oltp_read_only 8 threads` and, with several variants, the variant's name.
    pub text: String,
}

/// Watches a cell while the engine drives it.
pub(super) struct CellObserver<'a> {
    terminal: &'a Terminal,
    label: &'a Label,
    admin: &'a Endpoint,
    watch: Mutex<Watch<'a>>,
    sentinel: &'a Sentinel,
    /// The private server's process.
    server: Option<u32>,
    server_cpu: &'a (dyn Fn() -> Option<crate::units::Ratio> + Sync),
    on_release: &'a (dyn Fn(Instant) + Sync),
    extension: Option<&'a Extension>,
}

impl<'a> CellObserver<'a> {
    /// An observer for one cell.
    #[expect(clippy::too_many_arguments, reason = "each is a part of its own")]
    pub(super) fn new(
        terminal: &'a Terminal,
        label: &'a Label,
        admin: &'a Endpoint,
        watch: Watch<'a>,
        sentinel: &'a Sentinel,
        server: Option<u32>,
        server_cpu: &'a (dyn Fn() -> Option<crate::units::Ratio> + Sync),
        on_release: &'a (dyn Fn(Instant) + Sync),
    ) -> Self {
        Self {
            terminal,
            label,
            admin,
            watch: Mutex::new(watch),
            sentinel,
            server,
            server_cpu,
            on_release,
            extension: None,
        }
    }

    /// Ends the cell as soon as it is steady, once the plan's measured time is over.
    pub(super) fn until_steady(self, extension: Option<&'a Extension>) -> Self {
        Self { extension, ..self }
    }
}

impl Observer for CellObserver<'_> {
    fn connected(&self, _clients: u32) {}

    fn released(&self) {
        (self.on_release)(Instant::now());
    }

    fn interval(&self, interval: &Interval) -> Flow {
        self.terminal.say(interval_line(self.label, interval));
        if self.server.is_some_and(|pid| !target::is_alive(pid)) {
            // Nobody will start it again: no client gets any further.
            return Flow::Stop("the private server ended".to_owned());
        }
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let why = watch
            .interval(interval, (self.server_cpu)(), &jiff::ZonedDateTime::now())
            .or_else(|| self.sentinel.why());
        match why {
            Some(why) => Flow::Stop(why),
            None if self.extension.is_some_and(|e| e.enough(interval)) => Flow::Enough,
            None => Flow::Continue,
        }
    }

    fn kill(&self, connection_ids: &[u64]) {
        kill_queries(self.admin, connection_ids);
    }
}

/// How long a connection for KILL may take: the server may be the very thing that hangs.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// KILL QUERY on each; best effort, since the clients are cut off afterwards whatever it brings.
fn kill_queries(admin: &Endpoint, connection_ids: &[u64]) {
    use mysql::prelude::Queryable as _;
    let mut endpoint = admin.clone();
    endpoint.connect_timeout = KILL_TIMEOUT;
    let Ok(mut conn) = target::connect(&endpoint, Some(KILL_TIMEOUT)) else {
        return;
    };
    for id in connection_ids {
        let _ = conn.query_drop(format!("KILL QUERY {id}"));
    }
}

/// One line an interval: what a person wants to see pass by.
fn interval_line(label: &Label, interval: &Interval) -> String {
    let seconds = interval.seconds().max(1e-9);
    let missing =
        |figure: Option<Millis>| figure.map_or_else(|| "n/a".to_owned(), |f| f.to_string());
    // Intervals of less than a second, as short plans have them.
    let digits = usize::from(interval.seconds() < 0.95);
    let mut line = format!(
        "  [{}] {}  {:>5.digits$}s  {:>8} tps  {:>8} qps  p95 {:>9}  p99 {:>9}",
        label.position,
        label.text,
        interval.end,
        format!("{:.0}", interval.done as f64 / seconds),
        format!("{:.0}", interval.queries() as f64 / seconds),
        missing(interval.latency.quantile(0.95)),
        missing(interval.latency.quantile(0.99)),
    );
    let errors: u64 = interval.errors.iter().map(|error| error.count).sum();
    for (count, one, more) in [
        (errors, "error", "errors"),
        (interval.failed, "failed", "failed"),
        (interval.retries, "retry", "retries"),
        (interval.reconnects, "reconnect", "reconnects"),
        (interval.dropped, "dropped", "dropped"),
    ] {
        if count > 0 {
            let what = if count == 1 { one } else { more };
            let _ = write!(line, "  {count} {what}");
        }
    }
    if interval.phase == Phase::Discard {
        line.push_str("  (discarded)");
    }
    line
}

/// The record of a cell that was not started, or whose clients never got as far as the release.
pub(super) fn blank(
    plan: &Plan,
    cell: &Cell,
    status: CellStatus,
    reason: Option<String>,
) -> CellRecord {
    let program = &plan.ladder.workloads[cell.workload];
    CellRecord {
        index: cell.index,
        repeat: cell.repeat,
        variant: plan.variants[cell.variant].name.clone(),
        workload: program.name.clone(),
        step: cell.step,
        clients: cell.clients,
        kind: cell.kind,
        status,
        reason,
        started_at: None,
        seconds: 0.0,
        think_time_ms: program.think_time_ms,
        per_client: Vec::new(),
        outage_seconds: 0.0,
        recovery_seconds: None,
        statements: Vec::new(),
        client: ClientUsage::default(),
        differences: Vec::new(),
        evidence: CellEvidence::default(),
        intervals: Vec::new(),
        server: Vec::new(),
        host: Vec::new(),
        merged: Merged::default(),
    }
}

/// Puts what the engine measured into a cell's record.
pub(super) fn filled(blank: CellRecord, outcome: LoadOutcome) -> CellRecord {
    CellRecord {
        status: outcome.status,
        reason: outcome.reason,
        started_at: outcome
            .started_at
            .and_then(|at| jiff::Timestamp::try_from(at).ok())
            .map(|at| at.to_string()),
        seconds: outcome.seconds,
        per_client: outcome.per_client,
        outage_seconds: outcome.outage_seconds,
        recovery_seconds: outcome.recovery_seconds,
        statements: outcome.statements,
        client: outcome.client,
        intervals: outcome.intervals,
        ..blank
    }
}

/// Drives the load of one cell.
///
/// # Errors
/// The engine's, for what goes wrong before the clients are released.
pub(super) fn drive(
    spec: &LoadSpec,
    observer: &CellObserver<'_>,
    interrupt: &Interrupt,
) -> Result<LoadOutcome, load::LoadError> {
    load::run(spec, observer, interrupt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ErrorCount;

    #[test]
    fn streams_depend_on_seed_workload_and_step_alone() {
        let seed = |seed, workload, step| stream_seed(seed, workload, step);
        let base = seed(42, "oltp_read_only", Step::Threads(8));
        assert_eq!(base, seed(42, "oltp_read_only", Step::Threads(8)));
        // Fixed for good: a plan asks the same questions next year.
        assert_eq!(base, 3_295_271_983_952_355_169);
        for other in [
            seed(43, "oltp_read_only", Step::Threads(8)),
            seed(42, "oltp_write_only", Step::Threads(8)),
            seed(42, "oltp_read_only", Step::Threads(16)),
            seed(42, "oltp_read_only", Step::Rate(PerSecond(8.0))),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn a_line_tells_an_interval_and_only_what_happened() {
        let label = Label {
            position: "3/10".into(),
            text: "oltp_read_only 8 threads".into(),
        };
        let quiet = Interval::empty(10.0, 20.0, Phase::Measure);
        let line = interval_line(&label, &quiet);
        assert!(
            line.contains("[3/10] oltp_read_only 8 threads") && line.contains("p95       n/a"),
            "{line}"
        );
        assert!(
            !line.contains("error") && !line.contains("discarded"),
            "{line}"
        );
        let busy = Interval {
            done: 1000,
            reads: 5000,
            retries: 1,
            errors: vec![ErrorCount {
                code: 1213,
                statement: "index_update".into(),
                count: 3,
            }],
            ..Interval::empty(0.0, 10.0, Phase::Discard)
        };
        let line = interval_line(&label, &busy);
        assert!(
            line.contains("100 tps") && line.contains("500 qps"),
            "{line}"
        );
        assert!(line.ends_with("  3 errors  1 retry  (discarded)"), "{line}");
    }
}
