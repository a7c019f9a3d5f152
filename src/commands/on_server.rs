//! The commands that ask a server: prepare, cleanup, grants.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::anyhow;

use super::admission::{admit, hold, lock, open_server};
use super::analyst::Analyst;
use super::edges::{new_run, read_plan};
use super::failure::{Failure, session_failure};
use super::kept::{keeps, open_for_data};
use crate::cli::{Exit, FlavourArg};
use crate::dataset;
use crate::execute::{Ground, Session};
use crate::interrupt::Interrupt;
use crate::plan::{self, Loaded, Plan};
use crate::record::Flavour;
use crate::target::{self, Journal};
use crate::terminal::Terminal;

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
    let mut server = open_server(&loaded.plan, &mut journal, terminal, interrupt)?;
    let dropped = lock(&mut server).and_then(|()| {
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
    let done = admit(plan, &mut server, &mut run, terminal).and_then(|()| {
        hold(plan, &server, &mut journal, &run, None);
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
            ground: Ground::default(),
            written: false,
        };
        work(&mut session)
    });
    server.close(&mut journal).map_err(Failure::run)?;
    done
}

/// `capbench grants`.
pub(super) fn grants(path: &Path, flavour: Option<FlavourArg>) -> Result<Exit, Failure> {
    let loaded = read_plan(Some(path))?;
    let flavour = match flavour {
        Some(FlavourArg::Mysql) => Flavour::MySql,
        Some(FlavourArg::Mariadb) => Flavour::MariaDb,
        None => target::flavour_of(&loaded.plan).map_err(Failure::target)?,
    };
    Terminal::data(&target::grants(&loaded.plan, flavour));
    Ok(Exit::Passed)
}
