//! The load engine against real servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    missing_docs
)]

mod load_support;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use capbench::interrupt::Interrupt;
use capbench::load::{Flow, LoadOutcome, LoadSpec, Observer, Pace, run};
use capbench::plan::{Address, Arrivals, LoadOptions, Protocol, Tls, TlsMode};
use capbench::record::{CellStatus, Interval, Latency, Phase};
use capbench::target::{Endpoint, Secret};
use capbench::units::Span;
use capbench::workload::{
    Access, Distribution, Generator, Group, Program, Statement, TableLayout, Transaction, Value,
};
use load_support::{Kind, Server, kinds, status};

#[derive(Default)]
struct Watch {
    connected: AtomicU32,
    released: AtomicU32,
    intervals: AtomicU32,
    killed: Mutex<Vec<u64>>,
    stop_after: Option<u32>,
}

impl Observer for Watch {
    fn connected(&self, clients: u32) {
        self.connected.store(clients, Ordering::SeqCst);
    }
    fn released(&self) {
        self.released.fetch_add(1, Ordering::SeqCst);
    }
    fn interval(&self, _: &Interval) -> Flow {
        let seen = self.intervals.fetch_add(1, Ordering::SeqCst) + 1;
        match self.stop_after {
            Some(limit) if seen >= limit => Flow::Stop("enough".into()),
            _ => Flow::Continue,
        }
    }
    fn kill(&self, connection_ids: &[u64]) {
        self.killed.lock().unwrap().extend(connection_ids);
    }
}

fn key() -> Value {
    Value::Draw(Generator::Key)
}

fn statement(class: &str, sql: &str, parameters: Vec<Value>) -> Statement {
    Statement {
        class: class.into(),
        sql: sql.into(),
        parameters,
        text_only: false,
    }
}

fn group(repeat: u32, binds: Vec<Generator>, statements: Vec<Statement>) -> Group {
    Group {
        repeat,
        binds,
        statements,
    }
}

fn program(name: &str, begin: bool, groups: Vec<Group>) -> Program {
    Program {
        name: name.into(),
        description: String::new(),
        transactions: vec![Transaction {
            name: name.into(),
            weight: 1,
            begin,
            groups,
        }],
        think_time_ms: 0.0,
        tables: TableLayout::Standard,
    }
}

fn point_select() -> Program {
    program(
        "point_select",
        false,
        vec![group(
            1,
            vec![],
            vec![statement(
                "point_select",
                "SELECT c FROM sbtest{table} WHERE id=?",
                vec![key()],
            )],
        )],
    )
}

fn read_write() -> Program {
    let range = || {
        vec![
            Value::Bound { bind: 0, plus: 0 },
            Value::Bound { bind: 0, plus: 99 },
        ]
    };
    let c = "###########-###########-###########-###########-###########-###########-###########-\
             ###########-###########-###########";
    let pad = "###########-###########-###########-###########-###########";
    let of_range = |class: &str, sql: &str| {
        group(
            1,
            vec![Generator::Key],
            vec![statement(class, sql, range())],
        )
    };
    program(
        "read_write",
        true,
        vec![
            group(
                10,
                vec![],
                vec![statement(
                    "point_select",
                    "SELECT c FROM sbtest{table} WHERE id=?",
                    vec![key()],
                )],
            ),
            of_range(
                "simple_range",
                "SELECT c FROM sbtest{table} WHERE id BETWEEN ? AND ?",
            ),
            of_range(
                "sum_range",
                "SELECT SUM(k) FROM sbtest{table} WHERE id BETWEEN ? AND ?",
            ),
            of_range(
                "order_range",
                "SELECT c FROM sbtest{table} WHERE id BETWEEN ? AND ? ORDER BY c",
            ),
            of_range(
                "distinct_range",
                "SELECT DISTINCT c FROM sbtest{table} WHERE id BETWEEN ? AND ? ORDER BY c",
            ),
            group(
                1,
                vec![],
                vec![statement(
                    "index_update",
                    "UPDATE sbtest{table} SET k=k+1 WHERE id=?",
                    vec![key()],
                )],
            ),
            group(
                1,
                vec![],
                vec![statement(
                    "non_index_update",
                    "UPDATE sbtest{table} SET c=? WHERE id=?",
                    vec![Value::Draw(Generator::Text(c.into())), key()],
                )],
            ),
            group(
                1,
                vec![Generator::Key],
                vec![
                    statement(
                        "delete",
                        "DELETE FROM sbtest{table} WHERE id=?",
                        vec![Value::Bound { bind: 0, plus: 0 }],
                    ),
                    statement(
                        "insert",
                        "INSERT INTO sbtest{table} (id,k,c,pad) VALUES (?,?,?,?)",
                        vec![
                            Value::Bound { bind: 0, plus: 0 },
                            key(),
                            Value::Draw(Generator::Text(c.into())),
                            Value::Draw(Generator::Text(pad.into())),
                        ],
                    ),
                ],
            ),
        ],
    )
}

fn spec(server: &Server, program: Program, pace: Pace) -> LoadSpec {
    LoadSpec {
        endpoint: Endpoint {
            address: Address::Tcp {
                host: "127.0.0.1".into(),
                port: server.port,
            },
            user: "bench".into(),
            password: Secret::new("secret".into()),
            database: Some("bench".into()),
            tls: Tls {
                mode: TlsMode::Disabled,
                ca: None,
            },
            connect_timeout: Duration::from_secs(10),
        },
        program: Arc::new(program),
        tables: 2,
        rows: 1000,
        access: Access {
            distribution: Distribution::Uniform,
        },
        options: LoadOptions {
            protocol: Protocol::Prepared,
            retries: 10,
            workers: 2,
            max_prepared_per_connection: 0,
            connect_timeout: Span(Duration::from_secs(20)),
            drain_timeout: Span(Duration::from_secs(5)),
            reconnect_backoff: Span(Duration::from_millis(500)),
        },
        pace,
        discard: Duration::ZERO,
        measure: Duration::from_secs(2),
        events: None,
        interval: Duration::from_millis(500),
        seed: 7,
    }
}

const fn closed(clients: u32) -> Pace {
    Pace::Closed { clients }
}

fn go(spec: &LoadSpec) -> (LoadOutcome, Watch) {
    let watch = Watch::default();
    let outcome = run(spec, &watch, &Interrupt::new()).unwrap();
    assert!(outcome.totals.balance(), "{:?}", outcome.totals);
    (outcome, watch)
}

fn sum(outcome: &LoadOutcome, of: impl Fn(&Interval) -> u64) -> u64 {
    outcome.intervals.iter().map(of).sum()
}

/// What must be true of every outcome.
fn consistent(outcome: &LoadOutcome) {
    for interval in &outcome.intervals {
        assert_eq!(interval.latency.count(), interval.done);
        if let Some(service) = &interval.service {
            assert_eq!(service.count(), interval.done);
        }
    }
    let measured: u64 = outcome
        .intervals
        .iter()
        .filter(|i| i.phase == Phase::Measure)
        .map(|i| i.done)
        .sum();
    assert_eq!(outcome.per_client.iter().sum::<u64>(), measured);
}

#[test]
fn the_server_counts_what_the_client_counts() {
    for kind in kinds() {
        let server = Server::start(kind, &[]);
        server.prepare(2, 1000);
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
}

#[test]
fn a_limit_of_events_is_met_exactly() {
    let server = Server::start(Kind::MariaDb, &[]);
    server.prepare(2, 1000);
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
    let server = Server::start(Kind::MariaDb, &[]);
    server.prepare(2, 1000);
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
    assert_eq!(outcome.totals.dropped, 0);

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
