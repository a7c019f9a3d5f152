//! A non-blocking socket, with or without TLS, under one `send` and one `receive`.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use mio::net::{TcpStream, UnixStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustls::ClientConnection;

use super::tls::TlsSetup;

/// Where a connection goes.
#[derive(Debug, Clone)]
pub(super) enum Peer {
    Tcp(SocketAddr),
    Socket(PathBuf),
}

/// One connection's transport. Bytes go straight into the socket; only what it does not take is kept.
#[derive(Debug)]
pub(super) struct Link {
    /// A TCP or a Unix socket. Read and written by rustix, whose system calls are bare: the C library's
    /// `send` and `recv` are points of thread cancellation and cost more than the rest of this module.
    socket: OwnedFd,
    token: Token,
    tls: Option<Box<ClientConnection>>,
    /// What the socket did not take.
    pending: Vec<u8>,
    writable: bool,
}

impl Link {
    /// Starts connecting. Readiness is reported under `token`; a `MySQL` server speaks first, so that being
    /// readable is also the sign of being connected.
    pub(super) fn connect(peer: &Peer, registry: &Registry, token: Token) -> io::Result<Self> {
        let socket = match peer {
            Peer::Tcp(address) => {
                let stream = TcpStream::connect(*address)?;
                // A query is one small packet that must not wait for the last one's acknowledgement.
                // Fails only when the connection already has, which reading reports better.
                let _ = stream.set_nodelay(true);
                OwnedFd::from(std::net::TcpStream::from(stream))
            }
            Peer::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                OwnedFd::from(std::os::unix::net::UnixStream::from(stream))
            }
        };
        // WRITABLE only while something is pending: a Unix socket would wake us at each read of the server.
        registry.register(
            &mut SourceFd(&socket.as_raw_fd()),
            token,
            Interest::READABLE,
        )?;
        Ok(Self {
            socket,
            token,
            tls: None,
            pending: Vec::new(),
            writable: false,
        })
    }

    /// Everything sent and received from now on is encrypted.
    pub(super) fn start_tls(&mut self, setup: &TlsSetup) -> io::Result<()> {
        let mut tls = ClientConnection::new(setup.config.clone(), setup.name.clone())
            .map_err(io::Error::other)?;
        // A statement may be larger than the default limit of 64 KiB.
        tls.set_buffer_limit(None);
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    /// TLS version and cipher; `None` without TLS or before its handshake.
    pub(super) fn cipher(&self) -> Option<String> {
        let tls = self.tls.as_ref()?;
        let version = match tls.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3".to_owned(),
            rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2".to_owned(),
            other => format!("{other:?}"),
        };
        let suite = tls.negotiated_cipher_suite()?.suite();
        Some(format!("{version} {}", suite.as_str().unwrap_or("?")))
    }

    /// Whether bytes are encrypted.
    pub(super) fn encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Sends `bytes`, or as much as the socket takes; the rest goes when it is writable.
    /// `scratch` holds the ciphertext meanwhile.
    #[inline]
    pub(super) fn send(
        &mut self,
        registry: &Registry,
        bytes: &[u8],
        scratch: &mut Vec<u8>,
    ) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.writer().write_all(bytes)?;
            return self.send_ciphertext(registry, scratch);
        }
        self.write(registry, bytes)
    }

    fn send_ciphertext(&mut self, registry: &Registry, scratch: &mut Vec<u8>) -> io::Result<()> {
        scratch.clear();
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                tls.write_tls(scratch)?;
            }
        }
        if scratch.is_empty() {
            return Ok(());
        }
        self.write(registry, scratch)
    }

    #[inline]
    fn write(&mut self, registry: &Registry, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        if self.pending.is_empty() {
            while !rest.is_empty() {
                match send(&self.socket, rest, SendFlags::NOSIGNAL) {
                    Ok(0) => return Err(ErrorKind::WriteZero.into()),
                    Ok(n) => rest = &rest[n..],
                    Err(Errno::INTR) => {}
                    // Not connected yet counts as not writable yet.
                    Err(Errno::AGAIN | Errno::NOTCONN) => break,
                    Err(e) => return Err(e.into()),
                }
            }
        }
        if rest.is_empty() {
            return Ok(());
        }
        self.keep(registry, rest)
    }

    /// What the socket did not take.
    #[cold]
    fn keep(&mut self, registry: &Registry, rest: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(rest);
        self.interest(registry, true)
    }

    /// Sends what is pending.
    pub(super) fn flush(&mut self, registry: &Registry) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(());
        }
        self.write(registry, &pending)?;
        if self.pending.is_empty() {
            self.interest(registry, false)?;
        }
        Ok(())
    }

    fn interest(&mut self, registry: &Registry, writable: bool) -> io::Result<()> {
        if self.writable == writable {
            return Ok(());
        }
        self.writable = writable;
        let interest = if writable {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        registry.reregister(
            &mut SourceFd(&self.socket.as_raw_fd()),
            self.token,
            interest,
        )
    }

    /// Reads once; 0 is the end of the stream, `None`: nothing there.
    #[inline]
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((n, _)) => return Ok(Some(n)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Decrypts a part of `ciphertext` into `plain`, which is replaced; advances `ciphertext`.
    /// Sends what TLS itself has to say.
    pub(super) fn decrypt(
        &mut self,
        registry: &Registry,
        ciphertext: &mut &[u8],
        plain: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> io::Result<()> {
        plain.clear();
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        tls.read_tls(ciphertext)?;
        let state = tls.process_new_packets().map_err(io::Error::other);
        if state.is_err() {
            // Sends the alert, as far as it goes.
            let _ = self.send_ciphertext(registry, scratch);
        }
        let available = state?.plaintext_bytes_to_read();
        if available > 0 {
            plain.resize(available, 0);
            tls_read(self.tls.as_mut(), plain)?;
        }
        if self.tls.as_ref().is_some_and(|tls| tls.wants_write()) {
            self.send_ciphertext(registry, scratch)?;
        }
        Ok(())
    }

    /// Stops watching and closes.
    pub(super) fn close(self, registry: &Registry) {
        // Closing the descriptor ends the watch anyway.
        let _ = registry.deregister(&mut SourceFd(&self.socket.as_raw_fd()));
    }
}

fn tls_read(tls: Option<&mut Box<ClientConnection>>, plain: &mut [u8]) -> io::Result<()> {
    match tls {
        Some(tls) => tls.reader().read_exact(plain),
        None => Ok(()),
    }
}
