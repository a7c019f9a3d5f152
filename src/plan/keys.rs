//! The one table of all keys of a plan. It feeds the reader, the messages, `plans/reference.toml`
//! and `docs/plan.md`; a default stands here and nowhere else.

use super::key::{Key, Section, key, section};
use super::kind::{Kind, UNLIMITED};

/// All tables, in the order of the reference plan.
pub static SECTIONS: &[Section] = &[
    section("", "What the test is called and how it goes on."),
    section(
        "environment",
        "Free keys; they go into the report word for word. Say what a reader in a year will ask: instance size, disk, load machine, network, who.",
    ),
    section(
        "target",
        "The server under test: `host` or `socket` for a server that someone runs, or [target.managed] for a private one.",
    ),
    section(
        "target.admin",
        "A second account, for control connections: it creates the tables, reads the status and sets the variables, while the load's account has no administrative rights (a SUPER account bypasses read_only and the connection limit, which would falsify the test). Without it `user` does both.",
    )
    .commented(),
    section(
        "target.hooks",
        "Shell commands that change a server that is not capbench's own.",
    )
    .commented(),
    section(
        "target.probe",
        "How the server's own host is read while load runs, when it is not this machine: CPU by state, run queue, pressure, disks, network, memory. Without it a server elsewhere shows only what its own counters tell, and many bottlenecks stay \"unknown: signals missing\". State `url` or `command`.",
    )
    .commented(),
    section(
        "target.managed",
        "Instead of host, socket and accounts: capbench starts a private server in a temporary folder, on loopback, and removes it at the end.",
    )
    .commented(),
    section(
        "replica",
        "One table per replica of the server under test whose lag is watched while load runs. It needs an account with REPLICATION CLIENT (MariaDB: REPLICA MONITOR).",
    )
    .array()
    .commented(),
    section(
        "dataset",
        "The tables, as sysbench makes them. Size them at 2 to 3 times the buffer pool or more; less measures memory, not the database.",
    ),
    section(
        "warmup",
        "Load that is not measured, before each variant's ladder and whenever data was put back for a cell: a cold cache reads as a slow server.",
    ),
    section(
        "ladder",
        "What is measured: each workload climbs the steps, small first. Give `threads` (closed loop: so many active sessions) or `rates` (open loop: so many arrivals a second).",
    ),
    section("access", "How row ids are drawn."),
    section("load", "How the load is sent."),
    section(
        "workload",
        "Options of the workload templates, for example `point_selects = 10`, `range_size = 100`, `skip_trx = true`; `capbench workload show NAME` prints a workload as it is run.",
    ),
    section(
        "variant",
        "One table per variant of the server's settings; the first is the baseline. Without any, the server is measured as it is. Change one variable per variant: two changes at once explain nothing.",
    )
    .array()
    .commented(),
    section(
        "soak",
        "A load that is held after the ladder, on the baseline, slightly below the knee: peaks are bursts, and a mean over 300s hides a decline. State the table to have it run.",
    )
    .commented(),
    section(
        "guard",
        "Limits that end the ladder at once. The load is real: set them on any server that matters.",
    ),
    section(
        "criteria",
        "What the release needs; each stated criterion passes or fails in the report and in the exit code.",
    ),
    section("analysis", "Policy of the analysis."),
    section("report", "How the report is written."),
];

const ANY: i64 = i64::MAX;
/// Upper bound of clients: more connections than one load address has ports are no plan.
const CLIENTS: i64 = 60_000;

