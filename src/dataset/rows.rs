//! The rows: a function of seed, table and row number alone.

use std::ops::Range;

use rand::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::workload::{Access, KeySampler, TextPattern, mix_seed};

/// Rows that share a random stream. Whoever makes a block makes it from its start, so that any split of
/// the work into blocks gives the same rows.
pub(super) const BLOCK: u64 = 1_000;

/// sysbench's `c`: ten groups of eleven digits.
const C: &str = "###########-###########-###########-###########-###########-###########-###########-###########-###########-###########";
/// sysbench's `pad`: five groups.
const PAD: &str = "###########-###########-###########-###########-###########";

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Lines of LOAD DATA with its default separators; digits and dashes need no escapes.
    Lines,
    /// Brackets of a multi-row INSERT, each with a comma behind.
    Brackets,
    /// `id,k,c,pad` one a line: what checksums are taken over.
    Joined,
}

/// One row, its values in memory of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: u64,
    pub(super) k: u64,
    pub(super) c: Vec<u8>,
    pub(super) pad: Vec<u8>,
}

/// Makes the rows of a data set.
#[derive(Debug, Clone)]
pub(super) struct RowSource {
    seed: u64,
    rows: u64,
    keys: KeySampler,
    c: TextPattern,
    pad: TextPattern,
}

impl RowSource {
    pub(super) fn new(seed: u64, rows: u64, access: &Access) -> Self {
        Self {
            seed,
            rows,
            keys: KeySampler::new(access, rows),
            c: TextPattern::new(C),
            pad: TextPattern::new(PAD),
        }
    }

    /// Rows of a table.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of blocks of a table.
    pub(super) fn blocks(&self) -> u64 {
        self.rows.div_ceil(BLOCK)
    }

    /// Ids of a block.
    pub(super) fn ids(&self, block: u64) -> Range<u64> {
        let first = block * BLOCK + 1;
        first..(first + BLOCK).min(self.rows + 1)
    }

    /// The random stream of a block.
    fn stream(&self, table: u32, block: u64) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(mix_seed(
            mix_seed(mix_seed(self.seed).wrapping_add(u64::from(table))).wrapping_add(block),
        ))
    }

    /// The rows of one block, one after another.
    pub(super) fn block(&self, table: u32, block: u64) -> impl Iterator<Item = Row> + '_ {
        let mut rng = self.stream(table, block);
        self.ids(block).map(move |id| {
            let text = |pattern: &TextPattern, rng: &mut Xoshiro256PlusPlus| {
                let mut text = Vec::with_capacity(pattern.len());
                pattern.fill(rng, &mut text);
                text
            };
            let k = self.keys.sample(&mut rng);
            let c = text(&self.c, &mut rng);
            let pad = text(&self.pad, &mut rng);
            Row { id, k, c, pad }
        })
    }

    /// Appends the rows of one block to `out`, calling `after` behind each.
    pub(super) fn fill_with(
        &self,
        table: u32,
        block: u64,
        form: Form,
        out: &mut Vec<u8>,
        mut after: impl FnMut(&mut Vec<u8>),
    ) {
        let mut rng = self.stream(table, block);
        let (open, between, quote, close): (&[u8], u8, &[u8], &[u8]) = match form {
            Form::Lines => (b"", b'\t', b"", b"\n"),
            Form::Brackets => (b"(", b',', b"'", b"),"),
            Form::Joined => (b"", b',', b"", b""),
        };
        for id in self.ids(block) {
            let k = self.keys.sample(&mut rng);
            out.extend_from_slice(open);
            push_number(id, out);
            out.push(between);
            push_number(k, out);
            out.push(between);
            out.extend_from_slice(quote);
            self.c.fill(&mut rng, out);
            out.extend_from_slice(quote);
            out.push(between);
            out.extend_from_slice(quote);
            self.pad.fill(&mut rng, out);
            out.extend_from_slice(quote);
            out.extend_from_slice(close);
            after(out);
        }
    }

    /// Appends the rows of one block to `out`.
    pub(super) fn fill(&self, table: u32, block: u64, form: Form, out: &mut Vec<u8>) {
        self.fill_with(table, block, form, out, |_| {});
    }
}

