//! A server that capbench did not start, with the hooks of someone who runs it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::server::{self, arguments, initialise};
use super::{Kind, folder};

/// A server that capbench did not start: `root` without a password on its socket. `restart.sh` restarts
/// it with what stands in the file `options`, which `apply.sh` writes from `CAPBENCH_OPTIONS`.
pub(crate) struct External {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) port: u16,
}

impl External {
    pub(crate) fn start(binary: &Path) -> Self {
        let kind = Kind::of(binary);
        let folder = folder();
        initialise(kind, folder.path());
        let at = |name: &str| folder.path().join(name);
        let port = server::free_port();
        let dir = folder.path().display();
        std::fs::write(at("options"), "").unwrap();
        // Not --no-defaults: with that, MySQL ignores what SET PERSIST has written.
        std::fs::write(at("my.cnf"), "").unwrap();
        script(
            &at("start.sh"),
            &format!(
                "{} --defaults-file={dir}/my.cnf {} $(cat {dir}/options) >>{dir}/out 2>&1 </dev/null &",
                binary.display(),
                arguments(kind, folder.path(), port).join(" "),
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
        assert!(
            Command::new(self.path("start.sh"))
                .status()
                .unwrap()
                .success()
        );
        let up = (0..1200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            self.try_root().is_some()
        });
        assert!(
            up,
            "{}",
            std::fs::read_to_string(self.path("log")).unwrap_or_default()
        );
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn try_root(&self) -> Option<mysql::Conn> {
        server::root(&self.path("s"))
    }

    pub(crate) fn root(&self) -> mysql::Conn {
        self.try_root().expect("root gets in by the socket")
    }
}

impl Drop for External {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(self.path("pid")).unwrap_or_default();
        let Some(pid) = pid.trim().parse().ok().and_then(Pid::from_raw) else {
            return;
        };
        let _ = kill_process(pid, Signal::KILL);
        for _ in 0..500 {
            if test_kill_process(pid).is_err() {
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
