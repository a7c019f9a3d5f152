//! Figures as people read them: three significant digits, the unit in the column's head, `n/a` for
//! what is missing, never 0.

use crate::units::{self, Millis, PerSecond, Ratio, grouped, rounded};

/// What stands where a figure is missing.
pub(crate) const MISSING: &str = "n/a";

/// At least three significant digits; whole numbers from 100 on, in groups of three from 1,000 on.
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_owned();
    }
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 0.9995 => rounded(value, 3),
        v if v < 9.995 => rounded(value, 2),
        v if v < 99.95 => rounded(value, 1),
        _ => grouped(value),
    }
}

/// A count, in groups of three from 1,000 on.
pub(crate) fn count(value: u64) -> String {
    grouped(value as f64)
}

/// A count that came as a measurement: without decimals where it has none.
pub(crate) fn whole(value: f64) -> String {
    if value.is_finite() && value.fract().abs() < f64::EPSILON {
        grouped(value)
    } else {
        figure(value)
    }
}

/// `1 client`, `32 clients`: a count with its noun.
pub(crate) fn counted(value: u64, one: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {one}{plural}", count(value))
}

pub(crate) fn or_missing(value: Option<String>) -> String {
    value.unwrap_or_else(|| MISSING.to_owned())
}

pub(crate) fn ms(value: Option<Millis>) -> String {
    or_missing(value.map(|v| figure(v.0)))
}

pub(crate) fn rate(value: Option<PerSecond>) -> String {
    or_missing(value.map(|v| figure(v.0)))
}

/// A share in percent without its sign, for columns that say so.
pub(crate) fn percent(value: Option<Ratio>) -> String {
    or_missing(value.map(|v| short_percent(v.0 * 100.0)))
}

fn short_percent(percent: f64) -> String {
    if percent.is_finite() {
        units::percent(percent)
    } else {
        MISSING.to_owned()
    }
}

/// A change in percent, with its sign.
pub(crate) fn change(value: Option<Ratio>) -> String {
    or_missing(value.filter(|v| v.0.is_finite()).map(|v| {
        let text = short_percent(v.0 * 100.0);
        if text.starts_with(|c: char| c.is_ascii_digit()) && v.0 > 0.0 {
            format!("+{text}")
        } else {
            text
        }
    }))
}

/// A stretch of time: `41.5 s`, `23 min 30 s`, `2 h 5 min`.
pub(crate) fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return MISSING.to_owned();
    }
    if seconds < 60.0 {
        return format!("{} s", figure(seconds));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and is not negative"
    )]
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, minutes, rest) {
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// RFC 3339 in UTC as `2026-11-30 11:58:00 UTC`; other text as it is.
pub(crate) fn instant(rfc3339: &str) -> String {
    rfc3339.parse::<jiff::Timestamp>().map_or_else(
        |_| rfc3339.to_owned(),
        |t| t.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

/// Seconds between two RFC 3339 instants.
pub(crate) fn seconds_between(start: &str, end: &str) -> Option<f64> {
    let start: jiff::Timestamp = start.parse().ok()?;
    let end: jiff::Timestamp = end.parse().ok()?;
    Some(end.duration_since(start).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_no_invented_zero() {
        let shown = [
            0.0,
            0.1524,
            0.9996,
            1.523,
            9.996,
            15.23,
            99.96,
            152.3,
            1830.4,
            12_345.6,
            1_234_567.0,
            -25_000.0,
        ]
        .map(figure);
        assert_eq!(
            shown,
            [
                "0",
                "0.152",
                "1.00",
                "1.52",
                "10.0",
                "15.2",
                "100",
                "152",
                "1,830",
                "12,346",
                "1,234,567",
                "-25,000"
            ]
        );
        assert_eq!(figure(f64::NAN), "n/a");
        assert_eq!(ms(None), "n/a");
        assert_eq!(rate(None), "n/a");
        assert_eq!(count(16_382), "16,382");
        assert_eq!(count(0), "0");
    }

    #[test]
    fn changes_have_a_sign() {
        assert_eq!(change(Some(Ratio(0.1806))), "+18");
        assert_eq!(change(Some(Ratio(-0.034))), "-3.4");
        assert_eq!(change(Some(Ratio(0.0))), "0");
        assert_eq!(change(None), "n/a");
        assert_eq!(percent(Some(Ratio(0.0004))), "0.04");
    }

    #[test]
    fn time_reads_as_people_say_it() {
        assert_eq!(duration(41.5), "41.5 s");
        assert_eq!(duration(1410.0), "23 min 30 s");
        assert_eq!(duration(7500.0), "2 h 5 min");
        assert_eq!(instant("2026-11-30T11:58:00Z"), "2026-11-30 11:58:00 UTC");
        assert_eq!(instant("then"), "then");
        assert_eq!(
            seconds_between("2026-11-30T11:58:00Z", "2026-11-30T12:00:00Z"),
            Some(120.0)
        );
    }
}
