//! Takes DATA frames, RFC 9113 §6.1, and lends their bytes to the caller as they come.

use std::time::Duration;

use super::body_frame::{BodyFrame, BodyFrameProgress, BodyFrameStage, BodyUse};
use super::connection_core::{ConnectionCore, LateFrames};
use super::stream::{ReceiveState, SendState};
use super::stream_end::StreamEnd;
use super::stream_event::{StreamEvent, StreamResult};
use crate::frame::{FrameFlags, FrameHead};
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

impl ConnectionCore {
    /// Begins a DATA frame: takes it out of the windows.
    pub(super) fn begin_data(
        &mut self,
        head: FrameHead,
        now: Duration,
    ) -> Result<BodyFrame, RuleViolation> {
        let stream = head.stream;
        if stream.is_connection() {
            return Err(RuleViolation::StreamOfFrame);
        }
        // RFC 9113 §6.9: the whole payload counts, whatever becomes of the stream.
        if !self.window.take(head.length) {
            return Err(RuleViolation::WindowExceeded);
        }
        self.grow_window();
        let is_padded = head.flags.has(FrameFlags::PADDED);
        if is_padded && head.length == 0 {
            return Err(RuleViolation::PayloadSize);
        }
        Ok(BodyFrame {
            stream,
            stage: match is_padded {
                true => BodyFrameStage::PaddingLength,
                false => BodyFrameStage::Start,
            },
            data: head.length,
            padding: 0,
            end: StreamEnd::from_flags(head.flags),
            use_of_data: self.use_of_data(head, now)?,
        })
    }

    fn use_of_data(&mut self, head: FrameHead, now: Duration) -> Result<BodyUse, RuleViolation> {
        let stream = head.stream;
        let length = head.length;
        let Some(state) = self.streams.get_mut(stream) else {
            // RFC 9113 §5.1.
            if self.is_idle(stream) {
                return Err(RuleViolation::IdleStream);
            }
            if !self.ended.is_reset(stream) {
                return Err(RuleViolation::ClosedStream);
            }
            if length == 0 || self.late_frames == LateFrames::Counted {
                self.floods.count_control_frame(now)?;
            }
            self.release_of_connection(length);
            return Ok(BodyUse::Dropped);
        };
        let used = match state.receiving {
            ReceiveState::Body if state.receive_window < i64::from(length) => {
                BodyUse::Broken(RuleViolation::WindowExceeded)
            }
            ReceiveState::Body => {
                state.receive_window -= i64::from(length);
                state.unreleased += length;
                return Ok(BodyUse::Lent);
            }
            // RFC 9113 §8.1: a response begins with its head.
            ReceiveState::Head(_) => BodyUse::Broken(RuleViolation::DataBeforeHead),
            // RFC 9113 §5.1: half-closed (remote).
            ReceiveState::Ended => BodyUse::Broken(RuleViolation::ClosedStream),
            ReceiveState::Malformed(_) => {
                self.floods.count_control_frame(now)?;
                BodyUse::Dropped
            }
        };
        self.release_of_connection(length);
        Ok(used)
    }

    /// Takes bytes of a DATA frame.
    pub(super) fn receive_data<'a>(
        &mut self,
        mut frame: BodyFrame,
        input: &mut &'a [u8],
        now: Duration,
    ) -> Result<BodyFrameProgress<'a>, RuleViolation> {
        if let BodyFrameStage::PaddingLength = frame.stage {
            let Some((padding, rest)) = input.split_first() else {
                return Ok(frame.progress(None));
            };
            *input = rest;
            frame.padding = u32::from(*padding);
            // RFC 9113 §6.1: the padding, and the byte of its length, fit into the payload.
            let data = (frame.data - 1).checked_sub(frame.padding);
            frame.data = data.ok_or(RuleViolation::Padding)?;
            frame.stage = BodyFrameStage::Start;
            if frame.use_of_data == BodyUse::Lent {
                self.release(frame.stream, frame.padding as usize + 1);
            }
        }
        if let BodyFrameStage::Start = frame.stage {
            frame.stage = BodyFrameStage::Bytes;
            let event = self.start_data(&mut frame, now)?;
            if event.is_some() {
                return Ok(frame.progress(event));
            }
        }
        if frame.data > 0 {
            let (data, rest) = input.split_at(input.len().min(frame.data as usize));
            *input = rest;
            frame.data -= data.len() as u32;
            if !data.is_empty() && self.is_lent(&frame) {
                let end = match frame.data {
                    0 => frame.end,
                    _ => StreamEnd::NotYet,
                };
                return Ok(frame.progress(Some(self.lend(frame.stream, data, end))));
            }
        }
        let skipped = input.len().min(frame.padding as usize);
        if frame.data == 0 {
            *input = &input[skipped..];
            frame.padding -= skipped as u32;
        }
        let is_whole = frame.data == 0 && frame.padding == 0;
        Ok(BodyFrameProgress {
            event: None,
            rest: (!is_whole).then_some(frame),
        })
    }

    /// Checks a frame when the number of its bytes is known.
    fn start_data(&mut self, frame: &mut BodyFrame, now: Duration) -> StreamResult<'static> {
        if frame.data == 0 && !frame.end.is_here() {
            self.floods.count_control_frame(now)?;
        }
        // The caller may have reset it meanwhile.
        let Some(state) = self.streams.get_mut(frame.stream) else {
            return Ok(None);
        };
        if let BodyUse::Broken(violation) = frame.use_of_data {
            frame.use_of_data = BodyUse::Dropped;
            return self.break_stream(frame.stream, violation);
        }
        if frame.use_of_data != BodyUse::Lent {
            return Ok(None);
        }
        if let Some(announced) = &mut state.announced {
            // RFC 9113 §8.1.1.
            let left = announced.checked_sub(u64::from(frame.data));
            match left {
                Some(left) if left == 0 || !frame.end.is_here() => *announced = left,
                _ => {
                    frame.use_of_data = BodyUse::Dropped;
                    self.release(frame.stream, frame.data as usize);
                    return Ok(Some(StreamEvent::Malformed {
                        stream: frame.stream,
                        violation: RuleViolation::BodyLength,
                    }));
                }
            }
        }
        let is_end_alone = frame.data == 0 && frame.end.is_here();
        Ok(is_end_alone.then(|| self.lend(frame.stream, &[], frame.end)))
    }

    /// Returns whether the bytes of a frame go to the caller, who may have reset the stream meanwhile.
    fn is_lent(&self, frame: &BodyFrame) -> bool {
        let state = self.streams.get(frame.stream);
        let takes_body = state.is_some_and(|state| state.receiving == ReceiveState::Body);
        frame.use_of_data == BodyUse::Lent && takes_body
    }

    fn lend<'a>(&mut self, stream: StreamId, data: &'a [u8], end: StreamEnd) -> StreamEvent<'a> {
        if end.is_here() {
            self.end_receiving(stream);
        }
        StreamEvent::Data { stream, data, end }
    }

    /// Ends the peer's side of a stream, and the stream if the other side has ended.
    pub(super) fn end_receiving(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get_mut(stream) else {
            return;
        };
        state.receiving = ReceiveState::Ended;
        if state.sending == SendState::Ended {
            self.end_stream(stream);
        }
    }
}
