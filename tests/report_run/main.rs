//! A run on disk and on paper: saved, read back, rendered.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test may panic, and its figures are small"
)]

mod findings;
mod large;
mod large_run;
mod recorded;
mod render;
mod seen;
mod store;
mod support;
