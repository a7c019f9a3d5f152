//! Making a run folder and saving into it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::record::{CellRecord, Run, Sample};

use super::table::Table;
use super::{StoreError, latency, tables};

/// Where a new run folder goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// A new folder under this one, named after the plan and the time.
    Under(&'a Path),
    /// Exactly this folder; it must be new or empty.
    Exactly(&'a Path),
}

/// A run folder that is being written.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    /// Held while this run writes here; it goes with the process.
    _lock: fs::File,
    /// The cells in the files, in order; a cell that has ended no longer changes.
    saved: Vec<Fingerprint>,
    intervals: Table,
    errors: Table,
    server: Samples,
    host: Samples,
    server_host: Samples,
    replicas: Samples,
}

/// A table of samples and the names of its columns.
#[derive(Debug)]
struct Samples {
    table: Table,
    names: BTreeSet<String>,
    of: fn(&CellRecord) -> &[Sample],
}

/// What tells that a cell's records are the ones already saved.
#[derive(Debug, PartialEq, Eq)]
struct Fingerprint {
    cell: u32,
    intervals: usize,
    server: usize,
    host: usize,
    done: u64,
    nanos: u128,
}

impl Fingerprint {
    fn of(cell: &CellRecord) -> Self {
        Self {
            cell: cell.index,
            intervals: cell.intervals.len(),
            server: cell.server.len(),
            host: cell.host.len(),
            done: cell.intervals.iter().fold(0, |n, i| n.wrapping_add(i.done)),
            nanos: cell
                .intervals
                .iter()
                .fold(0, |n, i| n.wrapping_add(i.latency.sum_nanos())),
        }
    }
}

impl Store {
    /// Makes the folder and puts the plan into it, byte for byte.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] and its neighbours when the place is taken; write errors.
    pub fn create(
        place: Place<'_>,
        plan_slug: &str,
        now: Timestamp,
        plan_source: &[u8],
    ) -> Result<Self, StoreError> {
        let dir = match place {
            Place::Under(base) => new_folder(base, plan_slug, now)?,
            Place::Exactly(dir) => {
                claim(dir)?;
                dir.to_owned()
            }
        };
        let latencies = dir.join("latency");
        fs::create_dir_all(&latencies).map_err(|e| StoreError::write(&latencies, e))?;
        write_file(&dir.join("plan.toml"), plan_source)?;
        Self::of(dir)
    }

    /// Takes up the folder of a run that was cut off, with what it holds.
    ///
    /// # Errors
    /// [`StoreError::InUse`] while its capbench lives; read errors as in [`super::open`].
    pub fn resume(dir: &Path) -> Result<(Self, Run), StoreError> {
        let run = super::open(dir)?;
        Ok((Self::of(dir.to_owned())?, run))
    }

