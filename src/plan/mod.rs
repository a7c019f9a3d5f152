//! The plan: what was typed (`wire`), what it means (`validate` → [`Plan`]), where it is wrong
//! (`diagnostic`). [`keys`] is the one table that all of it, and the documentation, comes from.

mod criteria;
mod diagnostic;
mod key;
pub mod keys;
mod kind;
mod ladder;
mod load;
mod model;
mod place;
mod reference;
mod replicas;
mod risk;
mod setting;
mod slug;
mod soak;
mod suggest;
mod syntax;
mod unknown;
mod validate;
mod value;
mod variants;
mod warnings;
mod wire;
mod workloads;
mod writes;

pub use diagnostic::{At, Diagnostic, Severity};
pub use key::{Key, Section};
pub use kind::Kind;
pub use load::{Loaded, Problems, load, parse};
pub use model::*;
pub use reference::{documentation, reference};
pub use risk::Risk;
pub use warnings::{WARNINGS, warning_names};
