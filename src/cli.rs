//! The command line: what can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// How capbench ends; the number is the process's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The run ended and every criterion was met.
    Passed = 0,
    /// A criterion failed or could not be tested.
    CriterionFailed = 1,
    /// The plan, the command line or what they name on this machine is wrong; no server was asked.
    BadInput = 2,
    /// Refused because of what was found on the server, or the run failed: server, network, disk, or a fault of
    /// capbench.
    RunFailed = 3,
    /// The run ended but cannot be relied on.
    CannotBeReliedOn = 4,
    /// The user ended it.
    Interrupted = 130,
}

impl Exit {
    /// The exit of a code that the analysis gives.
    pub fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Passed,
            1 => Self::CriterionFailed,
            2 => Self::BadInput,
            4 => Self::CannotBeReliedOn,
            130 => Self::Interrupted,
            _ => Self::RunFailed,
        }
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0    passed (also: no limit found up to the last step, with a warning)
  1    a criterion of the plan failed or could not be tested
  2    the plan or the command line is wrong, or a file, variable or program that it names is
       missing; no server was asked
  3    refused because of what was found on the server, before anything was changed; or the run
       failed: server, network, disk, or a fault of capbench
  4    the run ended but cannot be relied on: a deciding cell is invalid, or the guard stopped it
  130  interrupted (Ctrl-C); what was measured is in the report, the server was put back.
       A second Ctrl-C ends at once and puts nothing back: see `capbench restore`";

const COMPARE_CODES: &str = "\
Exit codes:
  0    compared: nothing that decides got worse beyond noise (inconclusive counts as this)
  1    throughput or p95 of the second run is worse at a step that decides
  2    the runs are unlike (each difference is named), or a folder holds no run
  3    the file of --out cannot be written
  4    one of the runs cannot be relied on, or no step was measured validly in both";

/// How many concurrently active clients can a MySQL-family database carry, and what stops it?
#[derive(Debug, Parser)]
#[command(
    name = "capbench",
    version,
    about,
    after_help = EXIT_CODES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    /// What to do; without one: run the plan.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// What to run.
    #[command(flatten)]
    pub run: RunArgs,
}

impl Cli {
    /// Whether progress is wanted.
    pub fn is_quiet(&self) -> bool {
        self.run.quiet || matches!(self.command, Some(Command::Prepare { quiet: true, .. }))
    }
}

/// `capbench PLAN`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The plan to run: a TOML file (see plans/reference.toml)
    #[arg(required = true, value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// Folder of this run, new or empty [default: reports/<plan name>-<UTC time>]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Go on with the run in this folder after its last finished cell: same plan, data and
    /// environment
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "list"])]
    pub resume: Option<PathBuf>,
    /// No progress; only errors, warnings and the result
    #[arg(short, long)]
    pub quiet: bool,
    /// Print the cells in order with estimated time and disk, and touch nothing
    #[arg(long)]
    pub list: bool,
}

/// `capbench restore`.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The folder of the run
    #[arg(value_name = "DIR", required_unless_present = "from_server")]
    pub dir: Option<PathBuf>,
    /// The plan where it stood, when it names files beside it [default: DIR/plan.toml]
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// Without a folder: from what the server of this plan holds
    #[arg(long, value_name = "PLAN", conflicts_with_all = ["dir", "plan"])]
    pub from_server: Option<PathBuf>,
    /// Put back also what someone else has set meanwhile
    #[arg(long, conflicts_with = "keep")]
    pub force: bool,
    /// Accept what someone else has set meanwhile
    #[arg(long)]
    pub keep: bool,
}

