//! Two variants that differ in nothing begin alike, on every server there is: the same rows, the same pages in
//! memory, the same reads for the same questions. Nothing here is timed.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::Path;
use std::time::Duration;

use capbench::dataset::{self, Silent};
use capbench::interrupt::Interrupt;
use capbench::plan::{DataSize, Managed, Place, Plan, Reset};
use capbench::record::SettleStep;
use capbench::target::{Anew, Cache, DataSource, Journal, Server, Unattended, data_key};
use capbench::units::Bytes;
use capbench::workload::TableLayout;
// The plans of the unit tests name their types by `crate::`.
use capbench::{plan, units, workload};
use mysql::prelude::{FromRow, Queryable};

mod support;
#[path = "../src/target/testing.rs"]
#[allow(dead_code, reason = "not every test file uses every helper")]
mod testing;

use support::External;
use testing::{setting, variant};

const LAYOUT: TableLayout = TableLayout::Standard;
const LIMIT: Duration = Duration::from_secs(60);

fn plan_for(binary: &Path, folder: &Path) -> Plan {
    let mut plan = testing::plan();
    plan.target.place = Place::Managed(Managed {
        binary: Some(binary.to_owned()),
        directory: Some(folder.to_owned()),
        options: vec![setting("innodb_buffer_pool_size", 32 << 20)],
        cache: true,
    });
    plan.dataset.tables = 2;
    plan.dataset.size = DataSize::Rows(20_000);
    plan.dataset.reset = Reset::PerVariant;
    plan.variants = vec![variant("A"), variant("B")];
    plan
}

/// What a variant finds.
#[derive(Debug, PartialEq)]
struct State {
    /// Rows and checksums of each table.
    tables: Vec<String>,
    settings: Vec<String>,
    /// By name, counters and gauges that should be near each other.
    counters: Vec<(String, f64)>,
}

/// The first row of the answer.
fn ask<T: FromRow>(server: &mut Server, sql: &str) -> Option<T> {
    let admin = server.admin().unwrap();
    admin.ask(|conn| conn.query_first(sql)).unwrap()
}

fn tell(server: &mut Server, sql: &str) {
    let admin = server.admin().unwrap();
    admin.ask(|conn| conn.query_drop(sql)).unwrap();
}

fn number(server: &mut Server, name: &str) -> f64 {
    let sql = format!("SHOW GLOBAL STATUS LIKE '{name}'");
    let (_, value): (String, String) = ask(server, &sql).unwrap_or_else(|| panic!("{name}"));
    value.parse().unwrap()
}

/// The state of a server that has settled, and then what the same questions cost it.
fn state(server: &mut Server) -> State {
    cold(server);
    let mut counters = vec![];
    for name in [
        "Innodb_buffer_pool_pages_data",
        "Innodb_buffer_pool_pages_dirty",
    ] {
        counters.push((name.to_owned(), number(server, name)));
    }
    let before: Vec<f64> = [
        "Innodb_buffer_pool_reads",
        "Innodb_buffer_pool_read_requests",
    ]
    .map(|name| number(server, name))
    .into();
    tell(server, "USE bench");
    for n in 0..500 {
        let (table, id) = (n % 2 + 1, n * 7919 % 20_000 + 1);
        let sql = format!("SELECT c FROM sbtest{table} WHERE id = {id}");
        assert!(ask::<String>(server, &sql).is_some());
    }
    for (name, before) in [
        "Innodb_buffer_pool_reads",
        "Innodb_buffer_pool_read_requests",
    ]
    .into_iter()
    .zip(before)
    {
        let now = number(server, name);
        counters.push((format!("{name} by the same questions"), now - before));
    }
    let tables = (1..=2)
        .map(|n| {
            let sql = format!(
                "SELECT CONCAT_WS(' ', COUNT(*), MIN(id), MAX(id), SUM(k), \
                 BIT_XOR(CRC32(CONCAT_WS(',', id, k, c, pad)))) FROM sbtest{n}"
            );
            ask(server, &sql).unwrap()
        })
        .collect();
    let settings = server
        .variables()
        .unwrap()
        .into_iter()
        // A run's own folder and port, MariaDB's id, which is made of the port, and the file that gave the
        // accounts of kept data their passwords.
        .filter(|(name, value)| {
            !value.contains("/capbench-")
                && !["init_file", "port", "report_port", "server_uid"].contains(&name.as_str())
        })
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    State {
        tables,
        settings,
        counters,
    }
}

