//! The one table of server counters: canonical name → where each flavour keeps it.
//!
//! Checked against real dumps of SHOW GLOBAL STATUS (`MySQL` 8.4, 9.7; `MariaDB` 10.11, 11.8, 12.2); names
//! of `MySQL` 5.7 and 8.0 are from documentation \[H\]. A flavour with an empty list does not have the
//! counter at all.

use super::innodb_status::Figure;
use super::names::server as n;
use crate::record::Flavour;

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A row of SHOW GLOBAL STATUS.
    Status(&'static str),
    /// Difference of two rows of SHOW GLOBAL STATUS.
    Difference(&'static str, &'static str),
    /// A row of `INFORMATION_SCHEMA.INNODB_METRICS`.
    Metric(&'static str),
    /// Sum of rows of `INFORMATION_SCHEMA.INNODB_METRICS`.
    Metrics(&'static [&'static str]),
    /// A figure of SHOW ENGINE INNODB STATUS, which is long: only where nothing else has it.
    InnodbStatus(Figure),
    /// Product of two global variables, read once.
    Variables(&'static str, &'static str),
}

/// One counter.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    /// Canonical name.
    pub name: &'static str,
    /// `MySQL`'s sources, best first.
    pub mysql: &'static [Source],
    /// `MariaDB`'s sources, best first.
    pub mariadb: &'static [Source],
    /// Only listed as unavailable when the feature it belongs to is expected on every server.
    pub optional: bool,
}

impl Counter {
    /// The flavour's sources, best first.
    pub fn sources(&self, flavour: Flavour) -> &'static [Source] {
        match flavour {
            Flavour::MySql => self.mysql,
            Flavour::MariaDb => self.mariadb,
        }
    }
}

/// The same status row on all flavours.
macro_rules! same {
    ($name:expr, $status:literal) => {
        Counter {
            name: $name,
            mysql: &[Source::Status($status)],
            mariadb: &[Source::Status($status)],
            optional: false,
        }
    };
}

