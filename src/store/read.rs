//! Reading a run back, as far as it was written.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use rayon::prelude::*;
use serde::Deserialize;

use crate::plan::Warning;
use crate::record::{
    CellRecord, CellStatus, ErrorCount, Interval, Latency, Merged, Names, Phase, Run, Sample,
    Values,
};

use super::rows::{Fields, figure};
use super::{FORMAT, StoreError, latency, rows, tables};

/// Name of the warning that a run read back carries when files of its folder end early.
pub const CUT_OFF: &str = "records-cut-off";

/// Reads a run folder. What a crash has cut off is left out and said in a warning named
/// `records-cut-off` of the run.
///
/// # Errors
/// [`StoreError::NotARun`], [`StoreError::Newer`], and files that are damaged rather than cut off.
pub fn open(dir: &Path) -> Result<Run, StoreError> {
    let mut run = manifest(dir)?;
    let mut lost = Vec::new();
    // A table ends early after a crash; only somebody's hand takes it away as a whole. A report without it
    // would say "n/a" over figures that it had.
    let intervals = dir.join("intervals.csv");
    if run.cells.iter().any(was_measured) && !intervals.exists() {
        return Err(StoreError::damaged(
            &intervals,
            "it is missing, though run.json names measured cells\nhint: put the file back; the reports in this folder are left as they are",
        ));
    }
    let evidence = &run.evidence;
    let watched = [
        ("server.csv", true),
        ("host.csv", true),
        ("server_host.csv", evidence.server_host.is_some()),
        ("replicas.csv", !evidence.replicas.is_empty()),
    ];
    // Together: nearly all of a report's time goes into reading these.
    let ((rows, errors), samples) = rayon::join(
        || {
            rayon::join(
                || Table::read(|lost| read_intervals(dir, lost)),
                || Table::read(|lost| read_errors(dir, lost)),
            )
        },
        || {
            watched
                .par_iter()
                .map(|&(name, there)| {
                    Table::read(|lost| {
                        if there {
                            read_samples(dir, name, lost)
                        } else {
                            Ok(Vec::new())
                        }
                    })
                })
                .collect::<Vec<_>>()
        },
    );
    let mut rows = rows?.cells(&mut lost);
    for (cell, rows) in &rows {
        for (row, wanted) in rows.iter().zip(1..) {
            if row.number != wanted {
                return Err(StoreError::damaged(
                    &intervals,
                    format!(
                        "cell {cell} has interval {} where {wanted} must stand: lines are missing or out of order",
                        row.number
                    ),
                ));
            }
        }
    }
    let mut errors = errors?.cells(&mut lost);
    let mut samples = samples.into_iter();
    let mut next = || match samples.next() {
        Some(table) => Ok(table?.cells(&mut lost)),
        None => Ok(BTreeMap::new()),
    };
    let (mut server, mut host) = (next()?, next()?);
    let (mut server_host, mut replicas) = (next()?, next()?);
    for cell in &mut run.cells {
        cell.evidence.server_host = server_host.remove(&cell.index).unwrap_or_default();
        cell.evidence.replicas = replicas.remove(&cell.index).unwrap_or_default();
        cell.server = server.remove(&cell.index).unwrap_or_default();
        cell.host = host.remove(&cell.index).unwrap_or_default();
    }
    let work: Vec<_> = run
        .cells
        .iter_mut()
        .filter_map(|cell| {
            let rows = rows.remove(&cell.index)?;
            Some((rows, errors.remove(&cell.index).unwrap_or_default(), cell))
        })
        .collect();
    let lost_logs: Vec<Option<String>> = work
        .into_par_iter()
        .map(|(rows, errors, cell)| assemble(dir, cell, rows, errors))
        .collect();
    lost.extend(lost_logs.into_iter().flatten());
    if !lost.is_empty() {
        run.warnings.push(Warning {
            name: CUT_OFF.to_owned(),
            text: format!(
                "the records of this run are incomplete, figures that need the lost part are missing or rest on less: {}",
                lost.join("; ")
            ),
            accepted: false,
        });
    }
    Ok(run)
}

fn was_measured(cell: &CellRecord) -> bool {
    matches!(cell.status, CellStatus::Completed | CellStatus::Truncated)
}

