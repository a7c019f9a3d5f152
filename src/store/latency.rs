//! One `HdrHistogram` log a cell, readable by every tool that reads such logs.
//!
//! One line an interval, in order: without a tag the latency of transactions (open loop: the response
//! time), with the tag `service` the service time of an open loop. At the end one line each, tagged `measured`
//! and `measured-service`, with all measured intervals in one. Values are nanoseconds; the exact minimum,
//! maximum and sum stand in `intervals.csv`.

use std::path::Path;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use jiff::Timestamp;

use crate::record::{CellRecord, Latency};

use super::StoreError;

const SERVICE: &str = "service";
const MEASURED: &str = "measured";
const MEASURED_SERVICE: &str = "measured-service";

/// Path of a cell's log within the run folder.
pub(super) fn file_name(index: u32) -> String {
    format!("latency/{index:04}.hlog")
}

/// The log of a cell. `path` is for messages.
pub(super) fn log(path: &Path, cell: &CellRecord) -> Result<Vec<u8>, StoreError> {
    let failed = |e: String| StoreError::write(path, std::io::Error::other(e));
    let mut text = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut head = IntervalLogWriterBuilder::new();
    head.add_comment("[Histogram log format version 1.3]");
    // Names come from the plan; a control character in one must not start a line of its own.
    head.add_comment(
        &format!(
            "capbench cell {}: variant {}, workload {}, {}, repeat {}; values in ns; no tag: transactions, service: without the wait for a client",
            cell.index, cell.variant, cell.workload, cell.step, cell.repeat
        )
        .replace(char::is_control, " "),
    );
    if let Some(start) = cell.started_at.as_deref().and_then(system_time) {
        head.with_start_time(start).with_base_time(start);
    }
    let mut writer = head
        .begin_log_with(&mut text, &mut serializer)
        .map_err(|e| failed(e.to_string()))?;
    let mut write = |latency: &Latency, from: f64, to: f64, tag: Option<&str>| {
        let start = Duration::try_from_secs_f64(from).unwrap_or_default();
        let length = Duration::try_from_secs_f64(to - from).unwrap_or_default();
        writer
            .write_histogram(&*latency.histogram(), start, length, tag.and_then(Tag::new))
            .map_err(|e| failed(e.to_string()))
    };
    for interval in &cell.intervals {
        write(&interval.latency, interval.start, interval.end, None)?;
        if let Some(service) = &interval.service {
            write(service, interval.start, interval.end, Some(SERVICE))?;
        }
    }
    let ends = cell.measured().next().zip(cell.measured().last());
    if let Some((first, last)) = ends {
        let (latencies, services) = (
            cell.measured().map(|i| &i.latency),
            cell.measured().filter_map(|i| i.service.as_ref()),
        );
        write(&merge(latencies), first.start, last.end, Some(MEASURED))?;
        if first.service.is_some() {
            write(
                &merge(services),
                first.start,
                last.end,
                Some(MEASURED_SERVICE),
            )?;
        }
    }
    Ok(text)
}

fn merge<'a>(latencies: impl Iterator<Item = &'a Latency>) -> Latency {
    let mut all = Latency::new();
    for latency in latencies {
        all.merge(latency);
    }
    all
}

fn system_time(rfc3339: &str) -> Option<SystemTime> {
    rfc3339.parse::<Timestamp>().ok()?.try_into().ok()
}

/// The histograms of a log in order, each in the V2 format.
#[derive(Debug, Default)]
pub(super) struct Histograms {
    /// Without a tag.
    pub(super) latency: Vec<Vec<u8>>,
    /// With the tag `service`.
    pub(super) service: Vec<Vec<u8>>,
    /// With the tag `measured`.
    pub(super) measured: Option<Vec<u8>>,
    /// With the tag `measured-service`.
    pub(super) measured_service: Option<Vec<u8>>,
    /// Why reading ended before the end of the file.
    pub(super) cut_off: Option<String>,
}

/// Reads a log as far as it goes.
pub(super) fn read(content: &[u8]) -> Histograms {
    let mut found = Histograms::default();
    for (number, entry) in (1_u32..).zip(IntervalLogIterator::new(content)) {
        let entry = match entry {
            Ok(LogEntry::Interval(entry)) => entry,
            Ok(_) => continue,
            Err(_) => {
                found.cut_off = Some(format!("entry {number} is incomplete"));
                break;
            }
        };
        let bytes = base64::engine::general_purpose::STANDARD.decode(entry.encoded_histogram());
        match bytes {
            Ok(bytes) => match entry.tag().map(|t| t.as_str()) {
                Some(SERVICE) => found.service.push(bytes),
                Some(MEASURED) => found.measured = Some(bytes),
                Some(MEASURED_SERVICE) => found.measured_service = Some(bytes),
                _ => found.latency.push(bytes),
            },
            Err(e) => {
                found.cut_off = Some(format!("entry {number} cannot be decoded ({e})"));
                break;
            }
        }
    }
    found
}
