//! Writes frames behind the bytes that wait for the socket.

use super::head::{FrameFlags, FrameHead, FrameKind};
use super::settings::{SETTING_BYTES, SettingId};
use crate::error_code::ErrorCode;
use crate::stream_id::StreamId;

/// Writes the head of a frame.
#[inline]
pub fn write_head(out: &mut Vec<u8>, head: FrameHead) {
    out.extend_from_slice(&head.to_bytes());
}

/// Writes SETTINGS with these values, RFC 9113 §6.5.
pub fn write_settings(out: &mut Vec<u8>, settings: &[(SettingId, u32)]) {
    let bytes = settings.len() * SETTING_BYTES;
    write_connection_head(out, FrameKind::SETTINGS, FrameFlags::NONE, bytes);
    for (id, value) in settings {
        out.extend_from_slice(&id.number().to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Writes the acknowledgment of SETTINGS, RFC 9113 §6.5.3.
pub fn write_settings_ack(out: &mut Vec<u8>) {
    write_connection_head(out, FrameKind::SETTINGS, FrameFlags::ACK, 0);
}

/// Writes a PING, or with [`FrameFlags::ACK`] the answer to one, RFC 9113 §6.7.
pub fn write_ping(out: &mut Vec<u8>, flags: FrameFlags, opaque: [u8; 8]) {
    write_connection_head(out, FrameKind::PING, flags, opaque.len());
    out.extend_from_slice(&opaque);
}

/// Writes GOAWAY with the last stream that is, or may be, processed, RFC 9113 §6.8.
pub fn write_goaway(out: &mut Vec<u8>, last: StreamId, code: ErrorCode) {
    write_connection_head(out, FrameKind::GOAWAY, FrameFlags::NONE, 8);
    out.extend_from_slice(&last.number().to_be_bytes());
    out.extend_from_slice(&code.number().to_be_bytes());
}

/// Writes RST_STREAM, RFC 9113 §6.4.
pub fn write_reset(out: &mut Vec<u8>, stream: StreamId, code: ErrorCode) {
    write_number(out, FrameKind::RST_STREAM, stream, code.number());
}

/// Writes WINDOW_UPDATE, RFC 9113 §6.9.
pub fn write_window_update(out: &mut Vec<u8>, stream: StreamId, increment: u32) {
    write_number(out, FrameKind::WINDOW_UPDATE, stream, increment);
}

/// Writes PRIORITY_UPDATE with the text of a priority, as a client sends it, RFC 9218 §7.1.
pub fn write_priority_update(out: &mut Vec<u8>, stream: StreamId, value: &[u8]) {
    let bytes = 4 + value.len();
    write_connection_head(out, FrameKind::PRIORITY_UPDATE, FrameFlags::NONE, bytes);
    out.extend_from_slice(&stream.number().to_be_bytes());
    out.extend_from_slice(value);
}

fn write_number(out: &mut Vec<u8>, kind: FrameKind, stream: StreamId, number: u32) {
    let head = FrameHead {
        length: 4,
        kind,
        flags: FrameFlags::NONE,
        stream,
    };
    write_head(out, head);
    out.extend_from_slice(&number.to_be_bytes());
}

fn write_connection_head(out: &mut Vec<u8>, kind: FrameKind, flags: FrameFlags, bytes: usize) {
    let head = FrameHead {
        // The frames of a connection are short.
        length: u32::try_from(bytes).unwrap_or(u32::MAX),
        kind,
        flags,
        stream: StreamId::CONNECTION,
    };
    write_head(out, head);
}
