//! Text that is not TOML: the parser's words, with the way out of the usual faults.

use std::collections::BTreeSet;

use super::diagnostic::Diagnostic;

/// Beginnings of the parser's reasons, and what to do about them.
const HINTS: &[(&str, &str)] = &[
    (
        "string values must be quoted",
        "write the value in quotes: key = \"value\"",
    ),
    (
        "duplicate key",
        "the same key or table stands further up; keep one of them",
    ),
    (
        "invalid basic string",
        "close the string with `\"` on the same line",
    ),
    (
        "invalid literal string",
        "close the string with `'` on the same line",
    ),
    (
        "unclosed table",
        "close the header: [table], or [[table]] for a list of tables",
    ),
    ("unclosed array", "close the list with `]`"),
    ("missing comma", "separate the items with commas"),
    ("extra comma", "take one comma out"),
    (
        "unexpected key or value",
        "one key a line, as key = value; a list stands in brackets: [8, 16]",
    ),
    (
        "key with no value",
        "a plan is TOML: key = value, with [table] headers",
    ),
    (
        "invalid key-value pair",
        "a plan is TOML: key = value, with [table] headers",
    ),
];

/// Reports the parser's errors, one a line; returns where the first begins.
pub(super) fn report(
    source: &str,
    errors: &[toml::de::Error],
    problems: &mut Vec<Diagnostic>,
) -> usize {
    let ends: Vec<usize> = source.match_indices('\n').map(|(at, _)| at).collect();
    let mut lines = BTreeSet::new();
    let mut first = source.len();
    for error in errors {
        let at = error.span().unwrap_or(source.len()..source.len());
        first = first.min(at.start);
        let line = ends.partition_point(|end| *end < at.start);
        // The parser goes on after an error and often stumbles again on the same line.
        if !lines.insert(line) {
            continue;
        }
        let reason = error.message();
        if let Some(list) = unclosed_list(source, at.start, reason) {
            // Everything after it is read as items of the list.
            problems.push(list);
            break;
        }
        let text = source.get(at.clone()).unwrap_or_default();
        let quotes = text.starts_with(['“', '”', '„', '‘', '’', '«']);
        let hint = if quotes {
            Some("write plain quotes: \"value\"")
        } else {
            let known = HINTS.iter().find(|(start, _)| reason.starts_with(start));
            known.map(|(_, hint)| *hint)
        };
        // “expected literal string” after that would suggest the rarer quotes.
        let reason = reason
            .strip_suffix(", expected literal string")
            .unwrap_or(reason);
        let mut diagnostic = Diagnostic::error(at, format!("not TOML: {reason}"));
        diagnostic.hint = hint.map(str::to_owned);
        problems.push(diagnostic);
    }
    first
}

/// A “missing comma” right where a new line begins is a list that was never closed.
fn unclosed_list(source: &str, at: usize, reason: &str) -> Option<Diagnostic> {
    let before = source.get(..at)?;
    let line = before.rfind('\n').map_or(0, |i| i + 1);
    if !reason.starts_with("missing comma") || !before[line..].trim().is_empty() {
        return None;
    }
    let next = source[at..].lines().next().unwrap_or_default();
    if !(next.contains('=') || next.starts_with('[')) {
        return None;
    }
    let end = before.trim_end().len();
    Some(
        Diagnostic::error(end..end, "not TOML: a list is not closed")
            .label("`]` is missing before the next line")
            .hint("close the list with `]`"),
    )
}
