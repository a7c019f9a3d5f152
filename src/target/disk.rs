//! The disk of the server's data directory, where it is one of this host.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::units::{Bytes, Ratio};

/// Room on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Free for programs without special rights.
    pub free: Bytes,
    /// In all.
    pub total: Bytes,
}

impl DiskSpace {
    /// Free share.
    pub fn free_share(self) -> Ratio {
        Ratio(self.free.0 as f64 / self.total.0.max(1) as f64)
    }
}

/// Room in a server's data directory; `None` when it is not on this host. A server that only looks local (a
/// tunnel, a container's port) names a folder that is not here.
pub fn space(local: bool, datadir: &str) -> Option<DiskSpace> {
    if !local || datadir.is_empty() {
        return None;
    }
    let found = rustix::fs::statvfs(Path::new(datadir)).ok()?;
    Some(DiskSpace {
        free: Bytes(found.f_bavail.saturating_mul(found.f_frsize)),
        total: Bytes(found.f_blocks.saturating_mul(found.f_frsize)),
    })
}

/// The file with the figures of the device that holds a server's data directory (`…/stat` in sysfs);
/// `None` when it is not on this host, or on no device (memory, network, overlay).
pub fn device(local: bool, datadir: &str) -> Option<PathBuf> {
    if !local || datadir.is_empty() {
        return None;
    }
    let device = std::fs::metadata(datadir).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let file = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
    file.exists().then_some(file)
}

/// Milliseconds in which the device had work, of its `stat` file (kernel documentation, block/stat: field
/// 10, `io_ticks`).
pub fn busy_millis(stat: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(stat).ok()?;
    text.split_whitespace().nth(9)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_elsewhere_has_no_figures() {
        assert!(space(true, "/").is_some_and(|s| s.total >= s.free && s.total.0 > 0));
        assert_eq!(space(false, "/"), None);
        assert_eq!(space(true, "/no/such/folder"), None);
        assert_eq!(device(false, "/"), None);
        assert_eq!(device(true, "/proc"), None);
    }
}
