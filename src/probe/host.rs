//! Figures of this host from /proc: the load machine, and the server's too when it is local.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use procfs::{Current, CurrentSI};

use super::cgroup;
use super::names::host as n;
use crate::record::Sample;

/// Size of a sector in /proc/diskstats, whatever the device's own.
pub(super) const SECTOR: f64 = 512.0;

pub use super::facts::{facts, governor};

/// Reads this host's figures.
#[derive(Debug)]
pub struct Probe {
    server_pid: Option<i32>,
    unavailable: BTreeMap<&'static str, String>,
    disks: BTreeSet<String>,
    /// capbench's own.
    threads: Option<Threads>,
    /// Control groups of the server, found at the first look.
    groups: Option<Vec<PathBuf>>,
}

/// When the threads of a process were looked at, and their times on a CPU and waiting for one, nanoseconds.
type Threads = (Instant, BTreeMap<i32, (u64, u64)>);

impl Probe {
    /// `server_pid`: the server's process when it runs here and its id is known.
    pub fn new(server_pid: Option<u32>) -> Self {
        Self {
            server_pid: server_pid.and_then(|pid| i32::try_from(pid).ok()),
            unavailable: BTreeMap::new(),
            disks: whole_disks(),
            threads: None,
            groups: None,
        }
    }

    /// Reads everything once; `at` is left 0 for the caller to set. What cannot be read is not in the
    /// sample; [`Self::unavailable`] says why.
    pub fn sample(&mut self) -> Sample {
        let mut values = BTreeMap::new();
        let mut put = |name: &str, value: f64| {
            values.insert(name.to_owned(), value);
        };
        self.note("cpu", cpu(&mut put));
        self.note("load average", load(&mut put));
        self.note("pressure (PSI)", pressure(&mut put));
        self.note("memory", memory(&mut put));
        self.note("disks", disks(&self.disks, &mut put));
        self.note("network", network(&mut put));
        self.note("tcp", tcp(&mut put));
        self.note(
            "capbench process",
            process(None, n::SELF_CPU, n::SELF_RSS, &mut put),
        );
        let threads = busiest(&mut self.threads, &mut put);
        self.note("capbench's threads", threads);
        if let Some(pid) = self.server_pid {
            self.note(
                "server process",
                process(Some(pid), n::SERVER_CPU, n::SERVER_RSS, &mut put),
            );
            self.note("server context switches", switches(pid, &mut put));
            let quota = quota(pid, &mut self.groups, &mut put);
            self.note("CPU quota of the server", quota);
        }
        Sample {
            at: 0.0,
            values: values.into(),
        }
    }

    /// Figures that this host does not give, each with the reason.
    pub fn unavailable(&self) -> Vec<String> {
        self.unavailable
            .iter()
            .map(|(name, why)| format!("host {name}: {why}"))
            .collect()
    }

    fn note(&mut self, what: &'static str, result: procfs::ProcResult<()>) {
        if let Err(error) = result {
            self.unavailable
                .entry(what)
                .or_insert_with(|| error.to_string());
        }
    }
}

fn cpu(put: &mut impl FnMut(&str, f64)) -> procfs::ProcResult<()> {
    let stat = procfs::KernelStats::current()?;
    let total = &stat.total;
    let tick = 1.0 / procfs::ticks_per_second() as f64;
    let seconds = |ticks: u64| ticks as f64 * tick;
    put(n::CPU_USER, seconds(total.user + total.nice));
    put(
        n::CPU_SYSTEM,
        seconds(total.system + total.irq.unwrap_or(0) + total.softirq.unwrap_or(0)),
    );
    put(n::CPU_IDLE, seconds(total.idle));
    if let Some(iowait) = total.iowait {
        put(n::CPU_IOWAIT, seconds(iowait));
    }
    if let Some(steal) = total.steal {
        put(n::CPU_STEAL, seconds(steal));
    }
    put(n::CPUS, stat.cpu_time.len() as f64);
    put(n::CONTEXT_SWITCHES, stat.ctxt as f64);
    if let Some(running) = stat.procs_running {
        put(n::RUNNABLE, f64::from(running));
    }
    if let Some(blocked) = stat.procs_blocked {
        put(n::BLOCKED, f64::from(blocked));
    }
    Ok(())
}

fn load(put: &mut impl FnMut(&str, f64)) -> procfs::ProcResult<()> {
    put(n::LOAD1, f64::from(procfs::LoadAverage::current()?.one));
    Ok(())
}

