//! Fuzzes the client's side of HTTP/2: every split of a server's bytes gives the same events and output, and what is sent are frames that
//! decode.
#![no_main]

mod http2_frames;

use std::time::Duration;

use http2_frames::{FLOODS, Found, check, find_in_pieces};
use libfuzzer_sys::fuzz_target;
use sluicegate_http2::frame::{PREFACE, write_settings};
use sluicegate_http2::{
    ClientConnection, ClientEvent, ClientLimits, ErrorCode, RequestPseudoFields, StreamEnd,
};

/// Small, so that a short input reaches them.
const LIMITS: ClientLimits = ClientLimits {
    max_streams: 4,
    first_streams: 3,
    max_field_list: 512,
    stream_window: 300,
    connection_window: 65_535,
    output_bytes: 200,
    floods: FLOODS,
};

/// Sends a request, with a body that waits for windows unless the method is HEAD.
fn send(connection: &mut ClientConnection, method: &[u8], found: &mut Found) {
    let pseudo = RequestPseudoFields {
        method,
        scheme: Some(b"http"),
        authority: Some(b"a.test"),
        path: Some(b"/x"),
    };
    let fields = [(&b"accept"[..], &b"fuzzed"[..]), (b"x-a", b"b")];
    if let Ok(stream) = connection.send_request(pseudo, fields, StreamEnd::NotYet) {
        let body = if method == b"HEAD" { 0 } else { 100 };
        let _ = connection.send_data(stream, &vec![b'x'; body], StreamEnd::Here);
    }
    while let Some(stream) = connection.next_ready() {
        let _ = connection.send_data(stream, b"yz", StreamEnd::Here);
    }
    found.output.extend_from_slice(connection.output());
    connection.advance_output(usize::MAX);
}

/// Returns what is found in `input`, given in pieces of so many bytes.
fn find(input: &[u8], step: usize) -> Found {
    let mut connection = ClientConnection::new(LIMITS, Duration::ZERO);
    let mut found = Found::default();
    for method in [&b"GET"[..], b"POST", b"HEAD"] {
        send(&mut connection, method, &mut found);
    }
    for mut piece in input.chunks(step) {
        while let Some(event) = connection.receive(&mut piece, Duration::ZERO) {
            match &event {
                ClientEvent::Data { stream, data, end } => {
                    found.add_data(*stream, data, *end);
                    continue;
                }
                ClientEvent::Response { stream, .. } => {
                    for (stream, bytes) in found.take_unreleased() {
                        connection.release(stream, bytes);
                    }
                    if stream.number() % 8 == 7 {
                        connection.reset(*stream, ErrorCode::CANCEL);
                    }
                    send(&mut connection, b"POST", &mut found);
                }
                ClientEvent::Unprocessed { .. } => send(&mut connection, b"GET", &mut found),
                _ => {}
            }
            found.events.push(format!("{event:?}"));
        }
        assert!(piece.is_empty());
        assert!(connection.open_streams() <= LIMITS.max_streams as usize);
        assert!(connection.held_back() <= 2 * 16_384);
    }
    found.output.extend_from_slice(connection.output());
    found
}

fuzz_target!(|input: (u8, &[u8])| {
    let (step, frames) = input;
    let mut bytes = Vec::new();
    // Nearly all inputs would end at the first frame.
    if step < 255 {
        write_settings(&mut bytes, &[]);
    }
    bytes.extend_from_slice(frames);
    let whole = find_in_pieces(find, &bytes, step);
    check(whole.output.strip_prefix(PREFACE).unwrap());
});
