//! Many connections from one process, against a stand-in server that is a process of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    missing_docs
)]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use capbench::interrupt::Interrupt;
use capbench::load::{Flow, LoadSpec, Observer, Pace, run};
use capbench::plan::{Address, LoadOptions, Protocol, Tls, TlsMode};
use capbench::record::{CellStatus, Interval};
use capbench::target::{Endpoint, Secret};
use capbench::units::Span;
use capbench::workload::{
    Access, Distribution, Generator, Group, Program, Statement, TableLayout, Transaction, Value,
};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

/// Set for the process that is the stand-in.
const ROLE: &str = "CAPBENCH_TEST_STANDIN";
/// It ends by itself after this, whatever happens to the test.
const LIFETIME: Duration = Duration::from_secs(180);

/// Ends the stand-in by its own process id.
struct StandIn {
    child: Child,
    port: u16,
}

impl StandIn {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stand_in", "--nocapture"])
            .env(ROLE, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        while !line.starts_with("port ") {
            line.clear();
            assert!(
                stderr.read_line(&mut line).unwrap() > 0,
                "the stand-in starts"
            );
        }
        let port = line["port ".len()..].trim().parse().unwrap();
        Self { child, port }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(payload.len()).unwrap().to_le_bytes()[..3].to_vec();
    out.push(sequence);
    out.extend_from_slice(payload);
    out
}

fn greeting() -> Vec<u8> {
    let mut payload = b"\x0a8.0.0-stand-in\0\x01\0\0\0abcdefgh\0".to_vec();
    // Protocol 4.1, database, secure connection, plugins with long data, the new EOF; no TLS.
    let capabilities: u32 = 0x0200 | 0x8000 | 0x8 | 0x1 | 0x4 | 1 << 19 | 1 << 21 | 1 << 24;
    let [a, b, c, d] = capabilities.to_le_bytes();
    payload.extend_from_slice(&[a, b, 45, 2, 0, c, d, 21]);
    payload.extend_from_slice(&[0; 10]);
    payload.extend_from_slice(b"ijklmnopqrst\0mysql_native_password\0");
    packet(0, &payload)
}

/// Not a test of its own: the stand-in's process. Accepts every login, prepares every statement, answers
/// every execution with one changed row.
#[test]
fn stand_in() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let mut listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    eprintln!("port {}", listener.local_addr().unwrap().port());
    let mut poll = Poll::new().unwrap();
    poll.registry()
        .register(&mut listener, Token(usize::MAX), Interest::READABLE)
        .unwrap();
    let mut clients: Vec<Option<TcpStream>> = Vec::new();
    let mut events = Events::with_capacity(4096);
    let mut buffer = vec![0; 65536];
    let started = Instant::now();
    while started.elapsed() < LIFETIME {
        poll.poll(&mut events, Some(Duration::from_secs(1)))
            .unwrap();
        for event in &events {
            let Token(number) = event.token();
            if number == usize::MAX {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true).unwrap();
                    stream.write_all(&greeting()).unwrap();
                    poll.registry()
                        .register(&mut stream, Token(clients.len()), Interest::READABLE)
                        .unwrap();
                    clients.push(Some(stream));
                }
                continue;
            }
            // Commands of this load are small and come one at a time: one read is one command.
            while let Some(stream) = &mut clients[number] {
                match stream.read(&mut buffer) {
                    Ok(len) if len > 4 => {
                        let answer = match (buffer[3], buffer[4]) {
                            (1, _) => packet(2, &[0, 0, 0, 2, 0, 0, 0]),
                            (_, 0x16) => {
                                let mut answer = packet(1, &[0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
                                answer.extend(packet(
                                    2,
                                    b"\x03def\0\0\0\x01?\0\x0c\x3f\0\0\0\0\0\xfd\0\0\0\0\0",
                                ));
                                answer
                            }
                            (_, 0x17) => packet(1, &[0, 1, 0, 2, 0, 0, 0]),
                            _ => {
                                clients[number] = None;
                                break;
                            }
                        };
                        stream.write_all(&answer).unwrap();
                    }
                    Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                    _ => clients[number] = None,
                }
            }
        }
    }
}

struct Quiet;

impl Observer for Quiet {
    fn connected(&self, _: u32) {}
    fn released(&self) {}
    fn interval(&self, _: &Interval) -> Flow {
        Flow::Continue
    }
    fn kill(&self, _: &[u64]) {}
}

#[test]
fn ten_thousand_connections_from_one_process() {
    if std::env::var_os(ROLE).is_some() {
        return;
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let clients = match limit.maximum {
        Some(files) if files < 10_200 => {
            eprintln!("{files} open files at most: tested with fewer connections");
            u32::try_from(files).unwrap().saturating_sub(200)
        }
        _ => 10_000,
    };
    rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )
    .unwrap();
    let server = StandIn::start();
    let spec = LoadSpec {
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
        program: Arc::new(Program {
            name: "update".into(),
            description: String::new(),
            transactions: vec![Transaction {
                name: "update".into(),
                weight: 1,
                begin: false,
                groups: vec![Group {
                    repeat: 1,
                    binds: vec![],
                    statements: vec![Statement {
                        class: "update".into(),
                        sql: "UPDATE t SET k=k+1 WHERE id=?".into(),
                        parameters: vec![Value::Draw(Generator::Key)],
                        text_only: false,
                    }],
                }],
            }],
            think_time_ms: 0.0,
            tables: TableLayout::Standard,
        }),
        tables: 1,
        rows: 1000,
        access: Access {
            distribution: Distribution::Uniform,
        },
        options: LoadOptions {
            protocol: Protocol::Prepared,
            retries: 0,
            workers: 2,
            max_prepared_per_connection: 0,
            connect_timeout: Span(Duration::from_secs(90)),
            drain_timeout: Span(Duration::from_secs(30)),
            reconnect_backoff: Span(Duration::from_secs(1)),
        },
        pace: Pace::Closed { clients },
        discard: Duration::ZERO,
        measure: Duration::from_secs(5),
        events: None,
        interval: Duration::from_secs(1),
        seed: 1,
    };
    let outcome = run(&spec, &Quiet, &Interrupt::new()).unwrap();
    assert_eq!(
        outcome.status,
        CellStatus::Completed,
        "{:?}",
        outcome.reason
    );
    assert!(outcome.totals.balance(), "{:?}", outcome.totals);
    assert_eq!(outcome.per_client.len(), clients as usize);
    let answered = outcome.totals.done + outcome.totals.drained;
    assert!(answered >= u64::from(clients), "{:?}", outcome.totals);
    let writes: u64 = outcome.intervals.iter().map(|i| i.writes).sum();
    assert_eq!(writes, outcome.totals.done);
    eprintln!(
        "{clients} connections: {} resident, {:?}",
        outcome.client.resident, outcome.totals
    );
    // A buffer per connection each way would be some 300 MB.
    assert!(
        outcome.client.resident.0 < 100 << 20,
        "{}",
        outcome.client.resident
    );
}
