//! Findings written by hand where the wording matters, so that a report is tested apart from the analysis.

use capbench::analysis::knee::{Confidence, LadderPoint, from_points};
use capbench::analysis::*;
use capbench::plan::Step;
use capbench::record::{CellRecord, CellStatus, Latency, Phase, Run};
use capbench::units::{Millis, PerSecond, Ratio};

fn latencies(l: &Latency) -> Latencies {
    Latencies {
        avg: l.mean(),
        p50: l.quantile(0.5),
        p95: l.quantile(0.95),
        p99: l.quantile(0.99),
        p999: l.quantile(0.999),
        min: l.min_nanos().map(Millis::from_nanos),
        max: l.max_nanos().map(Millis::from_nanos),
    }
}

fn summary(cell: &CellRecord) -> CellSummary {
    let kept: Vec<_> = cell
        .intervals
        .iter()
        .filter(|i| i.phase == Phase::Measure)
        .collect();
    let seconds: f64 = kept.iter().map(|i| i.seconds()).sum();
    let sum = |f: fn(&capbench::record::Interval) -> u64| kept.iter().map(|i| f(i)).sum::<u64>();
    let rate = |n: u64| (seconds > 0.0).then(|| PerSecond(n as f64 / seconds));
    let mut all = Latency::new();
    let mut service = Latency::new();
    for i in &kept {
        all.merge(&i.latency);
        if let Some(s) = &i.service {
            service.merge(s);
        }
    }
    let invalid = cell.status != CellStatus::Completed;
    let open = matches!(cell.step, Step::Rate(_));
    let reasons = if invalid {
        vec![Reason {
            rule: Rule::V1,
            severity: Validity::Invalid,
            text: format!(
                "did not run to its end ({})",
                cell.reason.as_deref().unwrap_or("no reason given")
            ),
        }]
    } else {
        Vec::new()
    };
    CellSummary {
        index: cell.index,
        repeat: cell.repeat,
        variant: cell.variant.clone(),
        workload: cell.workload.clone(),
        step: cell.step,
        clients: cell.clients,
        kind: cell.kind,
        status: cell.status,
        validity: if invalid {
            Validity::Invalid
        } else {
            Validity::Valid
        },
        reasons,
        window: (!kept.is_empty()).then(|| Window {
            start: kept[0].start,
            end: kept[kept.len() - 1].end,
            intervals: kept.len(),
            dropped: 0,
        }),
        steadiness: None,
        tps: rate(sum(|i| i.done)),
        tps_se: Some(Ratio(0.002)),
        cv: (!kept.is_empty()).then_some(Ratio(0.0085)),
        qps: rate(sum(capbench::record::Interval::queries)),
        reads: rate(sum(|i| i.reads)),
        writes: rate(sum(|i| i.writes)),
        others: rate(sum(|i| i.others)),
        latency: latencies(&all),
        service: open.then(|| latencies(&service)),
        offered: open.then(|| rate(sum(|i| i.arrivals))).flatten(),
        dropped_share: open
            .then(|| Ratio(sum(|i| i.dropped) as f64 / sum(|i| i.arrivals).max(1) as f64)),
        held: open.then(|| sum(|i| i.dropped) == 0),
        done: sum(|i| i.done),
        failed: sum(|i| i.failed),
        errors: kept.first().map(|i| i.errors.clone()).unwrap_or_default(),
        error_share: (!kept.is_empty()).then_some(Ratio(0.0)),
        retries: sum(|i| i.retries),
        reconnects: sum(|i| i.reconnects),
        outage_seconds: cell.outage_seconds,
        recovery_seconds: cell.recovery_seconds,
        stalls: 0,
        longest_stall: 0.0,
        fairness: (!kept.is_empty()).then_some(Fairness {
            mean: 1000.0,
            stddev: 12.5,
            spread: Ratio(0.0125),
        }),
        gain: None,
        think_time_ms: 0.0,
        littles_law: (!open && !kept.is_empty()).then_some(1.0),
        busiest_worker: Ratio(0.12),
        client_cpu: Some(Ratio(0.05)),
        buffer_pool_hits: None,
    }
}

