//! The data on real servers: loaded, proved, recognised, continued, refused, removed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test may fail by panic"
)]

mod dataset_support;
mod support;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use capbench::dataset::{self, DatasetError, Progress, Resolved, Silent};
use capbench::interrupt::Interrupt;
use capbench::plan::{DataSize, Plan, Reset};
use capbench::record::DatasetFacts;
use capbench::units::Bytes;
use capbench::workload::{Access, Distribution, TableLayout};
use dataset_support::{endpoint, plan, start, value};
use mysql::prelude::Queryable as _;
use support::{Kind, Server, kinds};

#[test]
fn on_mariadb() {
    all(&start(Kind::MariaDb));
}

#[test]
fn on_mysql() {
    // Says so when there is none.
    if kinds().contains(&Kind::MySql) {
        all(&start(Kind::MySql));
    }
}

fn all(server: &Server) {
    loads_and_proves(server);
    both_ways_give_the_same_rows(server);
    reuses_what_fits(server);
    notices_what_others_did_to_kept_tables(server);
    tells_how_much_it_compared(server);
    names_foreign_keys_of_others_before_it_changes_anything(server);
    finds_what_stands_in_the_way_without_changing_anything(server);
    leaves_foreign_tables_alone(server);
    continues_a_broken_load(server);
    accepts_existing_tables(server);
    empty_layouts_stand_beside(server);
    cleans_up_its_own_only(server);
    hits_the_stated_size(server);
    loads_one_table_by_many(server);
    refuses_a_read_only_server(server);
    keeps_a_second_one_out(server);
}

fn resolved(plan: &Plan) -> Resolved {
    dataset::plan_size(&plan.dataset, Bytes(8 << 20))
}

fn prepare_layout(
    server: &Server,
    plan: &Plan,
    layout: TableLayout,
) -> Result<DatasetFacts, DatasetError> {
    let (silent, interrupt) = (Silent, Interrupt::new());
    dataset::prepare(
        &endpoint(server),
        plan,
        layout,
        &resolved(plan),
        &silent,
        &interrupt,
    )
}

fn prepare(server: &Server, plan: &Plan) -> Result<DatasetFacts, DatasetError> {
    prepare_layout(server, plan, TableLayout::Standard)
}

fn prepare_watched(
    server: &Server,
    plan: &Plan,
    watch: &Watch,
) -> Result<DatasetFacts, DatasetError> {
    dataset::prepare(
        &endpoint(server),
        plan,
        TableLayout::Standard,
        &resolved(plan),
        watch,
        &Interrupt::new(),
    )
}

fn verify(server: &Server, plan: &Plan, rows: u64) -> Result<(), DatasetError> {
    dataset::verify(&endpoint(server), plan, rows, &Silent, &Interrupt::new())
}

/// Rows, ids, keys and a checksum of a table.
fn image(server: &Server, table: &str) -> String {
    value(
        server,
        &format!(
            "SELECT CONCAT_WS(' ', COUNT(*), MIN(id), MAX(id), COUNT(DISTINCT k), SUM(k), \
         BIT_XOR(CRC32(CONCAT_WS(',', id, k, c, pad)))) FROM {table}"
        ),
    )
}

#[derive(Default)]
struct Watch {
    last: AtomicU64,
    phases: Mutex<Vec<String>>,
}

impl Progress for Watch {
    fn phase(&self, text: &str) {
        self.phases.lock().unwrap().push(text.to_owned());
    }

    fn rows(&self, done: u64, total: u64) {
        assert!(done <= total);
        self.last.fetch_max(done, Ordering::Relaxed);
    }
}

