//! Two runs against each other: the same statistics as between variants, with what days differ by on top.

use std::collections::BTreeMap;

use serde::Serialize;

use super::analyse::{analyse, steps_of, workload_names};
use super::answer::Overall;
use super::cell;
use super::compare::{self, Pairing};
use super::doubt;
use super::effect::{Comparison, EffectVerdict};
use super::effect_test::{PAIR_CV, PAIR_NOISE};
use super::findings::{Findings, Validity};
use super::knee::KneeKind;
use super::ladder::{Measured, StepCells, by_step};
use crate::plan::{HouseRule, Step};
use crate::record::{AppliedSetting, CellKind, Run, VariantRecord};
use crate::units::Ratio;

/// What two runs say against each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Between {
    /// Every step that both have, the first run as baseline.
    pub comparisons: Vec<Comparison>,
    /// Variables that differ: name, first, second.
    pub changed: Vec<(String, String, String)>,
    /// The recommended limit of each.
    pub limits: (Option<u32>, Option<u32>),
    /// Why one of them cannot be relied on.
    pub unreliable: Option<String>,
    /// What a reader should know besides.
    pub notes: Vec<String>,
    /// The answer in one sentence.
    pub sentence: String,
    /// Process exit code: 0, 1 when something that decides got worse, 4 when nothing can be relied on.
    pub exit_code: u8,
}

/// Compares `second` with `first`. Two runs are one pair of days, however many repeats each has: what whole
/// runs differ by (1.5 % \[M\]) is added to the error of every effect.
pub fn between(first: &Run, second: &Run) -> Between {
    let findings = (analyse(first), analyse(second));
    let (ours, theirs) = (summaries(first), summaries(second));
    let house = first.house;
    let mut comparisons = Vec::new();
    let mut changed = Vec::new();
    let pairs = pairs(first, second);
    for (a, b) in &pairs {
        let (baseline, variant, moved) = records(first, second, a, b);
        for (name, before, after) in moved {
            let row = (name, before, after);
            if !changed.contains(&row) {
                changed.push(row);
            }
        }
        for workload in workload_names(first) {
            let sides = (
                steps_of(&measured(&ours), &a.name, workload),
                steps_of(&measured(&theirs), &b.name, workload),
            );
            let (all_ours, all_theirs) = (measured(&ours), measured(&theirs));
            let references = (
                closing(&all_ours, &a.name, workload),
                closing(&all_theirs, &b.name, workload),
            );
            let found = compare::compare(&Pairing {
                baseline: (&baseline, &sides.0),
                variant: (&variant, &sides.1),
                references: &references.0,
                workload,
                knee: knee(&findings.0, &a.name, workload),
                house,
                warmed: true,
                between: PAIR_NOISE,
            });
            comparisons.extend(found.into_iter().map(|mut c| {
                if let Some(step) = sides.1.iter().find(|s| s.step == c.step) {
                    let other = compare::reference(step, &references.1, workload);
                    c.drift = larger(c.drift, other.drift);
                    c.drift_p95 = larger(c.drift_p95, other.drift_p95);
                }
                c
            }));
        }
    }
    compare::decide(&mut comparisons, &house, PAIR_NOISE);
    conclude(comparisons, changed, &findings, &pairs, &house)
}

type Summaries = Vec<(super::findings::CellSummary, super::signals::Signals)>;

fn summaries(run: &Run) -> Summaries {
    run.cells
        .iter()
        .map(|record| cell::summarise(run, record))
        .collect()
}

fn measured(summaries: &Summaries) -> Vec<Measured<'_>> {
    summaries
        .iter()
        .map(|(summary, signals)| Measured { summary, signals })
        .collect()
}

/// The reference cells of a variant and workload, by step.
pub(super) fn closing<'a>(
    all: &[Measured<'a>],
    variant: &str,
    workload: &str,
) -> Vec<StepCells<'a>> {
    by_step(all.iter().copied().filter(|m| {
        m.summary.kind == CellKind::Reference
            && m.summary.variant == variant
            && m.summary.workload == workload
    }))
}

/// The larger movement, whatever its direction.
fn larger(a: Option<Ratio>, b: Option<Ratio>) -> Option<Ratio> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.0.abs() > a.0.abs() { b } else { a }),
        (one, other) => one.or(other),
    }
}

