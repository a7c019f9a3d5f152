//! The `MySQL` client protocol as state machines over byte slices: no socket, no clock, no thread.
//!
//! `frame` cuts bytes into packets, `login` brings a connection to its first command, `command`
//! writes commands, `reply` reads answers, [`Wire`] is `frame` and `reply` together.
//! `mysql_common` supplies capabilities, handshake packets and authentication.

mod command;
mod error;
mod frame;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod login;
mod reply;

pub(crate) use command::{Executable, Execute, close, prepare, query, quit};
pub use error::{ServerError, WireError};
pub(crate) use login::{Encrypt, Login, LoginConfig, LoginStep};
pub(crate) use reply::{Answer, Wire};

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
