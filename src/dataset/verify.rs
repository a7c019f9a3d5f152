//! Proof that the tables hold what the generator makes.

use std::ops::Range;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::connect::{connect_to, first};
use super::error::DatasetError;
use super::progress::Progress;
use super::rows::{Form, RowSource};
use super::schema::table_name;
use crate::interrupt::Interrupt;
use crate::plan::Plan;
use crate::target::{Attended, Endpoint};
use crate::workload::{TableLayout, mix_seed};

/// What a table's rows come to. Sums do not depend on an order; two sums and a XOR over the same checksums
/// do not let a lost row and a doubled one cancel each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Digest {
    rows: u64,
    sum: u64,
    xor: u64,
}

impl Digest {
    fn merge(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            sum: self.sum.wrapping_add(other.sum),
            xor: self.xor ^ other.xor,
        }
    }
}

/// Reads all rows of the standard tables on the server and compares their CRC-32 checksums with the
/// generator's. `rows` is the number of rows per table as loaded.
///
/// # Errors
/// [`DatasetError::Different`] with the first table that differs; what the server says; an interrupt
/// between two tables.
pub fn verify(
    admin: &Endpoint,
    plan: &Plan,
    rows: u64,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<(), DatasetError> {
    let source = RowSource::new(plan.seed, rows, &plan.access);
    let mut conn = connect_to(admin, &plan.target.database)?;
    for number in 1..=plan.dataset.tables {
        if interrupt.raised() {
            return Err(DatasetError::Interrupted);
        }
        let name = table_name(TableLayout::Standard, number);
        progress.phase(&format!("verifying {name}"));
        let (made, found) = rayon::join(
            || generated(&source, number, 0..source.blocks()),
            || stored(&mut conn, &name, None),
        );
        compare(name, made, found?)?;
    }
    Ok(())
}

/// Blocks of rows that [`sample`] compares in all tables together, and at least one in each: some dozen
/// milliseconds, and few enough pages to leave a buffer pool as cold as it was.
const SAMPLED_BLOCKS: u64 = 32;
/// No further block is begun after so long: a slow disk must not hold a run up.
const SAMPLING: Duration = Duration::from_secs(5);

/// Compares some blocks of rows of each standard table with the generator's, spread over the table and drawn by
/// `seed`: the same ones each time. How many rows were compared.
///
/// # Errors
/// [`DatasetError::Different`] with the first table that differs; what the server says.
pub(super) fn sample(
    conn: &mut Attended,
    source: &RowSource,
    tables: u32,
    seed: u64,
) -> Result<u64, DatasetError> {
    let started = Instant::now();
    let blocks = source.blocks();
    let each = (SAMPLED_BLOCKS / u64::from(tables.max(1))).clamp(1, blocks.max(1));
    let mut rows = 0;
    // Block by block through all tables, so that what time cuts off is cut off alike.
    for part in 0..each {
        let (from, to) = (blocks * part / each, blocks * (part + 1) / each);
        for number in 1..=tables {
            if from == to || started.elapsed() > SAMPLING {
                return Ok(rows);
            }
            let draw = mix_seed(mix_seed(seed ^ u64::from(number)) ^ part);
            let block = from + draw % (to - from);
            let name = table_name(TableLayout::Standard, number);
            let made = generated(source, number, block..block + 1);
            let found = stored(conn, &name, Some(source.ids(block)))?;
            compare(name, made, found)?;
            rows += made.rows;
        }
    }
    Ok(rows)
}

/// What the server has, of all rows or of those with these ids.
fn stored(
    conn: &mut Attended,
    name: &str,
    ids: Option<Range<u64>>,
) -> Result<Digest, DatasetError> {
    let part = ids.map_or_else(String::new, |ids| {
        format!(" WHERE id >= {} AND id < {}", ids.start, ids.end)
    });
    let sql = format!(
        "SELECT COUNT(*), COALESCE(CAST(SUM(h) AS UNSIGNED), 0), COALESCE(BIT_XOR(h), 0) \
         FROM (SELECT CRC32(CONCAT_WS(',', id, k, c, pad)) AS h FROM {name}{part}) AS hashes"
    );
    let row = first(conn, &sql, || format!("reading table `{name}`"))?;
    let figure = |column| {
        row.as_ref()
            .and_then(|r| r.number(column))
            .unwrap_or_default()
    };
    Ok(Digest {
        rows: figure(0),
        sum: figure(1),
        xor: figure(2),
    })
}

fn compare(table: String, made: Digest, found: Digest) -> Result<(), DatasetError> {
    if made == found {
        return Ok(());
    }
    let reason = if made.rows == found.rows {
        format!(
            "its {} rows have checksum {:x}-{:x}, the generator's have {:x}-{:x}",
            found.rows, found.sum, found.xor, made.sum, made.xor
        )
    } else {
        format!("it holds {} rows, not {}", found.rows, made.rows)
    };
    Err(DatasetError::Different { table, reason })
}

fn generated(source: &RowSource, table: u32, blocks: Range<u64>) -> Digest {
    blocks
        .into_par_iter()
        .map_init(
            || Vec::with_capacity(256),
            |buffer, block| {
                let mut digest = Digest::default();
                buffer.clear();
                source.fill_with(table, block, Form::Joined, buffer, |row| {
                    let hash = u64::from(crc32fast::hash(row));
                    digest = digest.merge(Digest {
                        rows: 1,
                        sum: hash,
                        xor: hash,
                    });
                    row.clear();
                });
                digest
            },
        )
        .reduce(Digest::default, Digest::merge)
}
