//! What a load tells while it runs.

/// What a guard says of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is exceeded.
    GoOn,
    /// A limit is exceeded that a pause brings back under.
    Pause,
    /// A limit is exceeded that ends the load, and how.
    End(String),
}

/// Watches a load. Called from several threads.
pub trait Progress: Sync {
    /// Something new begins, for example `building the index on k of sbtest3`.
    fn phase(&self, text: &str);

    /// `done` of `total` rows are in the tables, all tables together. The first call of a load has the
    /// rows that an earlier, broken load left; rate and time left count from there.
    fn rows(&self, done: u64, total: u64);

    /// Whether the load may go on; asked once a second, from one thread.
    fn guard(&self) -> Verdict {
        Verdict::GoOn
    }
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&self, _: &str) {}

    fn rows(&self, _: u64, _: u64) {}
}
