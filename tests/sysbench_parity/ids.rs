//! Which rows are asked for.

use capbench::workload::Distribution;
use mysql::Conn;
use mysql::prelude::Queryable;

use crate::{Ours, capbench, start, support, sysbench, sysbench_is_there};

/// How often each id was hit: `k` counts it, starting from 0.
fn hits(root: &mut Conn, work: impl FnOnce()) -> Vec<f64> {
    root.query_drop("UPDATE theirs.sbtest1 SET k = 0").unwrap();
    work();
    root.query("SELECT k FROM theirs.sbtest1 ORDER BY id")
        .unwrap()
}

/// The two-sample chi-square statistic as a standard normal deviate: two samples of the same
/// distribution lie within ±3 or so, whatever it is. Neighbours are pooled until 20 hits are together.
fn deviation(a: &[f64], b: &[f64]) -> f64 {
    let (sum_a, sum_b): (f64, f64) = (a.iter().sum(), b.iter().sum());
    let (to_a, to_b) = ((sum_b / sum_a).sqrt(), (sum_a / sum_b).sqrt());
    let (mut statistic, mut freedom) = (0.0, -1.0);
    let (mut x, mut y) = (0.0, 0.0);
    for (hit_a, hit_b) in a.iter().zip(b) {
        x += hit_a;
        y += hit_b;
        if x + y >= 20.0 {
            statistic += (x * to_a - y * to_b).powi(2) / (x + y);
            freedom += 1.0;
            (x, y) = (0.0, 0.0);
        }
    }
    (statistic - freedom) / (2.0 * freedom).sqrt()
}

#[test]
fn ids_are_drawn_alike() {
    if !sysbench_is_there() {
        return;
    }
    let binary = support::servers().remove(0);
    let (server, mut root) = start(&binary);
    let size = [("tables", "1"), ("table_size", "1000")];
    sysbench(&server, "oltp_update_index", "prepare", &size);
    // The index on k would only cost time here.
    root.query_drop("ALTER TABLE theirs.sbtest1 DROP KEY k_1")
        .unwrap();
    let distributions = [
        ("uniform", Distribution::Uniform),
        ("special", Distribution::Special { pct: 1, res: 75 }),
        ("gaussian", Distribution::Gaussian),
        ("pareto", Distribution::Pareto { h: 0.2 }),
    ];
    let mut all = Vec::new();
    for (name, distribution) in distributions {
        let options: Vec<_> = size
            .iter()
            .copied()
            .chain([("events", "20000"), ("rand-type", name)])
            .collect();
        let theirs = hits(&mut root, || {
            sysbench(&server, "oltp_update_index", "run", &options);
        });
        let ours = hits(&mut root, || {
            capbench(
                &server,
                &Ours {
                    script: "oltp_update_index",
                    options: &[],
                    tables: 1,
                    rows: 1000,
                    events: 20_000,
                    distribution,
                    database: "theirs",
                },
            );
        });
        let z = deviation(&theirs, &ours);
        assert!(z.abs() < 5.0, "{name}: {z}");
        all.push((name, theirs));
    }
    // And the measure tells distributions apart.
    for pair in all.windows(2) {
        let z = deviation(&pair[0].1, &pair[1].1);
        assert!(z > 50.0, "{} and {}: {z}", pair[0].0, pair[1].0);
    }
}