fn loads_and_proves(server: &Server) {
    let plan = plan("proved", 52_345);
    let watch = Watch::default();
    let facts = prepare_watched(server, &plan, &watch).unwrap();
    assert_eq!(
        (facts.tables, facts.rows, facts.origin.as_str()),
        (3, 52_345, "loaded")
    );
    assert!(facts.load_seconds.is_some());
    assert_eq!(watch.last.into_inner(), 3 * 52_345);
    assert!(
        watch
            .phases
            .into_inner()
            .unwrap()
            .iter()
            .any(|p| p.contains("index on k of sbtest3"))
    );
    verify(server, &plan, 52_345).unwrap();
    // The shape of sysbench's rows.
    assert_eq!(
        value(
            server,
            "SELECT CONCAT_WS(' ', MIN(LENGTH(c)), MAX(LENGTH(c)), MIN(LENGTH(pad)), MAX(LENGTH(pad)), \
             SUM(c REGEXP '^([0-9]{11}-){9}[0-9]{11}$'), SUM(pad REGEXP '^([0-9]{11}-){4}[0-9]{11}$'), \
             MIN(k) >= 1, MAX(k) <= 52345) FROM proved.sbtest2"
        ),
        "119 119 59 59 52345 52345 1 1"
    );
    assert_eq!(
        value(
            server,
            "SELECT GROUP_CONCAT(CONCAT_WS(':', index_name, column_name) ORDER BY index_name) \
             FROM information_schema.statistics WHERE table_schema = 'proved' AND table_name = 'sbtest2'"
        ),
        "k_2:k,PRIMARY:id"
    );
    // Tables differ from each other, and a next row gets the next id.
    assert_ne!(
        image(server, "proved.sbtest1"),
        image(server, "proved.sbtest2")
    );
    server.run("INSERT INTO proved.sbtest1 (k, c, pad) VALUES (1, 'c', 'pad')");
    assert_eq!(value(server, "SELECT MAX(id) FROM proved.sbtest1"), "52346");
    let error = verify(server, &plan, 52_345).unwrap_err().to_string();
    assert!(
        error.contains("`sbtest1`") && error.contains("52346 rows, not 52345"),
        "{error}"
    );
    server.run("DELETE FROM proved.sbtest1 WHERE id = 52346");
    server.run("UPDATE proved.sbtest3 SET k = k + 1 WHERE id = 77");
    let error = verify(server, &plan, 52_345).unwrap_err().to_string();
    assert!(
        error.contains("`sbtest3`") && error.contains("checksum"),
        "{error}"
    );
}

fn both_ways_give_the_same_rows(server: &Server) {
    let mut one = plan("by_infile", 51_000);
    one.access = Access {
        distribution: Distribution::Special { pct: 1, res: 75 },
    };
    server.run("SET GLOBAL local_infile = ON");
    prepare(server, &one).unwrap();
    let mut other = one.clone();
    other.target.database = String::from("by_insert");
    // The number of connections must not matter either.
    other.dataset.load_threads = 1;
    server.run("SET GLOBAL local_infile = OFF");
    prepare(server, &other).unwrap();
    server.run("SET GLOBAL local_infile = ON");
    for table in ["sbtest1", "sbtest2", "sbtest3"] {
        assert_eq!(
            image(server, &format!("by_infile.{table}")),
            image(server, &format!("by_insert.{table}"))
        );
    }
    verify(server, &other, 51_000).unwrap();
    let mut seed = one.clone();
    seed.seed = 43;
    assert!(verify(server, &seed, 51_000).is_err());
    cleanup_all(server, &["by_infile", "by_insert"]);
}

fn cleanup_all(server: &Server, databases: &[&str]) {
    for database in databases {
        assert!(
            dataset::cleanup(&endpoint(server), database)
                .unwrap()
                .database
        );
    }
}

