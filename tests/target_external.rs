//! A server that someone else runs: what capbench changes on it, and that it puts everything back.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::BTreeMap;
use std::path::Path;

use capbench::interrupt::Interrupt;
use capbench::plan::{
    Account, Address, Hooks, PasswordSource, Place, Plan, ServerPlace, Setting, SettingValue, Tls,
    TlsMode,
};
use capbench::record::{Flavour, HostFacts};
use capbench::target::{
    Journal, Operator, Server, TargetError, Unattended, check_support, grants, warnings,
};
// The plans of the unit tests name their types by `crate::`.
use capbench::{plan, units, workload};
use mysql::prelude::Queryable;

mod support;
#[path = "../src/target/testing.rs"]
#[allow(dead_code, reason = "not every test file uses every helper")]
mod testing;

use support::{External, is_mariadb, servers};
use testing::{setting, variant};

/// A password that must turn up nowhere.
const SECRET: &str = "s3cret-Passw0rd!";

fn plan_for(external: &External, hooks: bool) -> Plan {
    let password = external.path("password");
    std::fs::write(&password, format!("{SECRET}\n")).unwrap();
    let account = |user: &str| Account {
        user: Some(user.to_owned()),
        password: PasswordSource::File(password.clone()),
    };
    let hook = |name: &str| hooks.then(|| external.path(name).to_string_lossy().into_owned());
    let mut plan = testing::plan();
    plan.target.place = Place::Server(ServerPlace {
        address: Address::Tcp {
            host: "127.0.0.1".to_owned(),
            port: external.port,
        },
        account: account("bench"),
        admin: Some(account("bench_admin")),
        tls: Tls {
            mode: TlsMode::Preferred,
            ca: None,
        },
        hooks: Hooks {
            apply: None,
            restart: hook("restart.sh"),
        },
    });
    plan
}

