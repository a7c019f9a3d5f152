//! Going back to the prepared data, and having it a second time, against loading it with sysbench.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};
use capbench::dataset::{self, Resolved};
use capbench::interrupt::Interrupt;
use capbench::plan::{self, Place, Plan};
use capbench::target::{Anew, Cache, DataSource, Journal, Server, Unattended, data_key};
use capbench::units::Bytes;
use capbench::workload::TableLayout;
use mysql::prelude::Queryable as _;

use crate::report::{Better, Report, Row, Target};
use crate::settings::Settings;
use crate::subject::{DATABASE, Subject};
use crate::tools::{self, Tool};

const LAYOUT: TableLayout = TableLayout::Standard;
/// As loading has it.
const TABLES: u32 = 4;
/// More than any bench keeps.
const ROOM: Bytes = Bytes(1 << 40);

/// Time until a private server has its prepared data back after it was written to, and until another one has it
/// that starts on what was kept; against sysbench prepare on a running server (its cleanup, and the making of
/// the server, are not counted against it).
pub(crate) fn resetting(
    settings: &Settings,
    subject: &mut Subject,
    report: &mut Report,
) -> Result<()> {
    let rows = settings.load_rows;
    if rows == 0 {
        return Ok(());
    }
    let text = subject.plan_text(settings, TABLES, rows);
    let plan = plan::parse(&text, "bench.toml", Path::new("")).map_err(|e| anyhow!("{e}"))?;
    let folder = tempfile::tempdir()?;
    let cache = Cache::at(folder.path().join("cache"), ROOM);
    let resolved = dataset::plan_size(&plan.dataset, Bytes(0));
    let (mut resets, mut seconds) = (Vec::new(), Vec::new());
    fill(&plan, &cache, &resolved)?;
    for pair in 0..settings.pairs {
        let theirs = tools::prepare(Tool::Sysbench, false, TABLES, rows, settings, subject)?;
        let (second, reset) = ours(&plan, &cache, &resolved)?;
        eprintln!(
            "  {TABLES} × {rows} rows again, pair {}: sysbench {theirs:.2} s, put back {reset:.2} s, kept {second:.2} s",
            pair + 1
        );
        resets.push((theirs, reset));
        seconds.push((theirs, second));
    }
    for (what, values) in [
        ("returning to the prepared", resets),
        ("having a second time the", seconds),
    ] {
        report.row(Row {
            what: format!("{what} {TABLES} × {rows} rows, s"),
            values,
            scale: 1.0,
            better: Better::Lower,
            target: Some(Target::at(0.1)),
        });
    }
    Ok(())
}

fn source(plan: &Plan, cache: &Cache) -> Result<DataSource> {
    let Place::Managed(managed) = &plan.target.place else {
        return Err(anyhow!("the bench has a private server"));
    };
    let key = data_key(plan, managed, &[dataset::identity(plan, LAYOUT)])?
        .context("this server's data cannot be kept")?;
    let found = cache.find(&key).map_err(|why| anyhow!(why))?;
    Ok(DataSource {
        cache: Some((cache.clone(), key)),
        found,
    })
}

/// Loads the data and keeps it.
fn fill(plan: &Plan, cache: &Cache, resolved: &Resolved) -> Result<()> {
    let (interrupt, mut journal) = (Interrupt::new(), Journal::in_memory());
    let mut server = Server::open_on(plan, source(plan, cache)?, &mut journal, &interrupt)?;
    dataset::prepare(
        server.admin_endpoint(),
        plan,
        LAYOUT,
        resolved,
        &dataset::Silent,
        &interrupt,
    )?;
    let keeping = server.keep_data(true)?;
    server.close(&mut journal)?;
    keeping
        .kept
        .map(|_| ())
        .with_context(|| keeping.notes.join("; "))
}

/// Seconds until a new server has the kept data, and until it has it back after it was written to.
fn ours(plan: &Plan, cache: &Cache, resolved: &Resolved) -> Result<(f64, f64)> {
    let (interrupt, mut journal) = (Interrupt::new(), Journal::in_memory());
    let started = Instant::now();
    let mut server = Server::open_on(plan, source(plan, cache)?, &mut journal, &interrupt)?;
    check(&server, plan, resolved)?;
    let second = started.elapsed().as_secs_f64();
    let variant = plan.variants.first().context("a plan has a variant")?;
    server.apply_variant(plan, variant, &mut journal, &Unattended)?;
    dataset::mark_dirty(server.admin_endpoint(), plan, LAYOUT)?;
    let write = format!("UPDATE {DATABASE}.sbtest1 SET k = k + 1 WHERE id % 10 = 0");
    server.admin()?.ask(|conn| conn.query_drop(write))?;
    let started = Instant::now();
    server.start_anew(Anew::Restore);
    server.apply_variant(plan, variant, &mut journal, &Unattended)?;
    check(&server, plan, resolved)?;
    let reset = started.elapsed().as_secs_f64();
    server.close(&mut journal)?;
    Ok((second, reset))
}

fn check(server: &Server, plan: &Plan, resolved: &Resolved) -> Result<()> {
    dataset::recognise(server.admin_endpoint(), plan, LAYOUT, resolved)?
        .map(|_| ())
        .context("the data is not what was loaded")
}
