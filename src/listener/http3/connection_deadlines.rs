//! Owns the times by which a client has to do something on its connection.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_http3::StreamId;
use tokio::time::Instant;

use crate::timer;

/// Streams that are not searched for such as have begun.
const FEW_STREAMS: usize = 16;
/// The times of the client for a sign of progress that it has for a whole answer: four of a minute are 1 KB/s of what QUIC keeps.
const SLOWEST_ACKNOWLEDGMENT: u32 = 4;

/// The times of one connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionDeadlines {
    /// The end of the handshake; `None` once it is complete.
    pub(super) handshake: Option<Instant>,
    /// The end of a connection without a request; `None` while it has one.
    pub(super) idle: Option<Instant>,
    /// The time of the next PING; `None` while no request is served.
    pub(super) ping: Option<Instant>,
    /// The time at which the client has had the time to read GOAWAY.
    pub(super) drain: Option<Instant>,
    /// The time at which the state of a connection that has ended goes; `None` while it has not ended.
    pub(super) closed: Option<Instant>,
    /// The streams that were opened, and the times by which their heads, or types, are whole, in their order.
    beginnings: VecDeque<(StreamId, Instant)>,
    /// Their number behind the last search for those that have begun.
    searched: usize,
    /// The answers that QUIC has whole and whose clients have not acknowledged all of them, by their times.
    answers: VecDeque<UnacknowledgedAnswer>,
}

/// The times by which a client acknowledges an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnacknowledgedAnswer {
    stream: StreamId,
    /// The acknowledgments of any packet that had come when `next` was set.
    acknowledgments: u64,
    /// The time by which another one comes.
    next: Instant,
    /// The time by which all of the answer is acknowledged.
    last: Instant,
}

impl ConnectionDeadlines {
    /// Notes a stream whose head, or type, may take so long.
    pub(super) fn await_beginning(&mut self, stream: StreamId, patience: Duration) {
        self.beginnings
            .push_back((stream, timer::deadline(patience)));
    }

    /// Notes that QUIC has an answer whole. Its client acknowledges packets by this time, and again, and all of it by
    /// [`SLOWEST_ACKNOWLEDGMENT`] of them. So many acknowledgments have come.
    pub(super) fn await_acknowledgment(
        &mut self,
        stream: StreamId,
        patience: Duration,
        acknowledgments: u64,
    ) {
        self.answers.push_back(UnacknowledgedAnswer {
            stream,
            acknowledgments,
            next: timer::deadline(patience),
            last: timer::deadline(patience.saturating_mul(SLOWEST_ACKNOWLEDGMENT)),
        });
    }

    /// Forgets an answer, which its client has acknowledged or does not want.
    pub(super) fn forget_answer(&mut self, stream: StreamId) {
        self.answers.retain(|answer| answer.stream != stream);
    }

    /// Returns whether the client has not acknowledged an answer by one of its times, though `is_kept` says that some of it is missing. One
    /// that has acknowledged packets since has this time for more.
    pub(super) fn is_unacknowledged(
        &mut self,
        now: Instant,
        patience: Duration,
        acknowledgments: u64,
        mut is_kept: impl FnMut(StreamId) -> bool,
    ) -> bool {
        while let Some(mut answer) = self.answers.pop_front_if(|answer| answer.next <= now) {
            if !is_kept(answer.stream) {
                continue;
            }
            if answer.acknowledgments == acknowledgments || answer.last <= now {
                return true;
            }
            answer.acknowledgments = acknowledgments;
            let next = now.checked_add(patience);
            answer.next = next.map_or(answer.last, |next| next.min(answer.last));
            self.answers.push_back(answer);
        }
        false
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
        let acknowledgment = self.answers.front().map(|answer| answer.next);
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

    /// Goal: a client that acknowledges packets has more time for an answer, and not without end; one that has acknowledged all of it is not
    /// late. Method: the times of an answer, with acknowledgments before each of them, and an answer that is not kept.
    #[test]
    fn an_answer_has_its_time_while_acknowledgments_come() {
        let patience = Duration::from_secs(10);
        let begun = timer::deadline(Duration::ZERO);
        let mut deadlines = ConnectionDeadlines::default();
        let is_late = |deadlines: &mut ConnectionDeadlines, times: u32, acknowledgments| {
            let now = begun + patience * times;
            deadlines.is_unacknowledged(now, patience, acknowledgments, |_| true)
        };
        let answer = StreamId::new(0);
        deadlines.await_acknowledgment(answer, patience, 7);
        assert!(!is_late(&mut deadlines, 0, 7));
        assert!(!is_late(&mut deadlines, 2, 8));
        assert!(is_late(&mut deadlines, 2, 8));
        deadlines.await_acknowledgment(answer, patience, 7);
        assert!(!is_late(&mut deadlines, SLOWEST_ACKNOWLEDGMENT - 1, 8));
        assert!(is_late(&mut deadlines, 2 * SLOWEST_ACKNOWLEDGMENT, 9));
        deadlines.await_acknowledgment(answer, patience, 9);
        let end = begun + patience * 2 * SLOWEST_ACKNOWLEDGMENT;
        assert!(!deadlines.is_unacknowledged(end, patience, 9, |_| false));
        deadlines.await_acknowledgment(answer, patience, 9);
        deadlines.forget_answer(answer);
        assert!(!is_late(&mut deadlines, 2 * SLOWEST_ACKNOWLEDGMENT, 9));
    }
}
