//! Reading tables of a workload file: known keys, expected types, faults with their line.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::error::{Problem, suggestion};

/// Upper limit of repeat counts and weights: far above any use, low enough that sums stay exact.
const MAX_COUNT: i64 = 1_000_000;

/// A table of the file whose keys are known to be among the allowed ones.
pub(super) struct Fields<'a, 'i> {
    text: &'a str,
    table: &'a DeTable<'i>,
    span: Range<usize>,
    what: &'static str,
}

impl<'a, 'i> Fields<'a, 'i> {
    pub(super) fn new(
        text: &'a str,
        table: &'a DeTable<'i>,
        span: Range<usize>,
        what: &'static str,
        allowed: &[&str],
    ) -> Result<Self, Problem> {
        if let Some(unknown) = table
            .keys()
            .find(|k| !allowed.contains(&k.get_ref().as_ref()))
        {
            let name: &str = unknown.get_ref();
            let hint = suggestion(name, allowed);
            let hint = if hint.is_empty() {
                format!("; {what} has {}", allowed.join(", "))
            } else {
                hint
            };
            return Err(Problem::at(
                text,
                Some(unknown.span()),
                format!("unknown key `{name}` in {what}{hint}"),
            ));
        }
        Ok(Self {
            text,
            table,
            span,
            what,
        })
    }

    fn get(&self, key: &str) -> Option<(&'a DeValue<'i>, Range<usize>)> {
        self.table.get(key).map(|v| (v.get_ref(), v.span()))
    }

    /// A problem at the value of `key`, or at the table when the key is missing.
    pub(super) fn problem(&self, key: &str, message: impl Into<String>) -> Problem {
        let span = self.get(key).map_or(self.span.clone(), |(_, span)| span);
        Problem::at(self.text, Some(span), message)
    }

    fn wrong_type(&self, key: &str, wanted: &str, got: &DeValue) -> Problem {
        self.problem(
            key,
            format!("`{key}` must be {wanted}, not {}", got.type_str()),
        )
    }

    fn missing(&self, key: &str) -> Problem {
        self.problem(key, format!("{} needs `{key}`", self.what))
    }

    pub(super) fn optional_text(&self, key: &str) -> Result<Option<String>, Problem> {
        match self.get(key) {
            None => Ok(None),
            Some((DeValue::String(text), _)) => Ok(Some(text.clone().into_owned())),
            Some((other, _)) => Err(self.wrong_type(key, "a text", other)),
        }
    }

    pub(super) fn text(&self, key: &str) -> Result<String, Problem> {
        let text = self.optional_text(key)?.ok_or_else(|| self.missing(key))?;
        if text.trim().is_empty() {
            return Err(self.problem(key, format!("`{key}` is empty")));
        }
        Ok(text)
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, Problem> {
        match self.get(key) {
            None => Ok(false),
            Some((DeValue::Boolean(value), _)) => Ok(*value),
            Some((other, _)) => Err(self.wrong_type(key, "true or false", other)),
        }
    }

    pub(super) fn count(&self, key: &str, default: u32, least: i64) -> Result<u32, Problem> {
        let Some((value, _)) = self.get(key) else {
            return Ok(default);
        };
        let DeValue::Integer(number) = value else {
            return Err(self.wrong_type(key, "a whole number", value));
        };
        i64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .filter(|n| (least..=MAX_COUNT).contains(n))
            .and_then(|n| u32::try_from(n).ok())
            .ok_or_else(|| {
                self.problem(
                    key,
                    format!("`{key}` = {number} is not between {least} and {MAX_COUNT}"),
                )
            })
    }

    pub(super) fn optional_table(
        &self,
        key: &str,
    ) -> Result<Option<(&'a DeTable<'i>, Range<usize>)>, Problem> {
        match self.get(key) {
            None => Ok(None),
            Some((DeValue::Table(table), span)) => Ok(Some((table, span))),
            Some((other, _)) => Err(self.wrong_type(key, "a table", other)),
        }
    }

    /// The tables of `[[key]]`, at least one.
    pub(super) fn tables(
        &self,
        key: &str,
    ) -> Result<Vec<(&'a DeTable<'i>, Range<usize>)>, Problem> {
        let (value, _) = self.get(key).ok_or_else(|| self.missing(key))?;
        let DeValue::Array(array) = value else {
            return Err(self.wrong_type(key, "a list of tables (double brackets)", value));
        };
        if array.is_empty() {
            return Err(self.missing(key));
        }
        array
            .iter()
            .map(|item| match item.get_ref() {
                DeValue::Table(table) => Ok((table, item.span())),
                other => Err(self.wrong_type(key, "a list of tables (double brackets)", other)),
            })
            .collect()
    }

    pub(super) fn texts(&self, key: &str) -> Result<Vec<(&'a str, Range<usize>)>, Problem> {
        let Some((value, _)) = self.get(key) else {
            return Ok(Vec::new());
        };
        let DeValue::Array(array) = value else {
            return Err(self.wrong_type(key, "a list of texts", value));
        };
        array
            .iter()
            .map(|item| match item.get_ref() {
                DeValue::String(text) => Ok((text.as_ref(), item.span())),
                other => Err(self.wrong_type(key, "a list of texts", other)),
            })
            .collect()
    }
}
