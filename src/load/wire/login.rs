//! From the server's greeting to a connection that takes commands.

use std::collections::HashMap;

use mysql_common::constants::{CapabilityFlags, MariadbCapabilities};
use mysql_common::io::ParseBuf;
use mysql_common::packets::{AuthPlugin, HandshakePacket, HandshakeResponse, SslRequest};
use mysql_common::proto::{MyDeserialize, MySerialize};

use super::command::{finish, start};
use super::error::{ServerError, WireError};
use super::frame::{Frames, Packet};

/// Largest packet that the client announces: 64 MiB, more than any statement of a workload.
const MAX_PACKET: u32 = 1 << 26;
/// `utf8mb4_general_ci`, known to every server from 5.5.3 on.
const COLLATION: u8 = 45;

/// What every connection of a load logs in with.
#[derive(Debug, Clone)]
pub(crate) struct LoginConfig {
    /// Account.
    pub(crate) user: String,
    /// Its password.
    pub(crate) password: crate::target::Secret,
    /// Default database.
    pub(crate) database: Option<String>,
}

/// Whether to encrypt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encrypt {
    Never,
    IfOffered,
    Always,
}

/// What the caller does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LoginStep {
    /// Send what was written, wait for the answer.
    Continue,
    /// Send what was written, start TLS, then call [`Login::secured`].
    StartTls,
    /// Commands may be sent.
    Done(Session),
}

/// What was agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Session {
    /// The server's number of this connection, for KILL.
    pub(crate) connection_id: u32,
    /// `CLIENT_DEPRECATE_EOF`.
    pub(crate) deprecate_eof: bool,
    /// `MARIADB_CLIENT_CACHE_METADATA`.
    pub(crate) cache_metadata: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Greeting,
    /// The request for TLS is written, the caller sets it up.
    Securing,
    Authenticating,
    /// `caching_sha2_password`: the server's public key is on its way.
    PublicKey,
}

/// One login.
#[derive(Debug)]
pub(crate) struct Login {
    frames: Frames,
    state: State,
    encrypt: Encrypt,
    /// Nobody can listen: TLS, or a Unix socket.
    private: bool,
    plugin: AuthPlugin<'static>,
    nonce: Vec<u8>,
    capabilities: CapabilityFlags,
    extended: MariadbCapabilities,
    connection_id: u32,
    sequence: u8,
}

impl Login {
    /// Waits for the greeting. `private`: the connection is a Unix socket.
    pub(crate) fn new(encrypt: Encrypt, private: bool) -> Self {
        Self {
            frames: Frames::default(),
            state: State::Greeting,
            encrypt,
            private,
            plugin: AuthPlugin::MysqlNativePassword,
            nonce: Vec::new(),
            capabilities: CapabilityFlags::empty(),
            extended: MariadbCapabilities::empty(),
            connection_id: 0,
            sequence: 0,
        }
    }

    /// The rest of the stream, once [`LoginStep::Done`] was returned.
    pub(crate) fn into_frames(self) -> Frames {
        self.frames
    }

    /// Reads on and appends to `out` what is to be sent. `Ok(None)`: more bytes are needed.
    ///
    /// # Errors
    /// The server's refusal, or what it is that is not supported.
    pub(crate) fn feed(
        &mut self,
        input: &mut &[u8],
        config: &LoginConfig,
        out: &mut Vec<u8>,
    ) -> Result<Option<LoginStep>, WireError> {
        let mut frames = std::mem::take(&mut self.frames);
        let step = match frames.next(input) {
            Some(packet) => self.packet(packet, config, out).map(Some),
            None => Ok(None),
        };
        self.frames = frames;
        step
    }

    /// TLS is set up (bytes written from now on are encrypted): log in.
    pub(crate) fn secured(&mut self, config: &LoginConfig, out: &mut Vec<u8>) {
        self.private = true;
        self.respond(config, out);
    }

