//! Loads on real servers: broken off at random moments and continued, watched, past the binary log, and proved by
//! a generator of rows that knows nothing but what docs/method.md says. `CAPBENCH_LOAD_KILLS=6` is the long form
//! (`make faults`).
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test may fail by panic"
)]

mod dataset_support;
mod support;

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use capbench::dataset::{self, DatasetError, Progress, Resolved, Silent, Verdict};
use capbench::interrupt::Interrupt;
use capbench::plan::{Binlog, Plan};
use capbench::record::DatasetFacts;
use capbench::units::Bytes;
use capbench::workload::TableLayout;
use dataset_support::{documented, endpoint, plan, start, value};
use mysql::prelude::Queryable as _;
use support::{Kind, Server, kinds};

#[test]
fn on_mariadb() {
    all(Kind::MariaDb);
}

#[test]
fn on_mysql() {
    // Says so when there is none.
    if kinds().contains(&Kind::MySql) {
        all(Kind::MySql);
    }
}

fn all(kind: Kind) {
    let mut server = start(kind);
    another_program_makes_the_same_rows(&server);
    every_way_gives_the_same_rows(&server);
    a_guard_pauses_and_ends(&server);
    survives_killed_servers(&mut server);
    survives_killed_capbenches(&server);
    let logged = dataset_support::start_with(kind, &["--log-bin=binlog", "--server-id=1"]);
    stays_out_of_the_binary_log(&logged);
    asks_what_replicas_get(&logged);
}

fn resolved(plan: &Plan) -> Resolved {
    dataset::plan_size(&plan.dataset, Bytes(8 << 20))
}

fn prepare_watched(
    server: &Server,
    plan: &Plan,
    progress: &dyn Progress,
) -> Result<DatasetFacts, DatasetError> {
    dataset::prepare(
        &endpoint(server),
        plan,
        TableLayout::Standard,
        &resolved(plan),
        progress,
        &Interrupt::new(),
    )
}

fn prepare(server: &Server, plan: &Plan) -> Result<DatasetFacts, DatasetError> {
    prepare_watched(server, plan, &Silent)
}

/// All three tables against the documented generator: sums over each column, by SQL and a plain connection.
fn assert_documented(server: &Server, plan: &Plan, rows: u64) {
    for table in 1..=plan.dataset.tables {
        let name = format!("{}.sbtest{table}", plan.target.database);
        assert_eq!(
            value(
                server,
                &format!(
                    "SELECT CONCAT_WS(' ', COUNT(*), SUM(id), SUM(k), SUM(CRC32(c)), SUM(CRC32(pad)), \
                     BIT_XOR(CRC32(CONCAT_WS(',', id, k, c, pad)))) FROM {name}"
                )
            ),
            documented::sums(plan.seed, table, rows),
            "{name}"
        );
        assert_eq!(
            value(
                server,
                &format!("SELECT COUNT(*) FROM {name} FORCE INDEX (k_{table}) WHERE k > 0")
            ),
            rows.to_string()
        );
    }
}

fn another_program_makes_the_same_rows(server: &Server) {
    let plan = plan("documented", 52_345);
    prepare(server, &plan).unwrap();
    assert_documented(server, &plan, 52_345);
    server.run("UPDATE documented.sbtest2 SET pad = REVERSE(pad) WHERE id = 50001");
    let changed = std::panic::catch_unwind(|| assert_documented(server, &plan, 52_345));
    assert!(changed.is_err(), "one changed row must show");
    server.run("DROP DATABASE documented");
}

/// `MariaDB` by arrays, by LOAD DATA when nothing more can be prepared, by INSERTs when that is off too; `MySQL`
/// the last two.
fn every_way_gives_the_same_rows(server: &Server) {
    let count = |name: &str| -> u64 {
        let row: Option<(String, u64)> = server
            .root()
            .query_first(format!("SHOW GLOBAL STATUS LIKE '{name}'"))
            .unwrap();
        row.map_or(0, |(_, n)| n)
    };
    let mut plan = plan("ways", 50_500);
    plan.dataset.tables = 2;
    let prepared: u32 = value(server, "SELECT @@max_prepared_stmt_count")
        .parse()
        .unwrap();
    for (statements, infile, expected) in [
        (prepared, "ON", "first"),
        (0, "ON", "infile"),
        (0, "OFF", "inserts"),
    ] {
        server.run(&format!(
            "SET GLOBAL max_prepared_stmt_count = {statements}"
        ));
        server.run(&format!("SET GLOBAL local_infile = {infile}"));
        let before = count("Com_load");
        plan.target.database = format!("way_{expected}");
        prepare(server, &plan).unwrap();
        assert_documented(server, &plan, 50_500);
        let loads = count("Com_load") - before;
        let by_arrays = server.kind == Kind::MariaDb && expected == "first";
        let by_infile = expected == "infile" || (expected == "first" && !by_arrays);
        assert_eq!(loads > 0, by_infile, "{expected}: {loads} LOAD DATA");
        server.run(&format!("DROP DATABASE way_{expected}"));
    }
    server.run(&format!("SET GLOBAL max_prepared_stmt_count = {prepared}"));
    server.run("SET GLOBAL local_infile = ON");
}

