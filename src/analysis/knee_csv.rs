//! The core of `capbench knee FILE.csv`: a ladder from a CSV text, and the answer as JSON and text.

use std::fmt::Write as _;

use super::findings::Limit;
use super::knee::{Knee, KneeKind, LadderPoint};
use super::limit;
use crate::plan::{Criteria, Step};
use crate::units::{Millis, PerSecond};

/// Why a CSV text is no ladder.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CsvError {
    /// Not a line of data.
    #[error("the file holds no data\nhint: first line: threads,tps; then one line a step")]
    Empty,
    /// A column that is needed.
    #[error(
        "no column `{wanted}` among {found}\nhint: columns are threads, tps or qps, and optionally avg_ms, p95_ms, p99_ms"
    )]
    Column {
        /// The missing one.
        wanted: &'static str,
        /// Those that there are.
        found: String,
    },
    /// A column that stands twice.
    #[error("column `{0}` stands twice\nhint: keep one of them")]
    Twice(String),
    /// A cell that is no number.
    #[error("line {line}: {column} is `{value}`, {problem}")]
    Number {
        /// Line of the file, from 1.
        line: u64,
        /// Column name.
        column: &'static str,
        /// What stands there.
        value: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// More fields than the header has columns.
    #[error(
        "line {line}: {found} fields under {wanted} columns, so it is not clear which number is which\nhint: write 1234.5, without a decimal comma or thousands separators"
    )]
    TooMany {
        /// Line of the file, from 1.
        line: u64,
        /// Fields of the line.
        found: usize,
        /// Columns of the header.
        wanted: usize,
    },
    /// Rows of more than one ladder.
    #[error(
        "rows of {} {column}s ({}), but a knee is that of one ladder\nhint: keep the header and the rows of one {column}, in a file of their own",
        .values.len(),
        .values.join(", ")
    )]
    Several {
        /// `workload` or `variant`.
        column: &'static str,
        /// Its values, in the order of the file.
        values: Vec<String>,
    },
    /// A line that is no CSV.
    #[error("line {line}: {problem}")]
    Line {
        /// Line of the file, from 1.
        line: u64,
        /// The CSV reader's words.
        problem: String,
    },
}

/// A ladder as a file holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct CsvLadder {
    /// Its points, ascending; repeats are still apart.
    pub points: Vec<LadderPoint>,
    /// Which rows were left out and why.
    pub notes: Vec<String>,
}

/// Where the columns are.
struct Columns {
    threads: usize,
    throughput: Throughput,
    avg: Option<usize>,
    p95: Option<usize>,
    p99: Option<usize>,
    /// Columns of the cells.csv of a run folder.
    workload: Option<usize>,
    variant: Option<usize>,
    validity: Option<usize>,
    status: Option<usize>,
    kind: Option<usize>,
}

/// One of both for all rows, never a mix.
struct Throughput {
    tps: Option<usize>,
    qps: Option<usize>,
}

