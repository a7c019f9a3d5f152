//! How a table is defined on the server, so that one which others have altered since is noticed.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::connect::{first, literal};
use super::error::DatasetError;
use super::schema::{index_name, table_name};
use crate::target::Attended;
use crate::workload::TableLayout;

/// Digest of everything that defines a table: SHOW CREATE TABLE (columns, indexes, keys, engine, character set,
/// options, partitions), the row format that InnoDB chose, and triggers. What differs between the tables of one
/// layout (their names, the name of the index on `k`, the next id) is left out, so that all have the same one.
pub(super) fn digest(
    conn: &mut Attended,
    database: &str,
    layout: TableLayout,
    number: u32,
) -> Result<String, DatasetError> {
    let name = table_name(layout, number);
    let doing = || format!("reading the definition of table `{name}`");
    let created = first(conn, &format!("SHOW CREATE TABLE {name}"), doing)?;
    let created = created.and_then(|row| row.text(1).map(str::to_owned));
    let (schema, table) = (literal(database), literal(&name));
    let more = first(
        conn,
        &format!(
            "SELECT (SELECT row_format FROM information_schema.tables WHERE table_schema = {schema} AND table_name = {table}), \
             (SELECT COUNT(*) FROM information_schema.triggers WHERE event_object_schema = {schema} AND event_object_table = {table})"
        ),
        doing,
    )?;
    let text = |column| {
        more.as_ref()
            .and_then(|row| row.text(column))
            .unwrap_or_default()
    };
    let whole = format!(
        "{}\n{} {}",
        alike(&created.unwrap_or_default(), layout, number),
        text(0),
        text(1)
    );
    Ok(Sha256::digest(whole.as_bytes())
        .iter()
        .fold(String::new(), |mut hex, byte| {
            // Writing to a string does not fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        }))
}

/// A CREATE TABLE without what differs between the tables of one layout.
fn alike(created: &str, layout: TableLayout, number: u32) -> String {
    let text = created
        .replacen(&format!("`{}`", table_name(layout, number)), "`t`", 1)
        .replace(&format!("`{}`", index_name(number)), "`k_`");
    match text.split_once(" AUTO_INCREMENT=") {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}{rest}")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_one_layout_are_alike_and_nothing_else_is() {
        let made = |number: u32, next: &str, more: &str| {
            alike(
                &format!(
                    "CREATE TABLE `sbtest{number}` (\n  `id` int NOT NULL AUTO_INCREMENT,\n  PRIMARY KEY (`id`),\n  \
                     KEY `k_{number}` (`k`){more}\n) ENGINE=InnoDB{next} DEFAULT CHARSET=latin1"
                ),
                TableLayout::Standard,
                number,
            )
        };
        let first = made(1, " AUTO_INCREMENT=11", "");
        assert_eq!(first, made(12, " AUTO_INCREMENT=500", ""));
        assert_eq!(first, made(3, "", ""));
        assert!(first.contains("NOT NULL AUTO_INCREMENT,") && first.contains("CHARSET=latin1"));
        assert_ne!(first, made(1, "", ",\n  KEY `more` (`k`)"));
        assert_ne!(first, made(1, " ROW_FORMAT=COMPACT", ""));
    }
}
