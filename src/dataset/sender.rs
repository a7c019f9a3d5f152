//! How rows travel into a table: three ways, and what the server says of each chunk.

use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

use mysql::prelude::Queryable;
use mysql::{Conn, LocalInfileHandler, Params, Value};

use super::connect::first;
use super::error::DatasetError;
use super::pace::Pace;
use super::rows::{BLOCK, Form, Row, RowSource};
use super::schema::table_name;
use crate::target::Attended;
use crate::workload::TableLayout;

/// Length at which a multi-row INSERT is sent, sysbench's buffer.
const INSERT_BYTES: usize = 512 * 1024;
/// More than a row takes in an array of parameters: two numbers of 8 bytes, texts of 119 and 59, their marks.
const BOUND_ROW_BYTES: usize = 300;
/// Codes with which servers refuse LOAD DATA LOCAL: `MySQL` before 8.0, `MySQL`, `MariaDB`.
const NO_LOCAL_INFILE: [u16; 3] = [1148, 3948, 4166];
/// Codes with which servers refuse to prepare a statement: unknown to a proxy, or
/// `max_prepared_stmt_count` is reached.
const NO_PREPARE: [u16; 4] = [1047, 1235, 1295, 1461];

/// How rows travel, the fastest first where the server has it.
///
/// Server CPU for 2 × 500,000 rows without the index, two cores, in one run: `MariaDB` 10.11 arrays 2.5 s,
/// LOAD DATA 3.8 s (it reads a file byte by byte), INSERT of 2,500 rows 4.8 s, 6.6 s in another character set
/// than binary; `MySQL` 9.7 LOAD DATA 4.1 s, prepared INSERTs of 250 rows 4.3 s, INSERT of 2,500 rows 6.1 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A prepared INSERT with arrays of parameters (`COM_STMT_BULK_EXECUTE`, `MariaDB` ≥ 10.2).
    Arrays,
    /// LOAD DATA LOCAL INFILE.
    Infile,
    /// Multi-row INSERTs as text, which every server takes.
    Inserts,
}

/// Some blocks of a table.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) layout: TableLayout,
    pub(super) table: u32,
    pub(super) blocks: Range<u64>,
}

impl Piece {
    fn name(&self) -> String {
        table_name(self.layout, self.table)
    }

    fn rows(&self, source: &RowSource) -> u64 {
        let first = self.blocks.start * BLOCK;
        (self.blocks.end * BLOCK).min(source.rows()) - first
    }

    fn doing(&self, by: &str) -> String {
        let first = self.blocks.start * BLOCK + 1;
        format!("{by} into table `{}` from id {first}", self.name())
    }
}

/// Sends rows over one connection.
pub(super) struct Sender {
    source: Arc<RowSource>,
    insert_bytes: usize,
    pace: Arc<Pace>,
}

impl Sender {
    /// Asks the server how long a statement may be.
    pub(super) fn new(
        conn: &mut Attended,
        source: Arc<RowSource>,
        pace: Arc<Pace>,
    ) -> Result<Self, DatasetError> {
        let limit = first(conn, "SELECT @@max_allowed_packet", || {
            "reading @@max_allowed_packet".to_owned()
        })?;
        let limit: usize = limit.and_then(|row| row.number(0)).unwrap_or(INSERT_BYTES);
        Ok(Self {
            source,
            insert_bytes: (limit / 2).clamp(512, INSERT_BYTES),
            pace,
        })
    }

    /// Sends the rows of a piece. `false`: this server does not have that way, and part of the rows may be in.
    pub(super) fn send(
        &self,
        conn: &mut Attended,
        way: Way,
        piece: &Piece,
    ) -> Result<bool, DatasetError> {
        let refused = |codes: &[u16], sent: Result<bool, DatasetError>| match sent {
            Err(error) if error.code().is_some_and(|code| codes.contains(&code)) => Ok(false),
            other => other,
        };
        match way {
            Way::Arrays => refused(&NO_PREPARE, self.by_arrays(conn, piece)),
            Way::Infile => refused(&NO_LOCAL_INFILE, self.by_infile(conn, piece).map(|()| true)),
            Way::Inserts => self.by_inserts(conn, piece).map(|()| true),
        }
    }

