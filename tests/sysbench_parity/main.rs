//! capbench's built-in workloads are sysbench's work: the same statements a transaction, the same tables, the
//! same choice of rows. Compared with sysbench itself, on the same server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    missing_docs
)]

mod ids;
mod statements;
#[path = "../support/mod.rs"]
mod support;
mod tables;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use capbench::dataset::{self, Silent};
use capbench::interrupt::Interrupt;
use capbench::load::{Flow, LoadSpec, Observer, Pace};
use capbench::plan::{self, Address, LoadOptions, Plan, Protocol, Tls, TlsMode};
use capbench::record::{CellStatus, Interval};
use capbench::target::{Endpoint, Secret};
use capbench::units::{Bytes, Span};
use capbench::workload::{self, Access, Distribution, TableLayout, WorkloadOptions};
use mysql::Conn;
use mysql::prelude::Queryable;
use serde_json::json;
use support::External;

/// Without sysbench there is nothing to compare with.
fn sysbench_is_there() -> bool {
    let there = Command::new("sysbench")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !there {
        eprintln!("skipped: sysbench is not installed (tests/servers/sysbench.sh)");
    }
    there
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

fn endpoint(server: &External, database: &str) -> Endpoint {
    Endpoint {
        address: Address::Socket(server.path("s")),
        user: "root".into(),
        password: Secret::default(),
        database: Some(database.into()),
        tls: Tls {
            mode: TlsMode::Disabled,
            ca: None,
        },
        connect_timeout: Duration::from_secs(20),
        interrupt: Interrupt::new(),
    }
}

/// A server whose commits do not wait for the disk, with databases `theirs` and `ours`.
fn start(binary: &Path) -> (External, Conn) {
    let server = External::start(binary);
    let mut root = server.root();
    for sql in [
        "SET GLOBAL innodb_flush_log_at_trx_commit = 0",
        "SET GLOBAL sync_binlog = 0",
        "CREATE DATABASE theirs",
        "CREATE DATABASE ours",
    ] {
        root.query_drop(sql).unwrap();
    }
    (server, root)
}

/// Options of sysbench and of the workload templates, which have the same names.
type Options<'a> = &'a [(&'a str, &'a str)];

fn sysbench(server: &External, script: &str, command: &str, options: Options) {
    let mut sysbench = Command::new("sysbench");
    sysbench.arg(script).args([
        format!("--mysql-socket={}", server.path("s").display()),
        "--mysql-user=root".to_owned(),
        "--mysql-db=theirs".to_owned(),
        "--rand-seed=7".to_owned(),
        "--time=0".to_owned(),
    ]);
    for (name, value) in options {
        sysbench.arg(format!("--{name}={value}"));
    }
    let output = sysbench.arg(command).stdin(Stdio::null()).output().unwrap();
    assert!(
        output.status.success(),
        "sysbench {script} {command} {options:?}:\n{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

struct Ours<'a> {
    script: &'a str,
    options: Options<'a>,
    tables: u32,
    rows: u64,
    events: u64,
    distribution: Distribution,
    database: &'a str,
}

fn capbench(server: &External, run: &Ours) {
    let options: WorkloadOptions = run
        .options
        .iter()
        .map(|(name, value)| {
            let value = match *value {
                "on" => json!(true),
                "off" => json!(false),
                number => json!(number.parse::<i64>().unwrap()),
            };
            ((*name).to_owned(), value)
        })
        .collect();
    let program = workload::load(run.script, Path::new("."), &options).unwrap();
    let spec = LoadSpec {
        endpoint: endpoint(server, run.database),
        program: Arc::new(program),
        tables: run.tables,
        rows: run.rows,
        access: Access {
            distribution: run.distribution,
        },
        options: LoadOptions {
            protocol: Protocol::Prepared,
            retries: 10,
            workers: 1,
            max_prepared_per_connection: 0,
            connect_timeout: Span(Duration::from_secs(20)),
            drain_timeout: Span(Duration::from_secs(5)),
            reconnect_backoff: Span(Duration::from_secs(1)),
        },
        pace: Pace::Closed { clients: 1 },
        discard: Duration::ZERO,
        measure: Duration::from_secs(120),
        events: Some(run.events),
        interval: Duration::from_secs(1),
        seed: 7,
    };
    let outcome = capbench::load::run(&spec, &Quiet, &Interrupt::new()).unwrap();
    assert_eq!(
        outcome.status,
        CellStatus::Completed,
        "{:?}",
        outcome.reason
    );
    assert_eq!(outcome.totals.done, run.events, "{}", run.script);
}

fn counters(root: &mut Conn) -> BTreeMap<String, i64> {
    let all: Vec<(String, String)> = root.query("SHOW GLOBAL STATUS").unwrap();
    all.into_iter()
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect()
}

/// How much each counter grows while `work` runs.
fn growth(root: &mut Conn, work: impl FnOnce()) -> BTreeMap<String, i64> {
    let before = counters(root);
    work();
    counters(root)
        .into_iter()
        .map(|(name, value)| {
            let grown = value - before.get(&name).unwrap_or(&0);
            (name, grown)
        })
        .collect()
}

fn plan(database: &str, script: &str, dataset: &str) -> Plan {
    let text = format!(
        "name = \"parity\"\n[target]\nhost = \"127.0.0.1\"\nuser = \"root\"\ndatabase = \"{database}\"\n\
         [dataset]\ntables = 2\n{dataset}\n[ladder]\nworkloads = [\"{script}\"]\nthreads = [1]\n"
    );
    plan::parse(&text, "parity.toml", Path::new("")).unwrap()
}

fn prepare(server: &External, plan: &Plan, layout: TableLayout) {
    let mut admin = endpoint(server, "ours");
    admin.database = None;
    let resolved = dataset::plan_size(&plan.dataset, Bytes(1 << 27));
    dataset::prepare(&admin, plan, layout, &resolved, &Silent, &Interrupt::new()).unwrap();
}
