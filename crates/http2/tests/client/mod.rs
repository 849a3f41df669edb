//! Builds the bytes of a client by hand, and reads what the server sends.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test uses a part, and says what is wrong by panicking"
)]

pub(crate) mod frames;
pub(crate) mod pieces;

use std::fmt::Write;
use std::time::Duration;

use sluicegate_http2::frame::{FrameFlags, FrameHead, FrameKind, PREFACE, ReceivedFrame};
use sluicegate_http2::hpack::{FieldDecoder, write_field};
use sluicegate_http2::{
    ConnectionEvent, ConnectionLimits, ExtendedConnect, FieldLines, FloodLimits, ServerConnection,
    StreamId,
};

/// The bounds of most tests.
pub(crate) const LIMITS: ConnectionLimits = ConnectionLimits {
    max_streams: 8,
    max_field_list: 4096,
    stream_window: 100_000,
    connection_window: 200_000,
    output_bytes: 64 * 1024,
    extended_connect: ExtendedConnect::Refused,
    floods: FloodLimits {
        control_frames: 1000,
        control_frames_per_second: 100,
        control_frames_per_request: 10,
        control_frames_per_data_frame: 3,
        cancelled_streams: 20,
        broken_streams: 10,
        remembered_resets: 64,
    },
};

/// The flags of frames.
pub(crate) const END_STREAM: u8 = 0x01;
pub(crate) const END_HEADERS: u8 = 0x04;
pub(crate) const PADDED: u8 = 0x08;
pub(crate) const PRIORITY: u8 = 0x20;
pub(crate) const WHOLE: u8 = END_STREAM | END_HEADERS;

/// The fields of a request that keeps all rules, one a line.
pub(crate) const GET: &str = ":method:GET\n:scheme:http\n:path:/\n:authority:a.test";
pub(crate) const POST: &str = ":method:POST\n:scheme:http\n:path:/\n:authority:a.test";

/// Returns a frame.
pub(crate) fn frame(kind: FrameKind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead {
        length: payload.len() as u32,
        kind,
        flags: FrameFlags::from_bits(flags),
        stream: StreamId::new(stream),
    };
    [&head.to_bytes()[..], payload].concat()
}

/// Returns a block of fields, one a line: a name, a colon and a value.
pub(crate) fn block(lines: &str) -> Vec<u8> {
    let mut block = Vec::new();
    for line in lines.lines().filter(|line| !line.is_empty()) {
        let line = line.as_bytes();
        let colon = line[1..].iter().position(|byte| *byte == b':').unwrap() + 1;
        write_field(&line[..colon], &line[colon + 1..], &mut block);
    }
    block
}

/// Returns HEADERS with these fields.
pub(crate) fn headers(stream: u32, flags: u8, lines: &str) -> Vec<u8> {
    frame(FrameKind::HEADERS, flags, stream, &block(lines))
}

/// Returns a request without a body.
pub(crate) fn get(stream: u32) -> Vec<u8> {
    headers(stream, WHOLE, GET)
}

/// Returns the beginning of a request with a body.
pub(crate) fn post(stream: u32) -> Vec<u8> {
    headers(stream, END_HEADERS, POST)
}

/// Returns DATA.
pub(crate) fn data(stream: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    frame(FrameKind::DATA, flags, stream, bytes)
}

/// Returns SETTINGS with these values.
pub(crate) fn settings(values: &[(u16, u32)]) -> Vec<u8> {
    let payload = values
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat());
    frame(FrameKind::SETTINGS, 0, 0, &payload.collect::<Vec<u8>>())
}

/// Returns RST_STREAM with `CANCEL`.
pub(crate) fn cancel(stream: u32) -> Vec<u8> {
    frame(FrameKind::RST_STREAM, 0, stream, &8_u32.to_be_bytes())
}

/// Returns WINDOW_UPDATE.
pub(crate) fn window(stream: u32, increment: u32) -> Vec<u8> {
    frame(
        FrameKind::WINDOW_UPDATE,
        0,
        stream,
        &increment.to_be_bytes(),
    )
}

/// Returns the preface of a client with empty settings.
pub(crate) fn preface() -> Vec<u8> {
    [&PREFACE[..], &settings(&[])].concat()
}

/// Returns a connection that has its preface, and whose output was taken.
pub(crate) fn connection(limits: ConnectionLimits) -> ServerConnection {
    let mut connection = ServerConnection::new(limits, Duration::ZERO);
    assert_eq!(receive(&mut connection, &preface()), "");
    take_frames(&mut connection);
    connection
}

/// Passes bytes of the client. Returns the events, one a line; DATA is not released.
pub(crate) fn receive(connection: &mut ServerConnection, bytes: &[u8]) -> String {
    receive_at(connection, bytes, Duration::ZERO)
}

