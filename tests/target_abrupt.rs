//! The end that has no time for destructors. In a file of its own, since it ends every private server of
//! the process.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use capbench::interrupt::Interrupt;
use capbench::plan::{Managed, Place};
use capbench::target::{Journal, Server, end_private_servers};
// The plans of the unit tests name their types by `crate::`.
use capbench::{plan, units, workload};

mod support;
#[path = "../src/target/testing.rs"]
#[allow(dead_code, reason = "not every test file uses every helper")]
mod testing;

#[test]
fn a_second_ctrl_c_leaves_no_server_and_no_folder() {
    let parent = support::folder();
    let mut plan = testing::plan();
    plan.target.place = Place::Managed(Managed {
        binary: Some(support::servers()[0].clone()),
        directory: Some(parent.path().to_owned()),
        options: Vec::new(),
        cache: false,
    });
    let server = Server::open(&plan, &mut Journal::in_memory(), &Interrupt::new()).unwrap();
    let pid = server.pid().unwrap();
    end_private_servers();
    // What process::exit would do: no destructor runs.
    std::mem::forget(server);
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
}
