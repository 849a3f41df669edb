//! Owns types and heads of frames, RFC 9114 §7.1.

use crate::varint;

/// The type of a frame. Those without a name here are ignored, RFC 9114 §9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameKind(pub u64);

impl FrameKind {
    /// A part of a body, RFC 9114 §7.2.1.
    pub const DATA: Self = Self(0x00);
    /// A head or trailers, §7.2.2.
    pub const HEADERS: Self = Self(0x01);
    /// The other side no longer needs a push, §7.2.3.
    pub const CANCEL_PUSH: Self = Self(0x03);
    /// The first frame of a control stream, §7.2.4.
    pub const SETTINGS: Self = Self(0x04);
    /// A push, which only servers promise, §7.2.5.
    pub const PUSH_PROMISE: Self = Self(0x05);
    /// The connection ends, §7.2.6.
    pub const GOAWAY: Self = Self(0x07);
    /// The pushes that a server may promise, §7.2.7.
    pub const MAX_PUSH_ID: Self = Self(0x0d);
    /// The priority of a request, RFC 9218 §7.2.
    pub const PRIORITY_UPDATE: Self = Self(0x0f_0700);
    /// The priority of a push, RFC 9218 §7.2.
    pub const PRIORITY_UPDATE_OF_PUSH: Self = Self(0x0f_0701);

    /// Returns whether the type is one of HTTP/2 without a meaning here, which is an error, RFC 9114 §7.2.8.
    #[must_use]
    pub const fn is_reserved(self) -> bool {
        matches!(self.0, 0x02 | 0x06 | 0x08 | 0x09)
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The type.
    pub kind: FrameKind,
    /// The bytes of the payload.
    pub length: u64,
}

/// Writes the head of a frame.
pub fn write_head(head: FrameHead, out: &mut Vec<u8>) {
    varint::write(head.kind.0, out);
    varint::write(head.length, out);
}

/// The bytes of a head that is not whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameHeadInput {
    bytes: [u8; 2 * varint::LONGEST],
    count: usize,
}

impl FrameHeadInput {
    /// No byte of a head.
    pub(crate) const NEW: Self = Self {
        bytes: [0; 2 * varint::LONGEST],
        count: 0,
    };

    /// Takes bytes up to the end of a head; `None` where they end within it.
    pub(crate) fn take(&mut self, input: &mut &[u8]) -> Option<FrameHead> {
        while let Some((byte, rest)) = input.split_first() {
            *input = rest;
            *self.bytes.get_mut(self.count)? = *byte;
            self.count += 1;
            let Some((kind, behind)) = varint::read(self.bytes.get(..self.count)?) else {
                continue;
            };
            if let Some((length, _)) = varint::read(behind) {
                self.count = 0;
                let kind = FrameKind(kind);
                return Some(FrameHead { kind, length });
            }
        }
        None
    }

    /// Returns whether no byte of a head has come.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Takes as many of the bytes that are left of a payload as there are.
pub(crate) fn take_payload<'a>(left: &mut u64, input: &mut &'a [u8]) -> &'a [u8] {
    let bytes = usize::try_from(*left)
        .unwrap_or(usize::MAX)
        .min(input.len());
    *left -= bytes as u64;
    input.split_off(..bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: heads are found in any split. Method: a head of each length of both integers, byte for byte, with a byte behind it.
    #[test]
    fn heads_are_found_byte_for_byte() {
        for kind in [0, 0x40, 0x4000, 0x4000_0000] {
            for length in [0, 63, 0x3fff, varint::GREATEST] {
                let kind = FrameKind(kind);
                let head = FrameHead { kind, length };
                let mut bytes = Vec::new();
                write_head(head, &mut bytes);
                let mut input = FrameHeadInput::NEW;
                let (last, first) = bytes.split_last().unwrap();
                for byte in first {
                    assert_eq!(input.take(&mut &[*byte][..]), None);
                    assert!(!input.is_empty());
                }
                let mut rest = &[*last, 7][..];
                assert_eq!(input.take(&mut rest), Some(head));
                assert_eq!((rest, input.is_empty()), (&[7][..], true));
            }
        }
    }
}
