//! Answers to commands, scanned without allocation.

use super::error::{ServerError, WireError};
use super::frame::{Frames, MAX_PAYLOAD, Packet};
use super::login::Session;

/// Status flag: another result follows (a procedure).
const MORE_RESULTS: u16 = 0x0008;

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It succeeded.
    Done {
        /// There was a result set.
        result_set: bool,
        /// Rows that it changed.
        affected: u64,
    },
    /// A statement was prepared.
    Prepared {
        /// The server's number for it.
        id: u32,
        /// Its parameters.
        parameters: u16,
    },
    /// The server refused.
    Refused(Box<ServerError>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No command is out.
    Idle,
    First,
    /// Column definitions, [`Reply::left`] of them.
    Columns,
    ColumnsEnd,
    Rows,
    PrepareFirst,
    /// Definitions of parameters, then of columns, [`Reply::left`] of them, the end packets included.
    Definitions,
}

/// One connection's reading side after login.
#[derive(Debug)]
pub(crate) struct Wire {
    frames: Frames,
    reply: Reply,
}

/// The answer under way. Beside the frames, since a packet may borrow from them.
#[derive(Debug)]
struct Reply {
    state: State,
    /// Definitions still to come.
    left: u64,
    /// `CLIENT_DEPRECATE_EOF`: no EOF after column definitions, and an OK packet ends the rows.
    deprecate_eof: bool,
    /// `MariaDB`'s cached metadata: a flag says whether column definitions follow.
    cache_metadata: bool,
    sequence: u8,
    result_set: bool,
    affected: u64,
    prepared: (u32, u16),
}

impl Wire {
    /// Takes over the bytes after login.
    pub(crate) fn new(frames: Frames, session: Session) -> Self {
        Self {
            frames,
            reply: Reply {
                state: State::Idle,
                left: 0,
                deprecate_eof: session.deprecate_eof,
                cache_metadata: session.cache_metadata,
                sequence: 0,
                result_set: false,
                affected: 0,
                prepared: (0, 0),
            },
        }
    }

    /// A query or an execute was sent.
    #[inline]
    pub(crate) fn expect_result(&mut self) {
        self.reply.expect(State::First);
    }

    /// A prepare was sent.
    pub(crate) fn expect_prepared(&mut self) {
        self.reply.expect(State::PrepareFirst);
    }

    /// Reads on. `Ok(None)`: all of `input` is consumed and the answer is not complete.
    ///
    /// # Errors
    /// [`WireError`]; the connection is then out of step and of no more use. An error packet that no
    /// command asked for (a server that says good-bye) is [`WireError::Server`].
    #[inline]
    pub(crate) fn feed(&mut self, input: &mut &[u8]) -> Result<Option<Answer>, WireError> {
        loop {
            if self.reply.state == State::Rows && !self.frames.is_open() {
                self.reply.skip_rows(input);
            }
            let Some(packet) = self.frames.next(input) else {
                return Ok(None);
            };
            if let Some(answer) = self.reply.packet(packet)? {
                return Ok(Some(answer));
            }
        }
    }
}

impl Reply {
    fn expect(&mut self, state: State) {
        debug_assert_eq!(self.state, State::Idle, "one command at a time");
        self.state = state;
        self.sequence = 1;
        self.result_set = false;
        self.affected = 0;
    }

    /// Passes over rows that are in `input` as a whole: nearly all bytes that a server sends. What stands
    /// out (the end, an error, a packet that is cut, long or out of order) is left for [`Reply::packet`].
    #[inline]
    fn skip_rows(&mut self, input: &mut &[u8]) {
        while let [a, b, c, sequence, payload @ ..] = *input {
            let len = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16;
            if len >= MAX_PAYLOAD
                || *sequence != self.sequence
                || payload.first().is_none_or(|first| *first >= 0xfe)
            {
                return;
            }
            let (1.., Some(rest)) = (len, payload.get(len..)) else {
                return;
            };
            self.sequence = self.sequence.wrapping_add(1);
            *input = rest;
        }
    }

