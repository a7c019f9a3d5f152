//! The marker: a table in the database that says which tables are capbench's and what they hold.

use std::collections::BTreeSet;

use super::connect::{first, literal, run, select};
use super::error::DatasetError;
use super::prepare::tables_needed;
use super::schema::{has_rows, layout_name, layout_named, table_name};
use crate::plan::{Binlog, Dataset, Plan};
use crate::target::Attended;
use crate::workload::TableLayout;

/// Version of the marker and of the way rows are made: another number means other rows.
pub(super) const VERSION: u32 = 1;
/// Name of the marker table.
pub(super) const MARKER: &str = "capbench_marker";
/// Name of the table of finished chunks.
pub(super) const CHUNKS: &str = "capbench_chunk";
/// Comment of each table that capbench makes: a table that lost it (made anew by something else) is no
/// longer capbench's, whatever the marker says.
pub(super) const COMMENT: &str = "capbench";

/// In the options of tables that no replica has.
const UNLOGGED: &str = "binlog=unlogged";
/// Stands between the options and the digest of the definition in the marker table.
const DEFINED: &str = " defined=";

/// How far the tables of a marker are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Being loaded, or broken off while loading.
    Loading,
    /// All rows and indexes are there.
    Complete,
}

/// One set of tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) layout: TableLayout,
    pub(super) tables: u32,
    pub(super) rows: u64,
    pub(super) seed: u64,
    pub(super) options: String,
    /// Digest of the definition that the server made of it, see [`super::definition`]; `None`: not loaded yet.
    pub(super) defined: Option<String>,
    pub(super) state: State,
    pub(super) dirty: bool,
    pub(super) created_database: bool,
}

impl Marker {
    /// The marker that data for this plan carries; `rows` of each table of a layout that holds rows.
    pub(super) fn wanted(plan: &Plan, layout: TableLayout, rows: u64) -> Self {
        Self {
            layout,
            tables: tables_needed(plan, layout),
            rows: if has_rows(layout) { rows } else { 0 },
            seed: plan.seed,
            options: options(&plan.dataset, layout, &plan.access),
            defined: None,
            state: State::Loading,
            dirty: false,
            created_database: false,
        }
    }

    /// Whether the tables hold what `wanted` asks for, apart from how far they are.
    pub(super) fn fits(&self, wanted: &Self) -> bool {
        let enough = match wanted.layout {
            // Tables of their own for each client, empty: more than needed do no harm.
            TableLayout::Bulk => self.tables >= wanted.tables,
            _ => self.tables == wanted.tables,
        };
        enough
            && self.rows == wanted.rows
            && (self.seed == wanted.seed || wanted.layout != TableLayout::Standard)
            && self.options == wanted.options
    }

    /// Whether its tables were made past the binary log.
    pub(super) fn unlogged(&self) -> bool {
        self.options.split(' ').any(|option| option == UNLOGGED)
    }

    /// Names of its tables.
    pub(super) fn table_names(&self) -> BTreeSet<String> {
        (1..=self.tables)
            .map(|n| table_name(self.layout, n))
            .collect()
    }
}

/// Everything but size and seed that shapes tables and rows, in one comparable text.
fn options(dataset: &Dataset, layout: TableLayout, access: &crate::workload::Access) -> String {
    let mut parts = vec![format!("engine={}", dataset.engine.to_ascii_lowercase())];
    if layout != TableLayout::Bulk {
        parts.push(format!(
            "auto_inc={} index={} secondary={}",
            dataset.auto_inc, dataset.secondary_index, dataset.secondary
        ));
    }
    if layout == TableLayout::Standard {
        // `k` is drawn by it.
        parts.push(format!("k={access}"));
    }
    if dataset.binlog == Some(Binlog::Unlogged) {
        parts.push(UNLOGGED.to_owned());
    }
    if !dataset.table_options.trim().is_empty() {
        parts.push(format!("table_options={}", dataset.table_options.trim()));
    }
    parts.join(" ")
}

/// Makes the marker tables where they are missing.
pub(super) fn create(conn: &mut Attended) -> Result<(), DatasetError> {
    let statements = [
        format!(
            "CREATE TABLE IF NOT EXISTS {MARKER} (layout VARCHAR(32) NOT NULL PRIMARY KEY, \
             version INT UNSIGNED NOT NULL, tables_made INT UNSIGNED NOT NULL, \
             rows_per_table BIGINT UNSIGNED NOT NULL, seed BIGINT UNSIGNED NOT NULL, \
             options VARCHAR(1000) NOT NULL, state VARCHAR(16) NOT NULL, dirty TINYINT NOT NULL, \
             created_database TINYINT NOT NULL, changed_at TIMESTAMP NOT NULL \
             DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP) ENGINE = InnoDB COMMENT = '{COMMENT}'"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {CHUNKS} (layout VARCHAR(32) NOT NULL, \
             table_number INT UNSIGNED NOT NULL, chunk BIGINT UNSIGNED NOT NULL, \
             PRIMARY KEY (layout, table_number, chunk)) ENGINE = InnoDB COMMENT = '{COMMENT}'"
        ),
    ];
    for sql in statements {
        run(conn, &sql, || "creating the marker tables".to_owned())?;
    }
    Ok(())
}

