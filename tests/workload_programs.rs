//! The built-in workloads are sysbench's scripts: same statements, same order, same counts.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

use std::path::Path;

use capbench::workload::{
    self, Generator, Program, TableLayout, Value, WorkloadError, WorkloadOptions,
};
use serde_json::json;

fn options(pairs: &[(&str, serde_json::Value)]) -> WorkloadOptions {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect()
}

fn program(name: &str, pairs: &[(&str, serde_json::Value)]) -> Program {
    workload::load(name, Path::new("."), &options(pairs)).unwrap()
}

/// Reads, writes and other statements of one event when every write finds its row.
fn queries(program: &Program) -> (u32, u32, u32) {
    let transaction = &program.transactions[0];
    let mut counts = (0, 0, if transaction.begin { 2 } else { 0 });
    for group in &transaction.groups {
        for statement in &group.statements {
            if statement.sql.starts_with("SELECT") {
                counts.0 += group.repeat;
            } else {
                counts.1 += group.repeat;
            }
        }
    }
    counts
}

fn from_text(text: &str) -> Result<Program, WorkloadError> {
    from_text_with(text, &WorkloadOptions::new())
}

fn from_text_with(text: &str, options: &WorkloadOptions) -> Result<Program, WorkloadError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.toml"), text).unwrap();
    workload::load("mine.toml", folder.path(), options).map_err(|mut error| {
        error.origin = String::from("mine.toml");
        error
    })
}

#[test]
fn events_have_the_queries_of_the_scripts() {
    let expected = [
        ("oltp_point_select", (1, 0, 0)),
        ("oltp_read_only", (14, 0, 2)),
        ("oltp_read_write", (14, 4, 2)),
        ("oltp_write_only", (0, 4, 2)),
        ("oltp_update_index", (0, 1, 0)),
        ("oltp_update_non_index", (0, 1, 0)),
        ("oltp_insert", (0, 1, 0)),
        ("oltp_delete", (0, 1, 0)),
        ("bulk_insert", (0, 1, 0)),
        ("select_random_points", (1, 0, 0)),
        ("select_random_ranges", (1, 0, 0)),
    ];
    let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    assert_eq!(workload::builtin_names(), names);
    for (name, counts) in expected {
        let program = program(name, &[]);
        assert_eq!(queries(&program), counts, "{name}");
        assert_eq!(program.transactions.len(), 1);
        assert_eq!(program.name, name);
        assert!(!program.description.is_empty());
        assert!(program.think_time_ms.abs() < f64::EPSILON);
        assert_eq!(program.writes(), counts.1 > 0, "{name}");
    }
}

#[test]
fn read_write_is_statement_for_statement_the_script() {
    let program = program("oltp_read_write", &[]);
    let mix = workload::mix(&program);
    assert_eq!(
        mix,
        [
            "BEGIN",
            "10 × point_select: SELECT c FROM sbtest{table} WHERE id=?",
            "1 × simple_range: SELECT c FROM sbtest{table} WHERE id BETWEEN ? AND ?",
            "1 × sum_range: SELECT SUM(k) FROM sbtest{table} WHERE id BETWEEN ? AND ?",
            "1 × order_range: SELECT c FROM sbtest{table} WHERE id BETWEEN ? AND ? ORDER BY c",
            "1 × distinct_range: SELECT DISTINCT c FROM sbtest{table} WHERE id BETWEEN ? AND ? ORDER BY c",
            "1 × index_update: UPDATE sbtest{table} SET k=k+1 WHERE id=?",
            "1 × non_index_update: UPDATE sbtest{table} SET c=? WHERE id=?",
            "1 × delete: DELETE FROM sbtest{table} WHERE id=?",
            "1 × insert: INSERT INTO sbtest{table} (id, k, c, pad) VALUES (?, ?, ?, ?)",
            "COMMIT",
        ]
    );
    // radondb#25: 256 threads × (9 × 8 tables, BEGIN and COMMIT apart) server statements.
    assert_eq!(program.prepared_statements_per_client(8), 72);
    // The range reaches from id to id + range_size − 1.
    let groups = &program.transactions[0].groups;
    assert_eq!(groups[1].binds, [Generator::Key]);
    assert_eq!(
        groups[1].statements[0].parameters,
        [
            Value::Bound { bind: 0, plus: 0 },
            Value::Bound { bind: 0, plus: 99 }
        ]
    );
    // The delete and the insert share table and id; k is drawn apart.
    let last = &groups[7];
    assert_eq!(
        last.statements[0].parameters,
        [Value::Bound { bind: 0, plus: 0 }]
    );
    let insert = &last.statements[1].parameters;
    assert_eq!(insert[0], Value::Bound { bind: 0, plus: 0 });
    assert_eq!(insert[1], Value::Draw(Generator::Key));
    let text = |value: &Value| match value {
        Value::Draw(Generator::Text(pattern)) => {
            assert!(pattern.chars().all(|c| c == '#' || c == '-'));
            pattern.len()
        }
        other => panic!("{other:?} is no text"),
    };
    assert_eq!((text(&insert[2]), text(&insert[3])), (119, 59));
}

