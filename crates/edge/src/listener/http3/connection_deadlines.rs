//! Owns the times by which a client has to do something on its connection.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_http3::StreamId;
use tokio::time::Instant;

use sluicegate_transport::timer;

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
    /// The answers that QUIC has whole and of which the client has not acknowledged all, by their times.
    answers: VecDeque<UnacknowledgedAnswer>,
    /// Their number behind the last search for those that QUIC has forgotten.
    kept: usize,
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
    is_given_up: bool,
}

/// The end of an answer that the client has not acknowledged by one of its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LateAnswer {
    /// It is given up: the client acknowledges other packets.
    Slow(StreamId),
    /// The connection ends: the client acknowledges nothing, or not even the end of the answer.
    Silent,
}

impl ConnectionDeadlines {
    /// Notes a stream whose head, or type, may take so long.
    pub(super) fn await_beginning(&mut self, stream: StreamId, patience: Duration) {
        self.beginnings
            .push_back((stream, timer::deadline(patience)));
    }

    /// Notes an answer that QUIC has whole, or breaks off, unless `is_kept` says that it has none of it any more. The client acknowledges
    /// packets by this time, and again, and all of the answer by [`SLOWEST_ACKNOWLEDGMENT`] of them. So many acknowledgments have come.
    pub(super) fn await_acknowledgment(
        &mut self,
        stream: StreamId,
        patience: Duration,
        acknowledgments: u64,
        mut is_kept: impl FnMut(StreamId) -> bool,
    ) {
        if !is_kept(stream) {
            return;
        }
        self.answers.push_back(UnacknowledgedAnswer {
            stream,
            acknowledgments,
            next: timer::deadline(patience),
            last: timer::deadline(patience.saturating_mul(SLOWEST_ACKNOWLEDGMENT)),
            is_given_up: false,
        });
        // QUIC does not say when the client has acknowledged a reset.
        if self.answers.len() > 2 * self.kept.max(FEW_STREAMS) {
            self.answers.retain(|answer| is_kept(answer.stream));
            self.kept = self.answers.len();
        }
    }

    /// Forgets an answer that its client has acknowledged.
    pub(super) fn forget_answer(&mut self, stream: StreamId) {
        self.answers.retain(|answer| answer.stream != stream);
    }

    /// Takes the answer that the client has not acknowledged by one of its times, if any, though `is_kept` says that some of it is missing.
    /// Where it has acknowledged packets since, it has this time for more.
    pub(super) fn take_late_answer(
        &mut self,
        now: Instant,
        patience: Duration,
        acknowledgments: u64,
        mut is_kept: impl FnMut(StreamId) -> bool,
    ) -> Option<LateAnswer> {
        while let Some(mut answer) = self.answers.pop_front_if(|answer| answer.next <= now) {
            if !is_kept(answer.stream) {
                continue;
            }
            let is_late = answer.last <= now;
            if answer.acknowledgments == acknowledgments || is_late && answer.is_given_up {
                return Some(LateAnswer::Silent);
            }
            let next = now.checked_add(patience).unwrap_or(answer.last);
            answer.acknowledgments = acknowledgments;
            if is_late {
                answer.is_given_up = true;
                answer.last = next;
            }
            answer.next = next.min(answer.last);
            self.answers.push_back(answer);
            if is_late {
                return Some(LateAnswer::Slow(answer.stream));
            }
        }
        None
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

    /// Goal: a client that acknowledges packets has more time for an answer, and not without end; one that acknowledges nothing, or not
    /// even the end of an answer, loses its connection. Method: the times of an answer, with acknowledgments before each of them.
    #[test]
    fn an_answer_has_its_time_while_acknowledgments_come() {
        let patience = Duration::from_secs(10);
        let begun = timer::deadline(Duration::ZERO);
        let answer = StreamId::new(0);
        let awaited = || {
            let mut deadlines = ConnectionDeadlines::default();
            deadlines.await_acknowledgment(answer, patience, 7, |_| true);
            deadlines
        };
        let take = |deadlines: &mut ConnectionDeadlines, times: u32, acknowledgments| {
            let now = begun + patience * times;
            deadlines.take_late_answer(now, patience, acknowledgments, |_| true)
        };
        let mut silent = awaited();
        assert_eq!(take(&mut silent, 0, 7), None);
        assert_eq!(take(&mut silent, 2, 8), None);
        assert_eq!(take(&mut silent, 4, 8), Some(LateAnswer::Silent));
        let mut slow = awaited();
        for times in 1..=SLOWEST_ACKNOWLEDGMENT {
            assert_eq!(take(&mut slow, times, 7 + u64::from(times)), None);
        }
        let late = SLOWEST_ACKNOWLEDGMENT + 1;
        assert_eq!(take(&mut slow, late, 100), Some(LateAnswer::Slow(answer)));
        assert_eq!(take(&mut slow, late + 2, 101), Some(LateAnswer::Silent));
        let mut acknowledged = awaited();
        let end = begun + patience * late;
        assert_eq!(
            acknowledged.take_late_answer(end, patience, 7, |_| false),
            None
        );
        let mut forgotten = awaited();
        forgotten.forget_answer(answer);
        assert_eq!(take(&mut forgotten, late, 7), None);
    }

    /// Goal: answers that QUIC has forgotten take no memory. Method: a thousand, of which it keeps the first.
    #[test]
    fn answers_that_quic_has_forgotten_are_forgotten() {
        let mut deadlines = ConnectionDeadlines::default();
        let mut last = StreamId::new(0);
        for number in 0..1000 {
            last = StreamId::new(4 * number);
            let is_kept = |stream: StreamId| stream == StreamId::new(0) || stream == last;
            deadlines.await_acknowledgment(last, Duration::ZERO, 0, is_kept);
        }
        assert!(deadlines.answers.len() <= 2 * FEW_STREAMS, "{last:?}");
    }
}
