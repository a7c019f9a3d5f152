//! From a plan to tables that are ready: reused, continued or loaded.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use super::connect::{Control, enter, first, quoted, run};
use super::definition;
use super::error::DatasetError;
use super::existing;
use super::intact;
use super::loader;
use super::marker::{self, COMMENT, Marker, State};
use super::ownership::{database_exists, drop_table, lock, owned, tables_among};
use super::progress::Progress;
use super::refusals::{self, refuse};
use super::rows::RowSource;
use super::schema::{create_table, has_index, has_rows, layout_name, table_name, table_prefix};
use super::sender::Way;
use super::size::{Resolved, measured};
use crate::interrupt::Interrupt;
use crate::plan::{Binlog, Place, Plan, Setting, SettingValue, Step};
use crate::record::DatasetFacts;
use crate::target::{Attended, Endpoint, lease_made_database};
use crate::workload::TableLayout;

/// The setting under which a server loads fastest. A private server may be given it; elsewhere the loader
/// works with what it finds.
pub fn wants_local_infile() -> Setting {
    Setting {
        name: "local_infile".to_owned(),
        value: SettingValue::Bool(true),
    }
}

/// How many tables of a layout a plan needs: one per client for `bulk_insert`, else the plan's number.
pub fn tables_needed(plan: &Plan, layout: TableLayout) -> u32 {
    if layout != TableLayout::Bulk {
        return plan.dataset.tables;
    }
    let clients = match plan.ladder.open {
        Some(open) => open.clients,
        None => plan
            .ladder
            .steps
            .iter()
            .map(|step| match step {
                Step::Threads(n) => *n,
                Step::Rate(_) => 1,
            })
            .max()
            .unwrap_or(1),
    };
    clients.max(plan.warmup.threads).max(1)
}

/// Up to so many rows are counted before data is reused: a few seconds of an index scan [H].
const COUNTED_ROWS: u64 = 20_000_000;

