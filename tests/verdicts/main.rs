//! Verdicts: is a change real, does a load hold, is it enough. Pure ones on runs made by arithmetic, and the
//! same on real servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    missing_docs,
    reason = "a test may panic, and its figures are small"
)]

mod compare;
mod criteria;
mod live;
mod refine;
mod runs;
#[path = "../support/mod.rs"]
mod servers;
mod soak;
#[path = "../report_run/support.rs"]
#[allow(dead_code, reason = "not every helper is used here")]
mod support;
mod variants;
