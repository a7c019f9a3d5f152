//! Blocks 2 to 4: results, bottlenecks and limits of each ladder.

use crate::analysis::knee::{Knee, KneeKind};
use crate::analysis::{
    Bottleneck, Cause, CellSummary, Evidence, Findings, LadderFinding, Latencies, StepSummary,
    Validity,
};
use crate::plan::Step;
use crate::record::{CellKind, CellRecord, CellStatus, Interval, Run, RunEnd, StatementRecord};
use crate::report::figures::{
    MISSING, change, count, counted, duration, figure, ms, or_missing, percent, rate,
};

use super::model::{
    BottleneckView, CellView, CombinedView, EvidenceView, LadderView, LimitView, StatementView,
    StatementsView, WorkloadView,
};

pub(super) fn workloads(run: &Run, findings: &Findings) -> Vec<WorkloadView> {
    let mut workloads: Vec<WorkloadView> = run
        .workloads
        .iter()
        .map(|w| WorkloadView {
            name: w.name.clone(),
            description: w.description.clone(),
            mix: w.mix.clone(),
            ladders: Vec::new(),
        })
        .collect();
    for finding in &findings.ladders {
        if cells_of(run, findings, finding).is_empty() {
            continue;
        }
        let ladder = ladder(run, findings, finding);
        match workloads.iter_mut().find(|w| w.name == finding.workload) {
            Some(workload) => workload.ladders.push(ladder),
            None => workloads.push(WorkloadView {
                name: finding.workload.clone(),
                description: String::new(),
                mix: Vec::new(),
                ladders: vec![ladder],
            }),
        }
    }
    workloads.retain(|w| !w.ladders.is_empty() || !w.mix.is_empty());
    workloads
}

/// The step as a column shows it.
pub(super) fn step(step: Step) -> String {
    match step {
        Step::Threads(threads) => count(threads.into()),
        Step::Rate(rate) => figure(rate.0),
    }
}

fn order(step: Step) -> f64 {
    match step {
        Step::Threads(threads) => f64::from(threads),
        Step::Rate(rate) => rate.0,
    }
}

/// The cells of a ladder that get a row, in order.
fn cells_of<'a>(
    run: &Run,
    findings: &'a Findings,
    finding: &LadderFinding,
) -> Vec<&'a CellSummary> {
    let mut cells: Vec<&CellSummary> = findings
        .cells
        .iter()
        .filter(|c| c.kind.is_step())
        .filter(|c| c.variant == finding.variant && c.workload == finding.workload)
        .filter(|c| !(ended_early(run) && c.status == CellStatus::Skipped))
        .collect();
    cells.sort_by(|a, b| {
        order(a.step)
            .total_cmp(&order(b.step))
            .then(a.repeat.cmp(&b.repeat))
    });
    cells
}

/// Most runs of a step.
pub(super) fn passes(run: &Run) -> u32 {
    let steps = run.cells.iter().filter(|c| c.kind.is_step());
    steps.map(|c| c.repeat).fold(run.repeats, u32::max)
}

/// Whether what was skipped was skipped because the run ended.
fn ended_early(run: &Run) -> bool {
    !matches!(run.end, RunEnd::Completed)
}

/// The cells that an early end of the run left out, one line a reason.
pub(super) fn not_run(run: &Run) -> Vec<String> {
    if !ended_early(run) {
        return Vec::new();
    }
    let skipped = run.cells.iter().filter(|c| c.status == CellStatus::Skipped);
    left_out(skipped.map(|c| c.reason.as_deref()))
}

/// `29 cells were not run: reason`, reasons in the order in which they came up.
fn left_out<'a>(reasons: impl Iterator<Item = Option<&'a str>>) -> Vec<String> {
    let mut tally: Vec<(&str, u64)> = Vec::new();
    for reason in reasons.map(|reason| reason.unwrap_or(MISSING)) {
        match tally.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, n)) => *n += 1,
            None => tally.push((reason, 1)),
        }
    }
    let line = |(reason, n): (&str, u64)| {
        let were = if n == 1 { "was" } else { "were" };
        format!("{} {were} not run: {reason}", counted(n, "cell"))
    };
    tally.into_iter().map(line).collect()
}

