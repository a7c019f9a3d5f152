//! What stops a server at a step: signals against thresholds, in a fixed order of decision.
//!
//! Each threshold carries its standing: \[M\] measured, \[S\] from a published source, \[H\] heuristic.

use std::fmt::Write as _;

use super::advice;
use super::findings::{Bottleneck, Cause, CellSummary, Evidence};
use super::signals::Signals;
use super::stats::mean_of;
use crate::record::Run;
use crate::units::{Millis, Ratio};

/// Hit rate from which the data is too small to test the pool \[M\].
pub(crate) const ALL_IN_POOL: f64 = 0.999;

/// What a step is held against.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reference {
    /// Highest throughput of the ladder.
    pub(crate) peak_tps: Option<f64>,
    /// Fewest context switches a transaction in the ladder, of the host.
    pub(crate) switches: Option<f64>,
    /// The same of the server process.
    pub(crate) server_switches: Option<f64>,
    /// Shortest mean read of the busiest disk.
    pub(crate) read_ms: Option<f64>,
    /// Smallest unfairness.
    pub(crate) unfair: Option<f64>,
    /// Whether the ladder reached its knee: before it few clients at work say nothing.
    pub(crate) saturated: bool,
    /// p95 at the knee.
    pub(crate) knee_p95: Option<Millis>,
}

/// One step with everything that was seen of it.
pub(crate) struct Step<'a> {
    pub(crate) run: &'a Run,
    pub(crate) threads: u32,
    /// Looked at because nothing is full at the knee itself.
    pub(crate) after_knee: bool,
    pub(crate) tps: Option<f64>,
    pub(crate) p95: Option<Millis>,
    /// One of the step's cells stands for it in what is not a mean.
    pub(crate) cells: &'a [&'a CellSummary],
    pub(crate) signals: &'a Signals,
    pub(crate) reference: Reference,
}

/// Evidence as it is gathered; `rules` fills it.
pub(super) struct Diagnosis<'a> {
    pub(super) step: &'a Step<'a>,
    pub(super) local: bool,
    /// Whether the figures of the server's host are known: it is this one, or has a probe of its own.
    pub(super) seen: bool,
    pub(super) evidence: Vec<Evidence>,
    primary: Vec<Cause>,
    contributing: Vec<Cause>,
    pub(super) missing: Vec<String>,
}

/// Diagnoses one step.
pub(crate) fn diagnose(step: &Step<'_>) -> Bottleneck {
    let local = step.run.server.as_ref().is_some_and(|s| s.local);
    let mut d = Diagnosis {
        step,
        local,
        seen: local || step.signals.remote_host,
        evidence: Vec::new(),
        primary: Vec::new(),
        contributing: Vec::new(),
        missing: Vec::new(),
    };
    // The order of decision: the first primary cause is the answer.
    d.load_generator();
    d.network();
    d.connections();
    d.row_locks();
    d.table_locks();
    d.cluster();
    d.cpu_quota();
    d.latches();
    d.cpu();
    d.disk();
    d.redo();
    d.log_flush();
    d.admission();
    d.replication();
    d.stall();
    d.others();
    d.conclude()
}

