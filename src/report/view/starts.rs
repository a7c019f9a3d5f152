//! In what state each variant, or each cell with data of its own, began.

use crate::record::{Run, SettleStep, StartRecord, WarmupRecord};
use crate::report::figures::{MISSING, duration, figure, or_missing, whole};

use super::model::StartView;

pub(super) fn starts(run: &Run) -> Vec<StartView> {
    run.starts.iter().map(start).collect()
}

fn start(start: &StartRecord) -> StartView {
    StartView {
        variant: start.variant.clone(),
        cell: start.cell.to_string(),
        data: start.data.clone(),
        took: or_missing(start.seconds.map(duration)),
        settled: if start.settled.is_empty() {
            "not waited for".to_owned()
        } else {
            start
                .settled
                .iter()
                .map(step)
                .collect::<Vec<_>>()
                .join("; ")
        },
        warmup: or_missing(start.warmup.as_ref().map(warmup)),
    }
}

/// `dirty pages 225 → 31 in 0.807 s`.
fn step(step: &SettleStep) -> String {
    let value = |value: Option<f64>| or_missing(value.map(whole));
    let mut text = step.name.clone();
    if step.before.is_some() || step.after.is_some() {
        text = format!("{text} {}", value(step.before));
        if step.before != step.after {
            text = format!(
                "{text} → {} in {}",
                value(step.after),
                duration(step.seconds)
            );
        }
    }
    if step.timed_out {
        text = format!("{text}, NOT settled ({} or less)", value(step.limit));
    }
    match &step.note {
        Some(note) => format!("{text}: {note}"),
        None => text,
    }
}

/// `60.0 s, 5,175 → 324 reads/s, level`.
fn warmup(warmup: &WarmupRecord) -> String {
    let reads = match warmup.reads.as_slice() {
        [] => format!("reads {MISSING}"),
        [only] => format!("{} reads/s", figure(*only)),
        [first, .., last] => format!("{} → {} reads/s", figure(*first), figure(*last)),
    };
    let level = match warmup.level {
        None => "",
        Some(true) => ", level",
        Some(false) => ", NOT level",
    };
    format!("{}, {reads}{level}", duration(warmup.seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_reads_as_a_row() {
        let record = StartRecord {
            variant: "B".into(),
            cell: 3,
            data: "put back from the copy of its files".into(),
            seconds: Some(1.14),
            settled: vec![
                SettleStep {
                    name: "dirty pages".into(),
                    before: Some(2250.0),
                    after: Some(31.0),
                    limit: Some(64.0),
                    seconds: 0.8,
                    timed_out: false,
                    note: None,
                },
                SettleStep {
                    name: "history list".into(),
                    before: Some(5000.0),
                    after: Some(3000.0),
                    limit: Some(1000.0),
                    seconds: 60.0,
                    timed_out: true,
                    note: None,
                },
                SettleStep {
                    name: "page cache".into(),
                    before: None,
                    after: None,
                    limit: None,
                    seconds: 0.1,
                    timed_out: false,
                    note: Some("dropped".into()),
                },
            ],
            warmup: Some(WarmupRecord {
                seconds: 60.0,
                reads: vec![5175.0, 900.0, 324.0],
                level: Some(false),
            }),
        };
        let view = start(&record);
        assert_eq!(view.took, "1.14 s");
        assert_eq!(
            view.settled,
            "dirty pages 2,250 → 31 in 0.800 s; history list 5,000 → 3,000 in 1 min, NOT settled (1,000 or less); page cache: dropped"
        );
        assert_eq!(view.warmup, "1 min, 5,175 → 324 reads/s, NOT level");
        let bare = start(&StartRecord {
            seconds: None,
            settled: Vec::new(),
            warmup: None,
            ..record
        });
        assert_eq!(
            [bare.took, bare.settled, bare.warmup],
            ["n/a", "not waited for", "n/a"]
        );
    }
}
