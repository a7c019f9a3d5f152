//! Quantities with their unit: one type each, one `Display` each.
//!
//! A number that a person reads never travels as a bare `f64`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A quantity of storage or memory in bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Reads `"12GiB"`, `"512 MiB"`, `"64K"` or a plain number of bytes. `K`, `M`, `G`, `T` (with or
    /// without `iB`) are powers of 1024; `kB`, `MB`, `GB`, `TB` powers of 1000.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: f64 = number
            .replace('_', "")
            .parse()
            .map_err(|_| format!("`{text}` does not start with a number"))?;
        let factor: f64 = match unit.trim() {
            "" | "B" => 1.0,
            "K" | "k" | "KiB" => 1024.0,
            "M" | "MiB" => 1024.0 * 1024.0,
            "G" | "GiB" => 1024.0 * 1024.0 * 1024.0,
            "T" | "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
            "kB" | "KB" => 1e3,
            "MB" => 1e6,
            "GB" => 1e9,
            "TB" => 1e12,
            other => {
                return Err(format!(
                    "`{other}` is not a unit of size; use KiB, MiB, GiB or TiB"
                ));
            }
        };
        let bytes = number * factor;
        if !bytes.is_finite() || bytes > 9e18 {
            return Err(format!("`{text}` is too large"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "range checked above"
        )]
        Ok(Self(bytes.round() as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1023.95 && unit < UNITS.len() - 1 {
            value /= 1024.0;
            unit += 1;
        }
        write!(f, "{value:.1} {}", UNITS[unit])
    }
}

/// `value` with so many decimals: half away from zero, and values that arithmetic moved by a hair to either
/// side of a half alike, so that one figure reads the same wherever it stands. Never `-0`.
pub fn rounded(value: f64, decimals: usize) -> String {
    let scale = 10_f64.powi(i32::try_from(decimals).unwrap_or(0));
    let scaled = value * scale;
    if !scaled.is_finite() || scaled.abs() > 1e15 {
        return format!("{value:.decimals$}");
    }
    let whole = (scaled + scaled * 1e-12).round() + 0.0;
    format!("{:.decimals$}", whole / scale)
}

/// `value` as a whole number in groups of three: `1,830`.
pub fn grouped(value: f64) -> String {
    let text = rounded(value, 0);
    let digits = text.trim_start_matches('-');
    let mut grouped = text[..text.len() - digits.len()].to_owned();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A percentage as people read it, without its sign: `18`, `3.4`, `0.04`; `0` only for zero, `<0.01` for
/// less than can be shown.
pub fn percent(percent: f64) -> String {
    match percent.abs() {
        0.0 => "0".to_owned(),
        v if v < 0.005 => if percent < 0.0 { ">-0.01" } else { "<0.01" }.to_owned(),
        v if v < 0.095 => rounded(percent, 2),
        v if v < 9.95 => rounded(percent, 1),
        _ => rounded(percent, 0),
    }
}

/// A latency or a short duration in milliseconds. Displays with as many decimals as three
/// significant digits need: `0.152`, `1.52`, `15.2`, `152`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub f64);

impl Millis {
    /// From nanoseconds, the unit in which the load engine records.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(nanos as f64 / 1e6)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = match self.0.abs() {
            v if v < 1.0 => 3,
            v if v < 10.0 => 2,
            v if v < 100.0 => 1,
            _ => 0,
        };
        write!(f, "{} ms", rounded(self.0, decimals))
    }
}

/// A rate in events per second (transactions, queries, arrivals …). Displays with one decimal below 100, in
/// groups of three from there on.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PerSecond(pub f64);

impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.abs() < 99.95 {
            write!(f, "{}/s", rounded(self.0, 1))
        } else {
            write!(f, "{}/s", grouped(self.0))
        }
    }
}

/// A dimensionless ratio, 1.0 = 100 %. Displays as a percentage.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ratio(pub f64);

/// A multiple of something, such as data of the buffer pool: `2.5`, small ones as `0.017`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Multiple(pub f64);

impl fmt::Display for Multiple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = if self.0 < 0.1 { 3 } else { 1 };
        write!(f, "{:.digits$}", self.0)
    }
}

impl Ratio {
    /// Reads `"20%"` or `"0.2"`; a whole number without `%` is refused, since `1` may mean 1 % or all.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let (number, scale) = match trimmed.strip_suffix('%') {
            Some(percent) => (percent.trim(), 100.0),
            None if trimmed.contains('.') => (trimmed, 1.0),
            None => {
                return Err(format!(
                    "`{text}` is not a share; write for example \"20%\" or \"0.2\""
                ));
            }
        };
        match number.parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(Self(value / scale)),
            _ => Err(format!(
                "`{text}` is not a share; write for example \"20%\" or \"0.2\""
            )),
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", percent(self.0 * 100.0))
    }
}

