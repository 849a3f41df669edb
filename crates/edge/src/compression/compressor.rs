//! Compresses a body, piece by piece.
//!
//! Pingora's own coders can only accept a piece or end: an event of a stream would stay inside them until hundreds more have
//! arrived. So this module drives the coders of the same libraries, and flushes a body of unknown length with every piece that
//! the origin sends. A body with a length arrives as fast as it can, and is not flushed: flushing costs some per cent of its
//! size.
//!
//! # Limits
//! [`EncoderSize`] bounds the memory of a coder. It is freed when its body ends. The output for one piece is held until it is written.

use std::io::{self, Write};

use brotli::CompressorWriter;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::encoder_size::{EncoderSize, ZSTD_WINDOW};
use sluicegate_config::rules::ContentCoding;

/// Bytes that brotli writes at once.
const BROTLI_BUFFER: usize = 4096;

/// The compressor of one body.
pub(crate) struct BodyCompressor {
    coder: BodyEncoder,
    /// True for a body of unknown length.
    flushes: bool,
}

enum BodyEncoder {
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Gzip(GzEncoder<Vec<u8>>),
}

impl BodyCompressor {
    /// Returns a compressor of this size. It outputs what it holds after every piece of a body of unknown length, else when its buffer is
    /// full. A body of known length must have that length.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn new(size: EncoderSize) -> io::Result<Self> {
        let level = u32::from(size.level);
        let coder = match size.coding {
            ContentCoding::Zstd => {
                let mut coder = zstd::stream::write::Encoder::new(Vec::new(), size.level.into())?;
                coder.window_log(ZSTD_WINDOW)?;
                coder.set_pledged_src_size(size.length)?;
                BodyEncoder::Zstd(coder)
            }
            ContentCoding::Brotli => {
                let window = size.brotli_window();
                let coder = CompressorWriter::new(Vec::new(), BROTLI_BUFFER, level, window);
                BodyEncoder::Brotli(Box::new(coder))
            }
            ContentCoding::Gzip => {
                BodyEncoder::Gzip(GzEncoder::new(Vec::new(), Compression::new(level)))
            }
        };
        Ok(Self {
            coder,
            flushes: size.length.is_none(),
        })
    }

    /// Compresses a piece and returns the bytes that can be sent, possibly none.
    ///
    /// # Errors
    /// The coder fails, as it does for a body that is longer than announced; the answer cannot continue then.
    pub(crate) fn push(&mut self, piece: &[u8]) -> io::Result<Bytes> {
        if piece.is_empty() {
            return Ok(Bytes::new());
        }
        self.coder.writer().write_all(piece)?;
        if self.flushes {
            self.coder.writer().flush()?;
        }
        Ok(Bytes::from(self.coder.take()))
    }

    /// Ends the body, returns the rest and frees the coder.
    ///
    /// # Errors
    /// The coder fails, as it does for a body that is shorter than announced.
    pub(crate) fn finish(self) -> io::Result<Bytes> {
        Ok(Bytes::from(match self.coder {
            BodyEncoder::Zstd(coder) => coder.finish()?,
            BodyEncoder::Brotli(coder) => coder.into_inner(),
            BodyEncoder::Gzip(coder) => coder.finish()?,
        }))
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
    use sluicegate_config::rules::CompressionLevel;

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
            let size = EncoderSize::new(coding, None, None);
            let mut compressor = BodyCompressor::new(size).expect("a coder");
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
        }
    }

    proptest! {
        /// Goal: the decoded output equals the input, whatever the pieces. Method: any pieces by every coding, with and without their
        /// length.
        #[test]
        fn any_body_comes_out_as_it_went_in(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..6),
            effort in prop::option::of(1_u8..=9),
            is_announced in any::<bool>(),
        ) {
            let length = is_announced.then(|| pieces.iter().map(|piece| piece.len() as u64).sum());
            for coding in ContentCoding::ALL {
                let size = EncoderSize::new(coding, effort.map(CompressionLevel), length);
                let mut compressor = BodyCompressor::new(size).expect("a coder");
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