fn knee(findings: &Findings, variant: &str, workload: &str) -> Option<Step> {
    findings
        .ladders
        .iter()
        .find(|l| l.variant == variant && l.workload == workload)
        .and_then(super::analyse::deciding_step)
}

/// Variants of the same name; without any, the first of both.
fn pairs<'a>(first: &'a Run, second: &'a Run) -> Vec<(&'a VariantRecord, &'a VariantRecord)> {
    let mut pairs: Vec<_> = first
        .variants
        .iter()
        .filter_map(|a| Some((a, second.variants.iter().find(|b| b.name == a.name)?)))
        .collect();
    if pairs.is_empty() {
        pairs.extend(first.variants.first().zip(second.variants.first()));
    }
    pairs
}

/// Variables that say where a server is or who it is, not how it works. Paths beside these are told by their
/// slash.
const PLACE: &[&str] = &[
    "hostname",
    "port",
    "report_port",
    "report_host",
    "extra_port",
    "mysqlx_port",
    "admin_port",
    "server_id",
    "server_uuid",
    "server_uid",
    "bind_address",
];

/// All global variables as they were under a variant.
fn variables(run: &Run, variant: &VariantRecord) -> BTreeMap<String, String> {
    let mut variables = run
        .server
        .as_ref()
        .map(|s| s.variables.clone())
        .unwrap_or_default();
    for setting in &run.settings {
        if let Some(took) = &setting.took {
            variables.insert(setting.name.clone(), took.clone());
        }
    }
    for (name, (_, here)) in &variant.differs {
        variables.insert(name.clone(), here.clone());
    }
    variables
}

type Moved = Vec<(String, String, String)>;

/// Both variants as records of one run: the second with everything that differs from the first.
fn records(
    first: &Run,
    second: &Run,
    a: &VariantRecord,
    b: &VariantRecord,
) -> (VariantRecord, VariantRecord, Moved) {
    let (before, after) = (variables(first, a), variables(second, b));
    let moved: Moved = before
        .iter()
        .filter_map(|(name, x)| {
            let y = after.get(name)?;
            let place = PLACE.contains(&name.as_str())
                || name.starts_with("version")
                || name == "innodb_version"
                || (x.contains('/') && y.contains('/'))
                || x.is_empty() && y.contains('/')
                || y.is_empty() && x.contains('/');
            (x != y && !place).then(|| (name.clone(), x.clone(), y.clone()))
        })
        .collect();
    let variant = VariantRecord {
        name: b.name.clone(),
        settings: moved
            .iter()
            .map(|(name, before, after)| AppliedSetting {
                name: name.clone(),
                before: Some(before.clone()),
                asked: after.clone(),
                took: Some(after.clone()),
            })
            .collect(),
        restarted: false,
        differs: moved
            .iter()
            .map(|(name, x, y)| (name.clone(), (x.clone(), y.clone())))
            .collect(),
        several: b.several,
    };
    let baseline = VariantRecord {
        settings: Vec::new(),
        restarted: false,
        differs: BTreeMap::new(),
        ..a.clone()
    };
    (baseline, variant, moved)
}

fn is_worse(verdict: EffectVerdict) -> bool {
    matches!(
        verdict,
        EffectVerdict::Worse | EffectVerdict::WorseBeyondNoise
    )
}

/// Why none of the deciding steps allows a verdict: throughput swings too much within the runs.
fn undecidable(deciding: &[&Comparison]) -> Option<String> {
    let all: Option<Vec<Ratio>> = deciding.iter().map(|c| c.tps.uneven).collect();
    let highest = all?.into_iter().reduce(|a, b| if b > a { b } else { a })?;
    Some(format!(
        "throughput within a run varies by {highest} (CV), and a verdict on fewer than 3 runs a side needs at most {}",
        Ratio(PAIR_CV)
    ))
}