fn ladder(run: &Run, cells: &mut [CellSummary], variant: &str, workload: &str) -> LadderFinding {
    let mine: Vec<usize> = (0..cells.len())
        .filter(|&i| cells[i].variant == variant && cells[i].workload == workload)
        .collect();
    let valid: Vec<usize> = mine
        .iter()
        .copied()
        .filter(|&i| cells[i].validity != Validity::Invalid)
        .collect();
    for pair in valid.windows(2) {
        let (a, b) = (cells[pair[0]].clone(), cells[pair[1]].clone());
        let doublings = (f64::from(b.clients) / f64::from(a.clients)).log2();
        if let (Some(x), Some(y), true) = (a.tps, b.tps, doublings > 0.0) {
            cells[pair[1]].gain = Some(Ratio((y.0 / x.0).powf(1.0 / doublings) - 1.0));
        }
    }
    let points: Vec<LadderPoint> = valid
        .iter()
        .filter_map(|&i| {
            let c = &cells[i];
            let mut point = LadderPoint::new(c.clients, c.tps?.0);
            point.p95 = c.latency.p95;
            Some(point)
        })
        .collect();
    let open = run.open.is_some();
    let knee = (!open).then(|| from_points(&points, run.knee_gain));
    let reached = knee
        .as_ref()
        .filter(|k| matches!(k.kind, knee::KneeKind::Plateau | knee::KneeKind::Retrograde));
    let threads = reached.and_then(|k| k.threads);
    let tps = reached.and_then(|k| k.tps);
    let steps = mine
        .iter()
        .map(|&i| {
            let c = &cells[i];
            StepSummary {
                step: c.step,
                threads: c.clients,
                cells: vec![c.index],
                invalid: u32::from(c.validity == Validity::Invalid),
                validity: c.validity,
                tps: c.tps,
                avg: c.latency.avg,
                p95: c.latency.p95,
                p99: c.latency.p99,
                run_sd: None,
                gain: c.gain,
            }
        })
        .collect();
    LadderFinding {
        variant: variant.to_owned(),
        workload: workload.to_owned(),
        baseline: variant == run.variants[0].name,
        steps,
        open: open.then(|| OpenFinding {
            highest_held: Some(PerSecond(1000.0)),
            first_not_held: Some(PerSecond(2000.0)),
            sentence: "1000/s was held, 2000/s was not: 30 % of the arrivals were dropped.".into(),
        }),
        limit: Limit {
            threads,
            basis: threads.map(|_| LimitBasis::Knee),
            why: match threads {
                Some(_) => "the knee".into(),
                None => "no limit was found within the ladder".into(),
            },
            p95_never_met: false,
            step: threads,
            throughput: tps,
            planning: tps.map(|t| PerSecond(t.0 * 0.75)),
            headroom: tps.map(|t| Ratio(t.0 / 800.0 - 1.0)),
            refine: if threads.is_some() {
                vec![45]
            } else {
                Vec::new()
            },
        },
        bottleneck: (!valid.is_empty()).then(|| bottleneck(threads.unwrap_or(128))),
        beyond: None,
        knee,
        unreliable: None,
        notes: Vec::new(),
    }
}

fn bottleneck(threads: u32) -> Bottleneck {
    Bottleneck {
        threads,
        after_knee: false,
        primary: Cause::RowLocks,
        contributing: vec![Cause::Redo],
        sentence: "row lock waits took 24 % of the client time.".into(),
        evidence: vec![
            Evidence {
                cause: Cause::RowLocks,
                signal: "share of client time in row lock waits".into(),
                value: "24 %".into(),
                threshold: "≥ 20 %".into(),
                met: Some(true),
                source: "Innodb_row_lock_time".into(),
            },
            Evidence {
                cause: Cause::Cpu,
                signal: "CPU of the server's host".into(),
                value: "61 %".into(),
                threshold: "≥ 85 %".into(),
                met: Some(false),
                source: "/proc/stat".into(),
            },
        ],
        missing: vec!["INNODB_METRICS: access denied (1227)".into()],
        advice: vec!["shorten transactions that update hot rows".into()],
    }
}

