//! What the server and the hosts do while a cell runs: counters once an interval, on the cell's clock.

pub mod counters;
mod facts;
pub mod host;
pub mod names;
mod recorder;
pub mod server;

pub use recorder::{Recorder, Recording, Sampled};
