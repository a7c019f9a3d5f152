//! The load engine against real servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    missing_docs
)]

mod load_support;
mod support;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use capbench::interrupt::Interrupt;
use capbench::load::{Flow, LoadSpec, Observer, Pace, run};
use capbench::plan::{Address, Arrivals, Protocol, TlsMode};
use capbench::record::{CellStatus, Interval, Latency, Phase};
use capbench::target::Secret;
use capbench::units::Span;
use capbench::workload::{Generator, Program, Statement, Value};
use load_support::cells::{
    Watch, closed, consistent, errors, go, group, key, point_select, program, read_write, spec,
    statement, sum,
};
use load_support::{prepare, start, status};
use support::{Kind, Server, kinds, mysql_5_6};

/// The old end: end-of-rows packets of the old kind, `mysql_native_password` without TLS, both protocols,
/// errors and retries.
#[test]
fn the_oldest_server_carries_the_same_load() {
    if let Some(kind) = mysql_5_6() {
        counts_agree(kind);
        deadlocks_are_tried_again(kind);
    }
}

#[test]
fn the_server_counts_what_the_client_counts() {
    kinds().into_iter().for_each(counts_agree);
}

fn counts_agree(kind: Kind) {
    let server = start(kind, &[]);
    prepare(&server, 2, 1000);
    for protocol in [Protocol::Prepared, Protocol::Text] {
        let names = [
            "Com_select",
            "Com_update",
            "Com_delete",
            "Com_insert",
            "Com_begin",
            "Com_commit",
        ];
        let mut root = server.root();
        let before = names.map(|name| status(&mut root, name));
        let mut spec = spec(&server, read_write(), closed(4));
        spec.options.protocol = protocol;
        let (outcome, watch) = go(&spec);
        consistent(&outcome);
        assert_eq!(
            outcome.status,
            CellStatus::Completed,
            "{:?}",
            outcome.reason
        );
        assert_eq!(watch.connected.load(Ordering::SeqCst), 4);
        assert_eq!(watch.intervals.load(Ordering::SeqCst), 4);
        let after = names.map(|name| status(&mut root, name));
        let count = |class: &str| {
            outcome
                .statements
                .iter()
                .find(|s| s.class == class)
                .map_or(0, |s| s.count)
        };
        // In flight at the end: in no interval, but on the server.
        let done = outcome.totals.done;
        let drained = outcome.totals.drained;
        let retries = sum(&outcome, |i| i.retries);
        assert!(done > 20, "{done}");
        let begun = after[4] - before[4];
        assert_eq!(
            begun,
            outcome.totals.arrivals + retries,
            "{kind:?} {protocol:?}"
        );
        assert_eq!(after[5] - before[5], done + drained);
        if retries == 0 {
            assert_eq!(after[0] - before[0], 14 * (done + drained));
            assert_eq!(after[1] - before[1], 2 * (done + drained));
            assert_eq!(after[2] - before[2], done + drained);
            assert_eq!(after[3] - before[3], done + drained);
        }
        assert!(count("point_select") >= 10 * done);
        assert!(count("commit") >= done);
        assert_eq!(outcome.tls, "none");
    }
}

#[test]
fn a_limit_of_events_is_met_exactly() {
    let server = start(Kind::MariaDb, &[]);
    prepare(&server, 2, 1000);
    let mut spec = spec(&server, point_select(), closed(8));
    spec.measure = Duration::from_secs(60);
    spec.events = Some(1000);
    let (outcome, _) = go(&spec);
    consistent(&outcome);
    assert_eq!(outcome.status, CellStatus::Completed);
    assert_eq!(outcome.totals.done, 1000);
    assert_eq!(sum(&outcome, |i| i.reads), 1000 + sum(&outcome, |_| 0));
    assert!(outcome.seconds < 60.0);

    // An observer ends a cell early.
    spec.events = None;
    let watch = Watch {
        stop_after: Some(1),
        ..Watch::default()
    };
    let outcome = run(&spec, &watch, &Interrupt::new()).unwrap();
    consistent(&outcome);
    assert_eq!(outcome.status, CellStatus::Stopped);
    assert_eq!(outcome.reason.as_deref(), Some("enough"));

    // So does the user.
    let interrupt = Interrupt::new();
    let later = interrupt.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        later.raise();
    });
    let outcome = run(&spec, &Watch::default(), &interrupt).unwrap();
    thread.join().unwrap();
    consistent(&outcome);
    assert_eq!(outcome.status, CellStatus::Interrupted);
    assert!(outcome.totals.done > 0);
}