/// Makes the tables of `layout` ready for a run. Data that fits the plan and was not written to is reused
/// (with `reset = "never"` also data that was); a load that was broken off is continued; anything else that
/// capbench made is replaced; tables that it did not make are left alone and refused.
///
/// # Errors
/// Foreign tables of the same name, too little disk, what the server says; an interrupt.
pub fn prepare(
    admin: &Endpoint,
    plan: &Plan,
    layout: TableLayout,
    resolved: &Resolved,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<DatasetFacts, DatasetError> {
    if plan.dataset.existing && layout == TableLayout::Standard {
        return existing::accept(admin, plan, resolved, progress);
    }
    let keep_dirty = refusals::keeps_dirty(plan, layout);
    Preparation::open(admin, plan, layout, resolved, progress, interrupt)?.run(keep_dirty)
}

/// Puts the tables of `layout` back to their first state if anything wrote to them.
///
/// # Errors
/// As [`prepare`]; with `existing = true` there is no first state to go back to.
pub fn reset(
    admin: &Endpoint,
    plan: &Plan,
    layout: TableLayout,
    resolved: &Resolved,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<DatasetFacts, DatasetError> {
    if plan.dataset.existing && layout == TableLayout::Standard {
        return Err(DatasetError::Plan(
            "tables that were made by something else (`existing = true`) cannot be reset\nhint: reset = \"never\"".to_owned(),
        ));
    }
    Preparation::open(admin, plan, layout, resolved, progress, interrupt)?.run(false)
}

/// Notes that a workload is about to write to the tables of `layout`. Call it before the first such
/// statement: a crash in between must not leave changed data that passes for fresh.
///
/// # Errors
/// What the server says.
pub fn mark_dirty(admin: &Endpoint, plan: &Plan, layout: TableLayout) -> Result<(), DatasetError> {
    if plan.dataset.existing && layout == TableLayout::Standard {
        return Ok(());
    }
    let mut conn = control(admin, plan).enter()?;
    marker::set_dirty(&mut conn, layout)
}

/// Whether the load goes past the binary log.
pub(super) fn unlogged(plan: &Plan) -> bool {
    // Nothing follows a private server, and nobody reads its binary log.
    let private = matches!(plan.target.place, Place::Managed(_));
    plan.dataset.binlog == Some(Binlog::Unlogged) || (private && plan.dataset.binlog.is_none())
}

fn control<'a>(admin: &'a Endpoint, plan: &'a Plan) -> Control<'a> {
    Control::new(admin, &plan.target.database, unlogged(plan))
}

/// One call of [`prepare`] or [`reset`].
struct Preparation<'a> {
    admin: &'a Endpoint,
    plan: &'a Plan,
    layout: TableLayout,
    resolved: &'a Resolved,
    progress: &'a dyn Progress,
    interrupt: &'a Interrupt,
    conn: Attended,
    wanted: Marker,
}

impl<'a> Preparation<'a> {
    fn open(
        admin: &'a Endpoint,
        plan: &'a Plan,
        layout: TableLayout,
        resolved: &'a Resolved,
        progress: &'a dyn Progress,
        interrupt: &'a Interrupt,
    ) -> Result<Self, DatasetError> {
        let database = plan.target.database.as_str();
        let mut wanted = Marker::wanted(plan, layout, resolved.rows);
        let mut conn = control(admin, plan).open()?;
        refuse(refusals::read_only(&mut conn)?)?;
        // Before the database is made: whoever comes second would take it for one that was there.
        lock(&mut conn, database)?;
        if !database_exists(&mut conn, database)? {
            run(
                &mut conn,
                &format!("CREATE DATABASE {}", quoted(database)),
                || format!("creating database `{database}`"),
            )?;
            wanted.created_database = true;
        }
        enter(&mut conn, database)?;
        // The lease may have come first.
        wanted.created_database |= lease_made_database(&mut conn, database)
            .map_err(|error| DatasetError::statement("reading the lease", &error))?;
        Ok(Self {
            admin,
            plan,
            layout,
            resolved,
            progress,
            interrupt,
            conn,
            wanted,
        })
    }

    fn run(mut self, keep_dirty: bool) -> Result<DatasetFacts, DatasetError> {
        let database = self.plan.target.database.clone();
        let markers = marker::read(&mut self.conn, &database)?;
        // Who made the database does not change when a second layout joins.
        self.wanted.created_database |= markers.iter().any(|m| m.created_database);
        let found = markers.into_iter().find(|m| m.layout == self.layout);
        refuse(refusals::of_tables(
            &mut self.conn,
            self.plan,
            found.as_ref(),
            &self.wanted,
        )?)?;
        let fits = found.as_ref().is_some_and(|m| m.fits(&self.wanted));
        let dirty = found.as_ref().is_some_and(|m| m.dirty);
        let state = found.as_ref().map(|m| m.state);
        if let Some(complete) = found.as_ref().filter(|m| m.state == State::Complete)
            && fits
            && (!dirty || keep_dirty)
        {
            match self.intact(complete)? {
                Ok(compared) => return self.facts(None, compared, "reused"),
                Err(why) => self.progress.phase(&format!("{why}; it is loaded anew")),
            }
        }
        refuse(refusals::of_load(
            &mut self.conn,
            self.admin,
            self.plan,
            self.resolved,
            found.as_ref(),
            &self.wanted,
        )?)?;
        let started = Instant::now();
        let resumable = self.plan.dataset.engine.eq_ignore_ascii_case("innodb");
        let resume = fits && state == Some(State::Loading) && !dirty && resumable;
        marker::create(&mut self.conn)?;
        if !resume {
            self.start_over(found.as_ref())?;
        }
        self.create_tables()?;
        self.load()?;
        self.settle()?;
        self.wanted.state = State::Complete;
        self.wanted.defined = Some(definition::digest(
            &mut self.conn,
            &database,
            self.layout,
            1,
        )?);
        marker::write(&mut self.conn, &self.wanted)?;
        self.facts(Some(started.elapsed().as_secs_f64()), None, "loaded")
    }

    /// Whether the tables of a complete marker are what was loaded: defined alike and, unless they were written to,
    /// with first and last id in place, as many rows where counting them takes seconds, and some of the rows equal to
    /// the generator's; how many of those were compared. Else why they are not.
    fn intact(&mut self, found: &Marker) -> Result<Result<Option<u64>, String>, DatasetError> {
        let database = &self.plan.target.database;
        if let Some(why) = intact::altered(&mut self.conn, database, found, &self.wanted)? {
            return Ok(Err(why));
        }
        if found.dirty || !has_rows(self.layout) {
            return Ok(Ok(None));
        }
        if let Some(why) = intact::ids_missing(&mut self.conn, &self.wanted)? {
            return Ok(Err(why));
        }
        let names = self.wanted.table_names();
        if self.wanted.rows.saturating_mul(names.len() as u64) <= COUNTED_ROWS {
            for name in names {
                let sql = format!("SELECT COUNT(*) FROM {name}");
                let rows = first(&mut self.conn, &sql, || {
                    format!("counting the rows of `{name}`")
                })?;
                if rows.map(|row| row.number(0)) != Some(Some(self.wanted.rows)) {
                    return Ok(Err(format!(
                        "table `{name}` has other rows than were loaded"
                    )));
                }
            }
        }
        let compared = intact::compared(&mut self.conn, self.plan, &self.wanted)?;
        Ok(compared.map(Some))
    }

    /// Drops what is there of this layout and writes the marker of what comes.
    fn start_over(&mut self, found: Option<&Marker>) -> Result<(), DatasetError> {
        if let Some(found) = found {
            let database = &self.plan.target.database;
            let (own, _) = owned(&mut self.conn, database, &found.table_names())?;
            if !own.is_empty() {
                self.progress
                    .phase(&format!("dropping {} tables of an earlier load", own.len()));
            }
            for table in own {
                drop_table(&mut self.conn, &table)?;
            }
        }
        marker::forget_chunks(&mut self.conn, self.layout)?;
        // The marker comes before the tables: a crash in between leaves names without tables, never
        // tables without an owner.
        marker::write(&mut self.conn, &self.wanted)
    }

    fn create_tables(&mut self) -> Result<(), DatasetError> {
        let database = &self.plan.target.database;
        let there: BTreeSet<String> =
            tables_among(&mut self.conn, database, &self.wanted.table_names())?
                .into_iter()
                .map(|(name, _)| name)
                .collect();
        self.progress.phase("creating the tables");
        for number in 1..=self.wanted.tables {
            let name = table_name(self.layout, number);
            if self.interrupt.raised() {
                return Err(DatasetError::Interrupted);
            }
            if there.contains(&name) {
                continue;
            }
            let sql = create_table(&self.plan.dataset, self.layout, number, self.wanted.rows);
            let sql = format!("{sql} COMMENT = '{COMMENT}'");
            run(&mut self.conn, &sql, || format!("creating table `{name}`"))?;
        }
        Ok(())
    }

    fn load(&mut self) -> Result<(), DatasetError> {
        let index = has_index(&self.plan.dataset, self.layout);
        if has_rows(self.layout) {
            let ways = self.ways()?;
            let finished = marker::finished_chunks(&mut self.conn, self.layout)?;
            self.progress.phase(if finished.is_empty() {
                "loading rows"
            } else {
                "continuing a load that was broken off"
            });
            loader::load(&loader::Load {
                control: control(self.admin, self.plan),
                layout: self.layout,
                tables: self.wanted.tables,
                source: Arc::new(RowSource::new(
                    self.wanted.seed,
                    self.wanted.rows,
                    &self.plan.access,
                )),
                index,
                threads: self.plan.dataset.load_threads,
                rate: self.plan.dataset.load_rate,
                ways,
                finished,
                progress: self.progress,
                interrupt: self.interrupt,
            })?;
        }
        if index {
            loader::missing_indexes(
                &mut self.conn,
                &self.plan.target.database,
                self.layout,
                self.wanted.tables,
                self.progress,
            )?;
        }
        Ok(())
    }

    /// The ways in which rows may travel here, the fastest first.
    fn ways(&mut self) -> Result<Vec<Way>, DatasetError> {
        let mut ways = vec![Way::Inserts];
        if self.takes_infile()? {
            ways.insert(0, Way::Infile);
        }
        let version = first(&mut self.conn, "SELECT VERSION()", || {
            "reading the server's version".to_owned()
        })?;
        if version.is_some_and(|row| row.text(0).is_some_and(|v| v.contains("MariaDB"))) {
            ways.insert(0, Way::Arrays);
        }
        Ok(ways)
    }

    /// Whether LOAD DATA LOCAL is possible here and faster than INSERTs.
    fn takes_infile(&mut self) -> Result<bool, DatasetError> {
        let on = first(&mut self.conn, "SELECT @@local_infile", || {
            "reading @@local_infile".to_owned()
        })?;
        if !on.is_some_and(|row| row.on(0)) {
            return Ok(false);
        }
        // Below mode 2 (MariaDB's default is 1) LOAD DATA holds the table's AUTO-INC lock to its end, even
        // with the ids given: streams into one table wait for each other. INSERTs do not, at about 1.5
        // times the server's CPU, which pays from three streams on.
        let several = self.plan.dataset.load_threads >= 3 * self.wanted.tables;
        if !(several && self.plan.dataset.auto_inc) {
            return Ok(true);
        }
        let mode = first(
            &mut self.conn,
            "SHOW GLOBAL VARIABLES LIKE 'innodb_autoinc_lock_mode'",
            || "reading innodb_autoinc_lock_mode".to_owned(),
        )?;
        Ok(mode
            .and_then(|row| row.number::<u8>(1))
            .is_none_or(|mode| mode >= 2))
    }

    /// Fresh statistics, so that the first query is planned as the last one will be.
    fn settle(&mut self) -> Result<(), DatasetError> {
        self.progress.phase("analyzing the tables");
        analyze(&mut self.conn, self.layout, self.wanted.tables)
    }

    fn facts(
        &mut self,
        seconds: Option<f64>,
        compared: Option<u64>,
        origin: &str,
    ) -> Result<DatasetFacts, DatasetError> {
        let bytes = measured(
            &mut self.conn,
            &self.plan.target.database,
            &self.wanted.table_names(),
        )?;
        Ok(DatasetFacts {
            tables: self.wanted.tables,
            rows: self.wanted.rows,
            bytes,
            buffer_pool: self.resolved.buffer_pool,
            load_seconds: seconds,
            compared,
            origin: origin.to_owned(),
        })
    }
}

/// ANALYZE of all tables of a layout, not written to the binary log.
fn analyze(conn: &mut Attended, layout: TableLayout, tables: u32) -> Result<(), DatasetError> {
    for number in 1..=tables {
        let name = table_name(layout, number);
        run(
            conn,
            &format!("ANALYZE NO_WRITE_TO_BINLOG TABLE {name}"),
            || format!("analyzing table `{name}`"),
        )?;
    }
    Ok(())
}

/// What the data is, for people: `sbtest1 … sbtest16, standard`.
pub fn describe(plan: &Plan, layout: TableLayout) -> String {
    let prefix = table_prefix(layout);
    let tables = tables_needed(plan, layout);
    match tables {
        1 => format!("{prefix}1, {}", layout_name(layout)),
        n => format!("{prefix}1 … {prefix}{n}, {}", layout_name(layout)),
    }
}
