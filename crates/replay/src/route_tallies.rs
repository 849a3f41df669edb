//! Counts what the limits of each route decide.

use sluicegate_access_log::{LoggedRequest, LoggedTreatment};
use sluicegate_limiter::{KeyHash, Timestamp};

use super::in_flight::RequestsInFlight;
use super::key_text::key_text;
use super::limit_counts::{CountedDecision, LimitTally};
use super::prepare::{BatchKeys, KeyedRequest};
use super::route_decisions::RouteDecisions;
use sluicegate_config::rules::Name;
use sluicegate_decide::admission::{AdmissionReport, LimitEvent, LimitNote, RequestFacts};

/// The counts of all limits and routes.
pub(super) struct RouteTallies {
    /// Each limit with its counts.
    pub(super) limits: Vec<(Name, LimitTally)>,
    pub(super) routes: Vec<RouteTally>,
}

/// The counts of one route.
pub(super) struct RouteTally {
    pub(super) name: String,
    pub(super) requests: u64,
    pub(super) limited: u64,
    /// The indexes of its limits in [`RouteTallies::limits`].
    pub(super) limits: Vec<usize>,
}

impl RouteTallies {
    /// Fetches the counts of the keys of a request.
    pub(super) fn fetch(&self, request: &KeyedRequest<'_>, keys: &BatchKeys<'_>) {
        let keys = keys.of_limits(request).iter();
        for (key, index) in keys.zip(self.indexes(request.route)) {
            if let (Some(key), Some((_, counts))) = (key, self.limits.get(*index)) {
                counts.keys.fetch(key.bits());
            }
        }
    }

    /// Returns the indexes of the limits of a route.
    fn indexes(&self, route: usize) -> &[usize] {
        self.routes.get(route).map_or(&[], |route| &route.limits)
    }

    /// Settles the requests in flight whose response or end is due.
    pub(super) fn settle_until(&mut self, now: Timestamp, in_flight: &mut RequestsInFlight) {
        while let Some((route, notes)) = in_flight.settle_due(now) {
            self.count_notes(route, &notes);
        }
    }

    /// Counts the charges that were refunded to a request of a route.
    pub(super) fn count_notes(&mut self, route: usize, notes: &[LimitNote]) {
        for note in notes {
            let index = self.indexes(route).get(usize::from(note.limit)).copied();
            if note.event == LimitEvent::Released
                && let Some((_, counts)) = index.and_then(|index| self.limits.get_mut(index))
            {
                counts.refunded += 1;
            }
        }
    }
}

/// Counts what a report says of limits beside their decisions.
pub(super) fn count_report(
    report: &AdmissionReport,
    indexes: &[usize],
    limits: &mut [(Name, LimitTally)],
) {
    let Some(details) = report.details.as_deref() else {
        return;
    };
    let mut counts_of = |limit: usize, count: &dyn Fn(&mut LimitTally)| {
        let index = indexes.get(limit);
        if let Some((_, counts)) = index.and_then(|index| limits.get_mut(*index)) {
            count(counts);
        }
    };
    for note in &details.notes {
        if note.event == LimitEvent::ShadowRatesRefused {
            counts_of(usize::from(note.limit), &|counts| {
                counts.shadow_rates_rejected += 1
            });
        }
    }
    for (ask, decision) in report.verdict.decisions().iter().enumerate() {
        let delay = decision.delay();
        if !delay.is_zero()
            && let Some(limit) = details.limit_of(ask)
        {
            let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
            counts_of(limit, &|counts| {
                counts.delayed += 1;
                counts.longest_delay = counts.longest_delay.max(nanos);
            });
        }
    }
}

/// Counts the decision of each limit over a request.
pub(super) fn count_decisions(
    request: &LoggedRequest<'_>,
    (prepared, facts, keys): (&KeyedRequest<'_>, &RequestFacts<'_>, &[Option<KeyHash>]),
    decisions: &RouteDecisions,
    indexes: &[usize],
    limits: &mut [(Name, LimitTally)],
) {
    // An allowed request has the status of the decision, not that of a response.
    let is_answered =
        request.treatment != LoggedTreatment::Allowed && (200..300).contains(&request.status);
    let each = decisions
        .iter()
        .zip(keys)
        .zip(indexes)
        .zip(prepared.limits().iter());
    for (((decision, key), index), active) in each {
        let counted = CountedDecision {
            now: facts.now,
            decision: *decision,
            key: key.map(KeyHash::bits),
            is_answered,
        };
        if let Some((_, counts)) = limits.get_mut(*index) {
            counts.add(&counted, || key_text(active, facts));
        }
    }
}