/// All keys, in the order of the reference plan.
pub static KEYS: &[Key] = &[
    // top level
    key("name", Kind::Text, "What the test is called. The run folder is named after it.")
        .required("\"reference\""),
    key(
        "seed",
        Kind::Integer { min: 0, max: ANY },
        "Seed of all random streams: the same plan asks the same questions next year.",
    )
    .default("42"),
    key(
        "accept",
        Kind::Texts,
        "Names of warnings that are known and accepted; they stay in the report, marked as accepted.",
    )
    .default("[]"),
    key(
        "on_failure",
        Kind::Choice(&["next-ladder", "stop", "continue"]),
        "After a failed cell: leave out the higher steps of its ladder, end the run, or go on with the next cell.",
    )
    .default("\"next-ladder\""),
    // environment
    key("environment", Kind::Strings, "Free keys.")
        .optional("{ instance = \"db-1, 16 cores, 32 GB, NVMe\" }", "nothing is stated"),
    // target
    key("target.host", Kind::Text, "Host name or address. Not together with `socket`.")
        .required("\"127.0.0.1\"")
    .unless("`socket` or [target.managed]"),
    key("target.port", Kind::Integer { min: 1, max: 65_535 }, "TCP port.").default("3306"),
    key(
        "target.socket",
        Kind::Path,
        "Path of a Unix socket, instead of `host`. Generator and server then share one machine.",
    )
    .optional("\"/run/mysqld/mysqld.sock\"", "TCP"),
    key(
        "target.user",
        Kind::Text,
        "Account of the load; it needs no administrative rights.",
    )
    .optional("\"bench\"", "[client] of `defaults_file`, or of ~/.my.cnf, names it"),
    key(
        "target.password_env",
        Kind::Text,
        "Environment variable that holds the password. A password itself never stands in a plan.",
    )
    .optional("\"CAPBENCH_PASSWORD\"", "no password when `user` is stated"),
    key(
        "target.password_file",
        Kind::Path,
        "File whose first line is the password.",
    )
    .optional("\"secrets/bench\"", "see `password_env`"),
    key(
        "target.defaults_file",
        Kind::Path,
        "MySQL option file; its [client] group gives the password, and the user where none is stated.",
    )
    .optional("\"~/.my.cnf\"", "~/.my.cnf when no `user` is stated"),
    key(
        "target.tls",
        Kind::Choice(&["disabled", "preferred", "required", "verify-ca", "verify-identity"]),
        "Encryption of all connections, in the words of MySQL's --ssl-mode.",
    )
    .default("\"preferred\""),
    key(
        "target.tls_ca",
        Kind::Path,
        "Certificate authority (PEM) that the verify modes check against.",
    )
    .optional("\"certs/ca.pem\"", "the public authorities"),
    key(
        "target.database",
        Kind::Text,
        "Database of the tables. capbench drops only tables that it made itself.",
    )
    .default("\"capbench\""),
    key(
        "target.set",
        Kind::Settings,
        "Global variables set for the whole run and put back at its end, such as limits that would stop the load. Sizes may have a unit (\"16GiB\"). A variant that sets the same variable wins.",
    )
    .optional("{ max_connections = 1000, max_prepared_stmt_count = 100_000 }", "nothing is set"),
    key(
        "target.connect_timeout",
        Kind::Duration { min: 0.1 },
        "Time limit of a control connection's connect; a control statement may take as long as `start_timeout`, and one of the loading as long as it does, unless a new connection gets no answer within this limit either. Also how long loading waits for a table that another session holds.",
    )
    .default("\"10s\""),
    key(
        "target.start_timeout",
        Kind::Duration { min: 1.0 },
        "How long a server that starts or restarts may take until it answers (recovery and loading of the buffer pool included).",
    )
    .default("\"300s\""),
    // target.admin
    key("target.admin.user", Kind::Text, "Account of the control connections.")
        .optional("\"bench_admin\"", "the option file names it"),
    key(
        "target.admin.password_env",
        Kind::Text,
        "Environment variable that holds its password.",
    )
    .optional("\"CAPBENCH_ADMIN_PASSWORD\"", "no password when `user` is stated"),
    key("target.admin.password_file", Kind::Path, "File whose first line is its password.")
        .optional("\"secrets/bench_admin\"", "see `password_env`"),
    key("target.admin.defaults_file", Kind::Path, "MySQL option file for this account.")
        .optional("\"admin.cnf\"", "~/.my.cnf when no `user` is stated"),
    // target.hooks
    key(
        "target.hooks.apply",
        Kind::Text,
        "Applies a variant's start-up options. Receives CAPBENCH_VARIANT and CAPBENCH_OPTIONS (space separated --name=value; empty for a variant without options, which undoes the former one's).",
    )
    .optional("\"./apply-options.sh\"", "variants with `options` need `operator = true`"),
    key("target.hooks.restart", Kind::Text, "Restarts the server.").optional(
        "\"ssh db sudo systemctl restart mysql\"",
        "variants with `restart` need `operator = true`",
    ),
    // target.probe
    key(
        "target.probe.url",
        Kind::Text,
        "Address of a node_exporter on the server's host, plain HTTP; read once an interval.",
    )
    .optional("\"http://10.0.0.5:9100/metrics\"", "`command`, or no probe"),
    key(
        "target.probe.command",
        Kind::Text,
        "Shell command that prints /proc files of the server's host, run once an interval, at most 5 s long. `tail -n +1` also tells the pressure files apart, `cat` does not.",
    )
    .optional(
        "\"ssh db tail -n +1 /proc/stat /proc/loadavg /proc/meminfo /proc/diskstats /proc/net/dev /proc/net/snmp /proc/pressure/cpu /proc/pressure/io\"",
        "`url`, or no probe",
    ),
    // replica
    key("replica.name", Kind::Text, "Name in the report; unique.")
        .optional("\"replica-1\"", "host and port"),
    key("replica.host", Kind::Text, "Host name or address.").required("\"10.0.0.6\""),
    key("replica.port", Kind::Integer { min: 1, max: 65_535 }, "TCP port.").default("3306"),
    key("replica.user", Kind::Text, "Account on the replica.")
        .optional("\"bench_admin\"", "the account of [target.admin], else of [target], with its password"),
    key(
        "replica.password_env",
        Kind::Text,
        "Environment variable that holds its password.",
    )
    .optional("\"CAPBENCH_REPLICA_PASSWORD\"", "no password when `user` is stated"),
    key("replica.password_file", Kind::Path, "File whose first line is its password.")
        .optional("\"secrets/replica\"", "see `password_env`"),
    key("replica.defaults_file", Kind::Path, "MySQL option file for this account.")
        .optional("\"replica.cnf\"", "see `password_env`"),
    // target.managed
    key(
        "target.managed.binary",
        Kind::Path,
        "Server program. A bare name is looked up in PATH and the usual sbin folders.",
    )
    .optional("\"mariadbd\"", "the first of mariadbd and mysqld found"),
    key(
        "target.managed.directory",
        Kind::Path,
        "Folder under which the server's temporary folder is made; needs room for the data.",
    )
    .optional("\"/var/tmp\"", "the system's temporary folder"),
    key(
        "target.managed.options",
        Kind::Options,
        "Start-up options of all variants.",
    )
    .optional("{ innodb_buffer_pool_size = \"128MiB\" }", "the server's defaults"),
    key(
        "target.managed.cache",
        Kind::Boolean,
        "Keep the loaded data under the user's cache folder (~/.cache/capbench; see `capbench cache`), from where later runs of the same data on the same server program take it instead of loading it. The environment says where (CAPBENCH_CACHE_DIR) and how much (CAPBENCH_CACHE_SIZE, 20GiB).",
    )
    .default("true"),
    // dataset
    key("dataset.tables", Kind::Integer { min: 1, max: 1_000_000 }, "Number of tables.").default("16"),
    key(
        "dataset.size",
        Kind::DataSize,
        "All data and indexes together: a multiple of the buffer pool (the largest among the variants, resolved once for the whole plan) or a size. Not together with `rows`.",
    )
    .default("\"3x buffer_pool\""),
    key(
        "dataset.rows",
        Kind::Integer { min: 1, max: ANY },
        "Rows per table, instead of `size`.",
    )
    .optional("1_000_000", "`size` decides"),
    key(
        "dataset.load_threads",
        Kind::Integer { min: 1, max: 1024 },
        "Connections that load at the same time. Loading is load too.",
    )
    .default("8"),
    key(
        "dataset.load_rate",
        Kind::Integer { min: 1, max: ANY },
        "Most rows per second that are loaded, all tables together. [guard] watches the load too: outside its window it ends, over `max_server_cpu` it pauses; the next run continues it.",
    )
    .optional("50_000", "as fast as it goes"),
    key(
        "dataset.binlog",
        Kind::Choice(&["logged", "unlogged"]),
        "Whether the load goes through the binary log; must be said where replicas follow the server or cannot be seen. \"logged\": they get it too. \"unlogged\" (sql_log_bin = 0, a privilege of the control account): they do not, so workloads may only read.",
    )
    .optional("\"logged\"", "as the server does it, and replicas are refused"),
    key(
        "dataset.reset",
        Kind::Choice(&["never", "per-variant", "per-cell"]),
        "When data that a workload changed is put back to its first state. With `existing = true` only \"never\", and that is then the default.",
    )
    .default("\"per-variant\""),
    key(
        "dataset.existing",
        Kind::Boolean,
        "Accept tables that something else made (sysbench), after checking them.",
    )
    .default("false"),
    key(
        "dataset.change_existing",
        Kind::Boolean,
        "With `existing = true`: let workloads write to those tables. It changes data that capbench did not make and cannot put back.",
    )
    .default("false"),
    key(
        "dataset.keep",
        Kind::Boolean,
        "Leave the tables in place at the end, for the next run (`capbench cleanup` removes them). A private server goes with its data either way.",
    )
    .default("true"),
    key("dataset.auto_inc", Kind::Boolean, "AUTO_INCREMENT on `id`.").default("true"),
    key(
        "dataset.secondary_index",
        Kind::Boolean,
        "The index on `k` (sysbench's create_secondary).",
    )
    .default("true"),
    key(
        "dataset.secondary",
        Kind::Boolean,
        "KEY xid(id) instead of a primary key (sysbench's secondary).",
    )
    .default("false"),
    key("dataset.table_options", Kind::Text, "Appended to CREATE TABLE.").default("\"\""),
    key("dataset.engine", Kind::Text, "Storage engine.").default("\"InnoDB\""),
    // warmup
    key(
        "warmup.workload",
        Kind::Text,
        "Workload of the warm-up: a built-in name or a path ending in .toml.",
    )
    .default("\"oltp_point_select\""),
    key("warmup.duration", Kind::Duration { min: 0.0 }, "How long; \"0s\": no warm-up.").default("\"60s\""),
    key(
        "warmup.until_level",
        Kind::Boolean,
        "Go on after `duration` until the pages that InnoDB reads from its files per second are level over five intervals, or until `limit`.",
    )
    .default("false"),
    key(
        "warmup.limit",
        Kind::Duration { min: 0.0 },
        "With `until_level`: the longest warm-up.",
    )
    .default("\"900s\""),
    key(
        "warmup.settle",
        Kind::Duration { min: 0.0 },
        "Before the warm-up, after data was loaded or put back: how long to wait for each of the buffer pool's own loading, dirty pages, the history list and replica lag to come down; \"0s\": nothing is waited for.",
    )
    .default("\"60s\""),
    key(
        "warmup.threads",
        Kind::Integer { min: 1, max: CLIENTS },
        "Concurrent clients of the warm-up.",
    )
    .default("8"),
    // ladder
    key(
        "ladder.workloads",
        Kind::Texts,
        "Built-in names (`capbench workload list`) or paths ending in .toml, relative to the plan. Readers before writers, since writers change the data; a mixed load alone hides a weak write path.",
    )
    .required("[\"oltp_read_only\", \"oltp_read_write\", \"oltp_write_only\"]"),
    key(
        "ladder.threads",
        Kind::Integers { min: 1, max: CLIENTS },
        "Closed loop: concurrent active clients of each step, ascending, small first. Not together with `rates`.",
    )
    .required("[8, 16, 32, 64, 128]")
    .unless("`rates`"),
    key(
        "ladder.rates",
        Kind::Rates,
        "Open loop, instead of `threads`: transactions per second that arrive, whether or not the server keeps up; ascending.",
    )
    .optional("[500, 1000, 2000]", "closed loop"),
    key(
        "ladder.clients",
        Kind::Integer { min: 1, max: CLIENTS },
        "Open loop: connections that share the rate.",
    )
    .default("256"),
    key(
        "ladder.arrivals",
        Kind::Choice(&["poisson", "even"]),
        "Open loop: exponential gaps between arrivals, as independent users make, or equal ones.",
    )
    .default("\"poisson\""),
    key(
        "ladder.backlog",
        Kind::Integer { min: 1, max: 10_000_000 },
        "Open loop: arrivals that may wait for a free client; further ones are dropped and counted.",
    )
    .default("100_000"),
    key(
        "ladder.discard",
        Kind::Duration { min: 0.0 },
        "Start of each cell that is shown but not counted, after all clients are connected.",
    )
    .default("\"10s\""),
    key(
        "ladder.measure",
        Kind::Duration { min: 0.1 },
        "Measured time of a cell, after `discard`. Under 120s a checkpoint or flush cycle decides the result by chance.",
    )
    .default("\"300s\""),
    key(
        "ladder.until_steady",
        Kind::Duration { min: 1.0 },
        "Longest measured time of a step that is not steady at the end of `measure`: it is then made longer, interval by interval, until it is steady or this long. Closed loop and open loop alike.",
    )
    .optional("\"900s\"", "a step that is not steady stays as it is, and says so"),
    key(
        "ladder.events",
        Kind::Integer { min: 1, max: ANY },
        "A cell also ends after this many transactions.",
    )
    .optional("1_000_000", "time alone ends a cell"),
    key(
        "ladder.interval",
        Kind::Duration { min: 0.1 },
        "Length of an interval: one line of progress, one row in intervals.csv, one reading of the server.",
    )
    .default("\"10s\""),
    key(
        "ladder.repeats",
        Kind::Integer { min: 1, max: 1000 },
        "Passes over all variants, in ABBA order. A comparison needs 3 or more; one pass only says \"inconclusive\" or \"beyond noise\".",
    )
    .default("1"),
    key(
        "ladder.reference",
        Kind::Boolean,
        "With variants: when the last pass does not end with the baseline, measure the baseline once more at its knee (variant applied, data reset, caches warmed as for a visit). What it moved by is drift, and no smaller effect is claimed.",
    )
    .default("true"),
    key(
        "ladder.refine",
        Kind::Boolean,
        "Once the ladder is climbed, run the baseline's steps that decide the knee: those between it and its neighbours, then it and its neighbours again until their 95 % intervals are within 3 %. Closed loop only.",
    )
    .default("false"),
    key(
        "ladder.refine_budget",
        Kind::Duration { min: 0.1 },
        "Time that refining may take; a step is begun only when it ends in time.",
    )
    .default("\"30m\""),
    // access
    key(
        "access.distribution",
        Kind::Choice(&["uniform", "special", "gaussian", "pareto", "zipfian"]),
        "Distribution over row ids. All but uniform raise the buffer-pool hit rate; \"special\" was sysbench 1.0's default.",
    )
    .default("\"uniform\""),
    key(
        "access.special_pct",
        Kind::Integer { min: 1, max: 100 },
        "special: size of the hot range in percent of the ids.",
    )
    .default("1"),
    key(
        "access.special_res",
        Kind::Integer { min: 1, max: 100 },
        "special: share of the hits that fall into the hot range, in percent.",
    )
    .default("75"),
    key(
        "access.pareto_h",
        Kind::Number { min: 0.001, max: 0.499 },
        "pareto: the lowest share h of the ids takes the share 1−h of the hits.",
    )
    .default("0.2"),
    key(
        "access.zipfian_theta",
        Kind::Number { min: 0.0, max: 10.0 },
        "zipfian: exponent; 0 is uniform, 0.99 is YCSB's.",
    )
    .default("0.8"),
    key(
        "access.scrambled",
        Kind::Boolean,
        "zipfian: spread the hot ids over the table instead of side by side.",
    )
    .default("false"),
    // load
    key(
        "load.protocol",
        Kind::Choice(&["prepared", "text"]),
        "Server-side prepared statements, or SQL text with the values in it. Use what the application uses.",
    )
    .default("\"prepared\""),
    key(
        "load.retries",
        Kind::Integer { min: 0, max: 1_000_000 },
        "Further attempts of a transaction that lost a deadlock or a lock wait (1213, 1020, 1205), with the same parameters; the time counts in its latency. Bounded, since an endless retry hides a hot spot: one that loses 11 times counts as failed.",
    )
    .default("10"),
    key(
        "load.workers",
        Kind::Integer { min: 0, max: 1024 },
        "Worker threads of the load engine; 0: one per core.",
    )
    .default("0"),
    key(
        "load.max_prepared_per_connection",
        Kind::Integer { min: 0, max: 1_000_000 },
        "Prepared statements that one connection may hold at once; 0: as many as the workload has. oltp_read_write has 9 per table.",
    )
    .default("1000"),
    key(
        "load.connect_timeout",
        Kind::Duration { min: 0.1 },
        "Time limit for connecting all clients of a cell.",
    )
    .default("\"30s\""),
    key(
        "load.drain_timeout",
        Kind::Duration { min: 0.0 },
        "How long transactions in flight may take after a cell's end before their queries are killed and the cell counts as truncated.",
    )
    .default("\"10s\""),
    key(
        "load.reconnect_backoff",
        Kind::Duration { min: 0.01 },
        "Longest pause between two attempts of a client to connect again after a loss.",
    )
    .default("\"1s\""),
    // workload
    key("workload", Kind::WorkloadOptions, "Options of the templates.")
        .optional("{ point_selects = 10, range_size = 100 }", "the templates' defaults"),
    // variant
    key("variant.name", Kind::Text, "Name in the report; unique.").required("\"buffer pool 16G\""),
    key(
        "variant.set",
        Kind::Settings,
        "Variables that it sets: SET GLOBAL where the variable is dynamic, a persistent setting or start-up option where it is not. Sizes may have a unit.",
    )
    .optional("{ innodb_buffer_pool_size = \"16GiB\" }", "nothing"),
    key(
        "variant.options",
        Kind::Options,
        "Start-up options that it needs, on a private server, through hooks.apply, or by an operator.",
    )
    .optional("[\"skip-log-bin\"]", "nothing"),
    key(
        "variant.restart",
        Kind::Boolean,
        "Restart the server once it is applied.",
    )
    .optional("true", "only when it has `options` and the server can be restarted"),
    key(
        "variant.operator",
        Kind::Boolean,
        "A person applies it: capbench pauses, then verifies.",
    )
    .default("false"),
    key(
        "variant.several",
        Kind::Boolean,
        "Several variables are moved at once, and that is meant.",
    )
    .default("false"),
    // soak
    key(
        "soak.threads",
        Kind::SoakLevel,
        "Concurrent clients, or a share of the knee (with `rates`: of the highest rate held), never above the recommended limit. A knee that was not reached counts as the highest step.",
    )
    .default("\"80% knee\""),
    key(
        "soak.workload",
        Kind::Text,
        "Which of the ladder's workloads.",
    )
    .optional("\"oltp_read_write\"", "the one that decides the limit"),
    key(
        "soak.duration",
        Kind::Duration { min: 0.1 },
        "How long. 600s at least shows a steady decline; one in steps shows after 30m or more, and a shorter soak says so.",
    )
    .default("\"600s\""),
    // guard
    key("guard.max_p95", Kind::Latency, "Ends the ladder when p95 of an interval is above it.")
        .optional("\"500ms\"", "no limit"),
    key(
        "guard.max_errors",
        Kind::Ratio { max: 1.0, zero: true },
        "Ends the ladder when more than this share of the transactions fails.",
    )
    .optional("\"1%\"", "no limit"),
    key(
        "guard.max_server_cpu",
        Kind::Ratio { max: 1.0, zero: false },
        "Ends the ladder when the server's host is busier than this.",
    )
    .optional("\"95%\"", "no limit"),
    key(
        "guard.window",
        Kind::Window,
        "Local time of day in which load may run; it ends at the end of the window.",
    )
    .optional("\"22:00-06:00\"", "any time"),
    key(
        "guard.max_threads_running",
        Kind::Integer { min: 1, max: ANY },
        "Ends the ladder when Threads_running of the server is above this.",
    )
    .optional("200", "no limit"),
    key(
        "guard.max_slow_queries",
        Kind::Number { min: 0.0, max: UNLIMITED },
        "Ends the ladder when the server counts more slow queries per second (Slow_queries, longer than long_query_time) than this.",
    )
    .optional("1", "no limit"),
    key(
        "guard.max_replica_lag",
        Kind::Duration { min: 0.0 },
        "Ends the ladder when the server, a replica itself, is further behind its source than this.",
    )
    .optional("\"10s\"", "no limit"),
    key(
        "guard.max_disk_utilisation",
        Kind::Ratio { max: 1.0, zero: false },
        "Ends the ladder when the disk of the server's data directory is busier than this; seen only on the server's own host.",
    )
    .optional("\"95%\"", "no limit"),
    key(
        "guard.min_disk_free",
        Kind::Ratio { max: 1.0, zero: false },
        "Ends the ladder when less than this share of the file system of the server's data directory is free; seen only on the server's own host.",
    )
    .optional("\"10%\"", "no limit"),
    key(
        "guard.acknowledge",
        Kind::Texts,
        "Dangers that are known and taken on; each other one refuses the run before anything is changed. Names: other-clients, unseen-clients, other-schemas, unseen-schemas, replicas, unseen-replicas, is-replica, unseen-source, read-only, backup, unseen-backup, low-disk, unseen-disk, foreign-tables, unseen-limits.",
    )
    .default("[]"),
    // criteria
    key(
        "criteria.expected_peak_tps",
        Kind::Number { min: 0.001, max: UNLIMITED },
        "Transactions per second at the expected peak.",
    )
    .optional("1200", "not tested"),
    key(
        "criteria.min_headroom",
        Kind::Ratio { max: 100.0, zero: true },
        "Room that the recommended limit must leave above `expected_peak_tps`.",
    )
    .optional("\"30%\"", "not tested"),
    key(
        "criteria.max_p95",
        Kind::Latency,
        "Highest p95 at the recommended limit, which it lowers where needed; or at the step `at`.",
    )
    .optional("\"50ms\"", "not tested"),
    key(
        "criteria.max_p99",
        Kind::Latency,
        "Highest p99 at the recommended limit, or at the step `at`.",
    )
    .optional("\"100ms\"", "not tested"),
    key(
        "criteria.at",
        Kind::Number { min: 0.001, max: UNLIMITED },
        "Step of the ladder (threads, or the rate) at which `max_p95` and `max_p99` are judged. They then lower no limit.",
    )
    .optional("64", "the recommended limit"),
    key(
        "criteria.min_threads",
        Kind::Integer { min: 1, max: CLIENTS },
        "Smallest recommended limit that is good enough.",
    )
    .optional("64", "not tested"),
    key(
        "criteria.max_errors",
        Kind::Ratio { max: 1.0, zero: true },
        "Highest share of failed transactions up to the recommended limit.",
    )
    .optional("\"0.1%\"", "not tested"),
    key(
        "criteria.soak_held",
        Kind::Boolean,
        "The soak must hold: no decline of throughput, no rise of p95. Needs [soak].",
    )
    .default("false"),
    // analysis
    key(
        "analysis.knee_gain",
        Kind::Ratio { max: 1.0, zero: false },
        "Gain in throughput per doubling of threads below which more threads do not pay. A policy: 20% is the usual rule of thumb.",
    )
    .default("\"20%\""),
    key(
        "analysis.keep_gain",
        Kind::Ratio { max: 1.0, zero: false },
        "The rule of the house: a variant is kept when throughput gains at least this, beyond noise and drift, and p95 is not worse beyond noise.",
    )
    .default("\"3%\""),
    key(
        "analysis.smallest_tps",
        Kind::Ratio { max: 1.0, zero: false },
        "Smallest change of throughput that matters: less is neither better nor worse, and two variants proved to lie within it are equivalent. 3% suits a cloud.",
    )
    .default("\"2%\""),
    key(
        "analysis.smallest_p95",
        Kind::Ratio { max: 1.0, zero: false },
        "The same for the 95th percentile.",
    )
    .default("\"5%\""),
    // report
    key(
        "report.template",
        Kind::Path,
        "A template of your own (minijinja) for report.md.",
    )
    .optional("\"templates/report.md.j2\"", "the built-in one"),
];

