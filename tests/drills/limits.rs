//! Bottlenecks that somebody set: a CPU quota, a small thread pool, few statements let into InnoDB, a lock that all
//! clients want.

use std::path::{Path, PathBuf};

use capbench::analysis::Cause;

use crate::drill::{drill, private, wrapped};
use crate::lab::Lab;
use crate::servers;

/// A control group with a CPU quota, where this machine lets one be made. Gone with the value.
struct Group(PathBuf);

impl Group {
    fn with_quota(cpus: f64) -> Option<Self> {
        let name = format!("capbench-drill-{}", std::process::id());
        let period = 100_000.0;
        let quota = format!("{:.0}", cpus * period);
        let folder = Path::new("/sys/fs/cgroup/cpu").join(&name);
        if std::fs::create_dir(&folder).is_ok() {
            let group = Self(folder);
            std::fs::write(group.0.join("cpu.cfs_quota_us"), quota).ok()?;
            return Some(group);
        }
        let folder = Path::new("/sys/fs/cgroup").join(&name);
        std::fs::create_dir(&folder).ok()?;
        let group = Self(folder);
        std::fs::write(group.0.join("cpu.max"), format!("{quota} {period:.0}")).ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its last process is gone when the run has ended.
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
#[ignore = "a drill: make drills"]
#[allow(clippy::print_stderr, reason = "says what was left out")]
fn a_quota_that_is_used_up_is_named() {
    for binary in servers::servers() {
        let lab = Lab::new();
        let Some(group) = Group::with_quota(0.3) else {
            eprintln!("skipped: no control group with a CPU quota can be made here");
            return;
        };
        let enter = format!("echo $$ > {}/cgroup.procs", group.0.display());
        let plan = private(
            &wrapped(&lab, &binary, &enter),
            "innodb_buffer_pool_size = \"64MiB\"",
            "",
            "workloads = [\"oltp_point_select\"]\nthreads = [1, 4, 16]\nmeasure = \"4s\"",
        );
        let found = drill(&lab, &plan);
        let named = found.names(Cause::CpuQuota);
        assert!(
            named.sentence.contains("(quota 0.3 CPUs)"),
            "{}",
            named.sentence
        );
        lab.assert_clean();
    }
}

/// Statements that wait without CPU, each for one client at a time unless something lets fewer in.
const WAITS: &str = r#"description = "Each statement reads a row and waits."

[[transaction]]
name = "waits"
begin = false

[[transaction.group]]
bind = { id = "key" }
[[transaction.group.statement]]
class = "wait"
sql = "SELECT SLEEP(0.004) FROM sbtest{table} WHERE id BETWEEN ? AND ?"
parameters = ["id", "id"]
"#;

#[test]
fn a_pool_of_few_threads_lets_few_statements_in() {
    for binary in servers::servers() {
        let (options, what) = if servers::is_mariadb(&binary) {
            // Statements that sleep are taken off their thread group: the pool's own limit holds them.
            let pool = "thread_handling = \"pool-of-threads\", thread_pool_max_threads = 4";
            (pool, "THREAD_POOL_GROUPS")
        } else {
            ("innodb_thread_concurrency = 2", "INNODB STATUS")
        };
        let lab = Lab::new();
        lab.write("waits.toml", WAITS);
        let plan = private(
            &binary,
            options,
            "",
            "workloads = [\"waits.toml\"]\nthreads = [1, 4, 16]\nmeasure = \"3s\"",
        );
        let found = drill(&lab, &plan);
        let named = found.names(Cause::Admission);
        let evidence = named.evidence.iter().find(|e| e.cause == Cause::Admission);
        assert!(evidence.unwrap().source.contains(what));
        lab.assert_clean();
    }
}

/// One lock by name for all clients.
const NAMED_LOCK: &str = r#"description = "All clients take one lock."

[[transaction]]
name = "locked"
begin = false

[[transaction.group]]
[[transaction.group.statement]]
class = "lock"
sql = "SELECT GET_LOCK('drill', 10)"
parameters = []

[[transaction.group.statement]]
class = "hold"
sql = "SELECT SLEEP(0.004)"
parameters = []

[[transaction.group.statement]]
class = "unlock"
sql = "SELECT RELEASE_LOCK('drill')"
parameters = []
"#;

#[test]
#[ignore = "a drill: make drills"]
fn a_lock_by_name_is_a_lock() {
    for binary in servers::servers() {
        let lab = Lab::new();
        lab.write("locked.toml", NAMED_LOCK);
        let plan = private(
            &binary,
            "innodb_buffer_pool_size = \"64MiB\"",
            "",
            "workloads = [\"locked.toml\"]\nthreads = [1, 4, 12]\nmeasure = \"3s\"",
        );
        drill(&lab, &plan).names(Cause::TableLocks);
        lab.assert_clean();
    }
}
