//! Workloads: template → [`Program`].

mod access;
mod library;
mod program;

pub use access::{Access, Distribution};
pub use library::{WorkloadError, builtin_names, known_options, load, undeclared};
pub use program::*;

/// Options of workload templates by name, as the plan's `[workload]` states them.
pub type WorkloadOptions = std::collections::BTreeMap<String, serde_json::Value>;
