//! Counts what makes work and asks for nothing, RFC 9113 §10.5.
//!
//! PING, SETTINGS, WINDOW_UPDATE, PRIORITY, RST_STREAM, CONTINUATION, DATA without a byte, frames of unknown types, and HEADERS that are
//! refused carry neither a head nor data. An honest peer sends some for each request, some for each piece of a body that it gets, and some
//! from time to time. So each takes one from a bucket, which requests, sent DATA frames and time fill, as nghttp2 counts suspicious frames.
//!
//! A peer that opens windows by a few bytes makes many small DATA frames: one that its window cuts short fills nothing.
//!
//! Requests that are cancelled before they are answered cost an origin each, and so do those that have to be reset since the peer breaks a
//! rule on their streams: by an increment of 0, a window beyond its greatest size, DATA or HEADERS behind the end, a PRIORITY of
//! another size, a body of another length. Each kind has a count of its own.

use std::time::Duration;

use super::limits::FloodLimits;
use crate::violation::RuleViolation;

/// The counters of one connection.
#[derive(Debug)]
pub struct FloodCounters {
    limits: FloodLimits,
    /// Frames that may follow.
    left: u32,
    /// The time up to which the bucket was filled.
    filled: Duration,
    requests: u32,
    cancelled: u32,
    broken: u32,
}

impl FloodCounters {
    /// Returns the counters of a connection that begins at `now`.
    #[must_use]
    pub fn new(limits: FloodLimits, now: Duration) -> Self {
        Self {
            limits,
            left: limits.control_frames,
            filled: now,
            requests: 0,
            cancelled: 0,
            broken: 0,
        }
    }

    /// Counts a frame that carries neither a request nor data.
    ///
    /// # Errors
    /// There are too many.
    #[inline]
    pub fn count_control_frame(&mut self, now: Duration) -> Result<(), RuleViolation> {
        if self.left == 0 {
            self.refill(now);
        }
        let left = self.left.checked_sub(1);
        self.left = left.ok_or(RuleViolation::ControlFlood)?;
        Ok(())
    }

    /// Counts a request, with the frames that belong to it.
    pub fn begin_request(&mut self) {
        self.requests = self.requests.saturating_add(1);
        self.add(self.limits.control_frames_per_request);
    }

    /// Adds the frames with which the peer may answer so many DATA frames.
    #[inline]
    pub fn send_data_frames(&mut self, frames: usize) {
        let frames = u32::try_from(frames).unwrap_or(u32::MAX);
        let per_frame = self.limits.control_frames_per_data_frame;
        self.add(per_frame.saturating_mul(frames));
    }

    /// Counts a request that the client cancelled before it was answered.
    ///
    /// # Errors
    /// They are too many, and most of all.
    pub fn cancel_request(&mut self) -> Result<(), RuleViolation> {
        self.cancelled = self.cancelled.saturating_add(1);
        let is_most = self.cancelled > self.requests / 2;
        match self.cancelled >= self.limits.cancelled_streams && is_most {
            true => Err(RuleViolation::CancelFlood),
            false => Ok(()),
        }
    }

    /// Counts a stream that has to be reset since the peer broke a rule.
    ///
    /// # Errors
    /// There are too many.
    pub fn break_stream(&mut self) -> Result<(), RuleViolation> {
        self.broken = self.broken.saturating_add(1);
        match self.broken > self.limits.broken_streams {
            true => Err(RuleViolation::ResetFlood),
            false => Ok(()),
        }
    }

    #[inline]
    fn add(&mut self, frames: u32) {
        self.left = self
            .left
            .saturating_add(frames)
            .min(self.limits.control_frames);
    }

    /// Adds the frames of the time since the last refill.
    fn refill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.filled).as_millis();
        let frames = passed * u128::from(self.limits.control_frames_per_second) / 1_000;
        if frames > 0 {
            self.filled = now;
            self.add(u32::try_from(frames).unwrap_or(u32::MAX));
        }
    }
}
