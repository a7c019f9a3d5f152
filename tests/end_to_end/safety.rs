//! A server that matters: dangers refused by name, changes held by the server itself, nothing of anyone else's
//! overwritten.

use mysql::prelude::Queryable as _;
use rustix::process::Signal;

use crate::external::{
    FOREIGN, LADDER, command, make_accounts, make_foreign, plan, run, tables, variables,
};
use crate::lab::{Lab, csv_rows};
use crate::private_plan;
use crate::servers::{self, External, is_mariadb};

fn sql(external: &External, statements: &[&str]) {
    let mut root = external.root();
    for sql in statements {
        root.query_drop(sql)
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

/// A server with accounts and others' tables, a plan, and a run of it that was killed in its first cell.
fn killed(lab: &Lab, external: &External, binary: &std::path::Path) {
    lab.write(
        "plan.toml",
        &plan(external, &LADDER.replace("600ms", "60s")),
    );
    make_foreign(external);
    make_accounts(lab, external, binary);
    let mut running = lab.start(command(lab, &["plan.toml", "--out", "run"]));
    running.said("[1/4]");
    running.said(" 0.8s ");

    // While it lives, it is another capbench.
    run(lab, &["plan.toml", "--out", "second"])
        .expect(3)
        .says("another capbench works on this server")
        .says("folder");
    running.signal(Signal::KILL);
    running.wait().expect(-1);
}

#[test]
fn the_server_knows_who_left_it_changed_and_can_be_put_back_without_the_folder() {
    for binary in servers::servers() {
        let external = External::start(&binary);
        let lab = Lab::new();
        let before = variables(&external);
        killed(&lab, &external, &binary);
        assert_eq!(variables(&external)["max_connections"], "321");
        let held = tables(&external);
        assert!(
            held.contains(&"bench_db.capbench_lease".to_owned()),
            "{held:?}"
        );

        // From another folder, as from another machine.
        let other = Lab::new();
        other.write("plan.toml", &lab.read("plan.toml"));
        for args in [
            &["plan.toml", "--out", "next"][..],
            &["check", "plan.toml"],
            &["prepare", "plan.toml"],
            &["cleanup", "plan.toml"],
        ] {
            run(&other, args)
                .expect(3)
                .says(
                    "a run that was cut off left the server changed: max_connections (151 -> 321)",
                )
                .says("--from-server");
        }
        assert_eq!(tables(&external), held);
        std::fs::remove_dir_all(lab.path("run")).unwrap();
        run(&other, &["restore", "--from-server", "plan.toml"])
            .expect(0)
            .says("max_connections");
        assert_eq!(variables(&external), before);
        assert!(!tables(&external).contains(&"bench_db.capbench_lease".to_owned()));
        run(&other, &["restore", "--from-server", "plan.toml"])
            .expect(0)
            .says("nothing to put back");
        other.write("plan.toml", &plan(&external, LADDER));
        run(&other, &["plan.toml", "--out", "next"]).measured();
        assert_eq!(variables(&external), before);
        run(&other, &["cleanup", "plan.toml"]).expect(0);
        assert_eq!(tables(&external), FOREIGN);
    }
}

#[test]
fn what_a_dba_set_meanwhile_is_left_alone_until_told() {
    for binary in servers::servers() {
        for (flag, left) in [("--keep", "400"), ("--force", "151")] {
            let external = External::start(&binary);
            let lab = Lab::new();
            killed(&lab, &external, &binary);
            sql(&external, &["SET GLOBAL max_connections = 400"]);
            run(&lab, &["restore", "run"])
                .expect(3)
                .says("`max_connections` is 400")
                .says("--force")
                .says("--keep");
            assert_eq!(variables(&external)["max_connections"], "400");
            // Not settled: the next run still refuses.
            run(&lab, &["check", "plan.toml"]).expect(3).says("cut off");
            run(&lab, &["restore", "run", flag]).expect(0);
            assert_eq!(variables(&external)["max_connections"], left, "{flag}");
            run(&lab, &["restore", "run"])
                .expect(0)
                .says("nothing to put back");
            run(&lab, &["check", "plan.toml"]).expect(0);
        }
    }
}

#[test]
fn a_run_that_ends_overwrites_nobodys_setting_either() {
    for binary in servers::servers() {
        let external = External::start(&binary);
        let lab = Lab::new();
        let ladder = "workloads = [\"oltp_point_select\"]\nthreads = [1]\nmeasure = \"2s\"";
        lab.write("plan.toml", &plan(&external, ladder));
        make_foreign(&external);
        make_accounts(&lab, &external, &binary);
        let mut running = lab.start(command(&lab, &["plan.toml", "--out", "run"]));
        running.said("[1/1]");
        running.said(" 0.8s ");
        sql(&external, &["SET GLOBAL max_connections = 400"]);
        running
            .wait()
            .expect(3)
            .says("`max_connections` is 400")
            .says("left as it is");
        assert_eq!(variables(&external)["max_connections"], "400");
        // The cell under which it moved is not valid, and the report is there.
        let cells = csv_rows(&lab.path("run/cells.csv"));
        assert_ne!(cells[0]["validity"], "valid", "{cells:#?}");
        assert!(lab.read("run/report.md").contains("max_connections"));
        run(&lab, &["restore", "run", "--keep"]).expect(0);
        run(&lab, &["check", "plan.toml"]).expect(0);
    }
}

#[test]
fn a_variable_that_the_server_moved_along_is_put_back_too() {
    for binary in servers::servers() {
        let external = External::start(&binary);
        let lab = Lab::new();
        // Above innodb_io_capacity_max, which follows on both families.
        let moving = plan(
            &external,
            "workloads = [\"oltp_point_select\"]\nthreads = [1]\nmeasure = \"300ms\"",
        )
        .replace("max_connections = 321", "innodb_io_capacity = 30_000");
        lab.write("plan.toml", &moving);
        make_foreign(&external);
        make_accounts(&lab, &external, &binary);
        let before = variables(&external);
        run(&lab, &["plan.toml", "--out", "run"]).measured();
        assert_eq!(variables(&external), before);
    }
}

#[test]
fn every_danger_is_named_in_one_message_and_taken_on_by_name() {
    for binary in servers::servers() {
        let external = External::start(&binary);
        let lab = Lab::new();
        let careful = plan(&external, LADDER).replace(
            "acknowledge = [\"other-schemas\", \"foreign-tables\"]",
            "max_replica_lag = \"5s\"",
        );
        lab.write("plan.toml", &careful);
        make_foreign(&external);
        make_accounts(&lab, &external, &binary);
        let change = if is_mariadb(&binary) {
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 1, MASTER_USER = 'x'"
        } else {
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1, SOURCE_USER = 'x'"
        };
        sql(&external, &[change, "SET GLOBAL read_only = ON"]);
        // A session of someone else, which on MySQL holds a backup lock as well.
        let mut other = external.root();
        other.query_drop("USE orders").unwrap();
        if is_mariadb(&binary) {
            other.query_drop("BACKUP STAGE START").unwrap();
        } else {
            other.query_drop("LOCK INSTANCE FOR BACKUP").unwrap();
        }
        let before = variables(&external);
        for args in [&["check", "plan.toml"][..], &["plan.toml", "--out", "run"]] {
            let refused = run(&lab, args).expect(3);
            for name in [
                "other-clients",
                "other-schemas",
                "foreign-tables",
                "read-only",
                "is-replica",
                // MariaDB's performance schema, where its backup locks would stand, is off.
                if is_mariadb(&binary) {
                    "unseen-backup"
                } else {
                    "[\"backup\"]"
                },
            ] {
                refused.says(name);
            }
            refused
                .says("root@localhost in orders")
                .says("orders (1 table)");
            refused.says("customers, sbtest99");
        }
        assert_eq!(variables(&external), before);
        assert_eq!(tables(&external), FOREIGN);

        // What the account may not see is not "nothing there".
        drop(other);
        let process = "REVOKE PROCESS ON *.* FROM bench_admin@localhost, bench_admin@'127.0.0.1'";
        let source = if is_mariadb(&binary) {
            "REVOKE SLAVE MONITOR ON *.* FROM bench_admin@localhost, bench_admin@'127.0.0.1'"
        } else {
            "REVOKE REPLICATION CLIENT ON *.* FROM bench_admin@localhost, bench_admin@'127.0.0.1'"
        };
        sql(&external, &["SET GLOBAL read_only = OFF", process, source]);
        if is_mariadb(&binary) {
            // SUPER sees replicas too.
            sql(
                &external,
                &["REVOKE SUPER ON *.* FROM bench_admin@localhost, bench_admin@'127.0.0.1'"],
            );
        }
        let careful = careful
            .replace("set = { max_connections = 321 }\n", "")
            .replace(
                "\n[[variant]]\nname = \"no flush\"\nset = { innodb_flush_log_at_trx_commit = 2 }",
                "",
            );
        lab.write("plan.toml", &careful);
        let refused = run(&lab, &["check", "plan.toml"]).expect(3);
        let unseen = [
            "unseen-clients",
            "unseen-schemas",
            "unseen-replicas",
            "unseen-source",
            "unseen-backup",
            "unseen-limits",
        ];
        for name in unseen {
            refused.says(name);
        }
        let names = unseen.map(|name| format!("\"{name}\"")).join(", ");
        let brave = careful.replace(
            "max_replica_lag = \"5s\"",
            &format!("max_replica_lag = \"5s\"\nacknowledge = [{names}, \"foreign-tables\"]"),
        );
        lab.write("plan.toml", &brave);
        run(&lab, &["check", "plan.toml"])
            .expect(0)
            .says("unseen-source");
    }
}

#[test]
fn check_prints_what_would_change_and_finds_what_a_run_would_meet() {
    for binary in servers::servers() {
        let external = External::start(&binary);
        let lab = Lab::new();
        let good = plan(&external, LADDER);
        lab.write("plan.toml", &good);
        make_foreign(&external);
        make_accounts(&lab, &external, &binary);
        let before = variables(&external);
        let checked = run(&lab, &["check", "plan.toml"]).expect(0);
        let mut rest = checked.stdout.as_str();
        for line in [
            "CREATE TABLE `bench_db`.capbench_lease",
            "SET GLOBAL max_connections = 321;  -- 151 now; put back by SET GLOBAL max_connections = 151",
            "CREATE TABLE sbtest1",
            "LOAD DATA LOCAL INFILE",
            "SET GLOBAL innodb_flush_log_at_trx_commit = 2;  -- 1 now",
            "SET GLOBAL innodb_max_dirty_pages_pct = 0",
            "INSERT, UPDATE, DELETE;  -- by oltp_read_write",
            "KILL QUERY",
            "SET GLOBAL innodb_flush_log_at_trx_commit = 1",
            "SET GLOBAL max_connections = 151",
            "DROP TABLE `bench_db`.capbench_lease",
        ] {
            let at = rest
                .find(line)
                .unwrap_or_else(|| panic!("no `{line}` in its place:\n{}", checked.stdout));
            rest = &rest[at + line.len()..];
        }
        assert_eq!(variables(&external), before);
        assert_eq!(tables(&external), FOREIGN);

        let finds = |plan: &str, code: i32, texts: &[&str]| {
            lab.write("plan.toml", plan);
            let ended = run(&lab, &["check", "plan.toml"]).expect(code);
            for text in texts {
                ended.says(text);
            }
        };
        let range = good.replace("max_connections = 321", "max_connections = 1_000_000");
        finds(&range, 3, &["does not take `max_connections`", "100000"]);
        lab.write("broken.j2", "# {{ plan.name");
        let template = format!("{good}\n[report]\ntemplate = \"broken.j2\"\n");
        finds(&template, 2, &["broken.j2", "line 1"]);
        let template = format!("{good}\n[report]\ntemplate = \"none.j2\"\n");
        finds(&template, 2, &["none.j2"]);
        lab.write(
            "odd.toml",
            "description = \"x\"\n[[transaction]]\nname = \"odd\"\nbegin = false\n[[transaction.group]]\nrepeat = 1\n\
             [[transaction.group.statement]]\nclass = \"odd\"\nsql = \"SELEKT c FROM sbtest{table} WHERE id=?\"\nparameters = [\"key\"]\n",
        );
        let odd = good.replace("[\"oltp_read_write\"]", "[\"odd.toml\"]");
        finds(&odd, 3, &["SELEKT", "1064"]);
        sql(
            &external,
            &[
                "ALTER USER bench@localhost WITH MAX_USER_CONNECTIONS 1",
                "ALTER USER bench@'127.0.0.1' WITH MAX_USER_CONNECTIONS 1",
                "REVOKE DELETE ON bench_db.* FROM bench@localhost, bench@'127.0.0.1'",
            ],
        );
        finds(
            &good,
            3,
            &[
                "MAX_USER_CONNECTIONS",
                "the plan has up to 8 clients",
                "DELETE command denied",
            ],
        );
        // What would stop the loading half-way, all at once.
        sql(
            &external,
            &[
                "CREATE TABLE bench_db.sbtest1 (id INT PRIMARY KEY) ENGINE = InnoDB",
                "CREATE TABLE orders.refers (id INT, CONSTRAINT to_bench FOREIGN KEY (id) REFERENCES bench_db.sbtest1 (id))",
                "REVOKE INSERT ON bench_db.* FROM bench_admin@localhost, bench_admin@'127.0.0.1'",
                "REVOKE PROCESS ON *.* FROM bench_admin@localhost, bench_admin@'127.0.0.1'",
                "GRANT SELECT, REFERENCES ON orders.* TO bench_admin@localhost, bench_admin@'127.0.0.1'",
            ],
        );
        let before = tables(&external);
        let mut texts = vec![
            "table `sbtest1` in database `bench_db` was not made by capbench",
            "ALTER TABLE `orders`.`refers` DROP FOREIGN KEY `to_bench`",
            "loading rows failed: error 1142",
        ];
        // Of these two, MySQL has its binary log on by default.
        if !is_mariadb(&binary) {
            texts.push(
                "the server writes a binary log, and whether replicas follow it cannot be seen",
            );
        }
        finds(&good, 3, &texts);
        assert_eq!(tables(&external), before);
    }
}

#[test]
fn too_many_running_threads_end_the_ladder_and_keep_what_was_measured() {
    for binary in servers::servers() {
        let lab = Lab::new();
        // Each client is inside the server nearly all of the time.
        lab.write(
            "sleep.toml",
            "description = \"x\"\n[[transaction]]\nname = \"sleep\"\nbegin = false\n[[transaction.group]]\nrepeat = 1\n\
             [[transaction.group.statement]]\nclass = \"sleep\"\nsql = \"SELECT SLEEP(0.7) FROM sbtest{table} WHERE id=?\"\nparameters = [\"key\"]\n",
        );
        let ladder = "workloads = [\"sleep.toml\"]\nthreads = [1, 8, 16]\nmeasure = \"8s\"\n\n[guard]\nmax_threads_running = 6";
        lab.write(
            "plan.toml",
            &private_plan(&binary, ladder).replace("interval = \"200ms\"", "interval = \"1s\""),
        );
        let ended = lab.run(&["plan.toml", "--out", "run"]).expect(4);
        ended.says("guard.max_threads_running");
        let cells = csv_rows(&lab.path("run/cells.csv"));
        let status: Vec<&str> = cells.iter().map(|c| c["status"].as_str()).collect();
        assert_eq!(
            status,
            ["completed", "stopped", "skipped"],
            "{}",
            ended.stderr
        );
        assert!(lab.read("run/report.md").contains("max_threads_running"));
        lab.assert_clean();
    }
}

#[test]
fn what_someone_else_does_to_the_data_makes_the_cell_invalid() {
    for binary in servers::servers() {
        let external = External::start(&binary);
        let lab = Lab::new();
        let ladder = "workloads = [\"oltp_point_select\"]\nthreads = [1, 2, 3]\nmeasure = \"2s\"";
        let quiet = plan(&external, ladder).replace("set = { max_connections = 321 }\n", "");
        lab.write("plan.toml", &quiet);
        make_foreign(&external);
        make_accounts(&lab, &external, &binary);
        let mut running = lab.start(command(&lab, &["plan.toml", "--out", "run"]));
        running.said("[1/3] oltp_point_select 1 thread    0.4s");
        sql(
            &external,
            &["UPDATE bench_db.sbtest1 SET k = k + 1 WHERE id = 1"],
        );
        running.said("[2/3] oltp_point_select 2 threads    0.4s");
        sql(
            &external,
            &["ALTER TABLE bench_db.sbtest2 ADD COLUMN theirs INT"],
        );
        running.wait().expect(4);
        let cells = csv_rows(&lab.path("run/cells.csv"));
        let validity: Vec<&str> = cells.iter().map(|c| c["validity"].as_str()).collect();
        assert_eq!(validity, ["invalid"; 3], "{cells:#?}");
        let report = lab.read("run/report.md");
        for text in [
            "rows were written on the server during a cell that only reads",
            "table sbtest2 was altered during the cell",
            "table sbtest2 is not as the run's first cell found it",
        ] {
            assert!(report.contains(text), "{text}\n{report}");
        }
    }
}

#[test]
fn every_workload_leaves_the_rows_that_it_should() {
    for binary in servers::servers() {
        let lab = Lab::new();
        let ladder = "workloads = [\"oltp_read_only\", \"oltp_read_write\", \"oltp_write_only\", \"oltp_update_index\", \"oltp_insert\", \"oltp_delete\", \"bulk_insert\"]\nthreads = [4]\nmeasure = \"1s\"";
        lab.write("plan.toml", &private_plan(&binary, ladder));
        lab.run(&["plan.toml", "--out", "run"]);
        let record = lab.read("run/run.json");
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        let cells = record["cells"].as_array().unwrap();
        assert_eq!(cells.len(), 7);
        for cell in cells {
            assert_eq!(cell["differences"], serde_json::json!([]), "{cell:#}");
        }
        lab.assert_clean();
    }
}
