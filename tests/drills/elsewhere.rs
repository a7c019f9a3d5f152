//! What only others see: connections that are refused, a replica that lags, the server's host from afar, an
//! account without rights.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use capbench::analysis::Cause;
use mysql::{Conn, OptsBuilder};

use crate::drill::{drill, ended, plan};
use crate::lab::Lab;
use crate::link::server;
use crate::servers::{self, Kind, Server};

/// Everything that a server with other clients, a replica or too few rights to see them may be refused for.
const ACKNOWLEDGED: &str = "[guard]\nacknowledge = [\"other-clients\", \"unseen-clients\", \"other-schemas\", \"unseen-schemas\", \"replicas\", \"unseen-replicas\", \"is-replica\", \"unseen-source\", \"unseen-backup\", \"unseen-disk\", \"unseen-limits\"]\n";

/// Replicas that are there, or may be, get the load.
const LOGGED: &str = "[dataset]\ntables = 2\nrows = 5_000\nload_threads = 2\nbinlog = \"logged\"\n";

fn target(server: &Server, more: &str) -> String {
    format!(
        "[target]\nhost = \"127.0.0.1\"\nport = {}\nuser = \"bench\"\n{more}",
        server.port
    )
}

#[test]
#[ignore = "a drill: make drills"]
fn refused_connections_are_the_connection_limit() {
    for kind in servers::kinds() {
        let server = server(kind, &["--max-connections=30"]);
        let lab = Lab::new();
        lab.write(
            "plan.toml",
            &plan(
                &target(&server, ""),
                ACKNOWLEDGED,
                "workloads = [\"oltp_point_select\"]\nthreads = [4, 8, 12]\nmeasure = \"3s\"",
            ),
        );
        let open = || {
            let opts = OptsBuilder::new()
                .ip_or_hostname(Some("127.0.0.1"))
                .tcp_port(server.port)
                .prefer_socket(false)
                .user(Some("bench"));
            Conn::new(opts)
        };
        let held: Vec<Conn> = (0..10).map(|_| open().unwrap()).collect();
        let mut running = lab.start(lab.command(&["plan.toml", "--out", "run"]));
        running.said("[3/3] oltp_point_select 12 threads    ");
        let over = AtomicBool::new(false);
        let found = std::thread::scope(|scope| {
            scope.spawn(|| {
                // More at once than there is room for, until the last step is over.
                for _ in 0..200 {
                    if over.load(Ordering::SeqCst) {
                        break;
                    }
                    let burst: Vec<_> = (0..9).map(|_| open()).collect();
                    std::thread::sleep(Duration::from_millis(50));
                    drop(burst);
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            let found = ended(&lab, running);
            over.store(true, Ordering::SeqCst);
            found
        });
        drop(held);
        found.names(Cause::Connections);
    }
}

#[test]
#[ignore = "a drill: make drills"]
fn a_replica_that_cannot_follow_is_replication() {
    const THINKING: &str = r#"description = "A few writes."
think_time = "50ms"

[[transaction]]
name = "write"
begin = false

[[transaction.group]]
[[transaction.group.statement]]
class = "update"
sql = "UPDATE sbtest{table} SET k=k+1 WHERE id=?"
parameters = ["key"]
"#;
    for kind in servers::kinds() {
        let source = server(kind, &["--log-bin=b", "--server-id=1"]);
        let replica = server(kind, &["--server-id=2"]);
        let port = source.port;
        if kind == Kind::MariaDb {
            replica.run(&format!(
                    "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='bench', MASTER_DELAY=1000"
                ));
            replica.run("START SLAVE");
        } else {
            // Its own accounts are there already.
            replica.run("RESET BINARY LOGS AND GTIDS");
            replica.run(&format!(
                    "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='bench', SOURCE_DELAY=1000, GET_SOURCE_PUBLIC_KEY=1"
                ));
            replica.run("START REPLICA");
        }
        let lab = Lab::new();
        lab.write("thinking.toml", THINKING);
        let watched = format!(
            "{LOGGED}\n{ACKNOWLEDGED}\n[[replica]]\nname = \"second\"\nhost = \"127.0.0.1\"\nport = {}\n",
            replica.port
        );
        let plan = plan(
            &target(&source, ""),
            &watched,
            "workloads = [\"thinking.toml\"]\nthreads = [1, 2, 4]\nmeasure = \"5s\"",
        );
        let found = drill(&lab, &plan);
        let named = found.names(Cause::Replication);
        assert!(
            named.evidence.iter().any(|e| {
                e.cause == Cause::Replication
                    && e.met == Some(true)
                    && e.signal == "lag of replica second"
            }),
            "{:#?}",
            named.evidence
        );
        assert!(found.report.contains("Lag of replicas"));
        assert!(lab.read("run/replicas.csv").contains("second.lag_seconds"));
        // The folder alone says the same.
        lab.run(&["report", "run"]).expect(0);
        assert_eq!(lab.read("run/report.md"), found.report);
    }
}

/// A stand-in for a `node_exporter` on a host whose two CPUs are full.
struct Exporter {
    port: u16,
    over: Arc<AtomicBool>,
}

impl Exporter {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let over = Arc::new(AtomicBool::new(false));
        let (ends, asked) = (Arc::clone(&over), AtomicU64::new(0));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(mut stream) = stream else { continue };
                let mut line = String::new();
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                while lines.read_line(&mut line).is_ok_and(|n| n > 2) {
                    line.clear();
                }
                // 97 % busy, whatever the time between two readings.
                let n = asked.fetch_add(1, Ordering::SeqCst);
                let _ = write!(
                    stream,
                    "HTTP/1.0 200 OK\r\n\r\nnode_cpu_seconds_total{{cpu=\"0\",mode=\"user\"}} {}\nnode_cpu_seconds_total{{cpu=\"1\",mode=\"system\"}} {}\nnode_cpu_seconds_total{{cpu=\"0\",mode=\"idle\"}} {}\nnode_procs_running 24\nnode_context_switches_total {}\n",
                    60 * n,
                    37 * n,
                    3 * n,
                    1000 * n
                );
            }
        });
        Self { port, over }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let _ = std::net::TcpStream::connect(("127.0.0.1", self.port));
    }
}

