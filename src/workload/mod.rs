//! Workloads: template → [`Program`].

mod access;
mod draw;
mod program;

pub use access::{Access, Distribution};
pub use draw::{KeySampler, TextPattern, UniquePermutation};
pub use program::*;

/// Options of workload templates by name, as the plan's `[workload]` states them.
pub type WorkloadOptions = std::collections::BTreeMap<String, serde_json::Value>;
