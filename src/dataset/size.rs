//! From a size to rows, and whether it fits.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::connect::{attempt, literal, select};
use super::error::DatasetError;
use super::prepare::unlogged;
use super::schema::INTEGER_MAX;
use crate::plan::{Address, DataSize, Dataset, Plan};
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
/// Pages that several loading streams fill less than one does (see above), as a share of the data.
const LESS_FILLED: f64 = 0.15;
/// An index build sorts from one file into another, each as large as what it sorts.
const SORT_FILES: f64 = 2.0;
/// What the binary log's cache holds of one transaction of the load, 50,000 rows: larger than any cache in memory,
/// so that it is a file.
const BINLOG_CACHE: Bytes = Bytes(10 << 20);
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

/// Free space on one file system that a load writes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskSpace {
    /// The server's folder there; the data folder, if several are.
    pub path: String,
    /// Free for it.
    pub free: Bytes,
    /// Estimated need.
    pub needed: Bytes,
    /// How the need comes about, for people.
    pub arithmetic: String,
}

impl DiskSpace {
    /// Whether it fits.
    pub fn suffices(&self) -> bool {
        self.free >= self.needed
    }
}

impl std::fmt::Display for DiskSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} has {} free, {} needed: {}",
            self.path, self.free, self.needed, self.arithmetic
        )
    }
}

/// Something that a load writes.
#[derive(Debug, PartialEq, Eq)]
struct Share {
    folder: PathBuf,
    bytes: Bytes,
    what: String,
}

/// Compares the estimated need of a load with the free space of the file systems that the server writes it to: its
/// data, temporary and binary log folders. What an earlier load holds (`held`) is freed before. `None` when the
/// server runs elsewhere, or hides where its data is.
///
/// Undo is left out: that of inserts is a fraction of one transaction, and gone with its commit.
///
/// # Errors
/// A failed query.
pub fn disk_space(
    conn: &mut Attended,
    admin: &Endpoint,
    plan: &Plan,
    resolved: &Resolved,
    held: Bytes,
) -> Result<Option<Vec<DiskSpace>>, DatasetError> {
    const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('datadir', 'hostname', 'log_bin', 'log_bin_basename', 'tmpdir', 'innodb_tmpdir', 'innodb_redo_log_capacity', 'innodb_log_group_home_dir')";
    // MySQL ≥ 8.0.30; elsewhere the redo log has its size from the start.
    const REDO: &str = "SHOW GLOBAL STATUS LIKE 'Innodb_redo_log_physical_size'";
    let mut facts = BTreeMap::new();
    for sql in [VARIABLES, REDO] {
        let rows = select(conn, sql, || "reading the server's folders".to_owned())?;
        facts.extend(rows.iter().filter_map(|row| {
            Some((
                row.text(0)?.to_ascii_lowercase(),
                row.text(1).unwrap_or_default().to_owned(),
            ))
        }));
    }
    let here = on_this_host(&admin.address, facts.get("hostname").map(String::as_str));
    let folder = facts
        .get("datadir")
        .filter(|folder| here && Path::new(folder).is_dir());
    if folder.is_none() {
        return Ok(None);
    }
    Ok(Some(by_file_system(shares(plan, resolved, &facts), held)))
}

/// What a load writes on a server with these variables, the data first.
fn shares(plan: &Plan, resolved: &Resolved, facts: &BTreeMap<String, String>) -> Vec<Share> {
    let fact = |name: &str| facts.get(name).map_or("", String::as_str);
    let datadir = PathBuf::from(fact("datadir"));
    let part = |share: f64| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and a cast of a float saturates"
        )]
        let bytes = (resolved.estimated.0 as f64 * share) as u64;
        Bytes(bytes)
    };
    let tables = u64::from(resolved.tables.max(1));
    let streams = u64::from(plan.dataset.load_threads);
    let mut all = Vec::new();
    let mut add = |folder: &Path, bytes: Bytes, what: String| {
        all.push(Share {
            folder: folder.to_owned(),
            bytes,
            what: format!("{bytes} {what}"),
        });
    };
    add(&datadir, resolved.estimated, "of data and index".to_owned());
    add(
        &datadir,
        part(LESS_FILLED),
        "(15 %) for pages that are not full".to_owned(),
    );
    add(
        &datadir,
        Bytes(tables.saturating_mul(FILE_GROWTH.0)),
        format!(
            "that the files of {} tables grow ahead of use",
            resolved.tables
        ),
    );
    let number = |name: &str| fact(name).parse::<u64>().ok();
    if let (Some(capacity), Some(size)) = (
        number("innodb_redo_log_capacity"),
        number("innodb_redo_log_physical_size"),
    ) && capacity > size
    {
        // Relative to the data folder, where it is not stated otherwise.
        add(
            &datadir.join(fact("innodb_log_group_home_dir")),
            Bytes(capacity - size),
            "that the redo log may grow".to_owned(),
        );
    }
    // A list of folders is used in turn.
    let tmpdir = PathBuf::from(fact("tmpdir").split(':').next().unwrap_or_default());
    if plan.dataset.secondary_index {
        let sorting = match fact("innodb_tmpdir") {
            "" => tmpdir.clone(),
            folder => PathBuf::from(folder),
        };
        let at_once = tables.min(streams);
        let share = INDEX_BYTES_PER_ROW / (DATA_BYTES_PER_ROW + INDEX_BYTES_PER_ROW);
        add(
            &sorting,
            part(SORT_FILES * share * at_once as f64 / tables as f64),
            format!("of sort files for {at_once} indexes at a time"),
        );
    }
    if fact("log_bin") == "ON" && !unlogged(plan) {
        let folder = Path::new(fact("log_bin_basename"));
        add(
            folder
                .parent()
                .filter(|p| p.is_absolute())
                .unwrap_or(&datadir),
            resolved.estimated,
            "of binary log".to_owned(),
        );
        add(
            &tmpdir,
            Bytes(streams.saturating_mul(BINLOG_CACHE.0)),
            format!("of binary log caches for {streams} loading threads"),
        );
    }
    all
}

