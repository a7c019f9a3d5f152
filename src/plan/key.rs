//! A row of the table of keys, and how rows are written.

use super::kind::Kind;

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Full path: `ladder.measure`; keys of `[[variant]]` are `variant.name`.
    pub path: &'static str,
    /// Type and limits.
    pub kind: Kind,
    /// Default as TOML text; `None`: there is none (see `absent`).
    pub default: Option<&'static str>,
    /// A value to show where there is no default, as TOML text.
    pub example: &'static str,
    /// Whether a plan must state it (the reference plan then states `example`).
    pub required: bool,
    /// What it does; sentences, each with its unit and its consequence.
    pub meaning: &'static str,
    /// What happens without it, where there is no default; a fragment for the tables.
    pub absent: &'static str,
    /// First version that has it.
    pub since: &'static str,
}

impl Key {
    /// The last part of the path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// The table that holds it; empty at the top level.
    pub fn section(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(head, _)| head)
    }

    pub(super) const fn default(mut self, toml: &'static str) -> Self {
        self.default = Some(toml);
        self
    }

    pub(super) const fn required(mut self, example: &'static str) -> Self {
        self.required = true;
        self.example = example;
        self
    }

    /// What may stand instead of a required key.
    pub(super) const fn unless(mut self, others: &'static str) -> Self {
        self.absent = others;
        self
    }

    pub(super) const fn optional(mut self, example: &'static str, absent: &'static str) -> Self {
        self.example = example;
        self.absent = absent;
        self
    }
}

pub(super) const fn key(path: &'static str, kind: Kind, meaning: &'static str) -> Key {
    Key {
        path,
        kind,
        default: None,
        example: "",
        required: false,
        meaning,
        absent: "",
        since: "0.1",
    }
}

/// A table of the plan.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Its path; empty: the top level.
    pub path: &'static str,
    /// Whether it is an array of tables (`[[variant]]`).
    pub array: bool,
    /// Whether the reference plan states it; otherwise it stands there commented out.
    pub stated: bool,
    /// What it is for.
    pub meaning: &'static str,
}

pub(super) const fn section(path: &'static str, meaning: &'static str) -> Section {
    Section {
        path,
        array: false,
        stated: true,
        meaning,
    }
}

impl Section {
    pub(super) const fn commented(mut self) -> Self {
        self.stated = false;
        self
    }

    pub(super) const fn array(mut self) -> Self {
        self.array = true;
        self
    }
}
