//! Workloads: template → [`Program`].

mod program;

pub use program::*;
