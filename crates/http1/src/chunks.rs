//! Finds the ends of chunks and of the trailer in a chunked body, RFC 9112 §7.1, and rejects bodies that two parsers could frame in
//! two ways.
//!
//! Whoever reads chunks leniently takes for a request what a server before or behind it took for data. Parsers are known to disagree
//! about: a size without a digit, with spaces or more digits than fit; a bare line feed, which ends an extension for some;
//! control characters; a trailer line that is folded or no field. No well-behaved peer sends any of these.
//!
//! # Limits
//! [`ChunkLimits`] bound the bytes that are not data. The decoder keeps a few words of state.

use crate::bytes::is_token;
use crate::violation::RuleViolation;

/// Bounds of the bytes of a chunked body that are not data.
#[derive(Clone, Copy, Debug)]
pub struct ChunkLimits {
    /// Bytes of sizes, extensions and line ends, beyond 16 a chunk and twice its data.
    pub overhead: usize,
    /// Bytes of the trailer.
    pub trailer: usize,
    /// Fields of the trailer.
    pub trailer_fields: usize,
}

/// The progress within a chunked body.
///
/// # Example
///
/// ```
/// use sluicegate_http1::{BodyPiece, ChunkDecoder, ChunkLimits};
///
/// # fn main() -> Result<(), sluicegate_http1::RuleViolation> {
/// let limits = ChunkLimits { overhead: 16 * 1024, trailer: 8 * 1024, trailer_fields: 64 };
/// let mut decoder = ChunkDecoder::new(limits);
/// let mut data = Vec::new();
/// for read in [&b"5;a=b\r\nhel"[..], b"lo\r\n0\r\n\r\nGET / HTTP"] {
///     for piece in decoder.pieces(read) {
///         match piece? {
///             BodyPiece::Data(bytes) => data.extend_from_slice(bytes),
///             BodyPiece::Trailer(_) => {}
///             BodyPiece::End { behind } => assert_eq!(behind, b"GET / HTTP"),
///         }
///     }
/// }
/// assert_eq!(data, b"hello");
/// assert!(decoder.is_over());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ChunkDecoder {
    limits: ChunkLimits,
    at: ChunkElement,
    /// Bytes of framing, less the allowance for the chunks so far.
    overhead: usize,
    /// Bytes of the trailer.
    trailer: usize,
    trailer_fields: usize,
}

/// A piece of a body; the sizes, extensions and line ends of chunks lie between the pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyPiece<'a> {
    /// Data of the body.
    Data(&'a [u8]),
    /// Bytes of the field lines of a trailer, with their line ends, in one or several pieces.
    Trailer(&'a [u8]),
    /// The end of the body.
    End {
        /// The bytes that follow it, which belong to the next message.
        behind: &'a [u8],
    },
}

/// An iterator over the pieces of the body that some bytes contain.
#[derive(Debug)]
pub struct ChunkPieces<'d, 'a> {
    decoder: &'d mut ChunkDecoder,
    bytes: &'a [u8],
}

/// The element that is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkElement {
    /// The first digit of a size.
    Start,
    /// Another digit or the end of the size, with its value so far.
    Size {
        size: u64,
        digits: u8,
    },
    /// The rest of an extension of the chunk of this size.
    Extension {
        size: u64,
    },
    /// The line feed after a size.
    SizeFeed {
        size: u64,
    },
    /// So many bytes of data.
    Data {
        left: u64,
    },
    /// The line end after data.
    DataReturn,
    DataFeed,
    /// The first byte of a line of the trailer.
    Line,
    /// Another byte of a field's name.
    Name,
    /// Another byte of its value.
    Value,
    /// The line feed after a field.
    ValueFeed,
    /// The line feed that ends the body.
    LastFeed,
    /// The end; further bytes belong to the next message.
    Over,
}

/// Maximum digits of a size: 2^60 bytes are more than any body may have.
const DIGITS: u8 = 15;

impl ChunkDecoder {
    /// Returns the state before the first byte.
    #[must_use]
    pub const fn new(limits: ChunkLimits) -> Self {
        Self {
            limits,
            at: ChunkElement::Start,
            overhead: 0,
            trailer: 0,
            trailer_fields: 0,
        }
    }

