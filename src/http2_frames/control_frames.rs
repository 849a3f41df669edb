//! Bounds the frames of one HTTP/2 connection that carry neither a request nor data.
//!
//! PING, SETTINGS, WINDOW_UPDATE, PRIORITY, RST_STREAM, CONTINUATION, DATA without a byte, and frames of unknown types, such as
//! PRIORITY_UPDATE, make work and ask for nothing: RFC 9113 §10.5, CVE-2019-9511 to CVE-2019-9518. The h2 crate bounds the empty DATA
//! frames of a connection, and the CONTINUATION frames of a head; it answers or ignores each of the others, without a bound on their
//! number. An honest client sends some for each request, some for each piece of an answer, and some from time to time; an honest origin
//! some for each response, some for each piece of a request, and some from time to time. So each takes one from a bucket, which requests,
//! sent DATA frames and time fill.
//!
//! The bucket has the size and the rate of the one by which nghttp2 counts suspicious frames (`nghttp2_option_set_glitch_rate_limit`:
//! 10,000 and 330 a second). The additions follow Envoy's `ProtocolConstraints::checkInboundFrameLimits`, which bounds PRIORITY by
//! `100 * (1 + streams)`, WINDOW_UPDATE by `5 + 2 * (streams + 10 * sent DATA frames)`, and allows one empty frame; they are smaller
//! here, since Envoy has no bucket. nginx ends a connection by bytes, where `total_bytes / 8 > payload_bytes + 1048576`; HAProxy counts
//! protocol errors only (`tune.h2.fe.glitches-threshold`), and without a bound by default; hyper relies on the h2 crate. Towards origins
//! Envoy has the same constraints as towards clients.

use sluicegate_base::bounds::{
    CONTROL_FRAMES, CONTROL_FRAMES_PER_DATA_FRAME, CONTROL_FRAMES_PER_REQUEST,
    CONTROL_FRAMES_PER_SECOND,
};
use sluicegate_limiter::Timestamp;

use super::frame_reader::IncomingFrame;

/// The type of the frames that carry data, RFC 9113 §6.1.
const DATA: u8 = 0;

/// The bucket of one connection.
#[derive(Debug)]
pub(crate) struct ControlFrameBudget {
    /// Frames that may follow.
    left: u32,
    /// The time up to which the bucket was filled.
    filled: Timestamp,
    is_exceeded: bool,
}

impl ControlFrameBudget {
    /// Returns the full bucket of a connection that begins at `now`.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            left: CONTROL_FRAMES,
            filled: now,
            is_exceeded: false,
        }
    }

    /// Counts a frame of the other side that begins no request. `now` is called where the bucket is empty, so that most frames read no
    /// clock.
    pub(crate) fn receive(&mut self, frame: IncomingFrame, now: impl FnOnce() -> Timestamp) {
        if frame.kind != DATA || frame.payload == 0 {
            self.take(now);
        }
    }

    /// Adds the frames that belong to so many more requests.
    pub(crate) fn begin_requests(&mut self, requests: u32) {
        self.add(requests.saturating_mul(CONTROL_FRAMES_PER_REQUEST));
    }

    /// Adds the frames with which the other side may answer so many DATA frames that were sent.
    pub(crate) fn sent(&mut self, data_frames: u32) {
        self.add(data_frames.saturating_mul(CONTROL_FRAMES_PER_DATA_FRAME));
    }

    /// Returns whether the other side has sent more than it may.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    fn add(&mut self, frames: u32) {
        self.left = self.left.saturating_add(frames).min(CONTROL_FRAMES);
    }

    fn take(&mut self, now: impl FnOnce() -> Timestamp) {
        if self.left == 0 {
            self.refill(now());
        }
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => self.is_exceeded = true,
        }
    }

    /// Adds the frames of the time since the last refill.
    fn refill(&mut self, now: Timestamp) {
        let passed = now.saturating_since(self.filled).as_millis();
        let frames = passed * u128::from(CONTROL_FRAMES_PER_SECOND) / 1_000;
        if frames > 0 {
            self.filled = now;
            self.add(u32::try_from(frames).unwrap_or(u32::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const PING: u8 = 6;

    fn frame(kind: u8, stream: u32, payload: usize) -> IncomingFrame {
        IncomingFrame {
            kind,
            flags: 0,
            stream,
            payload,
        }
    }

    fn at(passed: Duration) -> Timestamp {
        Timestamp::from_nanos(1_000_000_000 + passed.as_nanos() as u64)
    }

    /// Returns how many frames of this kind pass at once.
    fn burst(budget: &mut ControlFrameBudget, of: IncomingFrame, now: Timestamp) -> u32 {
        let mut passed = 0;
        while passed < 10 * CONTROL_FRAMES {
            budget.receive(of, || now);
            if budget.is_exceeded() {
                break;
            }
            passed += 1;
        }
        budget.is_exceeded = false;
        passed
    }

    /// Goal: a flood ends at the bucket, and time refills no more than its size. Method: bursts of each kind of frame, at once, after a
    /// second, after a day.
    #[test]
    fn a_flood_ends_at_the_bucket() {
        let kinds = [0, 2, 3, 4, PING, 7, 8, 9, 16, 200].map(|kind| frame(kind, 1, 0));
        for kind in kinds.into_iter().chain([frame(PING, 0, 8)]) {
            let start = at(Duration::ZERO);
            let mut budget = ControlFrameBudget::new(start);
            assert_eq!(burst(&mut budget, kind, start), CONTROL_FRAMES);
            assert_eq!(burst(&mut budget, kind, start), 0);
            let second = at(Duration::from_secs(1));
            assert_eq!(burst(&mut budget, kind, second), CONTROL_FRAMES_PER_SECOND);
            let day = at(Duration::from_secs(86_400));
            assert_eq!(burst(&mut budget, kind, day), CONTROL_FRAMES);
        }
    }

    /// Goal: requests and sent data make room, and received data does not. Method: an empty bucket, filled by each.
    #[test]
    fn requests_and_sent_data_make_room() {
        let start = at(Duration::ZERO);
        let ping = frame(PING, 0, 8);
        let mut budget = ControlFrameBudget::new(start);
        let mut room_after = |fill: &dyn Fn(&mut ControlFrameBudget)| {
            burst(&mut budget, ping, start);
            fill(&mut budget);
            burst(&mut budget, ping, start)
        };
        let request = |budget: &mut ControlFrameBudget| budget.begin_requests(1);
        assert_eq!(room_after(&request), CONTROL_FRAMES_PER_REQUEST);
        let data = |budget: &mut ControlFrameBudget| budget.receive(frame(DATA, 5, 1), || start);
        assert_eq!(room_after(&data), 0);
        assert_eq!(
            room_after(&|budget| budget.sent(7)),
            7 * CONTROL_FRAMES_PER_DATA_FRAME
        );
        assert_eq!(room_after(&|budget| budget.sent(u32::MAX)), CONTROL_FRAMES);
    }

    proptest! {
        /// Goal: a client within the rate is never ended, however long it goes on. Method: frames for minutes, at paces up to the rate.
        #[test]
        fn the_rate_passes_forever(rate in 1..=CONTROL_FRAMES_PER_SECOND, lull in 0_u64..100) {
            let mut budget = ControlFrameBudget::new(at(Duration::ZERO));
            for second in 0..240_u64 {
                let now = at(Duration::from_secs(second + lull));
                for _ in 0..rate {
                    budget.receive(frame(PING, 0, 8), || now);
                }
                prop_assert!(!budget.is_exceeded(), "{rate} in second {second}");
            }
        }
    }
}