/// Runs the plan's own GRANT script.
fn make_accounts(external: &External, plan: &Plan, flavour: Flavour) {
    let mut root = external.root();
    let script = grants(plan, flavour).replace("<password>", SECRET);
    let statements: String = script
        .lines()
        .filter(|l| !l.starts_with("--"))
        .collect::<Vec<_>>()
        .join("\n");
    for sql in statements
        .split(';')
        .map(str::trim)
        .filter(|s| !s.is_empty())
    {
        root.query_drop(sql)
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

fn flavour(binary: &Path) -> Flavour {
    if is_mariadb(binary) {
        Flavour::MariaDb
    } else {
        Flavour::MySql
    }
}

fn variables(external: &External) -> BTreeMap<String, String> {
    external
        .root()
        .query("SHOW GLOBAL VARIABLES")
        .unwrap()
        .into_iter()
        .filter(|(name, _): &(String, String)| !name.starts_with("gtid"))
        .collect()
}

fn open(plan: &Plan, journal: &mut Journal) -> Server {
    Server::open(plan, journal, &Interrupt::new()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn the_grant_script_is_enough_and_everything_is_put_back() {
    for binary in servers() {
        let external = External::start(&binary);
        let mut plan = plan_for(&external, true);
        plan.target.set = vec![setting("max_connections", 300), setting("sync_binlog", 7)];
        let mut flush = variant("flush");
        flush.set = vec![setting("innodb_flush_log_at_trx_commit", 2)];
        let mut text = variant("modes");
        text.set = vec![Setting {
            name: "sql_mode".to_owned(),
            value: SettingValue::Text("ANSI_QUOTES,NO_ZERO_DATE".to_owned()),
        }];
        let mut persisted = variant("persisted");
        persisted.set = vec![setting("innodb_io_capacity", 321)];
        persisted.restart = true;
        plan.variants.extend([flush, text, persisted]);
        let mut read_only = variant("start-up");
        read_only.set = vec![setting("innodb_sort_buffer_size", 2 << 20)];
        read_only.restart = true;
        if flavour(&binary) == Flavour::MySql {
            plan.variants.push(read_only);
        }
        make_accounts(&external, &plan, flavour(&binary));
        let before = variables(&external);
        let run_folder = tempfile::tempdir().unwrap();
        let path = run_folder.path().join("journal.jsonl");
        let mut journal = Journal::create(&path).unwrap();
        let mut server = open(&plan, &mut journal);
        assert_eq!(server.flavour(), flavour(&binary));
        assert!(server.identity().local && !server.is_managed());
        assert_eq!(check_support(&plan, &mut server).unwrap(), []);
        assert_eq!(variables(&external), before, "check changes nothing");

        let run = server
            .apply_run_settings(&plan.target.set, &mut journal)
            .unwrap();
        assert_eq!(run[0].took.as_deref(), Some("300"));
        for variant in &plan.variants {
            let record = server
                .apply_variant(&plan, variant, &mut journal, &Unattended)
                .unwrap_or_else(|e| panic!("{}: {e}", variant.name));
            assert_eq!(record.restarted, variant.restart, "{}", variant.name);
            let now = variables(&external);
            assert_eq!(
                now["max_connections"], "300",
                "{}: the run's setting holds",
                variant.name
            );
            for applied in &record.settings {
                assert_eq!(applied.took.as_ref(), now.get(&applied.name));
                assert_ne!(applied.took, applied.before);
            }
            let declared: Vec<&str> = variant.set.iter().map(|s| s.name.as_str()).collect();
            let differs: Vec<&str> = record.differs.keys().map(String::as_str).collect();
            assert_eq!(differs, declared, "{}", variant.name);
        }
        assert!(!Journal::read_pending(&path).unwrap().is_empty());
        server.restore(&mut journal, &Unattended).unwrap();
        server.close(&mut journal).unwrap();
        assert_eq!(variables(&external), before);
        if flavour(&binary) == Flavour::MySql {
            let persisted: Option<u64> = external
                .root()
                .query_first("SELECT COUNT(*) FROM performance_schema.persisted_variables")
                .unwrap();
            assert_eq!(persisted, Some(0));
        }
        assert!(Journal::read_pending(&path).unwrap().is_empty());
        assert!(!std::fs::read_to_string(&path).unwrap().contains(SECRET));
    }
}

#[test]
fn a_former_persisted_value_comes_back() {
    for binary in servers().iter().filter(|b| !is_mariadb(b)) {
        let external = External::start(binary);
        let mut plan = plan_for(&external, true);
        let mut pool = variant("io");
        pool.set = vec![setting("innodb_io_capacity", 321)];
        pool.restart = true;
        plan.variants.push(pool.clone());
        make_accounts(&external, &plan, Flavour::MySql);
        external
            .root()
            .query_drop("SET PERSIST innodb_io_capacity = 555")
            .unwrap();
        let mut journal = Journal::in_memory();
        let mut server = open(&plan, &mut journal);
        server
            .apply_variant(&plan, &pool, &mut journal, &Unattended)
            .unwrap();
        assert_eq!(variables(&external)["innodb_io_capacity"], "321");
        // Not closed: an error or a panic on the way drops it.
        drop(server);
        assert_eq!(variables(&external)["innodb_io_capacity"], "555");
        let persisted: Option<String> = external
            .root()
            .query_first("SELECT variable_value FROM performance_schema.persisted_variables WHERE variable_name = 'innodb_io_capacity'")
            .unwrap();
        assert_eq!(persisted.as_deref(), Some("555"));
    }
}

#[test]
fn start_up_options_go_through_the_hook_and_back() {
    for binary in servers() {
        let external = External::start(&binary);
        let mut plan = plan_for(&external, true);
        let Place::Server(place) = &mut plan.target.place else {
            unreachable!()
        };
        place.hooks.apply = Some(external.path("apply.sh").to_string_lossy().into_owned());
        let mut options = variant("sort buffer");
        options.options = vec![setting("innodb_sort_buffer_size", 2 << 20)];
        options.restart = true;
        plan.variants.push(options.clone());
        make_accounts(&external, &plan, flavour(&binary));
        let before = variables(&external);
        let mut journal = Journal::in_memory();
        let mut server = open(&plan, &mut journal);
        assert_eq!(check_support(&plan, &mut server).unwrap(), []);
        let record = server
            .apply_variant(&plan, &options, &mut journal, &Unattended)
            .unwrap();
        assert!(record.restarted);
        assert_eq!(record.settings[0].took.as_deref(), Some("2097152"));
        server.restore(&mut journal, &Unattended).unwrap();
        assert_eq!(variables(&external), before);
        let applied = std::fs::read_to_string(external.path("applied")).unwrap();
        assert_eq!(applied, "sort buffer\n\n");
    }
}

#[test]
fn what_cannot_be_done_here_is_refused() {
    for binary in servers() {
        let external = External::start(&binary);
        let mut plan = plan_for(&external, false);
        let mut read_only = variant("read-only");
        read_only.set = vec![setting("innodb_sort_buffer_size", 2 << 20)];
        let mut restart = variant("restart");
        restart.set = vec![setting("innodb_io_capacity", 600)];
        restart.restart = true;
        let mut options = variant("options");
        options.options = vec![Setting {
            name: "skip_log_bin".to_owned(),
            value: SettingValue::Bare,
        }];
        let mut unknown = variant("unknown");
        unknown.set = vec![setting("max_conections", 6)];
        let mut by_hand = variant("by hand");
        by_hand.set = vec![setting("innodb_sort_buffer_size", 2 << 20)];
        by_hand.operator = true;
        plan.variants
            .extend([read_only, restart, options, unknown, by_hand]);
        make_accounts(&external, &plan, flavour(&binary));
        let before = variables(&external);
        let mut server = open(&plan, &mut Journal::in_memory());
        let problems = check_support(&plan, &mut server).unwrap();
        let named: Vec<&str> = problems
            .iter()
            .filter_map(|p| p.variant.as_deref())
            .collect();
        assert_eq!(named, ["read-only", "restart", "options", "unknown"]);
        assert!(problems[3].hint.contains("`max_connections`"));
        let error = server
            .apply_variant(
                &plan,
                &plan.variants[1],
                &mut Journal::in_memory(),
                &Unattended,
            )
            .unwrap_err();
        assert!(matches!(error, TargetError::Unsupported(_)), "{error}");
        assert_eq!(variables(&external), before);
    }
}

#[test]
fn an_account_without_the_right_is_named() {
    for binary in servers() {
        let external = External::start(&binary);
        let mut plan = plan_for(&external, false);
        // Made for a plan that changes nothing …
        make_accounts(&external, &plan, flavour(&binary));
        // … and used for one that does.
        plan.target.set = vec![setting("innodb_io_capacity", 300)];
        let mut journal = Journal::in_memory();
        let mut server = open(&plan, &mut journal);
        let problems = check_support(&plan, &mut server).unwrap();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].text.contains("`bench_admin`") && problems[0].text.contains("1227"));
        let error = server
            .apply_run_settings(&plan.target.set, &mut journal)
            .unwrap_err();
        assert_eq!(error.code(), Some(1227));
        assert!(
            journal.pending().is_empty(),
            "a refused change leaves nothing to undo"
        );
        // The warning about the load's account, too, is about what it may do.
        let names = |server: &mut Server| -> Vec<String> {
            warnings(&plan, server, &HostFacts::default())
                .into_iter()
                .map(|w| w.name)
                .collect()
        };
        assert!(!names(&mut server).contains(&"super-load-account".to_owned()));
        assert!(names(&mut server).contains(&"same-host".to_owned()));
        // Which of the two names of the loopback the server takes the client for is its own affair.
        for host in ["localhost", "127.0.0.1"] {
            external
                .root()
                .query_drop(format!("GRANT SUPER ON *.* TO 'bench'@'{host}'"))
                .unwrap();
        }
        assert!(names(&mut server).contains(&"super-load-account".to_owned()));
    }
}

/// Makes the change by hand the second time it is asked.
struct Slow<'a> {
    external: &'a External,
    asked: std::cell::RefCell<Vec<String>>,
}

impl Operator for Slow<'_> {
    fn ask(&self, request: &str) -> bool {
        self.asked.borrow_mut().push(request.to_owned());
        let value = match self.asked.borrow().len() {
            1 => return true,
            2 => 321,
            _ => 200,
        };
        self.external
            .root()
            .query_drop(format!("SET GLOBAL innodb_io_capacity = {value}"))
            .unwrap();
        true
    }
}

