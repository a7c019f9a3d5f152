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

    /// Appends the rows of one block to `out`, calling `after` behind each.
    pub(super) fn fill_with(
        &self,
        table: u32,
        block: u64,
        form: Form,
        out: &mut Vec<u8>,
        mut after: impl FnMut(&mut Vec<u8>),
    ) {
        let stream = mix_seed(
            mix_seed(mix_seed(self.seed).wrapping_add(u64::from(table))).wrapping_add(block),
        );
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(stream);
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