/// Reads a ladder. Header names in any order and case; spaces, a byte-order mark, blank lines and lines
/// that start with `#` do not matter; `,`, `;` or tab separates; an empty latency is unknown. Rows may
/// come in any order, and a step may stand several times: the knee averages repeats. Throughput is
/// `tps`, or `qps` when more rows have that; a row without is `NaN`, which the knee leaves out and says.
///
/// The cells.csv of a run folder is read too, when it holds one ladder: rows whose `validity` is `invalid`,
/// whose `status` says that the cell did not run to its end, or whose `kind` is `soak` or `reference`, are left
/// out and noted.
///
/// # Errors
/// What is wrong, with line and column.
pub fn read(text: &str) -> Result<CsvLadder, CsvError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // The reader counts a line from the end of the one before, comments included, so the lines that
    // matter are picked here, with their numbers.
    let (numbers, lines): (Vec<u64>, Vec<&str>) = (1..)
        .zip(text.lines())
        .filter(|(_, line)| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#')
        })
        .unzip();
    let kept = lines.join("\n");
    let number = |position: Option<&csv::Position>| {
        position
            .and_then(|p| usize::try_from(p.line()).ok()?.checked_sub(1))
            .and_then(|i| numbers.get(i).copied())
            .unwrap_or(0)
    };
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .delimiter(delimiter(&kept))
        .from_reader(kept.as_bytes());
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| CsvError::Line {
            line: number(error.position()),
            problem: error.to_string(),
        })?;
        if record.iter().any(|cell| !cell.is_empty()) {
            rows.push((number(record.position()), record));
        }
    }
    let Some((header, rows)) = rows.split_first() else {
        return Err(CsvError::Empty);
    };
    let header = &header.1;
    let columns = columns(header)?;
    if rows.is_empty() {
        return Err(CsvError::Empty);
    }
    let mut notes = Vec::new();
    let mut used = Vec::with_capacity(rows.len());
    for (line, row) in rows {
        if row.iter().skip(header.len()).any(|cell| !cell.is_empty()) {
            return Err(CsvError::TooMany {
                line: *line,
                found: row.len(),
                wanted: header.len(),
            });
        }
        match unusable(row, &columns) {
            Some(why) => {
                let threads = row.get(columns.threads).unwrap_or_default();
                notes.push(format!("line {line} (threads {threads}) left out: {why}"));
            }
            None => used.push((*line, row.clone())),
        }
    }
    let rows = used.as_slice();
    one_ladder(rows, &columns)?;
    let (throughput, name) = choose_throughput(&columns, rows, header)?;
    let mut points: Vec<LadderPoint> = rows
        .iter()
        .map(|(line, row)| point(*line, row, &columns, throughput, name))
        .collect::<Result<_, _>>()?;
    points.sort_by_key(|p| p.threads);
    Ok(CsvLadder { points, notes })
}

/// Why a row enters no fit; `None`: it does.
fn unusable(row: &csv::StringRecord, columns: &Columns) -> Option<String> {
    /// Cells that did not run to their end, see the status column of cells.csv.
    const CUT_SHORT: [&str; 4] = ["failed", "stopped", "interrupted", "skipped"];
    let cell = |column: Option<usize>| column.and_then(|c| row.get(c)).unwrap_or_default();
    let (validity, status) = (cell(columns.validity), cell(columns.status));
    // Longer, or measured at another moment: no point of the ladder.
    let kind = cell(columns.kind);
    if ["soak", "reference"]
        .iter()
        .any(|other| kind.eq_ignore_ascii_case(other))
    {
        return Some(format!("it is a {kind} cell"));
    }
    if validity.eq_ignore_ascii_case("invalid") {
        return Some("its validity is `invalid`".to_owned());
    }
    CUT_SHORT
        .iter()
        .any(|cut| status.eq_ignore_ascii_case(cut))
        .then(|| format!("its status is `{status}`"))
}

/// Steps of two workloads or variants are no repeats of each other: their mean would mean nothing.
fn one_ladder(rows: &[(u64, csv::StringRecord)], columns: &Columns) -> Result<(), CsvError> {
    for (column, at) in [("workload", columns.workload), ("variant", columns.variant)] {
        let mut values: Vec<String> = Vec::new();
        for value in rows.iter().filter_map(|(_, row)| row.get(at?)) {
            if !value.is_empty() && values.iter().all(|known| known != value) {
                values.push(value.to_owned());
            }
        }
        if values.len() > 1 {
            return Err(CsvError::Several { column, values });
        }
    }
    Ok(())
}

/// The separator that the header uses most.
fn delimiter(text: &str) -> u8 {
    let header = text.lines().next().unwrap_or_default();
    let count = |separator: char| header.matches(separator).count();
    // Later ones win ties, so the comma stands last.
    [('\t', b'\t'), (';', b';'), (',', b',')]
        .into_iter()
        .max_by_key(|(separator, _)| count(*separator))
        .map_or(b',', |(_, byte)| byte)
}

