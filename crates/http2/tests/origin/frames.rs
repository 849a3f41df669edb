//! Makes sequences of frames as servers send them for a few requests: most are right, some are not.

use proptest::prelude::*;
use sluicegate_http2::frame::FrameKind;

use crate::client::{END_HEADERS, PADDED, WHOLE, block, data, frame, headers, settings, window};

/// Returns frames of a server, most of which are right, for streams up to 11.
pub(crate) fn frames() -> impl Strategy<Value = Vec<u8>> {
    let stream =
        || prop_oneof![150 => (0_u32..6).prop_map(|number| 2 * number + 1), 1 => 0_u32..14];
    let lines = || {
        prop_oneof![
            6 => Just(":status:200".to_owned()),
            2 => Just(":status:200\ncontent-length:7".to_owned()),
            2 => Just(":status:103\nlink:</a>".to_owned()),
            1 => Just(":status:204\nserver:a".to_owned()),
            1 => Just("server:a".to_owned()),
            1 => Just(format!(":status:200\nx-a:{}", "v".repeat(5000))),
        ]
    };
    let flags = || prop_oneof![1 => Just(WHOLE), 3 => Just(END_HEADERS)];
    let opaque = || prop::collection::vec(any::<u8>(), 0..8);
    prop_oneof![
        12 => (stream(), 0_u8..2, opaque(), prop::bool::ANY).prop_map(|(stream, flags, bytes, has_trailers)| {
            let begun = [headers(stream, END_HEADERS, ":status:200"), data(stream, 0, &bytes)].concat();
            let end = match has_trailers {
                true => headers(stream, WHOLE, "x-trailer:a"),
                false => data(stream, flags, b"7"),
            };
            [begun, end].concat()
        }),
        8 => (stream(), flags(), lines()).prop_map(|(stream, flags, lines)| headers(stream, flags, &lines)),
        3 => (stream(), flags(), lines(), 1_usize..9).prop_map(|(stream, flags, lines, at)| {
            let block = block(&lines);
            let (first, second) = block.split_at(at.min(block.len()));
            let begun = frame(FrameKind::HEADERS, flags & !END_HEADERS, stream, first);
            let rest = frame(FrameKind::CONTINUATION, END_HEADERS, stream, second);
            [begun, rest].concat()
        }),
        1 => stream().prop_map(|stream| headers(stream, WHOLE, "x-trailer:a")),
        4 => (stream(), 0_u8..2, prop_oneof![Just(vec![b'7'; 7]), opaque()])
            .prop_map(|(stream, flags, bytes)| data(stream, flags, &bytes)),
        2 => (stream(), 0_u8..2, 0_u8..9, 0_usize..300).prop_map(|(stream, flags, padding, bytes)| {
            let payload = [&[padding][..], &vec![b'd'; bytes + 9]].concat();
            data(stream, flags | PADDED, &payload)
        }),
        2 => (stream(), 0_u32..9).prop_map(|(stream, code)| frame(FrameKind::RST_STREAM, 0, stream, &code.to_be_bytes())),
        2 => (stream(), 1_u32..30).prop_map(|(stream, more)| window(stream, more)),
        2 => (0_u32..100, 0_u32..9).prop_map(|(window, streams)| settings(&[(4, window), (3, streams)])),
        2 => Just(frame(FrameKind::PING, 0, 0, b"opaque!!")),
        1 => (0_u32..12).prop_map(|last| frame(FrameKind::GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())),
        1 => (10_u8..16, any::<u8>(), opaque())
            .prop_map(|(kind, flags, bytes)| frame(FrameKind::from_number(kind), flags, 1, &bytes)),
    ]
}
