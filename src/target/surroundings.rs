//! Dangers around a run, found before anything is changed: who and what else lives on the server. What the
//! account cannot see is a finding of its own.

use std::collections::BTreeMap;

use super::guard::{Session, others};
use super::lease::LEASE_TABLE;
use super::neighbours::{backup, replica_status, replicas, schemas, source};
use super::variables::quoted;
use super::{Server, TargetError};
use crate::plan::{Plan, Risk};
use crate::units::Ratio;

/// A danger that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which.
    pub risk: Risk,
    /// What was found.
    pub text: String,
    /// What makes it go away.
    pub fix: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}\nhint: {}; or take it on with acknowledge = [\"{}\"] under [guard]",
            self.text,
            self.fix,
            self.risk.name()
        )
    }
}

/// As many names as a person reads.
const NAMED: usize = 8;
/// Below this share of the file system a disk is low: InnoDB's logs, undo and temporary files grow under
/// load [H].
const LOW_DISK: Ratio = Ratio(0.05);
pub(super) const GRANTS: &str = "`capbench grants PLAN` prints the rights to see it";

/// Every danger around a run of this plan on this server; none on a private server, which has no others.
///
/// # Errors
/// The server does not answer.
pub fn surroundings(plan: &Plan, server: &mut Server) -> Result<Vec<Finding>, TargetError> {
    if server.is_managed() {
        return Ok(Vec::new());
    }
    // As the server was found when it was opened: nothing was changed since.
    let variables = server.identity().variables.clone();
    let sessions = others(server)?;
    let mut found = Vec::new();
    found.extend(clients(sessions.as_deref()));
    found.extend(schemas(plan, server)?);
    found.extend(replicas(server, sessions.as_deref(), &variables)?);
    found.extend(source(server)?);
    found.extend(read_only(&variables));
    found.extend(backup(server, sessions.as_deref())?);
    found.extend(disk(server, &variables));
    found.extend(foreign_tables(plan, server)?);
    found.extend(limits(plan, &variables, server)?);
    Ok(found)
}

fn clients(sessions: Option<&[Session]>) -> Option<Finding> {
    let Some(sessions) = sessions else {
        return Some(Finding {
            risk: Risk::UnseenClients,
            text: "other clients cannot be seen: the account of the control connections lacks the PROCESS privilege"
                .to_owned(),
            fix: format!("GRANT PROCESS ({GRANTS})"),
        });
    };
    let others: Vec<String> = sessions
        .iter()
        .filter(|session| !session.is_replica())
        .map(ToString::to_string)
        .collect();
    (!others.is_empty()).then(|| Finding {
        risk: Risk::OtherClients,
        text: format!(
            "{}: {}",
            counted(
                others.len(),
                "other client is connected",
                "other clients are connected"
            ),
            listed(&others)
        ),
        fix: "run it when nobody else uses the server".to_owned(),
    })
}

fn read_only(variables: &BTreeMap<String, String>) -> Option<Finding> {
    const NAMES: [&str; 4] = [
        "read_only",
        "super_read_only",
        "innodb_read_only",
        "offline_mode",
    ];
    let on: Vec<String> = NAMES
        .into_iter()
        .filter(|name| {
            variables
                .get(*name)
                .is_some_and(|value| !matches!(value.to_ascii_uppercase().as_str(), "OFF" | "0"))
        })
        .map(|name| format!("{name} = {}", variables[name]))
        .collect();
    (!on.is_empty()).then(|| Finding {
        risk: Risk::ReadOnly,
        text: format!(
            "the server is set to refuse writes, which somebody will have had a reason for: {}",
            listed(&on)
        ),
        fix: "SET GLOBAL read_only = OFF once you know why it is on".to_owned(),
    })
}

fn disk(server: &Server, variables: &BTreeMap<String, String>) -> Option<Finding> {
    let datadir = variables.get("datadir").map_or("", String::as_str);
    let identity = server.identity();
    match super::disk::space(identity.local, datadir) {
        Some(space) if space.free_share() < LOW_DISK => Some(Finding {
            risk: Risk::LowDisk,
            text: format!(
                "the disk of {datadir} is nearly full: {} of {} free",
                space.free, space.total
            ),
            fix: "free some space".to_owned(),
        }),
        Some(_) => None,
        None => Some(Finding {
            risk: Risk::UnseenDisk,
            text: format!(
                "the free space on the server's disk ({datadir}) cannot be seen from here"
            ),
            fix: "look there that it suffices (`capbench check` says how much is needed)"
                .to_owned(),
        }),
    }
}

