//! A run as large as runs get.

use capbench::record::{CellRecord, Run};

use crate::support;

/// Cells of it.
pub(crate) const CELLS: u32 = 500;
/// Intervals of each.
pub(crate) const INTERVALS: u32 = 300;

/// A cell of many intervals, with as many figures of the probes as a server of today gives.
fn cell() -> CellRecord {
    let mut cell = support::cell(1, "baseline", "oltp_read_write", 8, 200.0);
    cell.intervals.clear();
    for n in 0..INTERVALS {
        let at = f64::from(n) * 10.0;
        let mut interval = support::interval(n, 8, 200.0 + f64::from(n % 3));
        interval.latency = support::skewed(interval.done, 4e7 + f64::from(n % 7) * 1e5);
        interval.latency.pack();
        cell.intervals.push(interval);
        let values = |prefix: &str, count: u32| {
            let named = (0..count).map(|i| (format!("{prefix}_{i}"), f64::from(n * (i + 1)) * 1.7));
            named.collect::<Vec<_>>()
        };
        let sample = |values: Vec<(String, f64)>| {
            let borrowed: Vec<_> = values.iter().map(|(n, v)| (n.as_str(), *v)).collect();
            support::sample(at, &borrowed)
        };
        cell.server.push(sample(values("innodb_counter", 55)));
        cell.host.push(sample(values("host_figure", 36)));
    }
    cell
}

/// Of `cells` cells.
pub(crate) fn large(cells: u32) -> Run {
    let mut run = support::run();
    let first = cell();
    run.cells = (1..=cells)
        .map(|index| CellRecord {
            index,
            workload: format!("workload {}", index / 10),
            step: capbench::plan::Step::Threads(8 << (index % 10)),
            ..first.clone()
        })
        .collect();
    run
}
