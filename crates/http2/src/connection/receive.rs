//! Finds the frames in the bytes of the peer, in any split of them, and acts on those that mean the same on both sides.
//!
//! A frame other than DATA is read from the caller's bytes where they have it whole, or else from a buffer that lives as long as the frame
//! is not whole. So a connection that idles keeps no bytes. DATA passes in pieces.

use std::mem;
use std::time::Duration;

use super::body_frame::BodyFrameProgress;
use super::connection_core::ConnectionCore;
use super::field_blocks::BlockStart;
use super::frame_input::InputPosition;
use super::stream_end::StreamEnd;
use super::stream_event::StreamEvent;
use crate::frame::{
    DEFAULT_FRAME_SIZE, FrameFault, FrameFlags, FrameHead, FrameKind, PREFACE, ReceivedFrame,
    write_ping,
};
use crate::violation::RuleViolation;

/// The side of a connection: what only a server, or only a client, does with frames.
pub(super) trait ConnectionSide {
    /// An act of the peer, as the caller learns it.
    type SideEvent<'a>;

    /// Returns the state that both sides have.
    fn core(&mut self) -> &mut ConnectionCore;

    /// Takes an event that earlier input has caused, beside those that were returned.
    #[inline]
    fn take_waiting_event<'a>(&mut self) -> Option<Self::SideEvent<'a>> {
        None
    }

    /// Acts on a whole block of fields.
    ///
    /// # Errors
    /// The rule that ends the connection.
    fn receive_block<'a>(
        &mut self,
        start: BlockStart,
        block: &[u8],
    ) -> Result<Option<Self::SideEvent<'a>>, RuleViolation>;

    /// Acts on RST_STREAM, GOAWAY, PRIORITY_UPDATE, or the answer to a PING.
    ///
    /// # Errors
    /// The rule that ends the connection.
    fn receive_signal<'a>(
        &mut self,
        head: FrameHead,
        frame: ReceivedFrame<'_>,
    ) -> Result<Option<Self::SideEvent<'a>>, RuleViolation>;

    /// Passes on what a frame causes on its stream.
    ///
    /// # Errors
    /// The rule that ends the connection.
    fn pass_on<'a>(
        &mut self,
        event: StreamEvent<'a>,
    ) -> Result<Option<Self::SideEvent<'a>>, RuleViolation>;

    /// Ends the connection since the peer broke a rule.
    fn fail<'a>(&mut self, violation: RuleViolation) -> Self::SideEvent<'a>;
}

/// The event that a frame causes, if any, or the rule that ends the connection.
type SideResult<'a, S> = Result<Option<<S as ConnectionSide>::SideEvent<'a>>, RuleViolation>;

/// Reads bytes of the peer up to the next event, and removes those that were read from `input`. Returns `None` when all were read.
pub(super) fn receive<'a, S: ConnectionSide>(
    side: &mut S,
    input: &mut &'a [u8],
    now: Duration,
) -> Option<S::SideEvent<'a>> {
    if let Some(event) = side.take_waiting_event() {
        return Some(event);
    }
    loop {
        let core = side.core();
        let event = match core.input.at {
            InputPosition::Closed => {
                *input = &[];
                return None;
            }
            // A DATA frame, or another one, may have no payload, which needs no byte to be whole.
            InputPosition::Data(frame) => match core.receive_data(frame, input, now) {
                Ok(BodyFrameProgress { event, rest }) => {
                    let needs_more = event.is_none() && rest.is_some();
                    core.input.at = rest.map_or(InputPosition::Head(0), InputPosition::Data);
                    if needs_more {
                        return None;
                    }
                    pass_on(side, event)
                }
                Err(violation) => Err(violation),
            },
            InputPosition::Payload(head) => receive_payload(side, head, input)?,
            _ if input.is_empty() => return None,
            InputPosition::Preface(came) => core.receive_preface(came, input).map(|()| None),
            InputPosition::Head(came) => match core.input.take_head(came, input) {
                Some(head) => core.begin_frame(head, now).map(|()| None),
                None => return None,
            },
        };
        match event {
            Ok(None) => {}
            Ok(event) => return event,
            Err(violation) => return Some(side.fail(violation)),
        }
    }
}

