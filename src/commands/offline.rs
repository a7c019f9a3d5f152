//! The commands that ask no server: the list of cells, report, knee, workload.

use std::path::Path;

use anyhow::anyhow;

use super::failure::Failure;
use crate::analysis::{self, knee_csv};
use crate::cli::{Exit, WorkloadCommand};
use crate::matrix::{self, Cell};
use crate::plan::Plan;
use crate::report;
use crate::store;
use crate::terminal::Terminal;
use crate::units::Ratio;
use crate::workload;

/// `--list`: the cells in order, with the estimate.
pub(crate) fn list(plan: &Plan, cells: &[Cell]) -> Exit {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::TableStyle::new());
    table.set_header(["cell", "repeat", "variant", "workload", "step", "clients"]);
    for cell in cells {
        table.add_row([
            cell.index.to_string(),
            cell.repeat.to_string(),
            plan.variants[cell.variant].name.clone(),
            plan.ladder.workloads[cell.workload].name.clone(),
            cell.step.to_string(),
            cell.clients.to_string(),
        ]);
    }
    let estimate = matrix::estimate(plan);
    let data = estimate.data.map_or_else(
        || "known once the server's buffer pool is (`capbench check` asks it)".to_owned(),
        |bytes| format!("about {bytes} for data and index, and as much again for a moment where the server keeps undo, redo and binary log"),
    );
    Terminal::data(&format!(
        "{}\n\n{}{} cells of {} discard + {} measured, {} warm-up before each variant, data loaded {}, server restarted {}\nestimated time: {}\nestimated disk: {data}",
        table.trim_fmt(),
        after_ladder(plan),
        cells.len(),
        plan.ladder.discard,
        plan.ladder.measure,
        plan.warmup.duration,
        times(estimate.loads),
        times(estimate.restarts),
        estimate.duration,
    ));
    Exit::Passed
}

/// What follows the ladder, a line each, and an empty one; empty when nothing does.
fn after_ladder(plan: &Plan) -> String {
    let mut lines = Vec::new();
    if matrix::closes_with_reference(plan) {
        lines.push(
            "then the baseline once more: each workload at the knee, to see drift".to_owned(),
        );
    }
    if plan.ladder.refine {
        lines.push(format!(
            "then the baseline's steps that decide the knee, within {}",
            plan.ladder.refine_budget
        ));
    }
    if let Some(soak) = &plan.soak {
        let workload = soak
            .workload
            .and_then(|i| plan.ladder.workloads.get(i))
            .map_or("the workload that decides the limit", |w| w.name.as_str());
        lines.push(format!(
            "then a soak of the baseline: {workload} at {} for {}",
            soak.level, soak.duration
        ));
    }
    if lines.is_empty() {
        String::new()
    } else {
        format!("{}\n\n", lines.join("\n"))
    }
}

fn times(n: u32) -> String {
    match n {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}

/// `capbench report`.
pub(super) fn report_again(
    dir: &Path,
    template: Option<&Path>,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let run = store::open(dir).map_err(Failure::input)?;
    // Who writes the report again sees at once that it rests on less.
    for warning in run.warnings.iter().filter(|w| w.name == store::CUT_OFF) {
        terminal.warning(warning);
    }
    let findings = analysis::analyse(&run);
    let written = report::write(&run, &findings, dir, template).map_err(Failure::run)?;
    Terminal::data(&written.to_string());
    Ok(Exit::Passed)
}

/// `capbench knee`.
pub(super) fn knee(file: &Path, gain: &str, json: bool) -> Result<Exit, Failure> {
    let shown = file.display();
    let text = if file.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| Failure::input(anyhow!("cannot read {shown}: {error}")))?;
    let gain = Ratio::parse(gain).map_err(|why| Failure::input(anyhow!("--gain: {why}")))?;
    let ladder =
        knee_csv::read(&text).map_err(|error| Failure::input(anyhow!("{shown}: {error}")))?;
    let mut knee = analysis::knee::from_points(&ladder.points, gain);
    knee.notes.splice(0..0, ladder.notes);
    Terminal::data(&if json {
        knee_csv::knee_json(&knee).to_string()
    } else {
        knee_csv::knee_text(&knee)
    });
    Ok(Exit::Passed)
}

/// `capbench workload …`.
pub(super) fn workloads(command: WorkloadCommand) -> Result<Exit, Failure> {
    match command {
        WorkloadCommand::List => {
            let mut table = comfy_table::Table::new();
            table.load_style(comfy_table::TableStyle::new());
            for (name, description) in workload::describe() {
                table.add_row([name.to_owned(), description]);
            }
            Terminal::data(&table.trim_fmt());
        }
        WorkloadCommand::Show { name, options } => {
            let mut values = workload::WorkloadOptions::new();
            for option in options {
                let (key, value) = option
                    .split_once('=')
                    .ok_or_else(|| Failure::input(anyhow!("-o {option}: expected NAME=VALUE")))?;
                let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
                values.insert(key.trim().to_owned(), value);
            }
            Terminal::data(
                &workload::show(&name, Path::new("."), &values).map_err(Failure::input)?,
            );
        }
    }
    Ok(Exit::Passed)
}
