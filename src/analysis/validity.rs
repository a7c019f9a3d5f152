//! Whether a cell can be trusted: rules V1–V7 of the method, and the server's own count.

use std::fmt::Write as _;

use super::findings::{CellSummary, Reason, Rule, Validity};
use super::signals::Signals;
use crate::plan::Step;
use crate::record::{CellRecord, CellStatus};
use crate::steady;
use crate::units::Ratio;

/// V2: share of client-seconds in which clients were missing. \[H\]
const MISSING_SUSPECT: f64 = 0.01;
const MISSING_INVALID: f64 = 0.05;
/// V3: share of failed transactions, after their retries. \[H\]
const FAILED_SUSPECT: f64 = 0.01;
const FAILED_INVALID: f64 = 0.05;
/// V4: deviation from Little's law, and from which mean latency (ms) on it is judged. All 144
/// published runs lie within 0.3 % \[M\].
const LITTLE: f64 = 0.05;
const LITTLE_FROM_MS: f64 = 1.0;
/// V7: a busier load machine reports its own limit as the server's.
pub(crate) const CLIENT_BUSY: f64 = 0.80;
/// V7: share of all CPUs from which on other processes disturb a server on this host. \[H\]
pub(crate) const OTHERS_SUSPECT: f64 = 0.25;
/// The server's count of statements against the client's, where that is more than an interval's share of the
/// window. \[H\]
const COUNTS: f64 = 0.05;

/// What the rules need besides the summary.
pub(crate) struct Context<'a> {
    /// The record.
    pub(crate) cell: &'a CellRecord,
    /// Client-seconds connected within the window.
    pub(crate) connected: f64,
    /// Probes in the window.
    pub(crate) signals: &'a Signals,
    /// Whether the server shares the load machine.
    pub(crate) local: bool,
}

/// All objections, in the order of the rules.
pub(crate) fn judge(summary: &CellSummary, context: &Context<'_>) -> Vec<Reason> {
    let mut reasons = Vec::new();
    ran(summary, context.cell, &mut reasons);
    // Sums and halves of a cell that was cut short prove nothing; V1 says what it is.
    let whole = matches!(
        context.cell.status,
        CellStatus::Completed | CellStatus::Truncated
    );
    if let Some(window) = summary.window {
        clients(summary, context, window.seconds(), &mut reasons);
        failures(summary, &mut reasons);
        if whole {
            little(summary, &mut reasons);
        }
        if summary.stalls > 0 {
            reasons.push(Reason {
                rule: Rule::V5,
                severity: Validity::Suspect,
                text: format!(
                    "stall: nothing completed for {:.1} s ({} of {} intervals without a completed transaction)",
                    summary.longest_stall, summary.stalls, window.intervals
                ),
            });
        }
        if whole {
            settled(summary, &mut reasons);
        }
    }
    machine(summary, context, &mut reasons);
    if whole {
        counts(summary, context.signals, &mut reasons);
    }
    reasons
}

/// V1.
fn ran(summary: &CellSummary, cell: &CellRecord, reasons: &mut Vec<Reason>) {
    let mut object = |severity, text: String| {
        reasons.push(Reason {
            rule: Rule::V1,
            severity,
            text,
        });
    };
    let because = cell
        .reason
        .as_deref()
        .map_or_else(String::new, |why| format!(": {why}"));
    match cell.status {
        CellStatus::Completed => {}
        // Slow ends are slow; a server that also stood still hung, and its rate is that of the hang.
        CellStatus::Truncated if summary.stalls > 0 => object(
            Validity::Invalid,
            format!(
                "the server hung: nothing completed for {:.1} s, and transactions in flight at its end had to be killed{because}",
                summary.longest_stall
            ),
        ),
        CellStatus::Truncated => object(
            Validity::Suspect,
            format!("transactions in flight at its end had to be killed{because}"),
        ),
        CellStatus::Failed => object(Validity::Invalid, format!("failed{because}")),
        CellStatus::Stopped => object(Validity::Invalid, format!("stopped by the guard{because}")),
        CellStatus::Interrupted => object(Validity::Invalid, format!("interrupted{because}")),
        CellStatus::Skipped => object(Validity::Invalid, format!("not run{because}")),
    }
    // A cell that failed before its clients were released is told by its reason.
    let ran = !matches!(cell.status, CellStatus::Skipped)
        && (cell.reason.is_none() || summary.window.is_some());
    if ran && summary.window.is_none() {
        object(Validity::Invalid, "no measured interval".to_owned());
    } else if ran && summary.done == 0 {
        object(
            Validity::Invalid,
            "no transaction completed in the measured time".to_owned(),
        );
    }
}

/// V2.
fn clients(summary: &CellSummary, context: &Context<'_>, seconds: f64, reasons: &mut Vec<Reason>) {
    let wanted = f64::from(summary.clients) * seconds;
    if wanted <= 0.0 {
        return;
    }
    let missing = 1.0 - context.connected / wanted;
    if missing > MISSING_SUSPECT {
        reasons.push(Reason {
            rule: Rule::V2,
            severity: above(missing, MISSING_INVALID),
            text: format!(
                "clients missing for {} of the client-seconds (outages {:.1} s)",
                Ratio(missing),
                summary.outage_seconds
            ),
        });
    }
}

