//! From a run to its findings.

use rayon::prelude::*;

use super::bottleneck::{self, ALL_IN_POOL, Reference};
use super::findings::{
    Bottleneck, Cause, CellSummary, Comparison, Findings, LadderFinding, Limit, OpenFinding,
    ReferenceFinding, StepSummary, Validity,
};
use super::knee::{Knee, KneeKind};
use super::ladder::{self, Measured, StepCells};
use super::signals::Signals;
use super::stats::mean_of;
use super::{
    between, cell, compare, criteria, evidence, headline, instance, limit, refinement, soak,
};
use crate::plan::Step;
use crate::record::{DatasetFacts, Run, VariantRecord};
use crate::units::{Multiple, PerSecond};

/// Draws every conclusion that a run's records support.
pub fn analyse(run: &Run) -> Findings {
    let (mut cells, signals): (Vec<CellSummary>, Vec<Signals>) = run
        .cells
        .par_iter()
        .map(|record| cell::summarise(run, record))
        .unzip();
    let soak = soak::judge(run, &cells);
    let (mut ladders, comparisons, references) = {
        let all: Vec<Measured<'_>> = cells
            .iter()
            .zip(&signals)
            .map(|(summary, signals)| Measured { summary, signals })
            .collect();
        let ladders = ladders(run, &all);
        let comparisons = comparisons(run, &all, &ladders);
        let references = references(run, &all, &ladders);
        (ladders, comparisons, references)
    };
    if let Some(soak) = &soak {
        lower_limits(&mut ladders, soak, run);
    }
    let refinement = refinement::summary(run, &ladders);
    fill_in_gains(&mut cells, &ladders);
    let held = instance::at_the_limit(&ladders, &run.criteria);
    let criteria = criteria::judge(run, &ladders, &held, &cells, soak.as_ref());
    let headline = headline::headline(run, &ladders, &held, &criteria, &cells);
    let notes = notes(run, &cells, &ladders);
    let evidence = evidence::gather(run, &signals);
    Findings {
        cells,
        ladders,
        comparisons,
        references,
        refinement,
        soak,
        criteria,
        headline,
        evidence,
        notes,
    }
}

/// Variant names in order: those of the manifest, then any that only cells name.
fn variant_names(run: &Run) -> Vec<&str> {
    let declared = run.variants.iter().map(|v| v.name.as_str());
    unique(declared.chain(run.cells.iter().map(|c| c.variant.as_str())))
}

pub(super) fn workload_names(run: &Run) -> Vec<&str> {
    let declared = run.workloads.iter().map(|w| w.name.as_str());
    unique(declared.chain(run.cells.iter().map(|c| c.workload.as_str())))
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// The steps of a ladder: what it was planned with and what refined it, not the soak or a reference cell.
pub(super) fn steps_of<'a>(
    all: &[Measured<'a>],
    variant: &str,
    workload: &str,
) -> Vec<StepCells<'a>> {
    ladder::by_step(all.iter().copied().filter(|m| {
        m.summary.kind.is_step() && m.summary.variant == variant && m.summary.workload == workload
    }))
}

/// The step at which a ladder's variants are judged.
pub(super) fn deciding_step(ladder: &LadderFinding) -> Option<Step> {
    let knee = ladder.knee.as_ref().and_then(|k| k.threads);
    let held = ladder.open.as_ref().and_then(|o| o.highest_held);
    knee.map(Step::Threads).or(held.map(Step::Rate))
}

/// A load that did not hold lowers the limit of its ladder.
fn lower_limits(ladders: &mut [LadderFinding], soak: &super::SoakFinding, run: &Run) {
    for ladder in ladders {
        if ladder.baseline && Some(&ladder.workload) == soak.workload.as_ref() {
            limit::lower_by_soak(&mut ladder.limit, ladder.knee.as_ref(), soak, &run.criteria);
        }
    }
}

