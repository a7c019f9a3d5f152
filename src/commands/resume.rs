//! `capbench PLAN --resume DIR`: a run that was interrupted or cut off goes on after its last finished cell, if
//! everything that decides its figures is as it was.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::anyhow;

use super::edges::new_run;
use super::failure::Failure;
use super::restore::end_private;
use crate::cli::Exit;
use crate::plan::{self, Loaded};
use crate::record::{
    AfterLadder, CellKind, CellRecord, CellStatus, HostFacts, Resumption, Run, RunEnd,
    ServerIdentity,
};
use crate::store::Store;
use crate::target::Journal;

/// Variables that tell one start of a private server from another.
const OF_ONE_START: [&str; 8] = [
    "admin_port",
    "extra_port",
    // Makes the accounts where the data is that of an earlier run.
    "init_file",
    "mysqlx_port",
    "port",
    "report_port",
    "server_uid",
    "server_uuid",
];

/// The folder and the record of the run, with the cells that had ended.
pub(crate) fn resume(dir: &Path, loaded: &Loaded) -> Result<(Store, Run), Failure> {
    let differs = |what: String| {
        Failure::input(anyhow!(
            "the run in {} cannot go on: {what}\nhint: run the plan anew, into a folder of its own",
            dir.display()
        ))
    };
    let (store, mut run) = Store::resume(dir).map_err(Failure::input)?;
    let plan = dir.join("plan.toml");
    let then = std::fs::read(&plan)
        .map_err(|error| Failure::input(anyhow!("cannot read {}: {error}", plan.display())))?;
    if then != loaded.source.as_bytes() {
        return Err(differs(format!(
            "the plan has changed since (compare it with {})",
            plan.display()
        )));
    }
    let fresh = new_run(loaded);
    if fresh.tool != run.tool {
        return Err(differs(format!(
            "{} began it, this is {}",
            run.tool, fresh.tool
        )));
    }
    for (then, now) in run.workloads.iter().zip(&fresh.workloads) {
        if then != now {
            return Err(differs(format!(
                "workload `{}` has changed since",
                then.name
            )));
        }
    }
    let moved = other_machine(&run.host, &fresh.host);
    if !moved.is_empty() {
        let mut failure = differs(format!(
            "this is another load machine: {}",
            moved.join("; ")
        ));
        failure.exit = Exit::RunFailed;
        return Err(failure);
    }
    put_back_first(dir, &store, loaded)?;
    if run.end == RunEnd::Completed {
        return Err(differs("it is complete, nothing is left to run".to_owned()));
    }
    keep_ended(&mut run);
    let after_cell = run.cells.last().map_or(0, |last| last.index);
    run.resumed.push(Resumption {
        at: fresh.started_at,
        after_cell,
        end: Some(std::mem::replace(&mut run.end, RunEnd::Running)),
        ended_at: run.ended_at.take(),
    });
    // Made again, or said again.
    run.after = AfterLadder::default();
    run.settings.clear();
    run.unavailable.clear();
    Ok((store, run))
}

/// Changes that the run left on a server of others are put back by a person's word, a private server goes by
/// itself.
fn put_back_first(dir: &Path, store: &Store, loaded: &Loaded) -> Result<(), Failure> {
    let path = store.journal();
    if !path.exists() {
        return Ok(());
    }
    let pending = Journal::read_pending(&path).map_err(Failure::input)?;
    if pending.is_empty() {
        return Ok(());
    }
    match &loaded.plan.target.place {
        plan::Place::Managed(managed) => {
            let mut journal = Journal::create(&path).map_err(Failure::run)?;
            end_private(managed, &pending, &mut journal)
        }
        plan::Place::Server(_) => Err(Failure::run(anyhow!(
            "the run in {0} left the server changed when it was cut off\nhint: `capbench restore {0}` puts it back; then resume",
            dir.display()
        ))),
    }
}

/// Leaves the cells that had ended by themselves, up to the first that had not. What follows a ladder (refined
/// steps, references, a soak) is decided anew.
fn keep_ended(run: &mut Run) {
    run.cells.truncate(ended_cells(&run.cells, &run.end));
    let last = run.cells.last().map_or(0, |last| last.index);
    run.starts.retain(|start| start.cell <= last);
}

