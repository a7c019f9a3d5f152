//! Figures of a host from the text of its /proc files, as a command prints them one after another:
//! `cat /proc/stat …`, or `tail -n +1 /proc/stat …`, which says before each file which it is.

use std::collections::BTreeMap;

use super::host::SECTOR;
use super::names::host as n;

/// Clock ticks per second of /proc/stat: `USER_HZ`, 100 on every Linux that a database runs on.
const TICKS: f64 = 100.0;

/// All figures that a text holds; what it lacks is missing. The pressure files look alike: they count only
/// where a line `==> /proc/pressure/cpu <==` stands before them.
pub(super) fn figures(text: &str) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    let mut disks: Vec<(&str, Vec<f64>)> = Vec::new();
    let mut cpus = 0_u32;
    let mut file = "";
    let mut tcp_names: Option<Vec<&str>> = None;
    for line in text.lines() {
        let header = line
            .strip_prefix("==> ")
            .and_then(|rest| rest.strip_suffix(" <=="));
        if let Some(name) = header {
            file = name;
            continue;
        }
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let rest: Vec<&str> = words.collect();
        let number = |i: usize| rest.get(i).and_then(|word| word.parse::<f64>().ok());
        let mut put = |name: &str, value: Option<f64>| {
            if let Some(value) = value {
                values.insert(name.to_owned(), value);
            }
        };
        match first {
            "cpu" => cpu(&rest, &mut put),
            "ctxt" => put(n::CONTEXT_SWITCHES, number(0)),
            "procs_running" => put(n::RUNNABLE, number(0)),
            "procs_blocked" => put(n::BLOCKED, number(0)),
            "MemAvailable:" => put(n::MEMORY_AVAILABLE, number(0).map(|kb| kb * 1024.0)),
            "some" | "full" => pressure(file, first, &rest, &mut put),
            "Tcp:" => match &tcp_names {
                None => tcp_names = Some(rest),
                Some(names) => {
                    let of = |name| number(names.iter().position(|n| *n == name)?);
                    put(n::TCP_RETRANSMITS, of("RetransSegs"));
                    put(n::TCP_SENT, of("OutSegs"));
                }
            },
            _ if is_cpu(first) && rest.len() >= 4 => cpus += 1,
            // 0.10 0.20 0.30 1/234 5678
            _ if rest.len() == 4 && rest[2].contains('/') => {
                put(n::LOAD1, first.parse::<f64>().ok());
            }
            // 8 0 sda 1 2 3 … (11 figures, more on newer kernels)
            _ if rest.len() >= 13 && first.parse::<u32>().is_ok() => {
                let figures: Vec<f64> = rest[2..].iter().filter_map(|w| w.parse().ok()).collect();
                disks.push((rest[1], figures));
            }
            _ => {
                if let Some((name, [received, .., sent])) = interface(line) {
                    put(
                        &format!("{}{name}.{}", n::NET_PREFIX, n::NET_RECEIVED),
                        Some(received),
                    );
                    put(
                        &format!("{}{name}.{}", n::NET_PREFIX, n::NET_SENT),
                        Some(sent),
                    );
                }
            }
        }
    }
    if cpus > 0 {
        values.insert(n::CPUS.to_owned(), f64::from(cpus));
    }
    disk(&disks, &mut values);
    values
}

