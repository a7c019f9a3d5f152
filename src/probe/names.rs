//! Names of the probes' values, as they stand in samples, `server.csv` and `host.csv`. Server counters
//! keep the server's own name in lower case where all flavours agree on it.

/// Server values.
pub mod server {
    /// Threads that are not idle; gauge.
    pub const THREADS_RUNNING: &str = "threads_running";
    /// Open connections; gauge.
    pub const THREADS_CONNECTED: &str = "threads_connected";
    /// Statements sent by clients.
    pub const QUESTIONS: &str = "questions";
    /// COMMITs.
    pub const COM_COMMIT: &str = "com_commit";
    /// ROLLBACKs.
    pub const COM_ROLLBACK: &str = "com_rollback";
    /// SELECTs.
    pub const COM_SELECT: &str = "com_select";
    /// INSERTs.
    pub const COM_INSERT: &str = "com_insert";
    /// UPDATEs.
    pub const COM_UPDATE: &str = "com_update";
    /// DELETEs.
    pub const COM_DELETE: &str = "com_delete";
    /// Executions of prepared statements.
    pub const COM_STMT_EXECUTE: &str = "com_stmt_execute";
    /// Preparations.
    pub const COM_STMT_PREPARE: &str = "com_stmt_prepare";
    /// Pages read from disk because the pool did not hold them.
    pub const BUFFER_POOL_READS: &str = "innodb_buffer_pool_reads";
    /// Logical page reads.
    pub const BUFFER_POOL_READ_REQUESTS: &str = "innodb_buffer_pool_read_requests";
    /// Waits for a clean page.
    pub const BUFFER_POOL_WAIT_FREE: &str = "innodb_buffer_pool_wait_free";
    /// Dirty pages; gauge.
    pub const BUFFER_POOL_PAGES_DIRTY: &str = "innodb_buffer_pool_pages_dirty";
    /// Pages of the pool; gauge.
    pub const BUFFER_POOL_PAGES_TOTAL: &str = "innodb_buffer_pool_pages_total";
    /// Pages written.
    pub const BUFFER_POOL_PAGES_FLUSHED: &str = "innodb_buffer_pool_pages_flushed";
    /// Bytes that `InnoDB` read.
    pub const DATA_READ: &str = "innodb_data_read";
    /// Bytes that `InnoDB` wrote.
    pub const DATA_WRITTEN: &str = "innodb_data_written";
    /// Reads that `InnoDB` asked of the system.
    pub const DATA_READS: &str = "innodb_data_reads";
    /// Writes that `InnoDB` asked of the system.
    pub const DATA_WRITES: &str = "innodb_data_writes";
    /// All fsyncs of `InnoDB`.
    pub const DATA_FSYNCS: &str = "innodb_data_fsyncs";
    /// Reads under way; gauge.
    pub const DATA_PENDING_READS: &str = "innodb_data_pending_reads";
    /// Writes under way; gauge.
    pub const DATA_PENDING_WRITES: &str = "innodb_data_pending_writes";
    /// fsyncs under way; gauge.
    pub const DATA_PENDING_FSYNCS: &str = "innodb_data_pending_fsyncs";
    /// Asynchronous reads under way, `MariaDB` 11.8+; gauge.
    pub const ASYNC_READS_PENDING: &str = "innodb_async_reads_pending";
    /// Asynchronous reads waiting, `MariaDB` 11.8+; gauge.
    pub const ASYNC_READS_QUEUE: &str = "innodb_async_reads_queue_size";
    /// Waits for room in the log buffer.
    pub const LOG_WAITS: &str = "innodb_log_waits";
    /// fsyncs of the redo log; `MySQL`, and `MariaDB` before 10.11.
    pub const LOG_FSYNCS: &str = "innodb_os_log_fsyncs";
    /// Redo fsyncs under way, `MySQL`; gauge.
    pub const LOG_PENDING_FSYNCS: &str = "innodb_os_log_pending_fsyncs";
    /// Bytes of redo written.
    pub const LOG_WRITTEN: &str = "innodb_os_log_written";
    /// Milliseconds that statements waited for row locks, summed.
    pub const ROW_LOCK_TIME: &str = "innodb_row_lock_time";
    /// Waits for row locks.
    pub const ROW_LOCK_WAITS: &str = "innodb_row_lock_waits";
    /// Waits for row locks under way; gauge.
    pub const ROW_LOCK_CURRENT_WAITS: &str = "innodb_row_lock_current_waits";
    /// Deadlocks.
    pub const DEADLOCKS: &str = "deadlocks";
    /// History list length; gauge.
    pub const HISTORY_LENGTH: &str = "history_list_length";
    /// Bytes of redo not yet checkpointed; gauge.
    pub const CHECKPOINT_AGE: &str = "checkpoint_age";
    /// Bytes that the checkpoint age may reach (`MariaDB`'s maximum age, `MySQL`'s capacity); gauge.
    pub const CHECKPOINT_CAPACITY: &str = "checkpoint_capacity";
    /// Highest number of connections at once; gauge.
    pub const MAX_USED_CONNECTIONS: &str = "max_used_connections";
    /// Connections refused for `max_connections`.
    pub const CONNECTION_ERRORS_MAX: &str = "connection_errors_max_connections";
    /// Failed attempts to connect.
    pub const ABORTED_CONNECTS: &str = "aborted_connects";
    /// Connections that ended without goodbye.
    pub const ABORTED_CLIENTS: &str = "aborted_clients";
    /// Attempts to connect.
    pub const CONNECTIONS: &str = "connections";
    /// Prepared statements held; gauge.
    pub const PREPARED_STMT_COUNT: &str = "prepared_stmt_count";
    /// Internal temporary tables.
    pub const TMP_TABLES: &str = "created_tmp_tables";
    /// … that went to disk.
    pub const TMP_DISK_TABLES: &str = "created_tmp_disk_tables";
    /// Sorts that needed merging.
    pub const SORT_MERGE_PASSES: &str = "sort_merge_passes";
    /// In-memory temporary tables that ran out of `temptable_max_ram`; `MySQL` 9.
    pub const TEMPTABLE_RAM_HITS: &str = "temptable_count_hit_max_ram";
    /// Table cache overflows.
    pub const TABLE_CACHE_OVERFLOWS: &str = "table_open_cache_overflows";
    /// Table cache misses.
    pub const TABLE_CACHE_MISSES: &str = "table_open_cache_misses";
    /// Bytes sent to clients.
    pub const BYTES_SENT: &str = "bytes_sent";
    /// Bytes received from clients.
    pub const BYTES_RECEIVED: &str = "bytes_received";
    /// Commits in the binary log; `MariaDB`.
    pub const BINLOG_COMMITS: &str = "binlog_commits";
    /// Groups of them; `MariaDB`.
    pub const BINLOG_GROUP_COMMITS: &str = "binlog_group_commits";
    /// Microseconds that transactions waited for a semi-synchronous replica, summed.
    pub const SEMI_SYNC_WAIT_TIME: &str = "semi_sync_tx_wait_time";
    /// Transactions that waited for one.
    pub const SEMI_SYNC_WAITS: &str = "semi_sync_tx_waits";
    /// Nanoseconds that Galera's flow control paused replication, since the start.
    pub const FLOW_CONTROL_PAUSED_NS: &str = "wsrep_flow_control_paused_ns";
    /// Rows read through an index, in order.
    pub const HANDLER_READ_NEXT: &str = "handler_read_next";
    /// Rows read by a scan.
    pub const HANDLER_READ_RND_NEXT: &str = "handler_read_rnd_next";
    /// Rows read by key.
    pub const HANDLER_READ_KEY: &str = "handler_read_key";
    /// Rows read from tables that are no internal temporary ones (`Innodb_rows_read`, `Rows_read`).
    pub const ROWS_READ: &str = "rows_read";
    /// Waits of threads for a read-write latch of `InnoDB` that made them sleep; `MySQL`.
    pub const LATCH_WAITS: &str = "innodb_rwlock_os_waits";
    /// Microseconds that Group Replication's flow control held transactions back, summed; `MySQL` 9.1+ with
    /// its component.
    pub const GROUP_THROTTLE_US: &str = "gr_flow_control_throttle_us";
    /// Clients' threads that are committing: they wait for the log, the binary log or a replica; gauge, from
    /// SHOW PROCESSLIST.
    pub const THREADS_COMMITTING: &str = "threads_committing";
    /// Clients' threads that wait for a table, its definition, a global or a named lock; gauge, from SHOW
    /// PROCESSLIST.
    pub const THREADS_WAITING_FOR_TABLES: &str = "threads_waiting_for_tables";
    /// Statements that the server has taken and not yet begun: in the queues of its thread pool, or before
    /// `innodb_thread_concurrency`; gauge. Only where one of them is in use.
    pub const QUEUED_STATEMENTS: &str = "queued_statements";
    /// Statements that the probe itself has sent before this reading.
    pub const PROBE_STATEMENTS: &str = "probe_statements";
    /// Seconds since the server started; gauge. Falls when it restarts.
    pub const UPTIME: &str = "uptime";
}

