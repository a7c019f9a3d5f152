//! Commands, written into a buffer that the caller keeps.

use super::frame::MAX_PAYLOAD;

const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_CLOSE: u8 = 0x19;

/// Types of parameters as `COM_STMT_EXECUTE` states them.
const TYPE_LONGLONG: u8 = 8;
const TYPE_VAR_STRING: u8 = 253;

/// Starts a packet; [`finish`] completes it.
pub(super) fn start(out: &mut Vec<u8>) -> usize {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    at
}

/// Completes the packet that starts at `at` with number `sequence`, splitting a payload of 16 MiB or more.
pub(super) fn finish(out: &mut Vec<u8>, at: usize, mut sequence: u8) {
    let mut at = at;
    loop {
        let len = out.len() - at - 4;
        let part = len.min(MAX_PAYLOAD);
        #[expect(clippy::cast_possible_truncation, reason = "at most 24 bits")]
        let [a, b, c, _] = (part as u32).to_le_bytes();
        out[at..at + 4].copy_from_slice(&[a, b, c, sequence]);
        if len < MAX_PAYLOAD {
            return;
        }
        // The rare case: room for the next header, which moves the rest.
        at += 4 + MAX_PAYLOAD;
        sequence = sequence.wrapping_add(1);
        out.splice(at..at, [0; 4]);
    }
}

/// `COM_QUERY`; `sql` appends the text.
pub(crate) fn query(out: &mut Vec<u8>, sql: impl FnOnce(&mut Vec<u8>)) {
    simple(out, COM_QUERY, sql);
}

/// `COM_STMT_PREPARE`; `sql` appends the text.
pub(crate) fn prepare(out: &mut Vec<u8>, sql: impl FnOnce(&mut Vec<u8>)) {
    simple(out, COM_STMT_PREPARE, sql);
}

/// `COM_STMT_CLOSE`, which has no answer.
pub(crate) fn close(out: &mut Vec<u8>, id: u32) {
    simple(out, COM_STMT_CLOSE, |out| {
        out.extend_from_slice(&id.to_le_bytes());
    });
}

/// `COM_QUIT`, after which the server closes.
pub(crate) fn quit(out: &mut Vec<u8>) {
    simple(out, COM_QUIT, |_| {});
}

fn simple(out: &mut Vec<u8>, command: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let at = start(out);
    out.push(command);
    body(out);
    finish(out, at, 0);
}

/// `COM_STMT_EXECUTE` under construction. Types are sent with the first execution only.
#[derive(Debug)]
pub(crate) struct Execute {
    at: usize,
}

/// What all executions of a statement have in common, made once.
#[derive(Debug)]
pub(crate) struct Executable {
    /// Header, command, number of the statement (both still open), flags, no parameter is NULL, no types.
    start: Vec<u8>,
    types: Vec<u8>,
}

impl Executable {
    /// `texts` says for each parameter whether it is text (else a 64-bit integer).
    pub(crate) fn new(texts: impl ExactSizeIterator<Item = bool>) -> Self {
        // No cursor; iteration count, always 1.
        let mut start = vec![0, 0, 0, 0, COM_STMT_EXECUTE, 0, 0, 0, 0, 0, 1, 0, 0, 0];
        if texts.len() > 0 {
            start.resize(start.len() + texts.len().div_ceil(8) + 1, 0);
        }
        let kind = |text| if text { TYPE_VAR_STRING } else { TYPE_LONGLONG };
        Self {
            start,
            types: texts.flat_map(|text| [kind(text), 0]).collect(),
        }
    }
}

impl Execute {
    /// Writes all but the values.
    #[inline]
    pub(crate) fn start(
        out: &mut Vec<u8>,
        statement: &Executable,
        id: u32,
        bind_types: bool,
    ) -> Self {
        let at = out.len();
        out.extend_from_slice(&statement.start);
        out[at + 5..at + 9].copy_from_slice(&id.to_le_bytes());
        if bind_types && !statement.types.is_empty() {
            let last = out.len() - 1;
            out[last] = 1;
            out.extend_from_slice(&statement.types);
        }
        Self { at }
    }

    /// Completes the packet after all values.
    #[inline]
    pub(crate) fn finish(self, out: &mut Vec<u8>) {
        finish(out, self.at, 0);
    }

    /// Appends an integer value.
    pub(crate) fn integer(out: &mut Vec<u8>, value: i64) {
        out.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a text value that `fill` produces.
    pub(crate) fn text(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
        // Nearly all texts are shorter than 251 bytes: write first, widen the length if needed.
        let at = out.len();
        out.push(0);
        fill(out);
        let len = out.len() - at - 1;
        if let Ok(short @ 0..=250) = u8::try_from(len) {
            out[at] = short;
        } else {
            out[at] = 0xfe;
            out.splice(at + 1..=at, (len as u64).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execute_binds_types_only_when_asked() {
        let mut out = Vec::new();
        let statement = Executable::new([false, true].into_iter());
        let execute = Execute::start(&mut out, &statement, 7, true);
        Execute::integer(&mut out, -2);
        Execute::text(&mut out, |out| out.extend_from_slice(b"ab"));
        execute.finish(&mut out);
        let mut expected = vec![
            26, 0, 0, 0, 0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 8, 0, 253, 0,
        ];
        expected.extend_from_slice(&(-2i64).to_le_bytes());
        expected.extend_from_slice(&[2, b'a', b'b']);
        expected[0] = 27;
        assert_eq!(out, expected);

        let mut again = Vec::new();
        let execute = Execute::start(&mut again, &statement, 7, false);
        execute.finish(&mut again);
        assert_eq!(again, [12, 0, 0, 0, 0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn long_texts_have_long_lengths() {
        for len in [0, 250, 251, 70_000] {
            let mut out = Vec::new();
            Execute::text(&mut out, |out| out.resize(out.len() + len, b'x'));
            if len <= 250 {
                assert_eq!(out.len(), 1 + len);
            } else {
                assert_eq!(out[0], 0xfe);
                assert_eq!(out[1..9], (len as u64).to_le_bytes());
                assert_eq!(out.len(), 9 + len);
            }
        }
    }

    #[test]
    fn commands_over_16_mib_are_split() {
        for len in [
            MAX_PAYLOAD - 2,
            MAX_PAYLOAD - 1,
            MAX_PAYLOAD,
            2 * MAX_PAYLOAD,
        ] {
            let mut out = b"before".to_vec();
            query(&mut out, |out| out.resize(out.len() + len, b'x'));
            let mut rest = &out[6..];
            let (mut payload, mut sequence) = (Vec::new(), 0);
            loop {
                let part = u32::from_le_bytes([rest[0], rest[1], rest[2], 0]) as usize;
                assert_eq!(rest[3], sequence);
                sequence += 1;
                payload.extend_from_slice(&rest[4..4 + part]);
                rest = &rest[4 + part..];
                if part < MAX_PAYLOAD {
                    break;
                }
            }
            assert!(rest.is_empty());
            assert_eq!(payload.len(), len + 1);
            assert!(payload[0] == COM_QUERY && payload[1..].iter().all(|&b| b == b'x'));
        }
    }
}
