//! Random text by pattern.

use rand::{Rng, RngExt as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Text by pattern: each `#` becomes a random digit, each `@` a random lower-case letter; all else
/// stands for itself. Parsed once, filled often: rows of a data set are made with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPattern {
    parts: Vec<Part>,
    length: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Digits(usize),
    Letters(usize),
    Literal(Vec<u8>),
}

impl TextPattern {
    /// Reads a pattern. Every text is a pattern.
    pub fn new(pattern: &str) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        for byte in pattern.bytes() {
            match (byte, parts.last_mut()) {
                (b'#', Some(Part::Digits(n))) | (b'@', Some(Part::Letters(n))) => *n += 1,
                (b'#', _) => parts.push(Part::Digits(1)),
                (b'@', _) => parts.push(Part::Letters(1)),
                (other, Some(Part::Literal(text))) => text.push(other),
                (other, _) => parts.push(Part::Literal(vec![other])),
            }
        }
        Self {
            parts,
            length: pattern.len(),
        }
    }

    /// Length of the text in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the text is empty.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Appends one text to `out`.
    #[inline]
    pub fn fill(&self, rng: &mut Xoshiro256PlusPlus, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Digits(n) => digits(*n, rng, out),
                Part::Letters(n) => letters(*n, rng, out),
                Part::Literal(text) => out.extend_from_slice(text),
            }
        }
    }
}

/// `0000` … `9999`, four characters each.
static GROUPS: [u8; 40_000] = {
    let mut table = [b'0'; 40_000];
    let mut i = 4;
    while i < table.len() {
        // The number before, plus one, with its carries.
        let mut digit = 4;
        let mut carry = 1;
        while digit > 0 {
            digit -= 1;
            let next = table[i - 4 + digit] + carry;
            carry = if next > b'9' { 1 } else { 0 };
            table[i + digit] = if carry == 1 { b'0' } else { next };
        }
        i += 4;
    }
    table
};

/// Twelve digits are taken from one 64-bit draw as a binary fraction (read off by multiplication): no
/// twelve-digit string is more likely than another by over 1 in 18 million.
fn digits(count: usize, rng: &mut Xoshiro256PlusPlus, out: &mut Vec<u8>) {
    let mut left = count;
    while left > 0 {
        let mut fraction = rng.next_u64();
        for _ in 0..3 {
            let group = take(&mut fraction, 10_000) * 4;
            let width = left.min(4);
            out.extend_from_slice(&GROUPS[group..group + width]);
            left -= width;
            if left == 0 {
                break;
            }
        }
    }
}

fn letters(count: usize, rng: &mut Xoshiro256PlusPlus, out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 26] = b"abcdefghijklmnopqrstuvwxyz";
    let mut fraction = 0;
    for i in 0..count {
        if i % 8 == 0 {
            fraction = rng.random();
        }
        out.push(ALPHABET[take(&mut fraction, 26)]);
    }
}

/// The next digit in base `base` of a binary fraction in `[0, 1)`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low half is the rest of the fraction, the high half is below `base`"
)]
#[inline]
fn take(fraction: &mut u64, base: u64) -> usize {
    let product = u128::from(*fraction) * u128::from(base);
    *fraction = product as u64;
    (product >> 64) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn digits_and_letters_are_uniform() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let pattern = TextPattern::new("###########-@@@@@@@@@@");
        let mut digits = [0_u32; 10];
        let mut letters = [0_u32; 26];
        let mut text = Vec::new();
        for _ in 0..10_000 {
            text.clear();
            pattern.fill(&mut rng, &mut text);
            assert_eq!(text[11], b'-');
            for byte in &text[..11] {
                digits[usize::from(byte - b'0')] += 1;
            }
            for byte in &text[12..] {
                letters[usize::from(byte - b'a')] += 1;
            }
        }
        // 110,000 digits: 11,000 each with a standard deviation of 100; letters 3,846 with 61.
        assert!(
            digits.iter().all(|n| n.abs_diff(11_000) < 450),
            "{digits:?}"
        );
        assert!(
            letters.iter().all(|n| n.abs_diff(3_846) < 275),
            "{letters:?}"
        );
    }

    proptest! {
        #[test]
        fn only_marks_are_replaced(pattern in ".{0,60}", seed: u64) {
            let mut out = b"before".to_vec();
            let parsed = TextPattern::new(&pattern);
            parsed.fill(&mut Xoshiro256PlusPlus::seed_from_u64(seed), &mut out);
            prop_assert!(out.starts_with(b"before"));
            let text = &out[6..];
            prop_assert_eq!(text.len(), parsed.len());
            for (mark, byte) in pattern.bytes().zip(text) {
                match mark {
                    b'#' => prop_assert!(byte.is_ascii_digit()),
                    b'@' => prop_assert!(byte.is_ascii_lowercase()),
                    other => prop_assert_eq!(other, *byte),
                }
            }
        }
    }
}