fn manifest(dir: &Path) -> Result<Run, StoreError> {
    #[derive(Deserialize)]
    struct Head {
        format: u64,
        #[serde(default)]
        tool: String,
    }
    let path = dir.join("run.json");
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound && dir.is_dir() => {
            return Err(StoreError::NotARun(dir.to_owned()));
        }
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(StoreError::NotAFolder(dir.to_owned()));
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(StoreError::read(dir, e)),
        Err(e) => return Err(StoreError::read(&path, e)),
    };
    // The version first: a newer manifest need not have today's fields.
    let head: Head =
        serde_json::from_slice(&text).map_err(|e| StoreError::damaged(&path, e.to_string()))?;
    if head.format > u64::from(FORMAT) {
        return Err(StoreError::Newer {
            path,
            found: head.format,
            supported: FORMAT,
            tool: if head.tool.is_empty() {
                "a later capbench".to_owned()
            } else {
                head.tool
            },
        });
    }
    serde_json::from_slice(&text).map_err(|e| StoreError::damaged(&path, e.to_string()))
}

/// An interval without its histograms, and the exact figures that belong to them.
struct Row {
    /// Its number within the cell, from 1.
    number: u32,
    interval: Interval,
    latency: Exact,
    service: Option<Exact>,
}

struct Exact {
    count: u64,
    min: u64,
    max: u64,
    sum: u128,
}

/// Puts the intervals of a cell together; what is lost, if anything.
fn assemble(
    dir: &Path,
    cell: &mut CellRecord,
    rows: Vec<Row>,
    errors: Vec<(u32, ErrorCount)>,
) -> Option<String> {
    let name = latency::file_name(cell.index);
    let (found, mut lost) = match fs::read(dir.join(&name)) {
        Ok(content) => {
            let mut found = latency::read(&content);
            let cut_off = found.cut_off.take();
            (found, cut_off.map(|why| format!("{name}: {why}")))
        }
        Err(e) => (
            latency::Histograms::default(),
            Some(format!("{name}: cannot be read ({e})")),
        ),
    };
    let mut latencies = found.latency.into_iter();
    let mut services = found.service.into_iter();
    let mut missing = 0_usize;
    let mut with = |exact: &Exact, bytes: Option<Vec<u8>>| {
        let &Exact {
            count,
            min,
            max,
            sum,
        } = exact;
        if let Some(bytes) = bytes {
            Latency::from_packed(bytes, count, min, max, sum)
        } else {
            missing += 1;
            Latency::without_histogram(count, min, max, sum)
        }
    };
    let mut intervals: Vec<Interval> = rows
        .into_iter()
        .map(|row| {
            let mut interval = row.interval;
            interval.latency = with(&row.latency, latencies.next());
            interval.service = row.service.as_ref().map(|s| with(s, services.next()));
            interval
        })
        .collect();
    if missing > 0 && lost.is_none() {
        lost = Some(format!(
            "{name}: {missing} of {} histograms are missing",
            intervals.len()
        ));
    }
    for (number, error) in errors {
        let index = (number as usize).wrapping_sub(1);
        if let Some(interval) = intervals.get_mut(index) {
            interval.errors.push(error);
        }
    }
    cell.intervals = intervals;
    cell.merged = Merged {
        latency: merged(found.measured, cell.measured().map(|i| &i.latency)),
        service: merged(
            found.measured_service,
            cell.measured().filter_map(|i| i.service.as_ref()),
        ),
    };
    lost
}

/// A histogram that was merged from `parts`, with their exact figures.
fn merged<'a>(bytes: Option<Vec<u8>>, parts: impl Iterator<Item = &'a Latency>) -> Option<Latency> {
    let (mut count, mut min, mut max, mut sum) = (0_u64, u64::MAX, 0, 0_u128);
    for part in parts {
        count = count.wrapping_add(part.count());
        min = part.min_nanos().map_or(min, |n| n.min(min));
        max = part.max_nanos().map_or(max, |n| n.max(max));
        sum = sum.wrapping_add(part.sum_nanos());
    }
    Some(Latency::from_packed(bytes?, count, min, max, sum))
}

