//! What the person who signs reads.

use std::collections::BTreeMap;

use capbench::analysis::{Decision, Findings, Overall};
use capbench::record::*;
use capbench::report::{render_markdown, terminal_table, view, write};

use crate::{findings, support};

fn markdown(run: &Run, findings: &Findings) -> String {
    render_markdown(&view::build(run, findings), run, findings, None).unwrap()
}

fn report(run: &Run) -> String {
    markdown(run, &findings::findings(run))
}

/// The part of a report that differs from run to run, without the environment.
fn without_environment(report: &str) -> String {
    let (head, rest) = report.split_once("## 1. Environment").unwrap();
    let (_, results) = rest.split_once("## 2. Results").unwrap();
    let (results, _) = results.split_once("## How each figure").unwrap();
    format!("{head}## 2. Results{results}")
}

#[test]
fn a_knee_with_high_confidence() {
    insta::assert_snapshot!(report(&support::knee()));
}

#[test]
fn the_step_after_the_knee_is_not_headed_as_the_knee() {
    let run = support::knee();
    let mut findings = findings::findings(&run);
    let found = findings.ladders[0].bottleneck.as_mut().unwrap();
    found.after_knee = true;
    let primary = found.primary;
    let shown = found.evidence.iter_mut().find(|e| e.cause == primary);
    let shown = shown.unwrap();
    shown.met = None;
    let source = shown.source.clone();
    let threads = found.threads;
    let report = markdown(&run, &findings);
    assert!(report.contains(&format!(": at the step after the knee, {threads} clients")));
    assert!(!report.contains(&format!(": at the knee, {threads} clients")));
    let rows: Vec<&str> = report
        .lines()
        .filter(|line| line.contains(&source))
        .collect();
    assert!(rows.iter().any(|row| row.contains("| –")), "{rows:?}");
}

#[test]
fn a_ladder_that_still_rises() {
    let mut run = support::knee();
    run.cells.truncate(3);
    insta::assert_snapshot!(without_environment(&report(&run)));
}

#[test]
fn failed_and_skipped_cells_are_rows_with_their_reason() {
    let mut run = support::knee();
    let failed = &mut run.cells[3];
    failed.status = CellStatus::Failed;
    failed.reason = Some("error 1461 at point_select: Can't create more than max_prepared_stmt_count statements (current value: 16382)".into());
    failed.intervals.truncate(4);
    let skipped = &mut run.cells[4];
    skipped.status = CellStatus::Skipped;
    skipped.reason = Some("an earlier step of this ladder failed".into());
    skipped.intervals.clear();
    skipped.statements.clear();
    let report = report(&run);
    insta::assert_snapshot!(without_environment(&report));
    let row = report
        .lines()
        .find(|l| l.starts_with("|     128 |"))
        .unwrap();
    assert!(row.contains("skipped") && !row.contains(" 0 |"), "{row}");
}

#[test]
fn an_interrupted_run_says_so_first() {
    let mut run = support::knee();
    run.cells.truncate(2);
    run.end = RunEnd::Interrupted;
    run.cells[1].status = CellStatus::Interrupted;
    run.cells[1].intervals.truncate(5);
    let mut findings = findings::findings(&run);
    findings.headline.overall = Overall::Interrupted;
    insta::assert_snapshot!(without_environment(&markdown(&run, &findings)));
}

/// Cells that an interrupt left out are a line, not a row and a remark each, here and on the screen.
#[test]
fn cells_left_out_by_an_interrupt_are_one_line() {
    let mut run = support::knee();
    run.end = RunEnd::Interrupted;
    for cell in &mut run.cells[3..] {
        cell.status = CellStatus::Skipped;
        cell.reason = Some("the run was interrupted".into());
        cell.intervals.clear();
    }
    let mut findings = findings::findings(&run);
    findings.headline.why = Some("the user ended the run".into());
    let line = "- 2 cells were not run: the run was interrupted";
    let table = terminal_table(&run, &findings);
    for text in [markdown(&run, &findings), table.clone()] {
        assert_eq!(text.matches(line).count(), 1, "{text}");
        assert_eq!(text.matches("not run").count(), 1, "{text}");
        assert!(!text.contains("skipped"), "{text}");
    }
    assert!(table.contains("Why: the user ended the run.\n"), "{table}");
}

#[test]
fn words_of_the_tool_keep_their_code() {
    let mut run = support::knee();
    run.warnings[0].text = "set `guard.window` to 1|2".into();
    let report = report(&run);
    assert!(report.contains("set `guard.window` to 1\\|2."), "{report}");
    let dir = tempfile::tempdir().unwrap();
    let written = write(&run, &findings::findings(&run), dir.path(), None).unwrap();
    let html = std::fs::read_to_string(written.html).unwrap();
    assert!(html.contains("set <code>guard.window</code> to 1|2."));
}

