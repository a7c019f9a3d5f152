//! Reads the entries of free tables and lists: variables, start-up options, words for the report, options
//! of workloads.

use toml::Spanned;
use toml::de::DeValue;

use super::diagnostic::{At, Diagnostic};
use super::kind::Kind;
use super::value::{Value, has_control, mismatch, number, to_i64};
use super::{Setting, SettingValue};
use crate::units::Bytes;

/// An entry of `[environment]`, as it will be read in the report.
pub(super) fn word_for_word(value: &Value<'_>, path: &str) -> Result<String, Diagnostic> {
    Ok(match value.get_ref() {
        DeValue::String(text) if has_control(text) => {
            return Err(Diagnostic::error(
                value.span(),
                format!("`{path}` holds a control character"),
            ));
        }
        DeValue::String(text) => text.clone().into_owned(),
        DeValue::Integer(n) => n.to_string(),
        DeValue::Float(n) => n.to_string(),
        DeValue::Boolean(b) => b.to_string(),
        DeValue::Datetime(d) => d.to_string(),
        _ => return Err(mismatch(Kind::Text, path, value)),
    })
}

/// `name = value` in a table of variables or options.
pub(super) fn setting(
    name: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Value<'_>,
    path: &str,
    option: bool,
) -> Result<Setting, Diagnostic> {
    let normal = variable_name(name.get_ref(), path, name.span())?;
    let value = match value.get_ref() {
        DeValue::String(text) if text.is_empty() && option => SettingValue::Bare,
        DeValue::String(text) => setting_text(text, path, value.span())?,
        DeValue::Integer(n) => {
            to_i64(n).map_or_else(|| SettingValue::Text(n.to_string()), SettingValue::Integer)
        }
        DeValue::Float(n) => SettingValue::Text(n.as_str().to_owned()),
        // The server refuses `--skip-log-bin=1`.
        DeValue::Boolean(true) if option && normal.starts_with("skip_") => SettingValue::Bare,
        DeValue::Boolean(b) => SettingValue::Bool(*b),
        _ => {
            return Err(Diagnostic::error(
                value.span(),
                format!("`{path}`: the value of `{normal}` must be a string, number or boolean"),
            ));
        }
    };
    Ok(Setting {
        name: normal,
        value,
    })
}

/// `"name"`, `"name=value"` or `"--name=value"` in a list of options.
pub(super) fn option(item: &Value<'_>, path: &str) -> Result<Setting, Diagnostic> {
    let DeValue::String(text) = item.get_ref() else {
        return Err(mismatch(Kind::Text, path, item));
    };
    let at = item.span();
    let bare = text.trim().trim_start_matches("--");
    let Some((name, value)) = bare.split_once('=') else {
        return Ok(Setting {
            name: variable_name(bare.trim(), path, at)?,
            value: SettingValue::Bare,
        });
    };
    let name = variable_name(name.trim(), path, at.clone())?;
    let value = value.trim();
    let value = match value.parse::<i64>() {
        Ok(number) => SettingValue::Integer(number),
        Err(_) => setting_text(value, path, at)?,
    };
    Ok(Setting { name, value })
}

/// Text, or bytes when it is exactly a size with a unit; `ON` and `O_DIRECT` remain text.
fn setting_text(text: &str, path: &str, at: At) -> Result<SettingValue, Diagnostic> {
    if text.chars().any(char::is_control) {
        return Err(Diagnostic::error(
            at,
            format!("`{path}` holds a control character"),
        ));
    }
    let trimmed = text.trim();
    let has_unit = trimmed.starts_with(|c: char| c.is_ascii_digit())
        && trimmed.ends_with(|c: char| c.is_ascii_alphabetic());
    if has_unit
        && let Ok(Bytes(bytes)) = Bytes::parse(trimmed)
        && let Ok(bytes) = i64::try_from(bytes)
    {
        return Ok(SettingValue::Integer(bytes));
    }
    Ok(SettingValue::Text(text.to_owned()))
}

/// Lower case, `-` as `_`; letters, digits, `_` and `.` only, since the name becomes part of a statement.
fn variable_name(name: &str, path: &str, at: At) -> Result<String, Diagnostic> {
    let normal = name.to_lowercase().replace('-', "_");
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if normal.is_empty() || !normal.chars().all(good) {
        let message = if name.is_empty() {
            format!("`{path}`: a variable or option without a name")
        } else {
            format!("`{path}`: `{name}` is not the name of a variable or option")
        };
        return Err(Diagnostic::error(at, message)
            .hint("names are made of letters, digits, `_`, `-` and `.`"));
    }
    Ok(normal)
}

pub(super) fn json(value: &Value<'_>, path: &str) -> Result<serde_json::Value, Diagnostic> {
    use serde_json::Value as Json;
    Ok(match value.get_ref() {
        DeValue::String(text) => Json::String(text.clone().into_owned()),
        DeValue::Integer(n) => match to_i64(n) {
            Some(n) => Json::from(n),
            None => {
                return Err(Diagnostic::error(
                    value.span(),
                    format!("`{path}`: {n} does not fit 64 bits"),
                ));
            }
        },
        DeValue::Float(_) => Json::from(number(value, path)?),
        DeValue::Boolean(b) => Json::Bool(*b),
        DeValue::Array(items) => Json::Array(
            items
                .iter()
                .map(|i| json(i, path))
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Datetime(_) | DeValue::Table(_) => {
            return Err(Diagnostic::error(
                value.span(),
                format!("`{path}`: an option must be a string, number, boolean or list of these"),
            ));
        }
    })
}
