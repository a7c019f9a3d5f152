//! A private server: made in a temporary folder, started, stopped, and removed without a trace.
//!
//! Its socket carries the administrator's connections; the load goes over TCP on a loopback port,
//! the way applications reach servers in production. It runs in a process group of its own, so
//! that Ctrl-C reaches capbench only, and capbench ends it.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::TargetError;
use super::locate::{Binary, install_script};
use super::orphans;
use super::process::{POLL, end_group, group_of, kill_group, wait_for_child, wait_for_group_end};
use super::snapshot::SHAPING;
use super::variables::option;
use crate::interrupt::Interrupt;
use crate::plan::Setting;
use crate::record::Flavour;

/// Longest path that fits `sockaddr_un.sun_path` with its final zero (unix(7)).
const MAX_SOCKET_PATH: usize = 107;
/// Time for a clean shutdown before the server is killed: InnoDB flushes its dirty pages.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Lines of the error log that a failure shows.
const LOG_LINES: usize = 12;
/// Other processes may take a free port between our look and the server's bind.
const PORT_ATTEMPTS: u32 = 3;

/// What exists now, for an end that has no time for destructors.
static EXISTING: Mutex<Vec<Existing>> = Mutex::new(Vec::new());

struct Existing {
    /// The server's folders; the first tells servers apart.
    folders: Vec<PathBuf>,
    /// The process group that runs in them, if any does.
    group: Option<Pid>,
}

