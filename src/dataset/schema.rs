//! The tables: names and CREATE TABLE.

use crate::plan::Dataset;
use crate::workload::TableLayout;

/// Ids above this need BIGINT.
pub(super) const INTEGER_MAX: u64 = i32::MAX as u64;

/// What the tables of a layout are called, before their number. Layouts have names of their own, so that one
/// database holds them side by side.
pub fn table_prefix(layout: TableLayout) -> &'static str {
    match layout {
        TableLayout::Standard => "sbtest",
        TableLayout::StandardEmpty => "sbtest_new",
        TableLayout::Bulk => "sbtest_bulk",
    }
}

/// Name of table `number`, counted from 1.
pub(super) fn table_name(layout: TableLayout, number: u32) -> String {
    format!("{}{number}", table_prefix(layout))
}

/// The layout's name in the marker.
pub(super) fn layout_name(layout: TableLayout) -> &'static str {
    match layout {
        TableLayout::Standard => "standard",
        TableLayout::StandardEmpty => "standard_empty",
        TableLayout::Bulk => "bulk",
    }
}

/// The layout that a marker names.
pub(super) fn layout_named(name: &str) -> Option<TableLayout> {
    [
        TableLayout::Standard,
        TableLayout::StandardEmpty,
        TableLayout::Bulk,
    ]
    .into_iter()
    .find(|layout| layout_name(*layout) == name)
}

/// CREATE TABLE as sysbench 1.0 makes it, with BIGINT where the rows need it.
pub(super) fn create_table(
    dataset: &Dataset,
    layout: TableLayout,
    number: u32,
    rows: u64,
) -> String {
    let table = table_name(layout, number);
    let integer = if rows > INTEGER_MAX {
        "BIGINT"
    } else {
        "INTEGER"
    };
    let columns = match layout {
        TableLayout::Bulk => {
            "id INTEGER NOT NULL, k INTEGER DEFAULT '0' NOT NULL, PRIMARY KEY (id)".to_owned()
        }
        TableLayout::Standard | TableLayout::StandardEmpty => {
            // Unique ids of oltp_insert are set by the client.
            let auto = if dataset.auto_inc && layout == TableLayout::Standard {
                " AUTO_INCREMENT"
            } else {
                ""
            };
            let key = if dataset.secondary {
                "KEY xid (id)"
            } else {
                "PRIMARY KEY (id)"
            };
            format!(
                "id {integer} NOT NULL{auto}, k {integer} DEFAULT '0' NOT NULL, \
                 c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, {key}"
            )
        }
    };
    let options = dataset.table_options.trim();
    format!(
        "CREATE TABLE {table} ({columns}) ENGINE = {}{}{options}",
        dataset.engine,
        if options.is_empty() { "" } else { " " }
    )
}

/// The index on `k`, as sysbench names it.
pub(super) fn index_name(number: u32) -> String {
    format!("k_{number}")
}

/// The statement that makes it.
pub(super) fn create_index(layout: TableLayout, number: u32) -> String {
    format!(
        "CREATE INDEX {} ON {}(k)",
        index_name(number),
        table_name(layout, number)
    )
}

/// Whether the tables of this layout get an index on `k`.
pub(super) fn has_index(dataset: &Dataset, layout: TableLayout) -> bool {
    dataset.secondary_index && layout != TableLayout::Bulk
}

/// Whether the tables of this layout hold rows at the start.
pub(super) fn has_rows(layout: TableLayout) -> bool {
    layout == TableLayout::Standard
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{DataSize, Reset};

    fn dataset() -> Dataset {
        Dataset {
            tables: 1,
            size: DataSize::Rows(1),
            load_threads: 1,
            load_rate: None,
            binlog: None,
            reset: Reset::Never,
            existing: false,
            change_existing: false,
            keep: true,
            auto_inc: true,
            secondary_index: true,
            secondary: false,
            table_options: String::new(),
            engine: "innodb".to_owned(),
        }
    }

    #[test]
    fn tables_are_sysbenchs() {
        let mut dataset = dataset();
        assert_eq!(
            create_table(&dataset, TableLayout::Standard, 3, 100),
            "CREATE TABLE sbtest3 (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, \
             c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)) \
             ENGINE = innodb"
        );
        assert_eq!(
            create_index(TableLayout::Standard, 3),
            "CREATE INDEX k_3 ON sbtest3(k)"
        );
        dataset.auto_inc = false;
        dataset.secondary = true;
        dataset.table_options = " ROW_FORMAT = COMPRESSED ".to_owned();
        assert_eq!(
            create_table(&dataset, TableLayout::StandardEmpty, 1, 0),
            "CREATE TABLE sbtest_new1 (id INTEGER NOT NULL, k INTEGER DEFAULT '0' NOT NULL, \
             c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, KEY xid (id)) \
             ENGINE = innodb ROW_FORMAT = COMPRESSED"
        );
    }

    #[test]
    fn ids_beyond_two_billion_get_wide_columns() {
        let at = |rows| create_table(&dataset(), TableLayout::Standard, 1, rows);
        assert!(!at(INTEGER_MAX).contains("BIGINT"));
        assert!(at(INTEGER_MAX + 1).contains("id BIGINT NOT NULL AUTO_INCREMENT, k BIGINT"));
    }

    #[test]
    fn layouts_are_found_by_the_name_in_the_marker() {
        for layout in [
            TableLayout::Standard,
            TableLayout::StandardEmpty,
            TableLayout::Bulk,
        ] {
            assert_eq!(layout_named(layout_name(layout)), Some(layout));
        }
        assert_eq!(layout_named("other"), None);
    }
}
