//! A connection that nobody waits for in vain: a statement that takes long ends soon after the user wishes to end,
//! and once its server no longer answers anybody. A slow statement of a server that lives is waited for.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use mysql::Conn;
use mysql::prelude::Queryable;
use rustix::net::Shutdown;

use super::connect::{connect, open};
use super::{Endpoint, TargetError};
use crate::interrupt::Interrupt;
use crate::units::Span;

/// Between two looks at the user's wish.
const SLICE: Duration = Duration::from_millis(50);
/// How long a wait may go on after the user wishes to end; most statements end by themselves within.
const GRACE: Duration = Duration::from_secs(1);
/// After this long without an answer, and again each time, the server is asked whether it is there [H].
const SILENCE: Duration = Duration::from_secs(5);

/// Why a wait was cut short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The user wishes to end.
    Wish,
    /// No answer within this limit.
    Silence(Duration),
    /// A new connection to the server failed, in these words.
    Gone(String),
}

impl Cut {
    /// The cut behind an error, if it is one.
    pub(crate) fn of(error: &mysql::Error) -> Option<&Self> {
        match error {
            mysql::Error::IoError(error) => error.get_ref()?.downcast_ref(),
            _ => None,
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wish => f.write_str("interrupted"),
            Self::Silence(limit) => write!(f, "no answer within {}", Span(*limit)),
            Self::Gone(why) => write!(
                f,
                "no answer, and the server no longer answers a new connection either ({why})"
            ),
        }
    }
}

impl std::error::Error for Cut {}

impl From<Cut> for mysql::Error {
    fn from(cut: Cut) -> Self {
        Self::IoError(io::Error::other(cut))
    }
}

/// An open connection whose statements are [asked](Attended::ask) under watch.
pub struct Attended {
    conn: Conn,
    /// The connection's own, to end a wait for an answer from outside.
    socket: OwnedFd,
    endpoint: Endpoint,
}

// Not derived: the driver's own Debug shows the password.
impl fmt::Debug for Attended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attended")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Attended {
    /// Opens one connection. `statement_timeout` limits each answer; `None`: as long as the server lives.
    ///
    /// # Errors
    /// As [`connect`].
    pub fn open(
        endpoint: &Endpoint,
        statement_timeout: Option<Duration>,
    ) -> Result<Self, TargetError> {
        let conn = connect(endpoint, statement_timeout)?;
        // SAFETY: the descriptor is open for as long as `conn` lives, which is longer than this borrow.
        #[allow(unsafe_code)]
        let socket = unsafe { BorrowedFd::borrow_raw(conn.as_raw_fd()) }.try_clone_to_owned();
        Ok(Self {
            socket: socket.map_err(TargetError::file("open", "a connection's socket"))?,
            conn,
            endpoint: endpoint.clone(),
        })
    }

    /// Runs statements on the connection, and ends the wait for them where it would be in vain; the connection is
    /// then of no further use.
    ///
    /// # Errors
    /// The server's or the driver's; a [`Cut`] in its place when the wait was ended.
    pub fn ask<T>(
        &mut self,
        act: impl FnOnce(&mut Conn) -> Result<T, mysql::Error>,
    ) -> Result<T, mysql::Error> {
        let Self {
            conn,
            socket,
            endpoint,
        } = self;
        let (socket, endpoint, id) = (&*socket, &*endpoint, conn.connection_id());
        let (over, told) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let watcher = thread::Builder::new()
                .name("attendant".to_owned())
                .spawn_scoped(scope, move || watch(socket, endpoint, id, &told));
            let result = act(conn);
            drop(over);
            // Without a thread for it the statement was run all the same.
            let cut = watcher
                .ok()
                .and_then(|watcher| watcher.join().ok().flatten());
            match (result, cut) {
                (Err(_), Some(cut)) => Err(cut.into()),
                (result, _) => result,
            }
        })
    }

    /// Id of the session.
    pub fn connection_id(&self) -> u32 {
        self.conn.connection_id()
    }

    /// From now on this wish to end counts.
    pub(super) fn heed(&mut self, interrupt: &Interrupt) {
        self.endpoint.interrupt = interrupt.clone();
    }
}

/// Watches over one wait until `told` goes; why it was cut short, if it was.
fn watch(socket: &OwnedFd, endpoint: &Endpoint, id: u32, told: &Receiver<()>) -> Option<Cut> {
    let mut wish = Wish::default();
    let mut quiet_since = Instant::now();
    let mut look = None;
    loop {
        if told.recv_timeout(SLICE) != Err(RecvTimeoutError::Timeout) {
            return None;
        }
        let cut = if wish.is_due(&endpoint.interrupt) {
            kill(endpoint, id);
            Some(Cut::Wish)
        } else if let Some(answer) = &look {
            match Receiver::try_recv(answer) {
                Ok(None) => {
                    look = None;
                    quiet_since = Instant::now();
                    None
                }
                Ok(Some(why)) => Some(Cut::Gone(why)),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
            }
        } else {
            if quiet_since.elapsed() >= SILENCE {
                let endpoint = endpoint.clone();
                look = begin(move || absence(&endpoint)).ok();
            }
            None
        };
        if cut.is_some() {
            // It may have been closed meanwhile, which ends the wait as well.
            let _ = rustix::net::shutdown(socket, Shutdown::Both);
            return cut;
        }
    }
}

/// Why the server does not answer a new connection; a refusal in its own words is an answer.
fn absence(endpoint: &Endpoint) -> Option<String> {
    match connect(endpoint, Some(endpoint.connect_timeout)) {
        Ok(_) | Err(TargetError::Connect { code: Some(_), .. }) => None,
        Err(TargetError::Connect { reason, .. }) => Some(reason),
        Err(error) => Some(error.to_string()),
    }
}

/// Ends a session on the server, which goes on with its statement when a connection just goes away.
fn kill(endpoint: &Endpoint, id: u32) {
    let endpoint = endpoint.clone();
    let done = begin(move || {
        open(&endpoint, Some(GRACE))
            .is_ok_and(|mut conn| conn.query_drop(format!("KILL {id}")).is_ok())
    });
    // A server that does not hear it is not waited for.
    let _ = done.map(|done| done.recv_timeout(GRACE));
}

/// A wish to end that has its grace.
#[derive(Default)]
struct Wish(Option<Instant>);

impl Wish {
    /// Whether the grace is over.
    fn is_due(&mut self, interrupt: &Interrupt) -> bool {
        interrupt.raised() && self.0.get_or_insert_with(Instant::now).elapsed() >= GRACE
    }
}

/// Does it in a thread of its own, which is left to itself when it takes longer than `limit` or the user wishes to
/// end: the driver's limit on an answer stays with a connection for good.
pub(super) fn within<T: Send + 'static>(
    limit: Duration,
    interrupt: &Interrupt,
    act: impl FnOnce() -> Result<T, mysql::Error> + Send + 'static,
) -> Result<T, mysql::Error> {
    let result = begin(act)?;
    let deadline = Instant::now() + limit;
    let mut wish = Wish::default();
    loop {
        match result.recv_timeout(SLICE) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) if wish.is_due(interrupt) => {
                return Err(Cut::Wish.into());
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(_) => return Err(Cut::Silence(limit).into()),
        }
    }
}

/// Begins it in a thread of its own; nobody has to wait for what comes of it.
fn begin<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> io::Result<Receiver<T>> {
    let (done, result) = mpsc::channel();
    thread::Builder::new()
        .name("connect".to_owned())
        .spawn(move || {
            // Nobody waits any longer: what was opened is closed again.
            let _ = done.send(act());
        })?;
    Ok(result)
}
