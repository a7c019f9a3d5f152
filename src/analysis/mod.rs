//! What the measurements mean. Pure: no clock, file or socket.

mod advice;
mod analyse;
mod answer;
mod between;
mod bottleneck;
mod cause;
mod cell;
mod compare;
mod criteria;
mod decision;
mod doubt;
mod drift;
mod durability;
mod effect;
mod effect_test;
mod evidence;
mod findings;
mod headline;
mod instance;
pub mod knee;
pub mod knee_csv;
mod ladder;
mod ladder_finding;
mod limit;
mod next;
mod refinement;
mod rules;
mod rules_cpu;
mod rules_limits;
mod rules_replication;
mod signals;
#[cfg(test)]
mod simulation;
mod soak;
mod soak_finding;
mod stats;
mod swings;
mod trend;
mod unlike;
mod validity;
mod verdict;

pub use analyse::analyse;
pub use between::{Between, between};
pub use evidence::{
    CellEvidenceFinding, EvidenceFindings, PlanFinding, ReplicaFinding, SwingFinding,
};
pub use findings::*;
pub use next::{reference_cells, refined_cell, soak_cell};
pub(crate) use stats::p_words;
pub use swings::Moving;
pub use unlike::{Part, Unlike, unlike};

/// Name of the figure that says how long a probe's reading took, milliseconds.
pub use crate::probe::names::PROBE_MS;
