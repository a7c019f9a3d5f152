//! Names and values of server variables: which are state, which a report shows, when two values are
//! the same, and how a value is written in SQL or as a start-up option.

use std::collections::BTreeMap;

use crate::plan::{Setting, SettingValue};

/// Global variables that are state, not setting, each with why: they change by themselves while a server works,
/// so that no comparison of settings may see them. Names of all flavours.
pub const STATE_VARIABLES: &[(&str, &str)] = &[
    ("debug_sync", "a debugging aid's present signals"),
    ("error_count", "errors of the last statement"),
    ("gtid_binlog_pos", "grows with every write"),
    ("gtid_binlog_state", "grows with every write"),
    ("gtid_current_pos", "grows with every write"),
    ("gtid_executed", "grows with every write"),
    ("gtid_owned", "transactions in flight"),
    ("gtid_purged", "grows as binary logs are purged"),
    ("gtid_slave_pos", "grows as a replica applies"),
    ("identity", "the last generated id"),
    (
        "innodb_buffer_pool_dump_now",
        "a trigger, which falls back by itself",
    ),
    (
        "innodb_buffer_pool_load_abort",
        "a trigger, which falls back by itself",
    ),
    (
        "innodb_buffer_pool_load_now",
        "a trigger, which falls back by itself",
    ),
    (
        "innodb_thread_sleep_delay",
        "adapts itself while innodb_thread_concurrency makes threads wait",
    ),
    ("insert_id", "the next id of the session"),
    ("last_gtid", "the last transaction of the session"),
    ("last_insert_id", "the last generated id"),
    ("pseudo_thread_id", "the session's number"),
    ("rand_seed1", "the session's random numbers"),
    ("rand_seed2", "the session's random numbers"),
    (
        "sql_slave_skip_counter",
        "counts down as events are skipped",
    ),
    ("timestamp", "the present time"),
    ("warning_count", "warnings of the last statement"),
    ("wsrep_last_committed", "grows with every write"),
];

/// Takes the state out of all global variables.
pub(crate) fn settings_only(all: Vec<(String, String)>) -> BTreeMap<String, String> {
    all.into_iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .filter(|(name, _)| !STATE_VARIABLES.iter().any(|(state, _)| state == name))
        .collect()
}

/// Whether a name can stand in SQL as it is.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.')
}

/// Whether a value asked for and a value read back are the same setting: numbers by value,
/// ON/OFF whichever way they are written, sets in any order, all else without regard to case.
pub fn same_value(asked: &str, took: &str) -> bool {
    let (asked, took) = (asked.trim(), took.trim());
    if asked.eq_ignore_ascii_case(took) {
        return true;
    }
    if let (Some(a), Some(t)) = (switch(asked), switch(took)) {
        return a == t;
    }
    if let (Ok(a), Ok(t)) = (asked.parse::<f64>(), took.parse::<f64>()) {
        #[expect(clippy::float_cmp, reason = "the same decimal written in two ways")]
        return a == t;
    }
    if asked.contains(',') || took.contains(',') {
        let set = |text: &str| {
            let mut parts: Vec<String> = text
                .split(',')
                .map(|p| p.trim().to_ascii_lowercase())
                .collect();
            parts.sort();
            parts
        };
        return set(asked) == set(took);
    }
    false
}

fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "1" | "true" | "yes" => Some(true),
        "off" | "0" | "false" | "no" => Some(false),
        _ => None,
    }
}

/// A value for people and records.
pub(crate) fn shown(value: &SettingValue) -> String {
    match value {
        SettingValue::Integer(n) => n.to_string(),
        SettingValue::Bool(true) | SettingValue::Bare => "ON".to_owned(),
        SettingValue::Bool(false) => "OFF".to_owned(),
        SettingValue::Text(text) => text.clone(),
    }
}

/// A value as SQL literal: numbers and switches bare, everything else quoted.
pub(crate) fn literal(value: &str) -> String {
    let number = value.strip_prefix('-').unwrap_or(value);
    let is_number = !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && number.parse::<f64>().is_ok();
    if is_number || value.eq_ignore_ascii_case("on") || value.eq_ignore_ascii_case("off") {
        value.to_owned()
    } else {
        quoted(value)
    }
}

/// A text as SQL literal. Quotes are doubled; a backslash too, except where the session's `sql_mode`
/// makes it an ordinary character, which capbench's sessions do not.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A start-up option: `--name=value`, or `--name` alone.
pub(crate) fn option(setting: &Setting) -> String {
    let name = setting.name.replace('_', "-");
    match &setting.value {
        SettingValue::Bare => format!("--{name}"),
        // `--log-bin=OFF` would name the files OFF: its value is a file name, not a switch.
        SettingValue::Bool(on) if name == "log-bin" => {
            if *on { "--log-bin" } else { "--skip-log-bin" }.to_owned()
        }
        SettingValue::Text(text) if text.is_empty() => format!("--{name}="),
        value => format!("--{name}={}", shown(value)),
    }
}

