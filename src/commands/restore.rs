//! `capbench restore`: what a run that was cut off left changed is put back, from its folder's journal or from
//! what the server itself holds.

use std::path::Path;

use anyhow::anyhow;

use super::admission::open_server;
use super::edges::read_plan;
use super::failure::Failure;
use crate::cli::{Exit, RestoreArgs};
use crate::execute::AtScreen;
use crate::interrupt::Interrupt;
use crate::plan;
use crate::store;
use crate::target::{self, Entry, Held, Journal, Lease, Overtaken, Server, Undo};
use crate::terminal::Terminal;

/// Does what was typed.
pub(super) fn restore(
    args: &RestoreArgs,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let overtaken = match (args.force, args.keep) {
        (true, _) => Overtaken::Overwrite,
        (_, true) => Overtaken::Keep,
        _ => Overtaken::Refuse,
    };
    match (&args.dir, &args.from_server) {
        (_, Some(plan)) => from_server(plan, overtaken, terminal, interrupt),
        (Some(dir), None) => from_folder(dir, args.plan.as_deref(), overtaken, terminal, interrupt),
        (None, None) => Err(Failure::input(anyhow!("no folder was given"))),
    }
}

fn from_folder(
    dir: &Path,
    plan: Option<&Path>,
    overtaken: Overtaken,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let path = dir.join("journal.jsonl");
    if path.try_exists().is_ok_and(|exists| !exists) {
        return Err(Failure::input(anyhow!(
            "`{}` holds no journal.jsonl, which every run keeps in its folder\n\
             hint: name the folder that a run printed at its end, for example reports/<plan>-<time>; where it is \
             lost, the server itself knows: capbench restore --from-server PLAN",
            dir.display()
        )));
    }
    let pending = Journal::read_pending(&path).map_err(Failure::input)?;
    if pending.is_empty() {
        Terminal::data("nothing to put back: every change in the journal was undone");
        return Ok(Exit::Passed);
    }
    let loaded = read_plan(Some(plan.unwrap_or(&dir.join("plan.toml"))))?;
    let mut journal = Journal::create(&path).map_err(Failure::run)?;
    if let plan::Place::Managed(managed) = &loaded.plan.target.place {
        end_private(managed, &pending, &mut journal)?;
        return Ok(said(&pending, Overtaken::Refuse));
    }
    let mut server = open_server(&loaded.plan, &mut journal, terminal, interrupt)?;
    server.lock().map_err(Failure::run)?;
    same_server(dir, &server)?;
    let held = server.held().map_err(Failure::run)?;
    if let Some(held) = held.into_iter().find(|held| held.run == journal.run()) {
        journal.hold(lease_of(&server, &held));
    }
    put_back(server, journal, &pending, overtaken, terminal, interrupt)
}

/// Ends the private server that a run which was cut off has left behind; it takes its settings with it.
pub(super) fn end_private(
    managed: &plan::Managed,
    pending: &[Entry],
    journal: &mut Journal,
) -> Result<(), Failure> {
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
    pending
        .iter()
        .try_for_each(|entry| journal.undone(entry.seq))
        .map_err(Failure::run)
}

fn from_server(
    plan: &Path,
    overtaken: Overtaken,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let loaded = read_plan(Some(plan))?;
    if let plan::Place::Managed(_) = loaded.plan.target.place {
        return Err(Failure::input(anyhow!(
            "a private server holds no changes: it goes away with them\nhint: give the plan of the run that was cut off"
        )));
    }
    let mut none = Journal::in_memory();
    let mut server = open_server(&loaded.plan, &mut none, terminal, interrupt)?;
    server.lock().map_err(Failure::run)?;
    let mut exit = Exit::Passed;
    let all = server.held().map_err(Failure::run)?;
    if all.is_empty() {
        Terminal::data("nothing to put back: no run holds changes on this server");
    }
    server.close(&mut none).map_err(Failure::run)?;
    for held in all {
        terminal.say(format_args!("putting back what {} changed", held.holder));
        let mut server = open_server(&loaded.plan, &mut none, terminal, interrupt)?;
        server.lock().map_err(Failure::run)?;
        let mut journal = Journal::of_lease(&held.run, held.entries.clone());
        journal.hold(lease_of(&server, &held));
        exit = put_back(
            server,
            journal,
            &held.entries,
            overtaken,
            terminal,
            interrupt,
        )?;
    }
    Ok(exit)
}

fn lease_of(server: &Server, held: &Held) -> Lease {
    Lease::new(server.admin_endpoint(), &held.database, held.holder.clone())
}

fn put_back(
    mut server: Server,
    mut journal: Journal,
    pending: &[Entry],
    overtaken: Overtaken,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    server.when_overtaken(overtaken);
    server.adopt(pending.to_vec());
    let restored = server.restore(&mut journal, &AtScreen(terminal, interrupt));
    // What could not be put back now is not tried twice.
    server.adopt(Vec::new());
    let closed = server.close(&mut journal);
    restored.and(closed).map_err(Failure::run)?;
    Ok(said(pending, overtaken))
}

fn said(pending: &[Entry], overtaken: Overtaken) -> Exit {
    let names: Vec<String> = pending
        .iter()
        .map(|entry| format!("{} {}", entry.action, entry.name))
        .collect();
    let done = match overtaken {
        Overtaken::Keep => "put back, or left as someone else has set it",
        _ => "put back",
    };
    Terminal::data(&format!("{done}: {}", names.join(", ")));
    Exit::Passed
}

/// The journal of one server must not be replayed on another.
fn same_server(dir: &Path, server: &Server) -> Result<(), Failure> {
    let run = store::open(dir).ok().and_then(|run| run.server);
    let (Some(then), now) = (run.and_then(|server| server.uuid), &server.identity().uuid) else {
        return Ok(());
    };
    match now {
        Some(now) if *now != then => Err(Failure::run(anyhow!(
            "this is another server than that of the run: its id is {now}, the run's was {then}\nhint: state the right server in the plan, or give the plan with --plan"
        ))),
        _ => Ok(()),
    }
}
