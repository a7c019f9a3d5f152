//! Figures that only SHOW ENGINE INNODB STATUS gives: on servers older than their counters, and where no counter is.

use std::collections::HashMap;

/// A figure of the status text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Figure {
    /// Log sequence number less last checkpoint, bytes.
    CheckpointAge,
    /// History list length.
    HistoryLength,
    /// Statements that wait for `innodb_thread_concurrency` to let them in.
    Queued,
}

/// The figures that a status text holds.
pub(super) fn figures(text: &str) -> HashMap<Figure, f64> {
    let mut found = HashMap::new();
    let (mut written, mut checkpoint) = (None, None);
    for line in text.lines().map(str::trim) {
        // "Log sequence number          123" (8.0 adds more lines that begin "Log …").
        if let Some(rest) = line.strip_prefix("Log sequence number") {
            written = number(rest);
        } else if let Some(rest) = line.strip_prefix("Last checkpoint at") {
            checkpoint = number(rest);
        } else if let Some(length) = line.strip_prefix("History list length").and_then(number) {
            found.insert(Figure::HistoryLength, length);
        } else if let Some((_, queued)) = line.split_once(" queries inside InnoDB, ")
            && let Some(queued) = number(queued)
        {
            found.insert(Figure::Queued, queued);
        }
    }
    if let (Some(written), Some(checkpoint)) = (written, checkpoint) {
        found.insert(Figure::CheckpointAge, (written - checkpoint).max(0.0));
    }
    found
}

fn number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use super::*;

    #[test]
    fn the_log_section_gives_the_checkpoint_age() {
        let text = "\
------------
TRANSACTIONS
------------
Trx id counter 1803
Purge done for trx's n:o < 1802 undo n:o < 0 state: running but idle
History list length 42
---
LOG
---
Log sequence number          19500000
Log buffer assigned up to    19500000
Log flushed up to   19499000
Pages flushed up to 19000000
Last checkpoint at  18000000
--------------
ROW OPERATIONS
--------------
1 queries inside InnoDB, 47 queries in queue
";
        let found = figures(text);
        assert_eq!(found[&Figure::CheckpointAge], 1_500_000.0);
        assert_eq!(found[&Figure::HistoryLength], 42.0);
        assert_eq!(found[&Figure::Queued], 47.0);
        assert!(figures("LOG\nLog sequence number x").is_empty());
    }
}
