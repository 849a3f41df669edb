//! Takes the body of a response from the bytes of its origin, and frames it for the client: as it came, in chunks, or compressed.

use bytes::{Buf, BytesMut};
use sluicegate_base::reported_cost::CostReader;
use sluicegate_http1::{BodyFraming, BodyPiece, BodyReader, RuleViolation};

use super::cached::BodyTap;
use super::chunk_limits::CHUNK_LIMITS;
use super::request_body::{write_last_chunk, write_piece};
use crate::gateway::shape::ChargedEncoder;
use sluicegate_origin::request_failure::{OriginFailure, RequestFailure, Result};

/// Bytes of a piece of a body that are written together with the head or the lines around them; a larger piece is written from where it was
/// read.
pub(super) const JOINED_PIECE: usize = 8 * 1024;

/// The body of one response.
pub(super) struct ResponseBody {
    reader: BodyReader,
    encoder: ContentWriter,
    /// True if the client gets the bytes in the form in which they were read.
    passes_as_read: bool,
    /// The uses of the body beside its way to the client.
    tap: Option<Box<BodyTap>>,
    /// True if its trailer exceeds the bounds, and was not read to its end.
    has_large_trailer: bool,
}

/// Frames content for the client.
pub(super) struct ContentWriter {
    framing: BodyFraming,
    /// The encoder, until the body ends.
    encoder: Option<Box<ChargedEncoder>>,
    /// True if the client gets the body in a coding of the gateway.
    is_encoded: bool,
    /// Bytes of content for the client.
    content: u64,
}

/// The bytes of a body that were taken.
pub(super) struct TakenPiece {
    /// Bytes of its data.
    pub(super) data: usize,
    /// Bytes that are to be written from where they were read; 0 where they were moved.
    pub(super) as_read: usize,
}

impl ResponseBody {
    /// Begins a body that is received in this framing, behind its head, which is in `out`. A body that is over with its head ends here.
    ///
    /// # Errors
    /// The coder failed.
    pub(super) fn begin(
        received: BodyFraming,
        encoder: ContentWriter,
        tap: Option<Box<BodyTap>>,
        out: &mut Vec<u8>,
    ) -> Result<Self> {
        let mut body = Self {
            reader: BodyReader::new(received, CHUNK_LIMITS),
            passes_as_read: received != BodyFraming::Chunked
                && encoder.passes_as_it_is()
                && tap.is_none(),
            encoder,
            tap,
            has_large_trailer: false,
        };
        if body.is_over() {
            body.end(out)?;
        }
        Ok(body)
    }

    /// Returns whether it was read to its end.
    pub(super) fn is_over(&self) -> bool {
        self.reader.is_over()
    }

    /// Returns whether the client has all that it gets of it.
    pub(super) fn is_client_served(&self) -> bool {
        self.is_partial() || self.is_over()
    }

    /// Returns whether the client gets less than the whole of it.
    pub(super) fn is_partial(&self) -> bool {
        self.tap.as_ref().is_some_and(|tap| tap.is_client_served())
    }

    /// Returns whether the client gets all bytes of the origin, which its trailers are about.
    pub(super) fn keeps_trailers(&self) -> bool {
        !self.is_partial() && !self.encoder.is_encoded
    }

    /// Returns whether its rest is needed, though the client gets none of it: it is being stored, or a cost is read from it.
    pub(super) fn needs_rest(&self) -> bool {
        !self.is_over() && self.tap.as_ref().is_some_and(|tap| tap.needs_whole())
    }

    /// Returns the readers of costs, which have read what has passed.
    pub(super) fn take_costs(&mut self) -> Vec<CostReader> {
        let tap = self.tap.as_mut();
        tap.map_or_else(Vec::new, |tap| tap.take_costs())
    }

    /// Returns whether its trailer exceeds the bounds: bytes of it may be left in the connection.
    pub(super) fn has_large_trailer(&self) -> bool {
        self.has_large_trailer
    }

    /// Ends the body at a trailer that exceeds the bounds: all data is here, and no trailer of HTTP/1.1 passes.
    fn end_at_large_trailer(&mut self) {
        if self.has_large_trailer {
            self.reader.end_at_trailer();
        }
    }

    fn end_tap(&mut self) {
        if let Some(tap) = &mut self.tap {
            tap.end();
        }
    }

    /// Returns the bytes of content for the client that were taken.
    pub(super) fn content(&self) -> u64 {
        self.encoder.content
    }

