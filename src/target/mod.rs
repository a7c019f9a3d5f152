//! The server under test: connect to it or start a private one, know who it is, change its settings and put
//! them back, and say beforehand what it cannot do.

mod access;
mod advice;
mod change;
mod connect;
mod data_key;
mod endpoint;
mod error;
mod grants;
mod greeting;
mod guard;
mod hooks;
mod identity;
mod journal;
mod kept;
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
mod settled;
mod snapshot;
mod support;
#[cfg(test)]
mod testing;
mod tree;
mod undo;
mod variables;
mod variant;

pub use advice::warnings;
pub use connect::connect;
pub use data_key::data_key;
pub use endpoint::{Endpoint, Secret};
pub use error::{TargetError, words};
pub use grants::grants;
pub use greeting::flavour_of;
pub use guard::{Others, others};
pub use hooks::{Operator, Unattended};
pub use journal::{Entry, Journal, Undo};
pub use kept::{Cache, CacheEntry, DataKey, FOLDER_VARIABLE, KeptData, NotKept, SIZE_VARIABLE};
pub use managed::end_private_servers;
pub use orphans::end_orphans;
pub use preflight::{Limit, preflight};
pub use process::is_alive;
pub use resolve::{replicas, resolve};
pub use run_lock::RunLock;
pub use server::Server;
pub use snapshot::{Anew, DataSource, Keeping};
pub use support::{Problem, check_support};
pub use variables::{STATE_VARIABLES, same_value};
