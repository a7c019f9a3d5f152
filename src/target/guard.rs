//! Who else uses the server: a capacity test takes everything there is, and others would feel it.

use mysql::prelude::Queryable;

use super::error::code;
use super::server::POLL;
use super::{Server, TargetError};

/// Who else is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Others {
    /// All sessions can be seen; these are not capbench's.
    Seen(Vec<String>),
    /// The account sees its own sessions only, and the server does not say so by itself.
    Unseen,
}

/// Sessions of the server itself, not of a client.
const SERVER_USERS: [&str; 3] = ["system user", "event_scheduler", "system"];

type Session = (u64, String, Option<String>, Option<String>, Option<String>);

/// Looks for sessions that are not this connection's, before the load connects.
///
/// Without the PROCESS privilege the list of sessions silently holds only one's own; SHOW ENGINE INNODB
/// STATUS needs the same privilege and says so (error 1227), also where it comes from a role.
///
/// # Errors
/// The server does not answer.
pub fn others(server: &mut Server) -> Result<Others, TargetError> {
    // A session that capbench has just closed is listed for a moment longer.
    for _ in 1..LOOKS {
        match look(server)? {
            Others::Seen(others) if !others.is_empty() => std::thread::sleep(POLL),
            settled => return Ok(settled),
        }
    }
    look(server)
}

/// Looks at the list of sessions before it counts.
const LOOKS: u32 = 10;

fn look(server: &mut Server) -> Result<Others, TargetError> {
    const PROBE: &str = "SHOW ENGINE INNODB STATUS";
    const LIST: &str = "SELECT ID, USER, HOST, DB, COMMAND FROM information_schema.PROCESSLIST";
    let conn = server.admin()?;
    if let Err(error) = conn.query_drop(PROBE) {
        return match code(&error) {
            Some(1227) => Ok(Others::Unseen),
            _ => Err(TargetError::statement(PROBE, &error)),
        };
    }
    let own = conn.connection_id();
    let sessions: Vec<Session> = conn
        .query(LIST)
        .map_err(|error| TargetError::statement(LIST, &error))?;
    let control = server.control_connection_id();
    Ok(Others::Seen(strangers(
        sessions,
        &[u64::from(own), control.unwrap_or(0)],
    )))
}

/// The sessions that are neither capbench's nor the server's, for people; replicas are named as such.
fn strangers(sessions: Vec<Session>, own: &[u64]) -> Vec<String> {
    sessions
        .into_iter()
        .filter(|(id, user, ..)| !own.contains(id) && !SERVER_USERS.contains(&user.as_str()))
        .filter(|(_, _, _, _, command)| command.as_deref() != Some("Daemon"))
        .map(|(_, user, host, db, command)| {
            let host = host.unwrap_or_default();
            // The port says nothing to a person.
            let host = host
                .rsplit_once(':')
                .map_or(host.as_str(), |(name, _)| name)
                .to_owned();
            match (command.is_some_and(|c| c.starts_with("Binlog Dump")), db) {
                (true, _) => format!("replica {user}@{host}"),
                (false, Some(db)) => format!("{user}@{host} in {db}"),
                (false, None) => format!("{user}@{host}"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(id: u64, user: &str, host: &str, db: Option<&str>, command: &str) -> Session {
        (
            id,
            user.into(),
            Some(host.into()),
            db.map(Into::into),
            Some(command.into()),
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
        assert_eq!(
            found,
            [
                "shop@10.0.0.7 in orders",
                "replica repl@10.0.0.8",
                "dba@localhost"
            ]
        );
    }
}
