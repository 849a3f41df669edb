//! Checks the framing of a chunked request body, byte by byte as it arrives, more strictly than the proxy's parser does.
//!
//! The proxy reads chunks and frames them anew, so an origin never sees a client's chunk. But a proxy *in front* may have read
//! them differently, and this gateway would then take for a request what that proxy took for data. Parsers are known to disagree
//! about: a size without a digit, with spaces or more digits than fit; a bare line feed, which ends an extension for some;
//! control characters; a trailer line that is folded or no field. No well-behaved client sends any of these.
//!
//! # Limits
//! [`ChunkLimits`] bound the bytes that are not data. The parser keeps a few words of state.

use crate::bytes::is_token;

/// Bounds of the bytes of a chunked body that are not data.
#[derive(Clone, Copy, Debug)]
pub struct ChunkLimits {
    /// Bytes of sizes, extensions and line ends, beyond 16 a chunk and twice its data.
    pub overhead: usize,
    /// Bytes of the trailer.
    pub trailer: usize,
}

/// The progress within a chunked body.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    limits: ChunkLimits,
    at: At,
    /// Bytes of framing, less the allowance for the chunks so far.
    overhead: usize,
    /// Bytes of the trailer.
    trailer: usize,
}

/// A body that two parsers could frame in two ways, or one with too much framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadChunks;

/// The element that is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
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
    /// The end; further bytes belong to the next request.
    Over,
}

/// Maximum digits of a size: 2^60 bytes are more than any body may have.
const DIGITS: u8 = 15;

impl Chunks {
    /// Returns the state before the first byte.
    #[must_use]
    pub fn new(limits: ChunkLimits) -> Self {
        Self {
            limits,
            at: At::Start,
            overhead: 0,
            trailer: 0,
        }
    }

    /// Checks the bytes that arrived.
    ///
    /// # Errors
    /// The framing is ambiguous. No byte after it may be read.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<(), BadChunks> {
        while let Some((&byte, rest)) = bytes.split_first() {
            bytes = match self.at {
                // Data is skipped as a block.
                At::Data { left } => {
                    let here =
                        usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    let left = left - here as u64;
                    self.at = if left == 0 {
                        At::DataReturn
                    } else {
                        At::Data { left }
                    };
                    &bytes[here..]
                }
                At::Over => return Ok(()),
                _ => {
                    self.at = self.step(byte)?;
                    self.weigh()?;
                    rest
                }
            };
        }
        Ok(())
    }

    /// Returns the element that is expected after `byte`, which is not data.
    fn step(&mut self, byte: u8) -> Result<At, BadChunks> {
        let at = match (self.at, byte) {
            (At::Start, _) => At::Size {
                size: hex(byte)?,
                digits: 1,
            },
            (At::Size { size, .. }, b'\r') => At::SizeFeed { size },
            (At::Size { size, .. }, b';') => At::Extension { size },
            (At::Size { size, digits }, _) if digits < DIGITS => At::Size {
                size: size << 4 | hex(byte)?,
                digits: digits + 1,
            },
            (At::Extension { size }, b'\r') => At::SizeFeed { size },
            (At::Extension { size }, _) if !is_control(byte) => At::Extension { size },
            (At::SizeFeed { size: 0 }, b'\n') => At::Line,
            (At::SizeFeed { size }, b'\n') => {
                self.overhead = self.overhead.saturating_sub(justified_by(size));
                At::Data { left: size }
            }
            (At::DataReturn, b'\r') => At::DataFeed,
            (At::DataFeed, b'\n') => At::Start,
            (At::Line, b'\r') => At::LastFeed,
            (At::Line | At::Name, _) if is_token(byte) => At::Name,
            (At::Name, b':') => At::Value,
            (At::Value, b'\r') => At::ValueFeed,
            (At::Value, _) if !is_control(byte) => At::Value,
            (At::ValueFeed, b'\n') => At::Line,
            (At::LastFeed, b'\n') => At::Over,
            _ => return Err(BadChunks),
        };
        Ok(at)
    }

    /// Counts a byte that is not data.
    fn weigh(&mut self) -> Result<(), BadChunks> {
        let (count, most) = match self.at {
            At::Line | At::Name | At::Value | At::ValueFeed => {
                (&mut self.trailer, self.limits.trailer)
            }
            _ => (&mut self.overhead, self.limits.overhead),
        };
        *count += 1;
        if *count > most {
            Err(BadChunks)
        } else {
            Ok(())
        }
    }
}

/// Returns how many bytes a chunk of this size may take beside its data.
fn justified_by(size: u64) -> usize {
    usize::try_from(size.saturating_mul(2).saturating_add(16)).unwrap_or(usize::MAX)
}

fn hex(byte: u8) -> Result<u64, BadChunks> {
    char::from(byte)
        .to_digit(16)
        .map(u64::from)
        .ok_or(BadChunks)
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
    };

    fn judge(body: &[u8]) -> Result<At, BadChunks> {
        let mut chunks = Chunks::new(LIMITS);
        chunks.take(body)?;
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
            assert_eq!(judge(body.as_bytes()), Ok(At::Over), "{body:?}");
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
            assert_eq!(judge(body.as_bytes()), Err(BadChunks), "{body:?}");
        }
    }

    /// Goal: framing cannot be sent without end. Method: extensions, tiny chunks with extensions, and trailers beyond the bound;
    /// and a megabyte in chunks of one byte, which is slow but valid.
    #[test]
    fn floods_of_framing_are_refused() {
        let long = format!("5;{}\r\n", "x".repeat(LIMITS.overhead));
        assert_eq!(judge(long.as_bytes()), Err(BadChunks));
        let tiny = "1;0123456789012345678901234567890\r\nx\r\n".repeat(2000);
        assert_eq!(judge(tiny.as_bytes()), Err(BadChunks));
        let trailer = format!("0\r\nX: {}\r\n\r\n", "x".repeat(LIMITS.trailer));
        assert_eq!(judge(trailer.as_bytes()), Err(BadChunks));
        let honest = "1\r\nx\r\n".repeat(1 << 20);
        assert_eq!(judge(honest.as_bytes()), Ok(At::Start));
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
            let mut chunks = Chunks::new(LIMITS);
            let (start, end) = body.split_at(cut.min(body.len()));
            let halves = chunks.take(start).and_then(|()| chunks.take(end)).map(|()| chunks.at);
            prop_assert_eq!(halves, judge(&body));
        }

        /// Goal: no bytes from the network cause a panic. Method: any bytes.
        #[test]
        fn any_bytes_are_judged(body: Vec<u8>) {
            let _ = judge(&body);
        }
    }
}