fn pressure(put: &mut impl FnMut(&str, f64)) -> procfs::ProcResult<()> {
    put(
        n::PRESSURE_CPU,
        procfs::CpuPressure::current()?.some.total as f64,
    );
    let io = procfs::IoPressure::current()?;
    put(n::PRESSURE_IO, io.some.total as f64);
    put(n::PRESSURE_IO_FULL, io.full.total as f64);
    Ok(())
}

fn memory(put: &mut impl FnMut(&str, f64)) -> procfs::ProcResult<()> {
    if let Some(available) = procfs::Meminfo::current()?.mem_available {
        put(n::MEMORY_AVAILABLE, available as f64);
    }
    Ok(())
}

fn disks(wanted: &BTreeSet<String>, put: &mut impl FnMut(&str, f64)) -> procfs::ProcResult<()> {
    for disk in procfs::diskstats()? {
        // Idle since boot (spare loop devices): nothing to see.
        if !wanted.contains(&disk.name) || disk.reads + disk.writes == 0 {
            continue;
        }
        let mut figure = |figure: &str, value: f64| {
            put(&format!("{}{}.{figure}", n::DISK_PREFIX, disk.name), value);
        };
        figure(n::DISK_READS, disk.reads as f64);
        figure(n::DISK_READ_MS, disk.time_reading as f64);
        figure(n::DISK_READ_BYTES, disk.sectors_read as f64 * SECTOR);
        figure(n::DISK_WRITES, disk.writes as f64);
        figure(n::DISK_WRITE_MS, disk.time_writing as f64);
        figure(n::DISK_WRITE_BYTES, disk.sectors_written as f64 * SECTOR);
        figure(n::DISK_BUSY_MS, disk.time_in_progress as f64);
        figure(n::DISK_QUEUE_MS, disk.weighted_time_in_progress as f64);
    }
    Ok(())
}

/// Whole block devices: /sys/block lists no partitions. RAM disks have no queue worth a look.
fn whole_disks() -> BTreeSet<String> {
    fs_err::read_dir("/sys/block")
        .map(|entries| {
            entries
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .filter(|name| !name.starts_with("ram") && !name.starts_with("zram"))
                .collect()
        })
        .unwrap_or_default()
}

fn network(put: &mut impl FnMut(&str, f64)) -> procfs::ProcResult<()> {
    for (name, device) in procfs::net::dev_status()? {
        let mut figure = |figure: &str, value: f64| {
            put(&format!("{}{name}.{figure}", n::NET_PREFIX), value);
        };
        figure(n::NET_RECEIVED, device.recv_bytes as f64);
        figure(n::NET_SENT, device.sent_bytes as f64);
        // Virtual links answer -1 or an error: they have no speed to be compared with.
        let speed = fs_err::read_to_string(format!("/sys/class/net/{name}/speed"))
            .ok()
            .and_then(|text| text.trim().parse::<f64>().ok())
            .filter(|megabits| *megabits > 0.0);
        if let Some(megabits) = speed {
            figure(n::NET_SPEED, megabits * 1e6);
        }
    }
    Ok(())
}

fn tcp(put: &mut impl FnMut(&str, f64)) -> procfs::ProcResult<()> {
    let snmp = procfs::net::snmp()?;
    put(n::TCP_RETRANSMITS, snmp.tcp_retrans_segs as f64);
    put(n::TCP_SENT, snmp.tcp_out_segs as f64);
    Ok(())
}

/// CPU and memory of one process; `None`: this one.
fn process(
    pid: Option<i32>,
    cpu: &str,
    resident: &str,
    put: &mut impl FnMut(&str, f64),
) -> procfs::ProcResult<()> {
    let process = match pid {
        None => procfs::process::Process::myself()?,
        Some(pid) => procfs::process::Process::new(pid)?,
    };
    let stat = process.stat()?;
    let tick = 1.0 / procfs::ticks_per_second() as f64;
    put(cpu, (stat.utime + stat.stime) as f64 * tick);
    put(resident, stat.rss as f64 * procfs::page_size() as f64);
    Ok(())
}

