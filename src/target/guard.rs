//! Who else uses the server: a capacity test takes everything there is, and others would feel it.

use mysql::prelude::Queryable;

use super::error::code;
use super::server::POLL;
use super::{Server, TargetError};

/// A session that is neither capbench's nor the server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) id: u64,
    user: String,
    /// `user@host`, without the port.
    pub(super) who: String,
    pub(super) database: Option<String>,
    pub(super) command: String,
    /// State and statement, in lower case.
    pub(super) doing: String,
}

impl Session {
    /// A replica that reads this server's binary log.
    pub(super) fn is_replica(&self) -> bool {
        self.command.starts_with("Binlog Dump")
    }
}

impl std::fmt::Display for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.who)?;
        match &self.database {
            Some(database) => write!(f, " in {database}"),
            None => Ok(()),
        }
    }
}

/// Sessions of the server itself, not of a client.
const SERVER_USERS: [&str; 4] = [
    "system user",
    "event_scheduler",
    "system",
    // MySQL's own, for plugins.
    "mysql.session",
];

type Row = (
    u64,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
);

/// Sessions that are not capbench's, before the load connects; `None`: the account sees its own only, and the
/// server does not say so by itself.
///
/// Without the PROCESS privilege the list of sessions silently holds only one's own; SHOW ENGINE INNODB
/// STATUS needs the same privilege and says so (error 1227), also where it comes from a role.
pub(super) fn others(server: &mut Server) -> Result<Option<Vec<Session>>, TargetError> {
    // A session that capbench has just closed is listed for a moment longer.
    let accounts = [server.load.user.clone(), server.admin.user.clone()];
    for _ in 1..LOOKS {
        match look(server)? {
            Some(others) if others.iter().any(|other| accounts.contains(&other.user)) => {
                std::thread::sleep(POLL);
            }
            settled => return Ok(settled),
        }
    }
    look(server)
}

/// Looks at the list of sessions before it counts.
const LOOKS: u32 = 10;

fn look(server: &mut Server) -> Result<Option<Vec<Session>>, TargetError> {
    const PROBE: &str = "SHOW ENGINE INNODB STATUS";
    const LIST: &str =
        "SELECT ID, USER, HOST, DB, COMMAND, STATE, INFO FROM information_schema.PROCESSLIST";
    let conn = server.admin()?;
    if let Err(error) = conn.ask(|conn| conn.query_drop(PROBE)) {
        return match code(&error) {
            Some(1227) => Ok(None),
            _ => Err(TargetError::statement(PROBE, &error)),
        };
    }
    let sessions: Vec<Row> = conn
        .ask(|conn| conn.query(LIST))
        .map_err(|error| TargetError::statement(LIST, &error))?;
    Ok(Some(strangers(sessions, &server.own_connections())))
}

/// The sessions that are neither capbench's nor the server's.
fn strangers(sessions: Vec<Row>, own: &[u64]) -> Vec<Session> {
    sessions
        .into_iter()
        .filter(|(id, user, ..)| !own.contains(id) && !SERVER_USERS.contains(&user.as_str()))
        .filter(|(_, _, _, _, command, ..)| command.as_deref() != Some("Daemon"))
        .map(|(id, user, host, database, command, state, info)| {
            let host = host.unwrap_or_default();
            // The port says nothing to a person.
            let host = host
                .rsplit_once(':')
                .map_or(host.as_str(), |(name, _)| name);
            let doing = [state, info].map(Option::unwrap_or_default).join(" ");
            Session {
                id,
                who: format!("{user}@{host}"),
                user,
                database,
                command: command.unwrap_or_default(),
                doing: doing.to_ascii_lowercase(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: u64, user: &str, host: &str, db: Option<&str>, command: &str) -> Row {
        (
            id,
            user.into(),
            Some(host.into()),
            db.map(Into::into),
            Some(command.into()),
            None,
            None,
        )
    }

    #[test]
    fn strangers_are_neither_us_nor_the_server() {
        let found = strangers(
            vec![
                session(7, "bench_admin", "10.0.0.9:5000", None, "Query"),
                session(8, "bench_admin", "10.0.0.9:5001", None, "Sleep"),
                session(1, "event_scheduler", "localhost", None, "Daemon"),
                session(2, "system user", "", None, "Connect"),
                session(20, "shop", "10.0.0.7:4711", Some("orders"), "Sleep"),
                session(21, "repl", "10.0.0.8:4712", None, "Binlog Dump GTID"),
                session(22, "dba", "localhost", None, "Sleep"),
            ],
            &[7, 8],
        );
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["shop@10.0.0.7 in orders", "repl@10.0.0.8", "dba@localhost"]
        );
        let replicas: Vec<bool> = found.iter().map(Session::is_replica).collect();
        assert_eq!(replicas, [false, true, false]);
    }
}