fn ladder(run: &Run, findings: &Findings, finding: &LadderFinding) -> LadderView {
    let cells = cells_of(run, findings, finding);
    let record = |cell: &CellSummary| run.cells.iter().find(|r| r.index == cell.index);
    LadderView {
        variant: finding.variant.clone(),
        statement: statement(finding),
        rows: cells.iter().map(|c| row(c)).collect(),
        combined: if passes(run) > 1 {
            finding.steps.iter().map(combined).collect()
        } else {
            Vec::new()
        },
        cut: cut(run, &cells),
        objections: cells
            .iter()
            .filter(|cell| cell.status != CellStatus::Skipped)
            .flat_map(|cell| objections(run, cell, record(cell)))
            .chain(left_out(
                cells
                    .iter()
                    .filter(|cell| cell.status == CellStatus::Skipped)
                    .map(|cell| record(cell).and_then(|r| r.reason.as_deref())),
            ))
            .collect(),
        troubles: cells.iter().flat_map(|cell| troubles(run, cell)).collect(),
        statements: deciding_cell(finding, &cells)
            .and_then(record)
            .and_then(statements),
        notes: finding.notes.clone(),
    }
}

fn statement(finding: &LadderFinding) -> String {
    match (&finding.knee, &finding.open) {
        (Some(knee), _) => knee.statement(),
        (None, Some(open)) => open.sentence.clone(),
        (None, None) => MISSING.to_owned(),
    }
}

fn row(cell: &CellSummary) -> CellView {
    let service = cell.service.unwrap_or_default();
    let Latencies {
        avg,
        p50,
        p95,
        p99,
        p999,
        max,
        ..
    } = cell.latency;
    // A cell that never ran has no counts to show; a 0 would claim that it ran without errors.
    let ran = cell.window.is_some() || cell.done + cell.failed > 0;
    let tally = |n: u64| if ran { count(n) } else { MISSING.to_owned() };
    CellView {
        index: cell.index.to_string(),
        step: step(cell.step),
        clients: count(cell.clients.into()),
        repeat: cell.repeat.to_string(),
        tps: rate(cell.tps),
        qps: rate(cell.qps),
        avg: ms(avg),
        p50: ms(p50),
        p95: ms(p95),
        p99: ms(p99),
        p999: ms(p999),
        max: ms(max),
        service_avg: ms(service.avg),
        service_p95: ms(service.p95),
        service_p99: ms(service.p99),
        dropped: percent(cell.dropped_share),
        held: or_missing(
            cell.held
                .map(|held| if held { "yes" } else { "no" }.to_owned()),
        ),
        errors: tally(cell.errors.iter().map(|e| e.count).sum()),
        failed: tally(cell.failed),
        retries: tally(cell.retries),
        reconnects: tally(cell.reconnects),
        spread: percent(cell.fairness.map(|f| f.spread)),
        cv: percent(cell.cv),
        gain: change(cell.gain),
        window: or_missing(cell.window.map(|w| figure(w.seconds()))),
        verdict: verdict(cell),
    }
}

fn verdict(cell: &CellSummary) -> String {
    let ended = match cell.status {
        CellStatus::Completed => None,
        CellStatus::Truncated => Some("truncated"),
        CellStatus::Failed => Some("FAILED"),
        CellStatus::Stopped => Some("stopped by the guard"),
        CellStatus::Interrupted => Some("interrupted"),
        CellStatus::Skipped => Some("skipped"),
    };
    if cell.status == CellStatus::Skipped {
        return "skipped".to_owned();
    }
    let mut rules: Vec<&str> = cell
        .reasons
        .iter()
        .filter(|r| r.severity > Validity::Valid)
        .map(|r| r.rule.as_str())
        .collect();
    rules.dedup();
    let judged = if rules.is_empty() {
        cell.validity.as_str().to_owned()
    } else {
        format!("{} ({})", cell.validity.as_str(), rules.join(", "))
    };
    let judged = match ended {
        Some(ended) => format!("{ended}, {judged}"),
        None => judged,
    };
    if cell.kind == CellKind::Refined {
        format!("{judged}, refined")
    } else {
        judged
    }
}

/// A cell's name in a remark.
fn who(run: &Run, cell: &CellSummary) -> String {
    if passes(run) > 1 {
        format!("{}, pass {}", cell.step, cell.repeat)
    } else {
        cell.step.to_string()
    }
}

/// The intervals that the steady-state cut dropped.
fn cut(run: &Run, cells: &[&CellSummary]) -> Option<String> {
    let cuts: Vec<String> = cells
        .iter()
        .filter_map(|cell| {
            let window = cell.window.filter(|w| w.dropped > 0)?;
            let all = window.dropped + window.intervals;
            Some(format!("{} of {all} at {}", window.dropped, who(run, cell)))
        })
        .collect();
    (!cuts.is_empty()).then(|| {
        format!(
            "Intervals that the steady-state cut dropped: {}.",
            cuts.join("; ")
        )
    })
}

