//! Prepared data kept between runs: one folder for each kind of data, under the user's cache folder.
//!
//! An entry is made under another name and renamed when it is whole and on the disk, so that half an entry is
//! never found. Whoever uses or makes one holds a lock on a file beside it; entries in use are not removed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::tree::{self, Listing};
use crate::interrupt::Interrupt;
use crate::units::Bytes;

/// Format of an entry; another number is another entry.
pub(super) const FORMAT: u32 = 1;
/// Names the folder instead of the user's cache folder.
pub const FOLDER_VARIABLE: &str = "CAPBENCH_CACHE_DIR";
/// States how much all entries may take up; 0: nothing is kept.
pub const SIZE_VARIABLE: &str = "CAPBENCH_CACHE_SIZE";
/// What all entries may take up when nothing is stated [H]: a data set of a small server, or several of tests.
const DEFAULT_SIZE: Bytes = Bytes(20 << 30);
/// Left free on the disk beside a new entry, as a share of it.
const HEADROOM: u64 = 10;
/// Attempts to lock a file that another process removes and makes anew.
const ATTEMPTS: u32 = 5;

const MANIFEST: &str = "manifest.json";
const DATA: &str = "data";
const USED: &str = "used";
const LOCK: &str = ".lock";
const UNFINISHED: &str = "unfinished-";

/// What makes prepared data the same: see [`super::data_key`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataKey {
    /// Name of the entry: a hash of everything that shapes the files.
    pub(super) fingerprint: String,
    /// What it is, for people.
    pub(super) title: String,
}

/// Why data was not kept. The run goes on without.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// It is larger than everything that may be kept.
    #[error("it takes up {needed}, and {limit} may be kept ({SIZE_VARIABLE})")]
    TooLarge {
        /// What it takes up.
        needed: Bytes,
        /// What all entries may take up.
        limit: Bytes,
    },
    /// The disk has too little room.
    #[error("{} has {free} free, and {needed} and a tenth more are needed", folder.display())]
    Disk {
        /// The cache.
        folder: PathBuf,
        /// Free space.
        free: Bytes,
        /// What it takes up.
        needed: Bytes,
    },
    /// Another capbench makes or uses the same data now.
    #[error("another capbench uses the same data now")]
    Busy,
    /// A file could not be read or written.
    #[error("{}: {source}", folder.display())]
    File {
        /// Where.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The user asked to end.
    #[error("interrupted")]
    Interrupted,
}

/// The entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// What it is.
    pub title: String,
    /// Disk space that it takes up.
    pub bytes: Bytes,
    /// When it was made, UTC, RFC 3339.
    pub made_at: String,
    /// When a run last used it.
    pub used_at: SystemTime,
    /// Whether a run uses it now.
    pub in_use: bool,
    /// Its folder.
    folder: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    fingerprint: String,
    title: String,
    made_at: String,
    listing: Listing,
}

/// Prepared data that was found or made; nobody removes it while this value lives.
#[derive(Debug)]
pub struct KeptData {
    /// The files.
    pub(super) data: PathBuf,
    /// What they take up.
    pub(super) bytes: Bytes,
    _lock: File,
}

/// The folder of all entries.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
    limit: Bytes,
}

impl Cache {
    /// The cache of this user: `$CAPBENCH_CACHE_DIR`, else `capbench` under `$XDG_CACHE_HOME` or `~/.cache`;
    /// `None`: there is no such folder, or nothing may be kept.
    ///
    /// # Errors
    /// `$CAPBENCH_CACHE_SIZE` is no size.
    pub fn of_user() -> Result<Option<Self>, String> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let limit = match variable(SIZE_VARIABLE) {
            Some(text) => Bytes::parse(&text.to_string_lossy()).map_err(|why| {
                format!(
                    "{SIZE_VARIABLE}: {why}\nhint: state a size such as 20GiB, or 0 to keep nothing"
                )
            })?,
            None => DEFAULT_SIZE,
        };
        // The specification has relative paths ignored.
        let absolute = |path: PathBuf| path.is_absolute().then_some(path);
        let root = match variable(FOLDER_VARIABLE) {
            Some(folder) => std::path::absolute(folder).ok(),
            None => variable("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .and_then(absolute)
                .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")))
                .and_then(absolute)
                .map(|folder| folder.join("capbench")),
        };
        Ok(root
            .filter(|_| limit.0 > 0)
            .map(|root| Self { root, limit }))
    }

