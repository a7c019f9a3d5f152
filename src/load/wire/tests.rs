//! Whole conversations, cut at every byte, and bytes that make no sense.

use proptest::prelude::*;

use super::command::{finish, start};
use super::fuzz::survive;
use super::login::{Encrypt, Login, LoginConfig, LoginStep};
use super::{Answer, ServerError, Wire, WireError};
use crate::target::Secret;

/// Packets numbered from `first`.
fn packets(first: u8, payloads: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for (sequence, payload) in (first..).zip(payloads) {
        let at = start(&mut out);
        out.extend_from_slice(payload);
        finish(&mut out, at, sequence);
    }
    out
}

/// A greeting of `MySQL` 8 or later: all capabilities, or without `CLIENT_DEPRECATE_EOF` (5.6), or `MariaDB`'s.
fn greeting(kind: Kind, plugin: &str) -> Vec<u8> {
    let mut out = vec![10];
    out.extend_from_slice(match kind {
        Kind::MySql => b"9.7.0\0",
        Kind::Old => b"5.6.24\0",
        Kind::MariaDb => b"5.5.5-10.11.6-MariaDB\0",
    });
    out.extend_from_slice(&77u32.to_le_bytes());
    out.extend_from_slice(b"abcdefgh\0");
    let mut capabilities: u32 = 0xffff_ffff;
    if kind == Kind::Old {
        capabilities &= !(1 << 24);
    }
    if kind == Kind::MariaDb {
        capabilities &= !1;
    }
    if kind != Kind::MySql {
        capabilities &= !(1 << 11);
    }
    let [a, b, c, d] = capabilities.to_le_bytes();
    out.extend_from_slice(&[a, b, 45, 2, 0, c, d, 21]);
    out.extend_from_slice(&[0; 6]);
    let extended: u32 = if kind == Kind::MariaDb { 0x1f } else { 0 };
    out.extend_from_slice(&extended.to_le_bytes());
    out.extend_from_slice(b"ijklmnopqrst\0");
    out.extend_from_slice(plugin.as_bytes());
    out.push(0);
    out
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    MySql,
    Old,
    MariaDb,
}

fn config() -> LoginConfig {
    LoginConfig {
        user: "bench".into(),
        password: Secret::new("secret".into()),
        database: Some("db".into()),
    }
}

/// Feeds `bytes` in two pieces, cut at `cut`, until login is done; what was sent, and the rest.
fn log_in(
    encrypt: Encrypt,
    private: bool,
    bytes: &[u8],
    cut: usize,
) -> Result<(Option<Wire>, Vec<u8>), WireError> {
    let mut login = Login::new(encrypt, private);
    let mut sent = Vec::new();
    for mut piece in [&bytes[..cut], &bytes[cut..]] {
        while !piece.is_empty() {
            match login.feed(&mut piece, &config(), &mut sent)? {
                None | Some(LoginStep::Continue) => {}
                Some(LoginStep::StartTls) => login.secured(&config(), &mut sent),
                Some(LoginStep::Done(session)) => {
                    let wire = Wire::new(login.into_frames(), session);
                    return Ok((Some(wire), sent));
                }
            }
        }
    }
    Ok((None, sent))
}

const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

#[test]
fn logins_survive_any_cut() {
    for (kind, plugin) in [
        (Kind::MySql, "caching_sha2_password"),
        (Kind::Old, "mysql_native_password"),
        (Kind::MariaDb, "mysql_native_password"),
    ] {
        let mut bytes = packets(0, &[&greeting(kind, plugin)]);
        bytes.extend(packets(
            2,
            &[b"\xfemysql_native_password\0tsrqponmlkjihgfedcba\0"],
        ));
        bytes.extend(packets(4, &[OK]));
        let (_, whole) = log_in(Encrypt::Never, false, &bytes, 0).unwrap();
        // The account, the database and the plugin's name, never the password.
        let text = String::from_utf8_lossy(&whole);
        assert!(text.contains("bench\0") && text.contains("db\0") && !text.contains("secret"));
        for cut in 0..=bytes.len() {
            let (wire, sent) = log_in(Encrypt::Never, false, &bytes, cut).unwrap();
            assert!(wire.is_some());
            // Connection attributes have no order; there is one.
            assert_eq!(sent, whole);
        }
    }
}

