//! The soak: a decline is found, lowers the limit, and fails the criterion; what cannot tell is no pass.

use capbench::analysis::{Findings, LimitBasis, Outcome, Overall, SoakOutcome, analyse, soak_cell};
use capbench::plan::{SoakLevel, Step};
use capbench::record::*;
use capbench::report::{render_markdown, terminal_table, view, write};
use capbench::units::{Millis, Ratio, Span};

use crate::runs::{cell, ladder, level, run, with_soak};

fn judged(threads: u32, tps: &[f64]) -> Findings {
    let mut run = with_soak(threads, tps);
    run.criteria.soak_held = true;
    analyse(&run)
}

fn outcome(findings: &Findings) -> (SoakOutcome, Outcome, Option<u32>) {
    (
        findings.soak.as_ref().unwrap().outcome,
        findings.criteria[0].outcome,
        findings.headline.limit,
    )
}

#[test]
fn a_load_that_holds_leaves_the_limit_and_passes() {
    let findings = judged(25, &level(1500.0, 60));
    assert_eq!(
        outcome(&findings),
        (SoakOutcome::Held, Outcome::Pass, Some(32))
    );
    let soak = findings.soak.unwrap();
    assert!(
        soak.sentence.contains("Held over 10 min at 25 threads"),
        "{}",
        soak.sentence
    );
    // Ten minutes say nothing about steps, and that is said.
    assert!(
        soak.sentence.contains("cannot show a decline in steps"),
        "{}",
        soak.sentence
    );
    // The soak is no step of the ladder.
    assert_eq!(findings.ladders[0].steps.len(), 5);
}

#[test]
fn a_decline_lowers_the_limit_and_fails() {
    let falling: Vec<f64> = level(1500.0, 60)
        .iter()
        .enumerate()
        .map(|(i, tps)| tps * (1.0 - 0.12 * i as f64 / 59.0))
        .collect();
    let findings = judged(25, &falling);
    assert_eq!(
        outcome(&findings),
        (SoakOutcome::Declined, Outcome::Fail, Some(16))
    );
    let limit = &findings.ladders[0].limit;
    assert_eq!(limit.basis, Some(LimitBasis::Soak));
    assert!(
        limit.why.contains("the soak at 25 threads did not hold"),
        "{}",
        limit.why
    );
    assert_eq!(findings.headline.overall, Overall::Failed);
    assert_eq!(findings.headline.exit_code, 1);
    // A decline too small to matter is none.
    let slight: Vec<f64> = level(1500.0, 60)
        .iter()
        .enumerate()
        .map(|(i, tps)| tps * (1.0 - 0.02 * i as f64 / 59.0))
        .collect();
    assert_eq!(outcome(&judged(25, &slight)).0, SoakOutcome::Held);
}

#[test]
fn without_a_lower_step_nothing_is_recommended() {
    let falling: Vec<f64> = (0..60).map(|i| 300.0 - 2.0 * f64::from(i)).collect();
    let findings = judged(4, &falling);
    assert_eq!(
        outcome(&findings),
        (SoakOutcome::Declined, Outcome::Fail, None)
    );
    assert!(findings.headline.sentence.contains("No limit to recommend"));
}

#[test]
fn steps_are_claimed_from_thirty_minutes_on_only() {
    let stairs = |minutes: usize| -> Vec<f64> {
        level(1500.0, minutes * 6)
            .iter()
            .enumerate()
            .map(|(i, tps)| tps * (1.0 - 0.05 * (i / 60) as f64))
            .collect()
    };
    let long = judged(25, &stairs(40)).soak.unwrap();
    assert!(long.could_show_steps && long.staircase, "{long:?}");
    let at: Vec<f64> = long.shifts.iter().map(|s| s.at).collect();
    assert_eq!(at, [600.0, 1200.0, 1800.0]);
    assert!(
        long.sentence
            .contains("declines in steps (-5.0 % at 10 min"),
        "{}",
        long.sentence
    );
    let short = judged(25, &stairs(20)).soak.unwrap();
    assert!(!short.could_show_steps && !short.staircase && short.shifts.is_empty());
    assert_eq!(short.outcome, SoakOutcome::Declined);
    assert!(
        short
            .sentence
            .contains("20 min cannot show a decline in steps"),
        "{}",
        short.sentence
    );
}

#[test]
fn what_does_not_tell_is_not_tested() {
    // Too few intervals.
    let few = judged(25, &level(1500.0, 6));
    assert_eq!(outcome(&few).0, SoakOutcome::NotJudged);
    assert_eq!(outcome(&few).1, Outcome::NotTested);
    // So uneven that a decline of a tenth might hide in it.
    let wild: Vec<f64> = (0..60)
        .map(|i| if (i / 7) % 2 == 0 { 1500.0 } else { 600.0 })
        .collect();
    assert_eq!(outcome(&judged(25, &wild)).0, SoakOutcome::NotJudged);
    // Not run.
    let mut none = run(ladder());
    none.criteria.soak_held = true;
    none.after.soak = Some(SoakRecord {
        asked: "80 % of the knee".to_owned(),
        duration: Span::parse("600s").unwrap(),
        place: None,
        not_run: Some("the knee is not known".to_owned()),
    });
    let findings = analyse(&none);
    assert_eq!(
        outcome(&findings),
        (SoakOutcome::NotRun, Outcome::NotTested, Some(32))
    );
    assert_eq!(findings.headline.exit_code, 1);
}

