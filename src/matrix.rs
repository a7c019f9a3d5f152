//! Plan → ordered cells: repeat → variant → workload → ladder ascending.

use std::time::Duration;

use crate::plan::{DataSize, Plan, Reset, Step};
use crate::record::CellKind;
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
    /// What it is measured for.
    pub kind: CellKind,
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
                    let clients = clients(plan, *step);
                    let index = u32::try_from(cells.len() + 1).unwrap_or(u32::MAX);
                    cells.push(Cell {
                        index,
                        repeat,
                        variant,
                        workload,
                        step: *step,
                        clients,
                        kind: CellKind::Ladder,
                    });
                }
            }
        }
    }
    cells
}

/// Concurrent clients of a step.
pub fn clients(plan: &Plan, step: Step) -> u32 {
    match step {
        Step::Threads(threads) => threads,
        Step::Rate(_) => plan.ladder.open.map_or(1, |open| open.clients),
    }
}

/// Whether the run ends with the baseline once more, so that drift shows: several variants, and the last
/// pass does not end with the baseline by itself. Nobody is asked to change a server by hand once more for it.
pub fn closes_with_reference(plan: &Plan) -> bool {
    plan.ladder.reference
        && plan.variants.len() > 1
        && plan.ladder.repeats % 2 == 1
        && plan.variants.iter().all(|variant| !variant.operator)
}

/// The cells cut where the variant is applied anew: one slice for each visit of a variant.
pub fn visits(cells: &[Cell]) -> impl Iterator<Item = &[Cell]> {
    cells.chunk_by(|a, b| (a.repeat, a.variant) == (b.repeat, b.variant))
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

/// Bytes of data and index; `None`: stated in buffer pools of a server that was not asked yet.
fn data_bytes(plan: &Plan) -> Option<f64> {
    let tables = f64::from(plan.dataset.tables);
    match plan.dataset.size {
        DataSize::Rows(rows) => Some(rows as f64 * tables * ROW_BYTES),
        DataSize::Bytes(bytes) => Some(bytes.0 as f64),
        DataSize::BufferPools(factor) => {
            stated_buffer_pool(plan).map(|pool| pool.0 as f64 * factor)
        }
    }
}

/// Seconds of loading all data once.
fn load_seconds(plan: &Plan) -> f64 {
    let rate = plan.dataset.load_rate.map_or(LOAD_ROWS_PER_SECOND, |most| {
        LOAD_ROWS_PER_SECOND.min(most as f64)
    });
    data_bytes(plan).unwrap_or(0.0) / ROW_BYTES / rate
}

/// Seconds of beginning a visit of a variant on data that is ready.
fn begin_seconds(plan: &Plan, variant: usize) -> f64 {
    let restart = if plan.variants[variant].restart {
        RESTART_SECONDS
    } else {
        0.0
    };
    restart + warmup_seconds(plan)
}

fn warmup_seconds(plan: &Plan) -> f64 {
    if plan.warmup.workload.is_some() {
        plan.warmup.duration.seconds()
    } else {
        0.0
    }
}

fn cell_seconds(plan: &Plan) -> f64 {
    plan.ladder.discard.seconds() + plan.ladder.measure.seconds() + CELL_OVERHEAD_SECONDS
}

fn soak_seconds(plan: &Plan) -> f64 {
    plan.soak.as_ref().map_or(0.0, |soak| {
        plan.ladder.discard.seconds() + soak.duration.seconds() + CELL_OVERHEAD_SECONDS
    })
}

fn refine_seconds(plan: &Plan) -> f64 {
    if plan.ladder.refine {
        plan.ladder.refine_budget.seconds()
    } else {
        0.0
    }
}

fn time(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_ESTIMATE)
}

/// What one cell takes.
pub fn cell_time(plan: &Plan) -> Duration {
    time(cell_seconds(plan))
}

/// What the plan's soak takes; zero without one.
pub fn soak_time(plan: &Plan) -> Duration {
    time(soak_seconds(plan))
}

