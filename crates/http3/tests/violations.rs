//! Breaks each rule of RFC 9114, RFC 9204 and RFC 9218 that a client can break, and sees the code that the RFC demands.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test says what is wrong by panicking"
)]

mod client;

use client::{
    DescribedServer, GET, LIMITS, POST, client_stream, control, data, frame, headers, number_frame,
    request,
};
use sluicegate_http3::frame::FrameKind;
use sluicegate_http3::{ErrorCode, RuleViolation, StreamAction, StreamEnd, varint};

/// Returns the violation that ends the connection when a request's stream has these bytes.
fn closed_by_request(bytes: &[u8], end: StreamEnd) -> Option<RuleViolation> {
    let mut server = DescribedServer::new();
    server.send(request(0), bytes, end);
    server.closed
}

/// Returns the one when a stream of the client has these bytes.
fn closed_by_stream(bytes: &[u8], end: StreamEnd) -> Option<RuleViolation> {
    let mut server = DescribedServer::new();
    server.send(client_stream(0), bytes, end);
    server.closed
}

/// Goal: RFC 9114 §4.1, §7: frames of requests come in order, whole, and on their streams. Method: a stream for each way to break it.
#[test]
fn frames_of_requests_keep_their_order() {
    use RuleViolation::{FrameOnStream, FrameOrder, TruncatedFrame};
    let head = headers(GET);
    let trailers = headers(&[("x-a", "b")]);
    let connect = headers(&[(":method", "CONNECT"), (":authority", "a.test:1")]);
    for (parts, violation) in [
        (vec![data(b"x")], FrameOrder),
        (vec![head.clone(), trailers.clone(), data(b"x")], FrameOrder),
        (
            vec![head.clone(), trailers.clone(), trailers.clone()],
            FrameOrder,
        ),
        // RFC 9114 §4.4.
        (vec![connect, trailers], FrameOrder),
        (vec![head[..1].to_vec()], TruncatedFrame),
        (vec![head[..head.len() - 1].to_vec()], TruncatedFrame),
        (
            vec![head.clone(), data(b"xy")[..3].to_vec()],
            TruncatedFrame,
        ),
        (
            vec![head.clone(), frame(FrameKind(0x21), b"xy")[..3].to_vec()],
            TruncatedFrame,
        ),
        (vec![frame(FrameKind::SETTINGS, &[])], FrameOnStream),
        (vec![number_frame(FrameKind::GOAWAY, 0)], FrameOnStream),
        (vec![number_frame(FrameKind::MAX_PUSH_ID, 0)], FrameOnStream),
        (vec![number_frame(FrameKind::CANCEL_PUSH, 0)], FrameOnStream),
        (
            vec![number_frame(FrameKind::PUSH_PROMISE, 0)],
            FrameOnStream,
        ),
        (
            vec![number_frame(FrameKind::PRIORITY_UPDATE, 0)],
            FrameOnStream,
        ),
        // RFC 9114 §7.2.8: types of HTTP/2.
        (vec![frame(FrameKind(0x02), &[])], FrameOnStream),
        (vec![frame(FrameKind(0x06), &[])], FrameOnStream),
        (vec![frame(FrameKind(0x08), &[])], FrameOnStream),
        (vec![frame(FrameKind(0x09), &[])], FrameOnStream),
    ] {
        let found = closed_by_request(&parts.concat(), StreamEnd::Here);
        assert_eq!(found, Some(violation), "{parts:x?}");
    }
    assert_eq!(FrameOrder.code(), ErrorCode::FRAME_UNEXPECTED);
    assert_eq!(FrameOnStream.code(), ErrorCode::FRAME_UNEXPECTED);
    assert_eq!(TruncatedFrame.code(), ErrorCode::FRAME_ERROR);
}