    #[inline]
    fn packet(&mut self, packet: Packet<'_>) -> Result<Option<Answer>, WireError> {
        let &first = packet
            .head
            .first()
            .ok_or(WireError::Malformed("empty packet"))?;
        // Row data never starts with 0xFF, neither as text (no length starts so) nor binary (0x00).
        if first == 0xff {
            return self.refused(packet).map(Some);
        }
        if self.state == State::Idle {
            return Err(WireError::Unexpected(first));
        }
        self.count(packet)?;
        match self.state {
            State::Idle => Ok(None),
            State::First => self.first(packet, first),
            State::Columns => {
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    self.state = if self.deprecate_eof {
                        State::Rows
                    } else {
                        State::ColumnsEnd
                    };
                }
                Ok(None)
            }
            State::ColumnsEnd => {
                if first != 0xfe || packet.len >= 9 {
                    return Err(WireError::Malformed("end of column definitions"));
                }
                self.state = State::Rows;
                Ok(None)
            }
            State::Rows => self.row(packet, first),
            State::PrepareFirst => self.prepared(packet, first),
            State::Definitions => {
                self.left = self.left.saturating_sub(1);
                Ok((self.left == 0).then(|| self.prepare_done()))
            }
        }
    }

    #[cold]
    fn refused(&mut self, packet: Packet<'_>) -> Result<Answer, WireError> {
        let error = ServerError::parse(packet.head)?;
        if self.state == State::Idle {
            return Err(WireError::Server(error));
        }
        self.state = State::Idle;
        Ok(Answer::Refused(Box::new(error)))
    }

    fn count(&mut self, packet: Packet<'_>) -> Result<(), WireError> {
        let mut expected = self.sequence;
        if packet.len >= MAX_PAYLOAD {
            // A packet in several parts raises the number by as many.
            #[expect(
                clippy::cast_possible_truncation,
                reason = "numbers wrap at 256 by definition"
            )]
            let parts = (packet.len / MAX_PAYLOAD) as u8;
            expected = expected.wrapping_add(parts);
        }
        if packet.sequence != expected {
            return Err(WireError::Sequence {
                expected,
                got: packet.sequence,
            });
        }
        self.sequence = expected.wrapping_add(1);
        Ok(())
    }

    #[inline]
    fn first(&mut self, packet: Packet<'_>, first: u8) -> Result<Option<Answer>, WireError> {
        match first {
            0x00 => {
                let mut body = &packet.head[1..];
                let affected = length(&mut body).ok_or(WireError::Malformed("OK packet"))?;
                length(&mut body).ok_or(WireError::Malformed("OK packet"))?;
                self.affected += affected;
                Ok(self.end(body))
            }
            0xfb => Err(WireError::LocalInfile),
            _ => {
                let mut body = packet.head;
                let columns = length(&mut body)
                    .filter(|&n| n > 0)
                    .ok_or(WireError::Malformed("column count"))?;
                self.result_set = true;
                self.left = columns;
                let follow = !self.cache_metadata || body.first() != Some(&0);
                self.state = match (follow, self.deprecate_eof) {
                    (true, _) => State::Columns,
                    (false, true) => State::Rows,
                    (false, false) => State::ColumnsEnd,
                };
                Ok(None)
            }
        }
    }

    #[inline]
    fn row(&mut self, packet: Packet<'_>, first: u8) -> Result<Option<Answer>, WireError> {
        // 0xFE also starts a text row whose first value has 16 MiB or more; the length tells.
        if first != 0xfe || packet.len >= MAX_PAYLOAD || (!self.deprecate_eof && packet.len >= 9) {
            return Ok(None);
        }
        let mut body = &packet.head[1..];
        if self.deprecate_eof {
            // An OK packet: affected rows, last id, status.
            length(&mut body).ok_or(WireError::Malformed("end of rows"))?;
            length(&mut body).ok_or(WireError::Malformed("end of rows"))?;
        } else {
            // An EOF packet: warnings, status.
            body = body.get(2..).ok_or(WireError::Malformed("end of rows"))?;
        }
        Ok(self.end(body))
    }

    /// `status` starts with the status flags.
    #[inline]
    fn end(&mut self, status: &[u8]) -> Option<Answer> {
        if let [low, high, ..] = status
            && u16::from_le_bytes([*low, *high]) & MORE_RESULTS != 0
        {
            self.state = State::First;
            return None;
        }
        self.state = State::Idle;
        Some(Answer::Done {
            result_set: self.result_set,
            affected: self.affected,
        })
    }

    fn prepared(&mut self, packet: Packet<'_>, first: u8) -> Result<Option<Answer>, WireError> {
        let [_, a, b, c, d, columns @ ..] = packet.head else {
            return Err(WireError::Malformed("answer to prepare"));
        };
        let [c0, c1, p0, p1, ..] = columns else {
            return Err(WireError::Malformed("answer to prepare"));
        };
        if first != 0 {
            return Err(WireError::Malformed("answer to prepare"));
        }
        let columns = u32::from(u16::from_le_bytes([*c0, *c1]));
        let parameters = u16::from_le_bytes([*p0, *p1]);
        self.prepared = (u32::from_le_bytes([*a, *b, *c, *d]), parameters);
        let end = u32::from(!self.deprecate_eof);
        let mut left = 0;
        for definitions in [u32::from(parameters), columns] {
            if definitions > 0 {
                left += definitions + end;
            }
        }
        if left == 0 {
            return Ok(Some(self.prepare_done()));
        }
        (self.state, self.left) = (State::Definitions, u64::from(left));
        Ok(None)
    }

    fn prepare_done(&mut self) -> Answer {
        self.state = State::Idle;
        Answer::Prepared {
            id: self.prepared.0,
            parameters: self.prepared.1,
        }
    }
}

/// A length-encoded integer from the front of `bytes`.
fn length(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    let width = match first {
        0..=0xfa => {
            *bytes = rest;
            return Some(u64::from(first));
        }
        0xfc => 2,
        0xfd => 3,
        0xfe => 8,
        _ => return None,
    };
    let (number, rest) = rest.split_at_checked(width)?;
    *bytes = rest;
    let mut wide = [0; 8];
    wide[..width].copy_from_slice(number);
    Some(u64::from_le_bytes(wide))
}
