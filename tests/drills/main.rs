//! Drills: each induces one bottleneck on a private server and requires its name. `make drills` runs all of
//! them, one after another; a short part runs with the other tests. A drill never asserts a time or a rate.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod drill;
mod elsewhere;
#[allow(dead_code, reason = "shared with the end-to-end tests")]
#[path = "../end_to_end/lab.rs"]
mod lab;
mod limits;
mod link;
#[path = "../support/mod.rs"]
mod servers;
mod storage;
mod within;