    /// Takes the bytes of the body that were read: a large piece that passes as it was read stays, all others move to `out`, framed for the
    /// client.
    ///
    /// # Errors
    /// Its chunks are malformed, or the coder failed.
    pub(super) fn take(&mut self, read: &mut BytesMut, out: &mut Vec<u8>) -> Result<TakenPiece> {
        let mut taken = TakenPiece {
            data: 0,
            as_read: 0,
        };
        if self.is_over() || read.is_empty() {
            return Ok(taken);
        }
        if !self.passes_as_read {
            taken.data = self.frame(read, out)?;
            return Ok(taken);
        }
        taken.data = self
            .reader
            .check(read)
            .map_err(OriginFailure::MalformedBody)?;
        self.encoder.content += taken.data as u64;
        if taken.data > JOINED_PIECE {
            taken.as_read = taken.data;
        } else {
            out.extend_from_slice(&read[..taken.data]);
            read.advance(taken.data);
        }
        Ok(taken)
    }

    /// Moves the bytes that were read to `out`. Returns the number of bytes of its data.
    fn frame(&mut self, read: &mut BytesMut, out: &mut Vec<u8>) -> Result<usize> {
        let mut data = 0;
        let mut behind = 0;
        for piece in self.reader.pieces(read) {
            match piece {
                Ok(BodyPiece::Data(bytes)) => {
                    data += bytes.len();
                    let mut pass = |bytes: &[u8]| self.encoder.push(bytes, out);
                    match &mut self.tap {
                        Some(tap) => tap.take(bytes, pass)?,
                        None => pass(bytes)?,
                    }
                }
                Ok(BodyPiece::Trailer(_)) => {}
                Ok(BodyPiece::End { behind: rest }) => behind = rest.len(),
                Err(RuleViolation::Trailer) => self.has_large_trailer = true,
                Err(rule) => return Err(OriginFailure::MalformedBody(rule).into()),
            }
        }
        self.end_at_large_trailer();
        read.advance(read.len() - behind);
        if self.is_over() {
            self.end(out)?;
        }
        Ok(data)
    }

    /// Ends a body whose origin closed the connection.
    ///
    /// # Errors
    /// The body is truncated.
    pub(super) fn end_of_stream(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if self.reader.end_of_stream().is_err() {
            return Err(OriginFailure::Truncated.into());
        }
        self.end(out)
    }

    /// Ends the body for all that use it: appends what follows its last piece for the client.
    fn end(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.end_tap();
        self.encoder.finish(out)
    }

    /// Drops the bytes of the body that were read, but for the cache and the readers of costs. Returns their number.
    ///
    /// # Errors
    /// Its chunks are malformed.
    pub(super) fn discard(&mut self, read: &mut BytesMut) -> Result<usize, OriginFailure> {
        if self.is_over() {
            return Ok(0);
        }
        let mut tap = self.tap.as_mut().filter(|tap| tap.needs_whole());
        let mut behind = 0;
        for piece in self.reader.pieces(read) {
            match piece {
                Ok(BodyPiece::Data(bytes)) => {
                    tap.iter_mut().for_each(|tap| tap.take_unsent(bytes));
                }
                Ok(BodyPiece::Trailer(_)) => {}
                Ok(BodyPiece::End { behind: rest }) => behind = rest.len(),
                Err(RuleViolation::Trailer) => self.has_large_trailer = true,
                Err(rule) => return Err(OriginFailure::MalformedBody(rule)),
            }
        }
        self.end_at_large_trailer();
        let bytes = read.len() - behind;
        read.advance(bytes);
        if self.is_over() {
            self.end_tap();
        }
        Ok(bytes)
    }
}

impl ContentWriter {
    /// Returns an encoder for a body with this framing.
    pub(super) fn new(framing: BodyFraming, encoder: Option<Box<ChargedEncoder>>) -> Self {
        Self {
            framing,
            is_encoded: encoder.is_some(),
            encoder,
            content: 0,
        }
    }

    /// Returns whether content is written without any change.
    pub(super) fn passes_as_it_is(&self) -> bool {
        self.framing != BodyFraming::Chunked && !self.is_encoded
    }

    /// Returns the bytes of content for the client so far.
    pub(super) fn content(&self) -> u64 {
        self.content
    }

    /// Counts content that is written without any change.
    pub(super) fn count(&mut self, content: &[u8]) {
        self.content += content.len() as u64;
    }

    /// Appends content.
    ///
    /// # Errors
    /// The coder failed.
    pub(super) fn push(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let coded;
        let content = match &mut self.encoder {
            Some(encoder) => {
                let pushed = encoder.compressor.push(content);
                coded = pushed.map_err(RequestFailure::internal)?;
                &coded[..]
            }
            None => content,
        };
        self.content += content.len() as u64;
        write_piece(out, self.framing, content);
        Ok(())
    }

    /// Appends what follows the last piece, and frees the encoder.
    ///
    /// # Errors
    /// The coder failed.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        if let Some(encoder) = self.encoder.take() {
            let finished = encoder.compressor.finish();
            let rest = finished.map_err(RequestFailure::internal)?;
            self.content += rest.len() as u64;
            write_piece(out, self.framing, &rest);
        }
        if self.framing == BodyFraming::Chunked {
            write_last_chunk(out);
        }
        Ok(())
    }
}
