//! The table of ratios, for the screen and as Markdown.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use crate::machine;
use crate::settings::Settings;
use crate::stats::{median, spread};
use crate::subject::Subject;

/// Which direction is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// What the ratio capbench / sysbench should be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Its median: at least, or at most, this.
    pub(crate) median: f64,
    /// The bad end of its interval likewise.
    pub(crate) end: Option<f64>,
}

impl Target {
    pub(crate) fn at(median: f64) -> Self {
        Self { median, end: None }
    }
}

/// One figure, measured in pairs of (sysbench, capbench).
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) values: Vec<(f64, f64)>,
    /// From the unit of `values` to that of `what`.
    pub(crate) scale: f64,
    pub(crate) better: Better,
    pub(crate) target: Option<Target>,
}

impl Row {
    fn cells(&self) -> [String; 6] {
        let ratios: Vec<f64> = self.values.iter().map(|(a, b)| b / a).collect();
        let ratio = spread(&ratios);
        let side = |values: Vec<f64>| figure(median(&values) * self.scale);
        let (target, met) = match self.target {
            None => (String::new(), String::new()),
            Some(target) => {
                let sign = match self.better {
                    Better::Higher => "≥",
                    Better::Lower => "≤",
                };
                let end = target.end.map(|end| format!(", low end ≥ {end:.2}"));
                let text = format!("{sign} {:.3}", target.median);
                let text = text.trim_end_matches('0').trim_end_matches('.').to_owned();
                let met = match self.better {
                    Better::Higher => {
                        ratio.median >= target.median
                            && target.end.is_none_or(|end| ratio.low >= end)
                    }
                    Better::Lower => ratio.median <= target.median,
                };
                let met = if met { "yes" } else { "NO" };
                (text + &end.unwrap_or_default(), met.to_owned())
            }
        };
        [
            side(self.values.iter().map(|(a, _)| *a).collect()),
            side(self.values.iter().map(|(_, b)| *b).collect()),
            format!("{:.3}", ratio.median),
            format!("{:.3} … {:.3}", ratio.low, ratio.high),
            target,
            met,
        ]
    }
}