#[test]
fn open_loop_keeps_its_rate_or_says_what_it_dropped() {
    let server = start(Kind::MariaDb, &[]);
    prepare(&server, 2, 1000);
    let open = |rate, backlog| Pace::Open {
        rate,
        clients: 4,
        arrivals: Arrivals::Even,
        backlog,
    };
    let mut spec = spec(&server, point_select(), open(200.0, 100));
    spec.discard = Duration::from_millis(500);
    let (outcome, _) = go(&spec);
    consistent(&outcome);
    assert_eq!(outcome.status, CellStatus::Completed);
    assert!(
        (499..=500).contains(&outcome.totals.arrivals),
        "{:?}",
        outcome.totals
    );
    // At most what was waiting in the instant in which the discard ended.
    assert!(outcome.totals.dropped <= 4, "{:?}", outcome.totals);

    // 4 clients that sleep 50 ms carry 80 a second.
    spec.program = Arc::new(program(
        "slow",
        false,
        vec![group(
            1,
            vec![],
            vec![statement("sleep", "SELECT SLEEP(0.05)", vec![])],
        )],
    ));
    spec.pace = open(400.0, 20);
    let (outcome, _) = go(&spec);
    consistent(&outcome);
    assert_eq!(outcome.status, CellStatus::Completed);
    assert!(outcome.totals.dropped > 100, "{:?}", outcome.totals);
    assert!(outcome.intervals.iter().any(|i| i.backlog == 20));
    let mut response = Latency::new();
    let mut service = Latency::new();
    for interval in outcome
        .intervals
        .iter()
        .filter(|i| i.phase == Phase::Measure)
    {
        response.merge(&interval.latency);
        service.merge(interval.service.as_ref().unwrap());
    }
    // 20 wait in front of 4: a queue of 5 services.
    assert!(response.quantile(0.9).unwrap().0 > 3.0 * service.quantile(0.5).unwrap().0);
}

/// Updates two rows in random order within a transaction: deadlocks are certain.
fn deadlocks() -> Program {
    let update = || statement("update", "UPDATE sbtest1 SET k=k+1 WHERE id=?", vec![key()]);
    program(
        "deadlocks",
        true,
        vec![group(1, vec![], vec![update(), update(), update()])],
    )
}

#[test]
fn deadlocks_are_rolled_back_and_tried_again() {
    kinds().into_iter().for_each(deadlocks_are_tried_again);
}

