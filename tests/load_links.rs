//! The load engine behind links that are slow, cut or broken, and under a hand that kills its queries.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod load_support;
mod support;

use std::time::{Duration, Instant};

use capbench::load::{LoadOutcome, Pace};
use capbench::plan::{Address, Arrivals, Protocol};
use capbench::record::{CellStatus, Latency};
use capbench::units::Span;
use load_support::cells::{
    closed, consistent, errors, go, group, key, point_select, program, read_write, spec, statement,
    sum,
};
use load_support::proxy::{Fault, Proxy};
use load_support::{prepare, start};
use mysql::prelude::Queryable;
use support::{Server, kinds};

/// How far a percentile may be from the link's own, as a share: the link holds answers back for a time that
/// is long against the noise of a machine with other work.
const TOLERANCE: f64 = 0.05;
/// The tail also holds what the machine makes threads of the link and of the client wait before they run.
const TAIL: f64 = 0.20;

fn tolerance(quantile: f64) -> f64 {
    if quantile > 0.9 { TAIL } else { TOLERANCE }
}

fn through(proxy: &Proxy) -> Address {
    Address::Tcp {
        host: "127.0.0.1".into(),
        port: proxy.port,
    }
}

fn agree(what: &str, ours: &Latency, link: &[Duration]) {
    assert!(ours.count() > 300 && link.len() >= 300, "{what}");
    for quantile in [0.5, 0.9, 0.95, 0.99] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let rank = (quantile * link.len() as f64).ceil() as usize;
        let theirs = link[rank.clamp(1, link.len()) - 1].as_secs_f64() * 1e3;
        let ours = ours.quantile(quantile).unwrap().0;
        assert!(
            (ours / theirs - 1.0).abs() < tolerance(quantile),
            "{what}, {quantile}: {ours} ms measured, {theirs} ms on the link"
        );
    }
}

#[test]
fn percentiles_are_those_of_the_link() {
    for kind in kinds() {
        let server = start(kind, &[]);
        prepare(&server, 2, 1000);
        for open in [false, true] {
            let proxy = Proxy::start(
                server.port,
                Fault::Delay(Duration::from_millis(200), Duration::from_secs(1)),
            );
            let pace = if open {
                Pace::Open {
                    rate: 110.0,
                    clients: 120,
                    arrivals: Arrivals::Poisson,
                    backlog: 1000,
                }
            } else {
                closed(80)
            };
            let mut spec = spec(&server, point_select(), pace);
            spec.tables = 1;
            spec.endpoint.address = through(&proxy);
            spec.measure = Duration::from_secs(7);
            let (outcome, _) = go(&spec);
            consistent(&outcome);
            assert_eq!(
                outcome.status,
                CellStatus::Completed,
                "{:?}",
                outcome.reason
            );
            // Of the statement: preparing it is a request of its own, within the first transaction's time.
            let statement = outcome
                .statements
                .iter()
                .find(|s| s.class == "point_select");
            let statement = statement.unwrap();
            // The same transactions: those that were answered within the cell.
            let end = outcome.started_at.unwrap() + Duration::from_secs_f64(outcome.seconds);
            let end = Instant::now().checked_sub(end.elapsed().unwrap());
            let times = proxy.times(end.unwrap());
            let link = |quantile: f64| {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let rank = (quantile * times.len() as f64).ceil() as usize;
                times[rank - 1].as_secs_f64() * 1e3
            };
            for (ours, theirs) in [
                (statement.p95.unwrap().0, link(0.95)),
                (statement.p99.unwrap().0, link(0.99)),
            ] {
                assert!((ours / theirs - 1.0).abs() < TAIL, "{ours} {theirs} ms");
            }
            // Of the transaction, where it is one statement.
            let mut service = Latency::new();
            for interval in &outcome.intervals {
                service.merge(interval.service.as_ref().unwrap_or(&interval.latency));
            }
            agree(if open { "open" } else { "closed" }, &service, &times);
        }
    }
}

/// A cell of six clients over a link with `fault`.
fn over(server: &Server, fault: Fault, protocol: Protocol) -> LoadOutcome {
    let proxy = Proxy::start(server.port, fault);
    let mut spec = spec(server, read_write(), closed(6));
    spec.endpoint.address = through(&proxy);
    spec.options.protocol = protocol;
    spec.measure = Duration::from_secs(4);
    spec.options.drain_timeout = Span(Duration::from_secs(10));
    let (outcome, _) = go(&spec);
    consistent(&outcome);
    assert_eq!(
        outcome.status,
        CellStatus::Completed,
        "{fault:?}: {:?}",
        outcome.reason
    );
    outcome
}

