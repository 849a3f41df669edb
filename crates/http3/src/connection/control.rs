//! Acts on the frames of the client's control stream, RFC 9114 §6.2.1 and §7.2.
//!
//! # Limits
//! A frame that is acted on is kept until it is whole, and is short. Others are skipped.

use std::mem;
use std::time::Duration;

use super::ServerConnection;
use super::control_input::ControlPosition;
use crate::frame::{FrameHead, FrameHeadInput, FrameKind, PeerSettings, take_payload};
use crate::stream_id::StreamId;
use crate::varint;
use crate::violation::RuleViolation;

/// The most bytes of a frame that is acted on: SETTINGS have a few dozen, and so has the value of a priority.
const LONGEST_FRAME: u64 = 1024;

impl ServerConnection {
    pub(super) fn receive_control(
        &mut self,
        input: &mut &[u8],
        now: Duration,
    ) -> Result<(), RuleViolation> {
        loop {
            match &mut self.control.at {
                ControlPosition::Head(head) => {
                    let Some(head) = head.take(input) else {
                        return Ok(());
                    };
                    self.control.at = self.begin_control_frame(head, now)?;
                }
                ControlPosition::Payload(head) => {
                    let head = *head;
                    let mut left = head.length - self.control.payload.len() as u64;
                    let taken = take_payload(&mut left, input);
                    self.control.payload.extend_from_slice(taken);
                    if left > 0 {
                        return Ok(());
                    }
                    self.control.at = ControlPosition::Head(FrameHeadInput::NEW);
                    let payload = mem::take(&mut self.control.payload);
                    self.act_on_control_frame(head.kind, &payload)?;
                }
                ControlPosition::Skipped(left) => {
                    let bytes = take_payload(left, input).len();
                    if *left > 0 {
                        return self.skip(bytes, now);
                    }
                    self.control.at = ControlPosition::Head(FrameHeadInput::NEW);
                    self.skip(bytes, now)?;
                }
            }
        }
    }

    fn begin_control_frame(
        &mut self,
        head: FrameHead,
        now: Duration,
    ) -> Result<ControlPosition, RuleViolation> {
        match (head.kind, self.peer) {
            (FrameKind::SETTINGS, None) => {}
            (_, None) => return Err(RuleViolation::MissingSettings),
            (FrameKind::SETTINGS, Some(_)) => return Err(RuleViolation::SecondSettings),
            _ => self.count_control_frame(now)?,
        }
        match head.kind {
            FrameKind::DATA | FrameKind::HEADERS | FrameKind::PUSH_PROMISE => {
                Err(RuleViolation::FrameOnStream)
            }
            kind if kind.is_reserved() => Err(RuleViolation::FrameOnStream),
            FrameKind::SETTINGS
            | FrameKind::CANCEL_PUSH
            | FrameKind::GOAWAY
            | FrameKind::MAX_PUSH_ID
            | FrameKind::PRIORITY_UPDATE
            | FrameKind::PRIORITY_UPDATE_OF_PUSH => match head.length {
                0..=LONGEST_FRAME => Ok(ControlPosition::Payload(head)),
                _ => Err(RuleViolation::ControlFrameSize),
            },
            _ => Ok(ControlPosition::Skipped(head.length)),
        }
    }

    fn act_on_control_frame(
        &mut self,
        kind: FrameKind,
        payload: &[u8],
    ) -> Result<(), RuleViolation> {
        match kind {
            FrameKind::SETTINGS => self.peer = Some(PeerSettings::parse(payload)?),
            FrameKind::GOAWAY => {
                let push = whole_number(payload)?;
                // RFC 9114 §5.2. That the client wants no more pushes changes nothing.
                if self
                    .control
                    .goaway
                    .replace(push)
                    .is_some_and(|last| push > last)
                {
                    return Err(RuleViolation::GoAwayId);
                }
            }
            FrameKind::MAX_PUSH_ID => {
                let push = whole_number(payload)?;
                // RFC 9114 §7.2.7.
                if self
                    .control
                    .max_push
                    .replace(push)
                    .is_some_and(|last| push < last)
                {
                    return Err(RuleViolation::MaxPushId);
                }
            }
            // RFC 9114 §7.2.3: nothing was promised.
            FrameKind::CANCEL_PUSH => {
                whole_number(payload)?;
                return Err(RuleViolation::PushId);
            }
            FrameKind::PRIORITY_UPDATE => {
                let (stream, value) = varint::read(payload).ok_or(RuleViolation::FrameSize)?;
                self.receive_priority(StreamId::new(stream), value)?;
            }
            // RFC 9218 §7.2: as for CANCEL_PUSH.
            _ => {
                varint::read(payload).ok_or(RuleViolation::FrameSize)?;
                return Err(RuleViolation::PushId);
            }
        }
        Ok(())
    }
}

/// Returns the number that is all of a payload, RFC 9114 §7.1.
fn whole_number(payload: &[u8]) -> Result<u64, RuleViolation> {
    match varint::read(payload) {
        Some((number, [])) => Ok(number),
        _ => Err(RuleViolation::FrameSize),
    }
}
