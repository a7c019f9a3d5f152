//! The journal of a run: every change to a server, written and synced before it is made.
//!
//! One JSON object a line. A change carries how to undo it; when it has been undone, a second line
//! `{"undone": seq}` says so. What was written and never undone is what a crashed run left behind:
//! [`Journal::read_pending`] returns it, newest first, ready to be replayed. The first line,
//! `{"run": id}`, names the run. Once a change is made, `{"took": seq, …}` says what the server made of it:
//! only what is still so at the end is capbench's to undo.
//!
//! A journal that [holds a lease](Journal::hold) keeps the same entries in a table on the server as well, so
//! that the server itself knows who holds changes on it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::TargetError;
use super::lease::Lease;

/// How a change is undone, in terms that need nothing but the journal and an administrator's connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// Statements, in order.
    Sql(Vec<String>),
    /// End the private server whose pid stands in `pid_file` inside `folder`, then remove the folder.
    PrivateServer {
        /// The temporary folder.
        folder: PathBuf,
        /// The server's pid file, inside the folder.
        pid_file: PathBuf,
    },
    /// Call the plan's hook `apply` with no options (and `restart` after it).
    Hook,
    /// A person has to put this back.
    Operator(String),
    /// Restart the server, so that undone start-up settings take effect.
    Restart,
    /// It goes away with something else (a private server).
    Nothing,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Number within the journal, from 1.
    pub seq: u64,
    /// When it was written, UTC, RFC 3339.
    pub at: String,
    /// What is done: `set-global`, `set-persist`, `create-table` …
    pub action: String,
    /// To what: a variable, a table, a folder.
    pub name: String,
    /// Value before; `None`: there was none or it is unknown.
    pub before: Option<String>,
    /// Value asked for.
    pub after: Option<String>,
    /// The way back.
    pub undo: Undo,
    /// What the server made of it; `None`: that was not noted, since it was cut off in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<Taken>,
}

/// What the server made of a change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Taken {
    /// The global value as SET takes it; `None`: the change does not touch it.
    pub value: Option<String>,
    /// The persisted value; `None`: the change does not touch it.
    pub persisted: Option<String>,
    /// Variables that the server moved along.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub collateral: Vec<Collateral>,
}

/// A variable that a server moved along with the one that was set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collateral {
    /// Variable.
    pub name: String,
    /// Value before, as SET takes it.
    pub before: String,
    /// Value after, as SET takes it.
    pub after: String,
}

#[derive(Serialize, Deserialize)]
struct Undone {
    undone: u64,
    at: String,
}

#[derive(Serialize, Deserialize)]
struct Opened {
    run: String,
    at: String,
}

#[derive(Serialize, Deserialize)]
struct Took {
    took: u64,
    made: Taken,
}

/// What a journal's file says.
#[derive(Default)]
struct Read {
    run: Option<String>,
    pending: Vec<Entry>,
    seq: u64,
}

/// The open journal of this run.
#[derive(Debug)]
pub struct Journal {
    file: Option<(PathBuf, File)>,
    run: String,
    seq: u64,
    pending: Vec<Entry>,
    lease: Option<Lease>,
}

