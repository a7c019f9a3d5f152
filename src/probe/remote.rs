//! The server's own host, seen from here: a `node_exporter`, or a command that prints its /proc files.

use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::names::host as n;
use super::recorder::Sampled;
use super::{exposition, proc_text};
use crate::record::Sample;
use crate::units::Ratio;

/// How long one reading may take.
const LIMIT: Duration = Duration::from_secs(5);
/// A `node_exporter` answers with some 100 KiB.
const LARGEST: u64 = 8 << 20;
/// Pause between two looks at a command that runs.
const POLL: Duration = Duration::from_millis(10);

/// Where the figures come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A `node_exporter`.
    Exporter {
        /// Host name or address.
        host: String,
        /// Port.
        port: u16,
        /// Path with query, from the slash on.
        path: String,
    },
    /// A shell command.
    Command {
        /// For `sh -c`.
        command: String,
        /// Environment variables that it may not see.
        hidden: Vec<String>,
    },
}

/// CPU of a host between its last two readings, for whoever must know it while load runs.
#[derive(Debug, Clone, Default)]
pub struct Busy(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    /// Busy seconds and all seconds of the last reading.
    last: Option<(f64, f64)>,
    share: Option<Ratio>,
}

impl Busy {
    /// User and system share of all CPUs; `None`: fewer than two readings told it.
    pub fn latest(&self) -> Option<Ratio> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).share
    }

    /// Takes the CPU seconds of a reading.
    fn note(&self, sample: &Sample) {
        let value = |name: &str| sample.values.get(name).copied();
        let (Some(user), Some(system), Some(idle)) =
            (value(n::CPU_USER), value(n::CPU_SYSTEM), value(n::CPU_IDLE))
        else {
            return;
        };
        let other = value(n::CPU_IOWAIT).unwrap_or(0.0) + value(n::CPU_STEAL).unwrap_or(0.0);
        let now = (user + system, user + system + idle + other);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((busy, all)) = kept.last
            && now.1 > all
        {
            kept.share = Some(Ratio((now.0 - busy).max(0.0) / (now.1 - all)));
        }
        kept.last = Some(now);
    }
}

/// Reads a host from afar.
#[derive(Debug)]
pub struct Probe {
    source: Source,
    busy: Busy,
    unavailable: Vec<String>,
    asked: bool,
}

impl Probe {
    /// Reads nothing yet; each reading's CPU goes to `busy` as well.
    pub fn new(source: Source, busy: Busy) -> Self {
        Self {
            source,
            busy,
            unavailable: Vec::new(),
            asked: false,
        }
    }

    /// One reading.
    ///
    /// # Errors
    /// In words: no answer within five seconds, an answer that holds no figure of a host.
    pub fn read(&self) -> Result<Sample, String> {
        let values = match &self.source {
            Source::Exporter { host, port, path } => {
                let text = get(host, *port, path)
                    .map_err(|why| format!("server's host: http://{host}:{port}{path}: {why}"))?;
                exposition::figures(&text)
            }
            Source::Command { command, hidden } => {
                let text = run(command, hidden).map_err(|why| {
                    format!("server's host: the command of target.probe failed: {why}")
                })?;
                proc_text::figures(&text)
            }
        };
        if values.is_empty() {
            return Err("server's host: the answer holds no figure of a host".to_owned());
        }
        Ok(Sample {
            at: 0.0,
            values: values.into(),
        })
    }
}

impl Sampled for Probe {
    fn sample(&mut self) -> Result<Sample, String> {
        let sample = self.read()?;
        self.busy.note(&sample);
        if !std::mem::replace(&mut self.asked, true) {
            let missing: Vec<&str> = [
                (n::CPU_IDLE, "CPU by state"),
                (n::RUNNABLE, "run queue"),
                (n::CONTEXT_SWITCHES, "context switches"),
                (n::MEMORY_AVAILABLE, "memory"),
            ]
            .iter()
            .filter(|(name, _)| !sample.values.contains_key(name))
            .map(|(_, words)| *words)
            .chain(
                (!sample.values.keys().any(|k| k.starts_with(n::DISK_PREFIX))).then_some("disks"),
            )
            .collect();
            if !missing.is_empty() {
                self.unavailable.push(format!(
                    "server's host: its probe does not tell {}",
                    missing.join(", ")
                ));
            }
        }
        Ok(sample)
    }

    fn unavailable(&self) -> Vec<String> {
        self.unavailable.clone()
    }

    /// Each reading is a conversation of its own.
    fn survives_errors(&self) -> bool {
        true
    }
}

