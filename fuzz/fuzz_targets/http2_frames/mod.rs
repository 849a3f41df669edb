//! Checks what either side of a connection of HTTP/2 sends.

use bytes::BytesMut;
use sluicegate_http2::frame::{FrameFlags, FrameHead, FrameKind, ReceivedFrame};
use sluicegate_http2::hpack::FieldDecoder;

/// Checks that these are whole frames, and that their blocks decode.
pub fn check(output: &[u8]) {
    let mut decoder = FieldDecoder::new(4096);
    let mut rest = output;
    while !rest.is_empty() {
        let (head, behind) = rest.split_first_chunk().unwrap();
        let head = FrameHead::parse(*head);
        let (payload, behind) = behind.split_at(head.length as usize);
        rest = behind;
        if head.kind == FrameKind::DATA {
            assert!(!payload.is_empty() || head.flags.has(FrameFlags::END_STREAM));
            continue;
        }
        if let ReceivedFrame::Headers { fragment, .. } =
            ReceivedFrame::parse(head, payload).unwrap()
        {
            let mut bytes = BytesMut::new();
            decoder.decode(fragment, &mut bytes, |_, _| {}).unwrap();
        }
    }
}
