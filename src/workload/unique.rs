//! Unique random integers.

use std::sync::atomic::{AtomicU32, Ordering};

/// Largest prime below 2³² that is 3 modulo 4: squaring modulo it is a bijection on each half of its
/// residues.
const PRIME: u32 = 4_294_967_291;

/// Every 32-bit integer once, in an order that looks random, before the first one comes again. Shared
/// by all clients of a run. Quadratic residues modulo 4294967291, as sysbench's `unique`.
#[derive(Debug)]
pub struct UniquePermutation {
    counter: AtomicU32,
    offset: u32,
    mask: u32,
}

impl UniquePermutation {
    /// The permutation of `seed`.
    pub fn new(seed: u64) -> Self {
        let (low, high) = halves(mix_seed(seed));
        let (mask, _) = halves(mix_seed(!seed));
        Self {
            counter: AtomicU32::new(low),
            offset: high,
            mask,
        }
    }

    /// The next value.
    #[inline]
    pub fn next(&self) -> u32 {
        let index = self.counter.fetch_add(1, Ordering::Relaxed);
        permute(permute(index).wrapping_add(self.offset) ^ self.mask)
    }
}

/// A bijection of the 32-bit integers.
fn permute(x: u32) -> u32 {
    if x >= PRIME {
        return x;
    }
    let x64 = u64::from(x);
    #[expect(clippy::cast_possible_truncation, reason = "a residue is below 2^32")]
    let residue = (x64 * x64 % u64::from(PRIME)) as u32;
    if x <= PRIME / 2 {
        residue
    } else {
        PRIME - residue
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
fn halves(x: u64) -> (u32, u32) {
    (x as u32, (x >> 32) as u32)
}

/// `SplitMix64`'s output function (Steele, Lea and Flood 2014): spreads a seed over 64 bits.
pub(crate) fn mix_seed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_a_bijection() {
        // The whole period is 2^32 long: windows at both ends and around the fold are looked at.
        for start in [0_u32, PRIME / 2 - 50_000, PRIME - 50_000] {
            let mut seen: Vec<u32> = (0..100_000)
                .map(|i| permute(start.wrapping_add(i)))
                .collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), 100_000);
        }
    }

    #[test]
    fn values_do_not_repeat_and_depend_on_the_seed() {
        let draw = |seed| {
            let unique = UniquePermutation::new(seed);
            (0..1_000_000).map(|_| unique.next()).collect::<Vec<u32>>()
        };
        let values = draw(42);
        let mut sorted = values.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), values.len());
        // They look random: half of them in the upper half.
        let upper = values.iter().filter(|v| **v > u32::MAX / 2).count();
        assert!((495_000..505_000).contains(&upper), "{upper}");
        assert_ne!(values[..10], draw(43)[..10]);
        assert_eq!(values[..10], draw(42)[..10]);
    }
}
