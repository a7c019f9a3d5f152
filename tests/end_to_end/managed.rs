//! Runs on private servers that end by themselves.

use std::collections::BTreeMap;

use crate::lab::{Lab, csv_rows, entries};
use crate::{private_plan, servers};

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column]
        .parse()
        .unwrap_or_else(|e| panic!("{column} = {:?}: {e}", row[column]))
}

#[test]
fn a_run_is_complete_consistent_and_leaves_nothing() {
    for binary in servers::servers() {
        let lab = Lab::new();
        let ladder = r#"workloads = ["oltp_read_only", "oltp_read_write"]
threads = [1, 2]
discard = "400ms"
measure = "1s""#
            .to_owned();
        // `discard` is the plan's own here.
        let plan = private_plan(&binary, &ladder).replace("discard = \"0s\"\n", "");
        lab.write("plan.toml", &plan);
        let ended = lab.run(&["plan.toml", "--out", "run"]).expect(0);
        lab.assert_clean();
        ended.says("Verdict:").says("report.md");
        assert!(!ended.stdout.contains("tps  "), "progress is no data");

        assert_eq!(lab.read("run/plan.toml"), plan);
        for name in ["run.json", "report.md", "server.csv", "host.csv"] {
            assert!(!lab.read(&format!("run/{name}")).is_empty(), "{name}");
        }
        let cells = csv_rows(&lab.path("run/cells.csv"));
        assert_eq!(cells.len(), 4, "{cells:#?}");
        assert_eq!(entries(&lab.path("run/latency")).len(), 4);
        let intervals = csv_rows(&lab.path("run/intervals.csv"));
        for cell in &cells {
            assert_eq!(cell["status"], "completed", "{cell:?}");
            let window = number(cell, "window_start_s")..=number(cell, "window_end_s");
            let inside: Vec<_> = intervals
                .iter()
                .filter(|i| i["cell"] == cell["cell"] && i["phase"] == "measure")
                .filter(|i| window.contains(&number(i, "start_s")))
                .filter(|i| window.contains(&number(i, "end_s")))
                .collect();
            let sum = |column: &str| inside.iter().map(|i| number(i, column)).sum::<f64>();
            assert_eq!(
                cell["window_intervals"],
                inside.len().to_string(),
                "{cell:?}"
            );
            assert!(sum("done") > 0.0, "{cell:?}");
            assert_eq!(number(cell, "done").to_string(), sum("done").to_string());
            assert_eq!(sum("lat_count").to_string(), sum("done").to_string());
            let (tps, seconds) = (number(cell, "tps"), sum("end_s") - sum("start_s"));
            assert!(
                (tps - sum("done") / seconds).abs() <= 1e-3 * tps,
                "{cell:?}"
            );
        }
        for name in ["server.csv", "host.csv"] {
            let read = csv_rows(&lab.path(&format!("run/{name}")));
            for cell in &cells {
                assert!(read.iter().any(|row| row["cell"] == cell["cell"]), "{name}");
            }
        }

        let report = lab.read("run/report.md");
        let table = lab.read("run/cells.csv");
        std::fs::remove_file(lab.path("run/report.md")).unwrap();
        std::fs::remove_file(lab.path("run/cells.csv")).unwrap();
        lab.run(&["report", "run"]).expect(0).says("report.md");
        assert_eq!(lab.read("run/report.md"), report);
        assert_eq!(lab.read("run/cells.csv"), table);
    }
}

