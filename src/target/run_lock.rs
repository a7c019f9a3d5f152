//! One capbench at a time on a server: two would undo each other's changes and drop each other's tables.

use std::time::Duration;

use mysql::prelude::Queryable;

use super::attended::Attended;
use super::{Endpoint, TargetError};

/// The name that all capbenches agree on.
const NAME: &str = "capbench.run";
/// The lock's session is idle for as long as a run takes; servers end idle sessions after `wait_timeout`.
const LONGEST_RUN_SECONDS: u32 = 31_536_000;

/// The server's lock on behalf of this process. It goes with its connection: also when the process is killed.
#[derive(Debug)]
pub struct RunLock {
    conn: Attended,
}

impl RunLock {
    /// Takes the lock, or says who is in the way.
    ///
    /// # Errors
    /// Another capbench holds it; the server does not answer.
    pub fn take(admin: &Endpoint) -> Result<Self, TargetError> {
        let limit: Option<Duration> = Some(admin.connect_timeout);
        let mut conn = Attended::open(admin, limit)?;
        let ask = |conn: &mut Attended, sql: &str| -> Result<Option<i64>, TargetError> {
            conn.ask(|conn| conn.query_first::<Option<i64>, _>(sql))
                .map(Option::flatten)
                .map_err(|error| TargetError::statement(sql, &error))
        };
        let idle = format!("SET SESSION wait_timeout = {LONGEST_RUN_SECONDS}");
        conn.ask(|conn| conn.query_drop(&idle))
            .map_err(|error| TargetError::statement(&idle, &error))?;
        if ask(&mut conn, &format!("SELECT GET_LOCK('{NAME}', 1)"))? == Some(1) {
            return Ok(Self { conn });
        }
        let holder = ask(&mut conn, &format!("SELECT IS_USED_LOCK('{NAME}')"))?;
        Err(TargetError::Unsupported(format!(
            "another capbench works on this server{}\nhint: wait until it has ended",
            holder.map_or_else(String::new, |id| format!(" (session {id})"))
        )))
    }

    /// Whether the lock is still this process's.
    pub(super) fn holds(&mut self) -> bool {
        let sql = format!("SELECT IS_USED_LOCK('{NAME}') = CONNECTION_ID()");
        matches!(
            self.conn
                .ask(|conn| conn.query_first::<Option<bool>, _>(sql)),
            Ok(Some(Some(true)))
        )
    }

    pub(super) fn connection_id(&self) -> u32 {
        self.conn.connection_id()
    }
}