/// The shares of each file system together; one that cannot be looked at is left out.
fn by_file_system(shares: Vec<Share>, held: Bytes) -> Vec<DiskSpace> {
    let mut all: Vec<(u64, DiskSpace)> = Vec::new();
    for share in shares {
        let (Ok(facts), Ok(stat)) = (
            std::fs::metadata(&share.folder),
            rustix::fs::statvfs(&share.folder),
        ) else {
            continue;
        };
        if let Some((_, space)) = all.iter_mut().find(|(device, _)| *device == facts.dev()) {
            space.needed.0 = space.needed.0.saturating_add(share.bytes.0);
            space.arithmetic = format!("{}, {}", space.arithmetic, share.what);
            continue;
        }
        // The data comes first, and where it goes, an earlier load goes away.
        let freed = if all.is_empty() { held.0 } else { 0 };
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        all.push((
            facts.dev(),
            DiskSpace {
                path: share.folder.display().to_string(),
                free: Bytes(free.saturating_add(freed)),
                needed: share.bytes,
                arithmetic: share.what,
            },
        ));
    }
    all.into_iter().map(|(_, space)| space).collect()
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
    use crate::plan::{Binlog, Place, Reset};

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

    fn facts<'a>(more: &[(&'a str, &'a str)]) -> BTreeMap<String, String> {
        [
            ("datadir", "/data"),
            ("tmpdir", "/fast:/other"),
            ("log_bin", "OFF"),
        ]
        .iter()
        .chain(more)
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
    }

    #[test]
    fn everything_that_a_load_writes_is_counted_where_it_goes() {
        let mut plan = crate::target::testing::plan();
        plan.target.place = Place::Server(crate::target::testing::external("127.0.0.1", "u"));
        plan.dataset.load_threads = 8;
        let resolved = Resolved {
            tables: 16,
            rows: 1_000_000,
            estimated: Bytes(16_000_000 * 240),
            buffer_pool: Bytes(1 << 30),
        };
        let shown = |plan: &Plan, more: &[(&str, &str)]| {
            shares(plan, &resolved, &facts(more))
                .iter()
                .map(|share| format!("{}: {}", share.folder.display(), share.what))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            shown(&plan, &[]),
            [
                "/data: 3.6 GiB of data and index",
                "/data: 549.3 MiB (15 %) for pages that are not full",
                "/data: 192.0 MiB that the files of 16 tables grow ahead of use",
                "/fast: 228.9 MiB of sort files for 8 indexes at a time",
            ]
        );
        let logged = [
            ("log_bin", "ON"),
            ("log_bin_basename", "/logs/binlog"),
            ("innodb_tmpdir", "/sort"),
            ("innodb_redo_log_capacity", "104857600"),
            ("innodb_redo_log_physical_size", "3276800"),
        ];
        assert_eq!(
            shown(&plan, &logged)[3..],
            [
                "/data/: 96.9 MiB that the redo log may grow",
                "/sort: 228.9 MiB of sort files for 8 indexes at a time",
                "/logs: 3.6 GiB of binary log",
                "/fast: 80.0 MiB of binary log caches for 8 loading threads",
            ]
        );
        plan.dataset.binlog = Some(Binlog::Unlogged);
        plan.dataset.secondary_index = false;
        assert_eq!(
            shown(&plan, &logged)[3..],
            ["/data/: 96.9 MiB that the redo log may grow"]
        );
    }

    #[test]
    fn one_file_system_holds_several_shares() {
        let share = |folder: &str, bytes| Share {
            folder: folder.into(),
            bytes: Bytes(bytes),
            what: format!("{bytes} here"),
        };
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().to_str().unwrap();
        let shares = vec![
            share(here, 1),
            share(here, 2),
            share("/proc", 4),
            share("/no/such", 8),
        ];
        let spaces = by_file_system(shares, Bytes(1));
        assert_eq!(spaces.len(), 2);
        assert_eq!((spaces[0].needed, spaces[1].needed), (Bytes(3), Bytes(4)));
        assert_eq!(spaces[0].arithmetic, "1 here, 2 here");
        assert!(
            spaces[0].suffices() && !spaces[1].suffices(),
            "nothing is free in /proc"
        );
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