/// V3.
fn failures(summary: &CellSummary, reasons: &mut Vec<Reason>) {
    let Some(share) = summary.error_share.filter(|s| s.0 > FAILED_SUSPECT) else {
        return;
    };
    reasons.push(Reason {
        rule: Rule::V3,
        severity: above(share.0, FAILED_INVALID),
        text: format!(
            "{share} of the transactions failed ({} of {})",
            summary.failed,
            summary.done + summary.failed
        ),
    });
}

/// V4. Closed loop only.
fn little(summary: &CellSummary, reasons: &mut Vec<Reason>) {
    let (Some(ratio), Some(avg)) = (summary.littles_law, summary.latency.avg) else {
        return;
    };
    if avg.0 >= LITTLE_FROM_MS && (ratio - 1.0).abs() > LITTLE {
        let figure = format!("X·(R+Z)/N = {ratio:.2}, must be within 5 % of 1 (Little's law)");
        reasons.push(Reason {
            rule: Rule::V4,
            severity: Validity::Suspect,
            // A transaction counts where it ends, with all of its time.
            text: if ratio > 1.0 {
                format!("more time than the window has: a stall straddles the cut; {figure}")
            } else {
                format!("unaccounted time: {figure}")
            },
        });
    }
}

/// V6.
fn settled(summary: &CellSummary, reasons: &mut Vec<Reason>) {
    let Some(found) = summary.steadiness.filter(|s| !s.steady) else {
        return;
    };
    let mut text = "not steady".to_owned();
    if found.limit_reached {
        text.push_str(": still settling at the middle of the cell (MSER)");
    }
    if let Some(halves) = found.halves.filter(|h| h.0.abs() > steady::HALVES) {
        let _ = write!(
            text,
            "{} second half {:+.1} % against the first",
            if found.limit_reached { "," } else { ":" },
            halves.0 * 100.0
        );
    }
    reasons.push(Reason {
        rule: Rule::V6,
        severity: Validity::Suspect,
        text,
    });
}

/// V7.
fn machine(summary: &CellSummary, context: &Context<'_>, reasons: &mut Vec<Reason>) {
    let mut object = |text: String| {
        reasons.push(Reason {
            rule: Rule::V7,
            severity: Validity::Invalid,
            text,
        });
    };
    if summary.busiest_worker.0 > CLIENT_BUSY {
        object(format!(
            "client-bound: a load worker was {} busy (limit 80 %)",
            summary.busiest_worker
        ));
    }
    if let Some(busy) = summary.client_cpu.filter(|busy| busy.0 > CLIENT_BUSY) {
        object(format!(
            "client-bound: capbench used {busy} of the load machine's CPU (limit 80 %)"
        ));
    }
    // With the server on the same machine its CPU is the server's as well: the machine may be full
    // because the server is, which is a finding, not a fault.
    if !context.local
        && let Some(busy) = context
            .signals
            .generator_busy
            .filter(|busy| *busy > CLIENT_BUSY)
    {
        object(format!(
            "client-bound: the load machine's CPU was {} busy (limit 80 %)",
            Ratio(busy)
        ));
    }
    if context.local
        && let Some(others) = context
            .signals
            .others_cpu()
            .filter(|others| *others > OTHERS_SUSPECT)
    {
        reasons.push(Reason {
            rule: Rule::V7,
            severity: Validity::Suspect,
            text: format!("other processes used {} of the CPU", Ratio(others)),
        });
    }
    if !context.cell.differences.is_empty() {
        reasons.push(Reason {
            rule: Rule::V7,
            severity: Validity::Invalid,
            text: format!(
                "not comparable, differs from what was declared: {}",
                context.cell.differences.join("; ")
            ),
        });
    }
}

/// The server must have counted what the clients sent.
fn counts(summary: &CellSummary, signals: &Signals, reasons: &mut Vec<Reason>) {
    let (Some(sent), Some(counted)) = (summary.qps, signals.questions_per_second) else {
        return;
    };
    if sent.0 <= 0.0 {
        return;
    }
    let deviation = counted / sent.0 - 1.0;
    // Readings come once an interval and lie up to one beside the window's ends.
    let intervals = summary.window.map_or(0, |w| w.intervals).max(1);
    let skew = 1.0 / intervals as f64;
    // The probe's own statements weigh on a trickle of load.
    if deviation.abs() > COUNTS.max(skew) && (counted - sent.0).abs() > 10.0 {
        reasons.push(Reason {
            rule: Rule::Counts,
            severity: Validity::Suspect,
            text: format!(
                "the server counted {counted:.0} statements/s, capbench sent {:.0}/s ({:+.0} %): {}",
                sent.0,
                deviation * 100.0,
                if deviation > 0.0 {
                    "other clients may be on this server"
                } else {
                    "a proxy or cache may answer some of them"
                }
            ),
        });
    }
}

fn above(value: f64, limit: f64) -> Validity {
    if value > limit {
        Validity::Invalid
    } else {
        Validity::Suspect
    }
}

/// Whether the step is a closed-loop one.
pub(crate) fn closed(step: Step) -> bool {
    matches!(step, Step::Threads(_))
}