    /// A cache in `root` that takes up at most `limit`.
    pub fn at(root: PathBuf, limit: Bytes) -> Self {
        Self { root, limit }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.root
    }

    /// What all entries may take up.
    pub fn limit(&self) -> Bytes {
        self.limit
    }

    /// All entries, the one used last first. A folder that is not there holds none.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn entries(&self) -> io::Result<Vec<CacheEntry>> {
        let mut found = Vec::new();
        let folders = match fs::read_dir(&self.root) {
            Ok(folders) => folders,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(found),
            Err(e) => return Err(e),
        };
        for folder in folders {
            let folder = folder?.path();
            let Some(manifest) = manifest(&folder) else {
                continue;
            };
            let lock = folder.with_extension("lock");
            let in_use = lock.exists() && locked(&lock, true)?.is_none();
            found.push(CacheEntry {
                title: manifest.title,
                bytes: Bytes(manifest.listing.space),
                made_at: manifest.made_at,
                used_at: folder
                    .join(USED)
                    .metadata()
                    .and_then(|m| m.modified())
                    .unwrap_or(SystemTime::UNIX_EPOCH),
                in_use,
                folder,
            });
        }
        found.sort_by_key(|entry| std::cmp::Reverse(entry.used_at));
        Ok(found)
    }

    /// Removes all entries that are not in use, and what unfinished ones have left; how many went, and how
    /// many stay since a run uses them.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub fn clear(&self) -> io::Result<(usize, usize)> {
        let (mut gone, mut used) = (0, 0);
        self.sweep()?;
        for entry in self.entries()? {
            if remove(&entry.folder)? {
                gone += 1;
            } else {
                used += 1;
            }
        }
        Ok((gone, used))
    }

    /// The entry of `key`, whole and unchanged since it was made.
    ///
    /// # Errors
    /// There is one that cannot be used, and why; it was removed unless someone else uses it.
    pub fn find(&self, key: &DataKey) -> Result<Option<KeptData>, String> {
        let folder = self.root.join(&key.fingerprint);
        if !folder.is_dir() {
            return Ok(None);
        }
        let lock = match locked(&folder.with_extension("lock"), false) {
            Ok(Some(lock)) => lock,
            // Someone makes it anew or removes it.
            Ok(None) => return Ok(None),
            Err(error) => return Err(format!("{}: {error}", folder.display())),
        };
        match checked(&folder, key) {
            Ok(bytes) => {
                // Only for the order in which entries go.
                let _ = touch(&folder);
                Ok(Some(KeptData {
                    data: folder.join(DATA),
                    bytes,
                    _lock: lock,
                }))
            }
            Err(why) => {
                drop(lock);
                let _ = remove(&folder);
                Err(why)
            }
        }
    }

    /// Forgets an entry that turned out to be of no use.
    pub fn forget(&self, key: &DataKey) {
        let _ = remove(&self.root.join(&key.fingerprint));
    }

    /// Copies a data directory whose server has shut down cleanly into an entry for `key`. Entries that
    /// were not used for longest make room.
    ///
    /// # Errors
    /// [`NotKept`]; nothing of it is left then.
    pub fn keep(
        &self,
        key: &DataKey,
        from: &Path,
        interrupt: &Interrupt,
    ) -> Result<KeptData, NotKept> {
        let failed = |source| NotKept::File {
            folder: self.root.clone(),
            source,
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.root)
            .map_err(failed)?;
        let folder = self.root.join(&key.fingerprint);
        let lock = folder.with_extension("lock");
        let Some(own) = locked(&lock, true).map_err(failed)? else {
            return Err(NotKept::Busy);
        };
        let needed = match self.make(key, from, &folder, interrupt) {
            Ok(needed) => needed,
            Err(error) => {
                if !folder.is_dir() {
                    // A lock of nothing.
                    let _ = fs::remove_file(&lock);
                }
                return Err(error);
            }
        };
        // From the maker's lock to a user's: whoever came in between removed it or uses it too.
        drop(own);
        let Some(shared) = locked(&lock, false).map_err(failed)? else {
            return Err(NotKept::Busy);
        };
        if !folder.is_dir() {
            return Err(NotKept::Busy);
        }
        Ok(KeptData {
            data: folder.join(DATA),
            bytes: needed,
            _lock: shared,
        })
    }

    /// Makes the entry, under its lock; what it takes up.
    fn make(
        &self,
        key: &DataKey,
        from: &Path,
        folder: &Path,
        interrupt: &Interrupt,
    ) -> Result<Bytes, NotKept> {
        let failed = |source| NotKept::File {
            folder: self.root.clone(),
            source,
        };
        let needed = Bytes(tree::list(from).map_err(failed)?.space);
        self.make_room(needed, folder)?;
        let unfinished = self.root.join(format!("{UNFINISHED}{}", key.fingerprint));
        let made = fill(&unfinished, from, key, interrupt).and_then(|()| {
            match fs::remove_dir_all(folder) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            fs::rename(&unfinished, folder)?;
            touch(folder)?;
            File::open(&self.root)?.sync_all()
        });
        if let Err(error) = made {
            let _ = fs::remove_dir_all(&unfinished);
            return Err(if interrupt.raised() {
                NotKept::Interrupted
            } else {
                failed(error)
            });
        }
        Ok(needed)
    }

    /// Removes entries until `needed` fits both the limit and the disk.
    fn make_room(&self, needed: Bytes, new: &Path) -> Result<(), NotKept> {
        let failed = |source| NotKept::File {
            folder: self.root.clone(),
            source,
        };
        if needed > self.limit {
            return Err(NotKept::TooLarge {
                needed,
                limit: self.limit,
            });
        }
        self.sweep().map_err(failed)?;
        // A former entry of the same key is replaced.
        let mut entries = self.entries().map_err(failed)?;
        entries.retain(|entry| entry.folder != new);
        let with_headroom = needed.0.saturating_add(needed.0 / HEADROOM);
        loop {
            let held: u64 = entries.iter().map(|entry| entry.bytes.0).sum();
            let free = tree::free(&self.root);
            let short = free.is_some_and(|free| free.0 < with_headroom);
            if held.saturating_add(needed.0) <= self.limit.0 && !short {
                return Ok(());
            }
            // The oldest is the last.
            let Some(at) = entries.iter().rposition(|entry| !entry.in_use) else {
                return Err(match free {
                    Some(free) if short => NotKept::Disk {
                        folder: self.root.clone(),
                        free,
                        needed,
                    },
                    _ => NotKept::Busy,
                });
            };
            let entry = entries.remove(at);
            if !remove(&entry.folder).map_err(failed)? {
                // Someone has begun to use it: it counts, and stays.
                entries.insert(
                    0,
                    CacheEntry {
                        in_use: true,
                        ..entry
                    },
                );
            }
        }
    }

    /// Removes what makers that were killed have left.
    fn sweep(&self) -> io::Result<()> {
        let folders = match fs::read_dir(&self.root) {
            Ok(folders) => folders,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e),
        };
        for folder in folders {
            let folder = folder?.path();
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            if let Some(fingerprint) = name.strip_prefix(UNFINISHED) {
                let lock = self.root.join(format!("{fingerprint}{LOCK}"));
                if locked(&lock, true)?.is_some() {
                    fs::remove_dir_all(&folder)?;
                }
            }
        }
        Ok(())
    }
}