/// Why a cell is not simply valid.
fn objections(run: &Run, cell: &CellSummary, record: Option<&CellRecord>) -> Vec<String> {
    let who = who(run, cell);
    let own = record.and_then(|r| r.reason.as_deref());
    let mut lines = Vec::new();
    // V1 repeats the reason that the cell itself gave.
    if let Some(own) = own.filter(|own| !cell.reasons.iter().any(|r| r.text.contains(own))) {
        lines.push(format!("{who}: {own}"));
    }
    for reason in &cell.reasons {
        lines.push(format!(
            "{who}: {}, {}: {}",
            reason.severity.as_str(),
            reason.rule.as_str(),
            reason.text
        ));
    }
    let differences = record.map(|r| r.differences.as_slice()).unwrap_or_default();
    for difference in differences {
        if !cell.reasons.iter().any(|r| r.text.contains(difference)) {
            lines.push(format!("{who}: {difference}"));
        }
    }
    lines
}

/// A cell's errors and outages, those included that retries cured.
fn troubles(run: &Run, cell: &CellSummary) -> Vec<String> {
    let who = who(run, cell);
    let mut lines = Vec::new();
    if !cell.errors.is_empty() {
        let errors: Vec<String> = cell
            .errors
            .iter()
            .map(|e| {
                let what = if e.code == 0 {
                    "connection lost".to_owned()
                } else {
                    format!("error {}", e.code)
                };
                format!("{what} at {}: {}", e.statement, count(e.count))
            })
            .collect();
        lines.push(format!(
            "{who}: {}; {} transactions given up, {} retries",
            errors.join(", "),
            count(cell.failed),
            count(cell.retries)
        ));
    }
    if cell.outage_seconds > 0.0 {
        let recovery = cell.recovery_seconds.map_or_else(
            || "it did not come back".to_owned(),
            |s| format!("longest time to recover {} s", figure(s)),
        );
        lines.push(format!(
            "{who}: {} s with a client missing, {} reconnects, {recovery}",
            figure(cell.outage_seconds),
            count(cell.reconnects)
        ));
    }
    lines
}

/// The cell whose statement latencies are shown: the one at the limit, else the last that is valid.
fn deciding_cell<'a>(
    finding: &LadderFinding,
    cells: &[&'a CellSummary],
) -> Option<&'a CellSummary> {
    let usable = |c: &&&CellSummary| c.validity != Validity::Invalid;
    let wanted = finding
        .limit
        .step
        .or(finding.limit.threads)
        .or_else(|| finding.knee.as_ref().and_then(|k| k.threads));
    cells
        .iter()
        .filter(usable)
        .find(|c| wanted == Some(c.clients))
        .or_else(|| cells.iter().rev().find(usable))
        .copied()
}

fn statements(record: &CellRecord) -> Option<StatementsView> {
    let row = |s: &StatementRecord| StatementView {
        class: s.class.clone(),
        count: count(s.count),
        avg: ms(s.avg),
        p95: ms(s.p95),
        p99: ms(s.p99),
        max: ms(s.max),
    };
    (!record.statements.is_empty()).then(|| StatementsView {
        step: record.step.to_string(),
        seconds: duration(record.measured().map(Interval::seconds).sum()),
        rows: record.statements.iter().map(row).collect(),
    })
}

fn combined(s: &StepSummary) -> CombinedView {
    let valid = s.cells.len();
    let runs = match s.invalid {
        0 => valid.to_string(),
        invalid => format!("{valid} ({invalid} invalid)"),
    };
    CombinedView {
        step: step(s.step),
        runs,
        tps: rate(s.tps),
        run_sd: percent(s.run_sd),
        avg: ms(s.avg),
        p95: ms(s.p95),
        p99: ms(s.p99),
        gain: change(s.gain),
    }
}

pub(super) fn bottlenecks(findings: &Findings) -> Vec<BottleneckView> {
    let mut views = Vec::new();
    for ladder in &findings.ladders {
        let place = match &ladder.knee {
            Some(knee) if knee.kind == KneeKind::NotReached => {
                "at the highest step (knee not reached)"
            }
            Some(knee) if knee.kind == KneeKind::Insufficient => "at the step looked at (no knee)",
            Some(_) => "at the knee",
            None => "at the highest rate held",
        };
        if let Some(bottleneck) = &ladder.bottleneck {
            let place = if bottleneck.after_knee {
                "at the step after the knee"
            } else {
                place
            };
            views.push(view_of(ladder, place, bottleneck));
        }
        if let Some(bottleneck) = &ladder.beyond {
            views.push(view_of(ladder, "at the worst step beyond", bottleneck));
        }
    }
    views
}

