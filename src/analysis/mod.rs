//! What the measurements mean. Pure: no clock, file or socket.

mod advice;
mod analyse;
mod bottleneck;
mod cell;
mod compare;
mod criteria;
mod durability;
mod evidence;
mod findings;
mod headline;
pub mod knee;
pub mod knee_csv;
mod ladder;
mod limit;
mod rules;
mod rules_cpu;
mod rules_replication;
mod signals;
mod stats;
mod swings;
mod validity;

pub use analyse::analyse;
pub use evidence::{
    CellEvidenceFinding, EvidenceFindings, PlanFinding, ReplicaFinding, SwingFinding,
};
pub use findings::*;
pub use swings::Moving;

/// Name of the figure that says how long a probe's reading took, milliseconds.
pub use crate::probe::names::PROBE_MS;
