//! The commands beside the run, and the run's edges: reading the plan, admission, putting back, the exit code.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::anyhow;

use crate::analysis::{self, Findings, knee_csv};
use crate::cli::{Command, Exit, FlavourArg, RunArgs, WorkloadCommand};
use crate::dataset;
use crate::execute::{self, AtScreen, Session};
use crate::interrupt::Interrupt;
use crate::matrix::{self, Cell};
use crate::plan::{self, Loaded, Plan, Reset, Warning};
use crate::probe;
use crate::record::{Flavour, Run, RunEnd, WorkloadRecord};
use crate::report;
use crate::store::{self, Store, StoreError};
use crate::target::{self, Journal, Others, Server};
use crate::terminal::Terminal;
use crate::units::Ratio;
use crate::workload;

/// Why a command did not do what it was asked, with the exit code that says so.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    error: Option<anyhow::Error>,
}

impl Failure {
    /// The plan or the command line is wrong.
    pub(crate) fn input(error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit: Exit::BadInput,
            error: Some(error.into()),
        }
    }

    /// The run failed.
    pub(crate) fn run(error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit: Exit::RunFailed,
            error: Some(error.into()),
        }
    }

    /// The user ended it.
    pub(crate) fn interrupted() -> Self {
        Self {
            exit: Exit::Interrupted,
            error: None,
        }
    }

    /// Shows the message and returns the exit code.
    pub(crate) fn show(self, terminal: &Terminal) -> Exit {
        match (&self.error, self.exit) {
            (Some(error), _) => match error.downcast_ref::<plan::Problems>() {
                Some(problems) => terminal.raw(&problems.render(Terminal::colour())),
                None => terminal.error(error),
            },
            (None, Exit::Interrupted) => terminal.raw("interrupted"),
            (None, _) => {}
        }
        self.exit
    }

    fn reason(&self) -> String {
        self.error
            .as_ref()
            .map_or_else(String::new, |error| format!("{error:#}"))
    }
}

/// Listens for Ctrl-C and its like. The second one ends at once, but a private server goes with it.
pub(crate) fn listen(interrupt: &Interrupt) -> Result<(), Failure> {
    interrupt.at_last_resort(target::end_private_servers);
    interrupt
        .listen(|count| {
            let text = match count {
                1 => "\nending: the cell in flight stops, the server is put back, the report is written (once more: at once)",
                _ => "\nended at once; changes to a server that is not private are listed in the run's journal.jsonl",
            };
            Terminal::new(false).raw(text);
        })
        .map_err(|error| Failure::run(anyhow!("cannot listen for signals: {error}")))
}

/// Does what a command word says.
pub(crate) fn dispatch(
    command: Command,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    match command {
        Command::Check { plan, list: true } => {
            let loaded = read_plan(Some(&plan))?;
            Ok(list(&loaded.plan, &matrix::cells(&loaded.plan)))
        }
        Command::Check { plan, list: false } => check(&plan, terminal, interrupt),
        Command::Prepare { plan, quiet: _ } => prepare(&plan, terminal, interrupt),
        Command::Cleanup { plan } => cleanup(&plan, terminal, interrupt),
        Command::Restore { dir, plan } => restore(&dir, plan.as_deref(), terminal, interrupt),
        Command::Report { dir, template } => report_again(&dir, template.as_deref()),
        Command::Knee { file, gain, json } => knee(&file, &gain, json),
        Command::Workload { command } => workloads(command),
        Command::Grants { plan, flavour } => grants(&plan, flavour, interrupt),
    }
}

/// Reads and validates the plan.
pub(crate) fn read_plan(path: Option<&Path>) -> Result<Loaded, Failure> {
    let path = path.ok_or_else(|| Failure::input(anyhow!("no plan was given")))?;
    plan::load(path).map_err(Failure::input)
}