/// The markers of the current database; none when there is no marker table.
pub(super) fn read(conn: &mut Attended, database: &str) -> Result<Vec<Marker>, DatasetError> {
    let doing = || "reading the marker table".to_owned();
    let there = first(
        conn,
        &format!(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = {} AND table_name = '{MARKER}'",
            literal(database)
        ),
        doing,
    )?;
    if there.is_none() {
        return Ok(Vec::new());
    }
    let version = first(conn, &format!("SELECT MAX(version) FROM {MARKER}"), doing)?;
    if let Some(found) = version
        .and_then(|row| row.number::<u32>(0))
        .filter(|version| *version != VERSION)
    {
        return Err(DatasetError::Version {
            database: database.to_owned(),
            found,
            known: VERSION,
        });
    }
    let rows = select(
        conn,
        &format!(
            "SELECT layout, tables_made, rows_per_table, seed, options, state, dirty, \
             created_database FROM {MARKER} ORDER BY layout"
        ),
        doing,
    )?;
    Ok(rows
        .iter()
        .filter_map(|row| {
            let stored = row.text(4)?;
            let (options, defined) = match stored.rsplit_once(DEFINED) {
                Some((options, defined)) => (options, Some(defined.to_owned())),
                None => (stored, None),
            };
            Some(Marker {
                layout: layout_named(row.text(0)?)?,
                tables: row.number(1)?,
                rows: row.number(2)?,
                seed: row.number(3)?,
                options: options.to_owned(),
                defined,
                state: if row.text(5) == Some("complete") {
                    State::Complete
                } else {
                    State::Loading
                },
                dirty: row.on(6),
                created_database: row.on(7),
            })
        })
        .collect())
}

/// Writes a marker, replacing the one of its layout.
pub(super) fn write(conn: &mut Attended, marker: &Marker) -> Result<(), DatasetError> {
    let state = match marker.state {
        State::Loading => "loading",
        State::Complete => "complete",
    };
    let mut options = marker.options.clone();
    if let Some(defined) = &marker.defined {
        options.push_str(DEFINED);
        options.push_str(defined);
    }
    let sql = format!(
        "REPLACE INTO {MARKER} (layout, version, tables_made, rows_per_table, seed, options, state, \
         dirty, created_database) VALUES ('{}', {VERSION}, {}, {}, {}, {}, '{state}', {}, {})",
        layout_name(marker.layout),
        marker.tables,
        marker.rows,
        marker.seed,
        literal(&options),
        marker.dirty,
        marker.created_database,
    );
    run(conn, &sql, || "writing the marker table".to_owned())
}

/// Notes that rows of a layout's tables were, or are about to be, changed.
pub(super) fn set_dirty(conn: &mut Attended, layout: TableLayout) -> Result<(), DatasetError> {
    let sql = format!(
        "UPDATE {MARKER} SET dirty = 1 WHERE layout = '{}'",
        layout_name(layout)
    );
    run(conn, &sql, || "writing the marker table".to_owned())
}

/// Forgets the finished chunks of a layout.
pub(super) fn forget_chunks(conn: &mut Attended, layout: TableLayout) -> Result<(), DatasetError> {
    let sql = format!(
        "DELETE FROM {CHUNKS} WHERE layout = '{}'",
        layout_name(layout)
    );
    run(conn, &sql, || {
        "clearing the list of loaded chunks".to_owned()
    })
}

/// Finished chunks of a layout, as table number and chunk.
pub(super) fn finished_chunks(
    conn: &mut Attended,
    layout: TableLayout,
) -> Result<BTreeSet<(u32, u64)>, DatasetError> {
    let sql = format!(
        "SELECT table_number, chunk FROM {CHUNKS} WHERE layout = '{}'",
        layout_name(layout)
    );
    let rows = select(conn, &sql, || {
        "reading the list of loaded chunks".to_owned()
    })?;
    Ok(rows
        .iter()
        .filter_map(|row| Some((row.number(0)?, row.number(1)?)))
        .collect())
}

/// The statement that notes a finished chunk, within the transaction that loads it.
pub(super) fn note_chunk(layout: TableLayout, table: u32, chunk: u64) -> String {
    format!(
        "INSERT INTO {CHUNKS} (layout, table_number, chunk) VALUES ('{}', {table}, {chunk})",
        layout_name(layout)
    )
}
