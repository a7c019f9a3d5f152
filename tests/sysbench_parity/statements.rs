//! The statements of a transaction, counted by the server.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use capbench::workload::Distribution;
use mysql::Conn;
use mysql::prelude::Queryable;

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

/// Statements with their values, of few transactions: the very same text, in the same order.
#[test]
fn statements_read_the_same() {
    if !sysbench_is_there() {
        return;
    }
    let binary = support::servers().remove(0);
    let (server, mut root) = start(&binary);
    for (script, options) in SCRIPTS {
        let tables = if script.starts_with("select_random") {
            1
        } else {
            2
        };
        let number = tables.to_string();
        let shape = [
            ("tables", number.as_str()),
            ("table_size", "2000"),
            ("rand-type", "uniform"),
            ("events", "5"),
        ];
        let all: Vec<_> = shape.iter().chain(*options).copied().collect();
        sysbench(&server, script, "prepare", &all);
        let theirs = logged(&mut root, || sysbench(&server, script, "run", &all));
        let ours = logged(&mut root, || {
            capbench(
                &server,
                &Ours {
                    script,
                    options,
                    tables,
                    rows: 2000,
                    events: 5,
                    distribution: Distribution::Uniform,
                    database: "theirs",
                },
            );
        });
        sysbench(&server, script, "cleanup", &all);
        assert!(theirs.len() >= 5, "{script}: {theirs:?}");
        assert_eq!(theirs, ours, "{script} {options:?}");
    }
}

/// What clients execute while `work` runs, each statement as its [`form`].
fn logged(root: &mut Conn, work: impl FnOnce()) -> Vec<String> {
    root.query_drop("SET GLOBAL log_output = 'TABLE'").unwrap();
    root.query_drop("TRUNCATE mysql.general_log").unwrap();
    root.query_drop("SET GLOBAL general_log = ON").unwrap();
    work();
    root.query_drop("SET GLOBAL general_log = OFF").unwrap();
    let statements: Vec<String> = root
        .query(
            "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log \
             WHERE command_type IN ('Query', 'Execute') AND thread_id <> CONNECTION_ID()",
        )
        .unwrap();
    statements.iter().map(|sql| form(sql)).collect()
}

/// A statement without what is drawn: each number as its distance from the number before it if that is
/// small, as after BETWEEN, else as `#`; in texts `9` for each digit; spaces as one.
fn form(sql: &str) -> String {
    let mut out = String::new();
    let mut before: Option<i64> = None;
    let mut rest = sql.trim();
    let mut quoted = false;
    while let Some(next) = rest.chars().next() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if quoted && digits > 0 {
            out.push_str(&"9".repeat(digits));
        } else if digits > 0 {
            let number: i64 = rest[..digits].parse().unwrap();
            match before {
                Some(before) if out.ends_with(" AND ") => {
                    write!(out, "#+{}", number - before).unwrap();
                }
                // Of `sbtest1`, of `k=k+1`.
                _ if !out.ends_with([' ', '=', ',', '(']) => out.push('N'),
                _ => out.push('#'),
            }
            before = Some(number);
        } else {
            quoted ^= next == '\'';
            if !(next.is_whitespace() && out.ends_with(' ')) {
                out.push(if next.is_whitespace() { ' ' } else { next });
            }
        }
        rest = &rest[digits.max(next.len_utf8())..];
    }
    out
}
