//! Reading a CSV table of a run folder: in parallel, and as far as it was written.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::str::FromStr;

use csv::{ErrorKind, ReaderBuilder, StringRecord};
use rayon::prelude::*;

use super::StoreError;

/// Below this size one thread is faster.
const CHUNK: usize = 256 * 1024;

/// Reads a table row by row. A last row without its end is cut off: it is dropped and said in `lost`. A
/// missing table is said as well, since a run folder always has all of them.
///
/// `one_line`: no field holds a line end, so that the rows can be shared out among threads.
pub(super) fn read<T: Send>(
    dir: &Path,
    name: &str,
    one_line: bool,
    lost: &mut Vec<String>,
    row: impl Fn(&Fields<'_>) -> Result<T, String> + Sync,
) -> Result<Vec<T>, StoreError> {
    let path = dir.join(name);
    let mut content = match fs::read(&path) {
        Ok(content) => content,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            lost.push(format!("{name}: missing"));
            return Ok(Vec::new());
        }
        Err(e) => return Err(StoreError::read(&path, e)),
    };
    if content.last().is_none_or(|&b| b != b'\n') {
        let kept = content.iter().rposition(|&b| b == b'\n');
        content.truncate(kept.map_or(0, |p| p + 1));
        let line = content.split(|&b| b == b'\n').count();
        lost.push(format!("{name}: ends within line {line}"));
    }
    let damaged = |what: String| StoreError::damaged(&path, what);
    let mut reader = ReaderBuilder::new().from_reader(content.as_slice());
    let header = reader
        .headers()
        .map_err(|e| damaged(e.to_string()))?
        .clone();
    let columns = Columns::of(&header);
    let body = usize::try_from(reader.position().byte())
        .ok()
        .and_then(|start| content.get(start..))
        .unwrap_or_default();
    let chunks = if one_line { split(body) } else { vec![body] };
    let parsed: Vec<Vec<T>> = chunks
        .par_iter()
        .map(|chunk| {
            rows(chunk, &columns, &row).map_err(|(line, what)| {
                // Where the chunk begins; counted only for the message.
                let before =
                    content.len() - body.len() + (chunk.as_ptr() as usize - body.as_ptr() as usize);
                let start = content[..before].split(|&b| b == b'\n').count() as u64;
                damaged(format!("line {}: {what}", start - 1 + line))
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(parsed.into_iter().flatten().collect())
}

/// Pieces of whole lines.
fn split(mut body: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    while body.len() > CHUNK {
        let end = body[CHUNK..]
            .iter()
            .position(|&b| b == b'\n')
            .map_or(body.len(), |p| CHUNK + p + 1);
        let (piece, rest) = body.split_at(end);
        pieces.push(piece);
        body = rest;
    }
    pieces.push(body);
    pieces
}

/// The rows of a chunk, or its line and what is wrong with it.
fn rows<T>(
    chunk: &[u8],
    columns: &Columns<'_>,
    row: &impl Fn(&Fields<'_>) -> Result<T, String>,
) -> Result<Vec<T>, (u64, String)> {
    match std::str::from_utf8(chunk) {
        Ok(text) if !text.contains(['"', '\r']) => plain_rows(text, columns, row),
        _ => quoted_rows(chunk, columns, row),
    }
}

/// Rows without quotes, as nearly all are: half the work of a run's report is to read its numbers.
fn plain_rows<T>(
    chunk: &str,
    columns: &Columns<'_>,
    row: &impl Fn(&Fields<'_>) -> Result<T, String>,
) -> Result<Vec<T>, (u64, String)> {
    let mut rows = Vec::new();
    let mut values = Vec::with_capacity(columns.names.len());
    for (line, number) in chunk.lines().zip(1..) {
        if line.is_empty() {
            continue;
        }
        values.clear();
        let mut start = 0;
        // Fields are short: looking for the next comma by bytes is faster than any search.
        for (at, _) in line.bytes().enumerate().filter(|&(_, b)| b == b',') {
            values.push(&line[start..at]);
            start = at + 1;
        }
        values.push(&line[start..]);
        rows.push(columns.read(&values, row).map_err(|what| (number, what))?);
    }
    Ok(rows)
}

/// Rows of any kind.
fn quoted_rows<T>(
    chunk: &[u8],
    columns: &Columns<'_>,
    row: &impl Fn(&Fields<'_>) -> Result<T, String>,
) -> Result<Vec<T>, (u64, String)> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(chunk);
    let mut rows = Vec::new();
    let mut record = StringRecord::new();
    loop {
        let line = reader.position().line();
        match reader.read_record(&mut record) {
            Ok(true) => {}
            Ok(false) => return Ok(rows),
            Err(e) => {
                let what = match e.kind() {
                    ErrorKind::Utf8 { .. } => "not UTF-8".to_owned(),
                    _ => e.to_string(),
                };
                return Err((line, what));
            }
        }
        let values: Vec<&str> = record.iter().collect();
        rows.push(columns.read(&values, row).map_err(|what| (line, what))?);
    }
}

/// Where each column stands.
struct Columns<'a> {
    names: Vec<&'a str>,
    positions: HashMap<&'a str, usize>,
}

impl<'a> Columns<'a> {
    fn of(header: &'a StringRecord) -> Self {
        let names: Vec<&str> = header.iter().collect();
        let positions = names.iter().enumerate().map(|(i, &n)| (n, i)).collect();
        Self { names, positions }
    }

    fn read<T>(
        &self,
        values: &[&str],
        row: &impl Fn(&Fields<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let (found, wanted) = (values.len(), self.names.len());
        if found != wanted {
            return Err(format!("{found} fields instead of {wanted}"));
        }
        row(&Fields {
            columns: self,
            values,
        })
    }
}

/// A row's fields by column name.
pub(super) struct Fields<'a> {
    columns: &'a Columns<'a>,
    values: &'a [&'a str],
}

impl<'a> Fields<'a> {
    pub(super) fn text(&self, column: &str) -> Result<&'a str, String> {
        self.columns
            .positions
            .get(column)
            .and_then(|&p| self.values.get(p).copied())
            .ok_or_else(|| format!("no column `{column}`"))
    }

    pub(super) fn get<T: FromStr>(&self, column: &str) -> Result<T, String> {
        number(column, self.text(column)?)
    }

    pub(super) fn optional<T: FromStr>(&self, column: &str) -> Result<Option<T>, String> {
        match self.text(column)? {
            "" => Ok(None),
            text => number(column, text).map(Some),
        }
    }

    /// All columns but the first `skipped`, with their values.
    pub(super) fn after(&self, skipped: usize) -> impl Iterator<Item = (&'a str, &'a str)> {
        let names = self.columns.names.iter().copied();
        names.zip(self.values.iter().copied()).skip(skipped)
    }
}

pub(super) fn number<T: FromStr>(column: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a number for `{column}`"))
}

/// As [`number`], for a figure: a whole one of up to 15 digits, as counters are, is exact without more ado.
pub(super) fn figure(column: &str, text: &str) -> Result<f64, String> {
    const EXACT_DIGITS: usize = 15;
    let mut whole = 0_u64;
    if text.is_empty() || text.len() > EXACT_DIGITS {
        return number(column, text);
    }
    for byte in text.bytes() {
        if !byte.is_ascii_digit() {
            return number(column, text);
        }
        whole = whole * 10 + u64::from(byte - b'0');
    }
    Ok(whole as f64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn table(lines: usize, damaged: Option<usize>) -> String {
        let mut text = String::from("cell,value\n");
        for line in 2..=lines {
            let value = if damaged == Some(line) { "x" } else { "7" };
            let _ = writeln!(text, "{line},{value}");
        }
        text
    }

    fn values(text: &str, lost: &mut Vec<String>) -> Result<Vec<u64>, StoreError> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("t.csv"), text).unwrap();
        read(dir.path(), "t.csv", true, lost, |field| {
            field.get::<u64>("value")?;
            field.get("cell")
        })
    }

    #[test]
    fn rows_read_in_pieces_keep_their_order_and_line() {
        let lines = 100_000;
        let text = table(lines, None);
        assert!(text.len() > 2 * CHUNK);
        let read = values(&text, &mut Vec::new()).unwrap();
        assert!(read.into_iter().eq(2..=lines as u64));
        for line in [2, 3, 50_000, lines] {
            let error = values(&table(lines, Some(line)), &mut Vec::new()).unwrap_err();
            let wanted = format!("line {line}: `x` is not a number for `value`");
            assert!(error.to_string().ends_with(&wanted), "{error}");
        }
    }

    #[test]
    fn rows_with_and_without_quotes_read_alike() {
        for text in [
            "cell,value\n1,7\n2,8\n",
            "cell,value\n1,\"7\"\n2,8\n",
            "cell,value\r\n1,7\r\n2,8\r\n",
            "cell,value\n1,7\n\n2,8\n",
        ] {
            assert_eq!(values(text, &mut Vec::new()).unwrap(), [1, 2], "{text:?}");
        }
        let bad = std::str::from_utf8(b"cell,value\n1,7\n2,x\n").unwrap();
        let error = values(bad, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("line 3: `x`"), "{error}");
    }

    #[test]
    fn figures_are_exact() {
        for text in [
            "0",
            "7",
            "007",
            "999999999999999",
            "9007199254740993",
            "1e3",
            "-1",
            "17.25",
        ] {
            assert_eq!(figure("f", text), Ok(text.parse().unwrap()), "{text}");
        }
        for text in ["", "x", "1x", "--1"] {
            assert!(figure("f", text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_cut_off_end_is_said_and_a_short_row_is_damage() {
        let mut lost = Vec::new();
        assert_eq!(values("cell,value\n1,2\n3,", &mut lost).unwrap(), [1]);
        assert_eq!(lost, ["t.csv: ends within line 3"]);
        assert!(values("", &mut lost).unwrap().is_empty());
        assert!(values("cell,val", &mut lost).unwrap().is_empty());
        let error = values("cell,value\n1,2\n3\n", &mut lost).unwrap_err();
        assert!(
            error.to_string().ends_with("line 3: 1 fields instead of 2"),
            "{error}"
        );
    }
}
