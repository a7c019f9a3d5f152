//! A run on disk and on paper: saved, read back, rendered.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod findings;
mod render;
mod store;
mod support;