fn deadlocks_are_tried_again(kind: Kind) {
    let server = start(kind, &[]);
    prepare(&server, 1, 1000);
    let mut spec = spec(&server, deadlocks(), closed(16));
    spec.tables = 1;
    spec.rows = 6;
    let mut root = server.root();
    let rollbacks = status(&mut root, "Com_rollback");
    let (outcome, _) = go(&spec);
    consistent(&outcome);
    assert_eq!(
        outcome.status,
        CellStatus::Completed,
        "{:?}",
        outcome.reason
    );
    let lost = errors(&outcome, 1213);
    assert!(lost > 0 && outcome.totals.done > 0);
    let retries = sum(&outcome, |i| i.retries);
    assert_eq!(lost, retries + outcome.totals.failed);
    // One more per client may be under way at the end.
    let rollbacks = status(&mut root, "Com_rollback") - rollbacks;
    assert!(
        (lost..=lost + 16).contains(&rollbacks),
        "{rollbacks} {lost}"
    );

    // Every committed transaction has added 3, no other has left anything.
    let total: Option<u64> = mysql::prelude::Queryable::query_first(
        &mut root,
        "SELECT SUM(CAST(k AS SIGNED) - id) FROM bench.sbtest1",
    )
    .unwrap();
    assert_eq!(
        total,
        Some(3 * (outcome.totals.done + outcome.totals.drained))
    );

    spec.options.retries = 0;
    let (outcome, _) = go(&spec);
    consistent(&outcome);
    assert_eq!(errors(&outcome, 1213), outcome.totals.failed);
    assert!(outcome.totals.failed > 0);
    assert_eq!(sum(&outcome, |i| i.retries), 0);
}

#[test]
fn any_other_error_ends_the_cell_with_the_servers_words() {
    let server = start(Kind::MariaDb, &[]);
    prepare(&server, 1, 100);
    for protocol in [Protocol::Prepared, Protocol::Text] {
        let mut spec = spec(&server, point_select(), closed(4));
        spec.options.protocol = protocol;
        // The second table is missing.
        let (outcome, _) = go(&spec);
        consistent(&outcome);
        assert_eq!(outcome.status, CellStatus::Failed);
        let reason = outcome.reason.unwrap();
        for part in ["1146", "bench.sbtest2", "point_select", "hint:"] {
            assert!(reason.contains(part), "{reason}");
        }
        assert!(outcome.seconds < 2.0);
    }
}

#[test]
fn what_prevents_the_start_is_said_with_a_way_out() {
    let server = start(Kind::MariaDb, &["--max-connections=10"]);
    prepare(&server, 2, 100);
    let fail = |change: &dyn Fn(&mut LoadSpec)| {
        let mut spec = spec(&server, point_select(), closed(4));
        change(&mut spec);
        run(&spec, &Watch::default(), &Interrupt::new())
            .unwrap_err()
            .to_string()
    };
    let wrong = fail(&|s| s.endpoint.password = Secret::new("no".into()));
    assert!(
        wrong.contains("1045") && wrong.contains("hint:") && !wrong.contains("\"no\""),
        "{wrong}"
    );
    let full = fail(&|s| s.pace = closed(40));
    assert!(
        full.contains("1040") && full.contains("max_connections"),
        "{full}"
    );
    let database = fail(&|s| s.endpoint.database = Some("nowhere".into()));
    assert!(
        database.contains("1049") || database.contains("1044"),
        "{database}"
    );
    let nobody = fail(&|s| {
        s.endpoint.address = Address::Tcp {
            host: "127.0.0.1".into(),
            port: 1,
        };
    });
    assert!(
        nobody.contains("refused") && nobody.contains("is the server running"),
        "{nobody}"
    );
    let tls = fail(&|s| s.endpoint.tls.mode = TlsMode::Required);
    assert!(tls.contains("does not offer TLS"), "{tls}");
    let files = fail(&|s| s.pace = closed(30_000_000));
    assert!(
        files.contains("open files") && files.contains("30000064"),
        "{files}"
    );
    let socket = fail(&|s| s.endpoint.address = Address::Socket("/nowhere/s".into()));
    assert!(socket.contains("no such socket"), "{socket}");
    // A server that accepts and says nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = fail(&|s| {
        s.endpoint.address = Address::Tcp {
            host: "127.0.0.1".into(),
            port: listener.local_addr().unwrap().port(),
        };
        s.options.connect_timeout = Span(Duration::from_millis(300));
    });
    assert!(silent.contains("0 of 4 clients"), "{silent}");
}