/// Takes the payload of a frame, and acts on it where it is whole.
fn receive_payload<'a, S: ConnectionSide>(
    side: &mut S,
    head: FrameHead,
    input: &mut &'a [u8],
) -> Option<SideResult<'a, S>> {
    let kept = &mut side.core().input;
    let length = head.length as usize;
    let missing = length - kept.payload.len();
    let (taken, rest) = input.split_at(missing.min(input.len()));
    *input = rest;
    if taken.len() < missing {
        kept.payload.extend_from_slice(taken);
        return None;
    }
    kept.at = InputPosition::Head(0);
    if kept.payload.is_empty() {
        return Some(receive_frame(side, head, taken));
    }
    let mut payload = mem::take(&mut kept.payload);
    payload.extend_from_slice(taken);
    Some(receive_frame(side, head, &payload))
}

/// Acts on a whole frame.
fn receive_frame<'a, S: ConnectionSide>(
    side: &mut S,
    head: FrameHead,
    payload: &[u8],
) -> SideResult<'a, S> {
    match ReceivedFrame::parse(head, payload) {
        Ok(frame) => act(side, head, frame),
        Err(FrameFault::Connection(violation)) => Err(violation),
        Err(FrameFault::Stream(violation)) => {
            let event = side.core().break_stream(head.stream, violation)?;
            pass_on(side, event)
        }
    }
}

/// Acts on a frame that is right by itself.
fn act<'a, S: ConnectionSide>(
    side: &mut S,
    head: FrameHead,
    frame: ReceivedFrame<'_>,
) -> SideResult<'a, S> {
    let stream = head.stream;
    let core = side.core();
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
                return side.receive_block(start, fragment);
            }
            core.blocks.begin(start, fragment);
        }
        ReceivedFrame::Continuation(fragment) => {
            core.blocks.extend(fragment)?;
            if head.flags.has(FrameFlags::END_HEADERS)
                && let Some(open) = core.blocks.take()
            {
                return side.receive_block(open.start, &open.bytes);
            }
        }
        // RFC 7540 §5.3.1. Priorities of RFC 7540 change nothing else, RFC 9113 §5.3.2.
        ReceivedFrame::Priority(dependency) if dependency == stream => {
            let event = core.break_stream(stream, RuleViolation::SelfDependency)?;
            return pass_on(side, event);
        }
        ReceivedFrame::Settings(settings) => core.receive_settings(settings)?,
        ReceivedFrame::SettingsAck => core.begin_own_settings(),
        ReceivedFrame::Ping(opaque) => write_ping(core.output.writer(), FrameFlags::ACK, opaque),
        ReceivedFrame::WindowUpdate(increment) => {
            let event = core.receive_window_update(stream, increment)?;
            return pass_on(side, event);
        }
        ReceivedFrame::Reset(_)
        | ReceivedFrame::PingAck(_)
        | ReceivedFrame::PriorityUpdate { .. }
        | ReceivedFrame::GoAway(..) => return side.receive_signal(head, frame),
        ReceivedFrame::Priority(_) | ReceivedFrame::Unknown => {}
    }
    Ok(None)
}

#[inline]
fn pass_on<'a, S: ConnectionSide>(
    side: &mut S,
    event: Option<StreamEvent<'a>>,
) -> SideResult<'a, S> {
    event.map_or(Ok(None), |event| side.pass_on(event))
}

impl ConnectionCore {
    fn receive_preface(&mut self, came: usize, input: &mut &[u8]) -> Result<(), RuleViolation> {
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
        Ok(())
    }

    /// Begins a frame: checks what its head tells, and counts it.
    fn begin_frame(&mut self, head: FrameHead, now: Duration) -> Result<(), RuleViolation> {
        if !mem::replace(&mut self.input.has_begun, true) {
            let is_settings = head.kind == FrameKind::SETTINGS && !head.flags.has(FrameFlags::ACK);
            if !is_settings {
                return Err(RuleViolation::FirstFrame);
            }
        }
        // RFC 9113 §4.2.
        if head.length > DEFAULT_FRAME_SIZE {
            return Err(RuleViolation::FrameSize);
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
}