fn columns(header: &csv::StringRecord) -> Result<Columns, CsvError> {
    let find = |names: &[&str]| -> Result<Option<usize>, CsvError> {
        let mut found = None;
        for (i, cell) in header.iter().enumerate() {
            if names.iter().any(|name| cell.eq_ignore_ascii_case(name))
                && found.replace(i).is_some()
            {
                return Err(CsvError::Twice(cell.to_owned()));
            }
        }
        Ok(found)
    };
    let listed = || {
        let names: Vec<String> = header.iter().map(|cell| format!("`{cell}`")).collect();
        names.join(", ")
    };
    Ok(Columns {
        threads: find(&["threads"])?.ok_or_else(|| CsvError::Column {
            wanted: "threads",
            found: listed(),
        })?,
        throughput: Throughput {
            tps: find(&["tps"])?,
            qps: find(&["qps"])?,
        },
        // cells.csv of a run folder calls them lat_….
        avg: find(&["avg_ms", "lat_avg_ms"])?,
        p95: find(&["p95_ms", "lat_p95_ms"])?,
        p99: find(&["p99_ms", "lat_p99_ms"])?,
        workload: find(&["workload"])?,
        variant: find(&["variant"])?,
        validity: find(&["validity"])?,
        kind: find(&["kind"])?,
        status: find(&["status"])?,
    })
}

fn choose_throughput(
    columns: &Columns,
    rows: &[(u64, csv::StringRecord)],
    header: &csv::StringRecord,
) -> Result<(usize, &'static str), CsvError> {
    let filled = |column: usize| {
        rows.iter()
            .filter(|(_, row)| row.get(column).is_some_and(|cell| !cell.is_empty()))
            .count()
    };
    match (columns.throughput.tps, columns.throughput.qps) {
        (None, None) => Err(CsvError::Column {
            wanted: "tps",
            found: header
                .iter()
                .map(|cell| format!("`{cell}`"))
                .collect::<Vec<_>>()
                .join(", "),
        }),
        (Some(tps), Some(qps)) if filled(tps) < filled(qps) => Ok((qps, "qps")),
        (Some(tps), _) => Ok((tps, "tps")),
        (None, Some(qps)) => Ok((qps, "qps")),
    }
}

fn point(
    line: u64,
    row: &csv::StringRecord,
    columns: &Columns,
    throughput: usize,
    name: &'static str,
) -> Result<LadderPoint, CsvError> {
    let complain = |column, value: &str, problem| CsvError::Number {
        line,
        column,
        value: value.to_owned(),
        problem,
    };
    let cell = |column: usize| row.get(column).unwrap_or_default();
    let threads = cell(columns.threads);
    let count: u32 = threads
        .parse()
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| complain("threads", threads, "not a whole number of at least 1"))?;
    let rate = cell(throughput);
    // A step that failed has no throughput: the knee leaves it out, and says so.
    let tps: f64 = if rate.is_empty() {
        f64::NAN
    } else {
        rate.parse()
            .ok()
            .filter(|x: &f64| x.is_finite() && *x >= 0.0)
            .ok_or_else(|| complain(name, rate, "not a number of at least 0"))?
    };
    let latency = |column: Option<usize>, name| -> Result<Option<Millis>, CsvError> {
        let Some(text) = column.map(cell).filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        text.parse()
            .ok()
            .filter(|x: &f64| x.is_finite() && *x >= 0.0)
            .map(|x| Some(Millis(x)))
            .ok_or_else(|| complain(name, text, "not a number of at least 0"))
    };
    Ok(LadderPoint {
        threads: count,
        tps: PerSecond(tps),
        avg: latency(columns.avg, "avg_ms")?,
        p95: latency(columns.p95, "p95_ms")?,
        p99: latency(columns.p99, "p99_ms")?,
        se: None,
    })
}

