//! The statements of a transaction, counted by the server.

use std::collections::BTreeMap;

use capbench::workload::Distribution;

use crate::{Options, Ours, capbench, growth, start, support, sysbench, sysbench_is_there};

/// Transactions of each tool.
const EVENTS: i64 = 300;

/// Scripts and options. An event is a transaction.
const SCRIPTS: &[(&str, Options)] = &[
    ("oltp_point_select", &[]),
    ("oltp_read_only", &[]),
    (
        "oltp_read_only",
        &[("skip_trx", "on"), ("range_selects", "off")],
    ),
    (
        "oltp_read_only",
        &[
            ("point_selects", "3"),
            ("simple_ranges", "2"),
            ("sum_ranges", "0"),
            ("order_ranges", "3"),
            ("distinct_ranges", "2"),
            ("range_size", "7"),
        ],
    ),
    ("oltp_read_write", &[]),
    (
        "oltp_read_write",
        &[
            ("point_selects", "1"),
            ("index_updates", "3"),
            ("non_index_updates", "0"),
            ("delete_inserts", "2"),
        ],
    ),
    ("oltp_write_only", &[]),
    ("oltp_write_only", &[("skip_trx", "on")]),
    ("oltp_update_index", &[]),
    ("oltp_update_index", &[("index_updates", "3")]),
    ("oltp_update_non_index", &[]),
    ("oltp_update_non_index", &[("non_index_updates", "2")]),
    ("oltp_delete", &[]),
    ("oltp_insert", &[]),
    ("select_random_points", &[]),
    ("select_random_points", &[("random_points", "4")]),
    ("select_random_ranges", &[]),
    (
        "select_random_ranges",
        &[("number_of_ranges", "3"), ("delta", "20")],
    ),
];

#[test]
fn a_transaction_is_the_same_statements() {
    if !sysbench_is_there() {
        return;
    }
    for (number, binary) in support::servers().into_iter().enumerate() {
        let (server, mut root) = start(&binary);
        for (script, options) in SCRIPTS {
            // What options do to a template does not depend on the server.
            if number > 0 && !options.is_empty() {
                continue;
            }
            // These two know one table.
            let tables = if script.starts_with("select_random") {
                1
            } else {
                2
            };
            let numbers = [tables.to_string(), EVENTS.to_string()];
            let shape = [
                ("tables", numbers[0].as_str()),
                ("table_size", "2000"),
                ("rand-type", "uniform"),
                ("events", numbers[1].as_str()),
            ];
            let all: Vec<_> = shape.iter().chain(*options).copied().collect();
            sysbench(&server, script, "prepare", &all);
            let theirs = growth(&mut root, || sysbench(&server, script, "run", &all));
            let ours = growth(&mut root, || {
                capbench(
                    &server,
                    &Ours {
                        script,
                        options,
                        tables,
                        rows: 2000,
                        events: EVENTS.unsigned_abs(),
                        distribution: Distribution::Uniform,
                        database: "theirs",
                    },
                );
            });
            sysbench(&server, script, "cleanup", &all);
            let what = format!("{script} {options:?} on {}", binary.display());
            same_statements(&theirs, &ours, EVENTS, &what);
        }
    }
}

fn same_statements(
    theirs: &BTreeMap<String, i64>,
    ours: &BTreeMap<String, i64>,
    events: i64,
    what: &str,
) {
    let of = |counts: &BTreeMap<String, i64>, name: &str| *counts.get(name).unwrap_or(&0);
    for name in [
        "Com_select",
        "Com_insert",
        "Com_update",
        "Com_delete",
        "Com_begin",
        "Com_commit",
        "Com_rollback",
    ] {
        assert_eq!(of(theirs, name), of(ours, name), "{name}: {what}");
    }
    // sysbench prepares whatever the server lets it: on MySQL COMMIT but not BEGIN, on MariaDB both. In
    // capbench neither is ever a prepared statement.
    let (begins, commits) = (of(theirs, "Com_begin"), of(theirs, "Com_commit"));
    let framing = of(theirs, "Com_stmt_execute") - of(ours, "Com_stmt_execute");
    assert!(
        [0, commits, begins + commits].contains(&framing),
        "Com_stmt_execute: {framing} more in sysbench: {what}"
    );
    let data = of(ours, "Com_select")
        + of(ours, "Com_insert")
        + of(ours, "Com_update")
        + of(ours, "Com_delete");
    assert!(data >= events, "{what}");
    // What the statements touch depends on the ids drawn: near, not equal. Ids repeat in DELETE.
    for name in ["Handler_read_key", "Handler_read_next", "Handler_update"] {
        let (a, b) = (of(theirs, name) as f64, of(ours, name) as f64);
        let slack = 0.06 * a.max(b) + events as f64 / 10.0;
        assert!((a - b).abs() <= slack, "{name}: {a} and {b}: {what}");
    }
}
