//! `[soak]`: the load that must hold after the ladder.

use toml::de::DeValue;

use super::diagnostic::Diagnostic;
use super::kind::Kind;
use super::suggest::nearest;
use super::value::{Typed, Value, mismatch, to_i64};
use super::wire::Fields;
use super::{Ladder, Soak, SoakLevel};
use crate::units::Ratio;

/// The soak, if the plan has the table.
pub(super) fn soak(
    fields: &Fields,
    ladder: &Ladder,
    problems: &mut Vec<Diagnostic>,
) -> Option<Soak> {
    fields.table("soak")?;
    let level = fields.soak_level("soak.threads")?;
    if let (SoakLevel::Threads(_), Some(_), true) =
        (level, ladder.open, fields.given("soak.threads"))
    {
        problems.push(
            Diagnostic::error(
                fields.at("soak.threads"),
                "`soak.threads` is a number of threads, but this ladder goes by rates",
            )
            .also(fields.key_at("ladder.rates"), "the rates stand here")
            .hint("write threads = \"80% knee\": a share of the highest rate that was held"),
        );
    }
    let duration = fields.duration("soak.duration")?;
    if ladder.interval > duration && !fields.broken("ladder.interval") {
        problems.push(
            Diagnostic::error(
                fields.at("soak.duration").or_else(|| fields.table("soak")),
                format!(
                    "a soak of {duration} is shorter than one interval of {}",
                    ladder.interval
                ),
            )
            .hint("hold it for 600s or more"),
        );
    }
    Some(Soak {
        level,
        workload: workload(fields, ladder, problems),
        duration,
    })
}

/// Position of the workload that `soak.workload` names.
fn workload(fields: &Fields, ladder: &Ladder, problems: &mut Vec<Diagnostic>) -> Option<usize> {
    let name = fields.text("soak.workload")?;
    // A path is filed under the file's name.
    let file = std::path::Path::new(&name);
    let stem = match file.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("toml") => file.file_stem(),
        _ => None,
    };
    let name = stem.map_or_else(|| name.clone(), |stem| stem.to_string_lossy().into_owned());
    let found = ladder.workloads.iter().position(|w| w.name == name);
    if found.is_none() && !ladder.workloads.is_empty() {
        let known = ladder.workloads.iter().map(|w| w.name.as_str());
        problems.push(
            Diagnostic::error(
                fields.at("soak.workload"),
                format!("`soak.workload` is `{name}`, which the ladder does not climb: its knee is not known"),
            )
            .hint(match nearest(&name, known.clone()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("use one of {}", known.collect::<Vec<_>>().join(", ")),
            }),
        );
    }
    found
}

/// `24`, or `"80% knee"` (also `"80% of the knee"`, `"80 %"`).
pub(super) fn level(value: &Value<'_>, path: &str) -> Result<Typed, Diagnostic> {
    let at = value.span();
    let text = match value.get_ref() {
        DeValue::Integer(n) => {
            return match to_i64(n).and_then(|n| u32::try_from(n).ok()) {
                Some(threads) if (1..=60_000).contains(&threads) => {
                    Ok(Typed::SoakLevel(SoakLevel::Threads(threads)))
                }
                _ => Err(Diagnostic::error(
                    at,
                    format!("`{path}` is {n}, outside 1 to 60000"),
                )),
            };
        }
        DeValue::String(text) => text.trim(),
        _ => return Err(mismatch(Kind::SoakLevel, path, value)),
    };
    let wrong = |what: String| {
        Diagnostic::error(value.span(), format!("`{path}`: {what}"))
            .hint("write \"80% knee\", or a number of threads without quotes")
    };
    let Some((percent, of)) = text.split_once('%') else {
        return Err(wrong(format!(
            "`{text}` is neither a number nor a share of the knee"
        )));
    };
    let of = of
        .trim()
        .trim_start_matches("of ")
        .trim_start_matches("the ")
        .trim();
    if !of.is_empty() && !of.eq_ignore_ascii_case("knee") {
        return Err(wrong(format!("`{text}` is a share of what?")));
    }
    match percent.trim().parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 100.0 => {
            Ok(Typed::SoakLevel(SoakLevel::OfKnee(Ratio(share / 100.0))))
        }
        Ok(share) if share.is_finite() => Err(wrong(format!(
            "{share} % of the knee is outside above 0 to 100 %"
        ))),
        _ => Err(wrong(format!("`{text}` does not start with a number"))),
    }
}
