//! Waiting until a server has done the work that loading or putting back its data has left behind: what it
//! still does then would be part of the first steps of one variant and not of another's.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable as _;

use super::change::Change;
use super::hooks::Unattended;
use super::journal::Journal;
use super::server::Server;
use super::{TargetError, tree};
use crate::plan::{Setting, SettingValue};
use crate::record::SettleStep;

/// Pause between two looks.
const POLL: Duration = Duration::from_millis(100);
/// Share of the buffer pool's pages that may be dirty [H]: what is left is written within a second.
const DIRTY_SHARE: f64 = 0.01;
/// In a small pool as many may be dirty whatever their share [H]: the server's own tables, counters and statistics.
const DIRTY_PAGES: f64 = 64.0;
/// Undo logs that may wait for purge [H]: an idle server with MariaDB's and MySQL's defaults keeps some of them
/// until more come.
const HISTORY: f64 = 1000.0;
/// Seconds that a replica may be behind: it counts in whole ones.
const LAG: f64 = 0.0;

/// Share of dirty pages above which the server flushes by itself, the lower one first: on the way back it must
/// not be above the other.
pub(super) const DIRTY_LIMITS: [&str; 2] = [
    "innodb_max_dirty_pages_pct_lwm",
    "innodb_max_dirty_pages_pct",
];

/// Whether a server follows another.
enum Replica {
    /// It does not, or the account may not see it.
    No,
    /// It does not apply changes now.
    Stopped,
    /// It applies them, and is so many seconds behind.
    Behind(f64),
}

/// What a look at the server found.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Look {
    value: Option<f64>,
    limit: f64,
}

impl Look {
    fn settled(self) -> bool {
        self.value.is_none_or(|value| value <= self.limit)
    }
}

impl Server {
    /// Waits for the buffer pool's own loading, dirty pages, the history list and, on a replica, for its lag;
    /// each for at most `limit`. The files of a private server are then on the disk and out of the page cache.
    ///
    /// Dirty pages are brought down by lowering the share above which the server flushes, journalled and put
    /// back at once. What cannot be read is not waited for; there is no way to have the change buffer merged
    /// but a slow shutdown, and the servers that still have one merge it as pages are read.
    ///
    /// # Errors
    /// The server does not answer; the share of dirty pages could not be put back; the user's wish to end.
    pub fn settle(
        &mut self,
        limit: Duration,
        journal: &mut Journal,
    ) -> Result<Vec<SettleStep>, TargetError> {
        if limit.is_zero() {
            return Ok(Vec::new());
        }
        let mut steps = Vec::new();
        let loading = self.wait_for("buffer pool load", limit, Self::pool_load)?;
        // A server that loads nothing has nothing to say.
        steps.extend(loading.filter(|step| step.before.is_some_and(|pages| pages > 0.0)));
        steps.extend(self.flush(limit, journal)?);
        steps.extend(self.wait_for("history list", limit, Self::history)?);
        if self.private.is_none() {
            steps.extend(self.catch_up(limit)?);
        }
        steps.extend(self.empty_page_cache());
        Ok(steps)
    }

    /// Looks again and again; `None`: there is nothing to look at.
    fn wait_for(
        &mut self,
        name: &str,
        limit: Duration,
        mut look: impl FnMut(&mut Self) -> Result<Look, TargetError>,
    ) -> Result<Option<SettleStep>, TargetError> {
        let first = look(self)?;
        if first.value.is_none() {
            return Ok(None);
        }
        let started = Instant::now();
        let mut last = first;
        while !last.settled() && started.elapsed() < limit {
            if self.wish().raised() {
                return Err(TargetError::Interrupted);
            }
            std::thread::sleep(POLL);
            last = look(self)?;
        }
        Ok(Some(SettleStep {
            name: name.to_owned(),
            before: first.value,
            after: last.value,
            limit: Some(last.limit),
            seconds: started.elapsed().as_secs_f64(),
            timed_out: !last.settled(),
            note: None,
        }))
    }

