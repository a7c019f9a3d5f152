//! Templates: the report is text with blanks, and the text belongs to whoever signs it.

use std::path::{Path, PathBuf};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value, ValueKind, merge_maps};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, escape_formatter};
use serde::Serialize;
use thiserror::Error as ThisError;

use crate::analysis::Findings;
use crate::record::Run;

use super::figures::MISSING;
use super::markdown;
use super::view::View;

/// The built-in template of `report.md`; the place to start from for a template of one's own.
pub const MARKDOWN_TEMPLATE: &str = include_str!("../../templates/reports/report.md.j2");
const COMPARE_TEMPLATE: &str = include_str!("../../templates/reports/compare.md.j2");
const HTML_TEMPLATE: &str = include_str!("../../templates/reports/report.html.j2");

/// A template that cannot be used.
#[derive(Debug, ThisError)]
pub enum RenderError {
    /// The file cannot be read.
    #[error("cannot read the report template `{}`: {source}", .path.display())]
    Read {
        /// The template.
        path: PathBuf,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// The template is wrong.
    #[error(
        "report template `{name}`, line {line}: {what}\nhint: names that a template may use are those of the built-in one, templates/reports/report.md.j2"
    )]
    Template {
        /// File or built-in name.
        name: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
}

/// Renders `report.md` by the built-in template or by the file `template`.
///
/// # Errors
/// [`RenderError`] for a template that cannot be read, parsed or filled.
pub fn render_markdown(
    view: &View,
    run: &Run,
    findings: &Findings,
    template: Option<&Path>,
) -> Result<String, RenderError> {
    let (name, source) = match template {
        None => ("report.md.j2".to_owned(), MARKDOWN_TEMPLATE.to_owned()),
        Some(path) => (
            path.display().to_string(),
            std::fs::read_to_string(path).map_err(|source| RenderError::Read {
                path: path.to_owned(),
                source,
            })?,
        ),
    };
    let environment = markdown_environment();
    let context = context(view, run, findings, Value::UNDEFINED);
    let text = rendered(&environment, &name, &source, context)?;
    Ok(tidy(&text))
}

/// Renders two runs against each other.
///
/// # Errors
/// [`RenderError`] when the built-in template is wrong.
pub(super) fn render_comparison(view: &impl Serialize) -> Result<String, RenderError> {
    let environment = markdown_environment();
    let context = Value::from(Serde(view));
    let text = rendered(&environment, "compare.md.j2", COMPARE_TEMPLATE, context)?;
    Ok(tidy(&text))
}

fn markdown_environment() -> Environment<'static> {
    let mut environment = environment();
    environment.set_auto_escape_callback(|_| AutoEscape::Custom("markdown".into()));
    environment.set_formatter(|out, _, value| {
        let text = inline(value, markdown::escaped);
        out.write_str(&text).map_err(Error::from)
    });
    environment.add_filter("code", |value: &Value| {
        Value::from_safe_string(markdown::code(&text(value)))
    });
    environment.add_filter("prose", |value: &Value| {
        Value::from_safe_string(markdown::prose(&text(value)))
    });
    environment.add_function("table", markdown_table);
    environment
}

/// Whether a template of the user's own can be read and parsed; names that it uses show only when it is filled.
///
/// # Errors
/// [`RenderError`] for a template that cannot be read or parsed.
pub fn check_template(path: &Path) -> Result<(), RenderError> {
    let name = path.display().to_string();
    let source = std::fs::read_to_string(path).map_err(|source| RenderError::Read {
        path: path.to_owned(),
        source,
    })?;
    environment()
        .template_from_named_str(&name, &source)
        .map(|_| ())
        .map_err(|e| RenderError::Template {
            name: name.clone(),
            line: e.line().unwrap_or(1),
            what: words(&e),
        })
}

/// Renders `report.html`: one file without any other, readable on light and dark screens.
///
/// # Errors
/// [`RenderError`] when the built-in template is wrong.
pub(super) fn render_html(
    view: &View,
    run: &Run,
    findings: &Findings,
    charts: &[super::chart::Chart],
) -> Result<String, RenderError> {
    let name = "report.html.j2";
    let mut environment = environment();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(|out, state, value| match value.kind() {
        ValueKind::String if !value.is_safe() => {
            let text = markdown::one_line(&value.to_string());
            escape_formatter(out, state, &Value::from(text))
        }
        ValueKind::None | ValueKind::Undefined => out.write_str(MISSING).map_err(Error::from),
        _ => escape_formatter(out, state, value),
    });
    environment.add_filter("prose", |value: &Value| {
        let code = |code: &str| format!("<code>{}</code>", html_escaped(code));
        let html = markdown::spans(&text(value), html_escaped, html_escaped, code);
        Value::from_safe_string(html)
    });
    environment.add_function("table", html_table);
    let context = context(view, run, findings, Value::from(Serde(charts)));
    rendered(&environment, name, HTML_TEMPLATE, context)
}

