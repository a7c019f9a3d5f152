//! What the server and the hosts do while a cell runs: counters once an interval, on the cell's clock.

mod cgroup;
pub mod counters;
pub mod digests;
pub mod explain;
mod exposition;
mod facts;
pub mod host;
pub mod innodb_status;
pub mod names;
mod proc_text;
mod recorder;
pub mod remote;
pub mod replica;
pub mod server;

pub use recorder::{Also, Recorder, Recording, Sampled};
