//! Rules of the bottleneck that look at the CPU and at who had it: latches, CPU, other processes, stalls.

use std::fmt::Write as _;

use super::bottleneck::{Diagnosis, percent};
use super::findings::{Cause, Evidence};
use super::rules::CPU_BUSY;
use super::validity::OTHERS_SUSPECT;
use crate::units::Ratio;

/// Context switches a transaction against the ladder's smallest, throughput against the peak, CV \[M\].
const SWITCHES_FACTOR: f64 = 2.0;
pub(super) const FALLEN: f64 = 0.90;
pub(super) const UNSTEADY: f64 = 0.10;
/// Others' share of all CPUs that is shown; of the busy CPU the server and capbench must hold this share,
/// or the CPU is not theirs. \[H\]
const OTHERS_SHOWN: f64 = 0.10;
const OWN_SHARE: f64 = 0.50;
/// Stolen CPU. \[H\]
const STOLEN: f64 = 0.05;

impl Diagnosis<'_> {
    pub(super) fn latches(&mut self) {
        let signals = self.step.signals;
        let reference = self.step.reference;
        let factor = |now: Option<f64>, least: Option<f64>| {
            let factor = now? / least.filter(|s| *s > 0.0)?;
            Some((factor, format!("×{factor:.1}")))
        };
        let own = factor(
            self.host(signals.server_switches_per_transaction),
            reference.server_switches,
        );
        // The host's counter holds everybody's switches: second best.
        let (factor, source) = match own {
            Some(own) => (Some(own), "/proc/<pid>/task/*/status of the server"),
            None => (
                factor(
                    self.host(signals.switches_per_transaction),
                    reference.switches,
                ),
                "/proc/stat",
            ),
        };
        let known = factor.is_some();
        let many = self.weigh(
            Cause::Latches,
            "context switches per transaction against the ladder's fewest",
            factor,
            (SWITCHES_FACTOR, "≥ ×2, with throughput < 90 % of the peak"),
            source,
        );
        // Over a stall any count is divided by next to nothing, and others' load costs switches too.
        let blurred = self.stalled().is_some() || self.crowded();
        let met = many && self.fallen();
        if known {
            self.amend((!blurred).then_some(met));
        }
        if met && !blurred {
            if let Some(cv) = self.cv() {
                self.weigh(
                    Cause::Latches,
                    "coefficient of variation of throughput",
                    Some(percent(cv)),
                    (UNSTEADY, "> 10 % supports it"),
                    "capbench's intervals",
                );
            }
            self.prove(Cause::Latches);
        }
    }

    /// Longest stall of the step's cells, seconds.
    fn stalled(&self) -> Option<f64> {
        self.step
            .cells
            .iter()
            .filter(|c| c.stalls > 0)
            .map(|c| c.longest_stall)
            .reduce(f64::max)
    }

    /// Whether other processes on the server's host disturb it.
    fn crowded(&self) -> bool {
        self.host(self.step.signals.others_cpu())
            .is_some_and(|others| others > OTHERS_SUSPECT)
    }

    /// A stall that no resource explains.
    pub(super) fn stall(&mut self) {
        let Some(seconds) = self.stalled() else {
            return;
        };
        self.evidence.push(Evidence {
            cause: Cause::Stall,
            signal: "nothing completed for".to_owned(),
            value: format!("{seconds:.1} s"),
            threshold: "any whole interval".to_owned(),
            met: Some(true),
            source: "capbench's intervals".to_owned(),
        });
        if self.fallen() {
            self.prove(Cause::Stall);
        } else {
            self.contribute(Cause::Stall);
        }
    }

    pub(super) fn cpu(&mut self) {
        let busy = self.host(self.step.signals.cpu_busy());
        let full = self.weigh(
            Cause::Cpu,
            "CPU of the server's host (user + system)",
            busy.map(percent),
            (CPU_BUSY, "≥ 85 %"),
            "/proc/stat",
        );
        let queue = self
            .host(self.step.signals.runnable)
            .zip(self.host(self.step.signals.cpus).filter(|n| *n > 0.0));
        let queued = self.weigh(
            Cause::Cpu,
            "runnable tasks",
            queue.map(|(r, cpus)| (r / cpus, format!("{r:.1} on {cpus:.0} CPUs"))),
            (1.0, "≥ the CPUs"),
            "/proc/stat (procs_running)",
        );
        let cause = self.owner_of_cpu(busy);
        // Others that hold most of a full CPU keep the load from it, however few of its tasks are ready.
        if full && (queued || queue.is_none() || cause == Cause::OtherProcesses) {
            self.prove(cause);
        } else if full {
            self.contribute(cause);
        }
        if self.crowded() {
            self.contribute(Cause::OtherProcesses);
        }
        if self.weigh(
            Cause::StolenCpu,
            "stolen CPU",
            self.host(self.step.signals.cpu_steal).map(percent),
            (STOLEN, "≥ 5 %"),
            "/proc/stat",
        ) {
            self.contribute(Cause::StolenCpu);
        }
    }

    /// Whose CPU a full one is: the server's and capbench's, or that of others on a host they share.
    fn owner_of_cpu(&mut self, busy: Option<f64>) -> Cause {
        let signals = self.step.signals;
        let Some(others) = self.host(signals.others_cpu()) else {
            if self.local && busy.is_some() {
                self.missing.push(
                    "CPU of other processes: the server's process is not known, so others cannot be told from it"
                        .to_owned(),
                );
            }
            return Cause::Cpu;
        };
        let share = |cpu: Option<f64>| Ratio(cpu.unwrap_or(0.0));
        let mut value = format!(
            "{} and {}",
            share(signals.server_cpu),
            share(signals.self_cpu)
        );
        if others > OTHERS_SHOWN {
            let _ = write!(value, ", others {}", Ratio(others));
        }
        self.evidence.push(Evidence {
            cause: Cause::Cpu,
            signal: "server process and capbench, of all CPUs".to_owned(),
            value,
            threshold: "for information".to_owned(),
            met: None,
            source: "/proc/<pid>/stat".to_owned(),
        });
        if others > OTHERS_SHOWN {
            self.weigh(
                Cause::OtherProcesses,
                "CPU used by other processes",
                Some(percent(others)),
                (
                    OTHERS_SUSPECT,
                    "> 25 % disturbs, over half of the busy CPU is primary",
                ),
                "/proc/stat and /proc/<pid>/stat",
            );
        }
        if busy.is_some_and(|busy| busy - others < OWN_SHARE * busy) {
            Cause::OtherProcesses
        } else {
            Cause::Cpu
        }
    }
}
