//! Reads the payloads of frames other than DATA, whose payload is taken in pieces.

use super::head::{FrameFlags, FrameHead, FrameKind};
use super::settings::{SETTING_BYTES, SettingId};
use crate::error_code::ErrorCode;
use crate::stream_id::StreamId;
use crate::violation::RuleViolation;

/// Bytes of a priority of RFC 7540 §6.3: a dependency and a weight.
const PRIORITY_BYTES: usize = 5;
/// Bytes of the stream that PRIORITY_UPDATE names, RFC 9218 §7.1.
const PRIORITY_UPDATE_STREAM: usize = 4;

/// A frame that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// It ends the connection.
    Connection(RuleViolation),
    /// It ends its stream alone.
    Stream(RuleViolation),
}

impl From<RuleViolation> for FrameFault {
    fn from(violation: RuleViolation) -> Self {
        Self::Connection(violation)
    }
}

/// A whole frame other than DATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceivedFrame<'a> {
    /// The beginning of a block of fields.
    Headers {
        /// The first part of the block.
        fragment: &'a [u8],
        /// The stream on which this one depends, RFC 7540 §5.3.1.
        dependency: Option<StreamId>,
    },
    /// Another part of a block of fields.
    Continuation(&'a [u8]),
    /// A priority of RFC 7540, which is ignored: the stream on which this one depends.
    Priority(StreamId),
    /// The end of a stream.
    Reset(ErrorCode),
    /// Settings of the peer.
    Settings(SettingList<'a>),
    /// The acknowledgment of the own settings.
    SettingsAck,
    /// A PING that is answered with the same bytes.
    Ping([u8; 8]),
    /// The answer to a PING.
    PingAck([u8; 8]),
    /// The end of the connection: the last stream that the peer takes, and why.
    GoAway(StreamId, ErrorCode),
    /// A window grows by so many bytes. 0 is an error whose scope is that of the frame.
    WindowUpdate(u32),
    /// The priority of a stream, RFC 9218 §7.1.
    PriorityUpdate {
        /// The stream.
        stream: StreamId,
        /// The text of its priority.
        value: &'a [u8],
    },
    /// A frame of an unknown type.
    Unknown,
}

impl<'a> ReceivedFrame<'a> {
    /// Reads a payload of `head.length` bytes. The frame is not DATA.
    ///
    /// # Errors
    /// The frame breaks a rule by itself.
    pub fn parse(head: FrameHead, payload: &'a [u8]) -> Result<Self, FrameFault> {
        check_stream(head)?;
        match head.kind {
            FrameKind::HEADERS => parse_headers(head.flags, payload),
            FrameKind::CONTINUATION => Ok(Self::Continuation(payload)),
            FrameKind::PRIORITY => match first_number(payload) {
                Some(dependency) if payload.len() == PRIORITY_BYTES => {
                    Ok(Self::Priority(StreamId::new(dependency)))
                }
                // RFC 9113 §6.3: another length is an error of the stream.
                _ => Err(FrameFault::Stream(RuleViolation::PayloadSize)),
            },
            FrameKind::RST_STREAM => {
                let code = u32::from_be_bytes(*whole(payload)?);
                Ok(Self::Reset(ErrorCode::from_number(code)))
            }
            FrameKind::SETTINGS => parse_settings(head.flags, payload),
            // RFC 9113 §6.6, §8.4: an error of the connection, for a server, and for a client that allows no push.
            FrameKind::PUSH_PROMISE => Err(RuleViolation::PushPromise.into()),
            FrameKind::PING => {
                let opaque = *whole(payload)?;
                Ok(match head.flags.has(FrameFlags::ACK) {
                    true => Self::PingAck(opaque),
                    false => Self::Ping(opaque),
                })
            }
            FrameKind::GOAWAY => {
                let last = first_number(payload);
                let code = payload.get(4..).and_then(first_number);
                let (Some(last), Some(code)) = (last, code) else {
                    return Err(RuleViolation::PayloadSize.into());
                };
                let code = ErrorCode::from_number(code);
                Ok(Self::GoAway(StreamId::new(last), code))
            }
            FrameKind::WINDOW_UPDATE => {
                let increment = u32::from_be_bytes(*whole(payload)?);
                Ok(Self::WindowUpdate(StreamId::new(increment).number()))
            }
            FrameKind::PRIORITY_UPDATE => parse_priority_update(payload),
            _ => Ok(Self::Unknown),
        }
    }
}

/// Checks whether a frame of this type belongs to a stream or to the connection.
pub(super) fn check_stream(head: FrameHead) -> Result<(), RuleViolation> {
    let names_stream = !head.stream.is_connection();
    let needs_stream = match head.kind {
        // RFC 9113 §6.1 to §6.4, §6.10.
        FrameKind::DATA
        | FrameKind::HEADERS
        | FrameKind::PRIORITY
        | FrameKind::RST_STREAM
        | FrameKind::CONTINUATION => true,
        // RFC 9113 §6.5, §6.7, §6.8, RFC 9218 §7.1.
        FrameKind::SETTINGS | FrameKind::PING | FrameKind::GOAWAY | FrameKind::PRIORITY_UPDATE => {
            false
        }
        _ => return Ok(()),
    };
    match needs_stream == names_stream {
        true => Ok(()),
        false => Err(RuleViolation::StreamOfFrame),
    }
}

fn parse_headers(flags: FrameFlags, payload: &[u8]) -> Result<ReceivedFrame<'_>, FrameFault> {
    let mut fragment = payload;
    let mut padding = 0;
    if flags.has(FrameFlags::PADDED) {
        let (length, rest) = payload.split_first().ok_or(RuleViolation::PayloadSize)?;
        padding = usize::from(*length);
        fragment = rest;
    }
    let mut dependency = None;
    if flags.has(FrameFlags::PRIORITY) {
        let number = first_number(fragment).ok_or(RuleViolation::PayloadSize)?;
        dependency = Some(StreamId::new(number));
        fragment = (fragment.get(PRIORITY_BYTES..)).ok_or(RuleViolation::PayloadSize)?;
    }
    // RFC 9113 §6.2: padding that exceeds the rest is an error of the connection.
    let length = fragment.len().checked_sub(padding);
    let length = length.ok_or(RuleViolation::Padding)?;
    Ok(ReceivedFrame::Headers {
        fragment: &fragment[..length],
        dependency,
    })
}

