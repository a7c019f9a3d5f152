//! The data of a run: every table layout that its workloads need, ready, reset, and removed at the end.

use crate::dataset::{self, DatasetError, Resolved};
use crate::plan::{Plan, Warning};
use crate::record::{DatasetFacts, Run};
use crate::target::Server;
use crate::terminal::Terminal;
use crate::units::Bytes;

use crate::units::Multiple;
use crate::workload::TableLayout;

use super::SessionError;
use super::loading::Loading;
use crate::interrupt::Interrupt;

/// The layouts that the plan's workloads need, the standard one first.
pub(super) fn layouts(plan: &Plan) -> Vec<TableLayout> {
    let mut layouts = Vec::new();
    for program in plan.ladder.workloads.iter().chain(&plan.warmup.workload) {
        if !layouts.contains(&program.tables) {
            layouts.push(program.tables);
        }
    }
    layouts.sort_by_key(|layout| *layout != TableLayout::Standard);
    layouts
}

/// The plan's size made definite against the largest buffer pool of any variant.
pub(super) fn resolve(plan: &Plan, server: &mut Server) -> Result<Resolved, SessionError> {
    let pool = server.max_buffer_pool(plan)?;
    Ok(dataset::plan_size(&plan.dataset, pool))
}

/// What the data of a run will be, for `capbench check`: one line a fact, nothing changed.
///
/// # Errors
/// The server's.
pub fn outlook(
    plan: &Plan,
    server: &mut Server,
    terminal: &Terminal,
) -> Result<String, SessionError> {
    let resolved = resolve(plan, server)?;
    let endpoint = server.admin_endpoint().clone();
    let mut lines = Vec::new();
    for layout in layouts(plan) {
        lines.push(format!("ok: data: {}", dataset::describe(plan, layout)));
    }
    let ratio = resolved.estimated.0 as f64 / resolved.buffer_pool.0.max(1) as f64;
    let stated = plan.warnings.iter().any(|known| known.name == "small-data");
    if ratio < MIN_BUFFER_POOLS && !plan.dataset.existing && !stated {
        terminal.warning(&small_data(plan, ratio, resolved.buffer_pool));
    }
    lines.push(format!(
        "ok: data: {} rows a table, about {}, {} times the largest buffer pool ({})",
        resolved.rows,
        resolved.estimated,
        Multiple(ratio),
        resolved.buffer_pool
    ));
    if !plan.dataset.existing {
        // What does not fit was refused by now, unless the data is there already.
        match dataset::disk_space(server.admin()?, &endpoint, plan, &resolved, Bytes(0))? {
            Some(spaces) => lines.extend(spaces.iter().map(|space| {
                let state = if space.suffices() { "ok" } else { "note" };
                format!("{state}: disk: {space}")
            })),
            None => lines.push("note: the server's free disk cannot be seen from here".to_owned()),
        }
    }
    Ok(lines.join("\n"))
}

/// Everything for which the data could not be made ready or put back on this server, one text each. Changes
/// nothing.
///
/// # Errors
/// The server does not answer.
pub fn refusals(plan: &Plan, server: &mut Server) -> Result<Vec<String>, SessionError> {
    let resolved = resolve(plan, server)?;
    let mut found: Vec<String> = Vec::new();
    for layout in layouts(plan) {
        let all = match dataset::refusals(server.admin_endpoint(), plan, layout, &resolved) {
            Ok(all) => all,
            // A question that the account may not ask is one that a run may not either.
            Err(error) if error.code().is_some() => vec![error],
            Err(error @ DatasetError::Version { .. }) => vec![error],
            Err(error) => return Err(error.into()),
        };
        for text in all.iter().map(ToString::to_string) {
            // Several layouts meet the same.
            if !found.contains(&text) {
                found.push(text);
            }
        }
    }
    Ok(found)
}

