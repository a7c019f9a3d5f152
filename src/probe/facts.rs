//! What the load machine is.

use procfs::Current;

use super::host::stolen_since_boot;
use crate::record::HostFacts;
use crate::units::{Bytes, Ratio};

/// Facts of this machine; what cannot be read is empty or 0, as [`HostFacts`] has it.
pub fn facts() -> HostFacts {
    let first_line = |path: &str| {
        fs_err::read_to_string(path)
            .ok()
            .and_then(|text| text.lines().next().map(|line| line.trim().to_owned()))
            .unwrap_or_default()
    };
    let kernel = first_line("/proc/sys/kernel/osrelease");
    let system = match distribution() {
        Some(name) => format!("Linux {kernel}, {name}"),
        None => format!("Linux {kernel}"),
    };
    HostFacts {
        name: first_line("/proc/sys/kernel/hostname"),
        system,
        cpu: cpu_model().unwrap_or_default(),
        cores: std::thread::available_parallelism()
            .ok()
            .and_then(|n| u32::try_from(n.get()).ok())
            .unwrap_or(0),
        memory: Bytes(procfs::Meminfo::current().map_or(0, |m| m.mem_total)),
        stolen: stolen_since_boot().map(Ratio),
    }
}

/// How the clock of this machine's cores is governed (`performance`, `powersave` …), each word once;
/// `None`: the system does not say, as in most virtual machines.
pub fn governor() -> Option<String> {
    let mut words = std::collections::BTreeSet::new();
    for entry in std::fs::read_dir("/sys/devices/system/cpu").ok()?.flatten() {
        let file = entry.path().join("cpufreq/scaling_governor");
        if let Ok(word) = std::fs::read_to_string(file) {
            words.insert(word.trim().to_owned());
        }
    }
    (!words.is_empty()).then(|| words.into_iter().collect::<Vec<_>>().join(", "))
}

/// `PRETTY_NAME` of os-release.
fn distribution() -> Option<String> {
    let text = fs_err::read_to_string("/etc/os-release").ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim_matches('"').to_owned())
}

fn cpu_model() -> Option<String> {
    let info = procfs::CpuInfo::current().ok()?;
    info.model_name(0)
        .or_else(|| info.fields.get("Model").map(String::as_str))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_machine_has_a_kernel_cores_and_memory() {
        let facts = super::facts();
        assert!(facts.system.starts_with("Linux "));
        assert!(facts.cores >= 1);
        assert!(facts.memory.0 > 1 << 20);
    }
}