/// The limit that a ladder alone supports, without criteria.
pub fn limit_of(knee: &Knee) -> Limit {
    limit::recommend(knee, &Criteria::default())
}

/// The answer as one JSON object with exactly the keys `knee_threads`, `kind`, `confidence`, `range`
/// and `recommended_threads`. `knee_threads` and `range` are null for an insufficient ladder.
pub fn knee_json(knee: &Knee) -> serde_json::Value {
    let known = knee.kind != KneeKind::Insufficient;
    serde_json::json!({
        "knee_threads": knee.threads.filter(|_| known),
        "kind": knee.kind.as_str(),
        "confidence": knee.confidence.as_str(),
        "range": knee.range.filter(|_| known).map(|(low, high)| [low, high]),
        "recommended_threads": limit_of(knee).threads,
    })
}

/// The answer for people, several lines.
pub fn knee_text(knee: &Knee) -> String {
    let limit = limit_of(knee);
    let mut text = knee.statement();
    text.push('\n');
    match limit.threads {
        Some(threads) => {
            let _ = writeln!(
                text,
                "Recommended limit: {} ({}).",
                Step::Threads(threads),
                limit.why
            );
            if let Some(planning) = limit.planning {
                let _ = writeln!(text, "Throughput to plan with: {planning}.");
            }
        }
        None => {
            let _ = writeln!(text, "Recommended limit: none ({}).", limit.why);
        }
    }
    if !limit.refine.is_empty() {
        let steps: Vec<String> = limit.refine.iter().map(u32::to_string).collect();
        // Between two steps there are never fewer than 2 threads.
        let _ = writeln!(text, "To refine, run {} threads.", steps.join(" and "));
    }
    for note in &knee.notes {
        let _ = writeln!(text, "Note: {note}.");
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
mod tests {
    use super::super::knee::{DEFAULT_GAIN, from_points};
    use super::*;

    #[test]
    fn untidy_files_are_read() {
        let text = "\u{feff}# a ladder\n P95_ms , QPS, Threads \n\n, 2000 ,16\n12.5,1000,8\n# done\n30,2100,32\n,,\n";
        let points = read(text).unwrap().points;
        assert_eq!(
            points.iter().map(|p| p.threads).collect::<Vec<_>>(),
            [8, 16, 32]
        );
        assert_eq!(points[0].p95, Some(Millis(12.5)));
        assert_eq!(points[1].p95, None, "empty is unknown, not 0");
        assert_eq!(points[1].tps, PerSecond(2000.0));
        assert_eq!(read("threads;tps\n1;2.5\n").unwrap().points[0].tps.0, 2.5);
        assert_eq!(read("threads\ttps\r\n1\t2\r\n").unwrap().points.len(), 1);
    }

    #[test]
    fn tps_is_preferred_and_never_mixed_with_qps() {
        let both = read("threads,tps,qps\n8,100,2000\n16,190,3800\n")
            .unwrap()
            .points;
        assert_eq!(both[0].tps.0, 100.0);
        let gaps = read("threads,tps,qps\n8,,2000\n16,190,3800\n")
            .unwrap()
            .points;
        assert_eq!(
            gaps.iter().map(|p| p.tps.0).collect::<Vec<_>>(),
            [2000.0, 3800.0]
        );
    }

    #[test]
    fn problems_name_the_line() {
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert!(message("").contains("no data"));
        assert!(message("threads,tps\n").contains("no data"));
        assert!(message("n,tps\n1,2\n").contains("no column `threads` among `n`, `tps`"));
        assert!(message("threads,x\n1,2\n").contains("no column `tps`"));
        assert!(message("threads,tps,TPS\n1,2,3\n").contains("twice"));
        assert!(
            message("# c\nthreads,tps\n8,100\n\nsixteen,200\n")
                .starts_with("line 5: threads is `sixteen`")
        );
        assert!(message("threads,tps\n8,fast\n").starts_with("line 2: tps is `fast`"));
        assert!(message("threads,tps\n8,NaN\n").starts_with("line 2: tps is `NaN`"));
        assert!(message("threads,tps\n8,-3\n").contains("`-3`"));
        assert!(message("threads,tps\n0,5\n").contains("at least 1"));
        assert!(message("threads,tps,p95_ms\n1,5,slow\n").contains("p95_ms is `slow`"));
        // Thousands separators and decimal commas, the most usual of all faults.
        assert!(message("threads,tps\n8,500\n16,1,234\n").starts_with("line 3: 3 fields under 2"));
        assert_eq!(read("threads,tps\n8,500,\n").unwrap().points.len(), 1);
    }

    #[test]
    fn a_step_without_throughput_is_left_out_and_said() {
        let points = read("threads,tps\n8,500\n16,950\n32,1800\n64,1850\n128,\n256\n")
            .unwrap()
            .points;
        let knee = from_points(&points, DEFAULT_GAIN);
        assert_eq!(knee.points.len(), 4);
        assert_eq!(
            knee.notes,
            [
                "step of 128 threads left out: no throughput",
                "step of 256 threads left out: no throughput"
            ]
        );
    }

    #[test]
    fn a_row_that_is_invalid_or_cut_short_is_left_out_and_said() {
        let read = read(
            "threads,tps,validity,status\n8,500,valid,completed\n16,9000,invalid,completed\n\
             16,950,suspect,truncated\n32,1800,valid,completed\n64,7000,,interrupted\n",
        )
        .unwrap();
        assert_eq!(
            read.points
                .iter()
                .map(|p| (p.threads, p.tps.0))
                .collect::<Vec<_>>(),
            [(8, 500.0), (16, 950.0), (32, 1800.0)]
        );
        assert_eq!(
            read.notes,
            [
                "line 3 (threads 16) left out: its validity is `invalid`",
                "line 6 (threads 64) left out: its status is `interrupted`"
            ]
        );
    }

    #[test]
    fn ladders_are_never_mixed() {
        let message = |text: &str| read(text).unwrap_err().to_string();
        let two = message("workload,threads,tps\nrw,8,500\nro,8,900\nrw,16,950\n");
        assert!(
            two.starts_with("rows of 2 workloads (rw, ro), but a knee"),
            "{two}"
        );
        assert!(two.contains("hint: keep the header and the rows of one workload"));
        let variants = message("variant,threads,tps\na,8,500\nb,8,900\n");
        assert!(variants.contains("variants (a, b)"), "{variants}");
        let one = "workload,variant,validity,threads,tps\nrw,a,valid,8,500\nro,a,invalid,8,9\n";
        assert_eq!(
            read(one).unwrap().points.len(),
            1,
            "invalid rows do not count"
        );
    }

    #[test]
    fn json_has_exactly_the_promised_keys() {
        let points = read("threads,tps\n8,500\n16,950\n32,1800\n64,1850\n128,1840\n")
            .unwrap()
            .points;
        let json = knee_json(&from_points(&points, DEFAULT_GAIN));
        assert_eq!(
            json.to_string(),
            r#"{"knee_threads":32,"kind":"plateau","confidence":"high","range":[32,32],"recommended_threads":32}"#
        );
        let few = knee_json(&from_points(&points[..2], DEFAULT_GAIN));
        assert_eq!(
            few.to_string(),
            r#"{"knee_threads":null,"kind":"insufficient","confidence":"low","range":null,"recommended_threads":null}"#
        );
    }

    #[test]
    fn text_tells_the_answer_and_what_was_averaged() {
        let points = read("threads,tps\n8,500\n8,510\n16,950\n32,1800\n64,1850\n")
            .unwrap()
            .points;
        let text = knee_text(&from_points(&points, DEFAULT_GAIN));
        assert!(text.starts_with("Knee 32 threads (plateau, high"), "{text}");
        assert!(text.contains("Recommended limit: 32 threads"));
        assert!(text.contains("2 points of 8 threads averaged"));
    }
}