/// How much its busiest thread wanted a CPU, and had none, since the last look; nothing the first time.
fn busiest(last: &mut Option<Threads>, put: &mut impl FnMut(&str, f64)) -> procfs::ProcResult<()> {
    let mut now = BTreeMap::new();
    for task in procfs::process::Process::myself()?.tasks()? {
        // A thread may end between the listing and the look.
        let Ok(task) = task else { continue };
        if let Ok(stat) = task.schedstat() {
            now.insert(task.tid, (stat.sum_exec_runtime, stat.run_delay));
        }
    }
    let at = Instant::now();
    if let Some((before_at, before)) = last.as_ref() {
        let nanos = (at - *before_at).as_nanos() as f64;
        let grown = now.iter().filter_map(|(tid, (ran, waited))| {
            let (ran_before, waited_before) = before.get(tid)?;
            let waited = waited.saturating_sub(*waited_before);
            Some((ran.saturating_sub(*ran_before) + waited, waited))
        });
        if let Some((wanted, waited)) = grown.max().filter(|_| nanos > 0.0) {
            put(n::SELF_WANTED, (wanted as f64 / nanos).min(1.0));
            put(n::SELF_WAITED, (waited as f64 / nanos).min(1.0));
        }
    }
    *last = Some((at, now));
    Ok(())
}

/// Context switches of a process, over its threads: the process's own file counts its first thread only.
fn switches(pid: i32, put: &mut impl FnMut(&str, f64)) -> procfs::ProcResult<()> {
    let mut sum = 0_u64;
    for task in procfs::process::Process::new(pid)?.tasks()? {
        // A thread may end between the listing and the look.
        let Ok(status) = task.and_then(|task| task.status()) else {
            continue;
        };
        sum += status.voluntary_ctxt_switches.unwrap_or(0)
            + status.nonvoluntary_ctxt_switches.unwrap_or(0);
    }
    put(n::SERVER_SWITCHES, sum as f64);
    Ok(())
}

/// The CPU quota of a process; nothing where there is none.
fn quota(
    pid: i32,
    groups: &mut Option<Vec<PathBuf>>,
    put: &mut impl FnMut(&str, f64),
) -> procfs::ProcResult<()> {
    if groups.is_none() {
        *groups = Some(cgroup::folders(pid)?);
    }
    if let Some(quota) = groups.as_deref().and_then(cgroup::tightest) {
        put(n::SERVER_CPU_QUOTA, quota.cpus);
        put(n::SERVER_CPU_PERIODS, quota.periods);
        put(n::SERVER_THROTTLED_PERIODS, quota.throttled);
    }
    Ok(())
}

/// Mean share of each CPU state since boot: `(stolen, total)` seconds.
pub(super) fn stolen_since_boot() -> Option<f64> {
    let total = procfs::KernelStats::current().ok()?.total;
    let stolen = total.steal?;
    let all = total.user
        + total.nice
        + total.system
        + total.idle
        + total.iowait.unwrap_or(0)
        + total.irq.unwrap_or(0)
        + total.softirq.unwrap_or(0)
        + stolen;
    (all > 0).then(|| stolen as f64 / all as f64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
mod tests {
    use super::*;

    #[test]
    fn this_host_gives_cpu_and_its_own_process() {
        let mut probe = Probe::new(Some(std::process::id()));
        let first = probe.sample();
        let second = probe.sample();
        for name in [
            n::CPU_USER,
            n::CPU_SYSTEM,
            n::CPU_IDLE,
            n::CPUS,
            n::CONTEXT_SWITCHES,
            n::SELF_CPU,
            n::SERVER_CPU,
            n::SERVER_SWITCHES,
            n::SELF_RSS,
        ] {
            assert!(first.values.contains_key(name), "{name} is missing");
            if name.ends_with("seconds") {
                assert!(second.values[name] >= first.values[name], "{name} fell");
            }
        }
        assert!(first.values[n::CPUS] >= 1.0);
        assert!((0.0..=1.0).contains(&second.values[n::SELF_WANTED]));
        assert!(second.values[n::SELF_WAITED] <= second.values[n::SELF_WANTED]);
        assert!(first.values[n::SELF_RSS] > 1e5);
    }

    #[test]
    fn a_process_that_is_gone_is_said_to_be() {
        // Beyond the largest id that Linux gives out.
        let mut probe = Probe::new(Some(i32::MAX as u32));
        let sample = probe.sample();
        assert!(!sample.values.contains_key(n::SERVER_CPU));
        assert!(
            probe
                .unavailable()
                .iter()
                .any(|u| u.starts_with("host server process:"))
        );
    }
}
