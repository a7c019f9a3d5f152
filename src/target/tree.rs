//! A data directory as files: listed, copied, written back and dropped from the page cache.
//!
//! Copies share their blocks with the original where the file system can (FICLONE: Btrfs, XFS, bcachefs);
//! else the kernel copies them. Holes stay holes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::interrupt::Interrupt;
use crate::units::Bytes;

/// Copied between two looks at the interrupt.
const PORTION: u64 = 64 << 20;
/// `st_blocks` counts these.
const BLOCK: u64 = 512;

/// A file below a folder, as far as its name, size and time tell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    /// Path below the folder.
    pub(super) path: PathBuf,
    /// Length.
    pub(super) bytes: u64,
    /// Last change, nanoseconds since 1970.
    pub(super) modified: i128,
}

/// What a folder holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listing {
    /// Folders below it, parents before children.
    pub(super) folders: Vec<PathBuf>,
    /// Files, by path.
    pub(super) files: Vec<Listed>,
    /// Disk space that the files take up.
    pub(super) space: u64,
}

/// `None` for what has gone since it was listed: a server that runs removes temporary files.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Lists all files below `root`.
///
/// # Errors
/// Something cannot be read, or is neither a file nor a folder (a link may lead out of the folder, and a
/// copy would then not be one).
pub(super) fn list(root: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let mut waiting = vec![PathBuf::new()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let Some(facts) = unless_gone(entry.metadata())? else {
                continue;
            };
            if facts.is_dir() {
                waiting.push(path.clone());
                listing.folders.push(path);
            } else if facts.is_file() {
                listing.space += facts.blocks() * BLOCK;
                listing.files.push(Listed {
                    path,
                    bytes: facts.len(),
                    modified: i128::from(facts.mtime()) * 1_000_000_000
                        + i128::from(facts.mtime_nsec()),
                });
            } else {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    format!("`{}` is neither a file nor a folder", path.display()),
                ));
            }
        }
    }
    listing.folders.sort();
    listing.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(listing)
}

/// Copies everything below `from` into the folder `to`, which must be empty; the copies belong to `owner`
/// (user and group), if one is given. Returns whether all files share their blocks with the originals.
///
/// # Errors
/// The first file that cannot be copied; [`io::ErrorKind::Interrupted`] after the user's wish to end.
pub(super) fn copy(
    from: &Path,
    to: &Path,
    owner: Option<(u32, u32)>,
    interrupt: &Interrupt,
) -> io::Result<bool> {
    let listing = list(from)?;
    for folder in &listing.folders {
        let made = to.join(folder);
        fs::DirBuilder::new().mode(0o700).create(&made)?;
        give(&made, owner)?;
    }
    let mut files: Vec<&Listed> = listing.files.iter().collect();
    // The largest first: nobody waits for it alone at the end.
    files.sort_by_key(|file| std::cmp::Reverse(file.bytes));
    let cloned = AtomicBool::new(true);
    files.into_par_iter().try_for_each(|file| {
        let (source, copy) = (from.join(&file.path), to.join(&file.path));
        let shares = copy_file(&source, &copy, owner, interrupt)
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", copy.display())))?;
        cloned.fetch_and(shares || file.bytes == 0, Ordering::Relaxed);
        Ok::<(), io::Error>(())
    })?;
    Ok(cloned.into_inner())
}

fn give(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    match owner {
        Some((user, group)) => std::os::unix::fs::chown(path, Some(user), Some(group)),
        None => Ok(()),
    }
}

/// Copies one file; whether the copy shares the original's blocks.
fn copy_file(
    from: &Path,
    to: &Path,
    owner: Option<(u32, u32)>,
    interrupt: &Interrupt,
) -> io::Result<bool> {
    let mut source = File::open(from)?;
    let facts = source.metadata()?;
    let mut copy = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(facts.mode() & 0o777)
        .open(to)?;
    if let Some((user, group)) = owner {
        std::os::unix::fs::fchown(&copy, Some(user), Some(group))?;
    }
    if rustix::fs::ioctl_ficlone(&copy, &source).is_ok() {
        return Ok(true);
    }
    let sparse = facts.blocks() * BLOCK < facts.len();
    let mut at = 0;
    while at < facts.len() {
        let (start, end) = if sparse {
            match extent(&source, at)? {
                Some(extent) => extent,
                None => break,
            }
        } else {
            (at, facts.len())
        };
        at = start;
        while at < end {
            if interrupt.raised() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            source.seek(SeekFrom::Start(at))?;
            copy.seek(SeekFrom::Start(at))?;
            // Between two files this is copy_file_range: the data does not leave the kernel.
            let portion = PORTION.min(end - at);
            let copied = io::copy(&mut (&source).take(portion), &mut copy)?;
            if copied == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file became shorter while it was copied",
                ));
            }
            at += copied;
        }
    }
    // A hole at the end has no extent.
    copy.set_len(facts.len())?;
    Ok(false)
}