    fn packet(
        &mut self,
        packet: Packet<'_>,
        config: &LoginConfig,
        out: &mut Vec<u8>,
    ) -> Result<LoginStep, WireError> {
        let &first = packet
            .head
            .first()
            .ok_or(WireError::Malformed("empty packet"))?;
        if first == 0xff {
            return Err(WireError::Server(ServerError::parse(packet.head)?));
        }
        self.sequence = packet.sequence.wrapping_add(1);
        match (self.state, first) {
            (State::Greeting, _) => self.greeting(packet.head, config, out),
            (State::Securing, _) => Err(WireError::Unexpected(first)),
            (_, 0x00) => Ok(LoginStep::Done(Session {
                connection_id: self.connection_id,
                deprecate_eof: self
                    .capabilities
                    .contains(CapabilityFlags::CLIENT_DEPRECATE_EOF),
                cache_metadata: self
                    .extended
                    .contains(MariadbCapabilities::MARIADB_CLIENT_CACHE_METADATA),
            })),
            (_, 0xfe) => self.switch(&packet.head[1..], config, out),
            (_, 0x01) => self.more(&packet.head[1..], config, out),
            _ => Err(WireError::Unexpected(first)),
        }
    }

    fn greeting(
        &mut self,
        payload: &[u8],
        config: &LoginConfig,
        out: &mut Vec<u8>,
    ) -> Result<LoginStep, WireError> {
        let malformed = WireError::Malformed("greeting");
        if payload[0] != 10 {
            return Err(WireError::Protocol(payload[0]));
        }
        // The length of the nonce stands 21 bytes behind the version; mysql_common computes with it
        // as a signed byte and overflows above 127.
        let version = payload
            .iter()
            .position(|&b| b == 0)
            .ok_or(malformed.clone())?;
        if payload.get(version + 21).is_none_or(|&len| len > 127) {
            return Err(malformed);
        }
        let handshake =
            HandshakePacket::deserialize((), &mut ParseBuf(payload)).map_err(|_| malformed)?;
        let server = handshake.capabilities();
        if !server.contains(
            CapabilityFlags::CLIENT_PROTOCOL_41 | CapabilityFlags::CLIENT_SECURE_CONNECTION,
        ) {
            return Err(WireError::Protocol(9));
        }
        self.connection_id = handshake.connection_id();
        self.nonce = handshake.nonce();
        self.plugin = handshake
            .auth_plugin()
            .map_or(AuthPlugin::MysqlNativePassword, AuthPlugin::into_owned);

        let mut wanted = CapabilityFlags::CLIENT_LONG_PASSWORD
            | CapabilityFlags::CLIENT_LONG_FLAG
            | CapabilityFlags::CLIENT_PROTOCOL_41
            | CapabilityFlags::CLIENT_TRANSACTIONS
            | CapabilityFlags::CLIENT_SECURE_CONNECTION
            | CapabilityFlags::CLIENT_MULTI_RESULTS
            | CapabilityFlags::CLIENT_PS_MULTI_RESULTS
            | CapabilityFlags::CLIENT_PLUGIN_AUTH
            | CapabilityFlags::CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
            | CapabilityFlags::CLIENT_CONNECT_ATTRS
            | CapabilityFlags::CLIENT_DEPRECATE_EOF;
        if config.database.is_some() {
            wanted |= CapabilityFlags::CLIENT_CONNECT_WITH_DB;
        }
        let tls = match self.encrypt {
            Encrypt::Never => false,
            Encrypt::IfOffered => server.contains(CapabilityFlags::CLIENT_SSL),
            Encrypt::Always if server.contains(CapabilityFlags::CLIENT_SSL) => true,
            Encrypt::Always => return Err(WireError::NoTls),
        };
        if tls {
            wanted |= CapabilityFlags::CLIENT_SSL;
        }
        self.capabilities = wanted & server;
        // Extended capabilities count only for a MariaDB server, which shows itself by leaving out
        // the flag that once meant "long password". Without definitions in every answer it has less
        // to send; only together with the new EOF, where no packet is left in doubt.
        if !server.contains(CapabilityFlags::CLIENT_LONG_PASSWORD)
            && self
                .capabilities
                .contains(CapabilityFlags::CLIENT_DEPRECATE_EOF)
        {
            self.extended = handshake.mariadb_ext_capabilities()
                & MariadbCapabilities::MARIADB_CLIENT_CACHE_METADATA;
        }
        if tls {
            let at = start(out);
            SslRequest::new(self.capabilities, MAX_PACKET, COLLATION)
                .with_mariadb_capabilities(self.extended)
                .serialize(out);
            finish(out, at, self.sequence);
            self.sequence = self.sequence.wrapping_add(1);
            self.state = State::Securing;
            return Ok(LoginStep::StartTls);
        }
        self.respond(config, out);
        Ok(LoginStep::Continue)
    }