/// A span of time as a plan states it: `"300s"`, `"5m"`, `"1h30m"`, `"500ms"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(pub Duration);

impl Span {
    /// Reads a duration with units.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the text; a bare number is refused, since its unit
    /// would be a guess.
    pub fn parse(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        if trimmed.chars().all(|c| c.is_ascii_digit() || c == '.') {
            return Err(format!(
                "`{text}` has no unit; write \"{trimmed}s\" or \"{trimmed}m\""
            ));
        }
        let signed: jiff::SignedDuration = trimmed.parse().map_err(|_| {
            format!("`{text}` is not a duration; write for example \"300s\", \"5m\" or \"500ms\"")
        })?;
        Duration::try_from(signed)
            .map(Self)
            .map_err(|_| format!("`{text}` is negative"))
    }

    /// Whole and fractional seconds.
    pub fn seconds(self) -> f64 {
        self.0.as_secs_f64()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        if millis == 0 {
            return write!(f, "0s");
        }
        if !millis.is_multiple_of(1000) {
            return write!(f, "{millis}ms");
        }
        let seconds = self.0.as_secs();
        let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        match (h, m, s) {
            // Below two minutes and for odd values people say seconds: 60s, 90s, 300s.
            (0, _, _) if seconds < 120 || s != 0 => write!(f, "{seconds}s"),
            (0, m, 0) => write!(f, "{m}m"),
            (h, 0, 0) => write!(f, "{h}h"),
            (h, m, 0) => write!(f, "{h}h{m}m"),
            (h, m, s) => write!(f, "{h}h{m}m{s}s"),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 204.5 reached as 204.49999999999997 by way of a logarithm reads as 204.5 does.
    #[test]
    fn a_figure_rounds_the_same_everywhere() {
        for value in [204.5, 204.5_f64.ln().exp(), 204.499_999_999_999_97] {
            assert_eq!(rounded(value, 0), "205");
            assert_eq!(PerSecond(value).to_string(), "205/s");
        }
        assert_eq!(rounded(-0.4, 0), "0");
        assert_eq!(rounded(-2.5, 0), "-3");
        assert_eq!(rounded(0.125, 2), "0.13");
        assert_eq!(grouped(-1_234_567.4), "-1,234,567");
        assert_eq!(
            [0.0, 0.001, 0.04, 0.5, 9.96, 18.4].map(percent),
            ["0", "<0.01", "0.04", "0.5", "10", "18"]
        );
    }

    #[test]
    fn sizes_read_and_print() {
        assert_eq!(Bytes::parse("12GiB"), Ok(Bytes(12 << 30)));
        assert_eq!(Bytes::parse("64K"), Ok(Bytes(65536)));
        assert_eq!(Bytes::parse("1_000"), Ok(Bytes(1000)));
        assert_eq!(Bytes::parse("1.5 GB"), Ok(Bytes(1_500_000_000)));
        assert!(Bytes::parse("12 parsecs").is_err());
        assert_eq!(Bytes(12 << 30).to_string(), "12.0 GiB");
        assert_eq!(Bytes((1 << 30) - 1).to_string(), "1.0 GiB");
        assert_eq!(Bytes(17).to_string(), "17 B");
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(Span::parse("300s"), Ok(Span(Duration::from_secs(300))));
        assert_eq!(Span::parse("5m"), Ok(Span(Duration::from_secs(300))));
        assert_eq!(Span::parse("1h30m"), Ok(Span(Duration::from_secs(5400))));
        assert_eq!(Span::parse("500ms"), Ok(Span(Duration::from_millis(500))));
        assert!(Span::parse("300").unwrap_err().contains("no unit"));
        assert!(Span::parse("-5s").is_err());
        for text in ["60s", "90s", "5m", "500ms", "2h", "1h30m", "0s"] {
            assert_eq!(
                Span::parse(text).map(|s| s.to_string()),
                Ok(text.to_owned())
            );
        }
    }

    #[test]
    fn shares_say_what_they_are_of() {
        assert_eq!(Ratio::parse("20%"), Ok(Ratio(0.2)));
        assert_eq!(Ratio::parse("0.2"), Ok(Ratio(0.2)));
        for text in ["20", "1", "", "-0.1", "x%", "NaN%", "inf%"] {
            assert!(Ratio::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn figures_carry_their_unit() {
        assert_eq!(Millis(0.152).to_string(), "0.152 ms");
        assert_eq!(Millis(68.44).to_string(), "68.4 ms");
        assert_eq!(PerSecond(1830.4).to_string(), "1,830/s");
        assert_eq!(Ratio(0.18).to_string(), "18 %");
        assert_eq!(Ratio(0.018).to_string(), "1.8 %");
    }
}
