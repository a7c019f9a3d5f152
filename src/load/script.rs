//! A [`Program`] made ready to run: SQL cut at its parameters, classes numbered, patterns parsed.

use std::collections::HashMap;

use super::spec::LoadError;
use super::wire::Executable;
use crate::plan::Protocol;
use crate::workload::{Generator, Group, Program, Statement, TableLayout, TextPattern, Value};

/// Where the classes that are not the program's follow its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClassIds {
    pub(super) begin: u16,
    pub(super) commit: u16,
    pub(super) rollback: u16,
    pub(super) connect: u16,
}

/// A program made ready.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) plots: Vec<Plot>,
    /// Sum of the weights.
    pub(super) weights: u32,
    pub(super) commands: Vec<Command>,
    /// Distinct SQL texts among them.
    pub(super) texts: u32,
    /// Class names, the program's own first.
    pub(super) classes: Vec<String>,
    pub(super) ids: ClassIds,
    /// Nanoseconds.
    pub(super) think: u64,
    /// Clients draw from their own segments of a table.
    pub(super) segments: bool,
    /// Each client has its own table.
    pub(super) own_table: bool,
}

/// A transaction.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) weight: u32,
    pub(super) begin: bool,
    /// Groups that are switched on.
    pub(super) groups: Vec<Scene>,
}

/// A group.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) repeat: u32,
    pub(super) binds: Vec<Source>,
    /// Indices into [`Script::commands`].
    pub(super) commands: Vec<u16>,
}

/// A statement.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) class: u16,
    pub(super) pieces: Vec<Piece>,
    pub(super) values: Vec<Draw>,
    /// Whether it goes by the text protocol.
    pub(super) text: bool,
    pub(super) names_table: bool,
    /// Identifies the SQL text, for prepared statements; commands with the same SQL share it.
    pub(super) number: u32,
    pub(super) executable: Executable,
}

/// A part of a statement.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Sql(Vec<u8>),
    /// The number of the table.
    Table,
    /// A parameter, in order.
    Parameter,
}

/// A parameter.
#[derive(Debug)]
pub(super) enum Draw {
    Fresh(Source),
    Bound { bind: usize, plus: i64, text: bool },
}

impl Command {
    /// Identifies the statement for `table`, of `tables`, among all that a connection may prepare.
    pub(super) fn key(&self, table: u32, tables: u32) -> u64 {
        let table = if self.names_table { table } else { 0 };
        u64::from(self.number) * (u64::from(tables) + 1) + u64::from(table)
    }
}

impl Draw {
    /// Whether the value is text.
    pub(super) fn text(&self) -> bool {
        match self {
            Self::Fresh(source) => matches!(source, Source::Text(_)),
            Self::Bound { text, .. } => *text,
        }
    }
}

/// A generator.
#[derive(Debug)]
pub(super) enum Source {
    Key,
    Segment,
    Text(TextPattern),
    Integer { min: i64, max: i64 },
    Unique,
    Sequence,
}

impl From<&Generator> for Source {
    fn from(generator: &Generator) -> Self {
        match generator {
            Generator::Key => Self::Key,
            Generator::SegmentKey => Self::Segment,
            Generator::Text(pattern) => Self::Text(TextPattern::new(pattern)),
            Generator::Integer { min, max } => Self::Integer {
                min: *min,
                max: *max,
            },
            Generator::Unique => Self::Unique,
            Generator::Sequence => Self::Sequence,
        }
    }
}

impl Script {
    /// Every [`Command::key`] is below this.
    pub(super) fn keys(&self, tables: u32) -> u64 {
        u64::from(self.texts) * (u64::from(tables) + 1)
    }

