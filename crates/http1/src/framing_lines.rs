//! Writes the lines that frame a body: its field in a head, and the lines around chunks.
//!
//! Whoever forwards a message removes the framing fields that it came with and writes these, so that what the next recipient reads
//! is what was decided here (RFC 9112 §6.3). Lines are short and are returned by value, so writing them allocates nothing.

use std::num::NonZeroUsize;

use crate::bytes::LINE_END;
use crate::framing::BodyFraming;

/// The last chunk, behind which the field lines of a trailer and [`LINE_END`] follow, RFC 9112 §7.1.
pub const LAST_CHUNK: &[u8] = b"0\r\n";

/// One line with its end, or nothing.
#[derive(Clone, Copy, Debug)]
pub struct FramingLine {
    bytes: [u8; LONGEST],
    length: usize,
}

/// Bytes of the longest line: `content-length: `, the 20 digits of 2^64 - 1, and the line end.
const LONGEST: usize = 38;

impl BodyFraming {
    /// Returns the field line that announces this framing; nothing for no body and for one that ends with the connection.
    ///
    /// # Example
    ///
    /// ```
    /// use sluicegate_http1::BodyFraming;
    ///
    /// assert_eq!(BodyFraming::Length(5).field_line().as_ref(), b"content-length: 5\r\n");
    /// assert_eq!(BodyFraming::Chunked.field_line().as_ref(), b"transfer-encoding: chunked\r\n");
    /// assert_eq!(BodyFraming::None.field_line().as_ref(), b"");
    /// ```
    #[must_use]
    pub fn field_line(self) -> FramingLine {
        match self {
            Self::None | Self::UntilClose => FramingLine::EMPTY,
            Self::Length(bytes) => FramingLine::EMPTY
                .with(b"content-length: ")
                .with_number::<10>(bytes)
                .with(LINE_END),
            Self::Chunked => FramingLine::EMPTY
                .with(b"transfer-encoding: chunked")
                .with(LINE_END),
        }
    }
}

/// Returns the line before so many bytes of data, behind which [`LINE_END`] stands. A chunk of no data would be the last one.
#[must_use]
pub fn chunk_line(size: NonZeroUsize) -> FramingLine {
    FramingLine::EMPTY
        .with_number::<16>(size.get() as u64)
        .with(LINE_END)
}

impl FramingLine {
    const EMPTY: Self = Self {
        bytes: [0; LONGEST],
        length: 0,
    };

    /// Adds bytes, if there is room for them, which there is in each of these lines.
    #[inline]
    fn with(mut self, bytes: &[u8]) -> Self {
        let end = self.length + bytes.len();
        if let Some(place) = self.bytes.get_mut(self.length..end) {
            place.copy_from_slice(bytes);
            self.length = end;
        }
        self
    }

    /// Adds a number in the numeral system of this base.
    fn with_number<const BASE: u64>(self, number: u64) -> Self {
        let mut digits = [0; 20];
        let mut start = digits.len();
        let mut rest = number;
        for place in digits.iter_mut().rev() {
            *place = b"0123456789abcdef"[(rest % BASE) as usize];
            start -= 1;
            rest /= BASE;
            if rest == 0 {
                break;
            }
        }
        self.with(&digits[start..])
    }
}

impl AsRef<[u8]> for FramingLine {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::body_reader::BodyReader;
    use crate::chunks::{BodyPiece, ChunkLimits};
    use crate::head::{HeadLimits, HeadProgress};
    use crate::response::{AnsweredMethod, ResponseHead};

    /// Returns the framing of a response with this line.
    fn parsed(line: &[u8]) -> BodyFraming {
        let limits = HeadLimits {
            bytes: 1024,
            fields: 1,
            target: 0,
        };
        let read = [b"HTTP/1.1 200\r\n", line, LINE_END].concat();
        let mut head = ResponseHead::new();
        let progress = head.parse(&read, &limits);
        assert_eq!(progress, Ok(HeadProgress::Whole(read.len())));
        head.framing(AnsweredMethod::Other)
    }

    /// Goal: the longest line has room. Method: the largest length and the largest chunk.
    #[test]
    fn the_largest_numbers_have_room() {
        let line = BodyFraming::Length(u64::MAX).field_line();
        assert_eq!(line.as_ref(), b"content-length: 18446744073709551615\r\n");
        assert_eq!(
            chunk_line(NonZeroUsize::MAX).as_ref(),
            b"ffffffffffffffff\r\n"
        );
    }

    proptest! {
        /// Goal: a framing that is written is the framing that is read. Method: any length, and the other framings of a response.
        #[test]
        fn a_written_framing_is_parsed_as_meant(bytes: u64) {
            for framing in [BodyFraming::Length(bytes), BodyFraming::Length(0), BodyFraming::Chunked, BodyFraming::UntilClose] {
                prop_assert_eq!(parsed(framing.field_line().as_ref()), framing);
            }
        }

        /// Goal: chunks that are written contain the data and the trailer that were meant. Method: chunks of any data and fields, read
        /// back in parts.
        #[test]
        fn written_chunks_are_read_as_meant(
            sent in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..4),
            trailer in prop::collection::vec("[A-Za-z]{1,5}: [a-z ]{0,5}\r\n", 0..3),
            part in 1_usize..400,
        ) {
            let trailer = trailer.concat();
            let mut written = Vec::new();
            for data in &sent {
                written.extend_from_slice(chunk_line(NonZeroUsize::new(data.len()).unwrap()).as_ref());
                written.extend_from_slice(data);
                written.extend_from_slice(LINE_END);
            }
            written.extend_from_slice(&[LAST_CHUNK, trailer.as_bytes(), LINE_END].concat());
            let limits = ChunkLimits { overhead: 64, trailer: 64, trailer_fields: 4 };
            let mut body = BodyReader::new(BodyFraming::Chunked, limits);
            let (mut data, mut fields) = (Vec::new(), Vec::new());
            for bytes in written.chunks(part) {
                prop_assert!(!body.is_over());
                for piece in body.pieces(bytes) {
                    match piece.unwrap() {
                        BodyPiece::Data(bytes) => data.extend_from_slice(bytes),
                        BodyPiece::Trailer(bytes) => fields.extend_from_slice(bytes),
                        BodyPiece::End { behind } => prop_assert_eq!(behind, b""),
                    }
                }
            }
            prop_assert!(body.is_over());
            prop_assert_eq!(data, sent.concat());
            prop_assert_eq!(fields, trailer.into_bytes());
        }
    }
}
