//! The plan: what was typed (`wire`), what it means (`validate` → [`Plan`]), where it is wrong (`diagnostic`).

mod model;

pub use model::*;
