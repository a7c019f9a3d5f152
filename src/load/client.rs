//! One client: its connection's life. What it does with it stands in `transaction`.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;

use mio::Token;
use mio::event::Event;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::context::{Context, Stage};
use super::link::{Link, Peer};
use super::prepared::Prepared;
use super::shared::{Shared, lock};
use super::spec::LoadError;
use super::timers::Due;
use super::transaction::Progress;
use super::wire::{Encrypt, Login, LoginStep, Wire, WireError, quit};
use crate::plan::TlsMode;
use crate::workload::KeySampler;

/// First pause before connecting again; doubles up to `reconnect_backoff`.
const FIRST_BACKOFF: u64 = 10_000_000;
/// Pause after a Unix socket whose queue of new connections is full.
const QUEUE_FULL_PAUSE: u64 = 2_000_000;

/// Server errors that mean that this connection is gone or about to go.
const LOST: [u16; 14] = [
    1053, // server shutdown in progress
    1077, 1079, 1080, // normal shutdown, shutdown complete, forcing close
    1152, // aborted connection
    1158, 1159, 1160, 1161, // network read and write errors and time-outs
    1184, // new aborted connection
    1927, // connection was killed (MariaDB)
    3169, // session was killed (MySQL)
    4031, // disconnected for inactivity (MySQL)
    3032, // server in offline mode (MySQL)
];
/// Server errors at login that pass: too many connections, of this account, of this host's limits.
const FULL: [u16; 3] = [1040, 1203, 1226];

/// Whether the connection is lost with this error.
pub(super) fn is_lost(code: u16) -> bool {
    LOST.contains(&code)
}

/// Why a connection cannot go on.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It is gone; another may come.
    Lost {
        /// The server's code; 0: the connection just ended.
        code: u16,
        error: Cause,
    },
    /// The cell cannot go on.
    Fatal(String),
}

/// What ended a connection, for people.
#[derive(Debug)]
pub(super) enum Cause {
    Wire(WireError),
    System(std::io::Error),
    TimedOut,
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Lost {
            code: 0,
            error: Cause::System(error),
        }
    }
}

impl From<WireError> for Trouble {
    fn from(error: WireError) -> Self {
        let code = match &error {
            WireError::Server(error) => error.code,
            _ => 0,
        };
        Self::Lost {
            code,
            error: Cause::Wire(error),
        }
    }
}

/// What a client is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Not connected, and not going to be by itself.
    Closed,
    /// Connecting or logging in.
    Connecting,
    /// Waits before it connects again.
    Backoff,
    /// Connected, without work.
    Ready,
    /// Connected, thinking.
    Thinking,
    /// In a transaction.
    Busy,
}

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    /// Number among all clients.
    pub(super) index: u32,
    /// Number within its worker.
    pub(super) slot: u32,
    pub(super) state: State,
    pub(super) link: Option<Link>,
    login: Option<Box<Login>>,
    pub(super) wire: Option<Wire>,
    pub(super) prepared: Prepared,
    pub(super) connection_id: u32,
    /// Its own random stream.
    pub(super) rng: Xoshiro256PlusPlus,
    /// Draws from its own segment of a table, if the workload does.
    pub(super) segment: Option<Box<KeySampler>>,
    pub(super) progress: Progress,
    /// Transactions that ended well in the measured time.
    pub(super) done: u64,
    /// When it ran out of work.
    pub(super) idle_since: u64,
    /// Outdates timers.
    generation: u32,
    lost_at: Option<u64>,
    backoff: u64,
    /// Which of the server's addresses it tries.
    peer: usize,
}

impl Client {
    /// Not connected yet.
    pub(super) fn new(index: u32, slot: u32, shared: &Shared<'_>) -> Self {
        let spec = shared.spec;
        let segment = shared.script.segments.then(|| {
            let clients = spec.pace.clients();
            KeySampler::for_segment(&spec.access, spec.rows, index, clients)
        });
        Self {
            index,
            slot,
            state: State::Closed,
            link: None,
            login: None,
            wire: None,
            prepared: Prepared::new(
                spec.options.max_prepared_per_connection,
                shared.script.keys(shared.tables),
            ),
            connection_id: 0,
            rng: stream(spec.seed, 0, u64::from(index)),
            segment: segment.map(Box::new),
            progress: Progress::default(),
            done: 0,
            idle_since: 0,
            generation: 0,
            lost_at: None,
            backoff: FIRST_BACKOFF,
            peer: 0,
        }
    }

