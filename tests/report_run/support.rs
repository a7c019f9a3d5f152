//! Runs made by arithmetic, so that every figure in a snapshot can be checked by hand.

use std::collections::BTreeMap;

use capbench::plan::{Arrivals, Criteria, HouseRule, OpenLoop, Step, Warning};
use capbench::record::*;
use capbench::units::{Bytes, Millis, PerSecond, Ratio, Span};

pub(crate) fn span(text: &str) -> Span {
    Span::parse(text).unwrap()
}

/// `count` latencies spread evenly from `low` to `high` milliseconds.
pub(crate) fn latency(count: u64, low: f64, high: f64) -> Latency {
    let mut latency = Latency::new();
    for i in 0..count {
        let ms = low + (high - low) * i as f64 / count.max(2) as f64;
        latency.record((ms * 1e6) as u64);
    }
    latency
}

/// A closed-loop interval of 10 s at `tps` with latencies as Little's law wants them at `clients`.
pub(crate) fn interval(number: u32, clients: u32, tps: f64) -> Interval {
    let done = (tps * 10.0) as u64;
    let mean = f64::from(clients) / tps * 1e3;
    Interval {
        start: f64::from(number) * 10.0,
        end: f64::from(number + 1) * 10.0,
        phase: if number == 0 {
            Phase::Discard
        } else {
            Phase::Measure
        },
        done,
        failed: 0,
        dropped: 0,
        arrivals: 0,
        retries: done / 1000,
        reconnects: 0,
        reads: done * 14,
        writes: done * 4,
        others: done * 2,
        connected_seconds: f64::from(clients) * 10.0,
        backlog: 0,
        latency: latency(done, mean * 0.5, mean * 1.5),
        service: None,
        errors: if done >= 1000 {
            vec![ErrorCount {
                code: 1213,
                statement: "index_update".into(),
                count: done / 1000,
            }]
        } else {
            Vec::new()
        },
    }
}

pub(crate) fn sample(at: f64, values: &[(&str, f64)]) -> Sample {
    Sample {
        at,
        values: values.iter().map(|&(n, v)| (n.to_owned(), v)).collect(),
    }
}

/// A cell of six measured intervals.
pub(crate) fn cell(
    index: u32,
    variant: &str,
    workload: &str,
    threads: u32,
    tps: f64,
) -> CellRecord {
    // A ripple keeps the coefficient of variation away from zero.
    let intervals: Vec<_> = (0..13)
        .map(|n| interval(n, threads, tps * (1.0 + 0.01 * f64::from(n % 3) - 0.01)))
        .collect();
    let all: u64 = intervals.iter().skip(1).map(|i| i.done).sum();
    CellRecord {
        index,
        repeat: 1,
        variant: variant.into(),
        workload: workload.into(),
        step: Step::Threads(threads),
        clients: threads,
        kind: CellKind::Ladder,
        status: CellStatus::Completed,
        reason: None,
        started_at: Some(format!("2026-11-30T12:{:02}:00Z", index % 60)),
        seconds: 130.0,
        think_time_ms: 0.0,
        per_client: (0..threads)
            .map(|t| all / u64::from(threads) + u64::from(t % 2))
            .collect(),
        outage_seconds: 0.0,
        recovery_seconds: None,
        statements: vec![
            StatementRecord {
                class: "point_select".into(),
                count: all * 10,
                avg: Some(Millis(0.41)),
                p95: Some(Millis(1.2)),
                p99: Some(Millis(2.3)),
                max: Some(Millis(31.0)),
            },
            StatementRecord {
                class: "delete".into(),
                count: all,
                avg: Some(Millis(0.9)),
                p95: None,
                p99: None,
                max: None,
            },
        ],
        client: ClientUsage {
            user_seconds: 12.5,
            system_seconds: 4.25,
            resident: Bytes(24 << 20),
            busiest_worker: Ratio(0.12),
            lateness_p99: Some(Millis(0.05)),
            lateness_max: Some(Millis(1.5)),
        },
        differences: Vec::new(),
        evidence: capbench::record::CellEvidence::default(),
        intervals,
        server: Vec::new(),
        host: Vec::new(),
        merged: Merged::default(),
    }
}

