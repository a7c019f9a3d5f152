//! Foreign keys of others that refer to capbench's tables: such a table can be neither dropped nor loaded anew.

use std::collections::BTreeSet;

use super::connect::{Cells, literal, quoted, select};
use super::error::DatasetError;
use crate::target::{Attended, decoded};

/// `ER_UNKNOWN_TABLE`: a name that only the other flavour has.
const UNKNOWN_TABLE: u16 = 1109;
/// `ER_SPECIFIC_ACCESS_DENIED_ERROR`: without PROCESS.
const DENIED: u16 = 1227;
/// As many as a person reads.
const NAMED: usize = 8;

/// A foreign key, each name as SQL has it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ForeignKey {
    schema: String,
    table: String,
    name: String,
    /// The table that it refers to.
    to: String,
}

/// Why the tables of `names` cannot be dropped; `None`: no foreign key refers to them. Without PROCESS only those
/// keys are seen on whose tables the account has rights.
pub(super) fn refusal(
    conn: &mut Attended,
    database: &str,
    names: &BTreeSet<String>,
) -> Result<Option<DatasetError>, DatasetError> {
    let mut keys = foreign_keys(conn, database)?;
    keys.retain(|key| {
        let own = key.schema == database && key.table == key.to;
        names.contains(&key.to) && !own
    });
    keys.sort();
    if keys.is_empty() {
        return Ok(None);
    }
    let each = |show: &dyn Fn(&ForeignKey) -> String, between: &str| {
        let mut shown: Vec<String> = keys.iter().take(NAMED).map(show).collect();
        if keys.len() > NAMED {
            shown.push(format!("and {} more", keys.len() - NAMED));
        }
        shown.join(between)
    };
    Ok(Some(DatasetError::Referenced {
        database: database.to_owned(),
        keys: each(
            &|key| {
                format!(
                    "`{}` of `{}`.`{}` to `{}`",
                    key.name, key.schema, key.table, key.to
                )
            },
            ", ",
        ),
        drops: each(
            &|key| {
                format!(
                    "ALTER TABLE {}.{} DROP FOREIGN KEY {}",
                    quoted(&key.schema),
                    quoted(&key.table),
                    quoted(&key.name)
                )
            },
            "; ",
        ),
    }))
}

/// All foreign keys that refer to tables in `database`, as far as they are seen.
fn foreign_keys(conn: &mut Attended, database: &str) -> Result<Vec<ForeignKey>, DatasetError> {
    let doing = || "looking for foreign keys of others".to_owned();
    // The first on MariaDB and before MySQL 8.0; the other since.
    for table in ["INNODB_SYS_FOREIGN", "INNODB_FOREIGN"] {
        let sql = format!("SELECT ID, FOR_NAME, REF_NAME FROM information_schema.{table}");
        match select(conn, &sql, doing) {
            Ok(rows) => {
                return Ok(rows
                    .iter()
                    .filter_map(|row| of_innodb(row, database))
                    .collect());
            }
            Err(error) if matches!(error.code(), Some(UNKNOWN_TABLE | DENIED)) => {}
            Err(error) => return Err(error),
        }
    }
    let sql = format!(
        "SELECT DISTINCT table_schema, table_name, constraint_name, referenced_table_name \
         FROM information_schema.key_column_usage WHERE referenced_table_schema = {}",
        literal(database)
    );
    Ok(select(conn, &sql, doing)?
        .iter()
        .filter_map(|row| {
            let text = |column| row.text(column).map(str::to_owned);
            Some(ForeignKey {
                schema: text(0)?,
                table: text(1)?,
                name: text(2)?,
                to: text(3)?,
            })
        })
        .collect())
}

/// A row of InnoDB's own list, whose names are `schema/name`; `None`: it refers to another database.
fn of_innodb(row: &Cells, database: &str) -> Option<ForeignKey> {
    let pair = |column| {
        let (schema, name) = row.text(column)?.split_once('/')?;
        Some((decoded(schema), decoded(name)))
    };
    let (_, name) = pair(0)?;
    let (schema, table) = pair(1)?;
    let (to_schema, to) = pair(2)?;
    (to_schema == database).then_some(ForeignKey {
        schema,
        table,
        name,
        to,
    })
}
