//! Whether two runs may be compared: what must be the same, and what is not.

use serde::Serialize;

use crate::record::Run;
use crate::units::Millis;

/// Round trips that differ by more measure another network (half of what is warned about). \[H\]
const ROUND_TRIP: Millis = Millis(0.25);

/// What two runs must have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// capbench itself.
    Tool,
    /// Times, steps, seed, warm-up, reset.
    Plan,
    /// What is asked of the server, and how.
    Workload,
    /// Tables and rows.
    Dataset,
    /// Family, version and place; its settings are what a comparison is about.
    Server,
    /// The load machine.
    Host,
}

impl Part {
    /// The word that the command line takes.
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

/// One difference between two runs that should be alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unlike {
    /// Where it lies.
    pub part: Part,
    /// What differs.
    pub what: String,
    /// In the first run.
    pub first: String,
    /// In the second.
    pub second: String,
}

impl std::fmt::Display for Unlike {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: {} is {} in the first run, {} in the second",
            self.part.as_str(),
            self.what,
            self.first,
            self.second
        )
    }
}

struct Differences(Vec<Unlike>);

impl Differences {
    fn compare(&mut self, part: Part, what: &str, first: &impl ToString, second: &impl ToString) {
        let (first, second) = (first.to_string(), second.to_string());
        if first != second {
            self.0.push(Unlike {
                part,
                what: what.to_owned(),
                first,
                second,
            });
        }
    }
}

/// Every difference that makes a comparison of two runs mean something else than the change between them.
pub fn unlike(first: &Run, second: &Run) -> Vec<Unlike> {
    let mut found = Differences(Vec::new());
    found.compare(Part::Tool, "the version", &first.tool, &second.tool);
    of_plan(first, second, &mut found);
    of_workloads(first, second, &mut found);
    of_dataset(first, second, &mut found);
    of_server(first, second, &mut found);
    of_host(first, second, &mut found);
    found.0
}

fn of_plan(a: &Run, b: &Run, found: &mut Differences) {
    let mut plan = |what, first: String, second: String| {
        found.compare(Part::Plan, what, &first, &second);
    };
    plan("the seed", a.seed.to_string(), b.seed.to_string());
    plan("the discard", a.discard.to_string(), b.discard.to_string());
    plan(
        "the measured time",
        a.measure.to_string(),
        b.measure.to_string(),
    );
    plan(
        "the interval",
        a.interval.to_string(),
        b.interval.to_string(),
    );
    plan("the warm-up", a.warmup.clone(), b.warmup.clone());
    plan("the reset of the data", a.reset.clone(), b.reset.clone());
    plan("the ladder", steps(a), steps(b));
}

/// The steps of the ladder as planned, in order.
fn steps(run: &Run) -> String {
    let mut steps: Vec<String> = Vec::new();
    for cell in &run.cells {
        let step = cell.step.to_string();
        if cell.kind == crate::record::CellKind::Ladder && !steps.contains(&step) {
            steps.push(step);
        }
    }
    if steps.is_empty() {
        "without a step".to_owned()
    } else {
        steps.join(", ")
    }
}

fn of_workloads(a: &Run, b: &Run, found: &mut Differences) {
    let names = |run: &Run| {
        let names: Vec<&str> = run.workloads.iter().map(|w| w.name.as_str()).collect();
        names.join(", ")
    };
    let mut workload = |what: &str, first: String, second: String| {
        found.compare(Part::Workload, what, &first, &second);
    };
    workload("the list", names(a), names(b));
    for ours in &a.workloads {
        if let Some(theirs) = b.workloads.iter().find(|w| w.name == ours.name) {
            let what = format!("the mix of {}", ours.name);
            workload(&what, ours.mix.join(" · "), theirs.mix.join(" · "));
        }
    }
    workload("the protocol", a.protocol.clone(), b.protocol.clone());
    workload("the access", a.access.clone(), b.access.clone());
    let arrivals = |run: &Run| {
        run.open.map_or_else(
            || "a closed loop".to_owned(),
            |open| {
                format!(
                    "an open loop of {} clients ({:?} arrivals, backlog {})",
                    open.clients, open.arrivals, open.backlog
                )
            },
        )
    };
    workload("the loop", arrivals(a), arrivals(b));
}

fn of_dataset(a: &Run, b: &Run, found: &mut Differences) {
    let figure = |run: &Run, of: fn(&crate::record::DatasetFacts) -> u64| {
        run.dataset
            .as_ref()
            .map_or_else(|| "not known".to_owned(), |d| of(d).to_string())
    };
    let mut dataset = |what, of: fn(&crate::record::DatasetFacts) -> u64| {
        found.compare(Part::Dataset, what, &figure(a, of), &figure(b, of));
    };
    dataset("the number of tables", |d| d.tables.into());
    dataset("the number of rows a table", |d| d.rows);
}

fn of_server(a: &Run, b: &Run, found: &mut Differences) {
    let (Some(first), Some(second)) = (&a.server, &b.server) else {
        let known = |run: &Run| {
            if run.server.is_some() {
                "known"
            } else {
                "not known"
            }
        };
        found.compare(Part::Server, "the server", &known(a), &known(b));
        return;
    };
    let mut server = |what, first: String, second: String| {
        found.compare(Part::Server, what, &first, &second);
    };
    server(
        "the family",
        first.flavour.to_string(),
        second.flavour.to_string(),
    );
    server("the version", first.version.clone(), second.version.clone());
    server("the address", first.address.clone(), second.address.clone());
    server("the encryption", first.tls.clone(), second.tls.clone());
    let apart = (first.round_trip.0 - second.round_trip.0).abs();
    if apart > ROUND_TRIP.0 {
        server(
            "the round trip",
            first.round_trip.to_string(),
            second.round_trip.to_string(),
        );
    }
}

fn of_host(a: &Run, b: &Run, found: &mut Differences) {
    let mut host = |what, first: String, second: String| {
        found.compare(Part::Host, what, &first, &second);
    };
    host("the name", a.host.name.clone(), b.host.name.clone());
    host("the system", a.host.system.clone(), b.host.system.clone());
    host("the processor", a.host.cpu.clone(), b.host.cpu.clone());
    host(
        "the number of cores",
        a.host.cores.to_string(),
        b.host.cores.to_string(),
    );
    // A kernel takes a little more or less of the same memory.
    let memory = |bytes: u64| (bytes as f64 / f64::from(1 << 30) * 4.0).round() / 4.0;
    let (first, second) = (memory(a.host.memory.0), memory(b.host.memory.0));
    host(
        "the memory",
        format!("{first} GiB"),
        format!("{second} GiB"),
    );
}