    /// Enters a state; timers of the former one are void.
    pub(super) fn enter(&mut self, state: State) {
        self.state = state;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Asks for [`Client::wake`] at `at`, unless it enters another state before.
    pub(super) fn wake_at(&self, ctx: &mut Context<'_>, at: u64) {
        ctx.timers.add(Due {
            at,
            client: self.slot,
            generation: self.generation,
        });
    }

    /// Connects.
    pub(super) fn connect(&mut self, ctx: &mut Context<'_>, now: u64) {
        if let Err(trouble) = self.try_connect(ctx, now) {
            self.give_up(ctx, trouble, now);
        }
    }

    fn try_connect(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        let shared = ctx.shared;
        self.peer = self.peer.max(shared.peer.load(Ordering::Relaxed));
        let peer = &shared.peers[self.peer % shared.peers.len()];
        let link = match Link::connect(peer, &ctx.registry, Token(self.slot as usize)) {
            Ok(link) => link,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                self.enter(State::Backoff);
                self.wake_at(ctx, now + QUEUE_FULL_PAUSE);
                return Ok(());
            }
            Err(e) => return Err(e.into()),
        };
        let socket = matches!(peer, Peer::Socket(_));
        let encrypt = match shared.spec.endpoint.tls.mode {
            TlsMode::Disabled => Encrypt::Never,
            // As MySQL's own clients: a socket is private by itself.
            TlsMode::Preferred if socket || shared.without_tls.load(Ordering::Relaxed) => {
                Encrypt::Never
            }
            TlsMode::Preferred => Encrypt::IfOffered,
            _ => Encrypt::Always,
        };
        self.link = Some(link);
        self.login = Some(Box::new(Login::new(encrypt, socket)));
        self.wire = None;
        self.enter(State::Connecting);
        if ctx.stage == Stage::Running {
            let limit = shared.spec.endpoint.connect_timeout.as_nanos();
            self.wake_at(ctx, now + u64::try_from(limit).unwrap_or(u64::MAX / 2));
        }
        Ok(())
    }

    /// A timer that [`Client::wake_at`] set has come.
    pub(super) fn wake(&mut self, ctx: &mut Context<'_>, due: Due, now: u64) {
        if due.generation != self.generation || ctx.stage == Stage::Over {
            return;
        }
        match self.state {
            State::Backoff => self.connect(ctx, now),
            State::Connecting => self.give_up(
                ctx,
                Trouble::Lost {
                    code: 0,
                    error: Cause::TimedOut,
                },
                now,
            ),
            State::Thinking => {
                ctx.late(now.saturating_sub(due.at));
                let started = self.begin(ctx, None, now);
                self.check(ctx, started, now);
            }
            State::Closed | State::Ready | State::Busy => {}
        }
    }

    /// The socket is ready; it is read into `input`.
    pub(super) fn ready(&mut self, ctx: &mut Context<'_>, input: &mut [u8], event: &Event) {
        let Some(link) = &mut self.link else {
            return;
        };
        let mut result = Ok(());
        if event.is_writable() {
            result = link.flush(&ctx.registry).map_err(Trouble::from);
        }
        if result.is_ok() && (event.is_readable() || event.is_read_closed() || event.is_error()) {
            result = self.read(ctx, input, event.is_read_closed() || event.is_error());
        }
        if let Err(trouble) = result {
            let now = ctx.tick();
            ctx.roll(now);
            self.give_up(ctx, trouble, now);
        }
    }

