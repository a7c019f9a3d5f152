//! Runs that are cut short: by the user, by a signal, by a server that dies.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process, test_kill_process};

use crate::lab::{Lab, Running, csv_rows};
use crate::{private_plan, servers};

/// A plan whose first cell is far from its end when the test cuts in.
fn long(rest: &str) -> String {
    format!("workloads = [\"oltp_read_write\"]\nthreads = [1, 2]\nmeasure = \"60s\"\n{rest}")
}

/// A run that is two intervals into its first cell.
fn in_the_first_cell(lab: &Lab) -> Running {
    let mut running = lab.start(lab.command(&["plan.toml", "--out", "run"]));
    running.said(" 0.8s ");
    running
}

#[test]
fn ctrl_c_ends_the_cell_writes_the_report_and_removes_the_server() {
    for binary in servers::servers() {
        let lab = Lab::new();
        lab.write("plan.toml", &private_plan(&binary, &long("")));
        let running = in_the_first_cell(&lab);
        running.signal(Signal::INT);
        let ended = running.wait().expect(130);
        lab.assert_clean();
        assert_eq!(
            ended.stderr.matches("\ninterrupted\n").count(),
            1,
            "{}",
            ended.stderr
        );
        let cells = csv_rows(&lab.path("run/cells.csv"));
        let status: Vec<&str> = cells.iter().map(|c| c["status"].as_str()).collect();
        assert_eq!(status, ["interrupted", "skipped"]);
        let report = lab.read("run/report.md");
        assert!(report.contains("incomplete"), "{report}");
        lab.run(&["report", "run"]).expect(0);
        assert_eq!(lab.read("run/report.md"), report);
    }
}

#[test]
fn a_second_ctrl_c_ends_at_once_and_takes_the_server_along() {
    for binary in servers::servers() {
        let lab = Lab::new();
        lab.write("plan.toml", &private_plan(&binary, &long("")));
        let running = in_the_first_cell(&lab);
        // A server that hangs keeps capbench from ending by itself between the two.
        let server = lab.private_pid();
        kill_process(server, Signal::STOP).unwrap();
        running.signal(Signal::INT);
        std::thread::sleep(Duration::from_millis(300));
        running.signal(Signal::INT);
        running.wait().expect(130).says("ended at once");
        lab.assert_clean();
    }
}

#[test]
fn the_next_run_ends_what_a_killed_one_left_behind() {
    let binary = &servers::servers()[0];
    let lab = Lab::new();
    lab.write("plan.toml", &private_plan(binary, &long("")));
    let running = in_the_first_cell(&lab);
    let server = lab.private_pid();
    running.signal(Signal::KILL);
    running.wait().expect(-1);
    test_kill_process(server).expect("the server outlives a SIGKILL of capbench");
    // What was measured before the cell in flight can be read.
    lab.run(&["report", "run"]).expect(0);

    let foreign = lab.path("tmp/capbench-foreign");
    std::fs::create_dir(&foreign).unwrap();
    let next = lab.run(&["check", "plan.toml"]).expect(0);
    next.says("left behind");
    // A killed process is there until its memory is given back and its parent has seen it.
    let gone = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        test_kill_process(server).is_err()
    });
    assert!(gone, "the orphan is gone");
    assert_eq!(
        crate::lab::entries(&lab.path("tmp")),
        std::slice::from_ref(&foreign)
    );
    std::fs::remove_dir(foreign).unwrap();
    lab.assert_clean();
}

#[test]
fn a_server_that_dies_fails_the_cell_and_the_run_but_not_the_report() {
    for binary in servers::servers() {
        let lab = Lab::new();
        lab.write("plan.toml", &private_plan(&binary, &long("")));
        let running = in_the_first_cell(&lab);
        kill_process(lab.private_pid(), Signal::KILL).unwrap();
        let died = Instant::now();
        let ended = running.wait().expect(3);
        assert!(died.elapsed() < Duration::from_secs(40), "{}", ended.stderr);
        ended.says("the private server was killed");
        lab.assert_clean();
        let cells = csv_rows(&lab.path("run/cells.csv"));
        let status: Vec<&str> = cells.iter().map(|c| c["status"].as_str()).collect();
        assert_eq!(status, ["failed", "skipped"]);
        assert!(cells[0]["reason"].contains("private server was killed"));
        assert!(
            lab.read("run/report.md")
                .contains("private server was killed")
        );
    }
}

#[test]
fn a_failed_cell_decides_by_the_plan_what_follows() {
    let binary = &servers::servers()[0];
    let ladder = "workloads = [\"broken.toml\", \"oltp_point_select\"]\nthreads = [1, 2]\nmeasure = \"500ms\"\n";
    let broken = r#"description = "A statement that no server takes."

[[transaction]]
name = "broken"
begin = false

[[transaction.group]]
repeat = 1
[[transaction.group.statement]]
class = "broken"
sql = "SELECT nothing FROM sbtest{table} WHERE id=?"
parameters = ["key"]
"#;
    for (on_failure, code, status) in [
        (
            "next-ladder",
            4,
            ["failed", "skipped", "completed", "completed"],
        ),
        (
            "continue",
            4,
            ["failed", "failed", "completed", "completed"],
        ),
        ("stop", 4, ["failed", "skipped", "skipped", "skipped"]),
    ] {
        let lab = Lab::new();
        lab.write("broken.toml", broken);
        let plan = private_plan(binary, ladder).replace(
            "name = \"tiny\"",
            &format!("name = \"tiny\"\non_failure = \"{on_failure}\""),
        );
        lab.write("plan.toml", &plan);
        let ended = lab.run(&["plan.toml", "--out", "run"]).expect(code);
        ended.says("1054");
        let cells = csv_rows(&lab.path("run/cells.csv"));
        let found: Vec<&str> = cells.iter().map(|c| c["status"].as_str()).collect();
        assert_eq!(found, status, "{on_failure}");
        lab.assert_clean();
    }
}