/// Loads, or recognises, every layout. The facts are those of the first, which is the standard one where
/// the plan has it.
pub(super) fn ready(
    plan: &Plan,
    server: &mut Server,
    resolved: &Resolved,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<DatasetFacts, SessionError> {
    // A load that fails ends the run, and with it a private server as it then is.
    let fast = server.begin_loading()?;
    let mut facts = None;
    for layout in layouts(plan) {
        let progress = Loading::new(&plan.guard, server, terminal);
        let made = dataset::prepare(
            server.admin_endpoint(),
            plan,
            layout,
            resolved,
            &progress,
            interrupt,
        )?;
        facts.get_or_insert(made);
    }
    server.end_loading(fast)?;
    Ok(facts.unwrap_or_default())
}

/// Everything that decides what the data of this plan is, in comparable texts.
pub fn identity(plan: &Plan) -> Vec<String> {
    layouts(plan)
        .into_iter()
        .map(|layout| dataset::identity(plan, layout))
        .collect()
}

/// The facts of data whose files were put into place; `None`: some of it is not what the plan wants.
pub(super) fn recognise(
    plan: &Plan,
    server: &Server,
    resolved: &Resolved,
) -> Result<Option<DatasetFacts>, SessionError> {
    let mut facts = None;
    for layout in layouts(plan) {
        match dataset::recognise(server.admin_endpoint(), plan, layout, resolved)? {
            Some(found) => facts.get_or_insert(found),
            None => return Ok(None),
        };
    }
    Ok(facts)
}

/// The data of an earlier run that a private server was started on, if it proves to be what the plan wants.
pub(super) fn kept(
    plan: &Plan,
    server: &mut Server,
    resolved: &Resolved,
    terminal: &Terminal,
) -> Result<Option<DatasetFacts>, SessionError> {
    if !server.has_copy() {
        return Ok(None);
    }
    let found = recognise(plan, server, resolved)?;
    if found.is_none() {
        terminal.say("note: the data that was kept is not what this plan wants; it is loaded anew");
        server.forget_copy();
    }
    Ok(found)
}

/// Departures from the method that only the loaded data and the server can show.
///
/// `small-data`: less than twice the buffer pool, so memory is measured, not the database.
/// `fits-page-cache`: InnoDB reads through the page cache of this host, and the data fits into it.
pub(super) fn warnings(plan: &Plan, server: &Server, run: &Run) -> Vec<Warning> {
    let mut found = Vec::new();
    let Some(facts) = &run.dataset else {
        return found;
    };
    if let Some(ratio) = facts.ratio().filter(|ratio| *ratio < MIN_BUFFER_POOLS) {
        found.push(small_data(plan, ratio, facts.buffer_pool));
    }
    let identity = server.identity();
    let method = identity
        .variables
        .get("innodb_flush_method")
        .map_or("", String::as_str);
    let direct = method.to_ascii_uppercase().starts_with("O_DIRECT");
    if identity.local && !direct && facts.bytes < run.host.memory {
        found.push(plan.warning(
            "fits-page-cache",
            format!(
                "InnoDB reads through the page cache here (innodb_flush_method = {}), and {} of data fit into this host's {}: reads that miss the buffer pool may still come from memory",
                if method.is_empty() { "n/a" } else { method },
                facts.bytes,
                run.host.memory
            ),
        ));
    }
    found
}

fn small_data(plan: &Plan, ratio: f64, pool: Bytes) -> Warning {
    plan.warning(
        "small-data",
        format!(
            "the data is {ratio:.1} times the buffer pool of {pool}, under {MIN_BUFFER_POOLS}: this measures memory rather than the database"
        ),
    )
}

/// Data below this multiple of the buffer pool measures memory (product method: 2–3 times or more).
const MIN_BUFFER_POOLS: f64 = 2.0;

/// Puts every layout that was written to back to its first state.
pub(super) fn reset(
    plan: &Plan,
    server: &mut Server,
    resolved: &Resolved,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<(), SessionError> {
    let fast = server.begin_loading()?;
    for layout in layouts(plan) {
        reset_layout(plan, server, layout, resolved, terminal, interrupt)?;
    }
    server.end_loading(fast)?;
    Ok(())
}

/// Puts one layout back to its first state, if it was written to.
pub(super) fn reset_layout(
    plan: &Plan,
    server: &Server,
    layout: TableLayout,
    resolved: &Resolved,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<(), SessionError> {
    let progress = Loading::new(&plan.guard, server, terminal);
    dataset::reset(
        server.admin_endpoint(),
        plan,
        layout,
        resolved,
        &progress,
        interrupt,
    )?;
    Ok(())
}
