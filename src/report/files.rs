//! Writing the report into the run folder.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::analysis::Findings;
use crate::record::Run;
use crate::store::{StoreError, write_file};

use super::render::{self, RenderError};
use super::{cells, chart, view};

/// A report that cannot be made or written.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The template.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The folder.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The files that were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// What people read.
    pub markdown: PathBuf,
    /// The same with charts.
    pub html: PathBuf,
    /// One row a cell.
    pub cells: PathBuf,
}

impl std::fmt::Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "report: {}\n        {}",
            self.markdown.display(),
            self.html.display()
        )
    }
}

/// Writes `cells.csv` alone, after each cell.
///
/// # Errors
/// Write errors.
pub fn write_cells(run: &Run, findings: &Findings, dir: &Path) -> Result<PathBuf, StoreError> {
    let path = dir.join("cells.csv");
    write_file(&path, &cells::csv(run, findings))?;
    Ok(path)
}

/// Writes `report.md`, `report.html` and `cells.csv` into the run folder. `template`: a template of the
/// user's own for `report.md`.
///
/// # Errors
/// A template that cannot be used, after the other files have been written; write errors.
pub fn write(
    run: &Run,
    findings: &Findings,
    dir: &Path,
    template: Option<&Path>,
) -> Result<Written, ReportError> {
    let cells = write_cells(run, findings, dir)?;
    let view = view::build(run, findings);
    let markdown = dir.join("report.md");
    let text = render::render_markdown(&view, run, findings, template);
    if let Ok(text) = &text {
        write_file(&markdown, text.as_bytes())?;
    }
    let html = dir.join("report.html");
    let charts = chart::charts(run, findings);
    let page = render::render_html(&view, run, findings, &charts)?;
    write_file(&html, page.as_bytes())?;
    // A fault in a template of the user's own costs report.md only.
    text?;
    Ok(Written {
        markdown,
        html,
        cells,
    })
}
