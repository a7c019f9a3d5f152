//! The command as a user runs it, against real servers: MariaDB always, MySQL where it is present.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod ends;
mod external;
mod faults;
mod faults_disk;
mod faults_links;
mod faults_server;
mod faults_silence;
mod lab;
mod managed;
mod refusals;
mod resume;
mod safety;
#[path = "../support/mod.rs"]
mod servers;
mod starts;

use std::path::Path;

/// A plan for a private server, with the rest of its `[ladder]` and what follows.
fn private_plan(binary: &Path, rest: &str) -> String {
    format!(
        r#"name = "tiny"
accept = ["same-host", "short-steps", "few-tables", "small-data", "fits-page-cache"]

[target.managed]
binary = "{}"
options = {{ innodb_buffer_pool_size = "32MiB" }}

[dataset]
tables = 2
rows = 1_000
load_threads = 2

[warmup]
duration = "0s"

[ladder]
discard = "0s"
interval = "200ms"
{rest}
"#,
        binary.display()
    )
}