/// Tables and views in the plan's database that capbench did not make.
fn foreign_tables(plan: &Plan, server: &mut Server) -> Result<Option<Finding>, TargetError> {
    let database = &plan.target.database;
    let rows = server.control.pairs(&format!(
        "SELECT table_name, table_comment FROM information_schema.tables WHERE table_schema = {}",
        quoted(database)
    ))?;
    let accepted = |name: &str| {
        plan.dataset.existing
            && name
                .strip_prefix("sbtest")
                .and_then(|number| number.parse::<u32>().ok())
                .is_some_and(|number| (1..=plan.dataset.tables).contains(&number))
    };
    let mut foreign: Vec<String> = rows
        .into_iter()
        .filter(|(name, comment)| comment != "capbench" && name != LEASE_TABLE && !accepted(name))
        .map(|(name, _)| name)
        .collect();
    foreign.sort();
    Ok((!foreign.is_empty()).then(|| Finding {
        risk: Risk::ForeignTables,
        text: format!(
            "database `{database}` is not capbench's alone: it holds {}",
            listed(&foreign)
        ),
        fix: "state another database under [target]; capbench makes it".to_owned(),
    }))
}

/// Limits of the plan that nobody would watch.
fn limits(
    plan: &Plan,
    variables: &BTreeMap<String, String>,
    server: &mut Server,
) -> Result<Option<Finding>, TargetError> {
    let guard = &plan.guard;
    let mut unseen: Vec<String> = Vec::new();
    let datadir = variables.get("datadir").map_or("", String::as_str);
    let local = server.identity().local;
    if guard.max_server_cpu.is_some() && !local {
        unseen.push("max_server_cpu (the server is not on this host)".to_owned());
    }
    if guard.min_disk_free.is_some() && super::disk::space(local, datadir).is_none() {
        unseen.push("min_disk_free (the server's disk is not on this host)".to_owned());
    }
    if guard.max_disk_utilisation.is_some() && super::disk::device(local, datadir).is_none() {
        unseen.push("max_disk_utilisation (the server's disk is not on this host)".to_owned());
    }
    if guard.max_replica_lag.is_some() {
        match replica_status(server)? {
            None => unseen.push("max_replica_lag (the account may not see it)".to_owned()),
            Some(channels) if channels.is_empty() => {
                unseen.push("max_replica_lag (this server is no replica)".to_owned());
            }
            Some(_) => {}
        }
    }
    Ok((!unseen.is_empty()).then(|| Finding {
        risk: Risk::UnseenLimits,
        text: format!(
            "limits under [guard] cannot be watched here: {}",
            listed(&unseen)
        ),
        fix: "leave them out".to_owned(),
    }))
}

pub(super) fn counted(n: usize, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}

pub(super) fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let shown = names[..names.len() - more].join(", ");
    if more > 0 {
        format!("{shown} and {more} more")
    } else {
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_in_any_form_is_seen() {
        let map = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        assert_eq!(read_only(&map(&[("read_only", "OFF")])), None);
        assert_eq!(read_only(&map(&[])), None);
        // MariaDB ≥ 11.9 knows more than two values.
        for on in ["ON", "1", "NO_LOCK"] {
            assert!(read_only(&map(&[("read_only", on)])).is_some(), "{on}");
        }
        let both = read_only(&map(&[("read_only", "ON"), ("super_read_only", "ON")]));
        assert!(both.is_some_and(|found| found.text.contains("super_read_only = ON")));
    }

    #[test]
    fn many_names_are_cut() {
        let names: Vec<String> = (1..=10).map(|n| n.to_string()).collect();
        assert_eq!(listed(&names), "1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
        assert_eq!(listed(&names[..2]), "1, 2");
    }

    #[test]
    fn a_finding_names_its_acknowledgement() {
        let found = clients(None)
            .map(|found| found.to_string())
            .unwrap_or_default();
        assert!(
            found.contains("acknowledge = [\"unseen-clients\"]"),
            "{found}"
        );
        assert_eq!(clients(Some(&[])), None);
    }
}