impl Journal {
    /// Opens `path` for appending, and makes it when it is absent; entries that an earlier run left
    /// pending stay pending.
    ///
    /// # Errors
    /// The file cannot be read, made or synced.
    pub fn create(path: &Path) -> Result<Self, TargetError> {
        let known = if path.exists() {
            Self::read(path)?
        } else {
            Read::default()
        };
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(TargetError::file("create", path))?;
        // A crash may have left half a line; what follows must start on its own.
        let torn = std::fs::read(path)
            .map_err(TargetError::file("read", path))?
            .last()
            .is_some_and(|b| *b != b'\n');
        if torn {
            file.write_all(b"\n\n")
                .map_err(TargetError::file("write", path))?;
        }
        file.sync_all().map_err(TargetError::file("write", path))?;
        // The name itself must survive a power loss too.
        if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            File::open(folder)
                .and_then(|f| f.sync_all())
                .map_err(TargetError::file("write", folder))?;
        }
        let fresh = known.run.is_none();
        let mut journal = Self {
            file: Some((path.to_owned(), file)),
            run: known.run.unwrap_or_else(new_run),
            seq: known.seq,
            pending: known.pending,
            lease: None,
        };
        if fresh {
            journal.append(&Opened {
                run: journal.run.clone(),
                at: jiff::Timestamp::now().to_string(),
            })?;
        }
        Ok(journal)
    }

    /// A journal that is kept nowhere, for `check`, which changes nothing but a private server of its own.
    pub fn in_memory() -> Self {
        Self {
            file: None,
            run: new_run(),
            seq: 0,
            pending: Vec::new(),
            lease: None,
        }
    }

    /// Takes over the changes of a run whose folder is lost, as the server's lease holds them, newest first.
    pub fn of_lease(run: &str, pending: Vec<Entry>) -> Self {
        Self {
            file: None,
            run: run.to_owned(),
            seq: pending.iter().map(|entry| entry.seq).max().unwrap_or(0),
            pending: pending.into_iter().rev().collect(),
            lease: None,
        }
    }

    /// The id of the run.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// From here on the server holds the pending changes too.
    pub fn hold(&mut self, lease: Lease) {
        self.lease = Some(lease);
    }

    /// Writes a change that is about to be made and returns its number. Call this before making it.
    ///
    /// # Errors
    /// The line cannot be written or synced: the change must then not be made.
    pub fn write(
        &mut self,
        action: &str,
        name: &str,
        before: Option<&str>,
        after: Option<&str>,
        undo: Undo,
    ) -> Result<u64, TargetError> {
        let entry = Entry {
            seq: self.seq + 1,
            at: jiff::Timestamp::now().to_string(),
            action: action.to_owned(),
            name: name.to_owned(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
            undo,
            took: None,
        };
        self.append(&entry)?;
        self.seq = entry.seq;
        if let Some(lease) = &mut self.lease
            && let Err(error) = lease.note(&self.run, &entry)
        {
            // Nothing was changed, nor will be.
            self.append(&undone_now(entry.seq))?;
            return Err(error);
        }
        self.pending.push(entry);
        Ok(self.seq)
    }

    /// Notes what the server made of change `seq`.
    ///
    /// # Errors
    /// The line cannot be written or synced, or the lease not be written.
    pub fn took(&mut self, seq: u64, taken: Taken) -> Result<(), TargetError> {
        self.append(&Took {
            took: seq,
            made: taken.clone(),
        })?;
        let Some(entry) = self.pending.iter_mut().find(|entry| entry.seq == seq) else {
            return Ok(());
        };
        entry.took = Some(taken);
        match &mut self.lease {
            Some(lease) => lease.note(&self.run, entry),
            None => Ok(()),
        }
    }

    /// Notes that change `seq` has been undone (or was never made).
    ///
    /// # Errors
    /// The line cannot be written or synced.
    pub fn undone(&mut self, seq: u64) -> Result<(), TargetError> {
        // The lease first: what cannot be taken from the server stays in the file too, to be tried again.
        if let Some(lease) = &mut self.lease {
            lease.forget(&self.run, seq)?;
        }
        self.append(&undone_now(seq))?;
        self.pending.retain(|e| e.seq != seq);
        Ok(())
    }

    /// The lease's database is capbench's now, since the data that it was made for is gone.
    pub fn owns_database(&mut self) {
        if let Some(lease) = &mut self.lease {
            lease.owns_database();
        }
    }

    /// Changes that were written and not undone, newest first: the order in which to undo them.
    pub fn pending(&self) -> Vec<Entry> {
        self.pending.iter().rev().cloned().collect()
    }

    /// What the journal in `path` has written and not undone, newest first.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged. A last line that was torn by a crash is skipped: it was never
    /// synced, so its change was never made.
    pub fn read_pending(path: &Path) -> Result<Vec<Entry>, TargetError> {
        let mut pending = Self::read(path)?.pending;
        pending.reverse();
        Ok(pending)
    }

    fn read(path: &Path) -> Result<Read, TargetError> {
        let text = std::fs::read(path).map_err(TargetError::file("read", path))?;
        let text = String::from_utf8_lossy(&text);
        let mut pending: Vec<Entry> = Vec::new();
        let mut seq = 0;
        let mut run = None;
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines
            .iter()
            .enumerate()
            .filter(|(_, l)| !l.trim().is_empty())
        {
            if let Ok(Undone { undone, .. }) = serde_json::from_str(line) {
                pending.retain(|e| e.seq != undone);
            } else if let Ok(Opened { run: id, .. }) = serde_json::from_str(line) {
                run = Some(id);
            } else if let Ok(note) = serde_json::from_str::<Took>(line) {
                for entry in pending.iter_mut().filter(|e| e.seq == note.took) {
                    entry.took = Some(note.made.clone());
                }
            } else if let Ok(entry) = serde_json::from_str::<Entry>(line) {
                seq = seq.max(entry.seq);
                pending.push(entry);
            } else if number + 1 < lines.len() || text.ends_with('\n') {
                // Only the last line can be torn: it was never synced, so its change was never made.
                // `create` ends a torn line before it goes on, and says so with an empty one.
                let torn = lines.get(number + 1).is_some_and(|next| next.is_empty());
                if !torn {
                    return Err(TargetError::Lost(format!(
                        "{} is damaged: line {} is no entry of a journal\nhint: what it lost cannot be put back by capbench; compare the server's settings with the first lines and with run.json",
                        path.display(),
                        number + 1
                    )));
                }
            }
        }
        Ok(Read { run, pending, seq })
    }

    fn append(&mut self, line: &impl Serialize) -> Result<(), TargetError> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let mut text = serde_json::to_vec(line)
            .map_err(|e| TargetError::file("write", path.clone())(e.into()))?;
        text.push(b'\n');
        file.write_all(&text)
            .and_then(|()| file.sync_data())
            .map_err(TargetError::file("write", path.clone()))
    }
}

