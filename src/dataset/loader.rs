//! Filling the tables: several connections, chunks of several tables at once.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, LocalInfileHandler};

use super::connect::{attempt, connect, connect_to, first, literal, run, select};
use super::error::DatasetError;
use super::marker;
use super::progress::Progress;
use super::rows::{BLOCK, Form, RowSource};
use super::schedule::{Schedule, Task};
use super::schema::{create_index, table_name};
use crate::interrupt::Interrupt;
use crate::target::Endpoint;
use crate::workload::TableLayout;

/// Blocks of one transaction: 50,000 rows, about 10 MB. Small enough that an interrupt is heard and
/// a broken load loses little, large enough that commits do not count.
const BLOCKS_PER_CHUNK: u64 = 50;
/// Length at which a multi-row INSERT is sent, sysbench's buffer.
const INSERT_BYTES: usize = 512 * 1024;
/// Codes with which servers refuse LOAD DATA LOCAL: `MySQL` before 8.0, `MySQL`, `MariaDB`.
const NO_LOCAL_INFILE: [u16; 3] = [1148, 3948, 4166];

/// What is to be loaded.
pub(super) struct Load<'a> {
    pub(super) admin: &'a Endpoint,
    pub(super) database: &'a str,
    pub(super) layout: TableLayout,
    pub(super) tables: u32,
    pub(super) source: Arc<RowSource>,
    pub(super) index: bool,
    pub(super) threads: u32,
    /// Whether the server takes LOAD DATA LOCAL.
    pub(super) local_infile: bool,
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
    local_infile: AtomicBool,
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
        local_infile: AtomicBool::new(load.local_infile),
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
    results.into_iter().collect()
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

    /// Waits for the connections; kills index builds when the user wants to end.
    fn watch(&self) {
        while self.working.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(20));
            if !self.load.interrupt.raised() {
                continue;
            }
            let building: Vec<u32> = self.building().iter().copied().collect();
            if building.is_empty() {
                continue;
            }
            // Without a connection the builds end by themselves, only later.
            if let Ok(mut conn) = connect(self.load.admin) {
                for id in building {
                    let _ = conn.query_drop(format!("KILL QUERY {id}"));
                }
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Builds the index of one table, such that [`Self::watch`] can end it.
    fn index(&self, conn: &mut Conn, table: u32) -> Result<(), DatasetError> {
        let load = self.load;
        load.progress.phase(&format!(
            "building the index on k of {}",
            table_name(load.layout, table)
        ));
        let id = conn.connection_id();
        self.building().insert(id);
        let result = if load.interrupt.raised() {
            Err(DatasetError::Interrupted)
        } else {
            build_index(conn, load.layout, table)
        };
        self.building().remove(&id);
        match result {
            Err(_) if load.interrupt.raised() => Err(DatasetError::Interrupted),
            other => other,
        }
    }

    fn work(&self) -> Result<(), DatasetError> {
        let load = self.load;
        let mut conn = connect_to(load.admin, load.database)?;
        prepare_session(&mut conn)?;
        let insert_bytes = insert_bytes(&mut conn)?;
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
                    self.chunk(&mut conn, table, chunk, insert_bytes)?;
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
        conn: &mut Conn,
        table: u32,
        chunk: u64,
        insert_bytes: usize,
    ) -> Result<(), DatasetError> {
        let load = self.load;
        let name = table_name(load.layout, table);
        let doing = || format!("loading chunk {chunk} of table `{name}`");
        run(conn, "BEGIN", doing)?;
        let mut loaded = false;
        if self.local_infile.load(Ordering::Relaxed) {
            match self.by_infile(conn, table, chunk) {
                Err(error) if error.code().is_some_and(|c| NO_LOCAL_INFILE.contains(&c)) => {
                    self.local_infile.store(false, Ordering::Relaxed);
                }
                other => {
                    other?;
                    loaded = true;
                }
            }
        }
        if !loaded {
            self.by_inserts(conn, table, chunk, insert_bytes)?;
        }
        run(conn, &marker::note_chunk(load.layout, table, chunk), doing)?;
        run(conn, "COMMIT", doing)
    }

    fn blocks(&self, chunk: u64) -> std::ops::Range<u64> {
        let first = chunk * BLOCKS_PER_CHUNK;
        first..(first + BLOCKS_PER_CHUNK).min(self.load.source.blocks())
    }

    fn by_infile(&self, conn: &mut Conn, table: u32, chunk: u64) -> Result<(), DatasetError> {
        let source = Arc::clone(&self.load.source);
        let blocks = self.blocks(chunk);
        // The server names a file and gets the rows, whatever it names: no file is ever opened.
        conn.set_local_infile_handler(Some(LocalInfileHandler::new(move |_, writer| {
            let mut buffer = Vec::with_capacity(220 * 1000);
            for block in blocks.clone() {
                buffer.clear();
                source.fill(table, block, Form::Lines, &mut buffer);
                writer.write_all(&buffer)?;
            }
            Ok(())
        })));
        let name = table_name(self.load.layout, table);
        let sql = format!(
            "LOAD DATA LOCAL INFILE 'capbench' INTO TABLE {name} CHARACTER SET binary (id, k, c, pad)"
        );
        let doing = || format!("LOAD DATA of chunk {chunk} into table `{name}`");
        run(conn, &sql, doing)?;
        check_taken(conn, rows_of(&self.load.source, chunk), doing)
    }

    fn by_inserts(
        &self,
        conn: &mut Conn,
        table: u32,
        chunk: u64,
        insert_bytes: usize,
    ) -> Result<(), DatasetError> {
        let name = table_name(self.load.layout, table);
        let head = format!("INSERT INTO {name} (id, k, c, pad) VALUES ");
        let doing = || format!("INSERT of chunk {chunk} into table `{name}`");
        let mut statement = Vec::with_capacity(insert_bytes + 1024);
        let mut rows = 0;
        let mut failed = None;
        let mut send = |statement: &mut Vec<u8>, rows: &mut u64| {
            // The last bracket ends in a comma.
            statement.pop();
            if failed.is_none() {
                failed = conn
                    .query_drop(String::from_utf8_lossy(statement))
                    .map_err(|error| DatasetError::statement(doing(), &error))
                    .and_then(|()| check_taken(conn, *rows, doing))
                    .err();
            }
            statement.clear();
            *rows = 0;
        };
        for block in self.blocks(chunk) {
            self.load
                .source
                .fill_with(table, block, Form::Brackets, &mut statement, |statement| {
                    if rows == 0 {
                        statement.splice(0..0, head.bytes());
                    }
                    rows += 1;
                    if statement.len() >= insert_bytes {
                        send(statement, &mut rows);
                    }
                });
        }
        if rows > 0 {
            send(&mut statement, &mut rows);
        }
        failed.map_or(Ok(()), Err)
    }
}