fn reuses_what_fits(server: &Server) {
    let plan = plan("reused", 5_000);
    assert_eq!(prepare(server, &plan).unwrap().origin, "loaded");
    let again = prepare(server, &plan).unwrap();
    assert_eq!(
        (again.origin.as_str(), again.load_seconds),
        ("reused", None)
    );
    // Anything that shapes the rows makes other data.
    let mut changed = plan.clone();
    changed.seed = 7;
    assert_eq!(prepare(server, &changed).unwrap().origin, "loaded");
    verify(server, &changed, 5_000).unwrap();
    changed.dataset.secondary_index = false;
    assert_eq!(prepare(server, &changed).unwrap().origin, "loaded");
    changed.dataset.tables = 2;
    assert_eq!(prepare(server, &changed).unwrap().origin, "loaded");
    assert_eq!(count_tables(server, "reused", "sbtest%"), "2");
    changed.dataset.size = DataSize::Rows(4_999);
    assert_eq!(prepare(server, &changed).unwrap().origin, "loaded");
    assert_eq!(prepare(server, &changed).unwrap().origin, "reused");
    // A table that has more to keep up than the plan's is not the plan's.
    server.run("ALTER TABLE reused.sbtest2 ADD INDEX more(c)");
    assert_eq!(prepare(server, &changed).unwrap().origin, "loaded");
    server.run(
        "CREATE TRIGGER reused.mine BEFORE UPDATE ON reused.sbtest2 FOR EACH ROW SET NEW.pad = 'x'",
    );
    assert_eq!(prepare(server, &changed).unwrap().origin, "loaded");
    // Written to: loaded anew, unless the plan never resets.
    let endpoint = endpoint(server);
    dataset::mark_dirty(&endpoint, &changed, TableLayout::Standard).unwrap();
    server.run("UPDATE reused.sbtest1 SET k = k + 1");
    let mut never = changed.clone();
    never.dataset.reset = Reset::Never;
    assert_eq!(prepare(server, &never).unwrap().origin, "reused");
    assert_eq!(prepare(server, &changed).unwrap().origin, "loaded");
    verify(server, &changed, 4_999).unwrap();
    // A reset does the same, and nothing when nothing was written.
    let reset = |plan: &Plan| {
        dataset::reset(
            &endpoint,
            plan,
            TableLayout::Standard,
            &resolved(plan),
            &Silent,
            &Interrupt::new(),
        )
        .unwrap()
        .origin
    };
    assert_eq!(reset(&never), "reused");
    dataset::mark_dirty(&endpoint, &changed, TableLayout::Standard).unwrap();
    server.run("DELETE FROM reused.sbtest2 WHERE id < 100");
    assert_eq!(reset(&never), "loaded");
    verify(server, &changed, 4_999).unwrap();
    // A table that went missing, or lost its last row, is noticed.
    server.run("DELETE FROM reused.sbtest2 WHERE id = 4999");
    assert_eq!(prepare(server, &changed).unwrap().origin, "loaded");
    server.run("DROP TABLE reused.sbtest1");
    assert_eq!(prepare(server, &changed).unwrap().origin, "loaded");
    cleanup_all(server, &["reused"]);
}

/// Whatever makes a table another one than was loaded, without a change of its columns, rows or ids.
fn notices_what_others_did_to_kept_tables(server: &Server) {
    let mut plan = plan("altered", 200);
    plan.dataset.tables = 2;
    assert_eq!(prepare(server, &plan).unwrap().origin, "loaded");
    for change in [
        "ADD COLUMN more INT",
        "ALTER COLUMN k SET DEFAULT 7",
        "MODIFY c VARCHAR(120) NOT NULL DEFAULT ''",
        "ADD INDEX more (c)",
        "DROP INDEX k_2",
        "DROP INDEX k_2, ADD UNIQUE INDEX k_2 (k, id)",
        "ROW_FORMAT = COMPACT",
        "ENGINE = MyISAM",
        "CONVERT TO CHARACTER SET ascii",
        "COLLATE = latin1_bin, CHARACTER SET = latin1",
        "PARTITION BY HASH (id) PARTITIONS 2",
        "ADD CONSTRAINT own FOREIGN KEY (k) REFERENCES keys_of_others (id)",
    ] {
        server
            .run("CREATE TABLE IF NOT EXISTS altered.keys_of_others (id INT NOT NULL PRIMARY KEY)");
        server.run(
            "INSERT IGNORE INTO altered.keys_of_others SELECT DISTINCT k FROM altered.sbtest2",
        );
        let mut root = server.root();
        root.query_drop("USE altered").unwrap();
        root.query_drop(format!("ALTER TABLE sbtest2 {change}"))
            .unwrap_or_else(|e| panic!("{change}: {e}"));
        let watch = Watch::default();
        let made = prepare_watched(server, &plan, &watch);
        assert_eq!(made.unwrap().origin, "loaded", "{change}");
        let said = watch.phases.into_inner().unwrap();
        assert_eq!(
            said[0], "table `sbtest2` was altered since it was loaded; it is loaded anew",
            "{change}"
        );
    }
    assert_eq!(prepare(server, &plan).unwrap().origin, "reused");
    // The row format that InnoDB chooses by itself stands in no CREATE TABLE.
    server.run("SET GLOBAL innodb_default_row_format = compact");
    server.run("ALTER TABLE altered.sbtest2 FORCE");
    server.run("SET GLOBAL innodb_default_row_format = dynamic");
    assert_eq!(prepare(server, &plan).unwrap().origin, "loaded");
    // Empty tables have no rows to give them away.
    prepare_layout(server, &plan, TableLayout::StandardEmpty).unwrap();
    let again = || prepare_layout(server, &plan, TableLayout::StandardEmpty).unwrap();
    assert_eq!(again().origin, "reused");
    server.run("ALTER TABLE altered.sbtest_new1 ADD INDEX more (c)");
    assert_eq!(again().origin, "loaded");
    // Data that is used as it is must still be in the tables that were made.
    let mut never = plan.clone();
    never.dataset.reset = Reset::Never;
    dataset::mark_dirty(&endpoint(server), &plan, TableLayout::Standard).unwrap();
    assert_eq!(prepare(server, &never).unwrap().origin, "reused");
    server.run("ALTER TABLE altered.sbtest1 ADD INDEX more (c)");
    assert_eq!(prepare(server, &never).unwrap().origin, "loaded");
    server.run("DROP TABLE altered.keys_of_others");
    cleanup_all(server, &["altered"]);
}

