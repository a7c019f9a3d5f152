//! A run's edges: its plan, folder and blank record; putting back, the report's place and the exit code.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::anyhow;

use super::failure::Failure;
use crate::analysis::Findings;
use crate::cli::{Exit, RunArgs};
use crate::plan::{self, Loaded, Reset};
use crate::probe;
use crate::record::{AfterLadder, Run, RunEnd, RunEvidence, WorkloadRecord};
use crate::report;
use crate::store::{self, Store, StoreError};
use crate::target::{Journal, Server};
use crate::terminal::Terminal;
use crate::workload;

/// Reads and validates the plan.
pub(crate) fn read_plan(path: Option<&Path>) -> Result<Loaded, Failure> {
    let path = path.ok_or_else(|| Failure::input(anyhow!("no plan was given")))?;
    plan::load(path).map_err(Failure::input)
}

/// Refuses a report template that cannot be used, before hours of load and not after them.
pub(crate) fn check_template(plan: &plan::Plan) -> Result<(), Failure> {
    match &plan.report.template {
        Some(path) => report::check_template(path).map_err(Failure::input),
        None => Ok(()),
    }
}

/// The folder of this run.
pub(crate) fn create_store(args: &RunArgs, loaded: &Loaded) -> Result<Store, Failure> {
    let place = match &args.out {
        Some(dir) => store::Place::Exactly(dir),
        None => store::Place::Under(Path::new("reports")),
    };
    Store::create(
        place,
        &loaded.plan.slug(),
        jiff::Timestamp::now(),
        loaded.source.as_bytes(),
    )
    .map_err(|error| {
        if args.out.is_some() && error.is_taken() {
            Failure::input(error)
        } else {
            Failure::run(error)
        }
    })
}

/// The record of a run that has not begun.
pub(crate) fn new_run(loaded: &Loaded) -> Run {
    use sha2::Digest as _;
    let plan = &loaded.plan;
    let ladder = &plan.ladder;
    Run {
        format: store::FORMAT,
        tool: format!("capbench {}", env!("CARGO_PKG_VERSION")),
        name: plan.name.clone(),
        plan_sha256: hexadecimal(&sha2::Sha256::digest(&loaded.source)),
        command: command_line(),
        seed: plan.seed,
        started_at: now(),
        ended_at: None,
        end: RunEnd::Running,
        environment: plan.environment.clone(),
        server: None,
        host: probe::host::facts(),
        dataset: None,
        settings: Vec::new(),
        variants: Vec::new(),
        workloads: ladder
            .workloads
            .iter()
            .map(|program| WorkloadRecord {
                name: program.name.clone(),
                description: program.description.clone(),
                mix: workload::mix(program),
            })
            .collect(),
        protocol: match plan.load.protocol {
            plan::Protocol::Prepared => "prepared".into(),
            plan::Protocol::Text => "text".into(),
        },
        access: plan.access.to_string(),
        open: ladder.open,
        discard: ladder.discard,
        measure: ladder.measure,
        interval: ladder.interval,
        repeats: ladder.repeats,
        warmup: match &plan.warmup.workload {
            Some(program) => {
                let until = if plan.warmup.until_level {
                    format!(
                        " and until reads from files are level, at most {}",
                        plan.warmup.limit
                    )
                } else {
                    String::new()
                };
                format!(
                    "{} with {} threads for {}{until}",
                    program.name, plan.warmup.threads, plan.warmup.duration
                )
            }
            None => "none".into(),
        },
        reset: match plan.dataset.reset {
            Reset::Never => "never".into(),
            Reset::PerVariant => "before each variant".into(),
            Reset::PerCell => "before each cell".into(),
        },
        knee_gain: plan.analysis.knee_gain,
        house: plan.analysis.house,
        after: AfterLadder::default(),
        criteria: plan.criteria.clone(),
        warnings: plan.warnings.clone(),
        resumed: Vec::new(),
        starts: Vec::new(),
        cells: Vec::new(),
        unavailable: Vec::new(),
        evidence: RunEvidence::default(),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn now() -> String {
    jiff::Timestamp::now()
        .round(jiff::Unit::Second)
        .unwrap_or_else(|_| jiff::Timestamp::now())
        .to_string()
}

/// The command as it was typed; there is nothing secret in it, since capbench takes no secret there.
fn command_line() -> String {
    std::iter::once("capbench".to_owned())
        .chain(
            std::env::args_os()
                .skip(1)
                .map(|argument| argument.to_string_lossy().into_owned()),
        )
        .collect::<Vec<_>>()
        .join(" ")
}

/// Enters into the record how the measuring ended; returns the failure that outlives the report.
pub(crate) fn close(run: &mut Run, measured: Result<RunEnd, Failure>) -> Option<Failure> {
    run.ended_at = Some(now());
    match measured {
        Ok(end) => {
            run.end = end;
            None
        }
        Err(failure) => {
            run.end = match failure.exit {
                Exit::Interrupted => RunEnd::Interrupted,
                _ => RunEnd::Failed(failure.reason()),
            };
            Some(failure)
        }
    }
}

/// Puts everything back and closes the server. A server that could not be put back is never passed over.
pub(crate) fn put_back(
    server: Server,
    journal: &mut Journal,
    end: Result<RunEnd, Failure>,
    journal_path: &Path,
) -> Result<RunEnd, Failure> {
    match server.close(journal) {
        Ok(()) => end,
        Err(error) => {
            // What went wrong first is the cause; the rest may well follow from it.
            let first = match &end {
                Err(first) if !first.reason().is_empty() => format!("{}; then ", first.reason()),
                _ => String::new(),
            };
            let error = anyhow!(
                "{first}the server was not put back: {error}\nhint: once it answers, `capbench restore {}` puts it back; every change, with the way to undo it, stands in {}",
                journal_path.parent().unwrap_or(journal_path).display(),
                journal_path.display()
            );
            Err(Failure::run(error))
        }
    }
}

/// How a run that the user has ended goes on; `None`: it ended otherwise.
pub(crate) fn way_on(args: &RunArgs, store: &Store, failure: Option<&Failure>) -> Option<String> {
    failure.filter(|failure| failure.exit == Exit::Interrupted)?;
    let plan = args.plan.as_deref()?;
    Some(format!(
        "go on:  capbench {} --resume {}",
        word(plan),
        word(store.dir())
    ))
}

/// A path as a shell takes it.
fn word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./+,:@%=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The result table, the report's place, how the run goes on, and the exit code.
pub(crate) fn finish(
    run: &Run,
    findings: &Findings,
    saved: Result<(), StoreError>,
    written: Result<report::Written, report::ReportError>,
    way_on: Option<String>,
    failure: Option<Failure>,
) -> Result<Exit, Failure> {
    Terminal::data(&report::terminal_table(run, findings));
    saved.map_err(Failure::run)?;
    let written = written.map_err(Failure::run)?;
    let way_on = way_on.map_or_else(String::new, |way| format!("\n{way}"));
    Terminal::data(&format!("\n{written}{way_on}"));
    match failure {
        Some(failure) => Err(failure),
        None => Ok(Exit::from_code(findings.headline.exit_code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        let shown = |path: &str| word(Path::new(path));
        assert_eq!(shown("reports/a-1/b_2.toml"), "reports/a-1/b_2.toml");
        assert_eq!(shown("my plan.toml"), "'my plan.toml'");
        assert_eq!(shown("it's"), "'it'\\''s'");
    }
}
