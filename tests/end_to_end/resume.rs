//! Runs that were cut off and go on where they were.

use mysql::prelude::Queryable as _;
use rustix::process::Signal;

use crate::external::{LADDER, command, make_accounts, make_foreign, plan, run, variables};
use crate::lab::{Lab, csv_rows};
use crate::private_plan;
use crate::servers::{self, External};

const FOUR: &str = "workloads = [\"oltp_point_select\", \"oltp_read_write\"]\nthreads = [1, 2]\nmeasure = \"1500ms\"\n";

/// A row of cells.csv as one text.
fn rows(lab: &Lab) -> Vec<String> {
    csv_rows(&lab.path("run/cells.csv"))
        .iter()
        .map(|row| format!("{row:?}"))
        .collect()
}

fn statuses(lab: &Lab) -> Vec<String> {
    csv_rows(&lab.path("run/cells.csv"))
        .iter()
        .map(|row| row["status"].clone())
        .collect()
}

#[test]
fn a_killed_run_goes_on_after_its_last_finished_cell() {
    for binary in servers::servers() {
        let lab = Lab::new();
        lab.write("plan.toml", &private_plan(&binary, FOUR));
        let mut running = lab.start(lab.command(&["plan.toml", "--out", "run"]));
        running.said("[3/4]");
        // Its folder is not for others while it lives.
        lab.run(&["plan.toml", "--resume", "run"])
            .expect(2)
            .says("still running");
        running.signal(Signal::KILL);
        running.wait().expect(-1);
        let before = rows(&lab);
        assert_eq!(before.len(), 2);

        let ended = lab.run(&["plan.toml", "--resume", "run"]).measured();
        ended.says("[3/4]").says("[4/4]");
        assert!(!ended.stderr.contains("[2/4]"), "{}", ended.stderr);
        lab.assert_clean();
        assert_eq!(statuses(&lab), ["completed"; 4]);
        assert!(lab.read("run/report.md").contains("taken up again"));
        assert!(lab.read("run/run.json").contains("\"after_cell\": 2"));
        // What was measured before stays as it was; only what the whole decides may be judged anew.
        let cells = csv_rows(&lab.path("run/cells.csv"));
        for (row, old) in cells.iter().zip(&before) {
            assert!(
                old.contains(&format!("{:?}: {:?}", "tps", row["tps"])),
                "{old}"
            );
            assert!(
                old.contains(&format!("{:?}: {:?}", "lat_p99_ms", row["lat_p99_ms"])),
                "{old}"
            );
        }
        let report = lab.read("run/report.md");
        lab.run(&["report", "run"]).expect(0);
        assert_eq!(lab.read("run/report.md"), report);
        lab.run(&["plan.toml", "--resume", "run"])
            .expect(2)
            .says("complete");
    }
}

#[test]
fn an_interrupted_run_goes_on_and_a_changed_plan_does_not() {
    let lab = Lab::new();
    let plan = private_plan(&servers::servers()[0], FOUR);
    lab.write("plan.toml", &plan);
    let mut running = lab.start(lab.command(&["plan.toml", "--out", "run"]));
    running.said("[2/4]");
    running.said(" 0.4s ");
    running.signal(Signal::INT);
    let ended = running.wait().expect(130);
    ended.says("capbench plan.toml --resume run");
    // Wherever it was met, most often while its clients were connecting.
    assert_eq!(
        statuses(&lab),
        ["completed", "interrupted", "skipped", "skipped"]
    );
    lab.write("plan.toml", &plan.replace("rows = 1_000", "rows = 2_000"));
    lab.run(&["plan.toml", "--resume", "run"])
        .expect(2)
        .says("the plan has changed");
    lab.write("plan.toml", &plan);
    lab.run(&["plan.toml", "--resume", "nowhere"]).expect(2);
    lab.run(&["plan.toml", "--resume", "run", "--out", "x"])
        .expect(2);
    lab.run(&["plan.toml", "--resume", "run"]).measured();
    assert_eq!(statuses(&lab), ["completed"; 4]);
    lab.assert_clean();
}

/// Ctrl-C as soon as `said` shows; what the run's folder then holds.
fn interrupted(lab: &Lab, args: &[&str], said: &str) -> Vec<String> {
    let mut running = lab.start(lab.command(args));
    running.said(said);
    running.signal(Signal::INT);
    running
        .wait()
        .expect(130)
        .says("capbench plan.toml --resume run");
    statuses(lab)
}

