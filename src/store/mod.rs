//! The run folder: what was measured, on disk, complete in itself.
//!
//! `run.json` is the manifest and is written last: a cell exists once it stands there. The CSV files hold
//! what repeats; `latency/` one standard `HdrHistogram` log a cell.

mod error;
mod folder;
mod latency;
mod read;
mod rows;
mod table;
mod tables;

pub use error::StoreError;
pub use folder::{Place, Store, write_file};
pub use read::{CUT_OFF, open};
pub(crate) use tables::guarded;

/// The format of the run folder that this version writes, and the newest that it reads.
pub const FORMAT: u32 = 1;
