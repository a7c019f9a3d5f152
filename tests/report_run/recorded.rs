//! A run folder as an earlier capbench left it must stay readable.

use std::path::{Path, PathBuf};

use capbench::analysis::{analyse, knee::KneeKind};
use capbench::report::write;
use capbench::store::{Place, Store, open};

use crate::support;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/run-hot-rows")
}

/// Rewrites the folder: `cargo test --test report_run -- --ignored`. Only for a new format; the old
/// folder then stays beside the new one.
#[test]
#[ignore = "rewrites the fixture"]
fn record_the_fixture() {
    let dir = fixture();
    let _ = std::fs::remove_dir_all(&dir);
    let now = "2026-11-30T11:58:00Z".parse().unwrap();
    let plan = b"name = \"recorded run for the tests\"\n";
    let mut store = Store::create(Place::Exactly(&dir), "recorded", now, plan).unwrap();
    store.save(&support::recorded()).unwrap();
}

#[test]
fn a_recorded_run_becomes_a_report() {
    let run = open(&fixture()).unwrap();
    let findings = analyse(&run);
    let knee = findings.ladders[0].knee.as_ref().unwrap();
    assert_eq!((knee.threads, knee.kind), (Some(32), KneeKind::Plateau));
    let dir = tempfile::tempdir().unwrap();
    let written = write(&run, &findings, dir.path(), None).unwrap();
    let report = std::fs::read_to_string(written.markdown).unwrap();
    for part in [
        "# Capacity report: recorded run for the tests",
        "- Recommended limit: **32 concurrently active clients",
        "- Bottleneck: **row locks: ",
        "Signed off by: ___",
        "## 1. Environment",
        "| innodb_flush_log_at_trx_commit | 1 ",
        "3.00× the buffer pool",
        "## 2. Results",
        "| threads |",
        "|     128 |",
        "- `10 × point_select: ",
        "## 3. Bottleneck analysis",
        "INNODB_METRICS: access denied",
        "## 4. Recommended limit",
        "### What this load is not",
        "## Warnings",
        "## How each figure is defined",
    ] {
        assert!(report.contains(part), "`{part}` is missing in\n{report}");
    }
    assert!(
        !report.contains("records-cut-off"),
        "the fixture is read whole"
    );
    let cells = std::fs::read_to_string(written.cells).unwrap();
    assert_eq!(cells.lines().count(), 6);
}

/// Rendering again changes nothing that was recorded.
#[test]
fn a_report_is_the_same_every_time() {
    let render = || {
        let run = open(&fixture()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let written = write(&run, &analyse(&run), dir.path(), None).unwrap();
        [written.markdown, written.html, written.cells].map(|f| std::fs::read(f).unwrap())
    };
    assert!(render() == render());
}

/// The histograms merged beside the intervals change no figure, whether intervals are dropped or not.
#[test]
fn what_is_merged_beforehand_gives_the_same_findings() {
    let mut slow_start = support::knee();
    for cell in &mut slow_start.cells {
        let clients = cell.clients;
        let last = cell.intervals.len() as u32;
        cell.intervals
            .extend((last..40).map(|n| support::interval(n, clients, 100.0 + f64::from(n % 3))));
        for n in 1..5 {
            cell.intervals[n] = support::interval(n as u32, clients, 30.0);
        }
        for interval in &mut cell.intervals[5..13] {
            *interval = support::interval((interval.start / 10.0) as u32, clients, 101.0);
        }
    }
    let mut dropped = 0;
    for run in [slow_start, support::open_loop(), support::recorded()] {
        let base = tempfile::tempdir().unwrap();
        let now = "2026-11-30T11:58:00Z".parse().unwrap();
        let mut store = Store::create(Place::Under(base.path()), "merged", now, b"").unwrap();
        store.save(&run).unwrap();
        let read = open(store.dir()).unwrap();
        let mut plain = read.clone();
        for cell in &mut plain.cells {
            let merged = std::mem::take(&mut cell.merged);
            assert!(merged.latency.is_some());
            assert_eq!(merged.service.is_some(), run.open.is_some());
        }
        let findings = analyse(&read);
        dropped += findings
            .cells
            .iter()
            .filter_map(|c| c.window)
            .map(|w| w.dropped)
            .sum::<usize>();
        let findings = format!("{findings:#?}");
        assert_eq!(findings, format!("{:#?}", analyse(&plain)));
        assert_eq!(findings, format!("{:#?}", analyse(&run)));
    }
    assert!(dropped > 0);
}
