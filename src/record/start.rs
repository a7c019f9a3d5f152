//! In what state a variant or a cell began: how the data was put back, what was waited for, the warm-up.

use serde::{Deserialize, Serialize};

/// The start of a visit of a variant, or of a cell whose data was put back before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartRecord {
    /// Variant name.
    pub variant: String,
    /// The first cell that ran from here on.
    pub cell: u32,
    /// How the data came to its state, for people: `loaded`, `put back from a copy of the files` …
    pub data: String,
    /// Seconds that putting it back took, a restart included; `None`: nothing was put back.
    pub seconds: Option<f64>,
    /// What was waited for before the warm-up.
    pub settled: Vec<SettleStep>,
    /// The warm-up; `None`: there was none.
    pub warmup: Option<WarmupRecord>,
}

/// One thing that was waited for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettleStep {
    /// `dirty pages`, `history list` …
    pub name: String,
    /// Its value before; `None`: it has none, or it cannot be read.
    pub before: Option<f64>,
    /// Its value when the waiting ended.
    pub after: Option<f64>,
    /// The value at or below which it counts as settled.
    pub limit: Option<f64>,
    /// How long it was waited for.
    pub seconds: f64,
    /// Whether the time limit ended the waiting.
    pub timed_out: bool,
    /// What a reader should know.
    pub note: Option<String>,
}

/// A warm-up as it went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WarmupRecord {
    /// How long it ran.
    pub seconds: f64,
    /// Pages that InnoDB read from its files per second, interval by interval; empty: they could not be read.
    pub reads: Vec<f64>,
    /// With `until_level`: whether those reads had become level when it ended.
    pub level: Option<bool>,
}
