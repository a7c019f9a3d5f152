//! One criterion over all workloads: the worst decides, and doubtful steps decide nothing.

use super::findings::{CellSummary, CriterionResult, LadderFinding, Outcome, StepSummary};
use super::{doubt, instance};
use crate::plan::{Criteria, Step};

/// A result with its distance from failing, so that the tightest of several can be shown.
pub(super) struct Judged {
    pub(super) result: CriterionResult,
    /// Share of the requirement that is left, negative when it is missed. Infinite when there is no figure.
    pub(super) margin: f64,
    /// The steps whose figures decided.
    pub(super) on: Vec<Step>,
}

impl Judged {
    /// With this distance from failing.
    pub(super) fn margin(mut self, margin: f64) -> Self {
        self.margin = margin;
        self
    }

    /// The one step whose figures decided, and where that is in words.
    pub(super) fn at(mut self, step: Step, place: String) -> Self {
        self.on = vec![step];
        self.result.place = Some(place);
        self
    }

    /// With what a reader of the outcome must know besides.
    pub(super) fn remark(mut self, remark: Option<String>) -> Self {
        if let Some(remark) = &remark {
            self.result.why = format!("{}; {remark}", self.result.why);
        }
        self.result.remark = remark;
        self
    }

    /// Neither passed nor failed, since the steps that decided are in doubt.
    fn doubted(self, doubt: &str) -> Self {
        let met = match self.result.outcome {
            Outcome::Pass => "met",
            _ => "missed",
        };
        let mut doubted = self;
        doubted.result.outcome = Outcome::Inconclusive;
        doubted.remark(Some(format!("{met} as measured, but {doubt}")))
    }
}

/// What all criteria are judged with.
pub(super) struct Bench<'a> {
    /// The limit of the instance.
    pub(super) instance: Option<u32>,
    /// All cells of the run.
    pub(super) cells: &'a [CellSummary],
    /// What the plan requires.
    pub(super) criteria: &'a Criteria,
}

impl Bench<'_> {
    /// One criterion over all baseline ladders: the worst of them decides, among equals the tightest.
    pub(super) fn over(
        &self,
        ladders: &[&LadderFinding],
        name: &str,
        judge: impl Fn(&LadderFinding, &[CellSummary]) -> Judged,
    ) -> CriterionResult {
        let severity = |outcome| match outcome {
            Outcome::Fail => 3,
            Outcome::NotTested => 2,
            Outcome::Inconclusive => 1,
            Outcome::Pass => 0,
        };
        let mut worst: Option<Judged> = None;
        for ladder in ladders {
            let mut judged = self.one(ladder, &judge);
            let result = &mut judged.result;
            name.clone_into(&mut result.name);
            if ladders.len() > 1 {
                let workload = &ladder.workload;
                result.why = format!("{workload}: {}", result.why);
                let place = result.place.take();
                result.place = Some(place.map_or_else(
                    || format!("in {workload}"),
                    |place| format!("{place} in {workload}"),
                ));
            }
            let rank = |j: &Judged| (severity(j.result.outcome), -j.margin);
            if worst.as_ref().is_none_or(|w| rank(&judged) > rank(w)) {
                worst = Some(judged);
            }
        }
        worst.map_or_else(
            || CriterionResult {
                name: name.to_owned(),
                required: "n/a".to_owned(),
                found: "n/a".to_owned(),
                outcome: Outcome::NotTested,
                why: "no cell of the baseline was measured".to_owned(),
                place: None,
                remark: None,
            },
            |w| w.result,
        )
    }

    /// One ladder. What was decided on doubtful steps is open, unless the sound ones fail as well.
    fn one(
        &self,
        ladder: &LadderFinding,
        judge: &impl Fn(&LadderFinding, &[CellSummary]) -> Judged,
    ) -> Judged {
        let mut judged = judge(ladder, self.cells);
        // A pass on steps that an invalid one may overturn is no pass; a fail needs no further step.
        if let (Outcome::Pass, Some(why)) = (judged.result.outcome, &ladder.unreliable) {
            judged.result.outcome = Outcome::NotTested;
            judged.result.why.clone_from(why);
            judged.result.remark = None;
        }
        if !matches!(judged.result.outcome, Outcome::Pass | Outcome::Fail) {
            return judged;
        }
        let on: Vec<&StepSummary> = ladder
            .steps
            .iter()
            .filter(|s| judged.on.contains(&s.step))
            .collect();
        let Some(doubt) = doubt::of_decision(ladder, &on, self.cells) else {
            return judged;
        };
        if judged.result.outcome == Outcome::Fail {
            let sound = doubt::sound_part(ladder, self.cells, self.criteria);
            let sound = instance::held_to(&sound, self.instance, self.criteria);
            let cells: Vec<CellSummary> = self
                .cells
                .iter()
                .filter(|c| !doubt::of_cell(c))
                .cloned()
                .collect();
            let again = judge(&sound, &cells);
            if again.result.outcome == Outcome::Fail {
                return again;
            }
        }
        judged.doubted(&doubt)
    }
}

/// A result that no step and no distance is known of yet.
pub(super) fn result(required: String, found: String, outcome: Outcome, why: String) -> Judged {
    Judged {
        result: CriterionResult {
            name: String::new(),
            required,
            found,
            outcome,
            why,
            place: None,
            remark: None,
        },
        margin: f64::INFINITY,
        on: Vec::new(),
    }
}