/// Goal: RFC 9114 §6.2, RFC 9204 §4.2: the streams of a client are of known use, once each, and last. Method: streams that break each.
#[test]
fn streams_of_the_client_are_critical() {
    use RuleViolation::{ClosedCriticalStream, PushStream, SecondStream};
    assert_eq!(
        closed_by_stream(&[0x01, 0], StreamEnd::NotYet),
        Some(PushStream)
    );
    for kind in [0, 2, 3] {
        let found = closed_by_stream(&[kind], StreamEnd::Here);
        assert_eq!(found, Some(ClosedCriticalStream));
        let mut server = DescribedServer::new();
        server.send(client_stream(0), &[kind], StreamEnd::NotYet);
        server.reset(client_stream(0));
        assert_eq!(server.closed, Some(ClosedCriticalStream));
        // CVE-2026-42530: another control stream does not replace the first one.
        let mut server = DescribedServer::new();
        server.send(client_stream(0), &[kind], StreamEnd::NotYet);
        server.send(client_stream(1), &[kind], StreamEnd::NotYet);
        assert_eq!(server.closed, Some(SecondStream));
    }
    // RFC 9114 §6.2: a stream may end before its type.
    assert_eq!(closed_by_stream(&[], StreamEnd::Here), None);
    assert_eq!(closed_by_stream(&[0x40], StreamEnd::Here), None);
    // The server's control stream lasts, too.
    let mut server = DescribedServer::new();
    server.stop(sluicegate_http3::StreamId::new(3));
    assert_eq!(server.closed, Some(ClosedCriticalStream));
    assert_eq!(PushStream.code(), ErrorCode::STREAM_CREATION_ERROR);
    assert_eq!(SecondStream.code(), ErrorCode::STREAM_CREATION_ERROR);
    let code = ErrorCode::CLOSED_CRITICAL_STREAM;
    assert_eq!(ClosedCriticalStream.code(), code);
}

/// Goal: RFC 9114 §7.2: the control stream begins with SETTINGS, and its frames say what they may. Method: a stream for each rule.
#[test]
fn control_streams_keep_their_rules() {
    use RuleViolation::{
        ControlFrameSize, FrameOnStream, FrameSize, GoAwayId, MaxPushId, MissingSettings,
        PriorityId, PushId, RepeatedSetting, ReservedSetting, SecondSettings,
    };
    let goaway = |push| number_frame(FrameKind::GOAWAY, push);
    let max_push = |push| number_frame(FrameKind::MAX_PUSH_ID, push);
    for (frames, violation) in [
        (vec![], None),
        (vec![goaway(4), goaway(4), goaway(0)], None),
        (vec![max_push(1), max_push(1), max_push(2)], None),
        (vec![frame(FrameKind::PRIORITY_UPDATE, b"\x04u=1")], None),
        (vec![frame(FrameKind(0x21), &[0; 2000])], None),
        (vec![frame(FrameKind::SETTINGS, &[])], Some(SecondSettings)),
        (vec![data(b"")], Some(FrameOnStream)),
        (vec![headers(GET)], Some(FrameOnStream)),
        (
            vec![number_frame(FrameKind::PUSH_PROMISE, 0)],
            Some(FrameOnStream),
        ),
        (vec![frame(FrameKind(0x08), &[])], Some(FrameOnStream)),
        (vec![goaway(0), goaway(4)], Some(GoAwayId)),
        (vec![max_push(1), max_push(0)], Some(MaxPushId)),
        (vec![number_frame(FrameKind::CANCEL_PUSH, 0)], Some(PushId)),
        (
            vec![frame(FrameKind::PRIORITY_UPDATE_OF_PUSH, &[0])],
            Some(PushId),
        ),
        (
            vec![frame(FrameKind::PRIORITY_UPDATE, &[2])],
            Some(PriorityId),
        ),
        (vec![frame(FrameKind::GOAWAY, &[])], Some(FrameSize)),
        (vec![frame(FrameKind::GOAWAY, &[0, 0])], Some(FrameSize)),
        (
            vec![frame(FrameKind::MAX_PUSH_ID, &[0x40])],
            Some(FrameSize),
        ),
        (
            vec![frame(FrameKind::PRIORITY_UPDATE, &[])],
            Some(FrameSize),
        ),
        (
            vec![frame(FrameKind::PRIORITY_UPDATE, &[0; 1025])],
            Some(ControlFrameSize),
        ),
    ] {
        let found = closed_by_stream(&control(&frames.concat()), StreamEnd::NotYet);
        assert_eq!(found, violation, "{frames:x?}");
    }
    for (settings, violation) in [
        (&[0x02, 0][..], ReservedSetting),
        (&[0x01, 0, 0x01, 0], RepeatedSetting),
        (&[0x01], FrameSize),
    ] {
        let bytes = [vec![0], frame(FrameKind::SETTINGS, settings)].concat();
        assert_eq!(closed_by_stream(&bytes, StreamEnd::NotYet), Some(violation));
    }
    let late = [vec![0], goaway(0), frame(FrameKind::SETTINGS, &[])].concat();
    assert_eq!(
        closed_by_stream(&late, StreamEnd::NotYet),
        Some(MissingSettings)
    );
    for violation in [GoAwayId, MaxPushId, PushId, PriorityId] {
        assert_eq!(violation.code(), ErrorCode::ID_ERROR);
    }
    assert_eq!(MissingSettings.code(), ErrorCode::MISSING_SETTINGS);
    assert_eq!(SecondSettings.code(), ErrorCode::FRAME_UNEXPECTED);
    assert_eq!(ReservedSetting.code(), ErrorCode::SETTINGS_ERROR);
    assert_eq!(ControlFrameSize.code(), ErrorCode::EXCESSIVE_LOAD);
}