/// Pauses for its first two questions, then ends the load, or lets it go on.
struct Guard {
    asked: AtomicU64,
    rows: AtomicU64,
    ends: bool,
}

impl Guard {
    fn new(ends: bool) -> Self {
        Self {
            asked: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            ends,
        }
    }
}

impl Progress for Guard {
    fn phase(&self, _: &str) {}

    fn rows(&self, done: u64, _: u64) {
        self.rows.fetch_max(done, Ordering::Relaxed);
    }

    fn guard(&self) -> Verdict {
        match self.asked.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Verdict::Pause,
            _ if self.ends => Verdict::End("the window has closed".to_owned()),
            _ => Verdict::GoOn,
        }
    }
}

fn a_guard_pauses_and_ends(server: &Server) {
    let mut plan = plan("guarded", 101_000);
    // Three seconds at least, so that the guard is asked.
    plan.dataset.load_rate = Some(100_000);
    let guard = Guard::new(true);
    let error = prepare_watched(server, &plan, &guard).unwrap_err();
    assert!(!error.is_interrupt());
    let text = error.to_string();
    assert!(
        text.contains("the window has closed") && text.contains("continues"),
        "{text}"
    );
    assert!(guard.rows.into_inner() < 303_000);
    let guard = Guard::new(false);
    prepare_watched(server, &plan, &guard).unwrap();
    assert!(guard.asked.into_inner() >= 3, "it was held for two seconds");
    assert_documented(server, &plan, 101_000);
    server.run("DROP DATABASE guarded");
}

/// Tells how many rows are in.
struct Rows(AtomicU64);

impl Progress for Rows {
    fn phase(&self, _: &str) {}

    fn rows(&self, done: u64, _: u64) {
        self.0.store(done, Ordering::Relaxed);
    }
}

/// How often each is killed; more in the long form (`make faults`).
fn kills() -> u32 {
    std::env::var("CAPBENCH_LOAD_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(2)
}

/// kill -9 of the server while rows travel and while indexes are built.
fn survives_killed_servers(server: &mut Server) {
    let plan = plan("killed", 101_000);
    let mut broken = 0;
    let kills = kills();
    for _ in 0..kills {
        let rows = Rows(AtomicU64::new(0));
        let (at, pause) = (
            rand::random_range(0..300_000_u64),
            rand::random_range(0..300_u64),
        );
        let loading: &Server = server;
        let (endpoint, sizes) = (endpoint(loading), resolved(&plan));
        let pid = rustix::process::Pid::from_raw(i32::try_from(loading.id()).unwrap()).unwrap();
        let result = std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                dataset::prepare(
                    &endpoint,
                    &plan,
                    TableLayout::Standard,
                    &sizes,
                    &rows,
                    &Interrupt::new(),
                )
            });
            let limit = Instant::now() + Duration::from_secs(60);
            while rows.0.load(Ordering::Relaxed) < at
                && !load.is_finished()
                && Instant::now() < limit
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            std::thread::sleep(Duration::from_millis(pause));
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            load.join().unwrap()
        });
        eprintln!("killed the server behind row {at} after {pause} ms: {result:?}");
        broken += u32::from(result.is_err());
        // Reaps it.
        server.kill();
        server.restart();
    }
    prepare(server, &plan).unwrap();
    assert_documented(server, &plan, 101_000);
    eprintln!("{broken} of {kills} loads were broken off");
    server.run("DROP DATABASE killed");
}