fn ladders(run: &Run, all: &[Measured<'_>]) -> Vec<LadderFinding> {
    let variants = variant_names(run);
    let mut found = Vec::new();
    for (i, variant) in variants.iter().enumerate() {
        for workload in workload_names(run) {
            let steps = steps_of(all, variant, workload);
            if !steps.is_empty() {
                found.push(one_ladder(run, variant, i == 0, workload, &steps));
            }
        }
    }
    found
}

fn one_ladder(
    run: &Run,
    variant: &str,
    baseline: bool,
    workload: &str,
    steps: &[StepCells<'_>],
) -> LadderFinding {
    let combined = ladder::combine(steps);
    let knee = ladder::knee(steps, &combined, run.knee_gain);
    let open = knee.is_none().then(|| open_finding(steps));
    let limit = knee
        .as_ref()
        .map_or_else(no_limit, |k| limit::recommend(k, &run.criteria));
    let (bottleneck, beyond) = knee
        .as_ref()
        .map_or((None, None), |knee| diagnose(run, knee, steps, &combined));
    let unreliable = knee
        .as_ref()
        .and_then(|knee| ladder::unreliable(knee, steps, &combined));
    LadderFinding {
        variant: variant.to_owned(),
        workload: workload.to_owned(),
        baseline,
        notes: ladder_notes(knee.as_ref(), steps, &combined)
            .into_iter()
            .chain(evidence::ladder_notes(run, variant, workload))
            .collect(),
        steps: combined,
        knee,
        open,
        limit,
        bottleneck,
        beyond,
        unreliable,
    }
}

fn no_limit() -> Limit {
    Limit {
        threads: None,
        basis: None,
        why: "an open-loop ladder limits the rate, not the clients".to_owned(),
        p95_never_met: false,
        step: None,
        throughput: None,
        planning: None,
        headroom: None,
        refine: Vec::new(),
    }
}

/// The highest rate that was held, with all lower ones.
fn open_finding(steps: &[StepCells<'_>]) -> OpenFinding {
    let mut highest_held = None;
    let mut first_not_held = None;
    for step in steps {
        let Step::Rate(rate) = step.step else {
            continue;
        };
        let mut usable = step.usable().peekable();
        let held = usable.peek().is_some() && usable.all(|m| m.summary.held == Some(true));
        if held && first_not_held.is_none() {
            highest_held = Some(rate);
        } else if !held && first_not_held.is_none() {
            first_not_held = Some(rate);
        }
    }
    let sentence = match (highest_held, first_not_held) {
        (Some(held), None) => format!("All rates were held, up to {held}."),
        (Some(held), Some(not)) => format!("{held} was held, {not} was not."),
        (None, Some(not)) => format!("No rate was held: {not} already was not."),
        (None, None) => "No rate was measured.".to_owned(),
    };
    OpenFinding {
        highest_held,
        first_not_held,
        sentence,
    }
}

/// Why it stops at the knee (or, when nothing is full there, at the step after), and why it falls at the worst step beyond.
fn diagnose(
    run: &Run,
    knee: &Knee,
    steps: &[StepCells<'_>],
    combined: &[StepSummary],
) -> (Option<Bottleneck>, Option<Bottleneck>) {
    let merged: Vec<Signals> = steps.iter().map(merge_signals).collect();
    let smallest = |values: &mut dyn Iterator<Item = Option<f64>>| {
        values.flatten().filter(|v| *v > 0.0).reduce(f64::min)
    };
    let usable: Vec<usize> = (0..steps.len())
        .filter(|&i| combined[i].tps.is_some())
        .collect();
    let Some(k) = knee
        .threads
        .and_then(|n| usable.iter().copied().find(|&i| combined[i].threads == n))
    else {
        return (None, None);
    };
    let reference = Reference {
        peak_tps: knee.points.iter().map(|p| p.tps.0).reduce(f64::max),
        switches: smallest(&mut usable.iter().map(|&i| merged[i].switches_per_transaction)),
        server_switches: smallest(
            &mut usable
                .iter()
                .map(|&i| merged[i].server_switches_per_transaction),
        ),
        read_ms: smallest(
            &mut usable
                .iter()
                .map(|&i| merged[i].disk.as_ref().and_then(|d| d.read_ms)),
        ),
        unfair: smallest(&mut usable.iter().map(|&i| {
            mean_of(
                steps[i]
                    .usable()
                    .map(|m| m.summary.fairness.map(|f| f.spread.0)),
            )
        })),
        saturated: !matches!(knee.kind, KneeKind::NotReached | KneeKind::Insufficient),
        knee_p95: combined[k].p95,
    };
    let look = |i: usize, after_knee: bool| {
        let cells: Vec<&CellSummary> = steps[i].usable().map(|m| m.summary).collect();
        bottleneck::diagnose(&bottleneck::Step {
            run,
            threads: combined[i].threads,
            after_knee,
            tps: combined[i].tps.map(|t| t.0),
            p95: combined[i].p95,
            cells: &cells,
            signals: &merged[i],
            reference,
        })
    };
    let beyond = usable
        .iter()
        .copied()
        .filter(|&i| combined[i].threads > combined[k].threads)
        .min_by(|&a, &b| {
            let tps = |i: usize| combined[i].tps.map_or(f64::INFINITY, |t| t.0);
            tps(a).total_cmp(&tps(b))
        });
    let mut at = look(k, false);
    // The knee is where the next step no longer pays: what is not yet full at the knee is there.
    let nothing = |cause| matches!(cause, Cause::NotSaturated | Cause::Unseen);
    if nothing(at.primary)
        && let Some(next) = usable.iter().copied().find(|&i| i > k)
    {
        let after = look(next, true);
        if !nothing(after.primary) {
            at = after;
        }
    }
    // The same step is not told twice.
    let beyond = beyond.filter(|&i| combined[i].threads != at.threads);
    (Some(at), beyond.map(|i| look(i, false)))
}

/// Repeats of a step: the mean of each signal would mix unlike moments of the same server; the run with
/// the median throughput stands for the step.
fn merge_signals(step: &StepCells<'_>) -> Signals {
    let mut runs: Vec<Measured<'_>> = step.usable().collect();
    runs.sort_by(|a, b| {
        let tps = |m: &Measured<'_>| m.summary.tps.map_or(0.0, |t| t.0);
        tps(a).total_cmp(&tps(b))
    });
    runs.get(runs.len() / 2)
        .map_or_else(Signals::default, |m| m.signals.clone())
}

fn ladder_notes(
    knee: Option<&Knee>,
    steps: &[StepCells<'_>],
    combined: &[StepSummary],
) -> Vec<String> {
    let mut notes = Vec::new();
    let hits = mean_of(
        steps
            .iter()
            .flat_map(StepCells::usable)
            .map(|m| m.signals.buffer_pool_hits),
    );
    if let Some(hits) = hits.filter(|h| *h >= ALL_IN_POOL) {
        notes.push(format!(
            "buffer pool hit rate {:.2} %: the data fits the buffer pool, so this measures memory, not the database at size",
            hits * 100.0
        ));
    }
    let rows: Vec<(String, f64)> = steps
        .iter()
        .flat_map(|step| step.usable().map(move |m| (step.step, m)))
        .filter_map(|(step, m)| Some((step.to_string(), m.signals.rows_per_statement?)))
        .collect();
    notes.extend(evidence::rows_jump(&rows));
    for step in steps {
        if let Some(swing) = step.usable().find_map(|m| m.signals.swing.as_ref()) {
            let moves: Vec<String> = swing
                .moves
                .iter()
                .map(|m| format!("{} ({:+.2})", m.counter, m.correlation))
                .collect();
            let moves = if moves.is_empty() {
                String::new()
            } else {
                format!("; with it move {} (correlation)", moves.join(", "))
            };
            notes.push(format!(
                "{}: throughput swings by {:.0} % with a period of about {:.0} s, the mark of flushing and checkpoints{moves}",
                step.step,
                swing.depth * 100.0,
                swing.period
            ));
        }
    }
    for step in combined {
        if step.invalid > 0 && !step.cells.is_empty() {
            notes.push(format!(
                "{}: {} of {} runs invalid and left out",
                step.step,
                step.invalid,
                step.cells.len() + step.invalid as usize
            ));
        }
    }
    if let Some(knee) = knee {
        notes.extend(knee.notes.iter().cloned());
        if knee.kind == KneeKind::NotReached {
            notes.push("the ladder ends before the knee: extend it".to_owned());
        }
    }
    notes
}

/// Every cell gets the gain of its step.
fn fill_in_gains(cells: &mut [CellSummary], ladders: &[LadderFinding]) {
    for cell in cells {
        if cell.validity == Validity::Invalid {
            continue;
        }
        cell.gain = ladders
            .iter()
            .find(|l| l.variant == cell.variant && l.workload == cell.workload)
            .and_then(|l| l.steps.iter().find(|s| s.step == cell.step))
            .and_then(|s| s.gain);
    }
}

fn comparisons(run: &Run, all: &[Measured<'_>], ladders: &[LadderFinding]) -> Vec<Comparison> {
    let Some((baseline, variants)) = run.variants.split_first() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for variant in variants {
        for workload in workload_names(run) {
            found.extend(against(run, all, ladders, baseline, variant, workload));
        }
    }
    compare::decide(&mut found, &run.house, 0.0);
    found
}

fn against(
    run: &Run,
    all: &[Measured<'_>],
    ladders: &[LadderFinding],
    baseline: &VariantRecord,
    variant: &VariantRecord,
    workload: &str,
) -> Vec<Comparison> {
    let knee = ladders
        .iter()
        .find(|l| l.variant == baseline.name && l.workload == workload)
        .and_then(deciding_step);
    compare::compare(&compare::Pairing {
        baseline: (baseline, &steps_of(all, &baseline.name, workload)),
        variant: (variant, &steps_of(all, &variant.name, workload)),
        references: &between::closing(all, &baseline.name, workload),
        workload,
        knee,
        house: run.house,
        warmed: run.warmup != "none",
        between: 0.0,
    })
}

/// The baseline through the run, at the step where its variants are judged; nothing without variants.
fn references(run: &Run, all: &[Measured<'_>], ladders: &[LadderFinding]) -> Vec<ReferenceFinding> {
    let Some((baseline, [_, ..])) = run.variants.split_first() else {
        return Vec::new();
    };
    ladders
        .iter()
        .filter(|l| l.baseline)
        .filter_map(|ladder| {
            let steps = steps_of(all, &baseline.name, &ladder.workload);
            let closing = between::closing(all, &baseline.name, &ladder.workload);
            // Where it was measured once more, else where variants are judged.
            let wanted = closing
                .first()
                .map(|s| s.step)
                .or_else(|| deciding_step(ladder))?;
            let step = steps.iter().find(|s| s.step == wanted)?;
            Some(compare::reference(step, &closing, &ladder.workload))
        })
        .collect()
}

fn notes(run: &Run, cells: &[CellSummary], ladders: &[LadderFinding]) -> Vec<String> {
    let mut notes = Vec::new();
    let doubts = headline::Doubts::of(cells);
    if doubts.suspect + doubts.invalid + doubts.not_run > 0 {
        let not_run = match doubts.not_run {
            0 => String::new(),
            n => format!(", {n} not run"),
        };
        notes.push(format!(
            "{} {}: {} suspect, {} invalid{not_run}",
            cells.len(),
            if cells.len() == 1 { "cell" } else { "cells" },
            doubts.suspect,
            doubts.invalid
        ));
    }
    if let Some(ratio) = run.dataset.as_ref().and_then(DatasetFacts::ratio)
        && ratio < 2.0
    {
        notes.push(format!(
            "the data is {} times the buffer pool (2 to 3 times is the rule): a production with more data will read more from disk",
            Multiple(ratio)
        ));
    }
    let limits: Vec<String> = ladders
        .iter()
        .filter(|l| l.baseline && l.knee.is_some())
        .map(|l| {
            let limit = l
                .limit
                .threads
                .map_or_else(|| "none".to_owned(), |n| n.to_string());
            format!("{} {limit}", l.workload)
        })
        .collect();
    if limits.len() > 1 {
        notes.push(format!("limits by workload: {}", limits.join(", ")));
    }
    if run.open.is_none() {
        notes.push(
            "closed loop: percentiles are service under N clients, not what users see at that load; a stall delays few requests here and many of theirs"
                .to_owned(),
        );
    }
    if let Some(open) = &run.open {
        notes.push(format!(
            "open loop: latency counts from when a transaction was due, over at most {} clients",
            open.clients
        ));
    }
    if run.measure.seconds() > 0.0 && run.measure.seconds() < 60.0 {
        let rate = cells
            .iter()
            .filter_map(|c| c.tps)
            .fold(PerSecond(0.0), |a, b| if b > a { b } else { a });
        if rate.0 > 0.0 {
            notes.push(format!(
                "steps of {} are a demonstration: flushing, checkpoints and warm-up take minutes to show",
                run.measure
            ));
        }
    }
    notes
}
