//! Who works on the server: this capbench's lock on it, and the changes that others hold.

use super::TargetError;
use super::lease::{self, Held};
use super::run_lock::RunLock;
use super::server::Server;
use super::undo::Overtaken;

impl Server {
    /// Decides what happens to variables that someone else has set since capbench did.
    pub fn when_overtaken(&mut self, overtaken: Overtaken) {
        self.overtaken = overtaken;
    }

    /// No other capbench on this server from here on; a private server has no other.
    ///
    /// # Errors
    /// Another capbench holds the lock; the server does not answer.
    pub fn lock(&mut self) -> Result<(), TargetError> {
        if self.private.is_none() && self.lock.is_none() {
            self.lock = Some(RunLock::take(&self.admin)?);
            self.locked = true;
        }
        Ok(())
    }

    /// Takes the lock again where it was lost: it goes with its connection, as in a restart. A server that
    /// does not answer is left to whoever needs it.
    ///
    /// # Errors
    /// Another capbench has come in between.
    pub fn keep_lock(&mut self) -> Result<(), TargetError> {
        if !self.locked {
            return Ok(());
        }
        if self.lock.as_mut().is_some_and(|lock| !lock.holds()) {
            self.lock = None;
        }
        match self.lock() {
            Err(error @ TargetError::Unsupported(_)) => Err(error),
            _ => Ok(()),
        }
    }

    /// The changes that runs hold on this server, by the leases that the account can see.
    ///
    /// # Errors
    /// The server does not answer; a lease cannot be read.
    pub fn held(&mut self) -> Result<Vec<Held>, TargetError> {
        if self.private.is_some() {
            return Ok(Vec::new());
        }
        lease::held(&mut self.control)
    }

    /// Ids of capbench's own sessions.
    pub(super) fn own_connections(&mut self) -> Vec<u64> {
        let control = self.control.conn().ok().map(|conn| conn.connection_id());
        let handed = self.handed.open_connection_id();
        let lock = self.lock.as_ref().map(RunLock::connection_id);
        [control, handed, lock]
            .into_iter()
            .flatten()
            .map(u64::from)
            .collect()
    }
}
