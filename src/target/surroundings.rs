//! Dangers around a run, found before anything is changed: who and what else lives on the server. What the
//! account cannot see is a finding of its own.

use std::collections::BTreeMap;

use mysql::prelude::Queryable;

use super::error::code;
use super::guard::{Session, others};
use super::lease::LEASE_TABLE;
use super::variables::quoted;
use super::{Server, TargetError};
use crate::plan::{Plan, Risk};
use crate::record::Flavour;
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
/// Schemas of the server itself.
const SYSTEM_SCHEMAS: [&str; 4] = ["mysql", "information_schema", "performance_schema", "sys"];
/// `ER_SPECIFIC_ACCESS_DENIED_ERROR`, `ER_TABLEACCESS_DENIED_ERROR`, `ER_DBACCESS_DENIED_ERROR`
const DENIED: [u16; 3] = [1227, 1142, 1044];
const GRANTS: &str = "`capbench grants PLAN` prints the rights to see it";

/// Every danger around a run of this plan on this server; none on a private server, which has no others.
///
/// # Errors
/// The server does not answer.
pub fn surroundings(plan: &Plan, server: &mut Server) -> Result<Vec<Finding>, TargetError> {
    if server.is_managed() {
        return Ok(Vec::new());
    }
    let variables = server.variables()?;
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
    found.extend(limits(plan, server)?);
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

/// All InnoDB tables of all schemas, whatever rights the account has on them; needs PROCESS.
fn schemas(plan: &Plan, server: &mut Server) -> Result<Option<Finding>, TargetError> {
    let table = match server.flavour() {
        Flavour::MariaDb => "INNODB_SYS_TABLES",
        Flavour::MySql if server.identity().version.starts_with("5.") => "INNODB_SYS_TABLES",
        Flavour::MySql => "INNODB_TABLES",
    };
    let sql = format!("SELECT NAME FROM information_schema.{table}");
    let conn = server.admin()?;
    let names: Vec<String> = match conn.query(&sql) {
        Ok(names) => names,
        Err(error) if code(&error).is_some_and(|code| DENIED.contains(&code)) => {
            return Ok(Some(Finding {
                risk: Risk::UnseenSchemas,
                text: "schemas of others cannot be seen: the account of the control connections lacks the PROCESS privilege".to_owned(),
                fix: format!("GRANT PROCESS ({GRANTS})"),
            }));
        }
        Err(error) => return Err(TargetError::statement(&sql, &error)),
    };
    // Tables of other engines, where the account has rights on them.
    let seen = "SELECT DISTINCT CONCAT(table_schema, '/', table_name) FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND engine <> 'InnoDB'";
    let more: Vec<String> = conn
        .query(seen)
        .map_err(|error| TargetError::statement(seen, &error))?;
    let mut others: BTreeMap<String, u32> = BTreeMap::new();
    for name in names.iter().chain(&more) {
        let Some((schema, _)) = name.split_once('/') else {
            continue;
        };
        let schema = decoded(schema);
        let ours = schema == plan.target.database
            || SYSTEM_SCHEMAS.contains(&schema.to_ascii_lowercase().as_str());
        if !ours {
            *others.entry(schema).or_default() += 1;
        }
    }
    if others.is_empty() {
        return Ok(None);
    }
    let named: Vec<String> = others
        .iter()
        .map(|(schema, tables)| {
            format!(
                "{schema} ({})",
                counted(*tables as usize, "table", "tables")
            )
        })
        .collect();
    Ok(Some(Finding {
        risk: Risk::OtherSchemas,
        text: format!(
            "other schemas hold tables on this server: {}",
            listed(&named)
        ),
        fix: "test a server that serves nobody".to_owned(),
    }))
}

/// InnoDB writes a schema's name as a file name: anything but letters, digits and `_` as `@` and four
/// hexadecimal digits (manual, “Mapping of Identifiers to File Names”).
fn decoded(name: &str) -> String {
    let mut text = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('@') {
        text.push_str(before);
        let digits = after
            .get(..4)
            .and_then(|hex| u32::from_str_radix(hex, 16).ok());
        match digits.and_then(char::from_u32) {
            Some(letter) => {
                text.push(letter);
                rest = &after[4..];
            }
            None => {
                text.push('@');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

fn replicas(
    server: &mut Server,
    sessions: Option<&[Session]>,
    variables: &BTreeMap<String, String>,
) -> Result<Option<Finding>, TargetError> {
    let Some(sessions) = sessions else {
        return Ok(Some(Finding {
            risk: Risk::UnseenReplicas,
            text: "attached replicas cannot be seen: the account of the control connections lacks the PROCESS privilege".to_owned(),
            fix: format!("GRANT PROCESS ({GRANTS})"),
        }));
    };
    let mut named: Vec<String> = sessions
        .iter()
        .filter(|session| session.is_replica())
        .map(|session| format!("replica {}", session.who))
        .collect();
    let is = |name: &str, value: &str| {
        variables
            .get(name)
            .is_some_and(|found| found.eq_ignore_ascii_case(value))
    };
    if is("wsrep_on", "ON") {
        let size = server
            .control
            .pairs("SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'")?;
        let size = size.first().map_or("n/a", |(_, value)| value.as_str());
        named.push(format!("a Galera cluster of {size}"));
    }
    if variables
        .get("group_replication_group_name")
        .is_some_and(|name| !name.is_empty())
    {
        named.push("a replication group".to_owned());
    }
    Ok((!named.is_empty()).then(|| Finding {
        risk: Risk::Replicas,
        text: format!(
            "what is written here is replicated: {}; the load reaches them too",
            listed(&named)
        ),
        fix: "test a server that nothing follows".to_owned(),
    }))
}

/// SHOW REPLICA STATUS in the words of this server; `None`: the account may not.
pub(super) fn replica_status(
    server: &mut Server,
) -> Result<Option<Vec<BTreeMap<String, String>>>, TargetError> {
    let statements = match server.flavour() {
        Flavour::MariaDb => ["SHOW ALL SLAVES STATUS", "SHOW SLAVE STATUS"],
        Flavour::MySql => ["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"],
    };
    for sql in statements {
        match server.control.maps(sql) {
            Ok(rows) => return Ok(Some(rows)),
            Err(error) if error.code().is_some_and(|code| DENIED.contains(&code)) => {
                return Ok(None);
            }
            // `ER_PARSE_ERROR`: a server that has not got the new words yet.
            Err(error) if error.code() == Some(1064) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn source(server: &mut Server) -> Result<Option<Finding>, TargetError> {
    let right = match server.flavour() {
        Flavour::MariaDb => "SLAVE MONITOR",
        Flavour::MySql => "REPLICATION CLIENT",
    };
    let Some(channels) = replica_status(server)? else {
        return Ok(Some(Finding {
            risk: Risk::UnseenSource,
            text: format!(
                "whether this server is a replica cannot be seen: the account of the control connections lacks the {right} privilege"
            ),
            fix: format!("GRANT {right} ({GRANTS})"),
        }));
    };
    let hosts: Vec<String> = channels
        .iter()
        .map(|row| {
            let host = ["Source_Host", "Master_Host"]
                .iter()
                .find_map(|name| row.get(*name));
            host.cloned().unwrap_or_else(|| "n/a".to_owned())
        })
        .collect();
    Ok((!hosts.is_empty()).then(|| Finding {
        risk: Risk::IsReplica,
        text: format!(
            "this server is a replica of {}: what the load writes here is not on its source, and the replica must be built anew afterwards",
            listed(&hosts)
        ),
        fix: "test a server that follows no other".to_owned(),
    }))
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

/// What backup programs say and do. A backup by SQL is a session: without other sessions there is none.
fn backup(
    server: &mut Server,
    sessions: Option<&[Session]>,
) -> Result<Option<Finding>, TargetError> {
    const WORDS: [&str; 6] = [
        "backup stage",
        "backup lock",
        "lock instance for backup",
        "lock tables for backup",
        "flush tables with read lock",
        "clone ",
    ];
    const PROGRAMS: [&str; 8] = [
        "xtrabackup",
        "mariabackup",
        "mariadb-backup",
        "mariadb-backu",
        "mysqldump",
        "mariadb-dump",
        "mysqlpump",
        "mydumper",
    ];
    let finding = |what: String| Finding {
        risk: Risk::Backup,
        text: format!("a backup is being taken: {what}; the load would slow it, and it the load"),
        fix: "run it when the backup has ended".to_owned(),
    };
    if server.identity().local
        && let Some(name) = local_program(&PROGRAMS)
    {
        return Ok(Some(finding(format!("`{name}` runs on this host"))));
    }
    let Some(sessions) = sessions else {
        return Ok(Some(Finding {
            risk: Risk::UnseenBackup,
            text: "a running backup cannot be seen: the account of the control connections lacks the PROCESS privilege".to_owned(),
            fix: format!("GRANT PROCESS ({GRANTS})"),
        }));
    };
    if let Some(session) = sessions
        .iter()
        .find(|session| WORDS.iter().any(|word| session.doing.contains(word)))
    {
        return Ok(Some(finding(format!(
            "session {} of {}",
            session.id, session.who
        ))));
    }
    if sessions.iter().all(Session::is_replica) {
        return Ok(None);
    }
    let locks = "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE OBJECT_TYPE IN ('BACKUP LOCK', 'GLOBAL') AND LOCK_TYPE = 'SHARED' AND LOCK_STATUS = 'GRANTED'";
    let programs = format!(
        "SELECT ATTR_VALUE FROM performance_schema.session_connect_attrs WHERE ATTR_NAME = 'program_name' AND ATTR_VALUE IN ({})",
        PROGRAMS.map(quoted).join(", ")
    );
    let on = server.control.value("SELECT @@GLOBAL.performance_schema")?;
    let seen = match on.as_deref() {
        Some("1") => server
            .control
            .value(locks)
            .and_then(|locks| Ok((locks, server.control.value(&programs)?))),
        _ => Err(TargetError::Unsupported(String::new())),
    };
    match seen {
        Ok((_, Some(program))) => Ok(Some(finding(format!("`{program}` is connected")))),
        Ok((Some(locks), None)) if locks != "0" => Ok(Some(finding(
            "a session holds a backup lock or a global read lock".to_owned(),
        ))),
        Ok(_) => Ok(None),
        Err(error) if matches!(error, TargetError::Unsupported(_)) || error.code().is_some() => {
            Ok(Some(Finding {
                risk: Risk::UnseenBackup,
                text: "other clients are connected, and whether one of them takes a backup cannot be seen: performance_schema is off or may not be read".to_owned(),
                fix: "GRANT SELECT ON performance_schema.*, or run it when nobody else uses the server"
                    .to_owned(),
            }))
        }
        Err(error) => Err(error),
    }
}

/// A program of these that runs on this host.
fn local_program(names: &[&'static str]) -> Option<&'static str> {
    let processes = procfs::process::all_processes().ok()?;
    processes
        .filter_map(|process| process.ok()?.stat().ok())
        .find_map(|stat| names.iter().copied().find(|name| *name == stat.comm))
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
fn limits(plan: &Plan, server: &mut Server) -> Result<Vec<Finding>, TargetError> {
    let guard = &plan.guard;
    let mut unseen: Vec<String> = Vec::new();
    let datadir = server
        .variables()?
        .get("datadir")
        .cloned()
        .unwrap_or_default();
    let local = server.identity().local;
    if guard.max_server_cpu.is_some() && !local {
        unseen.push("max_server_cpu (the server is not on this host)".to_owned());
    }
    if guard.min_disk_free.is_some() && super::disk::space(local, &datadir).is_none() {
        unseen.push("min_disk_free (the server's disk is not on this host)".to_owned());
    }
    if guard.max_disk_utilisation.is_some() && super::disk::device(local, &datadir).is_none() {
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
    Ok((!unseen.is_empty())
        .then(|| Finding {
            risk: Risk::UnseenLimits,
            text: format!(
                "limits under [guard] cannot be watched here: {}",
                listed(&unseen)
            ),
            fix: "leave them out".to_owned(),
        })
        .into_iter()
        .collect())
}

fn counted(n: usize, one: &str, more: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { more })
}

fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED);
    let named = names[..names.len() - more].join(", ");
    if more > 0 {
        format!("{named} and {more} more")
    } else {
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_schemas_are_read_as_innodb_writes_them() {
        for (file, name) in [
            ("orders", "orders"),
            ("my@002dshop", "my-shop"),
            ("a@0020b@002ec", "a b.c"),
            ("odd@", "odd@"),
        ] {
            assert_eq!(decoded(file), name);
        }
    }

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
