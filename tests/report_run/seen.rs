//! What was seen beside the load: kept in the run folder, and on paper.

use capbench::analysis::analyse;
use capbench::record::*;
use capbench::report::{render_markdown, view};
use capbench::store::{Place, Store, open};

use crate::support;

fn plan(class: &str, access: &str, key: Option<&str>, rows: f64) -> StatementPlan {
    StatementPlan {
        class: class.into(),
        sql: format!("SELECT {class}"),
        steps: vec![PlanStep {
            select: "SIMPLE".into(),
            table: "sbtest1".into(),
            access: access.into(),
            key: key.map(str::to_owned),
            rows: Some(rows),
            extra: "Using where".into(),
        }],
        none: None,
    }
}

/// A run whose replica lags, whose plan changes, and whose statements were counted.
fn watched() -> Run {
    let mut run = support::knee();
    run.evidence = RunEvidence {
        plans: vec![LadderPlans {
            repeat: 1,
            variant: "baseline".into(),
            workload: "oltp_read_write".into(),
            before: vec![
                plan("point_select", "const", Some("PRIMARY"), 1.0),
                plan("simple_range", "range", Some("PRIMARY"), 100.0),
                StatementPlan {
                    class: "insert".into(),
                    sql: "INSERT".into(),
                    steps: Vec::new(),
                    none: Some("writes the rows it is given: nothing is looked up".into()),
                },
            ],
            after: vec![
                plan("point_select", "const", Some("PRIMARY"), 1.0),
                plan("simple_range", "ALL", None, 125_000.0),
            ],
            problem: None,
        }],
        server_host: Some("http://10.0.0.5:9100/metrics".into()),
        replicas: vec!["second".into()],
    };
    for cell in &mut run.cells {
        cell.evidence = CellEvidence {
            digests: vec![
                Digest {
                    text: "SELECT `c` FROM `sbtest1` WHERE `id` = ? | LIMIT ?".into(),
                    count: 12_000.0,
                    seconds: 3.0,
                    lock_seconds: 0.03,
                    rows_examined: 12_000.0,
                    rows_sent: 12_000.0,
                    ..Digest::default()
                },
                Digest {
                    text: "UPDATE `sbtest1` SET `k` = `k` + ? WHERE `id` = ?".into(),
                    count: 1200.0,
                    seconds: 1.0,
                    rows_examined: 1200.0,
                    rows_affected: 1200.0,
                    ..Digest::default()
                },
            ],
            extended_seconds: Some(30.0),
            server_host: [0.0, 60.0]
                .map(|at| support::sample(at, &[("cpus", 16.0), ("probe_ms", 41.0)]))
                .to_vec(),
            replicas: [10.0, 30.0, 50.0]
                .map(|at| {
                    let lag = at / 2.0;
                    support::sample(at, &[("second.lag_seconds", lag), ("probe_ms", 1.5)])
                })
                .to_vec(),
        };
    }
    run
}

#[test]
fn plans_statements_and_replicas_are_on_paper() {
    let run = watched();
    let findings = analyse(&run);
    let report = render_markdown(&view::build(&run, &findings), &run, &findings, None).unwrap();
    let (_, rest) = report.split_once("### What the server did").unwrap();
    let (seen, _) = rest.split_once("## 4. Recommended limit").unwrap();
    insta::assert_snapshot!(seen);
    assert!(
        report.contains("simple\\_range: the plan changed")
            || report.contains("simple_range: the plan changed"),
        "{report}"
    );
}

#[test]
fn what_was_seen_is_read_back() {
    let run = watched();
    let base = tempfile::tempdir().unwrap();
    let now = "2026-11-30T12:00:00Z".parse().unwrap();
    let mut store = Store::create(Place::Under(base.path()), "a-run", now, b"").unwrap();
    store.save(&run).unwrap();
    let read = open(store.dir()).unwrap();
    assert_eq!(read.evidence, run.evidence);
    for (a, b) in run.cells.iter().zip(&read.cells) {
        assert_eq!(a.evidence, b.evidence);
    }
    // A run that watched nothing has no such files, and misses none.
    let plain = support::knee();
    let mut store = Store::create(Place::Under(base.path()), "plain", now, b"").unwrap();
    store.save(&plain).unwrap();
    assert!(!store.dir().join("replicas.csv").exists());
    let warnings = open(store.dir()).unwrap().warnings;
    assert_eq!(warnings.len(), plain.warnings.len());
}
