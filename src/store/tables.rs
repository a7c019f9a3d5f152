//! The CSV files of a run folder: comma, `.` as decimal sign, one header line, empty for missing.
//! Floating-point numbers are written so that reading them gives the same number.

use std::collections::BTreeSet;

use crate::record::{CellRecord, Interval, Latency, Phase, Sample};

/// Columns of intervals.csv. Those from `tps` to `lat_p99_ms` are for people and spreadsheets; reading a run
/// back uses the others only.
pub(super) const INTERVAL_COLUMNS: [&str; 31] = [
    "cell",
    "interval",
    "phase",
    "start_s",
    "end_s",
    "done",
    "failed",
    "dropped",
    "arrivals",
    "retries",
    "reconnects",
    "reads",
    "writes",
    "others",
    "connected_s",
    "backlog",
    "lat_count",
    "lat_min_ns",
    "lat_max_ns",
    "lat_sum_ns",
    "service_count",
    "service_min_ns",
    "service_max_ns",
    "service_sum_ns",
    "tps",
    "qps",
    "lat_avg_ms",
    "lat_p50_ms",
    "lat_p95_ms",
    "lat_p99_ms",
    "errors",
];

/// Columns of errors.csv.
pub(super) const ERROR_COLUMNS: [&str; 5] = ["cell", "interval", "code", "statement", "count"];

/// First line of intervals.csv.
pub(super) fn interval_header() -> Vec<u8> {
    lines(std::iter::once(INTERVAL_COLUMNS))
}

/// A cell's rows of intervals.csv.
pub(super) fn interval_rows(cell: &CellRecord) -> Vec<u8> {
    lines(numbered(cell).map(|(n, i)| interval(cell.index, n, i)))
}

/// First line of errors.csv.
pub(super) fn error_header() -> Vec<u8> {
    lines(std::iter::once(ERROR_COLUMNS))
}

/// A cell's rows of errors.csv.
pub(super) fn error_rows(cell: &CellRecord) -> Vec<u8> {
    lines(numbered(cell).flat_map(|(n, i)| {
        i.errors.iter().map(move |e| {
            [
                cell.index.to_string(),
                n.to_string(),
                e.code.to_string(),
                guarded(&e.statement),
                e.count.to_string(),
            ]
        })
    }))
}

fn numbered(cell: &CellRecord) -> impl Iterator<Item = (usize, &Interval)> {
    (1_usize..).zip(&cell.intervals)
}

/// First line of server.csv and host.csv: one column a name.
pub(super) fn sample_header(names: &BTreeSet<String>) -> Vec<u8> {
    let fixed = ["cell", "at_s"].into_iter().map(guarded);
    let header = fixed.chain(names.iter().map(|n| guarded(n)));
    lines(std::iter::once(header.collect::<Vec<_>>()))
}

/// A cell's rows of server.csv or host.csv: one a sample.
pub(super) fn sample_rows(cell: u32, samples: &[Sample], names: &BTreeSet<String>) -> Vec<u8> {
    lines(samples.iter().map(|sample| {
        let values = names.iter().map(|name| {
            sample
                .values
                .get(name)
                .map_or_else(String::new, f64::to_string)
        });
        [cell.to_string(), sample.at.to_string()]
            .into_iter()
            .chain(values)
            .collect::<Vec<_>>()
    }))
}

fn interval(cell: u32, number: usize, i: &Interval) -> Vec<String> {
    let seconds = i.seconds();
    let rate = |count: u64| {
        if seconds > 0.0 {
            format!("{:.2}", count as f64 / seconds)
        } else {
            String::new()
        }
    };
    let mut row = vec![
        cell.to_string(),
        number.to_string(),
        match i.phase {
            Phase::Discard => "discard",
            Phase::Measure => "measure",
        }
        .to_owned(),
        i.start.to_string(),
        i.end.to_string(),
    ];
    let counts = [
        i.done,
        i.failed,
        i.dropped,
        i.arrivals,
        i.retries,
        i.reconnects,
        i.reads,
        i.writes,
        i.others,
    ];
    row.extend(counts.map(|c| c.to_string()));
    row.push(i.connected_seconds.to_string());
    row.push(i.backlog.to_string());
    row.extend(exact(Some(&i.latency)));
    row.extend(exact(i.service.as_ref()));
    row.push(rate(i.done));
    row.push(rate(i.queries()));
    let figures = [
        i.latency.mean(),
        i.latency.quantile(0.5),
        i.latency.quantile(0.95),
        i.latency.quantile(0.99),
    ];
    row.extend(figures.map(|f| f.map_or_else(String::new, |m| format!("{:.6}", m.0))));
    row.push(i.errors.iter().map(|e| e.count).sum::<u64>().to_string());
    row
}

/// Count, minimum, maximum and sum. Without a latency all are empty, without events only the two that
/// do not exist.
fn exact(latency: Option<&Latency>) -> [String; 4] {
    let text = |nanos: Option<u64>| nanos.map_or_else(String::new, |n| n.to_string());
    latency.map_or_else(Default::default, |l| {
        [
            l.count().to_string(),
            text(l.min_nanos()),
            text(l.max_nanos()),
            l.sum_nanos().to_string(),
        ]
    })
}

fn lines<R, F>(rows: impl Iterator<Item = R>) -> Vec<u8>
where
    R: IntoIterator<Item = F>,
    F: AsRef<[u8]>,
{
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        // A Vec takes every byte, and rows of one table have one length.
        let _ = writer.write_record(row);
    }
    writer.into_inner().unwrap_or_default()
}

/// Text that a spreadsheet would run as a formula gets an apostrophe in front, the convention of
/// spreadsheets themselves; [`unguarded`] takes it away again.
pub(crate) fn guarded(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\'']) {
        format!("'{text}")
    } else {
        text.to_owned()
    }
}

/// The text that [`guarded`] was given.
pub(super) fn unguarded(text: &str) -> &str {
    text.strip_prefix('\'').unwrap_or(text)
}
