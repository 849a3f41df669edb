//! Compresses a body, piece by piece.
//!
//! Pingora's own coders can only accept a piece or end: an event of a stream would stay inside them until hundreds more have
//! arrived. So this module drives the coders of the same libraries, and flushes a body of unknown length with every piece that
//! the origin sends. A body with a length arrives as fast as it can, and is not flushed: flushing costs some per cent of its
//! size.
//!
//! # Limits
//! Windows are small compared with the maxima of the codings: for the duration of an answer, a coder takes some 300 KiB for gzip
//! and 2 MiB for the others at their usual effort, several times that at the highest. The output for one piece is held until it
//! is written.

use std::io::{self, Write};

use brotli::CompressorWriter;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::config::rules::{CompressionLevel, ContentCoding};

/// Bits of the window of brotli: 256 KiB.
const BROTLI_WINDOW: u32 = 18;
/// Bits of the window of zstd: 1 MiB; RFC 9659 requires every decoder to support 8 MiB.
const ZSTD_WINDOW: u32 = 20;
/// Bytes that brotli writes at once.
const BROTLI_BUFFER: usize = 4096;

/// The times at which a coder outputs the bytes that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    /// After every piece.
    Always,
    /// When its buffer is full, and at the end.
    WhenFull,
}

/// The compressor of one body.
pub struct BodyCompressor {
    /// `None` once it has ended.
    coder: Option<BodyEncoder>,
    flush: FlushMode,
}

enum BodyEncoder {
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Gzip(GzEncoder<Vec<u8>>),
}

impl BodyCompressor {
    /// Returns a compressor for `coding`, with `effort`, or with the usual effort of that coding.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(
        coding: ContentCoding,
        effort: Option<CompressionLevel>,
        flush: FlushMode,
    ) -> io::Result<Self> {
        let level = |usual: u8| effort.map_or(usual, |CompressionLevel(level)| level);
        let coder = match coding {
            ContentCoding::Zstd => {
                let mut coder = zstd::stream::write::Encoder::new(Vec::new(), i32::from(level(3)))?;
                coder.window_log(ZSTD_WINDOW)?;
                BodyEncoder::Zstd(coder)
            }
            ContentCoding::Brotli => {
                let quality = u32::from(level(4));
                let coder =
                    CompressorWriter::new(Vec::new(), BROTLI_BUFFER, quality, BROTLI_WINDOW);
                BodyEncoder::Brotli(Box::new(coder))
            }
            ContentCoding::Gzip => {
                let level = Compression::new(u32::from(level(5)));
                BodyEncoder::Gzip(GzEncoder::new(Vec::new(), level))
            }
        };
        Ok(Self {
            coder: Some(coder),
            flush,
        })
    }

    /// Compresses a piece and returns the bytes that can be sent, possibly none.
    ///
    /// # Errors
    /// The coder fails, which no coder does for such input; the answer cannot continue then.
    pub fn push(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        let Some(coder) = &mut self.coder else {
            return Ok(Bytes::new());
        };
        if piece.is_empty() {
            return Ok(Bytes::new());
        }
        coder.writer().write_all(piece)?;
        if self.flush == FlushMode::Always {
            coder.writer().flush()?;
        }
        Ok(Bytes::from(coder.take()))
    }

    /// Ends the body and returns the rest; empty where it has ended before.
    ///
    /// # Errors
    /// The errors of [`push`](Self::push).
    pub fn finish(&mut self) -> io::Result<Bytes> {
        let rest = match self.coder.take() {
            Some(BodyEncoder::Zstd(coder)) => coder.finish()?,
            Some(BodyEncoder::Brotli(coder)) => coder.into_inner(),
            Some(BodyEncoder::Gzip(coder)) => coder.finish()?,
            None => Vec::new(),
        };
        Ok(Bytes::from(rest))
    }
}

impl BodyEncoder {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Zstd(coder) => coder,
            Self::Brotli(coder) => coder,
            Self::Gzip(coder) => coder,
        }
    }

    /// Takes the bytes written since the last call.
    fn take(&mut self) -> Vec<u8> {
        std::mem::take(match self {
            Self::Zstd(coder) => coder.get_mut(),
            Self::Brotli(coder) => coder.get_mut(),
            Self::Gzip(coder) => coder.get_mut(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use proptest::prelude::*;

    fn plain(coding: ContentCoding, encoded: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        let read = match coding {
            ContentCoding::Zstd => zstd::stream::read::Decoder::new(encoded)
                .expect("a decoder")
                .read_to_end(&mut plain),
            ContentCoding::Brotli => {
                brotli::Decompressor::new(encoded, 4096).read_to_end(&mut plain)
            }
            ContentCoding::Gzip => flate2::read::GzDecoder::new(encoded).read_to_end(&mut plain),
        };
        read.expect("a whole stream");
        plain
    }

    /// Goal: an event is sent on at once. Method: the output after one piece, decoded as far as it goes.
    #[test]
    fn a_flushed_piece_can_be_read_at_once() {
        for coding in ContentCoding::ALL {
            let mut compressor =
                BodyCompressor::new(coding, None, FlushMode::Always).expect("a coder");
            let mut out = compressor.push(b"data: one\n\n").expect("bytes").to_vec();
            let mut decoder: Box<dyn Read> = match coding {
                ContentCoding::Zstd => {
                    Box::new(zstd::stream::read::Decoder::new(&*out).expect("a decoder"))
                }
                ContentCoding::Brotli => Box::new(brotli::Decompressor::new(&*out, 4096)),
                ContentCoding::Gzip => Box::new(flate2::read::GzDecoder::new(&*out)),
            };
            let mut event = [0; 11];
            decoder
                .read_exact(&mut event)
                .unwrap_or_else(|error| panic!("{coding:?}: {error}"));
            assert_eq!(&event, b"data: one\n\n");
            drop(decoder);
            out.extend_from_slice(&compressor.finish().expect("an end"));
            assert_eq!(plain(coding, &out), b"data: one\n\n");
            assert!(compressor.finish().expect("nothing more").is_empty());
        }
    }

    proptest! {
        /// Goal: the decoded output equals the input, whatever the pieces. Method: any pieces by every coding, either way of
        /// flushing.
        #[test]
        fn any_body_comes_out_as_it_went_in(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..6),
            effort in prop::option::of(1_u8..=9),
            flush in prop::sample::select(vec![FlushMode::Always, FlushMode::WhenFull]),
        ) {
            for coding in ContentCoding::ALL {
                let mut compressor = BodyCompressor::new(coding, effort.map(CompressionLevel), flush).expect("a coder");
                let mut out = Vec::new();
                for piece in &pieces {
                    out.extend_from_slice(&compressor.push(piece).expect("bytes"));
                }
                out.extend_from_slice(&compressor.finish().expect("an end"));
                prop_assert_eq!(plain(coding, &out), pieces.concat());
            }
        }
    }
}