#[test]
fn variants_and_settings_of_the_run_reach_the_server() {
    for binary in servers::servers() {
        let lab = Lab::new();
        let plan = private_plan(
            &binary,
            r#"workloads = ["oltp_write_only"]
threads = [1, 2]
measure = "600ms"

[[variant]]
name = "baseline"

[[variant]]
name = "no flush"
set = { innodb_flush_log_at_trx_commit = 2 }

[[variant]]
name = "larger pool"
set = { innodb_buffer_pool_size = "64MiB" }
restart = true"#,
        )
        .replace(
            "[target.managed]",
            "[target]\nset = { table_open_cache = 1234 }\n[target.managed]",
        );
        lab.write("plan.toml", &plan);
        let ended = lab.run(&["plan.toml", "--out", "run"]).expect(0);
        lab.assert_clean();
        ended
            .says("variant `no flush`")
            .says("innodb_flush_log_at_trx_commit = 2");
        let cells = csv_rows(&lab.path("run/cells.csv"));
        let variants: Vec<&str> = cells.iter().map(|c| c["variant"].as_str()).collect();
        assert_eq!(
            variants,
            [
                "baseline",
                "baseline",
                "no flush",
                "no flush",
                "larger pool",
                "larger pool",
                // Once more, so that drift shows.
                "baseline"
            ]
        );
        assert_eq!(cells[6]["kind"], "reference");
        assert!(
            cells.iter().all(|c| c["status"] == "completed"),
            "{cells:#?}"
        );
        let report = lab.read("run/report.md");
        for text in [
            "table_open_cache",
            "1234",
            "innodb_flush_log_at_trx_commit",
            "67108864",
        ] {
            assert!(report.contains(text), "{text}\n{report}");
        }
    }
}

#[test]
fn rates_are_held_or_said_not_to_be() {
    let lab = Lab::new();
    let plan = private_plan(
        &servers::servers()[0],
        r#"workloads = ["oltp_point_select"]
rates = [50, 100]
clients = 4
measure = "1s""#,
    );
    lab.write("plan.toml", &plan);
    let ended = lab.run(&["plan.toml", "--out", "run"]).expect(0);
    ended.says("rate, 1/s");
    let cells = csv_rows(&lab.path("run/cells.csv"));
    assert_eq!(cells.len(), 2);
    assert!(cells.iter().all(|c| c["held"] == "true"), "{cells:#?}");
    let intervals = csv_rows(&lab.path("run/intervals.csv"));
    let sum = |column: &str| intervals.iter().map(|i| number(i, column)).sum::<f64>();
    assert!(sum("arrivals") > 0.0);
    // What was in flight at the end of a cell belongs to no interval; there are four clients in two cells.
    let accounted = sum("done") + sum("failed") + sum("dropped");
    let in_flight = sum("arrivals") - accounted;
    assert!((0.0..=8.0).contains(&in_flight), "{in_flight}");
    lab.assert_clean();
}

#[test]
fn the_guard_ends_a_ladder_and_the_run_cannot_be_relied_on() {
    let lab = Lab::new();
    let plan = private_plan(
        &servers::servers()[0],
        r#"workloads = ["oltp_read_only", "oltp_point_select"]
threads = [1, 2]
measure = "1s"

[guard]
max_p95 = "1us""#,
    );
    lab.write("plan.toml", &plan);
    let ended = lab.run(&["plan.toml", "--out", "run"]).expect(4);
    ended.says("above `guard.max_p95`");
    let cells = csv_rows(&lab.path("run/cells.csv"));
    let status: Vec<&str> = cells.iter().map(|c| c["status"].as_str()).collect();
    assert_eq!(status, ["stopped", "skipped", "stopped", "skipped"]);
    lab.assert_clean();
}

#[test]
fn a_criterion_that_fails_is_exit_code_1() {
    let lab = Lab::new();
    let plan = private_plan(
        &servers::servers()[0],
        r#"workloads = ["oltp_point_select"]
threads = [1, 2, 4]
measure = "1s"

[criteria]
max_p95 = "1us""#,
    );
    lab.write("plan.toml", &plan);
    let ended = lab.run(&["plan.toml", "--out", "run", "--quiet"]);
    ended.says("p95");
    // Where others have this machine's CPU, or it stalls, nothing is failed either.
    if ended.stdout.contains("missed as measured, but") {
        ended.expect(0).says("Verdict: inconclusive.");
    } else {
        ended.expect(1).says("Verdict: FAILED.");
    }
    lab.assert_clean();
}
