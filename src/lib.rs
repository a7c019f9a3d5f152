//! capbench: a declarative capacity-test runner for MySQL-family databases.

pub mod analysis;
pub mod dataset;
pub mod interrupt;
pub mod latency;
pub mod load;
pub mod matrix;
pub mod plan;
pub mod probe;
pub mod record;
pub mod report;
pub mod store;
pub mod target;
pub mod units;
pub mod workload;