/// Any probe: how long this reading took, milliseconds; gauge.
pub const PROBE_MS: &str = "probe_ms";

/// Values of a replica, each with its name in front (`replica-1.lag_seconds`).
pub mod replica {
    /// `Seconds_Behind_Source` or `_Master`; gauge, missing while the server does not know it.
    pub const LAG: &str = "lag_seconds";
    /// 1: the receiver runs.
    pub const IO_RUNNING: &str = "receiver_running";
    /// 1: the applier runs.
    pub const SQL_RUNNING: &str = "applier_running";
    /// Bytes of the source's binary log fetched and not yet applied; gauge, within one file.
    pub const BYTES: &str = "bytes_behind";
}

/// Host values.
pub mod host {
    /// CPU seconds in user mode (nice included), all CPUs.
    pub const CPU_USER: &str = "cpu_user_seconds";
    /// CPU seconds in kernel mode (interrupts included).
    pub const CPU_SYSTEM: &str = "cpu_system_seconds";
    /// Idle CPU seconds.
    pub const CPU_IDLE: &str = "cpu_idle_seconds";
    /// Idle CPU seconds with I/O under way.
    pub const CPU_IOWAIT: &str = "cpu_iowait_seconds";
    /// CPU seconds that other guests took.
    pub const CPU_STEAL: &str = "cpu_steal_seconds";
    /// CPUs; gauge.
    pub const CPUS: &str = "cpus";
    /// Load average over one minute; gauge.
    pub const LOAD1: &str = "load1";
    /// Runnable tasks; gauge.
    pub const RUNNABLE: &str = "procs_running";
    /// Tasks blocked on I/O; gauge.
    pub const BLOCKED: &str = "procs_blocked";
    /// Context switches.
    pub const CONTEXT_SWITCHES: &str = "context_switches";
    /// Microseconds in which some task waited for CPU.
    pub const PRESSURE_CPU: &str = "pressure_cpu_some_us";
    /// Microseconds in which some task waited for I/O.
    pub const PRESSURE_IO: &str = "pressure_io_some_us";
    /// Microseconds in which all tasks waited for I/O.
    pub const PRESSURE_IO_FULL: &str = "pressure_io_full_us";
    /// Memory that can be had without swapping, bytes; gauge.
    pub const MEMORY_AVAILABLE: &str = "memory_available_bytes";
    /// TCP segments sent again.
    pub const TCP_RETRANSMITS: &str = "tcp_retransmits";
    /// TCP segments sent.
    pub const TCP_SENT: &str = "tcp_segments_sent";
    /// CPU seconds of capbench itself.
    pub const SELF_CPU: &str = "self_cpu_seconds";
    /// Share of the time since the last reading in which capbench's busiest thread ran or was ready to run;
    /// gauge.
    pub const SELF_WANTED: &str = "self_busiest_wanted";
    /// Share of that time in which the same thread was ready to run and had no CPU; gauge.
    pub const SELF_WAITED: &str = "self_busiest_waited";
    /// Resident memory of capbench, bytes; gauge.
    pub const SELF_RSS: &str = "self_resident_bytes";
    /// CPU seconds of the server process.
    pub const SERVER_CPU: &str = "server_cpu_seconds";
    /// Context switches of the server's threads that are alive.
    pub const SERVER_SWITCHES: &str = "server_context_switches";
    /// Resident memory of the server process, bytes; gauge.
    pub const SERVER_RSS: &str = "server_resident_bytes";

