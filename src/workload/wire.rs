//! A workload file as it is written: rendered TOML → [`Program`].

use std::ops::Range;

use toml::de::DeTable;

use super::error::Problem;
use super::fields::Fields;
use super::program::{Generator, Group, Program, Statement, TableLayout, Transaction, Value};
use super::sql;
use crate::units::Span;

/// Upper limit of the parameters of one statement: the prepared protocol counts them in 16 bits, and
/// text is held to it too unless a statement is text only.
const MAX_PARAMETERS: usize = 65_535;
/// Upper limit of the parameters of a text-only statement; beyond, a packet passes any server's limit.
const MAX_TEXT_PARAMETERS: usize = 1_000_000;
/// Reads the rendered text of the workload `name`.
pub(super) fn parse(name: &str, text: &str) -> Result<Program, Problem> {
    let document = DeTable::parse(text).map_err(|error| {
        let message = error.message().replace('\n', ", ");
        Problem::at(text, error.span(), message)
    })?;
    let root = Fields::new(
        text,
        document.get_ref(),
        document.span(),
        "a workload",
        &["description", "think_time", "tables", "transaction"],
    )?;
    let mut transactions: Vec<Transaction> = Vec::new();
    for (table, span) in root.tables("transaction")? {
        let transaction = transaction(text, table, span.clone())?;
        if transactions.iter().any(|t| t.name == transaction.name) {
            let message = format!("a second transaction is named `{}`", transaction.name);
            return Err(Problem::at(text, Some(span), message));
        }
        transactions.push(transaction);
    }
    let program = Program {
        name: name.to_owned(),
        description: root.optional_text("description")?.unwrap_or_default(),
        think_time_ms: think_time(&root)?,
        tables: layout(&root)?,
        transactions,
    };
    if let Some(idle) = program
        .transactions
        .iter()
        .find(|t| t.groups.iter().all(|g| g.repeat == 0))
    {
        let message = if program.transactions.len() == 1 {
            "all its statements are switched off (each repeat count is 0)".to_owned()
        } else {
            format!(
                "all statements of transaction `{}` are switched off",
                idle.name
            )
        };
        return Err(Problem::new(message));
    }
    Ok(program)
}

fn think_time(root: &Fields) -> Result<f64, Problem> {
    let Some(text) = root.optional_text("think_time")? else {
        return Ok(0.0);
    };
    Span::parse(&text)
        .map(|span| span.seconds() * 1000.0)
        .map_err(|message| root.problem("think_time", format!("think_time: {message}")))
}

fn layout(root: &Fields) -> Result<TableLayout, Problem> {
    match root.optional_text("tables")?.as_deref() {
        None | Some("standard") => Ok(TableLayout::Standard),
        Some("standard_empty") => Ok(TableLayout::StandardEmpty),
        Some("bulk") => Ok(TableLayout::Bulk),
        Some(other) => Err(root.problem(
            "tables",
            format!("tables = `{other}` is none of `standard`, `standard_empty` and `bulk`"),
        )),
    }
}

fn transaction(text: &str, table: &DeTable, span: Range<usize>) -> Result<Transaction, Problem> {
    let fields = Fields::new(
        text,
        table,
        span.clone(),
        "a transaction",
        &["name", "weight", "begin", "group"],
    )?;
    let name = fields.text("name")?;
    let mut groups = Vec::new();
    for (table, span) in fields.tables("group")? {
        groups.push(group(text, table, span)?);
    }
    Ok(Transaction {
        name,
        weight: fields.count("weight", 1, 1)?,
        begin: fields.flag("begin")?,
        groups,
    })
}

