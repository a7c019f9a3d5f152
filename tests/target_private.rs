//! A private server from its start to its end, on every server there is.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::{Path, PathBuf};

use capbench::interrupt::Interrupt;
use capbench::plan::{Managed, Place, Plan, Setting, SettingValue};
use capbench::record::Flavour;
use capbench::target::{
    Journal, Server, TargetError, Unattended, check_support, connect, preflight,
};
use capbench::units::Bytes;
// The plans of the unit tests name their types by `crate::`.
use capbench::{plan, units, workload};
use mysql::prelude::Queryable;

mod support;
#[path = "../src/target/testing.rs"]
#[allow(dead_code, reason = "not every test file uses every helper")]
mod testing;

use testing::{setting, variant};

fn plan_for(binary: &Path, folder: &Path) -> Plan {
    let mut plan = testing::plan();
    plan.target.place = Place::Managed(Managed {
        binary: Some(binary.to_owned()),
        directory: Some(folder.to_owned()),
        options: vec![setting("innodb_buffer_pool_size", 64 << 20)],
        cache: false,
    });
    plan
}

fn open(plan: &Plan, journal: &mut Journal) -> Server {
    Server::open(plan, journal, &Interrupt::new()).unwrap_or_else(|e| panic!("{e}"))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect()
}

