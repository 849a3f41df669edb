//! Owns the times by which a client has to do something on its connection.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_http3::StreamId;
use tokio::time::Instant;

use crate::timer;

/// Streams that are not searched for such as have begun.
const FEW_STREAMS: usize = 16;

/// The times of one connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionDeadlines {
    /// The end of the handshake; `None` once it is complete.
    pub(super) handshake: Option<Instant>,
    /// The end of a connection without a request; `None` while it has one.
    pub(super) idle: Option<Instant>,
    /// The time of the next PING; `None` while no request is served.
    pub(super) ping: Option<Instant>,
    /// The number of answers of which the client has not acknowledged all, and the time by which it has one of them.
    pub(super) acknowledgment: Option<(usize, Instant)>,
    /// The time at which the client has had the time to read GOAWAY.
    pub(super) drain: Option<Instant>,
    /// The time at which the state of a connection that has ended goes; `None` while it has not ended.
    pub(super) closed: Option<Instant>,
    /// The streams that were opened, and the times by which their heads, or types, are whole, in their order.
    beginnings: VecDeque<(StreamId, Instant)>,
    /// Their number behind the last search for those that have begun.
    searched: usize,
}

impl ConnectionDeadlines {
    /// Notes a stream whose head, or type, may take so long.
    pub(super) fn await_beginning(&mut self, stream: StreamId, patience: Duration) {
        self.beginnings
            .push_back((stream, timer::deadline(patience)));
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

    /// Forgets the oldest streams while `has_begun` says that their beginnings have come; and all such, once there are twice as many as
    /// there were without them: the oldest one may wait for long while others come and go.
    pub(super) fn forget_begun(&mut self, mut has_begun: impl FnMut(StreamId) -> bool) {
        while let Some((stream, _)) = self.beginnings.front()
            && has_begun(*stream)
        {
            self.beginnings.pop_front();
        }
        if self.beginnings.len() > 2 * self.searched.max(FEW_STREAMS) {
            self.beginnings.retain(|(stream, _)| !has_begun(*stream));
            self.searched = self.beginnings.len();
        }
    }

    /// Takes the stream whose beginning had to be whole by now, if any.
    pub(super) fn take_late_stream(&mut self, now: Instant) -> Option<StreamId> {
        let (stream, _) = self
            .beginnings
            .pop_front_if(|(_, deadline)| *deadline <= now)?;
        Some(stream)
    }

    /// Returns the next of these times.
    pub(super) fn next(&self) -> Option<Instant> {
        let beginning = self.beginnings.front().map(|(_, deadline)| *deadline);
        let acknowledgment = self.acknowledgment.map(|(_, deadline)| deadline);
        [
            self.handshake,
            self.idle,
            self.ping,
            acknowledgment,
            self.drain,
            self.closed,
            beginning,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: one stream that waits keeps no others. Method: a thousand streams that begin at once, behind one that does not.
    #[test]
    fn streams_that_have_begun_are_forgotten() {
        let mut deadlines = ConnectionDeadlines::default();
        let late = StreamId::new(0);
        for number in 0..1000 {
            deadlines.await_beginning(StreamId::new(4 * number), Duration::ZERO);
            deadlines.forget_begun(|stream| stream != late);
            assert!(deadlines.beginnings.len() <= 2 * FEW_STREAMS);
        }
        let now = timer::deadline(Duration::from_secs(1));
        assert_eq!(deadlines.take_late_stream(now), Some(late));
    }
}