/// The key of this full path.
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|k| k.path == path)
}

/// The table of this full path.
pub fn section_of(path: &str) -> Option<&'static Section> {
    SECTIONS.iter().find(|s| s.path == path)
}

/// Names that may stand in the table of this path: its keys and its tables.
pub fn names_in(section: &str) -> Vec<&'static str> {
    let keys = KEYS
        .iter()
        .filter(|k| k.section() == section)
        .map(Key::name);
    let tables = SECTIONS
        .iter()
        .filter_map(|s| match s.path.rsplit_once('.') {
            Some((head, name)) => (head == section).then_some(name),
            None => (section.is_empty() && !s.path.is_empty()).then_some(s.path),
        });
    let mut names: Vec<&'static str> = keys.chain(tables).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn every_key_lies_in_a_section_once() {
        let mut seen = std::collections::BTreeSet::new();
        for key in KEYS {
            assert!(seen.insert(key.path), "{} twice", key.path);
            let holder = if section_of(key.path).is_some() {
                key.path
            } else {
                key.section()
            };
            assert!(section_of(holder).is_some(), "{}", key.path);
            assert!(!key.meaning.is_empty() && !key.since.is_empty());
            assert_eq!(
                key.default.is_none(),
                !key.example.is_empty(),
                "{}: either a default or an example",
                key.path
            );
            assert!(
                key.default.is_some() || key.required || !key.absent.is_empty(),
                "{}: says nothing on being absent",
                key.path
            );
        }
    }
}
