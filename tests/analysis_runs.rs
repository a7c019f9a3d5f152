//! Whole runs to findings: validity, limits, criteria, exit codes, bottlenecks, comparisons.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

use std::collections::BTreeMap;

use capbench::analysis::knee::{Confidence, KneeKind};
use capbench::analysis::{
    Cause, Decision, Findings, LimitBasis, Outcome, Overall, Rule, Validity, analyse,
};
use capbench::plan::{Criteria, HouseRule, OpenLoop, Step, Warning};
use capbench::probe::names::{host, server};
use capbench::record::{
    AfterLadder, AppliedSetting, CellKind, CellRecord, CellStatus, ClientUsage, Flavour, HostFacts,
    Interval, Latency, Merged, Phase, Run, RunEnd, Sample, ServerIdentity, VariantRecord,
    WorkloadRecord,
};
use capbench::units::{Bytes, Millis, PerSecond, Ratio, Span};

const INTERVALS: u32 = 30;

/// One interval of 10 s with `tps`; latency follows from Little's law, every 20th ten times as long.
fn interval(i: u32, phase: Phase, tps: f64, clients: u32) -> Interval {
    let done = (tps * 10.0).round() as u64;
    let mut latency = Latency::new();
    if done > 0 {
        let mean = f64::from(clients) / tps * 1e9;
        // 19 fast ones and a slow one have that mean.
        let fast = mean * 20.0 / 29.0;
        // The shape, not the count, is what matters.
        for event in 0..done.min(200) {
            latency.record(if event % 20 == 19 { fast * 10.0 } else { fast } as u64);
        }
    }
    Interval {
        start: f64::from(i) * 10.0,
        end: f64::from(i + 1) * 10.0,
        phase,
        done,
        failed: 0,
        dropped: 0,
        arrivals: 0,
        retries: 0,
        reconnects: 0,
        reads: done * 14,
        writes: done * 4,
        others: done * 2,
        connected_seconds: 10.0 * f64::from(clients),
        backlog: 0,
        latency,
        service: None,
        errors: Vec::new(),
    }
}

/// A healthy cell: one interval of discard, thirty of measuring, ±0.5 % of ripple.
fn cell(threads: u32, tps: f64) -> CellRecord {
    let ripple = |i: u32| 1.0 + 0.005 * (f64::from(i) * 12.9898).sin();
    let mut intervals = vec![interval(0, Phase::Discard, tps / 2.0, threads)];
    intervals
        .extend((1..=INTERVALS).map(|i| interval(i, Phase::Measure, tps * ripple(i), threads)));
    CellRecord {
        index: 0,
        repeat: 1,
        variant: "baseline".to_owned(),
        workload: "oltp_read_write".to_owned(),
        step: Step::Threads(threads),
        clients: threads,
        kind: CellKind::Ladder,
        status: CellStatus::Completed,
        reason: None,
        started_at: Some("2026-11-30T12:00:00Z".to_owned()),
        seconds: 310.0,
        think_time_ms: 0.0,
        per_client: vec![(tps * 300.0 / f64::from(threads)) as u64; threads as usize],
        outage_seconds: 0.0,
        recovery_seconds: None,
        statements: Vec::new(),
        client: ClientUsage {
            user_seconds: 30.0,
            system_seconds: 60.0,
            resident: Bytes(20 << 20),
            busiest_worker: Ratio(0.2),
            lateness_p99: Some(Millis(0.05)),
            lateness_max: Some(Millis(1.0)),
        },
        differences: Vec::new(),
        evidence: capbench::record::CellEvidence::default(),
        intervals,
        server: Vec::new(),
        host: Vec::new(),
        merged: Merged::default(),
    }
}

fn run(mut cells: Vec<CellRecord>, criteria: Criteria) -> Run {
    for (i, cell) in cells.iter_mut().enumerate() {
        cell.index = u32::try_from(i).unwrap() + 1;
    }
    Run {
        format: 1,
        tool: "0.1.0".to_owned(),
        name: "test".to_owned(),
        plan_sha256: String::new(),
        command: String::new(),
        seed: 42,
        started_at: "2026-11-30T12:00:00Z".to_owned(),
        ended_at: None,
        end: RunEnd::Completed,
        environment: Vec::new(),
        server: Some(identity(false)),
        host: HostFacts {
            cores: 8,
            ..HostFacts::default()
        },
        dataset: None,
        settings: Vec::new(),
        variants: vec![variant("baseline", &[])],
        workloads: vec![WorkloadRecord {
            name: "oltp_read_write".to_owned(),
            description: String::new(),
            mix: Vec::new(),
        }],
        protocol: "prepared".to_owned(),
        access: "uniform".to_owned(),
        open: None,
        discard: Span::parse("10s").unwrap(),
        measure: Span::parse("300s").unwrap(),
        interval: Span::parse("10s").unwrap(),
        repeats: 1,
        warmup: String::new(),
        reset: String::new(),
        knee_gain: Ratio(0.2),
        house: HouseRule::default(),
        after: AfterLadder::default(),
        criteria,
        warnings: Vec::new(),
        resumed: Vec::new(),
        starts: Vec::new(),
        cells,
        unavailable: Vec::new(),
        evidence: capbench::record::RunEvidence::default(),
    }
}

fn identity(local: bool) -> ServerIdentity {
    ServerIdentity {
        flavour: Flavour::MySql,
        version: "8.4.8".to_owned(),
        comment: String::new(),
        uuid: None,
        address: "db:3306".to_owned(),
        local,
        tls: "none".to_owned(),
        round_trip: Millis(0.2),
        variables: BTreeMap::from([
            ("max_connections".to_owned(), "151".to_owned()),
            ("max_prepared_stmt_count".to_owned(), "16382".to_owned()),
        ]),
    }
}

fn variant(name: &str, differs: &[(&str, &str, &str)]) -> VariantRecord {
    VariantRecord {
        name: name.to_owned(),
        settings: differs
            .iter()
            .map(|(name, a, b)| AppliedSetting {
                name: (*name).to_owned(),
                before: Some((*a).to_owned()),
                asked: (*b).to_owned(),
                took: Some((*b).to_owned()),
            })
            .collect(),
        restarted: false,
        differs: differs
            .iter()
            .map(|(name, a, b)| ((*name).to_owned(), ((*a).to_owned(), (*b).to_owned())))
            .collect(),
        several: false,
    }
}

const PLATEAU: [(u32, f64); 5] = [
    (8, 120.0),
    (16, 230.0),
    (32, 430.0),
    (64, 450.0),
    (128, 445.0),
];

fn ladder(steps: &[(u32, f64)]) -> Vec<CellRecord> {
    steps.iter().map(|&(n, tps)| cell(n, tps)).collect()
}

fn plateau() -> Vec<CellRecord> {
    ladder(&PLATEAU)
}

fn analysed(cells: Vec<CellRecord>, criteria: Criteria) -> Findings {
    analyse(&run(cells, criteria))
}

fn rules(findings: &Findings, i: usize) -> Vec<(Rule, Validity)> {
    findings.cells[i]
        .reasons
        .iter()
        .map(|r| (r.rule, r.severity))
        .collect()
}

#[test]
fn a_clean_run_gives_a_clean_answer() {
    let findings = analysed(plateau(), Criteria::default());
    for cell in &findings.cells {
        assert_eq!(cell.validity, Validity::Valid, "{:?}", cell.reasons);
        let little = cell.littles_law.unwrap();
        assert!((little - 1.0).abs() < 0.01, "{little}");
        assert_eq!(cell.window.unwrap().end, 310.0);
    }
    let ladder = &findings.ladders[0];
    assert_eq!(ladder.limit.threads, Some(32));
    assert_eq!(ladder.limit.basis, Some(LimitBasis::Knee));
    assert_eq!(findings.headline.limit, Some(32));
    assert_eq!(findings.headline.overall, Overall::NothingRequired);
    assert_eq!(findings.headline.exit_code, 0);
    let gain = findings.cells[1].gain.unwrap().0;
    assert!((gain - (230.0 / 120.0 - 1.0)).abs() < 0.02, "{gain}");
    assert_eq!(findings.cells[0].gain, None);
}

