//! Keep or roll back: the rule of the house.

use std::fmt::Write as _;

use super::effect::{Comparison, Decision, EffectVerdict};
use crate::plan::HouseRule;
use crate::units::Ratio;

/// Decides a comparison: throughput at least `keep_gain` beyond noise and drift, p95 not worse beyond noise.
/// A change that costs durability is never a plain "keep", and one that moved several things explains nothing.
pub(super) fn conclude(comparison: &mut Comparison, house: &HouseRule) {
    let change = comparison.tps.change.0;
    let p95 = comparison.p95.as_ref().map(|e| e.verdict);
    let p95_worse = matches!(
        p95,
        Some(EffectVerdict::Worse | EffectVerdict::WorseBeyondNoise)
    );
    let (decision, mut sentence) = match comparison.tps.verdict {
        EffectVerdict::Worse | EffectVerdict::WorseBeyondNoise => (
            Decision::RollBack,
            format!("roll back: throughput {:+.1} %", change * 100.0),
        ),
        _ if p95_worse => (
            Decision::RollBack,
            format!(
                "roll back: p95 rises by {:.1} % (throughput {:+.1} %)",
                comparison.p95.as_ref().map_or(0.0, |e| e.change.0) * 100.0,
                change * 100.0
            ),
        ),
        EffectVerdict::Equivalent => (
            Decision::RollBack,
            format!(
                "roll back: equivalent, within ±{} of the baseline",
                house.smallest_tps
            ),
        ),
        EffectVerdict::Inconclusive => (
            Decision::Undecided,
            format!("neither better nor worse is shown: {}", comparison.tps.why),
        ),
        EffectVerdict::BetterBeyondNoise => (
            Decision::Undecided,
            format!(
                "promising ({:+.1} %, ≥ 3 % and beyond noise), but one or two runs a side prove nothing: repeat with at least 3",
                change * 100.0
            ),
        ),
        EffectVerdict::Better if change < house.keep_gain.0 => (
            Decision::RollBack,
            format!(
                "roll back: {:+.1} % is real but below the {} that a change must bring",
                change * 100.0,
                house.keep_gain
            ),
        ),
        EffectVerdict::Better => keep(comparison, change),
    };
    if let Some(effect) = &comparison.p95 {
        let _ = write!(
            sentence,
            "; p95 {:+.1} % ({})",
            effect.change.0 * 100.0,
            verdict_words(effect.verdict)
        );
    } else {
        sentence.push_str("; p95 n/a");
    }
    if !comparison.deciding {
        sentence.push_str(" (exploratory step)");
    }
    comparison.decision = decision;
    if !comparison.confounded.is_empty() && decision != Decision::RollBack {
        comparison.decision = Decision::Confounded;
        sentence = format!(
            "confounded: {}; {sentence}",
            comparison.confounded.join(", ")
        );
    } else if !comparison.confounded.is_empty() {
        let _ = write!(
            sentence,
            "; confounded: {}",
            comparison.confounded.join(", ")
        );
    }
    comparison.sentence = sentence;
}

/// Better by enough: what keeps it from a plain "keep".
fn keep(comparison: &Comparison, change: f64) -> (Decision, String) {
    let gain = format!("{} throughput", gained(change));
    if !comparison.durability.is_empty() {
        return (
            Decision::NeedsSignOff,
            format!(
                "faster ({gain}), durability reduced ({}): needs sign-off",
                comparison.durability.join(", ")
            ),
        );
    }
    if !comparison.confounded.is_empty() {
        return (
            Decision::Confounded,
            format!("faster ({gain}), but the cause cannot be told"),
        );
    }
    if comparison.p95.is_none() {
        return (
            Decision::Undecided,
            format!("faster ({gain}), but p95 was not measured"),
        );
    }
    (Decision::Keep, format!("keep: {gain}"))
}

fn gained(change: f64) -> String {
    let sign = if change >= 0.0 { "+" } else { "" };
    format!("{sign}{}", Ratio(change))
}

