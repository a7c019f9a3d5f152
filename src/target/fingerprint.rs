//! What must stay the same while a cell is measured, beside the variables: the server's own life, the shape of
//! the tables, and how many rows were written. Reads nothing that would churn a warm buffer pool.

use std::collections::BTreeMap;

use super::variables::quoted;
use super::{Server, TargetError};
use crate::record::Flavour;

/// Rows that the server has written since it started; MySQL's without those of system tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowCounts {
    /// Inserted.
    pub inserted: u64,
    /// Updated.
    pub updated: u64,
    /// Deleted.
    pub deleted: u64,
}

/// A server as one look finds it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fingerprint {
    /// Seconds since it started.
    pub uptime: u64,
    /// Shape of each table of the load: engine, columns, indexes.
    pub tables: BTreeMap<String, String>,
    /// Rows written; `None`: the server has no such counters.
    pub rows: Option<RowCounts>,
}

impl Server {
    /// Looks at the server and the load's tables in `database`.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn fingerprint(&mut self, database: &str) -> Result<Fingerprint, TargetError> {
        Ok(Fingerprint {
            uptime: self.uptime()?,
            tables: self.table_shapes(database)?,
            rows: self.rows_written()?,
        })
    }

    fn table_shapes(&mut self, database: &str) -> Result<BTreeMap<String, String>, TargetError> {
        let of = format!(
            "WHERE table_schema = {} AND table_name LIKE 'sbtest%'",
            quoted(database)
        );
        let statements = [
            format!(
                "SELECT table_name, CONCAT_WS(' ', engine, row_format, table_collation, create_options) FROM information_schema.tables {of}"
            ),
            format!(
                "SELECT table_name, CONCAT_WS(' ', column_name, column_type, is_nullable, column_default, extra, collation_name) FROM information_schema.columns {of} ORDER BY table_name, ordinal_position"
            ),
            format!(
                "SELECT table_name, CONCAT_WS(' ', index_name, non_unique, column_name, sub_part, index_type) FROM information_schema.statistics {of} ORDER BY table_name, index_name, seq_in_index"
            ),
        ];
        let mut shapes: BTreeMap<String, String> = BTreeMap::new();
        for sql in statements {
            for (table, part) in self.control.pairs(&sql)? {
                let shape = shapes.entry(table).or_default();
                shape.push_str(&part);
                shape.push('\n');
            }
        }
        Ok(shapes)
    }

    fn rows_written(&mut self) -> Result<Option<RowCounts>, TargetError> {
        let sql = match self.flavour() {
            Flavour::MySql => {
                "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_rows_inserted', 'Innodb_rows_updated', 'Innodb_rows_deleted')"
            }
            // InnoDB's own counters are gone from 10.5 on; those of the handler count all tables but
            // temporary ones.
            Flavour::MariaDb => {
                "SHOW GLOBAL STATUS WHERE Variable_name IN ('Handler_write', 'Handler_update', 'Handler_delete')"
            }
        };
        let pairs = match self.control.pairs(sql) {
            Ok(pairs) => pairs,
            Err(error) if error.code().is_some() => return Ok(None),
            Err(error) => return Err(error),
        };
        let number = |end: &str| {
            let found = pairs.iter().find(|(name, _)| name.ends_with(end));
            found.and_then(|(_, value)| value.parse().ok())
        };
        let counts = match self.flavour() {
            Flavour::MySql => (number("inserted"), number("updated"), number("deleted")),
            Flavour::MariaDb => (number("write"), number("update"), number("delete")),
        };
        Ok(match counts {
            (Some(inserted), Some(updated), Some(deleted)) => Some(RowCounts {
                inserted,
                updated,
                deleted,
            }),
            _ => None,
        })
    }
}