/// The variable that a start-up option sets, and the value to expect; `known` are the server's
/// variables. `None`: the option has no variable, so that it cannot be verified.
pub(crate) fn option_effect(
    setting: &Setting,
    known: &BTreeMap<String, String>,
) -> Option<(String, String)> {
    let name = setting.name.replace('-', "_");
    let name = name.strip_prefix("loose_").unwrap_or(&name);
    if name == "log_bin" && !matches!(setting.value, SettingValue::Bool(false)) {
        return Some((name.to_owned(), "ON".to_owned()));
    }
    if known.contains_key(name) {
        return Some((name.to_owned(), shown(&setting.value)));
    }
    for (prefix, value) in [("skip_", "OFF"), ("disable_", "OFF"), ("enable_", "ON")] {
        if let Some(rest) = name.strip_prefix(prefix).filter(|r| known.contains_key(*r)) {
            return Some((rest.to_owned(), value.to_owned()));
        }
    }
    None
}

/// The nearest of `known` to `name`, if it is near enough to be meant.
pub(crate) fn nearest<'a>(
    name: &str,
    known: impl Iterator<Item = &'a String>,
) -> Option<&'a String> {
    known
        .map(|k| (strsim::jaro_winkler(name, k), k))
        .filter(|(score, _)| *score >= 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_same_setting_in_other_words() {
        for (asked, took) in [
            ("ON", "1"),
            ("true", "ON"),
            ("0", "OFF"),
            ("10", "10.000000"),
            ("o_direct", "O_DIRECT"),
            ("268435456", "268435456"),
            ("NO_ZERO_DATE,ANSI", "ANSI,NO_ZERO_DATE"),
            ("", ""),
        ] {
            assert!(same_value(asked, took), "{asked} {took}");
        }
        for (asked, took) in [
            ("ON", "OFF"),
            ("2", "1"),
            ("2", "ON"),
            ("209715200", "268435456"),
            ("ROW", "MIXED"),
            ("", "OFF"),
        ] {
            assert!(!same_value(asked, took), "{asked} {took}");
        }
    }

    #[test]
    fn literals_and_options() {
        assert_eq!(literal("12"), "12");
        assert_eq!(literal("-1.5"), "-1.5");
        assert_eq!(literal("ON"), "ON");
        assert_eq!(literal(""), "''");
        assert_eq!(literal("1.2.3"), "'1.2.3'");
        assert_eq!(literal("it's \\"), "'it''s \\\\'");
        let option = |name: &str, value| {
            option(&Setting {
                name: name.to_owned(),
                value,
            })
        };
        assert_eq!(option("skip_log_bin", SettingValue::Bare), "--skip-log-bin");
        assert_eq!(
            option("log_bin", SettingValue::Bool(false)),
            "--skip-log-bin"
        );
        assert_eq!(option("log_bin", SettingValue::Bool(true)), "--log-bin");
        assert_eq!(
            option("innodb_doublewrite", SettingValue::Bool(false)),
            "--innodb-doublewrite=OFF"
        );
        assert_eq!(
            option("max_connections", SettingValue::Integer(9)),
            "--max-connections=9"
        );
    }

    #[test]
    fn options_name_the_variable_they_change() {
        let known: BTreeMap<String, String> = ["log_bin", "skip_name_resolve", "sync_binlog"]
            .iter()
            .map(|n| ((*n).to_owned(), String::new()))
            .collect();
        let effect = |name: &str, value: SettingValue| {
            option_effect(
                &Setting {
                    name: name.to_owned(),
                    value,
                },
                &known,
            )
        };
        let pair = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        assert_eq!(
            effect("skip_log_bin", SettingValue::Bare),
            pair("log_bin", "OFF")
        );
        assert_eq!(
            effect("skip_name_resolve", SettingValue::Bare),
            pair("skip_name_resolve", "ON")
        );
        assert_eq!(
            effect("log_bin", SettingValue::Text("binlog".into())),
            pair("log_bin", "ON")
        );
        assert_eq!(
            effect("loose_sync_binlog", SettingValue::Integer(1)),
            pair("sync_binlog", "1")
        );
        assert_eq!(effect("gdb", SettingValue::Bare), None);
    }

    #[test]
    fn a_misspelt_name_finds_its_neighbour() {
        let known = [
            "innodb_buffer_pool_size".to_owned(),
            "sync_binlog".to_owned(),
        ];
        assert_eq!(
            nearest("inodb_buffer_pool_size", known.iter()),
            Some(&known[0])
        );
        assert_eq!(nearest("wsrep_provider", known.iter()), None);
    }

    #[test]
    fn state_is_no_setting() {
        let all = vec![
            ("gtid_executed".to_owned(), "x".to_owned()),
            ("Max_connections".to_owned(), "151".to_owned()),
        ];
        let kept = settings_only(all);
        assert_eq!(kept.len(), 1);
        assert_eq!(kept["max_connections"], "151");
    }

    proptest! {
        #[test]
        fn a_quoted_text_has_no_open_quote(text in ".*") {
            let inner = quoted(&text);
            let inner = &inner[1..inner.len() - 1];
            let rest = inner.replace("\\\\", "").replace("''", "");
            prop_assert!(!rest.contains('\'') && !rest.contains('\\'));
        }

        #[test]
        fn a_value_is_itself(value in "[a-zA-Z0-9_,. -]{0,20}") {
            prop_assert!(same_value(&value, &value));
        }
    }
}