/// The next piece of a file at or after `at` that holds data.
fn extent(file: &File, at: u64) -> io::Result<Option<(u64, u64)>> {
    let start = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(start))?;
    Ok(Some((start, end)))
}

/// Waits until all files below `root` are on the disk.
///
/// # Errors
/// One of them cannot be written.
pub(super) fn write_back(root: &Path) -> io::Result<()> {
    let listing = list(root)?;
    listing.files.par_iter().try_for_each(|file| {
        match unless_gone(File::open(root.join(&file.path)))? {
            Some(file) => file.sync_data(),
            None => Ok(()),
        }
    })?;
    for folder in &listing.folders {
        File::open(root.join(folder))?.sync_all()?;
    }
    File::open(root)?.sync_all()
}

/// Takes the files below `root` out of the page cache; only what is on the disk goes.
///
/// # Errors
/// A file cannot be opened; the file system has no page cache.
pub(super) fn drop_from_page_cache(root: &Path) -> io::Result<()> {
    for file in list(root)?.files {
        if let Some(file) = unless_gone(File::open(root.join(&file.path)))? {
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

/// Empties a folder.
///
/// # Errors
/// Something in it cannot be removed.
pub(super) fn clear(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Free space where `folder` is, for this account; `None`: unknown.
pub(super) fn free(folder: &Path) -> Option<Bytes> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    Some(Bytes(stat.f_bavail.saturating_mul(stat.f_frsize)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_copy_is_whole_and_keeps_holes() {
        let (from, to) = (folder(), folder());
        fs::create_dir_all(from.path().join("db/#inner")).unwrap();
        fs::write(from.path().join("db/t.ibd"), vec![7; 300_000]).unwrap();
        fs::write(from.path().join("db/#inner/empty"), "").unwrap();
        let sparse = File::create(from.path().join("sparse")).unwrap();
        sparse.write_all_at(b"begin", 0).unwrap();
        sparse.write_all_at(b"middle", 40 << 20).unwrap();
        sparse.set_len(80 << 20).unwrap();
        copy(from.path(), to.path(), None, &Interrupt::new()).unwrap();

        let (a, b) = (list(from.path()).unwrap(), list(to.path()).unwrap());
        let sizes = |listing: &Listing| -> Vec<(PathBuf, u64)> {
            listing
                .files
                .iter()
                .map(|f| (f.path.clone(), f.bytes))
                .collect()
        };
        assert_eq!(sizes(&a), sizes(&b));
        assert_eq!(a.folders, b.folders);
        assert_eq!(a.folders, [PathBuf::from("db"), PathBuf::from("db/#inner")]);
        for file in &a.files {
            let read = |root: &Path| fs::read(root.join(&file.path)).unwrap();
            assert_eq!(
                read(from.path()),
                read(to.path()),
                "{}",
                file.path.display()
            );
        }
        // A file system without holes makes both sides large.
        assert!(b.space <= a.space + (1 << 20), "{} {}", a.space, b.space);
    }

    #[test]
    fn a_link_is_not_copied() {
        let (from, to) = (folder(), folder());
        std::os::unix::fs::symlink("/", from.path().join("link")).unwrap();
        let error = copy(from.path(), to.path(), None, &Interrupt::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("`link`"), "{error}");
    }

    #[test]
    fn a_wish_to_end_ends_a_copy() {
        let (from, to) = (folder(), folder());
        let mut file = File::create(from.path().join("a")).unwrap();
        file.write_all(&[1; 4096]).unwrap();
        let interrupt = Interrupt::new();
        interrupt.raise();
        let copied = copy(from.path(), to.path(), None, &interrupt);
        // A clone is over before anyone can wish.
        if let Err(error) = copied {
            assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        }
    }

    #[test]
    fn a_folder_is_emptied_and_stays() {
        let root = folder();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("a/b/c"), "x").unwrap();
        fs::write(root.path().join("d"), "x").unwrap();
        write_back(root.path()).unwrap();
        drop_from_page_cache(root.path()).unwrap();
        clear(root.path()).unwrap();
        assert_eq!(list(root.path()).unwrap(), Listing::default());
    }
}
