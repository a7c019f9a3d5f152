//! What is looked at beside the load, on real servers: plans, digests, the probe's own statements, its cost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]

mod support;

use capbench::probe::names::server as n;
use capbench::probe::{digests, explain, server};
use capbench::record::{Flavour, StatementPlan};
use capbench::workload;
use mysql::prelude::Queryable;
use support::{Kind, Server, kinds};

fn flavour(kind: Kind) -> Flavour {
    match kind {
        Kind::MariaDb => Flavour::MariaDb,
        _ => Flavour::MySql,
    }
}

fn start(kind: Kind, more: &[&str]) -> Server {
    let mut options = vec!["--skip-networking", "--innodb-buffer-pool-size=64M"];
    options.extend(more);
    Server::start(kind, &options)
}

/// A table of the workloads with 1,000 rows.
fn table(conn: &mut mysql::Conn) {
    for sql in [
        "CREATE DATABASE d",
        "USE d",
        "CREATE TABLE sbtest1 (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', KEY k_1 (k))",
        "INSERT INTO sbtest1 (k, c, pad) VALUES (1, 'c', 'p'), (2, 'c', 'p'), (3, 'c', 'p'), (4, 'c', 'p')",
    ] {
        conn.query_drop(sql).unwrap();
    }
    // Without gaps.
    for i in 0..8 {
        let rows = 4 << i;
        conn.query_drop(format!(
            "INSERT INTO sbtest1 (id, k, c, pad) SELECT id + {rows}, k + id, c, pad FROM sbtest1"
        ))
        .unwrap();
    }
    conn.query_drop("ANALYZE TABLE sbtest1").unwrap();
}

#[test]
fn each_statement_of_a_workload_has_its_plan_or_says_why_not() {
    for kind in kinds() {
        let server = start(kind, &[]);
        let mut conn = server.root();
        table(&mut conn);
        let program = workload::load(
            "oltp_read_write",
            std::path::Path::new("."),
            &workload::WorkloadOptions::new(),
        )
        .unwrap();
        let plans = explain::explain(&mut conn, &program, 1000).unwrap();
        let of = |class: &str| -> &StatementPlan {
            plans.iter().find(|p| p.class == class).expect(class)
        };
        assert_eq!(plans.len(), 9);
        let point = &of("point_select").steps[0];
        assert_eq!(
            (
                point.table.as_str(),
                point.access.as_str(),
                point.key.as_deref()
            ),
            ("sbtest1", "const", Some("PRIMARY"))
        );
        let range = &of("simple_range").steps[0];
        assert_eq!(
            (range.access.as_str(), range.key.as_deref()),
            ("range", Some("PRIMARY"))
        );
        assert!(
            range.rows.is_some_and(|rows| (50.0..200.0).contains(&rows)),
            "{range:?}"
        );
        assert!(of("order_range").steps[0].extra.contains("filesort"));
        assert!(
            of("index_update").steps[0].key.is_some(),
            "{:?}",
            of("index_update")
        );
        assert!(of("insert").none.is_some() && of("insert").steps.is_empty());
        assert_eq!(
            conn.query_first::<u64, _>("SELECT SUM(k = k) FROM sbtest1")
                .unwrap(),
            Some(1024),
            "nothing was executed"
        );

        // Without its index a statement has another plan; without its table it has none.
        conn.query_drop("ALTER TABLE sbtest1 MODIFY id INT NOT NULL, DROP PRIMARY KEY")
            .unwrap();
        let after = explain::explain(&mut conn, &program, 1000).unwrap();
        let point = after.iter().find(|p| p.class == "point_select").unwrap();
        assert_eq!(
            (point.steps[0].access.as_str(), &point.steps[0].key),
            ("ALL", &None)
        );
        conn.query_drop("DROP TABLE sbtest1").unwrap();
        let gone = explain::explain(&mut conn, &program, 1000).unwrap();
        assert!(
            gone.iter()
                .all(|p| p.none.as_ref().is_some_and(|why| why.contains("1146")))
        );
    }
}

#[test]
fn digests_are_what_came_between_two_looks() {
    for kind in kinds() {
        let server = start(kind, &["--performance-schema=ON"]);
        let mut conn = server.root();
        table(&mut conn);
        let mut admin = server.root();
        let before = digests::look(&mut admin, "d").unwrap();
        for id in 1..=30 {
            let sql = format!("SELECT c FROM sbtest1 WHERE pad = 'p' AND id > {id} LIMIT 2");
            conn.query_drop(sql).unwrap();
        }
        // A statement is counted a moment after it was answered.
        let (after, select) = (0..100)
            .find_map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                let after = digests::look(&mut admin, "d").unwrap();
                let found = digests::between(&before, &after);
                let select = found.into_iter().find(|d| d.text.starts_with("SELECT"))?;
                (select.count >= 30.0).then_some((after, select))
            })
            .expect("all are counted");
        assert_eq!((select.count, select.rows_sent), (30.0, 60.0));
        assert!(select.seconds > 0.0 && select.rows_examined >= 60.0);
        assert!(select.text.contains('?') && !select.text.contains("'p'"));
        assert!(digests::between(&after, &after).is_empty());

        let off = start(kind, &["--performance-schema=OFF"]);
        assert_eq!(
            digests::look(&mut off.root(), "d").unwrap_err(),
            "statement digests: performance_schema is off"
        );
    }
}

#[test]
fn the_probe_counts_its_own_statements() {
    for kind in kinds() {
        let server = start(kind, &[]);
        let mut probe = server::Probe::new(server.root(), flavour(kind));
        probe.sample().unwrap();
        let a = probe.sample().unwrap();
        let b = probe.sample().unwrap();
        let growth = |name: &str| b.values[name] - a.values[name];
        assert!(growth(n::PROBE_STATEMENTS) >= 2.0);
        assert_eq!(
            growth(n::QUESTIONS),
            growth(n::PROBE_STATEMENTS),
            "{kind:?}"
        );
        assert_eq!(b.values[n::THREADS_COMMITTING], 0.0);
    }
}

/// Prints what one reading costs: `cargo test --test analysis_evidence cost -- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
#[allow(clippy::print_stdout, reason = "its result")]
fn cost_of_a_reading() {
    const READINGS: u32 = 300;
    let cpu = |pid: i32| {
        let stat = procfs::process::Process::new(pid).unwrap().stat().unwrap();
        (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64
    };
    for kind in kinds() {
        for clients in [0, 64, 512] {
            let server = start(kind, &["--max-connections=1000", "--skip-log-bin"]);
            let idle: Vec<mysql::Conn> = (0..clients).map(|_| server.root()).collect();
            let mut probe = server::Probe::new(server.root(), flavour(kind));
            probe.sample().unwrap();
            let (own, its) = (
                i32::try_from(std::process::id()).unwrap(),
                i32::try_from(server.id()).unwrap(),
            );
            let from = (cpu(own), cpu(its), std::time::Instant::now());
            for _ in 0..READINGS {
                probe.sample().unwrap();
            }
            let per = |seconds: f64| seconds * 1e3 / f64::from(READINGS);
            println!(
                "{kind:?}, {clients} connections: {:.2} ms of the server's CPU, {:.2} ms of capbench's (this build), {:.2} ms in all",
                per(cpu(its) - from.1),
                per(cpu(own) - from.0),
                per(from.2.elapsed().as_secs_f64()),
            );
            drop(idle);
        }
    }
}
