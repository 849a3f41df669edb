//! Finds the frames in the bytes that come on a connection of HTTP/2, whatever the pieces in which they come.
//!
//! It copies heads of frames alone, and passes payloads on as they are.

/// Bytes of length, type, flags and stream.
const FRAME_HEAD: usize = 9;
/// The type of frames whose payload may be padded without being fields, RFC 9113 §6.1.
const DATA: u8 = 0;
/// The flag of a frame whose payload begins with the length of its padding.
const PADDED: u8 = 8;

/// A frame whose head has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IncomingFrame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    /// Bytes of its payload without padding; those of a padded frame of another type than DATA include the padding.
    pub(crate) payload: usize,
}

/// The reactions to parts of frames.
pub(crate) trait FrameSink {
    /// Handles a frame as soon as the length of its payload is known.
    fn begin(&mut self, frame: IncomingFrame);

    /// Handles a piece of the payload of a frame of this type and with these flags, its padding included.
    fn payload(&mut self, _kind: u8, _flags: u8, _piece: &[u8]) {}

    /// Handles the end of a frame of this type and with these flags.
    fn end(&mut self, _kind: u8, _flags: u8) {}
}

/// A position within the frames of one side of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameReader {
    head: [u8; FRAME_HEAD],
    /// Bytes of the frame's head that came.
    came: usize,
    /// Bytes of its payload that have not come.
    left: usize,
    /// Bytes of the frame that came.
    kept: usize,
    /// The length of the payload of DATA that begins with the length of its padding, which has not come.
    padded: Option<usize>,
}

impl FrameReader {
    /// Returns the position before the first frame of a server.
    pub(crate) fn of_server() -> Self {
        Self {
            head: [0; FRAME_HEAD],
            came: FRAME_HEAD,
            left: 0,
            kept: 0,
            padded: None,
        }
    }

    /// Advances by these bytes.
    pub(crate) fn receive(&mut self, mut bytes: &[u8], sink: &mut impl FrameSink) {
        while !bytes.is_empty() {
            if self.is_between() {
                (self.came, self.kept) = (0, 0);
            }
            let missing = match self.came {
                FRAME_HEAD => self.left,
                came => FRAME_HEAD - came,
            };
            let (some, rest) = bytes.split_at(missing.min(bytes.len()));
            bytes = rest;
            self.kept += some.len();
            let [_, _, _, kind, flags, ..] = self.head;
            if self.came == FRAME_HEAD {
                if let (Some(whole), [padding, ..]) = (self.padded.take(), some) {
                    sink.begin(self.frame(whole.saturating_sub(1 + usize::from(*padding))));
                }
                sink.payload(kind, flags, some);
                self.left -= some.len();
            } else {
                self.head[self.came..self.came + some.len()].copy_from_slice(some);
                self.came += some.len();
                if self.came < FRAME_HEAD {
                    continue;
                }
                self.begin_payload();
                if self.padded.is_none() {
                    sink.begin(self.frame(self.left));
                }
            }
            if self.left == 0 {
                let [_, _, _, kind, flags, ..] = self.head;
                sink.end(kind, flags);
            }
        }
    }

    /// Returns whether a frame has ended, and no other has begun.
    fn is_between(&self) -> bool {
        self.left == 0 && self.came == FRAME_HEAD
    }

    /// Returns the frame, whose payload has so many bytes.
    fn frame(&self, payload: usize) -> IncomingFrame {
        let [_, _, _, kind, flags, stream @ ..] = self.head;
        IncomingFrame {
            kind,
            flags,
            // The first bit is reserved.
            stream: u32::from_be_bytes(stream) & (u32::MAX >> 1),
            payload,
        }
    }

    fn begin_payload(&mut self) {
        let [a, b, c, kind, flags, ..] = self.head;
        self.left = u32::from_be_bytes([0, a, b, c]) as usize;
        let is_padded = kind == DATA && flags & PADDED != 0 && self.left > 0;
        self.padded = is_padded.then_some(self.left);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a frame with such a payload.
    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        frame.resize(FRAME_HEAD + payload, 0);
        frame
    }

    /// The frames that were passed on, the bytes of their payloads, and the number of those that ended.
    #[derive(Default)]
    struct Found {
        frames: Vec<IncomingFrame>,
        payload: usize,
        ended: usize,
    }

    impl FrameSink for Found {
        fn begin(&mut self, frame: IncomingFrame) {
            self.frames.push(frame);
        }

        fn payload(&mut self, _: u8, _: u8, piece: &[u8]) {
            self.payload += piece.len();
        }

        fn end(&mut self, _: u8, _: u8) {
            self.ended += 1;
        }
    }

    proptest! {
        /// Goal: each frame begins and ends once, with the length of what it carries and all of its payload, whatever the pieces. Method:
        /// frames of any kind and length, padded ones of DATA among them, cut anywhere.
        #[test]
        fn each_frame_is_passed_on_once(
            frames in proptest::collection::vec((0_u8..12, any::<u8>(), 0_usize..40), 1..6),
            piece in 1_usize..30,
        ) {
            let mut reader = FrameReader::of_server();
            let mut found = Found::default();
            let (mut sent, mut expected, mut payloads) = (Vec::new(), Vec::new(), 0);
            for (kind, flags, payload) in frames {
                let mut bytes = frame(kind, flags, payload);
                let mut carried = payload;
                if kind == DATA && flags & PADDED != 0 && payload > 0 {
                    let padding = payload / 2;
                    bytes[FRAME_HEAD] = padding as u8;
                    carried -= 1 + padding.min(payload - 1);
                }
                sent.extend(bytes);
                expected.push(IncomingFrame { kind, flags, stream: 1, payload: carried });
                payloads += payload;
            }
            for some in sent.chunks(piece) {
                reader.receive(some, &mut found);
            }
            prop_assert_eq!(found.ended, expected.len());
            prop_assert_eq!(found.frames, expected);
            prop_assert_eq!(found.payload, payloads);
        }
    }
}
