//! Bottlenecks below the server: slow flushes, a small redo log, pages that the pool does not hold.

use capbench::analysis::Cause;

use crate::drill::{private, slow_drill, slow_io};
use crate::lab::Lab;
use crate::servers;

#[test]
#[ignore = "a drill: make drills"]
fn slow_flushes_are_the_log() {
    for binary in servers::servers() {
        let lab = Lab::new();
        let Some(slow) = slow_io(&lab, &binary, 25, 0) else {
            return;
        };
        let plan = private(
            &slow,
            "innodb_flush_log_at_trx_commit = 1, innodb_buffer_pool_size = \"128MiB\"",
            "",
            "workloads = [\"oltp_update_non_index\"]\nthreads = [1, 4, 16]\nmeasure = \"4s\"",
        );
        let found = slow_drill(&lab, &plan);
        let named = found.names(Cause::LogFlush);
        assert!(
            named.advice.iter().any(|a| a.contains("durability")),
            "{:?}",
            named.advice
        );
        lab.assert_clean();
    }
}

#[test]
#[ignore = "a drill: make drills"]
fn a_tiny_redo_log_is_checkpoints() {
    for binary in servers::servers() {
        let lab = Lab::new();
        let Some(slow) = slow_io(&lab, &binary, 30, 0) else {
            return;
        };
        let options = if servers::is_mariadb(&binary) {
            "innodb_log_file_size = \"4MiB\", innodb_log_buffer_size = \"2MiB\""
        } else {
            "innodb_redo_log_capacity = \"8MiB\", skip_log_bin = true"
        };
        let plan = private(
            &slow,
            &format!(
                "{options}, innodb_flush_log_at_trx_commit = 0, innodb_buffer_pool_size = \"256MiB\""
            ),
            "[dataset]\ntables = 4\nrows = 20_000\nload_threads = 2",
            "workloads = [\"oltp_write_only\"]\nthreads = [2, 8, 24]\nmeasure = \"5s\"",
        );
        slow_drill(&lab, &plan).names(Cause::Redo);
        lab.assert_clean();
    }
}

#[test]
#[ignore = "a drill: make drills"]
fn a_tiny_pool_on_slow_storage_is_disk_reads() {
    for binary in servers::servers() {
        let lab = Lab::new();
        let Some(slow) = slow_io(&lab, &binary, 0, 8) else {
            return;
        };
        let plan = private(
            &slow,
            "innodb_buffer_pool_size = \"8MiB\", innodb_flush_method = \"O_DIRECT\", innodb_use_native_aio = false",
            "[dataset]\ntables = 4\nrows = 20_000\nload_threads = 2",
            "workloads = [\"oltp_point_select\"]\nthreads = [4, 16, 48]\nmeasure = \"4s\"",
        );
        slow_drill(&lab, &plan).names(Cause::DiskReads);
        lab.assert_clean();
    }
}
