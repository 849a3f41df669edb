//! Finds the end of a body in any split of its bytes, whatever frames it, and the data in it.
//!
//! A body is passed on as it came where both sides frame it alike ([`BodyReader::check`]), and in pieces where they do not
//! ([`BodyReader::pieces`]). A body whose connection ends too early must not look complete to the next recipient, RFC 9112 §8.

use std::error::Error;
use std::fmt;

use crate::chunks::{BodyPiece, ChunkDecoder, ChunkLimits, ChunkPieces};
use crate::framing::BodyFraming;
use crate::violation::RuleViolation;

/// The progress within a body.
///
/// # Example
///
/// ```
/// use sluicegate_http1::{BodyFraming, BodyReader, ChunkLimits, TruncatedBody};
///
/// # fn main() -> Result<(), sluicegate_http1::RuleViolation> {
/// let limits = ChunkLimits { overhead: 16 * 1024, trailer: 8 * 1024, trailer_fields: 64 };
/// let mut body = BodyReader::new(BodyFraming::Length(5), limits);
/// assert_eq!(body.check(b"hel")?, 3);
/// assert_eq!(body.end_of_stream(), Err(TruncatedBody { missing: Some(2) }));
/// assert_eq!(body.check(b"loHTTP/1.1 200")?, 2);
/// assert!(body.is_over());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BodyReader {
    state: BodyState,
}

/// The bytes that are expected next.
#[derive(Clone, Copy, Debug)]
enum BodyState {
    /// So many bytes of data; the body is over where there are none.
    Length {
        left: u64,
    },
    Chunked(ChunkDecoder),
    /// Data up to the end of the connection.
    UntilClose,
}

/// An iterator over the pieces of a body that some bytes contain.
#[derive(Debug)]
pub struct BodyPieces<'r, 'a>(PieceSource<'r, 'a>);

/// The pieces of each framing.
#[derive(Debug)]
enum PieceSource<'r, 'a> {
    /// One piece of data, and the end.
    Plain {
        data: Option<&'a [u8]>,
        behind: Option<&'a [u8]>,
    },
    Chunked(ChunkPieces<'r, 'a>),
}

/// A connection that ended before the body did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruncatedBody {
    /// The missing bytes; `None` for a body in chunks, whose length only its last chunk says.
    pub missing: Option<u64>,
}

impl BodyReader {
    /// Returns the state before the first byte. A body of no bytes is over at once.
    #[must_use]
    pub const fn new(framing: BodyFraming, limits: ChunkLimits) -> Self {
        let state = match framing {
            BodyFraming::None => BodyState::Length { left: 0 },
            BodyFraming::Length(left) => BodyState::Length { left },
            BodyFraming::Chunked => BodyState::Chunked(ChunkDecoder::new(limits)),
            BodyFraming::UntilClose => BodyState::UntilClose,
        };
        Self { state }
    }

    /// Returns whether the body has ended.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        match &self.state {
            BodyState::Length { left } => *left == 0,
            BodyState::Chunked(decoder) => decoder.is_over(),
            BodyState::UntilClose => false,
        }
    }

    /// Checks bytes that are passed on as they came. Returns how many of them belong to the body: all, unless it ends among them.
    ///
    /// # Errors
    /// The chunks are ambiguous or have too many bytes beside data. No byte after them may be read.
    pub fn check(&mut self, bytes: &[u8]) -> Result<usize, RuleViolation> {
        match &mut self.state {
            BodyState::Length { left } => Ok(take(left, bytes)),
            BodyState::Chunked(decoder) => decoder.check(bytes),
            BodyState::UntilClose => Ok(bytes.len()),
        }
    }

    /// Returns the pieces of the body in the next bytes of it: data, trailer and end. They are to be read to the end. A body that is
    /// over has no further ones, so a body of no bytes has no [`BodyPiece::End`].
    ///
    /// A piece is an error where the chunks are ambiguous or have too many bytes beside data. No byte after it may be read.
    pub fn pieces<'r, 'a>(&'r mut self, bytes: &'a [u8]) -> BodyPieces<'r, 'a> {
        let was_over = self.is_over();
        BodyPieces(match &mut self.state {
            BodyState::Chunked(decoder) => PieceSource::Chunked(decoder.pieces(bytes)),
            BodyState::Length { left } => {
                let (data, behind) = bytes.split_at(take(left, bytes));
                PieceSource::Plain {
                    data: (!data.is_empty()).then_some(data),
                    behind: (!was_over && *left == 0).then_some(behind),
                }
            }
            BodyState::UntilClose => PieceSource::Plain {
                data: (!bytes.is_empty()).then_some(bytes),
                behind: None,
            },
        })
    }

    /// Ends a body in chunks of which all data was read, at [`RuleViolation::Trailer`]. No byte of the connection may be read after it.
    pub const fn end_at_trailer(&mut self) {
        self.state = BodyState::Length { left: 0 };
    }

    /// Ends the body where the connection ends. RFC 9112 §8: only a body without a length or chunks may end there.
    ///
    /// # Errors
    /// [`TruncatedBody`] for a body that is not over.
    pub fn end_of_stream(&mut self) -> Result<(), TruncatedBody> {
        match &self.state {
            BodyState::UntilClose => {
                self.state = BodyState::Length { left: 0 };
                Ok(())
            }
            _ if self.is_over() => Ok(()),
            BodyState::Length { left } => Err(TruncatedBody {
                missing: Some(*left),
            }),
            BodyState::Chunked(_) => Err(TruncatedBody { missing: None }),
        }
    }
}

