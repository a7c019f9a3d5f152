//! Refining: the steps beside the knee, then repeats until they are narrow; what that saved.

use capbench::analysis::{analyse, refined_cell};
use capbench::plan::Step;
use capbench::record::*;
use capbench::report::{render_markdown, view};
use capbench::units::Span;

use crate::runs::{cell, ladder, level, run, variant};

fn refine_record() -> RefineRecord {
    RefineRecord {
        budget: Span::parse("30m").unwrap(),
        ended: "no step is left that would narrow the knee".to_owned(),
    }
}

/// Refines by arithmetic: throughput as `tps` says, `noise` alternating between runs.
fn refined(noise: f64, most: usize) -> Run {
    let mut run = run(ladder());
    run.after.refine = Some(refine_record());
    for turn in 0..most {
        let Some(next) = refined_cell(&run) else {
            break;
        };
        let Step::Threads(n) = next.step else {
            panic!("{next:?}")
        };
        let tps = (f64::from(n) / 32.0).min(1.0) * 1800.0;
        let sign = if turn % 2 == 0 { 1.0 } else { -1.0 };
        let runs = run.cells.iter().filter(|c| c.step == next.step).count();
        let mut new = cell(
            "baseline",
            n,
            runs as u32 + 1,
            &level(tps * (1.0 + sign * noise), 12),
        );
        new.kind = CellKind::Refined;
        new.index = run.cells.len() as u32 + 1;
        run.cells.push(new);
    }
    run
}

fn order(run: &Run) -> Vec<u32> {
    run.cells
        .iter()
        .filter(|c| c.kind == CellKind::Refined)
        .map(|c| c.clients)
        .collect()
}

#[test]
fn between_first_then_repeats_until_narrow() {
    let run = refined(0.001, 100);
    let order = order(&run);
    // √(16·32) and √(32·64), then the knee and its neighbours up to three runs each.
    assert_eq!(order[..2], [23, 45]);
    let mut repeats = order[2..].to_vec();
    repeats.sort_unstable();
    assert_eq!(repeats, [23, 23, 32, 32, 45, 45]);
    assert_eq!(refined_cell(&run), None);
    let findings = analyse(&run);
    let knee = findings.ladders[0].knee.as_ref().unwrap();
    assert_eq!(knee.threads, Some(32));
    assert_eq!(findings.ladders[0].steps.len(), 7);
    let refinement = findings.refinement.unwrap();
    assert_eq!(refinement.cells, 8);
    assert_eq!(refinement.added, [23, 45]);
    // A full grid: 5 steps and the 4 between them, three times each, against the 13 that ran.
    assert_eq!(refinement.grid_cells, 27);
    // 14 cells of 130 s.
    assert_eq!(refinement.saved, Span::parse("1820s").unwrap());
    assert!(
        refinement.sentence.contains("8 cells"),
        "{}",
        refinement.sentence
    );
}

#[test]
fn a_noisy_step_is_repeated_but_not_for_ever() {
    let run = refined(0.08, 1000);
    let runs = |n: u32| run.cells.iter().filter(|c| c.clients == n).count();
    assert!(runs(32) > 3, "{:?}", order(&run));
    assert!(run.cells.iter().all(|c| runs(c.clients) <= 7));
    assert_eq!(refined_cell(&run), None);
}

#[test]
fn nothing_is_refined_above_what_was_stopped_or_without_a_knee() {
    let mut stopped = run(ladder());
    stopped.cells[3].status = CellStatus::Stopped;
    stopped.cells[4].status = CellStatus::Skipped;
    while let Some(next) = refined_cell(&stopped) {
        let Step::Threads(n) = next.step else {
            panic!("{next:?}")
        };
        assert!(n < 64, "{next:?}");
        let mut new = cell("baseline", n, 2, &level(1000.0, 12));
        new.kind = CellKind::Refined;
        new.index = stopped.cells.len() as u32 + 1;
        stopped.cells.push(new);
        assert!(stopped.cells.len() < 100);
    }
    let two = run(ladder().into_iter().take(2).collect());
    assert_eq!(refined_cell(&two), None);
}

#[test]
fn the_report_marks_refined_steps_and_says_what_was_saved() {
    let run = refined(0.001, 100);
    let findings = analyse(&run);
    let markdown = render_markdown(&view::build(&run, &findings), &run, &findings, None).unwrap();
    assert!(markdown.contains("valid, refined"), "{markdown}");
    assert!(markdown.contains("### Refinement"));
    assert!(
        markdown.contains("would have taken 30 min more"),
        "{markdown}"
    );
}

/// Variants were not interleaved with what was run again: it must not enter their comparison.
#[test]
fn refined_runs_are_no_side_of_a_comparison() {
    let mut cells = Vec::new();
    for repeat in 1..=3 {
        for name in ["baseline", "b"] {
            for threads in [8, 16, 32, 64] {
                let tps = 1800.0 * (f64::from(threads) / 32.0).min(1.0);
                let mut one = cell(name, threads, repeat, &level(tps, 12));
                one.repeat = repeat;
                cells.push(one);
            }
        }
    }
    for repeat in 4..=9 {
        let mut late = cell("baseline", 32, repeat, &level(1500.0, 12));
        late.kind = CellKind::Refined;
        cells.push(late);
    }
    let mut run = run(cells);
    run.variants = vec![
        variant("baseline", &[]),
        variant("b", &[("sort_buffer_size", "1", "2")]),
    ];
    let findings = analyse(&run);
    let at = findings
        .comparisons
        .iter()
        .find(|c| c.step == Step::Threads(32))
        .unwrap();
    assert_eq!(at.runs, (3, 3));
    assert!(at.tps.change.0.abs() < 0.01, "{:?}", at.tps);
}
