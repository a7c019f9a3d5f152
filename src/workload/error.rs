//! What can be wrong with a workload.

use std::ops::Range;

/// A workload that cannot be used. Displays as one line that names the workload, the line and the fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}{}: {message}", line.map(|n| format!(", line {n}")).unwrap_or_default())]
pub struct WorkloadError {
    /// Whose fault it is: a built-in workload by name, or a file by path.
    pub origin: String,
    /// Line in the workload as rendered (see `capbench workload show`); `None`: not tied to a line.
    pub line: Option<usize>,
    /// What is wrong and the way out.
    pub message: String,
}

/// A fault within a workload's text, before it is known whose text it is.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) line: Option<usize>,
    pub(super) message: String,
}

impl Problem {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            line: None,
            message: message.into(),
        }
    }

    pub(super) fn at(text: &str, span: Option<Range<usize>>, message: impl Into<String>) -> Self {
        let line = span.map(|span| {
            let before = &text.as_bytes()[..span.start.min(text.len())];
            before.split(|b| *b == b'\n').count()
        });
        Self {
            line,
            message: message.into(),
        }
    }

    pub(super) fn of(self, origin: &str) -> WorkloadError {
        WorkloadError {
            origin: origin.to_owned(),
            line: self.line,
            message: self.message,
        }
    }
}

/// `; did you mean …?` with the nearest of `known`, or nothing.
pub(super) fn suggestion(typed: &str, known: &[&str]) -> String {
    known
        .iter()
        .map(|name| (strsim::jaro_winkler(typed, name), name))
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| format!("; did you mean `{name}`?"))
        .unwrap_or_default()
}
