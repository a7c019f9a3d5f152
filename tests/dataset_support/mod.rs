//! A private server of the tests' own, and a plan against it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "a test may fail by panic"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use capbench::plan::{
    Account, Address, AnalysisOptions, Criteria, DataSize, Dataset, Guard, Hooks, Ladder,
    LoadOptions, OnFailure, PasswordSource, Place, Plan, Protocol, ReportOptions, Reset,
    ServerPlace, Step, Target, Tls, TlsMode, Variant, Warmup,
};
use capbench::target::{Endpoint, Secret};
use capbench::units::{Ratio, Span};
use capbench::workload::{Access, Distribution};
use mysql::prelude::Queryable;

/// A server that ends with this value.
pub struct PrivateServer {
    child: Child,
    folder: tempfile::TempDir,
}

/// The `mysqld` to test with, if one was named or put into target/ by tests/servers/mysql-9.7.sh.
pub fn mysql_binary() -> Option<PathBuf> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers/mysql-9.7/mysqld");
    std::env::var_os("CAPBENCH_TEST_MYSQL")
        .map(PathBuf::from)
        .into_iter()
        .chain([fetched])
        .find(|path| path.exists())
}

impl PrivateServer {
    pub fn mariadb(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let done = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--auth-root-authentication-method=normal"])
            .args(user())
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--tmpdir={}", folder.path().display()))
            .output()
            .expect("mariadb-install-db is installed");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stdout)
        );
        let binary = ["/usr/sbin/mariadbd", "/usr/local/sbin/mariadbd"]
            .into_iter()
            .find(|path| Path::new(path).exists())
            .unwrap_or("mariadbd");
        Self::start(Path::new(binary), folder, options)
    }

    pub fn mysql(binary: &Path, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let done = Command::new(binary)
            .args(["--no-defaults", "--initialize-insecure"])
            .args(user())
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--tmpdir={}", folder.path().display()))
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        let mut all = vec!["--mysqlx=OFF", "--secure-file-priv=", "--sync-binlog=0"];
        all.extend(options);
        Self::start(binary, folder, &all)
    }

    fn start(binary: &Path, folder: tempfile::TempDir, options: &[&str]) -> Self {
        let path = |name: &str| folder.path().join(name).display().to_string();
        let child = Command::new(binary)
            .arg("--no-defaults")
            .args(user())
            .arg(format!("--datadir={}", path("data")))
            .arg(format!("--tmpdir={}", folder.path().display()))
            .arg(format!("--socket={}", path("s")))
            .arg(format!("--pid-file={}", path("pid")))
            .arg(format!("--log-error={}", path("log")))
            .arg("--skip-networking")
            .arg("--innodb-flush-log-at-trx-commit=0")
            .arg("--innodb-doublewrite=OFF")
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self { child, folder };
        let deadline = Instant::now() + Duration::from_secs(60);
        while mysql::Conn::new(server.endpoint().opts(false)).is_err() {
            let ended = server.child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "the server does not start:\n{}",
                std::fs::read_to_string(server.folder.path().join("log")).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    pub fn endpoint(&self) -> Endpoint {
        Endpoint {
            address: Address::Socket(self.folder.path().join("s")),
            user: "root".to_owned(),
            password: Secret::default(),
            database: None,
            tls: Tls {
                mode: TlsMode::Disabled,
                ca: None,
            },
            connect_timeout: Duration::from_secs(10),
        }
    }

    pub fn conn(&self) -> mysql::Conn {
        mysql::Conn::new(self.endpoint().opts(false)).unwrap()
    }

    pub fn run(&self, sql: &str) {
        self.conn().query_drop(sql).unwrap();
    }

    pub fn value(&self, sql: &str) -> String {
        let value: Option<Option<String>> = self.conn().query_first(sql).unwrap();
        value.flatten().unwrap_or_else(|| "NULL".to_owned())
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        // The data is thrown away: nothing has to be saved.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Servers refuse to run as root unless told to.
fn user() -> Option<&'static str> {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| {
        use std::os::unix::fs::MetadataExt as _;
        m.uid() == 0
    });
    root.then_some("--user=root")
}

/// A plan with 3 tables of `rows` rows in `database`.
pub fn plan(database: &str, rows: u64) -> Plan {
    Plan {
        name: "test".to_owned(),
        seed: 42,
        accept: Vec::new(),
        on_failure: OnFailure::Stop,
        environment: Vec::new(),
        target: Target {
            place: Place::Server(ServerPlace {
                address: Address::Socket(PathBuf::from("unused")),
                account: Account {
                    user: None,
                    password: PasswordSource::Empty,
                },
                admin: None,
                tls: Tls {
                    mode: TlsMode::Disabled,
                    ca: None,
                },
                hooks: Hooks::default(),
            }),
            database: database.to_owned(),
            set: Vec::new(),
            connect_timeout: Span(Duration::from_secs(10)),
            start_timeout: Span(Duration::from_secs(60)),
        },
        dataset: Dataset {
            tables: 3,
            size: DataSize::Rows(rows),
            load_threads: 3,
            reset: Reset::PerVariant,
            existing: false,
            keep: false,
            auto_inc: true,
            secondary_index: true,
            secondary: false,
            table_options: String::new(),
            engine: "innodb".to_owned(),
        },
        warmup: Warmup {
            workload: None,
            duration: Span(Duration::ZERO),
            threads: 1,
        },
        ladder: Ladder {
            workloads: Vec::new(),
            steps: vec![Step::Threads(2), Step::Threads(5)],
            open: None,
            discard: Span(Duration::ZERO),
            measure: Span(Duration::from_secs(1)),
            events: None,
            interval: Span(Duration::from_secs(1)),
            repeats: 1,
        },
        access: Access {
            distribution: Distribution::Uniform,
        },
        load: LoadOptions {
            protocol: Protocol::Prepared,
            retries: 0,
            workers: 0,
            max_prepared_per_connection: 0,
            connect_timeout: Span(Duration::from_secs(10)),
            drain_timeout: Span(Duration::from_secs(1)),
            reconnect_backoff: Span(Duration::from_secs(1)),
        },
        variants: vec![Variant {
            name: "baseline".to_owned(),
            set: Vec::new(),
            options: Vec::new(),
            restart: false,
            operator: false,
            several: false,
        }],
        guard: Guard {
            max_p95: None,
            max_errors: None,
            max_server_cpu: None,
            window: None,
            allow_other_clients: false,
        },
        criteria: Criteria::default(),
        analysis: AnalysisOptions {
            knee_gain: Ratio(0.2),
        },
        report: ReportOptions::default(),
        warnings: Vec::new(),
    }
}
