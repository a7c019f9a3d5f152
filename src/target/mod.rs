//! The server under test: connect to it or start a private one, know who it is, change its settings and put
//! them back, and say beforehand what it cannot do.

mod access;
mod advice;
mod change;
mod connect;
mod disk;
mod endpoint;
mod error;
mod grants;
mod greeting;
mod guard;
mod hooks;
mod identity;
mod journal;
mod lease;
mod locate;
mod managed;
mod option_file;
mod orphans;
mod preflight;
mod process;
mod resolve;
mod run_lock;
mod server;
mod settle;
mod support;
mod surroundings;
#[cfg(test)]
mod testing;
mod undo;
mod variables;
mod variant;

pub use advice::warnings;
pub use connect::connect;
pub use disk::{DiskSpace, busy_millis, device, space};
pub use endpoint::{Endpoint, Secret};
pub use error::{TargetError, words};
pub use grants::grants;
pub use greeting::flavour_of;
pub use hooks::{Operator, Unattended};
pub use journal::{Collateral, Entry, Journal, Taken, Undo};
pub use lease::{Held, Holder, LEASE_TABLE, Lease, lease_made_database};
pub use managed::end_private_servers;
pub use orphans::end_orphans;
pub use preflight::{Limit, preflight};
pub use process::is_alive;
pub use resolve::resolve;
pub use run_lock::RunLock;
pub use server::Server;
pub use support::{Problem, check_support};
pub use surroundings::{Finding, surroundings};
pub use undo::Overtaken;
pub use variables::{REPORTED_VARIABLES, STATE_VARIABLES, same_value};
