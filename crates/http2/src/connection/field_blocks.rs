//! Gathers and decodes blocks of fields, RFC 9113 §4.3 and §6.10.
//!
//! A block in one frame is decoded from where it came; one in several is gathered first, up to twice the size of the longest list of
//! fields.

use bytes::BytesMut;

use super::stream_end::StreamEnd;
use crate::frame::{FrameHead, FrameKind};
use crate::hpack::{DecodedField, DecodedList, FieldDecoder, HpackError};
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

/// Bytes for which there is room in a decoded head beside those of the last one.
const HEAD_ROOM: usize = 64;
/// Bytes for which there is room at most before a head is decoded.
const MOST_ROOM: usize = 4096;

/// The blocks of a connection.
#[derive(Debug)]
pub(super) struct FieldBlocks {
    decoder: FieldDecoder,
    /// The block whose end has not come.
    open: Option<OpenBlock>,
    /// Bytes of the last head, decoded: the next one has mostly as many.
    usual_head: usize,
}

/// The head of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockStart {
    pub(super) stream: StreamId,
    /// The end of the peer's side of the stream.
    pub(super) end: StreamEnd,
    /// True if the stream depends on itself.
    pub(super) depends_on_itself: bool,
}

/// A block whose end has not come.
#[derive(Debug)]
pub(super) struct OpenBlock {
    pub(super) start: BlockStart,
    pub(super) bytes: Vec<u8>,
}

impl FieldBlocks {
    /// Returns the blocks of a new connection, whose lists of fields have at most this size.
    pub(super) fn new(max_list_size: u32) -> Self {
        let max_list_size = usize::try_from(max_list_size).unwrap_or(usize::MAX);
        Self {
            decoder: FieldDecoder::new(max_list_size),
            open: None,
            usual_head: 0,
        }
    }

    /// Returns the bytes that are kept.
    pub(super) fn held_back(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.bytes.len())
    }

    /// Checks whether a frame may come here: CONTINUATION of the same stream within a block, and nowhere else, RFC 9113 §6.10.
    pub(super) fn check_order(&self, head: FrameHead) -> Result<(), RuleViolation> {
        let is_in_order = match &self.open {
            Some(open) => head.kind == FrameKind::CONTINUATION && head.stream == open.start.stream,
            None => head.kind != FrameKind::CONTINUATION,
        };
        match is_in_order {
            true => Ok(()),
            false => Err(RuleViolation::Continuation),
        }
    }

    /// Begins a block whose end is in another frame.
    pub(super) fn begin(&mut self, start: BlockStart, fragment: &[u8]) {
        let bytes = fragment.to_vec();
        self.open = Some(OpenBlock { start, bytes });
    }

    /// Adds a part to the block that was begun.
    pub(super) fn extend(&mut self, fragment: &[u8]) -> Result<(), RuleViolation> {
        let most = self.decoder.max_list_size().saturating_mul(2);
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        // RFC 9113 §10.5.1: a list is no longer decoded when it is far too long.
        if open.bytes.len() + fragment.len() > most {
            return Err(RuleViolation::FieldBlockSize);
        }
        open.bytes.extend_from_slice(fragment);
        Ok(())
    }

    /// Decodes a block.
    pub(super) fn decode(
        &mut self,
        block: &[u8],
        report: impl FnMut(&BytesMut, DecodedField),
    ) -> Result<(BytesMut, DecodedList), RuleViolation> {
        let mut bytes = BytesMut::with_capacity(self.usual_head.min(MOST_ROOM) + HEAD_ROOM);
        let list = self.decoder.decode(block, &mut bytes, report);
        let list = list.map_err(|error| match error {
            HpackError::ListSize => RuleViolation::FieldBlockSize,
            _ => RuleViolation::Compression,
        })?;
        Ok((bytes, list))
    }

    /// Takes the block that was begun.
    pub(super) fn take(&mut self) -> Option<OpenBlock> {
        self.open.take()
    }

    /// Takes note of the bytes of a head.
    pub(super) fn note_head(&mut self, bytes: usize) {
        self.usual_head = bytes;
    }
}