    /// Returns whether the body has ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.at, ChunkElement::Over)
    }

    /// Checks bytes that are passed on as they came. Returns how many of them belong to the body: all, unless it ends among them.
    ///
    /// # Errors
    /// The framing is ambiguous or has too many bytes. No byte after it may be read.
    pub fn check(&mut self, bytes: &[u8]) -> Result<usize, RuleViolation> {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_over() {
            rest = &rest[self.run(rest)?..];
        }
        Ok(bytes.len() - rest.len())
    }

    /// Returns the pieces of the body in the next bytes of it. They are to be read to the end.
    pub fn pieces<'d, 'a>(&'d mut self, bytes: &'a [u8]) -> ChunkPieces<'d, 'a> {
        ChunkPieces {
            decoder: self,
            bytes,
        }
    }

    /// Takes bytes of one kind from the start of `bytes`, which is not empty: data, trailer, or framing. Returns their number.
    fn run(&mut self, bytes: &[u8]) -> Result<usize, RuleViolation> {
        // Data is skipped as a block.
        if let ChunkElement::Data { left } = self.at {
            let here = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
            let left = left - here as u64;
            self.at = if left == 0 {
                ChunkElement::DataReturn
            } else {
                ChunkElement::Data { left }
            };
            return Ok(here);
        }
        let is_trailer = self.is_trailer(bytes);
        let mut taken = 0;
        for &byte in bytes {
            self.at = self.step(byte)?;
            self.weigh()?;
            taken += 1;
            let is_data_next = matches!(self.at, ChunkElement::Data { .. } | ChunkElement::Over);
            if is_data_next || self.is_trailer(&bytes[taken..]) != is_trailer {
                break;
            }
        }
        Ok(taken)
    }

    /// Returns whether the first of `bytes` belongs to a field line of the trailer.
    fn is_trailer(&self, bytes: &[u8]) -> bool {
        match self.at {
            // The empty line is framing.
            ChunkElement::Line => bytes.first().is_some_and(|&byte| byte != b'\r'),
            ChunkElement::Name | ChunkElement::Value | ChunkElement::ValueFeed => true,
            _ => false,
        }
    }

    /// Returns the element that is expected after `byte`, which is not data.
    fn step(&mut self, byte: u8) -> Result<ChunkElement, RuleViolation> {
        let at = match (self.at, byte) {
            (ChunkElement::Start, _) => ChunkElement::Size {
                size: hex(byte)?,
                digits: 1,
            },
            (ChunkElement::Size { size, .. }, b'\r') => ChunkElement::SizeFeed { size },
            (ChunkElement::Size { size, .. }, b';') => ChunkElement::Extension { size },
            (ChunkElement::Size { size, digits }, _) if digits < DIGITS => ChunkElement::Size {
                size: size << 4 | hex(byte)?,
                digits: digits + 1,
            },
            (ChunkElement::Extension { size }, b'\r') => ChunkElement::SizeFeed { size },
            (ChunkElement::Extension { size }, _) if !is_control(byte) => {
                ChunkElement::Extension { size }
            }
            (ChunkElement::SizeFeed { size: 0 }, b'\n') => ChunkElement::Line,
            (ChunkElement::SizeFeed { size }, b'\n') => {
                self.overhead = self.overhead.saturating_sub(justified_by(size));
                ChunkElement::Data { left: size }
            }
            (ChunkElement::DataReturn, b'\r') => ChunkElement::DataFeed,
            (ChunkElement::DataFeed, b'\n') => ChunkElement::Start,
            (ChunkElement::Line, b'\r') => ChunkElement::LastFeed,
            (ChunkElement::Line | ChunkElement::Name, _) if is_token(byte) => ChunkElement::Name,
            (ChunkElement::Name, b':') => ChunkElement::Value,
            (ChunkElement::Value, b'\r') => ChunkElement::ValueFeed,
            (ChunkElement::Value, _) if !is_control(byte) => ChunkElement::Value,
            (ChunkElement::ValueFeed, b'\n') => ChunkElement::Line,
            (ChunkElement::LastFeed, b'\n') => ChunkElement::Over,
            _ => return Err(RuleViolation::Chunks),
        };
        Ok(at)
    }

    /// Counts a byte that is not data.
    fn weigh(&mut self) -> Result<(), RuleViolation> {
        let (count, most, rule) = match self.at {
            ChunkElement::Line
            | ChunkElement::Name
            | ChunkElement::Value
            | ChunkElement::ValueFeed => (
                &mut self.trailer,
                self.limits.trailer,
                RuleViolation::Trailer,
            ),
            _ => (
                &mut self.overhead,
                self.limits.overhead,
                RuleViolation::Chunks,
            ),
        };
        *count += 1;
        self.trailer_fields += usize::from(self.at == ChunkElement::ValueFeed);
        if *count > most || self.trailer_fields > self.limits.trailer_fields {
            Err(rule)
        } else {
            Ok(())
        }
    }
}

