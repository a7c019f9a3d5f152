//! The view: plain text and figures. A template of a user's own works with these names.

use serde::Serialize;

/// Everything that a report template may set. Figures are text with three significant digits, `n/a`
/// where one is missing; the template also gets `run` and `findings` with the plain numbers.
#[derive(Debug, Clone, Serialize)]
pub struct View {
    /// What a reader must know first.
    pub summary: Summary,
    /// Block 1.
    pub environment: Environment,
    /// Block 2: results by workload and variant.
    pub workloads: Vec<WorkloadView>,
    /// Cells that an early end of the run left out, one line a reason; they have no row.
    pub not_run: Vec<String>,
    /// Block 3: why each ladder stops.
    pub bottlenecks: Vec<BottleneckView>,
    /// Block 4: recommended limits.
    pub limits: Vec<LimitView>,
    /// The load that was held after the ladder; `None`: the plan asks for none.
    pub soak: Option<SoakView>,
    /// What refining the ladder did; `None`: the plan did not ask for it.
    pub refinement: Option<String>,
    /// The baseline through the run, where its variants are judged.
    pub references: Vec<ReferenceView>,
    /// Variants against the baseline.
    pub comparisons: Vec<ComparisonView>,
    /// What each variant changed.
    pub variants: Vec<VariantView>,
    /// In what state each variant, or each cell with data of its own, began.
    pub starts: Vec<StartView>,
    /// All warnings.
    pub warnings: Vec<WarningView>,
    /// What a reader should know besides.
    pub notes: Vec<String>,
    /// What was seen beside the load.
    pub seen: super::SeenView,
    /// Signals that could not be read, with the reason.
    pub unavailable: Vec<String>,
    /// Whether arrivals followed a rate instead of the answers.
    pub open_loop: bool,
    /// Most runs of a step: passes over all variants, refined ones included.
    pub repeats: u32,
    /// How each figure is defined.
    pub definitions: Vec<Pair>,
    /// What this load is not.
    pub not_this: Vec<String>,
}

/// A name and what stands beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// Name.
    pub name: String,
    /// Text.
    pub value: String,
}

impl Pair {
    pub(super) fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }
}

/// The verdict and what belongs beside it.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The plan's name.
    pub name: String,
    /// The run in one word: `passed`, `FAILED`, `cannot be relied on` …
    pub overall: String,
    /// Why it is that, when it is not plain.
    pub why: Option<String>,
    /// The answer in one to three sentences.
    pub sentence: String,
    /// Why the run is incomplete; `None`: it is complete.
    pub incomplete: Option<String>,
    /// Limit, knee, bottleneck … as a list.
    pub answers: Vec<Pair>,
    /// What the release needs.
    pub criteria: Vec<CriterionView>,
    /// Departures from the method that the author accepted.
    pub accepted: Vec<WarningView>,
    /// Departures that nobody accepted.
    pub open: Vec<WarningView>,
}

/// One criterion.
#[derive(Debug, Clone, Serialize)]
pub struct CriterionView {
    /// Key in the plan.
    pub name: String,
    /// What is required.
    pub required: String,
    /// What was found.
    pub found: String,
    /// `pass`, `FAIL`, `not tested`, `inconclusive`.
    pub outcome: String,
    /// Evidence.
    pub why: String,
    /// `found` with its step and workload, for where there is no evidence beside it.
    pub found_at: String,
    /// What qualifies the outcome; the evidence says it too.
    pub remark: Option<String>,
}

/// One warning.
#[derive(Debug, Clone, Serialize)]
pub struct WarningView {
    /// Stable name.
    pub name: String,
    /// What is wrong and what follows.
    pub text: String,
    /// `accepted in the plan` or `open`.
    pub state: String,
}

/// Where and how it was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Environment {
    /// The author's words.
    pub author: Vec<Pair>,
    /// The server.
    pub server: Vec<Pair>,
    /// The variables that matter, those that the server has.
    pub variables: Vec<Pair>,
    /// Settings for the whole run.
    pub settings: Vec<SettingView>,
    /// The data.
    pub data: Vec<Pair>,
    /// The load machine.
    pub host: Vec<Pair>,
    /// The test.
    pub test: Vec<Pair>,
}

/// A variable that was set.
#[derive(Debug, Clone, Serialize)]
pub struct SettingView {
    /// Variable.
    pub name: String,
    /// Value before.
    pub before: String,
    /// Value asked for.
    pub asked: String,
    /// Value read back.
    pub took: String,
}