/// The body of one answer to GET. HTTP/1.0: the answer ends where the connection ends.
fn get(host: &str, port: u16, path: &str) -> Result<String, String> {
    let deadline = Instant::now() + LIMIT;
    let left = || {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            Err(format!("no whole answer within {} s", LIMIT.as_secs()))
        } else {
            Ok(left)
        }
    };
    let words = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            format!("no whole answer within {} s", LIMIT.as_secs())
        }
        _ => error.to_string(),
    };
    let mut last = "the name has no address".to_owned();
    let mut connected = None;
    for address in (host, port).to_socket_addrs().map_err(words)? {
        match TcpStream::connect_timeout(&address, left()?) {
            Ok(stream) => {
                connected = Some(stream);
                break;
            }
            Err(error) => last = words(error),
        }
    }
    let mut stream = connected.ok_or(last)?;
    stream.set_write_timeout(Some(left()?)).map_err(words)?;
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\nAccept: text/plain\r\nConnection: close\r\n\r\n"
    )
    .map_err(words)?;
    let mut answer = Vec::new();
    let mut piece = [0_u8; 16 * 1024];
    loop {
        stream.set_read_timeout(Some(left()?)).map_err(words)?;
        match stream.read(&mut piece).map_err(words)? {
            0 => break,
            length => answer.extend_from_slice(&piece[..length]),
        }
        if answer.len() as u64 > LARGEST {
            return Err("the answer is too long for figures of a host".to_owned());
        }
    }
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text
        .split_once("\r\n\r\n")
        .ok_or("the answer is not HTTP")?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("it answered `{status}`"));
    }
    if head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
    {
        return Err("it answered in chunks, which HTTP/1.0 does not have".to_owned());
    }
    Ok(body.to_owned())
}

/// What a command prints, in a process group of its own, ended with all it started when it takes too long.
fn run(command: &str, hidden: &[String]) -> Result<String, String> {
    let words = |error: std::io::Error| error.to_string();
    // Files, not pipes: what the command leaves running may hold them open for ever.
    let mut output = tempfile::tempfile().map_err(words)?;
    let mut errors = tempfile::tempfile().map_err(words)?;
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(words)?)
        .stderr(errors.try_clone().map_err(words)?)
        .process_group(0);
    for name in hidden {
        shell.env_remove(name);
    }
    let mut child = shell.spawn().map_err(words)?;
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(words)? {
            break status;
        }
        if Instant::now() >= deadline {
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.wait();
            return Err(format!("it ran longer than {} s", LIMIT.as_secs()));
        }
        std::thread::sleep(POLL);
    };
    let read = |file: &mut std::fs::File| -> Result<String, String> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).map_err(words)?;
        file.take(LARGEST).read_to_end(&mut bytes).map_err(words)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    if !status.success() {
        let said = read(&mut errors)?;
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        return Err(match last {
            Some(line) => format!("{status}: {line}"),
            None => status.to_string(),
        });
    }
    read(&mut output)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use std::io::BufRead;
    use std::net::TcpListener;

    use super::*;

    /// A server for one request.
    fn answering(answer: &'static str) -> (u16, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = String::new();
            let mut lines = std::io::BufReader::new(stream.try_clone().unwrap());
            while lines.read_line(&mut asked).unwrap() > 2 {}
            stream.write_all(answer.as_bytes()).unwrap();
            asked
        });
        (port, served)
    }

    fn exporter(port: u16) -> Probe {
        let source = Source::Exporter {
            host: "127.0.0.1".into(),
            port,
            path: "/metrics".into(),
        };
        Probe::new(source, Busy::default())
    }

    fn command(text: &str) -> Probe {
        let source = Source::Command {
            command: text.into(),
            hidden: vec!["CAPBENCH_HIDDEN".into()],
        };
        Probe::new(source, Busy::default())
    }

    #[test]
    fn an_exporter_is_asked_and_understood() {
        let (port, served) = answering(
            "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nnode_procs_running 4\nnode_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 7\n",
        );
        let mut probe = exporter(port);
        let sample = probe.sample().unwrap();
        assert!(
            served
                .join()
                .unwrap()
                .starts_with("GET /metrics HTTP/1.0\r\n")
        );
        assert_eq!(sample.values.get(n::RUNNABLE), Some(&4.0));
        assert_eq!(
            probe.unavailable(),
            ["server's host: its probe does not tell context switches, memory, disks"]
        );
    }

    #[test]
    fn the_cpu_between_two_readings_is_handed_on() {
        let busy = Busy::default();
        let reading = |user: f64, idle: f64| Sample {
            at: 0.0,
            values: [
                (n::CPU_USER, user),
                (n::CPU_SYSTEM, 1.0),
                (n::CPU_IDLE, idle),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        };
        busy.note(&reading(10.0, 100.0));
        assert_eq!(busy.latest(), None);
        busy.note(&reading(19.0, 101.0));
        assert_eq!(busy.latest(), Some(Ratio(0.9)));
        busy.note(&Sample::default());
        assert_eq!(busy.latest(), Some(Ratio(0.9)));
    }

    #[test]
    fn what_is_no_exporter_is_said() {
        let (port, _served) = answering("HTTP/1.1 404 Not Found\r\n\r\n");
        let error = exporter(port).read().unwrap_err();
        assert!(error.contains("404 Not Found"), "{error}");
        let (port, _served) = answering("HTTP/1.0 200 OK\r\n\r\n<html>");
        let error = exporter(port).read().unwrap_err();
        assert!(error.contains("holds no figure"), "{error}");
    }

    #[test]
    fn a_command_is_read_and_its_failure_shows_its_words() {
        let sample = command("cat /proc/stat /proc/meminfo").read().unwrap();
        assert!(sample.values.contains_key(n::CPU_IDLE));
        assert!(sample.values.contains_key(n::MEMORY_AVAILABLE));
        let error = command("echo no route >&2; exit 3").read().unwrap_err();
        assert!(error.contains("no route") && error.contains('3'), "{error}");
    }
}
