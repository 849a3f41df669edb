//! Opens requests, reads their heads and trailers, and ends those that break a rule or that the client gives up.

use bytes::BytesMut;
use sluicegate_http2::{HeadBuilder, RequestHead, StreamEnd, StreamPriority, TrailerBuilder};

use super::ServerConnection;
use super::action::StreamAction;
use super::event::{ConnectionEvent, EventResult};
use super::request_stream::{ReceiveState, RequestStream, SendState};
use crate::error_code::ErrorCode;
use crate::qpack::{SectionSize, decode};
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

impl ServerConnection {
    pub(super) fn open_request(&mut self, stream: StreamId) {
        self.next_request = self.next_request.max(stream.next());
        // RFC 9114 §5.2: requests behind the last one of GOAWAY are rejected, and may be repeated.
        if self.shutdown.rejects(stream) {
            let code = ErrorCode::REQUEST_REJECTED;
            self.actions.push_back(StreamAction::Stop { stream, code });
            self.actions.push_back(StreamAction::Reset { stream, code });
        } else {
            self.requests.insert(stream, RequestStream::new());
        }
    }

    /// Reads a field section, behind which its stream may end.
    pub(super) fn receive_section<'a>(
        &mut self,
        stream: StreamId,
        section: &[u8],
        end: StreamEnd,
    ) -> EventResult<'a> {
        let state = self.requests.get(&stream);
        match state.map(|state| state.receiving) {
            Some(ReceiveState::Head) => self.receive_head(stream, section, end),
            _ => self.receive_trailers(stream, section, end),
        }
    }

    fn receive_head<'a>(
        &mut self,
        stream: StreamId,
        section: &[u8],
        end: StreamEnd,
    ) -> EventResult<'a> {
        let mut bytes = BytesMut::with_capacity(2 * section.len());
        let mut builder = HeadBuilder::new();
        let most = self.limits.max_field_list;
        let add = |bytes: &BytesMut, field| builder.add(bytes, field);
        let size = decode(section, most, &mut bytes, add)?;
        self.floods.begin_request();
        let early = self.early_priorities.take(stream);
        let head = match size {
            SectionSize::Whole => builder
                .finish(bytes, self.limits.extended_connect)
                .map_err(RuleViolation::Message),
            SectionSize::TooLarge => Err(RuleViolation::FieldListSize),
        };
        let head = head.and_then(|head| check_length(head, end));
        let Some(state) = self.requests.get_mut(&stream) else {
            return Ok(None);
        };
        let head = match head {
            Ok(head) => head,
            Err(violation) => return self.reject(stream, violation),
        };
        state.receiving = match (end, head.method()) {
            (StreamEnd::Here, _) => ReceiveState::Ended,
            (StreamEnd::NotYet, b"CONNECT") => ReceiveState::Tunnel,
            (StreamEnd::NotYet, _) => ReceiveState::Body,
        };
        if state.receiving == ReceiveState::Body {
            state.announced = head.content_length();
        }
        let signaled = early.or(head.priority());
        self.set_priority(stream, signaled.unwrap_or(StreamPriority::UNSIGNALED));
        Ok(Some(ConnectionEvent::Request { stream, head, end }))
    }

    fn receive_trailers<'a>(
        &mut self,
        stream: StreamId,
        section: &[u8],
        end: StreamEnd,
    ) -> EventResult<'a> {
        let mut bytes = BytesMut::new();
        let mut builder = TrailerBuilder::default();
        let most = self.limits.max_field_list;
        let add = |bytes: &BytesMut, field| builder.add(bytes, field);
        let size = decode(section, most, &mut bytes, add)?;
        let Some(state) = self.requests.get_mut(&stream) else {
            return Ok(None);
        };
        // RFC 9114 §4.1.2.
        if state.announced.is_some_and(|left| left > 0) {
            return self.reject(stream, RuleViolation::BODY_LENGTH);
        }
        let fields = match size {
            SectionSize::Whole => builder.finish(bytes).map_err(RuleViolation::Message),
            SectionSize::TooLarge => Err(RuleViolation::FieldListSize),
        };
        let fields = match fields {
            Ok(fields) => fields,
            Err(violation) => return self.reject(stream, violation),
        };
        state.receiving = ReceiveState::Trailers;
        if end.is_here() {
            self.end_receiving(stream);
        }
        Ok(Some(ConnectionEvent::Trailers { stream, fields }))
    }

    /// Rejects the rest of a request that breaks a rule, RFC 9114 §4.1.2: the caller may answer it, if it has not begun to.
    pub(super) fn reject<'a>(
        &mut self,
        stream: StreamId,
        violation: RuleViolation,
    ) -> EventResult<'a> {
        let Some(state) = self.requests.get_mut(&stream) else {
            return Ok(None);
        };
        if state.sending != SendState::Head {
            return self.break_stream(stream, violation);
        }
        state.receiving = ReceiveState::Ended;
        let code = violation.code();
        self.actions.push_back(StreamAction::Stop { stream, code });
        // A head that is too long breaks no rule of the protocol.
        if violation != RuleViolation::FieldListSize {
            self.count_broken_stream()?;
        }
        Ok(Some(ConnectionEvent::Malformed { stream, violation }))
    }

    /// Ends a stream since the client broke a rule on it.
    pub(super) fn break_stream<'a>(
        &mut self,
        stream: StreamId,
        violation: RuleViolation,
    ) -> EventResult<'a> {
        self.count_broken_stream()?;
        let code = violation.code();
        self.reset(stream, code);
        Ok(Some(ConnectionEvent::Reset {
            stream,
            code,
            violation: Some(violation),
        }))
    }

    /// Ends a stream that the client resets. Where its request is whole, the answer goes on.
    pub(super) fn reset_by_client<'a>(
        &mut self,
        stream: StreamId,
        code: ErrorCode,
    ) -> EventResult<'a> {
        let state = self.requests.get(&stream);
        match state.is_some_and(|state| state.receiving != ReceiveState::Ended) {
            true => self.cancel(stream, code),
            false => Ok(None),
        }
    }

    /// Ends a stream on which the client takes nothing more.
    pub(super) fn stop_by_client<'a>(
        &mut self,
        stream: StreamId,
        code: ErrorCode,
    ) -> EventResult<'a> {
        match self.requests.contains_key(&stream) {
            true => self.cancel(stream, code),
            false => Ok(None),
        }
    }

    fn cancel<'a>(&mut self, stream: StreamId, code: ErrorCode) -> EventResult<'a> {
        let state = self.requests.get(&stream);
        if state.is_some_and(|state| state.sending == SendState::Head) {
            let counted = self.floods.cancel_request();
            counted.map_err(|_| RuleViolation::CancelFlood)?;
        }
        self.reset(stream, ErrorCode::REQUEST_CANCELLED);
        let violation = None;
        Ok(Some(ConnectionEvent::Reset {
            stream,
            code,
            violation,
        }))
    }
}

/// Checks that a request whose stream ends behind its head announces no body, RFC 9114 §4.1.2.
fn check_length(head: RequestHead, end: StreamEnd) -> Result<RequestHead, RuleViolation> {
    match end.is_here() && head.content_length().is_some_and(|bytes| bytes > 0) {
        true => Err(RuleViolation::BODY_LENGTH),
        false => Ok(head),
    }
}
