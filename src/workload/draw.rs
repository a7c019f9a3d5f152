//! Temporary stand-in for the value generators (uniform only); replaced when the workload module is merged.

use std::sync::atomic::{AtomicU32, Ordering};

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Access;

/// Draws row ids.
#[derive(Debug, Clone)]
pub struct KeySampler {
    rows: u64,
}

impl KeySampler {
    /// For a table of `rows` rows.
    pub fn new(_access: &Access, rows: u64) -> Self {
        Self { rows: rows.max(1) }
    }

    /// An id in 1..=rows.
    pub fn sample(&self, rng: &mut Xoshiro256PlusPlus) -> u64 {
        rng.random_range(1..=self.rows)
    }
}

/// Fills text patterns.
#[derive(Debug, Clone)]
pub struct TextPattern {
    pattern: Vec<u8>,
}

impl TextPattern {
    /// `#` is a digit, `@` a lower-case letter.
    pub fn new(pattern: &str) -> Self {
        Self {
            pattern: pattern.as_bytes().to_vec(),
        }
    }

    /// Appends one text.
    pub fn fill(&self, rng: &mut Xoshiro256PlusPlus, out: &mut Vec<u8>) {
        for &byte in &self.pattern {
            out.push(match byte {
                b'#' => b'0' + rng.random_range(0..10u8),
                b'@' => b'a' + rng.random_range(0..26u8),
                other => other,
            });
        }
    }
}

/// A permutation of the 32-bit integers.
#[derive(Debug)]
pub struct UniquePermutation {
    seed: u32,
    next: AtomicU32,
}

impl UniquePermutation {
    /// Starts at a point that depends on `seed`.
    pub fn new(seed: u64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the low half is enough")]
        Self {
            seed: seed as u32,
            next: AtomicU32::new(0),
        }
    }

    /// The next integer.
    pub fn next(&self) -> u32 {
        self.next
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_mul(2_654_435_761)
            .wrapping_add(self.seed)
    }
}
