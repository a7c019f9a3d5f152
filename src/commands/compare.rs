//! `capbench compare`: two runs against each other.

use std::io::Write as _;
use std::path::Path;

use anyhow::anyhow;

use super::failure::Failure;
use crate::analysis::{self, Unlike};
use crate::cli::{Exit, PartArg};
use crate::record::Run;
use crate::report;
use crate::store;
use crate::terminal::Terminal;

/// Compares the second run with the first, unless they are unlike.
pub(super) fn compare(
    first: &Path,
    second: &Path,
    out: Option<&Path>,
    despite: &[PartArg],
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let (a, b) = (open(first)?, open(second)?);
    let (accepted, refused): (Vec<Unlike>, Vec<Unlike>) = analysis::unlike(&a, &b)
        .into_iter()
        .partition(|u| despite.iter().any(|part| part.as_str() == u.part.as_str()));
    if !refused.is_empty() {
        return Err(unlike(&refused));
    }
    for difference in &accepted {
        terminal.warn(format_args!("compared although unlike: {difference}"));
    }
    let between = analysis::between(&a, &b);
    let text = report::render_compare((first, &a), (second, &b), &between, &accepted)
        .map_err(Failure::run)?;
    if let Some(out) = out {
        write_new(out, &text)?;
    }
    Terminal::data(text.trim_end());
    Ok(Exit::from_code(between.exit_code))
}

fn open(dir: &Path) -> Result<Run, Failure> {
    store::open(dir).map_err(Failure::input)
}

/// Every difference, and the way out.
fn unlike(refused: &[Unlike]) -> Failure {
    let lines: Vec<String> = refused.iter().map(|u| format!("  {u}")).collect();
    let mut parts: Vec<&str> = refused.iter().map(|u| u.part.as_str()).collect();
    parts.dedup();
    let options: Vec<String> = parts.iter().map(|p| format!("--despite {p}")).collect();
    Failure::input(anyhow!(
        "the runs are unlike, and a comparison would show these differences too:\n{}\nhint: run the same plan on the same machines; or compare nevertheless with {}",
        lines.join("\n"),
        options.join(" ")
    ))
}

/// A report of somebody's is not overwritten.
fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::File::create_new(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| {
            Failure::run(anyhow!(
                "cannot write {}: {error}\nhint: name a file that does not exist yet",
                path.display()
            ))
        })
}