/// Cold means cold: far fewer pages of the tables are in memory than the tables have. What the server itself keeps
/// there, some hundred pages and by its version, is no part of it.
fn cold(server: &mut Server) {
    let all: f64 = ask(
        server,
        "SELECT SUM(stat_value) FROM mysql.innodb_index_stats \
             WHERE database_name = 'bench' AND table_name LIKE 'sbtest%' AND stat_name = 'size'",
    )
    .unwrap();
    let inside: f64 = ask(
        server,
        "SELECT COUNT(*) FROM information_schema.innodb_buffer_page \
             WHERE table_name LIKE '%sbtest%'",
    )
    .unwrap();
    assert!(all > 400.0, "{all} pages");
    assert!(inside < all / 10.0, "{inside} of {all} pages are in memory");
}

fn near(a: &State, b: &State) {
    assert_eq!(a.tables, b.tables);
    let other: Vec<_> = a
        .settings
        .iter()
        .filter(|setting| !b.settings.contains(setting))
        .collect();
    assert_eq!(other, [""; 0]);
    assert_eq!(a.settings.len(), b.settings.len());
    for ((name, a), (other, b)) in a.counters.iter().zip(&b.counters) {
        assert_eq!(name, other);
        // Background threads of the server touch some pages of their own.
        let room = 100.0 + 0.1 * a.max(*b);
        assert!((a - b).abs() <= room, "{name}: {a} and {b}");
    }
}

fn settled(steps: &[SettleStep]) {
    for name in ["dirty pages", "history list", "page cache"] {
        let step = steps
            .iter()
            .find(|step| step.name == name)
            .unwrap_or_else(|| panic!("{name}: {steps:?}"));
        assert!(!step.timed_out, "{step:?}");
        assert!(
            step.after.unwrap_or(0.0) <= step.limit.unwrap_or(0.0),
            "{step:?}"
        );
    }
}

/// What a write workload does to the data.
fn spoil(server: &mut Server, plan: &Plan) {
    dataset::mark_dirty(server.admin_endpoint(), plan, LAYOUT).unwrap();
    tell(server, "USE bench");
    tell(server, "UPDATE sbtest1 SET k = k + 1, pad = REVERSE(pad)");
    tell(server, "DELETE FROM sbtest2 WHERE id % 3 = 0");
    tell(server, "CREATE TABLE left_over (id INT PRIMARY KEY)");
}

fn apply(server: &mut Server, plan: &Plan, n: usize, journal: &mut Journal) {
    server
        .apply_variant(plan, &plan.variants[n], journal, &Unattended)
        .unwrap();
}

