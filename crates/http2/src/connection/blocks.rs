//! Decides what a block of fields means for its stream, and reads trailers.
//!
//! Each block is decoded, whatever becomes of its stream, since later blocks may refer to its fields.

use super::connection_core::ConnectionCore;
use super::field_blocks::BlockStart;
use super::stream::ReceiveState;
use super::stream_event::{StreamEvent, StreamResult};
use crate::field_lines::TrailerBuilder;
use crate::hpack::DecodedList;
use crate::violation::RuleViolation;

/// The meaning of a block for a stream that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockMeaning {
    Trailers,
    /// Its stream is over, or its message malformed.
    Nothing,
    /// It breaks a rule of its stream.
    Broken(RuleViolation),
}

impl ConnectionCore {
    fn block_meaning(&self, start: BlockStart) -> Result<BlockMeaning, RuleViolation> {
        let stream = start.stream;
        let Some(state) = self.streams.get(stream) else {
            if self.ended.is_reset(stream) {
                return Ok(BlockMeaning::Nothing);
            }
            // RFC 9113 §5.1, §5.1.1: a stream that is closed, or one whose number was left out, which closes it.
            return Err(match self.ended.is_ended(stream) {
                true => RuleViolation::ClosedStream,
                false => RuleViolation::StreamNumber,
            });
        };
        Ok(match state.receiving {
            // RFC 9113 §8.1: a second block ends the message.
            ReceiveState::Body if !start.end.is_here() => {
                BlockMeaning::Broken(RuleViolation::Trailers)
            }
            ReceiveState::Body if start.depends_on_itself => {
                BlockMeaning::Broken(RuleViolation::SelfDependency)
            }
            ReceiveState::Body => BlockMeaning::Trailers,
            // Other blocks there are heads, which only one side reads.
            ReceiveState::Head(_) => BlockMeaning::Broken(RuleViolation::SelfDependency),
            ReceiveState::Ended => BlockMeaning::Broken(RuleViolation::ClosedStream),
            ReceiveState::Malformed(_) => BlockMeaning::Nothing,
        })
    }

    /// Acts on a block that begins no message.
    pub(super) fn receive_later_block(
        &mut self,
        start: BlockStart,
        block: &[u8],
    ) -> StreamResult<'static> {
        match self.block_meaning(start)? {
            BlockMeaning::Trailers => self.receive_trailers(start, block),
            BlockMeaning::Nothing => {
                self.blocks.decode(block, |_, _| {})?;
                Ok(None)
            }
            BlockMeaning::Broken(violation) => {
                self.blocks.decode(block, |_, _| {})?;
                self.break_stream(start.stream, violation)
            }
        }
    }

    fn receive_trailers(&mut self, start: BlockStart, block: &[u8]) -> StreamResult<'static> {
        let stream = start.stream;
        let mut builder = TrailerBuilder::default();
        let decoded = self
            .blocks
            .decode(block, |bytes, field| builder.add(bytes, field));
        let (bytes, list) = decoded?;
        let state = self.streams.get(stream);
        let is_short = state
            .and_then(|state| state.announced)
            .is_some_and(|bytes| bytes > 0);
        let fields = match list {
            DecodedList::TooLarge => Err(RuleViolation::FieldListSize),
            DecodedList::Whole => builder.finish(bytes),
        };
        Ok(Some(match fields {
            // RFC 9113 §8.1.1.
            Ok(_) if is_short => StreamEvent::Malformed {
                stream,
                violation: RuleViolation::BodyLength,
            },
            Ok(fields) => {
                self.end_receiving(stream);
                StreamEvent::Trailers { stream, fields }
            }
            Err(violation) => StreamEvent::Malformed { stream, violation },
        }))
    }
}
