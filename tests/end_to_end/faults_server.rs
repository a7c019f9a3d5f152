//! Faults of the server under the load, on a server that others run: frozen, restarted, full, locked, read-only.

use std::path::Path;
use std::time::Duration;

use mysql::prelude::Queryable as _;
use rustix::process::{Signal, kill_process, test_kill_process};

use crate::external::{LADDER, command, make_accounts, make_foreign, plan, run};
use crate::faults::picture;
use crate::lab::{Ended, Lab, Running, csv_rows};
use crate::servers::{self, External};

/// Two steps of readers and writers, with short patience, so that a server that answers nothing is soon given up.
pub(crate) const STEPS: &str = r#"workloads = ["oltp_read_write"]
threads = [2, 4]
measure = "2s"

[load]
drain_timeout = "1s"
connect_timeout = "4s""#;

/// One step that is long enough for something to happen in its midst.
pub(crate) const ONE_STEP: &str = r#"workloads = ["oltp_read_write"]
threads = [2]
measure = "6s""#;

/// A server of others with accounts and tables of theirs, a plan for it, and how it was before capbench came.
pub(crate) struct Drill {
    pub(crate) external: External,
    pub(crate) lab: Lab,
    before: Vec<String>,
}

impl Drill {
    /// The plan is the usual one with short patience, its ladder and what follows `rest`, changed by `change`.
    pub(crate) fn new(
        binary: &Path,
        rest: &str,
        change: impl Fn(String, &External) -> String,
    ) -> Self {
        let external = External::start(binary);
        let lab = Lab::new();
        let usual = plan(&external, rest)
            .replace(
                "[dataset]",
                "connect_timeout = \"3s\"\nstart_timeout = \"4s\"\n\n[dataset]",
            )
            .replace("[warmup]", "[warmup]\nsettle = \"0s\"");
        lab.write("plan.toml", &change(usual, &external));
        make_foreign(&external);
        make_accounts(&lab, &external, binary);
        let before = picture(&external);
        Self {
            external,
            lab,
            before,
        }
    }

    /// The run, in the midst of its first step.
    pub(crate) fn under_a_step(&self) -> Running {
        let mut running = self
            .lab
            .start(command(&self.lab, &["plan.toml", "--out", "run"]));
        running.said("[1/");
        running.said(" 0.8s ");
        running
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        run(&self.lab, args)
    }

    fn sql(&self, sql: &str) {
        let mut root = self.external.root();
        root.query_drop(sql)
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(crate::lab::pid(&self.external.path("pid")), signal).unwrap();
    }

    /// A column of cells.csv.
    pub(crate) fn column(&self, name: &str) -> Vec<String> {
        csv_rows(&self.lab.path("run/cells.csv"))
            .iter()
            .map(|cell| cell[name].clone())
            .collect()
    }

    /// Variables, accounts and others' tables are as they were.
    #[track_caller]
    pub(crate) fn unchanged(&self) {
        assert_eq!(picture(&self.external), self.before);
    }

    /// The report is there, and what was measured until the fault.
    #[track_caller]
    pub(crate) fn report(&self) -> String {
        let report = self.lab.read("run/report.md");
        assert!(report.contains("oltp_read_write"), "{report}");
        assert!(self.lab.path("run/report.html").exists());
        assert!(self.lab.read("run/intervals.csv").lines().count() > 2);
        report
    }

    /// The documented way back is asked for, works, and leaves nothing.
    #[track_caller]
    pub(crate) fn restored(&self) {
        self.run(&["restore", "run"]).expect(0);
        self.unchanged();
        self.run(&["check", "plan.toml"]).expect(0);
    }
}

/// The plan as it is.
pub(crate) fn usual(text: String, _: &External) -> String {
    text
}

/// Figures of the run's intervals, those without one left out.
fn intervals(drill: &Drill, name: &str) -> Vec<f64> {
    csv_rows(&drill.lab.path("run/intervals.csv"))
        .iter()
        .filter_map(|interval| interval[name].parse().ok())
        .collect()
}

