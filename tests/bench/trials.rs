//! The pairs: sysbench, capbench, sysbench, capbench …

use anyhow::Result;
use capbench::record::Flavour;

use crate::report::{Better, Report, Row, Target};
use crate::settings::Settings;
use crate::subject::Subject;
use crate::tools::{self, Measured, Tool, Trial};

/// Pairs in which a tool failed are measured again, so many in a row; the report names each.
const AGAIN: usize = 3;

fn pairs(
    settings: &Settings,
    report: &mut Report,
    what: &str,
    mut once: impl FnMut(Tool, usize) -> Result<Measured>,
) -> Result<Vec<(Measured, Measured)>> {
    let mut pairs = Vec::new();
    let mut failed = 0;
    while pairs.len() < settings.pairs {
        let pair = pairs.len();
        let both =
            once(Tool::Sysbench, pair).and_then(|theirs| Ok((theirs, once(Tool::Capbench, pair)?)));
        let (theirs, ours) = match both {
            Ok(both) => both,
            Err(error) if failed < AGAIN => {
                failed += 1;
                eprintln!("  {what}, pair {}: measured again: {error:#}", pair + 1);
                report.measured_again(what, &error);
                continue;
            }
            Err(error) => return Err(error),
        };
        failed = 0;
        eprintln!(
            "  {what}, pair {}: sysbench {:.0}/s, capbench {:.0}/s; CPU a query {:.2} and {:.2} µs",
            pair + 1,
            theirs.tps,
            ours.tps,
            theirs.cpu_per_query * 1e6,
            ours.cpu_per_query * 1e6
        );
        pairs.push((theirs, ours));
    }
    Ok(pairs)
}

fn column(pairs: &[(Measured, Measured)], of: impl Fn(&Measured) -> f64) -> Vec<(f64, f64)> {
    pairs.iter().map(|(a, b)| (of(a), of(b))).collect()
}

/// TPS and CPU of each workload at each number of clients.
pub(crate) fn throughput(
    settings: &Settings,
    subject: &mut Subject,
    report: &mut Report,
) -> Result<()> {
    subject.pin(settings.pin)?;
    for workload in &settings.workloads {
        for &clients in &settings.clients {
            // 16 is a target of CPU alone: shown by the lightest and the usual mix.
            if clients == 16 && !settings.wants_16(workload) {
                continue;
            }
            let what = format!("{workload} × {clients}");
            subject.rest()?;
            let pairs = pairs(settings, report, &what, |tool, pair| {
                let trial = Trial {
                    workload: workload.clone(),
                    clients,
                    seconds: settings.seconds,
                    seed: 1 + pair as u64,
                };
                tools::measure(tool, &trial, settings, subject)
            })?;
            report.row(Row {
                what: format!("{what}: transactions/s"),
                values: column(&pairs, |m| m.tps),
                scale: 1.0,
                better: Better::Higher,
                target: Some(Target {
                    median: 1.0,
                    end: Some(0.97),
                }),
            });
            // The targets are stated for these numbers of clients.
            let cpu = match clients {
                16 => Some(1.0),
                64 => Some(0.9),
                256 => Some(0.6),
                _ => None,
            };
            report.row(Row {
                what: format!("{what}: client CPU a query, µs"),
                values: column(&pairs, |m| m.cpu_per_query),
                scale: 1e6,
                better: Better::Lower,
                target: cpu.map(Target::at),
            });
            report.row(Row {
                what: format!("{what}: of it in user mode, µs"),
                values: column(&pairs, |m| m.user_per_query),
                scale: 1e6,
                better: Better::Lower,
                target: Some(Target::at(0.25)),
            });
            report.row(Row {
                what: format!("{what}: peak memory, MiB"),
                values: column(&pairs, |m| m.process.peak),
                scale: 1.0 / f64::from(1 << 20),
                better: Better::Lower,
                target: None,
            });
        }
    }
    subject.pin(false)
}