/// `--list`: the cells in order, with the estimate.
pub(crate) fn list(plan: &Plan, cells: &[Cell]) -> Exit {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::TableStyle::new());
    table.set_header(["cell", "repeat", "variant", "workload", "step", "clients"]);
    for cell in cells {
        table.add_row([
            cell.index.to_string(),
            cell.repeat.to_string(),
            plan.variants[cell.variant].name.clone(),
            plan.ladder.workloads[cell.workload].name.clone(),
            cell.step.to_string(),
            cell.clients.to_string(),
        ]);
    }
    let estimate = matrix::estimate(plan);
    let data = estimate.data.map_or_else(
        || "known once the server's buffer pool is (`capbench check` asks it)".to_owned(),
        |bytes| format!("about {bytes} for data and index, and as much again for a moment where the server keeps undo, redo and binary log"),
    );
    Terminal::data(&format!(
        "{}\n\n{} cells of {} discard + {} measured, {} warm-up before each variant, data loaded {}, server restarted {}\nestimated time: {}\nestimated disk: {data}",
        table.trim_fmt(),
        cells.len(),
        plan.ladder.discard,
        plan.ladder.measure,
        plan.warmup.duration,
        times(estimate.loads),
        times(estimate.restarts),
        estimate.duration,
    ));
    Exit::Passed
}

