//! How far a replica is behind, in the words of its version.

use std::collections::BTreeMap;

use mysql::prelude::Queryable;
use mysql::{Row, Value};

use super::names::replica as n;
use super::recorder::Sampled;
use crate::record::Sample;

/// The statement, newest words first. `MySQL` 8.4 and 9 know only the first, `MySQL` before 8.0.22 and
/// `MariaDB` before 10.5 only the last; `MariaDB`'s second one shows all of several sources. \[M\]
const STATEMENTS: [&str; 3] = [
    "SHOW ALL SLAVES STATUS",
    "SHOW REPLICA STATUS",
    "SHOW SLAVE STATUS",
];
/// `ER_PARSE_ERROR`
const PARSE: u16 = 1064;

/// Reads one replica; every figure's name begins with the replica's.
pub struct Probe {
    name: String,
    conn: mysql::Conn,
    statement: Option<&'static str>,
    unavailable: Vec<String>,
}

impl Probe {
    /// Takes over a connection to the replica that is called `name`. Give it read and write time limits.
    pub fn new(name: &str, conn: mysql::Conn) -> Self {
        Self {
            name: name.to_owned(),
            conn,
            statement: None,
            unavailable: Vec::new(),
        }
    }

    fn rows(&mut self) -> Result<Vec<Row>, String> {
        if let Some(statement) = self.statement {
            return self.conn.query(statement).map_err(|e| e.to_string());
        }
        let mut refused = String::new();
        for statement in STATEMENTS {
            match self.conn.query(statement) {
                Ok(rows) => {
                    self.statement = Some(statement);
                    return Ok(rows);
                }
                Err(mysql::Error::MySqlError(error)) if error.code == PARSE => {}
                Err(mysql::Error::MySqlError(error)) => {
                    refused = format!("{} ({})", error.message, error.code);
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(refused)
    }
}

impl Sampled for Probe {
    fn sample(&mut self) -> Result<Sample, String> {
        let rows = self
            .rows()
            .map_err(|why| format!("replica {}: {why}", self.name))?;
        if rows.is_empty() {
            return Err(format!(
                "replica {}: it replicates from nobody (its replica status is empty)",
                self.name
            ));
        }
        let columns: Vec<BTreeMap<String, String>> = rows.iter().map(texts).collect();
        let values = figures(&columns)
            .into_iter()
            .map(|(figure, value)| (format!("{}.{figure}", self.name), value))
            .collect();
        Ok(Sample { at: 0.0, values })
    }

    fn unavailable(&self) -> Vec<String> {
        self.unavailable.clone()
    }
}

/// Columns by name in lower case, without those that are NULL.
fn texts(row: &Row) -> BTreeMap<String, String> {
    row.columns_ref()
        .iter()
        .enumerate()
        .filter_map(|(i, column)| {
            let text = match row.as_ref(i)? {
                Value::NULL => return None,
                Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                other => other.as_sql(true),
            };
            Some((column.name_str().to_lowercase(), text))
        })
        .collect()
}

/// The worst of all sources. A lag that the server does not know (it says NULL while a thread stands) is
/// missing, never 0.
fn figures(sources: &[BTreeMap<String, String>]) -> BTreeMap<&'static str, f64> {
    let of = |names: [&str; 2]| {
        sources
            .iter()
            .map(|row| names.iter().find_map(|name| row.get(*name)))
            .collect::<Vec<_>>()
    };
    let mut values = BTreeMap::new();
    let lags: Vec<Option<f64>> = of(["seconds_behind_source", "seconds_behind_master"])
        .into_iter()
        .map(|lag| lag.and_then(|text| text.parse().ok()))
        .collect();
    if let Some(lag) = lags.iter().flatten().copied().reduce(f64::max) {
        values.insert(n::LAG, lag);
    }
    for (figure, names) in [
        (n::IO_RUNNING, ["replica_io_running", "slave_io_running"]),
        (n::SQL_RUNNING, ["replica_sql_running", "slave_sql_running"]),
    ] {
        let running = of(names);
        if running.iter().any(Option::is_some) {
            let all = running.iter().all(|r| r.is_some_and(|r| r == "Yes"));
            values.insert(figure, f64::from(u8::from(all)));
        }
    }
    let behind = sources.iter().filter_map(bytes_behind).reduce(f64::max);
    if let Some(bytes) = behind {
        values.insert(n::BYTES, bytes);
    }
    values
}

/// Bytes of the source's binary log that were fetched and not yet executed; only within one file.
fn bytes_behind(row: &BTreeMap<String, String>) -> Option<f64> {
    let text = |names: [&str; 2]| names.iter().find_map(|name| row.get(*name));
    let number = |names: [&str; 2]| text(names)?.parse::<f64>().ok();
    let read = text(["source_log_file", "master_log_file"])?;
    let executed = text(["relay_source_log_file", "relay_master_log_file"])?;
    let read_at = number(["read_source_log_pos", "read_master_log_pos"])?;
    let executed_at = number(["exec_source_log_pos", "exec_master_log_pos"])?;
    (read == executed).then_some((read_at - executed_at).max(0.0))
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use super::*;

    fn row(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect()
    }

    #[test]
    fn both_vocabularies_are_read() {
        let new = row(&[
            ("seconds_behind_source", "12"),
            ("replica_io_running", "Yes"),
            ("replica_sql_running", "Yes"),
            ("source_log_file", "b.2"),
            ("relay_source_log_file", "b.2"),
            ("read_source_log_pos", "900"),
            ("exec_source_log_pos", "400"),
        ]);
        let old = row(&[
            ("seconds_behind_master", "12"),
            ("slave_io_running", "Yes"),
            ("slave_sql_running", "Yes"),
            ("master_log_file", "b.2"),
            ("relay_master_log_file", "b.2"),
            ("read_master_log_pos", "900"),
            ("exec_master_log_pos", "400"),
        ]);
        let found = figures(&[new]);
        assert_eq!(found, figures(&[old]));
        assert_eq!(found[n::LAG], 12.0);
        assert_eq!(found[n::BYTES], 500.0);
        assert_eq!(found[n::SQL_RUNNING], 1.0);
    }

    #[test]
    fn an_unknown_lag_is_missing_and_a_thread_that_stands_is_told() {
        let found = figures(&[row(&[
            ("replica_io_running", "Connecting"),
            ("replica_sql_running", "Yes"),
            ("source_log_file", "b.3"),
            ("relay_source_log_file", "b.2"),
        ])]);
        assert!(!found.contains_key(n::LAG) && !found.contains_key(n::BYTES));
        assert_eq!((found[n::IO_RUNNING], found[n::SQL_RUNNING]), (0.0, 1.0));
    }

    #[test]
    fn the_worst_of_several_sources_counts() {
        let source =
            |lag: &str| row(&[("seconds_behind_master", lag), ("slave_io_running", "Yes")]);
        assert_eq!(figures(&[source("3"), source("40")])[n::LAG], 40.0);
    }
}