#[test]
fn frozen_under_a_step_and_continued() {
    for binary in servers::servers() {
        let drill = Drill::new(&binary, ONE_STEP, usual);
        let running = drill.under_a_step();
        drill.signal(Signal::STOP);
        std::thread::sleep(Duration::from_secs(1));
        drill.signal(Signal::CONT);
        running.wait().measured();
        assert_eq!(drill.column("status"), ["completed"]);
        // The wait is in the latencies: clients that waited are not left out.
        let longest = intervals(&drill, "lat_max_ns")
            .into_iter()
            .fold(0.0, f64::max);
        assert!(longest > 0.9e9, "{longest} ns");
        drill.report();
        drill.unchanged();
    }
}

#[test]
#[ignore = "slow; make faults runs it"]
fn frozen_to_the_end() {
    // What takes its time is capbench's patience, the same with any server.
    let binary = &servers::servers()[0];
    let drill = Drill::new(binary, STEPS, |plan, _| {
        plan.replace("= \"3s\"", "= \"2s\"")
            .replace("start_timeout = \"4s\"", "start_timeout = \"2s\"")
    });
    let running = drill.under_a_step();
    drill.signal(Signal::STOP);
    running
        .wait()
        .expect(3)
        .says("no answer within")
        .says("the server was not put back")
        .says("capbench restore run");
    assert_eq!(drill.column("status"), ["truncated", "skipped"]);
    assert!(drill.report().contains("the server hung"));
    drill
        .run(&["restore", "run"])
        .expect(3)
        .says("no answer within");
    drill.signal(Signal::CONT);
    drill.restored();
}

#[test]
fn restarted_under_a_step() {
    for binary in servers::servers() {
        let drill = Drill::new(&binary, ONE_STEP, usual);
        let running = drill.under_a_step();
        let server = crate::lab::pid(&drill.external.path("pid"));
        drill.signal(Signal::KILL);
        let gone = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            test_kill_process(server).is_err()
        });
        assert!(gone, "the server is gone");
        drill.external.start_again();
        running.wait().expect(4);
        assert_eq!(drill.column("validity"), ["invalid"]);
        let report = drill.report();
        for text in [
            "the server was restarted during the cell",
            "clients missing",
        ] {
            assert!(report.contains(text), "{text}\n{report}");
        }
        drill.unchanged();
        drill.run(&["check", "plan.toml"]).expect(0);
    }
}

#[test]
fn out_of_connections_at_a_later_step() {
    for binary in servers::servers() {
        let steps = STEPS.replace("[2, 4]", "[2, 10]");
        let drill = Drill::new(&binary, &steps, |plan, _| {
            plan.replace("max_connections = 321", "max_connections = 30")
        });
        let running = drill.under_a_step();
        let socket = drill.external.path("s");
        let mut taken = Vec::new();
        while let Ok(conn) = mysql::Conn::new(
            mysql::OptsBuilder::new()
                .socket(Some(socket.to_string_lossy()))
                .user(Some("root"))
                .read_timeout(Some(Duration::from_secs(30))),
        ) {
            taken.push(conn);
            assert!(taken.len() < 60, "the server has no limit");
        }
        let ended = running.wait().expect(4);
        drop(taken);
        ended.says("1040").says("Too many connections");
        assert_eq!(drill.column("status"), ["completed", "failed"]);
        assert!(drill.report().contains("Too many connections"));
        drill.unchanged();
    }
}

#[test]
fn a_table_locked_at_load() {
    for binary in servers::servers() {
        let drill = Drill::new(&binary, STEPS, |plan, _| {
            plan.replace(
                "acknowledge = [",
                "acknowledge = [\"other-clients\", \"unseen-backup\", ",
            )
        });
        drill.run(&["prepare", "plan.toml"]).expect(0);
        let more = drill.lab.read("plan.toml");
        drill
            .lab
            .write("plan.toml", &more.replace("rows = 1_000", "rows = 2_000"));
        let mut other = drill.external.root();
        other
            .query_drop("LOCK TABLES bench_db.sbtest1 WRITE")
            .unwrap();
        drill
            .run(&["plan.toml", "--out", "run"])
            .expect(3)
            .says("`sbtest1` failed: error 1205")
            .says("another session holds the table");
        assert!(!drill.lab.path("run").exists(), "nothing was measured");
        drill.unchanged();
        drop(other);
        drill.run(&["prepare", "plan.toml"]).expect(0);
        drill.unchanged();
    }
}