#[test]
fn figures_come_from_the_window_alone() {
    let mut cells = plateau();
    // A slow discard and a slow first measured interval with an awful latency.
    cells[2].intervals[0].latency.record(60_000_000_000);
    cells[2].intervals[1] = interval(1, Phase::Measure, 100.0, 32);
    cells[2].intervals[1].latency.record(50_000_000_000);
    let findings = analysed(cells, Criteria::default());
    let summary = &findings.cells[2];
    assert!(summary.window.unwrap().dropped >= 1);
    assert_eq!(
        summary.window.unwrap().start,
        10.0 + 10.0 * summary.window.unwrap().dropped as f64
    );
    assert!(summary.latency.max.unwrap().0 < 1000.0);
    assert!((summary.tps.unwrap().0 / 430.0 - 1.0).abs() < 0.01);
    assert_eq!(summary.validity, Validity::Valid);
}

#[test]
fn each_rule_of_validity_speaks_up() {
    use Validity::{Invalid, Suspect};
    let broken = |change: &dyn Fn(&mut CellRecord)| {
        let mut cells = plateau();
        change(&mut cells[0]);
        rules(&analysed(cells, Criteria::default()), 0)
    };
    let each = |cell: &mut CellRecord, change: &dyn Fn(&mut Interval)| {
        cell.intervals.iter_mut().for_each(change);
    };
    assert_eq!(
        broken(&|c| c.status = CellStatus::Failed),
        [(Rule::V1, Invalid)]
    );
    assert_eq!(
        broken(&|c| c.status = CellStatus::Truncated),
        [(Rule::V1, Suspect)]
    );
    assert_eq!(broken(&|c| c.intervals.clear()), [(Rule::V1, Invalid)]);
    assert_eq!(
        broken(&|c| each(c, &|i| i.connected_seconds *= 0.97)),
        [(Rule::V2, Suspect)]
    );
    assert_eq!(
        broken(&|c| each(c, &|i| i.connected_seconds *= 0.9)),
        [(Rule::V2, Invalid)]
    );
    assert_eq!(
        broken(&|c| each(c, &|i| i.failed = i.done / 50)),
        [(Rule::V3, Suspect)]
    );
    assert_eq!(
        broken(&|c| each(c, &|i| i.failed = i.done / 10)),
        [(Rule::V3, Invalid)]
    );
    assert_eq!(
        broken(&|c| each(c, &|i| i.retries = i.done)),
        [],
        "retries alone are reported, not judged"
    );
    // Half of the clients' time is unaccounted for.
    assert_eq!(
        broken(&|c| c.clients = 16),
        [(Rule::V2, Invalid), (Rule::V4, Suspect)]
    );
    assert_eq!(
        broken(&|c| c.think_time_ms = 66.7),
        [(Rule::V4, Suspect)],
        "a think time that was not taken"
    );
    let stalled = broken(&|c| c.intervals[20] = interval(20, Phase::Measure, 0.0, 8));
    assert!(stalled.contains(&(Rule::V5, Suspect)), "{stalled:?}");
    let hung = broken(&|c| {
        c.intervals[20] = interval(20, Phase::Measure, 0.0, 8);
        c.status = CellStatus::Truncated;
    });
    assert!(hung.contains(&(Rule::V1, Invalid)), "{hung:?}");
    let falling = broken(&|c| {
        for (i, interval_) in c.intervals.iter_mut().enumerate().skip(1) {
            let i = u32::try_from(i).unwrap();
            *interval_ = interval(i, Phase::Measure, 120.0 - 2.0 * f64::from(i), 8);
        }
    });
    assert_eq!(falling, [(Rule::V6, Suspect)]);
    assert_eq!(
        broken(&|c| c.client.busiest_worker = Ratio(0.85)),
        [(Rule::V7, Invalid)]
    );
    assert_eq!(
        broken(&|c| c.client.user_seconds = 0.9 * 8.0 * 300.0),
        [(Rule::V7, Invalid)]
    );
    assert_eq!(
        broken(&|c| c.differences.push("sync_binlog 1 → 0".to_owned())),
        [(Rule::V7, Invalid)]
    );
    assert_eq!(
        broken(&|c| c.server = samples(&[(server::QUESTIONS, 120.0 * 20.0 * 1.5)], &[])),
        [(Rule::Counts, Suspect)]
    );
    assert_eq!(
        broken(&|c| c.server = samples(&[(server::QUESTIONS, 120.0 * 20.0)], &[])),
        []
    );
}

/// Samples every 10 s from −1: counters that grow at a rate a second, gauges that stand.
fn samples(rates: &[(&str, f64)], gauges: &[(&str, f64)]) -> Vec<Sample> {
    (0..=INTERVALS + 1)
        .map(|i| {
            let at = f64::from(i) * 10.0;
            let mut values: BTreeMap<String, f64> = gauges
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect();
            values.extend(
                rates
                    .iter()
                    .map(|(name, rate)| ((*name).to_owned(), 1e6 + rate * at)),
            );
            Sample {
                at,
                values: values.into(),
            }
        })
        .collect()
}

#[test]
fn an_invalid_cell_never_enters_the_fit() {
    let mut cells = plateau();
    // A cell that would win, and one whose result is rubbish.
    cells.push(cell(256, 4000.0));
    cells[5].client.busiest_worker = Ratio(0.99);
    let findings = analysed(cells, Criteria::default());
    assert_eq!(findings.headline.limit, Some(32));
    assert_eq!(findings.ladders[0].steps[5].tps, None);
    assert_eq!(findings.headline.exit_code, 0, "it does not decide");
}

#[test]
fn an_invalid_step_beside_the_knee_leaves_the_run_unreliable() {
    let mut cells = plateau();
    cells[3].status = CellStatus::Failed;
    cells[3].reason = Some("1040: Too many connections".to_owned());
    let findings = analysed(cells, Criteria::default());
    assert_eq!(findings.headline.overall, Overall::CannotBeReliedOn);
    assert_eq!(findings.headline.exit_code, 4);
    let criteria = Criteria {
        min_threads: Some(16),
        ..Criteria::default()
    };
    let mut cells = plateau();
    cells[3].status = CellStatus::Failed;
    let findings = analysed(cells, criteria);
    assert_eq!(
        findings.criteria[0].outcome,
        Outcome::NotTested,
        "never a pass"
    );
    assert_eq!(findings.headline.exit_code, 4);
}

#[test]
fn suspect_steps_at_the_knee_lower_confidence() {
    let clean = analysed(plateau(), Criteria::default());
    let mut cells = plateau();
    cells[2].status = CellStatus::Truncated;
    let suspect = analysed(cells, Criteria::default());
    let confidence = |f: &Findings| f.ladders[0].knee.as_ref().unwrap().confidence;
    assert!(confidence(&suspect) < confidence(&clean));
    let mut cells = plateau();
    cells[0].status = CellStatus::Truncated;
    assert_eq!(
        confidence(&analysed(cells, Criteria::default())),
        confidence(&clean),
        "far from the knee it does not matter"
    );
}