fn is_cpu(word: &str) -> bool {
    word.strip_prefix("cpu")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// `user nice system idle iowait irq softirq steal guest guest_nice` (guest is part of user).
fn cpu(words: &[&str], put: &mut impl FnMut(&str, Option<f64>)) {
    let seconds = |i: usize| words.get(i)?.parse::<f64>().ok().map(|ticks| ticks / TICKS);
    let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b.unwrap_or(0.0));
    put(n::CPU_USER, sum(seconds(0), seconds(1)));
    put(n::CPU_SYSTEM, sum(sum(seconds(2), seconds(5)), seconds(6)));
    put(n::CPU_IDLE, seconds(3));
    put(n::CPU_IOWAIT, seconds(4));
    put(n::CPU_STEAL, seconds(7));
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345` (microseconds).
fn pressure(file: &str, which: &str, words: &[&str], put: &mut impl FnMut(&str, Option<f64>)) {
    let name = match (file.rsplit('/').next(), which) {
        (Some("cpu"), "some") => n::PRESSURE_CPU,
        (Some("io"), "some") => n::PRESSURE_IO,
        (Some("io"), "full") => n::PRESSURE_IO_FULL,
        _ => return,
    };
    let total = words.iter().find_map(|word| word.strip_prefix("total="));
    put(name, total.and_then(|text| text.parse().ok()));
}

/// `eth0: 1 2 3 4 5 6 7 8 9 …`: received bytes first, sent bytes ninth.
fn interface(line: &str) -> Option<(&str, [f64; 9])> {
    let (name, rest) = line.trim_start().split_once(':')?;
    let figures: Vec<f64> = rest
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    // Lines of /proc/net/snmp look alike.
    let protocol = ["Ip", "Icmp", "IcmpMsg", "Tcp", "Udp", "UdpLite"].contains(&name);
    (figures.len() == 16 && !protocol && !name.contains(' '))
        .then(|| figures[..9].try_into().ok())
        .flatten()
        .map(|figures| (name, figures))
}

/// Whole disks only: a partition is counted by its disk.
fn disk(disks: &[(&str, Vec<f64>)], values: &mut BTreeMap<String, f64>) {
    const FIGURES: [(usize, &str, f64); 8] = [
        (0, n::DISK_READS, 1.0),
        (2, n::DISK_READ_BYTES, SECTOR),
        (3, n::DISK_READ_MS, 1.0),
        (4, n::DISK_WRITES, 1.0),
        (6, n::DISK_WRITE_BYTES, SECTOR),
        (7, n::DISK_WRITE_MS, 1.0),
        (9, n::DISK_BUSY_MS, 1.0),
        (10, n::DISK_QUEUE_MS, 1.0),
    ];
    for (name, figures) in disks {
        let idle = figures.first() == Some(&0.0) && figures.get(4) == Some(&0.0);
        let partition = disks.iter().any(|(other, _)| is_partition(name, other));
        if idle || partition || name.starts_with("ram") || name.starts_with("zram") {
            continue;
        }
        for (at, figure, factor) in FIGURES {
            if let Some(value) = figures.get(at) {
                values.insert(format!("{}{name}.{figure}", n::DISK_PREFIX), value * factor);
            }
        }
    }
}

/// `sda1` of `sda`, `nvme0n1p2` of `nvme0n1`.
fn is_partition(name: &str, disk: &str) -> bool {
    let Some(rest) = name.strip_prefix(disk).filter(|rest| !rest.is_empty()) else {
        return false;
    };
    let number = if disk.ends_with(|c: char| c.is_ascii_digit()) {
        rest.strip_prefix('p').unwrap_or("x")
    } else {
        rest
    };
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
mod tests {
    use super::*;

    const TEXT: &str = "\
cpu  1000 100 500 9000 300 10 20 70 0 0
cpu0 500 50 250 4500 150 5 10 35 0 0
cpu1 500 50 250 4500 150 5 10 35 0 0
intr 999 1 2 3 4 5 6 7 8 9 10 11 12 13 14
ctxt 123456
procs_running 3
procs_blocked 1
0.50 0.40 0.30 2/345 6789
MemTotal:       16000000 kB
MemAvailable:    8000000 kB
   8       0 sda 100 0 2000 50 200 0 4000 80 0 90 130 0 0 0 0
   8       1 sda1 99 0 1990 49 199 0 3990 79 0 89 129 0 0 0 0
 259       0 nvme0n1 10 0 20 5 20 0 40 8 0 9 13
 259       1 nvme0n1p1 10 0 20 5 20 0 40 8 0 9 13
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
  eth0: 111 2 0 0 0 0 0 0 222 4 0 0 0 0 0 0
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors
Tcp: 1 200 120000 -1 1 1 1 1 1 500 600 7 0 0 0
==> /proc/pressure/cpu <==
some avg10=0.00 avg60=0.00 avg300=0.00 total=11
full avg10=0.00 avg60=0.00 avg300=0.00 total=0
==> /proc/pressure/io <==
some avg10=0.00 avg60=0.00 avg300=0.00 total=22
full avg10=0.00 avg60=0.00 avg300=0.00 total=33
";

    #[test]
    fn every_file_is_recognised() {
        let found = figures(TEXT);
        for (name, value) in [
            (n::CPU_USER, 11.0),
            (n::CPU_SYSTEM, 5.3),
            (n::CPU_IDLE, 90.0),
            (n::CPU_IOWAIT, 3.0),
            (n::CPU_STEAL, 0.7),
            (n::CPUS, 2.0),
            (n::CONTEXT_SWITCHES, 123_456.0),
            (n::RUNNABLE, 3.0),
            (n::BLOCKED, 1.0),
            (n::LOAD1, 0.5),
            (n::MEMORY_AVAILABLE, 8_192_000_000.0),
            (n::PRESSURE_CPU, 11.0),
            (n::PRESSURE_IO, 22.0),
            (n::PRESSURE_IO_FULL, 33.0),
            (n::TCP_RETRANSMITS, 7.0),
            (n::TCP_SENT, 600.0),
            ("disk.sda.reads", 100.0),
            ("disk.sda.read_bytes", 1_024_000.0),
            ("disk.sda.busy_ms", 90.0),
            ("disk.nvme0n1.queue_ms", 13.0),
            ("net.eth0.received_bytes", 111.0),
            ("net.eth0.sent_bytes", 222.0),
        ] {
            assert_eq!(found.get(name), Some(&value), "{name}");
        }
        let devices: Vec<&String> = found
            .keys()
            .filter(|k| k.rsplit('.').next() == Some("reads"))
            .collect();
        assert_eq!(devices, ["disk.nvme0n1.reads", "disk.sda.reads"]);
    }

    #[test]
    fn this_hosts_own_files_are_read_as_the_local_probe_reads_them() {
        let mut text = String::new();
        for file in [
            "stat",
            "loadavg",
            "meminfo",
            "diskstats",
            "net/dev",
            "net/snmp",
        ] {
            text += &std::fs::read_to_string(format!("/proc/{file}")).unwrap();
        }
        let found = figures(&text);
        let found = crate::record::Values::from(found);
        let local = super::super::host::Probe::new(None).sample().values;
        for name in [
            n::CPU_USER,
            n::CPUS,
            n::CONTEXT_SWITCHES,
            n::MEMORY_AVAILABLE,
            n::LOAD1,
        ] {
            let (a, b) = (found[name], local[name]);
            assert!((a - b).abs() <= 0.2 * b.abs() + 1.0, "{name}: {a} and {b}");
        }
        let nets = |m: &crate::record::Values| -> Vec<String> {
            m.keys()
                .filter(|k| k.ends_with(n::NET_SENT))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(nets(&found), nets(&local));
    }

    #[test]
    fn without_names_of_files_pressure_is_missing() {
        let found = figures("some avg10=0.00 avg60=0.00 avg300=0.00 total=11\n");
        assert!(found.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9 :./=<>|\né-]{0,120}") {
            figures(&text);
        }
    }
}