fn runs(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_private_server_admits_two_accounts_and_leaves_nothing() {
    for binary in support::servers() {
        let parent = support::folder();
        let plan = plan_for(&binary, parent.path());
        let mut journal = Journal::in_memory();
        let mut server = open(&plan, &mut journal);
        assert!(server.is_managed());
        let pid = server.pid().unwrap();
        assert!(runs(pid));
        assert!(server.datadir().unwrap().join("ibdata1").exists());
        let identity = server.identity().clone();
        assert_eq!(identity.address, "private server");
        assert!(identity.local && identity.round_trip.0 > 0.0 && identity.uuid.is_some());
        assert_eq!(
            identity.flavour == Flavour::MariaDb,
            identity.version.contains("MariaDB")
        );
        assert!(!identity.variables.contains_key("gtid_executed"));
        assert!(!identity.variables.contains_key("gtid_binlog_pos"));

        let admin = server.admin().unwrap();
        let nameless: Option<u64> = admin
            .ask(|conn| {
                conn.query_drop("CREATE DATABASE bench")?;
                conn.query_first("SELECT COUNT(*) FROM mysql.user WHERE user = ''")
            })
            .unwrap();
        assert_eq!(nameless, Some(0));
        let mut load = connect(server.load_endpoint(), None).unwrap();
        load.query_drop("CREATE TABLE t (id INT PRIMARY KEY)")
            .unwrap();
        let grants: Vec<String> = load.query("SHOW GRANTS").unwrap();
        assert!(!grants.join("\n").contains("SUPER"), "{grants:?}");
        assert!(load.query_drop("SET GLOBAL max_connections = 10").is_err());
        assert!(check_support(&plan, &mut server).unwrap().is_empty());
        let host = capbench::probe::host::facts();
        assert_eq!(preflight(&plan, &mut server, &host).unwrap(), []);

        drop(load);
        server.close(&mut journal).unwrap();
        assert!(!runs(pid));
        assert!(entries(parent.path()).is_empty());
        assert!(journal.pending().is_empty());
    }
}

#[test]
fn variants_are_applied_on_the_baseline_and_read_back() {
    for binary in support::servers() {
        let parent = support::folder();
        let mut plan = plan_for(&binary, parent.path());
        plan.target.set = vec![setting("max_prepared_stmt_count", 20_000)];
        let mut dynamic = variant("flush");
        dynamic.set = vec![setting("innodb_flush_log_at_trx_commit", 2)];
        let mut pool = variant("pool");
        pool.set = vec![setting("innodb_buffer_pool_size", 200 << 20)];
        pool.restart = true;
        let mut start_only = variant("sort buffer");
        start_only.set = vec![setting("innodb_sort_buffer_size", 2 << 20)];
        let mut no_binlog = variant("no binary log");
        no_binlog.options = vec![Setting {
            name: "skip_log_bin".to_owned(),
            value: SettingValue::Bare,
        }];
        plan.variants.extend([
            dynamic.clone(),
            pool.clone(),
            start_only.clone(),
            no_binlog.clone(),
        ]);
        if let Place::Managed(managed) = &mut plan.target.place {
            managed.options.push(Setting {
                name: "log_bin".to_owned(),
                value: SettingValue::Bool(true),
            });
        }
        let mut journal = Journal::in_memory();
        let mut server = open(&plan, &mut journal);
        assert!(check_support(&plan, &mut server).unwrap().is_empty());
        assert_eq!(server.max_buffer_pool(&plan).unwrap(), Bytes(200 << 20));
        let run = server
            .apply_run_settings(&plan.target.set, &mut journal)
            .unwrap();
        assert_eq!(run[0].took.as_deref(), Some("20000"));
        assert_eq!(run[0].before.as_deref(), Some("16382"));

        let apply = |server: &mut Server, journal: &mut Journal, n: usize| {
            server
                .apply_variant(&plan, &plan.variants[n], journal, &Unattended)
                .unwrap_or_else(|e| panic!("{}: {e}", plan.variants[n].name))
        };
        let record = apply(&mut server, &mut journal, 0);
        assert!(!record.restarted && record.differs.is_empty(), "{record:?}");

        let record = apply(&mut server, &mut journal, 1);
        assert!(!record.restarted);
        assert_eq!(record.settings[0].before.as_deref(), Some("1"));
        assert_eq!(record.settings[0].took.as_deref(), Some("2"));
        assert_eq!(record.differs.len(), 1, "{:?}", record.differs);

        let record = apply(&mut server, &mut journal, 2);
        assert!(record.restarted);
        // MySQL takes whole chunks of 128 MiB, MariaDB what it was asked for.
        let took = if server.flavour() == Flavour::MySql {
            256 << 20
        } else {
            200 << 20
        };
        assert_eq!(record.settings[0].took, Some(i32::to_string(&took)));
        assert!(
            !record
                .differs
                .contains_key("innodb_flush_log_at_trx_commit")
        );
        assert!(
            !record.differs.contains_key("max_prepared_stmt_count"),
            "lost in the restart"
        );

        let record = apply(&mut server, &mut journal, 3);
        assert!(record.restarted, "a start-up variable needs a restart");
        assert_eq!(record.settings[0].took.as_deref(), Some("2097152"));
        assert!(!record.differs.contains_key("innodb_buffer_pool_size"));

        let record = apply(&mut server, &mut journal, 4);
        assert_eq!(record.settings[0].name, "log_bin");
        assert_eq!(record.settings[0].before.as_deref(), Some("ON"));
        assert_eq!(record.settings[0].took.as_deref(), Some("OFF"));

        let record = apply(&mut server, &mut journal, 0);
        assert!(
            record.restarted && record.differs.is_empty(),
            "{:?}",
            record.differs
        );
        apply(&mut server, &mut journal, 1);
        server.undo_variant(&mut journal, &Unattended).unwrap();
        let now = server.variables().unwrap();
        assert_eq!(now["innodb_flush_log_at_trx_commit"], "1");
        server.close(&mut journal).unwrap();
        assert!(journal.pending().is_empty(), "{:?}", journal.pending());
        assert!(entries(parent.path()).is_empty());
    }
}

#[test]
fn a_buffer_pool_that_grows_has_grown_when_the_variant_is_applied() {
    for binary in support::servers() {
        let parent = support::folder();
        let mut plan = plan_for(&binary, parent.path());
        let mut pool = variant("pool");
        pool.set = vec![setting("innodb_buffer_pool_size", 512 << 20)];
        plan.variants.push(pool.clone());
        let mut journal = Journal::in_memory();
        let mut server = open(&plan, &mut journal);
        let record = server
            .apply_variant(&plan, &pool, &mut journal, &Unattended)
            .unwrap();
        assert!(!record.restarted);
        assert_eq!(record.settings[0].took.as_deref(), Some("536870912"));
        let status: Vec<(String, String)> = server
            .admin()
            .unwrap()
            .ask(|conn| {
                conn.query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_resize_status_code'")
            })
            .unwrap();
        assert!(status.iter().all(|(_, code)| code == "0"), "{status:?}");
        // Again at once: a resize that still ran would be refused with 3166.
        server.undo_variant(&mut journal, &Unattended).unwrap();
        drop(server);
        assert!(entries(parent.path()).is_empty());
    }
}

#[test]
fn what_the_server_cannot_do_is_named_before_anything_is_touched() {
    for binary in support::servers() {
        let parent = support::folder();
        let mut plan = plan_for(&binary, parent.path());
        let mut misspelt = variant("misspelt");
        misspelt.set = vec![setting("inodb_buffer_pool_size", 1)];
        let mut session = variant("session");
        session.set = vec![setting("insert_id", 1)];
        let mut option = variant("option");
        option.options = vec![setting("no_such_option_here", 1)];
        let mut known = variant("known");
        known.options = vec![Setting {
            name: "gdb".to_owned(),
            value: SettingValue::Bare,
        }];
        plan.variants.extend([misspelt, session, option, known]);
        let mut journal = Journal::in_memory();
        let mut server = open(&plan, &mut journal);
        let before = server.variables().unwrap();
        let problems = check_support(&plan, &mut server).unwrap();
        let of = |name: &str| problems.iter().find(|p| p.variant.as_deref() == Some(name));
        assert!(
            of("misspelt")
                .unwrap()
                .hint
                .contains("`innodb_buffer_pool_size`")
        );
        assert!(of("session").is_some());
        assert!(
            of("option")
                .unwrap()
                .text
                .contains("--no-such-option-here=1")
        );
        assert_eq!(of("known"), None);
        assert_eq!(server.variables().unwrap(), before);
    }
}

#[test]
fn a_bad_option_shows_the_servers_words() {
    for binary in support::servers() {
        let parent = support::folder();
        let mut plan = plan_for(&binary, parent.path());
        if let Place::Managed(managed) = &mut plan.target.place {
            managed.options.push(setting("no_such_variable", 1));
        }
        let mut journal = Journal::in_memory();
        let error = Server::open(&plan, &mut journal, &Interrupt::new())
            .unwrap_err()
            .to_string();
        assert!(journal.pending().is_empty());
        assert!(
            error.contains("no-such-variable") && error.contains("hint:"),
            "{error}"
        );
        assert!(entries(parent.path()).is_empty());
    }
}

#[test]
fn a_setting_for_the_run_that_only_a_start_makes_holds_through_restarts() {
    for binary in support::servers() {
        let parent = support::folder();
        let mut plan = plan_for(&binary, parent.path());
        plan.target.set = vec![
            setting("innodb_sort_buffer_size", 2 << 20),
            setting("max_connections", 99),
        ];
        let mut restart = variant("restart");
        restart.restart = true;
        plan.variants.push(restart);
        let mut journal = Journal::in_memory();
        let mut server = open(&plan, &mut journal);
        assert!(check_support(&plan, &mut server).unwrap().is_empty());
        let run = server
            .apply_run_settings(&plan.target.set, &mut journal)
            .unwrap();
        assert_eq!(run[0].took.as_deref(), Some("2097152"));
        assert_eq!(run[1].took.as_deref(), Some("99"));
        let record = server
            .apply_variant(&plan, &plan.variants[1], &mut journal, &Unattended)
            .unwrap();
        assert!(record.restarted);
        assert!(
            record.differs.is_empty(),
            "the run's settings are no difference"
        );
        let now = server.variables().unwrap();
        assert_eq!(now["innodb_sort_buffer_size"], "2097152");
        assert_eq!(now["max_connections"], "99");
        // What anyone may print of it holds no password.
        let shown = format!("{server:?}");
        assert!(!shown.contains(server.admin_endpoint().password.reveal()));
        assert!(!shown.contains(server.load_endpoint().password.reveal()));
        server.close(&mut journal).unwrap();
        assert!(journal.pending().is_empty());
    }
}

#[test]
fn a_variant_that_the_server_does_not_start_with_does_not_spoil_the_next() {
    for binary in support::servers() {
        let parent = support::folder();
        let mut plan = plan_for(&binary, parent.path());
        let mut broken = variant("broken");
        // The data directory was made with pages of 16 KiB.
        broken.options = vec![setting("innodb_page_size", 8192)];
        plan.variants.push(broken.clone());
        let mut journal = Journal::in_memory();
        let mut server = open(&plan, &mut journal);
        let error = server
            .apply_variant(&plan, &broken, &mut journal, &Unattended)
            .unwrap_err()
            .to_string();
        assert!(error.contains("8192"), "{error}");
        let record = server
            .apply_variant(&plan, &plan.variants[0], &mut journal, &Unattended)
            .unwrap();
        assert!(record.restarted && record.differs.is_empty());
        server.close(&mut journal).unwrap();
        assert!(entries(parent.path()).is_empty());
    }
}

#[test]
fn a_frozen_server_is_ended_all_the_same() {
    let parent = support::folder();
    let plan = plan_for(&support::servers()[0], parent.path());
    let mut journal = Journal::in_memory();
    let server = open(&plan, &mut journal);
    let pid = server.pid().unwrap();
    let raw = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(raw, rustix::process::Signal::STOP).unwrap();
    server.close(&mut journal).unwrap();
    assert!(!runs(pid));
    assert!(entries(parent.path()).is_empty());
}

#[test]
fn a_server_that_is_killed_is_noticed_and_started_again() {
    for binary in support::servers() {
        let parent = support::folder();
        let plan = plan_for(&binary, parent.path());
        let mut journal = Journal::in_memory();
        let mut server = open(&plan, &mut journal);
        let pid = server.pid().unwrap();
        server.admin().unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let error = (0..500)
            .find_map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                server.variables().err()
            })
            .expect("the death is noticed");
        assert!(
            matches!(&error, TargetError::Lost(why) if why.contains("private server was killed")),
            "{error}"
        );
        let record = server
            .apply_variant(&plan, &plan.variants[0], &mut journal, &Unattended)
            .unwrap();
        assert!(record.restarted);
        server.admin().unwrap();
    }
}

