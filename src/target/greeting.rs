//! What a server says before anybody logs in: its version, and with it its family.

use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::TargetError;
use crate::plan::{Address, Place, Plan};
use crate::record::Flavour;

/// No greeting is longer than this.
const LONGEST: usize = 512;

/// Asks the plan's server for its family, without any account: before the accounts exist, that is all
/// that can be asked.
///
/// # Errors
/// The server does not answer, or not as a MySQL or MariaDB server does.
pub fn flavour_of(plan: &Plan) -> Result<Flavour, TargetError> {
    let address = match &plan.target.place {
        Place::Server(place) => &place.address,
        // A private server makes its own accounts, whatever its family.
        Place::Managed(_) => return Ok(Flavour::MariaDb),
    };
    let timeout = plan.target.connect_timeout.0;
    let failed = |reason: String| {
        TargetError::Lost(format!(
            "cannot ask {address} for its family: {reason}\nhint: state it: --flavour mysql or --flavour mariadb"
        ))
    };
    let greeting = read(address, timeout).map_err(|error| failed(error.to_string()))?;
    flavour(&greeting)
        .ok_or_else(|| failed("its answer is not that of a MySQL or MariaDB server".into()))
}

fn read(address: &Address, timeout: Duration) -> io::Result<Vec<u8>> {
    match address {
        Address::Socket(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(timeout))?;
            first_packet(stream)
        }
        Address::Tcp { host, port } => {
            let mut last = io::Error::from(io::ErrorKind::NotFound);
            for candidate in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&candidate, timeout) {
                    Ok(stream) => {
                        stream.set_read_timeout(Some(timeout))?;
                        return first_packet(stream);
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

/// The payload of the first packet: three bytes of length, one of sequence, then the greeting.
fn first_packet(mut stream: impl Read) -> io::Result<Vec<u8>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let length =
        usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
    let mut payload = vec![0; length.min(LONGEST)];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

/// Protocol version 10, then the server's version up to a zero byte. `None` for anything else, such as an
/// error packet ("host is blocked", "too many connections").
fn flavour(greeting: &[u8]) -> Option<Flavour> {
    let (10, rest) = greeting.split_first()? else {
        return None;
    };
    let version = rest.split(|byte| *byte == 0).next()?;
    let version = String::from_utf8_lossy(version);
    Some(if version.to_ascii_lowercase().contains("mariadb") {
        Flavour::MariaDb
    } else {
        Flavour::MySql
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greeting_tells_the_family() {
        assert_eq!(
            flavour(b"\x0a5.5.5-10.11.19-MariaDB-0+deb12u1\0rest"),
            Some(Flavour::MariaDb)
        );
        assert_eq!(flavour(b"\x0a9.7.4-2\0rest"), Some(Flavour::MySql));
        assert_eq!(flavour(b"\xff\x10\x04Too many connections"), None);
        assert_eq!(flavour(b""), None);
    }

    #[test]
    fn a_packet_is_read_by_its_length() {
        let bytes = b"\x03\x00\x00\x00\x0aab and more";
        assert_eq!(first_packet(&bytes[..]).unwrap(), b"\x0aab");
        assert!(first_packet(&b"\x09\x00\x00\x00ab"[..]).is_err());
    }
}
