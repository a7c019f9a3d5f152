//! How many rows a cell should have left, against what the server wrote: without counting them, which would
//! churn the pool that was warmed.

use crate::record::Interval;
use crate::target::RowCounts;
use crate::workload::{Program, Transaction};

/// Rows that one transaction adds and takes away, as it is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Effect {
    inserted: u64,
    deleted: u64,
    other_writes: u64,
}

fn effect(transaction: &Transaction) -> Effect {
    let mut effect = Effect::default();
    for group in &transaction.groups {
        let repeat = u64::from(group.repeat);
        for statement in &group.statements {
            let sql = statement.sql.trim_start();
            let verb = sql
                .split(|c: char| !c.is_ascii_alphabetic())
                .next()
                .unwrap_or_default()
                .to_ascii_uppercase();
            match verb.as_str() {
                "INSERT" => effect.inserted += repeat * rows_of(sql),
                "DELETE" => effect.deleted += repeat,
                "SELECT" => {}
                _ => effect.other_writes += repeat,
            }
        }
    }
    effect
}

/// Rows of an INSERT: its brackets after VALUES.
fn rows_of(sql: &str) -> u64 {
    let upper = sql.to_ascii_uppercase();
    let values = upper.split_once("VALUES").map_or("", |(_, rest)| rest);
    let rows = values.matches('(').count().max(1);
    u64::try_from(rows).unwrap_or(u64::MAX)
}

/// What is wrong with the rows that a cell wrote, as a sentence; `None`: they are as the workload should have
/// left them, or nothing can be said.
///
/// Rows are counted when they are written, also those of a transaction that is rolled back, so that each failed,
/// repeated or unfinished transaction may leave its share.
pub(super) fn astray(
    program: &Program,
    clients: u32,
    intervals: &[Interval],
    before: RowCounts,
    after: RowCounts,
) -> Option<String> {
    let wrote = RowCounts {
        inserted: after.inserted.checked_sub(before.inserted)?,
        updated: after.updated.checked_sub(before.updated)?,
        deleted: after.deleted.checked_sub(before.deleted)?,
    };
    let effects: Vec<Effect> = program.transactions.iter().map(effect).collect();
    if !program.writes() {
        let rows = wrote.inserted + wrote.updated + wrote.deleted;
        return (rows > 0).then(|| {
            format!(
                "{rows} rows were written on the server during a cell that only reads ({} inserted, {} updated, {} deleted): someone else writes",
                wrote.inserted, wrote.updated, wrote.deleted
            )
        });
    }
    let unsettled: u64 = intervals
        .iter()
        .map(|i| {
            i.failed + i.retries + i.reconnects + i.errors.iter().map(|e| e.count).sum::<u64>()
        })
        .sum::<u64>()
        + u64::from(clients);
    let largest = |of: fn(&Effect) -> u64| effects.iter().map(of).max().unwrap_or(0).max(1);
    if effects.iter().all(|e| e.inserted == e.deleted) {
        let room = unsettled * largest(|e| e.deleted);
        let gap = wrote.inserted.abs_diff(wrote.deleted);
        return (gap > room).then(|| {
            format!(
                "the server inserted {} rows and deleted {} during a cell that puts back each row that it deletes, {gap} apart where {room} are explained: someone else writes",
                wrote.inserted, wrote.deleted
            )
        });
    }
    if effects.iter().any(|e| e.other_writes > 0) {
        return None;
    }
    let sent: u64 = intervals.iter().map(|i| i.writes).sum();
    let rows_each = program
        .statements()
        .map(|s| rows_of(&s.sql))
        .max()
        .unwrap_or(1);
    let uniform = program.statements().all(|s| rows_of(&s.sql) == rows_each);
    let (expected, room, moved, other) = if effects.iter().all(|e| e.deleted == 0) {
        let room = unsettled * largest(|e| e.inserted);
        (sent * rows_each, room, wrote.inserted, wrote.deleted)
    } else if effects.iter().all(|e| e.inserted == 0) {
        let room = unsettled * largest(|e| e.deleted);
        (sent, room, wrote.deleted, wrote.inserted)
    } else {
        return None;
    };
    let gap = moved.abs_diff(expected);
    (uniform && gap > room || other > 0).then(|| {
        format!(
            "the server inserted {} rows and deleted {} during a cell whose clients moved {expected}, {gap} apart where {room} are explained: someone else writes",
            wrote.inserted, wrote.deleted
        )
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::record::Phase;
    use crate::workload::{known_options, load};

    fn builtin(name: &str) -> Program {
        load(name, Path::new("."), &known_options()).unwrap()
    }

    fn intervals(writes: u64, failed: u64) -> Vec<Interval> {
        vec![Interval {
            failed,
            writes,
            ..Interval::empty(0.0, 1.0, Phase::Measure)
        }]
    }

    fn counts(inserted: u64, updated: u64, deleted: u64) -> RowCounts {
        RowCounts {
            inserted,
            updated,
            deleted,
        }
    }

    fn judged(workload: &str, writes: u64, failed: u64, wrote: RowCounts) -> Option<String> {
        let program = builtin(workload);
        let start = counts(100, 100, 100);
        let end = counts(
            100 + wrote.inserted,
            100 + wrote.updated,
            100 + wrote.deleted,
        );
        astray(&program, 4, &intervals(writes, failed), start, end)
    }

    #[test]
    fn readers_write_nothing() {
        assert_eq!(judged("oltp_read_only", 0, 0, counts(0, 0, 0)), None);
        let why = judged("oltp_read_only", 0, 0, counts(0, 3, 0)).unwrap();
        assert!(why.contains("3 rows were written"), "{why}");
    }

    #[test]
    fn what_is_deleted_comes_back_but_for_what_did_not_end_well() {
        let wrote = |inserted, deleted| counts(inserted, 500, deleted);
        assert_eq!(judged("oltp_read_write", 900, 0, wrote(200, 204)), None);
        assert!(judged("oltp_read_write", 900, 0, wrote(200, 205)).is_some());
        assert_eq!(judged("oltp_read_write", 900, 1, wrote(200, 205)), None);
        assert!(judged("oltp_write_only", 900, 0, wrote(206, 200)).is_some());
    }

    #[test]
    fn what_is_inserted_or_deleted_is_what_the_clients_sent() {
        assert_eq!(judged("oltp_insert", 500, 0, counts(503, 0, 0)), None);
        assert!(judged("oltp_insert", 500, 0, counts(520, 0, 0)).is_some());
        assert!(judged("oltp_insert", 500, 0, counts(500, 0, 1)).is_some());
        assert_eq!(judged("oltp_delete", 500, 0, counts(0, 0, 500)), None);
        assert!(judged("oltp_delete", 500, 0, counts(0, 0, 490)).is_some());
        // 25,000 rows a statement.
        assert_eq!(judged("bulk_insert", 2, 0, counts(50_000, 0, 0)), None);
        assert!(judged("bulk_insert", 2, 0, counts(50_000, 0, 9)).is_some());
    }

    #[test]
    fn a_server_that_counts_from_zero_again_is_not_judged() {
        let program = builtin("oltp_read_only");
        assert_eq!(
            astray(
                &program,
                1,
                &intervals(0, 0),
                counts(9, 9, 9),
                counts(0, 0, 0)
            ),
            None
        );
    }
}