/// Whether intervals of a cell, or their histograms, are no longer in the run folder.
fn records_lost(cell: &CellRecord) -> bool {
    let lost =
        |latency: &crate::record::Latency| latency.count() > 0 && latency.quantile(0.5).is_none();
    cell.intervals.is_empty()
        || cell
            .intervals
            .iter()
            .any(|interval| lost(&interval.latency))
}

/// How many of the cells of a run that ended so had ended by themselves, up to the first that had not.
fn ended_cells(cells: &[CellRecord], end: &RunEnd) -> usize {
    let ended = |cell: &&CellRecord| {
        let not_run = cell
            .reason
            .as_deref()
            .is_some_and(|why| why.starts_with("not started:"));
        cell.kind == CellKind::Ladder
            && cell.status != CellStatus::Interrupted
            && !(cell.status == CellStatus::Skipped && not_run)
            && !(cell.status == CellStatus::Completed && records_lost(cell))
    };
    let mut kept = cells.iter().take_while(ended).count();
    // The cell under which the whole run failed.
    let failed =
        |cell: Option<&CellRecord>| cell.is_some_and(|cell| cell.status == CellStatus::Failed);
    if matches!(end, RunEnd::Failed(_)) && failed(cells[..kept].last()) {
        kept -= 1;
    }
    kept
}

/// What differs between two looks at the load machine.
fn other_machine(then: &HostFacts, now: &HostFacts) -> Vec<String> {
    [
        ("its name", &then.name, &now.name),
        ("its system", &then.system, &now.system),
        ("its processor", &then.cpu, &now.cpu),
        ("its cores", &then.cores.to_string(), &now.cores.to_string()),
        (
            "its memory",
            &then.memory.to_string(),
            &now.memory.to_string(),
        ),
    ]
    .into_iter()
    .filter(|(_, then, now)| then != now)
    .map(|(what, then, now)| format!("{what} was {then}, now {now}"))
    .collect()
}

/// What differs between the server of the run and this one, one line each.
pub(super) fn other_server(then: &ServerIdentity, now: &ServerIdentity) -> Vec<String> {
    let private = then.address == now.address && then.address == "private server";
    let mut facts = vec![
        ("flavour", then.flavour.to_string(), now.flavour.to_string()),
        ("version", then.version.clone(), now.version.clone()),
    ];
    if !private {
        let id = |server: &ServerIdentity| server.uuid.clone().unwrap_or_else(|| "n/a".to_owned());
        facts.push(("address", then.address.clone(), now.address.clone()));
        facts.push(("id", id(then), id(now)));
    }
    let mut found: Vec<String> = facts
        .into_iter()
        .filter(|(_, then, now)| then != now)
        .map(|(what, then, now)| {
            format!("this is another server than that of the run: its {what} was {then}, now {now}")
        })
        .collect();
    let (before, after) = if private {
        (placeless(&then.variables), placeless(&now.variables))
    } else {
        (then.variables.clone(), now.variables.clone())
    };
    for name in before
        .keys()
        .chain(after.keys().filter(|name| !before.contains_key(*name)))
    {
        let value = |of: &BTreeMap<String, String>| {
            of.get(name).cloned().unwrap_or_else(|| "n/a".to_owned())
        };
        if before.get(name) != after.get(name) {
            found.push(format!(
                "the server is not as the run found it: {name} was {}, now {}",
                value(&before),
                value(&after)
            ));
        }
    }
    if let Some(last) = found.last_mut() {
        last.push_str(
            "\nhint: put that back as it was and resume, or run the plan anew, into a folder of its own",
        );
    }
    found
}