    /// Brings the dirty pages down.
    fn flush(
        &mut self,
        limit: Duration,
        journal: &mut Journal,
    ) -> Result<Option<SettleStep>, TargetError> {
        let before = self.dirty()?;
        if before.settled() {
            return self.wait_for("dirty pages", limit, Self::dirty);
        }
        let mut lowered = Vec::new();
        let mut refused = None;
        for name in DIRTY_LIMITS {
            let zero = Setting {
                name: name.to_owned(),
                value: SettingValue::Integer(0),
            };
            match self.set_global(&zero, journal) {
                Ok(change) => lowered.push(change),
                // No right to, or no such variable: the server goes by its own limits then.
                Err(error) if error.is_refusal() => refused = Some(error.to_string()),
                Err(error) => {
                    self.raise_again(lowered, journal)?;
                    return Err(error);
                }
            }
        }
        let waited = if lowered.is_empty() {
            // It would not come down however long one waits.
            self.wait_for("dirty pages", Duration::ZERO, Self::dirty)
        } else {
            self.wait_for("dirty pages", limit, Self::dirty)
        };
        let raised = self.raise_again(lowered, journal);
        let mut step = waited?;
        raised?;
        if let (Some(step), Some(why)) = (&mut step, refused) {
            step.note = Some(format!("the server's limits could not be lowered: {why}"));
        }
        Ok(step)
    }

    /// Puts the limits back, the last one first. What fails stays to be undone at the end of the run.
    fn raise_again(
        &mut self,
        lowered: Vec<Change>,
        journal: &mut Journal,
    ) -> Result<(), TargetError> {
        let mut failed = Vec::new();
        for change in lowered.into_iter().rev() {
            match self.undo_one(&change, &Unattended) {
                Ok(()) => journal.undone(change.seq)?,
                Err(error) => {
                    failed.push(format!("{}: {error}", change.name));
                    self.run_changes.push(change);
                }
            }
        }
        if failed.is_empty() {
            Ok(())
        } else {
            Err(TargetError::Restore(failed))
        }
    }

    /// Pages that the buffer pool still loads by itself after a start; `None`: it does not.
    fn pool_load(&mut self) -> Result<Look, TargetError> {
        let status = self.status("Innodb_buffer_pool_load_status")?;
        let words = status.values().next().map_or("", String::as_str);
        Ok(Look {
            value: Some(pages_to_load(words)),
            limit: 0.0,
        })
    }

    fn dirty(&mut self) -> Result<Look, TargetError> {
        let status = self.status("Innodb_buffer_pool_pages_%")?;
        let number = |name: &str| status.get(name).and_then(|v| v.parse::<f64>().ok());
        let total = number("innodb_buffer_pool_pages_total").unwrap_or(0.0);
        Ok(Look {
            value: number("innodb_buffer_pool_pages_dirty"),
            limit: (total * DIRTY_SHARE).max(DIRTY_PAGES).floor(),
        })
    }

    fn history(&mut self) -> Result<Look, TargetError> {
        let status = self.status("Innodb_history_list_length")?;
        let mut value = status.values().next().and_then(|v| v.parse().ok());
        if value.is_none() {
            let metric = self.control.value(
                "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'",
            );
            value = match metric {
                Ok(text) => text.and_then(|v| v.parse().ok()),
                // Without the PROCESS privilege.
                Err(error) if error.code().is_some() => None,
                Err(error) => return Err(error),
            };
        }
        Ok(Look {
            value,
            limit: HISTORY,
        })
    }

    /// Waits for a replica to have applied what it has received.
    fn catch_up(&mut self, limit: Duration) -> Result<Option<SettleStep>, TargetError> {
        if matches!(self.replica()?, Replica::No) {
            return Ok(None);
        }
        let step = self.wait_for("replica lag, s", limit, |server| {
            Ok(Look {
                value: match server.replica()? {
                    Replica::Behind(seconds) => Some(seconds),
                    Replica::No | Replica::Stopped => None,
                },
                limit: LAG,
            })
        })?;
        Ok(step.or_else(|| {
            Some(SettleStep {
                name: "replica lag, s".to_owned(),
                before: None,
                after: None,
                limit: Some(LAG),
                seconds: 0.0,
                timed_out: false,
                note: Some("this replica does not apply changes now".to_owned()),
            })
        }))
    }