/// The state in which a variant, or a cell with data of its own, began.
#[derive(Debug, Clone, Serialize)]
pub struct StartView {
    /// Variant.
    pub variant: String,
    /// The first cell from here on.
    pub cell: String,
    /// How the data came to its state.
    pub data: String,
    /// How long putting it back took.
    pub took: String,
    /// What was waited for, before → after.
    pub settled: String,
    /// The warm-up: time, reads from files per second in its first and last interval.
    pub warmup: String,
}

/// A workload with the results of each variant.
#[derive(Debug, Clone, Serialize)]
pub struct WorkloadView {
    /// Name.
    pub name: String,
    /// One sentence.
    pub description: String,
    /// Statements as run.
    pub mix: Vec<String>,
    /// One ladder a variant.
    pub ladders: Vec<LadderView>,
}

/// The results of one workload under one variant.
#[derive(Debug, Clone, Serialize)]
pub struct LadderView {
    /// Variant.
    pub variant: String,
    /// The knee in one sentence.
    pub statement: String,
    /// One row a cell.
    pub rows: Vec<CellView>,
    /// Repeats of a step combined; empty with one pass.
    pub combined: Vec<CombinedView>,
    /// Intervals that the steady-state cut dropped, by cell.
    pub cut: Option<String>,
    /// Why cells are not simply valid, one line each.
    pub objections: Vec<String>,
    /// Errors and outages of cells, those included that retries cured.
    pub troubles: Vec<String>,
    /// Latencies by statement class at one cell.
    pub statements: Option<StatementsView>,
    /// What a reader should know besides.
    pub notes: Vec<String>,
}

/// One cell.
#[derive(Debug, Clone, Serialize)]
pub struct CellView {
    /// Position in the run.
    pub index: String,
    /// Threads, or the rate in transactions/s.
    pub step: String,
    /// Concurrent clients.
    pub clients: String,
    /// Pass.
    pub repeat: String,
    /// Transactions per second.
    pub tps: String,
    /// Statements per second.
    pub qps: String,
    /// Latency, ms. In open loop: response time.
    pub avg: String,
    /// See `avg`.
    pub p50: String,
    /// See `avg`.
    pub p95: String,
    /// See `avg`.
    pub p99: String,
    /// See `avg`.
    pub p999: String,
    /// See `avg`.
    pub max: String,
    /// Open loop: service time, ms.
    pub service_avg: String,
    /// Open loop: service time, ms.
    pub service_p95: String,
    /// Open loop: service time, ms.
    pub service_p99: String,
    /// Open loop: share of arrivals dropped, percent.
    pub dropped: String,
    /// Open loop: `yes` or `no`.
    pub held: String,
    /// Errors, those included that a retry cured.
    pub errors: String,
    /// Transactions given up.
    pub failed: String,
    /// Attempts after the first.
    pub retries: String,
    /// Connections made anew.
    pub reconnects: String,
    /// Spread of transactions among the clients, percent.
    pub spread: String,
    /// Coefficient of variation of the intervals' throughput, percent.
    pub cv: String,
    /// Gain in throughput per doubling, percent.
    pub gain: String,
    /// Length of the steady-state window, s.
    pub window: String,
    /// `valid`, `suspect (V4)`, `invalid (V1)`, `failed` …
    pub verdict: String,
}

/// The valid repeats of a step as one.
#[derive(Debug, Clone, Serialize)]
pub struct CombinedView {
    /// Threads or rate.
    pub step: String,
    /// Runs combined, and invalid ones left out.
    pub runs: String,
    /// Geometric mean of transactions per second.
    pub tps: String,
    /// Spread between runs, percent.
    pub run_sd: String,
    /// Mean latency, ms.
    pub avg: String,
    /// 95th percentile, ms.
    pub p95: String,
    /// 99th percentile, ms.
    pub p99: String,
    /// Gain per doubling, percent.
    pub gain: String,
}

/// Latencies by statement class.
#[derive(Debug, Clone, Serialize)]
pub struct StatementsView {
    /// The step that is shown.
    pub step: String,
    /// All measured time, in which no interval is cut: `8 s`.
    pub seconds: String,
    /// One row a class.
    pub rows: Vec<StatementView>,
}

/// One statement class.
#[derive(Debug, Clone, Serialize)]
pub struct StatementView {
    /// Class.
    pub class: String,
    /// Answers.
    pub count: String,
    /// Mean, ms.
    pub avg: String,
    /// 95th percentile, ms.
    pub p95: String,
    /// 99th percentile, ms.
    pub p99: String,
    /// Maximum, ms.
    pub max: String,
}