fn variables() -> BTreeMap<String, String> {
    [
        ("innodb_buffer_pool_size", "134217728"),
        ("innodb_log_file_size", "100663296"),
        ("innodb_flush_log_at_trx_commit", "1"),
        ("sync_binlog", "0"),
        ("innodb_flush_method", "O_DIRECT"),
        ("innodb_io_capacity", "200"),
        ("innodb_io_capacity_max", "2000"),
        ("innodb_doublewrite", "ON"),
        ("max_connections", "400"),
        ("max_prepared_stmt_count", "16382"),
        ("table_open_cache", "2000"),
        ("log_bin", "OFF"),
        ("binlog_format", "MIXED"),
        ("performance_schema", "OFF"),
        ("thread_handling", "one-thread-per-connection"),
        ("tx_isolation", "REPEATABLE-READ"),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .collect()
}

fn raised_limit() -> AppliedSetting {
    AppliedSetting {
        name: "max_connections".into(),
        before: Some("151".into()),
        asked: "400".into(),
        took: Some("400".into()),
    }
}

/// A run without cells.
pub(crate) fn run() -> Run {
    Run {
        format: capbench::store::FORMAT,
        tool: "0.1.0".into(),
        name: "orders-db, new instance before cut-over".into(),
        plan_sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".into(),
        command: "capbench plans/orders.toml".into(),
        seed: 42,
        started_at: "2026-11-30T11:58:00Z".into(),
        ended_at: Some("2026-11-30T12:21:30Z".into()),
        end: RunEnd::Completed,
        environment: vec![
            ("instance".into(), "prod-new-1, 16C32G, SSD".into()),
            ("generator".into(), "bench-1, 8C16G, same rack".into()),
        ],
        server: Some(ServerIdentity {
            flavour: Flavour::MariaDb,
            version: "10.11.14-MariaDB-0+deb12u2".into(),
            comment: "Debian 12".into(),
            uuid: Some("qfKT9SXJwWYVYgFPUn5pDzs2J3Y=".into()),
            address: "10.0.0.5:3306".into(),
            local: false,
            tls: "TLSv1.3 TLS_AES_256_GCM_SHA384".into(),
            round_trip: Millis(0.212),
            variables: variables(),
        }),
        host: HostFacts {
            name: "bench-1".into(),
            system: "Linux 6.1.0-26-amd64, Debian GNU/Linux 12".into(),
            cpu: "AMD EPYC 7B13".into(),
            cores: 8,
            memory: Bytes(16 << 30),
            stolen: Some(Ratio(0.001)),
        },
        dataset: Some(DatasetFacts {
            tables: 16,
            rows: 125_000,
            bytes: Bytes(402_653_184),
            buffer_pool: Bytes(134_217_728),
            load_seconds: Some(41.5),
            compared: None,
            origin: "loaded".into(),
        }),
        settings: vec![raised_limit()],
        variants: vec![VariantRecord {
            name: "baseline".into(),
            settings: Vec::new(),
            restarted: false,
            differs: BTreeMap::new(),
            several: false,
        }],
        workloads: vec![WorkloadRecord {
            name: "oltp_read_write".into(),
            description: "reads and writes of an OLTP transaction".into(),
            mix: vec![
                "10 × point_select: SELECT c FROM sbtest{table} WHERE id=?".into(),
                "1 × delete: DELETE FROM sbtest{table} WHERE id=?".into(),
            ],
        }],
        protocol: "prepared".into(),
        access: "uniform over all row ids".into(),
        open: None,
        discard: span("10s"),
        measure: span("120s"),
        interval: span("10s"),
        repeats: 1,
        warmup: "oltp_point_select, 60s, 16 threads".into(),
        reset: "before each variant".into(),
        knee_gain: Ratio(0.2),
        house: HouseRule::default(),
        after: AfterLadder::default(),
        criteria: Criteria {
            expected_peak_tps: Some(800.0),
            min_headroom: Some(Ratio(0.3)),
            max_p95: Some(Millis(50.0)),
            max_p99: None,
            min_threads: None,
            max_errors: None,
            at: None,
            soak_held: false,
        },
        warnings: vec![
            Warning {
                name: "single-workload".into(),
                text: "a single workload hides a weak write path".into(),
                accepted: false,
            },
            Warning {
                name: "round-trip".into(),
                text: "a round trip over 0.5 ms is part of every latency".into(),
                accepted: true,
            },
        ],
        resumed: Vec::new(),
        starts: Vec::new(),
        cells: Vec::new(),
        unavailable: Vec::new(),
        evidence: capbench::record::RunEvidence::default(),
    }
}

/// The example of the method: almost linear up to 32 threads, +18 % at 64.
pub(crate) fn knee() -> Run {
    let mut run = run();
    for (index, (threads, tps)) in (1..).zip([
        (8, 530.0),
        (16, 960.0),
        (32, 1550.0),
        (64, 1830.0),
        (128, 1840.0),
    ]) {
        run.cells
            .push(cell(index, "baseline", "oltp_read_write", threads, tps));
    }
    run
}

/// An open-loop cell at `rate`; above `capacity` the backlog fills and arrivals are dropped.
pub(crate) fn open_cell(index: u32, rate: f64, capacity: f64) -> CellRecord {
    let clients = 256;
    let mut cell = cell(
        index,
        "baseline",
        "oltp_read_write",
        clients,
        rate.min(capacity),
    );
    cell.step = Step::Rate(PerSecond(rate));
    for i in &mut cell.intervals {
        i.arrivals = (rate * 10.0) as u64;
        i.dropped = if rate > capacity {
            i.arrivals.saturating_sub(i.done)
        } else {
            0
        };
        i.backlog = if i.dropped > 0 { 1000 } else { 3 };
        i.service = Some(latency(i.done, 5.0, 25.0));
        i.latency = if i.dropped > 0 {
            latency(i.done, 400.0, 900.0)
        } else {
            latency(i.done, 5.0, 30.0)
        };
    }
    cell
}

pub(crate) fn open_loop() -> Run {
    let mut run = run();
    run.open = Some(OpenLoop {
        clients: 256,
        arrivals: Arrivals::Poisson,
        backlog: 1000,
    });
    for (index, rate) in (1..).zip([500.0, 1000.0, 2000.0]) {
        run.cells.push(open_cell(index, rate, 1400.0));
    }
    run
}

/// A run as a server with hot rows gives it: the source of `tests/fixtures/run-hot-rows`.
pub(crate) fn recorded() -> Run {
    let mut run = knee();
    run.name = "recorded run for the tests".into();
    run.unavailable = vec!["INNODB_METRICS: access denied (1227)".into()];
    for cell in &mut run.cells {
        let threads = f64::from(cell.clients);
        let mut waited = 0.0;
        let mut questions = 0.0;
        for (n, interval) in (0_u32..).zip(&mut cell.intervals) {
            let at = f64::from(n) * 10.0;
            cell.server.push(sample(
                at,
                &[
                    ("questions", questions),
                    ("innodb_row_lock_time", waited),
                    ("threads_running", threads * 0.8),
                ],
            ));
            cell.host.push(sample(
                at,
                &[
                    ("cpus", 8.0),
                    ("cpu_user_seconds", at * 3.0),
                    ("cpu_system_seconds", at),
                    ("cpu_idle_seconds", at * 4.0),
                ],
            ));
            questions += interval.queries() as f64;
            waited += threads * threads * 10.0 * 7.5;
            interval.latency = skewed(interval.done, threads / (interval.done as f64 / 10.0) * 1e9);
        }
    }
    run
}

/// `count` latencies with a long tail around `mean` nanoseconds, always the same.
pub(crate) fn skewed(count: u64, mean: f64) -> Latency {
    let mut latency = Latency::new();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..count {
        let mut factor = 1.0;
        for _ in 0..3 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            factor *= 0.5 + (state >> 11) as f64 / (1_u64 << 53) as f64;
        }
        latency.record((mean * factor) as u64);
    }
    latency
}