    /// CPUs that the server's control group may use at once, the least of it and those above it; gauge.
    pub const SERVER_CPU_QUOTA: &str = "server_cpu_quota";
    /// Periods of that quota in which the group ran.
    pub const SERVER_CPU_PERIODS: &str = "server_cpu_periods";
    /// … in which it used the quota up, and had to wait for the next.
    pub const SERVER_THROTTLED_PERIODS: &str = "server_throttled_periods";

    /// Figures of one disk stand under `disk.<device>.<figure>`.
    pub const DISK_PREFIX: &str = "disk.";
    /// Reads done.
    pub const DISK_READS: &str = "reads";
    /// Milliseconds of those reads, summed.
    pub const DISK_READ_MS: &str = "read_ms";
    /// Bytes read.
    pub const DISK_READ_BYTES: &str = "read_bytes";
    /// Writes done.
    pub const DISK_WRITES: &str = "writes";
    /// Milliseconds of those writes, summed.
    pub const DISK_WRITE_MS: &str = "write_ms";
    /// Bytes written.
    pub const DISK_WRITE_BYTES: &str = "write_bytes";
    /// Milliseconds in which the device was busy.
    pub const DISK_BUSY_MS: &str = "busy_ms";
    /// Milliseconds × requests in flight.
    pub const DISK_QUEUE_MS: &str = "queue_ms";

    /// Figures of one network interface stand under `net.<interface>.<figure>`.
    pub const NET_PREFIX: &str = "net.";
    /// Bytes received.
    pub const NET_RECEIVED: &str = "received_bytes";
    /// Bytes sent.
    pub const NET_SENT: &str = "sent_bytes";
    /// Link speed, bits per second; gauge, physical links only.
    pub const NET_SPEED: &str = "speed_bits";
}