fn tells_how_much_it_compared(server: &Server) {
    // 3 tables of 2 blocks: all are compared, and one changed digit is noticed.
    let small = plan("compared", 2_000);
    assert_eq!(prepare(server, &small).unwrap().compared, None);
    assert_eq!(prepare(server, &small).unwrap().compared, Some(6_000));
    server.run("UPDATE compared.sbtest3 SET pad = REVERSE(pad) WHERE id = 1234");
    assert_eq!(prepare(server, &small).unwrap().origin, "loaded");
    assert_eq!(prepare(server, &small).unwrap().compared, Some(6_000));
    // 3 tables of 20 blocks: 10 of each, and no more is said.
    let large = plan("compared", 20_000);
    assert_eq!(prepare(server, &large).unwrap().origin, "loaded");
    assert_eq!(prepare(server, &large).unwrap().compared, Some(30_000));
    // A change of every tenth row is not missed.
    server.run("UPDATE compared.sbtest1 SET k = k + 1 WHERE id % 10 = 3");
    assert_eq!(prepare(server, &large).unwrap().origin, "loaded");
    cleanup_all(server, &["compared"]);
}

fn names_foreign_keys_of_others_before_it_changes_anything(server: &Server) {
    let plan = plan("referred", 100);
    prepare(server, &plan).unwrap();
    server.run("CREATE DATABASE `my-shop`");
    server.run(
        "CREATE TABLE `my-shop`.orders (id INT PRIMARY KEY, bench INT, \
         CONSTRAINT to_bench FOREIGN KEY (bench) REFERENCES referred.sbtest2 (id))",
    );
    let mut other = plan.clone();
    other.seed = 1;
    let before = (
        image(server, "referred.sbtest1"),
        count_tables(server, "referred", "%"),
    );
    let endpoint = endpoint(server);
    let all = dataset::refusals(&endpoint, &plan, TableLayout::Standard, &resolved(&plan)).unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    for error in [
        all[0].to_string(),
        prepare(server, &other).unwrap_err().to_string(),
        dataset::cleanup(&endpoint, "referred")
            .unwrap_err()
            .to_string(),
    ] {
        assert!(
            error.contains("`to_bench` of `my-shop`.`orders` to `sbtest2`")
                && error
                    .contains("hint: ALTER TABLE `my-shop`.`orders` DROP FOREIGN KEY `to_bench`"),
            "{error}"
        );
    }
    assert_eq!(
        before,
        (
            image(server, "referred.sbtest1"),
            count_tables(server, "referred", "%")
        )
    );
    // An account that may not see all of InnoDB sees what it has rights on.
    server.run("CREATE USER narrow@localhost");
    server.run("GRANT ALL ON referred.* TO narrow@localhost");
    server.run("GRANT ALL ON `my-shop`.* TO narrow@localhost");
    let mut narrow = endpoint.clone();
    "narrow".clone_into(&mut narrow.user);
    let error = dataset::cleanup(&narrow, "referred")
        .unwrap_err()
        .to_string();
    assert!(error.contains("`to_bench`"), "{error}");
    server.run("ALTER TABLE `my-shop`.orders DROP FOREIGN KEY to_bench");
    cleanup_all(server, &["referred"]);
    server.run("DROP DATABASE `my-shop`");
    server.run("DROP USER narrow@localhost");
}