/// Goal: RFC 9204 §2.2, §4.3, §4.4: nothing refers to a table that is not allowed, so nothing waits for one. Method: a field section that
/// does, and instructions that would fill the table.
#[test]
fn there_is_no_dynamic_table() {
    use RuleViolation::{DecoderStream, DynamicTable, EncoderStream, FieldSection};
    for (section, violation) in [
        (&[0x01, 0, 0xd1][..], DynamicTable),
        (&[0, 0, 0x80], DynamicTable),
        (&[0, 0, 0xff, 0x24], FieldSection),
        (&[], FieldSection),
    ] {
        let bytes = frame(FrameKind::HEADERS, section);
        let found = closed_by_request(&bytes, StreamEnd::Here);
        assert_eq!(found, Some(violation));
        let code = ErrorCode::QPACK_DECOMPRESSION_FAILED;
        assert_eq!(violation.code(), code);
    }
    for (bytes, violation) in [
        (&[0x02, 0x20][..], None),
        (&[0x02, 0x3f, 0xe1, 0x1f], Some(EncoderStream)),
        (&[0x02, 0xc0, 0x01, b'x'], Some(EncoderStream)),
        (&[0x03, 0x40, 0x44], None),
        (&[0x03, 0x80], Some(DecoderStream)),
        (&[0x03, 0x01], Some(DecoderStream)),
    ] {
        assert_eq!(closed_by_stream(bytes, StreamEnd::NotYet), violation);
    }
    let code = ErrorCode::QPACK_ENCODER_STREAM_ERROR;
    assert_eq!(EncoderStream.code(), code);
    let code = ErrorCode::QPACK_DECODER_STREAM_ERROR;
    assert_eq!(DecoderStream.code(), code);
}

/// Goal: RFC 9114 §4.1.2, §4.2.2: a malformed request ends alone, and can be answered. Method: a stream for each rule; further bytes are
/// dropped.
#[test]
fn malformed_requests_end_alone() {
    let long = "x".repeat(LIMITS.max_field_list);
    let length = |length| [POST, &[("content-length", length)]].concat();
    let malformed = "malformed: Message";
    for (parts, events) in [
        (
            vec![headers(&GET[1..])],
            vec![format!("{malformed}(Method)")],
        ),
        (
            vec![headers(&[GET, &[("X-A", "b")]].concat())],
            vec![format!("{malformed}(FieldName)")],
        ),
        (
            vec![headers(&[GET, &[("connection", "close")]].concat())],
            vec![format!("{malformed}(ConnectionField)")],
        ),
        (
            vec![headers(&[GET, &[("x-a", &long)]].concat())],
            vec!["malformed: FieldListSize".to_owned()],
        ),
        (
            vec![frame(FrameKind::HEADERS, long.repeat(9).as_bytes())],
            vec!["malformed: FieldListSize".to_owned()],
        ),
        (
            vec![headers(&length("1"))],
            vec![format!("{malformed}(BodyLength)")],
        ),
        (
            vec![headers(&length("1")), data(b"xy")],
            vec![
                r#"POST ["content-length: 1"]"#.to_owned(),
                format!("{malformed}(BodyLength)"),
            ],
        ),
        (
            vec![headers(&length("2")), data(b"x")],
            vec![
                r#"POST ["content-length: 2"]"#.to_owned(),
                "120".to_owned(),
                format!("{malformed}(BodyLength)"),
            ],
        ),
        (
            vec![headers(POST), headers(GET)],
            vec!["POST []".to_owned(), format!("{malformed}(PseudoField)")],
        ),
    ] {
        let mut server = DescribedServer::new();
        let stream = request(1);
        server.send(stream, &parts.concat(), StreamEnd::Here);
        let events: Vec<String> = events.iter().map(|words| format!("4 {words}")).collect();
        assert_eq!(server.events, events);
        server.pass(stream, b"dropped", StreamEnd::Here);
        assert_eq!(server.events.len(), events.len());
        let stops = server.actions();
        let [StreamAction::Stop { code, .. }] = stops[..] else {
            panic!("{stops:?}");
        };
        let is_long = server.events[0].ends_with("FieldListSize");
        let expected = match is_long {
            true => ErrorCode::NO_ERROR,
            false => ErrorCode::MESSAGE_ERROR,
        };
        assert_eq!(code, expected);
        server.connection.send_head(stream, 400, []).unwrap();
        server.connection.end_answer(stream).unwrap();
        assert!(!server.take_output(stream).is_empty());
        assert!(server.connection.take_finish(stream));
        assert_eq!(server.connection.open_requests(), 0);
    }
}

