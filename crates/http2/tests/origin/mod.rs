//! Passes the bytes of a server to a client's connection, and reads what it sends.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test uses a part, and says what is wrong by panicking"
)]

pub(crate) mod frames;

use std::time::Duration;

use sluicegate_http2::frame::PREFACE;
use sluicegate_http2::hpack::FieldDecoder;
use sluicegate_http2::{
    ClientConnection, ClientEvent, ClientLimits, RequestPseudoFields, StreamEnd, StreamId,
};

use super::client::{LIMITS, describe_fields, describe_frames, settings};

/// The bounds of most tests.
pub(crate) const CLIENT_LIMITS: ClientLimits = ClientLimits {
    max_streams: 8,
    first_streams: 2,
    max_field_list: LIMITS.max_field_list,
    stream_window: LIMITS.stream_window,
    connection_window: LIMITS.connection_window,
    output_bytes: LIMITS.output_bytes,
    floods: LIMITS.floods,
};

/// The bounds of a client that need not wait for the settings.
pub(crate) const MANY_STREAMS: ClientLimits = ClientLimits {
    first_streams: 8,
    ..CLIENT_LIMITS
};

/// A client's connection, and the decoder of what it sends.
pub(crate) struct Origin {
    pub(crate) connection: ClientConnection,
    decoder: FieldDecoder,
}

impl Origin {
    /// Returns a connection whose preface was taken, and that has received nothing.
    pub(crate) fn new(limits: ClientLimits) -> Self {
        let mut origin = Self {
            connection: ClientConnection::new(limits, Duration::ZERO),
            decoder: FieldDecoder::new(64 * 1024),
        };
        let output = origin.connection.output();
        assert!(output.starts_with(PREFACE));
        origin.connection.advance_output(PREFACE.len());
        origin
    }

    /// Returns a connection that has received these settings, and whose output was taken.
    pub(crate) fn with_settings(values: &[(u16, u32)]) -> Self {
        let mut origin = Self::new(CLIENT_LIMITS);
        assert_eq!(origin.receive(&settings(values)), "");
        origin.take_frames();
        origin
    }

    /// Sends a request of this method, with a body unless `end` is here. Takes its frames.
    pub(crate) fn send(&mut self, method: &str, end: StreamEnd) -> StreamId {
        let pseudo = RequestPseudoFields {
            method: method.as_bytes(),
            scheme: Some(b"http"),
            authority: Some(b"a.test"),
            path: Some(b"/"),
        };
        let stream = self.connection.send_request(pseudo, [], end).unwrap();
        self.take_frames();
        stream
    }

    /// Passes bytes of the server. Returns the events, one a line; DATA is not released.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> String {
        let mut input = bytes;
        let mut events = String::new();
        while let Some(event) = self.connection.receive(&mut input, Duration::ZERO) {
            events += &describe_event(&event);
            events += "\n";
        }
        assert!(input.is_empty());
        events.trim_end().to_owned()
    }

    /// Takes the output. Returns its frames in words, one a line.
    pub(crate) fn take_frames(&mut self) -> String {
        let output = self.connection.output().to_vec();
        self.connection.advance_output(output.len());
        describe_frames(&output, &mut self.decoder)
    }
}

/// Returns an event in words.
pub(crate) fn describe_event(event: &ClientEvent<'_>) -> String {
    let text = String::from_utf8_lossy;
    match event {
        ClientEvent::Response { stream, head, end } => {
            let fields = describe_fields(head.fields());
            format!("response {stream} {}{fields} {end:?}", head.status())
        }
        ClientEvent::Data { stream, data, end } => format!("data {stream} {} {end:?}", text(data)),
        ClientEvent::Trailers { stream, fields } => {
            format!("trailers {stream}{}", describe_fields(fields))
        }
        ClientEvent::Unprocessed { stream } => format!("unprocessed {stream}"),
        ClientEvent::Reset {
            stream,
            code,
            violation,
        } => format!("reset {stream} {code} {violation:?}"),
        ClientEvent::GoAway { last, code } => format!("goaway {last} {code}"),
        ClientEvent::Closed(violation) => format!("closed {violation:?}"),
    }
}