/// Passes bytes of the client at a time.
pub(crate) fn receive_at(connection: &mut ServerConnection, bytes: &[u8], now: Duration) -> String {
    let mut input = bytes;
    let mut events = String::new();
    while let Some(event) = connection.receive(&mut input, now) {
        events += &describe(&event);
        events += "\n";
    }
    assert!(input.is_empty());
    events.trim_end().to_owned()
}

/// Returns an event in words.
pub(crate) fn describe(event: &ConnectionEvent<'_>) -> String {
    let text = String::from_utf8_lossy;
    match event {
        ConnectionEvent::Request { stream, head, end } => {
            let mut line = format!("request {stream} {}", text(head.method()));
            for part in [
                head.scheme(),
                head.authority(),
                head.path(),
                head.protocol(),
            ] {
                write!(line, " {}", part.map_or("-".into(), text)).unwrap();
            }
            format!("{line}{} {end:?}", describe_fields(head.fields()))
        }
        ConnectionEvent::Data { stream, data, end } => {
            format!("data {stream} {} {end:?}", text(data))
        }
        ConnectionEvent::Trailers { stream, fields } => {
            format!("trailers {stream}{}", describe_fields(fields))
        }
        ConnectionEvent::Malformed { stream, violation } => {
            format!("malformed {stream} {violation:?}")
        }
        ConnectionEvent::Reset {
            stream,
            code,
            violation,
        } => format!("reset {stream} {code} {violation:?}"),
        ConnectionEvent::Closed(violation) => format!("closed {violation:?}"),
    }
}

/// Returns fields in words, each behind a blank.
pub(crate) fn describe_fields(fields: &FieldLines) -> String {
    let text = String::from_utf8_lossy;
    let fields = fields.iter();
    let fields = fields.map(|(name, value)| format!(" {}={}", text(name), text(value)));
    fields.collect()
}

/// Takes the output. Returns its frames in words, one a line.
pub(crate) fn take_frames(connection: &mut ServerConnection) -> String {
    let output = connection.output().to_vec();
    connection.advance_output(output.len());
    let mut decoder = FieldDecoder::new(64 * 1024);
    describe_frames(&output, &mut decoder)
}

/// Returns frames in words, one a line.
pub(crate) fn describe_frames(output: &[u8], decoder: &mut FieldDecoder) -> String {
    let mut rest = output;
    let mut lines = String::new();
    while let Some((head, behind)) = rest.split_first_chunk() {
        let head = FrameHead::parse(*head);
        let (payload, behind) = behind.split_at(head.length as usize);
        rest = behind;
        let stream = head.stream;
        let flags = head.flags.bits();
        if head.kind == FrameKind::DATA {
            let bytes = match payload.len() {
                0..20 => String::from_utf8_lossy(payload).into_owned(),
                many => many.to_string(),
            };
            writeln!(lines, "data {stream} {bytes} {flags}").unwrap();
            continue;
        }
        match ReceivedFrame::parse(head, payload).unwrap() {
            ReceivedFrame::Headers { fragment, .. } => {
                let mut bytes = bytes::BytesMut::new();
                let decoded = decoder.decode(fragment, &mut bytes, |_, _| {});
                assert!(decoded.is_ok() || flags & END_HEADERS == 0, "{decoded:?}");
                let text = String::from_utf8_lossy(&bytes).replace("\r\n", "; ");
                writeln!(
                    lines,
                    "headers {stream} {} {flags}",
                    text.trim_end_matches("; ")
                )
                .unwrap();
            }
            ReceivedFrame::Settings(list) => {
                let list: Vec<_> = list
                    .iter()
                    .map(|(id, value)| (id.number(), value))
                    .collect();
                writeln!(lines, "settings {list:?}").unwrap();
            }
            ReceivedFrame::Continuation(part) => {
                writeln!(lines, "continuation {stream} {} {flags}", part.len()).unwrap();
            }
            ReceivedFrame::Reset(code) => writeln!(lines, "reset {stream} {code}").unwrap(),
            ReceivedFrame::SettingsAck => lines += "settings ack\n",
            ReceivedFrame::Ping(_) => lines += "ping\n",
            ReceivedFrame::PingAck(_) => lines += "ping ack\n",
            ReceivedFrame::GoAway(last, code) => writeln!(lines, "goaway {last} {code}").unwrap(),
            ReceivedFrame::WindowUpdate(more) => writeln!(lines, "window {stream} {more}").unwrap(),
            other => panic!("{other:?}"),
        }
    }
    assert!(rest.is_empty());
    lines.trim_end().to_owned()
}
