//! What can go wrong with a run folder.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A run folder that cannot be written or read.
#[derive(Debug, Error)]
pub enum StoreError {
    /// `--out` names a folder with files in it.
    #[error(
        "`{}` exists and is not empty; a run folder is never overwritten\nhint: name a new folder, or remove this one",
        .0.display()
    )]
    NotEmpty(PathBuf),
    /// The path is taken by something that is not a folder.
    #[error("`{}` is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// The run in the folder has not ended.
    #[error("the run in `{}` is still running\nhint: wait until it has ended", .0.display())]
    InUse(PathBuf),
    /// No free name for a new run folder.
    #[error("`{}` and a thousand numbered folders beside it exist already\nhint: name a folder with --out", .0.display())]
    NoFreeName(PathBuf),
    /// The file system is full.
    #[error(
        "no space left to write `{}`; everything saved before is intact\nhint: free some space and run `capbench report` on the folder",
        .path.display()
    )]
    Full {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// Any other failure to write.
    #[error("cannot write `{}`: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// A failure to read.
    #[error("cannot read `{}`: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// There is no run in this folder.
    #[error(
        "`{}` is not a run folder: it has no run.json\nhint: name the folder that a run printed at its end, for example reports/<plan>-<time>",
        .0.display()
    )]
    NotARun(PathBuf),
    /// A later capbench wrote the folder.
    #[error(
        "`{}` has format {found}, written by {tool}; this capbench reads up to format {supported}\nhint: use {tool} or later",
        .path.display()
    )]
    Newer {
        /// The manifest.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format that is understood.
        supported: u32,
        /// The program and version that wrote it, for example `capbench 0.1.0`.
        tool: String,
    },
    /// A file does not hold what it should.
    #[error("`{}` is damaged: {what}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line where there is one.
        what: String,
    },
}

impl StoreError {
    /// Whether the place that was asked for is taken: the command line is wrong, not the disk.
    pub fn is_taken(&self) -> bool {
        matches!(self, Self::NotEmpty(_) | Self::NotAFolder(_))
    }

    pub(super) fn write(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full { path, source }
            }
            _ => Self::Write { path, source },
        }
    }

    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read {
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}
