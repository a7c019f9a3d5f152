//! Where a plan is wrong: problems with their place in the file, shown as rustc shows its own.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// Bytes of the plan's text, from and to.
pub type At = Range<usize>;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The plan cannot be run.
    Error,
    /// It can, but says less than it seems.
    Warning,
}

/// One problem of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong: a lowercase fragment that names the thing and the value.
    pub message: String,
    /// Where; `None`: something that is missing as a whole.
    pub span: Option<At>,
    /// What to say at the place itself.
    pub label: Option<String>,
    /// A second place, such as the first of two equal names, and what to say there.
    pub also: Option<Box<(At, String)>>,
    /// The way out.
    pub hint: Option<String>,
    /// The place holds a secret: its text is shown as asterisks.
    pub secret: bool,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(at: impl Into<Option<At>>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            span: at.into(),
            label: None,
            also: None,
            hint: None,
            secret: false,
        }
    }

    /// With the way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With a word at the place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// With a second place.
    #[must_use]
    pub fn also(mut self, at: impl Into<Option<At>>, label: impl Into<String>) -> Self {
        self.also = at.into().map(|at| Box::new((at, label.into())));
        self
    }

    /// With its text hidden.
    #[must_use]
    pub fn secret(mut self) -> Self {
        self.secret = true;
        self
    }
}

/// Most problems that are shown; a file with more is hardly a plan.
const MOST: usize = 50;

/// Renders problems of one file, in the order of their places. `source` may be empty (the file
/// could not be read).
pub(super) fn render(path: &str, source: &str, diagnostics: &[Diagnostic], colour: bool) -> String {
    let source = conceal(source, diagnostics);
    let path = &printable(path);
    let shown = &diagnostics[..diagnostics.len().min(MOST)];
    let renderer = if colour {
        Renderer::styled()
    } else {
        Renderer::plain()
    };
    let mut blocks: Vec<String> = shown
        .iter()
        .map(|d| renderer.render(&[group(path, &source, d)]))
        .collect();
    if diagnostics.len() > 1 {
        let mut summary = format!("{} problems in {path}", diagnostics.len());
        if diagnostics.len() > MOST {
            summary = format!("{summary}, of which the first {MOST} are shown");
        }
        let title = Level::ERROR.primary_title(summary);
        blocks.push(renderer.render(&[Group::with_title(title)]));
    }
    let mut text = blocks.join("\n\n");
    text.push('\n');
    text
}

fn group<'a>(path: &'a str, source: &'a str, diagnostic: &'a Diagnostic) -> Group<'a> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(printable(&diagnostic.message)));
    if let Some(span) = &diagnostic.span {
        let mut annotation = AnnotationKind::Primary.span(fit(source, span));
        if let Some(label) = &diagnostic.label {
            annotation = annotation.label(printable(label));
        }
        let mut snippet = Snippet::source(source).path(path).annotation(annotation);
        if let Some(also) = &diagnostic.also {
            let (at, label) = also.as_ref();
            let at = fit(source, at);
            snippet = snippet.annotation(AnnotationKind::Context.span(at).label(label.as_str()));
        }
        group = group.element(snippet);
    } else if !source.trim().is_empty() {
        let end = source.trim_end().len();
        let annotation = AnnotationKind::Primary.span(end..end);
        let snippet = Snippet::source(source)
            .path(path)
            .annotation(annotation.label("the plan ends here without it"));
        group = group.element(snippet);
    }
    if let Some(hint) = &diagnostic.hint {
        group = group.element(Level::HELP.message(printable(hint)));
    }
    group
}

/// Words that quote the plan, without anything a terminal would obey.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\n' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// A place as the renderer needs it: within the text, on character boundaries, and on its first
/// line only (a caret under a whole table says nothing).
fn fit(source: &str, at: &At) -> At {
    let mut start = at.start.min(source.len());
    while !source.is_char_boundary(start) {
        start -= 1;
    }
    let mut end = at.end.clamp(start, source.len());
    while !source.is_char_boundary(end) {
        end += 1;
    }
    let text = &source[start..end];
    let mut length = text.find(['\n', '\r']).unwrap_or(text.len());
    // The renderer loses count of the lines when a place at the start of one is empty.
    if length == 0
        && let Some(next) = source[start..].chars().next().filter(|c| !c.is_control())
    {
        length = next.len_utf8();
    }
    start..start + length
}

/// Ends of key names whose values are never shown.
const SECRET_NAMES: &[&str] = &["password", "passwd", "passphrase", "pass", "pwd", "secret"];

/// Whether a key of this name would hold a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    let last = name.rsplit(['_', '-']).next().unwrap_or_default();
    SECRET_NAMES.contains(&last) || name.ends_with("password") || name.ends_with("passwd")
}

/// The text with everything that may be a secret as asterisks, byte for byte, so that places stay.
/// Works on lines, since a plan with a syntax error has no keys yet.
fn conceal(source: &str, diagnostics: &[Diagnostic]) -> String {
    let mut hidden: Vec<At> = diagnostics
        .iter()
        .filter(|d| d.secret)
        .filter_map(|d| d.span.clone())
        .collect();
    let mut offset = 0;
    for line in source.split_inclusive('\n') {
        for (equals, _) in line.match_indices('=') {
            let before = line[..equals].trim_end_matches([' ', '\t', '"', '\'']);
            let word = before
                .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'))
                .map_or(before, |i| &before[i..]);
            if is_secret_name(word) {
                hidden.push(offset + equals + 1..offset + line.len());
                break;
            }
        }
        offset += line.len();
    }
    let mut text = String::with_capacity(source.len());
    for (i, c) in source.char_indices() {
        if !c.is_whitespace() && hidden.iter().any(|at| at.contains(&i)) {
            for _ in 0..c.len_utf8() {
                text.push('*');
            }
        } else {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_shown() {
        let source = "a = 1\npassword = \"hunter2\"\nadmin = { user = 'x', \"password\" = 'hunter3' }\nadmin-Passwd=hunter4\npassword_env = \"KEPT\"\n";
        let shown = conceal(source, &[]);
        assert!(!shown.contains("hunter"), "{shown}");
        assert!(shown.contains("KEPT") && shown.contains("user = 'x'"));
        assert_eq!(shown.len(), source.len());
        let at = source.find("KEPT").unwrap();
        let diagnostic = Diagnostic::error(at..at + 4, "x").secret();
        let rendered = render("p", source, &[diagnostic], false);
        assert!(rendered.contains("****") && !rendered.contains("KEPT"));
    }

    #[test]
    fn any_place_can_be_shown() {
        let source = "naïve = \"ü\"\r\nb = 2";
        for start in 0..=source.len() + 2 {
            for end in start..=source.len() + 3 {
                for colour in [false, true] {
                    let diagnostic = Diagnostic::error(start..end, "m").label("l");
                    render("p", source, &[diagnostic], colour);
                }
            }
        }
    }
}
