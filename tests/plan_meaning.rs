//! What typed values mean.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};

use capbench::plan::{
    self, Account, Address, DataSize, PasswordSource, Place, Plan, Reset, ServerPlace, Setting,
    SettingValue, Step, Warning,
};
use capbench::units::{Bytes, Millis, PerSecond, Ratio};
use capbench::workload::Distribution;
use proptest::prelude::*;

/// A plan of the least, with `top` before its tables and `more` after them.
fn with(top: &str, target: &str, more: &str) -> Plan {
    let source = format!(
        "name = \"p\"\n{top}\n[target]\n{target}\n[ladder]\nworkloads = [\"oltp_read_only\"]\nthreads = [1, 2]\n{more}\n"
    );
    plan::parse(&source, "p", Path::new("/plans")).unwrap_or_else(|p| panic!("{p}"))
}

fn server(target: &str) -> ServerPlace {
    match with("", target, "").target.place {
        Place::Server(server) => server,
        Place::Managed(_) => panic!("managed"),
    }
}

fn setting(name: &str, value: SettingValue) -> Setting {
    Setting {
        name: name.to_owned(),
        value,
    }
}

fn text(value: &str) -> SettingValue {
    SettingValue::Text(value.to_owned())
}

#[test]
fn variables_and_their_values() {
    let plan = with(
        "",
        r#"host = "h"
set = { Max-Connections = 500, innodb_buffer_pool_size = "16GiB", innodb_log_file_size = "512M", innodb_flush_method = "O_DIRECT", autocommit = true, sync_binlog = "1", innodb_max_dirty_pages_pct = 75.5, innodb_data_file_path = "ibdata1:12M:autoextend", max_binlog_cache_size = 18446744073709547520, general_log = "ON" }"#,
        "",
    );
    assert_eq!(
        plan.target.set,
        [
            setting("max_connections", SettingValue::Integer(500)),
            setting("innodb_buffer_pool_size", SettingValue::Integer(16 << 30)),
            setting("innodb_log_file_size", SettingValue::Integer(512 << 20)),
            setting("innodb_flush_method", text("O_DIRECT")),
            setting("autocommit", SettingValue::Bool(true)),
            setting("sync_binlog", text("1")),
            setting("innodb_max_dirty_pages_pct", text("75.5")),
            setting("innodb_data_file_path", text("ibdata1:12M:autoextend")),
            setting("max_binlog_cache_size", text("18446744073709547520")),
            setting("general_log", text("ON")),
        ]
    );
}

#[test]
fn start_up_options_as_list_and_as_table() {
    let list = r#"["skip-log-bin", "--innodb-flush-method=O_DIRECT", "innodb_log_file_size=1G", "table_open_cache=4000", "sql-mode="]"#;
    let table = r#"{ skip-log-bin = true, innodb_flush_method = "O_DIRECT", innodb-log-file-size = "1GiB", table_open_cache = 4000, sql_mode = "" }"#;
    let meant = [
        setting("skip_log_bin", SettingValue::Bare),
        setting("innodb_flush_method", text("O_DIRECT")),
        setting("innodb_log_file_size", SettingValue::Integer(1 << 30)),
        setting("table_open_cache", SettingValue::Integer(4000)),
    ];
    for (typed, last) in [(list, text("")), (table, SettingValue::Bare)] {
        let more = format!("[[variant]]\nname = \"v\"\nseveral = true\noptions = {typed}");
        let variant = with("", "managed = {}", &more).variants.remove(0);
        assert_eq!(variant.options[..4], meant, "{typed}");
        assert_eq!(variant.options[4], setting("sql_mode", last), "{typed}");
        assert!(variant.restart, "options need a restart");
    }
}

#[test]
fn who_restarts_for_start_up_options() {
    let options = "[[variant]]\nname = \"v\"\noptions = [\"skip-log-bin\"]";
    let restart = |target: &str, more: &str| with("", target, more).variants[0].restart;
    assert!(restart("managed = {}", options));
    assert!(restart(
        "host = \"h\"\nhooks = { apply = \"a\", restart = \"r\" }",
        options
    ));
    // The hook has to do it, or the operator.
    assert!(!restart("host = \"h\"\nhooks = { apply = \"a\" }", options));
    assert!(!restart(
        "host = \"h\"",
        &format!("{options}\noperator = true")
    ));
    let set = "[[variant]]\nname = \"v\"\nset = { sync_binlog = 0 }";
    assert!(!restart("managed = {}", set));
    assert!(restart("managed = {}", &format!("{set}\nrestart = true")));
}

#[test]
fn a_plan_without_variants_measures_the_server_as_it_is() {
    let plan = with("", "host = \"h\"", "");
    assert_eq!(plan.variants.len(), 1);
    assert_eq!(plan.variants[0].name, "baseline");
    assert!(plan.variants[0].variables().is_empty());
}

