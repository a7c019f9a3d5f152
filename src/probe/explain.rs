//! How the server executes each statement of a workload: EXPLAIN with representative values, on one table.

use mysql::prelude::Queryable;
use mysql::{Row, Value as SqlValue};

use crate::record::{PlanStep, StatementPlan};
use crate::workload::{Generator, Group, Program, Statement, Value, fill};

/// Table that is looked at: all tables of a workload are made alike.
const TABLE: u32 = 1;
/// A statement of more values than this (a bulk insert) is not written out for EXPLAIN.
const MOST_VALUES: usize = 1000;
/// Statements of one workload that are looked at.
const MOST_STATEMENTS: usize = 100;

/// The plans of all statements of `program`, each SQL text once; `rows`: rows of a table. Asks, executes
/// nothing. The account needs the rights that the statements need, so it is the load's own.
///
/// # Errors
/// The connection is lost. What the server says against a single statement stands in its place.
pub fn explain(
    conn: &mut mysql::Conn,
    program: &Program,
    rows: u64,
) -> Result<Vec<StatementPlan>, mysql::Error> {
    let mut plans: Vec<StatementPlan> = Vec::new();
    for (group, statement) in statements(program) {
        if plans.iter().any(|plan| plan.sql == statement.sql) || plans.len() == MOST_STATEMENTS {
            continue;
        }
        plans.push(of(conn, group, statement, rows)?);
    }
    Ok(plans)
}

fn statements(program: &Program) -> impl Iterator<Item = (&Group, &Statement)> {
    program
        .transactions
        .iter()
        .flat_map(|t| &t.groups)
        .filter(|g| g.repeat > 0)
        .flat_map(|g| g.statements.iter().map(move |s| (g, s)))
}

fn of(
    conn: &mut mysql::Conn,
    group: &Group,
    statement: &Statement,
    rows: u64,
) -> Result<StatementPlan, mysql::Error> {
    let mut plan = StatementPlan {
        class: statement.class.clone(),
        sql: statement.sql.clone(),
        ..StatementPlan::default()
    };
    if statement.parameters.len() > MOST_VALUES {
        plan.sql = statement.sql.chars().take(200).chain("…".chars()).collect();
        plan.none = Some("too long to be explained".to_owned());
        return Ok(plan);
    }
    let values: Vec<String> = statement
        .parameters
        .iter()
        .map(|value| literal(value, group, rows))
        .collect();
    let Some(sql) = fill(&statement.sql, TABLE, &values) else {
        plan.none = Some("its values do not match its parameters".to_owned());
        return Ok(plan);
    };
    // FORMAT: MySQL 9 answers with a tree otherwise; both families know this form since 5.6 and 10.0.
    let answer: Result<Vec<Row>, _> = conn.query(format!("EXPLAIN FORMAT=TRADITIONAL {sql}"));
    match answer {
        Ok(answer) => {
            plan.steps = answer.iter().map(step).collect();
            plan.none = no_access(&mut plan.steps);
        }
        Err(mysql::Error::MySqlError(error)) => {
            plan.none = Some(format!("{} ({})", error.message, error.code));
        }
        Err(error) => return Err(error),
    }
    Ok(plan)
}

/// Why the answer of EXPLAIN is no plan; its rows are then removed.
fn no_access(steps: &mut Vec<PlanStep>) -> Option<String> {
    let why = match steps.as_slice() {
        [] => "the server explains nothing".to_owned(),
        [only] if only.select == "INSERT" || only.select == "REPLACE" => {
            "writes the rows it is given: nothing is looked up".to_owned()
        }
        [only] if only.table.is_empty() => match only.extra.as_str() {
            "" => "reads no table".to_owned(),
            // The representative row may be the one that was deleted last.
            extra => extra.to_owned(),
        },
        _ => return None,
    };
    steps.clear();
    Some(why)
}

fn step(row: &Row) -> PlanStep {
    let text = |name: &str| column(row, name).unwrap_or_default();
    PlanStep {
        select: text("select_type"),
        table: text("table"),
        access: text("type"),
        key: column(row, "key"),
        rows: column(row, "rows").and_then(|n| n.parse().ok()),
        extra: text("Extra"),
    }
}

/// A column by its name; NULL and a column that this server does not have are `None`.
fn column(row: &Row, name: &str) -> Option<String> {
    let at = row
        .columns_ref()
        .iter()
        .position(|c| c.name_str().eq_ignore_ascii_case(name))?;
    match row.as_ref(at)? {
        SqlValue::NULL => None,
        SqlValue::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
}

/// A value as SQL: the middle of what the load draws from.
fn literal(value: &Value, group: &Group, rows: u64) -> String {
    match value {
        Value::Draw(generator) => representative(generator, rows, 0),
        Value::Bound { bind, plus } => group
            .binds
            .get(*bind)
            .map_or_else(|| "NULL".to_owned(), |g| representative(g, rows, *plus)),
    }
}

fn representative(generator: &Generator, rows: u64, plus: i64) -> String {
    let number = |n: i64| n.saturating_add(plus).to_string();
    match generator {
        Generator::Key | Generator::SegmentKey => {
            number(i64::try_from(rows / 2).unwrap_or(i64::MAX).max(1))
        }
        Generator::Integer { min, max } => number(min.midpoint(*max)),
        Generator::Unique | Generator::Sequence => number(1),
        Generator::Text(pattern) => {
            let text = pattern.replace('#', "5").replace('@', "m");
            format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_middle_of_what_is_drawn() {
        let group = Group {
            repeat: 1,
            binds: vec![Generator::Key],
            statements: Vec::new(),
        };
        let bound = |bind, plus| literal(&Value::Bound { bind, plus }, &group, 1000);
        let draw = |g| literal(&Value::Draw(g), &group, 1000);
        assert_eq!(bound(0, 99), "599");
        assert_eq!(bound(3, 0), "NULL");
        assert_eq!(draw(Generator::Key), "500");
        assert_eq!(draw(Generator::Integer { min: 10, max: 20 }), "15");
        assert_eq!(draw(Generator::Text("a#@'\\".into())), "'a5m''\\\\'");
    }

    #[test]
    fn what_looks_nothing_up_has_no_plan() {
        let one = |select: &str, table: &str, extra: &str| {
            let mut steps = vec![PlanStep {
                select: select.into(),
                table: table.into(),
                extra: extra.into(),
                ..PlanStep::default()
            }];
            (no_access(&mut steps), steps.len())
        };
        assert_eq!(one("SIMPLE", "t", ""), (None, 1));
        assert!(one("INSERT", "t", "").0.unwrap().contains("looked up"));
        let gone = one("SIMPLE", "", "no matching row in const table");
        assert_eq!(gone, (Some("no matching row in const table".into()), 0));
    }
}