#[test]
fn lowered_confidence_says_so_wherever_it_stands() {
    let run = support::knee();
    let mut findings = findings::findings(&run);
    let knee = findings.ladders[0].knee.as_mut().unwrap();
    knee.lowered = Some("64 threads is suspect".into());
    let report = markdown(&run, &findings);
    assert!(
        report.contains("confidence medium (75 %, lowered)"),
        "{report}"
    );
    assert!(report.contains("| medium (75 %, lowered) |"), "{report}");
}

/// What a figure does not rest on is told: beside the table, and in the chart over time.
#[test]
fn intervals_that_were_cut_are_told_and_a_limit_beside_the_knee_is_marked() {
    let run = support::knee();
    let mut findings = findings::findings(&run);
    let window = findings.cells[1].window.as_mut().unwrap();
    window.dropped = 2;
    window.intervals -= 2;
    findings.ladders[0].limit.threads = Some(24);
    let cut = "Intervals that the steady-state cut dropped: 2 of 12 at 16 threads.";
    assert!(markdown(&run, &findings).contains(cut));
    let dir = tempfile::tempdir().unwrap();
    let written = write(&run, &findings, dir.path(), None).unwrap();
    let html = std::fs::read_to_string(written.html).unwrap();
    assert!(html.contains(cut));
    assert_eq!(html.matches("┄ dropped by the").count(), 1);
    assert_eq!(
        html.matches("┆ recommended limit").count(),
        2 + 2,
        "both charts over threads"
    );
    assert!(html.contains("<figcaption>oltp_read_write: Throughput"));
}

#[test]
fn a_run_that_never_reached_the_server() {
    let mut run = support::run();
    run.end = RunEnd::Failed("cannot connect to 10.0.0.5:3306: connection refused".into());
    run.server = None;
    run.dataset = None;
    run.ended_at = None;
    run.settings.clear();
    run.workloads.clear();
    let mut findings = findings::findings(&run);
    findings.headline.overall = Overall::RunFailed;
    insta::assert_snapshot!(markdown(&run, &findings));
}

#[test]
fn variants_stand_against_the_baseline() {
    let mut run = support::knee();
    let setting = AppliedSetting {
        name: "innodb_buffer_pool_size".into(),
        before: Some("134217728".into()),
        asked: "209715200".into(),
        took: Some("268435456".into()),
    };
    run.variants.push(VariantRecord {
        name: "buffer pool 200M".into(),
        settings: vec![setting],
        restarted: true,
        differs: BTreeMap::from([(
            "innodb_buffer_pool_size".into(),
            ("134217728".into(), "268435456".into()),
        )]),
        several: false,
    });
    for (index, (threads, tps)) in (6..).zip([
        (8, 560.0),
        (16, 1010.0),
        (32, 1645.0),
        (64, 1900.0),
        (128, 1890.0),
    ]) {
        run.cells.push(support::cell(
            index,
            "buffer pool 200M",
            "oltp_read_write",
            threads,
            tps,
        ));
    }
    let mut findings = findings::findings(&run);
    findings.comparisons.push(findings::comparison(
        "buffer pool 200M",
        Decision::NeedsSignOff,
    ));
    insta::assert_snapshot!(without_environment(&markdown(&run, &findings)));
}

#[test]
fn open_loop_shows_response_and_service_time() {
    insta::assert_snapshot!(without_environment(&report(&support::open_loop())));
}

#[test]
fn repeats_are_shown_and_combined() {
    let mut run = support::knee();
    run.repeats = 2;
    for mut cell in run.cells.clone() {
        cell.repeat = 2;
        cell.index += 5;
        run.cells.push(cell);
    }
    let report = report(&run);
    assert!(report.contains("| pass |"), "{report}");
    assert!(report.contains("Valid passes of each step combined"));
}

#[test]
fn the_table_at_the_end_of_a_run_is_plain_text() {
    let run = support::knee();
    let table = terminal_table(&run, &findings::findings(&run));
    assert!(!table.contains('\u{1b}'));
    insta::assert_snapshot!(table);
}

/// Text that would break out of Markdown, HTML, a table or a spreadsheet if anything let it.
const HOSTILE: &str = "=cmd|'/c calc'!A0 | <script>alert(1)</script> \n# heading\n**bold** `code` {{ run }} {% raw %} \u{202e}evil\u{1b}[31m";

fn hostile() -> Run {
    let mut run = support::knee();
    run.name = HOSTILE.into();
    run.command = HOSTILE.into();
    run.environment.push((HOSTILE.into(), HOSTILE.into()));
    run.variants[0].name = HOSTILE.into();
    run.workloads[0].name = HOSTILE.into();
    run.workloads[0].description = HOSTILE.into();
    run.workloads[0].mix.push(HOSTILE.into());
    run.warnings[0].text = HOSTILE.into();
    run.warnings[0].name = HOSTILE.into();
    run.unavailable.push(HOSTILE.into());
    let server = run.server.as_mut().unwrap();
    server.comment = HOSTILE.into();
    server
        .variables
        .insert("innodb_flush_method".into(), HOSTILE.into());
    for cell in &mut run.cells {
        cell.variant = HOSTILE.into();
        cell.workload = HOSTILE.into();
        cell.reason = Some(HOSTILE.into());
        cell.differences.push(HOSTILE.into());
        cell.statements[0].class = HOSTILE.into();
    }
    run
}