fn group(text: &str, table: &DeTable, span: Range<usize>) -> Result<Group, Problem> {
    let fields = Fields::new(
        text,
        table,
        span.clone(),
        "a group",
        &["repeat", "bind", "statement"],
    )?;
    let mut names = Vec::new();
    let mut binds = Vec::new();
    if let Some((table, _)) = fields.optional_table("bind")? {
        for (name, value) in table {
            let key: &str = name.get_ref();
            let at = |message: String| Problem::at(text, Some(value.span()), message);
            if !is_name(key) || RESERVED.contains(&key) {
                return Err(at(format!(
                    "`{key}` cannot name a bind: use letters, digits and `_`, and none of {}",
                    RESERVED.join(", ")
                )));
            }
            let expression = value
                .get_ref()
                .as_str()
                .ok_or_else(|| at(format!("bind `{key}` must be a text such as \"key\"")))?;
            let generator =
                generator(expression).map_err(|message| at(format!("bind `{key}`: {message}")))?;
            names.push(key.to_owned());
            binds.push(generator);
        }
    }
    let mut statements = Vec::new();
    let tables = fields.tables("statement")?;
    let several = tables.len() > 1;
    for (table, span) in tables {
        let (statement, rows) = statement(text, table, span.clone(), &names, &binds)?;
        if rows > 1 {
            if several {
                let message = "`rows` needs a group of its own: one statement a group";
                return Err(Problem::at(text, Some(span), message));
            }
            binds = repeated(&binds, rows);
        }
        statements.push(statement);
    }
    Ok(Group {
        repeat: fields.count("repeat", 1, 0)?,
        binds,
        statements,
    })
}

/// `rows` copies of the binds, one set a row.
fn repeated(binds: &[Generator], rows: u32) -> Vec<Generator> {
    (0..rows).flat_map(|_| binds.iter().cloned()).collect()
}

fn statement(
    text: &str,
    table: &DeTable,
    span: Range<usize>,
    names: &[String],
    binds: &[Generator],
) -> Result<(Statement, u32), Problem> {
    let fields = Fields::new(
        text,
        table,
        span,
        "a statement",
        &["class", "sql", "parameters", "text_only", "rows"],
    )?;
    let class = fields.text("class")?;
    if !is_name(&class) {
        return Err(fields.problem(
            "class",
            format!("class `{class}` must consist of letters, digits and `_`"),
        ));
    }
    let mut sql = fields.text("sql")?;
    let text_only = fields.flag("text_only")?;
    let marks = sql::check(&sql).map_err(|message| fields.problem("sql", message))?;
    let mut parameters = Vec::new();
    for (expression, span) in fields.texts("parameters")? {
        let value = parameter(expression, names, binds).map_err(|message| {
            Problem::at(
                text,
                Some(span),
                format!("parameter {} of `{class}`: {message}", parameters.len() + 1),
            )
        })?;
        parameters.push(value);
    }
    if marks != parameters.len() {
        return Err(fields.problem(
            "sql",
            format!(
                "`{class}` has {marks} `?` but {} parameters",
                parameters.len()
            ),
        ));
    }
    let rows = fields.count("rows", 1, 1)?;
    if rows > 1 {
        sql = sql::with_rows(&sql, rows).map_err(|message| fields.problem("rows", message))?;
        parameters = (0..rows as usize)
            .flat_map(|row| {
                let shift = row * binds.len();
                parameters.iter().map(move |value| match value {
                    Value::Bound { bind, plus } => Value::Bound {
                        bind: bind + shift,
                        plus: *plus,
                    },
                    Value::Draw(generator) => Value::Draw(generator.clone()),
                })
            })
            .collect();
    }
    let limit = if text_only {
        MAX_TEXT_PARAMETERS
    } else {
        MAX_PARAMETERS
    };
    if parameters.len() > limit {
        return Err(fields.problem(
            if rows > 1 { "rows" } else { "parameters" },
            format!(
                "`{class}` has {} parameters; at most {limit} are possible{}",
                parameters.len(),
                if text_only {
                    ""
                } else {
                    " (more with text_only = true)"
                }
            ),
        ));
    }
    let statement = Statement {
        class,
        sql,
        parameters,
        text_only,
    };
    Ok((statement, rows))
}

/// Words of generators, which a bind may not take as its name.
const RESERVED: [&str; 6] = [
    "key",
    "segment_key",
    "unique",
    "sequence",
    "text",
    "integer",
];

