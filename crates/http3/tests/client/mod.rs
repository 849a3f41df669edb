//! A client of HTTP/3 that writes what a test says, and describes what the server's side makes of it.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::time::Duration;

use sluicegate_http3::frame::{FrameHead, FrameKind, write_head};
use sluicegate_http3::{
    ConnectionEvent, ConnectionLimits, ErrorCode, ExtendedConnect, FloodLimits, RuleViolation,
    ServerConnection, StreamAction, StreamEnd, StreamId, qpack, varint,
};

/// The bounds of a connection, small enough to reach them.
pub(crate) const LIMITS: ConnectionLimits = ConnectionLimits {
    max_field_list: 512,
    extended_connect: ExtendedConnect::Allowed,
    floods: FloodLimits {
        control_frames: 20,
        control_frames_per_second: 1,
        control_frames_per_request: 4,
        control_frames_per_data_frame: 0,
        cancelled_streams: 4,
        broken_streams: 4,
        remembered_resets: 0,
    },
};

/// The fields of a usual request.
pub(crate) const GET: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a.test"),
    (":path", "/"),
];
/// Those of a request with a body.
pub(crate) const POST: &[(&str, &str)] = &[
    (":method", "POST"),
    (":scheme", "https"),
    (":authority", "a.test"),
    (":path", "/"),
];

/// Returns the stream of the request with this number, from 0.
pub(crate) fn request(number: u64) -> StreamId {
    StreamId::new(4 * number)
}

/// Returns the stream with this number, from 0, of those that only the client writes.
pub(crate) fn client_stream(number: u64) -> StreamId {
    StreamId::new(4 * number + 2)
}

pub(crate) fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let length = payload.len() as u64;
    write_head(FrameHead { kind, length }, &mut out);
    out.extend_from_slice(payload);
    out
}

pub(crate) fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = Vec::new();
    qpack::write_prefix(&mut section);
    for (name, value) in fields {
        qpack::write_field(name.as_bytes(), value.as_bytes(), &mut section);
    }
    frame(FrameKind::HEADERS, &section)
}

pub(crate) fn data(bytes: &[u8]) -> Vec<u8> {
    frame(FrameKind::DATA, bytes)
}

/// Returns the frame whose payload is one number.
pub(crate) fn number_frame(kind: FrameKind, number: u64) -> Vec<u8> {
    let mut payload = Vec::new();
    varint::write(number, &mut payload);
    frame(kind, &payload)
}

/// Returns a control stream up to its SETTINGS, with these frames behind.
pub(crate) fn control(frames: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(frame(FrameKind::SETTINGS, &[]));
    bytes.extend_from_slice(frames);
    bytes
}

/// A connection whose events are kept in words.
pub(crate) struct DescribedServer {
    pub(crate) connection: ServerConnection,
    pub(crate) events: Vec<String>,
    pub(crate) closed: Option<RuleViolation>,
}

impl DescribedServer {
    pub(crate) fn new() -> Self {
        Self {
            connection: ServerConnection::new(LIMITS, Duration::ZERO),
            events: Vec::new(),
            closed: None,
        }
    }

    pub(crate) fn open(&mut self, stream: StreamId) {
        let event = self.connection.open(stream, Duration::ZERO);
        self.describe(event);
    }

    /// Opens a stream, and passes all of its bytes.
    pub(crate) fn send(&mut self, stream: StreamId, bytes: &[u8], end: StreamEnd) {
        self.open(stream);
        self.pass(stream, bytes, end);
    }

    pub(crate) fn pass(&mut self, stream: StreamId, bytes: &[u8], end: StreamEnd) {
        let mut input = bytes;
        while let Some(event) = self
            .connection
            .receive(stream, &mut input, end, Duration::ZERO)
        {
            let words = describe(&event);
            if let ConnectionEvent::Closed(violation) = event {
                self.closed = Some(violation);
            }
            self.events.extend(words);
        }
        assert!(input.is_empty());
    }

    pub(crate) fn reset(&mut self, stream: StreamId) {
        let event = self
            .connection
            .receive_reset(stream, ErrorCode::REQUEST_CANCELLED);
        self.describe(event);
    }

    pub(crate) fn stop(&mut self, stream: StreamId) {
        let event = self
            .connection
            .receive_stop(stream, ErrorCode::REQUEST_CANCELLED);
        self.describe(event);
    }

    fn describe(&mut self, event: Option<ConnectionEvent<'_>>) {
        if let Some(ConnectionEvent::Closed(violation)) = event {
            self.closed = Some(violation);
        }
        self.events.extend(event.iter().flat_map(describe));
    }

    /// Returns the actions that wait.
    pub(crate) fn actions(&mut self) -> Vec<StreamAction> {
        std::iter::from_fn(|| self.connection.take_action()).collect()
    }

    /// Returns the bytes of an answer of which QUIC takes everything, with a body and the end.
    pub(crate) fn take_output(&mut self, stream: StreamId) -> Vec<u8> {
        let output = self.connection.output(stream).to_vec();
        self.connection.advance_output(stream, output.len());
        output
    }
}

/// Describes an event so that no split changes the words: each byte of a body, and the end, on a line of its own.
pub(crate) fn describe(event: &ConnectionEvent<'_>) -> Vec<String> {
    let words = |words: String, stream: StreamId, end: StreamEnd| {
        let end = end.is_here().then(|| format!("{stream} end"));
        [words].into_iter().chain(end).collect()
    };
    match event {
        ConnectionEvent::Request { stream, head, end } => {
            let fields: Vec<String> = head
                .fields()
                .iter()
                .map(|(name, value)| format!("{}: {}", name.escape_ascii(), value.escape_ascii()))
                .collect();
            let method = head.method().escape_ascii().to_string();
            words(format!("{stream} {method} {fields:?}"), *stream, *end)
        }
        ConnectionEvent::Data { stream, data, end } => {
            let bytes = data.iter().map(|byte| format!("{stream} {byte}"));
            let end = end.is_here().then(|| format!("{stream} end"));
            bytes.chain(end).collect()
        }
        ConnectionEvent::Trailers { stream, fields } => {
            vec![format!("{stream} {} trailers", fields.len())]
        }
        ConnectionEvent::Malformed { stream, violation } => {
            vec![format!("{stream} malformed: {violation:?}")]
        }
        ConnectionEvent::Reset {
            stream,
            code,
            violation,
        } => vec![format!("{stream} reset: {code} {violation:?}")],
        ConnectionEvent::Closed(violation) => vec![format!("closed: {violation:?}")],
    }
}