impl<'a> Iterator for BodyPieces<'_, 'a> {
    type Item = Result<BodyPiece<'a>, RuleViolation>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            PieceSource::Chunked(pieces) => pieces.next(),
            PieceSource::Plain { data, behind } => {
                let data = data.take().map(BodyPiece::Data);
                let piece = data.or_else(|| behind.take().map(|behind| BodyPiece::End { behind }));
                piece.map(Ok)
            }
        }
    }
}

impl fmt::Display for TruncatedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.missing {
            Some(bytes) => write!(
                f,
                "the connection ended {bytes} bytes before the body did (RFC 9112 §8)"
            ),
            None => f.write_str("the connection ended before the last chunk did (RFC 9112 §8)"),
        }
    }
}

impl Error for TruncatedBody {}

/// Takes from `left` the bytes that are here. Returns their number.
fn take(left: &mut u64, bytes: &[u8]) -> usize {
    let here = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
    *left -= here as u64;
    here
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: ChunkLimits = ChunkLimits {
        overhead: 1024,
        trailer: 1024,
        trailer_fields: 16,
    };

    /// Goal: a body of no bytes is over before any is read. Method: both of its framings, with bytes of the next message.
    #[test]
    fn a_body_of_no_bytes_is_over_at_once() {
        for framing in [BodyFraming::None, BodyFraming::Length(0)] {
            let mut body = BodyReader::new(framing, LIMITS);
            assert!(body.is_over());
            assert_eq!(body.check(b"HTTP/1.1"), Ok(0));
            assert_eq!(body.pieces(b"HTTP/1.1").next(), None);
            assert_eq!(body.end_of_stream(), Ok(()));
        }
    }

    /// Goal: a body that the connection cuts is not taken for a whole one. Method: each framing, cut and whole.
    #[test]
    fn a_cut_body_is_an_error() {
        for (framing, read, end) in [
            (BodyFraming::Length(5), "hel", Err(Some(2))),
            (
                BodyFraming::Length(u64::MAX),
                "hel",
                Err(Some(u64::MAX - 3)),
            ),
            (BodyFraming::Length(5), "hello", Ok(())),
            (BodyFraming::Chunked, "", Err(None)),
            (BodyFraming::Chunked, "5\r\nhel", Err(None)),
            (BodyFraming::Chunked, "5\r\nhello\r\n0\r\n", Err(None)),
            (BodyFraming::Chunked, "5\r\nhello\r\n0\r\n\r\n", Ok(())),
            (BodyFraming::UntilClose, "", Ok(())),
            (BodyFraming::UntilClose, "hello", Ok(())),
        ] {
            let mut body = BodyReader::new(framing, LIMITS);
            assert_eq!(body.check(read.as_bytes()), Ok(read.len()), "{read:?}");
            let end = end.map_err(|missing| TruncatedBody { missing });
            assert_eq!(body.end_of_stream(), end, "{framing:?} {read:?}");
            assert_eq!(body.is_over(), end.is_ok(), "{framing:?} {read:?}");
        }
    }

    proptest! {
        /// Goal: data, end and the bytes behind it are the same in every split, and `check` finds the same end. Method: data in each
        /// framing, with bytes behind it, cut in three.
        #[test]
        fn pieces_are_those_of_the_body(
            data in prop::collection::vec(any::<u8>(), 1..40),
            kind in 0..3,
            cuts in prop::array::uniform2(0_usize..60),
        ) {
            let (framing, sent, behind) = match kind {
                0 => (BodyFraming::Length(data.len() as u64), data.clone(), &b"HTTP/1.1"[..]),
                1 => {
                    let chunk = [format!("{:x}\r\n", data.len()).as_bytes(), &data, b"\r\n0\r\n\r\n"].concat();
                    (BodyFraming::Chunked, chunk, &b"HTTP/1.1"[..])
                }
                _ => (BodyFraming::UntilClose, data.clone(), &b""[..]),
            };
            let read = [&sent, behind].concat();
            let first = cuts[0].min(read.len());
            let second = cuts[1].clamp(first, read.len());
            let (mut checked, mut body) = (BodyReader::new(framing, LIMITS), BodyReader::new(framing, LIMITS));
            let (mut taken, mut found, mut rest, mut ends) = (0, Vec::new(), Vec::new(), 0);
            for part in [&read[..first], &read[first..second], &read[second..]] {
                taken += checked.check(part).unwrap();
                if body.is_over() {
                    rest.extend_from_slice(part);
                }
                for piece in body.pieces(part) {
                    match piece.unwrap() {
                        BodyPiece::Data(bytes) => found.extend_from_slice(bytes),
                        BodyPiece::Trailer(_) => {}
                        BodyPiece::End { behind } => {
                            ends += 1;
                            rest.extend_from_slice(behind);
                        }
                    }
                }
                prop_assert_eq!(checked.is_over(), body.is_over());
            }
            prop_assert_eq!(taken, sent.len());
            prop_assert_eq!(found, data);
            prop_assert_eq!(&rest[..], behind);
            prop_assert_eq!(ends, usize::from(framing != BodyFraming::UntilClose));
            prop_assert_eq!(body.end_of_stream(), Ok(()));
        }
    }
}
