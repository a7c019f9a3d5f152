//! What the command does beside driving load: finding the data of a private server again, putting it back, getting to the first query, writing a report. All of it through the command line.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use capbench::plan::Address;
use capbench::store::{Place, Store};
use jiff::Timestamp;
use mysql::prelude::Queryable as _;
use serde_json::Value;

use crate::child::Way;
use crate::large_run;
use crate::process;
use crate::report::{Better, Report, Row, Target};
use crate::settings::Settings;
use crate::subject::{DATABASE, Subject};

const PROGRAM: &str = env!("CARGO_BIN_EXE_capbench");
const PATIENCE: Duration = Duration::from_secs(900);
/// What starting may take beyond connecting, and what a report may take, in seconds.
const START: f64 = 0.05;
const REPORT: f64 = 1.0;
/// Variable that holds the password of the account in a plan.
const PASSWORD: &str = "CAPBENCH_BENCH_PASSWORD";

/// A run of a plan, as its run.json tells it.
struct Ran {
    started: Timestamp,
    json: Value,
}

impl Ran {
    /// Second 0 of the first cell.
    fn released(&self) -> Result<Timestamp> {
        let cell = &self.json["cells"][0];
        let at = cell["started_at"].as_str();
        Ok(at
            .with_context(|| format!("the cell did not run: {}", cell["reason"]))?
            .parse()?)
    }
}

fn between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

fn run(plan: &str, folder: &Path, password: &str) -> Result<Ran> {
    let file = folder.join("plan.toml");
    std::fs::write(&file, plan)?;
    let out = tempfile::Builder::new()
        .prefix("run-")
        .tempdir_in(folder)?
        .keep();
    let mut command = Command::new(PROGRAM);
    command
        .arg(&file)
        .arg("--quiet")
        .arg("--out")
        .arg(&out)
        .env(PASSWORD, password);
    let started = Timestamp::now();
    // Steps of a second allow no verdict: that is no failure of what is measured here.
    process::run_allowing(&mut command, "", PATIENCE, &[0, 1, 4])?;
    let text = std::fs::read_to_string(out.join("run.json"))?;
    Ok(Ran {
        started,
        json: serde_json::from_str(&text)?,
    })
}

/// Short steps, nothing but the load: what surrounds them is what is measured.
const STEPS: &str = "[warmup]\nduration = \"0s\"\nsettle = \"0s\"\n\
    [ladder]\nworkloads = [\"oltp_read_write\"]\nthreads = [8]\ndiscard = \"0s\"\n\
    measure = \"1s\"\ninterval = \"1s\"\n";

/// From the start of the program to the release of its clients, given prepared data, against what may be: the
/// time of one connection and 50 ms.
pub(crate) fn start(settings: &Settings, subject: &mut Subject, report: &mut Report) -> Result<()> {
    let base = tempfile::tempdir()?;
    let way = subject.admin_way()?;
    let (tables, rows) = (settings.tables, settings.rows);
    let place = match &way.address {
        Address::Tcp { host, port } => format!("host = {host:?}\nport = {port}"),
        Address::Socket(path) => format!("socket = \"{}\"", path.display()),
    };
    let plan = format!(
        "name = \"bench\"\nseed = 42\n\
         [target]\n{place}\nuser = {:?}\npassword_env = \"{PASSWORD}\"\ntls = \"disabled\"\n\
         database = \"{DATABASE}\"\n\
         [guard]\nacknowledge = [\"low-disk\", \"other-clients\", \"other-schemas\", \
         \"unseen-clients\", \"unseen-backup\", \"unseen-disk\", \"foreign-tables\"]\n\
         [dataset]\ntables = {tables}\nrows = {rows}\n{}",
        way.user,
        STEPS.replace("oltp_read_write", "oltp_point_select")
    );
    let mut values = Vec::new();
    for _ in 0..settings.pairs {
        subject.check_interrupt()?;
        alone(&way)?;
        let connected = Instant::now();
        connect(&way)?;
        let allowed = connected.elapsed().as_secs_f64() + START;
        let ran = run(&plan, base.path(), &way.password)?;
        values.push((allowed, between(ran.started, ran.released()?)));
    }
    report.row(Row {
        what: "start to first query, the prepared rows counted and compared, ms (left: connecting and 50 ms)".to_owned(),
        values,
        scale: 1e3,
        better: Better::Lower,
        target: Some(Target::at(1.0)),
    });
    Ok(())
}

/// Ends the bench's own sessions, which the guard would take for another user's and look at again and again. The
/// subject opens them again when it needs them.
fn alone(way: &Way) -> Result<()> {
    let mut conn = connect(way)?;
    let sessions: Vec<u64> = conn.exec(
        "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = ? AND ID <> CONNECTION_ID()",
        (&way.user,),
    )?;
    for session in sessions {
        // It may have ended by itself.
        let _ = conn.query_drop(format!("KILL {session}"));
    }
    Ok(())
}

fn connect(way: &Way) -> Result<mysql::Conn> {
    let builder = mysql::OptsBuilder::new()
        .user(Some(&way.user))
        .pass(Some(&way.password));
    let builder = match &way.address {
        Address::Tcp { host, port } => builder
            .ip_or_hostname(Some(host))
            .tcp_port(*port)
            .prefer_socket(false),
        Address::Socket(path) => builder.socket(path.to_str()),
    };
    let mut conn = mysql::Conn::new(builder)?;
    conn.query_drop("DO 1")?;
    Ok(conn)
}

/// The report of a run as large as runs get, against the second that it may take.
pub(crate) fn large_report(settings: &Settings, report: &mut Report) -> Result<()> {
    let base = tempfile::tempdir()?;
    let cells = if settings.quick { 5 } else { large_run::CELLS };
    let mut store = Store::create(
        Place::Under(base.path()),
        "large",
        Timestamp::now(),
        b"name = \"large\"\n",
    )?;
    store.save(&large_run::large(cells))?;
    let mut values = Vec::new();
    for _ in 0..settings.pairs {
        let mut command = Command::new(PROGRAM);
        command.arg("report").arg(store.dir());
        let started = Instant::now();
        let ended = process::run_allowing(&mut command, "", PATIENCE, &[0, 1, 4])?;
        let seconds = started.elapsed().as_secs_f64();
        eprintln!(
            "  report of {cells} cells: {seconds:.2} s, CPU {:.2} s",
            ended.user + ended.system
        );
        values.push((REPORT, seconds));
    }
    report.row(Row {
        what: format!(
            "report of {cells} cells × {} intervals, s (left: the target)",
            large_run::INTERVALS
        ),
        values,
        scale: 1.0,
        better: Better::Lower,
        target: Some(Target::at(1.0)),
    });
    Ok(())
}