/// The variables of a private server without what each start has anew: its folder and its ports.
fn placeless(variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let folder = variables
        .get("datadir")
        .and_then(|datadir| Path::new(datadir.trim_end_matches('/')).parent())
        .map(|folder| folder.to_string_lossy().into_owned())
        .unwrap_or_default();
    variables
        .iter()
        .filter(|(name, _)| !OF_ONE_START.contains(&name.as_str()))
        .map(|(name, value)| {
            let value = if folder.is_empty() {
                value.clone()
            } else {
                value.replace(&folder, "…")
            };
            (name.clone(), value)
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::record::{self, Flavour};
    use crate::units::Millis;

    fn server(address: &str, variables: &[(&str, &str)]) -> ServerIdentity {
        ServerIdentity {
            flavour: Flavour::MariaDb,
            version: "10.11".into(),
            comment: String::new(),
            uuid: Some(format!("id of {address}")),
            address: address.into(),
            local: true,
            tls: "none".into(),
            round_trip: Millis(0.1),
            variables: variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn a_private_server_may_lie_elsewhere_but_not_be_set_otherwise() {
        let then = server(
            "private server",
            &[
                ("datadir", "/tmp/a/data/"),
                ("socket", "/tmp/a/s"),
                ("port", "1"),
                ("x", "1"),
            ],
        );
        let mut now = server(
            "private server",
            &[
                ("datadir", "/tmp/b/data/"),
                ("socket", "/tmp/b/s"),
                ("port", "2"),
                ("x", "1"),
            ],
        );
        now.uuid = Some("other".into());
        assert_eq!(other_server(&then, &now), Vec::<String>::new());
        now.variables.insert("x".into(), "2".into());
        let found = other_server(&then, &now);
        assert!(found[0].contains("x was 1, now 2"), "{found:?}");
    }

    fn cell(kind: CellKind, status: CellStatus, reason: Option<&str>) -> CellRecord {
        CellRecord {
            index: 1,
            repeat: 1,
            variant: "baseline".into(),
            workload: "w".into(),
            step: plan::Step::Threads(8),
            kind,
            clients: 8,
            status,
            reason: reason.map(str::to_owned),
            started_at: None,
            seconds: 0.0,
            think_time_ms: 0.0,
            per_client: Vec::new(),
            outage_seconds: 0.0,
            recovery_seconds: None,
            statements: Vec::new(),
            client: record::ClientUsage::default(),
            differences: Vec::new(),
            evidence: record::CellEvidence::default(),
            intervals: vec![record::Interval::empty(0.0, 1.0, record::Phase::Measure)],
            server: Vec::new(),
            host: Vec::new(),
            merged: record::Merged::default(),
        }
    }

    #[test]
    fn what_the_user_or_a_dead_run_cut_off_is_measured_again_with_all_that_follows() {
        use CellKind::{Ladder, Refined, Soak};
        use CellStatus::{Completed, Failed, Interrupted, Skipped, Stopped};
        let kept = |cells: &[(CellKind, CellStatus, Option<&str>)], end: &RunEnd| {
            let cells: Vec<CellRecord> = cells
                .iter()
                .map(|(kind, status, reason)| cell(*kind, *status, *reason))
                .collect();
            ended_cells(&cells, end)
        };
        let done = (Ladder, Completed, None);
        let failed = (Ladder, Failed, Some("client 1 could not connect"));
        let after = (Ladder, Skipped, Some("the step before failed (8 threads)"));
        let not_run = (Ladder, Skipped, Some("not started: the user ended the run"));
        let user = RunEnd::Interrupted;
        let cut = (Ladder, Interrupted, Some("the user ended it"));
        assert_eq!(kept(&[done, cut, not_run, not_run], &user), 1);
        assert_eq!(kept(&[cut, not_run], &user), 0);
        // What failed by itself stays, with what its failure skipped.
        assert_eq!(kept(&[failed, after, done, not_run], &user), 3);
        assert_eq!(
            kept(&[(Ladder, Stopped, Some("p95")), after, cut], &user),
            2
        );
        // The cell under which the run failed, and what follows a ladder.
        let fell = RunEnd::Failed("the server is gone".into());
        assert_eq!(kept(&[done, failed, not_run], &fell), 1);
        let refined = (Refined, Completed, None);
        let soak = (Soak, Interrupted, Some("the user ended it"));
        assert_eq!(kept(&[done, done, refined, soak], &user), 2);
    }

    #[test]
    fn a_cell_whose_histograms_are_lost_is_measured_again() {
        let whole = || cell(CellKind::Ladder, CellStatus::Completed, None);
        let mut lost = whole();
        lost.intervals[0].latency = record::Latency::without_histogram(3, 1, 2, 4);
        assert_eq!(
            ended_cells(&[whole(), lost, whole()], &RunEnd::Interrupted),
            1
        );
    }

    #[test]
    fn another_server_or_setting_is_named() {
        let then = server("db:3306", &[("x", "1"), ("gone", "y")]);
        assert!(other_server(&then, &then).is_empty());
        let mut now = server("db:3306", &[("x", "1")]);
        now.uuid = Some("other".into());
        let found = other_server(&then, &now).join("\n");
        assert!(
            found.contains("its id was id of db:3306, now other"),
            "{found}"
        );
        assert!(found.contains("gone was y, now n/a"), "{found}");
    }
}