#[test]
fn a_soak_that_breaks_does_not_hold() {
    for (status, reason, expected) in [
        (
            CellStatus::Failed,
            "the server went away",
            (SoakOutcome::Broken, Outcome::Fail, Some(16)),
        ),
        (
            CellStatus::Stopped,
            "p95 of the last 10 s was 700 ms, above `guard.max_p95` = 500 ms",
            (SoakOutcome::Broken, Outcome::Fail, Some(16)),
        ),
        (
            CellStatus::Stopped,
            "local time 06:00 is outside `guard.window` = 22:00-06:00",
            (SoakOutcome::NotJudged, Outcome::NotTested, Some(32)),
        ),
        (
            CellStatus::Interrupted,
            "the user",
            (SoakOutcome::NotJudged, Outcome::NotTested, Some(32)),
        ),
    ] {
        let mut run = with_soak(25, &level(1500.0, 30));
        run.criteria.soak_held = true;
        let cell = run.cells.last_mut().unwrap();
        cell.status = status;
        cell.reason = Some(reason.to_owned());
        assert_eq!(outcome(&analyse(&run)), expected, "{reason}");
    }
}

#[test]
fn the_soak_goes_below_the_knee_and_never_above_the_limit() {
    let share = SoakLevel::OfKnee(Ratio(0.8));
    let place = soak_cell(&run(ladder()), share, None).unwrap();
    assert_eq!(place.step, Step::Threads(25));
    assert_eq!(place.why, "80 % of the knee at 32");
    // A latency requirement that only 16 threads keep.
    let mut strict = run(ladder());
    let p95 = analyse(&strict).ladders[0].steps[1].p95.unwrap();
    strict.criteria.max_p95 = Some(Millis(p95.0 * 1.01));
    let place = soak_cell(&strict, share, None).unwrap();
    assert_eq!(place.step, Step::Threads(16));
    assert!(
        place.why.starts_with("the recommended limit"),
        "{}",
        place.why
    );
    // Of a small knee a whole number of clients is quite another share, which is said.
    let small = [(1, 500.0), (2, 960.0), (4, 970.0), (8, 960.0)];
    let small = run(small
        .iter()
        .map(|&(n, tps)| cell("baseline", n, 1, &level(tps, 12)))
        .collect());
    let place = soak_cell(&small, share, None).unwrap();
    assert_eq!(place.step, Step::Threads(1));
    assert_eq!(place.why, "80 % of the knee at 2 is 1.6, rounded down");
    // The knee lies beyond the ladder.
    let rising = run(ladder().into_iter().take(3).collect());
    let place = soak_cell(&rising, share, None).unwrap();
    assert_eq!(place.step, Step::Threads(25));
    assert!(place.why.contains("not reached"), "{}", place.why);
    // No knee at all.
    let two = run(ladder().into_iter().take(2).collect());
    let why = soak_cell(&two, share, None).unwrap_err();
    assert!(why.contains("at least 3 valid steps"), "{why}");
    // A number is taken as it stands.
    let place = soak_cell(&two, SoakLevel::Threads(3), None).unwrap();
    assert_eq!(place.step, Step::Threads(3));
    // After the guard nothing is held.
    let mut stopped = run(ladder());
    stopped.cells[4].status = CellStatus::Stopped;
    let why = soak_cell(&stopped, share, None).unwrap_err();
    assert!(why.contains("the guard ended the ladder"), "{why}");
}

#[test]
fn the_report_shows_it() {
    let falling: Vec<f64> = level(1500.0, 60)
        .iter()
        .enumerate()
        .map(|(i, tps)| tps * (1.0 - 0.12 * i as f64 / 59.0))
        .collect();
    let mut run = with_soak(25, &falling);
    run.criteria.soak_held = true;
    let findings = analyse(&run);
    let markdown = render_markdown(&view::build(&run, &findings), &run, &findings, None).unwrap();
    let (_, soak) = markdown.split_once("### Soak").unwrap();
    let (soak, _) = soak.split_once("## 3.").unwrap();
    insta::assert_snapshot!(soak);
    assert!(
        terminal_table(&run, &findings).contains("Soak: DECLINED. Throughput declined over 10 min")
    );
    let dir = tempfile::tempdir().unwrap();
    let written = write(&run, &findings, dir.path(), None).unwrap();
    let html = std::fs::read_to_string(written.html).unwrap();
    assert!(html.contains("Soak, oltp_read_write: throughput, transactions"));
    let csv = std::fs::read_to_string(written.cells).unwrap();
    assert!(csv.lines().last().unwrap().ends_with(",soak"), "{csv}");
    // `capbench knee cells.csv` leaves it out and says so.
    let read = capbench::analysis::knee_csv::read(&csv).unwrap();
    assert_eq!(read.points.len(), 5);
    assert!(
        read.notes[0].contains("it is a soak cell"),
        "{:?}",
        read.notes
    );
}

#[test]
fn a_soak_is_no_repeat_of_its_step() {
    // At a step of the ladder, with another throughput.
    let mut cells = ladder();
    let mut soak = cell("baseline", 16, 1, &level(700.0, 60));
    soak.kind = CellKind::Soak;
    cells.push(soak);
    let findings = analyse(&run(cells));
    assert_eq!(findings.ladders[0].steps[1].cells, [2]);
}
