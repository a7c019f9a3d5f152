//! What a report says, in words and figures ready to be set: the only place of the report that knows
//! records and findings.

mod after;
mod environment;
mod ladders;
mod model;
mod seen;
mod starts;
mod summary;

pub use environment::IMPORTANT_VARIABLES;
pub(super) use ladders::sentence;
pub use model::*;
pub use seen::{DigestView, DigestsView, PlanView, SeenCellView, SeenView};
pub(super) use summary::comparisons;

use crate::analysis::Findings;
use crate::record::Run;

/// Builds the view of a run.
pub fn build(run: &Run, findings: &Findings) -> View {
    View {
        summary: summary::summary(run, findings),
        environment: environment::environment(run),
        workloads: ladders::workloads(run, findings),
        not_run: ladders::not_run(run),
        bottlenecks: ladders::bottlenecks(findings),
        limits: ladders::limits(findings),
        soak: after::soak(run, findings),
        refinement: findings.refinement.as_ref().map(|r| r.sentence.clone()),
        references: after::references(findings),
        comparisons: summary::comparisons(&findings.comparisons),
        variants: environment::variants(run),
        starts: starts::starts(run),
        warnings: summary::warnings(run),
        notes: findings.notes.clone(),
        seen: seen::seen(run, findings),
        unavailable: run.unavailable.clone(),
        open_loop: run.open.is_some(),
        repeats: ladders::passes(run),
        definitions: summary::definitions(run),
        not_this: summary::not_this(run),
    }
}
