//! Every statement by which a run changes something, in the order of the run.

use std::fmt::Write as _;

use super::{SessionError, data};
use crate::dataset;
use crate::plan::Plan;
use crate::target::{self, Planned, Server};

/// What a run would change, for people. Asks the server, changes nothing.
///
/// # Errors
/// The server's.
pub fn changes(plan: &Plan, server: &mut Server) -> Result<String, SessionError> {
    if server.is_managed() {
        return Ok(
            "changes: none outside the private server, which is removed at the end".to_owned(),
        );
    }
    let settings = target::planned(plan, server)?;
    let resolved = data::resolve(plan, server)?;
    let mut made = Vec::new();
    for layout in data::layouts(plan) {
        made.extend(dataset::planned(server.admin()?, plan, layout, &resolved)?);
    }
    let mut text = "a run would change, in this order:".to_owned();
    section(&mut text, "for the whole run", &settings.run);
    section(&mut text, "data", &made);
    for (name, changes) in &settings.variants {
        section(&mut text, &format!("variant `{name}`"), changes);
    }
    section(&mut text, "before each warm-up", &settings.settle);
    let writers: Vec<&str> = plan
        .ladder
        .workloads
        .iter()
        .chain(&plan.warmup.workload)
        .filter(|program| program.writes())
        .map(|program| program.name.as_str())
        .collect();
    let mut load = Vec::new();
    if !plan.dataset.existing || !writers.is_empty() {
        load.extend(dataset::planned_reset(plan));
    }
    if !writers.is_empty() {
        load.push(Planned::new(
            "INSERT, UPDATE, DELETE",
            format!(
                "by {}, in these tables only (`capbench workload show NAME`)",
                writers.join(", ")
            ),
        ));
    }
    load.push(Planned::new(
        "KILL QUERY …",
        "of the load's own sessions, where one hangs at a cell's end",
    ));
    section(&mut text, "load", &load);
    let mut end: Vec<Planned> = settings
        .variants
        .iter()
        .chain(std::iter::once(&(String::new(), settings.run.clone())))
        .flat_map(|(_, changes)| changes.iter().rev())
        .filter_map(|change| {
            let (_, back) = change.note.split_once("put back by ")?;
            Some(Planned::new(back, ""))
        })
        .collect();
    if !plan.dataset.keep && !plan.dataset.existing {
        end.push(Planned::new(
            "DROP TABLE",
            "of all tables that capbench made (keep = false)",
        ));
    }
    end.extend(settings.end);
    section(&mut text, "at the end, whatever happens", &end);
    Ok(text)
}

fn section(text: &mut String, title: &str, changes: &[Planned]) {
    if changes.is_empty() {
        return;
    }
    // Writing to a string does not fail.
    let _ = write!(text, "\n  {title}");
    for change in changes {
        let _ = write!(text, "\n    {change}");
    }
}
