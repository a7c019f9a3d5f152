//! Keys that no plan has: what was probably meant.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::{Diagnostic, is_secret_name};
use super::key::Key;
use super::keys::{self, KEYS, SECTIONS};
use super::suggest::{nearest, plain};

/// Words that people bring from other tools, and the key that means the same.
static ELSEWHERE: &[(&str, &str)] = &[
    ("allow_other_clients", "guard.acknowledge"),
    ("arrival_rate", "ladder.rates"),
    ("concurrency", "ladder.threads"),
    ("db", "target.database"),
    ("max_time", "ladder.measure"),
    ("max_requests", "ladder.events"),
    ("mysql_db", "target.database"),
    ("mysql_host", "target.host"),
    ("mysql_port", "target.port"),
    ("mysql_socket", "target.socket"),
    ("mysql_storage_engine", "dataset.engine"),
    ("mysql_user", "target.user"),
    ("create_secondary", "dataset.secondary_index"),
    ("create_table_options", "dataset.table_options"),
    ("num_threads", "ladder.threads"),
    ("rand_type", "access.distribution"),
    ("rand_seed", "seed"),
    ("rate", "ladder.rates"),
    ("report_interval", "ladder.interval"),
    ("table_size", "dataset.rows"),
    ("time", "ladder.measure"),
    ("tx_rate", "ladder.rates"),
    ("username", "target.user"),
    ("warmup_time", "ladder.discard"),
];

/// The problem of the key `name` that the table `section` does not have.
pub(super) fn unknown(
    section: &'static str,
    name: &Spanned<Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
) -> Diagnostic {
    let word = name.get_ref().as_ref();
    if is_secret_name(word) {
        return Diagnostic::error(
            value.span(),
            format!("`{word}`: a password may not stand in a plan"),
        )
        .label("plans are kept in git and copied into the report's folder")
        .secret()
        .hint(
            "use password_env = \"CAPBENCH_PASSWORD\", password_file = \"…\" or defaults_file = \"~/.my.cnf\"",
        );
    }
    let table = is_table(value.get_ref());
    let what = if table && section.is_empty() {
        "table"
    } else {
        "key"
    };
    let place = match section {
        "" => "at the top level".to_owned(),
        section => format!("in {}", header(section)),
    };
    let message = format!("unknown {what} `{word}` {place}");
    Diagnostic::error(name.span(), message).hint(meant(section, word, table))
}

fn is_table(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::Table(_) => true,
        DeValue::Array(items) => items.first().is_some_and(|item| item.get_ref().is_table()),
        _ => false,
    }
}

/// The header of a table, or of the list of tables.
fn header(section: &str) -> String {
    match keys::section_of(section) {
        Some(known) if known.array => format!("[[{section}]]"),
        _ => format!("[{section}]"),
    }
}

/// A hint: the nearest name here, else the same name elsewhere, else the nearest anywhere.
fn meant(section: &str, word: &str, table: bool) -> String {
    let takes_table = |name: &str| {
        let path = if section.is_empty() {
            name.to_owned()
        } else {
            format!("{section}.{name}")
        };
        keys::section_of(&path).is_some()
            || keys::find(&path).is_some_and(|k| k.kind.name().contains("table"))
    };
    let here = keys::names_in(section);
    let fitting = here
        .iter()
        .copied()
        .filter(|name| takes_table(name) == table);
    if let Some(name) = nearest(word, fitting) {
        return format!("did you mean `{name}`?");
    }
    if table {
        let tables = SECTIONS.iter().filter(|s| !s.path.is_empty());
        let last = |path: &'static str| path.rsplit('.').next().unwrap_or(path);
        let near = tables
            .filter(|s| nearest(word, [last(s.path)]).is_some())
            .min_by_key(|s| strsim::damerau_levenshtein(&plain(word), last(s.path)));
        if let Some(near) = near {
            return format!("did you mean {}?", header(near.path));
        }
    }
    if let Some(hint) = elsewhere(word) {
        return hint;
    }
    if let Some(name) = nearest(word, here.iter().copied()) {
        return format!("did you mean `{name}`?");
    }
    let near = KEYS
        .iter()
        .filter(|k| word.chars().count() >= 4 && nearest(word, [k.name()]).is_some())
        .min_by_key(|k| strsim::damerau_levenshtein(&plain(word), k.name()));
    match near {
        Some(key) if key.section().is_empty() => {
            format!("did you mean `{}` at the top?", key.name())
        }
        Some(key) => format!(
            "did you mean `{}` in {}?",
            key.name(),
            header(key.section())
        ),
        None => format!("known here: {}", here.join(", ")),
    }
}

/// The right word in the wrong table (nested tables swallow what follows them), or another tool's word.
fn elsewhere(word: &str) -> Option<String> {
    let word = plain(word);
    let mut same: Vec<&Key> = KEYS.iter().filter(|k| k.name() == word).collect();
    if same.is_empty() {
        let (_, path) = ELSEWHERE.iter().find(|(alias, _)| *alias == word)?;
        same.extend(keys::find(path));
    }
    // Where a plan must have it is the likelier place.
    same.sort_by_key(|k| !k.required);
    let name = same.first()?.name();
    if same.first()?.section().is_empty() {
        return Some(format!(
            "`{name}` stands at the top, before the first [table]"
        ));
    }
    let places: Vec<String> = same.iter().map(|k| header(k.section())).collect();
    Some(format!("`{name}` stands in {}", places.join(" or ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_lead_to_keys() {
        for (alias, path) in ELSEWHERE {
            assert!(keys::find(path).is_some(), "{path}");
            assert!(
                KEYS.iter().all(|k| k.name() != *alias),
                "{alias} is a key itself"
            );
        }
    }
}
