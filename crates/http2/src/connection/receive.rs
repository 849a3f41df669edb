//! Finds the frames in the bytes of a client, in any split of them.
//!
//! A frame other than DATA is read from the caller's bytes where they have it whole, or else from a buffer that lives as long as the frame
//! is not whole. So a connection that idles keeps no bytes. DATA passes in pieces.

use std::mem;
use std::time::Duration;

use super::body_frame::BodyFrameProgress;
use super::event::EventResult;
use super::frame_input::InputPosition;
use super::{ConnectionEvent, ServerConnection};
use crate::frame::{
    DEFAULT_FRAME_SIZE, FrameFault, FrameFlags, FrameHead, FrameKind, PREFACE, ReceivedFrame,
};
use crate::violation::RuleViolation;

impl ServerConnection {
    /// Reads bytes of the client up to the next event, and removes those that were read from `input`. Returns `None` when all were read.
    ///
    /// `now` is the time since the same moment as that of [`new`](Self::new). The caller calls it until it returns `None`, then writes the
    /// output and asks which streams may [send](Self::next_ready).
    pub fn receive<'a>(
        &mut self,
        input: &mut &'a [u8],
        now: Duration,
    ) -> Option<ConnectionEvent<'a>> {
        loop {
            let event = match self.input.at {
                InputPosition::Closed => {
                    *input = &[];
                    return None;
                }
                // A DATA frame, or another one, may have no payload, which needs no byte to be whole.
                InputPosition::Data(frame) => match self.receive_data(frame, input, now) {
                    Ok(BodyFrameProgress { event, rest }) => {
                        let needs_more = event.is_none() && rest.is_some();
                        self.input.at = rest.map_or(InputPosition::Head(0), InputPosition::Data);
                        if needs_more {
                            return None;
                        }
                        Ok(event)
                    }
                    Err(violation) => Err(violation),
                },
                InputPosition::Payload(head) => self.receive_payload(head, input)?,
                _ if input.is_empty() => return None,
                InputPosition::Preface(came) => self.receive_preface(came, input),
                InputPosition::Head(came) => match self.input.take_head(came, input) {
                    Some(head) => self.begin_frame(head, now).map(|()| None),
                    None => return None,
                },
            };
            match event {
                Ok(None) => {}
                Ok(event) => return event,
                Err(violation) => {
                    self.close(violation.code());
                    return Some(ConnectionEvent::Closed(violation));
                }
            }
        }
    }

    fn receive_preface<'a>(&mut self, came: usize, input: &mut &'a [u8]) -> EventResult<'a> {
        let missing = PREFACE.get(came..).unwrap_or_default();
        let (taken, rest) = input.split_at(missing.len().min(input.len()));
        if !missing.starts_with(taken) {
            return Err(RuleViolation::Preface);
        }
        *input = rest;
        self.input.at = match came + taken.len() {
            came if came < PREFACE.len() => InputPosition::Preface(came),
            _ => InputPosition::Head(0),
        };
        Ok(None)
    }

    /// Begins a frame: checks what its head tells, and counts it.
    fn begin_frame(&mut self, head: FrameHead, now: Duration) -> Result<(), RuleViolation> {
        // RFC 9113 §4.2.
        if head.length > DEFAULT_FRAME_SIZE {
            return Err(RuleViolation::FrameSize);
        }
        if !mem::replace(&mut self.input.has_begun, true) {
            let is_settings = head.kind == FrameKind::SETTINGS && !head.flags.has(FrameFlags::ACK);
            if !is_settings {
                return Err(RuleViolation::FirstFrame);
            }
        }
        self.blocks.check_order(head)?;
        self.input.at = match head.kind {
            FrameKind::DATA => InputPosition::Data(self.begin_data(head, now)?),
            _ => {
                // HEADERS too: those of a request that is served refill more.
                self.floods.count_control_frame(now)?;
                InputPosition::Payload(head)
            }
        };
        Ok(())
    }

    /// Takes the payload of a frame, and acts on it where it is whole.
    fn receive_payload<'a>(
        &mut self,
        head: FrameHead,
        input: &mut &'a [u8],
    ) -> Option<EventResult<'a>> {
        let length = head.length as usize;
        let missing = length - self.input.payload.len();
        let (taken, rest) = input.split_at(missing.min(input.len()));
        *input = rest;
        if taken.len() < missing {
            self.input.payload.extend_from_slice(taken);
            return None;
        }
        self.input.at = InputPosition::Head(0);
        if self.input.payload.is_empty() {
            return Some(self.receive_frame(head, taken));
        }
        let mut payload = mem::take(&mut self.input.payload);
        payload.extend_from_slice(taken);
        Some(self.receive_frame(head, &payload))
    }

    /// Acts on a whole frame.
    fn receive_frame(&mut self, head: FrameHead, payload: &[u8]) -> EventResult<'static> {
        match ReceivedFrame::parse(head, payload) {
            Ok(frame) => self.act(head, frame),
            Err(FrameFault::Connection(violation)) => Err(violation),
            Err(FrameFault::Stream(violation)) => self.break_stream(head.stream, violation),
        }
    }
}
