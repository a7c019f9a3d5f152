//! Runs against a server that someone else runs: two accounts with the rights that `capbench grants` names,
//! everything put back, and nothing of anyone else's touched.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use mysql::prelude::Queryable as _;
use rustix::process::Signal;

use crate::lab::{Ended, Lab, all_files, csv_rows};
use crate::servers::{self, External, is_mariadb};

/// Passwords that must turn up nowhere.
const LOAD_SECRET: &str = "l0ad-Secret!x1";
const ADMIN_SECRET: &str = "adm1n-Secret!y2";

pub(crate) fn plan(external: &External, rest: &str) -> String {
    format!(
        r#"name = "theirs"
accept = ["same-host", "short-steps", "few-tables", "small-data", "fits-page-cache"]

[target]
host = "127.0.0.1"
port = {}
user = "bench"
password_env = "BENCH_PASSWORD"
admin = {{ user = "bench_admin", password_env = "BENCH_ADMIN_PASSWORD" }}
database = "bench_db"
set = {{ max_connections = 321 }}

[dataset]
tables = 2
rows = 1_000
load_threads = 2

[warmup]
duration = "300ms"

[guard]
acknowledge = ["other-schemas", "foreign-tables"]

[ladder]
discard = "0s"
interval = "200ms"
{rest}
"#,
        external.port
    )
}

pub(crate) const LADDER: &str = r#"workloads = ["oltp_read_write"]
threads = [1, 2]
measure = "600ms"

[[variant]]
name = "baseline"

[[variant]]
name = "no flush"
set = { innodb_flush_log_at_trx_commit = 2 }"#;

pub(crate) fn command(lab: &Lab, args: &[&str]) -> Command {
    let mut command = lab.command(args);
    command
        .env("BENCH_PASSWORD", LOAD_SECRET)
        .env("BENCH_ADMIN_PASSWORD", ADMIN_SECRET);
    command
}

pub(crate) fn run(lab: &Lab, args: &[&str]) -> Ended {
    lab.start(command(lab, args)).wait()
}

