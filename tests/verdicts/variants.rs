//! Variants that explain nothing: the two published examples of a wrong comparison, and drift.

use capbench::analysis::{Decision, EffectVerdict, Findings, analyse};
use capbench::record::*;
use capbench::report::{render_markdown, view};

use crate::runs::{cell, level, run, variant};

/// Three interleaved passes, the variant faster by `gain`, with another p95 by Little's law.
fn compared(second: VariantRecord, gain: f64) -> Run {
    let mut cells = Vec::new();
    for repeat in 1..=3_u32 {
        let mut names = ["baseline", second.name.as_str()];
        if repeat == 2 {
            names.reverse();
        }
        for name in names {
            for threads in [8, 16, 32, 64] {
                let factor = if name == "baseline" { 1.0 } else { 1.0 + gain };
                let jitter = 1.0 + 0.002 * f64::from(repeat);
                let tps = 263.0 * (f64::from(threads) / 32.0).min(1.0) * factor * jitter;
                cells.push(cell(name, threads, repeat, &level(tps, 12)));
            }
        }
    }
    let mut run = run(cells);
    run.variants = vec![variant("baseline", &[]), second];
    run
}

fn decided(findings: &Findings) -> &capbench::analysis::Comparison {
    findings.comparisons.iter().find(|c| c.deciding).unwrap()
}

/// `flush_log_at_trx_commit` 1→0 and the flush method together: TPS 263→485.
#[test]
fn two_changes_at_once_explain_nothing() {
    let run = compared(
        variant(
            "faster disk",
            &[
                ("innodb_flush_log_at_trx_commit", "1", "0"),
                ("innodb_flush_method", "fsync", "O_DIRECT"),
            ],
        ),
        485.0 / 263.0 - 1.0,
    );
    let findings = analyse(&run);
    let found = decided(&findings);
    assert_eq!(found.tps.verdict, EffectVerdict::Better);
    assert_eq!(found.decision, Decision::Confounded, "{}", found.sentence);
    // That it costs durability is said too.
    assert!(
        found.sentence.contains("needs sign-off"),
        "{}",
        found.sentence
    );
    let markdown = render_markdown(&view::build(&run, &findings), &run, &findings, None).unwrap();
    assert!(
        markdown.contains(
            "**confounded**. confounded: innodb_flush_log_at_trx_commit, innodb_flush_method"
        ),
        "{markdown}"
    );
}

/// Testing right after the restart measures the cold cache.
#[test]
fn a_restart_without_warm_up_explains_nothing() {
    let mut restarted = variant("pool", &[("innodb_buffer_pool_size", "1", "2")]);
    restarted.restarted = true;
    let mut run = compared(restarted, 0.2);
    run.warmup = "none".to_owned();
    let findings = analyse(&run);
    assert_eq!(decided(&findings).decision, Decision::Confounded);
    assert!(decided(&findings).sentence.contains("cold cache"));
    run.warmup = "oltp_point_select with 8 threads for 60s".to_owned();
    assert_eq!(decided(&analyse(&run)).decision, Decision::Keep);
}

/// All global variables are compared: what a variant does not state counts.
#[test]
fn a_variable_that_moved_unstated_confounds() {
    let mut sly = variant("pool", &[("innodb_buffer_pool_size", "1", "2")]);
    sly.differs.insert(
        "innodb_io_capacity".to_owned(),
        ("200".to_owned(), "2000".to_owned()),
    );
    let findings = analyse(&compared(sly, 0.2));
    let found = decided(&findings);
    assert_eq!(found.decision, Decision::Confounded);
    assert!(
        found
            .sentence
            .contains("innodb_io_capacity (moved, but not stated)"),
        "{}",
        found.sentence
    );
}

#[test]
fn the_closing_reference_bounds_what_is_claimed() {
    let pass = |name: &str, tps: f64| -> Vec<CellRecord> {
        [8, 16, 32, 64]
            .map(|n| {
                let tps = tps * (f64::from(n) / 32.0).min(1.0);
                cell(name, n, 1, &level(tps, 12))
            })
            .to_vec()
    };
    let with_reference = |tps: f64| {
        let mut cells = pass("baseline", 1000.0);
        cells.extend(pass("b", 1100.0));
        let mut closing = cell("baseline", 32, 2, &level(tps, 12));
        closing.kind = CellKind::Reference;
        cells.push(closing);
        let mut run = run(cells);
        run.repeats = 1;
        run.variants = vec![variant("baseline", &[]), variant("b", &[("x", "1", "2")])];
        analyse(&run)
    };
    let steady = with_reference(1001.0);
    assert_eq!(
        decided(&steady).tps.verdict,
        EffectVerdict::BetterBeyondNoise
    );
    // It is no second run of the step.
    assert_eq!(decided(&steady).runs, (1, 1));
    assert_eq!(steady.references.len(), 1);
    assert_eq!(steady.references[0].tps.len(), 2);
    let drifted = with_reference(1120.0);
    assert_eq!(decided(&drifted).tps.verdict, EffectVerdict::Inconclusive);
    assert!(
        decided(&drifted)
            .tps
            .why
            .contains("the baseline itself moved by +12.0 %")
    );
    let text = &drifted.references[0].sentence;
    assert!(text.contains("no smaller effect is claimed"), "{text}");
}
