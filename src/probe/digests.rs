//! Which statements took the time: `performance_schema`'s summary by digest, as the difference of two looks.

use std::collections::HashMap;

use mysql::Row;
use mysql::prelude::Queryable;

use crate::record::Digest;

/// Statements of one database that are read: those that took the most time since the server's start.
const MOST_READ: u32 = 500;
/// Statements that are kept of a cell.
const MOST_KEPT: usize = 12;
/// Characters of a statement that are kept.
const TEXT: u32 = 300;

/// One look at the summary.
#[derive(Debug, Default)]
pub struct Look(HashMap<String, Digest>);

/// Reads the summary of one database.
///
/// # Errors
/// In words, when `performance_schema` is off, counts no digests, or may not be read.
pub fn look(conn: &mut mysql::Conn, database: &str) -> Result<Look, String> {
    let missing = |why: &str| Err(format!("statement digests: {why}"));
    let words = |error: mysql::Error| match error {
        mysql::Error::MySqlError(e) => format!("statement digests: {} ({})", e.message, e.code),
        other => format!("statement digests: {other}"),
    };
    let on: Option<u8> = conn
        .query_first("SELECT @@GLOBAL.performance_schema")
        .map_err(words)?;
    if on != Some(1) {
        return missing("performance_schema is off");
    }
    let counted: Option<String> = conn
        .query_first(
            "SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = 'statements_digest'",
        )
        .map_err(words)?;
    if counted.as_deref() != Some("YES") {
        return missing("performance_schema's consumer statements_digest is off");
    }
    // "+ 0e0" makes a number of any version's type; 1e12: picoseconds.
    let rows: Vec<Row> = conn
        .exec(
            format!(
                "SELECT DIGEST, LEFT(DIGEST_TEXT, {TEXT}), COUNT_STAR + 0e0, SUM_TIMER_WAIT / 1e12, \
                 SUM_LOCK_TIME / 1e12, SUM_ROWS_EXAMINED + 0e0, SUM_ROWS_SENT + 0e0, \
                 SUM_ROWS_AFFECTED + 0e0, SUM_CREATED_TMP_TABLES + 0e0, \
                 SUM_CREATED_TMP_DISK_TABLES + 0e0, SUM_NO_INDEX_USED + 0e0, SUM_ERRORS + 0e0 \
                 FROM performance_schema.events_statements_summary_by_digest \
                 WHERE SCHEMA_NAME = ? AND DIGEST IS NOT NULL \
                 ORDER BY SUM_TIMER_WAIT DESC LIMIT {MOST_READ}"
            ),
            (database,),
        )
        .map_err(words)?;
    Ok(Look(rows.into_iter().filter_map(digest).collect()))
}

fn digest(row: Row) -> Option<(String, Digest)> {
    type Figures = (f64, f64, f64, f64, f64, f64, f64, f64, f64, f64);
    let mut row = row;
    let hash: String = row.take(0)?;
    let text: Option<String> = row.take(1)?;
    let mut number = |i: usize| row.take_opt::<f64, _>(i)?.ok();
    let figures: Figures = (
        number(2)?,
        number(3)?,
        number(4)?,
        number(5)?,
        number(6)?,
        number(7)?,
        number(8)?,
        number(9)?,
        number(10)?,
        number(11)?,
    );
    let digest = Digest {
        text: text.unwrap_or_default().trim().to_owned(),
        count: figures.0,
        seconds: figures.1,
        lock_seconds: figures.2,
        rows_examined: figures.3,
        rows_sent: figures.4,
        rows_affected: figures.5,
        tmp_tables: figures.6,
        tmp_disk_tables: figures.7,
        no_index: figures.8,
        errors: figures.9,
    };
    Some((hash, digest))
}

/// What was added between two looks, the statements with the most time first. A summary that was truncated
/// in between starts again from nothing.
pub fn between(before: &Look, after: &Look) -> Vec<Digest> {
    let mut grown: Vec<Digest> = after
        .0
        .iter()
        .map(|(hash, now)| match before.0.get(hash) {
            Some(then) if then.count <= now.count => minus(now, then),
            _ => now.clone(),
        })
        .filter(|digest| digest.count > 0.0)
        .collect();
    grown.sort_by(|a, b| {
        let by_time = b.seconds.total_cmp(&a.seconds);
        by_time.then_with(|| a.text.cmp(&b.text))
    });
    grown.truncate(MOST_KEPT);
    grown
}

fn minus(now: &Digest, then: &Digest) -> Digest {
    Digest {
        text: now.text.clone(),
        count: now.count - then.count,
        seconds: now.seconds - then.seconds,
        lock_seconds: now.lock_seconds - then.lock_seconds,
        rows_examined: now.rows_examined - then.rows_examined,
        rows_sent: now.rows_sent - then.rows_sent,
        rows_affected: now.rows_affected - then.rows_affected,
        tmp_tables: now.tmp_tables - then.tmp_tables,
        tmp_disk_tables: now.tmp_disk_tables - then.tmp_disk_tables,
        no_index: now.no_index - then.no_index,
        errors: now.errors - then.errors,
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use super::*;

    fn look(rows: &[(&str, f64, f64)]) -> Look {
        Look(
            rows.iter()
                .map(|(text, count, seconds)| {
                    let digest = Digest {
                        text: (*text).to_owned(),
                        count: *count,
                        seconds: *seconds,
                        rows_examined: 10.0 * count,
                        ..Digest::default()
                    };
                    ((*text).to_owned(), digest)
                })
                .collect(),
        )
    }

    #[test]
    fn what_grew_is_kept_by_time() {
        let before = look(&[("old", 5.0, 90.0), ("a", 10.0, 1.0), ("reset", 9.0, 9.0)]);
        let after = look(&[
            ("old", 5.0, 90.0),
            ("a", 30.0, 3.0),
            ("reset", 2.0, 0.5),
            ("new", 1.0, 7.0),
        ]);
        let found = between(&before, &after);
        let names: Vec<&str> = found.iter().map(|d| d.text.as_str()).collect();
        assert_eq!(names, ["new", "a", "reset"]);
        assert_eq!((found[1].count, found[1].rows_examined), (20.0, 200.0));
        assert_eq!(found[2].count, 2.0, "since it was truncated");
    }

    #[test]
    fn a_bounded_number_is_kept() {
        let names: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        let rows: Vec<(&str, f64, f64)> = names.iter().map(|n| (n.as_str(), 1.0, 1.0)).collect();
        assert_eq!(between(&Look::default(), &look(&rows)).len(), MOST_KEPT);
    }
}