impl<'a> Iterator for ChunkPieces<'_, 'a> {
    type Item = Result<BodyPiece<'a>, RuleViolation>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.bytes.is_empty() && !self.decoder.is_over() {
            let is_data = matches!(self.decoder.at, ChunkElement::Data { .. });
            let is_trailer = self.decoder.is_trailer(self.bytes);
            let taken = match self.decoder.run(self.bytes) {
                Ok(taken) => taken,
                Err(rule) => {
                    self.bytes = b"";
                    return Some(Err(rule));
                }
            };
            let (piece, behind) = self.bytes.split_at(taken);
            self.bytes = behind;
            if self.decoder.is_over() {
                self.bytes = b"";
                return Some(Ok(BodyPiece::End { behind }));
            }
            if is_data {
                return Some(Ok(BodyPiece::Data(piece)));
            }
            if is_trailer {
                return Some(Ok(BodyPiece::Trailer(piece)));
            }
        }
        None
    }
}

/// Returns how many bytes a chunk of this size may take beside its data.
fn justified_by(size: u64) -> usize {
    usize::try_from(size.saturating_mul(2).saturating_add(16)).unwrap_or(usize::MAX)
}

fn hex(byte: u8) -> Result<u64, RuleViolation> {
    char::from(byte)
        .to_digit(16)
        .map(u64::from)
        .ok_or(RuleViolation::Chunks)
}

