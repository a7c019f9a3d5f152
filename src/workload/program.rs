//! What the load engine executes: weighted transactions made of statements and value generators.
//! The engine knows no workload by name; everything a workload is stands here.

use serde::{Deserialize, Serialize};

/// A complete workload, ready to run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Program {
    /// The name as the plan gives it, for example `oltp_read_write`.
    pub name: String,
    /// One sentence for people.
    pub description: String,
    /// The transactions; each event picks one by weight.
    pub transactions: Vec<Transaction>,
    /// Pause of a client after each transaction, in milliseconds (0: none). Not part of latency.
    pub think_time_ms: f64,
    /// How this workload's tables are made when they differ from the standard sysbench table.
    pub tables: TableLayout,
}

/// What the dataset must look like for a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum TableLayout {
    /// `sbtestN(id, k, c, pad)` with the plan's rows.
    #[default]
    Standard,
    /// `sbtest_newN`: like `Standard` but prepared empty (`oltp_insert` without auto-increment).
    StandardEmpty,
    /// `sbtest_bulkN(id PK, k)`, empty, one table per client (`bulk_insert`): client t of 0.. uses table
    /// t + 1, whatever `tables` says.
    Bulk,
}

/// One transaction: what a client does as one unit whose latency is measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Transaction {
    /// Name for reports; unique within the program.
    pub name: String,
    /// Relative share among the program's transactions, at least 1.
    pub weight: u32,
    /// Whether BEGIN and COMMIT surround the statements (sent as text, counted as `other` queries).
    pub begin: bool,
    /// The groups in the order in which they run.
    pub groups: Vec<Group>,
}

/// Statements that share one table choice. The table is drawn once per group and transaction,
/// then the body runs `repeat` times; binds are drawn anew in each repetition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// How many times the body runs; 0 switches the group off.
    pub repeat: u32,
    /// Values drawn once per repetition and used by several parameters (`Value::Bound`).
    pub binds: Vec<Generator>,
    /// The statements of the body, in order.
    pub statements: Vec<Statement>,
}

/// One SQL statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statement {
    /// Class name for histograms and error counts, for example `point_select`. Statements of one
    /// class share a histogram.
    pub class: String,
    /// The SQL with `?` for each parameter and `{table}` for the number of the table (1-based).
    /// Repeated brackets of a multi-row insert stand in full.
    pub sql: String,
    /// What the server is asked to do; decides under which of read/write/other it counts when the
    /// answer does not (a result set is always a read; affected rows > 0 a write; else other).
    pub parameters: Vec<Value>,
    /// Always sent by the text protocol, whatever the plan's protocol (`oltp_insert`).
    pub text_only: bool,
}

/// Where a parameter's value comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// Drawn anew for this parameter.
    Draw(Generator),
    /// The group's bind number `bind`, plus `plus` (integers only), or `minus` capped at nothing.
    Bound {
        /// Index into [`Group::binds`].
        bind: usize,
        /// Added to the bound integer.
        plus: i64,
    },
}

/// A generator of parameter values.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Generator {
    /// A row id in 1..=rows, by the plan's access distribution.
    Key,
    /// A row id within this client's own segment of the table: client t of L clients draws by the access
    /// distribution
    /// from `[t·rows/L, (t+1)·rows/L]` (sysbench's `select_random_points` and `_ranges`); see `KeySampler::for_segment`.
    SegmentKey,
    /// Text by pattern: `#` is a random digit, `@` a random lower-case letter, all else itself.
    Text(String),
    /// A uniform integer, both ends included.
    Integer {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// The next value of a full-period permutation of 32-bit integers shared by all clients, minus 2³¹.
    Unique,
    /// A number that counts up from 1 per client (`bulk_insert`).
    Sequence,
}

impl Program {
    /// The distinct statement classes in order of first use; the index is the class id in tallies.
    pub fn classes(&self) -> Vec<&str> {
        let mut classes = Vec::new();
        for statement in self.statements() {
            if !classes.contains(&statement.class.as_str()) {
                classes.push(statement.class.as_str());
            }
        }
        classes
    }

    /// All statements of groups that are switched on.
    pub fn statements(&self) -> impl Iterator<Item = &Statement> {
        self.transactions
            .iter()
            .flat_map(|t| &t.groups)
            .filter(|g| g.repeat > 0)
            .flat_map(|g| &g.statements)
    }

    /// Whether any statement changes rows.
    pub fn writes(&self) -> bool {
        self.statements().any(|s| {
            !s.sql
                .trim_start()
                .get(..6)
                .is_some_and(|verb| verb.eq_ignore_ascii_case("select"))
        })
    }

    /// Server-side prepared statements one client can hold: distinct SQL texts times `tables`
    /// (those that name a table) — the arithmetic behind `max_prepared_stmt_count`.
    pub fn prepared_statements_per_client(&self, tables: u32) -> u64 {
        let mut seen = std::collections::BTreeSet::new();
        self.statements()
            .filter(|s| !s.text_only && seen.insert(s.sql.as_str()))
            .map(|s| {
                if s.sql.contains("{table}") {
                    u64::from(tables)
                } else {
                    1
                }
            })
            .sum()
    }
}