/// The view's names, and beside them the plain records.
fn context(view: &View, run: &Run, findings: &Findings, charts: Value) -> Value {
    let records = Value::from_pairs([
        ("run", Value::from(Serde(run))),
        ("findings", Value::from(Serde(findings))),
        ("charts", charts),
    ]);
    merge_maps([Value::from(Serde(view)), records])
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .keep_trailing_newline(true)
            .build()
            .unwrap_or_default(),
    );
    environment
}

fn rendered(
    environment: &Environment<'_>,
    name: &str,
    source: &str,
    context: Value,
) -> Result<String, RenderError> {
    environment
        .template_from_named_str(name, source)
        .and_then(|template| template.render(context))
        .map_err(|e| RenderError::Template {
            name: name.to_owned(),
            line: e.line().unwrap_or(1),
            what: words(&e),
        })
}

/// minijinja's message without its place, which stands before it, and with its cause.
fn words(error: &Error) -> String {
    let kind = match error.kind() {
        ErrorKind::SyntaxError => "syntax error".to_owned(),
        ErrorKind::UndefinedError => "undefined name".to_owned(),
        kind => kind.to_string(),
    };
    let mut what = match error.detail() {
        Some(detail) => format!("{kind}: {detail}"),
        None => kind,
    };
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        what = format!("{what}: {cause}");
        source = cause.source();
    }
    what
}

fn text(value: &Value) -> String {
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => MISSING.to_owned(),
        _ => value.to_string(),
    }
}

/// A value as Markdown within a line: text escaped unless it is marked safe, missing as `n/a`.
fn inline(value: &Value, escaped: fn(&str) -> String) -> String {
    match value.kind() {
        ValueKind::String if !value.is_safe() => escaped(&value.to_string()),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => escaped(&value.to_string()),
        _ => text(value),
    }
}

/// The columns that a template asks for: `[["tps", "TPS"], …]`, key and title.
fn columns(columns: &Value) -> Result<Vec<(Value, String)>, Error> {
    columns
        .try_iter()?
        .map(|pair| {
            let key = pair.get_item(&Value::from(0))?;
            let title = pair.get_item(&Value::from(1))?;
            Ok((key, title.to_string()))
        })
        .collect()
}

/// The cells of `rows`, column by column; a missing attribute is an error that names it.
fn cells(
    rows: &Value,
    columns: &[(Value, String)],
    show: impl Fn(&Value) -> String,
) -> Result<Vec<Vec<String>>, Error> {
    rows.try_iter()?
        .map(|row| {
            columns
                .iter()
                .map(|(key, _)| {
                    let value = row.get_item(key)?;
                    if value.is_undefined() {
                        return Err(Error::new(
                            ErrorKind::UndefinedError,
                            format!("rows have no column `{key}`"),
                        ));
                    }
                    Ok(show(&value))
                })
                .collect()
        })
        .collect()
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the template engine hands values over"
)]
fn markdown_table(rows: Value, wanted: Value) -> Result<Value, Error> {
    let wanted = columns(&wanted)?;
    let cells = cells(&rows, &wanted, |v| inline(v, markdown::escaped_cell))?;
    let titles: Vec<String> = wanted
        .iter()
        .map(|(_, title)| markdown::escaped_cell(title))
        .collect();
    Ok(Value::from_safe_string(markdown::table(&titles, &cells)))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the template engine hands values over"
)]
fn html_table(rows: Value, wanted: Value) -> Result<Value, Error> {
    let wanted = columns(&wanted)?;
    let cells = cells(&rows, &wanted, |v| markdown::one_line(&text(v)))?;
    let right: Vec<bool> = (0..wanted.len())
        .map(|c| markdown::is_numeric(cells.iter().filter_map(|r| r.get(c))))
        .collect();
    let line = |texts: &mut dyn Iterator<Item = &str>, tag: &str| {
        let mut html = String::from("<tr>");
        for (text, right) in texts.zip(&right) {
            let class = if *right { " class=\"n\"" } else { "" };
            html.extend([format!("<{tag}{class}>{}</{tag}>", html_escaped(text))]);
        }
        html + "</tr>\n"
    };
    let mut html = String::from("<div class=\"scroll\"><table>\n<thead>");
    html += &line(&mut wanted.iter().map(|(_, t)| t.as_str()), "th");
    html += "</thead>\n<tbody>\n";
    for row in &cells {
        html += &line(&mut row.iter().map(String::as_str), "td");
    }
    html += "</tbody></table></div>";
    Ok(Value::from_safe_string(html))
}

fn html_escaped(text: &str) -> String {
    minijinja::HtmlEscape(text).to_string()
}

/// Never more than one empty line, no blanks at line ends, one line end at the end.
fn tidy(text: &str) -> String {
    let mut tidy = String::with_capacity(text.len());
    let mut empty = true;
    for line in text.lines().map(str::trim_end) {
        if line.is_empty() && empty {
            continue;
        }
        empty = line.is_empty();
        tidy.push_str(line);
        tidy.push('\n');
    }
    tidy.truncate(tidy.trim_end().len());
    tidy.push('\n');
    tidy
}