/// Every counter that is sampled.
pub const COUNTERS: &[Counter] = &[
    same!(n::THREADS_RUNNING, "Threads_running"),
    same!(n::THREADS_CONNECTED, "Threads_connected"),
    same!(n::QUESTIONS, "Questions"),
    same!(n::COM_COMMIT, "Com_commit"),
    same!(n::COM_ROLLBACK, "Com_rollback"),
    same!(n::COM_SELECT, "Com_select"),
    same!(n::COM_INSERT, "Com_insert"),
    same!(n::COM_UPDATE, "Com_update"),
    same!(n::COM_DELETE, "Com_delete"),
    same!(n::COM_STMT_EXECUTE, "Com_stmt_execute"),
    same!(n::COM_STMT_PREPARE, "Com_stmt_prepare"),
    same!(n::BUFFER_POOL_READS, "Innodb_buffer_pool_reads"),
    same!(
        n::BUFFER_POOL_READ_REQUESTS,
        "Innodb_buffer_pool_read_requests"
    ),
    same!(n::BUFFER_POOL_WAIT_FREE, "Innodb_buffer_pool_wait_free"),
    same!(n::BUFFER_POOL_PAGES_DIRTY, "Innodb_buffer_pool_pages_dirty"),
    same!(n::BUFFER_POOL_PAGES_TOTAL, "Innodb_buffer_pool_pages_total"),
    same!(
        n::BUFFER_POOL_PAGES_FLUSHED,
        "Innodb_buffer_pool_pages_flushed"
    ),
    same!(n::DATA_READ, "Innodb_data_read"),
    same!(n::DATA_WRITTEN, "Innodb_data_written"),
    same!(n::DATA_READS, "Innodb_data_reads"),
    same!(n::DATA_WRITES, "Innodb_data_writes"),
    same!(n::DATA_FSYNCS, "Innodb_data_fsyncs"),
    same!(n::DATA_PENDING_READS, "Innodb_data_pending_reads"),
    same!(n::DATA_PENDING_WRITES, "Innodb_data_pending_writes"),
    same!(n::DATA_PENDING_FSYNCS, "Innodb_data_pending_fsyncs"),
    Counter {
        name: n::ASYNC_READS_PENDING,
        mysql: &[],
        mariadb: &[Source::Status("Innodb_async_reads_pending")],
        optional: true,
    },
    Counter {
        name: n::ASYNC_READS_QUEUE,
        mysql: &[],
        mariadb: &[Source::Status("Innodb_async_reads_queue_size")],
        optional: true,
    },
    same!(n::LOG_WAITS, "Innodb_log_waits"),
    // Gone from MariaDB 10.11 on, where only the sum of all fsyncs is left.
    Counter {
        name: n::LOG_FSYNCS,
        mysql: &[Source::Status("Innodb_os_log_fsyncs")],
        mariadb: &[Source::Status("Innodb_os_log_fsyncs")],
        optional: false,
    },
    Counter {
        name: n::LOG_PENDING_FSYNCS,
        mysql: &[Source::Status("Innodb_os_log_pending_fsyncs")],
        mariadb: &[Source::Status("Innodb_os_log_pending_fsyncs")],
        optional: true,
    },
    same!(n::LOG_WRITTEN, "Innodb_os_log_written"),
    same!(n::ROW_LOCK_TIME, "Innodb_row_lock_time"),
    same!(n::ROW_LOCK_WAITS, "Innodb_row_lock_waits"),
    same!(n::ROW_LOCK_CURRENT_WAITS, "Innodb_row_lock_current_waits"),
    // MariaDB's counter equalled the deadlocks that clients saw exactly (21437) [M].
    Counter {
        name: n::DEADLOCKS,
        mysql: &[Source::Metric("lock_deadlocks")],
        mariadb: &[
            Source::Status("Innodb_deadlocks"),
            Source::Metric("lock_deadlocks"),
        ],
        optional: false,
    },
    Counter {
        name: n::HISTORY_LENGTH,
        mysql: &[
            Source::Metric("trx_rseg_history_len"),
            Source::InnodbStatus(Figure::HistoryLength),
        ],
        mariadb: &[
            Source::Status("Innodb_history_list_length"),
            Source::Metric("trx_rseg_history_len"),
            Source::InnodbStatus(Figure::HistoryLength),
        ],
        optional: false,
    },
    // 8.0.30+; before, a metric that is off by default.
    Counter {
        name: n::CHECKPOINT_AGE,
        mysql: &[
            Source::Difference(
                "Innodb_redo_log_current_lsn",
                "Innodb_redo_log_checkpoint_lsn",
            ),
            Source::Metric("log_lsn_checkpoint_age"),
            Source::InnodbStatus(Figure::CheckpointAge),
        ],
        mariadb: &[
            Source::Status("Innodb_checkpoint_age"),
            Source::Metric("log_lsn_checkpoint_age"),
            Source::InnodbStatus(Figure::CheckpointAge),
        ],
        optional: false,
    },
    // The size in effect, also after a resize; before 8.0.30 the product of the file's variables.
    Counter {
        name: n::CHECKPOINT_CAPACITY,
        mysql: &[
            Source::Status("Innodb_redo_log_capacity_resized"),
            Source::Variables("innodb_log_file_size", "innodb_log_files_in_group"),
        ],
        mariadb: &[Source::Status("Innodb_checkpoint_max_age")],
        optional: false,
    },
    same!(n::MAX_USED_CONNECTIONS, "Max_used_connections"),
    same!(
        n::CONNECTION_ERRORS_MAX,
        "Connection_errors_max_connections"
    ),
    same!(n::ABORTED_CONNECTS, "Aborted_connects"),
    same!(n::ABORTED_CLIENTS, "Aborted_clients"),
    same!(n::CONNECTIONS, "Connections"),
    same!(n::PREPARED_STMT_COUNT, "Prepared_stmt_count"),
    same!(n::TMP_TABLES, "Created_tmp_tables"),
    same!(n::TMP_DISK_TABLES, "Created_tmp_disk_tables"),
    same!(n::SORT_MERGE_PASSES, "Sort_merge_passes"),
    Counter {
        name: n::TEMPTABLE_RAM_HITS,
        mysql: &[Source::Status("TempTable_count_hit_max_ram")],
        mariadb: &[],
        optional: true,
    },
    same!(n::TABLE_CACHE_OVERFLOWS, "Table_open_cache_overflows"),
    same!(n::TABLE_CACHE_MISSES, "Table_open_cache_misses"),
    same!(n::BYTES_SENT, "Bytes_sent"),
    same!(n::BYTES_RECEIVED, "Bytes_received"),
    Counter {
        name: n::BINLOG_COMMITS,
        mysql: &[],
        mariadb: &[Source::Status("Binlog_commits")],
        optional: true,
    },
    Counter {
        name: n::BINLOG_GROUP_COMMITS,
        mysql: &[],
        mariadb: &[Source::Status("Binlog_group_commits")],
        optional: true,
    },
    // Plugins: `source` from MySQL 8.0.26 on, `master` before and on MariaDB.
    Counter {
        name: n::SEMI_SYNC_WAIT_TIME,
        mysql: &[
            Source::Status("Rpl_semi_sync_source_tx_wait_time"),
            Source::Status("Rpl_semi_sync_master_tx_wait_time"),
        ],
        mariadb: &[Source::Status("Rpl_semi_sync_master_tx_wait_time")],
        optional: true,
    },
    Counter {
        name: n::SEMI_SYNC_WAITS,
        mysql: &[
            Source::Status("Rpl_semi_sync_source_tx_waits"),
            Source::Status("Rpl_semi_sync_master_tx_waits"),
        ],
        mariadb: &[Source::Status("Rpl_semi_sync_master_tx_waits")],
        optional: true,
    },
    Counter {
        name: n::FLOW_CONTROL_PAUSED_NS,
        mysql: &[Source::Status("wsrep_flow_control_paused_ns")],
        mariadb: &[Source::Status("wsrep_flow_control_paused_ns")],
        optional: true,
    },
    Counter {
        name: n::GROUP_THROTTLE_US,
        mysql: &[Source::Status("Gr_flow_control_throttle_time_sum")],
        mariadb: &[],
        optional: true,
    },
    // On by default in MySQL 5.7 and later \[H\], seen on 9.7 \[M\]; MariaDB 10.6 dropped its like.
    Counter {
        name: n::LATCH_WAITS,
        mysql: &[Source::Metrics(&[
            "innodb_rwlock_s_os_waits",
            "innodb_rwlock_x_os_waits",
            "innodb_rwlock_sx_os_waits",
        ])],
        mariadb: &[],
        optional: true,
    },
    // Both leave out internal temporary tables, and with them what SHOW GLOBAL STATUS itself reads \[M\].
    Counter {
        name: n::ROWS_READ,
        mysql: &[Source::Status("Innodb_rows_read")],
        mariadb: &[Source::Status("Rows_read")],
        optional: false,
    },
    same!(n::HANDLER_READ_NEXT, "Handler_read_next"),
    same!(n::HANDLER_READ_RND_NEXT, "Handler_read_rnd_next"),
    same!(n::HANDLER_READ_KEY, "Handler_read_key"),
    same!(n::UPTIME, "Uptime"),
];
