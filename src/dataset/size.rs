//! From a size to rows, and whether it fits.

use std::collections::BTreeSet;
use std::path::Path;

use super::connect::{attempt, first, literal, select};
use super::error::DatasetError;
use super::schema::INTEGER_MAX;
use crate::plan::{Address, DataSize, Dataset};
use crate::target::{Attended, Endpoint};
use crate::units::Bytes;

/// Bytes a row takes in `InnoDB`'s clustered index: 208 bytes of columns, header and page directory, in pages
/// of 16 KiB that are filled to 15/16: 73 rows a page. Measured in total with the index on 1 × 300,000 rows by
/// one stream: 241.5 on `MariaDB` 10.11 and `MySQL` 9.7; several streams and small tables take up to 280.
const DATA_BYTES_PER_ROW: f64 = 225.0;
/// Bytes a row takes in the index on `k` when it is built after loading (see above).
const INDEX_BYTES_PER_ROW: f64 = 15.0;
/// What two or three BIGINT columns add to a row and to an index entry.
const BIGINT_BYTES_PER_ROW: f64 = 17.0;
/// Aimed above a stated size, so that what is achieved is never below it.
const MARGIN: f64 = 1.03;
/// Temporary space of an index build and growth of the files ahead of use, as a share of the data.
const DISK_HEADROOM: f64 = 1.15;
/// InnoDB grows a table's file by whole extents ahead of use: up to 12 MiB a table were seen on small ones.
const FILE_GROWTH: Bytes = Bytes(12 << 20);

/// A size made definite: the same for all variants of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolved {
    /// Number of tables.
    pub tables: u32,
    /// Rows per table.
    pub rows: u64,
    /// Data and index length of all tables, as estimated.
    pub estimated: Bytes,
    /// The buffer pool that the size was compared with.
    pub buffer_pool: Bytes,
}

/// Turns the plan's size into rows per table. `buffer_pool` is the largest pool among the variants.
///
/// A size in buffer pools or bytes is aimed at 3 % above, from measured bytes per row; what is achieved is
/// measured after loading.
pub fn plan_size(dataset: &Dataset, buffer_pool: Bytes) -> Resolved {
    let index = if dataset.secondary_index {
        INDEX_BYTES_PER_ROW
    } else {
        0.0
    };
    let per_row = DATA_BYTES_PER_ROW + index;
    let tables = dataset.tables.max(1);
    let rows_for = |bytes: f64| -> u64 {
        let rows = bytes * MARGIN / f64::from(tables) / per_row;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and a cast of a float saturates"
        )]
        let rows = rows.ceil() as u64;
        rows.max(1)
    };
    let rows = match dataset.size {
        DataSize::Rows(rows) => rows,
        DataSize::BufferPools(ratio) => rows_for(ratio * buffer_pool.0 as f64),
        DataSize::Bytes(bytes) => rows_for(bytes.0 as f64),
    };
    let per_row = if rows > INTEGER_MAX {
        per_row + BIGINT_BYTES_PER_ROW
    } else {
        per_row
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a cast of a float saturates"
    )]
    let estimated = (rows as f64 * f64::from(tables) * per_row) as u64;
    Resolved {
        tables,
        rows,
        estimated: Bytes(estimated),
        buffer_pool,
    }
}

/// Free space where the data goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSpace {
    /// The server's data folder.
    pub path: String,
    /// Free for it.
    pub free: Bytes,
    /// Estimated need.
    pub needed: Bytes,
    /// How the need comes about, for people.
    pub arithmetic: String,
}

impl DiskSpace {
    /// Whether the data fits.
    pub fn suffices(&self) -> bool {
        self.free >= self.needed
    }
}

/// Compares the estimated need of a load with the free space of the server's data folder. `None` when the
/// server runs elsewhere, or hides where its data is.
///
/// # Errors
/// A failed query.
pub fn disk_space(
    conn: &mut Attended,
    admin: &Endpoint,
    resolved: &Resolved,
) -> Result<Option<DiskSpace>, DatasetError> {
    let facts = first(conn, "SELECT @@datadir, @@hostname, @@log_bin", || {
        "reading @@datadir".to_owned()
    })?;
    let Some((facts, folder)) = facts.and_then(|row| {
        let folder = row.text(0)?.to_owned();
        Some((row, folder))
    }) else {
        return Ok(None);
    };
    if !on_this_host(&admin.address, facts.text(1)) || !Path::new(&folder).is_dir() {
        return Ok(None);
    }
    let log_bin = facts.on(2);
    let Ok(stat) = rustix::fs::statvfs(folder.as_str()) else {
        return Ok(None);
    };
    Ok(Some(space(
        folder,
        Bytes(stat.f_bavail.saturating_mul(stat.f_frsize)),
        resolved,
        log_bin,
    )))
}