/// kill -9 of capbench itself at random moments; the last goes to its end.
fn survives_killed_capbenches(server: &Server) {
    let folder = support::folder();
    let file = folder.path().join("plan.toml");
    let text = format!(
        "name = \"killed\"\nseed = 7\n[target]\nsocket = \"{}\"\nuser = \"root\"\npassword_env = \"CAPBENCH_TEST_EMPTY\"\ndatabase = \"killed_us\"\n\
         [dataset]\ntables = 3\nrows = 101_000\nload_threads = 3\n\
         [ladder]\nworkloads = [\"oltp_read_only\"]\nthreads = [1, 2, 4]\n\
         [guard]\nacknowledge = [\"other-schemas\", \"other-clients\", \"foreign-tables\", \"low-disk\"]\n",
        server.socket().display()
    );
    std::fs::write(&file, text).unwrap();
    let start = || -> Child {
        Command::new(env!("CARGO_BIN_EXE_capbench"))
            .arg("prepare")
            .arg(&file)
            .env("CAPBENCH_TEST_EMPTY", "")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    for _ in 0..kills() {
        let mut child = start();
        std::thread::sleep(Duration::from_millis(rand::random_range(300..2_500)));
        let _ = child.kill();
        let ended = child.wait_with_output().unwrap();
        eprintln!(
            "killed capbench: {}",
            String::from_utf8_lossy(&ended.stderr).replace('\n', " | ")
        );
        // Its sessions end when the server has noticed.
        let limit = Instant::now() + Duration::from_secs(30);
        while value(
            server,
            "SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'killed_us'",
        ) != "0"
            && Instant::now() < limit
        {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let ended = start().wait_with_output().unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    let mut plan = plan("killed_us", 101_000);
    plan.seed = 7;
    assert_documented(server, &plan, 101_000);
    server.run("DROP DATABASE killed_us");
}

/// Where the binary log ends: file and position.
fn binlog_end(server: &Server) -> String {
    let sql = match server.kind {
        Kind::MariaDb => "SHOW MASTER STATUS",
        _ => "SHOW BINARY LOG STATUS",
    };
    let row: mysql::Row = server.root().query_first(sql).unwrap().unwrap();
    let text = |i: usize| row.get::<String, _>(i).unwrap();
    format!("{} {}", text(0), text(1))
}

fn stays_out_of_the_binary_log(server: &Server) {
    let mut plan = plan("unlogged", 2_000);
    plan.dataset.binlog = Some(Binlog::Unlogged);
    let begin = binlog_end(server);
    assert_eq!(prepare(server, &plan).unwrap().origin, "loaded");
    dataset::mark_dirty(&endpoint(server), &plan, TableLayout::Standard).unwrap();
    assert_eq!(prepare(server, &plan).unwrap().origin, "loaded");
    assert_documented(server, &plan, 2_000);
    assert_eq!(binlog_end(server), begin);
    // Replicas have nothing of it: what is logged must not touch it.
    plan.dataset.binlog = Some(Binlog::Logged);
    let error = prepare(server, &plan).unwrap_err().to_string();
    assert!(
        error.contains("past the binary log") && error.contains("hint: "),
        "{error}"
    );
    assert!(
        dataset::cleanup(&endpoint(server), "unlogged")
            .unwrap()
            .database
    );
    assert_eq!(binlog_end(server), begin);
    prepare(server, &plan).unwrap();
    assert_ne!(binlog_end(server), begin);
    plan.dataset.binlog = Some(Binlog::Unlogged);
    let error = prepare(server, &plan).unwrap_err().to_string();
    assert!(error.contains("through the binary log"), "{error}");
    assert!(
        dataset::cleanup(&endpoint(server), "unlogged")
            .unwrap()
            .database
    );
}

/// A program that reads the binary log as a replica does stands for one.
fn asks_what_replicas_get(server: &Server) {
    let mut plan = plan("followed", 100);
    prepare(server, &plan).unwrap();
    dataset::cleanup(&endpoint(server), "followed").unwrap();
    // It speaks MariaDB's dialect only.
    if server.kind != Kind::MariaDb {
        return;
    }
    let file = binlog_end(server);
    let file = file.split(' ').next().unwrap();
    let reader = Command::new("mariadb-binlog")
        .args(["--no-defaults", "--read-from-remote-server", "--stop-never"])
        .arg("--user=root")
        .arg(format!("--socket={}", server.socket().display()))
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut reader) = reader else {
        eprintln!("left out: mariadb-binlog is not installed");
        return;
    };
    let limit = Instant::now() + Duration::from_secs(30);
    while value(
        server,
        "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'",
    ) == "0"
        && Instant::now() < limit
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    let unsaid = prepare(server, &plan);
    plan.dataset.binlog = Some(Binlog::Logged);
    let said = prepare(server, &plan);
    let _ = reader.kill();
    let _ = reader.wait();
    let error = unsaid.unwrap_err().to_string();
    assert!(
        error.contains("replicas follow this server (root@") && error.contains("binlog ="),
        "{error}"
    );
    assert_eq!(said.unwrap().origin, "loaded");
}