    fn respond(&mut self, config: &LoginConfig, out: &mut Vec<u8>) {
        // A default plugin of the server that we do not know is no obstacle yet: it may switch.
        let plugin = match &self.plugin {
            AuthPlugin::CachingSha2Password => AuthPlugin::CachingSha2Password,
            AuthPlugin::Ed25519 => AuthPlugin::Ed25519,
            AuthPlugin::MysqlClearPassword if self.private => AuthPlugin::MysqlClearPassword,
            _ => AuthPlugin::MysqlNativePassword,
        };
        let proof = proof(&plugin, config.password.reveal(), &self.nonce);
        let attributes = self
            .capabilities
            .contains(CapabilityFlags::CLIENT_CONNECT_ATTRS)
            .then(|| HashMap::from([(String::from("program_name"), String::from("capbench"))]));
        let response = HandshakeResponse::new(
            Some(proof),
            (5, 5, 3),
            Some(config.user.as_bytes()),
            config.database.as_ref().map(String::as_bytes),
            self.capabilities
                .contains(CapabilityFlags::CLIENT_PLUGIN_AUTH)
                .then_some(plugin),
            self.capabilities,
            attributes,
            MAX_PACKET,
        )
        .with_mariadb_ext_capabilities(self.extended);
        self.send(out, |out| response.serialize(out));
        self.state = State::Authenticating;
    }

    fn switch(
        &mut self,
        body: &[u8],
        config: &LoginConfig,
        out: &mut Vec<u8>,
    ) -> Result<LoginStep, WireError> {
        if body.is_empty() {
            return Err(WireError::Plugin("mysql_old_password".into()));
        }
        let end = body
            .iter()
            .position(|&b| b == 0)
            .ok_or(WireError::Malformed("request to switch the plugin"))?;
        let (name, nonce) = (&body[..end], &body[end + 1..]);
        self.plugin = AuthPlugin::from_bytes(name).into_owned();
        self.nonce = unterminated(nonce).to_vec();
        let name = String::from_utf8_lossy(name);
        match &self.plugin {
            AuthPlugin::MysqlNativePassword
            | AuthPlugin::CachingSha2Password
            | AuthPlugin::Ed25519 => {}
            AuthPlugin::MysqlClearPassword if self.private => {}
            AuthPlugin::MysqlClearPassword => return Err(WireError::ClearText(name.into())),
            _ => return Err(WireError::Plugin(name.into())),
        }
        let proof = proof(&self.plugin, config.password.reveal(), &self.nonce);
        self.send(out, |out| out.extend_from_slice(&proof));
        Ok(LoginStep::Continue)
    }