fn push_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail by panic")]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::workload::Distribution;

    fn source(seed: u64, rows: u64) -> RowSource {
        RowSource::new(
            seed,
            rows,
            &Access {
                distribution: Distribution::Uniform,
            },
        )
    }

    fn lines(source: &RowSource, table: u32, block: u64) -> Vec<String> {
        let mut out = Vec::new();
        source.fill(table, block, Form::Lines, &mut out);
        String::from_utf8(out)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// Rows are a promise: data that was loaded by one version is verified and continued by the next. When
    /// this test fails, the marker's version must rise.
    #[test]
    fn rows_stay_the_same_from_version_to_version() {
        assert_eq!(super::super::marker::VERSION, 1);
        assert_eq!(lines(&source(42, 3), 1, 0), FIRST_ROWS);
    }

    #[test]
    fn rows_differ_by_seed_table_and_block() {
        let tail = |seed, table, block| {
            lines(&source(seed, 5_000), table, block)[0]
                .split_once('\t')
                .unwrap()
                .1
                .to_owned()
        };
        let all: BTreeSet<String> = [(42, 1, 0), (43, 1, 0), (42, 2, 0), (42, 1, 1)]
            .into_iter()
            .map(|(seed, table, block)| tail(seed, table, block))
            .collect();
        assert_eq!(all.len(), 4);
    }

    /// Ids and keys beyond 32 bits come out whole, whichever way they travel.
    #[test]
    fn tables_of_ten_billion_rows_have_rows_at_their_end() {
        let rows = 10_000_000_000;
        let source = source(1, rows);
        let last = source.blocks() - 1;
        let made: Vec<Row> = source.block(1, last).collect();
        assert_eq!(made.last().unwrap().id, rows);
        let wide = made.iter().filter(|row| row.k > u64::from(u32::MAX));
        // Half of them and more: 57 % of the ids are.
        assert!(wide.count() > 400 && made.iter().all(|row| row.k <= rows));
        let line = lines(&source, 1, last).pop().unwrap();
        assert!(line.starts_with("10000000000\t"), "{line}");
    }

    #[test]
    fn forms_hold_the_same_values() {
        let source = source(1, 10);
        let mut brackets = Vec::new();
        source.fill(1, 0, Form::Brackets, &mut brackets);
        let mut joined = Vec::new();
        source.fill_with(1, 0, Form::Joined, &mut joined, |out| out.push(b';'));
        let lines = lines(&source, 1, 0);
        let from_lines: Vec<String> = lines.iter().map(|l| l.replace('\t', ",")).collect();
        let joined = String::from_utf8(joined).unwrap();
        assert_eq!(
            joined.trim_end_matches(';').split(';').collect::<Vec<_>>(),
            from_lines
        );
        let rows: Vec<String> = source
            .block(1, 0)
            .map(|row| {
                let text = |bytes| String::from_utf8(bytes).unwrap();
                format!("{},{},{},{}", row.id, row.k, text(row.c), text(row.pad))
            })
            .collect();
        assert_eq!(rows, from_lines);
        let brackets = String::from_utf8(brackets).unwrap().replace('\'', "");
        assert_eq!(brackets, format!("({}),", from_lines.join("),(")));
    }

    proptest! {
        #[test]
        fn blocks_cover_all_ids_once(rows in 0..20_000_u64) {
            let source = source(0, rows);
            let ids: Vec<u64> = (0..source.blocks()).flat_map(|block| source.ids(block)).collect();
            prop_assert_eq!(ids, (1..=rows).collect::<Vec<u64>>());
        }

        #[test]
        fn numbers_are_written_in_decimal(number: u64) {
            let mut out = Vec::new();
            push_number(number, &mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }

    const FIRST_ROWS: [&str; 3] = [
        "1\t2\t67800093063-87354509598-23318508787-13472193742-97144164147-68170019132-18887145519-51720763257-77656406402-97216442142\t08281661762-46318520417-72390327115-93088624232-68344049851",
        "2\t2\t14859352386-39762005206-04966964228-19969404382-30122962263-15706973415-42590590401-55064283857-18276196104-51264493146\t60481983617-24297255395-40996240564-14850104312-03462778085",
        "3\t1\t23363106958-12100326446-65432720779-44678733154-19856969277-18192792889-76333154089-33919888147-59796340471-18824701255\t21870540906-09692455821-68769467725-70935182036-07231240934",
    ];
}
