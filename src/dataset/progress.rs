//! What a load tells while it runs.

/// Watches a load. Called from several threads.
pub trait Progress: Sync {
    /// Something new begins, for example `building the index on k of sbtest3`.
    fn phase(&self, text: &str);

    /// `done` of `total` rows are in the tables, all tables together. The first call of a load has the
    /// rows that an earlier, broken load left; rate and time left count from there.
    fn rows(&self, done: u64, total: u64);
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&self, _: &str) {}

    fn rows(&self, _: u64, _: u64) {}
}