#[test]
fn addresses() {
    let tcp = |host: &str, port| Address::Tcp {
        host: host.to_owned(),
        port,
    };
    assert_eq!(server("host = \"db\"").address, tcp("db", 3306));
    assert_eq!(
        server("host = \"::1\"\nport = 3307").address,
        tcp("::1", 3307)
    );
    let socket = |path: &str| Address::Socket(PathBuf::from(path));
    assert_eq!(server("socket = \"/run/s\"").address, socket("/run/s"));
    assert_eq!(server("socket = \"s\"").address, socket("/plans/s"));
}

#[test]
fn where_passwords_come_from() {
    let account = |user: Option<&str>, password| Account {
        user: user.map(str::to_owned),
        password,
    };
    let of = |keys: &str| server(&format!("host = \"h\"\n{keys}")).account;
    let file = |path: &str| PathBuf::from(path);
    assert_eq!(of(""), account(None, PasswordSource::OptionFile(None)));
    assert_eq!(
        of("user = \"u\""),
        account(Some("u"), PasswordSource::Empty)
    );
    assert_eq!(
        of("user = \"u\"\npassword_env = \"P\""),
        account(Some("u"), PasswordSource::Env("P".to_owned()))
    );
    assert_eq!(
        of("user = \"u\"\npassword_file = \"p\""),
        account(Some("u"), PasswordSource::File(file("/plans/p")))
    );
    assert_eq!(
        of("defaults_file = \"/etc/c.cnf\""),
        account(None, PasswordSource::OptionFile(Some(file("/etc/c.cnf"))))
    );
    let home = std::env::var("HOME").unwrap();
    assert_eq!(
        of("defaults_file = \"~/.my.cnf\"").password,
        PasswordSource::OptionFile(Some(Path::new(&home).join(".my.cnf")))
    );
    assert_eq!(server("host = \"h\"").admin, None);
    assert_eq!(
        server("host = \"h\"\nadmin = { user = \"a\" }").admin,
        Some(account(Some("a"), PasswordSource::Empty))
    );
}

#[test]
fn sizes_of_data() {
    let size = |typed: &str| {
        with("", "host = \"h\"", &format!("[dataset]\n{typed}"))
            .dataset
            .size
    };
    assert_eq!(
        size("size = \"3x buffer_pool\""),
        DataSize::BufferPools(3.0)
    );
    assert_eq!(
        size("size = \"2.5 × buffer pools\""),
        DataSize::BufferPools(2.5)
    );
    assert_eq!(size("size = \"12GiB\""), DataSize::Bytes(Bytes(12 << 30)));
    assert_eq!(size("size = 1048576"), DataSize::Bytes(Bytes(1 << 20)));
    assert_eq!(size("rows = 1_000_000"), DataSize::Rows(1_000_000));
    assert_eq!(size(""), DataSize::BufferPools(3.0));
}

#[test]
fn existing_tables_are_never_reset() {
    let reset = |typed: &str| {
        with("", "host = \"h\"", &format!("[dataset]\n{typed}"))
            .dataset
            .reset
    };
    assert_eq!(reset(""), Reset::PerVariant);
    assert_eq!(reset("reset = \"per-cell\""), Reset::PerCell);
    assert_eq!(reset("existing = true"), Reset::Never);
    assert_eq!(reset("existing = true\nreset = \"never\""), Reset::Never);
}

#[test]
fn shares_latencies_and_windows() {
    let plan = with(
        "",
        "host = \"h\"",
        "[guard]\nmax_p95 = \"0.5s\"\nmax_errors = \"1%\"\nmax_server_cpu = 0.95\nwindow = \"22:00-06:30\"\n[criteria]\nexpected_peak_tps = 1200\nmin_headroom = \"130%\"\nmax_p99 = \"1500us\"\nmax_errors = 0",
    );
    assert_eq!(plan.guard.max_p95, Some(Millis(500.0)));
    assert_eq!(plan.guard.max_errors, Some(Ratio(0.01)));
    assert_eq!(plan.guard.max_server_cpu, Some(Ratio(0.95)));
    assert_eq!(plan.guard.window, Some((22 * 60, 6 * 60 + 30)));
    assert_eq!(plan.criteria.expected_peak_tps, Some(1200.0));
    assert_eq!(plan.criteria.min_headroom, Some(Ratio(1.3)));
    assert_eq!(plan.criteria.max_p99, Some(Millis(1.5)));
    assert_eq!(plan.criteria.max_errors, Some(Ratio(0.0)));
    assert_eq!(plan.criteria.max_p95, None);
    let until = with("", "host = \"h\"", "[guard]\nwindow = \"22:00-24:00\"")
        .guard
        .window;
    assert_eq!(until, Some((22 * 60, 0)));
}