#[test]
fn hostile_text_stays_text() {
    let run = hostile();
    let findings = findings::findings(&run);
    let dir = tempfile::tempdir().unwrap();
    let written = write(&run, &findings, dir.path(), None).unwrap();

    let markdown = std::fs::read_to_string(written.markdown).unwrap();
    let outside_code: String = markdown
        .lines()
        .filter(|l| !l.starts_with("- `"))
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        !outside_code.replace("\\<", "").contains("<script"),
        "{outside_code}"
    );
    assert!(!markdown.contains("\n# heading"));
    assert!(!markdown.contains(['\u{202e}', '\u{1b}']));
    // Every line of a table has the number of columns of its header.
    let columns = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut width = None;
    for line in markdown.lines() {
        if line.starts_with('|') {
            assert_eq!(
                *width.get_or_insert_with(|| columns(line)),
                columns(line),
                "{line}"
            );
        } else {
            width = None;
        }
    }

    let html = std::fs::read_to_string(written.html).unwrap();
    assert!(!html.contains("<script"), "a script got into the page");
    assert!(!html.contains(['\u{202e}', '\u{1b}']));

    let csv = std::fs::read(written.cells).unwrap();
    let mut reader = csv::Reader::from_reader(csv.as_slice());
    for record in reader.records() {
        for field in &record.unwrap() {
            assert!(
                !field.starts_with(['=', '+', '@']),
                "a spreadsheet would run {field:?}"
            );
            assert!(!field.starts_with('-') || field.parse::<f64>().is_ok());
        }
    }
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let run = support::knee();
    let dir = tempfile::tempdir().unwrap();
    let written = write(&run, &findings::findings(&run), dir.path(), None).unwrap();
    let html = std::fs::read_to_string(written.html).unwrap();
    let without_namespace = html.replace("http://www.w3.org/2000/svg", "");
    for outside in [
        "http:", "https:", "src=", "@import", "url(", "<link", "<script",
    ] {
        assert!(
            !without_namespace.contains(outside),
            "the page refers to {outside}"
        );
    }
    assert_eq!(
        html.matches("<svg").count(),
        2 + 3,
        "the deciding ladder stands at the top as well"
    );
    assert_eq!(
        html.matches("r=\"8\"").count(),
        2 + 2,
        "the knee is marked in both charts over threads"
    );
    for id in [
        "Throughput, transactions",
        "95th percentile, ms",
        "Throughput over time",
    ] {
        assert!(html.contains(id));
    }
}

#[test]
fn cells_are_machine_readable() {
    let mut run = support::knee();
    run.cells[4].status = CellStatus::Skipped;
    run.cells[4].intervals.clear();
    let dir = tempfile::tempdir().unwrap();
    let written = write(&run, &findings::findings(&run), dir.path(), None).unwrap();
    insta::assert_snapshot!(std::fs::read_to_string(written.cells).unwrap());
}

#[test]
fn a_template_of_ones_own_is_used_and_its_faults_are_named() {
    let run = support::knee();
    let findings = findings::findings(&run);
    let dir = tempfile::tempdir().unwrap();
    let template = dir.path().join("mine.md");
    let rendered = |text: &str| {
        std::fs::write(&template, text).unwrap();
        render_markdown(
            &view::build(&run, &findings),
            &run,
            &findings,
            Some(&template),
        )
    };
    let text =
        rendered("{{ summary.name }}: {{ findings.headline.limit }} of {{ run.seed }}\n").unwrap();
    assert_eq!(text, "orders-db, new instance before cut-over: 32 of 42\n");

    let undefined = rendered("x\n{{ summary.nam }}\n").unwrap_err().to_string();
    assert!(
        undefined.contains("mine.md`, line 2: undefined"),
        "{undefined}"
    );
    let syntax = rendered("x\ny\n{% for %}\n").unwrap_err().to_string();
    assert!(syntax.contains("line 3: syntax error"), "{syntax}");
    let column = rendered("{{ table(limits, [[\"no\", \"No\"]]) }}")
        .unwrap_err()
        .to_string();
    assert!(column.contains("no column `no`"), "{column}");
    let missing = render_markdown(
        &view::build(&run, &findings),
        &run,
        &findings,
        Some(&dir.path().join("none.md")),
    );
    assert!(missing.unwrap_err().to_string().contains("none.md"));
}

/// A fault in the template costs the report.md, not the figures.
#[test]
fn a_bad_template_still_leaves_the_other_files() {
    let run = support::knee();
    let dir = tempfile::tempdir().unwrap();
    let template = dir.path().join("bad.md");
    std::fs::write(&template, "{{ nothing }}").unwrap();
    write(&run, &findings::findings(&run), dir.path(), Some(&template)).unwrap_err();
    assert!(dir.path().join("cells.csv").exists());
    assert!(dir.path().join("report.html").exists());
}