fn verdict_words(verdict: EffectVerdict) -> &'static str {
    match verdict {
        EffectVerdict::Better => "falls",
        EffectVerdict::Worse => "rises",
        EffectVerdict::Equivalent => "equivalent",
        EffectVerdict::Inconclusive => "inconclusive",
        EffectVerdict::BetterBeyondNoise => "falls, beyond noise",
        EffectVerdict::WorseBeyondNoise => "rises, beyond noise",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
pub(super) mod tests {
    use super::super::effect::Effect;
    use super::*;
    use crate::plan::Step;

    pub(in super::super) fn comparison(tps: Effect, p95: Option<Effect>) -> Comparison {
        Comparison {
            variant: "b".to_owned(),
            baseline: "a".to_owned(),
            workload: "w".to_owned(),
            step: Step::Threads(32),
            deciding: true,
            runs: (5, 5),
            tps,
            p95,
            decision: Decision::Undecided,
            sentence: String::new(),
            confounded: Vec::new(),
            durability: Vec::new(),
            drift: None,
            drift_p95: None,
        }
    }

    pub(in super::super) fn made(change: f64, verdict: EffectVerdict) -> Effect {
        Effect {
            baseline: 1.0,
            variant: 1.0 + change,
            change: Ratio(change),
            interval: None,
            p_value: None,
            equivalence_p: None,
            verdict,
            runs_needed: None,
            uneven: None,
            why: String::new(),
        }
    }

    #[test]
    fn the_rule_of_the_house() {
        use Decision::*;
        use EffectVerdict::*;
        let alike = || Some(made(0.0, Equivalent));
        let decision = |mut c: Comparison| {
            conclude(&mut c, &HouseRule::default());
            (c.decision, c.sentence)
        };
        assert_eq!(decision(comparison(made(0.05, Better), alike())).0, Keep);
        assert_eq!(
            decision(comparison(made(0.025, Better), alike())).0,
            RollBack
        );
        assert_eq!(
            decision(comparison(made(0.05, Better), Some(made(0.1, Worse)))).0,
            RollBack
        );
        assert_eq!(
            decision(comparison(made(0.05, BetterBeyondNoise), alike())).0,
            Undecided
        );
        // A lower p95 is said; it is no reason to keep what brings no throughput.
        let falls = decision(comparison(made(0.05, Better), Some(made(-0.1, Better))));
        assert_eq!(falls.0, Keep);
        assert!(falls.1.contains("p95 -10.0 % (falls)"), "{}", falls.1);
    }

    #[test]
    fn what_keeps_a_gain_from_a_plain_keep() {
        use EffectVerdict::*;
        let faster = || comparison(made(0.5, Better), Some(made(0.0, Equivalent)));
        let mut risky = faster();
        risky.durability = vec!["innodb_flush_log_at_trx_commit 1 → 2".to_owned()];
        conclude(&mut risky, &HouseRule::default());
        assert_eq!(risky.decision, Decision::NeedsSignOff);
        assert!(risky.sentence.contains("needs sign-off"));
        // Both: nobody can sign for what cannot be told apart; both are said.
        risky.confounded = vec!["two variables".to_owned()];
        conclude(&mut risky, &HouseRule::default());
        assert_eq!(risky.decision, Decision::Confounded);
        assert!(
            risky.sentence.contains("needs sign-off"),
            "{}",
            risky.sentence
        );
        let mut two = faster();
        two.confounded = vec!["a".to_owned(), "b".to_owned()];
        conclude(&mut two, &HouseRule::default());
        assert_eq!(two.decision, Decision::Confounded);
        // Slower is rolled back whatever it was.
        let mut slower = comparison(made(-0.1, Worse), None);
        slower.confounded = vec!["a".to_owned(), "b".to_owned()];
        conclude(&mut slower, &HouseRule::default());
        assert_eq!(slower.decision, Decision::RollBack);
        assert!(
            slower.sentence.contains("confounded: a, b"),
            "{}",
            slower.sentence
        );
        let house = HouseRule {
            keep_gain: Ratio(0.6),
            ..HouseRule::default()
        };
        let mut little = faster();
        conclude(&mut little, &house);
        assert_eq!(little.decision, Decision::RollBack);
    }
}
