//! The run itself: variants applied, data ready, caches warm, each cell measured, everything put back.

mod cell;
mod data;
mod guard;
mod session;

pub use data::outlook;
pub use guard::outside_window;
pub use session::{AtScreen, Session, SessionError};
