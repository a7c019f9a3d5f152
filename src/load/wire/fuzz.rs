//! Any bytes from a server: what the fuzz target of `tests/fuzz` and the tests feed to the protocol.

use super::{Encrypt, Login, LoginConfig, LoginStep, Wire};
use crate::load::wire::frame::Frames;
use crate::load::wire::login::Session;
use crate::target::Secret;

/// Feeds `bytes` in two pieces, cut at `cut`, to a login and to answers of every kind, until they are used
/// up or refused. Must not panic or hang; that is all that is asked.
pub(crate) fn survive(bytes: &[u8], cut: usize) {
    let cut = cut.min(bytes.len());
    for encrypt in [Encrypt::Never, Encrypt::IfOffered] {
        log_in(encrypt, bytes, cut);
    }
    for (deprecate_eof, cache_metadata) in [(true, false), (false, false), (true, true)] {
        for prepare in [false, true] {
            let session = Session {
                connection_id: 1,
                deprecate_eof,
                cache_metadata,
            };
            answers(Wire::new(Frames::default(), session), prepare, bytes, cut);
        }
    }
}

fn log_in(encrypt: Encrypt, bytes: &[u8], cut: usize) {
    let config = LoginConfig {
        user: "bench".into(),
        password: Secret::new("secret".into()),
        database: Some("db".into()),
    };
    let mut login = Login::new(encrypt, false);
    let mut sent = Vec::new();
    for mut piece in [&bytes[..cut], &bytes[cut..]] {
        while !piece.is_empty() {
            match login.feed(&mut piece, &config, &mut sent) {
                Ok(None | Some(LoginStep::Continue)) => {}
                Ok(Some(LoginStep::StartTls)) => login.secured(&config, &mut sent),
                Ok(Some(LoginStep::Done(session))) => {
                    let wire = Wire::new(login.into_frames(), session);
                    return answers(wire, false, piece, piece.len());
                }
                Err(_) => return,
            }
        }
    }
}

fn answers(mut wire: Wire, prepare: bool, bytes: &[u8], cut: usize) {
    let mut expecting = false;
    for mut piece in [&bytes[..cut], &bytes[cut..]] {
        while !piece.is_empty() {
            if !expecting && prepare {
                wire.expect_prepared();
            } else if !expecting {
                wire.expect_result();
            }
            match wire.feed(&mut piece) {
                Ok(answer) => expecting = answer.is_none(),
                Err(_) => return,
            }
        }
    }
}
