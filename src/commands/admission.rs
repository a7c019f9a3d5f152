//! The server opened, and refused before anything is touched when plan and server do not fit.

use std::path::Path;

use anyhow::anyhow;

use super::failure::Failure;
use crate::execute;
use crate::interrupt::Interrupt;
use crate::plan::{self, Plan, Warning};
use crate::record::{HostFacts, Run};
use crate::target::{self, DataSource, Held, Holder, Journal, Lease, Server};
use crate::terminal::Terminal;

/// Refuses a run outside the guard's window before anything is touched.
pub(crate) fn within_window(plan: &Plan) -> Result<(), Failure> {
    match execute::outside_window(&plan.guard, &jiff::ZonedDateTime::now()) {
        Some(why) => Err(Failure::run(anyhow!(
            "not started: {why}\nhint: run it inside the window, or change the window in the plan"
        ))),
        None => Ok(()),
    }
}

/// Refuses a plan that will ask a person when there is nobody to ask: better now than after hours.
pub(crate) fn somebody_to_ask(plan: &Plan) -> Result<(), Failure> {
    match plan.variants.iter().find(|variant| variant.operator) {
        Some(variant) if !Terminal::can_ask() => Err(Failure::input(anyhow!(
            "variant `{}` is applied by a person (operator = true), but nobody can be asked: standard input is not a terminal\nhint: run it in a terminal, for example under tmux or screen, or let hooks under [target] apply it",
            variant.name
        ))),
        _ => Ok(()),
    }
}

/// Connects, or starts the private server.
pub(super) fn open_server(
    plan: &Plan,
    journal: &mut Journal,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Server, Failure> {
    open_server_on(plan, DataSource::default(), journal, terminal, interrupt)
}

/// As [`open_server`]; a private one on the data of an earlier run, where there is any.
pub(crate) fn open_server_on(
    plan: &Plan,
    source: DataSource,
    journal: &mut Journal,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Server, Failure> {
    if let plan::Place::Managed(managed) = &plan.target.place {
        for folder in target::end_orphans(managed.directory.as_deref()) {
            terminal.say(format_args!(
                "removed a private server that a killed capbench had left behind in {}",
                folder.display()
            ));
        }
        terminal.say("starting a private server");
    }
    let asked = |endpoint: &target::Endpoint| {
        terminal.say(format_args!("connecting to {}", endpoint.address));
    };
    let server = Server::open_announced(plan, source, journal, interrupt, &asked)
        .map_err(Failure::target)?;
    let identity = server.identity();
    terminal.say(format_args!(
        "{} {}, {}",
        identity.flavour, identity.version, identity.address
    ));
    Ok(server)
}

/// Refuses before anything is touched what this plan and this server cannot do together, all of it in one
/// message; collects the warnings of plan, server and machine, and the dangers taken on, into the record. From
/// here on no other capbench works on the server.
pub(crate) fn admit(
    plan: &Plan,
    server: &mut Server,
    run: &mut Run,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let mut found = match &run.server {
        // Taken up again: everything must be as it was.
        Some(then) => super::resume::other_server(then, server.identity()),
        None => Vec::new(),
    };
    run.server = Some(server.identity().clone());
    run.settings.extend(server.raised().iter().cloned());
    run.warnings = warnings(plan, server, run);
    found.extend(unheld(server)?);
    found.extend(refusals(plan, server, &run.host, terminal)?);
    found.extend(execute::refusals(plan, server).map_err(super::failure::session_failure)?);
    for danger in target::surroundings(plan, server).map_err(Failure::run)? {
        if plan.guard.acknowledges(danger.risk) {
            run.warnings.push(Warning {
                name: danger.risk.name().to_owned(),
                text: danger.text,
                accepted: true,
            });
        } else {
            found.push(danger.to_string());
        }
    }
    run.warnings
        .iter()
        .for_each(|warning| terminal.warning(warning));
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure::run(anyhow!(
        "refused, and nothing was changed; {}:\n{}",
        match found.len() {
            1 => "what stands in the way".to_owned(),
            n => format!("{n} things stand in the way"),
        },
        found.join("\n")
    )))
}

/// No other capbench on this server from here on, and none that left changes behind; else why not.
fn unheld(server: &mut Server) -> Result<Vec<String>, Failure> {
    let held = server.held().map_err(Failure::run)?;
    if let Err(error) = server.lock() {
        let who = held
            .first()
            .map_or_else(String::new, |held| format!("\nit is {}", held.holder));
        return match error {
            target::TargetError::Unsupported(text) => Ok(vec![format!("{text}{who}")]),
            error => Err(Failure::run(error)),
        };
    }
    // Nobody alive holds the lock: whoever holds changes was cut off.
    Ok(held.iter().map(left_behind).collect())
}

/// What a run that was cut off left changed, and the way back.
fn left_behind(held: &Held) -> String {
    let changes: Vec<String> = held
        .entries
        .iter()
        .map(|entry| {
            format!(
                "{} ({} -> {})",
                entry.name,
                entry.before.as_deref().unwrap_or("n/a"),
                entry.after.as_deref().unwrap_or("n/a")
            )
        })
        .collect();
    let folder = held.holder.folder.as_deref();
    let by_folder = folder.map_or_else(String::new, |folder| {
        format!("`capbench restore {folder}` on that host, or, ")
    });
    format!(
        "a run that was cut off left the server changed: {}; it was {}\nhint: {by_folder}where that folder is lost, `capbench restore --from-server PLAN` puts it back",
        changes.join(", "),
        held.holder
    )
}

/// No other capbench on this server from here on, for commands that change no setting; refused while a run
/// holds changes.
pub(super) fn lock(server: &mut Server) -> Result<(), Failure> {
    let found = unheld(server)?;
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure::run(anyhow!("{}", found.join("\n"))))
}

/// From here on the server itself holds what is changed on it, before it is changed.
pub(crate) fn hold(
    plan: &Plan,
    server: &Server,
    journal: &mut Journal,
    run: &Run,
    folder: Option<&Path>,
) {
    if server.is_managed() {
        return;
    }
    let folder = folder.map(|dir| std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()));
    journal.hold(Lease::new(
        server.admin_endpoint(),
        &plan.target.database,
        Holder {
            plan: plan.name.clone(),
            host: run.host.name.clone(),
            folder: folder.map(|dir| dir.display().to_string()),
            since: run.started_at.clone(),
            made_database: false,
        },
    ));
}

/// What keeps the plan from running on this server, one line each; lesser limits are said and passed.
fn refusals(
    plan: &Plan,
    server: &mut Server,
    host: &HostFacts,
    terminal: &Terminal,
) -> Result<Vec<String>, Failure> {
    let mut found: Vec<String> = target::check_support(plan, server)
        .map_err(Failure::run)?
        .iter()
        .map(ToString::to_string)
        .collect();
    for limit in target::preflight(plan, server, host).map_err(Failure::run)? {
        if limit.blocking {
            found.push(limit.to_string());
        } else {
            terminal.say(format_args!("note: {limit}"));
        }
    }
    Ok(found)
}

/// The plan's own warnings and those of server and load machine, each once.
fn warnings(plan: &Plan, server: &mut Server, run: &Run) -> Vec<Warning> {
    let mut all = plan.warnings.clone();
    all.extend(target::warnings(plan, server, &run.host));
    all
}
