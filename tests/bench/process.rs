//! A process run to its end: its output, its time, its CPU and memory as /proc shows them.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use procfs::process::Process;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What a process came to.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) stdout: String,
    /// CPU of all its threads, seconds. The kernel shows it in steps of 10 ms.
    pub(crate) user: f64,
    pub(crate) system: f64,
    /// Most resident memory, in bytes (`VmHWM`), as seen last before the end.
    pub(crate) peak: f64,
    /// Resident memory each [`LOOK`].
    pub(crate) resident: Vec<f64>,
}

/// Runs `command` with `input`, for at most `limit`.
pub(crate) fn run(command: &mut Command, input: &str, limit: Duration) -> Result<Ended> {
    run_allowing(command, input, limit, &[0])
}

/// Likewise; any of `codes` is an end as it should be.
pub(crate) fn run_allowing(
    command: &mut Command,
    input: &str,
    limit: Duration,
    codes: &[i32],
) -> Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    let ended = watch(&mut child, input, started, limit);
    if ended.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().context("cannot wait for a process")?;
    let (ended, errors) = ended?;
    if !status.code().is_some_and(|code| codes.contains(&code)) {
        bail!("{name} ended with {status}:\n{}{errors}", ended.stdout);
    }
    Ok(ended)
}

fn watch(
    child: &mut Child,
    input: &str,
    started: Instant,
    limit: Duration,
) -> Result<(Ended, String)> {
    if let Some(mut stdin) = child.stdin.take() {
        // A process that ends without reading says why by itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let stdout = child.stdout.take().map(read_all);
    let stderr = child.stderr.take().map(read_all);
    let pid = i32::try_from(child.id()).context("pid")?;
    let process = Process::new(pid).context("cannot look at a process")?;
    let id = Pid::from_raw(pid).context("pid")?;
    let (mut peak, mut resident) = (0.0, Vec::new());
    // Left a zombie until its CPU has been read.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let mut next = started;
    while waitid(WaitId::Pid(id), look)
        .context("cannot wait for a process")?
        .is_none()
    {
        if started.elapsed() > limit {
            bail!("a process took longer than {} s", limit.as_secs());
        }
        if Instant::now() >= next {
            next += LOOK;
            if let Ok(status) = process.status() {
                peak = status.vmhwm.map_or(peak, |kib| kib as f64 * 1024.0);
                resident.extend(status.vmrss.map(|kib| kib as f64 * 1024.0));
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let stat = process.stat().context("cannot read a process's CPU")?;
    let ticks = procfs::ticks_per_second() as f64;
    let text = |reader: Option<std::thread::JoinHandle<String>>| {
        reader.and_then(|r| r.join().ok()).unwrap_or_default()
    };
    let ended = Ended {
        stdout: text(stdout),
        user: stat.utime as f64 / ticks,
        system: stat.stime as f64 / ticks,
        peak,
        resident,
    };
    Ok((ended, text(stderr)))
}

fn read_all(mut pipe: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// `program`, on core `core` if one is given.
pub(crate) fn on_core(program: &std::ffi::OsStr, core: Option<usize>) -> Command {
    match core {
        Some(core) => {
            // Replaces itself by the program, so that the process is the same one.
            let mut command = Command::new("taskset");
            command.args(["-c", &core.to_string()]).arg(program);
            command
        }
        None => Command::new(program),
    }
}