fn finds_what_stands_in_the_way_without_changing_anything(server: &Server) {
    let plan = plan("in_the_way", 100);
    let refused = |endpoint: &capbench::target::Endpoint, plan: &Plan| -> Vec<String> {
        dataset::refusals(endpoint, plan, TableLayout::Standard, &resolved(plan))
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    let root = endpoint(server);
    assert_eq!(refused(&root, &plan), [""; 0]);
    server.run("CREATE USER reader@localhost");
    server.run("GRANT SELECT ON in_the_way.* TO reader@localhost");
    server.run("GRANT PROCESS ON *.* TO reader@localhost");
    let mut reader = root.clone();
    "reader".clone_into(&mut reader.user);
    let found = refused(&reader, &plan).join("\n");
    for (doing, right) in [
        ("making tables", "CREATE"),
        ("loading rows", "INSERT"),
        ("noting that rows are changed", "UPDATE"),
        ("forgetting what was loaded", "DELETE"),
    ] {
        assert!(
            found.contains(&format!(
                "{doing} failed: error 1142: {right} command denied"
            )),
            "{found}"
        );
    }
    assert!(found.contains("capbench grants"), "{found}");
    assert!(
        found.contains("lacks DROP and INDEX on database `in_the_way`"),
        "{found}"
    );
    // A pattern that stands for the database counts, one that stands for another does not.
    server.run("CREATE USER maker@localhost");
    server.run("GRANT PROCESS ON *.* TO maker@localhost");
    server.run(
        "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP ON `in\\_the%`.* TO maker@localhost",
    );
    server.run("GRANT INDEX ON `in\\_their%`.* TO maker@localhost");
    let mut maker = root.clone();
    "maker".clone_into(&mut maker.user);
    let found = refused(&maker, &plan);
    assert!(
        found.len() == 1 && found[0].contains("lacks INDEX on database `in_the_way`"),
        "{found:?}"
    );
    server.run("GRANT INDEX ON `in\\_the%`.* TO maker@localhost");
    assert_eq!(refused(&maker, &plan), [""; 0]);
    server.run("REVOKE INDEX ON `in\\_the%`.* FROM maker@localhost");
    assert_eq!(refused(&maker, &plan).len(), 1);
    // What everybody may, and what a role gives, no list tells of.
    let mariadb = value(server, "SELECT VERSION()").contains("MariaDB");
    if mariadb {
        server.run("GRANT INDEX ON `in\\_the\\_way`.* TO PUBLIC");
        assert_eq!(refused(&maker, &plan), [""; 0]);
        server.run("REVOKE INDEX ON `in\\_the\\_way`.* FROM PUBLIC");
    }
    assert_eq!(refused(&maker, &plan).len(), 1);
    server.run("CREATE ROLE indexer");
    server.run("GRANT INDEX ON in_the_way.* TO indexer");
    server.run("GRANT indexer TO maker@localhost");
    let to = if mariadb { "FOR" } else { "TO" };
    server.run(&format!("SET DEFAULT ROLE indexer {to} maker@localhost"));
    assert_eq!(refused(&maker, &plan), [""; 0]);
    server.run("DROP ROLE indexer");
    server.run("DROP USER maker@localhost");
    let mut huge = plan.clone();
    huge.dataset.size = DataSize::Rows(1 << 50);
    server.run("CREATE DATABASE in_the_way");
    server.run("CREATE TABLE in_the_way.sbtest2 (id INT)");
    let found = refused(&root, &huge).join("\n");
    for text in ["`sbtest2`", "free, "] {
        assert!(found.contains(text), "{text}: {found}");
    }
    assert_eq!(count_tables(server, "in_the_way", "%"), "1");
    server.run("DROP DATABASE in_the_way");
    server.run("DROP USER reader@localhost");
}

fn count_tables(server: &Server, database: &str, like: &str) -> String {
    value(
        server,
        &format!(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{database}' AND table_name LIKE '{like}'"
        ),
    )
}

fn leaves_foreign_tables_alone(server: &Server) {
    server.run("CREATE DATABASE foreign_tables");
    server.run("CREATE TABLE foreign_tables.sbtest2 (id INT)");
    let plan = plan("foreign_tables", 100);
    let error = prepare(server, &plan).unwrap_err();
    assert!(matches!(error, DatasetError::Foreign { ref table, .. } if table == "sbtest2"));
    assert!(error.to_string().contains("hint: "), "{error}");
    // Refused before anything was touched.
    assert_eq!(count_tables(server, "foreign_tables", "%"), "1");
    let cleaned = dataset::cleanup(&endpoint(server), "foreign_tables").unwrap();
    assert_eq!(cleaned, dataset::Cleaned::default());
    assert_eq!(count_tables(server, "foreign_tables", "%"), "1");
    // A table of ours that something else made anew is no longer ours.
    server.run("DROP TABLE foreign_tables.sbtest2");
    prepare(server, &plan).unwrap();
    server.run("DROP TABLE foreign_tables.sbtest3");
    server.run("CREATE TABLE foreign_tables.sbtest3 (id INT)");
    let mut other = plan.clone();
    other.seed = 1;
    for plan in [&plan, &other] {
        assert!(matches!(
            prepare(server, plan),
            Err(DatasetError::Foreign { .. })
        ));
    }
    let cleaned = dataset::cleanup(&endpoint(server), "foreign_tables").unwrap();
    assert_eq!(cleaned.tables, ["sbtest1", "sbtest2"]);
    assert_eq!(cleaned.left, ["sbtest3"]);
    assert!(!cleaned.database);
    assert_eq!(count_tables(server, "foreign_tables", "%"), "1");
}

/// Raises the interrupt once some rows are in.
struct BreakOff {
    after: u64,
    interrupt: Interrupt,
}

impl Progress for BreakOff {
    fn phase(&self, _: &str) {}

    fn rows(&self, done: u64, _: u64) {
        if done >= self.after {
            self.interrupt.raise();
        }
    }
}

fn continues_a_broken_load(server: &Server) {
    let plan = plan("broken", 101_000);
    for after in [0, 60_000, 150_000] {
        let interrupt = Interrupt::new();
        let progress = BreakOff {
            after: after + 1,
            interrupt: interrupt.clone(),
        };
        let error = dataset::prepare(
            &endpoint(server),
            &plan,
            TableLayout::Standard,
            &resolved(&plan),
            &progress,
            &interrupt,
        )
        .unwrap_err();
        assert!(error.is_interrupt(), "{error}");
    }
    let chunks: u64 = value(server, "SELECT COUNT(*) FROM broken.capbench_chunk")
        .parse()
        .unwrap();
    assert!((3..9).contains(&chunks), "{chunks}");
    // Rows of a finished chunk are not loaded again: a change in them survives, and is found out.
    server.run("UPDATE broken.sbtest1 SET pad = 'survived' WHERE id = 1");
    let watch = Watch::default();
    dataset::prepare(
        &endpoint(server),
        &plan,
        TableLayout::Standard,
        &resolved(&plan),
        &watch,
        &Interrupt::new(),
    )
    .unwrap();
    assert!(
        watch
            .phases
            .into_inner()
            .unwrap()
            .iter()
            .any(|p| p.contains("continuing"))
    );
    assert_eq!(
        value(server, "SELECT pad FROM broken.sbtest1 WHERE id = 1"),
        "survived"
    );
    assert!(verify(server, &plan, 101_000).is_err());
    dataset::mark_dirty(&endpoint(server), &plan, TableLayout::Standard).unwrap();
    prepare(server, &plan).unwrap();
    verify(server, &plan, 101_000).unwrap();
    // A load that is broken off can also be given up.
    let interrupt = Interrupt::new();
    interrupt.raise();
    let mut other = plan.clone();
    other.seed = 2;
    let result = dataset::prepare(
        &endpoint(server),
        &other,
        TableLayout::Standard,
        &resolved(&other),
        &Silent,
        &interrupt,
    );
    assert!(result.unwrap_err().is_interrupt());
    cleanup_all(server, &["broken"]);
}

fn accepts_existing_tables(server: &Server) {
    let mut plan = plan("existing_tables", 2_000);
    plan.dataset.tables = 2;
    prepare(server, &plan).unwrap();
    // As sysbench leaves them: no marker, no comment.
    for table in ["sbtest1", "sbtest2"] {
        server.run(&format!("ALTER TABLE existing_tables.{table} COMMENT = ''"));
    }
    server.run("DROP TABLE existing_tables.capbench_marker");
    plan.dataset.existing = true;
    plan.dataset.reset = Reset::Never;
    let facts = prepare(server, &plan).unwrap();
    assert_eq!((facts.rows, facts.origin.as_str()), (2_000, "existing"));
    assert!(facts.bytes > Bytes(0));
    plan.dataset.size = DataSize::BufferPools(2.0);
    assert_eq!(prepare(server, &plan).unwrap().rows, 2_000);
    let refusals = [
        (
            "DELETE FROM sbtest2 WHERE id BETWEEN 10 AND 1990",
            "only about",
        ),
        ("ALTER TABLE sbtest2 DROP INDEX k_2", "no index on `k`"),
        (
            "ALTER TABLE sbtest2 MODIFY pad DATETIME NULL",
            "`pad` is datetime",
        ),
        ("ALTER TABLE sbtest2 DROP COLUMN pad", "no column `pad`"),
        ("DROP TABLE sbtest2", "no such table"),
    ];
    for (sql, expected) in refusals {
        let mut conn = server.root();
        conn.query_drop("USE existing_tables").unwrap();
        conn.query_drop("SET sql_mode = ''").unwrap();
        conn.query_drop(sql).unwrap();
        let error = prepare(server, &plan).unwrap_err().to_string();
        assert!(
            error.contains(expected) && error.contains("sbtest2"),
            "{error}"
        );
    }
    plan.dataset.tables = 1;
    plan.dataset.size = DataSize::Rows(2_001);
    assert!(
        prepare(server, &plan)
            .unwrap_err()
            .to_string()
            .contains("holds 2000 rows")
    );
    // Neither reset nor cleanup touches them.
    let endpoint = endpoint(server);
    let standard = TableLayout::Standard;
    let nothing = Interrupt::new();
    assert!(
        dataset::reset(
            &endpoint,
            &plan,
            standard,
            &resolved(&plan),
            &Silent,
            &nothing
        )
        .is_err()
    );
    dataset::mark_dirty(&endpoint, &plan, standard).unwrap();
    assert_eq!(
        dataset::cleanup(&endpoint, "existing_tables").unwrap(),
        dataset::Cleaned::default()
    );
    assert_eq!(count_tables(server, "existing_tables", "sbtest1"), "1");
}

fn empty_layouts_stand_beside(server: &Server) {
    let plan = plan("layouts", 1_000);
    prepare(server, &plan).unwrap();
    let facts = prepare_layout(server, &plan, TableLayout::StandardEmpty).unwrap();
    assert_eq!((facts.tables, facts.rows), (3, 0));
    // One table for each client of the largest step.
    let facts = prepare_layout(server, &plan, TableLayout::Bulk).unwrap();
    assert_eq!((facts.tables, facts.rows), (5, 0));
    server.run("INSERT INTO layouts.sbtest_bulk5 VALUES (1, 1), (2, 2)");
    server.run("INSERT INTO layouts.sbtest_new1 (id, k, c, pad) VALUES (-5, 2, 'c', 'pad')");
    for layout in [TableLayout::Bulk, TableLayout::StandardEmpty] {
        dataset::mark_dirty(&endpoint(server), &plan, layout).unwrap();
        prepare_layout(server, &plan, layout).unwrap();
    }
    assert_eq!(
        value(server, "SELECT COUNT(*) FROM layouts.sbtest_bulk5"),
        "0"
    );
    assert_eq!(
        value(server, "SELECT COUNT(*) FROM layouts.sbtest_new1"),
        "0"
    );
    assert_eq!(prepare(server, &plan).unwrap().origin, "reused");
    let cleaned = dataset::cleanup(&endpoint(server), "layouts").unwrap();
    assert_eq!(cleaned.tables.len(), 3 + 3 + 5);
    assert!(cleaned.database);
}

fn cleans_up_its_own_only(server: &Server) {
    server.run("CREATE DATABASE shared_database");
    server.run("CREATE TABLE shared_database.sbtest9 (id INT)");
    let plan = plan("shared_database", 100);
    prepare(server, &plan).unwrap();
    let cleaned = dataset::cleanup(&endpoint(server), "shared_database").unwrap();
    assert_eq!(cleaned.tables, ["sbtest1", "sbtest2", "sbtest3"]);
    assert!(!cleaned.database, "capbench did not make that database");
    assert_eq!(count_tables(server, "shared_database", "%"), "1");
    // Its own database stays while something else is in it.
    let own = dataset_support::plan("own_database", 100);
    prepare(server, &own).unwrap();
    server.run("CREATE TABLE own_database.notes (id INT)");
    assert!(
        !dataset::cleanup(&endpoint(server), "own_database")
            .unwrap()
            .database
    );
    assert_eq!(count_tables(server, "own_database", "%"), "1");
    let nothing = dataset::cleanup(&endpoint(server), "no_such_database").unwrap();
    assert_eq!(nothing, dataset::Cleaned::default());
}

/// Several streams into one table, whichever way the server takes them, give the rows of one stream.
fn loads_one_table_by_many(server: &Server) {
    let mut plan = plan("one_table", 110_000);
    plan.dataset.tables = 1;
    for (threads, auto_inc) in [(1, true), (4, true), (4, false)] {
        plan.dataset.load_threads = threads;
        plan.dataset.auto_inc = auto_inc;
        dataset::mark_dirty(&endpoint(server), &plan, TableLayout::Standard).unwrap_or_default();
        assert_eq!(prepare(server, &plan).unwrap().origin, "loaded");
        verify(server, &plan, 110_000).unwrap();
    }
    cleanup_all(server, &["one_table"]);
}

/// An administrator's rights would bypass it, and damage a replica.
fn refuses_a_read_only_server(server: &Server) {
    server.run("SET GLOBAL read_only = ON");
    let error = prepare(server, &plan("read_only", 10))
        .unwrap_err()
        .to_string();
    server.run("SET GLOBAL read_only = OFF");
    assert!(
        error.contains("read_only") && error.contains("hint: "),
        "{error}"
    );
    assert_eq!(
        value(
            server,
            "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'read_only'"
        ),
        "0"
    );
}

/// Two at once would drop each other's tables.
fn keeps_a_second_one_out(server: &Server) {
    let plan = plan("locked", 10);
    let mut conn = server.root();
    let got: Option<u8> = conn
        .query_first("SELECT GET_LOCK('capbench locked', 1)")
        .unwrap();
    assert_eq!(got, Some(1));
    let error = prepare(server, &plan).unwrap_err().to_string();
    assert!(error.contains("another capbench"), "{error}");
    drop(conn);
    prepare(server, &plan).unwrap();
    cleanup_all(server, &["locked"]);
}

fn hits_the_stated_size(server: &Server) {
    let mut plan = plan("sized", 0);
    plan.dataset.size = DataSize::BufferPools(3.0);
    let pool = Bytes(16 << 20);
    let resolved = dataset::plan_size(&plan.dataset, pool);
    let facts = dataset::prepare(
        &endpoint(server),
        &plan,
        TableLayout::Standard,
        &resolved,
        &Silent,
        &Interrupt::new(),
    )
    .unwrap();
    let ratio = facts.ratio().unwrap();
    assert!((3.0..3.6).contains(&ratio), "{ratio}");
    cleanup_all(server, &["sized"]);
}