fn times(n: u32) -> String {
    match n {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}

/// The folder of this run.
pub(crate) fn create_store(args: &RunArgs, loaded: &Loaded) -> Result<Store, Failure> {
    let place = match &args.out {
        Some(dir) => store::Place::Exactly(dir),
        None => store::Place::Under(Path::new("reports")),
    };
    Store::create(
        place,
        &loaded.plan.slug(),
        jiff::Timestamp::now(),
        loaded.source.as_bytes(),
    )
    .map_err(|error| {
        if args.out.is_some() && error.is_taken() {
            Failure::input(error)
        } else {
            Failure::run(error)
        }
    })
}

/// Connects, or starts the private server.
pub(crate) fn open_server(
    plan: &Plan,
    journal: &mut Journal,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Server, Failure> {
    terminal.say(match &plan.target.place {
        plan::Place::Managed(managed) => {
            for folder in target::end_orphans(managed.directory.as_deref()) {
                terminal.say(format_args!(
                    "removed a private server that a killed capbench had left behind in {}",
                    folder.display()
                ));
            }
            "starting a private server".to_owned()
        }
        plan::Place::Server(place) => format!("connecting to {}", place.address),
    });
    let server = Server::open(plan, journal, interrupt).map_err(|error| {
        if error.is_interrupt() {
            Failure::interrupted()
        } else {
            Failure::run(error)
        }
    })?;
    let identity = server.identity();
    terminal.say(format_args!(
        "{} {}, {}",
        identity.flavour, identity.version, identity.address
    ));
    Ok(server)
}

/// Refuses before anything is touched what this plan and this server cannot do together; collects the
/// warnings of plan, server and machine into the record.
pub(crate) fn admit(
    plan: &Plan,
    server: &mut Server,
    run: &mut Run,
    terminal: &Terminal,
) -> Result<(), Failure> {
    run.server = Some(server.identity().clone());
    run.settings.extend(server.raised().iter().cloned());
    run.warnings = warnings(plan, server, run);
    run.warnings
        .iter()
        .for_each(|warning| terminal.warning(warning));
    let problems = refusals(plan, server, terminal)?;
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::input(anyhow!(
        "this plan does not fit this server:\n{}",
        problems.join("\n")
    )))
}

/// What keeps the plan from running on this server, one line each; lesser limits are said and passed.
fn refusals(plan: &Plan, server: &mut Server, terminal: &Terminal) -> Result<Vec<String>, Failure> {
    let mut found: Vec<String> = target::check_support(plan, server)
        .map_err(Failure::run)?
        .iter()
        .map(ToString::to_string)
        .collect();
    found.extend(intrusion(plan, server)?);
    for limit in target::preflight(plan, server).map_err(Failure::run)? {
        if limit.blocking {
            found.push(limit.to_string());
        } else {
            terminal.say(format_args!("note: {limit}"));
        }
    }
    Ok(found)
}

/// Why the load would intrude on others: who is seen is named, and what cannot be seen is not "nobody".
fn intrusion(plan: &Plan, server: &mut Server) -> Result<Option<String>, Failure> {
    /// As many sessions as a person reads.
    const NAMED: usize = 8;
    if plan.guard.allow_other_clients || server.is_managed() {
        return Ok(None);
    }
    let hint = "hint: run it when nobody else uses the server, or state allow_other_clients = true under [guard]";
    Ok(match target::others(server).map_err(Failure::run)? {
        Others::Unseen => Some(format!(
            "other clients cannot be seen: the account of the control connections lacks the PROCESS privilege\n{hint}, or grant PROCESS (`capbench grants`)"
        )),
        Others::Seen(others) if others.is_empty() => None,
        Others::Seen(others) => {
            let more = others.len().saturating_sub(NAMED);
            let named = others[..others.len() - more].join(", ");
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            Some(format!(
                "{} other clients are connected: {named}{more}\n{hint}",
                others.len()
            ))
        }
    })
}

/// The plan's own warnings and those of server and load machine, each once.
fn warnings(plan: &Plan, server: &mut Server, run: &Run) -> Vec<Warning> {
    let mut all = plan.warnings.clone();
    all.extend(target::warnings(plan, server, &run.host));
    all
}

/// `capbench check`.
fn check(path: &Path, terminal: &Terminal, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let loaded = read_plan(Some(path))?;
    let plan = &loaded.plan;
    let mut journal = Journal::in_memory();
    let mut server = open_server(plan, &mut journal, terminal, interrupt)?;
    let mut run = new_run(&loaded);
    let admitted = admit(plan, &mut server, &mut run, terminal)
        .and_then(|()| execute::outlook(plan, &mut server).map_err(session_failure));
    let closed = server.close(&mut journal).map_err(Failure::run);
    let outlook = admitted?;
    closed?;
    let estimate = matrix::estimate(plan);
    Terminal::data(&format!(
        "{outlook}\nok: {} cells, about {}; nothing was changed",
        matrix::cells(plan).len(),
        estimate.duration
    ));
    Ok(Exit::Passed)
}

/// `capbench prepare`.
fn prepare(path: &Path, terminal: &Terminal, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let loaded = read_plan(Some(path))?;
    refuse_private(&loaded.plan, "prepare", "its data goes away with it")?;
    with_server(&loaded, terminal, interrupt, |session| {
        session.prepare().map_err(session_failure)?;
        let facts = session.run.dataset.clone().unwrap_or_default();
        Terminal::data(&format!(
            "{} tables of {} rows ({}), {} with index",
            facts.tables, facts.rows, facts.origin, facts.bytes
        ));
        Ok(Exit::Passed)
    })
}

/// `capbench cleanup`.
fn cleanup(path: &Path, terminal: &Terminal, interrupt: &Interrupt) -> Result<Exit, Failure> {
    let loaded = read_plan(Some(path))?;
    refuse_private(&loaded.plan, "cleanup", "it leaves nothing behind")?;
    let mut journal = Journal::in_memory();
    let server = open_server(&loaded.plan, &mut journal, terminal, interrupt)?;
    let dropped = dataset::cleanup(server.admin_endpoint(), &loaded.plan.target.database)
        .map_err(Failure::run);
    server.close(&mut journal).map_err(Failure::run)?;
    Terminal::data(&dropped?.to_string());
    Ok(Exit::Passed)
}

fn refuse_private(plan: &Plan, command: &str, why: &str) -> Result<(), Failure> {
    match plan.target.place {
        plan::Place::Server(_) => Ok(()),
        plan::Place::Managed(_) => Err(Failure::input(anyhow!(
            "`{command}` has nothing to do for a private server: {why}\nhint: run the plan itself, or give it a [target] with host or socket"
        ))),
    }
}

/// Opens the server, admits the plan, and closes the server again whatever `work` brings.
fn with_server(
    loaded: &Loaded,
    terminal: &Terminal,
    interrupt: &Interrupt,
    work: impl FnOnce(&mut Session<'_>) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let plan = &loaded.plan;
    let mut journal = Journal::in_memory();
    let mut server = open_server(plan, &mut journal, terminal, interrupt)?;
    let mut run = new_run(loaded);
    let done = admit(plan, &mut server, &mut run, terminal).and_then(|()| {
        let mut session = Session {
            plan,
            server: &mut server,
            journal: &mut journal,
            run: &mut run,
            save: &mut |_| Ok(()),
            terminal,
            interrupt,
            resolved: None,
        };
        work(&mut session)
    });
    server.close(&mut journal).map_err(Failure::run)?;
    done
}

pub(crate) fn session_failure(error: execute::SessionError) -> Failure {
    if error.is_interrupt() {
        Failure::interrupted()
    } else {
        Failure::run(error)
    }
}

/// `capbench restore`.
fn restore(
    dir: &Path,
    plan: Option<&Path>,
    terminal: &Terminal,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let path = dir.join("journal.jsonl");
    let pending = Journal::read_pending(&path).map_err(Failure::input)?;
    if pending.is_empty() {
        Terminal::data("nothing to put back: every change in the journal was undone");
        return Ok(Exit::Passed);
    }
    let loaded = read_plan(Some(plan.unwrap_or(&dir.join("plan.toml"))))?;
    let mut journal = Journal::create(&path).map_err(Failure::run)?;
    let names: Vec<String> = pending
        .iter()
        .map(|entry| format!("{} {}", entry.action, entry.name))
        .collect();
    if let plan::Place::Managed(managed) = &loaded.plan.target.place {
        // A private server takes its settings with it.
        target::end_orphans(managed.directory.as_deref());
        for entry in &pending {
            journal.undone(entry.seq).map_err(Failure::run)?;
        }
    } else {
        let mut server = open_server(&loaded.plan, &mut journal, terminal, interrupt)?;
        server.adopt(pending);
        let restored = server.restore(&mut journal, &AtScreen(terminal, interrupt));
        let closed = server.close(&mut journal);
        restored.and(closed).map_err(Failure::run)?;
    }
    Terminal::data(&format!("put back: {}", names.join(", ")));
    Ok(Exit::Passed)
}

/// `capbench report`.
fn report_again(dir: &Path, template: Option<&Path>) -> Result<Exit, Failure> {
    let run = store::open(dir).map_err(Failure::input)?;
    let findings = analysis::analyse(&run);
    let written = report::write(&run, &findings, dir, template).map_err(Failure::run)?;
    Terminal::data(&written.to_string());
    Ok(Exit::Passed)
}

/// `capbench knee`.
fn knee(file: &Path, gain: &str, json: bool) -> Result<Exit, Failure> {
    let shown = file.display();
    let text = if file.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| Failure::input(anyhow!("cannot read {shown}: {error}")))?;
    let gain = Ratio::parse(gain).map_err(|why| Failure::input(anyhow!("--gain: {why}")))?;
    let points =
        knee_csv::read(&text).map_err(|error| Failure::input(anyhow!("{shown}: {error}")))?;
    let knee = analysis::knee::from_points(&points, gain);
    Terminal::data(&if json {
        knee_csv::knee_json(&knee).to_string()
    } else {
        knee_csv::knee_text(&knee)
    });
    Ok(Exit::Passed)
}

/// `capbench workload …`.
fn workloads(command: WorkloadCommand) -> Result<Exit, Failure> {
    match command {
        WorkloadCommand::List => {
            let mut table = comfy_table::Table::new();
            table.load_style(comfy_table::TableStyle::new());
            for (name, description) in workload::describe() {
                table.add_row([name.to_owned(), description]);
            }
            Terminal::data(&table.trim_fmt());
        }
        WorkloadCommand::Show { name, options } => {
            let mut values = workload::WorkloadOptions::new();
            for option in options {
                let (key, value) = option
                    .split_once('=')
                    .ok_or_else(|| Failure::input(anyhow!("-o {option}: expected NAME=VALUE")))?;
                let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
                values.insert(key.trim().to_owned(), value);
            }
            Terminal::data(
                &workload::show(&name, Path::new("."), &values).map_err(Failure::input)?,
            );
        }
    }
    Ok(Exit::Passed)
}

/// `capbench grants`.
fn grants(
    path: &Path,
    flavour: Option<FlavourArg>,
    interrupt: &Interrupt,
) -> Result<Exit, Failure> {
    let loaded = read_plan(Some(path))?;
    let flavour = match flavour {
        Some(FlavourArg::Mysql) => Flavour::MySql,
        Some(FlavourArg::Mariadb) => Flavour::MariaDb,
        None => {
            let mut journal = Journal::in_memory();
            let asked = Server::open(&loaded.plan, &mut journal, interrupt).map_err(|error| {
                Failure::run(anyhow!("cannot ask the server for its flavour: {error}\nhint: state it: --flavour mysql or --flavour mariadb"))
            })?;
            let flavour = asked.flavour();
            asked.close(&mut journal).map_err(Failure::run)?;
            flavour
        }
    };
    Terminal::data(&target::grants(&loaded.plan, flavour));
    Ok(Exit::Passed)
}

/// The record of a run that has not begun.
pub(crate) fn new_run(loaded: &Loaded) -> Run {
    use sha2::Digest as _;
    let plan = &loaded.plan;
    let ladder = &plan.ladder;
    Run {
        format: store::FORMAT,
        tool: format!("capbench {}", env!("CARGO_PKG_VERSION")),
        name: plan.name.clone(),
        plan_sha256: hexadecimal(&sha2::Sha256::digest(&loaded.source)),
        command: command_line(),
        seed: plan.seed,
        started_at: now(),
        ended_at: None,
        end: RunEnd::Running,
        environment: plan.environment.clone(),
        server: None,
        host: probe::host::facts(),
        dataset: None,
        settings: Vec::new(),
        variants: Vec::new(),
        workloads: ladder
            .workloads
            .iter()
            .map(|program| WorkloadRecord {
                name: program.name.clone(),
                description: program.description.clone(),
                mix: workload::mix(program),
            })
            .collect(),
        protocol: match plan.load.protocol {
            plan::Protocol::Prepared => "prepared".into(),
            plan::Protocol::Text => "text".into(),
        },
        access: plan.access.to_string(),
        open: ladder.open,
        discard: ladder.discard,
        measure: ladder.measure,
        interval: ladder.interval,
        repeats: ladder.repeats,
        warmup: match &plan.warmup.workload {
            Some(program) => {
                format!(
                    "{} with {} threads for {}",
                    program.name, plan.warmup.threads, plan.warmup.duration
                )
            }
            None => "none".into(),
        },
        reset: match plan.dataset.reset {
            Reset::Never => "never".into(),
            Reset::PerVariant => "before each variant".into(),
            Reset::PerCell => "before each cell".into(),
        },
        knee_gain: plan.analysis.knee_gain,
        criteria: plan.criteria.clone(),
        warnings: plan.warnings.clone(),
        cells: Vec::new(),
        unavailable: Vec::new(),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn now() -> String {
    jiff::Timestamp::now()
        .round(jiff::Unit::Second)
        .unwrap_or_else(|_| jiff::Timestamp::now())
        .to_string()
}

/// The command as it was typed; there is nothing secret in it, since capbench takes no secret there.
fn command_line() -> String {
    std::iter::once("capbench".to_owned())
        .chain(
            std::env::args_os()
                .skip(1)
                .map(|argument| argument.to_string_lossy().into_owned()),
        )
        .collect::<Vec<_>>()
        .join(" ")
}

/// Enters into the record how the measuring ended; returns the failure that outlives the report.
pub(crate) fn close(run: &mut Run, measured: Result<RunEnd, Failure>) -> Option<Failure> {
    run.ended_at = Some(now());
    match measured {
        Ok(end) => {
            run.end = end;
            None
        }
        Err(failure) => {
            run.end = match failure.exit {
                Exit::Interrupted => RunEnd::Interrupted,
                _ => RunEnd::Failed(failure.reason()),
            };
            Some(failure)
        }
    }
}

/// Puts everything back and closes the server. What went wrong before is told first, but a server that
/// could not be put back is never passed over.
pub(crate) fn put_back(
    server: Server,
    journal: &mut Journal,
    end: Result<RunEnd, Failure>,
    journal_path: &Path,
    terminal: &Terminal,
) -> Result<RunEnd, Failure> {
    match server.close(journal) {
        Ok(()) => end,
        Err(error) => {
            let error = anyhow!(
                "the server was not put back: {error}\nhint: every change, with the way to undo it, stands in {}",
                journal_path.display()
            );
            if let Err(first) = end {
                first.show(terminal);
            }
            Err(Failure::run(error))
        }
    }
}

/// The result table, the report's place and the exit code.
pub(crate) fn finish(
    run: &Run,
    findings: &Findings,
    saved: Result<(), StoreError>,
    written: Result<report::Written, report::ReportError>,
    failure: Option<Failure>,
) -> Result<Exit, Failure> {
    Terminal::data(&report::terminal_table(run, findings));
    saved.map_err(Failure::run)?;
    let written = written.map_err(Failure::run)?;
    Terminal::data(&format!("\n{written}"));
    match failure {
        Some(failure) => Err(failure),
        None => Ok(Exit::from_code(findings.headline.exit_code)),
    }
}
