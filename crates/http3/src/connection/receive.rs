//! Finds the frames in the bytes of a request's stream, RFC 9114 §7.1, in any split of them. Bodies pass in pieces.

use std::mem;
use std::time::Duration;

use sluicegate_http2::StreamEnd;

use super::ServerConnection;
use super::event::{ConnectionEvent, EventResult};
use super::request_stream::{FramePosition, ReceiveState};
use crate::frame::{FrameHead, FrameKind, take_payload};
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

/// Bytes of unknown frames that count as one more frame.
const SKIPPED_BYTES_A_FRAME: u64 = 4096;

impl ServerConnection {
    pub(super) fn receive_request<'a>(
        &mut self,
        stream: StreamId,
        input: &mut &'a [u8],
        end: StreamEnd,
        now: Duration,
    ) -> EventResult<'a> {
        loop {
            let state = self.requests.get_mut(&stream);
            let Some(state) = state.filter(|state| state.receiving != ReceiveState::Ended) else {
                *input = &[];
                return Ok(None);
            };
            let event = match &mut state.at {
                FramePosition::Head(head) if input.is_empty() => {
                    return match (end, head.is_empty()) {
                        (StreamEnd::NotYet, _) => Ok(None),
                        (StreamEnd::Here, true) => self.end_request(stream),
                        (StreamEnd::Here, false) => Err(RuleViolation::TruncatedFrame),
                    };
                }
                FramePosition::Head(head) => match head.take(input) {
                    Some(head) => self.begin_frame(stream, head, now)?,
                    None => None,
                },
                FramePosition::Section(length) => {
                    let missing = length.saturating_sub(state.section.len());
                    let Some(taken) = input.split_off(..missing) else {
                        state.section.extend_from_slice(mem::take(input));
                        return end_within_frame(end);
                    };
                    let mut section = mem::take(&mut state.section);
                    state.at = FramePosition::BETWEEN;
                    let last = end_behind(input, end);
                    if section.is_empty() {
                        self.receive_section(stream, taken, last)?
                    } else {
                        section.extend_from_slice(taken);
                        self.receive_section(stream, &section, last)?
                    }
                }
                _ if input.is_empty() => return end_within_frame(end),
                FramePosition::Data(left) => {
                    let data = take_payload(left, input);
                    let last = match left {
                        0 => end_behind(input, end),
                        _ => StreamEnd::NotYet,
                    };
                    if *left == 0 {
                        state.at = FramePosition::BETWEEN;
                    }
                    Some(self.lend(stream, data, last))
                }
                FramePosition::Skipped(left) => {
                    let bytes = take_payload(left, input).len();
                    if *left == 0 {
                        state.at = FramePosition::BETWEEN;
                    }
                    self.skip(bytes, now)?;
                    None
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    fn begin_frame<'a>(
        &mut self,
        stream: StreamId,
        head: FrameHead,
        now: Duration,
    ) -> EventResult<'a> {
        let Some(state) = self.requests.get_mut(&stream) else {
            return Ok(None);
        };
        state.at = match head.kind {
            FrameKind::DATA => {
                // RFC 9114 §4.1: a body follows a head, and nothing follows trailers.
                if let ReceiveState::Head | ReceiveState::Trailers = state.receiving {
                    return Err(RuleViolation::FrameOrder);
                }
                if let Some(announced) = &mut state.announced {
                    // RFC 9114 §4.1.2.
                    let Some(left) = announced.checked_sub(head.length) else {
                        return self.reject(stream, RuleViolation::BODY_LENGTH);
                    };
                    *announced = left;
                }
                if head.length == 0 {
                    return self.count_control_frame(now).map(|()| None);
                }
                FramePosition::Data(head.length)
            }
            FrameKind::HEADERS => {
                // RFC 9114 §4.1; §4.4: a tunnel has DATA alone.
                if let ReceiveState::Trailers | ReceiveState::Tunnel = state.receiving {
                    return Err(RuleViolation::FrameOrder);
                }
                let length = usize::try_from(head.length).unwrap_or(usize::MAX);
                // Each field counts 32 bytes beside its text, so a list that is allowed has a shorter section, if Huffman's code makes
                // nothing longer. So a longer one is not kept.
                if length > self.limits.max_field_list {
                    return self.reject(stream, RuleViolation::FieldListSize);
                }
                FramePosition::Section(length)
            }
            // RFC 9114 §7.2.3 to §7.2.8, RFC 9218 §7.2.
            FrameKind::CANCEL_PUSH
            | FrameKind::SETTINGS
            | FrameKind::PUSH_PROMISE
            | FrameKind::GOAWAY
            | FrameKind::MAX_PUSH_ID
            | FrameKind::PRIORITY_UPDATE
            | FrameKind::PRIORITY_UPDATE_OF_PUSH => return Err(RuleViolation::FrameOnStream),
            kind if kind.is_reserved() => return Err(RuleViolation::FrameOnStream),
            // RFC 9114 §9.
            _ => {
                state.at = match head.length {
                    0 => FramePosition::BETWEEN,
                    length => FramePosition::Skipped(length),
                };
                return self.count_control_frame(now).map(|()| None);
            }
        };
        Ok(None)
    }

    /// Lends bytes of a body to the caller.
    fn lend<'a>(
        &mut self,
        stream: StreamId,
        data: &'a [u8],
        end: StreamEnd,
    ) -> ConnectionEvent<'a> {
        let state = self.requests.get(&stream);
        let is_whole = state.is_none_or(|state| state.announced.is_none_or(|left| left == 0));
        // A body that is too short ends in an event of its own.
        let end = match is_whole {
            true => end,
            false => StreamEnd::NotYet,
        };
        if end.is_here() {
            self.end_receiving(stream);
        }
        ConnectionEvent::Data { stream, data, end }
    }

    /// Ends a request between two frames.
    fn end_request<'a>(&mut self, stream: StreamId) -> EventResult<'a> {
        let Some(state) = self.requests.get(&stream) else {
            return Ok(None);
        };
        match state.receiving {
            // RFC 9114 §4.1.
            ReceiveState::Head => return self.break_stream(stream, RuleViolation::MissingHead),
            ReceiveState::Body if state.announced.is_some_and(|left| left > 0) => {
                return self.reject(stream, RuleViolation::BODY_LENGTH);
            }
            ReceiveState::Trailers => {
                self.end_receiving(stream);
                return Ok(None);
            }
            ReceiveState::Body | ReceiveState::Tunnel | ReceiveState::Ended => {}
        }
        self.end_receiving(stream);
        let data = &[][..];
        let end = StreamEnd::Here;
        Ok(Some(ConnectionEvent::Data { stream, data, end }))
    }

    /// Ends the client's side of a stream, and the stream if the other side has ended.
    pub(super) fn end_receiving(&mut self, stream: StreamId) {
        if let Some(state) = self.requests.get_mut(&stream) {
            state.receiving = ReceiveState::Ended;
            if state.is_over() {
                self.requests.remove(&stream);
            }
        }
    }

    /// Counts bytes that change nothing: of unknown frames, and of the encoder stream.
    pub(super) fn skip(&mut self, bytes: usize, now: Duration) -> Result<(), RuleViolation> {
        let before = self.skipped / SKIPPED_BYTES_A_FRAME;
        self.skipped = self.skipped.saturating_add(bytes as u64);
        (before..self.skipped / SKIPPED_BYTES_A_FRAME)
            .try_for_each(|_| self.count_control_frame(now))
    }
}

/// Returns the end of a stream of which these bytes are left.
fn end_behind(left: &[u8], end: StreamEnd) -> StreamEnd {
    match left.is_empty() {
        true => end,
        false => StreamEnd::NotYet,
    }
}

/// Decides whether the bytes of a stream may pause within a frame, RFC 9114 §7.1.
fn end_within_frame<'a>(end: StreamEnd) -> EventResult<'a> {
    match end {
        StreamEnd::NotYet => Ok(None),
        StreamEnd::Here => Err(RuleViolation::TruncatedFrame),
    }
}
