//! Plan → ordered cells.
