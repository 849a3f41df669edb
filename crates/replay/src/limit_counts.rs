//! Counts the decisions of one limit.

use sluicegate_limiter::Timestamp;

use super::key_counts::KeyCounts;
use super::timeline::EventTimeline;

/// The decision of one limit over one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LimitDecision {
    /// The limit was not evaluated: something rejected the request before.
    #[default]
    NotEvaluated,
    /// The limit does not apply to the request: its tier is unlimited, or it lacks the key.
    Exempt,
    /// It has room.
    Admits,
    /// A rate has no room: it rejects, marks, or would reject were it enforced.
    Rejects,
    /// A ban of the key rejects.
    Bans,
    /// The maximum of requests of the key is in flight.
    RejectsConcurrency,
    /// Its tier blocks the request, or the request lacks a part of the key.
    Blocks,
}

impl LimitDecision {
    /// Returns whether the request counts among those that the limit decided.
    pub(super) fn is_evaluated(self) -> bool {
        !matches!(self, Self::NotEvaluated | Self::Exempt)
    }

    /// Returns whether the limit has no room for the request.
    pub(super) fn is_rejection(self) -> bool {
        self.is_evaluated() && self != Self::Admits
    }
}

/// The counts of one limit.
#[derive(Debug)]
pub(super) struct LimitTally {
    pub(super) requests: u64,
    pub(super) rejected: u64,
    pub(super) banned: u64,
    pub(super) over_concurrency: u64,
    pub(super) blocked: u64,
    pub(super) exempt: u64,
    pub(super) shadow_rates_rejected: u64,
    pub(super) refunded: u64,
    pub(super) delayed: u64,
    /// The longest delay of a request, in nanoseconds.
    pub(super) longest_delay: u64,
    /// Rejected requests that were answered with 2xx when they were logged.
    pub(super) answered: u64,
    pub(super) first_rejection: Option<Timestamp>,
    pub(super) timeline: EventTimeline,
    pub(super) keys: KeyCounts,
}

/// A request with its decision by one limit.
pub(super) struct CountedDecision {
    pub(super) now: Timestamp,
    pub(super) decision: LimitDecision,
    /// The key; `None` where the request has none.
    pub(super) key: Option<u64>,
    /// Set if the request was answered with 2xx when it was logged.
    pub(super) is_answered: bool,
}

impl LimitTally {
    /// Returns the counts of a limit before the first request, at `start`.
    pub(super) fn new(start: Timestamp) -> Self {
        Self {
            requests: 0,
            rejected: 0,
            banned: 0,
            over_concurrency: 0,
            blocked: 0,
            exempt: 0,
            shadow_rates_rejected: 0,
            refunded: 0,
            delayed: 0,
            longest_delay: 0,
            answered: 0,
            first_rejection: None,
            timeline: EventTimeline::new(start.as_secs()),
            keys: KeyCounts::default(),
        }
    }

    /// Counts a decision; `values` returns the values of the key for people.
    pub(super) fn add(&mut self, counted: &CountedDecision, values: impl FnOnce() -> String) {
        let decision = counted.decision;
        self.exempt += u64::from(decision == LimitDecision::Exempt);
        if !decision.is_evaluated() {
            return;
        }
        let is_rejected = decision.is_rejection();
        self.requests += 1;
        self.banned += u64::from(decision == LimitDecision::Bans);
        self.over_concurrency += u64::from(decision == LimitDecision::RejectsConcurrency);
        self.blocked += u64::from(decision == LimitDecision::Blocks);
        if is_rejected {
            self.rejected += 1;
            self.answered += u64::from(counted.is_answered);
            self.first_rejection = self.first_rejection.or(Some(counted.now));
        }
        self.timeline.add(counted.now.as_secs(), is_rejected);
        if let Some(key) = counted.key {
            self.keys.add(key, is_rejected, counted.is_answered, values);
        }
    }
}
