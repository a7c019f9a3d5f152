//! The data: sized, loaded, recognised, verified, put back, removed.

mod binlog;
mod connect;
mod definition;
mod error;
mod existing;
mod identity;
mod intact;
mod loader;
mod marker;
mod ownership;
mod pace;
mod planned;
mod prepare;
mod progress;
mod references;
mod refusals;
mod rights;
mod rows;
mod schedule;
mod schema;
mod sender;
mod size;
mod verify;

pub use error::DatasetError;
pub use identity::{identity, recognise};
pub use ownership::{Cleaned, cleanup};
pub use planned::{planned, planned_reset};
pub use prepare::{describe, mark_dirty, prepare, reset, tables_needed, wants_local_infile};
pub use progress::{Progress, Silent, Verdict};
pub use refusals::refusals;
pub use schema::table_prefix;
pub use size::{DiskSpace, Resolved, disk_space, plan_size};
pub use verify::verify;