#[test]
fn how_runs_end_and_what_the_shell_hears() {
    let code = |end: RunEnd, criteria: Criteria| {
        let mut run = run(plateau(), criteria);
        run.end = end;
        analyse(&run).headline.exit_code
    };
    let none = Criteria::default;
    let met = || Criteria {
        expected_peak_tps: Some(300.0),
        min_headroom: Some(Ratio(0.3)),
        max_p95: Some(Millis(200.0)),
        min_threads: Some(32),
        max_errors: Some(Ratio(0.0)),
        ..Criteria::default()
    };
    let missed = || Criteria {
        expected_peak_tps: Some(400.0),
        min_headroom: Some(Ratio(0.3)),
        ..Criteria::default()
    };
    let untestable = || Criteria {
        min_headroom: Some(Ratio(0.3)),
        ..Criteria::default()
    };
    assert_eq!(code(RunEnd::Completed, none()), 0);
    assert_eq!(code(RunEnd::Completed, met()), 0);
    assert_eq!(code(RunEnd::Completed, missed()), 1);
    assert_eq!(code(RunEnd::Completed, untestable()), 1);
    assert_eq!(code(RunEnd::Failed("disk full".to_owned()), met()), 3);
    assert_eq!(code(RunEnd::Stopped("p95".to_owned()), met()), 4);
    assert_eq!(code(RunEnd::Running, met()), 4);
    assert_eq!(code(RunEnd::Interrupted, met()), 130);
    // Ended in its last cell, the run has nothing left to do and calls itself complete.
    let mut last = run(plateau(), met());
    last.cells[4].status = CellStatus::Interrupted;
    assert_eq!(analyse(&last).headline.overall, Overall::Interrupted);
    assert_eq!(analyse(&last).headline.exit_code, 130);
    let mut guarded = run(plateau(), none());
    guarded.cells[4].status = CellStatus::Stopped;
    assert_eq!(analyse(&guarded).headline.exit_code, 4);
}

#[test]
fn a_knee_that_was_not_reached_passes_with_what_was_shown() {
    let steps = &PLATEAU[..3];
    let criteria = |peak: f64, threads: u32| Criteria {
        expected_peak_tps: Some(peak),
        min_threads: Some(threads),
        ..Criteria::default()
    };
    let shown = analysed(ladder(steps), criteria(400.0, 32));
    assert_eq!(shown.headline.limit, None);
    assert_eq!(shown.headline.exit_code, 0);
    assert!(shown.headline.sentence.contains("no limit found up to 32"));
    let open = analysed(ladder(steps), criteria(4000.0, 64));
    assert!(
        open.criteria
            .iter()
            .all(|c| c.outcome == Outcome::NotTested)
    );
    assert_eq!(open.headline.exit_code, 1);
}

#[test]
fn latency_that_no_step_keeps_fails() {
    let criteria = Criteria {
        max_p95: Some(Millis(1.0)),
        expected_peak_tps: Some(10.0),
        ..Criteria::default()
    };
    let findings = analysed(plateau(), criteria);
    assert_eq!(findings.headline.limit, None);
    assert!(findings.criteria.iter().all(|c| c.outcome == Outcome::Fail));
    assert_eq!(findings.headline.exit_code, 1);
}

#[test]
fn too_many_errors_fail_even_where_they_make_the_cells_invalid() {
    let mut cells = plateau();
    for cell in &mut cells {
        for interval in &mut cell.intervals {
            interval.failed = interval.done;
        }
    }
    let criteria = Criteria {
        max_errors: Some(Ratio(0.01)),
        ..Criteria::default()
    };
    let findings = analysed(cells, criteria);
    assert_eq!(findings.criteria[0].outcome, Outcome::Fail);
    assert_eq!(findings.criteria[0].found, "50 %");
}

#[test]
fn the_workload_with_the_smallest_limit_decides() {
    let mut cells = plateau();
    let writes = [
        (8, 60.0),
        (16, 100.0),
        (32, 102.0),
        (64, 103.0),
        (128, 101.0),
    ];
    cells.extend(ladder(&writes).into_iter().map(|c| CellRecord {
        workload: "oltp_write_only".to_owned(),
        ..c
    }));
    let findings = analysed(cells, Criteria::default());
    assert_eq!(findings.headline.limit, Some(16));
    assert_eq!(
        findings.headline.workload.as_deref(),
        Some("oltp_write_only")
    );
}

#[test]
fn an_empty_run_and_an_empty_cell_are_no_panic() {
    let findings = analysed(
        Vec::new(),
        Criteria {
            max_p95: Some(Millis(5.0)),
            ..Criteria::default()
        },
    );
    assert_eq!(findings.headline.limit, None);
    assert_eq!(findings.criteria[0].outcome, Outcome::NotTested);
    assert_ne!(findings.headline.exit_code, 0);
    let mut empty = cell(8, 100.0);
    empty.intervals.clear();
    empty.status = CellStatus::Skipped;
    empty.clients = 0;
    let mut bare = run(vec![empty], Criteria::default());
    bare.variants.clear();
    bare.workloads.clear();
    bare.server = None;
    let findings = analyse(&bare);
    assert_eq!(findings.cells[0].tps, None);
    assert_eq!(findings.headline.exit_code, 4);
}

#[test]
fn repeats_are_one_step_with_a_measured_spread() {
    let mut cells = Vec::new();
    for repeat in 1..=3 {
        for (n, tps) in PLATEAU {
            let factor = 1.0 + 0.01 * (f64::from(repeat) - 2.0);
            cells.push(CellRecord {
                repeat,
                ..cell(n, tps * factor)
            });
        }
    }
    let findings = analysed(cells, Criteria::default());
    let ladder = &findings.ladders[0];
    assert_eq!(ladder.steps.len(), 5);
    assert_eq!(ladder.steps[0].cells.len(), 3);
    let noise = ladder.knee.as_ref().unwrap().run_noise.0;
    assert!((noise - 0.01).abs() < 0.002, "{noise}");
}

/// Host samples of 8 CPUs by their shares, and whatever else is asked.
fn host_samples(
    user: f64,
    system: f64,
    iowait: f64,
    more: &[(&str, f64)],
    gauges: &[(&str, f64)],
) -> Vec<Sample> {
    let mut rates = vec![
        (host::CPU_USER, 8.0 * user),
        (host::CPU_SYSTEM, 8.0 * system),
        (host::CPU_IOWAIT, 8.0 * iowait),
        (host::CPU_STEAL, 0.0),
        (host::CPU_IDLE, 8.0 * (1.0 - user - system - iowait)),
    ];
    rates.extend_from_slice(more);
    let mut stand = vec![(host::CPUS, 8.0)];
    stand.extend_from_slice(gauges);
    samples(&rates, &stand)
}

fn server_samples(threads: u32, more: &[(&str, f64)], gauges: &[(&str, f64)]) -> Vec<Sample> {
    let mut rates = vec![
        (server::ROW_LOCK_TIME, 0.0),
        (server::BUFFER_POOL_READS, 0.0),
        (server::BUFFER_POOL_READ_REQUESTS, 1e5),
        (server::CONNECTION_ERRORS_MAX, 0.0),
        (server::LOG_WAITS, 0.0),
    ];
    rates.retain(|(name, _)| more.iter().all(|(other, _)| other != name));
    rates.extend_from_slice(more);
    let mut stand = vec![
        (server::THREADS_RUNNING, f64::from(threads) * 0.8 + 1.0),
        (server::MAX_USED_CONNECTIONS, 20.0),
        (server::PREPARED_STMT_COUNT, 100.0),
    ];
    stand.retain(|(name, _)| gauges.iter().all(|(other, _)| other != name));
    stand.extend_from_slice(gauges);
    samples(&rates, &stand)
}

/// Diagnoses a plateau whose samples at all steps are made by `probe`; primary at the knee, then beyond.
fn bottleneck(
    steps: &[(u32, f64)],
    probe: impl Fn(u32, f64) -> (Vec<Sample>, Vec<Sample>),
) -> (Cause, Vec<Cause>, Cause, Findings) {
    let mut cells = ladder(steps);
    for (cell, &(n, tps)) in cells.iter_mut().zip(steps) {
        (cell.server, cell.host) = probe(n, tps);
    }
    let mut run = run(cells, Criteria::default());
    run.server = Some(identity(true));
    let findings = analyse(&run);
    let ladder = &findings.ladders[0];
    let at = ladder.bottleneck.clone().unwrap();
    let beyond = ladder.beyond.clone().unwrap();
    (at.primary, at.contributing, beyond.primary, findings)
}