/// The other commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Validate a plan against its server, changing nothing
    Check {
        /// The plan
        #[arg(value_name = "PLAN")]
        plan: PathBuf,
        /// Print the cells with estimated time and disk, without connecting
        #[arg(long)]
        list: bool,
    },
    /// Load and verify the plan's data, then stop
    Prepare {
        /// The plan
        #[arg(value_name = "PLAN")]
        plan: PathBuf,
        /// No progress
        #[arg(short, long)]
        quiet: bool,
    },
    /// Drop the tables that capbench made for a plan, and only those
    Cleanup {
        /// The plan
        #[arg(value_name = "PLAN")]
        plan: PathBuf,
    },
    /// Put back what a run that was killed left changed on its server
    ///
    /// From the journal in the run's folder; where that is lost, from what the server itself holds. A variable
    /// that someone else has set meanwhile is left alone and named.
    Restore(RestoreArgs),
    /// Write the report of a run again, from its records alone
    Report {
        /// The folder of a run
        #[arg(value_name = "DIR")]
        dir: PathBuf,
        /// A template of your own for report.md
        #[arg(long, value_name = "FILE")]
        template: Option<PathBuf>,
    },
    /// Compare two runs of one plan, the first as the baseline; prints Markdown
    #[command(after_help = COMPARE_CODES)]
    Compare {
        /// The folder of the first run
        #[arg(value_name = "DIR")]
        first: PathBuf,
        /// The folder of the second run
        #[arg(value_name = "DIR")]
        second: PathBuf,
        /// Write the Markdown into this file too; it must not exist
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Compare although this differs, and say so (may stand several times)
        #[arg(long, value_enum, value_name = "PART")]
        despite: Vec<PartArg>,
    },
    /// Find the knee of a concurrency ladder in a CSV file
    Knee {
        /// Columns threads and tps (or qps), optionally `avg_ms`, `p95_ms`, `p99_ms`; `-` reads standard input
        #[arg(value_name = "FILE.csv")]
        file: PathBuf,
        /// Gain in throughput per doubling of threads below which more threads do not pay, for example 20%
        #[arg(long, value_name = "RATIO", default_value = "20%")]
        gain: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// The workloads: list them, or show one as a file to copy and change
    Workload {
        /// What to show
        #[command(subcommand)]
        command: WorkloadCommand,
    },
    /// The data of private servers that is kept between runs
    Cache {
        /// What to do with it
        #[command(subcommand)]
        command: CacheCommand,
    },
    /// Print the statements that make the accounts which a plan needs
    Grants {
        /// The plan
        #[arg(value_name = "PLAN")]
        plan: PathBuf,
        /// Server family; without it the plan's server is asked
        #[arg(long, value_enum)]
        flavour: Option<FlavourArg>,
    },
}

/// `capbench workload …`.
#[derive(Debug, Subcommand)]
pub enum WorkloadCommand {
    /// List the built-in workloads
    List,
    /// Print a workload as it would run
    Show {
        /// A built-in name, or a file ending in .toml
        #[arg(value_name = "NAME")]
        name: String,
        /// An option of the workload, for example -o `point_selects=1`
        #[arg(short, long = "option", value_name = "NAME=VALUE")]
        options: Vec<String>,
    },
}

/// `capbench cache …`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum CacheCommand {
    /// List what is kept: its size, when it was made and last used, and what it is
    List,
    /// Remove everything that no run uses now
    Clear,
}

/// What two runs may differ in, on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PartArg {
    /// Version of capbench
    Tool,
    /// Times, steps, seed, warm-up, reset
    Plan,
    /// Workloads, protocol, access, loop
    Workload,
    /// Tables and rows
    Dataset,
    /// Family, version, address, encryption, round trip
    Server,
    /// The load machine
    Host,
}

impl PartArg {
    /// The word as it is typed.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Plan => "plan",
            Self::Workload => "workload",
            Self::Dataset => "dataset",
            Self::Server => "server",
            Self::Host => "host",
        }
    }
}

/// Server family on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FlavourArg {
    /// MySQL and Percona Server
    Mysql,
    /// MariaDB
    Mariadb,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_plan_needs_no_command_word() {
        let cli = Cli::try_parse_from(["capbench", "plan.toml", "--list"]).unwrap();
        assert!(cli.command.is_none());
        assert!(cli.run.list);
        assert_eq!(cli.run.plan, Some(PathBuf::from("plan.toml")));
    }
}
