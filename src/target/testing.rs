//! Plans for the tests of this module and, included by path, of `tests/target_*.rs`.

use std::time::Duration;

use crate::plan::{
    Account, Address, AnalysisOptions, Criteria, DataSize, Dataset, Guard, Hooks, Ladder,
    LoadOptions, Managed, OnFailure, PasswordSource, Place, Plan, Protocol, ReportOptions, Reset,
    ServerPlace, Setting, SettingValue, Step, Target, Tls, TlsMode, Variant, Warmup,
};
use crate::units::{Ratio, Span};
use crate::workload::{Access, Distribution, Group, Program, Statement, TableLayout, Transaction};

pub(crate) fn setting(name: &str, value: i64) -> Setting {
    Setting {
        name: name.to_owned(),
        value: SettingValue::Integer(value),
    }
}

pub(crate) fn variant(name: &str) -> Variant {
    Variant {
        name: name.to_owned(),
        set: Vec::new(),
        options: Vec::new(),
        restart: false,
        operator: false,
        several: false,
    }
}

pub(crate) fn external(host: &str, user: &str) -> ServerPlace {
    ServerPlace {
        address: Address::Tcp {
            host: host.to_owned(),
            port: 3306,
        },
        account: Account {
            user: Some(user.to_owned()),
            password: PasswordSource::Empty,
        },
        admin: None,
        tls: Tls {
            mode: TlsMode::Preferred,
            ca: None,
        },
        hooks: Hooks::default(),
    }
}

/// A workload of `statements` different statements that name a table.
pub(crate) fn program(name: &str, statements: usize) -> Program {
    Program {
        name: name.to_owned(),
        description: String::new(),
        transactions: vec![Transaction {
            name: "t".to_owned(),
            weight: 1,
            begin: true,
            groups: vec![Group {
                repeat: 1,
                binds: Vec::new(),
                statements: (0..statements)
                    .map(|n| Statement {
                        class: format!("s{n}"),
                        sql: format!("SELECT {n} FROM sbtest{{table}}"),
                        parameters: Vec::new(),
                        text_only: false,
                    })
                    .collect(),
            }],
        }],
        think_time_ms: 0.0,
        tables: TableLayout::Standard,
    }
}

/// A small plan on a private server.
pub(crate) fn plan() -> Plan {
    let span = |seconds| Span(Duration::from_secs(seconds));
    Plan {
        name: "test".to_owned(),
        seed: 1,
        accept: Vec::new(),
        on_failure: OnFailure::Stop,
        environment: Vec::new(),
        target: Target {
            place: Place::Managed(Managed {
                binary: None,
                directory: None,
                options: Vec::new(),
                cache: false,
            }),
            database: "bench".to_owned(),
            set: Vec::new(),
            connect_timeout: span(10),
            start_timeout: span(120),
            probe: None,
        },
        replicas: Vec::new(),
        dataset: Dataset {
            tables: 1,
            size: DataSize::Rows(10),
            load_threads: 1,
            load_rate: None,
            binlog: None,
            reset: Reset::Never,
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
            duration: span(0),
            until_level: false,
            limit: span(0),
            settle: span(0),
            threads: 1,
        },
        ladder: Ladder {
            workloads: vec![program("w", 1)],
            steps: vec![Step::Threads(1)],
            open: None,
            discard: span(0),
            measure: span(1),
            until_steady: None,
            events: None,
            interval: span(1),
            repeats: 1,
            reference: true,
            refine: false,
            refine_budget: span(0),
        },
        access: Access {
            distribution: Distribution::Uniform,
        },
        load: LoadOptions {
            protocol: Protocol::Prepared,
            retries: 0,
            workers: 1,
            max_prepared_per_connection: 0,
            connect_timeout: span(10),
            drain_timeout: span(10),
            reconnect_backoff: span(1),
        },
        variants: vec![variant("baseline")],
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
            house: crate::plan::HouseRule::default(),
        },
        report: ReportOptions::default(),
        warnings: Vec::new(),
    }
}
