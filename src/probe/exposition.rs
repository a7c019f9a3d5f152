//! Figures of a host from `node_exporter`'s text format.

use std::collections::{BTreeMap, BTreeSet};

use super::names::host as n;

/// A plain figure: its name there, its name here, and the factor between.
const PLAIN: &[(&str, &str, f64)] = &[
    ("node_context_switches_total", n::CONTEXT_SWITCHES, 1.0),
    ("node_procs_running", n::RUNNABLE, 1.0),
    ("node_procs_blocked", n::BLOCKED, 1.0),
    ("node_load1", n::LOAD1, 1.0),
    ("node_memory_MemAvailable_bytes", n::MEMORY_AVAILABLE, 1.0),
    (
        "node_pressure_cpu_waiting_seconds_total",
        n::PRESSURE_CPU,
        1e6,
    ),
    (
        "node_pressure_io_waiting_seconds_total",
        n::PRESSURE_IO,
        1e6,
    ),
    (
        "node_pressure_io_stalled_seconds_total",
        n::PRESSURE_IO_FULL,
        1e6,
    ),
    ("node_netstat_Tcp_RetransSegs", n::TCP_RETRANSMITS, 1.0),
    ("node_netstat_Tcp_OutSegs", n::TCP_SENT, 1.0),
];

/// Figures of a disk, label `device`.
const DISK: &[(&str, &str, f64)] = &[
    ("node_disk_reads_completed_total", n::DISK_READS, 1.0),
    ("node_disk_read_time_seconds_total", n::DISK_READ_MS, 1e3),
    ("node_disk_read_bytes_total", n::DISK_READ_BYTES, 1.0),
    ("node_disk_writes_completed_total", n::DISK_WRITES, 1.0),
    ("node_disk_write_time_seconds_total", n::DISK_WRITE_MS, 1e3),
    ("node_disk_written_bytes_total", n::DISK_WRITE_BYTES, 1.0),
    ("node_disk_io_time_seconds_total", n::DISK_BUSY_MS, 1e3),
    (
        "node_disk_io_time_weighted_seconds_total",
        n::DISK_QUEUE_MS,
        1e3,
    ),
];

/// Figures of a network interface, label `device`.
const NET: &[(&str, &str, f64)] = &[
    ("node_network_receive_bytes_total", n::NET_RECEIVED, 1.0),
    ("node_network_transmit_bytes_total", n::NET_SENT, 1.0),
    ("node_network_speed_bytes", n::NET_SPEED, 8.0),
];

/// All figures that a text holds; what it lacks is missing.
pub(super) fn figures(text: &str) -> BTreeMap<String, f64> {
    let mut values = BTreeMap::new();
    let mut cpus = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, labels, value)) = sample(line) else {
            continue;
        };
        let label = |wanted: &str| labels.iter().find(|(l, _)| *l == wanted).map(|(_, v)| *v);
        let same = |row: &&(&str, &str, f64)| row.0 == name;
        if name == "node_cpu_seconds_total" {
            cpus.extend(label("cpu"));
            let state = match label("mode") {
                Some("user" | "nice") => n::CPU_USER,
                Some("system" | "irq" | "softirq") => n::CPU_SYSTEM,
                Some("idle") => n::CPU_IDLE,
                Some("iowait") => n::CPU_IOWAIT,
                Some("steal") => n::CPU_STEAL,
                _ => continue,
            };
            *values.entry(state.to_owned()).or_default() += value;
        } else if let Some((_, to, factor)) = PLAIN.iter().find(same) {
            values.insert((*to).to_owned(), value * factor);
        } else if let Some(device) = label("device") {
            let known = |rows: &'static [(&str, &'static str, f64)], prefix: &str| {
                let (_, to, factor) = rows.iter().find(same)?;
                Some((format!("{prefix}{device}.{to}"), value * factor))
            };
            let figure = known(DISK, n::DISK_PREFIX).or_else(|| known(NET, n::NET_PREFIX));
            // A link without a speed says -1, in bits -8.
            values.extend(figure.filter(|(_, value)| *value >= 0.0));
        }
    }
    if !cpus.is_empty() {
        values.insert(n::CPUS.to_owned(), cpus.len() as f64);
    }
    values
}

type Labels<'a> = Vec<(&'a str, &'a str)>;

/// `name{label="value",…} number`. Labels with escapes are none of those that are needed.
fn sample(line: &str) -> Option<(&str, Labels<'_>, f64)> {
    let (head, rest) = if let Some(open) = line.find('{') {
        let close = line.rfind('}')?;
        (
            (line.get(..open)?, line.get(open + 1..close)?),
            line.get(close + 1..)?,
        )
    } else {
        let space = line.find(' ')?;
        ((line.get(..space)?, ""), line.get(space..)?)
    };
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    let labels = head
        .1
        .split("\",")
        .filter_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            Some((name.trim(), value.trim_matches('"')))
        })
        .collect();
    value.is_finite().then_some((head.0, labels, value))
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.
# TYPE node_cpu_seconds_total counter
node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 100.5
node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 10
node_cpu_seconds_total{cpu=\"0\",mode=\"nice\"} 1
node_cpu_seconds_total{cpu=\"0\",mode=\"steal\"} 0.25
node_cpu_seconds_total{cpu=\"1\",mode=\"idle\"} 99.5
node_cpu_seconds_total{cpu=\"1\",mode=\"softirq\"} 2
node_cpu_guest_seconds_total{cpu=\"1\",mode=\"user\"} 500
node_context_switches_total 1.5e+06
node_procs_running 3
node_pressure_cpu_waiting_seconds_total 1.5
node_disk_io_time_weighted_seconds_total{device=\"nvme0n1\"} 12.5
node_disk_reads_completed_total{device=\"nvme0n1\"} 7
node_network_receive_bytes_total{device=\"eth0\"} 4096
node_network_speed_bytes{device=\"eth0\"} 1.25e+08
node_network_speed_bytes{device=\"veth1\"} -125000
node_filesystem_size_bytes{device=\"/dev/sda1\",fstype=\"ext4\",mountpoint=\"/a b\"} 5
broken{
nan_value NaN
";

    #[test]
    fn figures_come_under_their_names_here() {
        let found = figures(TEXT);
        let expected = [
            (n::CPU_IDLE, 200.0),
            (n::CPU_USER, 11.0),
            (n::CPU_SYSTEM, 2.0),
            (n::CPU_STEAL, 0.25),
            (n::CPUS, 2.0),
            (n::CONTEXT_SWITCHES, 1.5e6),
            (n::RUNNABLE, 3.0),
            (n::PRESSURE_CPU, 1.5e6),
            ("disk.nvme0n1.queue_ms", 12_500.0),
            ("disk.nvme0n1.reads", 7.0),
            ("net.eth0.received_bytes", 4096.0),
            ("net.eth0.speed_bits", 1e9),
        ];
        for (name, value) in expected {
            assert_eq!(found.get(name), Some(&value), "{name}");
        }
        assert_eq!(found.len(), expected.len(), "{found:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[a-z_{}=\",0-9 .é\n#-]{0,80}") {
            figures(&text);
        }
    }
}
