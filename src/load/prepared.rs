//! The prepared statements of one connection: found by number, bounded, the least recently used goes first.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::workload::mix_seed;

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: u64,
    /// The server's number.
    id: u32,
    /// Parameter types were sent.
    bound: bool,
    older: u32,
    newer: u32,
}

/// Hashes a key by mixing its bits: looked up once a statement, and keys are our own numbers, so that
/// the standard hasher's defence against chosen keys would be paid for nothing.
#[derive(Debug, Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = mix_seed(self.0 ^ key);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Up to so many statements are found by their number in a plain table of 4 bytes each.
const FEW: u64 = 1024;

/// Where a statement's entry stands.
#[derive(Debug)]
enum Slots {
    /// By key; [`NONE`]: not prepared.
    Few(Vec<u32>),
    /// Tens of thousands of tables.
    Many(HashMap<u64, u32, BuildHasherDefault<Mix>>),
}

impl Slots {
    #[inline]
    fn get(&self, key: u64) -> Option<u32> {
        match self {
            Self::Few(slots) => {
                let slot = *slots.get(usize::try_from(key).ok()?)?;
                (slot != NONE).then_some(slot)
            }
            Self::Many(slots) => slots.get(&key).copied(),
        }
    }

    fn insert(&mut self, key: u64, slot: u32) {
        match self {
            Self::Few(slots) => {
                let at = usize::try_from(key).unwrap_or(usize::MAX);
                if let Some(place) = slots.get_mut(at) {
                    *place = slot;
                }
            }
            Self::Many(slots) => {
                slots.insert(key, slot);
            }
        }
    }

    fn remove(&mut self, key: u64) {
        match self {
            Self::Few(_) => self.insert(key, NONE),
            Self::Many(slots) => {
                slots.remove(&key);
            }
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Few(slots) => slots.fill(NONE),
            Self::Many(slots) => slots.clear(),
        }
    }
}

/// Prepared statements by key (SQL text × table).
#[derive(Debug)]
pub(super) struct Prepared {
    slots: Slots,
    entries: Vec<Entry>,
    /// Largest number of statements; 0: no bound.
    limit: u32,
    oldest: u32,
    newest: u32,
}

impl Prepared {
    /// Empty, for at most `limit` statements (0: no bound) with keys below `keys`.
    pub(super) fn new(limit: u32, keys: u64) -> Self {
        Self {
            slots: if keys <= FEW {
                Slots::Few(vec![NONE; usize::try_from(keys).unwrap_or(0)])
            } else {
                Slots::Many(HashMap::default())
            },
            entries: Vec::new(),
            // A bound that cannot be reached costs no order of use.
            limit: if u64::from(limit) >= keys { 0 } else { limit },
            oldest: NONE,
            newest: NONE,
        }
    }

    /// The server's number of statement `key`, and whether its types still have to be bound
    /// (which counts as done from now on).
    #[inline]
    pub(super) fn use_it(&mut self, key: u64) -> Option<(u32, bool)> {
        let slot = self.slots.get(key)?;
        if self.limit > 0 && self.newest != slot {
            self.unlink(slot);
            self.link(slot);
        }
        let entry = &mut self.entries[slot as usize];
        let bind = !entry.bound;
        entry.bound = true;
        Some((entry.id, bind))
    }

    /// Makes room for one more; returns the server's number of a statement to close.
    pub(super) fn evict(&mut self) -> Option<u32> {
        if self.limit == 0 || self.entries.len() < self.limit as usize {
            return None;
        }
        let id = self.entries.get(self.oldest as usize)?.id;
        self.take_out(self.oldest);
        Some(id)
    }

    /// A statement was prepared.
    pub(super) fn insert(&mut self, key: u64, id: u32) {
        self.forget(key);
        let slot = u32::try_from(self.entries.len()).unwrap_or(NONE);
        self.entries.push(Entry {
            key,
            id,
            bound: false,
            older: NONE,
            newer: NONE,
        });
        self.slots.insert(key, slot);
        self.link(slot);
    }

    /// The server has lost it; returns its number.
    pub(super) fn forget(&mut self, key: u64) -> Option<u32> {
        let slot = self.slots.get(key)?;
        let id = self.entries[slot as usize].id;
        self.take_out(slot);
        Some(id)
    }

    /// The connection is gone, and all statements with it.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.entries.clear();
        (self.oldest, self.newest) = (NONE, NONE);
    }

    fn link(&mut self, slot: u32) {
        let newest = self.newest;
        let entry = &mut self.entries[slot as usize];
        (entry.older, entry.newer) = (newest, NONE);
        match self.entries.get_mut(newest as usize) {
            Some(last) => last.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let Entry { older, newer, .. } = self.entries[slot as usize];
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
    }

    fn take_out(&mut self, slot: u32) {
        self.unlink(slot);
        self.slots.remove(self.entries[slot as usize].key);
        // The last entry moves into the gap.
        let last = self.entries.len() - 1;
        self.entries.swap_remove(slot as usize);
        if let Some(&Entry {
            key, older, newer, ..
        }) = self.entries.get(slot as usize)
            && slot as usize != last
        {
            self.slots.insert(key, slot);
            match self.entries.get_mut(older as usize) {
                Some(entry) => entry.newer = slot,
                None => self.oldest = slot,
            }
            match self.entries.get_mut(newer as usize) {
                Some(entry) => entry.older = slot,
                None => self.newest = slot,
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn types_are_bound_once() {
        let mut prepared = Prepared::new(0, 5);
        assert_eq!(prepared.use_it(3), None);
        prepared.insert(3, 9);
        assert_eq!(prepared.use_it(3), Some((9, true)));
        assert_eq!(prepared.use_it(3), Some((9, false)));
        prepared.insert(3, 10);
        assert_eq!(prepared.use_it(3), Some((10, true)));
    }

    proptest! {
        /// Against a list that is searched and shifted.
        #[test]
        fn the_least_recently_used_goes_first(
            limit in 1..6u32,
            keys_in_all in prop::sample::select(vec![9, FEW + 1]),
            keys in prop::collection::vec((0..9u64, prop::bool::weighted(0.1)), 0..200),
        ) {
            let mut prepared = Prepared::new(limit, keys_in_all);
            let mut model: Vec<(u64, u32)> = Vec::new();
            for (id, (key, lost)) in (0u32..).zip(keys) {
                let at = model.iter().position(|(k, _)| *k == key);
                prop_assert_eq!(prepared.use_it(key).map(|(id, _)| id), at.map(|at| model[at].1));
                if let Some(at) = at {
                    let entry = model.remove(at);
                    model.push(entry);
                    if lost {
                        prop_assert_eq!(prepared.forget(key), Some(entry.1));
                        model.pop();
                    }
                } else {
                    let evicted = (model.len() == limit as usize).then(|| model.remove(0).1);
                    prop_assert_eq!(prepared.evict(), evicted);
                    prepared.insert(key, id);
                    model.push((key, id));
                }
            }
        }
    }
}
