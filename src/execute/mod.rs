//! The run itself: variants applied, data ready, caches warm, each cell measured, everything put back.

mod cell;
mod changes;
mod comparable;
mod data;
mod guard;
mod measure;
mod sentinel;
mod session;
mod visit;

pub use changes::changes;
pub use data::outlook;
pub use guard::outside_window;
pub use session::{AtScreen, Session, SessionError};