#[test]
fn distributions() {
    let access = |typed: &str| {
        with("", "host = \"h\"", &format!("[access]\n{typed}"))
            .access
            .distribution
    };
    assert_eq!(access(""), Distribution::Uniform);
    assert_eq!(
        access("distribution = \"special\"\nspecial_pct = 2"),
        Distribution::Special { pct: 2, res: 75 }
    );
    assert_eq!(
        access("distribution = \"pareto\""),
        Distribution::Pareto { h: 0.2 }
    );
    assert_eq!(
        access("distribution = \"zipfian\"\nzipfian_theta = 1\nscrambled = true"),
        Distribution::Zipfian {
            theta: 1.0,
            scrambled: true
        }
    );
}

#[test]
fn no_warm_up_means_none() {
    let warmup = with("", "host = \"h\"", "[warmup]\nduration = \"0s\"").warmup;
    assert!(warmup.workload.is_none());
}

#[test]
fn options_reach_the_workloads() {
    let plan = with("", "host = \"h\"", "[workload]\npoint_selects = 7");
    let repeats: Vec<u32> = plan.ladder.workloads[0].transactions[0]
        .groups
        .iter()
        .map(|g| g.repeat)
        .collect();
    assert_eq!(repeats[0], 7);
}

/// The tables decide how `oltp_insert` makes ids; the plan says it once.
#[test]
fn workloads_follow_the_tables() {
    let tables = |auto_inc: bool| {
        let source = format!(
            "name = \"p\"\ntarget.host = \"h\"\ndataset.auto_inc = {auto_inc}\nladder = {{ workloads = [\"oltp_insert\"], threads = [1] }}"
        );
        plan::parse(&source, "p", Path::new(""))
            .unwrap()
            .ladder
            .workloads[0]
            .tables
    };
    assert_ne!(tables(true), tables(false));
}

#[test]
fn environment_keeps_order_and_words() {
    let plan = with(
        "environment = { z = \"last | first\", cores = 16, ssd = true }",
        "host = \"h\"",
        "",
    );
    let pairs: Vec<(&str, &str)> = plan
        .environment
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        pairs,
        [("z", "last | first"), ("cores", "16"), ("ssd", "true")]
    );
}

#[test]
fn warnings_are_accepted_by_name() {
    let plan = with("accept = [\"round-trip\"]", "host = \"h\"", "");
    assert!(plan.accepts("round-trip") && !plan.accepts("same-host"));
    assert!(plan.warning("round-trip", "0.7 ms").accepted);
    assert!(!Warning::new("same-host", "here", &plan.accept).accepted);
}

#[test]
fn open_loop() {
    let source = "name = \"p\"\ntarget.host = \"h\"\nladder = { workloads = [\"oltp_read_only\"], rates = [0.5, 100] }";
    let ladder = plan::parse(source, "p", Path::new("")).unwrap().ladder;
    assert_eq!(
        ladder.steps,
        [Step::Rate(PerSecond(0.5)), Step::Rate(PerSecond(100.0))]
    );
    assert_eq!(ladder.open.unwrap().clients, 256);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any ladder that ascends from 1 is taken as it is; any other order is refused.
    #[test]
    fn ladders(steps in proptest::collection::vec(1u32..=60_000, 1..12)) {
        let source = format!(
            "name = \"p\"\ntarget.host = \"h\"\nladder = {{ workloads = [\"oltp_read_only\"], threads = {steps:?} }}"
        );
        let plan = plan::parse(&source, "p", Path::new(""));
        if steps.windows(2).all(|pair| pair[0] < pair[1]) {
            let meant: Vec<Step> = steps.into_iter().map(Step::Threads).collect();
            prop_assert_eq!(plan.unwrap().ladder.steps, meant);
        } else {
            prop_assert!(plan.is_err());
        }
    }
}

#[test]
fn table_options_fit_into_the_marker_of_the_data() {
    let parsed = |options: &str| {
        let source = format!(
            "name = \"p\"\n[target.managed]\n[dataset]\ntable_options = \"{options}\"\n\
             [ladder]\nworkloads = [\"oltp_read_only\"]\nthreads = [1, 2]\n"
        );
        plan::parse(&source, "p", Path::new("/plans")).map_err(|problems| problems.to_string())
    };
    assert_eq!(
        parsed(&"x".repeat(500))
            .unwrap()
            .dataset
            .table_options
            .len(),
        500
    );
    for (options, says) in [
        (
            "x".repeat(501),
            "`dataset.table_options` has 501 characters",
        ),
        ("comment = 'mine'".to_owned(), "sets a comment"),
    ] {
        let problems = parsed(&options).unwrap_err();
        assert!(problems.contains(says), "{problems}");
    }
}
