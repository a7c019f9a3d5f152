//! The built command in a folder of its own, each run bounded in time.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::servers;

/// No run here needs a tenth of this; what takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// A folder with everything of one test: plans, runs, and in `tmp` the private servers.
pub(crate) struct Lab {
    folder: tempfile::TempDir,
}

/// A command that ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A command that runs.
pub(crate) struct Running {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let folder = servers::folder();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of the test.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capbench"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("TMPDIR", self.path("tmp"))
            .env("HOME", self.folder.path())
            .env_remove("XDG_CACHE_HOME")
            .env_remove("CAPBENCH_CACHE_DIR")
            .env_remove("CAPBENCH_CACHE_SIZE")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.start(self.command(args)).wait()
    }

    pub(crate) fn start(&self, mut command: Command) -> Running {
        let number = std::fs::read_dir(self.folder.path()).unwrap().count();
        let (stdout, stderr) = (
            self.path(&format!("stdout-{number}")),
            self.path(&format!("stderr-{number}")),
        );
        let child = command
            .stdout(std::fs::File::create(&stdout).unwrap())
            .stderr(std::fs::File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        Running {
            child,
            stdout,
            stderr,
        }
    }

    /// The one folder of a private server that exists now.
    pub(crate) fn private_folder(&self) -> PathBuf {
        let folders = entries(&self.path("tmp"));
        assert_eq!(folders.len(), 1, "{folders:?}");
        folders[0].clone()
    }

    /// Process id of the private server that runs now.
    pub(crate) fn private_pid(&self) -> Pid {
        pid(&self.private_folder().join("server.pid"))
    }

    /// No process of a private server and no folder of it is left.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(entries(&self.path("tmp")), Vec::<PathBuf>::new());
        assert_eq!(self.server_processes(), Vec::<String>::new());
    }

    /// Command lines of processes that name this test's temporary folder.
    pub(crate) fn server_processes(&self) -> Vec<String> {
        let mark = self.path("tmp").to_string_lossy().into_owned();
        command_lines()
            .into_iter()
            .filter(|line| line.contains(&mark))
            .collect()
    }
}

impl Drop for Lab {
    /// A test that failed may leave a private server behind; it goes with the test's folder.
    fn drop(&mut self) {
        for folder in std::fs::read_dir(self.path("tmp"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let Ok(text) = std::fs::read_to_string(folder.path().join("server.pid")) else {
                continue;
            };
            let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw) else {
                continue;
            };
            let command = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()));
            let folder = folder.path().to_string_lossy().into_owned();
            if String::from_utf8_lossy(&command.unwrap_or_default()).contains(&folder) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Waits until stderr holds `text`.
    pub(crate) fn said(&mut self, text: &str) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let said = std::fs::read_to_string(&self.stderr).unwrap_or_default();
            if said.contains(text) {
                return;
            }
            let ended = self.child.try_wait().unwrap();
            if ended.is_some() || Instant::now() > deadline {
                let _ = self.child.kill();
                let lines: Vec<&str> = said.lines().collect();
                let last = lines[lines.len().saturating_sub(40)..].join("\n");
                panic!("never said `{text}` ({ended:?}):\n{last}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn wait(mut self) -> Ended {
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if Instant::now() > deadline => break None,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let (stdout, stderr) = (read(&self.stdout), read(&self.stderr));
        let Some(status) = status else {
            let _ = self.child.kill();
            let _ = self.child.wait();
            panic!("still runs after {LIMIT:?}\n{stdout}\n{stderr}");
        };
        Ended {
            // Ended by a signal: no exit code.
            code: status.code().unwrap_or(-1),
            stdout,
            stderr,
        }
    }
}

impl Ended {
    /// The exit code is `code`, else everything it said is shown.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code, code,
            "stdout:\n{}\nstderr:\n{}",
            self.stdout, self.stderr
        );
        self
    }

    /// It ended with a report; how valid its cells are is the machine's affair.
    #[track_caller]
    pub(crate) fn measured(self) -> Self {
        let code = if self.code == 4 { 4 } else { 0 };
        self.expect(code)
    }

    /// Both outputs hold `text` somewhere.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Self {
        assert!(
            self.stdout.contains(text) || self.stderr.contains(text),
            "does not say `{text}`\nstdout:\n{}\nstderr:\n{}",
            self.stdout,
            self.stderr
        );
        self
    }
}

pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    found.sort();
    found
}

pub(crate) fn pid(file: &Path) -> Pid {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    text.trim().parse().ok().and_then(Pid::from_raw).unwrap()
}

fn command_lines() -> Vec<String> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|e| std::fs::read(e.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .collect()
}

/// Every file below a folder with its content.
pub(crate) fn all_files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for path in entries(folder) {
        if path.is_dir() {
            found.extend(all_files(&path));
        } else {
            let content = std::fs::read(&path).unwrap_or_default();
            found.push((path, content));
        }
    }
    found
}

/// A table of a run folder: one map a row.
pub(crate) fn csv_rows(path: &Path) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut reader =
        csv::Reader::from_path(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    reader
        .deserialize()
        .collect::<Result<_, _>>()
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
