//! Owns the times by which a client has to do something on its connection.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_http3::StreamId;
use tokio::time::Instant;

use crate::timer;

/// The times of one connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionDeadlines {
    /// The end of the handshake; `None` once it is complete.
    pub(super) handshake: Option<Instant>,
    /// The end of a connection without a request; `None` while it has one.
    pub(super) idle: Option<Instant>,
    /// The number of answers of which the client has not acknowledged all, and the time by which it has one of them.
    pub(super) acknowledgment: Option<(usize, Instant)>,
    /// The time at which the client has had the time to read GOAWAY.
    pub(super) drain: Option<Instant>,
    /// The time at which the state of a connection that has ended goes; `None` while it has not ended.
    pub(super) closed: Option<Instant>,
    /// The streams that were opened, and the times by which their heads are whole, in their order.
    heads: VecDeque<(StreamId, Instant)>,
}

impl ConnectionDeadlines {
    /// Notes a stream whose head may take so long.
    pub(super) fn await_head(&mut self, stream: StreamId, patience: Duration) {
        self.heads.push_back((stream, timer::deadline(patience)));
    }

    /// Notes that the client has not acknowledged so many answers. It has this time for the next one.
    pub(super) fn await_acknowledgment(
        &mut self,
        answers: usize,
        patience: impl FnOnce() -> Duration,
    ) {
        if !matches!(self.acknowledgment, Some((before, _)) if before == answers) {
            self.acknowledgment = Some((answers, timer::deadline(patience())));
        }
    }

    /// Returns whether the client has not acknowledged an answer by its time.
    pub(super) fn is_unacknowledged(&self, now: Instant) -> bool {
        matches!(self.acknowledgment, Some((_, deadline)) if deadline <= now)
    }

    /// Forgets the oldest streams while `is_over` says that they wait for no head any more.
    pub(super) fn forget_heads(&mut self, mut is_over: impl FnMut(StreamId) -> bool) {
        while let Some((stream, _)) = self.heads.front()
            && is_over(*stream)
        {
            self.heads.pop_front();
        }
    }

    /// Takes the stream whose head had to be whole by now, if any.
    pub(super) fn take_late_head(&mut self, now: Instant) -> Option<StreamId> {
        let (stream, _) = self.heads.pop_front_if(|(_, deadline)| *deadline <= now)?;
        Some(stream)
    }

    /// Returns the next of these times.
    pub(super) fn next(&self) -> Option<Instant> {
        let head = self.heads.front().map(|(_, deadline)| *deadline);
        let acknowledgment = self.acknowledgment.map(|(_, deadline)| deadline);
        [
            self.handshake,
            self.idle,
            acknowledgment,
            self.drain,
            self.closed,
            head,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
