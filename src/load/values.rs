//! The values of a statement's parameters, drawn and written.

use std::io::Write;

use rand::RngExt;

use super::client::Client;
use super::script::{Command, Draw, Piece, Source};
use super::shared::Shared;
use super::wire::Execute;

impl Client {
    /// Writes the values for `COM_STMT_EXECUTE`.
    pub(super) fn write_values(
        &mut self,
        shared: &Shared<'_>,
        command: &Command,
        out: &mut Vec<u8>,
    ) {
        for value in &command.values {
            match value {
                Draw::Fresh(Source::Text(pattern)) => {
                    Execute::text(out, |out| pattern.fill(&mut self.rng, out));
                }
                Draw::Fresh(source) => Execute::integer(out, self.number(shared, source)),
                Draw::Bound {
                    bind, text: true, ..
                } => {
                    let (from, to) = self.progress.binds[*bind].text;
                    let text = &self.progress.texts[from..to];
                    Execute::text(out, |out| out.extend_from_slice(text));
                }
                Draw::Bound { bind, plus, .. } => {
                    let number = self.progress.binds[*bind].number;
                    Execute::integer(out, number.saturating_add(*plus));
                }
            }
        }
    }

    /// The statement with its values in it.
    pub(super) fn write_sql(&mut self, shared: &Shared<'_>, command: &Command, out: &mut Vec<u8>) {
        let mut values = command.values.iter();
        for piece in &command.pieces {
            match piece {
                Piece::Sql(sql) => out.extend_from_slice(sql),
                Piece::Table => write_number(out, i64::from(self.progress.table)),
                Piece::Parameter => match values.next() {
                    Some(Draw::Fresh(Source::Text(pattern))) => {
                        quote(out, |out| pattern.fill(&mut self.rng, out));
                    }
                    Some(Draw::Fresh(source)) => {
                        let number = self.number(shared, source);
                        write_number(out, number);
                    }
                    Some(Draw::Bound {
                        bind, text: true, ..
                    }) => {
                        let (from, to) = self.progress.binds[*bind].text;
                        let text = &self.progress.texts[from..to];
                        quote(out, |out| out.extend_from_slice(text));
                    }
                    Some(Draw::Bound { bind, plus, .. }) => {
                        let number = self.progress.binds[*bind].number;
                        write_number(out, number.saturating_add(*plus));
                    }
                    None => {}
                },
            }
        }
    }

    /// The next number of `source`.
    pub(super) fn number(&mut self, shared: &Shared<'_>, source: &Source) -> i64 {
        match source {
            Source::Key => signed(shared.sampler.sample(&mut self.rng)),
            Source::Segment => {
                let sampler = self.segment.as_deref().unwrap_or(&shared.sampler);
                signed(sampler.sample(&mut self.rng))
            }
            Source::Integer { min, max } => self.rng.random_range(*min..=*max),
            Source::Unique => {
                let progress = &mut self.progress;
                if progress.unique == progress.uniques.len() {
                    progress.uniques.push(shared.unique.next());
                }
                let unique = progress.uniques[progress.unique];
                progress.unique += 1;
                i64::from(unique) - (1 << 31)
            }
            Source::Sequence => {
                self.progress.sequence += 1;
                self.progress.sequence
            }
            // Texts are written where they are used.
            Source::Text(_) => 0,
        }
    }
}

fn signed(id: u64) -> i64 {
    i64::try_from(id).unwrap_or(i64::MAX)
}

fn write_number(out: &mut Vec<u8>, number: i64) {
    // Writing into memory does not fail.
    let _ = write!(out, "{number}");
}

/// Appends the SQL with `?` for its parameters.
pub(super) fn write_template(command: &Command, table: u32, out: &mut Vec<u8>) {
    for piece in &command.pieces {
        match piece {
            Piece::Sql(sql) => out.extend_from_slice(sql),
            Piece::Table => write_number(out, i64::from(table)),
            Piece::Parameter => out.push(b'?'),
        }
    }
}

/// The SQL with `?` for its parameters.
pub(super) fn template(command: &Command, table: u32) -> String {
    let mut out = Vec::new();
    write_template(command, table, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Appends a quoted text; `'` and `\` are doubled.
fn quote(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'\'');
    let start = out.len();
    fill(out);
    if out[start..].iter().any(|b| matches!(b, b'\'' | b'\\')) {
        let text = out.split_off(start);
        for byte in text {
            if matches!(byte, b'\'' | b'\\') {
                out.push(byte);
            }
            out.push(byte);
        }
    }
    out.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted() {
        let mut out = Vec::new();
        quote(&mut out, |out| out.extend_from_slice(br"it's a \ 12"));
        assert_eq!(out, br"'it''s a \\ 12'");
    }
}