    /// Reads all there is. `ending`: the end of the stream is near, read up to it.
    fn read(
        &mut self,
        ctx: &mut Context<'_>,
        input: &mut [u8],
        ending: bool,
    ) -> Result<(), Trouble> {
        loop {
            let Some(link) = &mut self.link else {
                return Ok(());
            };
            let Some(len) = link.receive(input)? else {
                return Ok(());
            };
            if len == 0 {
                return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into());
            }
            let now = ctx.event_time();
            ctx.roll(now);
            ctx.late(now.saturating_sub(ctx.ready_since));
            let encrypted = link.encrypted();
            let mut bytes = &input[..len];
            if encrypted {
                self.decrypt(ctx, bytes, now)?;
            } else {
                self.digest(ctx, &mut bytes, now)?;
                // TLS has just been set up: the server speaks next, after our hello.
                if !bytes.is_empty() {
                    return Err(WireError::Unexpected(bytes[0]).into());
                }
            }
            // A short read has emptied the socket; what comes later is announced anew.
            if len < input.len() && !ending {
                return Ok(());
            }
        }
    }

    fn decrypt(
        &mut self,
        ctx: &mut Context<'_>,
        mut ciphertext: &[u8],
        now: u64,
    ) -> Result<(), Trouble> {
        let mut plain = std::mem::take(&mut ctx.plain);
        let mut result = Ok(());
        while !ciphertext.is_empty() && result.is_ok() {
            let Some(link) = &mut self.link else {
                break;
            };
            result = link
                .decrypt(&ctx.registry, &mut ciphertext, &mut plain, &mut ctx.scratch)
                .map_err(Trouble::from)
                .and_then(|()| self.digest(ctx, &mut plain.as_slice(), now));
        }
        ctx.plain = plain;
        result
    }

    /// Handles decrypted bytes.
    fn digest(
        &mut self,
        ctx: &mut Context<'_>,
        bytes: &mut &[u8],
        now: u64,
    ) -> Result<(), Trouble> {
        while !bytes.is_empty() {
            if let Some(wire) = &mut self.wire {
                if let Some(answer) = wire.feed(bytes)? {
                    self.answered(ctx, answer, now)?;
                }
            } else if let Some(login) = &mut self.login {
                ctx.out.clear();
                let step = login.feed(bytes, &ctx.shared.login, &mut ctx.out)?;
                let Some(link) = &mut self.link else {
                    return Ok(());
                };
                link.send(&ctx.registry, &ctx.out, &mut ctx.scratch)?;
                match step {
                    None | Some(LoginStep::Continue) => {}
                    Some(LoginStep::StartTls) => {
                        if let Some(setup) = &ctx.shared.tls {
                            link.start_tls(setup)?;
                        }
                        ctx.out.clear();
                        login.secured(&ctx.shared.login, &mut ctx.out);
                        link.send(&ctx.registry, &ctx.out, &mut ctx.scratch)?;
                        return Ok(());
                    }
                    Some(LoginStep::Done(session)) => {
                        if let Some(login) = self.login.take() {
                            self.wire = Some(Wire::new(login.into_frames(), session));
                        }
                        self.connection_id = session.connection_id;
                        self.connected(ctx, now)?;
                    }
                }
            } else {
                return Ok(());
            }
        }
        Ok(())
    }

    fn connected(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        ctx.shared.peer.fetch_max(self.peer, Ordering::Relaxed);
        if let Some(cipher) = self.link.as_ref().and_then(Link::cipher) {
            ctx.shared.cipher.get_or_init(|| cipher);
        }
        self.backoff = FIRST_BACKOFF;
        self.prepared.clear();
        self.enter(State::Ready);
        ctx.connected(now, 1);
        if let Some(since) = self.lost_at.take() {
            ctx.tally.reconnects += 1;
            lock(&ctx.shared.outage).back(since, now);
        }
        match ctx.stage {
            Stage::Connecting => Ok(()),
            Stage::Running => self.next(ctx, now),
            Stage::Over => {
                self.retire(ctx, now);
                Ok(())
            }
        }
    }

    /// Ends the connection in order.
    pub(super) fn retire(&mut self, ctx: &mut Context<'_>, now: u64) {
        if let Some(mut link) = self.link.take() {
            if self.wire.is_some() {
                ctx.out.clear();
                quit(&mut ctx.out);
                // The server is told as far as the socket takes it; we leave either way.
                let _ = link.send(&ctx.registry, &ctx.out, &mut ctx.scratch);
                ctx.connected(now, -1);
            }
            link.close(&ctx.registry);
        }
        self.login = None;
        self.wire = None;
        self.enter(State::Closed);
    }

    /// Acts on trouble, if any.
    pub(super) fn check(&mut self, ctx: &mut Context<'_>, result: Result<(), Trouble>, now: u64) {
        if let Err(trouble) = result {
            self.give_up(ctx, trouble, now);
        }
    }

    /// The connection cannot go on.
    pub(super) fn give_up(&mut self, ctx: &mut Context<'_>, trouble: Trouble, now: u64) {
        let logging_in = self.wire.is_none();
        let busy = self.state == State::Busy;
        let encrypted = self.link.as_ref().is_some_and(Link::encrypted);
        if let Some(link) = self.link.take() {
            link.close(&ctx.registry);
        }
        if !logging_in {
            ctx.connected(now, -1);
        }
        self.login = None;
        self.wire = None;
        if busy {
            self.fail_transaction(ctx);
        }
        self.enter(State::Closed);

        let (code, error) = match trouble {
            Trouble::Lost { code, error } => (code, error),
            Trouble::Fatal(reason) => return ctx.shared.fail(reason, now),
        };
        match ctx.stage {
            Stage::Over => return,
            Stage::Connecting => {
                return self.could_not_connect(ctx, &error, logging_in, encrypted, now);
            }
            Stage::Running => {}
        }
        let class = if busy {
            self.class()
        } else {
            ctx.shared.script.ids.connect
        };
        ctx.tally.error(code, class);
        if self.lost_at.is_none() {
            self.lost_at = Some(now);
            lock(&ctx.shared.outage).lost(now);
        }
        // Bytes that make no sense are a fault of someone, not an outage.
        if !logging_in
            && let Cause::Wire(error) = &error
            && !matches!(error, WireError::Server(_))
        {
            let reason = format!(
                "{} ({})",
                error,
                ctx.shared.script.classes[usize::from(class)]
            );
            return ctx.shared.fail(reason, now);
        }
        // A server that refuses for good ends the cell; one that is full or not back yet does not.
        if logging_in
            && let Cause::Wire(error) = &error
            && !matches!(error, WireError::Server(e) if is_lost(e.code) || FULL.contains(&e.code))
        {
            let reason = format!("connecting again failed: {error}");
            return ctx.shared.fail(reason, now);
        }
        let most = u64::try_from(ctx.shared.spec.options.reconnect_backoff.0.as_nanos())
            .unwrap_or(u64::MAX);
        let pause = self.backoff.min(most.max(1_000_000));
        self.backoff = self.backoff.saturating_mul(2);
        // Up to a quarter more, by client, so that not all come back in the same instant.
        let spread = pause / 4 * u64::from(self.index % 16) / 16;
        self.enter(State::Backoff);
        self.wake_at(ctx, now + pause + spread);
    }

    /// Before the release: another address, no TLS, or the end.
    fn could_not_connect(
        &mut self,
        ctx: &mut Context<'_>,
        error: &Cause,
        logging_in: bool,
        encrypted: bool,
        now: u64,
    ) {
        let shared = ctx.shared;
        if encrypted
            && matches!(error, Cause::System(_))
            && shared.spec.endpoint.tls.mode == TlsMode::Preferred
        {
            shared.without_tls.store(true, Ordering::Relaxed);
            return self.connect(ctx, now);
        }
        if matches!(error, Cause::System(_)) && logging_in && self.peer + 1 < shared.peers.len() {
            self.peer += 1;
            return self.connect(ctx, now);
        }
        let clients = shared.spec.pace.clients();
        let address = shared.spec.endpoint.address.to_string();
        let client = self.index + 1;
        ctx.setup_failed(match error {
            Cause::Wire(error) => LoadError::Refused {
                client,
                clients,
                address,
                hint: super::hints::refused(error, clients),
                error: error.clone(),
            },
            Cause::System(error) => LoadError::Network {
                client,
                clients,
                address,
                hint: super::hints::network(error, clients),
                error: words(error),
            },
            Cause::TimedOut => LoadError::Network {
                client,
                clients,
                address,
                hint: String::new(),
                error: "timed out".into(),
            },
        });
    }
}

fn words(error: &std::io::Error) -> String {
    if error.kind() == ErrorKind::UnexpectedEof {
        "the server closed the connection".into()
    } else {
        error.to_string()
    }
}

/// The random stream number `index` of kind `kind` under `seed`.
///
/// Seeds go through the finaliser of `SplitMix64` (Steele, Lea, Flood 2014) so that neighbouring streams
/// have nothing in common.
pub(super) fn stream(seed: u64, kind: u64, index: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(mix(mix(mix(seed) ^ kind) ^ index))
}

fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
