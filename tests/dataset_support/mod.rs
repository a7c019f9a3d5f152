//! A server for tests of the data, and a plan against it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a test may fail by panic"
)]

#[allow(dead_code, reason = "not every test looks at rows")]
pub(crate) mod documented;

use std::path::PathBuf;
use std::time::Duration;

use capbench::plan::{
    Account, Address, AnalysisOptions, Criteria, DataSize, Dataset, Guard, Hooks, Ladder,
    LoadOptions, OnFailure, PasswordSource, Place, Plan, Protocol, ReportOptions, Reset,
    ServerPlace, Step, Target, Tls, TlsMode, Variant, Warmup,
};
use capbench::target::{Endpoint, Secret};
use capbench::units::{Ratio, Span};
use capbench::workload::{Access, Distribution};
use mysql::prelude::Queryable;

use crate::support::{Kind, Server};

/// A server whose data is thrown away: it need not be safe.
#[allow(dead_code, reason = "some tests have options of their own")]
pub(crate) fn start(kind: Kind) -> Server {
    start_with(kind, &[])
}

/// The same with more options.
pub(crate) fn start_with(kind: Kind, more: &[&str]) -> Server {
    let mut options = vec![
        "--innodb-buffer-pool-size=64M",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-doublewrite=OFF",
        "--skip-networking",
    ];
    if kind == Kind::MySql {
        options.push("--sync-binlog=0");
    }
    options.extend(more);
    Server::start(kind, &options)
}

/// The administrator's account on it.
pub(crate) fn endpoint(server: &Server) -> Endpoint {
    Endpoint {
        address: Address::Socket(server.socket()),
        user: "root".to_owned(),
        password: Secret::default(),
        database: None,
        tls: Tls {
            mode: TlsMode::Disabled,
            ca: None,
        },
        connect_timeout: Duration::from_secs(10),
        interrupt: capbench::interrupt::Interrupt::new(),
    }
}

/// The first value of the first row as text.
pub(crate) fn value(server: &Server, sql: &str) -> String {
    let value: Option<Option<String>> = server.root().query_first(sql).unwrap();
    value.flatten().unwrap_or_else(|| "NULL".to_owned())
}

fn ladder() -> Ladder {
    Ladder {
        workloads: Vec::new(),
        steps: vec![Step::Threads(2), Step::Threads(5)],
        open: None,
        discard: Span(Duration::ZERO),
        measure: Span(Duration::from_secs(1)),
        until_steady: None,
        events: None,
        interval: Span(Duration::from_secs(1)),
        repeats: 1,
        reference: true,
        refine: false,
        refine_budget: Span::default(),
    }
}

/// A plan with 3 tables of `rows` rows in `database`.
#[allow(clippy::too_many_lines, reason = "a plan has that many keys")]
pub(crate) fn plan(database: &str, rows: u64) -> Plan {
    Plan {
        name: "test".to_owned(),
        seed: 42,
        accept: Vec::new(),
        on_failure: OnFailure::Stop,
        environment: Vec::new(),
        target: Target {
            place: Place::Server(ServerPlace {
                address: Address::Socket(PathBuf::from("unused")),
                account: Account {
                    user: None,
                    password: PasswordSource::Empty,
                },
                admin: None,
                tls: Tls {
                    mode: TlsMode::Disabled,
                    ca: None,
                },
                hooks: Hooks::default(),
            }),
            database: database.to_owned(),
            set: Vec::new(),
            connect_timeout: Span(Duration::from_secs(10)),
            start_timeout: Span(Duration::from_secs(60)),
            probe: None,
        },
        replicas: Vec::new(),
        dataset: Dataset {
            tables: 3,
            size: DataSize::Rows(rows),
            load_threads: 3,
            load_rate: None,
            binlog: None,
            reset: Reset::PerVariant,
            existing: false,
            change_existing: false,
            keep: false,
            auto_inc: true,
            secondary_index: true,
            secondary: false,
            table_options: String::new(),
            engine: "innodb".to_owned(),
        },
        warmup: Warmup {
            workload: None,
            duration: Span(Duration::ZERO),
            until_level: false,
            limit: Span(Duration::ZERO),
            settle: Span(Duration::ZERO),
            threads: 1,
        },
        ladder: ladder(),
        access: Access {
            distribution: Distribution::Uniform,
        },
        load: LoadOptions {
            protocol: Protocol::Prepared,
            retries: 0,
            workers: 0,
            max_prepared_per_connection: 0,
            connect_timeout: Span(Duration::from_secs(10)),
            drain_timeout: Span(Duration::from_secs(1)),
            reconnect_backoff: Span(Duration::from_secs(1)),
        },
        variants: vec![Variant {
            name: "baseline".to_owned(),
            set: Vec::new(),
            options: Vec::new(),
            restart: false,
            operator: false,
            several: false,
        }],
        guard: Guard {
            max_p95: None,
            max_errors: None,
            max_server_cpu: None,
            window: None,
            max_threads_running: None,
            max_slow_queries: None,
            max_replica_lag: None,
            max_disk_utilisation: None,
            min_disk_free: None,
            acknowledge: Vec::new(),
        },
        soak: None,
        criteria: Criteria::default(),
        analysis: AnalysisOptions {
            knee_gain: Ratio(0.2),
            house: capbench::plan::HouseRule::default(),
        },
        report: ReportOptions::default(),
        warnings: Vec::new(),
    }
}
