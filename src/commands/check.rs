//! `capbench check`: everything that a run would meet, and every statement by which it would change something.

use std::path::Path;

use super::admission::{admit, open_server};
use super::edges::{check_template, new_run, read_plan};
use super::failure::{Failure, session_failure};
use crate::cli::Exit;
use crate::execute;
use crate::interrupt::Interrupt;
use crate::matrix;
use crate::target::Journal;
use crate::terminal::Terminal;

/// Does it.
pub(super) fn check(
    path: &Path,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let loaded = read_plan(Some(path))?;
    let plan = &loaded.plan;
    check_template(plan)?;
    if let Some(why) = execute::outside_window(&plan.guard, &jiff::ZonedDateTime::now()) {
        terminal.say(format_args!("note: {why}; a run would be refused now"));
    }
    let mut journal = Journal::in_memory();
    let mut server = open_server(plan, &mut journal, terminal, interrupt)?;
    let mut run = new_run(&loaded);
    let admitted = admit(plan, &mut server, &mut run, terminal).and_then(|()| {
        let outlook = execute::outlook(plan, &mut server, terminal).map_err(session_failure)?;
        let changes = execute::changes(plan, &mut server).map_err(session_failure)?;
        Ok((outlook, changes))
    });
    let closed = server.close(&mut journal).map_err(Failure::run);
    let (outlook, changes) = admitted?;
    closed?;
    let estimate = matrix::estimate(plan);
    Terminal::data(&format!(
        "{outlook}\n{changes}\nok: {} cells, about {}; nothing was changed",
        matrix::cells(plan).len(),
        estimate.duration
    ));
    Ok(Exit::Passed)
}