/// Why a ladder stops at a step.
#[derive(Debug, Clone, Serialize)]
pub struct BottleneckView {
    /// Workload.
    pub workload: String,
    /// Variant.
    pub variant: String,
    /// `at the knee` or `beyond the knee`.
    pub place: String,
    /// Concurrent clients looked at.
    pub threads: String,
    /// The same with its noun: `1 client`.
    pub clients: String,
    /// The first proved cause.
    pub primary: String,
    /// Others that take part, `none` or a list.
    pub contributing: String,
    /// One sentence with figures.
    pub sentence: String,
    /// All signals that were looked at.
    pub evidence: Vec<EvidenceView>,
    /// Those of them that count here or that speak for the primary cause.
    pub decisive: Vec<EvidenceView>,
    /// How many others there are.
    pub others: usize,
    /// Signals that could not be looked at.
    pub missing: Vec<String>,
    /// What can be tried.
    pub advice: Vec<String>,
}

/// One signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EvidenceView {
    /// What it speaks for.
    pub cause: String,
    /// What was looked at.
    pub signal: String,
    /// What was found.
    pub value: String,
    /// From where on it counts.
    pub threshold: String,
    /// `yes`, `no`, or `–` where it is not judged.
    pub met: String,
    /// Where it comes from.
    pub source: String,
}

/// The limit that a ladder supports.
#[derive(Debug, Clone, Serialize)]
pub struct LimitView {
    /// Workload.
    pub workload: String,
    /// Variant.
    pub variant: String,
    /// Knee with its kind.
    pub knee: String,
    /// Confidence.
    pub confidence: String,
    /// Range of the knee.
    pub range: String,
    /// Open loop: highest rate held.
    pub held: String,
    /// Open loop: first rate not held.
    pub not_held: String,
    /// Recommended concurrent clients.
    pub limit: String,
    /// Throughput at the limit.
    pub throughput: String,
    /// Throughput to plan with.
    pub planning: String,
    /// Room above the expected peak, percent.
    pub headroom: String,
    /// Why, and what would narrow it.
    pub why: String,
    /// Why it cannot be relied on.
    pub unreliable: Option<String>,
}

/// A load that was held.
#[derive(Debug, Clone, Serialize)]
pub struct SoakView {
    /// `held`, `DECLINED` …
    pub outcome: String,
    /// One or two sentences.
    pub sentence: String,
    /// Load, length, trends …
    pub facts: Vec<Pair>,
    /// Its course.
    pub parts: Vec<SoakPartView>,
    /// Why its cell is not simply valid.
    pub objections: Vec<String>,
}

/// A part of a soak.
#[derive(Debug, Clone, Serialize)]
pub struct SoakPartView {
    /// Seconds after the start of the measured time.
    pub from: String,
    /// See `from`.
    pub to: String,
    /// Transactions per second.
    pub tps: String,
    /// 95th percentile, ms.
    pub p95: String,
    /// 99th percentile, ms.
    pub p99: String,
    /// Maximum, ms.
    pub max: String,
    /// Errors, those included that a retry cured.
    pub errors: String,
}

/// The baseline at one step through the run.
#[derive(Debug, Clone, Serialize)]
pub struct ReferenceView {
    /// Workload.
    pub workload: String,
    /// Threads or rate.
    pub step: String,
    /// Transactions per second of each measurement, in order.
    pub tps: String,
    /// What throughput moved by, percent.
    pub drift: String,
    /// What p95 moved by, percent.
    pub drift_p95: String,
    /// One sentence.
    pub sentence: String,
}

/// A variant against the baseline.
#[derive(Debug, Clone, Serialize)]
pub struct ComparisonView {
    /// Variant.
    pub variant: String,
    /// Baseline.
    pub baseline: String,
    /// Workload.
    pub workload: String,
    /// Threads or rate.
    pub step: String,
    /// Whether this step decides.
    pub deciding: bool,
    /// Valid runs of baseline and variant.
    pub runs: String,
    /// TPS of the baseline.
    pub tps_baseline: String,
    /// TPS of the variant.
    pub tps_variant: String,
    /// Change of TPS, percent, with its 95 % interval.
    pub tps_change: String,
    /// Verdict on TPS.
    pub tps_verdict: String,
    /// Change of p95, percent, with its 95 % interval.
    pub p95_change: String,
    /// Verdict on p95.
    pub p95_verdict: String,
    /// `keep`, `roll back` …
    pub decision: String,
    /// One sentence, with what weakens it.
    pub sentence: String,
}

/// What a variant changed.
#[derive(Debug, Clone, Serialize)]
pub struct VariantView {
    /// Name.
    pub name: String,
    /// Whether the server was restarted for it.
    pub restarted: String,
    /// What it set.
    pub settings: Vec<SettingView>,
    /// Variables that differ from the baseline's.
    pub differs: Vec<SettingView>,
    /// Several variables moved with the author's consent.
    pub several: bool,
}
