//! One cell's figures, all from one window.

use std::collections::BTreeMap;

use super::findings::{CellSummary, Fairness, Latencies, Steadiness, Validity, Window};
use super::signals::Signals;
use super::stats::{mean, series_se, variance};
use super::swings;
use super::validity::{self, Context, closed};
use crate::record::{CellRecord, ErrorCount, Interval, Latency, Run};
use crate::steady;
use crate::units::{PerSecond, Ratio};

/// A last interval shorter than this share of the usual one is no sample of its own. \[H\]
const WHOLE_INTERVAL: f64 = 0.5;
/// Open loop: a rate is held when this share of the arrivals was done, or all but so many (those under
/// way at the window's ends). \[H\]
const HELD: f64 = 0.99;
const UNDER_WAY: f64 = 3.0;

/// Sums over the intervals kept.
#[derive(Default)]
struct Totals {
    seconds: f64,
    done: u64,
    failed: u64,
    dropped: u64,
    arrivals: u64,
    retries: u64,
    reconnects: u64,
    reads: u64,
    writes: u64,
    others: u64,
    connected: f64,
    stalls: usize,
    /// Seconds of the stall under way, and of the longest.
    stalled: f64,
    longest_stall: f64,
    latency: Latency,
    service: Option<Latency>,
    errors: BTreeMap<(u16, String), u64>,
}

impl Totals {
    /// `usual`: seconds of a whole interval. In the stump in which a cell was ended nothing may complete.
    fn add(&mut self, interval: &Interval, closed: bool, usual: f64) {
        self.seconds += interval.seconds();
        self.done += interval.done;
        self.failed += interval.failed;
        self.dropped += interval.dropped;
        self.arrivals += interval.arrivals;
        self.retries += interval.retries;
        self.reconnects += interval.reconnects;
        self.reads += interval.reads;
        self.writes += interval.writes;
        self.others += interval.others;
        self.connected += interval.connected_seconds;
        let stump = interval.seconds() < WHOLE_INTERVAL * usual;
        // Nothing done because nothing was due is no stall.
        if interval.done == 0 && !stump && (closed || interval.arrivals > 0 || interval.backlog > 0)
        {
            self.stalls += 1;
            self.stalled += interval.seconds();
            self.longest_stall = self.longest_stall.max(self.stalled);
        } else {
            self.stalled = 0.0;
        }
        for error in &interval.errors {
            *self
                .errors
                .entry((error.code, error.statement.clone()))
                .or_default() += error.count;
        }
    }

    fn rate(&self, count: u64) -> Option<PerSecond> {
        (self.seconds > 0.0).then(|| PerSecond(count as f64 / self.seconds))
    }
}

/// Summarises and judges one cell, with the probes' signals in its window. `gain` against the previous
/// step is filled in later, when the ladder is known.
pub(crate) fn summarise(run: &Run, cell: &CellRecord) -> (CellSummary, Signals) {
    let measured: Vec<&Interval> = cell.measured().collect();
    let closed = closed(cell.step);
    let usual = usual_length(&measured);
    let (throughputs, whole) = series(&measured, usual);
    let cut = steady::cut(&throughputs, usual);
    let (dropped, kept) = measured.split_at(cut.drop);
    let mut totals = Totals::default();
    for interval in kept {
        totals.add(interval, closed, usual);
    }
    let merged = &cell.merged;
    totals.latency =
        merge(merged.latency.as_ref(), dropped, kept, |i| Some(&i.latency)).unwrap_or_default();
    totals.service = merge(merged.service.as_ref(), dropped, kept, |i| {
        i.service.as_ref()
    });
    let window = kept.first().zip(kept.last()).map(|(first, last)| Window {
        start: first.start,
        end: last.end,
        intervals: kept.len(),
        dropped: cut.drop,
    });
    let kept_series = &throughputs[cut.drop.min(whole)..];
    let local = run.server.as_ref().is_none_or(|s| s.local);
    let mut signals = Signals::read(cell, window, totals.rate(totals.done), local);
    signals.swing = swings::find(kept_series, usual).map(|mut swing| {
        swing.moves = swings::moving(&cell.server, kept, kept_series);
        swing
    });
    let mut summary = figures(cell, &totals, window, closed);
    summary.steadiness = window.map(|_| Steadiness {
        steady: cut.steady,
        limit_reached: cut.limit_reached,
        halves: cut.halves.map(Ratio),
    });
    summary.tps_se = series_se(kept_series).map(Ratio);
    summary.cv = coefficient_of_variation(kept_series).map(Ratio);
    summary.client_cpu = client_cpu(run, cell, &measured);
    summary.buffer_pool_hits = signals.buffer_pool_hits.map(Ratio);
    summary.reasons = validity::judge(
        &summary,
        &Context {
            cell,
            connected: totals.connected,
            signals: &signals,
            local,
        },
    );
    summary.validity = summary
        .reasons
        .iter()
        .map(|r| r.severity)
        .max()
        .unwrap_or(Validity::Valid);
    (summary, signals)
}