#[test]
fn bottlenecks_get_their_names() {
    let idle = |n: u32| {
        (
            server_samples(n, &[], &[]),
            host_samples(0.3, 0.1, 0.0, &[], &[(host::RUNNABLE, 2.0)]),
        )
    };
    let (primary, ..) = bottleneck(&PLATEAU, |n, _| idle(n));
    assert_eq!(primary, Cause::Unseen);

    let (primary, ..) = bottleneck(&PLATEAU, |n, _| {
        (
            server_samples(n, &[], &[]),
            host_samples(0.7, 0.2, 0.0, &[], &[(host::RUNNABLE, 20.0)]),
        )
    });
    assert_eq!(primary, Cause::Cpu);

    let (primary, contributing, ..) = bottleneck(&PLATEAU, |n, _| {
        let locks = 0.25 * 1000.0 * f64::from(n);
        (
            server_samples(n, &[(server::ROW_LOCK_TIME, locks)], &[]),
            host_samples(0.7, 0.2, 0.0, &[], &[(host::RUNNABLE, 20.0)]),
        )
    });
    assert_eq!(primary, Cause::RowLocks);
    assert_eq!(contributing, [Cause::Cpu]);

    let (primary, ..) = bottleneck(&PLATEAU, |n, tps| {
        (
            server_samples(n, &[(server::BUFFER_POOL_READS, tps * 5.0)], &[]),
            host_samples(
                0.1,
                0.1,
                0.4,
                &[
                    ("disk.sda.reads", 2000.0),
                    ("disk.sda.read_ms", 12_000.0),
                    ("disk.sda.busy_ms", 990.0),
                    ("disk.sda.queue_ms", 12_000.0),
                ],
                &[(host::RUNNABLE, 2.0)],
            ),
        )
    });
    assert_eq!(primary, Cause::DiskReads);

    let (primary, ..) = bottleneck(&PLATEAU, |n, _| {
        (
            server_samples(n, &[(server::CONNECTION_ERRORS_MAX, 1.0)], &[]),
            idle(n).1,
        )
    });
    assert_eq!(primary, Cause::Connections);

    let (primary, ..) = bottleneck(&PLATEAU, |n, _| {
        (
            server_samples(n, &[(server::LOG_WAITS, 50.0)], &[]),
            idle(n).1,
        )
    });
    assert_eq!(primary, Cause::LogFlush);

    let (primary, ..) = bottleneck(&PLATEAU, |n, _| {
        (
            server_samples(n, &[], &[(server::THREADS_RUNNING, 2.5)]),
            idle(n).1,
        )
    });
    assert_eq!(primary, Cause::OutsideServer);
}

#[test]
fn a_full_redo_log_needs_a_symptom() {
    let steps = [(8, 120.0), (16, 230.0), (32, 240.0), (64, 245.0)];
    let probe = |waits: f64| {
        move |n: u32, _| {
            (
                server_samples(
                    n,
                    &[(server::BUFFER_POOL_WAIT_FREE, waits)],
                    &[
                        (server::CHECKPOINT_AGE, 0.9e9),
                        (server::CHECKPOINT_CAPACITY, 1e9),
                    ],
                ),
                host_samples(0.3, 0.1, 0.0, &[], &[(host::RUNNABLE, 2.0)]),
            )
        }
    };
    let (primary, contributing, ..) = bottleneck(&steps, probe(0.0));
    assert_eq!((primary, contributing), (Cause::Unseen, vec![Cause::Redo]));
    let (primary, ..) = bottleneck(&steps, probe(20.0));
    assert_eq!(primary, Cause::Redo);
}

#[test]
fn latches_show_beyond_the_knee_where_throughput_falls() {
    let steps = [
        (8, 120.0),
        (16, 230.0),
        (32, 430.0),
        (64, 300.0),
        (128, 200.0),
    ];
    let (_, _, beyond, findings) = bottleneck(&steps, |n, tps| {
        // Four times the switches a transaction beyond the knee.
        let switches = tps * if n > 32 { 400.0 } else { 100.0 };
        (
            server_samples(n, &[], &[]),
            host_samples(
                0.5,
                0.45,
                0.0,
                &[(host::CONTEXT_SWITCHES, switches)],
                &[(host::RUNNABLE, 20.0)],
            ),
        )
    });
    assert_eq!(beyond, Cause::Latches);
    let ladder = &findings.ladders[0];
    assert_eq!(ladder.knee.as_ref().unwrap().kind, KneeKind::Retrograde);
    assert_eq!(ladder.beyond.as_ref().unwrap().threads, 128);
    assert_eq!(ladder.bottleneck.as_ref().unwrap().primary, Cause::Cpu);
    // 300 is 30.2 % below 430: a cliff right behind the knee.
    assert_eq!(ladder.limit.threads, Some(24));
}

#[test]
fn without_signals_the_bottleneck_is_unknown_and_says_what_is_missing() {
    let findings = analysed(plateau(), Criteria::default());
    let found = findings.ladders[0].bottleneck.as_ref().unwrap();
    assert_eq!(found.primary, Cause::Unknown);
    assert!(
        found
            .missing
            .iter()
            .any(|m| m.starts_with("CPU of the server's host"))
    );
    assert!(found.missing.iter().any(|m| m.contains("row locks")));
}

#[test]
fn a_busy_machine_is_the_load_machine_only_when_the_server_is_elsewhere() {
    let with = |local: bool| {
        let mut cells = plateau();
        cells[0].host = host_samples(0.8, 0.15, 0.0, &[], &[]);
        let mut run = run(cells, Criteria::default());
        run.server = Some(identity(local));
        rules(&analyse(&run), 0)
    };
    assert_eq!(with(false), [(Rule::V7, Validity::Invalid)]);
    assert_eq!(with(true), []);
}

#[test]
fn variants_are_compared_at_the_baselines_knee() {
    let mut cells = Vec::new();
    for repeat in 1..=5_u32 {
        let noise = 1.0 + 0.004 * (f64::from(repeat) * 2.3).sin();
        for (n, tps) in PLATEAU {
            cells.push(CellRecord {
                repeat,
                ..cell(n, tps * noise)
            });
            cells.push(CellRecord {
                repeat,
                variant: "lazy".to_owned(),
                ..cell(n, tps * 1.1 * (2.0 - noise))
            });
            cells.push(CellRecord {
                repeat,
                variant: "same".to_owned(),
                ..cell(n, tps * (1.0 + 0.004 * (f64::from(repeat) * 1.7).cos()))
            });
        }
    }
    let mut run = run(cells, Criteria::default());
    run.repeats = 5;
    run.variants.push(variant(
        "lazy",
        &[("innodb_flush_log_at_trx_commit", "1", "2")],
    ));
    run.variants
        .push(variant("same", &[("innodb_io_capacity", "200", "400")]));
    let findings = analyse(&run);
    assert_eq!(findings.comparisons.len(), 10, "two variants, five steps");
    let at_knee = |name: &str| {
        let mut found = findings
            .comparisons
            .iter()
            .filter(|c| c.variant == name && c.deciding);
        let one = found.next().unwrap();
        assert_eq!(found.count(), 0, "one step decides");
        one
    };
    assert_eq!(at_knee("lazy").step, Step::Threads(32));
    assert_eq!(at_knee("lazy").decision, Decision::NeedsSignOff);
    assert_eq!(at_knee("same").decision, Decision::RollBack);
    assert_eq!(at_knee("same").runs, (5, 5));
    assert_eq!(findings.headline.limit, Some(32), "the baseline's");
}

#[test]
fn an_open_loop_shows_the_highest_rate_that_was_held() {
    let rate = |rate: f64, share: f64| {
        let mut cell = cell(64, rate * share);
        cell.step = Step::Rate(PerSecond(rate));
        for interval in &mut cell.intervals {
            interval.arrivals = (rate * 10.0) as u64;
            interval.done = (rate * share * 10.0) as u64;
            interval.dropped = interval.arrivals - interval.done;
            interval.service = Some(interval.latency.clone());
        }
        cell
    };
    let mut run = run(
        vec![rate(100.0, 1.0), rate(200.0, 1.0), rate(400.0, 0.8)],
        Criteria {
            expected_peak_tps: Some(150.0),
            ..Criteria::default()
        },
    );
    run.open = Some(OpenLoop {
        clients: 64,
        arrivals: capbench::plan::Arrivals::Poisson,
        backlog: 1000,
    });
    let findings = analyse(&run);
    let open = findings.ladders[0].open.as_ref().unwrap();
    assert_eq!(open.highest_held, Some(PerSecond(200.0)));
    assert_eq!(open.first_not_held, Some(PerSecond(400.0)));
    assert!(findings.ladders[0].knee.is_none());
    assert_eq!(findings.cells[0].littles_law, None, "not in open loop");
    assert_eq!(findings.cells[2].held, Some(false));
    assert!(findings.cells[0].service.is_some());
    assert_eq!(findings.criteria[0].outcome, Outcome::Pass);
    assert_eq!(findings.headline.exit_code, 0);
}

