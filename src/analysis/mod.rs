//! What the measurements mean. Pure: no clock, file or socket.

mod findings;
pub mod knee;
mod stats;
mod steady;

pub use findings::*;
