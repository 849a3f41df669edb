//! Reports the decisions of a route's limits over one request, for response and record.
//!
//! On most routes the verdict is over every limit, and is the whole report. Elsewhere the verdict leaves some limits out, such as those in
//! shadow, and events may follow it: [`ReportDetails`] has both.

use std::sync::Arc;
use std::time::Duration;

use crate::policy_items::PolicyItems;
use arrayvec::ArrayVec;
use http::{HeaderName, HeaderValue};
use sluicegate_limiter::{KeyHash, KeyPlacement, MAX_ASKS, Outcome, Verdict};

use super::limit::ActiveLimit;
use super::limit_event::{LimitEvent, LimitNote};
use sluicegate_config::rules::{Name, TierIndex};

/// The decisions of a route's limits over one request.
#[derive(Debug)]
pub struct AdmissionReport {
    /// The verdict over the limits that may reject the request.
    pub verdict: Verdict,
    /// `None`: the verdict is over all limits of the route, in its order, and there is nothing to add.
    pub details: Option<Box<ReportDetails>>,
}

/// The part of a report that is not in the verdict.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReportDetails {
    /// The index of the limit on the route, for each ask of the verdict.
    pub asked: ArrayVec<u8, MAX_ASKS>,
    /// The tier of the key, for each ask; empty where no limit was asked.
    pub tiers: ArrayVec<Option<TierIndex>, MAX_ASKS>,
    /// The tiers that the request names, with the indexes of their limits on the route; at most one for each limit.
    pub named: Vec<(u8, Name)>,
    /// Notes about limits, at most a few for each limit of the route.
    pub notes: Vec<LimitNote>,
    /// The queues in which the request waits, at most one for each limit of the route.
    pub queues: Vec<QueuePlace>,
    /// Limits that were exceeded and let the request pass, marked, at most one for each limit of the route.
    pub marks: Vec<OriginMark>,
}

/// A field that shows the origin a limit that was exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginMark {
    /// The index of the limit on the route.
    pub limit: u8,
    /// The name of the field.
    pub field: HeaderName,
    /// The value of the field: the limit's state, as in `RateLimit`.
    pub value: HeaderValue,
    /// The place where the limit counts the key.
    pub counted: KeyPlacement,
}

/// The place of a request in the queue of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePlace {
    /// The limit.
    pub limit: Name,
    /// The key whose queue it is.
    pub key: KeyHash,
    /// Time until its turn, if no request before it leaves.
    pub delay: Duration,
    /// Time between its turn and the next; `None` where other gateways may queue requests between the two.
    pub spacing: Option<Duration>,
}

impl AdmissionReport {
    /// Returns the report of a verdict over all limits of a route, without details.
    #[must_use]
    pub fn plain(verdict: Verdict) -> Self {
        Self {
            verdict,
            details: None,
        }
    }

    /// Returns the report of a verdict with its details.
    pub(super) fn with_details(verdict: Verdict, details: ReportDetails) -> Self {
        Self {
            verdict,
            details: Some(Box::new(details)),
        }
    }

    /// Returns the check of the verdict that rejects.
    #[must_use]
    pub fn refusing_check(&self) -> Option<usize> {
        match self.verdict.outcome() {
            Outcome::Refused { ask, .. } => Some(ask),
            Outcome::Admitted => None,
        }
    }

    /// Returns the limits of the verdict, in its order; `limits` are those of the route.
    pub fn asked<'a>(
        &'a self,
        limits: &'a [Arc<ActiveLimit>],
    ) -> impl Iterator<Item = &'a ActiveLimit> + Clone {
        let details = self.details.as_deref();
        (0..self.verdict.decisions().len()).filter_map(move |ask| {
            let limit = details.map_or(Some(ask), |details| details.limit_of(ask))?;
            limits.get(limit).map(|limit| &**limit)
        })
    }

    /// Returns the items of the limits of the verdict for fields and bodies, in its order.
    pub fn items<'a>(
        &'a self,
        limits: &'a [Arc<ActiveLimit>],
    ) -> impl Iterator<Item = &'a PolicyItems> + Clone {
        let details = self.details.as_deref();
        self.asked(limits).enumerate().map(move |(ask, limit)| {
            let tier = details.and_then(|details| details.tiers.get(ask).copied().flatten());
            limit.items_for(tier)
        })
    }

    /// Adds the marks of limits that were exceeded.
    pub(super) fn mark(&mut self, marks: impl IntoIterator<Item = OriginMark>) {
        if let Some(details) = &mut self.details {
            for mark in marks {
                details.notes.push(LimitNote {
                    limit: mark.limit,
                    event: LimitEvent::Marked,
                });
                if let Some(event) = LimitEvent::of_refusal(mark.counted) {
                    let limit = mark.limit;
                    details.notes.push(LimitNote { limit, event });
                }
                details.marks.push(mark);
            }
        }
    }

    /// Reports that charges are refunded: each limit gets back as many units as `units` returns for its index on the route.
    pub fn refund(&mut self, units: impl Fn(u8) -> u32) {
        let details = self.details.as_deref();
        self.verdict.refund(|ask| {
            let limit = details.map_or(Some(ask), |details| details.limit_of(ask));
            let limit = limit.and_then(|limit| u8::try_from(limit).ok());
            limit.map_or(0, &units)
        });
    }

    /// Adds notes.
    pub fn note(&mut self, notes: impl IntoIterator<Item = LimitNote>) {
        if let Some(details) = &mut self.details {
            details.notes.extend(notes);
        }
    }
}

impl ReportDetails {
    /// Returns the index on the route of the limit of the ask at `ask`.
    #[must_use]
    pub fn limit_of(&self, ask: usize) -> Option<usize> {
        self.asked.get(ask).map(|limit| usize::from(*limit))
    }
}