impl Diagnosis<'_> {
    /// Notes a signal; `None` goes to the missing ones. Answers whether the threshold is met.
    pub(super) fn weigh(
        &mut self,
        cause: Cause,
        signal: &str,
        value: Option<(f64, String)>,
        threshold: (f64, &str),
        source: &str,
    ) -> bool {
        let Some((number, text)) = value else {
            self.missing
                .push(format!("{signal}: {}", self.why_missing(source)));
            return false;
        };
        let met = number >= threshold.0;
        self.evidence.push(Evidence {
            cause,
            signal: signal.to_owned(),
            value: text,
            threshold: threshold.1.to_owned(),
            met: Some(met),
            source: self.place(source),
        });
        met
    }

    /// Where a figure of the server's host comes from, when that is not this one.
    fn place(&self, source: &str) -> String {
        let of_host = source.starts_with("/proc") && !source.contains("load machine");
        if of_host && self.step.signals.remote_host {
            format!("{source}, by the probe of the server's host")
        } else {
            source.to_owned()
        }
    }

    /// Corrects the verdict on the signal noted last, where its threshold alone does not decide.
    pub(super) fn amend(&mut self, met: Option<bool>) {
        if let Some(last) = self.evidence.last_mut() {
            last.met = met;
        }
    }

    fn why_missing(&self, source: &str) -> String {
        if source.starts_with("/proc") && !self.seen {
            return "the server's host is not this one and has no probe ([target.probe])"
                .to_owned();
        }
        format!("{source} was not available")
    }

    pub(super) fn prove(&mut self, cause: Cause) {
        if !self.primary.contains(&cause) {
            self.primary.push(cause);
        }
    }

    pub(super) fn contribute(&mut self, cause: Cause) {
        if !self.contributing.contains(&cause) {
            self.contributing.push(cause);
        }
    }

    pub(super) fn clients(&self) -> f64 {
        f64::from(self.step.threads)
    }

    /// Host figures describe the server only when it runs here or its host has a probe.
    pub(super) fn host(&self, value: Option<f64>) -> Option<f64> {
        value.filter(|_| self.seen)
    }

    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let server = self.step.run.server.as_ref()?;
        server.variables.get(name).map(String::as_str)
    }

    pub(super) fn cv(&self) -> Option<f64> {
        mean_of(self.step.cells.iter().map(|c| c.cv.map(|r| r.0)))
    }

    pub(super) fn fallen(&self) -> bool {
        self.step
            .tps
            .zip(self.step.reference.peak_tps)
            .is_some_and(|(tps, peak)| tps < super::rules_cpu::FALLEN * peak)
    }

    pub(super) fn errors(&self, codes: &[u16]) -> u64 {
        self.step
            .cells
            .iter()
            .flat_map(|c| &c.errors)
            .filter(|e| codes.contains(&e.code))
            .map(|e| e.count)
            .sum()
    }

    fn conclude(self) -> Bottleneck {
        let blind = self.step.signals.row_lock_share.is_none()
            || self.host(self.step.signals.cpu_busy()).is_none();
        let primary = match self.primary.first() {
            Some(&cause) => cause,
            None if blind => Cause::Unknown,
            // Flat with more clients: by the utilisation law something is full.
            None if self.step.reference.saturated => Cause::Unseen,
            None => Cause::NotSaturated,
        };
        let mut contributing: Vec<Cause> = Vec::new();
        for cause in self.primary.into_iter().skip(1).chain(self.contributing) {
            if cause != primary && !contributing.contains(&cause) {
                contributing.push(cause);
            }
        }
        let figures: Vec<String> = self
            .evidence
            .iter()
            .filter(|e| e.met == Some(true) && e.cause == primary)
            .map(|e| format!("{} {} ({})", e.signal, e.value, e.threshold))
            .collect();
        let place = if self.step.after_knee {
            ", the step after the knee"
        } else {
            ""
        };
        let mut sentence = format!(
            "At {} threads{place}: {}",
            self.step.threads,
            primary.as_str()
        );
        if !figures.is_empty() {
            let _ = write!(sentence, " — {}", figures.join("; "));
        }
        if !contributing.is_empty() {
            let names: Vec<&str> = contributing.iter().map(|c| c.as_str()).collect();
            let _ = write!(sentence, "; contributing: {}", names.join(", "));
        }
        if primary == Cause::Unknown {
            let _ = write!(sentence, " ({})", self.missing.join("; "));
        }
        sentence.push('.');
        let advice = std::iter::once(primary)
            .chain(contributing.iter().copied())
            .flat_map(advice::for_cause)
            .map(|text| (*text).to_owned())
            .collect();
        Bottleneck {
            threads: self.step.threads,
            after_knee: self.step.after_knee,
            primary,
            contributing,
            sentence,
            evidence: self.evidence,
            missing: self.missing,
            advice,
        }
    }
}

/// A share as number and text.
pub(super) fn percent(share: f64) -> (f64, String) {
    (share, Ratio(share).to_string())
}
