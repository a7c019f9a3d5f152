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
