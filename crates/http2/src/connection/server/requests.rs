//! Reads the heads of requests, and opens their streams.

use super::ServerConnection;
use super::event::{ConnectionEvent, EventResult};
use crate::connection::field_blocks::BlockStart;
use crate::connection::stream::ReceiveState;
use crate::error_code::ErrorCode;
use crate::frame::write_reset;
use crate::hpack::DecodedList;
use crate::priority::StreamPriority;
use crate::request_head::{HeadBuilder, RequestHead};
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

impl ServerConnection {
    pub(super) fn receive_request(
        &mut self,
        start: BlockStart,
        block: &[u8],
    ) -> EventResult<'static> {
        let stream = start.stream;
        self.core.last_stream = stream;
        let mut builder = HeadBuilder::new();
        let decoded = self
            .core
            .blocks
            .decode(block, |bytes, field| builder.add(bytes, field));
        let (bytes, list) = decoded?;
        // RFC 9113 §6.8: streams behind the last one of GOAWAY are ignored.
        if self.shutdown.ignores(stream) {
            self.core.ended.add_reset(stream);
            return Ok(None);
        }
        if self.core.streams.len() >= self.core.limits.max_streams as usize {
            return self.refuse(stream);
        }
        self.core.blocks.note_head(bytes.len());
        let head = match list {
            DecodedList::Whole => builder.finish(bytes, self.core.limits.extended_connect),
            DecodedList::TooLarge => Err(RuleViolation::FieldListSize),
        };
        self.core.floods.begin_request();
        let early = self.take_early_priority(stream);
        let mut state = self.core.new_stream(stream);
        state.announced = head.as_ref().ok().and_then(RequestHead::content_length);
        let is_ended = start.end.is_here();
        if is_ended {
            state.receiving = ReceiveState::Ended;
        }
        let head = match head {
            Ok(_) if start.depends_on_itself => Err(RuleViolation::SelfDependency),
            // RFC 9113 §8.1.1.
            Ok(_) if is_ended && state.announced.is_some_and(|bytes| bytes > 0) => {
                Err(RuleViolation::BodyLength)
            }
            head => head,
        };
        if let Ok(head) = &head {
            state.priority = early
                .or(head.priority())
                .unwrap_or(StreamPriority::UNSIGNALED);
        }
        self.core.streams.insert(state);
        match head {
            Ok(head) => {
                let end = start.end;
                Ok(Some(ConnectionEvent::Request { stream, head, end }))
            }
            Err(violation) => self.reject(stream, violation),
        }
    }

    /// Refuses a stream beyond those that may be open, RFC 9113 §5.1.2.
    fn refuse(&mut self, stream: StreamId) -> EventResult<'static> {
        // Before it has the settings a client cannot know how many those are.
        if self.core.are_settings_acknowledged {
            self.core.floods.break_stream()?;
        }
        write_reset(self.core.output.writer(), stream, ErrorCode::REFUSED_STREAM);
        self.core.ended.add_reset(stream);
        Ok(None)
    }
}