/// Makes an entry under its first name; on the disk when this returns.
fn fill(folder: &Path, from: &Path, key: &DataKey, interrupt: &Interrupt) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let data = folder.join(DATA);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&data)?;
    tree::copy(from, &data, None, interrupt)?;
    let manifest = Manifest {
        format: FORMAT,
        fingerprint: key.fingerprint.clone(),
        title: key.title.clone(),
        made_at: jiff::Timestamp::now()
            .round(jiff::Unit::Second)
            .unwrap_or_else(|_| jiff::Timestamp::now())
            .to_string(),
        listing: tree::list(&data)?,
    };
    fs::write(folder.join(MANIFEST), serde_json::to_vec(&manifest)?)?;
    tree::write_back(folder)
}

fn manifest(folder: &Path) -> Option<Manifest> {
    let named = folder.file_name()?.to_str()?.to_owned();
    let manifest: Manifest = serde_json::from_slice(&fs::read(folder.join(MANIFEST)).ok()?).ok()?;
    (manifest.fingerprint == named).then_some(manifest)
}

/// Whether every file is there with the size and the time it was made with; what they take up.
fn checked(folder: &Path, key: &DataKey) -> Result<Bytes, String> {
    let shown = folder.display();
    let manifest = manifest(folder)
        .filter(|manifest| manifest.format == FORMAT && manifest.fingerprint == key.fingerprint)
        .ok_or_else(|| format!("{shown} has no manifest that can be read"))?;
    let found = tree::list(&folder.join(DATA)).map_err(|e| format!("{shown}: {e}"))?;
    if found.folders != manifest.listing.folders || found.files != manifest.listing.files {
        let changed = manifest
            .listing
            .files
            .iter()
            .find(|file| !found.files.contains(file))
            .map_or("its list of files".into(), |file| {
                file.path.to_string_lossy()
            });
        return Err(format!(
            "{shown} is not as it was made: {changed} is missing or was changed"
        ));
    }
    Ok(Bytes(found.space))
}

