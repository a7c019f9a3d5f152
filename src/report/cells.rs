//! cells.csv: one row a cell, for spreadsheets and programs.

use crate::analysis::{CellSummary, Findings, Latencies};
use crate::plan::Step;
use crate::record::{CellStatus, Run};
use crate::store::guarded;
use crate::units::{Millis, PerSecond, Ratio};

/// Columns of cells.csv. Numbers have `.` as decimal sign and no unit, empty means missing; shares are
/// ratios (0.01 = 1 %).
const COLUMNS: [&str; 55] = [
    "cell",
    "workload",
    "variant",
    "threads",
    "repeat",
    "status",
    "tps",
    "qps",
    "lat_avg_ms",
    "lat_p50_ms",
    "lat_p95_ms",
    "lat_p99_ms",
    "lat_p999_ms",
    "lat_min_ms",
    "lat_max_ms",
    "errors",
    "retries",
    "reconnects",
    "fairness_stddev",
    "fairness_spread",
    "gain_per_doubling",
    "validity",
    "validity_reasons",
    "reason",
    "rate",
    "offered_tps",
    "dropped_share",
    "held",
    "service_avg_ms",
    "service_p50_ms",
    "service_p95_ms",
    "service_p99_ms",
    "service_p999_ms",
    "service_max_ms",
    "reads_per_s",
    "writes_per_s",
    "others_per_s",
    "done",
    "failed",
    "error_share",
    "stalls",
    "outage_s",
    "recovery_s",
    "tps_cv",
    "tps_relative_se",
    "littles_law",
    "window_start_s",
    "window_end_s",
    "window_intervals",
    "window_dropped",
    "client_cpu_share",
    "busiest_worker_share",
    "buffer_pool_hit_share",
    "started_at",
    "kind",
];

/// The file.
pub(super) fn csv(run: &Run, findings: &Findings) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // A Vec takes every byte, and all rows have one length.
    let _ = writer.write_record(COLUMNS);
    for cell in &findings.cells {
        let _ = writer.write_record(row(run, cell));
    }
    writer.into_inner().unwrap_or_default()
}

fn row(run: &Run, c: &CellSummary) -> [String; COLUMNS.len()] {
    let record = run.cells.iter().find(|r| r.index == c.index);
    let text = |t: Option<&str>| guarded(&t.unwrap_or_default().replace(char::is_control, " "));
    // A cell that never ran has no counts; zeros would claim that it ran without errors.
    let ran = c.window.is_some() || c.done + c.failed > 0;
    let tally = |n: u64| if ran { n.to_string() } else { String::new() };
    let ms = |v: Option<Millis>| number(v.map(|v| v.0));
    let rate = |v: Option<PerSecond>| number(v.map(|v| v.0));
    let share = |v: Option<Ratio>| number(v.map(|v| v.0));
    let Latencies {
        avg,
        p50,
        p95,
        p99,
        p999,
        min,
        max,
    } = c.latency;
    let service = c.service.unwrap_or_default();
    let reasons: Vec<String> = c
        .reasons
        .iter()
        .map(|r| format!("{}: {}", r.rule.as_str(), r.text))
        .collect();
    [
        c.index.to_string(),
        guarded(&c.workload),
        guarded(&c.variant),
        c.clients.to_string(),
        c.repeat.to_string(),
        status(c.status).to_owned(),
        rate(c.tps),
        rate(c.qps),
        ms(avg),
        ms(p50),
        ms(p95),
        ms(p99),
        ms(p999),
        ms(min),
        ms(max),
        tally(c.errors.iter().map(|e| e.count).sum()),
        tally(c.retries),
        tally(c.reconnects),
        number(c.fairness.map(|f| f.stddev)),
        share(c.fairness.map(|f| f.spread)),
        share(c.gain),
        c.validity.as_str().to_owned(),
        text(Some(&reasons.join("; "))),
        text(record.and_then(|r| r.reason.as_deref())),
        match c.step {
            Step::Threads(_) => String::new(),
            Step::Rate(rate) => number(Some(rate.0)),
        },
        rate(c.offered),
        share(c.dropped_share),
        c.held.map_or_else(String::new, |h| h.to_string()),
        ms(service.avg),
        ms(service.p50),
        ms(service.p95),
        ms(service.p99),
        ms(service.p999),
        ms(service.max),
        rate(c.reads),
        rate(c.writes),
        rate(c.others),
        tally(c.done),
        tally(c.failed),
        share(c.error_share),
        tally(c.stalls as u64),
        if ran {
            number(Some(c.outage_seconds))
        } else {
            String::new()
        },
        number(c.recovery_seconds),
        share(c.cv),
        share(c.tps_se),
        number(c.littles_law),
        number(c.window.map(|w| w.start)),
        number(c.window.map(|w| w.end)),
        c.window
            .map_or_else(String::new, |w| w.intervals.to_string()),
        c.window.map_or_else(String::new, |w| w.dropped.to_string()),
        share(c.client_cpu),
        if ran {
            share(Some(c.busiest_worker))
        } else {
            String::new()
        },
        share(c.buffer_pool_hits),
        text(record.and_then(|r| r.started_at.as_deref())),
        c.kind.as_str().to_owned(),
    ]
}

/// Six significant decimals are far below the noise of any figure; fewer digits diff better.
fn number(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => {
            let text = format!("{value:.6}");
            let text = text.trim_end_matches('0').trim_end_matches('.');
            if text == "-0" {
                "0".to_owned()
            } else {
                text.to_owned()
            }
        }
        _ => String::new(),
    }
}

/// The status as `run.json` has it.
fn status(status: CellStatus) -> &'static str {
    match status {
        CellStatus::Completed => "completed",
        CellStatus::Truncated => "truncated",
        CellStatus::Failed => "failed",
        CellStatus::Stopped => "stopped",
        CellStatus::Interrupted => "interrupted",
        CellStatus::Skipped => "skipped",
    }
}
