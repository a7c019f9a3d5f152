//! What a user can try against a bottleneck, with the trade-off.

use super::findings::Cause;

/// Suggestions for a cause, best first.
pub(crate) fn for_cause(cause: Cause) -> &'static [&'static str] {
    match cause {
        Cause::LoadGenerator => {
            &["use a larger or an idle load machine: these figures are its limit, not the server's"]
        }
        Cause::Network | Cause::OutsideServer => &[
            "look at what lies between clients and server: the link's speed and round trip, a proxy; where the server is elsewhere, move the load machine into its rack or zone",
        ],
        Cause::Connections => &[
            "raise max_connections (memory per connection rises with it), or put a pool in front of the server",
        ],
        Cause::PreparedStatements => {
            &["raise max_prepared_stmt_count (memory per statement), or use the text protocol"]
        }
        Cause::RowLocks => &[
            "shorten transactions and spread hot rows; more threads only lengthen the queue",
            "innodb_deadlock_detect = OFF saves CPU on hot rows, but deadlocks then end by innodb_lock_wait_timeout only",
        ],
        Cause::Latches => &[
            "limit concurrency in front of the server (pool, thread pool) to the knee",
            "compare innodb_buffer_pool_instances, innodb_spin_wait_delay and innodb_adaptive_hash_index as variants",
        ],
        Cause::TableLocks => &[
            "look who holds the lock (SHOW FULL PROCESSLIST; performance_schema.metadata_locks): LOCK TABLES, DDL, a backup, GET_LOCK, a storage engine that locks tables",
        ],
        Cause::CpuQuota => &[
            "raise the CPU limit of the container, pod or unit (cpu.max, cpu.cfs_quota_us), or measure with the one that it will have in production",
        ],
        Cause::Cpu => &["more or faster cores; fewer or cheaper statements per transaction"],
        Cause::OtherProcesses => &[
            "other processes had the CPU: stop them, or measure on a host that only the server (and capbench) uses, then run again",
        ],
        Cause::Stall => &[
            "nothing completed for whole intervals: look into the server's error log, at SHOW ENGINE INNODB STATUS and at the disk at that time, then run again",
        ],
        Cause::StolenCpu => {
            &["the hypervisor gives CPU to others: use a dedicated or larger instance"]
        }
        Cause::DiskReads => &[
            "raise innodb_buffer_pool_size (leave memory to the system and to connections)",
            "faster storage, or innodb_io_capacity if writes compete with reads",
        ],
        Cause::Disk => &[
            "faster storage; check innodb_io_capacity, innodb_flush_method and the doublewrite buffer's device",
        ],
        Cause::Redo => &[
            "raise innodb_redo_log_capacity (MySQL 8.0.30+) or innodb_log_file_size: smoother writes, longer crash recovery",
        ],
        Cause::LogFlush => &[
            "put the redo and binary logs on a device with fast fsync (power-loss protection)",
            "innodb_flush_log_at_trx_commit = 2 or sync_binlog > 1 trade durability for throughput: up to a second of commits can be lost; needs a signature",
        ],
        Cause::SemiSync => &["a closer or faster replica; fewer acknowledgements trade durability"],
        Cause::Admission => &[
            "compare a larger thread_pool_size (about the cores) or innodb_thread_concurrency (0 is no limit) as variants: the resources behind it are not full",
        ],
        Cause::Replication => &[
            "let the replica apply in parallel: replica_parallel_workers (MySQL), slave_parallel_threads with slave_parallel_mode = optimistic (MariaDB)",
            "sync_binlog and innodb_flush_log_at_trx_commit on the replica trade its durability for speed; without parallel apply a limit on the write rate is what remains",
        ],
        Cause::FlowControl => {
            &["the slowest cluster member limits all: look at its disk and applier threads"]
        }
        Cause::TemporaryTables => &[
            "indexes that avoid sorting and grouping in temporary tables; then tmp_table_size / temptable_max_ram (memory per statement)",
        ],
        Cause::TableCache => &["raise table_open_cache (file handles)"],
        Cause::Purge => &["look for long transactions; raise innodb_purge_threads"],
        Cause::Unfair => {
            &["some clients wait far longer than others: look at the percentiles, not at the mean"]
        }
        Cause::NotSaturated => &[
            "no resource is full: latency of the single request bounds the clients; look at round trip and statement cost",
        ],
        Cause::Unseen => &[
            "look for limits that stand outside the server's counters: a quota of the virtual machine, container or volume, a proxy or pool on the way; and at what SHOW FULL PROCESSLIST shows under load",
        ],
        Cause::Unknown => &[
            "give capbench the missing signals (an admin account with PROCESS, a probe on the server's host)",
        ],
    }
}
