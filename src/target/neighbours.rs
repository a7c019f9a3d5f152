//! What else lives on a server: schemas of others, replicas, a source, a backup.

use std::collections::BTreeMap;

use mysql::prelude::Queryable;

use super::error::code;
use super::guard::Session;
use super::surroundings::{Finding, GRANTS, counted, listed};
use super::variables::quoted;
use super::{Server, TargetError};
use crate::plan::{Plan, Risk};
use crate::record::Flavour;

/// Schemas of the server itself.
const SYSTEM_SCHEMAS: [&str; 4] = ["mysql", "information_schema", "performance_schema", "sys"];
/// `ER_SPECIFIC_ACCESS_DENIED_ERROR`, `ER_TABLEACCESS_DENIED_ERROR`, `ER_DBACCESS_DENIED_ERROR`
const DENIED: [u16; 3] = [1227, 1142, 1044];

/// All InnoDB tables of all schemas, whatever rights the account has on them; needs PROCESS.
pub(super) fn schemas(plan: &Plan, server: &mut Server) -> Result<Option<Finding>, TargetError> {
    let table = match server.flavour() {
        Flavour::MariaDb => "INNODB_SYS_TABLES",
        Flavour::MySql if server.identity().version.starts_with("5.") => "INNODB_SYS_TABLES",
        Flavour::MySql => "INNODB_TABLES",
    };
    let sql = format!("SELECT NAME FROM information_schema.{table}");
    let conn = server.admin()?;
    let innodb: Vec<String> = match conn.ask(|conn| conn.query(&sql)) {
        Ok(found) => found,
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
    let seen = format!(
        "SELECT CONCAT(table_schema, '/', table_name) FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND engine <> 'InnoDB' AND table_schema NOT IN ({})",
        SYSTEM_SCHEMAS.map(quoted).join(", ")
    );
    let more: Vec<String> = conn
        .ask(|conn| conn.query(&seen))
        .map_err(|error| TargetError::statement(&seen, &error))?;
    let mut others: BTreeMap<String, u32> = BTreeMap::new();
    for name in innodb.iter().chain(&more) {
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

/// InnoDB writes the name of a schema or table as a file name: anything but letters, digits and `_` as `@` and four
/// hexadecimal digits (manual, “Mapping of Identifiers to File Names”).
pub(crate) fn decoded(name: &str) -> String {
    let mut text = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('@') {
        text.push_str(before);
        let digits = after
            .get(..4)
            .and_then(|hex| u32::from_str_radix(hex, 16).ok());
        if let Some(letter) = digits.and_then(char::from_u32) {
            text.push(letter);
            rest = &after[4..];
        } else {
            text.push('@');
            rest = after;
        }
    }
    text.push_str(rest);
    text
}

pub(super) fn replicas(
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

pub(super) fn source(server: &mut Server) -> Result<Option<Finding>, TargetError> {
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

/// What backup programs say and do. A backup by SQL is a session: without other sessions there is none.
pub(super) fn backup(
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
    let processes = std::fs::read_dir("/proc").ok()?;
    processes
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("comm")).ok())
        .find_map(|comm| names.iter().copied().find(|name| *name == comm.trim_end()))
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
}
