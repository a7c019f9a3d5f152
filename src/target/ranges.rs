//! Whether a server takes a value, found out without setting it.

use std::collections::BTreeMap;

use super::variables::{quoted, shown};
use super::{Server, TargetError};
use crate::plan::Setting;
use crate::record::Flavour;

/// What a server says about the values of a variable.
#[derive(Debug, Default, PartialEq)]
struct Domain {
    /// It is a number.
    numeric: bool,
    /// It is a switch.
    switch: bool,
    min: Option<f64>,
    max: Option<f64>,
    /// The words it takes; empty: not told.
    words: Vec<String>,
}

/// Why the server would refuse the value, with a way out; `None`: it takes it, or does not tell.
pub(super) fn refused(
    server: &mut Server,
    setting: &Setting,
) -> Result<Option<(String, String)>, TargetError> {
    let domain = match domain(server, &setting.name) {
        Ok(domain) => domain,
        // A server or an account that cannot look it up leaves the answer to the SET itself.
        Err(error) if error.code().is_some() => return Ok(None),
        Err(error) => return Err(error),
    };
    let value = shown(&setting.value);
    Ok(domain.and_then(|domain| {
        let hint = domain.refuses(&value)?;
        Some((
            format!("this server does not take `{}` = `{value}`", setting.name),
            hint,
        ))
    }))
}

/// MariaDB: `information_schema.system_variables`. MySQL ≥ 9.1: `performance_schema.variables_metadata`; before
/// that limits of numbers stand in `variables_info`.
fn domain(server: &mut Server, name: &str) -> Result<Option<Domain>, TargetError> {
    let name = quoted(name);
    let sql = match server.flavour() {
        Flavour::MariaDb => format!(
            "SELECT VARIABLE_TYPE AS kind, NUMERIC_MIN_VALUE AS low, NUMERIC_MAX_VALUE AS high, ENUM_VALUE_LIST AS words FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME = {name}"
        ),
        Flavour::MySql => format!(
            "SELECT DATA_TYPE AS kind, MIN_VALUE AS low, MAX_VALUE AS high FROM performance_schema.variables_metadata WHERE VARIABLE_NAME = {name}"
        ),
    };
    Ok(server.control.maps(&sql)?.first().map(read))
}

fn read(row: &BTreeMap<String, String>) -> Domain {
    let kind = row
        .get("kind")
        .map(|kind| kind.to_ascii_uppercase())
        .unwrap_or_default();
    let number = |column: &str| row.get(column).and_then(|text| text.parse().ok());
    let numeric = kind.contains("INT") || kind == "DOUBLE" || kind == "NUMERIC";
    Domain {
        numeric,
        switch: kind == "BOOLEAN",
        min: number("low").filter(|_| numeric),
        max: number("high").filter(|_| numeric),
        words: match row.get("words") {
            Some(words) if kind == "ENUM" => words.split(',').map(str::to_owned).collect(),
            _ => Vec::new(),
        },
    }
}

impl Domain {
    /// What the value should be instead.
    fn refuses(&self, value: &str) -> Option<String> {
        let number: Option<f64> = value.parse().ok();
        if self.numeric {
            let (low, high) = (self.min.unwrap_or(f64::MIN), self.max.unwrap_or(f64::MAX));
            return match number {
                // A switch is a number to the server.
                None if matches!(value, "ON" | "OFF") => None,
                None => Some("it takes a number".to_owned()),
                Some(n) if low < high && !(low..=high).contains(&n) => {
                    Some(format!("it takes {low} to {high}"))
                }
                Some(_) => None,
            };
        }
        if self.switch {
            let known = ["ON", "OFF", "TRUE", "FALSE", "0", "1"];
            let fits = known.iter().any(|word| word.eq_ignore_ascii_case(value));
            return (!fits).then(|| "it takes ON or OFF".to_owned());
        }
        if self.words.is_empty() {
            return None;
        }
        let fits = match number {
            Some(n) => n >= 0.0 && n < self.words.len() as f64,
            None => self
                .words
                .iter()
                .any(|word| word.eq_ignore_ascii_case(value)),
        };
        (!fits).then(|| format!("it takes {}", self.words.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, low: &str, high: &str, words: &str) -> Domain {
        let pairs = [
            ("kind", kind),
            ("low", low),
            ("high", high),
            ("words", words),
        ];
        read(
            &pairs
                .iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn values_outside_of_what_a_server_states_are_refused() {
        let number = row("BIGINT UNSIGNED", "10", "100000", "");
        assert_eq!(number.refuses("151"), None);
        for bad in ["9", "100001", "-1", "many"] {
            assert!(number.refuses(bad).is_some(), "{bad}");
        }
        let choice = row("ENUM", "", "", "MIXED,STATEMENT,ROW");
        for good in ["row", "0", "2"] {
            assert_eq!(choice.refuses(good), None, "{good}");
        }
        for bad in ["ROWS", "3", "-1"] {
            assert!(choice.refuses(bad).is_some(), "{bad}");
        }
        let switch = row("Boolean", "", "", "");
        assert_eq!(switch.refuses("on"), None);
        assert!(switch.refuses("2").is_some());
    }

    #[test]
    fn what_a_server_does_not_state_is_not_refused() {
        for domain in [
            row("Integer", "", "", ""),
            row("SET", "", "", "A,B"),
            row("Enumeration", "", "", ""),
            row("", "", "", ""),
            row("Integer", "0", "0", ""),
        ] {
            assert_eq!(domain.refuses("7"), None, "{domain:?}");
        }
    }
}