#[test]
fn what_is_not_yet_full_at_the_knee_is_looked_for_one_step_on() {
    let (primary, _, _, findings) = bottleneck(&PLATEAU, |n, _| {
        let user = if n > 32 { 0.8 } else { 0.6 };
        (
            server_samples(n, &[], &[]),
            host_samples(user, 0.15, 0.0, &[], &[(host::RUNNABLE, 20.0)]),
        )
    });
    assert_eq!(primary, Cause::Cpu);
    assert_eq!(findings.ladders[0].bottleneck.as_ref().unwrap().threads, 64);
}

#[test]
fn limits_that_somebody_set_are_named() {
    let named = |variable: (&str, &str), server: &[(&str, f64)], rates: &[(&str, f64)]| {
        let mut cells = ladder(&PLATEAU);
        for cell in &mut cells {
            cell.server = server_samples(cell.clients, &[], server);
            let gauges = [(host::RUNNABLE, 2.0), (host::SERVER_CPU_QUOTA, 1.5)];
            cell.host = host_samples(0.15, 0.02, 0.0, rates, &gauges);
        }
        let mut run = run(cells, Criteria::default());
        let mut identity = identity(true);
        identity
            .variables
            .insert(variable.0.to_owned(), variable.1.to_owned());
        run.server = Some(identity);
        analyse(&run).ladders[0].bottleneck.clone().unwrap()
    };
    let throttled = |share: f64| {
        [
            (host::SERVER_CPU_PERIODS, 10.0),
            (host::SERVER_THROTTLED_PERIODS, 10.0 * share),
        ]
    };
    let quota = named(("a", "b"), &[], &throttled(0.9));
    assert_eq!(quota.primary, Cause::CpuQuota);
    assert!(
        quota.sentence.contains("90 % (quota 1.5 CPUs)"),
        "{}",
        quota.sentence
    );
    let felt = named(("a", "b"), &[], &throttled(0.3));
    assert_eq!(
        (felt.primary, felt.contributing),
        (Cause::Unseen, vec![Cause::CpuQuota])
    );
    assert!(
        named(("a", "b"), &[], &throttled(0.1))
            .contributing
            .is_empty()
    );

    let queued = [
        (server::THREADS_RUNNING, 3.0),
        (server::QUEUED_STATEMENTS, 30.0),
    ];
    for (name, value) in [
        ("thread_handling", "pool-of-threads"),
        ("innodb_thread_concurrency", "2"),
    ] {
        let full = [(server::QUEUED_STATEMENTS, 30.0)];
        assert_eq!(named((name, value), &full, &[]).primary, Cause::Admission);
    }
    // Few run because few are let in: not because they are elsewhere.
    let pool = ("thread_handling", "pool-of-threads");
    assert_eq!(named(pool, &queued, &[]).primary, Cause::Admission);
    let unknown = named(pool, &queued[..1], &[]);
    assert_eq!(unknown.primary, Cause::Unseen);
    assert!(
        unknown
            .missing
            .iter()
            .any(|m| m.starts_with("clients whose statement waits to be let in")),
        "{:?}",
        unknown.missing
    );

    let locked = named(
        ("a", "b"),
        &[(server::THREADS_WAITING_FOR_TABLES, 30.0)],
        &[],
    );
    assert_eq!(locked.primary, Cause::TableLocks);
}

#[test]
fn few_clients_at_work_say_nothing_before_the_knee() {
    let mut cells = ladder(&PLATEAU[..3]);
    for cell in &mut cells {
        cell.server = server_samples(cell.clients, &[], &[(server::THREADS_RUNNING, 2.5)]);
        cell.host = host_samples(0.3, 0.1, 0.0, &[], &[(host::RUNNABLE, 2.0)]);
    }
    let mut run = run(cells, Criteria::default());
    run.server = Some(identity(true));
    let found = analyse(&run).ladders[0].bottleneck.clone().unwrap();
    assert_eq!(found.primary, Cause::NotSaturated);
}

/// A cell with an interval in which nothing completed.
fn stalled(mut cell: CellRecord) -> CellRecord {
    cell.intervals[20] = interval(20, Phase::Measure, 0.0, cell.clients);
    cell
}

fn named(workload: &str, steps: &[(u32, f64)]) -> Vec<CellRecord> {
    ladder(steps)
        .into_iter()
        .map(|cell| CellRecord {
            workload: workload.to_owned(),
            ..cell
        })
        .collect()
}

#[test]
fn criteria_met_on_doubtful_steps_are_not_simply_passed() {
    let met = || Criteria {
        min_threads: Some(16),
        ..Criteria::default()
    };
    let clean = analysed(plateau(), met());
    assert_eq!(clean.headline.overall, Overall::Passed);
    assert_eq!(clean.headline.why, None);

    let mut cells = plateau();
    cells[2] = stalled(cells[2].clone());
    let deciding = analysed(cells, met()).headline;
    assert_eq!(deciding.overall, Overall::Inconclusive);
    assert_eq!(deciding.exit_code, 0);
    let why = deciding.why.unwrap();
    assert!(
        why.starts_with("min_threads: met as measured, but the step of 32 threads that decides is suspect (V5: stall: nothing completed for 10.0 s"),
        "{why}"
    );

    // Away from the limit one does not matter, most of the ladder does.
    let mut cells = plateau();
    cells[0] = stalled(cells[0].clone());
    assert_eq!(
        analysed(cells.clone(), met()).headline.overall,
        Overall::Passed
    );
    cells[3] = stalled(cells[3].clone());
    cells[4] = stalled(cells[4].clone());
    let most = analysed(cells, met()).headline;
    assert_eq!(most.overall, Overall::Inconclusive);
    assert!(most.why.unwrap().contains("3 of 5 steps are suspect"));

    // Two steps are no ladder, whatever else was met.
    let few = analysed(
        ladder(&PLATEAU[..2]),
        Criteria {
            max_errors: Some(Ratio(0.01)),
            ..Criteria::default()
        },
    );
    assert_eq!(few.criteria[0].outcome, Outcome::Pass);
    assert_eq!(few.headline.overall, Overall::Inconclusive);
}

/// The plateau, with three quarters of the CPU used by other processes at the steps that `at` picks.
fn crowded(at: impl Fn(u32) -> bool) -> Run {
    let mut cells = plateau();
    for cell in cells.iter_mut().filter(|c| at(c.clients)) {
        cell.host = host_samples(
            0.7,
            0.2,
            0.0,
            &[(host::SERVER_CPU, 0.8), (host::SELF_CPU, 0.4)],
            &[(host::RUNNABLE, 20.0)],
        );
    }
    let mut run = run(cells, Criteria::default());
    run.server = Some(identity(true));
    run
}