/// A run's id: no two runs of one server share it.
fn new_run() -> String {
    format!("{:016x}", rand::random::<u64>())
}

fn undone_now(seq: u64) -> Undone {
    Undone {
        undone: seq,
        at: jiff::Timestamp::now().to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    fn sql(text: &str) -> Undo {
        Undo::Sql(vec![text.to_owned()])
    }

    #[test]
    fn what_was_not_undone_is_read_back_newest_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::create(&path).unwrap();
        let first = journal
            .write(
                "set-global",
                "a",
                Some("1"),
                Some("2"),
                sql("SET GLOBAL a = 1"),
            )
            .unwrap();
        let second = journal
            .write("set-global", "b", None, Some("2"), sql("SET GLOBAL b = 1"))
            .unwrap();
        let third = journal
            .write("stop", "c", None, None, Undo::Nothing)
            .unwrap();
        journal.undone(second).unwrap();
        let names = |entries: &[Entry]| entries.iter().map(|e| e.seq).collect::<Vec<_>>();
        assert_eq!(names(&journal.pending()), [third, first]);
        assert_eq!(
            names(&Journal::read_pending(&path).unwrap()),
            [third, first]
        );
        assert_eq!(
            Journal::read_pending(&path).unwrap()[1].undo,
            sql("SET GLOBAL a = 1")
        );
    }

    #[test]
    fn a_torn_line_is_a_change_that_was_never_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::create(&path).unwrap();
        journal
            .write("set-global", "a", None, None, Undo::Nothing)
            .unwrap();
        drop(journal);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"seq\":2,\"at\":\"2026").unwrap();
        let mut again = Journal::create(&path).unwrap();
        assert_eq!(again.pending().len(), 1);
        let seq = again
            .write("set-global", "b", None, None, Undo::Nothing)
            .unwrap();
        assert_eq!(seq, 2);
        assert_eq!(Journal::read_pending(&path).unwrap().len(), 2);
    }

    #[test]
    fn a_damaged_journal_is_not_taken_for_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::create(&path).unwrap();
        for name in ["a", "b"] {
            journal
                .write("set-global", name, None, None, sql("SET GLOBAL a = 1"))
                .unwrap();
        }
        let whole = std::fs::read_to_string(&path).unwrap();
        let (opened, rest) = whole.split_once('\n').unwrap();
        assert!(opened.contains("\"run\""), "{opened}");
        std::fs::write(&path, &rest[20..]).unwrap();
        let error = Journal::read_pending(&path).unwrap_err().to_string();
        assert!(
            error.contains("line 1") && error.contains("hint:"),
            "{error}"
        );
    }

    #[test]
    fn in_memory_keeps_no_file() {
        let mut journal = Journal::in_memory();
        let seq = journal
            .write("set-global", "a", None, None, Undo::Restart)
            .unwrap();
        assert_eq!(journal.pending().len(), 1);
        journal.undone(seq).unwrap();
        assert!(journal.pending().is_empty());
    }
}
