//! Runs by arithmetic, light enough for hundreds of them.

use capbench::plan::{HouseRule, Step};
use capbench::record::*;
use capbench::units::Span;

use crate::support;

/// An interval of ten seconds. The latency's shape counts, not its number of events: its mean is what Little's
/// law wants, one event in twenty takes ten times as long.
fn interval(number: usize, phase: Phase, tps: f64, clients: u32) -> Interval {
    let done = (tps * 10.0).round() as u64;
    let mut latency = Latency::new();
    if done > 0 {
        let fast = f64::from(clients) / tps * 1e9 * 20.0 / 29.0;
        for event in 0..20 {
            latency.record(if event == 19 { fast * 10.0 } else { fast } as u64);
        }
    }
    Interval {
        done,
        reads: done * 14,
        writes: done * 4,
        others: done * 2,
        connected_seconds: 10.0 * f64::from(clients),
        latency,
        ..Interval::empty(number as f64 * 10.0, (number + 1) as f64 * 10.0, phase)
    }
}

/// A cell of these throughputs, an interval of 10 s each, after one of discard.
pub(crate) fn cell(variant: &str, threads: u32, repeat: u32, tps: &[f64]) -> CellRecord {
    let mut intervals = vec![interval(0, Phase::Discard, tps[0], threads)];
    intervals.extend(
        tps.iter()
            .enumerate()
            .map(|(i, tps)| interval(i + 1, Phase::Measure, *tps, threads)),
    );
    let done: u64 = intervals[1..].iter().map(|i| i.done).sum();
    CellRecord {
        index: 0,
        repeat,
        variant: variant.to_owned(),
        workload: "oltp_read_write".to_owned(),
        step: Step::Threads(threads),
        clients: threads,
        kind: CellKind::Ladder,
        seconds: 10.0 * intervals.len() as f64,
        per_client: vec![done / u64::from(threads); threads as usize],
        intervals,
        statements: Vec::new(),
        ..support::cell(0, variant, "oltp_read_write", 1, 1.0)
    }
}

/// `count` intervals around `tps`, ±0.5 %.
pub(crate) fn level(tps: f64, count: usize) -> Vec<f64> {
    (0..count)
        .map(|i| tps * (1.0 + 0.005 * (i as f64 * 12.9898).sin()))
        .collect()
}

/// A run of these cells in this order, without warnings and criteria.
pub(crate) fn run(mut cells: Vec<CellRecord>) -> Run {
    for (index, cell) in (1..).zip(&mut cells) {
        cell.index = index;
    }
    let mut run = support::run();
    run.warnings.clear();
    run.criteria = capbench::plan::Criteria::default();
    run.house = HouseRule::default();
    run.repeats = cells.iter().map(|c| c.repeat).max().unwrap_or(1);
    run.cells = cells;
    run
}

/// The ladder of the method: the knee is 32.
pub(crate) const LADDER: [(u32, f64); 5] = [
    (8, 530.0),
    (16, 960.0),
    (32, 1800.0),
    (64, 1850.0),
    (128, 1840.0),
];

pub(crate) fn ladder() -> Vec<CellRecord> {
    LADDER
        .iter()
        .map(|&(n, tps)| cell("baseline", n, 1, &level(tps, 12)))
        .collect()
}

/// A soak of these throughputs after the ladder.
pub(crate) fn with_soak(threads: u32, tps: &[f64]) -> Run {
    let mut cells = ladder();
    let mut soak = cell("baseline", threads, 1, tps);
    soak.kind = CellKind::Soak;
    cells.push(soak);
    let mut run = run(cells);
    run.after.soak = Some(SoakRecord {
        asked: "80 % of the knee".to_owned(),
        duration: Span(std::time::Duration::from_secs(tps.len() as u64 * 10)),
        place: Some("80 % of the knee at 32".to_owned()),
        not_run: None,
    });
    run
}

pub(crate) fn variant(name: &str, set: &[(&str, &str, &str)]) -> VariantRecord {
    VariantRecord {
        name: name.to_owned(),
        settings: set
            .iter()
            .map(|(name, before, after)| AppliedSetting {
                name: (*name).to_owned(),
                before: Some((*before).to_owned()),
                asked: (*after).to_owned(),
                took: Some((*after).to_owned()),
            })
            .collect(),
        restarted: false,
        differs: set
            .iter()
            .map(|(name, a, b)| ((*name).to_owned(), ((*a).to_owned(), (*b).to_owned())))
            .collect(),
        several: set.len() > 1,
    }
}
