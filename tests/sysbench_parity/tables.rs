//! What stands in the tables.

use capbench::workload::{Distribution, TableLayout};
use mysql::Conn;
use mysql::prelude::Queryable;

use crate::{
    Options, Ours, capbench, growth, plan, prepare, start, support, sysbench, sysbench_is_there,
};

/// sysbench counts a row as an event and sends 512 KiB of them at a time; in capbench such a statement is a
/// transaction.
#[test]
fn bulk_insert_sends_as_many_rows_at_a_time() {
    if !sysbench_is_there() {
        return;
    }
    for binary in support::servers() {
        let (server, mut root) = start(&binary);
        let options = [("threads", "1"), ("events", "150000")];
        sysbench(&server, "bulk_insert", "prepare", &options);
        let theirs = growth(&mut root, || {
            sysbench(&server, "bulk_insert", "run", &options);
        });
        let rows: Option<f64> = root
            .query_first("SELECT COUNT(*) FROM theirs.sbtest1")
            .unwrap();
        let theirs = rows.unwrap() / theirs["Com_insert"] as f64;

        let plan = plan("ours", "bulk_insert", "rows = 10");
        prepare(&server, &plan, TableLayout::Bulk);
        let grown = growth(&mut root, || {
            capbench(
                &server,
                &Ours {
                    script: "bulk_insert",
                    options: &[],
                    tables: 1,
                    rows: 10,
                    events: 5,
                    distribution: Distribution::Uniform,
                    database: "ours",
                },
            );
        });
        let rows: Option<f64> = root
            .query_first("SELECT COUNT(*) FROM ours.sbtest_bulk1")
            .unwrap();
        assert_eq!(grown["Com_insert"], 5);
        // Ids without a gap from 1 on, k the id; sysbench's last statement may be a short one.
        for table in ["theirs.sbtest1", "ours.sbtest_bulk1"] {
            let wrong: Option<(u64, u64)> = root
                .query_first(format!(
                    "SELECT MAX(id) - COUNT(*), COUNT(CASE WHEN k <> id OR id < 1 THEN 1 END) FROM {table}"
                ))
                .unwrap();
            assert_eq!(wrong, Some((0, 0)), "{table}");
        }
        let ours = rows.unwrap() / 5.0;
        assert!(
            (0.7..1.4).contains(&(ours / theirs)),
            "rows a statement: sysbench {theirs}, capbench {ours}"
        );
        assert_eq!(
            columns(&mut root, "theirs", "sbtest1"),
            columns(&mut root, "ours", "sbtest_bulk1")
        );
    }
}

fn texts(root: &mut Conn, sql: &str) -> Vec<Vec<String>> {
    let rows: Vec<mysql::Row> = root.query(sql).unwrap();
    rows.into_iter()
        .map(|row| {
            row.unwrap()
                .into_iter()
                .map(|value| value.as_sql(true))
                .collect()
        })
        .collect()
}

fn columns(root: &mut Conn, database: &str, table: &str) -> Vec<Vec<String>> {
    let of = format!("WHERE table_schema = '{database}' AND table_name = '{table}'");
    let mut all = texts(
        root,
        &format!(
            "SELECT column_name, column_type, is_nullable, column_default, extra, collation_name \
             FROM information_schema.columns {of} ORDER BY ordinal_position"
        ),
    );
    all.extend(texts(
        root,
        &format!(
            "SELECT index_name, non_unique, seq_in_index, column_name FROM \
             information_schema.statistics {of} ORDER BY index_name, seq_in_index"
        ),
    ));
    all.extend(texts(
        root,
        &format!(
            "SELECT engine, row_format, table_collation, create_options FROM \
             information_schema.tables {of}"
        ),
    ));
    all
}

/// What a table's rows look like: how many, lengths, patterns, ids without gaps, range and mean of k.
fn image(root: &mut Conn, table: &str) -> (Vec<Vec<String>>, f64) {
    let exact = texts(
        root,
        &format!(
            "SELECT COUNT(*), MIN(id), MAX(id), COUNT(DISTINCT id), \
             MIN(CHAR_LENGTH(c)), MAX(CHAR_LENGTH(c)), MIN(CHAR_LENGTH(pad)), MAX(CHAR_LENGTH(pad)), \
             SUM(c REGEXP '^([0-9]{{11}}-){{9}}[0-9]{{11}}$'), \
             SUM(pad REGEXP '^([0-9]{{11}}-){{4}}[0-9]{{11}}$'), \
             COUNT(DISTINCT c), SUM(k BETWEEN 1 AND 3000) FROM {table}"
        ),
    );
    let mean: Option<f64> = root
        .query_first(format!("SELECT CAST(AVG(k) AS DOUBLE) FROM {table}"))
        .unwrap();
    (exact, mean.unwrap())
}

#[test]
fn tables_and_rows_are_the_same() {
    if !sysbench_is_there() {
        return;
    }
    // sysbench's options, the same in a plan.
    let shapes: [(Options, &str); 4] = [
        (&[], ""),
        (&[("auto_inc", "off")], "auto_inc = false"),
        (&[("secondary", "on")], "secondary = true"),
        (&[("create_secondary", "off")], "secondary_index = false"),
    ];
    for binary in support::servers() {
        let (server, mut root) = start(&binary);
        for (theirs, ours) in shapes {
            let size = [
                ("tables", "2"),
                ("table_size", "3000"),
                ("rand-type", "uniform"),
            ];
            let all: Vec<_> = size.iter().chain(theirs).copied().collect();
            sysbench(&server, "oltp_read_write", "prepare", &all);
            let plan = plan("ours", "oltp_read_write", &format!("rows = 3000\n{ours}"));
            prepare(&server, &plan, TableLayout::Standard);
            for table in ["sbtest1", "sbtest2"] {
                let what = format!("{table}, {theirs:?} on {}", binary.display());
                assert_eq!(
                    columns(&mut root, "theirs", table),
                    columns(&mut root, "ours", table),
                    "{what}"
                );
                let (a, mean_a) = image(&mut root, &format!("theirs.{table}"));
                let (b, mean_b) = image(&mut root, &format!("ours.{table}"));
                assert_eq!(a, b, "{what}");
                // Uniform over 1..3000: the standard error of a mean is 16.
                assert!((mean_a - mean_b).abs() < 100.0, "{mean_a} {mean_b}: {what}");
            }
            sysbench(&server, "oltp_read_write", "cleanup", &all);
            root.query_drop("DROP DATABASE ours").unwrap();
            root.query_drop("CREATE DATABASE ours").unwrap();
        }
    }
}