/// The latencies of the intervals kept in one: what was merged before without those dropped, as long as
/// that is less to unpack than the ones kept. `None` when no interval has any.
fn merge<'a>(
    all: Option<&Latency>,
    dropped: &[&'a Interval],
    kept: &[&'a Interval],
    of: impl Fn(&'a Interval) -> Option<&'a Latency>,
) -> Option<Latency> {
    let latencies = |intervals: &[&'a Interval]| -> Vec<&'a Latency> {
        intervals.iter().filter_map(|i| of(i)).collect()
    };
    let (dropped, kept) = (latencies(dropped), latencies(kept));
    if kept.is_empty() {
        return None;
    }
    all.filter(|_| dropped.len() < kept.len())
        .and_then(|all| all.without(&dropped, &kept))
        .or_else(|| {
            let mut merged = Latency::new();
            for latency in kept {
                merged.merge(latency);
            }
            Some(merged)
        })
}

/// Everything that follows from the sums alone.
fn figures(
    cell: &CellRecord,
    totals: &Totals,
    window: Option<Window>,
    closed: bool,
) -> CellSummary {
    let tps = totals.rate(totals.done);
    let latency = latencies(&totals.latency);
    let littles_law = (closed && cell.clients > 0)
        .then(|| {
            let seconds = (latency.avg?.0 + cell.think_time_ms) / 1e3;
            Some(tps?.0 * seconds / f64::from(cell.clients))
        })
        .flatten();
    let tried = totals.done + totals.failed;
    let share = |part: u64, all: u64| (all > 0).then(|| Ratio(part as f64 / all as f64));
    CellSummary {
        index: cell.index,
        repeat: cell.repeat,
        variant: cell.variant.clone(),
        workload: cell.workload.clone(),
        step: cell.step,
        clients: cell.clients,
        kind: cell.kind,
        status: cell.status,
        validity: Validity::Valid,
        reasons: Vec::new(),
        window,
        steadiness: None,
        tps,
        tps_se: None,
        cv: None,
        qps: totals.rate(totals.reads + totals.writes + totals.others),
        reads: totals.rate(totals.reads),
        writes: totals.rate(totals.writes),
        others: totals.rate(totals.others),
        latency,
        service: totals.service.as_ref().map(latencies),
        offered: (!closed).then(|| totals.rate(totals.arrivals)).flatten(),
        dropped_share: (!closed)
            .then(|| share(totals.dropped, totals.arrivals))
            .flatten(),
        held: (!closed && totals.arrivals > 0).then_some(held(totals)),
        done: totals.done,
        failed: totals.failed,
        errors: totals
            .errors
            .iter()
            .map(|((code, statement), &count)| ErrorCount {
                code: *code,
                statement: statement.clone(),
                count,
            })
            .collect(),
        error_share: share(totals.failed, tried),
        retries: totals.retries,
        reconnects: totals.reconnects,
        outage_seconds: cell.outage_seconds,
        recovery_seconds: cell.recovery_seconds,
        stalls: totals.stalls,
        longest_stall: totals.longest_stall,
        fairness: fairness(&cell.per_client),
        gain: None,
        think_time_ms: cell.think_time_ms,
        littles_law,
        busiest_worker: cell.client.busiest_worker,
        client_cpu: None,
        buffer_pool_hits: None,
    }
}

fn held(totals: &Totals) -> bool {
    let arrivals = totals.arrivals as f64;
    let missing = arrivals - totals.done as f64;
    totals.dropped == 0 && missing <= ((1.0 - HELD) * arrivals).max(UNDER_WAY)
}

/// The measured intervals without a short last one.
pub(super) fn whole_intervals(cell: &CellRecord) -> Vec<&Interval> {
    let mut measured: Vec<&Interval> = cell.measured().collect();
    let (_, whole) = series(&measured, usual_length(&measured));
    measured.truncate(whole);
    measured
}

/// Length of the longest interval: the last one may be short.
fn usual_length(measured: &[&Interval]) -> f64 {
    measured.iter().map(|i| i.seconds()).fold(0.0, f64::max)
}

/// Throughput of each interval, without a short last one; and how many there are.
fn series(measured: &[&Interval], usual: f64) -> (Vec<f64>, usize) {
    let whole = match measured.last() {
        Some(last) if measured.len() > 1 && last.seconds() < WHOLE_INTERVAL * usual => {
            measured.len() - 1
        }
        _ => measured.len(),
    };
    let throughputs = measured[..whole]
        .iter()
        .map(|i| i.done as f64 / i.seconds())
        .collect();
    (throughputs, whole)
}

fn latencies(latency: &Latency) -> Latencies {
    use crate::units::Millis;
    Latencies {
        avg: latency.mean(),
        p50: latency.quantile(0.50),
        p95: latency.quantile(0.95),
        p99: latency.quantile(0.99),
        p999: latency.quantile(0.999),
        min: latency.min_nanos().map(Millis::from_nanos),
        max: latency.max_nanos().map(Millis::from_nanos),
    }
}

fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let centre = mean(values).filter(|m| *m > 0.0)?;
    Some(variance(values)?.sqrt() / centre)
}

/// Population standard deviation, as sysbench prints it.
fn fairness(per_client: &[u64]) -> Option<Fairness> {
    let counts: Vec<f64> = per_client.iter().map(|&n| n as f64).collect();
    let centre = mean(&counts).filter(|m| *m > 0.0)?;
    let squares: f64 = counts.iter().map(|c| (c - centre).powi(2)).sum();
    let stddev = (squares / counts.len() as f64).sqrt();
    Some(Fairness {
        mean: centre,
        stddev,
        spread: Ratio(stddev / centre),
    })
}

/// Share of the cores that capbench used over the measured time.
fn client_cpu(run: &Run, cell: &CellRecord, measured: &[&Interval]) -> Option<Ratio> {
    let seconds: f64 = measured.iter().map(|i| i.seconds()).sum();
    let used = cell.client.user_seconds + cell.client.system_seconds;
    (seconds > 0.0 && run.host.cores > 0).then(|| Ratio(used / seconds / f64::from(run.host.cores)))
}
