//! What can be wrong on the wire.

use std::fmt;

/// An error packet of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// Error code, for example 1213.
    pub code: u16,
    /// SQL state, five characters; `None` when the server sent none (before authentication).
    pub state: Option<String>,
    /// The server's words.
    pub message: String,
}

impl ServerError {
    /// Reads the payload of an error packet (first byte 0xFF).
    ///
    /// # Errors
    /// [`WireError::Malformed`] when it is too short to hold a code.
    pub(crate) fn parse(payload: &[u8]) -> Result<Self, WireError> {
        let [_, low, high, rest @ ..] = payload else {
            return Err(WireError::Malformed("error packet"));
        };
        let (state, message) = match rest {
            [b'#', state @ ..] if state.len() >= 5 => {
                let (state, message) = state.split_at(5);
                (Some(String::from_utf8_lossy(state).into_owned()), message)
            }
            _ => (None, rest),
        };
        Ok(Self {
            code: u16::from_le_bytes([*low, *high]),
            state,
            message: String::from_utf8_lossy(message).into_owned(),
        })
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERROR {}", self.code)?;
        if let Some(state) = &self.state {
            write!(f, " ({state})")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Bytes that the protocol does not allow, or a server that cannot be talked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A packet is too short or says what it may not say here.
    #[error("malformed {0} from the server")]
    Malformed(&'static str),
    /// A packet came that nothing asked for.
    #[error("the server sent a packet (first byte {0:#04x}) that no command asked for")]
    Unexpected(u8),
    /// Packets were lost or doubled.
    #[error("packets out of order: expected number {expected}, got {got}")]
    Sequence {
        /// Number that is due.
        expected: u8,
        /// Number that came.
        got: u8,
    },
    /// The server asks for a local file (LOAD DATA LOCAL), which a workload may not do.
    #[error("the server asked for a local file; LOAD DATA LOCAL is not supported in a workload")]
    LocalInfile,
    /// Protocol version other than 10, or a server without the 4.1 protocol.
    #[error("the server speaks protocol {0}; capbench needs protocol 10 (MySQL 4.1 or later)")]
    Protocol(u8),
    /// The account uses an authentication plugin that is not supported.
    #[error(
        "the account uses the authentication plugin `{0}`, which capbench does not support\nhint: \
         use an account with caching_sha2_password, mysql_native_password or ed25519"
    )]
    Plugin(String),
    /// The account's plugin wants the password in clear text over an unencrypted connection.
    #[error(
        "the plugin `{0}` would send the password in clear text over an unencrypted connection\nhint: \
         set tls mode to \"required\", or connect by socket"
    )]
    ClearText(String),
    /// The public key for the password exchange could not be used.
    #[error("the server's RSA public key for the password exchange cannot be used")]
    PublicKey,
    /// TLS was required and the server has none.
    #[error(
        "the server does not offer TLS\nhint: enable TLS on the server, or set tls mode to \
         \"preferred\" or \"disabled\""
    )]
    NoTls,
    /// The server refused.
    #[error("{0}")]
    Server(ServerError),
}
