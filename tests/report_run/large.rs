//! A run as large as runs get: it is read, judged and written in about a second.

use std::time::Instant;

use capbench::analysis::analyse;
use capbench::record::{CellRecord, Run};
use capbench::report::write;
use capbench::store::{Place, Store, open};

use crate::support;

const CELLS: u32 = 500;
const INTERVALS: u32 = 300;

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

fn large() -> Run {
    let mut run = support::run();
    let first = cell();
    run.cells = (1..=CELLS)
        .map(|index| CellRecord {
            index,
            workload: format!("workload {}", index / 10),
            step: capbench::plan::Step::Threads(8 << (index % 10)),
            ..first.clone()
        })
        .collect();
    run
}

fn cpu_seconds() -> f64 {
    let stat = procfs::process::Process::myself().unwrap().stat().unwrap();
    (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64
}

/// Prints the times: `cargo test --release --test report_run large -- --ignored --nocapture`.
#[test]
#[ignore = "measures, and needs 500 MB of disk"]
#[allow(clippy::print_stdout, reason = "its result")]
fn a_large_run_is_reported_quickly() {
    let base = tempfile::tempdir().unwrap();
    let now = "2026-11-30T12:00:00Z".parse().unwrap();
    let mut run = large();
    let mut store = Store::create(Place::Under(base.path()), "large", now, b"").unwrap();
    let start = || (Instant::now(), cpu_seconds());
    let timed = |what: &str, from: (Instant, f64)| {
        let (elapsed, cpu) = (from.0.elapsed().as_secs_f64(), cpu_seconds() - from.1);
        println!("{what}: {elapsed:.3} s, CPU {cpu:.2} s");
    };
    let from = start();
    store.save(&run).unwrap();
    timed("save all", from);
    let last = run.cells[0].clone();
    run.cells.push(CellRecord {
        index: CELLS + 1,
        ..last
    });
    let from = start();
    store.save(&run).unwrap();
    timed("save one cell more", from);
    for _ in 0..3 {
        let from = start();
        let run = open(store.dir()).unwrap();
        timed("open", from);
        let then = start();
        let findings = analyse(&run);
        timed("analyse", then);
        let then = start();
        write(&run, &findings, base.path(), None).unwrap();
        timed("write", then);
        timed("report", from);
    }
}
