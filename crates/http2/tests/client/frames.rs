//! Makes sequences of frames as clients send them: most are right, some are not.

use proptest::prelude::*;
use sluicegate_http2::StreamId;
use sluicegate_http2::frame::{FrameHead, FrameKind};

use super::{
    END_HEADERS, GET, PADDED, POST, PRIORITY, WHOLE, block, cancel, data, frame, headers, settings,
    window,
};

/// The stream of some frames.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamChoice {
    Next,
    /// So many before the next.
    Earlier(u32),
    AsItIs,
}

/// Returns frames of a client, most of which are right, and their stream.
pub(crate) fn frames() -> impl Strategy<Value = (Vec<u8>, StreamChoice)> {
    use StreamChoice::{AsItIs, Earlier, Next};
    let lines = || {
        prop_oneof![
            4 => Just(GET.to_owned()),
            2 => Just(format!("{POST}\ncontent-length:7")),
            1 => Just(format!("{GET}\npriority:u=1, i\ncookie:a=b")),
            1 => Just(format!("{GET}\nX:a")),
            1 => Just(format!("{GET}\nx-a:{}", "v".repeat(5000))),
        ]
    };
    let flags = || prop_oneof![2 => Just(WHOLE), 3 => Just(END_HEADERS)];
    let earlier = || (1_u32..4).prop_map(Earlier);
    let opaque = || prop::collection::vec(any::<u8>(), 0..8);
    prop_oneof![
        8 => (flags(), lines()).prop_map(|(flags, lines)| (headers(1, flags, &lines), Next)),
        4 => (flags(), lines(), 1_usize..30).prop_map(|(flags, lines, at)| {
            let block = block(&lines);
            let (first, second) = block.split_at(at.min(block.len()));
            let begun = frame(FrameKind::HEADERS, flags & !END_HEADERS, 1, first);
            let rest = frame(FrameKind::CONTINUATION, END_HEADERS, 1, second);
            ([begun, rest].concat(), Next)
        }),
        2 => flags().prop_map(|flags| {
            let payload = [&[1, 0, 0, 0, 0, 9][..], &block(GET), &[0]].concat();
            (frame(FrameKind::HEADERS, flags | PADDED | PRIORITY, 1, &payload), Next)
        }),
        2 => (flags(), earlier()).prop_map(|(flags, earlier)| (headers(1, flags, "x-trailer:a"), earlier)),
        6 => (0_u8..2, prop_oneof![Just(vec![b'7'; 7]), opaque()], earlier())
            .prop_map(|(flags, bytes, earlier)| (data(1, flags, &bytes), earlier)),
        4 => (0_u8..2, 0_u8..9, 0_usize..300, earlier()).prop_map(|(flags, padding, bytes, earlier)| {
            let payload = [&[padding][..], &vec![b'd'; bytes + 9]].concat();
            (data(1, flags | PADDED, &payload), earlier)
        }),
        2 => earlier().prop_map(|earlier| (cancel(1), earlier)),
        2 => (1_u32..30, earlier()).prop_map(|(more, earlier)| (window(1, more), earlier)),
        1 => (0_u32..3, earlier()).prop_map(|(more, earlier)| (window(1, more), earlier)),
        2 => (1_u32..1 << 20).prop_map(|more| (window(0, more), AsItIs)),
        2 => (0_u32..100).prop_map(|value| (settings(&[(4, value), (1, value)]), AsItIs)),
        2 => Just((frame(FrameKind::PING, 0, 0, b"opaque!!"), AsItIs)),
        1 => (10_u8..20, any::<u8>(), opaque())
            .prop_map(|(kind, flags, bytes)| (frame(FrameKind::from_number(kind), flags, 1, &bytes), AsItIs)),
    ]
}

/// Returns any frame, which is mostly wrong.
pub(crate) fn wrong_frame() -> impl Strategy<Value = Vec<u8>> {
    let opaque = prop::collection::vec(any::<u8>(), 0..12);
    (0_u8..20, any::<u8>(), 0_u32..12, opaque).prop_map(|(kind, flags, stream, bytes)| {
        frame(FrameKind::from_number(kind), flags, stream, &bytes)
    })
}

/// Returns the frames with the numbers of their streams.
pub(crate) fn number_streams(frames: Vec<(Vec<u8>, StreamChoice)>) -> Vec<u8> {
    let mut next = 1_u32;
    let mut bytes = Vec::new();
    for (frames, choice) in frames {
        let stream = match choice {
            StreamChoice::Next => {
                next += 2;
                next - 2
            }
            StreamChoice::Earlier(back) => next.saturating_sub(2 * back).max(1),
            StreamChoice::AsItIs => 0,
        };
        let mut rest = &frames[..];
        while let Some((head, behind)) = rest.split_first_chunk() {
            let mut head = FrameHead::parse(*head);
            let (payload, behind) = behind.split_at(head.length as usize);
            if stream > 0 {
                head.stream = StreamId::new(stream);
            }
            bytes.extend_from_slice(&head.to_bytes());
            bytes.extend_from_slice(payload);
            rest = behind;
        }
    }
    bytes
}