    /// `false`: between here and the server something does not know arrays, and the driver sends row by row.
    fn by_arrays(&self, conn: &mut Attended, piece: &Piece) -> Result<bool, DatasetError> {
        let doing = || piece.doing("INSERT by arrays");
        let sql = format!(
            "INSERT INTO {} (id, k, c, pad) VALUES (?, ?, ?, ?)",
            piece.name()
        );
        let failed = |error: mysql::Error| DatasetError::statement(doing(), &error);
        // The driver keeps it: one statement for each table of a connection.
        let statement = conn.ask(|conn| conn.prep(sql)).map_err(failed)?;
        let at_once = (self.insert_bytes / BOUND_ROW_BYTES).max(1);
        for block in piece.blocks.clone() {
            self.pace.wait(self.source.ids(block));
            let mut rows = self.source.block(piece.table, block).peekable();
            while rows.peek().is_some() {
                let mut sent = 0;
                let array = rows.by_ref().take(at_once).inspect(|_| sent += 1);
                let taken = conn
                    .ask(|conn| {
                        conn.exec_batch(&statement, array.map(bound))?;
                        Ok(Taken::by(conn))
                    })
                    .map_err(failed)?;
                if sent > 1 && taken.rows == 1 && taken.warnings == 0 {
                    return Ok(false);
                }
                taken.check(conn, sent, doing)?;
            }
        }
        Ok(true)
    }

    fn by_infile(&self, conn: &mut Attended, piece: &Piece) -> Result<(), DatasetError> {
        let source = Arc::clone(&self.source);
        let pace = Arc::clone(&self.pace);
        let (table, blocks) = (piece.table, piece.blocks.clone());
        // The server names a file and gets the rows, whatever it names: no file is ever opened.
        let handler = LocalInfileHandler::new(move |_, writer| {
            let mut buffer = Vec::with_capacity(220 * 1000);
            for block in blocks.clone() {
                pace.wait(source.ids(block));
                buffer.clear();
                source.fill(table, block, Form::Lines, &mut buffer);
                writer.write_all(&buffer)?;
            }
            Ok(())
        });
        let sql = format!(
            "LOAD DATA LOCAL INFILE 'capbench' INTO TABLE {} CHARACTER SET binary (id, k, c, pad)",
            piece.name()
        );
        let doing = || piece.doing("LOAD DATA");
        let taken = conn
            .ask(|conn| {
                conn.set_local_infile_handler(Some(handler));
                conn.query_drop(&sql)?;
                Ok(Taken::by(conn))
            })
            .map_err(|error| DatasetError::statement(doing(), &error))?;
        taken.check(conn, piece.rows(&self.source), doing)
    }

    fn by_inserts(&self, conn: &mut Attended, piece: &Piece) -> Result<(), DatasetError> {
        let head = format!("INSERT INTO {} (id, k, c, pad) VALUES ", piece.name());
        let doing = || piece.doing("INSERT");
        let mut statement = Vec::with_capacity(self.insert_bytes + 1024);
        let mut rows = 0;
        let mut failed = None;
        let mut send = |statement: &mut Vec<u8>, rows: &mut u64| {
            // The last bracket ends in a comma.
            statement.pop();
            if failed.is_none() {
                failed = conn
                    .ask(|conn| {
                        conn.query_drop(String::from_utf8_lossy(statement))?;
                        Ok(Taken::by(conn))
                    })
                    .map_err(|error| DatasetError::statement(doing(), &error))
                    .and_then(|taken| taken.check(conn, *rows, doing))
                    .err();
            }
            statement.clear();
            *rows = 0;
        };
        for block in piece.blocks.clone() {
            self.pace.wait(self.source.ids(block));
            self.source.fill_with(
                piece.table,
                block,
                Form::Brackets,
                &mut statement,
                |statement| {
                    if rows == 0 {
                        statement.splice(0..0, head.bytes());
                    }
                    rows += 1;
                    if statement.len() >= self.insert_bytes {
                        send(statement, &mut rows);
                    }
                },
            );
        }
        if rows > 0 {
            send(&mut statement, &mut rows);
        }
        failed.map_or(Ok(()), Err)
    }
}

fn bound(row: Row) -> Params {
    Params::Positional(vec![
        Value::UInt(row.id),
        Value::UInt(row.k),
        Value::Bytes(row.c),
        Value::Bytes(row.pad),
    ])
}

/// What the server says of a statement that it took: rows and warnings, where it does not fail.
struct Taken {
    rows: u64,
    warnings: u64,
}

impl Taken {
    /// Of the last statement.
    fn by(conn: &Conn) -> Self {
        Self {
            rows: conn.affected_rows(),
            warnings: u64::from(conn.warnings()),
        }
    }

    /// All rows sent are in, as they were sent: bad rows are coerced, duplicates skipped.
    fn check(
        self,
        conn: &mut Attended,
        sent: u64,
        doing: impl FnOnce() -> String,
    ) -> Result<(), DatasetError> {
        if self.rows == sent && self.warnings == 0 {
            return Ok(());
        }
        let warning = first(conn, "SHOW WARNINGS LIMIT 1", || {
            "reading a warning".to_owned()
        })?;
        Err(DatasetError::RowsLost {
            doing: doing(),
            sent,
            taken: self.rows,
            warnings: self.warnings,
            first: warning.map(|row| {
                let cell = |column| row.text(column).unwrap_or_default();
                format!("{}: {}", cell(1), cell(2))
            }),
        })
    }
}