/// What follows a reference cell when `to_come` more of them do: refining at its whole budget, the soak.
pub fn after_references(plan: &Plan, to_come: usize) -> Duration {
    time(to_come as f64 * cell_seconds(plan) + refine_seconds(plan) + soak_seconds(plan))
}

/// What a run will still take when the first of `rest`, the cells that are left, is about to be loaded: its variant
/// has begun and its data is ready.
pub fn left(plan: &Plan, rest: &[Cell]) -> Duration {
    time(left_seconds(plan, rest))
}

/// A time as it is shown: an estimate is not known to the second.
pub fn shown(time: Duration) -> Span {
    Span(Duration::try_from_secs_f64(rounded_up(time.as_secs_f64())).unwrap_or(LONGEST_ESTIMATE))
}

fn left_seconds(plan: &Plan, rest: &[Cell]) -> f64 {
    let visits: Vec<_> = visits(rest).collect();
    let loads = match (plan.dataset.existing, plan.dataset.reset) {
        (true, _) | (false, Reset::Never) => 0,
        (false, Reset::PerVariant) => dirtied(plan, &visits),
        (false, Reset::PerCell) => dirtied(plan, &rest.chunks(1).collect::<Vec<_>>()),
    };
    // Data that was put back for a cell is warmed up again.
    let warmed = match plan.dataset.reset {
        Reset::PerCell => loads.saturating_sub(visits.len().saturating_sub(1)),
        Reset::Never | Reset::PerVariant => 0,
    };
    // A private server's data is loaded once and then put back from a copy of its files.
    let again = match plan.target.place {
        crate::plan::Place::Managed(_) => COPY_AGAINST_LOAD,
        crate::plan::Place::Server(_) => 1.0,
    };
    let (cell, warmup, load) = (cell_seconds(plan), warmup_seconds(plan), load_seconds(plan));
    let begins: f64 = visits
        .iter()
        .skip(1)
        .map(|visit| begin_seconds(plan, visit[0].variant))
        .sum();
    rest.len() as f64 * cell
        + begins
        + warmed as f64 * warmup
        + loads as f64 * again * load
        + after_ladder(plan, cell, warmup, load)
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Estimates duration and disk without asking any server.
pub fn estimate(plan: &Plan) -> Estimate {
    let data = data_bytes(plan);
    let cells = cells(plan);
    let visits: Vec<_> = visits(&cells).collect();
    let restarts = count(
        visits
            .iter()
            .filter(|visit| plan.variants[visit[0].variant].restart)
            .count(),
    );
    let loads = match (plan.dataset.existing, plan.dataset.reset) {
        (true, _) => 0,
        (false, Reset::Never) => 1,
        (false, Reset::PerVariant) => 1 + count(dirtied(plan, &visits)),
        (false, Reset::PerCell) => 1 + count(dirtied(plan, &cells.chunks(1).collect::<Vec<_>>())),
    };
    let first = f64::from(loads.min(1)) * load_seconds(plan)
        + cells
            .first()
            .map_or(0.0, |cell| begin_seconds(plan, cell.variant));
    let seconds = first + left_seconds(plan, &cells);
    Estimate {
        duration: shown(time(seconds)),
        data: data.map(bytes),
        restarts,
        loads,
    }
}

/// Seconds of what follows the ladder: the baseline applied again, reference cells, refining at its whole
/// budget, the soak.
fn after_ladder(plan: &Plan, cell: f64, warmup: f64, load: f64) -> f64 {
    let mut seconds = 0.0;
    let mut cells = 0.0;
    if closes_with_reference(plan) {
        let workloads = plan.ladder.workloads.len() as f64;
        seconds += workloads * cell;
        cells += workloads;
    }
    seconds += refine_seconds(plan);
    if plan.soak.is_some() {
        seconds += soak_seconds(plan);
        cells += 1.0;
    }
    let returns = plan.variants.len() > 1 && plan.ladder.repeats % 2 == 1;
    if seconds > 0.0 && returns {
        seconds += warmup + RESTART_SECONDS;
    }
    seconds
        + match plan.dataset.reset {
            Reset::PerVariant if seconds > 0.0 && returns => load,
            Reset::PerCell => cells * load,
            _ => 0.0,
        }
}

/// How many of these groups of cells find data that the group before has written to: only such data is
/// loaded again.
fn dirtied(plan: &Plan, groups: &[&[Cell]]) -> usize {
    let writes = |cell: &Cell| plan.ladder.workloads[cell.workload].writes();
    groups.split_last().map_or(0, |(_, earlier)| {
        earlier
            .iter()
            .filter(|group| group.iter().any(writes))
            .count()
    })
}

/// Putting data back from a copy of its files against loading it, time for time: what it is built to do at least.
const COPY_AGAINST_LOAD: f64 = 0.1;

/// Says "never" about plans of absurd size.
const LONGEST_ESTIMATE: Duration = Duration::from_secs(100 * 365 * 86_400);

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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn plan(more: &str) -> Plan {
        let text = format!(
            "name = \"t\"\n[target.managed]\n[dataset]\ntables = 4\nrows = 1_000_000\n\
             [warmup]\nduration = \"60s\"\nthreads = 8\n{more}"
        );
        crate::plan::parse(&text, "t.toml", Path::new("")).unwrap()
    }

    const TWO_VARIANTS: &str = "[ladder]\nworkloads = [\"oltp_read_only\", \"oltp_write_only\"]\n\
         threads = [1, 4]\nmeasure = \"120s\"\nrepeats = 2\n\
         [[variant]]\nname = \"A\"\n[[variant]]\nname = \"B\"\nset = { sync_binlog = 0 }\nrestart = true\n";

    #[test]
    fn the_ladder_ascends_and_passes_turn_around() {
        let plan = plan(TWO_VARIANTS);
        let cells = cells(&plan);
        let order: Vec<String> = cells
            .iter()
            .map(|c| {
                let variant = &plan.variants[c.variant].name;
                let workload = &plan.ladder.workloads[c.workload].name[5..6];
                format!("{}{variant}{workload}{}", c.repeat, c.clients)
            })
            .collect();
        assert_eq!(
            order.join(" "),
            "1Ar1 1Ar4 1Aw1 1Aw4 1Br1 1Br4 1Bw1 1Bw4 2Br1 2Br4 2Bw1 2Bw4 2Ar1 2Ar4 2Aw1 2Aw4"
        );
        assert!(
            cells
                .iter()
                .zip(1..)
                .all(|(cell, index)| cell.index == index)
        );
        let visits: Vec<usize> = visits(&cells).map(|visit| visit[0].variant).collect();
        assert_eq!(visits, [0, 1, 1, 0]);
    }

    #[test]
    fn an_estimate_counts_warm_ups_restarts_and_loads() {
        let estimate = estimate(&plan(TWO_VARIANTS));
        assert_eq!((estimate.restarts, estimate.loads), (2, 4));
        assert_eq!(estimate.data, Some(Bytes(4_000_000 * 235)));
        // 16 cells of 10 + 120 + 0.3 s, 4 warm-ups of 60 s, 2 restarts, a load of 26.7 s and 3 copies of a tenth: 2375 s.
        assert_eq!(estimate.duration.to_string(), "40m");
    }

    #[test]
    fn what_is_left_counts_the_cells_that_are_left_and_what_follows_them() {
        let two = plan(TWO_VARIANTS);
        let all = cells(&two);
        // One cell; four cells, a visit's warm-up, and a copy of a tenth of the load for its data.
        let seconds = |rest: &[Cell]| left(&two, rest).as_secs_f64();
        assert!((seconds(&all[15..]) - 130.3).abs() < 1e-6);
        assert!((seconds(&all[11..]) - (5.0 * 130.3 + 60.0 + 2.666_666)).abs() < 1e-3);
        // Nothing else is in the whole but what comes before the first cell: the load and a warm-up.
        let whole = estimate(&two).duration.seconds();
        assert!((whole - (seconds(&all) + 60.0 + 26.666)).abs() < 60.0);

        let more = plan(
            "[ladder]\nworkloads = [\"oltp_read_only\"]\nthreads = [1, 4]\nmeasure = \"120s\"\n\
             refine = true\nrefine_budget = \"10m\"\n[soak]\nthreads = 4\nduration = \"30m\"\n",
        );
        let last = left(&more, &cells(&more)[1..]).as_secs_f64();
        assert!((last - (130.3 + 600.0 + 1810.3)).abs() < 1e-6, "{last}");
        assert_eq!(shown(Duration::from_millis(3_600)).to_string(), "4s");
        assert_eq!(shown(Duration::from_secs(700)).to_string(), "12m");
    }

    #[test]
    fn a_capped_load_takes_its_time() {
        let with = |rate: &str| {
            let text = format!(
                "name = \"t\"\n[target]\nhost = \"db\"\nuser = \"u\"\n[dataset]\ntables = 1\nrows = 36_000\n{rate}\n\
                 [ladder]\nworkloads = [\"oltp_read_only\"]\nthreads = [1]\n"
            );
            let plan = crate::plan::parse(&text, "t.toml", Path::new("")).unwrap();
            estimate(&plan).duration.0.as_secs_f64()
        };
        let (free, capped) = (with(""), with("load_rate = 10"));
        assert!((capped - free - 3600.0).abs() < 61.0, "{free} {capped}");
    }

    #[test]
    fn only_data_that_was_written_to_is_loaded_again() {
        let loads = |reset: &str, workloads: &str| {
            let more = format!(
                "reset = \"{reset}\"\n[ladder]\nworkloads = [{workloads}]\nthreads = [1, 2]\n\
                 [[variant]]\nname = \"A\"\n[[variant]]\nname = \"B\"\nset = {{ sync_binlog = 0 }}\n"
            );
            let text = format!("name = \"t\"\n[target.managed]\n[dataset]\nrows = 1000\n{more}");
            estimate(&crate::plan::parse(&text, "t.toml", Path::new("")).unwrap()).loads
        };
        let (read, mixed) = (
            "\"oltp_read_only\"",
            "\"oltp_read_only\", \"oltp_write_only\"",
        );
        assert_eq!(
            [loads("per-variant", read), loads("per-cell", read)],
            [1, 1]
        );
        // Two variants of r1 r2 w1 w2: w1 leaves changed data to w2, w2 to the next variant's r1.
        assert_eq!(
            [loads("per-variant", mixed), loads("per-cell", mixed)],
            [2, 4]
        );
    }

    #[test]
    fn an_open_loop_connects_its_clients_at_every_rate() {
        let plan =
            plan("[ladder]\nworkloads = [\"oltp_read_only\"]\nrates = [100, 200]\nclients = 64\n");
        assert!(cells(&plan).iter().all(|cell| cell.clients == 64));
    }

    #[test]
    fn a_size_in_buffer_pools_is_known_for_a_private_server_only() {
        let of = |target: &str| {
            let text = format!(
                "name = \"t\"\n{target}\n[dataset]\nsize = \"2x buffer_pool\"\n\
                 [ladder]\nworkloads = [\"oltp_read_only\"]\nthreads = [1]\n\
                 [[variant]]\nname = \"A\"\n[[variant]]\nname = \"B\"\nset = {{ innodb_buffer_pool_size = \"1GiB\" }}\n"
            );
            estimate(&crate::plan::parse(&text, "t.toml", Path::new("")).unwrap()).data
        };
        assert_eq!(of("[target.managed]"), Some(Bytes(2 << 30)));
        assert_eq!(of("[target]\nhost = \"db\"\nuser = \"u\""), None);
    }
}