#[test]
fn an_operator_is_asked_until_the_change_is_there_and_asked_to_put_it_back() {
    let external = External::start(&servers()[0]);
    let mut plan = plan_for(&external, false);
    let mut by_hand = variant("by hand");
    by_hand.set = vec![setting("innodb_io_capacity", 321)];
    by_hand.operator = true;
    plan.variants.push(by_hand.clone());
    make_accounts(&external, &plan, Flavour::MariaDb);
    let operator = Slow {
        external: &external,
        asked: std::cell::RefCell::default(),
    };
    let mut journal = Journal::in_memory();
    let mut server = open(&plan, &mut journal);
    let record = server
        .apply_variant(&plan, &by_hand, &mut journal, &operator)
        .unwrap();
    assert_eq!(record.settings[0].took.as_deref(), Some("321"));
    server.restore(&mut journal, &operator).unwrap();
    let asked = operator.asked.borrow();
    assert_eq!(asked.len(), 3);
    assert!(asked[0].contains("--innodb-io-capacity=321"), "{asked:?}");
    assert!(asked[2].contains("innodb_io_capacity = 200"), "{asked:?}");
    assert!(journal.pending().is_empty());

    let declined = server.apply_variant(&plan, &by_hand, &mut journal, &Unattended);
    assert!(matches!(declined, Err(TargetError::Declined(_))));
}

