//! Folders, programs and options that a run cannot use.

use std::os::unix::fs::PermissionsExt as _;

use crate::lab::Lab;
use crate::{private_plan, servers};

const LADDER: &str = "workloads = [\"oltp_point_select\"]\nthreads = [1]\nmeasure = \"300ms\"";

#[test]
fn a_folder_with_something_in_it_is_not_written_into() {
    let lab = Lab::new();
    lab.write("plan.toml", &private_plan(&servers::servers()[0], LADDER));
    std::fs::create_dir(lab.path("taken")).unwrap();
    lab.write("taken/mine", "mine");
    let ended = lab.run(&["plan.toml", "--out", "taken"]).expect(2);
    ended.says("taken");
    assert_eq!(lab.read("taken/mine"), "mine");
    assert_eq!(crate::lab::entries(&lab.path("taken")).len(), 1);
    lab.run(&["plan.toml", "--out", "taken/mine"])
        .expect(2)
        .says("taken/mine");
    lab.assert_clean();
}

#[test]
fn a_run_that_cannot_be_written_says_so_and_leaves_no_server() {
    let lab = Lab::new();
    lab.write("plan.toml", &private_plan(&servers::servers()[0], LADDER));
    // A file where the folder should be: root gets past permissions, nobody past this.
    lab.write("reports", "not a folder");
    lab.run(&["plan.toml"]).expect(3).says("reports");
    lab.assert_clean();
    std::fs::remove_file(lab.path("reports")).unwrap();
    if !rustix::process::geteuid().is_root() {
        std::fs::create_dir(lab.path("reports")).unwrap();
        std::fs::set_permissions(lab.path("reports"), std::fs::Permissions::from_mode(0o555))
            .unwrap();
        lab.run(&["plan.toml"]).expect(3).says("reports");
        lab.assert_clean();
    }
}

#[test]
fn a_run_folder_that_disappears_ends_the_run_and_the_server() {
    let lab = Lab::new();
    let ladder = LADDER.replace("[1]", "[1, 2, 3]").replace("300ms", "1s");
    lab.write("plan.toml", &private_plan(&servers::servers()[0], &ladder));
    let mut running = lab.start(lab.command(&["plan.toml", "--out", "run"]));
    running.said("[1/3]");
    std::fs::remove_dir_all(lab.path("run")).unwrap();
    running.wait().expect(3).says("run");
    lab.assert_clean();
}

#[test]
fn a_private_server_that_does_not_start_shows_its_own_words() {
    for binary in servers::servers() {
        let lab = Lab::new();
        let plan = private_plan(&binary, LADDER)
            .replace("innodb_buffer_pool_size = \"32MiB\"", "no_such_option = 1");
        lab.write("plan.toml", &plan);
        let ended = lab.run(&["plan.toml", "--out", "run"]).expect(3);
        ended.says("no-such-option").says("hint:");
        assert!(!lab.path("run").exists());
        lab.assert_clean();
    }
    let lab = Lab::new();
    lab.write(
        "plan.toml",
        &private_plan("/no/such/mysqld".as_ref(), LADDER),
    );
    lab.run(&["plan.toml", "--out", "run"])
        .expect(2)
        .says("/no/such/mysqld");
    lab.assert_clean();
}

#[test]
fn without_its_password_no_server_is_said_to_be_asked() {
    let lab = Lab::new();
    lab.write(
        "plan.toml",
        "name = \"t\"\n[target]\nhost = \"127.0.0.1\"\nport = 1\nuser = \"u\"\npassword_env = \"CAPBENCH_NOT_SET\"\n\
         [ladder]\nworkloads = [\"oltp_point_select\"]\nthreads = [1]\n",
    );
    for args in [&["check", "plan.toml"][..], &["plan.toml", "--out", "run"]] {
        let ended = lab.run(args).expect(2);
        ended.says("`CAPBENCH_NOT_SET`");
        assert!(!ended.stderr.contains("connecting to"), "{}", ended.stderr);
    }
}
