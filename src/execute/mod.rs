//! The run itself: variants applied, data ready, caches warm, each cell measured, everything put back.

mod cell;
mod guard;
mod session;

pub use session::{Session, SessionError};
