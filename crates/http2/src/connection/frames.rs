//! Acts on the frames of a client other than DATA.

use super::event::{EventResult, StreamEnd};
use super::field_blocks::BlockStart;
use super::stream::SendState;
use super::{ConnectionEvent, EARLY_PRIORITIES, ServerConnection};
use crate::error_code::ErrorCode;
use crate::frame::{
    FrameFlags, FrameHead, LARGEST_WINDOW, ReceivedFrame, SettingList, write_ping,
    write_settings_ack,
};
use crate::priority::StreamPriority;
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

impl ServerConnection {
    /// Acts on a frame that is right by itself.
    pub(super) fn act(
        &mut self,
        head: FrameHead,
        frame: ReceivedFrame<'_>,
    ) -> EventResult<'static> {
        let stream = head.stream;
        match frame {
            ReceivedFrame::Headers {
                fragment,
                dependency,
            } => {
                let start = BlockStart {
                    stream,
                    end: StreamEnd::from_flags(head.flags),
                    depends_on_itself: dependency == Some(stream),
                };
                if head.flags.has(FrameFlags::END_HEADERS) {
                    return self.receive_block(start, fragment);
                }
                self.blocks.begin(start, fragment);
            }
            ReceivedFrame::Continuation(fragment) => {
                self.blocks.extend(fragment)?;
                if head.flags.has(FrameFlags::END_HEADERS) {
                    return self.end_open_block();
                }
            }
            // RFC 7540 §5.3.1. Priorities of RFC 7540 change nothing else, RFC 9113 §5.3.2.
            ReceivedFrame::Priority(dependency) if dependency == stream => {
                return self.break_stream(stream, RuleViolation::SelfDependency);
            }
            ReceivedFrame::Reset(code) => return self.receive_reset(stream, code),
            ReceivedFrame::Settings(settings) => self.receive_settings(settings)?,
            ReceivedFrame::SettingsAck => self.are_settings_acknowledged = true,
            ReceivedFrame::Ping(opaque) => {
                write_ping(self.output.writer(), FrameFlags::ACK, opaque);
            }
            ReceivedFrame::PingAck(opaque) => self.receive_pong(opaque),
            ReceivedFrame::WindowUpdate(increment) => {
                return self.receive_window_update(stream, increment);
            }
            ReceivedFrame::PriorityUpdate { stream, value } => {
                self.receive_priority(stream, value);
            }
            // The client opens no more streams; those that are open go on, RFC 9113 §6.8.
            ReceivedFrame::GoAway(..) | ReceivedFrame::Priority(_) | ReceivedFrame::Unknown => {}
        }
        Ok(None)
    }

    /// Removes a stream that the client resets, RFC 9113 §6.4.
    fn receive_reset(&mut self, stream: StreamId, code: ErrorCode) -> EventResult<'static> {
        if stream > self.last_stream {
            return Err(RuleViolation::IdleStream);
        }
        let Some(state) = self.remove(stream) else {
            return Ok(None);
        };
        self.ended.add_ended(stream);
        if state.sending == SendState::Head {
            self.floods.cancel_request()?;
        }
        Ok(Some(ConnectionEvent::Reset {
            stream,
            code,
            violation: None,
        }))
    }

    /// Takes over settings and acknowledges them, RFC 9113 §6.5.3.
    fn receive_settings(&mut self, settings: SettingList<'_>) -> Result<(), RuleViolation> {
        let before = self.peer.initial_window;
        for (id, value) in settings.iter() {
            self.peer.apply(id, value)?;
            self.encoder.set_max_size(self.peer.header_table_size);
        }
        self.peer.end_first();
        if self.peer.initial_window > before {
            // RFC 9113 §6.9.2: a window that the change makes too large is an error of the connection.
            let initial = i64::from(self.peer.initial_window);
            let largest = self.streams.iter().map(|state| state.send_window).max();
            if largest.is_some_and(|window| window + initial > i64::from(LARGEST_WINDOW)) {
                return Err(RuleViolation::WindowOverflow);
            }
        }
        write_settings_ack(self.output.writer());
        Ok(())
    }

    /// Opens a window in which the client takes DATA, RFC 9113 §6.9.
    fn receive_window_update(&mut self, stream: StreamId, increment: u32) -> EventResult<'static> {
        if stream.is_connection() {
            if increment == 0 {
                return Err(RuleViolation::WindowIncrement);
            }
            self.send_window += i64::from(increment);
            return match self.send_window > i64::from(LARGEST_WINDOW) {
                true => Err(RuleViolation::WindowOverflow),
                false => Ok(None),
            };
        }
        if stream > self.last_stream {
            return Err(RuleViolation::IdleStream);
        }
        let initial = i64::from(self.peer.initial_window);
        let Some(state) = self.streams.get_mut(stream) else {
            return Ok(None);
        };
        if increment == 0 {
            return self.break_stream(stream, RuleViolation::WindowIncrement);
        }
        state.send_window += i64::from(increment);
        match state.send_window + initial > i64::from(LARGEST_WINDOW) {
            true => self.break_stream(stream, RuleViolation::WindowOverflow),
            false => Ok(None),
        }
    }

    /// Takes over the priority of a stream, or keeps it for one that has not begun, RFC 9218 §7.1.
    fn receive_priority(&mut self, stream: StreamId, value: &[u8]) {
        let priority = StreamPriority::SIGNALED.updated(value);
        if stream <= self.last_stream {
            return self.set_priority(stream, priority);
        }
        self.take_early_priority(stream);
        if self.early_priorities.len() >= EARLY_PRIORITIES {
            self.early_priorities.remove(0);
        }
        self.early_priorities.push((stream, priority));
    }

    /// Removes the priority that came before its stream.
    pub(super) fn take_early_priority(&mut self, stream: StreamId) -> Option<StreamPriority> {
        let mut early = self.early_priorities.iter();
        let place = early.position(|(other, _)| *other == stream)?;
        let (_, priority) = self.early_priorities.swap_remove(place);
        Some(priority)
    }
}
