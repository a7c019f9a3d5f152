//! Reads one value as its key's type.

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::diagnostic::{At, Diagnostic};
use super::kind::{Kind, LONGEST, UNLIMITED, quoted};
use super::setting::{json, option, setting, word_for_word};
use super::suggest::nearest;
use super::{DataSize, Setting, SoakLevel, soak};
use crate::units::{Bytes, Span};

/// A value with its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item<T> {
    pub(super) value: T,
    pub(super) at: At,
}

/// A value of any kind, as typed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Typed {
    Text(String),
    Integer(i64),
    Number(f64),
    Boolean(bool),
    Duration(Span),
    DataSize(DataSize),
    SoakLevel(SoakLevel),
    Window(u16, u16),
    Texts(Vec<Item<String>>),
    Integers(Vec<Item<i64>>),
    Numbers(Vec<Item<f64>>),
    Strings(Vec<(String, String)>),
    Settings(Vec<Item<Setting>>),
    Json(Vec<Item<(String, serde_json::Value)>>),
}

pub(super) type Value<'i> = Spanned<DeValue<'i>>;
type Problems = Vec<Diagnostic>;

/// Reads `value` as `kind`; `None` when it is not one, which `problems` then says. `path` is the key's full
/// path, for the words.
pub(super) fn read(
    kind: Kind,
    path: &str,
    value: &Value<'_>,
    problems: &mut Problems,
) -> Option<Typed> {
    let at = value.span();
    let typed = match (kind, value.get_ref()) {
        (Kind::Text | Kind::Path, DeValue::String(text)) => {
            if has_control(text) {
                Err(Diagnostic::error(
                    at,
                    format!("`{path}` holds a control character"),
                ))
            } else if kind == Kind::Path && text.trim().is_empty() {
                Err(Diagnostic::error(at, format!("`{path}` is empty"))
                    .hint("name a file, or leave the key out"))
            } else {
                Ok(Typed::Text(text.clone().into_owned()))
            }
        }
        (Kind::Integer { min, max }, DeValue::Integer(number)) => {
            whole(number, min, max, path, at).map(Typed::Integer)
        }
        (Kind::Number { min, max }, DeValue::Integer(_) | DeValue::Float(_)) => {
            within(value, min, max, path)
        }
        (Kind::Boolean, DeValue::Boolean(b)) => Ok(Typed::Boolean(*b)),
        (Kind::Duration { min }, DeValue::String(text)) => duration(text, min, "s", path, at),
        (Kind::Latency, DeValue::String(text)) => duration(text, 1e-9, "ms", path, at),
        (
            Kind::Ratio { max, zero },
            DeValue::String(_) | DeValue::Float(_) | DeValue::Integer(_),
        ) => ratio(value, max, zero, path),
        (Kind::Choice(words), DeValue::String(text)) => choice(text, words, path, at),
        (Kind::DataSize, DeValue::String(_) | DeValue::Integer(_)) => data_size(value, path),
        (Kind::SoakLevel, DeValue::String(_) | DeValue::Integer(_)) => soak::level(value, path),
        (Kind::Window, DeValue::String(text)) => window(text, path, at),
        (Kind::Texts, DeValue::Array(items)) => {
            return list(items, problems, |item| match item.get_ref() {
                DeValue::String(text) => Ok(text.clone().into_owned()),
                _ => Err(mismatch(Kind::Text, path, item)),
            })
            .map(Typed::Texts);
        }
        (Kind::Integers { min, max }, DeValue::Array(items)) => {
            return list(items, problems, |item| match item.get_ref() {
                DeValue::Integer(number) => whole(number, min, max, path, item.span()),
                _ => Err(mismatch(Kind::Integer { min, max }, path, item)),
            })
            .map(Typed::Integers);
        }
        (Kind::Rates, DeValue::Array(items)) => {
            return list(items, problems, |item| match number(item, path) {
                Ok(n) if n > 0.0 && n <= 1e9 => Ok(n),
                Ok(n) => Err(Diagnostic::error(
                    item.span(),
                    format!("`{path}` holds the rate {n}; a rate is above 0 and at most 1e9"),
                )),
                Err(d) => Err(d),
            })
            .map(Typed::Numbers);
        }
        (Kind::Strings, DeValue::Table(table)) => {
            return entries(table, problems, |name, item| {
                let path = format!("{path}.{}", name.get_ref());
                Ok((name.get_ref().to_string(), word_for_word(item, &path)?))
            })
            .map(|items| Typed::Strings(items.into_iter().map(|i| i.value).collect()));
        }
        (Kind::Settings, DeValue::Table(table)) => {
            return entries(table, problems, |name, item| {
                setting(name, item, path, false)
            })
            .map(Typed::Settings);
        }
        (Kind::Options, DeValue::Table(table)) => {
            return entries(table, problems, |name, item| {
                setting(name, item, path, true)
            })
            .map(Typed::Settings);
        }
        (Kind::Options, DeValue::Array(items)) => {
            return list(items, problems, |item| option(item, path)).map(Typed::Settings);
        }
        (Kind::WorkloadOptions, DeValue::Table(table)) => {
            return entries(table, problems, |name, item| {
                Ok((name.get_ref().to_string(), json(item, path)?))
            })
            .map(Typed::Json);
        }
        _ => Err(mismatch(kind, path, value)),
    };
    typed.map_err(|d| problems.push(d)).ok()
}

