//! What was typed: the spanned TOML document, walked by the table of keys. Every problem is
//! collected; nothing is concluded yet.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{At, Diagnostic, is_secret_name};
use super::keys;
use super::unknown::unknown;
use super::value::{Item, Typed, read};
use super::{DataSize, SoakLevel, syntax};
use crate::units::Span;

/// One key as typed.
#[derive(Debug, Clone)]
struct Field {
    /// Place of the key's name.
    key: At,
    /// Place of its value.
    at: At,
    /// `None`: it was typed wrongly, and that has been reported.
    value: Option<Typed>,
}

/// The keys of a plan, or of one variant, by full path.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    keys: BTreeMap<&'static str, Field>,
    tables: BTreeMap<&'static str, At>,
    /// Tables that were typed as something else, which has been reported.
    broken_tables: Vec<&'static str>,
}

/// A plan as typed.
#[derive(Debug, Clone, Default)]
pub(super) struct Wire {
    /// Everything but what stands in lists of tables.
    pub(super) plan: Fields,
    /// The variants, each with the place of its header.
    pub(super) variants: Vec<Item<Fields>>,
    /// The replicas, likewise.
    pub(super) replicas: Vec<Item<Fields>>,
}

/// One table of a list of tables: the list's path and the position in it.
type Slot = Option<(&'static str, usize)>;

/// Parses and reads `source`. With syntax errors the second value is `false`: what is there is
/// then incomplete and not worth a verdict.
pub(super) fn read_wire(source: &str, problems: &mut Vec<Diagnostic>) -> (Wire, bool) {
    let (document, errors) = DeTable::parse_recoverable(source);
    let mut wire = Wire::default();
    let mut found = Vec::new();
    walk("", document.get_ref(), None, &mut wire, &mut found);
    if errors.is_empty() {
        problems.append(&mut found);
        return (wire, true);
    }
    let first = syntax::report(source, &errors, problems);
    // Of what could be read, only what stands before the first error is surely as it was meant.
    found.retain(|d| d.span.as_ref().is_some_and(|at| at.end <= first));
    problems.append(&mut found);
    (wire, false)
}

fn walk(
    section: &'static str,
    table: &DeTable<'_>,
    slot: Slot,
    wire: &mut Wire,
    problems: &mut Vec<Diagnostic>,
) {
    for (name, value) in table {
        let path = if section.is_empty() {
            name.get_ref().to_string()
        } else {
            format!("{section}.{}", name.get_ref())
        };
        let key = keys::find(&path);
        let inner = keys::section_of(&path).filter(|s| !s.path.is_empty());
        if let Some(key) = key {
            refuse_secrets(key.path, value, problems);
            let field = Field {
                key: name.span(),
                at: value.span(),
                value: read(key.kind, key.path, value, problems),
            };
            wire.fields(slot).keys.insert(key.path, field);
        } else if let Some(inner) = inner {
            if inner.array {
                read_list(inner.path, value, wire, problems);
            } else if let DeValue::Table(table) = value.get_ref() {
                wire.fields(slot).tables.insert(inner.path, name.span());
                walk(inner.path, table, slot, wire, problems);
            } else {
                wire.fields(slot).broken_tables.push(inner.path);
                problems.push(
                    Diagnostic::error(value.span(), format!("`{path}` must be a table")).hint(
                        format!("write [{path}], or {name} = {{ … }}", name = name.get_ref()),
                    ),
                );
            }
        } else {
            problems.push(unknown(section, name, value));
        }
    }
}

impl Wire {
    fn list(&mut self, path: &str) -> &mut Vec<Item<Fields>> {
        match path {
            "replica" => &mut self.replicas,
            _ => &mut self.variants,
        }
    }

    fn fields(&mut self, slot: Slot) -> &mut Fields {
        let Some((path, index)) = slot else {
            return &mut self.plan;
        };
        // The place was made before its fields are read.
        &mut self.list(path)[index].value
    }
}

fn read_list(
    path: &'static str,
    value: &Spanned<DeValue<'_>>,
    wire: &mut Wire,
    problems: &mut Vec<Diagnostic>,
) {
    let DeValue::Array(items) = value.get_ref() else {
        problems.push(
            Diagnostic::error(value.span(), format!("`{path}` must be a list of tables")).hint(
                format!("write [[{path}]], with two brackets, once for each {path}"),
            ),
        );
        return;
    };
    for item in items {
        let DeValue::Table(table) = item.get_ref() else {
            problems.push(
                Diagnostic::error(item.span(), format!("`{path}` must be a list of tables"))
                    .hint(format!("write [[{path}]] once for each {path}")),
            );
            continue;
        };
        let list = wire.list(path);
        list.push(Item {
            value: Fields::default(),
            at: item.span(),
        });
        let index = list.len() - 1;
        walk(path, table, Some((path, index)), wire, problems);
    }
}

/// Free tables reach the report or the server as they are: a password must not stand there.
fn refuse_secrets(path: &str, value: &Spanned<DeValue<'_>>, problems: &mut Vec<Diagnostic>) {
    if let DeValue::Table(table) = value.get_ref() {
        for (name, value) in table {
            if is_secret_name(name.get_ref()) && value.get_ref().is_str() {
                problems.push(
                    Diagnostic::error(
                        value.span(),
                        format!(
                            "`{path}.{}`: a secret may not stand in a plan",
                            name.get_ref()
                        ),
                    )
                    .label("plans are kept in git and copied into the report's folder")
                    .hint("leave it out")
                    .secret(),
                );
            }
        }
    }
}

impl Fields {
    /// Whether the plan states this key, rightly or wrongly.
    pub(super) fn given(&self, path: &str) -> bool {
        self.keys.contains_key(path)
    }

    /// Whether the plan states this key, or the table that would hold it, and it could not be read.
    pub(super) fn broken(&self, path: &str) -> bool {
        self.keys.get(path).is_some_and(|f| f.value.is_none())
            || self.broken_tables.iter().any(|table| {
                path.strip_prefix(table)
                    .is_some_and(|rest| rest.starts_with('.'))
            })
    }

    /// Whether the plan does not state this key, and not because its table could not be read.
    pub(super) fn missing(&self, path: &str) -> bool {
        !self.given(path) && !self.broken(path)
    }

    /// Place of the table's header.
    pub(super) fn table(&self, path: &str) -> Option<At> {
        self.tables.get(path).cloned()
    }

    /// Place of the value.
    pub(super) fn at(&self, path: &str) -> Option<At> {
        self.keys.get(path).map(|f| f.at.clone())
    }

    /// Place of the key's name.
    pub(super) fn key_at(&self, path: &str) -> Option<At> {
        self.keys.get(path).map(|f| f.key.clone())
    }

    /// The value as typed, else the table's default, which goes through the same reader.
    fn typed(&self, path: &str) -> Option<Typed> {
        if let Some(value) = self.keys.get(path).and_then(|f| f.value.clone()) {
            return Some(value);
        }
        let key = keys::find(path)?;
        let value = DeValue::parse(key.default?).ok()?;
        read(key.kind, key.path, &value, &mut Vec::new())
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        match self.typed(path)? {
            Typed::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn integer(&self, path: &str) -> Option<i64> {
        match self.typed(path)? {
            Typed::Integer(n) => Some(n),
            _ => None,
        }
    }

    /// An integer whose limits keep it in range; 0 without one.
    pub(super) fn count(&self, path: &str) -> u32 {
        self.integer(path)
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(0)
    }

    pub(super) fn number(&self, path: &str) -> Option<f64> {
        match self.typed(path)? {
            Typed::Number(n) => Some(n),
            _ => None,
        }
    }

    pub(super) fn flag(&self, path: &str) -> bool {
        matches!(self.typed(path), Some(Typed::Boolean(true)))
    }

    pub(super) fn duration(&self, path: &str) -> Option<Span> {
        match self.typed(path)? {
            Typed::Duration(span) => Some(span),
            _ => None,
        }
    }

    pub(super) fn data_size(&self, path: &str) -> Option<DataSize> {
        match self.typed(path)? {
            Typed::DataSize(size) => Some(size),
            _ => None,
        }
    }

    pub(super) fn soak_level(&self, path: &str) -> Option<SoakLevel> {
        match self.typed(path)? {
            Typed::SoakLevel(level) => Some(level),
            _ => None,
        }
    }

    pub(super) fn window(&self, path: &str) -> Option<(u16, u16)> {
        match self.typed(path)? {
            Typed::Window(from, to) => Some((from, to)),
            _ => None,
        }
    }

    pub(super) fn texts(&self, path: &str) -> Vec<Item<String>> {
        match self.typed(path) {
            Some(Typed::Texts(items)) => items,
            _ => Vec::new(),
        }
    }

    pub(super) fn integers(&self, path: &str) -> Vec<Item<i64>> {
        match self.typed(path) {
            Some(Typed::Integers(items)) => items,
            _ => Vec::new(),
        }
    }

    pub(super) fn numbers(&self, path: &str) -> Vec<Item<f64>> {
        match self.typed(path) {
            Some(Typed::Numbers(items)) => items,
            _ => Vec::new(),
        }
    }

    pub(super) fn strings(&self, path: &str) -> Vec<(String, String)> {
        match self.typed(path) {
            Some(Typed::Strings(items)) => items,
            _ => Vec::new(),
        }
    }

    pub(super) fn settings(&self, path: &str) -> Vec<Item<super::Setting>> {
        match self.typed(path) {
            Some(Typed::Settings(items)) => items,
            _ => Vec::new(),
        }
    }

    pub(super) fn json(&self, path: &str) -> Vec<Item<(String, serde_json::Value)>> {
        match self.typed(path) {
            Some(Typed::Json(items)) => items,
            _ => Vec::new(),
        }
    }
}
