//! What the server made of a change: resizes that go on after the statement, and values read back.

use std::collections::BTreeMap;
use std::time::Instant;

use super::TargetError;
use super::server::{POLL, Server};
use super::variables::same_value;
use crate::record::AppliedSetting;

impl Server {
    /// The values the server has now for what was asked, once it has settled, and all its variables.
    pub(super) fn read_back(
        &mut self,
        asked: &[(String, String)],
        before: &BTreeMap<String, String>,
    ) -> Result<(Vec<AppliedSetting>, BTreeMap<String, String>), TargetError> {
        for (name, _) in asked {
            self.wait_until_settled(name)?;
        }
        let now = self.variables()?;
        let applied = asked
            .iter()
            .map(|(name, value)| {
                let (was, took) = (before.get(name), now.get(name));
                if let Some(took) = took {
                    // Another number is the server's rounding; the value from before is no change at all.
                    let unchanged = was == Some(took) && !may_be_same(value, took);
                    if unchanged {
                        return Err(TargetError::NotTaken {
                            name: name.clone(),
                            asked: value.clone(),
                            took: took.clone(),
                            hint: "the server kept the value it had: the change was not made, or it rounds to this; ask for a value that it takes",
                        });
                    }
                }
                Ok(AppliedSetting {
                    name: name.clone(),
                    before: was.cloned(),
                    asked: value.clone(),
                    took: took.cloned(),
                })
            })
            .collect::<Result<_, _>>()?;
        Ok((applied, now))
    }

    /// Waits for resizes that go on after the statement has ended.
    pub(super) fn wait_until_settled(&mut self, name: &str) -> Result<(), TargetError> {
        let status = match name {
            "innodb_buffer_pool_size" => "Innodb_buffer_pool_resize_status",
            "innodb_redo_log_capacity" => "Innodb_redo_log_resize_status",
            _ => return Ok(()),
        };
        let sql = format!("SHOW GLOBAL STATUS LIKE '{status}%'");
        let deadline = Instant::now() + self.start_timeout;
        loop {
            let values: BTreeMap<String, String> = self.control.pairs(&sql)?.into_iter().collect();
            if !resizing(status, &values) {
                return Ok(());
            }
            if self.wish().raised() {
                return Err(TargetError::Interrupted);
            }
            if Instant::now() >= deadline {
                return Err(TargetError::Lost(format!(
                    "`{name}` is still being resized after {} s: {}\nhint: raise start_timeout under [target]",
                    self.start_timeout.as_secs(),
                    values.get(status).map_or("n/a", String::as_str)
                )));
            }
            std::thread::sleep(POLL);
        }
    }
}

/// Whether `took` can be what `asked` means: the same value, or a word that the server shows for the number of a
/// choice (`binlog_row_image = 1`), which cannot be compared.
fn may_be_same(asked: &str, took: &str) -> bool {
    let is_number = |text: &str| text.parse::<f64>().is_ok();
    let is_switch = same_value(took, "ON") || same_value(took, "OFF");
    same_value(asked, took) || (is_number(asked) && !is_number(took) && !is_switch)
}

/// Variables that are not the same in both, each with both values; one that a server lacks is `n/a`.
pub(super) fn differences(
    baseline: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> BTreeMap<String, (String, String)> {
    baseline
        .keys()
        .chain(now.keys())
        .filter(|name| baseline.get(*name) != now.get(*name))
        .map(|name| {
            let value = |of: &BTreeMap<String, String>| {
                of.get(name).cloned().unwrap_or_else(|| "n/a".to_owned())
            };
            (name.clone(), (value(baseline), value(now)))
        })
        .collect()
}

/// Whether a status says that a resize is under way. MySQL ≥ 8.0.31 has a code for the buffer pool
/// (0: done); others say it in words that begin with “Completed” at the end, or say nothing.
fn resizing(status: &str, values: &BTreeMap<String, String>) -> bool {
    if let Some(code) = values.get(&format!("{status}_code")) {
        return code != "0";
    }
    let words = values
        .get(status)
        .map(|v| v.to_ascii_lowercase())
        .unwrap_or_default();
    !(words.is_empty()
        || words == "ok"
        || [
            "completed",
            "size did not change",
            "failed",
            "aborted",
            "error",
        ]
        .iter()
        .any(|end| words.contains(end)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn a_resize_is_over_when_the_server_says_so() {
        let name = "Innodb_buffer_pool_resize_status";
        let code = "Innodb_buffer_pool_resize_status_code";
        let says = |pairs: &[(&str, &str)]| resizing(name, &map(pairs));
        assert!(says(&[
            (name, "buffer pool 0 : resizing with chunks 1 to 2."),
            (code, "5")
        ]));
        assert!(says(&[(name, "Withdrawing blocks to be shrunken.")]));
        assert!(!says(&[
            (name, "Completed resizing buffer pool at 261130 14:00:00."),
            (code, "0")
        ]));
        assert!(!says(&[(name, "Completed resizing buffer pool.")]));
        assert!(!says(&[(name, "")]));
        assert!(!says(&[]));
        assert!(!resizing(
            "Innodb_redo_log_resize_status",
            &map(&[("Innodb_redo_log_resize_status", "OK")])
        ));
        assert!(resizing(
            "Innodb_redo_log_resize_status",
            &map(&[("Innodb_redo_log_resize_status", "Resizing down")])
        ));
    }

    #[test]
    fn a_number_may_stand_for_a_word_but_not_for_another_number_or_switch() {
        for (asked, took) in [
            ("1", "MINIMAL"),
            ("1", "ON"),
            ("300", "300"),
            ("row", "ROW"),
        ] {
            assert!(may_be_same(asked, took), "{asked} {took}");
        }
        for (asked, took) in [
            ("1", "OFF"),
            ("200", "300"),
            ("ROW", "MIXED"),
            ("ON", "MIXED"),
        ] {
            assert!(!may_be_same(asked, took), "{asked} {took}");
        }
    }

    #[test]
    fn differences_name_both_values() {
        let found = differences(
            &map(&[("a", "1"), ("b", "2"), ("gone", "x")]),
            &map(&[("a", "1"), ("b", "3"), ("new", "y")]),
        );
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(found.len(), 3);
        assert_eq!(found["b"], pair("2", "3"));
        assert_eq!(found["gone"], pair("x", "n/a"));
        assert_eq!(found["new"], pair("n/a", "y"));
    }
}
