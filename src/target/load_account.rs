//! The load's account: whether it gets in, may do what the workloads do, and often enough.

use std::collections::BTreeSet;

use mysql::prelude::Queryable;

use super::connect::connect;
use super::error::{code, words};
use super::preflight::needs;
use super::support::Problem;
use super::{Server, TargetError};
use crate::plan::Plan;

/// `ER_TABLEACCESS_DENIED_ERROR`, `ER_COLUMNACCESS_DENIED_ERROR`, `ER_DBACCESS_DENIED_ERROR`
const DENIED: [u16; 3] = [1142, 1143, 1044];
/// `ER_NO_SUCH_TABLE`: capbench is about to make it.
const NO_TABLE: u16 = 1146;
/// `ER_UNSUPPORTED_PS`
const NOT_PREPARED: u16 = 1295;
const GRANTS: &str = "`capbench grants PLAN` prints the accounts and rights this plan needs";

/// Everything that would end the load's account's work half-way.
pub(super) fn problems(plan: &Plan, server: &mut Server) -> Result<Vec<Problem>, TargetError> {
    if let Some(problem) = gets_in(server)? {
        return Ok(vec![problem]);
    }
    let Ok(mut conn) = connect(&server.load, Some(server.load.connect_timeout)) else {
        // An unknown database is one that capbench is about to make: nothing can be tried in it yet.
        return Ok(Vec::new());
    };
    let mut found = limits(plan, server, &mut conn)?;
    found.extend(statements(plan, server, &mut conn)?);
    Ok(found)
}

/// Limits of the account itself.
fn limits(
    plan: &Plan,
    server: &Server,
    conn: &mut mysql::Conn,
) -> Result<Vec<Problem>, TargetError> {
    const CONNECTIONS: &str = "SELECT @@SESSION.max_user_connections";
    let user = &server.load.user;
    let limit: Option<mysql::Row> = conn
        .query_first(CONNECTIONS)
        .map_err(|error| TargetError::statement(CONNECTIONS, &error))?;
    let limit: u64 = limit
        .and_then(|row| super::connect::text(row.as_ref(0)))
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let clients = needs(plan).clients;
    let mut found = Vec::new();
    if (1..clients).contains(&limit) {
        found.push(Problem {
            variant: None,
            text: format!(
                "account `{user}` may hold {limit} connections at once (MAX_USER_CONNECTIONS), but the plan has up to {clients} clients"
            ),
            hint: format!("ALTER USER '{user}'@… WITH MAX_USER_CONNECTIONS 0, or fewer clients"),
        });
    }
    // Without the right to see its own account nothing can be told, and most accounts have no such limit.
    let made: Option<String> = conn
        .query_first::<mysql::Row, _>("SHOW CREATE USER CURRENT_USER()")
        .ok()
        .flatten()
        .and_then(|row| super::connect::text(row.as_ref(0)));
    for limit in [
        "MAX_QUERIES_PER_HOUR",
        "MAX_UPDATES_PER_HOUR",
        "MAX_CONNECTIONS_PER_HOUR",
    ] {
        let number = made
            .as_deref()
            .and_then(|made| made.split_once(limit))
            .and_then(|(_, rest)| rest.split_whitespace().next())
            .and_then(|number| number.parse::<u64>().ok())
            .filter(|number| *number > 0);
        if let Some(number) = number {
            found.push(Problem {
                variant: None,
                text: format!("account `{user}` has {limit} = {number}: a load is over in moments"),
                hint: format!("ALTER USER '{user}'@… WITH {limit} 0"),
            });
        }
    }
    Ok(found)
}

/// Has the server prepare each statement of the workloads, which runs none: what the account may not do and what
/// is no SQL shows. Rights are looked at before a table's existence, seen so on MariaDB 10.11 and MySQL 9.7.
fn statements(
    plan: &Plan,
    server: &Server,
    conn: &mut mysql::Conn,
) -> Result<Vec<Problem>, TargetError> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for program in plan.ladder.workloads.iter().chain(&plan.warmup.workload) {
        for statement in program.statements() {
            let sql = statement.sql.replace("{table}", "1");
            if !seen.insert(sql.clone()) {
                continue;
            }
            let (text, hint) = match conn.prep(&sql) {
                Ok(prepared) => {
                    conn.close(prepared)
                        .map_err(|error| TargetError::statement(&sql, &error))?;
                    continue;
                }
                Err(error) => match code(&error) {
                    Some(NO_TABLE | NOT_PREPARED) => continue,
                    Some(code) if DENIED.contains(&code) => (
                        format!(
                            "account `{}` may not do what `{}` does: {}",
                            server.load.user,
                            program.name,
                            words(&error)
                        ),
                        GRANTS.to_owned(),
                    ),
                    Some(_) => (
                        format!(
                            "the server does not take a statement of `{}`: `{sql}`: {}",
                            program.name,
                            words(&error)
                        ),
                        format!(
                            "`capbench workload show {}` prints the workload",
                            program.name
                        ),
                    ),
                    None => return Err(TargetError::statement(&sql, &error)),
                },
            };
            found.push(Problem {
                variant: None,
                text,
                hint,
            });
        }
    }
    Ok(found)
}

/// Whether the load's account gets in, and if not, why.
fn gets_in(server: &mut Server) -> Result<Option<Problem>, TargetError> {
    let timeout = Some(server.load.connect_timeout);
    let Err(error) = connect(&server.load, timeout) else {
        return Ok(None);
    };
    let TargetError::Connect { reason, .. } = &error else {
        return Err(error);
    };
    // An unknown database is one that capbench is about to make.
    if reason.starts_with("error 1049") {
        return Ok(None);
    }
    let user = server.load.user.clone();
    let mut hint =
        "`capbench grants PLAN` prints the accounts and rights this plan needs".to_owned();
    if reason.starts_with("error 1045") {
        hint = match anonymous_hosts(server) {
            Some(hosts) if !hosts.is_empty() => format!(
                "anonymous accounts (''@{}) stand before '{user}'@'%' for connections from there; make '{user}'@{} as well, or drop the anonymous accounts",
                hosts.join(", ''@"),
                hosts.join(&format!(", '{user}'@"))
            ),
            Some(_) => format!("wrong password, or no account '{user}' for this host; {hint}"),
            None => format!(
                "wrong password, or no account '{user}' for this host; {hint}. Anonymous accounts, where there are any (SELECT host FROM mysql.user WHERE user = ''), stand before '{user}'@'%'"
            ),
        };
    }
    Ok(Some(Problem {
        variant: None,
        text: format!(
            "the load's account `{user}` cannot connect to {}: {reason}",
            server.load.address
        ),
        hint,
    }))
}

/// Hosts of accounts without a name, quoted; `None` when the administrator may not see them, which needs
/// more than a plan needs.
fn anonymous_hosts(server: &mut Server) -> Option<Vec<String>> {
    let accounts = server
        .control
        .pairs("SELECT host, user FROM mysql.user WHERE user = ''")
        .ok()?;
    let hosts = accounts.into_iter().map(|(host, _)| format!("'{host}'"));
    Some(hosts.collect())
}
