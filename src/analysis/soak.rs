//! The soak: does the load hold.

use std::fmt::Write as _;

use super::cell::whole_intervals;
use super::findings::{CellSummary, Validity};
use super::soak_finding::{LevelShift, SoakFinding, SoakOutcome, Trend};
use super::stats::{mean, p_words, series_se};
use super::trend;
use crate::record::{CellKind, CellRecord, CellStatus, Interval, Run};
use crate::units::{Ratio, Span};

/// Significance of a trend.
const ALPHA: f64 = 0.05;
/// A decline of throughput from which on a load does not hold: halves of real 900-s runs that held differed by
/// up to 8 % at the 95th percentile and 0.67 % in the median \[M\]; 5 % together with the test of the trend. \[H\]
const DECLINE: f64 = 0.05;
/// The same for a rise of p95, whose intervals are noisier. \[H\]
const P95_RISE: f64 = 0.20;
/// "Held" is said only where a decline of this size would have been seen. \[H\]
const WOULD_BE_SEEN: f64 = 0.10;
/// A decline in steps comes every ten minutes or so: three periods show it (product.md).
const SECONDS_FOR_STEPS: f64 = 1800.0;
/// A level that counts as lasting, seconds. \[H\]
const LASTING: f64 = 120.0;
/// Normal quantile of a two-sided 95 % interval.
const Z: f64 = 1.96;

/// What the soak says; `None`: the plan asked for none.
pub(crate) fn judge(run: &Run, cells: &[CellSummary]) -> Option<SoakFinding> {
    let asked = run.after.soak.as_ref();
    let cell = run.cells.iter().find(|c| c.kind == CellKind::Soak);
    if asked.is_none() && cell.is_none() {
        return None;
    }
    let mut finding = SoakFinding {
        workload: None,
        step: None,
        cell: None,
        asked: asked.map_or_else(|| "n/a".to_owned(), |a| a.asked.clone()),
        planned: asked.map_or_else(Span::default, |a| a.duration),
        place: asked.and_then(|a| a.place.clone()),
        seconds: 0.0,
        tps: None,
        p95: None,
        tps_trend: None,
        p95_trend: None,
        thirds: None,
        could_show_steps: false,
        shifts: Vec::new(),
        staircase: false,
        outcome: SoakOutcome::NotRun,
        sentence: String::new(),
    };
    let Some((cell, summary)) = cell.and_then(|cell| {
        let summary = cells.iter().find(|s| s.index == cell.index)?;
        Some((cell, summary))
    }) else {
        let why = asked
            .and_then(|a| a.not_run.as_deref())
            .unwrap_or("the run ended before it");
        finding.sentence = format!("The soak was not run: {why}.");
        return Some(finding);
    };
    finding.workload = Some(cell.workload.clone());
    finding.step = Some(cell.step);
    finding.cell = Some(cell.index);
    measure(&mut finding, cell);
    conclude(&mut finding, cell, summary);
    Some(finding)
}

/// Trends over all measured intervals: a steady-state cut would take away the very start that a decline is
/// seen against.
fn measure(finding: &mut SoakFinding, cell: &CellRecord) {
    let intervals: Vec<&Interval> = whole_intervals(cell);
    finding.seconds = cell.measured().map(Interval::seconds).sum();
    let done: u64 = cell.measured().map(|i| i.done).sum();
    if finding.seconds > 0.0 {
        finding.tps = Some(crate::units::PerSecond(done as f64 / finding.seconds));
    }
    let mut all = crate::record::Latency::new();
    cell.measured().for_each(|i| all.merge(&i.latency));
    finding.p95 = all.quantile(0.95);
    let tps: Vec<f64> = intervals
        .iter()
        .map(|i| i.done as f64 / i.seconds())
        .collect();
    let p95: Vec<f64> = intervals
        .iter()
        .filter_map(|i| i.latency.quantile(0.95))
        .map(|p| p.0)
        .collect();
    let of = |values: &[f64]| {
        trend::slope(values).map(|slope| Trend {
            change: Ratio(slope.change),
            p_value: slope.p,
        })
    };
    finding.tps_trend = of(&tps);
    finding.p95_trend = of(&p95);
    finding.thirds = thirds(&tps);
    finding.could_show_steps = finding.seconds >= SECONDS_FOR_STEPS;
    if finding.could_show_steps
        && let Some(usual) = mean(&intervals.iter().map(|i| i.seconds()).collect::<Vec<_>>())
        && let Some(start) = intervals.first().map(|i| i.start)
    {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number of intervals"
        )]
        let shortest = (LASTING / usual).ceil() as usize;
        let shifts = trend::shifts(&tps, shortest);
        finding.staircase = trend::is_staircase(&tps, &shifts);
        finding.shifts = shifts
            .iter()
            .map(|shift| LevelShift {
                at: intervals[shift.at].start - start,
                change: Ratio(shift.change),
            })
            .collect();
    }
}