#[test]
fn nothing_is_passed_or_failed_on_a_host_that_others_filled() {
    let judged = |at: fn(u32) -> bool, peak: f64| {
        let mut run = crowded(at);
        run.criteria.expected_peak_tps = Some(peak);
        let findings = analyse(&run);
        (
            findings.criteria[0].outcome,
            findings.headline.overall,
            findings.headline.exit_code,
        )
    };
    for peak in [300.0, 900.0] {
        assert_eq!(
            judged(|_| true, peak),
            (Outcome::Inconclusive, Overall::Inconclusive, 0),
            "{peak}"
        );
        // The step that decides is enough.
        assert_eq!(
            judged(|n| n == 32, peak).0,
            if peak > 500.0 {
                // The sound steps around it fail as well.
                Outcome::Fail
            } else {
                Outcome::Inconclusive
            }
        );
    }
    assert_eq!(judged(|n| n == 8, 300.0).1, Overall::Passed);
    assert_eq!(judged(|n| n == 8, 900.0).2, 1);
    // Confidence in the knee is low, whatever the resamples say, and who did it is named.
    let findings = analyse(&crowded(|_| true));
    let knee = findings.ladders[0].knee.as_ref().unwrap();
    assert_eq!(knee.confidence, Confidence::Low);
    assert!(knee.frequency.0 > 0.8, "{knee:?}");
    assert_eq!(findings.headline.overall, Overall::Inconclusive);
    assert!(
        findings
            .headline
            .sentence
            .contains("Confidence is low: other processes had the CPU at every step (V7)."),
        "{}",
        findings.headline.sentence
    );
}

#[test]
fn every_workload_is_judged_at_the_limit_of_the_instance() {
    let mut cells = named("ro", &PLATEAU);
    cells.extend(named(
        "rw",
        &[
            (8, 80.0),
            (16, 150.0),
            (32, 152.0),
            (64, 150.0),
            (128, 149.0),
        ],
    ));
    let judged = |peak: f64| {
        let criteria = Criteria {
            expected_peak_tps: Some(peak),
            max_p95: Some(Millis(1e6)),
            ..Criteria::default()
        };
        analysed(cells.clone(), criteria)
    };
    let found = judged(140.0);
    assert_eq!(found.headline.limit, Some(16));
    assert_eq!(found.criteria[0].outcome, Outcome::Pass);
    assert_eq!(
        found.criteria[0].place.as_deref(),
        Some("at 16 threads in rw")
    );
    // Three quarters of 150 are below 140: met, but nothing to plan with.
    let remark = found.criteria[0].remark.clone().unwrap();
    assert!(remark.contains("below the expected peak"), "{remark}");
    assert!(
        found
            .headline
            .sentence
            .contains(", below the expected peak of 140/s"),
        "{}",
        found.headline.sentence
    );
    assert_eq!(judged(100.0).criteria[0].remark, None);
    // The faster one is judged at 16 as well, not at its own 32.
    let latency = &found.criteria[1];
    assert!(
        latency
            .place
            .as_deref()
            .unwrap()
            .starts_with("at 16 threads in r"),
        "{latency:?}"
    );
}

#[test]
fn cells_that_were_not_run_are_neither_suspect_nor_invalid() {
    let mut cells = plateau();
    for cell in &mut cells[2..] {
        cell.status = CellStatus::Skipped;
        cell.intervals.clear();
    }
    let mut run = run(cells, Criteria::default());
    run.end = RunEnd::Interrupted;
    let findings = analyse(&run);
    let sentence = &findings.headline.sentence;
    assert!(
        sentence.ends_with(" 3 of 5 cells were not run."),
        "{sentence}"
    );
    assert!(
        sentence.starts_with("No limit to recommend (oltp_read_write): "),
        "{sentence}"
    );
}

#[test]
fn readings_an_interval_off_are_no_other_clients() {
    // Four intervals: a reading may be a quarter of the window off.
    let with = |intervals: usize, factor: f64| {
        let mut cells = plateau();
        cells[0].intervals.truncate(1 + intervals);
        cells[0].server = samples(&[(server::QUESTIONS, 120.0 * 20.0 * factor)], &[]);
        rules(&analyse(&run(cells, Criteria::default())), 0)
    };
    assert!(!with(4, 1.2).contains(&(Rule::Counts, Validity::Suspect)));
    assert!(with(29, 1.2).contains(&(Rule::Counts, Validity::Suspect)));
}

#[test]
fn the_sentence_counts_what_is_doubtful() {
    let clean = analysed(plateau(), Criteria::default()).headline.sentence;
    assert!(!clean.contains("suspect"), "{clean}");
    assert!(clean.contains("; plan with 323 transactions/s."), "{clean}");

    let mut cells = plateau();
    cells[0] = stalled(cells[0].clone());
    cells[1] = stalled(cells[1].clone());
    cells[4].client.busiest_worker = Ratio(0.9);
    let mut run = run(cells, Criteria::default());
    for accepted in [false, true, false] {
        run.warnings.push(Warning {
            name: "short".to_owned(),
            text: String::new(),
            accepted,
        });
    }
    let findings = analyse(&run);
    let sentence = &findings.headline.sentence;
    assert!(
        sentence.ends_with(" 2 of 5 cells are suspect, 1 is invalid, 2 warnings are not accepted."),
        "{sentence}"
    );
    assert!(
        findings
            .notes
            .contains(&"5 cells: 2 suspect, 1 invalid".to_owned()),
        "{:?}",
        findings.notes
    );
    run.cells.clear();
    run.warnings.truncate(1);
    let nothing = analyse(&run).headline.sentence;
    assert!(
        nothing.ends_with(" 1 warning is not accepted."),
        "{nothing}"
    );
}

#[test]
fn the_tightest_workload_stands_for_a_criterion() {
    let criteria = |peak: f64| Criteria {
        expected_peak_tps: Some(peak),
        ..Criteria::default()
    };
    let slower = PLATEAU.map(|(n, tps)| (n, tps * 0.8));
    let mut cells = named("ro", &PLATEAU);
    cells.extend(named("rw", &slower));
    for (peak, outcome) in [(300.0, Outcome::Pass), (500.0, Outcome::Fail)] {
        let findings = analysed(cells.clone(), criteria(peak));
        assert_eq!(findings.criteria[0].outcome, outcome);
        assert_eq!(findings.criteria[0].found, "344/s");
        assert!(findings.criteria[0].why.starts_with("rw: "));
        let headroom = findings.headline.headroom.unwrap().0;
        assert!((headroom - (344.0 / peak - 1.0)).abs() < 0.01, "{headroom}");
        // Both limits are 32: the lower throughput decides, both are named.
        assert_eq!(findings.headline.workload.as_deref(), Some("rw"));
        let sentence = &findings.headline.sentence;
        assert!(sentence.contains("decided by rw and ro: "), "{sentence}");
        assert!(sentence.contains("plan with 258 "), "{sentence}");
    }
}

#[test]
fn the_smallest_headroom_need_not_be_that_of_the_smallest_limit() {
    let mut cells = named(
        "small",
        &[(8, 800.0), (16, 820.0), (32, 825.0), (64, 810.0)],
    );
    cells.extend(named("slow", &PLATEAU));
    let criteria = Criteria {
        expected_peak_tps: Some(400.0),
        ..Criteria::default()
    };
    let headline = analysed(cells, criteria).headline;
    assert_eq!(headline.workload.as_deref(), Some("small"));
    // The other is held to the 8 clients as well, where it carries 120.
    assert_eq!(headline.limit, Some(8));
    assert!((headline.headroom.unwrap().0 + 0.70).abs() < 0.01);
}

#[test]
fn a_limit_below_a_cliff_is_held_against_what_was_measured_around_it() {
    let steps = [
        (8, 120.0),
        (16, 230.0),
        (32, 430.0),
        (64, 250.0),
        (128, 200.0),
    ];
    let at_peak = |peak: f64| {
        let criteria = Criteria {
            expected_peak_tps: Some(peak),
            ..Criteria::default()
        };
        let findings = analysed(ladder(&steps), criteria);
        assert_eq!(findings.headline.limit, Some(24));
        findings.criteria[0].clone()
    };
    assert_eq!(at_peak(200.0).outcome, Outcome::Pass);
    let between = at_peak(300.0);
    assert_eq!(between.outcome, Outcome::NotTested);
    assert!(between.why.contains("run 24 threads"), "{}", between.why);
    assert_eq!(at_peak(500.0).outcome, Outcome::Fail);
}

#[test]
fn a_peak_that_fails_by_latency_shows_the_throughput_and_names_the_criterion() {
    let criteria = Criteria {
        max_p95: Some(Millis(1.0)),
        expected_peak_tps: Some(10.0),
        ..Criteria::default()
    };
    let findings = analysed(plateau(), criteria);
    let peak = &findings.criteria[0];
    assert_eq!(peak.found, "450/s at best (at 64 threads)");
    assert!(
        peak.why.starts_with("max_p95 fails: no step"),
        "{}",
        peak.why
    );
}

