//! `capbench compare`: two recorded runs, and those that are unlike.

use std::path::{Path, PathBuf};
use std::process::Command;

use capbench::analysis::{Part, between, unlike};
use capbench::record::*;
use capbench::report::render_compare;
use capbench::store::{Place, Store};

use crate::runs::{LADDER, cell, level, run};

type Change = fn(&mut Run);

/// Five passes of the ladder, `factor` faster.
fn measured(factor: f64) -> Run {
    let mut cells = Vec::new();
    for repeat in 1..=5 {
        for (threads, tps) in LADDER {
            let jitter = 1.0 + 0.003 * f64::from(repeat % 3);
            cells.push(cell(
                "baseline",
                threads,
                repeat,
                &level(tps * factor * jitter, 12),
            ));
        }
    }
    run(cells)
}

fn save(run: &Run, dir: &Path) -> PathBuf {
    let now = "2026-11-30T12:00:00Z".parse().unwrap();
    let mut store = Store::create(Place::Exactly(dir), "x", now, b"name = \"x\"\n").unwrap();
    store.save(run).unwrap();
    dir.to_owned()
}

fn compare(first: &Path, second: &Path, more: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_capbench"))
        .arg("compare")
        .args([first, second])
        .args(more)
        .output()
        .unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn a_faster_second_run_is_better_and_says_by_what() {
    let (first, mut second) = (measured(1.0), measured(1.10));
    second.started_at = "2026-12-01T11:58:00Z".to_owned();
    let server = second.server.as_mut().unwrap();
    server
        .variables
        .insert("innodb_flush_log_at_trx_commit".to_owned(), "2".to_owned());
    assert_eq!(unlike(&first, &second), []);
    let found = between(&first, &second);
    assert_eq!(found.exit_code, 0);
    let text = render_compare(
        (Path::new("reports/before"), &first),
        (Path::new("reports/after"), &second),
        &found,
        &[],
    )
    .unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn exit_codes_tell_better_from_worse_from_unlike() {
    let base = tempfile::tempdir().unwrap();
    let dir = |name: &str, run: &Run| save(run, &base.path().join(name));
    let first = dir("first", &measured(1.0));
    let same = dir("same", &measured(1.0));
    let slower = dir("slower", &measured(0.85));
    let (code, out, err) = compare(&first, &same, &[]);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("None: both runs measured the same settings."),
        "{out}"
    );
    let (code, out, _) = compare(&first, &slower, &[]);
    assert_eq!(code, 1);
    assert!(
        out.contains("**The second run is worse: oltp_read_write at 32 threads.**"),
        "{out}"
    );
    // The other way round it is better.
    assert_eq!(compare(&slower, &first, &[]).0, 0);

    let mut other = measured(1.0);
    other.dataset.as_mut().unwrap().rows = 1;
    other.host.cores = 4;
    other.server.as_mut().unwrap().version = "11.8.6-MariaDB".to_owned();
    let other = dir("other", &other);
    let (code, out, err) = compare(&first, &other, &[]);
    assert_eq!((code, out.as_str()), (2, ""));
    for named in [
        "dataset: the number of rows a table is 125000 in the first run, 1 in the second",
        "host: the number of cores is 8 in the first run, 4 in the second",
        "server: the version is 10.11.14-MariaDB-0+deb12u2 in the first run, 11.8.6-MariaDB in the second",
        "--despite dataset --despite server --despite host",
    ] {
        assert!(err.contains(named), "`{named}` is missing in\n{err}");
    }
    // One part accepted does not accept the others.
    assert_eq!(compare(&first, &other, &["--despite", "server"]).0, 2);
    let all = [
        "--despite",
        "server",
        "--despite",
        "host",
        "--despite",
        "dataset",
    ];
    let (code, out, _) = compare(&first, &other, &all);
    assert_eq!(code, 0);
    assert!(out.contains("Compared although these differ"), "{out}");

    let nothing = base.path().join("nothing");
    assert_eq!(compare(&first, &nothing, &[]).0, 2);
    let file = base.path().join("compare.md");
    let name = file.to_str().unwrap();
    let (code, out, _) = compare(&first, &same, &["--out", name]);
    assert_eq!(code, 0);
    assert_eq!(
        std::fs::read_to_string(&file).unwrap().trim_end(),
        out.trim_end()
    );
    // What is there is not overwritten.
    assert_eq!(compare(&first, &same, &["--out", name]).0, 3);
}

#[test]
fn a_run_that_cannot_be_relied_on_is_not_compared_as_if_it_could() {
    let mut second = measured(1.2);
    second.end = RunEnd::Failed("the server went away".to_owned());
    let found = between(&measured(1.0), &second);
    assert_eq!(found.exit_code, 4);
    assert!(
        found
            .unreliable
            .clone()
            .unwrap()
            .contains("the second run failed: the server went away")
    );
    assert_eq!(
        found.sentence,
        "Nothing could be decided, because the second run failed: the server went away."
    );
    let mut empty = measured(1.0);
    empty.cells.clear();
    let found = between(&measured(1.0), &empty);
    assert_eq!(found.exit_code, 4);
    assert!(found.sentence.contains("nothing can be compared"));
}

#[test]
fn a_pair_too_uneven_to_tell_decides_nothing_and_says_why() {
    let uneven = |factor: f64| {
        let swing = |tps: f64| -> Vec<f64> {
            (0..12)
                .map(|i| tps * factor * if i % 2 == 0 { 0.8 } else { 1.2 })
                .collect()
        };
        run(LADDER
            .iter()
            .map(|&(n, tps)| cell("baseline", n, 1, &swing(tps)))
            .collect())
    };
    let found = between(&uneven(1.0), &uneven(0.3));
    assert!(
        found
            .sentence
            .starts_with("Nothing could be decided, because throughput within a run varies by 21 % (CV), and a verdict on fewer than 3 runs a side needs at most 10 %."),
        "{}",
        found.sentence
    );
    let deciding = found.comparisons.iter().find(|c| c.deciding).unwrap();
    assert!(
        deciding
            .sentence
            .starts_with("neither better nor worse is shown: -70.0 % as measured, but throughput within a run varies by 21 % (CV): a verdict on fewer than 3 runs a side needs at most 10 %"),
        "{}",
        deciding.sentence
    );
    // A stall in most cells of one run is said beside whatever else is.
    let mut stalled = measured(1.0);
    for cell in &mut stalled.cells {
        let late = &cell.intervals[9];
        cell.intervals[9] = Interval {
            connected_seconds: late.connected_seconds,
            ..Interval::empty(late.start, late.end, late.phase)
        };
    }
    let found = between(&measured(1.0), &stalled);
    assert!(
        found
            .sentence
            .contains("Most cells of the second run are suspect (25 of 25)"),
        "{}",
        found.sentence
    );
}

#[test]
fn each_kind_of_difference_is_named() {
    let first = measured(1.0);
    let changes: [(Part, Change); 9] = [
        (Part::Tool, |r| r.tool = "9.9.9".to_owned()),
        (Part::Plan, |r| r.seed = 1),
        (Part::Plan, |r| {
            r.cells.retain(|c| c.clients != 128);
        }),
        (Part::Plan, |r| r.warmup = "none".to_owned()),
        (Part::Workload, |r| r.workloads[0].mix.clear()),
        (Part::Workload, |r| r.protocol = "text".to_owned()),
        (Part::Dataset, |r| r.dataset = None),
        (Part::Server, |r| {
            r.server.as_mut().unwrap().tls = "none".to_owned();
        }),
        (Part::Host, |r| r.host.name = "elsewhere".to_owned()),
    ];
    for (part, change) in changes {
        let mut second = measured(1.0);
        change(&mut second);
        let found = unlike(&first, &second);
        assert!(!found.is_empty(), "{part:?}");
        assert!(found.iter().all(|u| u.part == part), "{found:?}");
    }
    // Settings are what a comparison is about; a soak or a refined step does not make runs unlike.
    let mut second = measured(1.0);
    second.cells[4].kind = CellKind::Ladder;
    let mut soak = second.cells[0].clone();
    soak.kind = CellKind::Soak;
    soak.step = capbench::plan::Step::Threads(25);
    second.cells.push(soak);
    assert_eq!(unlike(&first, &second), []);
}
