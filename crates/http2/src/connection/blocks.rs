//! Acts on blocks of fields: heads of requests, and trailers.
//!
//! Each block is decoded, whatever becomes of its stream, since later blocks may refer to its fields.

use super::event::EventResult;
use super::field_blocks::BlockStart;
use super::stream::{ReceiveState, SendState, StreamState};
use super::{ConnectionEvent, ServerConnection};
use crate::error_code::ErrorCode;
use crate::field_lines::TrailerBuilder;
use crate::frame::{DEFAULT_WINDOW, write_reset};
use crate::hpack::DecodedList;
use crate::priority::StreamPriority;
use crate::request_head::{HeadBuilder, RequestHead};
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

/// The meaning of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockMeaning {
    Request,
    Trailers,
    /// Its stream is over, or its request malformed.
    Nothing,
    /// It breaks a rule of its stream.
    Broken(RuleViolation),
}

impl ServerConnection {
    /// Ends the block that was begun.
    pub(super) fn end_open_block(&mut self) -> EventResult<'static> {
        match self.blocks.take() {
            Some(open) => self.receive_block(open.start, &open.bytes),
            None => Ok(None),
        }
    }

    /// Acts on a whole block.
    pub(super) fn receive_block(
        &mut self,
        start: BlockStart,
        block: &[u8],
    ) -> EventResult<'static> {
        match self.block_meaning(start)? {
            BlockMeaning::Request => self.receive_request(start, block),
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

    fn block_meaning(&self, start: BlockStart) -> Result<BlockMeaning, RuleViolation> {
        let stream = start.stream;
        if stream > self.last_stream {
            return match stream.is_of_client() {
                true => Ok(BlockMeaning::Request),
                false => Err(RuleViolation::StreamNumber),
            };
        }
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
            // RFC 9113 §8.1: a second block ends the request.
            ReceiveState::Body if !start.end.is_here() => {
                BlockMeaning::Broken(RuleViolation::Trailers)
            }
            ReceiveState::Body if start.depends_on_itself => {
                BlockMeaning::Broken(RuleViolation::SelfDependency)
            }
            ReceiveState::Body => BlockMeaning::Trailers,
            ReceiveState::Ended => BlockMeaning::Broken(RuleViolation::ClosedStream),
            ReceiveState::Malformed(_) => BlockMeaning::Nothing,
        })
    }

    fn receive_request(&mut self, start: BlockStart, block: &[u8]) -> EventResult<'static> {
        let stream = start.stream;
        self.last_stream = stream;
        let mut builder = HeadBuilder::new();
        let decoded = self
            .blocks
            .decode(block, |bytes, field| builder.add(bytes, field));
        let (bytes, list) = decoded?;
        // RFC 9113 §6.8: streams behind the last one of GOAWAY are ignored.
        if self.shutdown.ignores(stream) {
            self.ended.add_reset(stream);
            return Ok(None);
        }
        if self.streams.len() >= self.limits.max_streams as usize {
            return self.refuse(stream);
        }
        self.blocks.note_head(bytes.len());
        let head = match list {
            DecodedList::Whole => builder.finish(bytes, self.limits.extended_connect),
            DecodedList::TooLarge => Err(RuleViolation::FieldListSize),
        };
        self.floods.begin_request();
        let early = self.take_early_priority(stream);
        let mut state = self.new_stream(stream);
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
        self.streams.insert(state);
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
        if self.are_settings_acknowledged {
            self.floods.break_stream()?;
        }
        write_reset(self.output.writer(), stream, ErrorCode::REFUSED_STREAM);
        self.ended.add_reset(stream);
        Ok(None)
    }

    fn receive_trailers(&mut self, start: BlockStart, block: &[u8]) -> EventResult<'static> {
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
        // RFC 9113 §8.1.1.
        let fields = fields.and_then(|fields| match is_short {
            true => Err(RuleViolation::BodyLength),
            false => Ok(fields),
        });
        let fields = match fields {
            Ok(fields) => fields,
            Err(violation) => return self.reject(stream, violation),
        };
        self.end_receiving(stream);
        Ok(Some(ConnectionEvent::Trailers { stream, fields }))
    }

    fn new_stream(&mut self, id: StreamId) -> StreamState {
        let window = match self.are_settings_acknowledged {
            true => self.limits.stream_window,
            // RFC 9113 §6.9.2: a client that has not read the settings sends up to the default.
            false => self.limits.stream_window.max(DEFAULT_WINDOW),
        };
        StreamState {
            id,
            receiving: ReceiveState::Body,
            sending: SendState::Head,
            announced: None,
            receive_window: window.into(),
            unreleased: 0,
            released: 0,
            send_window: 0,
            reserved: 0,
            priority: StreamPriority::UNSIGNALED,
            turn: self.schedule.next_turn(),
        }
    }
}