fn touch(folder: &Path) -> io::Result<()> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(USED))?
        .set_modified(SystemTime::now())
}

/// Removes an entry; false: someone uses it.
fn remove(folder: &Path) -> io::Result<bool> {
    let path = folder.with_extension("lock");
    let Some(lock) = locked(&path, true)? else {
        return Ok(false);
    };
    // A crash in between must not leave half of what still has its name.
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = folder.with_file_name(format!("{UNFINISHED}{name}"));
    match fs::rename(folder, &unfinished) {
        Ok(()) => fs::remove_dir_all(&unfinished)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    fs::remove_file(&path)?;
    drop(lock);
    Ok(true)
}

/// The lock file at `path`, locked for this process alone or with others; `None`: it is held elsewhere.
fn locked(path: &Path, alone: bool) -> io::Result<Option<File>> {
    for _ in 0..ATTEMPTS {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)?;
        let taken = if alone {
            file.try_lock()
        } else {
            file.try_lock_shared()
        };
        match taken {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        // Whoever held it before may have removed it: then others lock another file of this name.
        let own = file.metadata()?;
        if path
            .metadata()
            .is_ok_and(|named| named.ino() == own.ino() && named.dev() == own.dev())
        {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    fn key(name: &str) -> DataKey {
        DataKey {
            fingerprint: name.to_owned(),
            title: format!("title of {name}"),
        }
    }

    struct Lab {
        folder: tempfile::TempDir,
    }

    impl Lab {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("from/db")).unwrap();
            fs::write(folder.path().join("from/ibdata1"), vec![1; 100_000]).unwrap();
            fs::write(folder.path().join("from/db/t.ibd"), vec![2; 50_000]).unwrap();
            Self { folder }
        }

        fn from(&self) -> PathBuf {
            self.folder.path().join("from")
        }

        fn cache(&self, limit: u64) -> Cache {
            Cache::at(self.folder.path().join("cache"), Bytes(limit))
        }

        fn keep(&self, cache: &Cache, name: &str) -> Result<KeptData, NotKept> {
            cache.keep(&key(name), &self.from(), &Interrupt::new())
        }
    }

    #[test]
    fn what_was_kept_is_found_and_nothing_else() {
        let lab = Lab::new();
        let cache = lab.cache(1 << 20);
        assert!(cache.find(&key("a")).unwrap().is_none());
        assert_eq!(cache.entries().unwrap(), []);
        drop(lab.keep(&cache, "a").unwrap());
        let found = cache.find(&key("a")).unwrap().unwrap();
        assert_eq!(
            fs::read(found.data.join("db/t.ibd")).unwrap(),
            vec![2; 50_000]
        );
        assert!(cache.find(&key("b")).unwrap().is_none());
        let entries = cache.entries().unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].title, "title of a");
        assert!(entries[0].in_use && entries[0].bytes.0 >= 150_000);
        drop(found);
        assert!(!cache.entries().unwrap()[0].in_use);
    }

    #[test]
    fn what_was_changed_is_not_used_and_goes() {
        let lab = Lab::new();
        let cache = lab.cache(1 << 20);
        for harm in ["shorter", "same size", "gone", "more", "manifest"] {
            let data = lab.keep(&cache, "a").unwrap().data.clone();
            match harm {
                "shorter" => fs::write(data.join("ibdata1"), vec![1; 99_999]).unwrap(),
                "same size" => fs::write(data.join("ibdata1"), vec![3; 100_000]).unwrap(),
                "gone" => fs::remove_file(data.join("db/t.ibd")).unwrap(),
                "more" => fs::write(data.join("db/u.ibd"), [1]).unwrap(),
                _ => fs::write(data.join("../manifest.json"), "{").unwrap(),
            }
            let why = cache.find(&key("a")).unwrap_err();
            assert!(
                why.contains("manifest") || why.contains("not as it was made"),
                "{why}"
            );
            assert!(cache.find(&key("a")).unwrap().is_none(), "{harm}");
        }
    }

    #[test]
    fn half_an_entry_is_never_found_and_is_swept() {
        let lab = Lab::new();
        let cache = lab.cache(1 << 20);
        drop(lab.keep(&cache, "b").unwrap());
        // A maker that was killed: the files without the final name.
        let half = cache.folder().join("unfinished-a");
        fs::create_dir_all(half.join("data")).unwrap();
        assert!(cache.find(&key("a")).unwrap().is_none());
        // One that still works holds its lock.
        let maker = locked(&cache.folder().join("a.lock"), true).unwrap();
        drop(lab.keep(&cache, "b").unwrap());
        assert!(half.exists());
        drop(maker);
        drop(lab.keep(&cache, "b").unwrap());
        assert!(!half.exists());
    }

    #[test]
    fn an_interrupted_copy_leaves_nothing() {
        let lab = Lab::new();
        let cache = lab.cache(1 << 20);
        let interrupt = Interrupt::new();
        interrupt.raise();
        let kept = cache.keep(&key("a"), &lab.from(), &interrupt);
        if let Err(error) = kept {
            assert!(matches!(error, NotKept::Interrupted), "{error}");
            assert_eq!(cache.entries().unwrap(), []);
            assert!(!cache.folder().join("unfinished-a").exists());
        }
    }

    #[test]
    fn the_entry_unused_for_longest_makes_room_unless_it_is_in_use() {
        let lab = Lab::new();
        let size = tree::list(&lab.from()).unwrap().space;
        let cache = lab.cache(2 * size);
        let old = |name: &str, seconds: u64| {
            File::open(cache.folder().join(name).join(USED))
                .unwrap()
                .set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds))
                .unwrap();
        };
        drop(lab.keep(&cache, "a").unwrap());
        drop(lab.keep(&cache, "b").unwrap());
        old("a", 100);
        old("b", 200);
        drop(lab.keep(&cache, "c").unwrap());
        assert!(cache.find(&key("a")).unwrap().is_none());
        old("b", 200);
        old("c", 300);
        let b = cache.find(&key("b")).unwrap().unwrap();
        old("b", 200);
        drop(lab.keep(&cache, "d").unwrap());
        let names = |cache: &Cache| {
            let mut names: Vec<String> = cache
                .entries()
                .unwrap()
                .into_iter()
                .map(|e| e.title)
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(&cache), ["title of b", "title of d"]);
        let d = cache.find(&key("d")).unwrap().unwrap();
        assert!(matches!(lab.keep(&cache, "e"), Err(NotKept::Busy)));
        drop((b, d));
        let tight = lab.cache(size - 1);
        assert!(matches!(
            lab.keep(&tight, "e"),
            Err(NotKept::TooLarge { .. })
        ));
        assert!(!cache.folder().join("e.lock").exists());
        assert_eq!(names(&cache), ["title of b", "title of d"]);
    }

    #[test]
    fn clearing_spares_what_is_in_use() {
        let lab = Lab::new();
        let cache = lab.cache(1 << 30);
        assert_eq!(cache.clear().unwrap(), (0, 0));
        let used = lab.keep(&cache, "a").unwrap();
        drop(lab.keep(&cache, "b").unwrap());
        fs::create_dir_all(cache.folder().join("unfinished-c")).unwrap();
        assert_eq!(cache.clear().unwrap(), (1, 1));
        assert!(used.data.join("ibdata1").exists());
        drop(used);
        assert_eq!(cache.clear().unwrap(), (1, 0));
        assert_eq!(cache.entries().unwrap(), []);
    }

    #[test]
    fn one_maker_at_a_time() {
        let lab = Lab::new();
        let cache = lab.cache(1 << 30);
        let user = lab.keep(&cache, "a").unwrap();
        assert!(matches!(lab.keep(&cache, "a"), Err(NotKept::Busy)));
        // Users share it.
        assert!(cache.find(&key("a")).unwrap().is_some());
        drop(user);
        lab.keep(&cache, "a").unwrap();
    }
}