#[test]
fn options_change_the_work_as_in_the_scripts() {
    let changed = program(
        "oltp_read_write",
        &[
            ("point_selects", json!(3)),
            ("sum_ranges", json!(0)),
            ("order_ranges", json!(2)),
            ("range_size", json!(10)),
            ("delete_inserts", json!(5)),
            ("skip_trx", json!(true)),
            ("think_time", json!("50ms")),
            ("an_option_of_another_workload", json!("x")),
        ],
    );
    assert_eq!(queries(&changed), (3 + 1 + 2 + 1, 1 + 1 + 10, 0));
    assert!((changed.think_time_ms - 50.0).abs() < 1e-9);
    assert!(!changed.classes().contains(&"sum_range"));
    let parameters = &changed.transactions[0].groups[1].statements[0].parameters;
    assert_eq!(parameters[1], Value::Bound { bind: 0, plus: 9 });
    let no_ranges = program("oltp_read_only", &[("range_selects", json!(false))]);
    assert_eq!(queries(&no_ranges), (10, 0, 2));
    // point_selects does not touch the script of that name.
    let one = program("oltp_point_select", &[("point_selects", json!(10))]);
    assert_eq!(queries(&one), (1, 0, 0));
}

#[test]
fn inserts_follow_auto_increment() {
    let with = program("oltp_insert", &[]);
    assert_eq!(with.tables, TableLayout::Standard);
    let statement = &with.transactions[0].groups[0].statements[0];
    assert!(statement.text_only);
    assert_eq!(
        statement.parameters[0],
        Value::Draw(Generator::Integer { min: 0, max: 0 })
    );
    let without = program("oltp_insert", &[("auto_inc", json!(false))]);
    assert_eq!(without.tables, TableLayout::StandardEmpty);
    let statement = &without.transactions[0].groups[0].statements[0];
    assert_eq!(statement.parameters[0], Value::Draw(Generator::Unique));
    assert!(statement.sql.contains("sbtest_new{table}"));
}

#[test]
fn bulk_insert_repeats_its_bracket() {
    let program = program("bulk_insert", &[("bulk_rows", json!(3))]);
    assert_eq!(program.tables, TableLayout::Bulk);
    let group = &program.transactions[0].groups[0];
    assert_eq!(
        group.binds,
        [
            Generator::Sequence,
            Generator::Sequence,
            Generator::Sequence
        ]
    );
    let statement = &group.statements[0];
    assert_eq!(
        statement.sql,
        "INSERT INTO sbtest_bulk{table} VALUES (?, ?),(?, ?),(?, ?)"
    );
    let binds: Vec<usize> = statement
        .parameters
        .iter()
        .map(|value| match value {
            Value::Bound { bind, plus: 0 } => *bind,
            other => panic!("{other:?} is no plain bind"),
        })
        .collect();
    assert_eq!(binds, [0, 0, 1, 1, 2, 2]);
    assert_eq!(
        workload::mix(&program),
        ["1 × bulk_insert: INSERT INTO sbtest_bulk{table} VALUES (?, ?) × 3 rows"]
    );
}

