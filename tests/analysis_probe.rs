//! The server probe and its recorder against real servers: private ones in a temporary folder.
//! `MariaDB` is required; `MySQL` is tried when `CAPBENCH_TEST_MYSQL` names a mysqld, or when
//! tests/servers/mysql-9.7.sh has put one under target/.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::float_cmp,
    clippy::print_stderr
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use capbench::probe::counters::COUNTERS;
use capbench::probe::names::server as n;
use capbench::probe::{Recorder, host, server};
use capbench::record::Flavour;
use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};

/// A server that ends with the test.
struct Server {
    child: Child,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(binary: &Path, flavour: Flavour) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let datadir = format!("--datadir={}", data.display());
        // A starting server removes what looks like its left-overs from its temporary folder: never a shared one.
        let tmpdir = format!("--tmpdir={}", folder.path().display());
        let mut initialise = match flavour {
            Flavour::MariaDb => {
                let mut command = Command::new("mariadb-install-db");
                command.args([
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                    "--user=root",
                ]);
                command
            }
            Flavour::MySql => {
                let mut command = Command::new(binary);
                command.args(["--no-defaults", "--initialize-insecure", "--user=root"]);
                command
            }
        };
        let status = initialise
            .arg(&datadir)
            .arg(&tmpdir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{} does not initialise", binary.display());
        let socket = folder.path().join("s");
        let mut command = Command::new(binary);
        command
            .arg("--no-defaults")
            .arg(&datadir)
            .arg(&tmpdir)
            .arg(format!("--socket={}", socket.display()))
            .arg(format!(
                "--pid-file={}",
                folder.path().join("pid").display()
            ))
            .args([
                "--user=root",
                "--skip-networking",
                "--innodb-buffer-pool-size=64M",
            ]);
        if flavour == Flavour::MySql {
            command.args(["--secure-file-priv=", "--mysqlx=OFF"]);
        }
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self {
            child,
            socket,
            _folder: folder,
        };
        for _ in 0..600 {
            if server.try_connect().is_ok() {
                return server;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{} does not answer", binary.display());
    }

    fn try_connect(&self) -> Result<Conn, mysql::Error> {
        Conn::new(
            OptsBuilder::new()
                .user(Some("root"))
                .socket(Some(self.socket.to_string_lossy()))
                .read_timeout(Some(Duration::from_secs(5)))
                .write_timeout(Some(Duration::from_secs(5))),
        )
    }

    fn connect(&self) -> Conn {
        self.try_connect().unwrap()
    }
}

/// Every counter of the table is there, or listed with a reason; figures follow what is done.
fn counters_of(server: &Server, flavour: Flavour, absent: &[&str]) {
    let mut probe = server::Probe::new(server.connect(), flavour);
    let before = probe.sample().unwrap();
    let missing: Vec<&str> = COUNTERS
        .iter()
        .filter(|c| !c.optional && !before.values.contains_key(c.name))
        .map(|c| c.name)
        .collect();
    assert_eq!(missing, absent, "{:?}", probe.unavailable());
    assert_eq!(probe.unavailable().len(), absent.len());
    let mut conn = server.connect();
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
    let (mut a, mut b) = (server.connect(), server.connect());
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
            Some(Box::new(server::Probe::new(server.connect(), flavour))),
            Some(Box::new(host::Probe::new(Some(server.child.id())))),
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
    let pid = server.child.id().to_string();
    let signal = |name: &str| {
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    };
    signal("-STOP");
    std::thread::sleep(Duration::from_millis(200));
    let recording = recorder.finish();
    signal("-CONT");
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
    // Debian keeps it where an ordinary user's PATH does not look.
    let sbin = Path::new("/usr/sbin/mariadbd");
    let binary = if sbin.exists() {
        sbin
    } else {
        Path::new("mariadbd")
    };
    let server = Server::start(binary, Flavour::MariaDb);
    counters_of(&server, Flavour::MariaDb, &[n::LOG_FSYNCS]);
    recording_of(&server, Flavour::MariaDb);
}

#[test]
fn mysql_is_probed() {
    let binary = std::env::var_os("CAPBENCH_TEST_MYSQL").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers/mysql-9.7/mysqld"),
        PathBuf::from,
    );
    if !binary.exists() {
        eprintln!("skipped: no mysqld at {}", binary.display());
        return;
    }
    let server = Server::start(&binary, Flavour::MySql);
    counters_of(&server, Flavour::MySql, &[]);
    recording_of(&server, Flavour::MySql);
}
