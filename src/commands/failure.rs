//! Why a command did not do what it was asked, with the exit code that says so.

use crate::cli::Exit;
use crate::execute;
use crate::plan;
use crate::record;
use crate::target::TargetError;
use crate::terminal::{self, Terminal};

/// Why a command did not do what it was asked, with the exit code that says so.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(super) exit: Exit,
    error: Option<anyhow::Error>,
}

impl Failure {
    /// The plan or the command line is wrong.
    pub(crate) fn input(error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit: Exit::BadInput,
            error: Some(error.into()),
        }
    }

    /// The server could not be had: what the plan names on this machine is wrong, the user ended it, or the
    /// server, network or disk said no.
    pub(crate) fn target(error: TargetError) -> Self {
        if error.is_interrupt() {
            Self::interrupted()
        } else if error.is_input() {
            Self::input(error)
        } else {
            Self::run(error)
        }
    }

    /// The run failed.
    pub(crate) fn run(error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit: Exit::RunFailed,
            error: Some(error.into()),
        }
    }

    /// The user ended it.
    pub(crate) fn interrupted() -> Self {
        Self {
            exit: Exit::Interrupted,
            error: None,
        }
    }

    /// Shows the message and returns the exit code.
    pub(crate) fn show(self, terminal: &Terminal) -> Exit {
        match (&self.error, self.exit) {
            (Some(error), _) => match error.downcast_ref::<plan::Problems>() {
                Some(problems) => terminal.raw(&problems.render(Terminal::colour())),
                None => terminal.error(error),
            },
            (None, Exit::Interrupted) => terminal.raw("interrupted"),
            (None, _) => {}
        }
        self.exit
    }

    pub(super) fn reason(&self) -> String {
        self.error
            .as_ref()
            .map_or_else(String::new, |error| record::reason(&terminal::words(error)))
    }
}

pub(crate) fn session_failure(error: execute::SessionError) -> Failure {
    if error.is_interrupt() {
        Failure::interrupted()
    } else {
        Failure::run(error)
    }
}
