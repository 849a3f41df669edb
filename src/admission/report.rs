//! Owns what the limits of a route said of one request: the verdict, and what else is to be remembered.
//!
//! On most routes every limit is asked and there is nothing to add; then the verdict is all there is. Elsewhere some limits are left
//! out of it, such as those in shadow, and something may turn out after it: [`ReportDetails`] keeps both, so that response and record
//! need not know why.

use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use http::{HeaderName, HeaderValue};
use sluicegate_limiter::{KeyHash, KeyPlacement, MAX_ASKS, Outcome, Verdict};

use super::limit::ActiveLimit;
use crate::config::rules::{Name, TierIndex};
use crate::response::PolicyItems;
use crate::store::DecisionSource;

/// What the limits of a route said of one request.
#[derive(Debug)]
pub struct AdmissionReport {
    /// Over the limits that may refuse the request.
    pub verdict: Verdict,
    /// `None`: the verdict is over all limits of the route, in its order, and there is nothing to add.
    pub beside: Option<Box<ReportDetails>>,
}

/// What a verdict alone does not say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReportDetails {
    /// For each ask of the verdict the index of its limit on the route.
    pub asked: ArrayVec<u8, MAX_ASKS>,
    /// For each ask the tier that its key is in; nothing where no limit of the route has tiers.
    pub tiers: ArrayVec<Option<TierIndex>, MAX_ASKS>,
    /// The tiers that the request names, with the indexes of their limits on the route; at most one for each limit.
    pub named: Vec<(u8, Name)>,
    /// What was found out about limits, at most a few for each limit of the route.
    pub notes: Vec<LimitNote>,
    /// The queues in which the request waits, at most one for each limit of the route.
    pub queues: Vec<QueuePlace>,
    /// Limits that were exceeded and let the request pass, marked, at most one for each limit of the route.
    pub marks: Vec<Mark>,
}

/// What tells the origin of a limit that was exceeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The index of the limit on the route.
    pub limit: u8,
    /// The field to write.
    pub field: HeaderName,
    /// Its value: the limit's standing, as in `RateLimit`.
    pub value: HeaderValue,
    /// Where the limit counts the key.
    pub counted: KeyPlacement,
}

/// The place of a request in the queue of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePlace {
    /// The limit.
    pub limit: Name,
    /// The key whose queue it is.
    pub key: KeyHash,
    /// How long until its turn, if nobody before it leaves.
    pub delay: Duration,
    /// How long after it the next one goes; `None` where other gateways may queue requests between the two.
    pub spacing: Option<Duration>,
}

/// Something found out about a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitNote {
    /// The index of the limit on the route.
    pub limit: u8,
    /// What.
    pub event: LimitEvent,
}

/// What can be found out about a limit beside the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitEvent {
    /// Its charge was given back: the response does not count, there was none, or the request was not let in after all.
    Released,
    /// The origin told the cost, so many units as charged.
    Cost(u32),
    /// What the origin wrote is no cost; the request cost 1.
    CostMalformed,
    /// It is exceeded, and the request passes with a mark.
    Marked,
    /// It is in shadow and has room.
    ShadowAdmitted,
    /// It is in shadow and has none.
    ShadowRefused,
    /// Its rates in shadow have room.
    ShadowRatesAdmitted,
    /// Its rates in shadow have none.
    ShadowRatesRefused,
    /// It is decided in a store: who decided.
    Decided(DecisionSource),
    /// It let the request pass only because it marks or is in shadow: it had no room in a counter that new keys share.
    OverflowRefused,
    /// As above: it had no room for a new key, since the client has taken its share of the slots.
    ShareRefused,
    /// Its overrides take the key out of it; nothing was asked.
    Unlimited,
    /// Its overrides block the key; nothing was asked of any limit.
    Blocked,
}

impl LimitEvent {
    /// What there is to find out about a refusal that was not enforced, of a key that is counted so.
    pub(super) fn of_refusal(counted: KeyPlacement) -> Option<Self> {
        match counted {
            KeyPlacement::OwnSlot => None,
            KeyPlacement::Overflow => Some(Self::OverflowRefused),
            KeyPlacement::OverShare => Some(Self::ShareRefused),
        }
    }

    /// Where the key is counted that such a refusal is about; `None` of other findings.
    #[must_use]
    pub fn counted(self) -> Option<KeyPlacement> {
        match self {
            Self::OverflowRefused => Some(KeyPlacement::Overflow),
            Self::ShareRefused => Some(KeyPlacement::OverShare),
            _ => None,
        }
    }
}

impl AdmissionReport {
    /// A verdict over all limits of a route, with nothing to add.
    #[must_use]
    pub fn plain(verdict: Verdict) -> Self {
        Self {
            verdict,
            beside: None,
        }
    }

    /// Returns the report of a verdict over all limits of a route, with notes about some of them.
    pub(super) fn with_notes(verdict: Verdict, notes: Vec<LimitNote>) -> Self {
        let details = ReportDetails {
            asked: (0..).take(verdict.decisions().len()).collect(),
            notes,
            ..ReportDetails::default()
        };
        Self {
            verdict,
            beside: Some(Box::new(details)),
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

    /// The limits that the verdict is over, in its order; `limits` are those of the route.
    pub fn asked<'a>(
        &'a self,
        limits: &'a [Arc<ActiveLimit>],
    ) -> impl Iterator<Item = &'a ActiveLimit> + Clone {
        let beside = self.beside.as_deref();
        (0..self.verdict.decisions().len()).filter_map(move |ask| {
            let limit = beside.map_or(Some(ask), |beside| beside.limit_of(ask))?;
            limits.get(limit).map(|limit| &**limit)
        })
    }

    /// What those limits write into fields and bodies, in the verdict's order.
    pub fn items<'a>(
        &'a self,
        limits: &'a [Arc<ActiveLimit>],
    ) -> impl Iterator<Item = &'a PolicyItems> + Clone {
        let beside = self.beside.as_deref();
        self.asked(limits).enumerate().map(move |(ask, limit)| {
            let tier = beside.and_then(|beside| beside.tiers.get(ask).copied().flatten());
            limit.items_for(tier)
        })
    }

    /// Adds the marks of limits that were exceeded.
    pub(super) fn mark(&mut self, marks: impl IntoIterator<Item = Mark>) {
        if let Some(beside) = &mut self.beside {
            for mark in marks {
                beside.notes.push(LimitNote {
                    limit: mark.limit,
                    event: LimitEvent::Marked,
                });
                if let Some(event) = LimitEvent::of_refusal(mark.counted) {
                    let limit = mark.limit;
                    beside.notes.push(LimitNote { limit, event });
                }
                beside.marks.push(mark);
            }
        }
    }

    /// Adds what was found out.
    pub fn note(&mut self, notes: impl IntoIterator<Item = LimitNote>) {
        if let Some(beside) = &mut self.beside {
            beside.notes.extend(notes);
        }
    }
}

impl ReportDetails {
    /// The index on the route of the limit that the ask at `ask` is about.
    #[must_use]
    pub fn limit_of(&self, ask: usize) -> Option<usize> {
        self.asked.get(ask).map(|limit| usize::from(*limit))
    }
}
