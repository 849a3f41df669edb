//! Owns the nine bytes with which a frame begins, RFC 9113 §4.1.

use crate::stream_id::StreamId;

/// Bytes of length, type, flags and stream.
pub const FRAME_HEAD_BYTES: usize = 9;

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameKind(u8);

impl FrameKind {
    /// RFC 9113 §6.1.
    pub const DATA: Self = Self(0x00);
    /// RFC 9113 §6.2.
    pub const HEADERS: Self = Self(0x01);
    /// RFC 9113 §6.3.
    pub const PRIORITY: Self = Self(0x02);
    /// RFC 9113 §6.4.
    pub const RST_STREAM: Self = Self(0x03);
    /// RFC 9113 §6.5.
    pub const SETTINGS: Self = Self(0x04);
    /// RFC 9113 §6.6.
    pub const PUSH_PROMISE: Self = Self(0x05);
    /// RFC 9113 §6.7.
    pub const PING: Self = Self(0x06);
    /// RFC 9113 §6.8.
    pub const GOAWAY: Self = Self(0x07);
    /// RFC 9113 §6.9.
    pub const WINDOW_UPDATE: Self = Self(0x08);
    /// RFC 9113 §6.10.
    pub const CONTINUATION: Self = Self(0x09);
    /// RFC 9218 §7.1.
    pub const PRIORITY_UPDATE: Self = Self(0x10);

    /// Returns the type with this number. RFC 9113 §5.5: frames of unknown types are ignored.
    #[must_use]
    pub const fn from_number(number: u8) -> Self {
        Self(number)
    }

    /// Returns the number of the type.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// The flags of a frame. A bit has another meaning in each type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameFlags(u8);

impl FrameFlags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// The frame ends its stream: DATA, HEADERS.
    pub const END_STREAM: Self = Self(0x01);
    /// The frame acknowledges another one: SETTINGS, PING.
    pub const ACK: Self = Self(0x01);
    /// The frame ends a block of fields: HEADERS, CONTINUATION.
    pub const END_HEADERS: Self = Self(0x04);
    /// The frame has padding: DATA, HEADERS.
    pub const PADDED: Self = Self(0x08);
    /// The frame has a priority of RFC 7540: HEADERS.
    pub const PRIORITY: Self = Self(0x20);

    /// Returns the flags with these bits.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// Returns the bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns whether all bits of `flag` are set.
    #[must_use]
    pub const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 == flag.0
    }

    /// Returns the flags of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The beginning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of the payload.
    pub length: u32,
    /// The type.
    pub kind: FrameKind,
    /// The flags.
    pub flags: FrameFlags,
    /// The stream.
    pub stream: StreamId,
}

impl FrameHead {
    /// Returns the head that these bytes are. The reserved bit is ignored, RFC 9113 §4.1.
    #[must_use]
    pub const fn parse(bytes: [u8; FRAME_HEAD_BYTES]) -> Self {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = bytes;
        Self {
            length: u32::from_be_bytes([0, l0, l1, l2]),
            kind: FrameKind(kind),
            flags: FrameFlags(flags),
            stream: StreamId::new(u32::from_be_bytes([s0, s1, s2, s3])),
        }
    }

    /// Returns the bytes of the head. A length has 24 bits; the rest of a longer one is lost.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; FRAME_HEAD_BYTES] {
        let [_, l0, l1, l2] = self.length.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.number().to_be_bytes();
        [l0, l1, l2, self.kind.0, self.flags.0, s0, s1, s2, s3]
    }
}
