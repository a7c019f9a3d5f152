//! Workloads: template → [`Program`], and the generators of its values.

mod access;
mod error;
mod fields;
mod keys;
mod library;
mod mix;
mod program;
mod sql;
mod text;
mod unique;
mod wire;

pub use access::{Access, Distribution};
pub use error::WorkloadError;
pub use keys::{KeySampler, hot_share};
pub use library::{builtin_names, describe, known_options, load, show, undeclared};
pub use mix::mix;
pub use program::*;
pub use sql::fill;
pub use text::TextPattern;
pub use unique::UniquePermutation;
pub(crate) use unique::mix_seed;

/// Options of workload templates by name, as the plan's `[workload]` states them.
pub type WorkloadOptions = std::collections::BTreeMap<String, serde_json::Value>;
