//! What followed the ladder: the soak, refining, and how the baseline moved through the run.

use crate::analysis::{Findings, ReferenceFinding, SoakFinding, SoakOutcome, Trend, p_words};
use crate::record::{CellRecord, Interval, Latency, Run};
use crate::report::figures::{MISSING, change, count, duration, figure, ms, or_missing, rate};

use super::ladders::step;
use super::model::{Pair, ReferenceView, SoakPartView, SoakView};

/// Rows of the soak's course: enough to see a decline, few enough to read.
const PARTS: usize = 12;

pub(super) fn soak(run: &Run, findings: &Findings) -> Option<SoakView> {
    let soak = findings.soak.as_ref()?;
    let cell = run.cells.iter().find(|c| Some(c.index) == soak.cell);
    let summary = findings.cells.iter().find(|c| Some(c.index) == soak.cell);
    Some(SoakView {
        outcome: soak.outcome.as_str().to_owned(),
        sentence: soak.sentence.clone(),
        facts: facts(soak),
        parts: cell.map(parts).unwrap_or_default(),
        objections: summary
            .map(|s| {
                s.reasons
                    .iter()
                    .map(|r| format!("{}, {}: {}", r.severity.as_str(), r.rule.as_str(), r.text))
                    .collect()
            })
            .unwrap_or_default(),
    })
}

fn facts(soak: &SoakFinding) -> Vec<Pair> {
    let asked = format!("{} for {}", soak.asked, soak.planned);
    let mut rows = vec![Pair::new("asked for", asked)];
    if soak.outcome == SoakOutcome::NotRun {
        return rows;
    }
    let trend = |trend: Option<Trend>| {
        or_missing(trend.map(|t| {
            format!(
                "{} % over the whole (Theil–Sen), {} (Mann–Kendall, autocorrelation corrected)",
                change(Some(t.change)),
                p_words(t.p_value)
            )
        }))
    };
    let load = format!(
        "{}, {}: {}",
        or_missing(soak.workload.clone()),
        or_missing(soak.step.map(|s| s.to_string())),
        soak.place.as_deref().unwrap_or(MISSING)
    );
    rows.push(Pair::new("load", load));
    rows.push(Pair::new("measured", duration(soak.seconds)));
    rows.push(Pair::new(
        "throughput",
        format!("{} transactions/s", rate(soak.tps)),
    ));
    rows.push(Pair::new("p95", format!("{} ms", ms(soak.p95))));
    rows.push(Pair::new("trend of throughput", trend(soak.tps_trend)));
    rows.push(Pair::new("trend of p95", trend(soak.p95_trend)));
    rows.push(Pair::new(
        "last third against the first",
        or_missing(soak.thirds.map(|(middle, low, high)| {
            format!(
                "{} % (95 % interval {} … {} %)",
                change(Some(middle)),
                change(Some(low)),
                change(Some(high))
            )
        })),
    ));
    let steps = if !soak.could_show_steps {
        "not looked for: shorter than 30 minutes".to_owned()
    } else if soak.shifts.is_empty() {
        "none".to_owned()
    } else {
        let shifts: Vec<String> = soak
            .shifts
            .iter()
            .map(|s| format!("{} % after {}", change(Some(s.change)), duration(s.at)))
            .collect();
        shifts.join(", ")
    };
    rows.push(Pair::new("lasting shifts", steps));
    rows
}

/// The soak's course in at most [`PARTS`] parts of whole intervals.
fn parts(cell: &CellRecord) -> Vec<SoakPartView> {
    let intervals: Vec<&Interval> = cell.measured().collect();
    let size = intervals.len().div_ceil(PARTS).max(1);
    let start = intervals.first().map_or(0.0, |i| i.start);
    intervals
        .chunks(size)
        .map(|part| {
            let seconds: f64 = part.iter().map(|i| i.seconds()).sum();
            let done: u64 = part.iter().map(|i| i.done).sum();
            let mut latency = Latency::new();
            for interval in part {
                latency.merge(&interval.latency);
            }
            let (from, to) = (
                part.first().map_or(0.0, |i| i.start) - start,
                part.last().map_or(0.0, |i| i.end) - start,
            );
            SoakPartView {
                from: figure(from),
                to: figure(to),
                tps: if seconds > 0.0 {
                    figure(done as f64 / seconds)
                } else {
                    MISSING.to_owned()
                },
                p95: ms(latency.quantile(0.95)),
                p99: ms(latency.quantile(0.99)),
                max: ms(latency.max_nanos().map(crate::units::Millis::from_nanos)),
                errors: count(part.iter().flat_map(|i| &i.errors).map(|e| e.count).sum()),
            }
        })
        .collect()
}

pub(super) fn references(findings: &Findings) -> Vec<ReferenceView> {
    findings.references.iter().map(reference).collect()
}

fn reference(r: &ReferenceFinding) -> ReferenceView {
    let tps: Vec<String> = r.tps.iter().map(|t| figure(*t)).collect();
    ReferenceView {
        workload: r.workload.clone(),
        step: step(r.step),
        tps: tps.join(", "),
        drift: or_missing(r.drift.map(|d| change(Some(d)))),
        drift_p95: or_missing(r.drift_p95.map(|d| change(Some(d)))),
        sentence: r.sentence.clone(),
    }
}