/// CPU seconds of the server process and of capbench, as shares of 8 CPUs.
fn processes(server: f64, own: f64) -> [(&'static str, f64); 2] {
    [
        (host::SERVER_CPU, 8.0 * server),
        (host::SELF_CPU, 8.0 * own),
    ]
}

#[test]
fn a_cpu_that_others_use_is_not_the_servers() {
    let at = |server: f64, own: f64| {
        bottleneck(&PLATEAU, move |n, _| {
            (
                server_samples(n, &[], &[]),
                host_samples(
                    0.8,
                    0.2,
                    0.0,
                    &processes(server, own),
                    &[(host::RUNNABLE, 20.0)],
                ),
            )
        })
    };
    let (primary, contributing, _, findings) = at(0.13, 0.03);
    assert_eq!(primary, Cause::OtherProcesses);
    assert!(!contributing.contains(&Cause::Cpu));
    let found = findings.ladders[0].bottleneck.as_ref().unwrap();
    assert!(found.sentence.contains("84 %"), "{}", found.sentence);
    let shown = found.evidence.iter().find(|e| e.met.is_none()).unwrap();
    assert_eq!(shown.value, "13 % and 3.0 %, others 84 %");
    assert!(found.advice[0].contains("other processes"));
    let reason = &findings.cells[0].reasons[0];
    assert_eq!(
        (reason.rule, reason.severity, reason.text.as_str()),
        (
            Rule::V7,
            Validity::Suspect,
            "other processes used 84 % of the CPU"
        )
    );

    // Two thirds are the server's: its own CPU, with others beside it.
    let (primary, contributing, ..) = at(0.6, 0.1);
    assert_eq!(primary, Cause::Cpu);
    assert_eq!(contributing, [Cause::OtherProcesses]);
    let (primary, contributing, _, findings) = at(0.8, 0.15);
    assert_eq!((primary, contributing), (Cause::Cpu, vec![]));
    assert_eq!(findings.cells[0].validity, Validity::Valid);
    let found = findings.ladders[0].bottleneck.as_ref().unwrap();
    assert!(!found.evidence.iter().any(|e| e.value.contains("others")));
}

#[test]
fn without_the_servers_process_others_cannot_be_told() {
    let (primary, _, _, findings) = bottleneck(&PLATEAU, |n, _| {
        (
            server_samples(n, &[], &[]),
            host_samples(0.8, 0.2, 0.0, &[], &[(host::RUNNABLE, 20.0)]),
        )
    });
    assert_eq!(primary, Cause::Cpu);
    let found = findings.ladders[0].bottleneck.as_ref().unwrap();
    assert!(
        found
            .missing
            .iter()
            .any(|m| m.contains("others cannot be told"))
    );
}

const FALLING: [(u32, f64); 5] = [
    (8, 120.0),
    (16, 230.0),
    (32, 430.0),
    (64, 300.0),
    (128, 200.0),
];

/// A ladder that falls beyond its knee while the host switches four times as often per transaction. The
/// server's own switches are given per transaction, CPU a second.
fn falling(processes: &[(&'static str, f64)], change: impl Fn(&mut CellRecord)) -> Findings {
    let mut cells = ladder(&FALLING);
    for (cell, &(n, tps)) in cells.iter_mut().zip(&FALLING) {
        let mut more = vec![(
            host::CONTEXT_SWITCHES,
            tps * if n > 32 { 400.0 } else { 100.0 },
        )];
        for &(name, rate) in processes {
            let of_transactions = name == host::SERVER_SWITCHES;
            more.push((name, if of_transactions { rate * tps } else { rate }));
        }
        cell.server = server_samples(n, &[], &[]);
        cell.host = host_samples(0.5, 0.1, 0.0, &more, &[(host::RUNNABLE, 4.0)]);
    }
    change(&mut cells[4]);
    let mut run = run(cells, Criteria::default());
    run.server = Some(identity(true));
    analyse(&run)
}

fn beyond(findings: &Findings) -> &capbench::analysis::Bottleneck {
    findings.ladders[0].beyond.as_ref().unwrap()
}

#[test]
fn a_stall_or_a_crowded_host_is_no_latch_contention() {
    let quiet = falling(&processes(0.5, 0.1), |_| {});
    assert_eq!(beyond(&quiet).primary, Cause::Latches);

    let stalled = falling(&processes(0.5, 0.1), |cell| {
        for i in 15..18_u32 {
            cell.intervals[i as usize] = interval(i, Phase::Measure, 0.0, 128);
        }
        cell.intervals[25] = interval(25, Phase::Measure, 0.0, 128);
    });
    let found = beyond(&stalled);
    assert_eq!(found.primary, Cause::Stall);
    assert!(!found.contributing.contains(&Cause::Latches));
    assert!(
        found
            .sentence
            .contains("stall — nothing completed for 30.0 s"),
        "{}",
        found.sentence
    );
    assert!(stalled.cells[4].reasons.iter().any(|r| {
        r.rule == Rule::V5
            && r.text
                .starts_with("stall: nothing completed for 30.0 s (4 of")
    }));

    let crowded = falling(&processes(0.2, 0.05), |_| {});
    let found = beyond(&crowded);
    assert_ne!(found.primary, Cause::Latches);
    assert!(!found.contributing.contains(&Cause::Latches));
    assert!(
        found
            .evidence
            .iter()
            .any(|e| e.cause == Cause::Latches && e.met.is_none())
    );

    // The host switches more, the server does not.
    let mut own: Vec<_> = processes(0.5, 0.1).into_iter().collect();
    own.push((host::SERVER_SWITCHES, 50.0));
    let steady = falling(&own, |_| {});
    assert_ne!(beyond(&steady).primary, Cause::Latches);
}

#[test]
fn the_step_after_the_knee_is_called_so_and_told_once() {
    let steps = &PLATEAU[..4];
    let mut cells = ladder(steps);
    for (cell, &(n, _)) in cells.iter_mut().zip(steps) {
        let user = if n > 32 { 0.8 } else { 0.6 };
        cell.server = server_samples(n, &[], &[]);
        cell.host = host_samples(user, 0.15, 0.0, &[], &[(host::RUNNABLE, 20.0)]);
    }
    let mut run = run(cells, Criteria::default());
    run.server = Some(identity(true));
    let findings = analyse(&run);
    let ladder = &findings.ladders[0];
    let found = ladder.bottleneck.as_ref().unwrap();
    assert_eq!((found.threads, found.after_knee), (64, true));
    assert!(
        found
            .sentence
            .starts_with("At 64 threads, the step after the knee: CPU")
    );
    assert!(
        ladder.beyond.is_none(),
        "it is the worst step beyond as well"
    );
}

#[test]
fn signals_are_judged_only_where_they_mean_something() {
    let met = |threads: u32, signal: &str, more: &[(&str, f64)]| {
        let steps = [(threads, 120.0), (2 * threads, 125.0), (4 * threads, 126.0)];
        let (.., findings) = bottleneck(&steps, |n, _| {
            (
                server_samples(n, more, &[]),
                host_samples(0.3, 0.1, 0.0, &[], &[(host::RUNNABLE, 2.0)]),
            )
        });
        let ladder = &findings.ladders[0];
        let found = ladder.bottleneck.as_ref().unwrap();
        assert_eq!(found.threads, threads);
        let evidence = found.evidence.iter().find(|e| e.signal == signal);
        evidence.unwrap().met
    };
    // Misses, but a disk that nobody waits for: the system's cache serves them.
    let misses = [(server::BUFFER_POOL_READS, 600.0)];
    let signal = "buffer pool misses per transaction";
    assert_eq!(met(8, signal, &misses), Some(false));
    let fsyncs = [(server::LOG_FSYNCS, 120.0), (server::LOG_WRITTEN, 1e6)];
    assert_eq!(met(2, "fsyncs per transaction", &fsyncs), None);
    assert_eq!(met(8, "fsyncs per transaction", &fsyncs), Some(true));
}

#[test]
fn objections_say_what_they_saw() {
    let text = |rule: Rule, change: &dyn Fn(&mut CellRecord)| {
        let mut cells = plateau();
        change(&mut cells[0]);
        let findings = analysed(cells, Criteria::default());
        let reasons = &findings.cells[0].reasons;
        let reason = reasons.iter().find(|r| r.rule == rule);
        reason.unwrap().text.clone()
    };
    let more = text(Rule::V4, &|c| c.think_time_ms = 66.7);
    assert!(
        more.starts_with("more time than the window has: a stall straddles the cut"),
        "{more}"
    );
    let less = text(Rule::V4, &|c| c.clients = 16);
    assert!(less.starts_with("unaccounted time"), "{less}");
    // A slow decay all the way: MSER cuts at the middle, the rest differs by less than 5 %.
    let settling = text(Rule::V6, &|c| {
        for (i, slot) in c.intervals.iter_mut().enumerate().skip(1) {
            let i = u32::try_from(i).unwrap();
            *slot = interval(i, Phase::Measure, 120.0 - 0.3 * f64::from(i), 8);
        }
    });
    assert_eq!(
        settling,
        "not steady: still settling at the middle of the cell (MSER)"
    );
    let falling = text(Rule::V6, &|c| {
        for (i, slot) in c.intervals.iter_mut().enumerate().skip(1) {
            let i = u32::try_from(i).unwrap();
            *slot = interval(i, Phase::Measure, 120.0 - 2.0 * f64::from(i), 8);
        }
    });
    assert!(falling.contains("(MSER), second half -"), "{falling}");
}

/// Readings of a replica whose lag goes from `from` to `to` seconds.
fn replica_samples(from: f64, to: f64) -> Vec<Sample> {
    let mut found = samples(&[], &[("second.applier_running", 1.0)]);
    let last = found.len() as f64 - 1.0;
    for (i, sample) in found.iter_mut().enumerate() {
        let lag = from + (to - from) * i as f64 / last;
        sample.values.insert("second.lag_seconds".to_owned(), lag);
    }
    found
}

#[test]
fn a_replica_that_falls_back_is_named_after_all_that_is_full() {
    let at = |busy: f64, from: f64, to: f64| {
        let mut cells = plateau();
        for (cell, (n, _)) in cells.iter_mut().zip(PLATEAU) {
            cell.server = server_samples(n, &[], &[]);
            cell.host = host_samples(busy, 0.1, 0.0, &[], &[(host::RUNNABLE, 20.0)]);
            cell.evidence.replicas = replica_samples(from, to);
        }
        let mut run = run(cells, Criteria::default());
        run.server = Some(identity(true));
        run.evidence.replicas = vec!["second".to_owned()];
        analyse(&run)
    };
    let found = |findings: &Findings| findings.ladders[0].bottleneck.clone().unwrap();
    let growing = at(0.3, 0.0, 200.0);
    assert_eq!(found(&growing).primary, Cause::Replication);
    let lag = &growing.evidence.cells[0].replicas[0];
    assert_eq!(lag.name, "second");
    assert!(lag.last > lag.first && !lag.stopped);
    assert_eq!(found(&at(0.3, 45.0, 40.0)).primary, Cause::Replication);
    assert_eq!(found(&at(0.3, 3.0, 4.0)).primary, Cause::Unseen);
    let full = found(&at(0.8, 0.0, 200.0));
    assert_eq!(full.primary, Cause::Cpu);
    assert!(full.contributing.contains(&Cause::Replication));
}

#[test]
fn a_servers_own_host_is_judged_through_its_probe() {
    let with = |probe: bool| {
        let mut cells = plateau();
        for (cell, (n, _)) in cells.iter_mut().zip(PLATEAU) {
            cell.server = server_samples(n, &[], &[]);
            cell.host = host_samples(0.1, 0.1, 0.0, &[], &[(host::RUNNABLE, 1.0)]);
            if probe {
                cell.evidence.server_host =
                    host_samples(0.8, 0.15, 0.0, &[], &[(host::RUNNABLE, 20.0)]);
            }
        }
        let mut run = run(cells, Criteria::default());
        run.server = Some(identity(false));
        let findings = analyse(&run);
        assert!(findings.cells.iter().all(|c| c.validity == Validity::Valid));
        findings.ladders[0].bottleneck.clone().unwrap()
    };
    let blind = with(false);
    assert_eq!(blind.primary, Cause::Unknown);
    assert!(
        blind.missing.iter().any(|m| m.contains("[target.probe]")),
        "{:?}",
        blind.missing
    );
    let seen = with(true);
    assert_eq!(seen.primary, Cause::Cpu);
    assert!(
        !seen
            .missing
            .iter()
            .any(|m| m.contains("CPU of the server's host"))
    );
}

#[test]
fn commits_that_wait_are_the_log_and_flushes_in_the_background_are_not() {
    let at = |committing: f64| {
        bottleneck(&PLATEAU, |n, _| {
            (
                server_samples(
                    n,
                    &[(server::LOG_WRITTEN, 1e6), (server::LOG_FSYNCS, 40.0)],
                    &[
                        (server::LOG_PENDING_FSYNCS, 1.0),
                        (server::THREADS_COMMITTING, committing * f64::from(n)),
                    ],
                ),
                host_samples(0.3, 0.1, 0.0, &[], &[(host::RUNNABLE, 2.0)]),
            )
        })
        .0
    };
    assert_eq!(at(0.7), Cause::LogFlush);
    assert_eq!(at(0.02), Cause::Unseen);
}

#[test]
fn a_worker_without_a_cpu_is_the_load_machine_unless_the_server_is_at_work() {
    let at = |server_cpu: f64, waited: f64| {
        bottleneck(&PLATEAU, |n, _| {
            (
                server_samples(n, &[], &[(server::THREADS_RUNNING, 1.5)]),
                host_samples(
                    0.7,
                    0.2,
                    0.0,
                    &[(host::SERVER_CPU, 8.0 * server_cpu), (host::SELF_CPU, 0.4)],
                    &[
                        (host::RUNNABLE, 20.0),
                        (host::SELF_WANTED, 0.95),
                        (host::SELF_WAITED, waited),
                    ],
                ),
            )
        })
        .0
    };
    assert_eq!(at(0.1, 0.9), Cause::LoadGenerator);
    assert_eq!(at(0.6, 0.9), Cause::Cpu);
    // A full host is never "outside the server": others have its CPU.
    assert_eq!(at(0.1, 0.1), Cause::OtherProcesses);
}

#[test]
fn a_plan_that_changed_is_a_finding_of_its_ladder() {
    use capbench::record::{LadderPlans, PlanStep, StatementPlan};
    let plan = |access: &str, key: Option<&str>| StatementPlan {
        class: "simple_range".to_owned(),
        sql: "SELECT".to_owned(),
        steps: vec![PlanStep {
            select: "SIMPLE".to_owned(),
            table: "sbtest1".to_owned(),
            access: access.to_owned(),
            key: key.map(str::to_owned),
            rows: Some(100.0),
            extra: String::new(),
        }],
        none: None,
    };
    let with = |after: StatementPlan| {
        let mut run = run(plateau(), Criteria::default());
        run.evidence.plans = vec![LadderPlans {
            repeat: 1,
            variant: run.cells[0].variant.clone(),
            workload: run.cells[0].workload.clone(),
            before: vec![plan("range", Some("PRIMARY"))],
            after: vec![after],
            problem: None,
        }];
        analyse(&run)
    };
    let same = with(plan("range", Some("PRIMARY")));
    assert_eq!(same.evidence.plans[0].finding, None);
    let changed = with(plan("ALL", None));
    assert!(changed.evidence.plans[0].finding.is_some());
    let notes = &changed.ladders[0].notes;
    assert!(
        notes.iter().any(
            |n| n.contains("simple_range: the plan changed while the ladder ran")
                && n.contains("ALL without an index")
        ),
        "{notes:?}"
    );
}
