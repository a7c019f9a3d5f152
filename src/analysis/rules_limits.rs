//! Rules of the bottleneck that look at what was set as a limit: connections, prepared statements, locks on whole
//! tables, the CPU quota of a control group, and what lets statements in.

use super::bottleneck::{Diagnosis, percent};
use super::findings::Cause;
use super::rules::{LOCKS_CONTRIBUTE, LOCKS_PRIMARY};
use crate::units::Ratio;

/// Connections and prepared statements against their limits (`MySQLTuner`, awesome-prometheus-alerts) \[S\].
const NEAR_LIMIT: f64 = 0.80;
/// Share of a quota's periods in which it was used up: from here on it is felt (kubernetes-mixin's alert) \[S\],
/// from there on it is what limits \[H\].
const THROTTLED: f64 = 0.25;
const THROTTLED_PRIMARY: f64 = 0.50;
/// Share of the clients whose statements the server has taken and not let in. \[H\]
const QUEUED: f64 = 0.25;

impl Diagnosis<'_> {
    pub(super) fn connections(&mut self) {
        let limit = self
            .variable("max_connections")
            .and_then(|v| v.parse::<f64>().ok())
            .filter(|v| *v > 0.0);
        let used = self
            .step
            .signals
            .connections
            .zip(limit)
            .map(|(used, limit)| (used / limit, format!("{used:.0} of {limit:.0}")));
        if self.weigh(
            Cause::Connections,
            "highest connections against max_connections",
            used,
            (NEAR_LIMIT, "≥ 80 %"),
            "SHOW GLOBAL STATUS",
        ) {
            self.contribute(Cause::Connections);
        }
        // 1040 too many connections, 1203 and 1226 a user's limit.
        let errors = self.errors(&[1040, 1203, 1226]);
        let refused = self
            .step
            .signals
            .refused_connections
            .map_or(errors as f64, |n| n.max(errors as f64));
        if self.weigh(
            Cause::Connections,
            "connections refused",
            Some((refused, format!("{refused:.0}"))),
            (1.0, "any"),
            "SHOW GLOBAL STATUS and errors seen",
        ) {
            self.prove(Cause::Connections);
        }
        let limit = self
            .variable("max_prepared_stmt_count")
            .and_then(|v| v.parse::<f64>().ok())
            .filter(|v| *v > 0.0);
        let held = self
            .step
            .signals
            .prepared_statements
            .zip(limit)
            .map(|(held, limit)| (held / limit, format!("{held:.0} of {limit:.0}")));
        if self.weigh(
            Cause::PreparedStatements,
            "prepared statements against max_prepared_stmt_count",
            held,
            (NEAR_LIMIT, "≥ 80 %"),
            "SHOW GLOBAL STATUS",
        ) {
            self.contribute(Cause::PreparedStatements);
        }
        let refused = self.errors(&[1461]);
        if refused > 0 {
            self.weigh(
                Cause::PreparedStatements,
                "statements refused (error 1461)",
                Some((refused as f64, refused.to_string())),
                (1.0, "any"),
                "errors seen",
            );
            self.prove(Cause::PreparedStatements);
        }
    }

    /// Waits for whole tables, their definitions, global and named locks.
    pub(super) fn table_locks(&mut self) {
        let Some(share) = self.step.signals.table_wait_share else {
            self.missing
                .push("waits for tables: SHOW PROCESSLIST was not available".to_owned());
            return;
        };
        if self.weigh(
            Cause::TableLocks,
            "clients that wait for a table, metadata, global or named lock",
            Some(percent(share)),
            (LOCKS_CONTRIBUTE, "≥ 10 % contributes, ≥ 20 % is primary"),
            "SHOW PROCESSLIST",
        ) {
            if share >= LOCKS_PRIMARY {
                self.prove(Cause::TableLocks);
            } else {
                self.contribute(Cause::TableLocks);
            }
        }
    }

    /// A control group that stops the server until its next period. Servers without a quota show nothing.
    pub(super) fn cpu_quota(&mut self) {
        let signals = self.step.signals;
        let Some((quota, throttled)) = self
            .host(signals.server_quota)
            .zip(signals.server_throttled)
        else {
            return;
        };
        if self.weigh(
            Cause::CpuQuota,
            "periods in which the server used up its CPU quota",
            Some((
                throttled,
                format!("{} (quota {quota:.1} CPUs)", Ratio(throttled)),
            )),
            (THROTTLED, "≥ 25 % contributes, ≥ 50 % is primary"),
            "cpu.stat of the server's control group",
        ) {
            if throttled >= THROTTLED_PRIMARY {
                self.prove(Cause::CpuQuota);
            } else {
                self.contribute(Cause::CpuQuota);
            }
        }
    }

    /// Statements that wait to be let in, though no resource behind the door is full: those rules come first.
    pub(super) fn admission(&mut self) {
        let limited = self
            .variable("innodb_thread_concurrency")
            .is_some_and(|limit| limit != "0");
        if !limited && !self.thread_pool() {
            return;
        }
        let queued = self.step.signals.queued.map(|queued| {
            (
                queued / self.clients(),
                format!("{queued:.1} of {}", self.step.threads),
            )
        });
        if self.weigh(
            Cause::Admission,
            "clients whose statement waits to be let in",
            queued,
            (QUEUED, "≥ 25 % of the clients"),
            "INFORMATION_SCHEMA.THREAD_POOL_GROUPS, SHOW ENGINE INNODB STATUS",
        ) {
            self.prove(Cause::Admission);
        }
    }

    /// Whether statements go through a thread pool, which runs few of them at a time.
    pub(super) fn thread_pool(&self) -> bool {
        self.variable("thread_handling") == Some("pool-of-threads")
    }
}
