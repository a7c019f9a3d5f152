//! Two runs against each other, as Markdown.

use std::path::Path;

use serde::Serialize;

use crate::analysis::{Between, Unlike};
use crate::record::Run;

use super::figures::{count, instant};
use super::render::{self, RenderError};
use super::view::{self, ComparisonView};

#[derive(Debug, Serialize)]
struct CompareView {
    first: RunName,
    second: RunName,
    sentence: String,
    runs: Vec<Row>,
    despite: Vec<String>,
    changed: Vec<Changed>,
    comparisons: Vec<ComparisonView>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RunName {
    name: String,
    dir: String,
}

#[derive(Debug, Serialize)]
struct Row {
    item: String,
    first: String,
    second: String,
}

#[derive(Debug, Serialize)]
struct Changed {
    name: String,
    before: String,
    took: String,
}

/// Renders what `capbench compare` prints. `despite`: differences that the command line accepts.
///
/// # Errors
/// [`RenderError`] when the built-in template is wrong.
pub fn render_compare(
    first: (&Path, &Run),
    second: (&Path, &Run),
    between: &Between,
    despite: &[Unlike],
) -> Result<String, RenderError> {
    let name = |(dir, run): (&Path, &Run)| RunName {
        name: run.name.clone(),
        dir: dir.file_name().map_or_else(
            || dir.display().to_string(),
            |n| n.to_string_lossy().into_owned(),
        ),
    };
    let limit = |limit: Option<u32>| limit.map_or_else(|| "none".to_owned(), |n| count(n.into()));
    let server = |run: &Run| {
        run.server.as_ref().map_or_else(
            || "n/a".to_owned(),
            |s| format!("{} {}", s.flavour, s.version),
        )
    };
    let row = |item: &str, of: &dyn Fn(&Run) -> String| Row {
        item: item.to_owned(),
        first: of(first.1),
        second: of(second.1),
    };
    let view = CompareView {
        first: name(first),
        second: name(second),
        sentence: between.sentence.clone(),
        runs: vec![
            row("plan", &|r| r.name.clone()),
            row("started", &|r| instant(&r.started_at)),
            row("server", &server),
            row("passes", &|r| r.repeats.to_string()),
            Row {
                item: "recommended limit".to_owned(),
                first: limit(between.limits.0),
                second: limit(between.limits.1),
            },
        ],
        despite: despite.iter().map(ToString::to_string).collect(),
        changed: between
            .changed
            .iter()
            .map(|(name, before, took)| Changed {
                name: name.clone(),
                before: before.clone(),
                took: took.clone(),
            })
            .collect(),
        comparisons: view::comparisons(&between.comparisons),
        notes: between.notes.iter().map(|n| view::sentence(n)).collect(),
    };
    render::render_comparison(&view)
}
