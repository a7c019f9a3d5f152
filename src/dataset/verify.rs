//! Proof that the tables hold what the generator makes.

use rayon::prelude::*;

use super::connect::{connect_to, first};
use super::error::DatasetError;
use super::progress::Progress;
use super::rows::{Form, RowSource};
use super::schema::table_name;
use crate::interrupt::Interrupt;
use crate::plan::Plan;
use crate::target::Endpoint;
use crate::workload::TableLayout;

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
            || generated(&source, number),
            || -> Result<Digest, DatasetError> {
                let sql = format!(
                    "SELECT COUNT(*), COALESCE(CAST(SUM(h) AS UNSIGNED), 0), COALESCE(BIT_XOR(h), 0) \
                     FROM (SELECT CRC32(CONCAT_WS(',', id, k, c, pad)) AS h FROM {name}) AS hashes"
                );
                let row = first(&mut conn, &sql, || format!("reading table `{name}`"))?;
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
            },
        );
        let found = found?;
        if made != found {
            let reason = if made.rows == found.rows {
                format!(
                    "its {} rows have checksum {:x}-{:x}, the generator's have {:x}-{:x}",
                    found.rows, found.sum, found.xor, made.sum, made.xor
                )
            } else {
                format!("it holds {} rows, not {}", found.rows, made.rows)
            };
            return Err(DatasetError::Different {
                table: name,
                reason,
            });
        }
    }
    Ok(())
}

fn generated(source: &RowSource, table: u32) -> Digest {
    (0..source.blocks())
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
