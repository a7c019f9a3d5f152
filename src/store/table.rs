//! A CSV file that grows by the rows of one cell after another.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use super::{StoreError, write_file};

/// A table and what was written of it.
#[derive(Debug)]
pub(super) struct Table {
    path: PathBuf,
    header: Vec<u8>,
    /// Bytes in the file; `None`: it is not there, or not known to be whole.
    length: Option<u64>,
}

impl Table {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            header: Vec::new(),
            length: None,
        }
    }

    /// Whether rows can go to the end of what is there.
    pub(super) fn grows(&self, header: &[u8]) -> bool {
        // Another length: someone else has written to it.
        self.header == header
            && self.length.is_some()
            && fs::metadata(&self.path).ok().map(|m| m.len()) == self.length
    }

    /// Adds rows at the end. A crash on the way leaves a last row that reading drops, and rows of a cell
    /// that the manifest does not have.
    pub(super) fn append(&mut self, rows: &[u8]) -> Result<(), StoreError> {
        let Some(before) = self.length.filter(|_| !rows.is_empty()) else {
            return Ok(());
        };
        let attempt = || -> io::Result<()> {
            let mut file = OpenOptions::new().append(true).open(&self.path)?;
            file.write_all(rows)
                .and_then(|()| file.sync_data())
                .inspect_err(|_| {
                    // Half of a cell is worse than none of it, also for people.
                    let _ = file.set_len(before);
                })
        };
        // Until it is known to be whole: the next attempt writes it anew.
        self.length = None;
        attempt().map_err(|e| StoreError::write(&self.path, e))?;
        self.length = Some(before + rows.len() as u64);
        Ok(())
    }

    /// Writes all of it, as a whole.
    pub(super) fn replace(&mut self, header: Vec<u8>, rows: &[u8]) -> Result<(), StoreError> {
        let content = [&header, rows].concat();
        self.length = None;
        write_file(&self.path, &content)?;
        self.length = Some(content.len() as u64);
        self.header = header;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_only_at_the_end_of_what_it_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        let mut table = Table::new(path.clone());
        assert!(!table.grows(b""));
        table.replace(b"a,b\n".to_vec(), b"1,2\n").unwrap();
        assert!(table.grows(b"a,b\n") && !table.grows(b"a,b,c\n"));
        table.append(b"3,4\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a,b\n1,2\n3,4\n");
        assert!(table.grows(b"a,b\n"));
        fs::write(&path, b"a,b\n1,2\n").unwrap();
        assert!(!table.grows(b"a,b\n"), "someone cut it");
        fs::remove_file(&path).unwrap();
        assert!(!table.grows(b"a,b\n"));
        table.append(b"5,6\n").unwrap_err();
        assert!(!table.grows(b"a,b\n"));
        table.replace(b"a\n".to_vec(), b"").unwrap();
        assert!(table.grows(b"a\n"));
    }
}