fn parse_settings(flags: FrameFlags, payload: &[u8]) -> Result<ReceivedFrame<'_>, FrameFault> {
    if flags.has(FrameFlags::ACK) {
        // RFC 9113 §6.5: an acknowledgment is empty.
        return match payload.is_empty() {
            true => Ok(ReceivedFrame::SettingsAck),
            false => Err(RuleViolation::PayloadSize.into()),
        };
    }
    let (settings, rest) = payload.as_chunks();
    match rest.is_empty() {
        true => Ok(ReceivedFrame::Settings(SettingList(settings))),
        false => Err(RuleViolation::PayloadSize.into()),
    }
}

fn parse_priority_update(payload: &[u8]) -> Result<ReceivedFrame<'_>, FrameFault> {
    let number = first_number(payload).ok_or(RuleViolation::PayloadSize)?;
    let stream = StreamId::new(number);
    // RFC 9218 §7.1: 0 is an error, and so is a push that was never promised.
    if !stream.is_of_client() {
        return Err(RuleViolation::PriorityUpdate.into());
    }
    Ok(ReceivedFrame::PriorityUpdate {
        stream,
        value: &payload[PRIORITY_UPDATE_STREAM..],
    })
}

/// The settings of one frame, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingList<'a>(&'a [[u8; SETTING_BYTES]]);

impl SettingList<'_> {
    /// Returns each setting with its value.
    pub fn iter(&self) -> impl Iterator<Item = (SettingId, u32)> + '_ {
        self.0.iter().map(|[n0, n1, v0, v1, v2, v3]| {
            let id = SettingId::from_number(u16::from_be_bytes([*n0, *n1]));
            (id, u32::from_be_bytes([*v0, *v1, *v2, *v3]))
        })
    }
}

/// Returns a payload that has a fixed length.
fn whole<const N: usize>(payload: &[u8]) -> Result<&[u8; N], FrameFault> {
    // RFC 9113 §6.4, §6.7, §6.9: another length is an error of the connection.
    let whole = payload.try_into();
    whole.map_err(|_| RuleViolation::PayloadSize.into())
}

