//! Owns the answers that go on later, since their clients grant few bytes at once.
//!
//! QUIC keeps what it takes at once as one piece until the client has acknowledged it, and searches all pieces of an answer for each that
//! it sends. A client that grants an answer byte by byte would have it keep and search a piece a byte. So an answer of which QUIC took a
//! few bytes waits, while credit gathers.

use std::collections::BTreeMap;

use sluicegate_base::bounds;
use sluicegate_http3::StreamId;
use tokio::time::Instant;

use sluicegate_transport::timer;

/// The answers of one connection that wait.
#[derive(Debug, Default)]
pub(super) struct SmallCredits(BTreeMap<StreamId, Instant>);

impl SmallCredits {
    /// Lets an answer wait: the longer, the more there are that wait, so that the pieces of all are rare.
    pub(super) fn wait(&mut self, stream: StreamId) {
        let waiting = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        let wait = bounds::HTTP3_CREDIT_WAIT.saturating_mul(waiting.saturating_add(1));
        self.0.insert(stream, timer::deadline(wait));
    }

    /// Returns whether an answer waits.
    pub(super) fn has(&self, stream: StreamId) -> bool {
        self.0.contains_key(&stream)
    }

    /// Returns the time at which the next one goes on.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// Takes the answers that have waited for long enough.
    pub(super) fn take_over(&mut self, now: Instant) -> Vec<StreamId> {
        let over = self.0.extract_if(.., |_, until| *until <= now);
        over.map(|(stream, _)| stream).collect()
    }
}