#[test]
fn the_password_goes_in_the_clear_only_where_nobody_listens() {
    let full = |encrypt, private| {
        let sequence = if encrypt == Encrypt::Never { 2 } else { 3 };
        let mut bytes = packets(0, &[&greeting(Kind::MySql, "caching_sha2_password")]);
        bytes.extend(packets(sequence, &[&[1, 4]]));
        let (_, sent) = log_in(encrypt, private, &bytes, 0).unwrap();
        sent
    };
    let tail = |sent: &[u8]| sent[sent.len() - 7..].to_vec();
    // A socket and TLS: the password itself. Plain TCP: the request for the public key.
    assert_eq!(tail(&full(Encrypt::Never, true)), b"secret\0");
    assert_eq!(tail(&full(Encrypt::Always, false)), b"secret\0");
    let plain = full(Encrypt::Never, false);
    assert!(plain.ends_with(&[1, 0, 0, 3, 2]));

    // The request for TLS carries the same capabilities as the response.
    let secured = full(Encrypt::IfOffered, false);
    assert_eq!(secured[..4], [32, 0, 0, 1]);
    assert_eq!(secured[4..8], secured[40..44]);

    let mut bytes = packets(0, &[&greeting(Kind::MySql, "mysql_native_password")]);
    bytes.extend(packets(2, &[b"\xfemysql_clear_password\0\0"]));
    let refused = log_in(Encrypt::Never, false, &bytes, 0).unwrap_err();
    assert_eq!(refused, WireError::ClearText("mysql_clear_password".into()));
    assert!(log_in(Encrypt::Never, true, &bytes, 0).is_ok());
}

#[test]
fn what_cannot_be_done_is_said() {
    let old = packets(0, &[&greeting(Kind::Old, "mysql_native_password")]);
    assert_eq!(
        log_in(Encrypt::Always, false, &old, 0).unwrap_err(),
        WireError::NoTls
    );
    let mut switch = packets(0, &[&greeting(Kind::MySql, "mysql_native_password")]);
    switch.extend(packets(2, &[b"\xfeauthentication_ldap\0\0"]));
    let plugin = log_in(Encrypt::Never, false, &switch, 0).unwrap_err();
    assert_eq!(plugin, WireError::Plugin("authentication_ldap".into()));
    let full = packets(0, &[b"\xff\x10\x04Too many connections"]);
    let WireError::Server(error) = log_in(Encrypt::Never, false, &full, 0).unwrap_err() else {
        panic!("the server's words");
    };
    assert_eq!(
        (error.code, error.message.as_str()),
        (1040, "Too many connections")
    );
    let mut key = packets(0, &[&greeting(Kind::MySql, "caching_sha2_password")]);
    key.extend(packets(2, &[&[1, 4]]));
    key.extend(packets(
        4,
        &[b"\x01-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"],
    ));
    assert_eq!(
        log_in(Encrypt::Never, false, &key, 0).unwrap_err(),
        WireError::PublicKey
    );
}

fn session(kind: Kind) -> Wire {
    let mut bytes = packets(0, &[&greeting(kind, "mysql_native_password")]);
    bytes.extend(packets(2, &[OK]));
    log_in(Encrypt::Never, false, &bytes, 0).unwrap().0.unwrap()
}

/// Feeds `bytes` in pieces; the answer and how many bytes were left.
fn ask(wire: &mut Wire, pieces: &[&[u8]]) -> Result<Option<Answer>, WireError> {
    for piece in pieces {
        let mut input = *piece;
        if let Some(answer) = wire.feed(&mut input)? {
            assert!(input.is_empty());
            return Ok(Some(answer));
        }
        assert!(input.is_empty());
    }
    Ok(None)
}