    fn of(dir: PathBuf) -> Result<Self, StoreError> {
        let plan = dir.join("plan.toml");
        let lock = fs::File::open(&plan).map_err(|e| StoreError::read(&plan, e))?;
        // A file system without locks, as some of the network have it, is worked on without.
        if let Err(fs::TryLockError::WouldBlock) = lock.try_lock() {
            return Err(StoreError::InUse(dir));
        }
        let table = |name: &str| Table::new(dir.join(name));
        Ok(Self {
            saved: Vec::new(),
            intervals: table("intervals.csv"),
            errors: table("errors.csv"),
            server: Samples::new(table("server.csv"), |cell| &cell.server),
            host: Samples::new(table("host.csv"), |cell| &cell.host),
            server_host: Samples::new(table("server_host.csv"), |cell| &cell.evidence.server_host),
            replicas: Samples::new(table("replicas.csv"), |cell| &cell.evidence.replicas),
            dir,
            _lock: lock,
        })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes the folder of a run in which nothing was measured, unless its journal names a change that
    /// was not undone.
    pub fn discard(self, changes_pending: bool) {
        if !changes_pending {
            // What cannot be removed stays, and harms nobody.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }

    /// Where the changes made to the server are written before they are made.
    pub fn journal(&self) -> PathBuf {
        self.dir.join("journal.jsonl")
    }

    /// Writes what there is of the run: the tables grow by the cells that are new, or are replaced as a
    /// whole when others changed; the manifest is replaced, last, so that the folder can be read whenever
    /// capbench ends. The latency log of a cell that was saved before is left alone.
    ///
    /// # Errors
    /// Write errors; what was saved before stays readable.
    pub fn save(&mut self, run: &Run) -> Result<(), StoreError> {
        let prints: Vec<Fingerprint> = run.cells.iter().map(Fingerprint::of).collect();
        for (cell, print) in run.cells.iter().zip(&prints) {
            if !cell.intervals.is_empty() && !self.saved.contains(print) {
                let path = self.dir.join(latency::file_name(cell.index));
                write_file(&path, &latency::log(&path, cell)?)?;
            }
        }
        // In the files already, if what is there is the beginning of this run.
        let known = if prints.starts_with(&self.saved) {
            self.saved.len()
        } else {
            0
        };
        // Whatever fails on the way: the tables are then written anew.
        self.saved.clear();
        let cells = &run.cells;
        let header = tables::interval_header();
        write_table(
            &mut self.intervals,
            header,
            cells,
            known,
            tables::interval_rows,
        )?;
        let header = tables::error_header();
        write_table(&mut self.errors, header, cells, known, tables::error_rows)?;
        self.server.write(cells, known)?;
        self.host.write(cells, known)?;
        if run.evidence.server_host.is_some() {
            self.server_host.write(cells, known)?;
        }
        if !run.evidence.replicas.is_empty() {
            self.replicas.write(cells, known)?;
        }
        self.saved = prints;
        let path = self.dir.join("run.json");
        let mut manifest = serde_json::to_vec_pretty(run)
            .map_err(|e| StoreError::write(&path, io::Error::from(e)))?;
        manifest.push(b'\n');
        write_file(&path, &manifest)
    }
}

impl Samples {
    fn new(table: Table, of: fn(&CellRecord) -> &[Sample]) -> Self {
        Self {
            table,
            names: BTreeSet::new(),
            of,
        }
    }

    fn write(&mut self, cells: &[CellRecord], known: usize) -> Result<(), StoreError> {
        let of = self.of;
        if known == 0 {
            self.names.clear();
        }
        for name in cells[known..]
            .iter()
            .flat_map(of)
            .flat_map(|s| s.values.keys())
        {
            if !self.names.contains(name) {
                self.names.insert(name.to_owned());
            }
        }
        let names = &self.names;
        let rows = |cell: &CellRecord| tables::sample_rows(cell.index, of(cell), names);
        let header = tables::sample_header(names);
        write_table(&mut self.table, header, cells, known, rows)
    }
}

/// Adds the rows of the cells after the first `known`, or writes all anew.
fn write_table(
    table: &mut Table,
    header: Vec<u8>,
    cells: &[CellRecord],
    known: usize,
    rows: impl Fn(&CellRecord) -> Vec<u8>,
) -> Result<(), StoreError> {
    let all = |cells: &[CellRecord]| cells.iter().flat_map(&rows).collect::<Vec<u8>>();
    if known > 0 && table.grows(&header) {
        table.append(&all(&cells[known..]))
    } else {
        table.replace(header, &all(cells))
    }
}

/// Replaces a file as a whole: readers see the old content or the new, never a part.
///
/// # Errors
/// [`StoreError::Full`] or [`StoreError::Write`]; the old content is untouched.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), StoreError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let attempt = || -> io::Result<()> {
        // A named temporary file removes itself when anything fails before it takes its place.
        let mut file = tempfile::Builder::new()
            .prefix(".capbench-")
            .permissions(permissions())
            .tempfile_in(folder)?;
        file.write_all(content)?;
        // A rename that outlives its data would leave an empty file after a power cut.
        file.as_file().sync_data()?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    };
    attempt().map_err(|e| StoreError::write(path, e))
}

/// Readable by others as far as the umask lets: a report is made to be handed on.
fn permissions() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o666)
}

fn new_folder(base: &Path, plan_slug: &str, now: Timestamp) -> Result<PathBuf, StoreError> {
    fs::create_dir_all(base).map_err(|e| StoreError::write(base, e))?;
    let time = now.strftime("%Y%m%d-%H%M%S");
    let name = format!("{plan_slug}-{time}");
    for attempt in 1..=1000_u32 {
        let dir = base.join(match attempt {
            1 => name.clone(),
            n => format!("{name}-{n}"),
        });
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(StoreError::write(&dir, e)),
        }
    }
    Err(StoreError::NoFreeName(base.join(name)))
}

fn claim(dir: &Path) -> Result<(), StoreError> {
    match fs::read_dir(dir) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(StoreError::NotEmpty(dir.to_owned())),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(dir).map_err(|e| StoreError::write(dir, e))
        }
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            Err(StoreError::NotAFolder(dir.to_owned()))
        }
        Err(e) => Err(StoreError::write(dir, e)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn noon() -> Timestamp {
        "2026-11-30T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn two_runs_in_one_second_get_two_folders() {
        let base = tempfile::tempdir().unwrap();
        let reports = base.path().join("reports");
        let first = Store::create(Place::Under(&reports), "a-plan", noon(), b"x = 1\n").unwrap();
        let second = Store::create(Place::Under(&reports), "a-plan", noon(), b"x = 1\n").unwrap();
        assert_eq!(first.dir(), reports.join("a-plan-20261130-120000"));
        assert_eq!(second.dir(), reports.join("a-plan-20261130-120000-2"));
        assert_eq!(fs::read(first.dir().join("plan.toml")).unwrap(), b"x = 1\n");
    }

    #[test]
    fn a_folder_in_use_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let exact = base.path().join("deep/out");
        Store::create(Place::Exactly(&exact), "p", noon(), b"").unwrap();
        let again = Store::create(Place::Exactly(&exact), "p", noon(), b"").unwrap_err();
        assert!(matches!(again, StoreError::NotEmpty(_)));
        let file = exact.join("plan.toml");
        let taken = Store::create(Place::Exactly(&file), "p", noon(), b"").unwrap_err();
        assert!(matches!(taken, StoreError::NotAFolder(_)));
        let empty = base.path().join("empty");
        fs::create_dir(&empty).unwrap();
        Store::create(Place::Exactly(&empty), "p", noon(), b"").unwrap();
    }

    #[test]
    fn a_failed_write_leaves_the_old_content_and_no_litter() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("taken");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside"), "old").unwrap();
        write_file(&path, b"new").unwrap_err();
        assert_eq!(fs::read(path.join("inside")).unwrap(), b"old");
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 1);
    }
}
