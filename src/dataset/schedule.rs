//! Which connection loads what.

use std::collections::{BTreeSet, VecDeque};

/// A piece of work for one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Chunk { table: u32, chunk: u64 },
    Index { table: u32 },
}

/// Who loads what. A connection stays with its table while that has chunks left; then it goes where the
/// fewest are. The one that finishes a table's last chunk builds its index.
#[derive(Debug)]
pub(super) struct Schedule {
    tables: Vec<TableWork>,
    index: bool,
}

#[derive(Debug)]
struct TableWork {
    waiting: VecDeque<u64>,
    active: u32,
}

impl Schedule {
    pub(super) fn new(
        tables: u32,
        chunks: u64,
        index: bool,
        finished: &BTreeSet<(u32, u64)>,
    ) -> Self {
        let tables = (1..=tables)
            .map(|table| TableWork {
                waiting: (0..chunks)
                    .filter(|chunk| !finished.contains(&(table, *chunk)))
                    .collect(),
                active: 0,
            })
            .collect();
        Self { tables, index }
    }

    /// The next task for a connection that has just done `last`.
    pub(super) fn next(&mut self, last: Option<Task>) -> Option<Task> {
        let mut home = None;
        if let Some(Task::Chunk { table, .. }) = last {
            let work = &mut self.tables[table as usize - 1];
            work.active -= 1;
            if work.waiting.is_empty() && work.active == 0 && self.index {
                return Some(Task::Index { table });
            }
            home = Some(table).filter(|_| !work.waiting.is_empty());
        }
        let table = home.or_else(|| {
            (1..)
                .zip(&self.tables)
                .filter(|(_, work)| !work.waiting.is_empty())
                .min_by_key(|(_, work)| (work.active, usize::MAX - work.waiting.len()))
                .map(|(number, _)| number)
        })?;
        let work = &mut self.tables[table as usize - 1];
        let chunk = work.waiting.pop_front()?;
        work.active += 1;
        Some(Task::Chunk { table, chunk })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail by panic")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the order in which connections come back, each chunk is handed out once, and each index
        /// once and after all chunks of its table.
        #[test]
        fn every_chunk_once_and_every_index_last(
            tables in 1..6_u32,
            chunks in 1..8_u64,
            order in prop::collection::vec(0..4_usize, 0..400),
        ) {
            let mut schedule = Schedule::new(tables, chunks, true, &BTreeSet::new());
            let mut busy: [Option<Option<Task>>; 4] = [Some(None); 4];
            let mut finished: BTreeSet<(u32, u64)> = BTreeSet::new();
            let mut indexed = BTreeSet::new();
            let rest = (0..4).cycle().take(4 * 60);
            for worker in order.into_iter().chain(rest) {
                let Some(last) = busy[worker] else { continue };
                if let Some(Task::Chunk { table, chunk }) = last {
                    prop_assert!(finished.insert((table, chunk)));
                }
                let next = schedule.next(last);
                if let Some(Task::Index { table }) = next {
                    prop_assert!((0..chunks).all(|chunk| finished.contains(&(table, chunk))));
                    prop_assert!(indexed.insert(table));
                }
                busy[worker] = next.map(Some);
            }
            prop_assert_eq!(finished.len() as u64, u64::from(tables) * chunks);
            prop_assert_eq!(indexed.len(), tables as usize);
        }
    }

    #[test]
    fn connections_spread_over_tables_first() {
        let mut schedule = Schedule::new(2, 3, false, &BTreeSet::from([(1, 0)]));
        let tasks: Vec<Task> = (0..3).map(|_| schedule.next(None).unwrap()).collect();
        assert_eq!(
            tasks,
            [
                Task::Chunk { table: 2, chunk: 0 },
                Task::Chunk { table: 1, chunk: 1 },
                Task::Chunk { table: 2, chunk: 1 },
            ]
        );
    }
}