/// Memory at many connections, and whether it grows.
pub(crate) fn memory(
    settings: &Settings,
    subject: &mut Subject,
    report: &mut Report,
) -> Result<()> {
    let clients = settings.memory_clients;
    if clients == 0 {
        return Ok(());
    }
    subject.pin(settings.pin)?;
    let what = format!("oltp_point_select × {clients}");
    // Growth takes time to see; a peak does not change between pairs.
    let seconds = if settings.quick { 3 } else { 30 };
    let few = Settings {
        pairs: settings.pairs.min(3),
        ..settings.clone()
    };
    let pairs = pairs(&few, report, &what, |tool, pair| {
        let trial = Trial {
            workload: "oltp_point_select".to_owned(),
            clients,
            seconds: match tool {
                Tool::Sysbench => settings.seconds,
                Tool::Capbench => seconds,
            },
            seed: 1 + pair as u64,
        };
        tools::measure(tool, &trial, settings, subject)
    })?;
    let mib = 1.0 / f64::from(1 << 20);
    report.row(Row {
        what: format!("{what}: transactions/s"),
        values: column(&pairs, |m| m.tps),
        scale: 1.0,
        better: Better::Higher,
        target: None,
    });
    report.row(Row {
        what: format!("{what}: peak memory, MiB"),
        values: column(&pairs, |m| m.process.peak),
        scale: mib,
        better: Better::Lower,
        target: Some(Target::at(0.1)),
    });
    // Flat: what it has after a third (10 s of 30) is what it has at the end.
    report.row(Row {
        what: format!(
            "{what}: capbench's memory at the end against that after {} s, MiB",
            seconds / 3
        ),
        values: pairs
            .iter()
            .map(|(_, ours)| ends(&ours.process.resident))
            .collect(),
        scale: mib,
        better: Better::Lower,
        target: Some(Target::at(1.02)),
    });
    subject.pin(false)
}

/// Resident memory after a third of the run, and a second before its end.
fn ends(resident: &[f64]) -> (f64, f64) {
    let n = resident.len();
    let at = |i: usize| resident.get(i).copied().unwrap_or(f64::NAN);
    (at(n / 3), at(n.saturating_sub(n.min(10))))
}

/// Time to prepare four tables, and one table as large as all four.
pub(crate) fn loading(
    settings: &Settings,
    subject: &mut Subject,
    report: &mut Report,
) -> Result<()> {
    if settings.load_rows == 0 {
        return Ok(());
    }
    // The targets are stated as how many times faster: on the same server, and on a private one that is changed to
    // settings for loading and back within the time.
    let same = match subject.flavour()? {
        Flavour::MariaDb => 1.0 / 1.6,
        Flavour::MySql => 1.0 / 1.8,
    };
    let private = 1.0 / 2.3;
    for (tables, rows) in [(4, settings.load_rows), (1, 4 * settings.load_rows)] {
        let (mut on_same, mut on_private) = (Vec::new(), Vec::new());
        // Each is a minute or so: fewer than of the others.
        for pair in 0..settings.pairs.min(5) {
            let theirs = tools::prepare(Tool::Sysbench, false, tables, rows, settings, subject)?;
            let ours = tools::prepare(Tool::Capbench, false, tables, rows, settings, subject)?;
            let fast = tools::prepare(Tool::Capbench, true, tables, rows, settings, subject)?;
            eprintln!(
                "  loading {tables} × {rows} rows, pair {}: sysbench {theirs:.2} s, capbench {ours:.2} s, {fast:.2} s as a private server",
                pair + 1
            );
            on_same.push((theirs, ours));
            on_private.push((theirs, fast));
        }
        for (values, target, how) in [
            (on_same, same, ""),
            (on_private, private, ", private server"),
        ] {
            report.row(Row {
                what: format!("preparing {tables} × {rows} rows{how}, s"),
                values,
                scale: 1.0,
                better: Better::Lower,
                target: Some(Target::at(target)),
            });
        }
    }
    Ok(())
}