/// Returns whether the byte is a control character other than a tab, which RFC 9110 §5.5 forbids in field values.
fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && byte != b'\t'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: ChunkLimits = ChunkLimits {
        overhead: 16 * 1024,
        trailer: 8 * 1024,
        trailer_fields: 16,
    };

    fn judge(body: &[u8]) -> Result<ChunkElement, RuleViolation> {
        let mut chunks = ChunkDecoder::new(LIMITS);
        chunks.check(body)?;
        Ok(chunks.at)
    }

    /// Goal: valid bodies pass. Method: sizes in either case, leading zeros, the extensions of signed uploads, a trailer, and
    /// the next request after the end.
    #[test]
    fn bodies_of_clients_are_valid() {
        let bodies = [
            "0\r\n\r\n",
            "5\r\nhello\r\n0\r\n\r\n",
            "A\r\n0123456789\r\n00b\r\n0123456789a\r\n000\r\n\r\n",
            "5;chunk-signature=ab\"c d\"\r\nhello\r\n0;chunk-signature=00\r\n\r\n",
            "1\r\nx\r\n0\r\nX-Checksum: 1\r\nEmpty:\r\n\r\n",
            "0\r\n\r\nGET / HTTP/1.1\r\n",
        ];
        for body in bodies {
            assert_eq!(judge(body.as_bytes()), Ok(ChunkElement::Over), "{body:?}");
        }
    }

    /// Goal: ambiguous framing is rejected. Method: one form a line.
    #[test]
    fn bodies_that_can_be_framed_in_two_ways_are_refused() {
        let bodies = [
            "\r\n\r\n",
            ";a=b\r\n\r\n",
            "0x5\r\nhello\r\n",
            "+5\r\nhello\r\n",
            "-5\r\nhello\r\n",
            " 5\r\nhello\r\n",
            "5 \r\nhello\r\n",
            "5\t;a\r\nhello\r\n",
            "5\nhello\r\n",
            "5\r\r\nhello\r\n",
            "5;a\nhello\r\n",
            "5;a\rb\r\nhello\r\n",
            "5;a\0\r\nhello\r\n",
            "5g\r\nhello\r\n",
            "5_0\r\nhello\r\n",
            "10000000000000005\r\nhello\r\n",
            "0000000000000005\r\nhello\r\n",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5\r\nhello\r0\r\n\r\n",
            "4\r\nhello\r\n0\r\n\r\n",
            "5\r\nhello\r\n\r\n0\r\n\r\n",
            "0\r\n\n",
            "0\n\r\n",
            "0\r\nX-A: b\n\r\n",
            "0\r\n X-A: b\r\n\r\n",
            "0\r\nX-A: b\r\n c\r\n\r\n",
            "0\r\nX-A : b\r\n\r\n",
            "0\r\nX-A\r\n\r\n",
            "0\r\n: b\r\n\r\n",
            "0\r\nX-A: b\0\r\n\r\n",
            "0\r\nX-A: b\rc\r\n\r\n",
            "0\r\nGET / HTTP/1.1\r\n\r\n",
        ];
        for body in bodies {
            assert_eq!(
                judge(body.as_bytes()),
                Err(RuleViolation::Chunks),
                "{body:?}"
            );
        }
    }

    /// Goal: framing cannot be sent without end, and a trailer that is too long is told from malformed chunks. Method: extensions, tiny
    /// chunks with extensions, and trailers beyond the bounds; and a megabyte in chunks of one byte, which is slow but valid.
    #[test]
    fn floods_of_framing_are_refused() {
        let long = format!("5;{}\r\n", "x".repeat(LIMITS.overhead));
        assert_eq!(judge(long.as_bytes()), Err(RuleViolation::Chunks));
        let tiny = "1;0123456789012345678901234567890\r\nx\r\n".repeat(2000);
        assert_eq!(judge(tiny.as_bytes()), Err(RuleViolation::Chunks));
        let trailer = format!("0\r\nX: {}\r\n\r\n", "x".repeat(LIMITS.trailer));
        assert_eq!(judge(trailer.as_bytes()), Err(RuleViolation::Trailer));
        let fields = format!("0\r\n{}\r\n", "X:\r\n".repeat(17));
        assert_eq!(judge(fields.as_bytes()), Err(RuleViolation::Trailer));
        let honest = "1\r\nx\r\n".repeat(1 << 20);
        assert_eq!(judge(honest.as_bytes()), Ok(ChunkElement::Start));
    }

    proptest! {
        /// Goal: the result does not depend on how bytes arrive. Method: a body, or one with a byte changed, whole and cut
        /// anywhere.
        #[test]
        fn cuts_change_nothing(cut in 0_usize..60, change in 0_usize..60, byte: u8) {
            let mut body = *b"5;a=b\r\nhello\r\n0f\r\n0123456789abcde\r\n0\r\nX-A: b\r\n\r\nGET / HTTP";
            if let Some(place) = body.get_mut(change) {
                *place = byte;
            }
            let mut chunks = ChunkDecoder::new(LIMITS);
            let (start, end) = body.split_at(cut.min(body.len()));
            let halves = chunks.check(start).and_then(|_| chunks.check(end)).map(|_| chunks.at);
            prop_assert_eq!(halves, judge(&body));
        }

        /// Goal: data and trailer are found in any split of the bytes, and nothing is read beyond the body. Method: a body that is
        /// written from chunks and fields, cut in three, with bytes of the next message behind it; and checked as a whole.
        #[test]
        fn pieces_are_those_of_the_body(
            chunks in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..20), "(;[a-z]{1,3}(=[a-z]{1,3})?)?"), 0..5),
            trailer in prop::collection::vec("[A-Za-z]{1,5}: ?[a-z ]{0,5}\r\n", 0..3),
            cuts in prop::array::uniform2(0_usize..200),
        ) {
            let mut body = Vec::new();
            for (data, extension) in &chunks {
                body.extend_from_slice(format!("{:x}{extension}\r\n", data.len()).as_bytes());
                body.extend_from_slice(data);
                body.extend_from_slice(b"\r\n");
            }
            body.extend_from_slice(format!("0\r\n{}\r\n", trailer.concat()).as_bytes());
            let end = body.len();
            body.extend_from_slice(b"GET / HTTP");
            let mut decoder = ChunkDecoder::new(LIMITS);
            prop_assert_eq!(decoder.check(&body), Ok(end));

            let first = cuts[0].min(body.len());
            let second = cuts[1].clamp(first, body.len());
            let mut decoder = ChunkDecoder::new(LIMITS);
            let (mut data, mut fields, mut behind) = (Vec::new(), Vec::new(), Vec::new());
            for part in [&body[..first], &body[first..second], &body[second..]] {
                if decoder.is_over() {
                    behind.extend_from_slice(part);
                }
                for piece in decoder.pieces(part) {
                    match piece.unwrap() {
                        BodyPiece::Data(bytes) => data.extend_from_slice(bytes),
                        BodyPiece::Trailer(bytes) => fields.extend_from_slice(bytes),
                        BodyPiece::End { behind: bytes } => behind.extend_from_slice(bytes),
                    }
                }
            }
            let sent: Vec<u8> = chunks.iter().flat_map(|(data, _)| data.clone()).collect();
            prop_assert_eq!(data, sent);
            prop_assert_eq!(fields, trailer.concat().into_bytes());
            prop_assert_eq!(behind, b"GET / HTTP");
            prop_assert!(decoder.is_over());
        }

        /// Goal: no bytes from the network cause a panic. Method: any bytes.
        #[test]
        fn any_bytes_are_judged(body: Vec<u8>) {
            let _ = judge(&body);
        }
    }
}