const COLUMN: &[u8] = b"\x03def\x02db\x01t\x01t\x01c\x01c\x0c\x2d\0\x78\0\0\0\xfe\0\0\0\0\0";
const OLD_EOF: &[u8] = &[0xfe, 0, 0, 2, 0];
const NEW_EOF: &[u8] = &[0xfe, 0, 0, 2, 0, 0, 0];

/// An answer with two rows in the way of `kind`.
fn rows(kind: Kind, columns_follow: bool) -> Vec<u8> {
    let row: &[u8] = b"\0\0\x05hello";
    let mut parts: Vec<&[u8]> = match (kind, columns_follow) {
        (Kind::MariaDb, true) => vec![&[1, 1], COLUMN],
        (Kind::MariaDb, false) => vec![&[1, 0]],
        (Kind::Old, _) => vec![&[1], COLUMN, OLD_EOF],
        (Kind::MySql, _) => vec![&[1], COLUMN],
    };
    parts.extend([row, row]);
    parts.push(if kind == Kind::Old { OLD_EOF } else { NEW_EOF });
    packets(1, &parts)
}

#[test]
fn answers_survive_any_cut() {
    let done = |result_set, affected| Answer::Done {
        result_set,
        affected,
    };
    let refused = Answer::Refused(Box::new(ServerError {
        code: 1213,
        state: Some("40001".into()),
        message: "Deadlock".into(),
    }));
    for kind in [Kind::MySql, Kind::Old, Kind::MariaDb] {
        let mut conversations = vec![
            (packets(1, &[OK]), done(false, 0)),
            (packets(1, &[&[0, 3, 0, 2, 0, 0, 0]]), done(false, 3)),
            (
                packets(1, &[&[0, 0xfc, 0, 1, 0, 2, 0, 0, 0]]),
                done(false, 256),
            ),
            (
                packets(1, &[b"\xff\xbd\x04#40001Deadlock"]),
                refused.clone(),
            ),
            (rows(kind, true), done(true, 0)),
        ];
        if kind == Kind::MariaDb {
            conversations.push((rows(kind, false), done(true, 0)));
        }
        // A procedure: rows, then an OK with affected rows.
        let mut two = rows(kind, true);
        let flags = if kind == Kind::Old {
            two.len() - 2
        } else {
            two.len() - 4
        };
        two[flags] |= 8;
        let next = two[..]
            .iter()
            .rev()
            .nth(if kind == Kind::Old { 5 } else { 7 })
            .unwrap()
            + 1;
        two.extend(packets(next, &[&[0, 2, 0, 2, 0, 0, 0]]));
        conversations.push((two, done(true, 2)));
        for (bytes, answer) in conversations {
            for cut in 0..=bytes.len() {
                let mut wire = session(kind);
                wire.expect_result();
                let seen = ask(&mut wire, &[&bytes[..cut], &bytes[cut..]]);
                assert_eq!(seen, Ok(Some(answer.clone())), "{kind:?} cut at {cut}");
                // The connection takes the next command.
                wire.expect_result();
                assert_eq!(
                    ask(&mut wire, &[&packets(1, &[OK])]),
                    Ok(Some(done(false, 0)))
                );
            }
            // And one byte at a time.
            let mut wire = session(kind);
            wire.expect_result();
            let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(ask(&mut wire, &pieces), Ok(Some(answer)));
        }
        // Two parameters, one column.
        let head: &[u8] = &[0, 9, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0];
        let parts: &[&[u8]] = if kind == Kind::Old {
            &[head, COLUMN, COLUMN, OLD_EOF, COLUMN, OLD_EOF]
        } else {
            &[head, COLUMN, COLUMN, COLUMN]
        };
        let bytes = packets(1, parts);
        for cut in 0..=bytes.len() {
            let mut wire = session(kind);
            wire.expect_prepared();
            let seen = ask(&mut wire, &[&bytes[..cut], &bytes[cut..]]);
            assert_eq!(
                seen,
                Ok(Some(Answer::Prepared {
                    id: 9,
                    parameters: 2
                }))
            );
        }
    }
}

