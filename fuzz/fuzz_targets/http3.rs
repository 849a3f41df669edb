//! Fuzzes connections of HTTP/3: every split of each stream gives the same events, actions and answers, and what is sent are frames that
//! decode.
#![no_main]

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use sluicegate_http3::{
    ConnectionEvent, ConnectionLimits, ErrorCode, ExtendedConnect, FloodLimits, ServerConnection,
    StreamEnd, StreamId, qpack, varint,
};

/// Small, so that a short input reaches them.
const LIMITS: ConnectionLimits = ConnectionLimits {
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
/// The bit of a record's first byte with which its stream ends, and that with which the client resets it.
const ENDS: u8 = 0x80;
const RESETS: u8 = 0x40;
/// Streams of requests, and then those of the client.
const STREAMS: u8 = 8;

/// What is found in an input.
#[derive(Debug, Default, PartialEq)]
struct Found {
    events: Vec<String>,
    /// The data of each stream; a full stop stands for the end.
    bodies: BTreeMap<StreamId, Vec<u8>>,
    answers: BTreeMap<StreamId, Vec<u8>>,
}

/// Takes the next record: a stream, what becomes of it, and its bytes behind their number.
fn take_record<'a>(input: &mut &'a [u8]) -> Option<(u8, StreamId, &'a [u8])> {
    let first = *input.split_off_first()?;
    let length = usize::from(*input.split_off_first()?).min(input.len());
    let bytes = input.split_off(..length)?;
    let number = u64::from(first % STREAMS);
    let stream = match number {
        0..4 => StreamId::new(4 * number),
        _ => StreamId::new(4 * (number - 4) + 2),
    };
    Some((first, stream, bytes))
}

/// Answers a request at once, with a body of which QUIC takes a part.
fn answer(connection: &mut ServerConnection, stream: StreamId, found: &mut Found) {
    let fields = [(&b"server"[..], &b"fuzzed"[..]), (b"x-a", b"b")];
    connection.send_head(stream, 200, fields).unwrap();
    let answer = found.answers.entry(stream).or_default();
    for body in [&b"abc"[..], b"de"] {
        let taken = connection.begin_data(stream, body.len()).unwrap();
        answer.extend_from_slice(connection.output(stream));
        connection.advance_output(stream, usize::MAX);
        answer.extend_from_slice(&body[..taken]);
        connection.advance_data(stream, taken);
    }
    connection.end_answer(stream).unwrap();
    assert!(connection.take_finish(stream));
}

/// Notes an event, and does what a caller does.
fn act(connection: &mut ServerConnection, event: ConnectionEvent<'_>, found: &mut Found) {
    match &event {
        ConnectionEvent::Data { stream, data, end } => {
            let body = found.bodies.entry(*stream).or_default();
            body.extend_from_slice(data);
            body.extend_from_slice(if end.is_here() { b"." } else { b"" });
            return;
        }
        ConnectionEvent::Request { stream, head, .. } => {
            // Others are answered behind their bodies, or never.
            if head.method() == b"GET" {
                answer(connection, *stream, found);
            }
        }
        ConnectionEvent::Malformed { stream, .. } => {
            connection.send_head(*stream, 400, []).unwrap();
            connection.abandon(*stream, ErrorCode::INTERNAL_ERROR);
        }
        _ => {}
    }
    found.events.push(format!("{event:?}"));
}

/// Returns what is found in `input`, where the bytes of each record come in pieces of so many.
fn find(mut input: &[u8], step: usize) -> Found {
    let mut connection = ServerConnection::new(LIMITS, Duration::ZERO);
    let mut found = Found::default();
    for number in 0..4 {
        for stream in [StreamId::new(4 * number), StreamId::new(4 * number + 2)] {
            assert!(connection.open(stream, Duration::ZERO).is_none());
        }
    }
    while let Some((first, stream, bytes)) = take_record(&mut input) {
        let end = match first & ENDS != 0 {
            true => StreamEnd::Here,
            false => StreamEnd::NotYet,
        };
        let last = bytes.len().div_ceil(step).saturating_sub(1);
        let pieces = bytes.chunks(step).enumerate();
        let nothing = bytes.is_empty().then_some((0, bytes));
        for (index, mut piece) in pieces.chain(nothing) {
            let end = if index == last {
                end
            } else {
                StreamEnd::NotYet
            };
            while let Some(event) = connection.receive(stream, &mut piece, end, Duration::ZERO) {
                act(&mut connection, event, &mut found);
            }
            assert!(piece.is_empty());
        }
        if first & RESETS != 0
            && let Some(event) = connection.receive_reset(stream, ErrorCode::REQUEST_CANCELLED)
        {
            act(&mut connection, event, &mut found);
        }
        assert!(connection.open_requests() <= 4);
        assert!(connection.held_back() <= 4 * LIMITS.max_field_list);
        let actions = std::iter::from_fn(|| connection.take_action());
        found
            .events
            .extend(actions.map(|action| format!("{action:?}")));
    }
    found
}

/// Checks that these are whole frames, and that their field sections decode.
fn check(answer: &[u8]) {
    let mut rest = answer;
    while !rest.is_empty() {
        let (kind, behind) = varint::read(rest).unwrap();
        let (length, behind) = varint::read(behind).unwrap();
        let (payload, behind) = behind.split_at(length as usize);
        rest = behind;
        match kind {
            0 => {}
            1 => {
                let decoded = qpack::decode(payload, 4096, &mut BytesMut::new(), |_, _| {});
                decoded.unwrap();
            }
            kind => panic!("a frame of type {kind}"),
        }
    }
}

fuzz_target!(|input: (u8, &[u8])| {
    let (step, records) = input;
    let whole = find(records, usize::MAX);
    assert_eq!(find(records, usize::from(step).max(1)), whole);
    assert_eq!(find(records, 1), whole);
    whole.answers.values().for_each(|answer| check(answer));
});