#[test]
fn an_anonymous_account_in_the_way_is_explained() {
    let external = External::start(&servers()[0]);
    let mut plan = plan_for(&external, false);
    make_accounts(&external, &plan, Flavour::MariaDb);
    let mut root = external.root();
    root.query_drop("CREATE USER IF NOT EXISTS ''@'localhost'")
        .unwrap();
    root.query_drop("GRANT SELECT ON mysql.* TO 'bench_admin'@'localhost'")
        .unwrap();
    root.query_drop(format!("CREATE USER 'wide'@'%' IDENTIFIED BY '{SECRET}'"))
        .unwrap();
    if let Place::Server(place) = &mut plan.target.place {
        place.account.user = Some("wide".to_owned());
    }
    let mut server = open(&plan, &mut Journal::in_memory());
    let problems = check_support(&plan, &mut server).unwrap();
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].hint.contains("'wide'@'localhost'"),
        "{}",
        problems[0]
    );
    assert!(!problems[0].to_string().contains(SECRET));
}

#[test]
fn tls_modes_do_what_they_say() {
    for binary in servers() {
        let external = External::start(&binary);
        let mut plan = plan_for(&external, false);
        make_accounts(&external, &plan, flavour(&binary));
        let mut tls = |mode: TlsMode, ca: Option<&str>| {
            if let Place::Server(place) = &mut plan.target.place {
                place.tls = Tls {
                    mode,
                    ca: ca.map(|name| external.path(name)),
                };
            }
            Server::open(&plan, &mut Journal::in_memory(), &Interrupt::new())
                .map(|server| server.identity().tls.clone())
                .map_err(|error| error.to_string())
        };
        assert_eq!(tls(TlsMode::Disabled, None).unwrap(), "none");
        if is_mariadb(&binary) {
            // 10.11 has no certificate unless it is given one.
            assert_eq!(tls(TlsMode::Preferred, None).unwrap(), "none");
            let error = tls(TlsMode::Required, None).unwrap_err();
            assert!(error.contains("the server has no TLS"), "{error}");
        } else {
            for mode in [TlsMode::Preferred, TlsMode::Required] {
                assert!(tls(mode, None).unwrap().starts_with("TLSv1."));
            }
            // MySQL signs for itself: an authority that nobody knows until the plan names it.
            let error = tls(TlsMode::VerifyCa, None).unwrap_err();
            assert!(error.contains("tls.ca"), "{error}");
            let known = tls(TlsMode::VerifyCa, Some("data/ca.pem"));
            assert!(known.is_ok(), "{known:?}");
            let other_name = tls(TlsMode::VerifyIdentity, Some("data/ca.pem"));
            assert!(other_name.is_err(), "{other_name:?}");
        }
    }
}

#[test]
fn one_capbench_at_a_time_works_on_a_server() {
    for binary in servers() {
        let external = External::start(&binary);
        let plan = plan_for(&external, false);
        make_accounts(&external, &plan, flavour(&binary));
        let (_, admin) = capbench::target::resolve(&plan).unwrap();
        let first = capbench::target::RunLock::take(&admin).unwrap();
        let error = capbench::target::RunLock::take(&admin)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("another capbench") && error.contains("hint:"),
            "{error}"
        );
        drop(first);
        // The server lets go when it has seen the connection end.
        let again = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(50));
            capbench::target::RunLock::take(&admin).is_ok()
        });
        assert!(again, "the lock goes with its connection");
    }
}