/// Returns the number in the first four bytes.
fn first_number(payload: &[u8]) -> Option<u32> {
    payload.first_chunk().map(|four| u32::from_be_bytes(*four))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of a frame of this type and these flags on a stream.
    fn parse(
        kind: FrameKind,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> Result<ReceivedFrame<'_>, FrameFault> {
        let head = FrameHead {
            length: payload.len() as u32,
            kind,
            flags: FrameFlags::from_bits(flags),
            stream: StreamId::new(stream),
        };
        assert_eq!(FrameHead::parse(head.to_bytes()), head);
        ReceivedFrame::parse(head, payload)
    }

    /// Goal: each rule about sizes, padding and streams rejects with its scope. Method: one frame on the wrong side of each.
    #[test]
    fn frames_that_break_a_rule_are_rejected() {
        use FrameFault::{Connection, Stream};
        use RuleViolation::{Padding, PayloadSize, PriorityUpdate, PushPromise, StreamOfFrame};
        for (kind, flags, stream, payload, fault) in [
            (FrameKind::HEADERS, 0, 0, &[][..], Connection(StreamOfFrame)),
            (FrameKind::HEADERS, 0x08, 1, &[], Connection(PayloadSize)),
            (FrameKind::HEADERS, 0x08, 1, &[2, 0], Connection(Padding)),
            (
                FrameKind::HEADERS,
                0x20,
                1,
                &[0; 4],
                Connection(PayloadSize),
            ),
            (
                FrameKind::HEADERS,
                0x28,
                1,
                &[1, 0, 0, 0, 0, 0],
                Connection(Padding),
            ),
            (
                FrameKind::PRIORITY,
                0,
                0,
                &[0; 5],
                Connection(StreamOfFrame),
            ),
            (FrameKind::PRIORITY, 0, 1, &[0; 4], Stream(PayloadSize)),
            (FrameKind::PRIORITY, 0, 1, &[0; 6], Stream(PayloadSize)),
            (
                FrameKind::RST_STREAM,
                0,
                0,
                &[0; 4],
                Connection(StreamOfFrame),
            ),
            (
                FrameKind::RST_STREAM,
                0,
                1,
                &[0; 5],
                Connection(PayloadSize),
            ),
            (FrameKind::SETTINGS, 0, 1, &[], Connection(StreamOfFrame)),
            (FrameKind::SETTINGS, 0, 0, &[0; 7], Connection(PayloadSize)),
            (FrameKind::SETTINGS, 1, 0, &[0; 6], Connection(PayloadSize)),
            (
                FrameKind::PUSH_PROMISE,
                0,
                1,
                &[0; 4],
                Connection(PushPromise),
            ),
            (FrameKind::PING, 0, 1, &[0; 8], Connection(StreamOfFrame)),
            (FrameKind::PING, 0, 0, &[0; 7], Connection(PayloadSize)),
            (FrameKind::GOAWAY, 0, 1, &[0; 8], Connection(StreamOfFrame)),
            (FrameKind::GOAWAY, 0, 0, &[0; 7], Connection(PayloadSize)),
            (
                FrameKind::WINDOW_UPDATE,
                0,
                0,
                &[0; 3],
                Connection(PayloadSize),
            ),
            (
                FrameKind::CONTINUATION,
                0,
                0,
                &[],
                Connection(StreamOfFrame),
            ),
            (
                FrameKind::PRIORITY_UPDATE,
                0,
                1,
                &[0; 4],
                Connection(StreamOfFrame),
            ),
            (
                FrameKind::PRIORITY_UPDATE,
                0,
                0,
                &[0; 3],
                Connection(PayloadSize),
            ),
            (
                FrameKind::PRIORITY_UPDATE,
                0,
                0,
                &[0; 4],
                Connection(PriorityUpdate),
            ),
            (
                FrameKind::PRIORITY_UPDATE,
                0,
                0,
                &[0, 0, 0, 2],
                Connection(PriorityUpdate),
            ),
        ] {
            let found = parse(kind, flags, stream, payload);
            assert_eq!(found, Err(fault), "{kind:?} {flags} {stream} {payload:?}");
        }
    }

    /// Goal: the parts of frames are found, the reserved bits are ignored. Method: one frame of each form.
    #[test]
    fn the_parts_of_frames_are_found() {
        let padded = [2, 0x80, 0, 0, 3, 9, b'a', b'b', 0, 0];
        let headers = ReceivedFrame::Headers {
            fragment: b"ab",
            dependency: Some(StreamId::new(3)),
        };
        assert_eq!(parse(FrameKind::HEADERS, 0x28, 1, &padded), Ok(headers));
        let window = parse(FrameKind::WINDOW_UPDATE, 0, 0, &[0x80, 0, 0, 5]);
        assert_eq!(window, Ok(ReceivedFrame::WindowUpdate(5)));
        let Ok(ReceivedFrame::Settings(list)) =
            parse(FrameKind::SETTINGS, 0, 0, &[0, 4, 0, 0, 1, 0])
        else {
            panic!("no settings");
        };
        let settings: Vec<_> = list.iter().collect();
        assert_eq!(settings, [(SettingId::INITIAL_WINDOW_SIZE, 256)]);
        let away = parse(FrameKind::GOAWAY, 0, 0, &[0, 0, 0, 7, 0, 0, 0, 11, b'x']);
        let calm = ErrorCode::ENHANCE_YOUR_CALM;
        assert_eq!(away, Ok(ReceivedFrame::GoAway(StreamId::new(7), calm)));
        let unknown = parse(FrameKind::from_number(0xbe), 0xff, 9, b"any");
        assert_eq!(unknown, Ok(ReceivedFrame::Unknown));
    }
}
