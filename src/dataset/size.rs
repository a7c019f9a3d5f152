//! From a size to rows, and whether it fits.

use std::collections::BTreeSet;
use std::path::Path;

use mysql::Conn;

use super::connect::{attempt, first, literal, select};
use super::error::DatasetError;
use crate::plan::{Address, DataSize, Dataset};
use crate::target::Endpoint;
use crate::units::Bytes;

/// Data bytes a row takes in `InnoDB`'s clustered index: 189 bytes of columns and header in pages that bulk
/// loading fills to 15/16 (measured on `MariaDB` 10.11 and `MySQL` 9.7; see docs/workloads.md).
const DATA_BYTES_PER_ROW: f64 = 214.0;
/// Bytes a row takes in the index on `k` when it is built after loading (measured likewise).
const INDEX_BYTES_PER_ROW: f64 = 14.0;
/// Aimed above a stated size, so that what is achieved is never below it.
const MARGIN: f64 = 1.03;
/// Temporary space of an index build and growth of the files ahead of use, as a share of the data.
const DISK_HEADROOM: f64 = 1.15;

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
    conn: &mut Conn,
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
        resolved.estimated,
        log_bin,
    )))
}

fn space(path: String, free: Bytes, data: Bytes, log_bin: bool) -> DiskSpace {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a cast of a float saturates"
    )]
    let mut needed = Bytes((data.0 as f64 * DISK_HEADROOM) as u64);
    let mut arithmetic = format!("data and index {data}, 15 % for building the index");
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
    conn: &mut Conn,
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
