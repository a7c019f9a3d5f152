//! A run as large as runs get: what it costs to save, read, judge and write it. The aim for a report is 1 s.

use std::time::Instant;

use capbench::analysis::analyse;
use capbench::record::CellRecord;
use capbench::report::write;
use capbench::store::{Place, Store, open};

use crate::large_run::{CELLS, large};

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
    let mut run = large(CELLS);
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
