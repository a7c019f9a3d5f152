//! Real servers for tests: which there are, and how one is made, started and ended.
#![allow(
    dead_code,
    unused_imports,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code; not every test file uses every helper"
)]

mod binaries;
mod external;
mod server;

pub(crate) use binaries::{Kind, is_mariadb, kinds, mysql_5_6, servers};
pub(crate) use external::External;
pub(crate) use server::{Server, folder};
