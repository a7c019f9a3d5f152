//! The server probe and its recorder against real servers: private ones in a folder of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]

mod support;

use std::time::{Duration, Instant};

use capbench::probe::counters::COUNTERS;
use capbench::probe::names::server as n;
use capbench::probe::{Recorder, host, server};
use capbench::record::Flavour;
use mysql::prelude::Queryable;
use rustix::process::Signal;
use support::{Kind, Server, kinds};

/// Every counter of the table is there, or listed with a reason; figures follow what is done.
fn counters_of(server: &Server, flavour: Flavour, absent: &[&str]) {
    let mut probe = server::Probe::new(server.root(), flavour);
    let before = probe.sample().unwrap();
    let missing: Vec<&str> = COUNTERS
        .iter()
        .filter(|c| !c.optional && !before.values.contains_key(c.name))
        .map(|c| c.name)
        .collect();
    assert_eq!(missing, absent, "{:?}", probe.unavailable());
    assert_eq!(probe.unavailable().len(), absent.len());
    let mut conn = server.root();
    conn.query_drop("CREATE DATABASE d").unwrap();
    conn.query_drop("CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=InnoDB")
        .unwrap();
    for id in 0..50 {
        conn.query_drop(format!("INSERT INTO d.t VALUES ({id})"))
            .unwrap();
    }
    let after = probe.sample().unwrap();
    let growth = |name: &str| after.values[name] - before.values[name];
    assert_eq!(growth(n::COM_INSERT), 50.0);
    assert!(growth(n::QUESTIONS) >= 52.0);
    assert!(growth(n::LOG_WRITTEN) > 0.0);
    assert!(after.values[n::CHECKPOINT_CAPACITY] > 1e6);
    assert!(after.values[n::CHECKPOINT_AGE] <= after.values[n::CHECKPOINT_CAPACITY]);
    assert!(after.values[n::THREADS_RUNNING] >= 1.0);
    // A deadlock counter that counts: two sessions in opposite order.
    deadlock(server);
    let last = probe.sample().unwrap();
    assert_eq!(last.values[n::DEADLOCKS] - after.values[n::DEADLOCKS], 1.0);
    assert!(last.values[n::ROW_LOCK_WAITS] > after.values[n::ROW_LOCK_WAITS]);
}

fn deadlock(server: &Server) {
    let (mut a, mut b) = (server.root(), server.root());
    let update = |id: u32| format!("UPDATE d.t SET id = id WHERE id = {id} AND 1 = 1");
    let lock = |id: u32| format!("SELECT * FROM d.t WHERE id = {id} FOR UPDATE");
    a.query_drop("BEGIN").unwrap();
    b.query_drop("BEGIN").unwrap();
    a.query_drop(lock(1)).unwrap();
    b.query_drop(lock(2)).unwrap();
    let waiting = std::thread::spawn(move || {
        let result = a.query_drop(lock(2));
        let _ = a.query_drop("ROLLBACK");
        result.is_err()
    });
    std::thread::sleep(Duration::from_millis(300));
    let lost = b.query_drop(update(1)).is_err();
    let _ = b.query_drop("ROLLBACK");
    assert!(waiting.join().unwrap() != lost, "exactly one of them loses");
}

/// The recorder's samples stand before and after the release; a server that stops answering does not
/// hold up the end.
fn recording_of(server: &Server, flavour: Flavour) {
    let start = |interval| {
        Recorder::start(
            Some(Box::new(server::Probe::new(server.root(), flavour))),
            Some(Box::new(host::Probe::new(Some(server.id())))),
            interval,
        )
    };
    let mut recorder = start(Duration::from_millis(50));
    std::thread::sleep(Duration::from_millis(200));
    recorder.released(Instant::now());
    std::thread::sleep(Duration::from_millis(300));
    let recording = recorder.finish();
    assert!(recording.server.len() >= 3, "{}", recording.server.len());
    assert!(recording.server[0].at < 0.0);
    assert!(recording.server.last().unwrap().at > 0.0);
    assert!(recording.host.len() >= 3);

    let mut recorder = start(Duration::from_millis(50));
    std::thread::sleep(Duration::from_millis(200));
    recorder.released(Instant::now());
    server.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(200));
    let recording = recorder.finish();
    server.signal(Signal::CONT);
    assert!(!recording.server.is_empty(), "what came before is kept");
    assert!(
        recording
            .unavailable
            .iter()
            .any(|u| u.contains("no answer at the end of a cell")),
        "{:?}",
        recording.unavailable
    );
}

#[test]
fn mariadb_is_probed() {
    let server = start(Kind::MariaDb);
    counters_of(&server, Flavour::MariaDb, &[n::LOG_FSYNCS]);
    recording_of(&server, Flavour::MariaDb);
}

#[test]
fn mysql_is_probed() {
    // Says so when there is none.
    if !kinds().contains(&Kind::MySql) {
        return;
    }
    let server = start(Kind::MySql);
    counters_of(&server, Flavour::MySql, &[]);
    recording_of(&server, Flavour::MySql);
}

fn start(kind: Kind) -> Server {
    Server::start(
        kind,
        &["--skip-networking", "--innodb-buffer-pool-size=64M"],
    )
}