fn view_of(ladder: &LadderFinding, place: &str, b: &Bottleneck) -> BottleneckView {
    let decisive = |e: &Evidence| e.met == Some(true) || e.cause == b.primary;
    let contributing: Vec<&str> = b.contributing.iter().map(|c| c.as_str()).collect();
    BottleneckView {
        workload: ladder.workload.clone(),
        variant: ladder.variant.clone(),
        place: place.to_owned(),
        threads: count(b.threads.into()),
        clients: counted(b.threads.into(), "client"),
        primary: b.primary.as_str().to_owned(),
        contributing: if contributing.is_empty() {
            "none".to_owned()
        } else {
            contributing.join(", ")
        },
        sentence: sentence(&proof(b)),
        others: b.evidence.iter().filter(|e| !decisive(e)).count(),
        decisive: b
            .evidence
            .iter()
            .filter(|e| decisive(e))
            .map(evidence)
            .collect(),
        evidence: b.evidence.iter().map(evidence).collect(),
        missing: b.missing.clone(),
        advice: b.advice.clone(),
    }
}

fn evidence(e: &Evidence) -> EvidenceView {
    EvidenceView {
        cause: e.cause.as_str().to_owned(),
        signal: e.signal.clone(),
        value: e.value.clone(),
        threshold: e.threshold.clone(),
        met: match e.met {
            Some(true) => "yes",
            Some(false) => "no",
            None => "–",
        }
        .to_owned(),
        source: e.source.clone(),
    }
}

/// The signals that prove the primary cause, or how many are missing: what belongs beside its name.
pub(super) fn proof(b: &Bottleneck) -> String {
    if b.primary == Cause::Unknown {
        let n = b.missing.len();
        return format!(
            "{n} signals that could tell are not available, see the bottleneck analysis"
        );
    }
    let proofs: Vec<String> = b
        .evidence
        .iter()
        .filter(|e| e.met == Some(true) && e.cause == b.primary)
        .map(|e| format!("{} {} (threshold {})", e.signal, e.value, e.threshold))
        .collect();
    if proofs.is_empty() {
        b.sentence.clone()
    } else {
        proofs.join("; ")
    }
}

pub(super) fn limits(findings: &Findings) -> Vec<LimitView> {
    findings.ladders.iter().map(limit).collect()
}

fn limit(ladder: &LadderFinding) -> LimitView {
    let limit = &ladder.limit;
    let knee = ladder.knee.as_ref();
    let mut why = limit.why.clone();
    if !limit.refine.is_empty() {
        let steps: Vec<String> = limit.refine.iter().map(u32::to_string).collect();
        why = format!(
            "{} Steps that would narrow it: {}.",
            sentence(&why),
            steps.join(", ")
        );
    }
    LimitView {
        workload: ladder.workload.clone(),
        variant: ladder.variant.clone(),
        knee: or_missing(knee.map(knee_words)),
        confidence: or_missing(
            knee.filter(|k| k.kind != KneeKind::Insufficient)
                .map(confidence),
        ),
        range: or_missing(
            knee.filter(|k| k.kind != KneeKind::Insufficient)
                .map(Knee::range_words),
        ),
        held: rate(ladder.open.as_ref().and_then(|o| o.highest_held)),
        not_held: rate(ladder.open.as_ref().and_then(|o| o.first_not_held)),
        limit: limit
            .threads
            .map_or_else(|| "none".to_owned(), |t| count(t.into())),
        throughput: rate(limit.throughput),
        planning: rate(limit.planning),
        headroom: change(limit.headroom),
        why: sentence(&why),
        unreliable: ladder.unreliable.clone(),
    }
}

/// `high (93 %)`, `medium (100 %, lowered)`: the share of resamples that choose the knee, and whether
/// suspect steps lowered what it says.
pub(super) fn confidence(knee: &Knee) -> String {
    let lowered = knee.lowered.as_ref().map_or("", |_| ", lowered");
    format!(
        "{} ({} %{lowered})",
        knee.confidence.as_str(),
        percent(Some(knee.frequency))
    )
}

/// `32 (plateau)`, `≥ 128 (not reached)`, `insufficient`.
pub(super) fn knee_words(knee: &Knee) -> String {
    match (knee.kind, knee.threads) {
        (KneeKind::Insufficient, _) | (_, None) => "insufficient".to_owned(),
        (KneeKind::NotReached, Some(threads)) => {
            format!("≥ {} (not reached)", count(threads.into()))
        }
        (kind, Some(threads)) => format!("{} ({})", count(threads.into()), kind.words()),
    }
}

/// A fragment as a sentence: ended by one full stop.
pub(in crate::report) fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with(['.', '!', '?']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}