/// Anything a terminal might obey; line breaks and tabs are text.
pub(super) fn has_control(text: &str) -> bool {
    text.chars()
        .any(|c| c.is_control() && c != '\t' && c != '\n')
}

/// Reads all items, reporting every wrong one; `None` when one was wrong.
fn list<T>(
    items: &[Value<'_>],
    problems: &mut Problems,
    mut read: impl FnMut(&Value<'_>) -> Result<T, Diagnostic>,
) -> Option<Vec<Item<T>>> {
    let before = problems.len();
    let mut good = Vec::with_capacity(items.len());
    for item in items {
        match read(item) {
            Ok(value) => good.push(Item {
                value,
                at: item.span(),
            }),
            Err(d) => problems.push(d),
        }
    }
    (problems.len() == before).then_some(good)
}

fn entries<T>(
    table: &DeTable<'_>,
    problems: &mut Problems,
    mut read: impl FnMut(&Spanned<std::borrow::Cow<'_, str>>, &Value<'_>) -> Result<T, Diagnostic>,
) -> Option<Vec<Item<T>>> {
    let before = problems.len();
    let mut good = Vec::with_capacity(table.len());
    let mut in_order: Vec<_> = table.iter().collect();
    in_order.sort_by_key(|(name, _)| name.span().start);
    for (name, item) in in_order {
        match read(name, item) {
            Ok(value) => good.push(Item {
                value,
                at: name.span(),
            }),
            Err(d) => problems.push(d),
        }
    }
    (problems.len() == before).then_some(good)
}

/// “expects a duration …, found a whole number”, with the way out where the fix is plain.
pub(super) fn mismatch(kind: Kind, path: &str, value: &Value<'_>) -> Diagnostic {
    let found = match value.get_ref() {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    let name = path.rsplit('.').next().unwrap_or(path);
    let hint = match (kind, value.get_ref()) {
        (Kind::Duration { .. } | Kind::Latency, DeValue::Integer(n)) if n.radix() == 10 => {
            let unit = if kind == Kind::Latency { "ms" } else { "s" };
            Some(format!("write {name} = \"{}{unit}\"", n.as_str()))
        }
        (Kind::Duration { .. } | Kind::Latency, DeValue::Float(n)) => {
            let unit = if kind == Kind::Latency { "ms" } else { "s" };
            Some(format!("write {name} = \"{}{unit}\"", n.as_str()))
        }
        (Kind::Integers { .. } | Kind::Rates, DeValue::Integer(n)) if n.radix() == 10 => {
            Some(format!("write {name} = [{}]", n.as_str()))
        }
        (Kind::Texts | Kind::Options, DeValue::String(text)) => {
            Some(format!("write {name} = [\"{text}\"]"))
        }
        (Kind::Boolean, DeValue::String(text)) => match text.to_lowercase().as_str() {
            "true" | "on" | "yes" => Some(format!("write {name} = true")),
            "false" | "off" | "no" => Some(format!("write {name} = false")),
            _ => None,
        },
        (Kind::Integer { .. } | Kind::Number { .. }, DeValue::String(text))
            if text.parse::<f64>().is_ok() =>
        {
            Some(format!("write {name} = {text}, without quotes"))
        }
        _ => None,
    };
    let mut diagnostic =
        Diagnostic::error(value.span(), format!("`{path}` expects {}", kind.expects()))
            .label(format!("found {found}"));
    diagnostic.hint = hint;
    diagnostic
}

fn whole(
    number: &DeInteger<'_>,
    min: i64,
    max: i64,
    path: &str,
    at: At,
) -> Result<i64, Diagnostic> {
    match to_i64(number) {
        Some(n) if n >= min && n <= max => Ok(n),
        _ if max == i64::MAX => Err(Diagnostic::error(
            at,
            format!("`{path}` is {number}; it must be {min} or more (and fit 63 bits)"),
        )),
        _ => Err(Diagnostic::error(
            at,
            format!("`{path}` is {number}, outside {min} to {max}"),
        )),
    }
}

pub(super) fn to_i64(number: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// Whole or not; never NaN or infinite.
pub(super) fn number(value: &Value<'_>, path: &str) -> Result<f64, Diagnostic> {
    let number = match value.get_ref() {
        DeValue::Integer(n) => to_i64(n).map(|n| n as f64),
        DeValue::Float(n) => n.as_str().parse::<f64>().ok(),
        _ => {
            let kind = Kind::Number { min: 0.0, max: 0.0 };
            return Err(mismatch(kind, path, value));
        }
    };
    number
        .filter(|n| n.is_finite())
        .ok_or_else(|| Diagnostic::error(value.span(), format!("`{path}` is not a finite number")))
}

/// A number between two limits.
fn within(value: &Value<'_>, min: f64, max: f64, path: &str) -> Result<Typed, Diagnostic> {
    let n = number(value, path)?;
    if n >= min && n <= max {
        return Ok(Typed::Number(n));
    }
    Err(Diagnostic::error(
        value.span(),
        if max >= UNLIMITED {
            format!("`{path}` is {n}; it must be at least {min}")
        } else {
            format!("`{path}` is {n}, outside {min} to {max}")
        },
    ))
}

/// `unit` is what a bare number was most likely meant in.
fn duration(text: &str, min: f64, unit: &str, path: &str, at: At) -> Result<Typed, Diagnostic> {
    let bare = text.trim();
    if bare.parse::<f64>().is_ok_and(f64::is_finite) {
        return Err(
            Diagnostic::error(at, format!("`{path}`: `{bare}` has no unit")).hint(format!(
                "write {} = \"{bare}{unit}\"",
                path.rsplit('.').next().unwrap_or(path)
            )),
        );
    }
    let span = Span::parse(text)
        .map_err(|reason| Diagnostic::error(at.clone(), format!("`{path}`: {reason}")))?;
    if span.seconds() > LONGEST {
        return Err(Diagnostic::error(
            at,
            format!("`{path}` is {span}, more than 30 days"),
        ));
    }
    if span.seconds() < min {
        return Err(Diagnostic::error(
            at,
            if span.0.is_zero() {
                format!("`{path}` is zero")
            } else {
                format!("`{path}` is {span}, which is too short")
            },
        )
        .hint(if min < 1e-3 {
            "it must be above 0".to_owned()
        } else {
            format!(
                "it must be at least {}",
                Span(std::time::Duration::from_secs_f64(min))
            )
        }));
    }
    Ok(Typed::Duration(span))
}

fn ratio(value: &Value<'_>, max: f64, zero: bool, path: &str) -> Result<Typed, Diagnostic> {
    let at = value.span();
    let name = path.rsplit('.').next().unwrap_or(path);
    let ratio = match value.get_ref() {
        DeValue::String(text) => {
            let Some(percent) = text.trim().strip_suffix('%') else {
                return Err(mismatch(Kind::Ratio { max, zero }, path, value)
                    .label("a string without %")
                    .hint(format!("write {name} = \"{}%\"", text.trim())));
            };
            match percent.trim().parse::<f64>() {
                Ok(p) if p.is_finite() => p / 100.0,
                _ => {
                    return Err(Diagnostic::error(
                        at,
                        format!("`{path}`: `{text}` is not a percentage"),
                    ));
                }
            }
        }
        DeValue::Integer(n) if to_i64(n) != Some(0) => {
            // `1` may mean 1 % or all of it.
            return Err(Diagnostic::error(
                at,
                format!("`{path}` is {n}, which may mean {n} % or {n} times the whole"),
            )
            .hint(format!("write {name} = \"{n}%\"")));
        }
        _ => number(value, path)?,
    };
    if ratio > max || ratio < 0.0 || (ratio == 0.0 && !zero) {
        let low = if zero { "0 %" } else { "above 0 %" };
        let diagnostic = Diagnostic::error(
            at,
            format!(
                "`{path}` is {} %, outside {low} to {} %",
                ratio * 100.0,
                max * 100.0
            ),
        );
        let meant = matches!(value.get_ref(), DeValue::Float(_)) && ratio <= max * 100.0;
        return Err(if meant && ratio > 0.0 {
            diagnostic.hint(format!("write {name} = \"{ratio}%\""))
        } else {
            diagnostic
        });
    }
    Ok(Typed::Number(ratio))
}

fn choice(text: &str, words: &[&str], path: &str, at: At) -> Result<Typed, Diagnostic> {
    if words.contains(&text) {
        return Ok(Typed::Text(text.to_owned()));
    }
    let diagnostic = Diagnostic::error(at, format!("`{path}` knows no `{text}`"));
    Err(match nearest(text, words.iter().copied()) {
        Some(word) => diagnostic.hint(format!("did you mean `{word}`?")),
        None => diagnostic.hint(format!("use {}", quoted(words))),
    })
}

fn data_size(value: &Value<'_>, path: &str) -> Result<Typed, Diagnostic> {
    let at = value.span();
    let text = match value.get_ref() {
        DeValue::Integer(n) => {
            return match to_i64(n).and_then(|n| u64::try_from(n).ok()) {
                Some(bytes) if bytes > 0 => Ok(Typed::DataSize(DataSize::Bytes(Bytes(bytes)))),
                _ => Err(Diagnostic::error(at, format!("`{path}` is {n} bytes"))),
            };
        }
        DeValue::String(text) => text.trim(),
        _ => return Err(mismatch(Kind::DataSize, path, value)),
    };
    let lower = text.to_lowercase();
    if let Some((factor, what)) = lower.split_once(['x', '×', '*']) {
        let pool = what.trim().replace([' ', '-'], "_");
        let known = ["buffer_pool", "buffer_pools", "innodb_buffer_pool_size"];
        let Ok(factor) = factor.trim().parse::<f64>() else {
            return Err(Diagnostic::error(
                at,
                format!("`{path}`: `{text}` does not start with a number"),
            )
            .hint("write \"3x buffer_pool\""));
        };
        if !known.contains(&pool.as_str()) {
            return Err(Diagnostic::error(
                at,
                format!("`{path}`: `{text}` says {factor} times what?"),
            )
            .hint(format!("write \"{factor}x buffer_pool\"")));
        }
        if !(factor > 0.0 && factor <= 1000.0) {
            return Err(Diagnostic::error(
                at,
                format!("`{path}` is {factor} buffer pools, outside above 0 to 1000"),
            ));
        }
        return Ok(Typed::DataSize(DataSize::BufferPools(factor)));
    }
    match Bytes::parse(text) {
        Ok(Bytes(0)) => Err(Diagnostic::error(at, format!("`{path}` is zero"))),
        Ok(bytes) => Ok(Typed::DataSize(DataSize::Bytes(bytes))),
        Err(reason) => Err(Diagnostic::error(at, format!("`{path}`: {reason}"))
            .hint("write \"3x buffer_pool\" or \"12GiB\"")),
    }
}

/// `"22:00-06:00"` as minutes after midnight; 24:00 is 0:00.
fn window(text: &str, path: &str, at: At) -> Result<Typed, Diagnostic> {
    let minute = |text: &str| -> Option<u16> {
        let (hour, minute) = text.trim().split_once(':')?;
        let digits = |s: &str| (1..=2).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(hour) || minute.len() != 2 || !digits(minute) {
            return None;
        }
        let (hour, minute) = (hour.parse::<u16>().ok()?, minute.parse::<u16>().ok()?);
        match (hour, minute) {
            (24, 0) => Some(0),
            (0..=23, 0..=59) => Some(hour * 60 + minute),
            _ => None,
        }
    };
    let both = text
        .split_once(['-', '–'])
        .and_then(|(from, to)| Some((minute(from)?, minute(to)?)));
    match both {
        Some((from, to)) if from == to => Err(Diagnostic::error(
            at,
            format!("`{path}`: `{text}` begins and ends at the same time"),
        )
        .hint("leave the key out to run at any time")),
        Some((from, to)) => Ok(Typed::Window(from, to)),
        None => Err(Diagnostic::error(
            at,
            format!("`{path}`: `{text}` is not a time of day from-to"),
        )
        .hint("write two times of 24 hours, such as \"22:00-06:00\"")),
    }
}
