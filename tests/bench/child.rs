//! One measurement of capbench, in a process of its own: asked for on stdin, answered on stdout, in JSON.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use capbench::dataset;
use capbench::interrupt::Interrupt;
use capbench::load::{self, Flow, LoadSpec, Observer, Pace};
use capbench::plan::{self, Address, Tls, TlsMode};
use capbench::record::{CellStatus, Interval, Phase};
use capbench::target::{Endpoint, Secret};
use capbench::units::Bytes;
use capbench::workload::{self, WorkloadOptions};
use serde::{Deserialize, Serialize};

/// Argument: drives load.
pub(crate) const RUN: &str = "--child-run";
/// Argument: prepares tables.
pub(crate) const LOAD: &str = "--child-load";

/// How to reach the server.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Way {
    pub(crate) address: Address,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) database: Option<String>,
}

impl Way {
    pub(crate) fn new(endpoint: &Endpoint) -> Self {
        Self {
            address: endpoint.address.clone(),
            user: endpoint.user.clone(),
            password: endpoint.password.reveal().to_owned(),
            database: endpoint.database.clone(),
        }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint {
            address: self.address.clone(),
            user: self.user.clone(),
            password: Secret::new(self.password.clone()),
            database: self.database.clone(),
            tls: Tls {
                mode: TlsMode::Disabled,
                ca: None,
            },
            connect_timeout: Duration::from_secs(30),
            interrupt: Interrupt::new(),
        }
    }
}

/// A load to drive.
#[derive(Serialize, Deserialize)]
pub(crate) struct RunOrder {
    pub(crate) way: Way,
    pub(crate) plan: String,
    pub(crate) workload: String,
    pub(crate) tables: u32,
    pub(crate) rows: u64,
    pub(crate) clients: u32,
    /// In which statements are prepared, as sysbench does before its clock starts.
    pub(crate) discard: f64,
    pub(crate) seconds: f64,
    pub(crate) seed: u64,
}

/// What it came to.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunAnswer {
    pub(crate) tps: f64,
    /// From the release to the end, discard included: what the process's CPU was spent on.
    pub(crate) queries: u64,
    pub(crate) errors: u64,
}

/// Tables to prepare.
#[derive(Serialize, Deserialize)]
pub(crate) struct LoadOrder {
    pub(crate) way: Way,
    pub(crate) plan: String,
    pub(crate) buffer_pool: u64,
}

struct Quiet;

impl Observer for Quiet {
    fn connected(&self, _: u32) {}
    fn released(&self) {}
    fn interval(&self, _: &Interval) -> Flow {
        Flow::Continue
    }
    fn kill(&self, _: &[u64]) {}
}

fn order<T: for<'de> Deserialize<'de>>() -> Result<T> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    serde_json::from_str(&text).context("the order of a child process cannot be read")
}

/// Drives load.
pub(crate) fn run() -> Result<()> {
    let order: RunOrder = order()?;
    let plan = plan::parse(&order.plan, "bench.toml", &PathBuf::new())?;
    let program = workload::load(&order.workload, Path::new("."), &WorkloadOptions::new())?;
    let spec = LoadSpec {
        endpoint: order.way.endpoint(),
        program: Arc::new(program),
        tables: order.tables,
        rows: order.rows,
        access: plan.access,
        options: plan.load,
        pace: Pace::Closed {
            clients: order.clients,
        },
        discard: Duration::from_secs_f64(order.discard),
        measure: Duration::from_secs_f64(order.seconds),
        events: None,
        // The default of a plan. sysbench is not asked for intervals at all.
        interval: Duration::from_secs(10),
        seed: order.seed,
    };
    let outcome = load::run(&spec, &Quiet, &Interrupt::new())?;
    if !matches!(
        outcome.status,
        CellStatus::Completed | CellStatus::Truncated
    ) {
        bail!("{}", outcome.reason.unwrap_or_default());
    }
    let measured = |i: &&Interval| i.phase == Phase::Measure;
    let seconds: f64 = outcome
        .intervals
        .iter()
        .filter(measured)
        .map(Interval::seconds)
        .sum();
    let done: u64 = outcome
        .intervals
        .iter()
        .filter(measured)
        .map(|i| i.done)
        .sum();
    let answer = RunAnswer {
        tps: done as f64 / seconds,
        queries: outcome.intervals.iter().map(Interval::queries).sum(),
        errors: outcome
            .intervals
            .iter()
            .flat_map(|i| &i.errors)
            .map(|e| e.count)
            .sum(),
    };
    println!("{}", serde_json::to_string(&answer)?);
    Ok(())
}

/// Prepares tables.
pub(crate) fn load() -> Result<()> {
    let order: LoadOrder = order()?;
    let plan = plan::parse(&order.plan, "bench.toml", &PathBuf::new())?;
    let resolved = dataset::plan_size(&plan.dataset, Bytes(order.buffer_pool));
    dataset::prepare(
        &order.way.endpoint(),
        &plan,
        workload::TableLayout::Standard,
        &resolved,
        &dataset::Silent,
        &Interrupt::new(),
    )?;
    Ok(())
}
