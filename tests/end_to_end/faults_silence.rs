//! A server that falls silent under capbench's own statements: Ctrl-C is heard, and silence is told from slowness.
//! `start_timeout` is minutes here, longer than a test may take.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use crate::external::command;
use crate::faults_server::{Drill, STEPS};
use crate::lab::Running;
use crate::servers;

/// With patience for a start.
fn patient(plan: &str) -> String {
    plan.replace("start_timeout = \"4s\"", "start_timeout = \"300s\"")
        .replace("connect_timeout = \"3s\"", "connect_timeout = \"2s\"")
}

/// A drill with so many rows that their loading takes its time.
fn drill(binary: &Path) -> Drill {
    Drill::new(binary, STEPS, |plan, _| {
        patient(&plan).replace("rows = 1_000", "rows = 100_000\nload_rate = 20_000")
    })
}

/// A run whose server is frozen while rows are loaded.
fn frozen_at_load(drill: &Drill) -> Running {
    let mut running = drill
        .lab
        .start(command(&drill.lab, &["plan.toml", "--out", "run"]));
    running.said("loading rows");
    // Until they travel.
    std::thread::sleep(Duration::from_secs(1));
    drill.signal(Signal::STOP);
    running
}

#[test]
fn ctrl_c_is_heard_while_a_frozen_server_is_loaded() {
    for binary in servers::servers() {
        let drill = drill(&binary);
        let running = frozen_at_load(&drill);
        running.signal(Signal::INT);
        running
            .wait()
            .expect(3)
            .says("the server was not put back")
            .says("capbench restore run");
        drill.signal(Signal::CONT);
        drill.restored();
    }
}

#[test]
fn a_server_that_freezes_while_it_is_loaded_is_given_up() {
    for binary in servers::servers() {
        let drill = drill(&binary);
        frozen_at_load(&drill)
            .wait()
            .expect(3)
            .says("the server no longer answers a new connection either")
            .says("capbench restore run");
        drill.signal(Signal::CONT);
        drill.restored();
    }
}

#[test]
fn ctrl_c_is_heard_while_a_frozen_server_is_connected_to() {
    for binary in servers::servers() {
        let drill = drill(&binary);
        drill.signal(Signal::STOP);
        let mut running = drill
            .lab
            .start(command(&drill.lab, &["plan.toml", "--out", "run"]));
        running.said("connecting to");
        running.signal(Signal::INT);
        running.wait().expect(130);
        drill.signal(Signal::CONT);
        assert!(!drill.lab.path("run").exists());
        drill.unchanged();
    }
}

#[test]
fn ctrl_c_is_heard_under_a_step_of_a_frozen_server() {
    for binary in servers::servers() {
        let drill = Drill::new(&binary, STEPS, |plan, _| patient(&plan));
        let running = drill.under_a_step();
        drill.signal(Signal::STOP);
        running.signal(Signal::INT);
        running
            .wait()
            .expect(3)
            .says("the server was not put back")
            .says("capbench restore run");
        assert_eq!(drill.column("status"), ["interrupted", "skipped"]);
        drill.report();
        drill.signal(Signal::CONT);
        drill.restored();
    }
}