#[test]
fn ctrl_c_in_any_phase_can_be_taken_up_again() {
    let lab = Lab::new();
    let plan = private_plan(
        &servers::servers()[0],
        "workloads = [\"oltp_point_select\", \"oltp_read_write\"]\nthreads = [1, 100]\nmeasure = \"1500ms\"\n\n\
         [soak]\nworkload = \"oltp_point_select\"\nthreads = 1\nduration = \"3s\"\n",
    );
    lab.write(
        "plan.toml",
        &plan.replace("duration = \"0s\"", "duration = \"1s\""),
    );
    let resume = ["plan.toml", "--resume", "run"];
    let connecting = interrupted(&lab, &["plan.toml", "--out", "run"], "[2/4]");
    let at_two = ["completed", "interrupted", "skipped", "skipped"];
    assert_eq!(connecting, at_two);
    let warming_up = interrupted(&lab, &resume, "warming up");
    assert_eq!(warming_up, ["completed", "skipped", "skipped", "skipped"]);
    let last_cell = interrupted(&lab, &resume, "  [4/4]");
    assert_eq!(
        last_cell,
        ["completed", "completed", "completed", "interrupted"]
    );
    let soaking = interrupted(&lab, &resume, "[soak]");
    assert_eq!(soaking[..4], ["completed"; 4]);
    assert_eq!(soaking[4..], ["interrupted"]);
    lab.run(&resume).measured();
    assert_eq!(statuses(&lab), ["completed"; 5]);
    let report = lab.read("run/report.md");
    for part in [
        "the user had ended it",
        "between its parts",
        "when the run was taken up again",
    ] {
        assert!(report.contains(part), "{part}");
    }
    assert!(!report.contains("it had been cut off"));
    lab.assert_clean();
}

#[test]
fn a_ladder_that_the_guard_ended_stays_ended() {
    let lab = Lab::new();
    let guarded = "workloads = [\"oltp_point_select\", \"oltp_read_only\"]\nthreads = [1, 2, 3]\nmeasure = \"3s\"\n\n[guard]\nmax_p95 = \"1us\"";
    lab.write("plan.toml", &private_plan(&servers::servers()[0], guarded));
    let mut running = lab.start(lab.command(&["plan.toml", "--out", "run"]));
    running.said("[4/6]");
    running.signal(Signal::KILL);
    running.wait().expect(-1);
    lab.run(&["plan.toml", "--resume", "run"]).expect(4);
    assert_eq!(
        statuses(&lab),
        [
            "stopped", "skipped", "skipped", "stopped", "skipped", "skipped"
        ]
    );
    lab.assert_clean();
}

#[test]
fn a_changed_server_is_named_and_refused() {
    for binary in servers::servers() {
        let external = External::start(&binary);
        let lab = Lab::new();
        let ladder = LADDER.replace("600ms", "1500ms");
        lab.write("plan.toml", &plan(&external, &ladder));
        make_foreign(&external);
        make_accounts(&lab, &external, &binary);
        let before = variables(&external);
        let mut running = lab.start(command(&lab, &["plan.toml", "--out", "run"]));
        running.said("[3/4]");
        // Under load: the data that the variant began on is written to by now.
        running.said("[3/4] oltp_read_write 1 thread · no flush    0.8s ");
        running.signal(Signal::KILL);
        running.wait().expect(-1);
        run(&lab, &["plan.toml", "--resume", "run"])
            .expect(3)
            .says("left the server changed")
            .says("capbench restore run");
        run(&lab, &["restore", "run"]).expect(0);
        assert_eq!(variables(&external), before);

        let capacity = &before["innodb_io_capacity"];
        let mut root = external.root();
        root.query_drop("SET GLOBAL innodb_io_capacity = 321")
            .unwrap();
        run(&lab, &["plan.toml", "--resume", "run"])
            .expect(3)
            .says(&format!("innodb_io_capacity was {capacity}, now 321"));
        assert_eq!(rows(&lab).len(), 2);
        root.query_drop(format!("SET GLOBAL innodb_io_capacity = {capacity}"))
            .unwrap();
        drop(root);
        run(&lab, &["plan.toml", "--resume", "run"]).measured();
        let ended = statuses(&lab);
        assert_eq!(ended[..4], ["completed"; 4]);
        // The cells before had written to the tables: they were dropped and loaded anew.
        assert!(
            lab.read("run/report.md")
                .contains("loaded when the run was taken up again")
        );
        assert_eq!(variables(&external), before);
    }
}
