//! A server of the test's own: its folder, socket and loopback port; ended by its own process id.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder};
use rustix::process::{Pid, Signal};

use super::Kind;

/// Longest start of a server on a busy machine.
const START: Duration = Duration::from_secs(90);
/// Attempts to start with a free port: another process may take the port in between.
const ATTEMPTS: u32 = 3;

/// A running server; it ends, and its folder goes, with this value.
pub(crate) struct Server {
    pub(crate) kind: Kind,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) port: u16,
    options: Vec<String>,
    child: Option<Child>,
}

impl Server {
    /// Makes and starts a fresh server; `options` come after the common ones.
    pub(crate) fn start(kind: Kind, options: &[&str]) -> Self {
        let folder = folder();
        initialise(kind, folder.path());
        let mut server = Self {
            kind,
            folder,
            port: free_port(),
            options: options.iter().map(ToString::to_string).collect(),
            child: None,
        };
        let mut attempts = 1;
        while !server.try_start() {
            assert!(attempts < ATTEMPTS, "no start:\n{}", server.log());
            attempts += 1;
            server.port = free_port();
        }
        server
    }

    /// Starts the program again on its data and its port; waits until it answers.
    pub(crate) fn restart(&mut self) {
        assert!(self.try_start(), "no start:\n{}", self.log());
    }

    /// Whether it came to answer; false when it ended instead.
    fn try_start(&mut self) -> bool {
        let mut command = Command::new(self.kind.binary());
        command
            .arg("--no-defaults")
            .args(arguments(self.kind, self.folder.path(), self.port))
            .args(&self.options)
            .env("TMPDIR", self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        let deadline = Instant::now() + START;
        loop {
            if self.try_root().is_some() {
                return true;
            }
            let ended = self.child.as_mut().is_none_or(|c| {
                c.try_wait()
                    .expect("the server is a child of this process")
                    .is_some()
            });
            if ended {
                return false;
            }
            assert!(
                Instant::now() < deadline,
                "the server does not answer:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Path of the socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// Process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().expect("the server runs").id()
    }

    pub(crate) fn try_root(&self) -> Option<Conn> {
        root(&self.socket())
    }

    /// A connection of the administrator.
    pub(crate) fn root(&self) -> Conn {
        self.try_root().expect("root gets in by the socket")
    }

    /// Runs a statement as the administrator.
    pub(crate) fn run(&self, sql: &str) {
        self.root()
            .query_drop(sql)
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }

    /// Sends a signal to the server.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(self.child.as_ref().expect("the server runs"));
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

/// A temporary folder that the account `mysql` gets through, for tests that run as root.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("cb")
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir()
        .unwrap()
}

/// The administrator of a server that listens on `socket`; bounded, since a stopped one never answers.
pub(super) fn root(socket: &Path) -> Option<Conn> {
    let limit = Some(Duration::from_secs(30));
    let opts = OptsBuilder::new()
        .socket(Some(socket.to_string_lossy()))
        .user(Some("root"))
        .read_timeout(limit)
        .write_timeout(limit);
    Conn::new(opts).ok()
}

pub(super) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Makes `data` in the folder: `root` without a password.
pub(super) fn initialise(kind: Kind, folder: &Path) {
    let data = folder.join("data");
    let mut input = Stdio::null();
    let mut command = match kind {
        Kind::MariaDb => {
            let mut command = Command::new("mariadb-install-db");
            command.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
            command
        }
        Kind::MySql => {
            let mut command = Command::new(kind.binary());
            command.args(["--no-defaults", "--initialize-insecure"]);
            command
        }
        Kind::MySql56 => {
            // It has no --initialize: it is fed the statements that its installer would feed it.
            fs::create_dir_all(data.join("mysql")).unwrap();
            let share = kind.binary().with_file_name("share");
            let script = ["mysql_system_tables.sql", "mysql_system_tables_data.sql"]
                .map(|name| fs::read_to_string(share.join(name)).unwrap());
            let sql = folder.join("bootstrap.sql");
            fs::write(&sql, format!("use mysql;\n{}", script.concat())).unwrap();
            input = File::open(&sql).unwrap().into();
            let mut command = Command::new(kind.binary());
            command.args(["--no-defaults", "--bootstrap"]);
            command
        }
    };
    let made = command
        .args(common(folder))
        // The script that makes MariaDB's data has temporary files of its own.
        .env("TMPDIR", folder)
        .stdin(input)
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", command.get_program().display()));
    assert!(
        made.status.success(),
        "the data folder was not made: {}{}",
        String::from_utf8_lossy(&made.stdout),
        String::from_utf8_lossy(&made.stderr)
    );
}

/// Options of a server that is made and of one that runs.
fn common(folder: &Path) -> Vec<String> {
    let mut options = vec![
        format!("--datadir={}", folder.join("data").display()),
        // A starting server removes what looks like its left-overs from its temporary folder: never a
        // shared one.
        format!("--tmpdir={}", folder.display()),
        // Many servers at once exhaust the system's asynchronous requests (fs.aio-max-nr).
        "--innodb-use-native-aio=0".to_owned(),
    ];
    if rustix::process::geteuid().is_root() {
        options.push("--user=root".to_owned());
    }
    options
}

/// Options of a server that runs.
pub(super) fn arguments(kind: Kind, folder: &Path, port: u16) -> Vec<String> {
    let mut options = common(folder);
    options.extend(
        [("socket", "s"), ("pid-file", "pid"), ("log-error", "log")]
            .map(|(option, file)| format!("--{option}={}", folder.join(file).display())),
    );
    options.push(format!("--port={port}"));
    options.push("--bind-address=127.0.0.1".to_owned());
    if kind == Kind::MySql {
        options.extend(["--mysqlx=OFF", "--secure-file-priv="].map(str::to_owned));
    }
    options
}
