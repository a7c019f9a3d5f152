//! The load and the binary log: what replicas get of it.

use super::connect::{first, run, select};
use super::error::DatasetError;
use super::marker::Marker;
use crate::plan::{Place, Plan, Risk};
use crate::target::Attended;

/// Data of which the replicas have only a part: what was loaded past the binary log cannot be changed or removed
/// through it (error 1146 or 1032 stops them), nor the other way round.
pub(super) fn mixture(
    database: &str,
    found: Option<&Marker>,
    wanted: &Marker,
) -> Option<DatasetError> {
    let found = found.filter(|found| found.unlogged() != wanted.unlogged())?;
    let (was, is) = if found.unlogged() {
        ("past the binary log", "logged")
    } else {
        ("through the binary log", "unlogged")
    };
    Some(DatasetError::Plan(format!(
        "the data in database `{database}` was loaded {was}, and this plan's `dataset.binlog` is \"{is}\": replicas would have a part of it only\nhint: `capbench cleanup` removes it the way it was made, or change `binlog` in [dataset]"
    )))
}

/// A server that replicas follow, or may follow, while the plan does not say whether the load goes through the
/// binary log.
pub(super) fn unsaid(
    conn: &mut Attended,
    plan: &Plan,
) -> Result<Option<DatasetError>, DatasetError> {
    const HINT: &str = "hint: binlog = \"logged\" in [dataset]: the replicas get the load too; \"unlogged\": they do not, and the run may only read";
    // A private server has no replicas.
    let private = matches!(plan.target.place, Place::Managed(_));
    if plan.dataset.binlog.is_some() || private {
        return Ok(None);
    }
    let on = first(conn, "SELECT @@log_bin", || "reading @@log_bin".to_owned())?;
    if !on.is_some_and(|row| row.on(0)) {
        return Ok(None);
    }
    // Without PROCESS the list of sessions silently holds one's own only; this statement says so.
    match run(conn, "SHOW ENGINE INNODB STATUS", || {
        "looking for replicas".to_owned()
    }) {
        Err(error) if error.code() == Some(1227) => {
            if plan.guard.acknowledges(Risk::UnseenReplicas) {
                return Ok(None);
            }
            return Ok(Some(DatasetError::Plan(format!(
                "the server writes a binary log, and whether replicas follow it cannot be seen: the control account lacks the PROCESS privilege\n{HINT}; or GRANT PROCESS"
            ))));
        }
        other => other?,
    }
    let replicas = select(
        conn,
        "SELECT user, host FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'",
        || "looking for replicas".to_owned(),
    )?;
    if replicas.is_empty() {
        return Ok(None);
    }
    let names: Vec<String> = replicas
        .iter()
        .map(|row| {
            let text = |column| row.text(column).unwrap_or_default();
            // The port says nothing to a person.
            let host = text(1);
            format!(
                "{}@{}",
                text(0),
                host.rsplit_once(':').map_or(host, |(h, _)| h)
            )
        })
        .collect();
    Ok(Some(DatasetError::Plan(format!(
        "replicas follow this server ({}), and the plan does not say whether they get the load\n{HINT}",
        names.join(", ")
    ))))
}
