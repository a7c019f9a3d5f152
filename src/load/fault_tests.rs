//! A fault of capbench itself in the middle of a cell.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may fail by panic"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::context::{Context, Stage};
use super::{Flow, LoadSpec, Observer, Pace, run};
use crate::interrupt::Interrupt;
use crate::plan::{Address, LoadOptions, Protocol, Tls, TlsMode};
use crate::record::{CellStatus, Interval};
use crate::target::{Endpoint, Secret};
use crate::units::Span;
use crate::workload::{Access, Distribution, Group, Program, Statement, TableLayout, Transaction};

/// The seed of the cell that breaks.
const FAULTY: u64 = 0xfa_017;

/// Called by a worker for each event: the second worker of the faulty cell breaks after a while.
pub(super) fn strike(ctx: &Context<'_>) {
    assert!(
        ctx.shared.spec.seed != FAULTY
            || ctx.worker != 1
            || ctx.stage != Stage::Running
            || ctx.slot < 2,
        "injected"
    );
}

struct Nobody;

impl Observer for Nobody {
    fn connected(&self, _: u32) {}
    fn released(&self) {}
    fn interval(&self, _: &Interval) -> Flow {
        Flow::Continue
    }
    fn kill(&self, _: &[u64]) {}
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(payload.len()).unwrap().to_le_bytes()[..3].to_vec();
    out.push(sequence);
    out.extend_from_slice(payload);
    out
}

/// Accepts every login and answers every command with OK.
fn serve(mut stream: TcpStream) {
    let mut greeting = b"\x0a8.0.0-stand-in\0\x01\0\0\0abcdefgh\0".to_vec();
    let capabilities: u32 = 0x0200 | 0x8000 | 0x8 | 0x1 | 0x4 | 1 << 19 | 1 << 21 | 1 << 24;
    let [a, b, c, d] = capabilities.to_le_bytes();
    greeting.extend_from_slice(&[a, b, 45, 2, 0, c, d, 21]);
    greeting.extend_from_slice(&[0; 10]);
    greeting.extend_from_slice(b"ijklmnopqrst\0mysql_native_password\0");
    stream.set_nodelay(true).unwrap();
    stream.write_all(&packet(0, &greeting)).unwrap();
    let mut buffer = [0; 4096];
    while let Ok(4..) = stream.read(&mut buffer) {
        let sequence = buffer[3] + 1;
        if stream
            .write_all(&packet(sequence, &[0, 1, 0, 2, 0, 0, 0]))
            .is_err()
        {
            return;
        }
    }
}

#[test]
fn a_worker_that_breaks_fails_the_cell_and_keeps_what_was_measured() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    let program = Program {
        name: "do".into(),
        description: String::new(),
        think_time_ms: 0.0,
        tables: TableLayout::Standard,
        transactions: vec![Transaction {
            name: "do".into(),
            weight: 1,
            begin: true,
            groups: vec![Group {
                repeat: 1,
                binds: Vec::new(),
                statements: vec![Statement {
                    class: "do".into(),
                    sql: "DO 1".into(),
                    parameters: Vec::new(),
                    text_only: true,
                }],
            }],
        }],
    };
    let spec = LoadSpec {
        endpoint: Endpoint {
            address: Address::Tcp {
                host: "127.0.0.1".into(),
                port,
            },
            user: "bench".into(),
            password: Secret::new(String::new()),
            database: None,
            tls: Tls {
                mode: TlsMode::Disabled,
                ca: None,
            },
            connect_timeout: Duration::from_secs(10),
            interrupt: Interrupt::new(),
        },
        program: Arc::new(program),
        tables: 1,
        rows: 1,
        access: Access {
            distribution: Distribution::Uniform,
        },
        options: LoadOptions {
            protocol: Protocol::Text,
            retries: 0,
            workers: 2,
            max_prepared_per_connection: 0,
            connect_timeout: Span(Duration::from_secs(20)),
            drain_timeout: Span(Duration::from_secs(5)),
            reconnect_backoff: Span(Duration::from_millis(500)),
        },
        pace: Pace::Closed { clients: 8 },
        discard: Duration::ZERO,
        measure: Duration::from_secs(30),
        events: None,
        interval: Duration::from_millis(100),
        seed: FAULTY,
    };
    let outcome = run(&spec, &Nobody, &Interrupt::new()).unwrap();
    assert_eq!(outcome.status, CellStatus::Failed);
    let reason = outcome.reason.unwrap();
    assert!(
        reason.contains("fault of capbench itself (injected)"),
        "{reason}"
    );
    assert!(outcome.seconds < 10.0, "it does not wait for the end");
    // The intervals before the fault are whole, and both workers have their part in them.
    assert!(outcome.intervals.len() >= 2);
    assert!(outcome.intervals[..2].iter().all(|i| i.done > 0));
    assert!(outcome.per_client.iter().all(|done| *done > 0));
    // At most the transaction that was being handled is in no bucket.
    let totals = outcome.totals;
    let counted = totals.done + totals.failed + totals.drained + totals.given_up;
    assert!(totals.arrivals - counted <= 1, "{totals:?}");
}