fn figure(value: f64) -> String {
    if value.abs() >= 1000.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Everything measured.
pub(crate) struct Report {
    facts: Vec<(&'static str, String)>,
    quick: bool,
    /// Server, rows.
    servers: Vec<(String, Vec<Row>)>,
    /// Pairs that were measured again, and why.
    again: Vec<String>,
}

const HEADINGS: [&str; 7] = [
    "figure",
    "sysbench",
    "capbench",
    "ratio",
    "95 % interval",
    "target",
    "met",
];

const QUICK: &str =
    "\nThis was the tiniest setting: it shows that the bench works, no figure means anything.\n";

impl Report {
    pub(crate) fn new(settings: &Settings, sysbench: &str) -> Self {
        let mut facts = vec![
            (
                "date",
                jiff::Timestamp::now()
                    .to_string()
                    .chars()
                    .take(10)
                    .collect(),
            ),
            ("capbench", env!("CARGO_PKG_VERSION").to_owned()),
            ("sysbench", sysbench.to_owned()),
        ];
        facts.extend(machine::facts());
        let pinned = if settings.pin {
            "server pinned to core 0, clients to core 1 (not while loading)"
        } else {
            "server and clients on all cores"
        };
        facts.push((
            "setting",
            format!(
                "{} pairs in turn, {} s a measurement, {} tables × {} rows, uniform ids, prepared \
                 statements, loopback TCP, buffer pool 1 GiB, no binary log, other settings the server's \
                 defaults; {pinned}",
                settings.pairs, settings.seconds, settings.tables, settings.rows
            ),
        ));
        Self {
            facts,
            quick: settings.quick,
            servers: Vec::new(),
            again: Vec::new(),
        }
    }

    /// A pair in which a tool failed counts for neither.
    pub(crate) fn measured_again(&mut self, what: &str, error: &anyhow::Error) {
        let server = self.servers.last().map_or("", |(server, _)| server);
        let why = format!("{error:#}");
        // The last line is the one that tells.
        let why = why.trim().lines().last().unwrap_or_default();
        self.again.push(format!("- {server}, {what}: {why}"));
    }

    pub(crate) fn server(&mut self, subject: &Subject) {
        self.servers.push((subject.title(), Vec::new()));
    }

    /// Rows under another heading.
    pub(crate) fn section(&mut self, name: &str) {
        self.servers.push((name.to_owned(), Vec::new()));
    }

    /// One line a server: how many targets were met.
    fn summary(&self) -> String {
        let mut out = String::new();
        for (server, rows) in &self.servers {
            let met: Vec<String> = rows.iter().map(|row| row.cells()[5].clone()).collect();
            let yes = met.iter().filter(|m| *m == "yes").count();
            let no = met.iter().filter(|m| *m == "NO").count();
            let _ = writeln!(out, "{server}: targets met {yes}, missed {no}");
        }
        out
    }

    pub(crate) fn row(&mut self, row: Row) {
        if let Some((_, rows)) = self.servers.last_mut() {
            rows.push(row);
        }
    }

    /// For the screen.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        for (name, fact) in &self.facts {
            let _ = writeln!(out, "{name}: {fact}");
        }
        for (server, rows) in &self.servers {
            let mut table = Table::new();
            table
                .load_style(presets::UTF8_HORIZONTAL_ONLY)
                .set_header(HEADINGS);
            for row in rows {
                table.add_row(std::iter::once(row.what.clone()).chain(row.cells()));
            }
            for index in 1..5 {
                if let Some(column) = table.column_mut(index) {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
            let _ = writeln!(out, "\n{server}\n{table}");
        }
        let _ = write!(out, "\n{}", self.summary());
        if self.quick {
            out.push_str(QUICK);
        }
        out
    }

    /// For docs/performance.md.
    pub(crate) fn markdown(&self) -> String {
        let mut out = String::from(
            "# Performance\n\n\
             Written by `make bench`. capbench against sysbench on the same server, tables and statements, in \
             pairs taken in turn; every measurement is a process of its own, watched from outside in the same \
             way. A ratio is capbench / sysbench within a pair; the table has the median of the ratios, and \
             beside it the medians of both. The interval lies between order statistics of the ratios and holds the \
             true median with at least 95 % (with fewer than six pairs: from the smallest to the largest).\n\n",
        );
        for (name, fact) in &self.facts {
            let _ = writeln!(out, "- {name}: {fact}");
        }
        for (server, rows) in &self.servers {
            let _ = writeln!(out, "\n## {server}\n\n| {} |", HEADINGS.join(" | "));
            out.push_str("|---|---:|---:|---:|---:|---|---|\n");
            for row in rows {
                let _ = writeln!(out, "| {} | {} |", row.what, row.cells().join(" | "));
            }
        }
        let _ = write!(
            out,
            "\n## In short\n\n{}",
            self.summary().replace('\n', "\n\n").trim_end()
        );
        out.push('\n');
        out.push_str(&self.losses());
        if !self.again.is_empty() {
            let _ = write!(
                out,
                "\n## Pairs measured again\n\nA tool failed in them, so that they count for neither.\n\n{}\n",
                self.again.join("\n")
            );
        }
        if self.quick {
            out.push_str(QUICK);
        }
        out
    }

    fn losses(&self) -> String {
        let mut lost = Vec::new();
        for (server, rows) in &self.servers {
            for row in rows {
                let cells = row.cells();
                if cells[5] == "NO" {
                    lost.push(format!(
                        "- {server}, {}: {} ({})",
                        row.what, cells[2], cells[4]
                    ));
                }
            }
        }
        if lost.is_empty() {
            return "\n## Targets missed\n\nNone in this run.\n".to_owned();
        }
        format!("\n## Targets missed\n\n{}\n", lost.join("\n"))
    }
}
