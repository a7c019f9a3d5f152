//! The load engine: what one cell asks of the server, and what came back.
//!
//! [`run`] starts a few worker threads, each with many connections over mio; `wire` is the protocol
//! without IO, `link` the sockets, `client` and `transaction` what a client does, `arrivals` the open
//! loop, `tally` the counts, `engine` the beginning,
//! `coordinator` the rest of it from the caller's side.

mod arrivals;
mod client;
mod context;
mod coordinator;
mod engine;
#[cfg(test)]
mod fault_tests;
mod hints;
mod link;
mod preflight;
mod prepared;
mod recorder;
mod script;
mod shared;
mod spec;
mod tally;
mod timers;
mod tls;
mod transaction;
mod usage;
mod values;
mod wire;
mod worker;

pub use engine::run;
pub use spec::{Flow, LoadError, LoadOutcome, LoadSpec, Observer, Pace, Totals};
pub use wire::{ServerError, WireError};

/// For the fuzz target in `tests/fuzz`: any bytes from a server, cut at `cut`.
#[cfg(fuzzing)]
pub fn survive(bytes: &[u8], cut: usize) {
    wire::fuzz::survive(bytes, cut);
}