/// Kills every private server of this process at once and removes its folder. For a second Ctrl-C, after
/// which no destructor runs; everything else closes its [`super::Server`].
pub fn end_private_servers() {
    for Existing { folders, group } in std::mem::take(&mut *existing()) {
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
            wait_for_group_end(group, Duration::from_secs(5));
        }
        for folder in folders {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn existing() -> MutexGuard<'static, Vec<Existing>> {
    EXISTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A private server and its folder.
#[derive(Debug)]
pub(crate) struct PrivateServer {
    binary: Binary,
    folder: TempDir,
    /// A second, shorter folder when the first one's path is too long for a socket.
    socket_folder: Option<TempDir>,
    /// Tells a later capbench that this one still owns the folder.
    _owned: std::fs::File,
    /// `--user=`, when capbench runs as root.
    user: Option<String>,
    port: u16,
    child: Option<Child>,
    /// Environment variables that hold secrets and are kept from the server.
    hidden: Vec<String>,
    start_timeout: Duration,
    /// Where this start's part of the log begins.
    log_start: u64,
}

impl PrivateServer {
    /// Makes the folder; nothing runs yet.
    pub(crate) fn new(
        binary: Binary,
        parent: Option<&Path>,
        hidden: Vec<String>,
        start_timeout: Duration,
    ) -> Result<Self, TargetError> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let parent = std::path::absolute(&parent).map_err(TargetError::file("read", &parent))?;
        let folder = make_folder(&parent)?;
        let too_long = folder
            .path()
            .join("mysql.sock")
            .as_os_str()
            .as_bytes()
            .len()
            > MAX_SOCKET_PATH;
        let socket_folder = if too_long {
            Some(make_folder(Path::new("/tmp"))?)
        } else {
            None
        };
        let owned = orphans::own(folder.path(), socket_folder.as_ref().map(TempDir::path))
            .map_err(TargetError::file("write into", folder.path()))?;
        let mut server = Self {
            binary,
            folder,
            socket_folder,
            _owned: owned,
            user: None,
            port: 0,
            child: None,
            hidden,
            start_timeout,
            log_start: 0,
        };
        existing().push(Existing {
            folders: server.folders(),
            group: None,
        });
        server.choose_user()?;
        Ok(server)
    }

    pub(crate) fn flavour(&self) -> Flavour {
        self.binary.flavour
    }

    pub(crate) fn program(&self) -> &Path {
        &self.binary.path
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn datadir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn pid_file(&self) -> PathBuf {
        self.folder.path().join("server.pid")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.socket_folder
            .as_ref()
            .unwrap_or(&self.folder)
            .path()
            .join("mysql.sock")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Process id of the running server; `None` when it does not run.
    pub(crate) fn pid(&self) -> Option<u32> {
        let child = self.child.as_ref()?;
        // A wrapper script that does not exec has a pid of its own; the server writes its true one.
        let written = std::fs::read_to_string(self.pid_file())
            .ok()
            .and_then(|text| text.trim().parse().ok());
        Some(written.unwrap_or_else(|| child.id()))
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("error.log")
    }

    /// Makes the data directory.
    pub(crate) fn initialise(
        &self,
        options: &[Setting],
        interrupt: &Interrupt,
    ) -> Result<(), TargetError> {
        let datadir = self.datadir();
        let mut datadir_option = OsString::from("--datadir=");
        datadir_option.push(&datadir);
        let mut command = match self.binary.flavour {
            Flavour::MariaDb => {
                let (script, base) = install_script(&self.binary.path)?;
                let mut command = Command::new(script);
                command.args([
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                ]);
                if let Some(base) = base {
                    let mut option = OsString::from("--basedir=");
                    option.push(base);
                    command.arg(option);
                }
                command
            }
            Flavour::MySql => {
                let mut command = Command::new(&self.binary.path);
                command.args([
                    "--no-defaults",
                    "--initialize-insecure",
                    "--loose-mysqlx=OFF",
                    "--secure-file-priv=",
                ]);
                command
            }
        };
        command.arg(datadir_option);
        // A server that starts removes what looks like its own left-overs from its temporary folder: in a
        // shared one those may be another server's tables in use.
        let mut tmpdir = OsString::from("--tmpdir=");
        tmpdir.push(self.folder.path());
        command.arg(tmpdir);
        if let Some(user) = &self.user {
            command.arg(format!("--user={user}"));
        }
        let initial = |s: &&Setting| SHAPING.contains(&s.name.as_str());
        command.args(options.iter().filter(initial).map(option));
        let mut child = self.spawn(&mut command)?;
        let ended = wait_for_child(&mut child, self.start_timeout, interrupt);
        self.note_group(None);
        match ended {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(self.failure("the data directory could not be made", status)),
            Ok(None) => {
                kill_group(&mut child);
                Err(TargetError::Private(format!(
                    "making the data directory took longer than {} s{}\nhint: raise start_timeout under [target]",
                    self.start_timeout.as_secs(),
                    self.log_tail()
                )))
            }
            Err(error) => {
                kill_group(&mut child);
                Err(error)
            }
        }
    }

    /// Starts the server with `options` and waits until `answers` says that it does.
    pub(crate) fn start(
        &mut self,
        options: &[Setting],
        interrupt: &Interrupt,
        mut answers: impl FnMut(&Self) -> bool,
    ) -> Result<(), TargetError> {
        for attempt in 1..=PORT_ATTEMPTS {
            if self.port == 0 || attempt > 1 {
                self.port = free_port()?;
            }
            match self.try_start(options, interrupt, &mut answers) {
                Err(TargetError::Private(text))
                    if attempt < PORT_ATTEMPTS && text.contains("Address already in use") => {}
                other => return other,
            }
        }
        Ok(())
    }

    fn try_start(
        &mut self,
        options: &[Setting],
        interrupt: &Interrupt,
        answers: &mut impl FnMut(&Self) -> bool,
    ) -> Result<(), TargetError> {
        let mut command = Command::new(&self.binary.path);
        command
            .arg("--no-defaults")
            .args(self.own_options())
            .args(options.iter().map(option));
        self.log_start = self.log().metadata().map_or(0, |m| m.len());
        // A stale one would name a process that is not ours.
        let _ = std::fs::remove_file(self.pid_file());
        let child = self.spawn(&mut command)?;
        self.child = Some(child);
        let deadline = Instant::now() + self.start_timeout;
        loop {
            if let Some(status) = self.exited() {
                let error = self.failure("the private server ended while it started", status);
                self.kill();
                return Err(error);
            }
            if answers(self) {
                return Ok(());
            }
            if interrupt.raised() {
                self.kill();
                return Err(TargetError::Interrupted);
            }
            if Instant::now() >= deadline {
                let error = TargetError::Private(format!(
                    "the private server did not answer within {} s{}\nhint: raise start_timeout under [target]",
                    self.start_timeout.as_secs(),
                    self.log_tail()
                ));
                self.kill();
                return Err(error);
            }
            std::thread::sleep(POLL);
        }
    }

    fn own_options(&self) -> Vec<OsString> {
        let with = |name: &str, path: PathBuf| {
            let mut option = OsString::from(name);
            option.push(path);
            option
        };
        let folder = self.folder.path();
        let mut options = vec![
            with("--datadir=", self.datadir()),
            with("--tmpdir=", folder.to_owned()),
            with("--socket=", self.socket()),
            with("--pid-file=", self.pid_file()),
            with("--log-error=", self.log()),
            "--bind-address=127.0.0.1".into(),
            format!("--port={}", self.port).into(),
        ];
        if self.binary.flavour == Flavour::MySql {
            options.extend(["--loose-mysqlx=OFF".into(), "--secure-file-priv=".into()]);
        }
        if let Some(user) = &self.user {
            options.push(format!("--user={user}").into());
        }
        options
    }

    fn spawn(&self, command: &mut Command) -> Result<Child, TargetError> {
        let output = self.folder.path().join("output.log");
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&output)
            .map_err(TargetError::file("create", &output))?;
        let second = output
            .try_clone()
            .map_err(TargetError::file("create", self.folder.path()))?;
        for name in &self.hidden {
            command.env_remove(name);
        }
        let child = command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(second)
            .process_group(0)
            .spawn()
            .map_err(|e| {
                TargetError::Private(format!(
                    "cannot run `{}`: {e}",
                    command.get_program().to_string_lossy()
                ))
            })?;
        self.note_group(Some(group_of(&child)));
        Ok(child)
    }

    fn note_group(&self, group: Option<Pid>) {
        for one in &mut *existing() {
            if one.folders.iter().any(|f| f == self.folder.path()) {
                one.group = group;
            }
        }
    }

    /// How the server ended, if it did by itself.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    /// What happened to a server that ended by itself, with the last lines of its log.
    pub(crate) fn death(&mut self) -> Option<TargetError> {
        use std::os::unix::process::ExitStatusExt as _;
        let status = self.exited()?;
        // A server that is killed says nothing; the last it wrote tells of its start.
        Some(TargetError::Lost(
            if status.signal() == Some(Signal::KILL.as_raw()) {
                format!(
                    "the private server was killed ({status}), as the kernel does when memory runs out (see dmesg)"
                )
            } else {
                format!(
                    "the private server ended by itself ({status}){}",
                    self.log_tail()
                )
            },
        ))
    }

    /// Ends the server: SIGTERM, time for a clean shutdown, SIGKILL. The user's wish to end cuts the time
    /// short: what comes then is the end of the run, and of this server's data.
    pub(crate) fn stop(&mut self, interrupt: &Interrupt) {
        self.stop_cleanly(STOP_TIMEOUT, interrupt);
    }

    /// As [`Self::stop`], within `patience`; whether the server ended in time and said that all was well.
    pub(crate) fn stop_cleanly(&mut self, patience: Duration, interrupt: &Interrupt) -> bool {
        let Some(mut child) = self.child.take() else {
            return false;
        };
        end_group(&mut child, patience, interrupt);
        self.note_group(None);
        matches!(child.try_wait(), Ok(Some(status)) if status.success())
    }

    /// Ends the server at once, when nobody needs its data any more: a clean shutdown would write it all to
    /// the disk, and on a full disk or a failing one never end.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill_group(&mut child);
            self.note_group(None);
        }
    }

    /// Kills the server and removes its folder.
    pub(crate) fn remove(mut self) -> Result<(), TargetError> {
        self.kill();
        for folder in self.folders() {
            match std::fs::remove_dir_all(&folder) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(TargetError::file("remove", folder)(e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn folders(&self) -> Vec<PathBuf> {
        std::iter::once(&self.folder)
            .chain(&self.socket_folder)
            .map(|f| f.path().to_owned())
            .collect()
    }

    fn failure(&self, what: &str, status: ExitStatus) -> TargetError {
        let tail = self.log_tail();
        let hint = if tail.contains("ermission denied") || tail.contains("rrcode: 13") {
            "\nhint: may this account use the folder? AppArmor or SELinux may confine the server to its usual folders; state directory under [target.managed]"
        } else if tail.contains("unknown option") || tail.contains("unknown variable") {
            "\nhint: this server does not know one of the options under [target.managed] or of a variant"
        } else {
            ""
        };
        TargetError::Private(format!(
            "{what} (`{}`, {status}){tail}{hint}",
            self.binary.path.display()
        ))
    }

    /// The last lines of what this start has written, errors rather than notes; starts with a line break.
    fn log_tail(&self) -> String {
        let log = std::fs::read(self.log()).unwrap_or_default();
        let start = usize::try_from(self.log_start).unwrap_or(0).min(log.len());
        let mut text = String::from_utf8_lossy(&log[start..]).into_owned();
        if text.trim().is_empty() {
            let output = std::fs::read(self.folder.path().join("output.log")).unwrap_or_default();
            text = String::from_utf8_lossy(&output).into_owned();
        }
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        let telling: Vec<&str> = lines
            .iter()
            .copied()
            .filter(|l| !l.contains("[Note]") && !l.contains("[System]"))
            .collect();
        let lines = if telling.is_empty() { lines } else { telling };
        // An installer ends with a page of general advice; what the server said stands before it.
        let errors: Vec<&str> = lines
            .iter()
            .copied()
            .filter(|l| l.contains("[ERROR]") || l.contains("FATAL"))
            .collect();
        let lines = if errors.is_empty() { lines } else { errors };
        lines[lines.len().saturating_sub(LOG_LINES)..]
            .iter()
            .fold(String::new(), |all, line| all + "\n  | " + line)
    }

    /// As root the server runs as the account `mysql`, if there is one that can reach folder and program.
    fn choose_user(&mut self) -> Result<(), TargetError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        self.user = Some("root".to_owned());
        let (Some(uid), Some(gid)) = (id("-u"), id("-g")) else {
            return Ok(());
        };
        let folders = self.folders();
        let outside = folders
            .iter()
            .filter_map(|f| f.parent())
            .chain(self.binary.path.parent());
        if outside
            .flat_map(Path::ancestors)
            .all(|f| can_pass(f, uid, gid))
        {
            for folder in &folders {
                std::os::unix::fs::chown(folder, Some(uid), Some(gid))
                    .map_err(TargetError::file("give to account mysql", folder))?;
            }
            self.user = Some("mysql".to_owned());
        }
        Ok(())
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        self.kill();
        existing().retain(|one| !one.folders.iter().any(|f| f == self.folder.path()));
    }
}

fn make_folder(parent: &Path) -> Result<TempDir, TargetError> {
    tempfile::Builder::new()
        .prefix(orphans::PREFIX)
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .map_err(TargetError::file("create a temporary folder in", parent))
}

fn free_port() -> Result<u16, TargetError> {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|l| l.local_addr())
        .map(|a| a.port())
        .map_err(|e| TargetError::Private(format!("there is no free loopback port: {e}")))
}

/// Numeric id of account `mysql`, from whichever directory service the host uses.
fn id(which: &str) -> Option<u32> {
    let output = Command::new("id")
        .args([which, "mysql"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn can_pass(folder: &Path, uid: u32, gid: u32) -> bool {
    folder.metadata().is_ok_and(|m| {
        let mode = m.permissions().mode();
        mode & 0o001 != 0
            || (m.uid() == uid && mode & 0o100 != 0)
            || (m.gid() == gid && mode & 0o010 != 0)
    })
}
