//! Private servers that outlived their capbench, which SIGKILL or the kernel's memory killer ended: nothing
//! of its own runs then, so that the next start clears up after it.
//!
//! Each capbench holds a lock on a file in its server's folder. The kernel lets go of the lock with the
//! process, and process ids that come round again cannot mislead it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::process::POLL;

/// What the name of a private server's folder begins with.
pub(super) const PREFIX: &str = "capbench-";
/// Held by the capbench that owns the folder. Its content: the second folder, if there is one.
const LOCK: &str = "owner.lock";
/// Time for a killed server to go.
const PATIENCE: Duration = Duration::from_secs(5);

/// Marks `folder` as this process's own for as long as the returned file is open.
pub(super) fn own(folder: &Path, second: Option<&Path>) -> io::Result<File> {
    // Under its final name it is locked from the first moment on.
    let unlocked = folder.join("owner.new");
    let mut file = File::create_new(&unlocked)?;
    if let Some(second) = second {
        file.write_all(second.as_os_str().as_encoded_bytes())?;
    }
    file.lock()?;
    std::fs::rename(&unlocked, folder.join(LOCK))?;
    Ok(file)
}

/// Ends private servers under `directory` (default: the system's temporary folder) whose capbench is gone,
/// and removes their folders. Returns those folders. What it cannot look into or remove, it leaves.
pub fn end_orphans(directory: Option<&Path>) -> Vec<PathBuf> {
    let parent = directory.map_or_else(std::env::temp_dir, Path::to_owned);
    // The servers' command lines hold the absolute path.
    let Ok(entries) = std::path::absolute(parent).and_then(std::fs::read_dir) else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
        .map(|entry| entry.path())
        .filter(|folder| end_orphan(folder).unwrap_or(false))
        .collect()
}

/// Whether the folder was an orphan's and is gone.
fn end_orphan(folder: &Path) -> io::Result<bool> {
    let mut lock = OpenOptions::new().read(true).open(folder.join(LOCK))?;
    // In a shared temporary folder, others may make what looks like ours.
    let mine = lock.metadata()?.uid() == rustix::process::geteuid().as_raw();
    if !mine || lock.try_lock().is_err() {
        return Ok(false);
    }
    if let Some(pid) = server_in(folder) {
        let _ = kill_process(pid, Signal::KILL);
        let deadline = std::time::Instant::now() + PATIENCE;
        while server_in(folder).is_some() && std::time::Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
        if server_in(folder).is_some() {
            return Ok(false);
        }
    }
    let mut second = String::new();
    lock.read_to_string(&mut second)?;
    let second = Path::new(&second);
    if second
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
    {
        let _ = std::fs::remove_dir_all(second);
    }
    std::fs::remove_dir_all(folder)?;
    Ok(true)
}

/// The server that runs in `folder`: the process that its pid file names, if its command line names the
/// folder too.
fn server_in(folder: &Path) -> Option<Pid> {
    let text = std::fs::read_to_string(folder.join("server.pid")).ok()?;
    let pid: i32 = text.trim().parse().ok()?;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut option = b"--datadir=".to_vec();
    option.extend(folder.join("data").as_os_str().as_encoded_bytes());
    command
        .split(|byte| *byte == 0)
        .any(|argument| argument == option)
        .then(|| Pid::from_raw(pid))?
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_left_alone_while_its_owner_lives_and_without_an_owner() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("capbench-a");
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(end_orphans(Some(parent.path())), [""; 0].map(PathBuf::from));
        let second = parent.path().join("capbench-b");
        std::fs::create_dir(&second).unwrap();
        let lock = own(&folder, Some(&second)).unwrap();
        assert_eq!(end_orphans(Some(parent.path())), [""; 0].map(PathBuf::from));
        assert!(folder.exists());
        // A process id that came round again: this test's own, whose command line names no such folder.
        std::fs::write(folder.join("server.pid"), std::process::id().to_string()).unwrap();
        drop(lock);
        assert_eq!(end_orphans(Some(parent.path())), [folder]);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