/// Last third against the first: change, and the ends of its 95 % interval.
fn thirds(tps: &[f64]) -> Option<(Ratio, Ratio, Ratio)> {
    let third = tps.len() / 3;
    let (first, last) = (&tps[..third], &tps[tps.len() - third..]);
    let level = mean(first).filter(|m| *m > 0.0)?;
    let ratio = mean(last)? / level;
    let error = Z * ratio * series_se(first)?.hypot(series_se(last)?);
    Some((
        Ratio(ratio - 1.0),
        Ratio(ratio - 1.0 - error),
        Ratio(ratio - 1.0 + error),
    ))
}

fn conclude(finding: &mut SoakFinding, cell: &CellRecord, summary: &CellSummary) {
    let length = minutes(finding.seconds);
    let reason = cell.reason.as_deref().unwrap_or("no reason given");
    let (outcome, mut sentence) = match cell.status {
        CellStatus::Failed => (
            SoakOutcome::Broken,
            format!("The soak at {} failed after {length}: {reason}.", cell.step),
        ),
        // The end of the window is the plan's own, and says nothing about the server.
        CellStatus::Stopped if reason.contains("guard.window") => (
            SoakOutcome::NotJudged,
            format!("The soak at {} ended after {length}: {reason}.", cell.step),
        ),
        CellStatus::Stopped => (
            SoakOutcome::Broken,
            format!(
                "The guard ended the soak at {} after {length}: {reason}.",
                cell.step
            ),
        ),
        CellStatus::Interrupted | CellStatus::Skipped => (
            SoakOutcome::NotJudged,
            format!("The soak at {} did not run to its end.", cell.step),
        ),
        CellStatus::Completed | CellStatus::Truncated => judged(finding, cell, summary, &length),
    };
    if matches!(outcome, SoakOutcome::Held | SoakOutcome::Declined) {
        if finding.staircase {
            let steps: Vec<String> = finding
                .shifts
                .iter()
                .map(|s| format!("{:+.1} % at {}", s.change.0 * 100.0, minutes(s.at)))
                .collect();
            let _ = write!(
                sentence,
                " It declines in steps ({}): memory or temporary space that fills up does that.",
                steps.join(", ")
            );
        } else if !finding.could_show_steps {
            let _ = write!(
                sentence,
                " {length} cannot show a decline in steps, which takes 30 minutes or more."
            );
        }
    }
    finding.outcome = outcome;
    finding.sentence = sentence;
}

/// A soak that ran to its end.
fn judged(
    finding: &SoakFinding,
    cell: &CellRecord,
    summary: &CellSummary,
    length: &str,
) -> (SoakOutcome, String) {
    let step = cell.step;
    if summary.validity == Validity::Invalid {
        let why: Vec<&str> = summary.reasons.iter().map(|r| r.text.as_str()).collect();
        return (
            SoakOutcome::NotJudged,
            format!("The soak at {step} is invalid: {}.", why.join("; ")),
        );
    }
    let (Some(tps), Some(thirds)) = (finding.tps_trend, finding.thirds) else {
        return (
            SoakOutcome::NotJudged,
            format!(
                "The soak at {step} has too few intervals for a trend: at least {} are needed.",
                trend::FEWEST
            ),
        );
    };
    let significant = |t: &Trend| t.p_value < ALPHA;
    let declines = significant(&tps) && tps.change.0 <= -DECLINE;
    let rises = finding
        .p95_trend
        .filter(|t| significant(t) && t.change.0 >= P95_RISE);
    let shown = |t: &Trend| format!("{:+.1} % ({})", t.change.0 * 100.0, p_words(t.p_value));
    if declines || finding.staircase {
        let p95 = rises.map_or_else(String::new, |t| format!(", p95 rose by {}", shown(&t)));
        return (
            SoakOutcome::Declined,
            format!(
                "Throughput declined over {length} at {step}: {}{p95}.",
                shown(&tps)
            ),
        );
    }
    if let Some(p95) = rises {
        return (
            SoakOutcome::Declined,
            format!("p95 rose over {length} at {step}: {}.", shown(&p95)),
        );
    }
    if summary.held == Some(false) {
        return (
            SoakOutcome::Declined,
            format!("The rate was not held over {length} at {step}."),
        );
    }
    if thirds.1.0 <= -WOULD_BE_SEEN {
        return (
            SoakOutcome::NotJudged,
            format!(
                "Throughput over {length} at {step} is too uneven to tell: last third against the first {:+.1} %, 95 % interval {:+.1} … {:+.1} %.",
                thirds.0.0 * 100.0,
                thirds.1.0 * 100.0,
                thirds.2.0 * 100.0
            ),
        );
    }
    (
        SoakOutcome::Held,
        format!(
            "Held over {length} at {step}: trend of throughput {}, last third against the first {:+.1} % (95 % interval {:+.1} … {:+.1} %).",
            shown(&tps),
            thirds.0.0 * 100.0,
            thirds.1.0 * 100.0,
            thirds.2.0 * 100.0
        ),
    )
}

/// `10 min`, or seconds below two minutes.
pub(super) fn minutes(seconds: f64) -> String {
    if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else {
        format!("{:.0} min", seconds / 60.0)
    }
}
