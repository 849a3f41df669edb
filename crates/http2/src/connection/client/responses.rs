//! Reads the heads of responses.

use super::ClientConnection;
use super::event::{ClientEvent, ClientResult};
use crate::connection::field_blocks::BlockStart;
use crate::connection::stream::ReceiveState;
use crate::connection::stream_end::StreamEnd;
use crate::hpack::DecodedList;
use crate::response_head::{RequestedContent, ResponseBuilder, ResponseHead};
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

impl ClientConnection {
    /// Acts on the block of a head.
    pub(super) fn receive_head<'a>(
        &mut self,
        start: BlockStart,
        block: &[u8],
        requested: RequestedContent,
    ) -> ClientResult<'a> {
        let mut builder = ResponseBuilder::new();
        let blocks = &mut self.core.blocks;
        let decoded = blocks.decode(block, |bytes, field| builder.add(bytes, field));
        let (bytes, list) = decoded?;
        blocks.note_head(bytes.len());
        let head = match list {
            DecodedList::Whole => builder.finish(bytes),
            DecodedList::TooLarge => Err(RuleViolation::FieldListSize),
        };
        let stream = start.stream;
        let end = start.end;
        let taken = head.and_then(|head| self.take_head(stream, head, end, requested));
        match taken {
            Ok(head) => Ok(Some(ClientEvent::Response { stream, head, end })),
            Err(violation) => self.reject(stream, violation),
        }
    }

    /// Moves the stream on by a head.
    fn take_head(
        &mut self,
        stream: StreamId,
        head: ResponseHead,
        end: StreamEnd,
        requested: RequestedContent,
    ) -> Result<ResponseHead, RuleViolation> {
        if head.is_interim() {
            // RFC 9113 §8.1.
            return match end {
                StreamEnd::Here => Err(RuleViolation::InterimEnd),
                StreamEnd::NotYet => Ok(head),
            };
        }
        let announced = head.body_length(requested);
        // RFC 9113 §8.1.1.
        if end.is_here() && announced.is_some_and(|bytes| bytes > 0) {
            return Err(RuleViolation::BodyLength);
        }
        if let Some(state) = self.core.streams.get_mut(stream) {
            state.announced = announced;
            state.receiving = ReceiveState::Body;
        }
        if end.is_here() {
            self.core.end_receiving(stream);
        }
        Ok(head)
    }
}