#[test]
fn a_server_that_crashes_and_comes_back_is_an_outage() {
    for kind in kinds() {
        let mut server = start(kind, &[]);
        prepare(&server, 2, 1000);
        let mut spec = spec(&server, read_write(), closed(8));
        spec.measure = Duration::from_secs(20);
        spec.interval = Duration::from_secs(1);
        spec.options.drain_timeout = Span(Duration::from_secs(1));
        let thread = std::thread::spawn(move || go(&spec).0);
        std::thread::sleep(Duration::from_secs(3));
        server.kill();
        std::thread::sleep(Duration::from_secs(1));
        server.restart();
        let outcome = thread.join().unwrap();
        consistent(&outcome);
        assert_eq!(
            outcome.status,
            CellStatus::Completed,
            "{:?}",
            outcome.reason
        );
        assert_eq!(sum(&outcome, |i| i.reconnects), 8);
        assert!(
            outcome.totals.failed >= 1 && outcome.totals.failed <= 8 * 2,
            "{:?}",
            outcome.totals
        );
        assert!(outcome.outage_seconds >= 1.0 && outcome.outage_seconds < 19.0);
        assert!(outcome.recovery_seconds.unwrap() >= 1.0);
        assert!(errors(&outcome, 0) + errors(&outcome, 1053) >= 8);
        let last = outcome.intervals.last().unwrap();
        assert!(last.done > 0, "it goes on after the outage");
        assert!((last.connected_seconds / last.seconds() - 8.0).abs() < 0.01);
        assert!(
            outcome
                .intervals
                .iter()
                .any(|i| i.connected_seconds < 7.9 * i.seconds())
        );
    }
}

#[test]
fn a_cell_ends_on_time_when_the_server_hangs() {
    let server = start(Kind::MariaDb, &[]);
    prepare(&server, 2, 1000);
    let mut spec = spec(&server, point_select(), closed(8));
    spec.options.drain_timeout = Span(Duration::from_millis(500));
    let (outcome, watch) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| go(&spec));
        std::thread::sleep(Duration::from_secs(1));
        server.signal(rustix::process::Signal::STOP);
        let result = thread.join().unwrap();
        server.signal(rustix::process::Signal::CONT);
        result
    });
    consistent(&outcome);
    assert_eq!(outcome.status, CellStatus::Truncated);
    assert_eq!(outcome.totals.given_up, 8);
    assert_eq!(watch.killed.lock().unwrap().len(), 8);
    assert!((outcome.seconds - 2.0).abs() < 0.05, "{}", outcome.seconds);
    assert!(outcome.reason.unwrap().contains("8 transactions"));
    assert_eq!(outcome.intervals.last().unwrap().done, 0);
    assert!(
        outcome
            .intervals
            .last()
            .unwrap()
            .latency
            .quantile(0.5)
            .is_none()
    );
}

#[test]
fn a_statement_that_outlives_the_drain_is_killed_on_the_server() {
    struct Killer<'a>(&'a Server, Mutex<Vec<u64>>);
    impl Observer for Killer<'_> {
        fn connected(&self, _: u32) {}
        fn released(&self) {}
        fn interval(&self, _: &Interval) -> Flow {
            Flow::Continue
        }
        fn kill(&self, connection_ids: &[u64]) {
            let mut root = self.0.root();
            for id in connection_ids {
                mysql::prelude::Queryable::query_drop(&mut root, format!("KILL QUERY {id}"))
                    .unwrap();
            }
            self.1.lock().unwrap().extend(connection_ids);
        }
    }
    for kind in kinds() {
        let server = start(kind, &[]);
        let long = program(
            "long",
            false,
            vec![group(
                1,
                vec![],
                vec![statement("sleep", "SELECT SLEEP(60)", vec![])],
            )],
        );
        let mut spec = spec(&server, long, closed(3));
        spec.options.drain_timeout = Span(Duration::ZERO);
        let killer = Killer(&server, Mutex::default());
        let outcome = run(&spec, &killer, &Interrupt::new()).unwrap();
        assert!(outcome.totals.balance());
        assert_eq!(outcome.status, CellStatus::Truncated);
        assert_eq!(killer.1.lock().unwrap().len(), 3);
        assert!(
            outcome
                .intervals
                .iter()
                .all(|i| i.done == 0 && i.errors.is_empty())
        );
        let running: Option<u64> = mysql::prelude::Queryable::query_first(
            &mut server.root(),
            "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'",
        )
        .unwrap();
        assert_eq!(running, Some(0));
    }
}