fn space(path: String, free: Bytes, resolved: &Resolved, log_bin: bool) -> DiskSpace {
    let data = resolved.estimated;
    let files = Bytes(u64::from(resolved.tables).saturating_mul(FILE_GROWTH.0));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a cast of a float saturates"
    )]
    let mut needed = Bytes(((data.0 as f64 * DISK_HEADROOM) as u64).saturating_add(files.0));
    let mut arithmetic = format!(
        "data and index {data}, 15 % for building the index, {files} that the files of {} tables grow ahead of use",
        resolved.tables
    );
    if log_bin {
        needed = Bytes(needed.0.saturating_add(data.0));
        arithmetic.push_str(", as much again for the binary log");
    }
    DiskSpace {
        path,
        free,
        needed,
        arithmetic,
    }
}

/// A socket, or a loopback address whose server names this host as its own: a forwarded port or a container
/// has another name.
fn on_this_host(address: &Address, server_host: Option<&str>) -> bool {
    let reachable = match address {
        Address::Socket(_) => true,
        Address::Tcp { host, .. } => matches!(host.as_str(), "localhost" | "127.0.0.1" | "::1"),
    };
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    reachable && server_host.is_some_and(|name| name == own.trim())
}

/// Data and index length of some tables, from fresh statistics.
pub(super) fn measured(
    conn: &mut Attended,
    database: &str,
    names: &BTreeSet<String>,
) -> Result<Bytes, DatasetError> {
    let doing = || "measuring the tables".to_owned();
    // MySQL 8 answers from a cache of a day's age otherwise; other servers do not know the variable.
    attempt(
        conn,
        "SET SESSION information_schema_stats_expiry = 0",
        doing,
    )?;
    let sql = format!(
        "SELECT table_name, data_length + index_length FROM information_schema.tables \
         WHERE table_schema = {}",
        literal(database)
    );
    Ok(Bytes(
        select(conn, &sql, doing)?
            .iter()
            .filter(|row| row.text(0).is_some_and(|name| names.contains(name)))
            .filter_map(|row| row.number::<u64>(1))
            .sum(),
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail by panic")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::Reset;

    fn dataset(tables: u32, size: DataSize) -> Dataset {
        Dataset {
            tables,
            size,
            load_threads: 1,
            load_rate: None,
            binlog: None,
            reset: Reset::Never,
            existing: false,
            change_existing: false,
            keep: true,
            auto_inc: true,
            secondary_index: true,
            secondary: false,
            table_options: String::new(),
            engine: "innodb".to_owned(),
        }
    }

    #[test]
    fn rows_are_taken_as_stated() {
        let resolved = plan_size(&dataset(16, DataSize::Rows(1_000_000)), Bytes(1 << 30));
        assert_eq!((resolved.tables, resolved.rows), (16, 1_000_000));
        assert_eq!(resolved.estimated, Bytes(16_000_000 * 240));
        assert_eq!(resolved.buffer_pool, Bytes(1 << 30));
    }

    #[test]
    fn three_pools_of_12_gib_are_about_ten_million_rows_in_each_of_16_tables() {
        let resolved = plan_size(&dataset(16, DataSize::BufferPools(3.0)), Bytes(12 << 30));
        assert!(
            (10_000_000..10_500_000).contains(&resolved.rows),
            "{}",
            resolved.rows
        );
    }

    #[test]
    fn the_binary_log_needs_its_share_of_the_disk() {
        let gib = Bytes(1 << 30);
        let resolved = Resolved {
            tables: 16,
            rows: 1,
            estimated: gib,
            buffer_pool: gib,
        };
        let without = space("/data".to_owned(), gib, &resolved, false);
        let with = space("/data".to_owned(), gib, &resolved, true);
        assert_eq!(with.needed.0 - without.needed.0, gib.0);
        assert!(!without.suffices() && without.needed > gib);
        assert!(
            with.arithmetic.contains("binary log") && !without.arithmetic.contains("binary log")
        );
        assert!(space("/data".to_owned(), with.needed, &resolved, true).suffices());
    }

    #[test]
    fn a_forwarded_port_is_not_this_host() {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let at = |host: &str| Address::Tcp {
            host: host.to_owned(),
            port: 3306,
        };
        assert!(on_this_host(&at("127.0.0.1"), Some(own.trim())));
        assert!(!on_this_host(&at("127.0.0.1"), Some("another-container")));
        assert!(!on_this_host(&at("10.0.0.5"), Some(own.trim())));
        assert!(!on_this_host(&Address::Socket("/tmp/s".into()), None));
    }

    proptest! {
        #[test]
        fn a_stated_size_is_never_missed_by_the_estimate(
            tables in 0..2_000_u32,
            ratio in 0.01..20.0_f64,
            pool in 0..(1_u64 << 44),
        ) {
            let sizes = [
                (DataSize::BufferPools(ratio), ratio * pool as f64),
                (DataSize::Bytes(Bytes(pool)), pool as f64),
            ];
            for (size, wanted) in sizes {
                let resolved = plan_size(&dataset(tables, size), Bytes(pool));
                prop_assert!(resolved.estimated.0 as f64 >= wanted * 0.999);
                prop_assert!(resolved.rows >= 1 && resolved.tables >= 1);
            }
        }
    }
}
