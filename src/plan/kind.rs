//! What a key of the plan is: its type, its limits and what a person is told about them.

/// Longest duration a plan may state, in seconds: 30 days. Keeps clock arithmetic far from overflow.
pub(super) const LONGEST: f64 = 30.0 * 86_400.0;

/// An upper limit that only keeps a number finite.
pub(super) const UNLIMITED: f64 = 1e12;

/// The type of a key's value, with its limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A string.
    Text,
    /// A path; relative ones start at the plan's folder, `~/` at the home folder.
    Path,
    /// A whole number within limits (both included).
    Integer {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A number within limits (both included).
    Number {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// `true` or `false`.
    Boolean,
    /// A duration with unit, between `min` seconds and 30 days.
    Duration {
        /// Shortest, in seconds.
        min: f64,
    },
    /// A share: `"30%"` or `0.3`, above 0 (0 itself where `zero`), at most `max`.
    Ratio {
        /// Largest value, 1.0 = 100 %.
        max: f64,
        /// Whether 0 is a value.
        zero: bool,
    },
    /// A latency: a duration above zero.
    Latency,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `"3x buffer_pool"` or `"12GiB"`.
    DataSize,
    /// A number of threads, or `"80% knee"`.
    SoakLevel,
    /// A time of day from–to: `"22:00-06:00"`.
    Window,
    /// A list of strings.
    Texts,
    /// A list of whole numbers within limits.
    Integers {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A list of numbers above zero.
    Rates,
    /// A table of free keys with strings, numbers or booleans, kept as text.
    Strings,
    /// A table of server variables.
    Settings,
    /// Start-up options: a list `["skip-log-bin", "name=value"]` or a table.
    Options,
    /// A table of options of the workload templates.
    WorkloadOptions,
}

impl Kind {
    /// The type in one or two words, for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Path => "path",
            Self::Integer { .. } => "integer",
            Self::Number { .. } => "number",
            Self::Boolean => "boolean",
            Self::Duration { .. } => "duration",
            Self::Ratio { .. } => "share",
            Self::Latency => "latency",
            Self::Choice(_) => "word",
            Self::DataSize => "data size",
            Self::SoakLevel => "number or share",
            Self::Window => "time of day",
            Self::Texts => "list of strings",
            Self::Integers { .. } => "list of integers",
            Self::Rates => "list of numbers",
            Self::Strings | Self::Settings | Self::WorkloadOptions => "table",
            Self::Options => "list or table",
        }
    }

    /// What a value must be, with an example: the end of “expects …”.
    pub fn expects(self) -> String {
        match self {
            Self::Text => "a string in quotes".to_owned(),
            Self::Path => "a path in quotes".to_owned(),
            Self::Integer { .. } => "a whole number".to_owned(),
            Self::Number { .. } => "a number".to_owned(),
            Self::Boolean => "`true` or `false`".to_owned(),
            Self::Duration { .. } => "a duration with its unit, such as \"300s\"".to_owned(),
            Self::Ratio { .. } => "a share, such as \"30%\" or 0.3".to_owned(),
            Self::Latency => "a latency with its unit, such as \"50ms\"".to_owned(),
            Self::Choice(words) => format!("one of {}", quoted(words)),
            Self::DataSize => "a size, such as \"3x buffer_pool\" or \"12GiB\"".to_owned(),
            Self::SoakLevel => {
                "a number of threads, such as 24, or a share of the knee, such as \"80% knee\""
                    .to_owned()
            }
            Self::Window => "a time of day from-to, such as \"22:00-06:00\"".to_owned(),
            Self::Texts => "a list of strings, such as [\"a\", \"b\"]".to_owned(),
            Self::Integers { .. } => "a list of whole numbers, such as [8, 16, 32]".to_owned(),
            Self::Rates => "a list of numbers, such as [500, 1000]".to_owned(),
            Self::Strings => "a table of strings".to_owned(),
            Self::Settings => {
                "a table of server variables, such as { max_connections = 1000 }".to_owned()
            }
            Self::Options => {
                "a list of start-up options, such as [\"skip-log-bin\"], or a table".to_owned()
            }
            Self::WorkloadOptions => "a table of workload options".to_owned(),
        }
    }

    /// Unit or limits in short, for tables; empty when the type says it all.
    pub fn limits(self) -> String {
        match self {
            Self::Integer { min, max } | Self::Integers { min, max } if max == i64::MAX => {
                format!("at least {min}")
            }
            Self::Integer { min, max } | Self::Integers { min, max } => format!("{min} to {max}"),
            Self::Number { min, max } if max >= UNLIMITED => format!("at least {min}"),
            Self::Number { min, max } => format!("{min} to {max}"),
            Self::Duration { min } if min > 0.0 => {
                format!(
                    "at least {}",
                    crate::units::Span(std::time::Duration::from_secs_f64(min))
                )
            }
            Self::Duration { .. } => "may be \"0s\"".to_owned(),
            Self::Ratio { max, zero } => {
                let low = if zero { "0" } else { "above 0" };
                format!("{low} to {}%", max * 100.0)
            }
            Self::Latency => "above 0".to_owned(),
            Self::SoakLevel => "at least 1, or above 0% to 100% of the knee".to_owned(),
            Self::Choice(words) => words
                .iter()
                .map(|w| format!("\"{w}\""))
                .collect::<Vec<_>>()
                .join(", "),
            Self::Rates => "transactions per second, above 0".to_owned(),
            _ => String::new(),
        }
    }
}

/// `a`, `b` or `c`, each in backticks.
pub(super) fn quoted(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|w| format!("`{w}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}