#[test]
fn random_scripts_read_one_table_by_segments() {
    let points = program("select_random_points", &[("random_points", json!(3))]);
    let statement = &points.transactions[0].groups[0].statements[0];
    assert_eq!(
        statement.sql,
        "SELECT id, k, c, pad FROM sbtest1 WHERE k IN (?, ?, ?)"
    );
    assert_eq!(
        statement.parameters,
        vec![Value::Draw(Generator::SegmentKey); 3]
    );
    let ranges = program(
        "select_random_ranges",
        &[("number_of_ranges", json!(2)), ("delta", json!(7))],
    );
    let group = &ranges.transactions[0].groups[0];
    assert_eq!(
        group.statements[0].sql,
        "SELECT count(k) FROM sbtest1 WHERE k BETWEEN ? AND ? OR k BETWEEN ? AND ?"
    );
    assert_eq!(group.binds, vec![Generator::SegmentKey; 2]);
    assert_eq!(
        group.statements[0].parameters,
        [(0, 0), (0, 7), (1, 0), (1, 7)].map(|(bind, plus)| Value::Bound { bind, plus })
    );
}

#[test]
fn what_show_prints_is_the_same_workload() {
    let changes = options(&[("point_selects", json!(4)), ("bulk_rows", json!(12))]);
    for name in workload::builtin_names() {
        let mut known = changes.clone();
        let has = workload::undeclared(name, Path::new(".")).unwrap();
        known.retain(|option, _| has.contains(option));
        let text = workload::show(name, Path::new("."), &known).unwrap();
        assert!(
            text.starts_with(&format!("# capbench workload `{name}`")),
            "{text}"
        );
        let mut copy = from_text(&text).unwrap();
        copy.name = (*name).to_owned();
        let original = workload::load(name, Path::new("."), &known).unwrap();
        assert_eq!(copy, original, "{name}");
    }
}

#[test]
fn every_known_option_is_used_and_every_used_option_known() {
    let known = workload::known_options();
    let mut used = std::collections::BTreeSet::new();
    for name in workload::builtin_names() {
        used.extend(workload::undeclared(name, Path::new(".")).unwrap());
    }
    assert_eq!(used, known.keys().cloned().collect());
    assert_eq!(known["range_size"], json!(100));
    assert_eq!(workload::describe().len(), 11);
}