#[test]
fn the_wish_to_end_ends_a_start() {
    let parent = support::folder();
    let plan = plan_for(&support::servers()[0], parent.path());
    let interrupt = Interrupt::new();
    interrupt.raise();
    let error = Server::open(&plan, &mut Journal::in_memory(), &interrupt).unwrap_err();
    assert!(error.is_interrupt(), "{error}");
    assert!(entries(parent.path()).is_empty());
}

#[test]
fn programs_that_are_no_servers_are_refused() {
    let parent = support::folder();
    for (binary, words) in [
        ("/bin/true", "not the answer"),
        ("/nonexistent/mysqld", "cannot run"),
    ] {
        let plan = plan_for(Path::new(binary), parent.path());
        let error = Server::open(&plan, &mut Journal::in_memory(), &Interrupt::new())
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{error}");
    }
    assert!(entries(parent.path()).is_empty());
}

#[test]
fn a_long_folder_does_not_lengthen_the_socket() {
    use std::os::unix::fs::PermissionsExt;

    let parent = support::folder();
    let deep = parent.path().join("d".repeat(100));
    std::fs::create_dir(&deep).unwrap();
    std::fs::set_permissions(&deep, std::fs::Permissions::from_mode(0o755)).unwrap();
    let plan = plan_for(&support::servers()[0], &deep);
    let mut journal = Journal::in_memory();
    let server = open(&plan, &mut journal);
    let socket = server.admin_endpoint().address.to_string();
    assert!(socket.len() < 108 && Path::new(&socket).exists());
    server.close(&mut journal).unwrap();
    assert!(!Path::new(&socket).parent().unwrap().exists());
    assert!(entries(&deep).is_empty());
}

