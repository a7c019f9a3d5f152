//! How to reach the server: address, account and TLS, with the password in hand.

use std::fmt;
use std::time::Duration;

use mysql::{Opts, OptsBuilder, SslOpts};

use crate::interrupt::Interrupt;
use crate::plan::{Address, Tls, TlsMode};

/// A password. Never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a password.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The password itself, for authentication only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Everything a connection needs.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// TCP address or socket.
    pub address: Address,
    /// Account name.
    pub user: String,
    /// Its password.
    pub password: Secret,
    /// Default database; `None` for connections that create it.
    pub database: Option<String>,
    /// Transport security.
    pub tls: Tls,
    /// Time limit for connecting.
    pub connect_timeout: Duration,
    /// The wish to end that cuts a wait for the server short.
    pub interrupt: Interrupt,
}

impl Endpoint {
    /// Options for a control connection of the `mysql` crate. [`TlsMode::Preferred`] asks for TLS here only
    /// when `tls` says so; the caller tries again without.
    pub fn opts(&self, tls: bool) -> Opts {
        let builder = OptsBuilder::new()
            .user(Some(&self.user))
            .pass(Some(self.password.reveal()))
            .db_name(self.database.as_deref())
            .prefer_socket(false)
            .tcp_connect_timeout(Some(self.connect_timeout));
        let builder = match &self.address {
            Address::Tcp { host, port } => builder.ip_or_hostname(Some(host)).tcp_port(*port),
            Address::Socket(path) => builder.socket(Some(path.to_string_lossy())),
        };
        let ssl = (tls && self.tls.mode != TlsMode::Disabled).then(|| {
            let mut ssl = SslOpts::default().with_root_cert_path(self.tls.ca.clone());
            match self.tls.mode {
                TlsMode::VerifyIdentity => {}
                TlsMode::VerifyCa => ssl = ssl.with_danger_skip_domain_validation(true),
                _ => {
                    ssl = ssl
                        .with_danger_skip_domain_validation(true)
                        .with_danger_accept_invalid_certs(true);
                }
            }
            ssl
        });
        builder.ssl_opts(ssl).into()
    }
}
