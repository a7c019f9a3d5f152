//! The server under test.

mod endpoint;

pub use endpoint::{Endpoint, Secret};
