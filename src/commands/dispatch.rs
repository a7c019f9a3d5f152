//! From a command word to what does it; Ctrl-C and its like.

use anyhow::anyhow;

use super::check::check;
use super::compare::compare;
use super::edges::read_plan;
use super::failure::Failure;
use super::kept::cache;
use super::offline::{knee, list, report_again, workloads};
use super::on_server::{cleanup, grants, prepare};
use super::restore::restore;
use crate::cli::{Command, Exit};
use crate::interrupt::Interrupt;
use crate::matrix;
use crate::target;
use crate::terminal::Terminal;

/// Listens for Ctrl-C and its like. The second one ends at once, but a private server goes with it.
pub(crate) fn listen(interrupt: &Interrupt) -> Result<(), Failure> {
    interrupt.at_last_resort(target::end_private_servers);
    interrupt
        .listen(|count| {
            let text = match count {
                1 => "\nending: the cell in flight stops, the server is put back, the report is written (once more: at once)",
                _ => "\nended at once: a private server is gone, but a server of others may still hold changes\nhint: `capbench restore DIR`, with the folder of this run, puts them back",
            };
            Terminal::new(false).raw(text);
        })
        .map_err(|error| Failure::run(anyhow!("cannot listen for signals: {error}")))
}

/// Does what a command word says.
pub(crate) fn dispatch(
    command: Command,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    match command {
        Command::Check { plan, list: true } => {
            let loaded = read_plan(Some(&plan))?;
            Ok(list(&loaded.plan, &matrix::cells(&loaded.plan)))
        }
        Command::Check { plan, list: false } => check(&plan, terminal, interrupt),
        Command::Prepare { plan, quiet: _ } => prepare(&plan, terminal, interrupt),
        Command::Cleanup { plan } => cleanup(&plan, terminal, interrupt),
        Command::Restore(args) => restore(&args, terminal, interrupt),
        Command::Report { dir, template } => report_again(&dir, template.as_deref(), terminal),
        Command::Compare {
            first,
            second,
            out,
            despite,
        } => compare(&first, &second, out.as_deref(), &despite, terminal),
        Command::Knee { file, gain, json } => knee(&file, &gain, json),
        Command::Workload { command } => workloads(command),
        Command::Cache { command } => cache(command),
        Command::Grants { plan, flavour } => grants(&plan, flavour),
    }
}