/// The server reports rows and warnings instead of failing: bad rows are coerced, duplicates skipped.
fn check_taken(
    conn: &mut Conn,
    sent: u64,
    doing: impl FnOnce() -> String,
) -> Result<(), DatasetError> {
    let taken = conn.affected_rows();
    let warnings = u64::from(conn.warnings());
    if taken == sent && warnings == 0 {
        return Ok(());
    }
    let warning = first(conn, "SHOW WARNINGS LIMIT 1", || {
        "reading a warning".to_owned()
    })?;
    Err(DatasetError::RowsLost {
        doing: doing(),
        sent,
        taken,
        warnings,
        first: warning.map(|row| {
            let cell = |column| row.text(column).unwrap_or_default();
            format!("{}: {}", cell(1), cell(2))
        }),
    })
}

/// What a loading session needs; a server without one of the variables does without it.
fn prepare_session(conn: &mut Conn) -> Result<(), DatasetError> {
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
    for sql in OPTIONAL {
        attempt(conn, sql, doing)?;
    }
    Ok(())
}

/// Length of a multi-row INSERT that the server takes.
fn insert_bytes(conn: &mut Conn) -> Result<usize, DatasetError> {
    let limit = first(conn, "SELECT @@max_allowed_packet", || {
        "reading @@max_allowed_packet".to_owned()
    })?;
    let limit: usize = limit.and_then(|row| row.number(0)).unwrap_or(INSERT_BYTES);
    Ok((limit / 2).clamp(512, INSERT_BYTES))
}

fn build_index(conn: &mut Conn, layout: TableLayout, table: u32) -> Result<(), DatasetError> {
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
    conn: &mut Conn,
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
