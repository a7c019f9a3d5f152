//! The commands that ask a server: check, prepare, cleanup, restore, grants.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::anyhow;

use super::admission::{admit, lock, open_server};
use super::analyst::Analyst;
use super::edges::{new_run, read_plan};
use super::failure::{Failure, session_failure};
use super::kept::{keeps, open_for_data};
use crate::cli::{Exit, FlavourArg};
use crate::dataset;
use crate::execute::{self, AtScreen, Session};
use crate::interrupt::Interrupt;
use crate::matrix;
use crate::plan::{self, Loaded, Plan};
use crate::record::Flavour;
use crate::store;
use crate::target::{self, Journal, Server, Undo};
use crate::terminal::Terminal;

/// `capbench check`.
pub(super) fn check(
    path: &Path,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let loaded = read_plan(Some(path))?;
    let plan = &loaded.plan;
    if let Some(why) = execute::outside_window(&plan.guard, &jiff::ZonedDateTime::now()) {
        terminal.say(format_args!("note: {why}; a run would be refused now"));
    }
    let mut journal = Journal::in_memory();
    let mut server = open_server(plan, &mut journal, terminal, interrupt)?;
    let mut run = new_run(&loaded);
    let admitted = admit(plan, &mut server, &mut run, terminal)
        .and_then(|_lock| execute::outlook(plan, &mut server, terminal).map_err(session_failure));
    let closed = server.close(&mut journal).map_err(Failure::run);
    let outlook = admitted?;
    closed?;
    let estimate = matrix::estimate(plan);
    Terminal::data(&format!(
        "{outlook}\nok: {} cells, about {}; nothing was changed",
        matrix::cells(plan).len(),
        estimate.duration
    ));
    Ok(Exit::Passed)
}

/// `capbench prepare`.
pub(super) fn prepare(
    path: &Path,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let loaded = read_plan(Some(path))?;
    // For a private server, its data is prepared for the runs to come, where that may be kept.
    if !keeps(&loaded.plan)? {
        refuse_private(&loaded.plan, "prepare", "its data goes away with it")?;
    }
    with_server(&loaded, terminal, interrupt, |session| {
        session.prepare().map_err(session_failure)?;
        let facts = session.run.dataset.clone().unwrap_or_default();
        Terminal::data(&format!(
            "{} tables of {} rows ({}), {} with index",
            facts.tables, facts.rows, facts.origin, facts.bytes
        ));
        Ok(Exit::Passed)
    })
}

/// `capbench cleanup`.
pub(super) fn cleanup(
    path: &Path,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let loaded = read_plan(Some(path))?;
    refuse_private(&loaded.plan, "cleanup", "it leaves nothing behind")?;
    let mut journal = Journal::in_memory();
    let server = open_server(&loaded.plan, &mut journal, terminal, interrupt)?;
    let dropped = lock(&server).and_then(|_lock| {
        dataset::cleanup(server.admin_endpoint(), &loaded.plan.target.database)
            .map_err(Failure::run)
    });
    server.close(&mut journal).map_err(Failure::run)?;
    Terminal::data(&dropped?.to_string());
    Ok(Exit::Passed)
}

fn refuse_private(plan: &Plan, command: &str, why: &str) -> Result<(), Failure> {
    match plan.target.place {
        plan::Place::Server(_) => Ok(()),
        plan::Place::Managed(_) => Err(Failure::input(anyhow!(
            "`{command}` has nothing to do for a private server: {why}\nhint: run the plan itself, or give it a [target] with host or socket"
        ))),
    }
}

/// Opens the server, admits the plan, and closes the server again whatever `work` brings.
fn with_server(
    loaded: &Loaded,
    terminal: &Terminal,
    interrupt: &Interrupt,
    work: impl FnOnce(&mut Session<'_>) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let plan = &loaded.plan;
    let mut journal = Journal::in_memory();
    let mut server = open_for_data(plan, &mut journal, terminal, interrupt)?;
    let mut run = new_run(loaded);
    let done = admit(plan, &mut server, &mut run, terminal).and_then(|_lock| {
        let mut session = Session {
            plan,
            server: &mut server,
            journal: &mut journal,
            run: &mut run,
            save: &mut |_| Ok(()),
            advisor: &Analyst { plan },
            terminal,
            interrupt,
            resolved: None,
            expected: BTreeMap::new(),
            written: false,
        };
        work(&mut session)
    });
    server.close(&mut journal).map_err(Failure::run)?;
    done
}

/// `capbench restore`.
pub(super) fn restore(
    dir: &Path,
    plan: Option<&Path>,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let path = dir.join("journal.jsonl");
    let pending = Journal::read_pending(&path).map_err(Failure::input)?;
    if pending.is_empty() {
        Terminal::data("nothing to put back: every change in the journal was undone");
        return Ok(Exit::Passed);
    }
    let loaded = read_plan(Some(plan.unwrap_or(&dir.join("plan.toml"))))?;
    let mut journal = Journal::create(&path).map_err(Failure::run)?;
    let names: Vec<String> = pending
        .iter()
        .map(|entry| format!("{} {}", entry.action, entry.name))
        .collect();
    if let plan::Place::Managed(managed) = &loaded.plan.target.place {
        // A private server takes its settings with it.
        target::end_orphans(managed.directory.as_deref());
        let left = pending.iter().find_map(|entry| match &entry.undo {
            Undo::PrivateServer { folder, .. } if folder.exists() => Some(folder),
            _ => None,
        });
        if let Some(folder) = left {
            return Err(Failure::run(anyhow!(
                "the private server in {} is still in use: its capbench runs\nhint: end that run first (Ctrl-C)",
                folder.display()
            )));
        }
        for entry in &pending {
            journal.undone(entry.seq).map_err(Failure::run)?;
        }
    } else {
        let mut server = open_server(&loaded.plan, &mut journal, terminal, interrupt)?;
        let _lock = lock(&server)?;
        same_server(dir, &server)?;
        server.adopt(pending);
        let restored = server.restore(&mut journal, &AtScreen(terminal, interrupt));
        let closed = server.close(&mut journal);
        restored.and(closed).map_err(Failure::run)?;
    }
    Terminal::data(&format!("put back: {}", names.join(", ")));
    Ok(Exit::Passed)
}

/// The journal of one server must not be replayed on another.
fn same_server(dir: &Path, server: &Server) -> Result<(), Failure> {
    let run = store::open(dir).ok().and_then(|run| run.server);
    let (Some(then), now) = (run.and_then(|server| server.uuid), &server.identity().uuid) else {
        return Ok(());
    };
    match now {
        Some(now) if *now != then => Err(Failure::input(anyhow!(
            "this is another server than that of the run: its id is {now}, the run's was {then}\nhint: state the right server in the plan, or give the plan with --plan"
        ))),
        _ => Ok(()),
    }
}

/// `capbench grants`.
pub(super) fn grants(path: &Path, flavour: Option<FlavourArg>) -> Result<Exit, Failure> {
    let loaded = read_plan(Some(path))?;
    let flavour = match flavour {
        Some(FlavourArg::Mysql) => Flavour::MySql,
        Some(FlavourArg::Mariadb) => Flavour::MariaDb,
        None => target::flavour_of(&loaded.plan).map_err(Failure::run)?,
    };
    Terminal::data(&target::grants(&loaded.plan, flavour));
    Ok(Exit::Passed)
}