#[test]
#[ignore = "slow; make faults runs it"]
fn a_table_held_at_reset() {
    for binary in servers::servers() {
        let ladder = LADDER.replace("600ms", "2s").replace("[1, 2]", "[2]");
        let drill = Drill::new(&binary, &ladder, usual);
        let running = drill.under_a_step();
        let mut other = drill.external.root();
        for sql in ["BEGIN", "SELECT * FROM bench_db.sbtest1 LIMIT 1"] {
            other.query_drop(sql).unwrap();
        }
        let ended = running.wait().expect(3);
        drop(other);
        ended
            .says("`sbtest1` failed: error 1205")
            .says("another session holds the table");
        assert_eq!(drill.column("status"), ["completed", "skipped"]);
        drill.report();
        drill.unchanged();
    }
}

#[test]
fn a_table_locked_under_a_step() {
    for binary in servers::servers() {
        let drill = Drill::new(&binary, STEPS, usual);
        let running = drill.under_a_step();
        let mut other = drill.external.root();
        other
            .query_drop("LOCK TABLES bench_db.sbtest1 WRITE")
            .unwrap();
        running
            .wait()
            .expect(4)
            .says("still running 1s after the end and were killed");
        drop(other);
        assert_eq!(drill.column("status"), ["truncated", "skipped"]);
        drill.report();
        drill.unchanged();
        drill.run(&["check", "plan.toml"]).expect(0);
    }
}

#[test]
fn read_only_under_a_step() {
    for binary in servers::servers() {
        let drill = Drill::new(&binary, STEPS, usual);
        let running = drill.under_a_step();
        let (on, off) = if servers::is_mariadb(&binary) {
            ("read_only = 1", "read_only = 0")
        } else {
            (
                "super_read_only = 1",
                "super_read_only = 0, GLOBAL read_only = 0",
            )
        };
        drill.sql(&format!("SET GLOBAL {on}"));
        // The lease can no longer be taken out, so that the server still says that it is changed.
        running
            .wait()
            .expect(3)
            .says("the server or the session is read-only")
            .says("the server was not put back")
            .says("capbench restore run");
        assert_eq!(drill.column("status"), ["failed", "skipped"]);
        assert!(drill.report().contains("read_only changed from OFF to ON"));
        drill.sql(&format!("SET GLOBAL {off}"));
        drill.restored();
    }
}

#[test]
#[ignore = "slow; make faults runs it"]
fn no_right_to_set_and_no_local_infile() {
    for binary in servers::servers() {
        let drill = Drill::new(&binary, STEPS, usual);
        let sees = if servers::is_mariadb(&binary) {
            "PROCESS, REPLICATION CLIENT, SLAVE MONITOR, REPLICATION SLAVE ADMIN"
        } else {
            "PROCESS, REPLICATION CLIENT"
        };
        let mut root = drill.external.root();
        let hosts: Vec<String> = root
            .query("SELECT host FROM mysql.user WHERE user = 'bench_admin'")
            .unwrap();
        assert!(!hosts.is_empty());
        for host in hosts {
            let account = format!("bench_admin@'{host}'");
            for sql in [
                format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM {account}"),
                format!("GRANT {sees} ON *.* TO {account}"),
                format!("GRANT ALL ON bench_db.* TO {account}"),
            ] {
                root.query_drop(sql).unwrap();
            }
        }
        let infile: Option<u8> = root.query_first("SELECT @@GLOBAL.local_infile").unwrap();
        // It would be another client.
        drop(root);
        drill
            .run(&["plan.toml", "--out", "run"])
            .expect(3)
            .says("may not set `max_connections`: error 1227")
            .says("capbench grants PLAN");
        assert!(!drill.lab.path("run").exists(), "nothing was measured");
        drill.unchanged();

        // A run that sets nothing needs no such right, and loads by other means.
        drill.sql("SET GLOBAL local_infile = 0");
        let plan = drill.lab.read("plan.toml");
        drill.lab.write(
            "plan.toml",
            &plan.replace("set = { max_connections = 321 }\n", ""),
        );
        drill.run(&["plan.toml", "--out", "run"]).measured();
        assert_eq!(drill.column("status"), ["completed", "completed"]);
        drill.sql(&format!("SET GLOBAL local_infile = {}", infile.unwrap()));
        drill.unchanged();
    }
}