#[test]
fn variants_that_differ_in_nothing_begin_alike() {
    for binary in support::servers() {
        let parent = support::folder();
        let plan = plan_for(&binary, parent.path());
        let Place::Managed(managed) = &plan.target.place else {
            unreachable!()
        };
        let cache = Cache::at(parent.path().join("cache"), Bytes(1 << 40));
        let key = data_key(&plan, managed, &[dataset::identity(&plan, LAYOUT)])
            .unwrap()
            .unwrap();
        let source = |found| DataSource {
            cache: Some((cache.clone(), key.clone())),
            found,
        };
        let resolved = dataset::plan_size(&plan.dataset, Bytes(32 << 20));
        let interrupt = Interrupt::new();
        let mut journal = Journal::in_memory();

        // The first run loads, and keeps what it loaded.
        assert!(cache.find(&key).unwrap().is_none());
        let mut server = Server::open_on(&plan, source(None), &mut journal, &interrupt).unwrap();
        dataset::prepare(
            server.admin_endpoint(),
            &plan,
            LAYOUT,
            &resolved,
            &Silent,
            &interrupt,
        )
        .unwrap();
        let keeping = server.keep_data(true).unwrap();
        assert!(keeping.copied && keeping.kept.is_some(), "{keeping:?}");
        assert_eq!(keeping.notes, [""; 0]);
        apply(&mut server, &plan, 0, &mut journal);
        assert!(
            dataset::recognise(server.admin_endpoint(), &plan, LAYOUT, &resolved)
                .unwrap()
                .is_some()
        );
        settled(&server.settle(LIMIT, &mut journal).unwrap());
        let first = state(&mut server);
        dataset::verify(server.admin_endpoint(), &plan, 20_000, &Silent, &interrupt).unwrap();

        // The second variant finds what the first one found.
        spoil(&mut server, &plan);
        assert!(
            dataset::recognise(server.admin_endpoint(), &plan, LAYOUT, &resolved)
                .unwrap()
                .is_none()
        );
        let port_and_accounts = server.load_endpoint().clone();
        server.start_anew(Anew::Restore);
        apply(&mut server, &plan, 1, &mut journal);
        assert_eq!(server.load_endpoint().user, port_and_accounts.user);
        assert!(
            dataset::recognise(server.admin_endpoint(), &plan, LAYOUT, &resolved)
                .unwrap()
                .is_some()
        );
        settled(&server.settle(LIMIT, &mut journal).unwrap());
        let left: Option<u32> = ask(
            &mut server,
            "SELECT 1 FROM information_schema.tables WHERE table_name = 'left_over'",
        );
        assert_eq!(left, None);
        near(&first, &state(&mut server));
        // Nobody removes or replaces the data while this run uses it.
        assert!(cache.entries().unwrap()[0].in_use);
        server.close(&mut journal).unwrap();

        // Another run begins where the first one did, with passwords of its own.
        let found = cache.find(&key).unwrap();
        assert!(found.is_some());
        let mut server = Server::open_on(&plan, source(found), &mut journal, &interrupt).unwrap();
        assert!(server.has_copy());
        let facts = dataset::recognise(server.admin_endpoint(), &plan, LAYOUT, &resolved)
            .unwrap()
            .expect("the data of the first run");
        assert_eq!((facts.tables, facts.rows), (2, 20_000));
        // Reading rows would warm what must begin cold, and none is said to have been compared.
        assert_eq!(facts.compared, Some(0));
        assert!(server.keep_data(true).unwrap().kept.is_none());
        apply(&mut server, &plan, 0, &mut journal);
        settled(&server.settle(LIMIT, &mut journal).unwrap());
        near(&first, &state(&mut server));
        // The load gets in, and its file of passwords is gone.
        let mut load = capbench::target::connect(server.load_endpoint(), None).unwrap();
        load.query_drop("SELECT 1 FROM sbtest1 LIMIT 1").unwrap();
        let folder = server.datadir().unwrap().parent().unwrap().to_owned();
        assert!(!folder.join("accounts.sql").exists());
        spoil(&mut server, &plan);
        server.start_anew(Anew::Restore);
        apply(&mut server, &plan, 1, &mut journal);
        settled(&server.settle(LIMIT, &mut journal).unwrap());
        near(&first, &state(&mut server));
        server.close(&mut journal).unwrap();
        assert!(!folder.exists());
        assert_eq!(cache.clear().unwrap(), (1, 0));
    }
}