/// Which runs rest on cells whose figures are in doubt; empty: neither.
fn mostly_suspect(findings: &(Findings, Findings)) -> String {
    let most = |f: &Findings| {
        let ran = f.cells.iter().filter(|c| c.validity != Validity::Invalid);
        let suspect = ran.clone().filter(|c| doubt::of_cell(c)).count();
        let all = ran.count();
        (2 * suspect > all).then(|| format!("{suspect} of {all}"))
    };
    let (which, shares) = match (most(&findings.0), most(&findings.1)) {
        (Some(first), Some(second)) => ("both runs", format!("{first} and {second}")),
        (Some(first), None) => ("the first run", first),
        (None, Some(second)) => ("the second run", second),
        (None, None) => return String::new(),
    };
    format!(
        " Most cells of {which} are suspect ({shares}) by stalls, unaccounted time or other processes."
    )
}

fn conclude(
    comparisons: Vec<Comparison>,
    changed: Moved,
    findings: &(Findings, Findings),
    pairs: &[(&VariantRecord, &VariantRecord)],
    house: &HouseRule,
) -> Between {
    let unreliable = [("first", &findings.0), ("second", &findings.1)]
        .into_iter()
        .find_map(|(which, f)| {
            let how = match f.headline.overall {
                Overall::CannotBeReliedOn => "cannot be relied on",
                Overall::RunFailed => "failed",
                Overall::Interrupted => "was interrupted",
                _ => return None,
            };
            let why = f.headline.why.as_deref().unwrap_or("no reason given");
            Some(format!("the {which} run {how}: {why}"))
        });
    let deciding: Vec<&Comparison> = comparisons.iter().filter(|c| c.deciding).collect();
    let worse: Vec<String> = deciding
        .iter()
        .filter(|c| is_worse(c.tps.verdict) || c.p95.as_ref().is_some_and(|p| is_worse(p.verdict)))
        .map(|c| format!("{} at {}", c.workload, c.step))
        .collect();
    let count = |decision: fn(&&&Comparison) -> bool| deciding.iter().filter(decision).count();
    let mut sentence = if comparisons.is_empty() {
        let why = unreliable
            .as_ref()
            .map_or_else(String::new, |why| format!(", because {why}"));
        format!("No step was measured validly in both runs, nothing can be compared{why}.")
    } else if let Some(why) = &unreliable {
        format!("Nothing could be decided, because {why}.")
    } else if !worse.is_empty() {
        format!("The second run is worse: {}.", worse.join(", "))
    } else if deciding.is_empty() {
        "No knee to judge at: all steps are exploratory.".to_owned()
    } else if let Some(why) = undecidable(&deciding) {
        format!("Nothing could be decided, because {why}.")
    } else {
        let better = count(|c| c.tps.verdict == EffectVerdict::Better);
        let alike = count(|c| c.tps.verdict == EffectVerdict::Equivalent);
        match (better, alike) {
            (0, 0) => "Nothing that decides got worse or better beyond noise.".to_owned(),
            (0, _) => format!(
                "The second run is not worse; {alike} of {} deciding steps are equivalent within ±{}.",
                deciding.len(),
                house.smallest_tps
            ),
            _ => format!(
                "The second run is better at {better} of {} deciding steps.",
                deciding.len()
            ),
        }
    };
    sentence.push_str(&mostly_suspect(findings));
    let exit_code = match (&unreliable, comparisons.is_empty(), worse.is_empty()) {
        (_, true, _) | (Some(_), _, _) => 4,
        (None, false, false) => 1,
        (None, false, true) => 0,
    };
    let mut notes = vec![format!(
        "Repeats within a run share a day, a load of the data and a start of the server; between two runs {} (standard deviation; p95 twice that) is added for what those differ by, so intervals are wider than between variants of one run.",
        Ratio(PAIR_NOISE)
    )];
    if let Some((a, b)) = pairs.iter().find(|(a, b)| a.name != b.name) {
        notes.push(format!(
            "no variant has the same name in both: `{}` of the first is compared with `{}` of the second",
            a.name, b.name
        ));
    }
    if findings.0.ladders.iter().any(|l| {
        l.knee
            .as_ref()
            .is_some_and(|k| k.kind == KneeKind::NotReached)
    }) {
        notes.push(
            "a knee was not reached in the first run: the highest step stands for it".to_owned(),
        );
    }
    Between {
        limits: (findings.0.headline.limit, findings.1.headline.limit),
        comparisons,
        changed,
        unreliable,
        notes,
        sentence,
        exit_code,
    }
}
