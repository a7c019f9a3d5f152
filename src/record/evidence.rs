//! What was seen beside the load: execution plans, statement digests, replicas, the server's own host.

use serde::{Deserialize, Serialize};

use super::Sample;

/// What a run saw beside its cells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunEvidence {
    /// Execution plans, one entry a ladder as it was climbed.
    pub plans: Vec<LadderPlans>,
    /// How the server's own host was read, for people; `None`: it has no probe.
    pub server_host: Option<String>,
    /// Replicas that were watched, by name, in the plan's order.
    pub replicas: Vec<String>,
}

/// Execution plans of a workload's statements before and after its ladder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LadderPlans {
    /// Pass over the variants, from 1.
    pub repeat: u32,
    /// Variant name.
    pub variant: String,
    /// Workload name.
    pub workload: String,
    /// Before the ladder's first step.
    pub before: Vec<StatementPlan>,
    /// After its last step.
    pub after: Vec<StatementPlan>,
    /// Why there are none, or none at the end.
    pub problem: Option<String>,
}

/// How the server executes one statement, with representative values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatementPlan {
    /// Statement class.
    pub class: String,
    /// The statement as the workload states it.
    pub sql: String,
    /// The tables in the order in which they are read.
    pub steps: Vec<PlanStep>,
    /// Why there is no plan; `None`: `steps` is it.
    pub none: Option<String>,
}

/// One row of EXPLAIN.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanStep {
    /// Kind of query block (`SIMPLE`, `PRIMARY`, `DERIVED` …).
    pub select: String,
    /// Table.
    pub table: String,
    /// Way of access (`const`, `range`, `index`, `ALL` …).
    pub access: String,
    /// Index that is used; `None`: none.
    pub key: Option<String>,
    /// Rows that the optimizer expects to read; an estimate.
    pub rows: Option<f64>,
    /// `Using where`, `Using filesort` …
    pub extra: String,
}

/// What a cell saw beside its load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CellEvidence {
    /// Statements that took the most time from the cell's first connection to its last, the largest first.
    pub digests: Vec<Digest>,
    /// Seconds by which the step was made longer because it was not steady; `None`: not asked for.
    pub extended_seconds: Option<f64>,
    /// Figures of the server's host, where it has a probe of its own; stored in `server_host.csv`.
    #[serde(skip)]
    pub server_host: Vec<Sample>,
    /// Replicas, each figure with the replica's name in front; stored in replicas.csv.
    #[serde(skip)]
    pub replicas: Vec<Sample>,
}

/// A normalised statement as `performance_schema` counted it over a cell, discard included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Digest {
    /// The statement, values replaced by the server; shortened.
    pub text: String,
    /// Executions.
    pub count: f64,
    /// Time in the server, seconds, summed over executions.
    pub seconds: f64,
    /// Of which waiting for table locks (server layer, not row locks), seconds.
    pub lock_seconds: f64,
    /// Rows read.
    pub rows_examined: f64,
    /// Rows handed to the client.
    pub rows_sent: f64,
    /// Rows changed.
    pub rows_affected: f64,
    /// Internal temporary tables.
    pub tmp_tables: f64,
    /// … on disk.
    pub tmp_disk_tables: f64,
    /// Executions that scanned a table without an index.
    pub no_index: f64,
    /// Errors.
    pub errors: f64,
}
