//! Plan → ordered cells: repeat → variant → workload → ladder ascending.

use std::time::Duration;

use crate::plan::{DataSize, Plan, Reset, Step};
use crate::units::{Bytes, Span};

/// One measurement to be made; everything but these four coordinates is held fixed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Position in the run, from 1.
    pub index: u32,
    /// Pass over the variants, from 1.
    pub repeat: u32,
    /// Index into the plan's variants.
    pub variant: usize,
    /// Index into the ladder's workloads.
    pub workload: usize,
    /// Ladder step.
    pub step: Step,
    /// Concurrent clients of this step.
    pub clients: u32,
}

/// The cells of a plan in the order in which they run.
///
/// Every second pass visits the variants backwards (A B, B A, …), so that a slow drift of the
/// machine touches all variants alike; the ladder ascends within each.
pub fn cells(plan: &Plan) -> Vec<Cell> {
    let mut cells = Vec::new();
    for repeat in 1..=plan.ladder.repeats {
        let mut variants: Vec<usize> = (0..plan.variants.len()).collect();
        if repeat % 2 == 0 {
            variants.reverse();
        }
        for variant in variants {
            for workload in 0..plan.ladder.workloads.len() {
                for step in &plan.ladder.steps {
                    let clients = match step {
                        Step::Threads(threads) => *threads,
                        Step::Rate(_) => plan.ladder.open.map_or(1, |open| open.clients),
                    };
                    let index = u32::try_from(cells.len() + 1).unwrap_or(u32::MAX);
                    cells.push(Cell {
                        index,
                        repeat,
                        variant,
                        workload,
                        step: *step,
                        clients,
                    });
                }
            }
        }
    }
    cells
}

/// The cells cut where the variant is applied anew: one slice for each visit of a variant.
pub fn visits(cells: &[Cell]) -> impl Iterator<Item = &[Cell]> {
    cells.chunk_by(|a, b| (a.repeat, a.variant) == (b.repeat, b.variant))
}

/// The largest number of clients that any cell or the warm-up connects.
pub fn max_clients(plan: &Plan) -> u32 {
    let warmup = if plan.warmup.workload.is_some() {
        plan.warmup.threads
    } else {
        0
    };
    cells(plan)
        .iter()
        .map(|cell| cell.clients)
        .max()
        .unwrap_or(0)
        .max(warmup)
}

/// What a run will take, as far as the plan alone can tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Wall-clock time.
    pub duration: Span,
    /// Space for data and index; `None`: stated in buffer pools of a server that was not asked yet.
    pub data: Option<Bytes>,
    /// How often the server is restarted.
    pub restarts: u32,
    /// How often the data is loaded.
    pub loads: u32,
}

/// Bytes of one standard row with its secondary index, as InnoDB stores it after loading in key
/// order (measured on `MariaDB` 10.11 and `MySQL` 9.7: 215–245).
const ROW_BYTES: f64 = 235.0;
/// Rows a second that a modest server loads [H]; only for the estimate.
const LOAD_ROWS_PER_SECOND: f64 = 150_000.0;
/// Seconds that a restart takes [H]; only for the estimate.
const RESTART_SECONDS: f64 = 8.0;
/// Seconds a cell needs beside its discard and measured time, for connecting and draining [H].
const CELL_OVERHEAD_SECONDS: f64 = 0.3;
/// The default of `innodb_buffer_pool_size` on all servers of the family.
const DEFAULT_BUFFER_POOL: Bytes = Bytes(128 << 20);

/// Estimates duration and disk without asking any server.
pub fn estimate(plan: &Plan) -> Estimate {
    let tables = f64::from(plan.dataset.tables);
    let data = match plan.dataset.size {
        DataSize::Rows(rows) => Some(rows as f64 * tables * ROW_BYTES),
        DataSize::Bytes(bytes) => Some(bytes.0 as f64),
        DataSize::BufferPools(factor) => {
            stated_buffer_pool(plan).map(|pool| pool.0 as f64 * factor)
        }
    };
    let cells = cells(plan);
    let visits: Vec<_> = visits(&cells).collect();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let restarts = count(
        visits
            .iter()
            .filter(|visit| plan.variants[visit[0].variant].restart)
            .count(),
    );
    let loads = match (plan.dataset.existing, plan.dataset.reset) {
        (true, _) => 0,
        (false, Reset::Never) => 1,
        (false, Reset::PerVariant) => count(visits.len()),
        (false, Reset::PerCell) => count(cells.len()),
    };
    let load_seconds = data.unwrap_or(0.0) / ROW_BYTES / LOAD_ROWS_PER_SECOND;
    let warmup = if plan.warmup.workload.is_some() {
        plan.warmup.duration.seconds()
    } else {
        0.0
    };
    let cell =
        plan.ladder.discard.seconds() + plan.ladder.measure.seconds() + CELL_OVERHEAD_SECONDS;
    let seconds = cells.len() as f64 * cell
        + visits.len() as f64 * warmup
        + f64::from(restarts) * RESTART_SECONDS
        + f64::from(loads) * load_seconds;
    Estimate {
        duration: Span(Duration::from_secs_f64(rounded_up(seconds))),
        data: data.map(bytes),
        restarts,
        loads,
    }
}

/// An estimate is not known to the second: whole minutes from ten minutes on.
fn rounded_up(seconds: f64) -> f64 {
    if seconds < 600.0 {
        seconds.ceil()
    } else {
        (seconds / 60.0).ceil() * 60.0
    }
}

/// The largest buffer pool that the plan itself states; a private server without one has the default.
fn stated_buffer_pool(plan: &Plan) -> Option<Bytes> {
    use crate::plan::{Place, SettingValue};
    let managed: &[_] = match &plan.target.place {
        Place::Managed(managed) => &managed.options,
        Place::Server(_) => return None,
    };
    let stated = managed
        .iter()
        .chain(&plan.target.set)
        .chain(
            plan.variants
                .iter()
                .flat_map(|v| v.set.iter().chain(&v.options)),
        )
        .filter(|setting| setting.name == "innodb_buffer_pool_size")
        .filter_map(|setting| match &setting.value {
            SettingValue::Integer(n) => u64::try_from(*n).ok().map(Bytes),
            SettingValue::Text(text) => Bytes::parse(text).ok(),
            _ => None,
        })
        .max();
    Some(stated.unwrap_or(DEFAULT_BUFFER_POOL))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate; saturates"
)]
fn bytes(value: f64) -> Bytes {
    Bytes(value.max(0.0) as u64)
}
