//! A workload's statements for people.

use super::program::Program;
use super::sql;

/// One line a statement in the order in which they run, `10 × point_select: SELECT c FROM …`, with a line
/// before each transaction when there are several or it is surrounded by BEGIN and COMMIT. Groups that
/// are switched off are left out.
pub fn mix(program: &Program) -> Vec<String> {
    let mut lines = Vec::new();
    let weights: u64 = program
        .transactions
        .iter()
        .map(|t| u64::from(t.weight))
        .sum();
    let several = program.transactions.len() > 1;
    for transaction in &program.transactions {
        if several {
            lines.push(format!(
                "{} of {weights} transactions are {}:",
                transaction.weight, transaction.name
            ));
        }
        if transaction.begin {
            lines.push("BEGIN".to_owned());
        }
        for group in transaction.groups.iter().filter(|g| g.repeat > 0) {
            for statement in &group.statements {
                lines.push(format!(
                    "{} × {}: {}",
                    group.repeat,
                    statement.class,
                    sql::abbreviated(&statement.sql)
                ));
            }
        }
        if transaction.begin {
            lines.push("COMMIT".to_owned());
        }
    }
    if program.think_time_ms > 0.0 {
        lines.push(format!(
            "then a pause of {}, not part of latency",
            crate::units::Millis(program.think_time_ms)
        ));
    }
    lines
}
