//! The server opened, and refused before anything is touched when plan and server do not fit.

use anyhow::anyhow;

use super::failure::Failure;
use crate::execute;
use crate::interrupt::Interrupt;
use crate::plan::{self, Plan, Warning};
use crate::record::Run;
use crate::target::{self, DataSource, Journal, Others, RunLock, Server};
use crate::terminal::Terminal;

/// Refuses a run outside the guard's window before anything is touched.
pub(crate) fn within_window(plan: &Plan) -> Result<(), Failure> {
    match execute::outside_window(&plan.guard, &jiff::ZonedDateTime::now()) {
        Some(why) => Err(Failure::guard(anyhow!(
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
    terminal.say(match &plan.target.place {
        plan::Place::Managed(managed) => {
            for folder in target::end_orphans(managed.directory.as_deref()) {
                terminal.say(format_args!(
                    "removed a private server that a killed capbench had left behind in {}",
                    folder.display()
                ));
            }
            "starting a private server".to_owned()
        }
        plan::Place::Server(place) => format!("connecting to {}", place.address),
    });
    let server = Server::open_on(plan, source, journal, interrupt).map_err(|error| {
        if error.is_interrupt() {
            Failure::interrupted()
        } else {
            Failure::run(error)
        }
    })?;
    let identity = server.identity();
    terminal.say(format_args!(
        "{} {}, {}",
        identity.flavour, identity.version, identity.address
    ));
    Ok(server)
}

/// Refuses before anything is touched what this plan and this server cannot do together; collects the
/// warnings of plan, server and machine into the record.
pub(crate) fn admit(
    plan: &Plan,
    server: &mut Server,
    run: &mut Run,
    terminal: &Terminal,
) -> Result<Option<RunLock>, Failure> {
    run.server = Some(server.identity().clone());
    run.settings.extend(server.raised().iter().cloned());
    run.warnings = warnings(plan, server, run);
    run.warnings
        .iter()
        .for_each(|warning| terminal.warning(warning));
    let problems = refusals(plan, server, terminal)?;
    if problems.is_empty() {
        return lock(server);
    }
    Err(Failure::input(anyhow!(
        "this plan does not fit this server:\n{}",
        problems.join("\n")
    )))
}

/// No other capbench on this server from here on; a private server has no other.
pub(super) fn lock(server: &Server) -> Result<Option<RunLock>, Failure> {
    if server.is_managed() {
        return Ok(None);
    }
    RunLock::take(server.admin_endpoint())
        .map(Some)
        .map_err(Failure::input)
}

/// What keeps the plan from running on this server, one line each; lesser limits are said and passed.
fn refusals(plan: &Plan, server: &mut Server, terminal: &Terminal) -> Result<Vec<String>, Failure> {
    let mut found: Vec<String> = target::check_support(plan, server)
        .map_err(Failure::run)?
        .iter()
        .map(ToString::to_string)
        .collect();
    found.extend(intrusion(plan, server)?);
    for limit in target::preflight(plan, server).map_err(Failure::run)? {
        if limit.blocking {
            found.push(limit.to_string());
        } else {
            terminal.say(format_args!("note: {limit}"));
        }
    }
    Ok(found)
}

/// Why the load would intrude on others: who is seen is named, and what cannot be seen is not "nobody".
fn intrusion(plan: &Plan, server: &mut Server) -> Result<Option<String>, Failure> {
    /// As many sessions as a person reads.
    const NAMED: usize = 8;
    if plan.guard.allow_other_clients || server.is_managed() {
        return Ok(None);
    }
    let hint = "hint: run it when nobody else uses the server, or state allow_other_clients = true under [guard]";
    Ok(match target::others(server).map_err(Failure::run)? {
        Others::Unseen => Some(format!(
            "other clients cannot be seen: the account of the control connections lacks the PROCESS privilege\n{hint}, or grant PROCESS (`capbench grants`)"
        )),
        Others::Seen(others) if others.is_empty() => None,
        Others::Seen(others) => {
            let more = others.len().saturating_sub(NAMED);
            let named = others[..others.len() - more].join(", ");
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            Some(format!(
                "{} other clients are connected: {named}{more}\n{hint}",
                others.len()
            ))
        }
    })
}

/// The plan's own warnings and those of server and load machine, each once.
fn warnings(plan: &Plan, server: &mut Server, run: &Run) -> Vec<Warning> {
    let mut all = plan.warnings.clone();
    all.extend(target::warnings(plan, server, &run.host));
    all
}