/// A variant with settings of its own goes through the same way back.
#[test]
fn settings_of_a_variant_survive_the_way_back() {
    for binary in support::servers() {
        let parent = support::folder();
        let mut plan = plan_for(&binary, parent.path());
        plan.variants[1].set = vec![setting("innodb_flush_log_at_trx_commit", 2)];
        let resolved = dataset::plan_size(&plan.dataset, Bytes(32 << 20));
        let (interrupt, mut journal) = (Interrupt::new(), Journal::in_memory());
        let mut server = Server::open(&plan, &mut journal, &interrupt).unwrap();
        let prepare = |server: &Server| {
            dataset::prepare(
                server.admin_endpoint(),
                &plan,
                LAYOUT,
                &resolved,
                &Silent,
                &interrupt,
            )
            .unwrap()
        };
        prepare(&server);
        // Nothing is kept beyond this run: the copy lies in the server's own folder.
        let keeping = server.keep_data(true).unwrap();
        assert!(keeping.copied && keeping.kept.is_none(), "{keeping:?}");
        let flush = |server: &mut Server| {
            server.variables().unwrap()["innodb_flush_log_at_trx_commit"].clone()
        };
        apply(&mut server, &plan, 1, &mut journal);
        assert_eq!(flush(&mut server), "2");
        for _ in 0..2 {
            spoil(&mut server, &plan);
            server.start_anew(Anew::Restore);
            apply(&mut server, &plan, 1, &mut journal);
            assert_eq!(flush(&mut server), "2");
            assert_eq!(prepare(&server).origin, "reused");
        }
        server.start_anew(Anew::Restart);
        apply(&mut server, &plan, 0, &mut journal);
        assert_eq!(flush(&mut server), "1");
        server.close(&mut journal).unwrap();
        assert_eq!(journal.pending(), []);
    }
}

/// On a server of others dirty pages are brought down by its own limits, which come back.
#[test]
fn a_server_of_others_is_settled_and_left_as_it_was() {
    for binary in support::servers() {
        let external = External::start(&binary);
        let mut plan = testing::plan();
        let mut place = testing::external("127.0.0.1", "root");
        place.address = plan::Address::Socket(external.path("s"));
        plan.target.place = Place::Server(place);
        let mut root = external.root();
        root.query_drop("CREATE DATABASE bench").unwrap();
        root.query_drop(
            "CREATE TABLE bench.t (id INT AUTO_INCREMENT PRIMARY KEY, c CHAR(250) NOT NULL)",
        )
        .unwrap();
        // Not written before someone asks for it.
        root.query_drop("SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0")
            .unwrap();
        root.query_drop("SET GLOBAL innodb_max_dirty_pages_pct = 85")
            .unwrap();
        root.query_drop("INSERT INTO bench.t (c) VALUES (REPEAT('a', 250))")
            .unwrap();
        for _ in 0..15 {
            root.query_drop("INSERT INTO bench.t (c) SELECT c FROM bench.t")
                .unwrap();
        }
        let limits = |root: &mut mysql::Conn| -> Vec<(String, String)> {
            root.query("SHOW GLOBAL VARIABLES LIKE 'innodb_max_dirty_pages_pct%'")
                .unwrap()
        };
        let before = limits(&mut root);
        let file = tempfile::tempdir().unwrap();
        let path = file.path().join("journal.jsonl");
        let mut journal = Journal::create(&path).unwrap();
        let mut server = Server::open(&plan, &mut journal, &Interrupt::new()).unwrap();
        assert_eq!(server.settle(Duration::ZERO, &mut journal).unwrap(), []);
        let steps = server.settle(LIMIT, &mut journal).unwrap();
        let dirty = steps.iter().find(|s| s.name == "dirty pages").unwrap();
        assert!(
            dirty.before > dirty.limit && dirty.after <= dirty.limit,
            "{dirty:?}"
        );
        assert!(!dirty.timed_out && dirty.note.is_none(), "{dirty:?}");
        assert!(steps.iter().all(|s| s.name != "page cache"), "{steps:?}");
        assert_eq!(limits(&mut root), before);
        // Written before it was made, and undone.
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(
            written.contains("innodb_max_dirty_pages_pct_lwm"),
            "{written}"
        );
        assert_eq!(journal.pending(), []);
        server.close(&mut journal).unwrap();
    }
}
