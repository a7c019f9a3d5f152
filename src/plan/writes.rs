//! Workloads that write where they must not, by what the plan says of its data.

use super::diagnostic::Diagnostic;
use super::wire::Fields;
use super::{Binlog, Dataset, Ladder, Warmup};
use crate::workload::{Program, TableLayout};

/// Refuses workloads that write to tables which something else made, unless the plan says so, and to tables that
/// the replicas have not got.
pub(super) fn refuse(
    fields: &Fields,
    dataset: &Dataset,
    ladder: &Ladder,
    warmup: &Warmup,
    problems: &mut Vec<Diagnostic>,
) {
    let writer = |of: &dyn Fn(&Program) -> bool| {
        let all = ladder.workloads.iter().chain(&warmup.workload);
        all.filter(|program| program.writes())
            .find(|program| of(program))
            .map(|program| program.name.clone())
    };
    let on_existing = writer(&|program| program.tables == TableLayout::Standard);
    // A private server has no existing tables, which is an error of its own.
    let existing = dataset.existing && fields.table("target.managed").is_none();
    if let (true, false, Some(name)) = (existing, dataset.change_existing, on_existing) {
        problems.push(
            Diagnostic::error(
                fields.key_at("dataset.existing"),
                format!("workload `{name}` would write to tables that capbench did not make and cannot put back"),
            )
            .hint("keep to workloads that only read, let capbench make tables of its own, or, if the data may change, say change_existing = true in [dataset]"),
        );
    }
    if let (Some(Binlog::Unlogged), Some(name)) = (dataset.binlog, writer(&|_| true)) {
        problems.push(
            Diagnostic::error(
                fields.at("dataset.binlog"),
                format!("workload `{name}` writes through the binary log to tables that are loaded past it: replicas would stop with error 1146"),
            )
            .hint("write binlog = \"logged\", so that they get the tables too, or keep to workloads that only read"),
        );
    }
}
