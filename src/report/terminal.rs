//! The table at the end of a run, plain text.

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

use crate::analysis::Findings;
use crate::record::Run;

use super::markdown::one_line;
use super::view::{self, CellView};

/// A table for each workload and variant, the knee of each below it, then the verdict. No colours.
pub fn terminal_table(run: &Run, findings: &Findings) -> String {
    let view = view::build(run, findings);
    let mut text = String::new();
    for workload in &view.workloads {
        for ladder in &workload.ladders {
            let title = format!("{}, {}", workload.name, ladder.variant);
            text.push_str(&one_line(&title));
            text.push('\n');
            text.push_str(&table(&ladder.rows, view.open_loop, view.repeats > 1));
            text.push('\n');
            text.push_str(&one_line(&ladder.statement));
            text.push('\n');
            for remark in ladder.cut.iter().chain(&ladder.objections) {
                text.push_str("- ");
                text.push_str(&one_line(remark));
                text.push('\n');
            }
            text.push('\n');
        }
    }
    if let Some(refinement) = &view.refinement {
        text.extend(["Refinement: ", &one_line(refinement), "\n\n"]);
    }
    if let Some(soak) = &view.soak {
        let line = format!("Soak: {}. {}", soak.outcome, soak.sentence);
        text.extend([one_line(&line).as_ref(), "\n\n"]);
    }
    for line in &view.not_run {
        text.push_str("- ");
        text.push_str(&one_line(line));
        text.push('\n');
    }
    if !view.not_run.is_empty() {
        text.push('\n');
    }
    let summary = &view.summary;
    text.extend([format!(
        "Verdict: {}. {}\n",
        summary.overall,
        one_line(&summary.sentence)
    )]);
    if let Some(why) = &summary.why {
        text.push_str("Why: ");
        text.push_str(&one_line(why));
        text.push('\n');
    }
    for criterion in &summary.criteria {
        let remark = criterion
            .remark
            .as_ref()
            .map_or_else(String::new, |remark| format!("; {remark}"));
        text.push_str(&one_line(&format!(
            "- {}: {} (required {}, found {}){remark}",
            criterion.name, criterion.outcome, criterion.required, criterion.found_at
        )));
        text.push('\n');
    }
    text
}

/// One line under the header and nothing else: it survives a copy into a mail.
const PLAIN: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

type Column = (&'static str, fn(&CellView) -> &str);

fn table(rows: &[CellView], open_loop: bool, repeats: bool) -> String {
    let mut columns: Vec<Column> = Vec::new();
    let first = if open_loop { "rate, 1/s" } else { "threads" };
    columns.push((first, |r| &r.step));
    if repeats {
        columns.push(("pass", |r| &r.repeat));
    }
    columns.push(("TPS", |r| &r.tps));
    columns.push(("QPS", |r| &r.qps));
    columns.push(("avg, ms", |r| &r.avg));
    columns.push(("p95, ms", |r| &r.p95));
    columns.push(("p99, ms", |r| &r.p99));
    columns.push(("max, ms", |r| &r.max));
    if open_loop {
        columns.push(("service p95, ms", |r| &r.service_p95));
        columns.push(("dropped, %", |r| &r.dropped));
    }
    columns.push(("errors", |r| &r.errors));
    if !open_loop {
        columns.push(("gain, %", |r| &r.gain));
    }
    columns.push(("verdict", |r| &r.verdict));

    let mut table = Table::new();
    table
        .load_style(PLAIN)
        .set_header(columns.iter().map(|(title, _)| *title));
    for row in rows {
        table.add_row(columns.iter().map(|(_, value)| Cell::new(value(row))));
    }
    let last = columns.len() - 1;
    for (i, column) in table.column_iter_mut().enumerate() {
        if i < last {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}