#[test]
fn prepared_statements_stay_within_their_bound() {
    for kind in kinds() {
        let server = start(kind, &["--max-prepared-stmt-count=40"]);
        prepare(&server, 16, 100);
        let mut spec = spec(&server, point_select(), closed(4));
        spec.tables = 16;
        spec.rows = 100;
        let (outcome, _) = go(&spec);
        assert_eq!(outcome.status, CellStatus::Failed);
        let reason = outcome.reason.unwrap();
        assert!(
            reason.contains("1461") && reason.contains("max_prepared_per_connection"),
            "{reason}"
        );
        spec.options.max_prepared_per_connection = 9;
        let (outcome, _) = go(&spec);
        consistent(&outcome);
        assert_eq!(
            outcome.status,
            CellStatus::Completed,
            "{:?}",
            outcome.reason
        );
        assert!(outcome.totals.done > 100);
    }
}

/// Whether the server could load its plugin for ed25519; only a plugin that is not there is no failure.
fn has_ed25519(server: &Server) -> bool {
    let load = "INSTALL SONAME 'auth_ed25519'";
    match mysql::prelude::Queryable::query_drop(&mut server.root(), load) {
        Ok(()) => true,
        Err(mysql::Error::MySqlError(error)) if error.code == 1126 => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_way_of_logging_in() {
    for kind in kinds() {
        let server = start(kind, &[]);
        prepare(&server, 2, 100);
        let mut root = server.root();
        let mut exec = |sql: &str| mysql::prelude::Queryable::query_drop(&mut root, sql).unwrap();
        let mut accounts = vec![("bench", "secret")];
        match kind {
            Kind::MariaDb => {
                exec("CREATE USER blank@'%'");
                exec("GRANT ALL ON bench.* TO blank@'%'");
                accounts.push(("blank", ""));
                // Debian's core package of the server comes without it.
                if has_ed25519(&server) {
                    exec("CREATE USER ed@'%' IDENTIFIED VIA ed25519 USING PASSWORD('curve')");
                    exec("GRANT ALL ON bench.* TO ed@'%'");
                    accounts.push(("ed", "curve"));
                } else {
                    eprintln!("skipped: ed25519, this MariaDB has no auth_ed25519 plugin");
                }
            }
            Kind::MySql | Kind::MySql56 => {
                exec("CREATE USER blank@'%' IDENTIFIED BY ''");
                exec("GRANT ALL ON bench.* TO blank@'%'");
                accounts.push(("blank", ""));
            }
        }
        for (user, password) in accounts {
            // By TCP without the server's cache (RSA), then with it; by socket; encrypted.
            exec("FLUSH PRIVILEGES");
            for round in 0..4 {
                let mut spec = spec(&server, point_select(), closed(3));
                spec.rows = 100;
                spec.measure = Duration::from_millis(200);
                spec.endpoint.user = user.into();
                spec.endpoint.password = Secret::new(password.into());
                let encrypted = kind == Kind::MySql && round >= 2;
                match round {
                    2 => spec.endpoint.tls.mode = TlsMode::Preferred,
                    3 => {
                        exec("FLUSH PRIVILEGES");
                        spec.endpoint.address = Address::Socket(server.socket());
                        if encrypted {
                            spec.endpoint.tls.mode = TlsMode::VerifyCa;
                            spec.endpoint.tls.ca = Some(server.folder.path().join("data/ca.pem"));
                        }
                    }
                    _ => {}
                }
                let (outcome, _) = go(&spec);
                assert_eq!(
                    outcome.status,
                    CellStatus::Completed,
                    "{:?}",
                    outcome.reason
                );
                assert!(outcome.totals.done > 0, "{kind:?} {user} {round}");
                assert_eq!(outcome.tls != "none", encrypted, "{}", outcome.tls);
            }
        }
        if kind == Kind::MySql {
            // The certificates that MySQL makes for itself name no host.
            let mut spec = spec(&server, point_select(), closed(1));
            spec.endpoint.tls.mode = TlsMode::VerifyIdentity;
            spec.endpoint.tls.ca = Some(server.folder.path().join("data/ca.pem"));
            let error = run(&spec, &Watch::default(), &Interrupt::new()).unwrap_err();
            assert!(error.to_string().contains("certificate"), "{error}");
        }
    }
}

#[test]
fn the_same_seed_asks_the_same_whatever_the_workers() {
    let server = start(Kind::MariaDb, &[]);
    let mut root = server.root();
    let mut exec = |sql: &str| mysql::prelude::Queryable::query_drop(&mut root, sql).unwrap();
    exec("CREATE TABLE bench.asked (client INT, draw BIGINT)");
    let insert = Statement {
        text_only: true,
        ..statement(
            "ask",
            "INSERT INTO asked VALUES (CONNECTION_ID(), ?)",
            vec![key()],
        )
    };
    let mut asked = Vec::new();
    for workers in [1, 3] {
        let mut spec = spec(
            &server,
            program("ask", false, vec![group(1, vec![], vec![insert.clone()])]),
            closed(3),
        );
        spec.options.workers = workers;
        spec.rows = 1_000_000;
        let (outcome, _) = go(&spec);
        assert_eq!(
            outcome.status,
            CellStatus::Completed,
            "{:?}",
            outcome.reason
        );
        assert_eq!(outcome.per_client.len(), 3);
        let rows: Vec<(i64, i64)> =
            mysql::prelude::Queryable::query(&mut root, "SELECT client, draw FROM bench.asked")
                .unwrap();
        let mut streams = std::collections::BTreeMap::<i64, Vec<i64>>::new();
        for (client, draw) in rows {
            streams.entry(client).or_default().push(draw);
        }
        let mut first: Vec<Vec<i64>> = streams
            .into_values()
            .map(|stream| stream[..20].to_vec())
            .collect();
        first.sort();
        asked.push(first);
        mysql::prelude::Queryable::query_drop(&mut root, "TRUNCATE bench.asked").unwrap();
    }
    assert_eq!(asked[0], asked[1]);
    assert_eq!(asked[0].len(), 3);
}

/// Passes bytes on in small pieces, and cuts each connection after a while.
fn bad_link(port: u16, stop: &Arc<std::sync::atomic::AtomicBool>) -> u16 {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let stop = Arc::clone(stop);
    let pass = |mut from: TcpStream, mut to: TcpStream, limit: usize| {
        let mut buffer = [0; 4096];
        let mut passed = 0;
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            for (number, piece) in buffer[..len].chunks(1 + passed % 613).enumerate() {
                passed += piece.len() + number;
                if passed > limit || to.write_all(piece).is_err() {
                    let _ = from.shutdown(Shutdown::Both);
                    let _ = to.shutdown(Shutdown::Both);
                    return;
                }
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    };
    std::thread::spawn(move || {
        let mut limit = 60_000;
        while !stop.load(Ordering::SeqCst) {
            let Ok((client, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            limit += 7_001;
            client.set_nonblocking(false).unwrap();
            client.set_nodelay(true).unwrap();
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            server.set_nodelay(true).unwrap();
            let (client_too, server_too) =
                (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || pass(client, server, usize::MAX));
            std::thread::spawn(move || pass(server_too, client_too, limit));
        }
    });
    address.port()
}

#[test]
fn a_link_that_splits_and_cuts_loses_no_count() {
    for kind in kinds() {
        let server = start(kind, &[]);
        prepare(&server, 2, 1000);
        for tls in [TlsMode::Disabled, TlsMode::Preferred] {
            let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
            let mut spec = spec(&server, read_write(), closed(6));
            spec.endpoint.tls.mode = tls;
            spec.endpoint.address = Address::Tcp {
                host: "127.0.0.1".into(),
                port: bad_link(server.port, &stop),
            };
            spec.measure = Duration::from_secs(4);
            let (outcome, _) = go(&spec);
            stop.store(true, Ordering::SeqCst);
            consistent(&outcome);
            assert_eq!(
                outcome.status,
                CellStatus::Completed,
                "{:?}",
                outcome.reason
            );
            let reconnects = sum(&outcome, |i| i.reconnects);
            assert!(
                reconnects > 5 && outcome.totals.done > 5,
                "{reconnects} {:?}",
                outcome.totals
            );
            assert!(errors(&outcome, 0) >= reconnects);
            assert!(outcome.outage_seconds > 0.0 && outcome.recovery_seconds.is_some());
        }
    }
}

#[test]
fn thinking_is_not_latency() {
    let server = start(Kind::MariaDb, &[]);
    prepare(&server, 2, 1000);
    let mut program = point_select();
    program.think_time_ms = 50.0;
    let spec = spec(&server, program, closed(10));
    let (outcome, _) = go(&spec);
    consistent(&outcome);
    // 10 clients at 50 ms and a fast answer: at most 200 a second, and not far below.
    assert!(
        (200..=410).contains(&outcome.totals.done),
        "{:?}",
        outcome.totals
    );
    let mut latency = Latency::new();
    outcome
        .intervals
        .iter()
        .for_each(|i| latency.merge(&i.latency));
    assert!(latency.quantile(0.5).unwrap().0 < 50.0);
}

#[test]
fn another_attempt_has_the_same_parameters() {
    let server = start(Kind::MariaDb, &[]);
    prepare(&server, 1, 1000);
    let mut root = server.root();
    // Not transactional: what a lost attempt wrote stays.
    mysql::prelude::Queryable::query_drop(
        &mut root,
        "CREATE TABLE bench.attempts (drawn BIGINT, fresh BIGINT) ENGINE=MyISAM",
    )
    .unwrap();
    let fresh = || {
        Value::Draw(Generator::Integer {
            min: 0,
            max: i64::MAX,
        })
    };
    let mut noted = deadlocks();
    noted.transactions[0].groups.insert(
        0,
        group(
            1,
            vec![Generator::Integer {
                min: 0,
                max: i64::MAX,
            }],
            vec![statement(
                "note",
                "INSERT INTO attempts VALUES (?,?)",
                vec![Value::Bound { bind: 0, plus: 0 }, fresh()],
            )],
        ),
    );
    let mut spec = spec(&server, noted, closed(16));
    spec.tables = 1;
    spec.rows = 6;
    let (outcome, _) = go(&spec);
    assert_eq!(
        outcome.status,
        CellStatus::Completed,
        "{:?}",
        outcome.reason
    );
    let retries = sum(&outcome, |i| i.retries);
    assert!(retries > 0);
    let row: Option<(u64, u64, u64)> = mysql::prelude::Queryable::query_first(
        &mut root,
        "SELECT COUNT(*), COUNT(DISTINCT drawn), COUNT(DISTINCT fresh) FROM bench.attempts",
    )
    .unwrap();
    let (attempts, drawn, fresh) = row.unwrap();
    // One that was rolling back at the end has not tried again.
    let most = outcome.totals.arrivals + retries;
    assert!(
        (most - outcome.totals.given_up..=most).contains(&attempts),
        "{attempts} {most}"
    );
    assert_eq!(
        (drawn, fresh),
        (outcome.totals.arrivals, outcome.totals.arrivals)
    );
}