/// A parameter: a generator, or the name of a bind with something added.
fn parameter(expression: &str, names: &[String], binds: &[Generator]) -> Result<Value, String> {
    let head = expression
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(expression.len());
    let (name, rest) = expression.split_at(head);
    let Some(bind) = names.iter().position(|n| n == name) else {
        return generator(expression).map(Value::Draw).map_err(|message| {
            if names.is_empty() {
                message
            } else {
                format!("{message}; binds here: {}", names.join(", "))
            }
        });
    };
    let rest = rest.trim();
    let plus = if rest.is_empty() {
        0
    } else {
        if matches!(binds[bind], Generator::Text(_)) {
            return Err(format!("`{name}` is a text: nothing can be added to it"));
        }
        let compact: String = rest.chars().filter(|c| *c != ' ').collect();
        if !compact.starts_with(['+', '-']) {
            return Err(format!(
                "`{expression}` is not a bind with `+` or `-` and a number"
            ));
        }
        compact
            .parse::<i64>()
            .map_err(|_| format!("`{rest}` is not `+` or `-` and a whole number"))?
    };
    Ok(Value::Bound { bind, plus })
}

/// A generator of values.
fn generator(expression: &str) -> Result<Generator, String> {
    // Only the blanks around the colon are dropped: a pattern may end in blanks.
    let (word, argument) = match expression.split_once(':') {
        Some((word, argument)) => (
            word.trim(),
            Some(argument.strip_prefix(' ').unwrap_or(argument)),
        ),
        None => (expression.trim(), None),
    };
    match (word, argument) {
        ("key", None) => Ok(Generator::Key),
        ("segment_key", None) => Ok(Generator::SegmentKey),
        ("unique", None) => Ok(Generator::Unique),
        ("sequence", None) => Ok(Generator::Sequence),
        ("text", Some(pattern)) => Ok(Generator::Text(pattern.to_owned())),
        ("text", None) => Err("`text` needs a pattern: \"text: ###-@@@\"".to_owned()),
        ("integer", Some(range)) => integer(range),
        ("integer", None) => Err("`integer` needs a range: \"integer: 1..100\"".to_owned()),
        (word, Some(_)) if RESERVED.contains(&word) => Err(format!("`{word}` takes no argument")),
        (word, _) => Err(format!(
            "`{word}` is no generator; there are key, segment_key, unique, sequence, \"text: PATTERN\" and \"integer: MIN..MAX\"{}",
            super::error::suggestion(word, &RESERVED)
        )),
    }
}

fn integer(range: &str) -> Result<Generator, String> {
    let wrong = || format!("`{range}` is not a range such as 1..100 (both ends included)");
    let (min, max) = range.split_once("..").ok_or_else(wrong)?;
    let min: i64 = min.trim().parse().map_err(|_| wrong())?;
    let max: i64 = max
        .trim()
        .trim_start_matches('=')
        .parse()
        .map_err(|_| wrong())?;
    if min > max {
        return Err(format!("the range {min}..{max} is empty"));
    }
    Ok(Generator::Integer { min, max })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "think_time = \"5ms\"\n[[transaction]]\nname = \"t\"\nweight = 2\n[[transaction.group]]\nrepeat = 3\nbind = { n = \"key\" }\n[[transaction.group.statement]]\nclass = \"c\"\nsql = \"INSERT INTO t VALUES (?, ?)\"\nparameters = [\"n + 1\", \"text: ##\"]\nrows = 2\n";

    proptest! {
        #[test]
        fn no_file_panics(at in 0..GOOD.len(), cut in 0..12_usize, put in "[\\[\\]{}=\"'a-z0-9?é,.:+-]{0,6}") {
            let end = (at + cut).min(GOOD.len());
            let text = format!("{}{put}{}", &GOOD[..at], &GOOD[end..]);
            if let Ok(program) = parse("x", &text) {
                // What is accepted is consistent: each `?` has a value, each bound value a bind.
                for group in program.transactions.iter().flat_map(|t| &t.groups) {
                    for statement in &group.statements {
                        prop_assert_eq!(sql::check(&statement.sql), Ok(statement.parameters.len()));
                        for value in &statement.parameters {
                            if let Value::Bound { bind, .. } = value {
                                prop_assert!(*bind < group.binds.len());
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_good_file_is_good() {
        assert!(parse("x", GOOD).is_ok());
    }
}
