//! Fuzzes connections of HTTP/2: every split of the input gives the same events and output, and what is sent are frames that decode.
#![no_main]

mod http2_frames;

use std::time::Duration;

use http2_frames::{FLOODS, Found, check, find_in_pieces};
use libfuzzer_sys::fuzz_target;
use sluicegate_http2::frame::{PREFACE, write_settings};
use sluicegate_http2::{
    ConnectionEvent, ConnectionLimits, ExtendedConnect, ServerConnection, StreamEnd, StreamId,
};

/// Small, so that a short input reaches them.
const LIMITS: ConnectionLimits = ConnectionLimits {
    max_streams: 4,
    max_field_list: 512,
    stream_window: 300,
    connection_window: 65_535,
    output_bytes: 200,
    extended_connect: ExtendedConnect::Allowed,
    floods: FLOODS,
};

/// Answers each request at once with a body that waits for windows, and takes bodies when another request comes.
fn answer(connection: &mut ServerConnection, stream: StreamId) {
    let fields = [(&b"server"[..], &b"fuzzed"[..]), (b"x-a", b"b")];
    let _ = connection.send_head(stream, 200, fields, StreamEnd::NotYet);
    let _ = connection.send_data(stream, &[b'x'; 100], StreamEnd::Here);
    while let Some(stream) = connection.next_ready() {
        let _ = connection.send_data(stream, b"yz", StreamEnd::Here);
    }
}

/// Returns what is found in `input`, given in pieces of so many bytes.
fn find(input: &[u8], step: usize) -> Found {
    let mut connection = ServerConnection::new(LIMITS, Duration::ZERO);
    let mut found = Found::default();
    for mut piece in input.chunks(step) {
        while let Some(event) = connection.receive(&mut piece, Duration::ZERO) {
            match &event {
                ConnectionEvent::Data { stream, data, end } => {
                    found.add_data(*stream, data, *end);
                    continue;
                }
                ConnectionEvent::Request { stream, .. } => {
                    for (stream, bytes) in found.take_unreleased() {
                        connection.release(stream, bytes);
                    }
                    answer(&mut connection, *stream);
                    found.output.extend_from_slice(connection.output());
                    connection.advance_output(usize::MAX);
                }
                ConnectionEvent::Malformed { stream, .. } => {
                    let sent = connection.send_head(*stream, 400, [], StreamEnd::Here);
                    sent.unwrap();
                }
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
    // Nearly all inputs would end at the preface.
    let mut bytes = match step {
        255 => Vec::new(),
        _ => PREFACE.to_vec(),
    };
    if step < 254 {
        write_settings(&mut bytes, &[]);
    }
    bytes.extend_from_slice(frames);
    let whole = find_in_pieces(find, &bytes, step);
    check(&whole.output);
});