#[test]
fn a_link_that_chops_or_stalls_costs_time_and_nothing_else() {
    for kind in kinds() {
        let server = start(kind, &[]);
        prepare(&server, 2, 1000);
        for fault in [
            Fault::Bytes,
            Fault::Stall(20_000, Duration::from_millis(1500)),
        ] {
            for protocol in [Protocol::Prepared, Protocol::Text] {
                let outcome = over(&server, fault, protocol);
                assert!(outcome.totals.done > 0, "{fault:?}");
                assert_eq!(sum(&outcome, |i| i.reconnects), 0, "{fault:?}");
                assert_eq!(errors(&outcome, 0), 0, "{fault:?}");
                if let Fault::Stall(_, pause) = fault {
                    let longest = outcome
                        .intervals
                        .iter()
                        .filter_map(|i| i.latency.max_nanos());
                    assert!(longest.max().unwrap() >= u64::try_from(pause.as_nanos()).unwrap());
                }
            }
        }
    }
}

#[test]
fn a_link_that_resets_or_half_closes_is_an_outage() {
    for kind in kinds() {
        let server = start(kind, &[]);
        prepare(&server, 2, 1000);
        for fault in [Fault::Reset(60_000), Fault::HalfClose(60_000)] {
            let outcome = over(&server, fault, Protocol::Prepared);
            let reconnects = sum(&outcome, |i| i.reconnects);
            assert!(
                reconnects > 0 && outcome.totals.done > 0,
                "{fault:?} {:?}",
                outcome.totals
            );
            assert!(outcome.totals.failed > 0, "{fault:?}");
            assert!(errors(&outcome, 0) >= reconnects, "{fault:?}");
            assert!(outcome.outage_seconds > 0.0 && outcome.recovery_seconds.is_some());
        }
    }
}

/// A DBA's KILL QUERY ends a statement, KILL a connection: transactions have failed, the cell has not.
#[test]
fn what_someone_kills_is_a_failed_transaction() {
    for kind in kinds() {
        let server = start(kind, &[]);
        prepare(&server, 1, 1000);
        let add = |class| statement(class, "UPDATE sbtest1 SET k=k+1 WHERE id=?", vec![key()]);
        // Over rows: SLEEP itself answers 1 when it is killed, the next row finds out.
        let pause = statement(
            "pause",
            "SELECT SUM(k) FROM sbtest1 WHERE id <= 6 AND SLEEP(0.005)=0",
            vec![],
        );
        let slow = program(
            "slow",
            true,
            vec![group(1, vec![], vec![add("before"), pause, add("after")])],
        );
        let mut spec = spec(&server, slow, closed(4));
        spec.tables = 1;
        spec.measure = Duration::from_secs(4);
        let mut root = server.root();
        let before: Option<i64> = root
            .query_first("SELECT SUM(k) FROM bench.sbtest1")
            .unwrap();
        let outcome = std::thread::scope(|scope| {
            let thread = scope.spawn(|| go(&spec).0);
            for round in 0..40 {
                std::thread::sleep(Duration::from_millis(60));
                let ids: Vec<u64> = root
                    .query("SELECT id FROM information_schema.processlist WHERE user = 'bench'")
                    .unwrap();
                if let Some(id) = ids.get(round % 4) {
                    let what = if round % 4 == 3 {
                        "CONNECTION"
                    } else {
                        "QUERY"
                    };
                    // It may have gone meanwhile.
                    let _ = root.query_drop(format!("KILL {what} {id}"));
                }
            }
            thread.join().unwrap()
        });
        consistent(&outcome);
        assert_eq!(
            outcome.status,
            CellStatus::Completed,
            "{:?}",
            outcome.reason
        );
        let reconnects = sum(&outcome, |i| i.reconnects);
        let interrupted = errors(&outcome, 1317);
        assert!(
            reconnects > 0 && interrupted > 0,
            "{kind:?}: {reconnects} {interrupted} {:?}",
            outcome
                .intervals
                .iter()
                .map(|i| &i.errors)
                .collect::<Vec<_>>()
        );
        assert!(outcome.totals.failed >= interrupted && outcome.totals.done > 0);
        assert_eq!(sum(&outcome, |i| i.retries), 0);
        // No half of a killed transaction is left. What was in flight at a lost COMMIT may be either.
        let after: Option<i64> = root
            .query_first("SELECT SUM(k) FROM bench.sbtest1")
            .unwrap();
        let added = u64::try_from(after.unwrap() - before.unwrap()).unwrap();
        assert_eq!(added % 2, 0);
        let well = outcome.totals.done + outcome.totals.drained;
        assert!(
            (well..=well + reconnects).contains(&(added / 2)),
            "{added} {:?}",
            outcome.totals
        );
    }
}