#[test]
fn a_workload_of_ones_own_may_have_options_of_its_own() {
    let text = r#"
description = "Two kinds of transactions."
[[transaction]]
name = "read"
weight = {{ readers | default(9) }}
[[transaction.group]]
statement = [{ class = "read", sql = "SELECT '?' FROM t{table} WHERE a = ?", parameters = ["integer: -5..{{ top }}"] }]
[[transaction]]
name = "write"
begin = true
[[transaction.group]]
bind = { word = "text: @@@ ", n = "integer: 1..9" }
[[transaction.group.statement]]
class = "write"
sql = "UPDATE t SET a = ?, b = ? WHERE id = ? -- why? because"
parameters = ["word", "n - 3", "n"]
"#;
    let program = from_text_with(text, &options(&[("top", json!(5))])).unwrap();
    assert_eq!(program.name, "mine");
    assert_eq!(program.transactions[0].weight, 9);
    assert_eq!(
        program.transactions[0].groups[0].statements[0].parameters,
        [Value::Draw(Generator::Integer { min: -5, max: 5 })]
    );
    let write = &program.transactions[1].groups[0];
    assert_eq!(write.binds[0], Generator::Text("@@@ ".to_owned()));
    assert_eq!(
        write.statements[0].parameters[1],
        Value::Bound { bind: 1, plus: -3 }
    );
    assert_eq!(workload::mix(&program)[0], "9 of 10 transactions are read:");
    let error = from_text(text).unwrap_err().to_string();
    assert!(error.contains("needs the option `top`"), "{error}");
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn faults_are_named_in_one_line() {
    let good = "[[transaction]]\nname = \"t\"\n[[transaction.group]]\nbind = { n = \"key\", s = \"text: ###\" }\n[[transaction.group.statement]]\nclass = \"c\"\nsql = \"SELECT ?\"\nparameters = [\"n\"]\n";
    assert!(from_text(good).is_ok());
    let cases = [
        (
            "class =",
            "clas =",
            "line 6: unknown key `clas` in a statement; did you mean `class`?",
        ),
        (
            "name = \"t\"",
            "name = 5",
            "line 2: `name` must be a text, not integer",
        ),
        (
            "name = \"t\"",
            "weight = 0\nname = \"t\"",
            "`weight` = 0 is not between 1 and",
        ),
        ("name = \"t\"", "", "line 1: a transaction needs `name`"),
        (
            "SELECT ?",
            "SELECT 1",
            "line 7: `c` has 0 `?` but 1 parameters",
        ),
        ("SELECT ?", "SELECT ?;", "holds a `;`"),
        ("SELECT ?", "START TRANSACTION", "begin = true"),
        ("SELECT ?", "SELECT 'it ?", "the quote ' is not closed"),
        (
            "[\"n\"]",
            "[\"m\"]",
            "line 8: parameter 1 of `c`: `m` is no generator",
        ),
        (
            "[\"n\"]",
            "[\"n + x\"]",
            "`+ x` is not `+` or `-` and a whole number",
        ),
        (
            "[\"n\"]",
            "[\"s + 1\"]",
            "`s` is a text: nothing can be added to it",
        ),
        ("[\"n\"]", "[\"seqence\"]", "did you mean `sequence`?"),
        ("[\"n\"]", "[\"integer: 9..1\"]", "the range 9..1 is empty"),
        ("[\"n\"]", "[7]", "must be a list of texts, not integer"),
        ("n = \"key\"", "key = \"key\"", "`key` cannot name a bind"),
        (
            "[[transaction.group]]",
            "[[transaction.group]]\nrepeat = 0",
            "switched off",
        ),
        (
            "[[transaction]]",
            "think_time = \"5\"\n[[transaction]]",
            "has no unit",
        ),
        (
            "[[transaction]]",
            "tables = \"own\"\n[[transaction]]",
            "none of `standard`",
        ),
        (
            "class =",
            "rows = 3\nclass =",
            "`rows` needs a statement that ends in VALUES",
        ),
        ("name = \"t\"", "name = {{ nme }}", "needs the option `nme`"),
        ("name = \"t\"", "name = {% if %}", "line 2: syntax error"),
        ("name = \"t\"", "name = ", "line 2:"),
    ];
    for (from, to, expected) in cases {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good);
        let error = from_text(&text).unwrap_err().to_string();
        assert!(error.contains(expected), "{from} → {to}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let error = workload::load("oltp_readonly", Path::new("."), &WorkloadOptions::new());
    assert_eq!(
        error.unwrap_err().to_string(),
        "workload `oltp_readonly`: no such workload; did you mean `oltp_read_only`?"
    );
    let error = workload::load("missing.toml", Path::new("plans"), &WorkloadOptions::new());
    assert!(
        error
            .unwrap_err()
            .to_string()
            .starts_with("workload plans/missing.toml: cannot be read")
    );
    for (name, value, expected) in [
        (
            "range_size",
            json!(0),
            "option `range_size` = 0 must be a whole number between 1 and",
        ),
        (
            "skip_trx",
            json!("yes"),
            "option `skip_trx` = \"yes\" must be true or false",
        ),
        ("think_time", json!(5), "must be a duration with its unit"),
    ] {
        let error = workload::load("oltp_read_only", Path::new("."), &options(&[(name, value)]));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
