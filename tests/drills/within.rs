//! Bottlenecks within the server: locks, CPU, temporary tables; and what must not be named.

use capbench::analysis::Cause;

use crate::drill::{drill, private};
use crate::lab::Lab;
use crate::servers;

/// One row for all clients, held while its transaction sleeps: waits without CPU.
const HOT_ROW: &str = r#"description = "All clients update one row."

[[transaction]]
name = "hot_row"
begin = true

[[transaction.group]]
[[transaction.group.statement]]
class = "update"
sql = "UPDATE sbtest1 SET k=k+1 WHERE id=7"
parameters = []

[[transaction.group.statement]]
class = "hold"
sql = "SELECT SLEEP(0.004)"
parameters = []
"#;

#[test]
fn hot_rows_are_row_locks() {
    for binary in servers::servers() {
        let lab = Lab::new();
        lab.write("hot_row.toml", HOT_ROW);
        let plan = private(
            &binary,
            "innodb_buffer_pool_size = \"64MiB\", innodb_flush_log_at_trx_commit = 0",
            "",
            "workloads = [\"hot_row.toml\"]\nthreads = [1, 4, 12]\nmeasure = \"3s\"",
        );
        let found = drill(&lab, &plan);
        let named = found.names(Cause::RowLocks);
        assert!(
            named.sentence.contains("client time waiting for row locks"),
            "{}",
            named.sentence
        );
        assert!(
            named
                .advice
                .iter()
                .any(|a| a.contains("innodb_deadlock_detect"))
        );
        // What has no plan says so; the update has one.
        assert!(
            found.report.contains("no plan: reads no table")
                || found.report.contains("No tables used"),
            "{}",
            found.report
        );
        assert!(
            found.report.contains("sbtest1 range by PRIMARY")
                || found.report.contains("sbtest1 const by PRIMARY")
        );
        lab.assert_clean();
    }
}

#[test]
#[ignore = "a drill: make drills"]
fn all_cores_at_point_selects_are_cpu() {
    for binary in servers::servers() {
        let lab = Lab::new();
        let plan = private(
            &binary,
            "innodb_buffer_pool_size = \"128MiB\"",
            "",
            "workloads = [\"oltp_point_select\"]\nthreads = [8, 32, 96]\nmeasure = \"4s\"",
        );
        drill(&lab, &plan).names(Cause::Cpu);
    }
}

/// Few clients that group by long texts, with time to think: the CPU stays free.
const GROUPS: &str = r#"description = "Groups long texts."
think_time = "50ms"

[[transaction]]
name = "groups"
begin = false

[[transaction.group]]
bind = { id = "key" }
[[transaction.group.statement]]
class = "group"
sql = "SELECT c, pad, COUNT(*) n FROM sbtest{table} WHERE id BETWEEN ? AND ? GROUP BY c, pad ORDER BY n"
parameters = ["id", "id + 300"]
"#;

#[test]
#[ignore = "a drill: make drills"]
fn groups_that_do_not_fit_are_temporary_tables() {
    for binary in servers::servers() {
        let lab = Lab::new();
        lab.write("groups.toml", GROUPS);
        let options = if servers::is_mariadb(&binary) {
            "max_heap_table_size = 16384, tmp_memory_table_size = 1024"
        } else {
            "internal_tmp_mem_storage_engine = \"MEMORY\", max_heap_table_size = 16384, tmp_table_size = 1024"
        };
        let plan = private(
            &binary,
            options,
            "",
            "workloads = [\"groups.toml\"]\nthreads = [1, 2, 4]\nmeasure = \"4s\"",
        );
        let found = drill(&lab, &plan);
        found.names(Cause::TemporaryTables);
    }
}

#[test]
fn a_missing_performance_schema_is_a_missing_signal() {
    for binary in servers::servers() {
        let lab = Lab::new();
        let plan = private(
            &binary,
            "performance_schema = false",
            "",
            "workloads = [\"oltp_point_select\"]\nthreads = [1, 2, 4]\nmeasure = \"1s\"",
        );
        let found = drill(&lab, &plan);
        assert!(
            found
                .run
                .unavailable
                .contains(&"statement digests: performance_schema is off".to_owned()),
            "{:?}",
            found.run.unavailable
        );
        assert!(
            found.report.contains("performance\\_schema is off")
                || found.report.contains("performance_schema is off")
        );
        assert!(
            found
                .run
                .cells
                .iter()
                .all(|c| c.evidence.digests.is_empty())
        );
        assert!(
            found
                .bottlenecks()
                .iter()
                .all(|b| b.primary != Cause::RowLocks),
            "nothing waits for a lock"
        );
    }
}