    /// `caching_sha2_password` goes on: 3 means known, 4 means that it needs the password itself.
    fn more(
        &mut self,
        body: &[u8],
        config: &LoginConfig,
        out: &mut Vec<u8>,
    ) -> Result<LoginStep, WireError> {
        if self.plugin != AuthPlugin::CachingSha2Password {
            return Err(WireError::Malformed("authentication data"));
        }
        match (self.state, body) {
            (State::PublicKey, key) => {
                let secret = encrypt(config.password.reveal(), &self.nonce, key)
                    .ok_or(WireError::PublicKey)?;
                self.send(out, |out| out.extend_from_slice(&secret));
                self.state = State::Authenticating;
            }
            (_, [3]) => {}
            (_, [4]) if self.private => {
                self.send(out, |out| {
                    out.extend_from_slice(config.password.reveal().as_bytes());
                    out.push(0);
                });
            }
            (_, [4]) => {
                self.send(out, |out| out.push(2));
                self.state = State::PublicKey;
            }
            _ => return Err(WireError::Malformed("authentication data")),
        }
        Ok(LoginStep::Continue)
    }

    fn send(&mut self, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
        let at = start(out);
        body(out);
        finish(out, at, self.sequence);
        self.sequence = self.sequence.wrapping_add(1);
    }
}

/// What proves the password to `plugin`; empty for an empty password.
fn proof(plugin: &AuthPlugin<'_>, password: &str, nonce: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(data) = plugin.gen_data(Some(password), nonce) {
        data.serialize(&mut bytes);
    } else if matches!(plugin, AuthPlugin::MysqlClearPassword) {
        bytes.push(0);
    }
    bytes
}

/// The nonce of an authentication switch. The 20 bytes of native and sha2 end with a zero byte that is not
/// theirs; the 32 bytes of ed25519 end with none, so that a zero at their end belongs to them.
fn unterminated(nonce: &[u8]) -> &[u8] {
    match nonce {
        [scramble @ .., 0] if nonce.len() == 21 => scramble,
        _ => nonce,
    }
}

/// The password, masked with the nonce and encrypted with the server's key; `None`: the key is unusable.
fn encrypt(password: &str, nonce: &[u8], pem: &[u8]) -> Option<Vec<u8>> {
    if nonce.is_empty() || !usable(pem, password.len() + 1) {
        return None;
    }
    let masked: Vec<u8> = password
        .bytes()
        .chain([0])
        .zip(nonce.iter().cycle())
        .map(|(a, b)| a ^ b)
        .collect();
    // mysql_common panics on a key that it cannot read; `usable` keeps such keys out, and this
    // keeps what it missed from ending the worker.
    std::panic::catch_unwind(|| mysql_common::crypto::encrypt(&masked, pem)).ok()
}

/// Whether `pem` is a public key in the form that `MySQL` sends, long enough for `len` bytes in OAEP padding.
fn usable(pem: &[u8], len: usize) -> bool {
    let mut reader = pem;
    let Some(Ok(rustls_pemfile::Item::SubjectPublicKeyInfo(key))) =
        rustls_pemfile::read_all(&mut reader).next()
    else {
        return false;
    };
    // SubjectPublicKeyInfo: SEQUENCE, SEQUENCE (algorithm), BIT STRING (modulus, exponent).
    // 42 bytes of padding (RFC 3447, 7.1.1, SHA-1), the rest is at least the modulus.
    let key: &[u8] = key.as_ref();
    key.first() == Some(&0x30)
        && key.len() > len + 42 + 40
        && key
            .windows(11)
            .any(|w| w == b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01")
}

#[cfg(test)]
mod nonce_tests {
    use super::unterminated;

    #[test]
    fn a_zero_at_the_end_of_an_ed25519_nonce_is_part_of_it() {
        let mut ed25519 = [7_u8; 32];
        ed25519[31] = 0;
        assert_eq!(unterminated(&ed25519), ed25519);
        let mut native = [7_u8; 21];
        native[20] = 0;
        assert_eq!(unterminated(&native), [7_u8; 20]);
        assert_eq!(unterminated(&[7; 20]), [7_u8; 20]);
        assert_eq!(unterminated(&[]), [0_u8; 0]);
    }
}
