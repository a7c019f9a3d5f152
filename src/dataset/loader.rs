//! Filling the tables: several connections, chunks of several tables at once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;

use super::connect::{Control, attempt, literal, run, select};
use super::error::DatasetError;
use super::marker;
use super::pace::Pace;
use super::progress::{Progress, Verdict};
use super::rows::{BLOCK, RowSource};
use super::schedule::{Schedule, Task};
use super::schema::{create_index, table_name};
use super::sender::{Piece, Sender, Way};
use crate::interrupt::Interrupt;
use crate::target::Attended;
use crate::workload::TableLayout;

/// Blocks of one transaction: 50,000 rows, about 10 MB. Small enough that an interrupt is heard and
/// a broken load loses little, large enough that commits do not count.
const BLOCKS_PER_CHUNK: u64 = 50;
/// How often the guard is asked.
const LOOK: Duration = Duration::from_secs(1);

/// What is to be loaded.
pub(super) struct Load<'a> {
    pub(super) control: Control<'a>,
    pub(super) layout: TableLayout,
    pub(super) tables: u32,
    pub(super) source: Arc<RowSource>,
    pub(super) index: bool,
    pub(super) threads: u32,
    /// Rows per second of all tables together; `None`: no limit.
    pub(super) rate: Option<u64>,
    /// The ways that this server may have, the fastest first; never empty.
    pub(super) ways: Vec<Way>,
    /// Chunks that an earlier load finished.
    pub(super) finished: BTreeSet<(u32, u64)>,
    pub(super) progress: &'a dyn Progress,
    pub(super) interrupt: &'a Interrupt,
}

/// Shared by the connections of one load.
struct Shared<'a> {
    load: &'a Load<'a>,
    schedule: Mutex<Schedule>,
    stop: AtomicBool,
    /// The way in use: an index into the load's `ways`.
    way: AtomicUsize,
    pace: Arc<Pace>,
    /// Why the guard has ended the load.
    ended: Mutex<Option<String>>,
    done: AtomicU64,
    total: u64,
    /// Connections that build an index, which may take long and cannot look at the interrupt.
    building: Mutex<BTreeSet<u32>>,
    /// Connections that have not come to their end.
    working: AtomicU64,
}

/// Loads all chunks that are not finished yet and builds the indexes.
pub(super) fn load(load: &Load) -> Result<(), DatasetError> {
    let chunks = load.source.blocks().div_ceil(BLOCKS_PER_CHUNK);
    let threads = u64::from(load.threads.max(1)).min(chunks * u64::from(load.tables));
    let before: u64 = load
        .finished
        .iter()
        .filter(|(table, chunk)| *table <= load.tables && *chunk < chunks)
        .map(|(_, chunk)| rows_of(&load.source, *chunk))
        .sum();
    let shared = Shared {
        load,
        schedule: Mutex::new(Schedule::new(
            load.tables,
            chunks,
            load.index,
            &load.finished,
        )),
        stop: AtomicBool::new(false),
        way: AtomicUsize::new(0),
        pace: Arc::new(Pace::new(load.rate)),
        ended: Mutex::new(None),
        done: AtomicU64::new(before),
        total: load.source.rows() * u64::from(load.tables),
        building: Mutex::new(BTreeSet::new()),
        working: AtomicU64::new(threads),
    };
    load.progress.rows(before, shared.total);
    let results: Vec<Result<(), DatasetError>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let result = shared.work();
                    if result.is_err() {
                        shared.stop.store(true, Ordering::Relaxed);
                        shared.pace.end();
                    }
                    shared.working.fetch_sub(1, Ordering::Relaxed);
                    result
                })
            })
            .collect();
        shared.watch();
        workers
            .into_iter()
            .map(|worker| {
                worker.join().unwrap_or_else(|_| {
                    let message = "a loading thread panicked: this is a fault of capbench";
                    Err(DatasetError::Plan(message.to_owned()))
                })
            })
            .collect()
    });
    let ended = shared
        .ended
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    match ended {
        Some(why) => Err(DatasetError::Ended(why)),
        None => results.into_iter().collect(),
    }
}

fn rows_of(source: &RowSource, chunk: u64) -> u64 {
    let first = chunk * BLOCKS_PER_CHUNK * BLOCK;
    (first + BLOCKS_PER_CHUNK * BLOCK).min(source.rows()) - first
}

