//! The run itself: variants applied, data ready, caches warm, each cell measured, everything put back.

mod after;
mod cell;
mod changes;
mod comparable;
mod data;
mod evidence;
mod extend;
mod guard;
mod level;
mod loading;
mod measure;
mod refine;
mod sentinel;
mod session;
mod soak;
mod start;
mod visit;
mod warmup;
mod written;

pub use after::Advisor;
pub use changes::changes;
pub use comparable::Ground;
pub use data::{identity, outlook, refusals};
pub use guard::outside_window;
pub use session::{AtScreen, Session, SessionError};
