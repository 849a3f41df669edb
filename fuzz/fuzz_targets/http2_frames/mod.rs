//! Checks what either side of a connection of HTTP/2 makes of its input.

use std::collections::BTreeMap;
use std::mem;

use bytes::BytesMut;
use sluicegate_http2::frame::{FrameFlags, FrameHead, FrameKind, ReceivedFrame};
use sluicegate_http2::hpack::FieldDecoder;
use sluicegate_http2::{FloodLimits, StreamEnd, StreamId};

/// Small, so that a short input reaches them.
pub const FLOODS: FloodLimits = FloodLimits {
    control_frames: 20,
    control_frames_per_second: 1,
    control_frames_per_request: 4,
    control_frames_per_data_frame: 1,
    cancelled_streams: 4,
    broken_streams: 4,
    remembered_resets: 3,
};

/// What is found in an input.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    pub events: Vec<String>,
    /// The data of each stream; a full stop stands for the end.
    bodies: BTreeMap<StreamId, Vec<u8>>,
    pub output: Vec<u8>,
    /// By stream: how much a window grows depends on how much is released at once.
    unreleased: BTreeMap<StreamId, usize>,
}

impl Found {
    pub fn add_data(&mut self, stream: StreamId, data: &[u8], end: StreamEnd) {
        *self.unreleased.entry(stream).or_default() += data.len();
        let body = self.bodies.entry(stream).or_default();
        body.extend_from_slice(data);
        body.extend_from_slice(if end.is_here() { b"." } else { b"" });
    }

    /// Returns the bytes of each body that came since the last call.
    pub fn take_unreleased(&mut self) -> BTreeMap<StreamId, usize> {
        mem::take(&mut self.unreleased)
    }
}

/// Returns what `find` finds in `bytes` as a whole, which is the same in pieces of `step` bytes and of one.
pub fn find_in_pieces(find: fn(&[u8], usize) -> Found, bytes: &[u8], step: u8) -> Found {
    let whole = find(bytes, bytes.len().max(1));
    assert_eq!(find(bytes, usize::from(step).max(1)), whole);
    assert_eq!(find(bytes, 1), whole);
    whole
}

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