#[test]
fn the_servers_host_is_seen_through_its_exporter() {
    let exporter = Exporter::start();
    let kind = servers::kinds()[0];
    let server = server(kind, &[]);
    let lab = Lab::new();
    let probe = format!(
        "[target.probe]\nurl = \"http://127.0.0.1:{}/metrics\"",
        exporter.port
    );
    let plan = plan(
        &target(&server, &probe),
        "",
        "workloads = [\"oltp_point_select\"]\nthreads = [1, 2, 4]\nmeasure = \"2s\"",
    );
    let found = drill(&lab, &plan);
    let named = found.names(Cause::Cpu);
    let cpu = named
        .evidence
        .iter()
        .find(|e| e.signal.starts_with("CPU of the server's host"))
        .unwrap();
    assert_eq!(cpu.value, "97 %");
    assert!(
        cpu.source.contains("probe of the server's host"),
        "{}",
        cpu.source
    );
    assert!(lab.read("run/server_host.csv").contains("cpu_user_seconds"));
    assert!(
        found
            .run
            .unavailable
            .iter()
            .any(|u| u.contains("does not tell memory, disks")),
        "{:?}",
        found.run.unavailable
    );
}

#[test]
fn a_probe_that_fails_is_a_missing_signal_and_no_failure() {
    let kind = servers::kinds()[0];
    let server = server(kind, &[]);
    let lab = Lab::new();
    let probe = "[target.probe]\ncommand = \"echo no such host >&2; exit 255\"";
    let replica = "[[replica]]\nname = \"gone\"\nhost = \"127.0.0.1\"\nport = 1\n";
    let plan = plan(
        &target(&server, probe),
        replica,
        "workloads = [\"oltp_point_select\"]\nthreads = [1, 2, 4]\nmeasure = \"1s\"",
    );
    let found = drill(&lab, &plan);
    let missing = found.run.unavailable.join("\n");
    assert!(missing.contains("no such host"), "{missing}");
    assert!(missing.contains("replica gone:"), "{missing}");
}

#[test]
fn an_account_without_rights_leaves_signals_missing_and_names_them() {
    for kind in servers::kinds() {
        let server = Server::start(kind, &[]);
        for host in ["localhost", "127.0.0.1"] {
            server.run(&format!("CREATE USER bench@'{host}'"));
            server.run(&format!("GRANT ALL ON capbench.* TO bench@'{host}'"));
        }
        let lab = Lab::new();
        let plan = plan(
            &target(&server, ""),
            &format!("{LOGGED}\n{ACKNOWLEDGED}"),
            "workloads = [\"oltp_point_select\"]\nthreads = [1, 2, 4]\nmeasure = \"1s\"",
        );
        let found = drill(&lab, &plan);
        let missing = found.run.unavailable.join("\n");
        assert!(missing.contains("statement digests:"), "{missing}");
        if kind == Kind::MySql {
            assert!(missing.contains("INNODB_METRICS"), "{missing}");
            assert!(missing.contains("1227"), "{missing}");
        }
        // The load's own rights are enough for the plans.
        assert!(
            found.report.contains("sbtest1 const by PRIMARY"),
            "{}",
            found.report
        );
    }
}
