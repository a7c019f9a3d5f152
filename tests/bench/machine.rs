//! Where it was measured.

use std::process::Command;

/// One fact a line: processor, cores, memory, kernel, compiler, load of the machine at the start.
pub(crate) fn facts() -> Vec<(&'static str, String)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim().to_owned())
            .unwrap_or_default()
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let kib: f64 = memory.trim_end_matches(" kB").parse().unwrap_or(0.0);
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let rustc = Command::new("rustc").arg("--version").output();
    vec![
        (
            "processor",
            format!(
                "{}, {cores} cores, server and client on the same machine",
                field(&read("/proc/cpuinfo"), "model name")
            ),
        ),
        ("memory", format!("{:.0} GiB", kib / 1024.0 / 1024.0)),
        (
            "kernel",
            format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        ),
        (
            "compiler",
            rustc.map_or_else(
                |_| "n/a".to_owned(),
                |o| String::from_utf8_lossy(&o.stdout).trim().to_owned(),
            ),
        ),
        (
            "load average before",
            read("/proc/loadavg")
                .split(' ')
                .take(3)
                .collect::<Vec<_>>()
                .join(" "),
        ),
    ]
}