impl Shared<'_> {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        // A schedule is whole after each call; a panic elsewhere does not spoil it.
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn building(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.building.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the connections; asks the guard, and kills index builds when the user or the guard wants to end.
    fn watch(&self) {
        let mut looked = Instant::now();
        while self.working.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(20));
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.ask_guard();
            }
            if !self.ends() {
                continue;
            }
            self.pace.end();
            let building: Vec<u32> = self.building().iter().copied().collect();
            if building.is_empty() {
                continue;
            }
            // Without a connection the builds end by themselves, only later.
            if let Ok(mut conn) = self.load.control.open() {
                for id in building {
                    let _ = conn.ask(|conn| conn.query_drop(format!("KILL QUERY {id}")));
                }
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    fn ask_guard(&self) {
        match self.load.progress.guard() {
            Verdict::GoOn => self.pace.pause(false),
            Verdict::Pause => self.pace.pause(true),
            Verdict::End(why) => {
                let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
                ended.get_or_insert(why);
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Whether the user or the guard wants all to end.
    fn ends(&self) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        self.load.interrupt.raised() || ended.is_some()
    }

    /// Builds the index of one table, such that [`Self::watch`] can end it.
    fn index(&self, conn: &mut Attended, table: u32) -> Result<(), DatasetError> {
        let load = self.load;
        load.progress.phase(&format!(
            "building the index on k of {}",
            table_name(load.layout, table)
        ));
        let id = conn.connection_id();
        self.building().insert(id);
        let result = if self.ends() {
            Err(DatasetError::Interrupted)
        } else {
            build_index(conn, load.layout, table)
        };
        self.building().remove(&id);
        match result {
            Err(_) if self.ends() => Err(DatasetError::Interrupted),
            other => other,
        }
    }

    fn work(&self) -> Result<(), DatasetError> {
        let load = self.load;
        let mut conn = load.control.enter()?;
        prepare_session(&mut conn)?;
        let sender = Sender::new(&mut conn, Arc::clone(&load.source), Arc::clone(&self.pace))?;
        let mut last = None;
        loop {
            if load.interrupt.raised() {
                return Err(DatasetError::Interrupted);
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let Some(task) = self.schedule().next(last) else {
                return Ok(());
            };
            match task {
                Task::Chunk { table, chunk } => {
                    self.chunk(&mut conn, &sender, table, chunk)?;
                    let rows = rows_of(&load.source, chunk);
                    let done = self.done.fetch_add(rows, Ordering::Relaxed) + rows;
                    load.progress.rows(done, self.total);
                }
                Task::Index { table } => self.index(&mut conn, table)?,
            }
            last = Some(task);
        }
    }

    /// Loads one chunk and notes it, both or neither.
    fn chunk(
        &self,
        conn: &mut Attended,
        sender: &Sender,
        table: u32,
        chunk: u64,
    ) -> Result<(), DatasetError> {
        let load = self.load;
        let name = table_name(load.layout, table);
        let doing = || format!("loading chunk {chunk} of table `{name}`");
        let piece = Piece {
            layout: load.layout,
            table,
            blocks: self.blocks(chunk),
        };
        loop {
            let way = self.way.load(Ordering::Relaxed);
            run(conn, "BEGIN", doing)?;
            // The last way is one that every server has.
            let last = way + 1 == load.ways.len();
            if sender.send(conn, load.ways[way], &piece)? || last {
                break;
            }
            run(conn, "ROLLBACK", doing)?;
            self.way.fetch_max(way + 1, Ordering::Relaxed);
        }
        run(conn, &marker::note_chunk(load.layout, table, chunk), doing)?;
        run(conn, "COMMIT", doing)
    }

    fn blocks(&self, chunk: u64) -> std::ops::Range<u64> {
        let first = chunk * BLOCKS_PER_CHUNK;
        first..(first + BLOCKS_PER_CHUNK).min(self.load.source.blocks())
    }
}

/// What a loading session needs; a server without one of the variables does without it.
fn prepare_session(conn: &mut Attended) -> Result<(), DatasetError> {
    const OPTIONAL: [&str; 4] = [
        // A server-wide limit is meant for the application, not for an index build.
        "SET SESSION max_statement_time = 0",
        "SET SESSION max_execution_time = 0",
        "SET SESSION net_read_timeout = 600",
        // MySQL's index builds sort in this much memory; the default of 1 MiB merges often.
        "SET SESSION innodb_ddl_buffer_size = 67108864",
    ];
    let doing = || "preparing a loading session".to_owned();
    // unique_checks stays on: off, it takes MariaDB twice the CPU and gains MySQL nothing (measured).
    run(
        conn,
        "SET SESSION unique_checks = 1, foreign_key_checks = 0",
        doing,
    )?;
    // Rows are ASCII: in another character set a server would look at, or convert, each character.
    run(conn, "SET NAMES binary", doing)?;
    for sql in OPTIONAL {
        attempt(conn, sql, doing)?;
    }
    Ok(())
}

fn build_index(conn: &mut Attended, layout: TableLayout, table: u32) -> Result<(), DatasetError> {
    match run(conn, &create_index(layout, table), || {
        format!(
            "building the index on k of table `{}`",
            table_name(layout, table)
        )
    }) {
        // A build that an earlier, broken load left running on the server ended meanwhile.
        Err(error) if error.code() == Some(1061) => Ok(()),
        other => other,
    }
}

/// Builds the indexes that a broken load did not come to.
pub(super) fn missing_indexes(
    conn: &mut Attended,
    database: &str,
    layout: TableLayout,
    tables: u32,
    progress: &dyn Progress,
) -> Result<(), DatasetError> {
    let sql = format!(
        "SELECT DISTINCT table_name FROM information_schema.statistics \
         WHERE table_schema = {} AND column_name = 'k' AND seq_in_index = 1",
        literal(database)
    );
    let there: Vec<String> = select(conn, &sql, || "reading the list of indexes".to_owned())?
        .iter()
        .filter_map(|row| row.text(0).map(str::to_owned))
        .collect();
    for table in 1..=tables {
        let name = table_name(layout, table);
        if !there.contains(&name) {
            progress.phase(&format!("building the index on k of {name}"));
            prepare_session(conn)?;
            build_index(conn, layout, table)?;
        }
    }
    Ok(())
}
