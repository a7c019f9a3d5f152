//! Cells that tests run, and what must be true of every outcome.
#![allow(dead_code, reason = "not every test file uses every helper")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use capbench::interrupt::Interrupt;
use capbench::load::{Flow, LoadOutcome, LoadSpec, Observer, Pace, run};
use capbench::plan::{Address, LoadOptions, Protocol, Tls, TlsMode};
use capbench::record::{Interval, Phase};
use capbench::target::{Endpoint, Secret};
use capbench::units::Span;
use capbench::workload::{
    Access, Distribution, Generator, Group, Program, Statement, TableLayout, Transaction, Value,
};

use crate::support::Server;

#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) connected: AtomicU32,
    pub(crate) released: AtomicU32,
    pub(crate) intervals: AtomicU32,
    pub(crate) killed: Mutex<Vec<u64>>,
    pub(crate) stop_after: Option<u32>,
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

pub(crate) fn key() -> Value {
    Value::Draw(Generator::Key)
}

pub(crate) fn statement(class: &str, sql: &str, parameters: Vec<Value>) -> Statement {
    Statement {
        class: class.into(),
        sql: sql.into(),
        parameters,
        text_only: false,
    }
}

pub(crate) fn group(repeat: u32, binds: Vec<Generator>, statements: Vec<Statement>) -> Group {
    Group {
        repeat,
        binds,
        statements,
    }
}

pub(crate) fn program(name: &str, begin: bool, groups: Vec<Group>) -> Program {
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

pub(crate) fn point_select() -> Program {
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

pub(crate) fn read_write() -> Program {
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

pub(crate) fn spec(server: &Server, program: Program, pace: Pace) -> LoadSpec {
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
            interrupt: Interrupt::new(),
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

pub(crate) const fn closed(clients: u32) -> Pace {
    Pace::Closed { clients }
}

pub(crate) fn go(spec: &LoadSpec) -> (LoadOutcome, Watch) {
    let watch = Watch::default();
    let outcome = run(spec, &watch, &Interrupt::new()).unwrap();
    assert!(outcome.totals.balance(), "{:?}", outcome.totals);
    (outcome, watch)
}

pub(crate) fn sum(outcome: &LoadOutcome, of: impl Fn(&Interval) -> u64) -> u64 {
    outcome.intervals.iter().map(of).sum()
}

/// What must be true of every outcome.
pub(crate) fn consistent(outcome: &LoadOutcome) {
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

pub(crate) fn errors(outcome: &LoadOutcome, code: u16) -> u64 {
    outcome
        .intervals
        .iter()
        .flat_map(|i| &i.errors)
        .filter(|e| e.code == code)
        .map(|e| e.count)
        .sum()
}