#[test]
fn an_error_in_the_middle_of_rows_is_the_answer() {
    let mut wire = session(Kind::MySql);
    wire.expect_result();
    let bytes = packets(
        1,
        &[&[1], COLUMN, b"\0\0\x01a", b"\xff\x25\x05#70100interrupted"],
    );
    let Ok(Some(Answer::Refused(error))) = ask(&mut wire, &[&bytes]) else {
        panic!("an error");
    };
    assert_eq!(error.code, 1317);
}

#[test]
fn a_row_that_starts_with_16_mib_is_no_end() {
    for kind in [Kind::MySql, Kind::Old] {
        let mut row = vec![0xfe];
        let len = 0x100_0000u64;
        row.extend_from_slice(&len.to_le_bytes());
        row.resize(9 + 0x100_0000, b'x');
        let mut parts: Vec<&[u8]> = if kind == Kind::Old {
            vec![&[1], COLUMN, OLD_EOF]
        } else {
            vec![&[1], COLUMN]
        };
        let first = u8::try_from(parts.len()).unwrap() + 1;
        let mut bytes = packets(1, &parts);
        bytes.extend(packets(first, &[&row]));
        parts = vec![if kind == Kind::Old { OLD_EOF } else { NEW_EOF }];
        // The row took two packets.
        bytes.extend(packets(first + 2, &parts));
        let mut wire = session(kind);
        wire.expect_result();
        let seen = ask(&mut wire, &bytes.chunks(1_000_003).collect::<Vec<_>>());
        assert_eq!(
            seen,
            Ok(Some(Answer::Done {
                result_set: true,
                affected: 0
            }))
        );
    }
}

#[test]
fn a_connection_out_of_step_is_noticed() {
    let mut wire = session(Kind::MySql);
    wire.expect_result();
    assert_eq!(
        ask(&mut wire, &[&packets(2, &[OK])]),
        Err(WireError::Sequence {
            expected: 1,
            got: 2
        })
    );
    // Nothing was asked.
    let mut wire = session(Kind::MySql);
    assert_eq!(
        ask(&mut wire, &[&packets(1, &[OK])]),
        Err(WireError::Unexpected(0))
    );
    let bye = packets(0, &[b"\xff\x1d\x04#08S01shutdown"]);
    assert!(matches!(ask(&mut wire, &[&bye]), Err(WireError::Server(e)) if e.code == 1053));
    let mut wire = session(Kind::MySql);
    wire.expect_result();
    assert_eq!(
        ask(&mut wire, &[&packets(1, &[b"\xfb/etc/passwd"])]),
        Err(WireError::LocalInfile)
    );
}

/// Inputs that once were trouble, and one of each kind of packet; files of `tests/fuzz/wire`.
#[test]
fn the_corpus_is_survived() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/wire");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        for cut in 0..=bytes.len() {
            survive(&bytes, cut);
        }
        seen += 1;
    }
    assert!(seen > 5);
}

proptest! {
    #[test]
    fn anything_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..400), cut in 0..400usize) {
        survive(&bytes, cut);
    }

    /// Well-formed packets with anything in them get further.
    #[test]
    fn anything_in_packets_is_survived(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..8),
        first in prop::sample::select(vec![0u8, 1, 2]),
        cut in 0..400usize,
    ) {
        let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        survive(&packets(first, &payloads), cut);
    }

    /// A conversation with one byte changed.
    #[test]
    fn a_changed_byte_is_survived(at in any::<prop::sample::Index>(), value: u8, cut in 0..400usize) {
        for plugin in ["caching_sha2_password", "mysql_native_password", "client_ed25519"] {
            let mut bytes = packets(0, &[&greeting(Kind::MariaDb, plugin)]);
            bytes.extend(packets(2, &[b"\x01\x04", b"\xfeclient_ed25519\0abc\0", OK]));
            let at = at.index(bytes.len());
            bytes[at] = value;
            survive(&bytes, cut);
        }
        let mut bytes = rows(Kind::Old, true);
        let at = at.index(bytes.len());
        bytes[at] = value;
        survive(&bytes, cut);
    }
}