/// Goal: RFC 9114 §4.1: a stream that ends without a request is reset, and so is one that breaks a rule behind its answer's head. Method:
/// one of each.
#[test]
fn streams_that_cannot_be_answered_are_reset() {
    let mut server = DescribedServer::new();
    server.send(request(0), &[], StreamEnd::Here);
    let code = ErrorCode::REQUEST_INCOMPLETE;
    assert_eq!(
        server.events,
        ["0 reset: H3_REQUEST_INCOMPLETE Some(MissingHead)"]
    );
    let stream = request(0);
    assert_eq!(
        server.actions(),
        [
            StreamAction::Stop { stream, code },
            StreamAction::Reset { stream, code }
        ]
    );
    let stream = request(1);
    server.send(stream, &headers(POST), StreamEnd::NotYet);
    server.connection.send_head(stream, 200, []).unwrap();
    server.pass(stream, &headers(&[(":a", "b")]), StreamEnd::NotYet);
    assert!(server.events[2].starts_with("4 reset: H3_MESSAGE_ERROR"));
    assert_eq!(server.connection.open_requests(), 0);
}

/// Goal: RFC 9114 §10.5: what makes work only stays rare. Method: each kind, until the connection ends.
#[test]
fn floods_end_the_connection() {
    use RuleViolation::{CancelFlood, ControlFlood, ResetFlood};
    let unknown = frame(FrameKind(0x21), b"");
    let large = frame(FrameKind(0x21), &[0; 4096 * 30]);
    let empty = [headers(POST), data(b"").repeat(30)].concat();
    let priorities = frame(FrameKind::PRIORITY_UPDATE, &[0]).repeat(30);
    assert_eq!(
        closed_by_request(&unknown.repeat(30), StreamEnd::NotYet),
        Some(ControlFlood)
    );
    for bytes in [large.clone(), empty] {
        assert_eq!(
            closed_by_request(&bytes, StreamEnd::NotYet),
            Some(ControlFlood)
        );
    }
    for frames in [priorities, large, unknown.repeat(30)] {
        let found = closed_by_stream(&control(&frames), StreamEnd::NotYet);
        assert_eq!(found, Some(ControlFlood));
    }
    let cancelled = [vec![0x03], vec![0x44; 30]].concat();
    let capacities = [vec![0x02], vec![0x20; 4096 * 30]].concat();
    for instructions in [cancelled, capacities] {
        let found = closed_by_stream(&instructions, StreamEnd::NotYet);
        assert_eq!(found, Some(ControlFlood));
    }

    let mut server = DescribedServer::new();
    for number in 0..30 {
        let mut unknown = Vec::new();
        varint::write(0x21, &mut unknown);
        server.send(client_stream(number), &unknown, StreamEnd::NotYet);
    }
    assert_eq!(server.closed, Some(ControlFlood));
    let mut server = DescribedServer::new();
    for number in 0..10 {
        server.send(request(number), &headers(GET), StreamEnd::Here);
        server.stop(request(number));
    }
    assert_eq!(server.closed, Some(CancelFlood));
    let mut server = DescribedServer::new();
    for number in 0..10 {
        server.send(request(number), &[], StreamEnd::Here);
    }
    assert_eq!(server.closed, Some(ResetFlood));
    for violation in [CancelFlood, ControlFlood, ResetFlood] {
        assert_eq!(violation.code(), ErrorCode::EXCESSIVE_LOAD);
    }
}