    /// How far this server is behind its source.
    fn replica(&mut self) -> Result<Replica, TargetError> {
        for (sql, column) in [
            ("SHOW REPLICA STATUS", "Seconds_Behind_Source"),
            ("SHOW SLAVE STATUS", "Seconds_Behind_Master"),
        ] {
            let rows: Vec<mysql::Row> = match self.control.conn()?.ask(|conn| conn.query(sql)) {
                Ok(rows) => rows,
                // Not known to this server, or not allowed.
                Err(mysql::Error::MySqlError(_)) => continue,
                Err(error) => return Err(TargetError::statement(sql, &error)),
            };
            let behind = |row: &mysql::Row| {
                // MariaDB answers the new statement with the old names.
                let names = [column, "Seconds_Behind_Master"];
                let at = row
                    .columns_ref()
                    .iter()
                    .position(|c| names.contains(&c.name_str().as_ref()))?;
                match row.as_ref(at)? {
                    mysql::Value::Bytes(text) => std::str::from_utf8(text).ok()?.parse().ok(),
                    mysql::Value::Int(n) => Some(*n as f64),
                    mysql::Value::UInt(n) => Some(*n as f64),
                    _ => None,
                }
            };
            // Of several sources the one that is farthest behind counts; one that is not followed counts most.
            let lags: Option<Vec<f64>> = rows.iter().map(behind).collect();
            return Ok(match lags {
                Some(lags) => lags
                    .into_iter()
                    .reduce(f64::max)
                    .map_or(Replica::No, Replica::Behind),
                None => Replica::Stopped,
            });
        }
        Ok(Replica::No)
    }

    /// The files of a private server go to the disk and out of the page cache: a load or a copy has filled it,
    /// and a server that reads through it would never see the disk.
    fn empty_page_cache(&mut self) -> Option<SettleStep> {
        let datadir = self.datadir()?;
        let started = Instant::now();
        let done = tree::write_back(&datadir).and_then(|()| tree::drop_from_page_cache(&datadir));
        Some(SettleStep {
            name: "page cache".to_owned(),
            before: None,
            after: None,
            limit: None,
            seconds: started.elapsed().as_secs_f64(),
            timed_out: false,
            note: Some(match done {
                Ok(()) => {
                    "the data's files are on the disk and no longer in the page cache".to_owned()
                }
                // A temporary file that the server has just removed, say.
                Err(error) => format!(
                    "not all of the data's files could be dropped from the page cache: {error}"
                ),
            }),
        })
    }

    /// Status variables by pattern, names in lower case.
    fn status(&mut self, pattern: &str) -> Result<BTreeMap<String, String>, TargetError> {
        let sql = format!("SHOW GLOBAL STATUS LIKE '{pattern}'");
        Ok(self
            .control
            .pairs(&sql)?
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect())
    }
}

/// How many pages are still to be loaded, in the words of `Innodb_buffer_pool_load_status`: `Loaded 512/8191
/// pages` while it goes on, `Buffer pool(s) load completed at …` and others when it does not.
fn pages_to_load(words: &str) -> f64 {
    let Some(counts) = words
        .strip_prefix("Loaded ")
        .and_then(|rest| rest.split_whitespace().next())
    else {
        // `Loading buffer pool(s) from …`: it has just begun.
        return f64::from(u8::from(words.starts_with("Loading buffer pool(s) from")));
    };
    let numbers = counts
        .split_once('/')
        .and_then(|(done, all)| Some((done.parse::<f64>().ok()?, all.parse::<f64>().ok()?)));
    numbers.map_or(0.0, |(done, all)| (all - done).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_pool_loads_while_it_says_so() {
        for (words, left) in [
            ("", 0.0),
            ("Loading of buffer pool not started", 0.0),
            ("Buffer pool(s) load completed at 261130 17:00:00", 0.0),
            ("Buffer pool(s) load aborted on request", 0.0),
            (
                "Cannot open '/d/ib_buffer_pool' for reading: No such file",
                0.0,
            ),
            ("Loading buffer pool(s) from /d/ib_buffer_pool", 1.0),
            ("Loaded 512/8191 pages", 7679.0),
            ("Loaded 8191/8191 pages", 0.0),
        ] {
            assert_eq!(
                pages_to_load(words).to_string(),
                left.to_string(),
                "{words}"
            );
        }
    }
}