/// Runs what `capbench grants` prints, with the passwords filled in, as its user would.
pub(crate) fn make_accounts(lab: &Lab, external: &External, binary: &Path) {
    let flavour = if is_mariadb(binary) {
        "mariadb"
    } else {
        "mysql"
    };
    let script = run(lab, &["grants", "plan.toml", "--flavour", flavour])
        .expect(0)
        .stdout;
    let mut root = external.root();
    let mut user = "";
    let text: Vec<&str> = script.lines().filter(|l| !l.starts_with("--")).collect();
    for sql in text
        .join("\n")
        .split(";\n")
        .map(|s| s.trim().trim_end_matches(';'))
    {
        if sql.is_empty() {
            continue;
        }
        if sql.starts_with("CREATE USER") {
            user = if sql.contains("bench_admin") {
                ADMIN_SECRET
            } else {
                LOAD_SECRET
            };
        }
        root.query_drop(sql.replace("<password>", user))
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

pub(crate) fn variables(external: &External) -> BTreeMap<String, String> {
    external
        .root()
        .query("SHOW GLOBAL VARIABLES")
        .unwrap()
        .into_iter()
        .filter(|(name, _): &(String, String)| !name.starts_with("gtid"))
        .collect()
}

pub(crate) fn tables(external: &External) -> Vec<String> {
    external
        .root()
        .query("SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE table_schema IN ('bench_db', 'orders') ORDER BY 1")
        .unwrap()
}

/// Tables of someone else, one of them with a name as if it were ours.
pub(crate) fn make_foreign(external: &External) {
    let mut root = external.root();
    for sql in [
        "CREATE DATABASE IF NOT EXISTS bench_db",
        "CREATE DATABASE orders",
        "CREATE TABLE orders.sbtest1 (id INT PRIMARY KEY)",
        "CREATE TABLE bench_db.sbtest99 (id INT PRIMARY KEY)",
        "CREATE TABLE bench_db.customers (id INT PRIMARY KEY)",
        "INSERT INTO bench_db.customers VALUES (1), (2)",
    ] {
        root.query_drop(sql)
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

pub(crate) const FOREIGN: [&str; 3] = ["bench_db.customers", "bench_db.sbtest99", "orders.sbtest1"];

fn assert_no_secret(name: &str, content: &[u8]) {
    let text = String::from_utf8_lossy(content);
    for secret in [LOAD_SECRET, ADMIN_SECRET] {
        assert!(!text.contains(secret), "a password stands in {name}");
    }
}

#[test]
fn a_run_on_a_server_of_others_puts_everything_back() {
    for binary in servers::servers() {
        let external = External::start(&binary);
        let lab = Lab::new();
        lab.write("plan.toml", &plan(&external, LADDER));
        make_foreign(&external);
        make_accounts(&lab, &external, &binary);
        let before = variables(&external);

        let checked = run(&lab, &["check", "plan.toml"]).expect(0);
        checked.says("nothing was changed").says("CREATE INDEX");
        // A remark goes on after a semicolon, or there is none.
        for line in checked.stdout.lines() {
            assert!(!line.ends_with(' '), "`{line}`");
        }
        assert_eq!(tables(&external), FOREIGN);
        assert_eq!(variables(&external), before);

        run(&lab, &["prepare", "plan.toml"])
            .expect(0)
            .says("2 tables of 1000 rows");
        let mut running = lab.start(command(&lab, &["plan.toml", "--out", "run"]));
        running.said("variant `no flush`");
        let during = variables(&external);
        assert_eq!(during["max_connections"], "321");
        let ended = running.wait().expect(0);
        ended.says("reused");
        assert_eq!(variables(&external), before, "{}", ended.stderr);
        let cells = csv_rows(&lab.path("run/cells.csv"));
        assert!(
            cells.iter().all(|c| c["status"] == "completed"),
            "{cells:#?}"
        );
        let report = lab.read("run/report.md");
        assert!(report.contains("max_connections"), "{report}");

        run(&lab, &["cleanup", "plan.toml"])
            .expect(0)
            .says("dropped");
        assert_eq!(tables(&external), FOREIGN);
        let kept: Option<u64> = external
            .root()
            .query_first("SELECT COUNT(*) FROM bench_db.customers")
            .unwrap();
        assert_eq!(kept, Some(2));
        run(&lab, &["cleanup", "plan.toml"])
            .expect(0)
            .says("nothing of capbench's was there");

        for (path, content) in all_files(&lab.path(".")) {
            assert_no_secret(&path.display().to_string(), &content);
        }
    }
}

#[test]
fn ctrl_c_and_a_failure_put_the_variables_back() {
    for binary in servers::servers() {
        let external = External::start(&binary);
        let lab = Lab::new();
        let long = "workloads = [\"oltp_read_write\"]\nthreads = [1, 2]\nmeasure = \"60s\"\n\
                    [[variant]]\nname = \"no flush\"\nset = { innodb_flush_log_at_trx_commit = 2 }";
        lab.write("plan.toml", &plan(&external, long));
        make_foreign(&external);
        make_accounts(&lab, &external, &binary);
        let before = variables(&external);
        let mut running = lab.start(command(&lab, &["plan.toml", "--out", "run"]));
        running.said("[1/2] oltp_read_write 1 thread");
        running.said(" 0.8s ");
        assert_ne!(variables(&external), before);
        for line in lab.server_processes() {
            assert_no_secret("a command line", line.as_bytes());
        }
        running.signal(Signal::INT);
        running.wait().expect(130);
        assert_eq!(variables(&external), before);

        // The tables that a writer left in the middle are put back, not trusted.
        lab.write(
            "plan.toml",
            &plan(
                &external,
                "workloads = [\"oltp_point_select\"]\nthreads = [1]\nmeasure = \"300ms\"",
            ),
        );
        run(&lab, &["plan.toml", "--out", "second"]).expect(0);
        assert_eq!(variables(&external), before);
        for (path, content) in all_files(&lab.path(".")) {
            assert_no_secret(&path.display().to_string(), &content);
        }
    }
}

#[test]
fn what_cannot_work_is_said_before_anything_is_touched() {
    for binary in servers::servers() {
        let external = External::start(&binary);
        let lab = Lab::new();
        let good = plan(&external, LADDER);
        lab.write("plan.toml", &good);
        make_foreign(&external);
        make_accounts(&lab, &external, &binary);
        let before = variables(&external);
        let refused = |plan: &str, code: i32, texts: &[&str]| {
            lab.write("bad.toml", plan);
            for args in [&["check", "bad.toml"][..], &["bad.toml", "--out", "run"]] {
                let ended = run(&lab, args).expect(code);
                for text in texts {
                    ended.says(text);
                }
                assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
            }
            assert!(!lab.path("run").exists(), "a run folder without a run");
            assert_eq!(variables(&external), before);
            assert_eq!(tables(&external), FOREIGN);
        };

        let many = good.replace("threads = [1, 2]", "threads = [1, 200]");
        let set = "set = { max_connections = 321 }\n";
        refused(&many.replace(set, ""), 3, &["max_connections", "hint"]);
        let statements = many.replace(
            set,
            "set = { max_connections = 321, max_prepared_stmt_count = 100 }\n",
        );
        refused(&statements, 3, &["max_prepared_stmt_count"]);
        let unknown = good.replace("max_connections = 321", "max_conections = 321");
        refused(&unknown, 3, &["max_conections", "max_connections"]);
        let wrong = good.replace(
            "password_env = \"BENCH_PASSWORD\"",
            "password_env = \"HOME\"",
        );
        refused(&wrong, 3, &["1045", "bench"]);
        let unset = good.replace("\"BENCH_ADMIN_PASSWORD\"", "\"NO_SUCH_VARIABLE\"");
        refused(&unset, 2, &["NO_SUCH_VARIABLE"]);
        // No rights there, so that it cannot be made.
        let nowhere = good.replace("\"bench_db\"", "\"no_such_db\"");
        refused(&nowhere, 3, &["no_such_db", "grants"]);
        let closed = good.replace(&format!("port = {}", external.port), "port = 1");
        refused(&closed, 3, &["127.0.0.1:1"]);
        if is_mariadb(&binary) {
            // Fresh data directories of MariaDB hold ''@'localhost', which stands before 'bench'@'%'.
            let mut root = external.root();
            for sql in [
                "DROP USER bench@localhost, bench@127.0.0.1".to_owned(),
                format!("CREATE USER bench@'%' IDENTIFIED BY '{LOAD_SECRET}'"),
                "GRANT ALL ON bench_db.* TO bench@'%'".to_owned(),
            ] {
                root.query_drop(sql).unwrap();
            }
            drop(root);
            refused(&good, 3, &["1045", "nonymous"]);
        }
    }
}

#[test]
fn tables_of_sysbench_are_accepted_after_a_look() {
    if Command::new("sysbench").arg("--version").output().is_err() {
        #[allow(
            clippy::print_stderr,
            reason = "says in the test's output what was left out"
        )]
        {
            eprintln!("skipped: no sysbench on this machine");
        }
        return;
    }
    let binary = &servers::servers()[0];
    let external = External::start(binary);
    let lab = Lab::new();
    let read = "workloads = [\"oltp_read_only\"]\nthreads = [1, 2]\nmeasure = \"500ms\"";
    let theirs = plan(&external, read).replace("rows = 1_000\n", "rows = 1_000\nexisting = true\n");
    lab.write("plan.toml", &theirs);
    make_foreign(&external);
    make_accounts(&lab, &external, binary);
    run(&lab, &["plan.toml", "--out", "run"])
        .expect(3)
        .says("sbtest1");
    let made = Command::new("sysbench")
        .args([
            "oltp_read_only",
            "--tables=2",
            "--table-size=1000",
            "--mysql-db=bench_db",
        ])
        .arg(format!("--mysql-socket={}", external.path("s").display()))
        .args(["--mysql-user=root", "prepare"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let ended = run(&lab, &["plan.toml", "--out", "run"]).expect(0);
    ended.says("checking the existing tables");
    run(&lab, &["cleanup", "plan.toml"])
        .expect(0)
        .says("nothing of capbench's was there");
    assert!(tables(&external).contains(&"bench_db.sbtest1".to_owned()));
    // Without `existing`, tables that are not ours are left alone.
    lab.write("plan.toml", &plan(&external, read));
    run(&lab, &["plan.toml", "--out", "refused"])
        .expect(3)
        .says("was not made by capbench");
    assert!(!lab.path("refused").exists());
}

#[test]
fn a_server_of_others_that_dies_is_told_with_the_way_to_put_it_back() {
    for binary in servers::servers() {
        let external = External::start(&binary);
        let lab = Lab::new();
        let ladder = LADDER.replace("600ms", "2s");
        lab.write("plan.toml", &plan(&external, &ladder));
        make_foreign(&external);
        make_accounts(&lab, &external, &binary);
        let mut running = lab.start(command(&lab, &["plan.toml", "--out", "run"]));
        running.said("[1/4]");
        running.said(" 0.8s ");
        let server = crate::lab::pid(&external.path("pid"));
        rustix::process::kill_process(server, Signal::KILL).unwrap();
        let ended = running.wait().expect(3);
        ended.says("was not put back").says("journal.jsonl");
        let journal = lab.read("run/journal.jsonl");
        assert!(journal.contains("max_connections"), "{journal}");
        let cells = csv_rows(&lab.path("run/cells.csv"));
        assert_eq!(cells.len(), 4, "{cells:#?}");
        assert_ne!(cells[0]["validity"], "valid", "{cells:#?}");
        assert!(lab.path("run/report.md").exists());

        // What the server forgot with its end, it does not get twice; what it kept is put back.
        external.start_again();
        run(&lab, &["restore", "run"])
            .expect(0)
            .says("max_connections");
        run(&lab, &["restore", "run"])
            .expect(0)
            .says("nothing to put back");
    }
}

#[test]
fn what_a_killed_capbench_changed_is_put_back_from_its_journal() {
    for binary in servers::servers() {
        let external = External::start(&binary);
        let lab = Lab::new();
        let ladder = LADDER.replace("600ms", "60s");
        lab.write("plan.toml", &plan(&external, &ladder));
        make_foreign(&external);
        make_accounts(&lab, &external, &binary);
        let before = variables(&external);
        let mut running = lab.start(command(&lab, &["plan.toml", "--out", "run"]));
        running.said("[1/4]");
        running.said(" 0.8s ");
        running.signal(Signal::KILL);
        running.wait().expect(-1);
        assert_ne!(variables(&external), before);
        run(&lab, &["restore", "run"])
            .expect(0)
            .says("max_connections");
        assert_eq!(variables(&external), before);
        run(&lab, &["restore", "run"])
            .expect(0)
            .says("nothing to put back");
        for (path, content) in all_files(&lab.path(".")) {
            assert_no_secret(&path.display().to_string(), &content);
        }
    }
}

#[test]
fn every_signal_that_ends_a_program_puts_the_server_back() {
    // The signals are heard in one place, whatever the server.
    let binary = &servers::servers()[0];
    let external = External::start(binary);
    let lab = Lab::new();
    lab.write(
        "plan.toml",
        &plan(&external, &LADDER.replace("600ms", "60s")),
    );
    make_foreign(&external);
    make_accounts(&lab, &external, binary);
    let before = variables(&external);
    for (out, signal) in [
        ("term", Signal::TERM),
        ("hup", Signal::HUP),
        ("quit", Signal::QUIT),
    ] {
        let mut running = lab.start(command(&lab, &["plan.toml", "--out", out]));
        running.said("[1/4]");
        running.said(" 0.8s ");
        assert_eq!(variables(&external)["max_connections"], "321");
        running.signal(signal);
        running.wait().expect(130);
        assert!(lab.path(&format!("{out}/report.md")).exists());
        assert_eq!(variables(&external), before);
        run(&lab, &["check", "plan.toml"]).expect(0);
    }
}
