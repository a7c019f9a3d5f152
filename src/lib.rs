//! capbench: a declarative capacity-test runner for MySQL-family databases.
//!
//! [`run`] reads as the architecture: plan → cells → target and data ready → each cell measured → findings →
//! report files. ARCHITECTURE.md says which module may use which.

pub mod analysis;
pub mod cli;
mod commands;
pub mod dataset;
pub mod execute;
pub mod interrupt;
pub mod latency;
pub mod load;
pub mod matrix;
pub mod plan;
pub mod probe;
pub mod record;
pub mod report;
mod steady;
pub mod store;
pub mod target;
pub mod terminal;
pub mod units;
pub mod workload;

use std::collections::BTreeMap;

use anyhow::anyhow;

use cli::{Cli, Exit, RunArgs};
use commands::Failure;
use execute::Session;
use interrupt::Interrupt;
use record::{Run, RunEnd};
use store::Store;
use target::Journal;
use terminal::Terminal;

/// Does what the command line says and returns how it ended. Everything a person must know is on the
/// screen by then.
pub fn main(cli: Cli) -> Exit {
    let terminal = Terminal::new(cli.is_quiet());
    let interrupt = Interrupt::new();
    let result = commands::listen(&interrupt).and_then(|()| match cli.command {
        None => run(&cli.run, &terminal, &interrupt),
        Some(command) => commands::dispatch(command, &terminal, &interrupt),
    });
    let exit = result.unwrap_or_else(|failure| failure.show(&terminal));
    if Terminal::lost_data() && exit == Exit::Passed {
        return Failure::run(anyhow!("standard output could not be written")).show(&terminal);
    }
    exit
}

/// Runs a plan: the whole pipeline.
fn run(args: &RunArgs, terminal: &Terminal, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let loaded = commands::read_plan(args.plan.as_deref())?;
    let cells = matrix::cells(&loaded.plan);
    if args.list {
        return Ok(commands::list(&loaded.plan, &cells));
    }
    commands::check_template(&loaded.plan)?;
    commands::within_window(&loaded.plan)?;
    commands::somebody_to_ask(&loaded.plan)?;
    let (mut store, mut run) = match &args.resume {
        Some(dir) => commands::resume(dir, &loaded)?,
        None => (
            commands::create_store(args, &loaded)?,
            commands::new_run(&loaded),
        ),
    };
    let known = run.cells.len();
    let measured = measure(
        &loaded.plan,
        &cells,
        &mut store,
        &mut run,
        terminal,
        interrupt,
    );
    let failure = commands::close(&mut run, measured);
    if run.cells.len() == known && failure.is_some() && args.resume.is_some() {
        // What the folder holds stays as it is.
        if let Some(way) = commands::way_on(args, &store, failure.as_ref()) {
            terminal.say(way);
        }
        return Err(failure.unwrap_or_else(|| Failure::run(anyhow!("nothing was measured"))));
    }
    if run.cells.is_empty() && failure.is_some() {
        // Nothing was measured: the message says all there is, and a folder without a cell would only be litter,
        // unless the journal still names a change.
        let changed =
            Journal::read_pending(&store.journal()).is_ok_and(|pending| !pending.is_empty());
        store.discard(changed);
        return Err(failure.unwrap_or_else(|| Failure::run(anyhow!("nothing was measured"))));
    }
    let saved = store.save(&run);
    let findings = analysis::analyse(&run);
    let written = report::write(
        &run,
        &findings,
        store.dir(),
        loaded.plan.report.template.as_deref(),
    );
    let way_on = commands::way_on(args, &store, failure.as_ref());
    commands::finish(&run, &findings, saved, written, way_on, failure)
}

/// Target ready, data ready, every cell measured, everything put back — on every way out.
fn measure(
    plan: &plan::Plan,
    cells: &[matrix::Cell],
    store: &mut Store,
    run: &mut Run,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<RunEnd, Failure> {
    let mut journal = Journal::create(&store.journal()).map_err(Failure::run)?;
    let mut server = commands::open_for_data(plan, &mut journal, terminal, interrupt)?;
    let end = commands::admit(plan, &mut server, run, terminal).and_then(|()| {
        commands::hold(plan, &server, &mut journal, run, Some(store.dir()));
        run.settings.extend(
            server
                .apply_run_settings(&plan.target.set, &mut journal)
                .map_err(Failure::run)?,
        );
        run.end = RunEnd::Running;
        Session {
            plan,
            server: &mut server,
            journal: &mut journal,
            run,
            save: &mut |run| {
                let saved = store.save(run);
                let findings = analysis::analyse(run);
                saved
                    .and_then(|()| report::write_cells(run, &findings, store.dir()).map(|_| ()))
                    .map_err(|error| error.to_string())
            },
            advisor: &commands::Analyst { plan },
            terminal,
            interrupt,
            resolved: None,
            expected: BTreeMap::new(),
            ground: execute::Ground::default(),
            written: false,
        }
        .run(cells)
        .map_err(commands::session_failure)
    });
    commands::put_back(server, &mut journal, end, &store.journal())
}
