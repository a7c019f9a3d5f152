//! Rule of the bottleneck that looks at the replicas: those that cannot follow what the server takes.

use super::bottleneck::Diagnosis;
use super::findings::Cause;
use super::signals::ReplicaLag;

/// Seconds behind from which on a replica counts as lagging (awesome-prometheus-alerts) \[S\].
const LAG: f64 = 30.0;
/// A lag that grows by this share of the window, and at least by so many seconds, grows without end. \[H\]
const GROWTH: f64 = 0.20;
const GROWTH_SECONDS: f64 = 2.0;

impl Diagnosis<'_> {
    pub(super) fn replication(&mut self) {
        for replica in &self.step.signals.replicas {
            if replica.stopped {
                self.weigh(
                    Cause::Replication,
                    &format!("threads of replica {}", replica.name),
                    Some((1.0, "stopped".to_owned())),
                    (1.0, "receiver and applier run"),
                    "its replica status",
                );
                self.contribute(Cause::Replication);
                continue;
            }
            let lags = grows(replica) || replica.highest.is_some_and(|lag| lag > LAG);
            let shown = replica
                .highest
                .zip(replica.growth())
                .map(|(highest, growth)| {
                    let bytes = replica.bytes.map_or_else(String::new, |bytes| {
                        format!(", {:.1} MiB not applied", bytes / f64::from(1 << 20))
                    });
                    (
                        f64::from(u8::from(lags)),
                        format!(
                            "{highest:.0} s, {growth:+.0} s within {:.0} s{bytes}",
                            replica.seconds
                        ),
                    )
                });
            if self.weigh(
                Cause::Replication,
                &format!("lag of replica {}", replica.name),
                shown,
                (
                    1.0,
                    "> 30 s, or growing by 20 % of the time and 2 s at least",
                ),
                "its replica status",
            ) {
                self.prove(Cause::Replication);
            }
        }
    }
}

/// Whether it falls back all the time.
fn grows(replica: &ReplicaLag) -> bool {
    replica
        .growth()
        .is_some_and(|growth| growth >= GROWTH_SECONDS.max(GROWTH * replica.seconds))
}
