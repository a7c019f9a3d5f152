//! Real servers for tests.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code; not every test file uses every helper"
)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Server programs to test with: MariaDB is required, MySQL joins in when it is present
/// (`CAPBENCH_TEST_MYSQL`, or what `tests/servers/mysql-9.7.sh` made).
#[allow(
    clippy::print_stderr,
    reason = "says in the test's output what was left out"
)]
pub(crate) fn servers() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mariadb = std::env::split_paths(&folders)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/libexec")])
        .map(|folder| folder.join("mariadbd"))
        .find(|file| file.is_file());
    found.push(mariadb.expect("mariadbd is needed for tests: apt-get install mariadb-server"));
    let mysql = std::env::var_os("CAPBENCH_TEST_MYSQL").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers/mysql-9.7/mysqld"),
        PathBuf::from,
    );
    if mysql.is_file() {
        found.push(mysql);
    } else {
        eprintln!(
            "skipped: MySQL (no {}; tests/servers/mysql-9.7.sh makes it)",
            mysql.display()
        );
    }
    found
}

pub(crate) fn is_mariadb(binary: &Path) -> bool {
    binary.ends_with("mariadbd")
}

/// A temporary folder that the account `mysql` gets through, for tests that run as root.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir()
        .unwrap()
}

/// A server that capbench did not start: `root` without a password on its socket. `restart.sh` restarts
/// it with what stands in the file `options`, which `apply.sh` writes from `CAPBENCH_OPTIONS`.
pub(crate) struct External {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) port: u16,
}

impl External {
    pub(crate) fn start(binary: &Path) -> Self {
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        let user = if rustix::process::geteuid().is_root() {
            "--user=root"
        } else {
            ""
        };
        let extra = if is_mariadb(binary) {
            "--innodb-log-file-size=16M"
        } else {
            "--mysqlx=OFF --secure-file-priv="
        };
        let datadir = format!("--datadir={}", at("data").display());
        let mut init = if is_mariadb(binary) {
            let mut init = Command::new("mariadb-install-db");
            init.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
            init
        } else {
            let mut init = Command::new(binary);
            init.args(["--no-defaults", "--initialize-insecure"]);
            init.args(extra.split(' '));
            init
        };
        // A starting server removes what looks like its left-overs from its temporary folder: never a shared one.
        let tmpdir = format!("--tmpdir={}", folder.path().display());
        init.args([&datadir, &tmpdir]);
        if !user.is_empty() {
            init.arg(user);
        }
        let made = init.stdin(Stdio::null()).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))
            .and_then(|l| l.local_addr())
            .unwrap()
            .port();
        let dir = folder.path().display();
        std::fs::write(at("options"), "").unwrap();
        // Not --no-defaults: with that, MySQL ignores what SET PERSIST has written.
        std::fs::write(at("my.cnf"), "").unwrap();
        script(
            &at("start.sh"),
            &format!(
                "{} --defaults-file={dir}/my.cnf {user} {extra} {datadir} {tmpdir} --socket={dir}/s --port={port} \
                 --bind-address=127.0.0.1 --pid-file={dir}/pid --log-error={dir}/log $(cat {dir}/options) \
                 >>{dir}/out 2>&1 </dev/null &",
                binary.display()
            ),
        );
        script(
            &at("restart.sh"),
            &format!(
                "p=$(cat {dir}/pid); kill $p; n=0\n\
                 while kill -0 $p 2>/dev/null && [ $n -lt 1200 ]; do sleep 0.05; n=$((n+1)); done\n\
                 sleep 1.1; exec {dir}/start.sh"
            ),
        );
        script(
            &at("apply.sh"),
            &format!(
                "echo \"$CAPBENCH_OPTIONS\" >{dir}/options\necho \"$CAPBENCH_VARIANT\" >>{dir}/applied"
            ),
        );
        let server = Self { folder, port };
        server.start_again();
        server
    }

    /// Starts the server, which does not run.
    pub(crate) fn start_again(&self) {
        let server = self;
        assert!(
            Command::new(server.path("start.sh"))
                .status()
                .unwrap()
                .success()
        );
        let up = (0..1200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            server.try_root().is_some()
        });
        assert!(
            up,
            "{}",
            std::fs::read_to_string(server.path("log")).unwrap_or_default()
        );
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn try_root(&self) -> Option<mysql::Conn> {
        let opts = mysql::OptsBuilder::new()
            .user(Some("root"))
            .socket(Some(self.path("s").to_string_lossy()));
        mysql::Conn::new(opts).ok()
    }

    pub(crate) fn root(&self) -> mysql::Conn {
        self.try_root().expect("root gets in by the socket")
    }
}

impl Drop for External {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(self.path("pid")).unwrap_or_default();
        let Some(pid) = pid
            .trim()
            .parse()
            .ok()
            .and_then(rustix::process::Pid::from_raw)
        else {
            return;
        };
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        for _ in 0..500 {
            if rustix::process::test_kill_process(pid).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