    /// Compiles `program`.
    ///
    /// # Errors
    /// [`LoadError::Program`] for a program that has nothing to run or whose parameters do not match its SQL.
    pub(super) fn compile(program: &Program, protocol: Protocol) -> Result<Self, LoadError> {
        let fail = |problem: String| LoadError::Program {
            name: program.name.clone(),
            problem,
        };
        let mut classes: Vec<String> = program.classes().into_iter().map(String::from).collect();
        let own = u16::try_from(classes.len())
            .ok()
            .filter(|&own| own < u16::MAX - 8)
            .ok_or_else(|| fail("too many statement classes".into()))?;
        let ids = ClassIds {
            begin: own,
            commit: own + 1,
            rollback: own + 2,
            connect: own + 3,
        };
        let mut commands = Vec::new();
        let mut numbers = HashMap::new();
        let mut plots = Vec::new();
        for transaction in &program.transactions {
            let mut groups = Vec::new();
            for group in transaction
                .groups
                .iter()
                .filter(|g| g.repeat > 0 && !g.statements.is_empty())
            {
                let mut indices = Vec::new();
                for statement in &group.statements {
                    let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                    let number = *numbers.entry(statement.sql.as_str()).or_insert(next);
                    let class = classes
                        .iter()
                        .position(|c| *c == statement.class)
                        .and_then(|c| u16::try_from(c).ok())
                        .unwrap_or(0);
                    let command =
                        compile(statement, &group.binds, protocol, class, number).map_err(fail)?;
                    let index = u16::try_from(commands.len())
                        .map_err(|_| fail("too many statements".into()))?;
                    commands.push(command);
                    indices.push(index);
                }
                groups.push(Scene {
                    repeat: group.repeat,
                    binds: group.binds.iter().map(Source::from).collect(),
                    commands: indices,
                });
            }
            if groups.is_empty() && !transaction.begin {
                return Err(fail(format!(
                    "transaction `{}` has no statement",
                    transaction.name
                )));
            }
            plots.push(Plot {
                weight: transaction.weight.max(1),
                begin: transaction.begin,
                groups,
            });
        }
        if plots.is_empty() {
            return Err(fail("it has no transaction".into()));
        }
        for name in ["begin", "commit", "rollback", "connect"] {
            classes.push(name.into());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to an hour"
        )]
        Ok(Self {
            weights: plots.iter().map(|p| p.weight).sum(),
            plots,
            commands,
            texts: u32::try_from(numbers.len()).unwrap_or(u32::MAX),
            classes,
            ids,
            think: (program.think_time_ms.clamp(0.0, 3_600_000.0) * 1e6) as u64,
            segments: program
                .transactions
                .iter()
                .flat_map(|t| &t.groups)
                .any(draws_segments),
            own_table: program.tables == TableLayout::Bulk,
        })
    }
}

fn draws_segments(group: &Group) -> bool {
    let drawn = group.statements.iter().flat_map(|s| &s.parameters);
    group.binds.contains(&Generator::SegmentKey)
        || drawn
            .into_iter()
            .any(|v| *v == Value::Draw(Generator::SegmentKey))
}

fn compile(
    statement: &Statement,
    binds: &[Generator],
    protocol: Protocol,
    class: u16,
    number: u32,
) -> Result<Command, String> {
    let pieces = cut(&statement.sql);
    let parameters = pieces.iter().filter(|p| **p == Piece::Parameter).count();
    if parameters != statement.parameters.len() {
        return Err(format!(
            "statement `{}` has {parameters} placeholders and {} parameters",
            statement.class,
            statement.parameters.len()
        ));
    }
    let mut values = Vec::new();
    for value in &statement.parameters {
        values.push(match value {
            Value::Draw(generator) => Draw::Fresh(generator.into()),
            Value::Bound { bind, plus } => Draw::Bound {
                bind: *bind,
                plus: *plus,
                text: match binds.get(*bind) {
                    Some(generator) => matches!(generator, Generator::Text(_)),
                    None => {
                        return Err(format!(
                            "statement `{}` uses bind {bind}, the group has {}",
                            statement.class,
                            binds.len()
                        ));
                    }
                },
            },
        });
    }
    for generator in statement
        .parameters
        .iter()
        .filter_map(|v| match v {
            Value::Draw(generator) => Some(generator),
            Value::Bound { .. } => None,
        })
        .chain(binds)
    {
        if let Generator::Integer { min, max } = generator
            && min > max
        {
            return Err(format!("integer range {min} to {max} is empty"));
        }
    }
    Ok(Command {
        executable: Executable::new(values.iter().map(Draw::text)),
        class,
        names_table: pieces.contains(&Piece::Table),
        pieces,
        values,
        text: statement.text_only || protocol == Protocol::Text,
        number,
    })
}

/// Cuts SQL at `?` and `{table}`, leaving quoted text alone.
fn cut(sql: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut plain = Vec::new();
    let mut quote = None;
    let mut rest = sql.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"{table}") {
            flush(&mut plain, &mut pieces);
            pieces.push(Piece::Table);
            rest = after;
            continue;
        }
        rest = after;
        match (quote, byte) {
            (None, b'?') => {
                flush(&mut plain, &mut pieces);
                pieces.push(Piece::Parameter);
                continue;
            }
            (None, b'\'' | b'"' | b'`') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
        plain.push(byte);
    }
    flush(&mut plain, &mut pieces);
    pieces
}

fn flush(plain: &mut Vec<u8>, pieces: &mut Vec<Piece>) {
    if !plain.is_empty() {
        pieces.push(Piece::Sql(std::mem::take(plain)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_is_cut_outside_quotes() {
        assert_eq!(
            cut("SELECT '?', \"{table}\" FROM t{table} WHERE id=?"),
            [
                Piece::Sql(b"SELECT '?', \"".to_vec()),
                Piece::Table,
                Piece::Sql(b"\" FROM t".to_vec()),
                Piece::Table,
                Piece::Sql(b" WHERE id=".to_vec()),
                Piece::Parameter,
            ]
        );
    }
}
