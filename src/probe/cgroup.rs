//! CPU quota of a process's control group: how much it may use, and how often it used it up and had to wait.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use procfs::process::{MountInfo, Process};
use procfs::{ProcResult, ProcessCGroup};

/// The tightest quota that holds for a process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quota {
    /// CPUs that may be used at once, on average over a period.
    pub(super) cpus: f64,
    /// Periods in which the group ran; a counter.
    pub(super) periods: f64,
    /// Periods in which it was stopped until the next; a counter.
    pub(super) throttled: f64,
}

/// Folders of the control group of a process and of those above it that govern its CPU, the innermost first.
///
/// # Errors
/// The process is gone, or /proc cannot be read.
pub(super) fn folders(pid: i32) -> ProcResult<Vec<PathBuf>> {
    let groups = Process::new(pid)?.cgroups()?;
    let mounts = Process::myself()?.mountinfo()?;
    Ok(groups
        .0
        .iter()
        .flat_map(|group| folders_of(group, &mounts.0))
        .collect())
}

/// The least quota of the folders; `None`: nothing there limits the CPU.
pub(super) fn tightest(folders: &[PathBuf]) -> Option<Quota> {
    folders
        .iter()
        .filter_map(|folder| quota(folder))
        .min_by(|a, b| {
            // Of two alike the one that made the process wait.
            a.cpus
                .total_cmp(&b.cpus)
                .then(b.throttled.total_cmp(&a.throttled))
        })
}

fn folders_of(group: &ProcessCGroup, mounts: &[MountInfo]) -> Vec<PathBuf> {
    // Hierarchy 0 is the unified one (version 2).
    let governs = |mount: &&MountInfo| match group.hierarchy {
        0 => mount.fs_type == "cgroup2",
        _ => mount.fs_type == "cgroup" && mount.super_options.contains_key("cpu"),
    };
    if group.hierarchy != 0 && !group.controllers.iter().any(|c| c == "cpu") {
        return Vec::new();
    }
    let Some(mount) = mounts.iter().find(governs) else {
        return Vec::new();
    };
    // Within a container the mount begins at the container's own group.
    let below = Path::new(&group.pathname)
        .strip_prefix(&mount.root)
        .unwrap_or(Path::new(""));
    // Through the components: joining nothing leaves a slash at the end.
    let own: PathBuf = mount.mount_point.join(below).components().collect();
    own.ancestors()
        .take_while(|folder| folder.starts_with(&mount.mount_point))
        .map(Path::to_path_buf)
        .collect()
}

/// Quota of one group; `None`: it has none.
fn quota(folder: &Path) -> Option<Quota> {
    let read = |name: &str| fs_err::read_to_string(folder.join(name)).ok();
    let number = |text: Option<&str>| text?.trim().parse::<f64>().ok().filter(|n| *n > 0.0);
    // "max" and -1 are no limit, and no positive number.
    let (limit, period) = match read("cpu.max") {
        Some(text) => {
            let mut words = text.split_whitespace();
            (number(words.next())?, number(words.next())?)
        }
        None => (
            number(read("cpu.cfs_quota_us").as_deref())?,
            number(read("cpu.cfs_period_us").as_deref())?,
        ),
    };
    let text = read("cpu.stat")?;
    let stat: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let counter = |name: &str| stat.get(name)?.trim().parse::<f64>().ok();
    Some(Quota {
        cpus: limit / period,
        periods: counter("nr_periods")?,
        throttled: counter("nr_throttled")?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use procfs::FromRead as _;
    use procfs::process::MountInfos;

    use super::*;

    fn group(hierarchy: u32, controllers: &[&str], pathname: &str) -> ProcessCGroup {
        ProcessCGroup {
            hierarchy,
            controllers: controllers.iter().map(|c| (*c).to_owned()).collect(),
            pathname: pathname.to_owned(),
        }
    }

    fn mounts(text: &str) -> Vec<MountInfo> {
        MountInfos::from_read(text.as_bytes()).unwrap().0
    }

    fn paths(found: &[PathBuf]) -> Vec<&str> {
        found.iter().map(|p| p.to_str().unwrap()).collect()
    }

    #[test]
    fn the_groups_above_count_too() {
        let v1 = mounts(
            "30 20 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             31 20 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
        );
        let found = folders_of(&group(4, &["cpu", "cpuacct"], "/pod/db"), &v1);
        assert_eq!(
            paths(&found),
            [
                "/sys/fs/cgroup/cpu/pod/db",
                "/sys/fs/cgroup/cpu/pod",
                "/sys/fs/cgroup/cpu"
            ]
        );
        assert!(folders_of(&group(5, &["memory"], "/pod/db"), &v1).is_empty());
        // A container sees its own group at the mount's root, or the whole path.
        let v2 = mounts("31 20 0:26 /docker/ab /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
        for path in ["/", "/docker/ab"] {
            let found = folders_of(&group(0, &[], path), &v2);
            assert_eq!(paths(&found), ["/sys/fs/cgroup"], "{path}");
        }
        assert_eq!(
            paths(&folders_of(&group(0, &[], "/docker/ab/inner"), &v2)),
            ["/sys/fs/cgroup/inner", "/sys/fs/cgroup"]
        );
        assert!(folders_of(&group(0, &[], "/pod/db"), &v1).is_empty());
    }

    #[test]
    fn both_versions_are_read_and_the_tightest_holds() {
        let base = tempfile::tempdir().unwrap();
        let folder = |name: &str, files: &[(&str, &str)]| {
            let folder = base.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            for (file, text) in files {
                std::fs::write(folder.join(file), text).unwrap();
            }
            folder
        };
        let stat = |throttled: u32| {
            format!("usage_usec 1\nnr_periods 40\nnr_throttled {throttled}\nthrottled_usec 7\n")
        };
        let two = folder(
            "two",
            &[("cpu.max", "200000 100000\n"), ("cpu.stat", &stat(9))],
        );
        let free = folder(
            "free",
            &[("cpu.max", "max 100000\n"), ("cpu.stat", &stat(0))],
        );
        let old = folder(
            "old",
            &[
                ("cpu.cfs_quota_us", "40000\n"),
                ("cpu.cfs_period_us", "100000\n"),
                (
                    "cpu.stat",
                    "nr_periods 50\nnr_throttled 49\nthrottled_time 7\n",
                ),
            ],
        );
        let unlimited = folder(
            "unlimited",
            &[
                ("cpu.cfs_quota_us", "-1\n"),
                ("cpu.cfs_period_us", "100000\n"),
                (
                    "cpu.stat",
                    "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
                ),
            ],
        );
        let root = folder("root", &[("cpu.stat", "usage_usec 1\n")]);
        let quota = |cpus, periods, throttled| {
            Some(Quota {
                cpus,
                periods,
                throttled,
            })
        };
        assert_eq!(
            tightest(&[two.clone(), free.clone(), root.clone()]),
            quota(2.0, 40.0, 9.0)
        );
        assert_eq!(tightest(&[two, old, free.clone()]), quota(0.4, 50.0, 49.0));
        assert_eq!(tightest(&[free, unlimited, root]), None);
    }
}
