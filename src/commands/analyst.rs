//! The analysis, asked in the middle of a run what to measure next.

use crate::analysis;
use crate::execute::Advisor;
use crate::plan::Plan;
use crate::record::{NextCell, Run};

/// Answers from the records so far.
pub(crate) struct Analyst<'a> {
    /// The plan that is run.
    pub(crate) plan: &'a Plan,
}

impl Advisor for Analyst<'_> {
    fn references(&self, run: &Run) -> Vec<NextCell> {
        analysis::reference_cells(run)
    }

    fn refine(&self, run: &Run) -> Option<NextCell> {
        analysis::refined_cell(run)
    }

    fn soak(&self, run: &Run) -> Result<NextCell, String> {
        let soak = self.plan.soak.as_ref().ok_or("the plan has none")?;
        let workload = soak
            .workload
            .and_then(|i| self.plan.ladder.workloads.get(i))
            .map(|program| program.name.as_str());
        analysis::soak_cell(run, soak.level, workload)
    }
}