/// Findings about `run`, the headline taken from the first ladder.
pub(crate) fn findings(run: &Run) -> Findings {
    let mut cells: Vec<CellSummary> = run.cells.iter().map(summary).collect();
    let mut ladders = Vec::new();
    for variant in &run.variants {
        for workload in &run.workloads {
            if cells
                .iter()
                .any(|c| c.variant == variant.name && c.workload == workload.name)
            {
                ladders.push(ladder(run, &mut cells, &variant.name, &workload.name));
            }
        }
    }
    let first = ladders.first();
    let limit = first.and_then(|l| l.limit.threads);
    let knee = first.and_then(|l| l.knee.as_ref());
    Findings {
        evidence: capbench::analysis::EvidenceFindings::default(),
        headline: Headline {
            limit,
            workload: first.map(|l| l.workload.clone()),
            knee: knee.and_then(|k| k.threads),
            kind: knee.map(|k| k.kind.words().to_owned()),
            confidence: knee.map_or(Some(Confidence::Low), |k| Some(k.confidence)),
            headroom: first.and_then(|l| l.limit.headroom),
            bottleneck: first
                .and_then(|l| l.bottleneck.as_ref())
                .map(|b| b.primary.as_str().to_owned()),
            sentence: match limit {
                Some(limit) => format!("This instance carries {limit} concurrently active clients"),
                None => "No limit was found".into(),
            },
            overall: if limit.is_some() {
                Overall::Passed
            } else {
                Overall::Inconclusive
            },
            why: None,
            exit_code: 0,
        },
        criteria: vec![
            CriterionResult {
                name: "min_headroom".into(),
                required: "≥ 30 % over 800/s".into(),
                found: "94 %".into(),
                outcome: Outcome::Pass,
                why: "1550/s at 32 threads".into(),
                place: Some("at 32 threads".into()),
                remark: None,
            },
            CriterionResult {
                name: "max_p95".into(),
                required: "≤ 50 ms".into(),
                found: "n/a".into(),
                outcome: Outcome::NotTested,
                why: "no valid step".into(),
                place: None,
                remark: None,
            },
        ],
        comparisons: Vec::new(),
        references: Vec::new(),
        refinement: None,
        soak: None,
        notes: vec!["server counters and client statements agree within 0.1 %".into()],
        cells,
        ladders,
    }
}

/// A variant at the baseline's knee.
pub(crate) fn comparison(variant: &str, decision: Decision) -> Comparison {
    let effect = |baseline: f64, variant: f64, verdict| Effect {
        baseline,
        variant,
        change: Ratio(variant / baseline - 1.0),
        interval: Some((Ratio(0.031), Ratio(0.092))),
        p_value: Some(0.004),
        equivalence_p: Some(0.9),
        verdict,
        runs_needed: None,
        uneven: None,
        why: "the interval excludes 0".into(),
    };
    Comparison {
        variant: variant.to_owned(),
        baseline: "baseline".into(),
        workload: "oltp_read_write".into(),
        step: Step::Threads(32),
        deciding: true,
        runs: (3, 3),
        tps: effect(1550.0, 1645.0, EffectVerdict::Better),
        p95: Some(effect(38.9, 36.1, EffectVerdict::Inconclusive)),
        decision,
        sentence: "+6.1 % throughput beyond noise, p95 no worse".into(),
        confounded: Vec::new(),
        durability: vec![
            "innodb_flush_log_at_trx_commit 1 → 2 can lose the last second of commits".into(),
        ],
        drift: None,
        drift_p95: None,
    }
}