/// A table of a run folder.
struct Table<T> {
    /// Rows by cell, in file order.
    cells: BTreeMap<u32, Vec<T>>,
    /// What of it was cut off.
    lost: Vec<String>,
}

impl<T> Table<T> {
    fn read(
        rows: impl FnOnce(&mut Vec<String>) -> Result<Vec<(u32, T)>, StoreError>,
    ) -> Result<Self, StoreError> {
        let mut lost = Vec::new();
        let mut cells: BTreeMap<u32, Vec<T>> = BTreeMap::new();
        for (cell, row) in rows(&mut lost)? {
            cells.entry(cell).or_default().push(row);
        }
        Ok(Self { cells, lost })
    }

    /// Its rows; what was cut off joins `lost`.
    fn cells(self, lost: &mut Vec<String>) -> BTreeMap<u32, Vec<T>> {
        lost.extend(self.lost);
        self.cells
    }
}

fn read_intervals(dir: &Path, lost: &mut Vec<String>) -> Result<Vec<(u32, Row)>, StoreError> {
    rows::read(dir, "intervals.csv", true, lost, |field| {
        let interval = Interval {
            start: field.get("start_s")?,
            end: field.get("end_s")?,
            phase: match field.text("phase")? {
                "discard" => Phase::Discard,
                "measure" => Phase::Measure,
                other => return Err(format!("`{other}` is not a phase")),
            },
            done: field.get("done")?,
            failed: field.get("failed")?,
            dropped: field.get("dropped")?,
            arrivals: field.get("arrivals")?,
            retries: field.get("retries")?,
            reconnects: field.get("reconnects")?,
            reads: field.get("reads")?,
            writes: field.get("writes")?,
            others: field.get("others")?,
            connected_seconds: field.get("connected_s")?,
            backlog: field.get("backlog")?,
            // Filled in from the log; a new one would allocate 16 KiB for every row of the file.
            latency: Latency::without_histogram(0, u64::MAX, 0, 0),
            service: None,
            errors: Vec::new(),
        };
        let latency = exact(field, "lat")?.ok_or("no lat_count")?;
        let service = exact(field, "service")?;
        let row = Row {
            number: field.get("interval")?,
            interval,
            latency,
            service,
        };
        Ok((field.get("cell")?, row))
    })
}

fn exact(field: &Fields<'_>, prefix: &str) -> Result<Option<Exact>, String> {
    let Some(count) = field.optional(&format!("{prefix}_count"))? else {
        return Ok(None);
    };
    Ok(Some(Exact {
        count,
        min: field
            .optional(&format!("{prefix}_min_ns"))?
            .unwrap_or(u64::MAX),
        max: field.optional(&format!("{prefix}_max_ns"))?.unwrap_or(0),
        sum: field.get(&format!("{prefix}_sum_ns"))?,
    }))
}

/// An error and the number of its interval.
type Numbered = (u32, ErrorCount);

fn read_errors(dir: &Path, lost: &mut Vec<String>) -> Result<Vec<(u32, Numbered)>, StoreError> {
    // Statement classes are text of the user's own and may hold line ends.
    rows::read(dir, "errors.csv", false, lost, |field| {
        let error = ErrorCount {
            code: field.get("code")?,
            statement: tables::unguarded(field.text("statement")?).to_owned(),
            count: field.get("count")?,
        };
        Ok((field.get("cell")?, (field.get("interval")?, error)))
    })
}

fn read_samples(
    dir: &Path,
    name: &str,
    lost: &mut Vec<String>,
) -> Result<Vec<(u32, Sample)>, StoreError> {
    let columns = OnceLock::new();
    rows::read(dir, name, true, lost, |field| {
        let (names, places) = columns
            .get_or_init(|| Names::of(field.after(2).map(|(name, _)| tables::unguarded(name))));
        let mut wrong = None;
        let values = field.after(2).map(|(name, value)| {
            if value.is_empty() {
                return None;
            }
            figure(name, value).map_err(|e| wrong = Some(e)).ok()
        });
        let values = Values::placed(names, places, values);
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let sample = Sample {
            at: field.get("at_s")?,
            values,
        };
        Ok((field.get("cell")?, sample))
    })
}