/// Settings for loading come and go; the data is there afterwards, and a crash in between leaves nothing behind.
#[test]
fn a_private_server_loads_fast_and_is_itself_again() {
    for binary in support::servers() {
        let parent = support::folder();
        let mut plan = plan_for(&binary, parent.path());
        plan.dataset.tables = 2;
        plan.dataset.size = plan::DataSize::Rows(60_000);
        plan.dataset.load_threads = 2;
        let mut journal = Journal::in_memory();
        let mut server = open(&plan, &mut journal);
        let before = server.variables().unwrap();
        let changed = server.begin_loading().unwrap();
        let redo = |server: &mut Server| -> Option<(String, String)> {
            let sql = "SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_enabled'";
            let admin = server.admin().unwrap();
            admin.ask(|conn| conn.query_first(sql)).unwrap()
        };
        // MySQL from 8.0.21 on says so.
        if let Some((_, on)) = redo(&mut server) {
            assert_eq!(on, "OFF");
        }
        assert_eq!(
            server.variables().unwrap()["innodb_flush_log_at_trx_commit"],
            "0"
        );
        let load = |server: &Server| {
            let resolved = capbench::dataset::plan_size(&plan.dataset, Bytes(64 << 20));
            capbench::dataset::prepare(
                server.admin_endpoint(),
                &plan,
                workload::TableLayout::Standard,
                &resolved,
                &capbench::dataset::Silent,
                &Interrupt::new(),
            )
            .unwrap()
        };
        assert_eq!(load(&server).origin, "loaded");
        server.end_loading(changed).unwrap();
        assert_eq!(server.variables().unwrap(), before);
        if let Some((_, on)) = redo(&mut server) {
            assert_eq!(on, "ON");
        }
        server.restart().unwrap();
        capbench::dataset::verify(
            server.admin_endpoint(),
            &plan,
            60_000,
            &capbench::dataset::Silent,
            &Interrupt::new(),
        )
        .unwrap();
        // Killed while it loads: thrown away, whatever its files are like.
        let _changed = server.begin_loading().unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(server.pid().unwrap()).unwrap());
        rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::KILL).unwrap();
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while server.death().is_none() && std::time::Instant::now() < limit {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let _ = server.close(&mut journal);
        assert!(entries(parent.path()).is_empty());
    }
}
