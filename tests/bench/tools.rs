//! sysbench and capbench, each run once.

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use capbench::plan::Address;

use crate::child::{self, LoadOrder, RunAnswer, RunOrder, Way};
use crate::process::{self, Ended};
use crate::settings::Settings;
use crate::subject::{CLIENT_CORE, DATABASE, Subject};

/// Longest time beyond the measured one.
const PATIENCE: Duration = Duration::from_secs(600);

/// Which tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Sysbench,
    Capbench,
}

/// A throughput measurement.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    pub(crate) tps: f64,
    /// Of the whole process, connecting included.
    pub(crate) cpu_per_query: f64,
    pub(crate) user_per_query: f64,
    pub(crate) process: Ended,
}

/// First line of `sysbench --version`.
pub(crate) fn sysbench_version() -> Result<String> {
    let output = Command::new("sysbench").arg("--version").output().map_err(|_| {
        anyhow!("sysbench is not installed\nhint: sh tests/servers/sysbench.sh, or apt-get install -y sysbench")
    })?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if text.split_whitespace().nth(1) != Some("1.0.20") {
        eprintln!("note: the targets are against sysbench 1.0.20, this is `{text}`");
    }
    Ok(text)
}

/// How one trial is run.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    pub(crate) workload: String,
    pub(crate) clients: u32,
    pub(crate) seconds: u64,
    /// Tells pairs apart: each asks other rows.
    pub(crate) seed: u64,
}

/// Runs `tool` once.
pub(crate) fn measure(
    tool: Tool,
    trial: &Trial,
    settings: &Settings,
    subject: &Subject,
) -> Result<Measured> {
    subject.check_interrupt()?;
    let core = settings.pin.then_some(CLIENT_CORE);
    let limit = Duration::from_secs(trial.seconds) + PATIENCE;
    let way = subject.load_way()?;
    let (ended, tps, queries) = match tool {
        Tool::Sysbench => {
            let options = options_file(&way)?;
            let mut command = process::on_core(OsStr::new("sysbench"), core);
            command
                .arg(&trial.workload)
                .arg(config(&options))
                .args([
                    format!("--tables={}", settings.tables),
                    format!("--table-size={}", settings.rows),
                    format!("--threads={}", trial.clients),
                    format!("--time={}", trial.seconds),
                    format!("--rand-seed={}", trial.seed),
                ])
                .args(["--rand-type=uniform", "--db-ps-mode=auto", "run"]);
            let ended = process::run(&mut command, "", limit)?;
            let figures = Figures::read(&ended.stdout)?;
            (ended, figures.tps, figures.queries)
        }
        Tool::Capbench => {
            let order = RunOrder {
                way,
                plan: subject.plan_text(settings, settings.tables, settings.rows),
                workload: trial.workload.clone(),
                tables: settings.tables,
                rows: settings.rows,
                clients: trial.clients,
                discard: 1.0,
                seconds: trial.seconds as f64,
                seed: trial.seed,
            };
            let ended = ourselves(child::RUN, &serde_json::to_string(&order)?, core, limit)?;
            let answer: RunAnswer = serde_json::from_str(&ended.stdout)?;
            (ended, answer.tps, answer.queries)
        }
    };
    if queries == 0 {
        bail!("{tool:?} made no query in {}", trial.workload);
    }
    Ok(Measured {
        tps,
        cpu_per_query: (ended.user + ended.system) / queries as f64,
        user_per_query: ended.user / queries as f64,
        process: ended,
    })
}

/// Has `tool` prepare `tables` tables of `rows` rows in an empty database; seconds until they answer with
/// their index. `fast`: with a private server's settings for loading, set and put back within that time.
pub(crate) fn prepare(
    tool: Tool,
    fast: bool,
    tables: u32,
    rows: u64,
    settings: &Settings,
    subject: &mut Subject,
) -> Result<f64> {
    subject.check_interrupt()?;
    subject.empty_database()?;
    let way = subject.admin_way()?;
    let started = Instant::now();
    match tool {
        Tool::Sysbench => {
            let options = options_file(&way)?;
            let mut command = Command::new("sysbench");
            command.arg("oltp_read_write").arg(config(&options)).args([
                format!("--tables={tables}"),
                format!("--table-size={rows}"),
                // One table goes to one thread.
                format!("--threads={tables}"),
                "--rand-type=uniform".to_owned(),
                "prepare".to_owned(),
            ]);
            process::run(&mut command, "", PATIENCE)?;
        }
        Tool::Capbench => {
            let order = LoadOrder {
                way,
                plan: subject.plan_text(settings, tables, rows),
                buffer_pool: subject.buffer_pool,
            };
            let order = serde_json::to_string(&order)?;
            let changed = subject.begin_loading(fast)?;
            ourselves(child::LOAD, &order, None, PATIENCE)?;
            subject.end_loading(changed)?;
        }
    }
    subject.answers(tables, rows)?;
    Ok(started.elapsed().as_secs_f64())
}

/// Has sysbench drop its tables; seconds.
pub(crate) fn cleanup(tables: u32, subject: &Subject) -> Result<f64> {
    let options = options_file(&subject.admin_way()?)?;
    let started = Instant::now();
    let mut command = Command::new("sysbench");
    command
        .arg("oltp_read_write")
        .arg(config(&options))
        .args([format!("--tables={tables}"), "cleanup".to_owned()]);
    process::run(&mut command, "", PATIENCE)?;
    Ok(started.elapsed().as_secs_f64())
}

fn ourselves(mode: &str, order: &str, core: Option<usize>, limit: Duration) -> Result<Ended> {
    let program = std::env::current_exe().context("cannot find this program")?;
    process::run(
        process::on_core(program.as_os_str(), core).arg(mode),
        order,
        limit,
    )
}

/// Account and address, kept out of the process list.
fn options_file(way: &Way) -> Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    match &way.address {
        Address::Tcp { host, port } => {
            writeln!(file, "mysql-host={host}\nmysql-port={port}")?;
        }
        Address::Socket(path) => writeln!(file, "mysql-socket={}", path.display())?,
    }
    writeln!(
        file,
        "mysql-user={}\nmysql-password={}\nmysql-db={DATABASE}",
        way.user, way.password
    )?;
    Ok(file)
}

fn config(file: &tempfile::NamedTempFile) -> String {
    format!("--config-file={}", file.path().display())
}

/// What sysbench says at its end.
struct Figures {
    tps: f64,
    queries: u64,
}

impl Figures {
    fn read(output: &str) -> Result<Self> {
        // `    transactions:    1234   (123.45 per sec.)`
        let line = |name: &str| {
            output
                .lines()
                .find_map(|line| line.trim().strip_prefix(name))
                .with_context(|| format!("sysbench did not say `{name}`:\n{output}"))
        };
        let rate = line("transactions:")?;
        let rate = rate.split(['(', ' ']).filter(|w| !w.is_empty()).nth(1);
        let queries = line("queries:")?.split_whitespace().next();
        Ok(Self {
            tps: rate
                .context("transactions")?
                .parse()
                .context("transactions")?,
            queries: queries.context("queries")?.parse().context("queries")?,
        })
    }
}
