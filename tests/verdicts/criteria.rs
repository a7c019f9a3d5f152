//! Criteria at a step of the plan's choice.

use capbench::analysis::{Outcome, analyse};
use capbench::plan::Step;
use capbench::units::{Millis, Ratio};

use crate::runs::{ladder, run};

#[test]
fn percentiles_at_a_step_are_judged_there_and_lower_no_limit() {
    let mut run = run(ladder());
    let steps = analyse(&run).ladders[0].steps.clone();
    let (at16, at64) = (steps[1].p95.unwrap(), steps[3].p95.unwrap());
    run.criteria.max_p95 = Some(Millis(at16.0 * 1.05));
    run.criteria.at = Some(Step::Threads(16));
    let findings = analyse(&run);
    assert_eq!(
        findings.criteria[0].outcome,
        Outcome::Pass,
        "{:?}",
        findings.criteria
    );
    assert_eq!(
        findings.criteria[0].required,
        format!("p95 ≤ {} at 16 threads", Millis(at16.0 * 1.05))
    );
    // Without `at` the requirement would have lowered it to 16.
    assert_eq!(findings.headline.limit, Some(32));
    run.criteria.at = Some(Step::Threads(64));
    let findings = analyse(&run);
    assert_eq!(findings.criteria[0].outcome, Outcome::Fail);
    assert!(findings.criteria[0].why.contains(&at64.to_string()));
    assert_eq!(findings.headline.exit_code, 1);
    // A step that has no valid run was not tested.
    run.cells.remove(3);
    let findings = analyse(&run);
    assert_eq!(findings.criteria[0].outcome, Outcome::NotTested);
    assert_eq!(findings.headline.exit_code, 1);
}

/// Each criterion with missing evidence: never a pass.
#[test]
fn missing_evidence_is_never_a_pass() {
    let mut run = run(ladder().into_iter().take(2).collect());
    run.criteria.expected_peak_tps = Some(1.0);
    run.criteria.min_headroom = Some(Ratio(0.1));
    run.criteria.max_p95 = Some(Millis(1e6));
    run.criteria.max_p99 = Some(Millis(1e6));
    run.criteria.min_threads = Some(1);
    run.criteria.max_errors = Some(Ratio(1.0));
    run.criteria.soak_held = true;
    run.cells.clear();
    let findings = analyse(&run);
    assert_eq!(findings.criteria.len(), 6);
    for criterion in &findings.criteria {
        assert_eq!(criterion.outcome, Outcome::NotTested, "{criterion:?}");
    }
}
