//! Packets from a stream of bytes that may be cut anywhere.

/// Largest payload of one physical packet; a longer one continues in the next.
pub(super) const MAX_PAYLOAD: usize = 0xff_ffff;

/// Bytes of a packet that are kept when it does not arrive in one piece. Nothing that is read beyond
/// its first bytes (handshake, keys, errors) is longer; of a row only the first byte matters.
const HEAD: usize = 4096;

/// One logical packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    /// The payload, or its first [`HEAD`] bytes.
    pub(crate) head: &'a [u8],
    /// Length of the whole payload.
    pub(crate) len: usize,
    /// Sequence number of its (last) physical packet.
    pub(crate) sequence: u8,
}

/// Cuts bytes into packets. Allocates only for a packet that arrives in pieces, at most 4 KiB, once.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    header: [u8; 4],
    /// Header bytes seen; 4: inside a payload.
    have: u8,
    /// Payload bytes of the physical packet still to come.
    remaining: usize,
    /// Payload bytes of the logical packet so far.
    len: usize,
    head: Vec<u8>,
    /// A packet is under way (some of its bytes are consumed).
    open: bool,
}

impl Frames {
    /// Whether a packet is under way.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// The next complete packet; `None`: all of `input` is consumed and more is needed.
    #[inline]
    pub(crate) fn next<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Option<Packet<'a>> {
        if !self.open
            && let [a, b, c, sequence, rest @ ..] = *input
        {
            let len = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16;
            if len < MAX_PAYLOAD && rest.len() >= len {
                let (head, rest) = rest.split_at(len);
                *input = rest;
                return Some(Packet {
                    head,
                    len,
                    sequence: *sequence,
                });
            }
        }
        self.collect(input)
    }

    #[cold]
    fn collect<'a, 'i: 'a>(&'a mut self, input: &mut &'i [u8]) -> Option<Packet<'a>> {
        if input.is_empty() {
            return None;
        }
        if !self.open {
            self.open = true;
            self.head.clear();
            self.len = 0;
        }
        loop {
            while self.have < 4 {
                let (&byte, rest) = input.split_first()?;
                self.header[usize::from(self.have)] = byte;
                self.have += 1;
                *input = rest;
                if self.have == 4 {
                    let [a, b, c, _] = self.header;
                    self.remaining = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
                }
            }
            let take = self.remaining.min(input.len());
            let (bytes, rest) = input.split_at(take);
            let keep = take.min(HEAD.saturating_sub(self.head.len()));
            self.head.extend_from_slice(&bytes[..keep]);
            self.len += take;
            self.remaining -= take;
            *input = rest;
            if self.remaining > 0 {
                return None;
            }
            self.have = 0;
            let [a, b, c, sequence] = self.header;
            if [a, b, c] != [0xff; 3] {
                self.open = false;
                return Some(Packet {
                    head: &self.head,
                    len: self.len,
                    sequence,
                });
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(payload: &[u8], sequence: &mut u8, out: &mut Vec<u8>) {
        let mut rest = payload;
        loop {
            let take = rest.len().min(MAX_PAYLOAD);
            out.extend_from_slice(&u32::try_from(take).unwrap().to_le_bytes()[..3]);
            out.push(*sequence);
            *sequence = sequence.wrapping_add(1);
            out.extend_from_slice(&rest[..take]);
            rest = &rest[take..];
            if take < MAX_PAYLOAD {
                return;
            }
        }
    }

    fn read(pieces: &[&[u8]]) -> Vec<(Vec<u8>, usize, u8)> {
        let mut frames = Frames::default();
        let mut seen = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            while let Some(packet) = frames.next(&mut input) {
                seen.push((packet.head.to_vec(), packet.len, packet.sequence));
            }
            assert!(input.is_empty());
        }
        seen
    }

    proptest! {
        #[test]
        fn packets_survive_any_cut(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut bytes = Vec::new();
            let mut sequence = 0;
            for payload in &payloads {
                frame(payload, &mut sequence, &mut bytes);
            }
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).collect();
            at.push(0);
            at.push(bytes.len());
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
            let seen = read(&pieces);
            prop_assert_eq!(seen.len(), payloads.len());
            for (seen, sent) in seen.iter().zip(&payloads) {
                prop_assert_eq!(&seen.0, sent);
                prop_assert_eq!(seen.1, sent.len());
            }
        }
    }

    #[test]
    fn payloads_over_16_mib_are_one_packet() {
        for len in [
            MAX_PAYLOAD - 1,
            MAX_PAYLOAD,
            MAX_PAYLOAD + 1,
            2 * MAX_PAYLOAD,
        ] {
            let mut payload = vec![7; len];
            payload[0] = 0xfe;
            let mut bytes = Vec::new();
            let mut sequence = 1;
            frame(&payload, &mut sequence, &mut bytes);
            frame(b"next", &mut sequence, &mut bytes);
            for cut in [1, 3, 5, MAX_PAYLOAD + 3, MAX_PAYLOAD + 5, bytes.len() - 1] {
                let cut = cut.min(bytes.len());
                let seen = read(&[&bytes[..cut], &bytes[cut..]]);
                assert_eq!(seen.len(), 2);
                assert_eq!((seen[0].1, seen[0].0[0]), (len, 0xfe));
                assert_eq!(seen[1].0, b"next");
            }
        }
    }
}
