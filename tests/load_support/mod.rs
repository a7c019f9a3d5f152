//! A private server for a test: its own folder, socket and loopback port; ended by its own process id.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use tempfile::TempDir;

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Debian's `MariaDB`; required.
    MariaDb,
    /// `MySQL` 9.7, when it is there.
    MySql,
}

/// A running server.
pub(crate) struct Server {
    pub(crate) folder: TempDir,
    pub(crate) port: u16,
    pub(crate) kind: Kind,
    binary: PathBuf,
    options: Vec<String>,
    child: Option<Child>,
}

/// The `MySQL` binary of this machine, if any.
pub(crate) fn mysql_binary() -> Option<PathBuf> {
    std::env::var_os("CAPBENCH_TEST_MYSQL")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from("target/servers/mysql-9.7/mysqld")))
        .filter(|path| path.exists())
}

/// The servers that are there; says so when one is not.
pub(crate) fn kinds() -> Vec<Kind> {
    let mut kinds = vec![Kind::MariaDb];
    if mysql_binary().is_some() {
        kinds.push(Kind::MySql);
    } else {
        eprintln!("MySQL is not there (CAPBENCH_TEST_MYSQL): tested with MariaDB only");
    }
    kinds
}

fn find(name: &str) -> PathBuf {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/usr/local/sbin"])
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{name} is not installed"))
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

impl Server {
    /// Starts a fresh server with `options` and makes the account bench/secret and the database bench.
    pub(crate) fn start(kind: Kind, options: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("cb").tempdir().unwrap();
        let data = folder.path().join("data");
        let binary = match kind {
            Kind::MariaDb => find("mariadbd"),
            Kind::MySql => mysql_binary().unwrap(),
        };
        let mut init = match kind {
            Kind::MariaDb => {
                let mut command = Command::new(find("mariadb-install-db"));
                command.args([
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                ]);
                command
            }
            Kind::MySql => {
                let mut command = Command::new(&binary);
                command.args(["--no-defaults", "--initialize-insecure"]);
                command
            }
        };
        // Many servers at once exhaust the system's asynchronous requests (fs.aio-max-nr).
        let made = init
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--tmpdir={}", folder.path().display()))
            .arg("--innodb-use-native-aio=0")
            .args(user())
            // Servers that are made at the same time take the same names for temporary tables.
            .env("TMPDIR", folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "the data folder was made: {}{}",
            String::from_utf8_lossy(&made.stdout),
            String::from_utf8_lossy(&made.stderr)
        );
        let mut server = Self {
            folder,
            port: free_port(),
            kind,
            binary,
            options: options.iter().map(ToString::to_string).collect(),
            child: None,
        };
        server.restart();
        let mut root = server.root();
        if kind == Kind::MariaDb {
            root.query_drop("DELETE FROM mysql.global_priv WHERE user=''")
                .unwrap();
            root.query_drop("FLUSH PRIVILEGES").unwrap();
        }
        root.query_drop("CREATE DATABASE bench").unwrap();
        root.query_drop("CREATE USER bench@'%' IDENTIFIED BY 'secret'")
            .unwrap();
        root.query_drop("GRANT ALL ON bench.* TO bench@'%'")
            .unwrap();
        server
    }

    /// Starts the server program on its data; waits until it answers.
    pub(crate) fn restart(&mut self) {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let mut command = Command::new(&self.binary);
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", at("data")))
            .arg(format!("--tmpdir={}", self.folder.path().display()))
            .arg(format!("--socket={}", at("s")))
            .arg(format!("--pid-file={}", at("pid")))
            .arg(format!("--log-error={}", at("log")))
            .arg(format!("--port={}", self.port))
            .args(["--bind-address=127.0.0.1", "--max-connections=600"])
            .args(["--innodb-buffer-pool-size=64M", "--secure-file-priv="])
            .arg("--innodb-use-native-aio=0")
            .args(user())
            .env("TMPDIR", self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if self.kind == Kind::MySql {
            command.args(["--mysqlx=OFF", "--innodb-redo-log-capacity=64M"]);
        }
        command.args(&self.options);
        self.child = Some(command.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(90);
        while self.try_root().is_none() {
            assert!(
                Instant::now() < deadline,
                "the server answers; its log: {}",
                std::fs::read_to_string(at("log")).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Path of the socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    fn try_root(&self) -> Option<Conn> {
        let opts = OptsBuilder::new()
            .socket(Some(self.socket().display().to_string()))
            .user(Some("root"));
        Conn::new(opts).ok()
    }

    /// A connection of the administrator.
    pub(crate) fn root(&self) -> Conn {
        self.try_root().expect("the server answers")
    }

    /// Makes `tables` standard tables of `rows` rows.
    pub(crate) fn prepare(&self, tables: u32, rows: u32) {
        let mut root = self.root();
        root.query_drop("USE bench").unwrap();
        for table in 1..=tables {
            root.query_drop(format!(
                "CREATE TABLE sbtest{table} (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER NOT NULL \
                 DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', \
                 PRIMARY KEY (id), KEY k_{table} (k)) ENGINE=InnoDB"
            ))
            .unwrap();
            for chunk in (1..=rows).collect::<Vec<_>>().chunks(1000) {
                let values: Vec<String> = chunk
                    .iter()
                    .map(|id| format!("({id},{id},'c-{id}','pad')"))
                    .collect();
                root.query_drop(format!(
                    "INSERT INTO sbtest{table} (id,k,c,pad) VALUES {}",
                    values.join(",")
                ))
                .unwrap();
            }
        }
    }

    /// Sends a signal to the server.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = self.child.as_ref().unwrap().id();
        let pid = rustix::process::Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A status counter, read without adding to the counters of statements that clients send.
pub(crate) fn status(root: &mut Conn, name: &str) -> u64 {
    let row: Option<(String, u64)> = root
        .query_first(format!("SHOW GLOBAL STATUS LIKE '{name}'"))
        .unwrap();
    row.unwrap().1
}

fn user() -> Option<&'static str> {
    rustix::process::geteuid()
        .is_root()
        .then_some("--user=root")
}
