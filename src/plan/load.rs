//! From a file to a plan, or to all that is wrong with it.

use std::fmt;
use std::path::{Path, PathBuf};

use super::Plan;
use super::diagnostic::{Diagnostic, Severity, render};
use super::validate::validate;
use super::wire::read_wire;

/// Largest file that is read as a plan. Plans are a few kilobytes; anything larger is a mix-up.
const LARGEST: u64 = 1 << 20;

/// A plan and the file it came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it means.
    pub plan: Plan,
    /// Its text, byte for byte.
    pub source: String,
    /// Where it was read.
    pub path: PathBuf,
}

/// All that is wrong with a plan.
#[derive(Clone)]
pub struct Problems {
    path: String,
    source: String,
    diagnostics: Vec<Diagnostic>,
}

impl Problems {
    /// The problems in the order of the file.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// All problems for people, each with its line, caret and way out; with ANSI colours when
    /// asked. Passwords found in the plan are hidden.
    pub fn render(&self, colour: bool) -> String {
        render(&self.path, &self.source, &self.diagnostics, colour)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(false).trim_end())
    }
}

/// As displayed: the source itself may hold a password.
impl fmt::Debug for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Problems {}

/// Reads the plan at `path`; paths in it are relative to its folder.
///
/// # Errors
/// All problems of the plan at once, or the one that kept the file from being read.
pub fn load(path: &Path) -> Result<Loaded, Problems> {
    let shown = path.display().to_string();
    let source = read(path).map_err(|diagnostic| Problems {
        path: shown.clone(),
        source: String::new(),
        diagnostics: vec![diagnostic],
    })?;
    let base = path.parent().unwrap_or(Path::new(""));
    let plan = parse(&source, &shown, base)?;
    Ok(Loaded {
        plan,
        source,
        path: path.to_owned(),
    })
}

/// Reads a plan from text. `shown` is what problems call the file; `base` the folder that paths start at.
///
/// # Errors
/// All problems of the plan at once.
pub fn parse(source: &str, shown: &str, base: &Path) -> Result<Plan, Problems> {
    let mut diagnostics = Vec::new();
    let (wire, complete) = read_wire(source, &mut diagnostics);
    let plan = complete.then(|| validate(&wire, base, &mut diagnostics));
    // In the order of the file, what is missing as a whole last.
    diagnostics.sort_by_key(|d| d.span.as_ref().map_or(usize::MAX, |s| s.start));
    let failed = diagnostics.iter().any(|d| d.severity == Severity::Error);
    match plan {
        Some(plan) if !failed => Ok(plan),
        _ => Err(Problems {
            path: shown.to_owned(),
            source: source.to_owned(),
            diagnostics,
        }),
    }
}

fn read(path: &Path) -> Result<String, Diagnostic> {
    use std::io::ErrorKind;
    let shown = path.display();
    let file = std::fs::metadata(path).and_then(|about| {
        if about.is_dir() {
            return Err(std::io::Error::from(ErrorKind::IsADirectory));
        }
        if about.len() > LARGEST {
            return Err(std::io::Error::from(ErrorKind::FileTooLarge));
        }
        std::fs::read(path)
    });
    let bytes = file.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Diagnostic::error(None, format!("there is no plan `{shown}`"))
            .hint("give the path of a plan file; plans/quickstart.toml is one to start from"),
        ErrorKind::IsADirectory => Diagnostic::error(None, format!("`{shown}` is a folder"))
            .hint("give the path of a plan file, such as plan.toml in it"),
        ErrorKind::FileTooLarge => Diagnostic::error(
            None,
            format!("`{shown}` is larger than 1 MiB, so it is no plan"),
        )
        .hint("a plan is a few kilobytes of TOML"),
        _ => Diagnostic::error(None, format!("cannot read the plan `{shown}`: {error}"))
            .hint("check its path and permissions"),
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.split(|b| *b == b'\n').count();
        Diagnostic::error(None, format!("`{shown}` is not UTF-8 text (line {line})"))
            .hint("save it as UTF-8")
    })
}
