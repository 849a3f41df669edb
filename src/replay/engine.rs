//! Runs logged requests through the stages of one configuration, and counts what becomes of them.

use std::mem;
use std::time::Duration;

use arrayvec::ArrayVec;
use http::StatusCode;
use sluicegate_access_log::{LogFacts, LoggedRequest, LoggedTreatment};
use sluicegate_limiter::{KeyHash, Timestamp};

use super::conditions::LoggedConditions;
use super::coverage::LogCoverage;
use super::in_flight::{InFlightRequest, RequestsInFlight};
use super::key_text::key_text;
use super::limit_counts::{CountedDecision, LimitDecision, LimitTally};
use super::logged_costs::{cost_fields, end_costs};
use super::prepare::{LocatedRequest, MAX_BATCH, PreparedRequest, RequestStages};
use crate::admission::{
    Admission, AdmissionReport, Admitted, ChargeTiming, KeySeed, LimitEvent, LimitNote,
    MAX_LIMIT_KEYS, RequestEnd, RequestFacts, ResponseSource, RouteLimits, admit, admit_as,
};
use crate::client::ListMatch;
use crate::config::rules::{Name, Rules};
use crate::record::{RequestDisposition, RequestMetrics};
use crate::rejection::{LimitRejection, MissingKeys, Rejection, RejectionReason};
use crate::snapshot::{ActiveRoute, Snapshot};
use crate::state::CounterStorage;

/// The decisions of all limits of a route over one request, by their index on the route.
type RouteDecisions = ArrayVec<LimitDecision, MAX_LIMIT_KEYS>;

/// The result of each request of a batch.
pub(super) type BatchOutcomes = ArrayVec<ReplayOutcome, MAX_BATCH>;

/// The result of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayOutcome {
    /// The limits admit it, or none applies.
    Admitted,
    /// It is rejected so; by a limit where there is an index of one in [`ReplayEngine::limits`].
    Rejected(RequestDisposition, Option<usize>),
    /// It was rejected before its limits when it was logged, since it broke a rule.
    NotReplayed,
}

/// The counts of all requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutcomeCounts {
    pub(super) requests: u64,
    pub(super) admitted: u64,
    /// Rejected by a limit or a ban.
    pub(super) limited: u64,
    /// Blocked by a list or a tier.
    pub(super) blocked: u64,
    pub(super) no_route: u64,
    /// Malformed, or lacking a part of a key.
    pub(super) malformed: u64,
    pub(super) not_replayed: u64,
    /// Requests of a trusted proxy without the address of a client.
    pub(super) hidden_clients: u64,
    /// Requests that a limit had rejected when they were logged.
    pub(super) limited_when_logged: u64,
}

/// One configuration with the state of its limits.
pub(super) struct ReplayEngine {
    stages: RequestStages,
    pub(super) coverage: LogCoverage,
    conditions: LoggedConditions,
    pub(super) counts: OutcomeCounts,
    tallies: RouteTallies,
    in_flight: RequestsInFlight,
    /// The room for the keys of a batch.
    keys: Vec<Option<KeyHash>>,
}

/// The counts of all limits and routes.
struct RouteTallies {
    /// Each limit with its counts.
    limits: Vec<(Name, LimitTally)>,
    routes: Vec<RouteTally>,
}

/// The counts of one route.
pub(super) struct RouteTally {
    pub(super) name: String,
    pub(super) requests: u64,
    pub(super) limited: u64,
    /// Indexes of its limits in [`ReplayEngine::limits`].
    limits: Vec<usize>,
}

impl ReplayEngine {
    /// Compiles `rules` for requests from `start` on. Keys are hashed under `seed`; `host` is the host of requests whose line has none.
    pub(super) fn new(
        mut rules: Rules,
        seed: &KeySeed,
        facts: &LogFacts,
        host: Option<&str>,
    ) -> Self {
        let start = Timestamp::from_nanos(facts.first_time.unwrap_or(0));
        let coverage = LogCoverage::of(&mut rules, facts, facts.has_host || host.is_some());
        let storage = &CounterStorage::MEMORY;
        let snapshot = Snapshot::compile(rules, None, storage, &RequestMetrics::new(), seed, start);
        let names: Vec<Name> = snapshot.limits.keys().cloned().collect();
        let indexes = |route: &ActiveRoute| {
            let limits = route.limits.iter();
            limits
                .filter_map(|limit| names.iter().position(|name| *name == limit.name))
                .collect()
        };
        let routes = snapshot.routes.iter().map(|route| RouteTally {
            name: route.metrics.name().to_owned(),
            requests: 0,
            limited: 0,
            limits: indexes(route),
        });
        let routes: Vec<RouteTally> = routes.collect();
        let used = |name: &Name| {
            let index = names.iter().position(|other| other == name);
            routes
                .iter()
                .any(|route| route.limits.iter().any(|limit| Some(*limit) == index))
        };
        // Limits that no route has would be rows of zeros, but their names are expected in a report.
        let unused = names.iter().filter(|name| !used(name));
        let mut coverage = coverage;
        for name in unused {
            let is_judged = coverage
                .not_judged
                .iter()
                .all(|limit| *limit.limit != **name);
            if is_judged {
                coverage
                    .notes
                    .push(format!("limit {name}: no route has it"));
            }
        }
        let limits = names
            .iter()
            .map(|name| (name.clone(), LimitTally::new(start)));
        Self {
            tallies: RouteTallies {
                limits: limits.collect(),
                routes,
            },
            conditions: LoggedConditions::new(&snapshot, start),
            stages: RequestStages::new(snapshot, seed, facts, host),
            coverage,
            in_flight: RequestsInFlight::default(),
            keys: Vec::new(),
            counts: OutcomeCounts::default(),
        }
    }

    /// Returns the request fields that must be read from the log.
    pub(super) fn wanted_fields(&self) -> impl Iterator<Item = &str> {
        self.stages.wanted_fields()
    }

    /// Returns the rules, as far as they are judged.
    pub(super) fn rules(&self) -> &Rules {
        &self.stages.snapshot.rules
    }

    /// Returns the routes with their counts.
    pub(super) fn routes(&self) -> &[RouteTally] {
        &self.tallies.routes
    }

    /// Returns each limit with its counts.
    pub(super) fn limits(&self) -> &[(Name, LimitTally)] {
        &self.tallies.limits
    }

    /// Returns the counts of the limit with this name.
    pub(super) fn counts_of(&self, name: &str) -> Option<&LimitTally> {
        let mut limits = self.limits().iter();
        let (_, counts) = limits.find(|(other, _)| **other == *name)?;
        Some(counts)
    }

    /// Returns the name of the limit at this index.
    pub(super) fn limit_name(&self, index: usize) -> &str {
        self.limits().get(index).map_or("", |(name, _)| name)
    }

    /// Returns the number of requests whose end came early, since too many were in flight.
    pub(super) fn settled_early(&self) -> u64 {
        self.in_flight.settled_early
    }

    /// Decides over at most [`MAX_BATCH`] requests, and returns the result of each. Requests come in the order of time.
    pub(super) fn replay(&mut self, requests: &[LoggedRequest<'_>]) -> BatchOutcomes {
        let heads = self.stages.heads(requests);
        let mut keys = mem::take(&mut self.keys);
        keys.clear();
        let each = requests.iter().zip(&heads);
        let prepared: Vec<PreparedRequest<'_>> = each
            .map(|(request, head)| self.stages.prepare(request, head.as_ref(), &mut keys))
            .collect();
        for request in &prepared {
            self.tallies.fetch(request, &keys);
        }
        let mut decider = RequestDecider {
            snapshot: &self.stages.snapshot,
            seed: &self.stages.seed,
            keys: &keys,
            tallies: &mut self.tallies,
            in_flight: &mut self.in_flight,
            conditions: &mut self.conditions,
            counts: &mut self.counts,
        };
        let each = requests.iter().zip(&prepared).take(MAX_BATCH);
        let outcomes = each.map(|(request, prepared)| decider.replay(request, prepared));
        let outcomes = outcomes.collect();
        self.keys = keys;
        outcomes
    }

    /// Settles all requests that are still in flight.
    pub(super) fn finish(&mut self) {
        let end = Timestamp::from_nanos(u64::MAX);
        self.tallies.settle_until(end, &mut self.in_flight);
    }
}

impl RouteTallies {
    /// Fetches the counts of the keys of a request.
    fn fetch(&self, request: &PreparedRequest<'_>, keys: &[Option<KeyHash>]) {
        let PreparedRequest::Located(request) = request else {
            return;
        };
        let keys = request.keys(keys).iter();
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

    fn settle_until(&mut self, now: Timestamp, in_flight: &mut RequestsInFlight) {
        while let Some((route, notes)) = in_flight.settle_due(now) {
            self.count_notes(route, &notes);
        }
    }

    fn count_notes(&mut self, route: usize, notes: &[LimitNote]) {
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

/// Decides over prepared requests.
struct RequestDecider<'e> {
    snapshot: &'e Snapshot,
    seed: &'e KeySeed,
    /// The keys of the batch.
    keys: &'e [Option<KeyHash>],
    tallies: &'e mut RouteTallies,
    in_flight: &'e mut RequestsInFlight,
    conditions: &'e mut LoggedConditions,
    counts: &'e mut OutcomeCounts,
}

impl RequestDecider<'_> {
    fn replay(
        &mut self,
        request: &LoggedRequest<'_>,
        prepared: &PreparedRequest<'_>,
    ) -> ReplayOutcome {
        let now = Timestamp::from_nanos(request.time);
        self.tallies.settle_until(now, self.in_flight);
        let limited_before = request.treatment == LoggedTreatment::Limited;
        self.counts.limited_when_logged += u64::from(limited_before);
        self.counts.requests += 1;
        let outcome = match prepared {
            PreparedRequest::NotReplayed => ReplayOutcome::NotReplayed,
            PreparedRequest::Rejected(disposition) => ReplayOutcome::Rejected(*disposition, None),
            PreparedRequest::Located(located) => self.decide(request, located, now),
        };
        let count = match outcome {
            ReplayOutcome::Admitted => &mut self.counts.admitted,
            ReplayOutcome::NotReplayed => &mut self.counts.not_replayed,
            ReplayOutcome::Rejected(disposition, _) => match disposition {
                RequestDisposition::NoRoute => &mut self.counts.no_route,
                RequestDisposition::Blocked => &mut self.counts.blocked,
                RequestDisposition::Rejected => &mut self.counts.malformed,
                _ => &mut self.counts.limited,
            },
        };
        *count += 1;
        outcome
    }

    fn decide(
        &mut self,
        request: &LoggedRequest<'_>,
        prepared: &LocatedRequest<'_>,
        now: Timestamp,
    ) -> ReplayOutcome {
        self.counts.hidden_clients += u64::from(prepared.is_hidden);
        let RouteTallies { limits, routes } = &mut *self.tallies;
        let route = routes.get_mut(prepared.route);
        let Some(route) = route else {
            return ReplayOutcome::Admitted;
        };
        route.requests += 1;
        if let ListMatch::Blocked(_) = prepared.located.standing {
            return ReplayOutcome::Rejected(RequestDisposition::Blocked, None);
        }
        if !prepared.is_limited() {
            return ReplayOutcome::Admitted;
        }
        (self.conditions).look_until(now, self.snapshot, self.seed, limits);
        let mut missing = MissingKeys::default();
        let facts = prepared.facts();
        let (asked, seed) = (prepared.limits(), self.seed);
        let charging = match request.hits {
            Some(0) => ChargeTiming::Held,
            _ => ChargeTiming::AtOnce,
        };
        let admission = match charging {
            ChargeTiming::AtOnce => admit(asked, &facts, seed, now, &mut missing),
            ChargeTiming::Held => admit_as(charging, asked, &facts, seed, now, &mut missing),
        };
        let mut decisions = RouteDecisions::new();
        let undecided = prepared
            .limits()
            .iter()
            .map(|_| LimitDecision::NotEvaluated);
        decisions.extend(undecided.take(MAX_LIMIT_KEYS));
        let report = match &admission {
            Admission::Admitted(_, report) | Admission::Rejected(_, report) => report.as_ref(),
            Admission::NeedsStore => None,
        };
        if let Some(report) = report {
            read_report(report, asked, &mut decisions);
            count_report(report, &route.limits, limits);
        }
        let mut refunds = Vec::new();
        let (outcome, pending) = match admission {
            Admission::Admitted(mut admitted, report) => {
                if charging == ChargeTiming::Held {
                    refunds = admitted.settle(None, now);
                    admitted.finish_response();
                }
                let is_held = admitted.is_pending() || admitted.holds_permits();
                let flight = is_held.then(|| {
                    let delay = report.map_or(Duration::ZERO, |report| report.verdict.delay());
                    in_flight(admitted, request, prepared, now.saturating_add(delay))
                });
                (ReplayOutcome::Admitted, flight)
            }
            Admission::Rejected(rejection, _) => {
                let by = read_rejection(&rejection, &missing, &mut decisions);
                let by = by.and_then(|limit| route.limits.get(limit)).copied();
                let disposition = RequestDisposition::rejected(&rejection);
                (ReplayOutcome::Rejected(disposition, by), None)
            }
            // No limit has a store here.
            Admission::NeedsStore => {
                let disposition = RequestDisposition::RefusedStoreAway;
                (ReplayOutcome::Rejected(disposition, None), None)
            }
        };
        let keys = prepared.keys(self.keys);
        count_decisions(
            request,
            (prepared, &facts, keys),
            &decisions,
            &route.limits,
            limits,
        );
        if let ReplayOutcome::Rejected(..) = outcome {
            route.limited += 1;
        }
        self.tallies.count_notes(prepared.route, &refunds);
        if let Some((route, notes)) = pending.and_then(|pending| self.in_flight.add(pending)) {
            self.tallies.count_notes(route, &notes);
        }
        outcome
    }
}

/// Returns an admitted request that waits for its response and its end, whose turn comes at `begun`.
fn in_flight(
    admitted: Admitted,
    request: &LoggedRequest<'_>,
    prepared: &LocatedRequest<'_>,
    begun: Timestamp,
) -> InFlightRequest {
    let after = |nanos: Option<u64>| begun.saturating_add(Duration::from_nanos(nanos.unwrap_or(0)));
    InFlightRequest {
        admitted,
        answered: after(request.first_byte.or(request.duration)),
        ended: after(request.duration),
        response: response(request),
        fields: cost_fields(prepared.limits(), request),
        costs: end_costs(prepared.limits(), request),
        end: RequestEnd {
            sent: request.bytes,
            received: None,
            duration: request.duration.map(Duration::from_nanos),
            ..RequestEnd::default()
        },
        route: prepared.route,
    }
}

/// Enters the decisions of a report. A limit with a condition is exempt from what it decides while it is not active.
fn read_report(report: &AdmissionReport, limits: &RouteLimits, decisions: &mut RouteDecisions) {
    let mut enter = |limit: usize, decision| {
        if let Some(place) = decisions.get_mut(limit) {
            *place = decision;
        }
    };
    let beside = report.beside.as_deref();
    for (ask, decision) in report.verdict.decisions().iter().enumerate() {
        let limit = beside.map_or(Some(ask), |beside| beside.limit_of(ask));
        if let Some(limit) = limit {
            enter(
                limit,
                match decision.is_refused() {
                    true => LimitDecision::Rejects,
                    false => LimitDecision::Admits,
                },
            );
        }
    }
    let notes = beside.map_or(&[][..], |beside| &beside.notes);
    let is_idle = |limit: u8| {
        let active = limits.get(usize::from(limit));
        let is_conditional = active.is_some_and(|active| active.activation.is_some());
        let of_limit = |note: &LimitNote| note.limit == limit && note.event == LimitEvent::Active;
        is_conditional && !notes.iter().any(of_limit)
    };
    for note in notes {
        let decision = match note.event {
            LimitEvent::ShadowAdmitted | LimitEvent::ShadowRefused if is_idle(note.limit) => {
                LimitDecision::Exempt
            }
            LimitEvent::Marked | LimitEvent::ShadowRefused => LimitDecision::Rejects,
            LimitEvent::ShadowAdmitted => LimitDecision::Admits,
            LimitEvent::Unlimited => LimitDecision::Exempt,
            LimitEvent::Blocked => LimitDecision::Blocks,
            _ => continue,
        };
        enter(usize::from(note.limit), decision);
    }
}

/// Enters the limit that rejects, where the report does not have it. Returns its index on the route.
fn read_rejection(
    rejection: &Rejection,
    missing: &MissingKeys,
    decisions: &mut RouteDecisions,
) -> Option<usize> {
    let (limit, decision) = match rejection {
        Rejection::ByLimit(LimitRejection { limit, reason, .. }) => {
            let decision = match reason {
                RejectionReason::RateLimited(_)
                | RejectionReason::BanStarted(_)
                | RejectionReason::Challenged(_) => LimitDecision::Rejects,
                RejectionReason::Banned(_) => LimitDecision::Bans,
                RejectionReason::Concurrency(_) => LimitDecision::RejectsConcurrency,
                RejectionReason::StoreUnavailable => LimitDecision::NotEvaluated,
            };
            (usize::from(*limit), decision)
        }
        Rejection::KeyBlocked => {
            let mut blocking = decisions.iter();
            return blocking.position(|decision| *decision == LimitDecision::Blocks);
        }
        Rejection::KeyMissing => (missing.refusing()?.limit, LimitDecision::Blocks),
    };
    if let Some(place) = decisions.get_mut(limit) {
        *place = decision;
    }
    Some(limit)
}

/// Counts what a report says of limits beside their decisions.
fn count_report(report: &AdmissionReport, indexes: &[usize], limits: &mut [(Name, LimitTally)]) {
    let Some(beside) = report.beside.as_deref() else {
        return;
    };
    let mut counts_of = |limit: usize, count: &dyn Fn(&mut LimitTally)| {
        let index = indexes.get(limit);
        if let Some((_, counts)) = index.and_then(|index| limits.get_mut(*index)) {
            count(counts);
        }
    };
    for note in &beside.notes {
        if note.event == LimitEvent::ShadowRatesRefused {
            counts_of(usize::from(note.limit), &|counts| {
                counts.shadow_rates_rejected += 1
            });
        }
    }
    for (ask, decision) in report.verdict.decisions().iter().enumerate() {
        let delay = decision.delay();
        if !delay.is_zero()
            && let Some(limit) = beside.limit_of(ask)
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
fn count_decisions(
    request: &LoggedRequest<'_>,
    (prepared, facts, keys): (&LocatedRequest<'_>, &RequestFacts<'_>, &[Option<KeyHash>]),
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

/// Returns the status of the logged response and its source; `None` where the client got none.
fn response(request: &LoggedRequest<'_>) -> Option<(StatusCode, ResponseSource)> {
    let status = StatusCode::from_u16(request.status).ok()?;
    let by = match request.treatment {
        LoggedTreatment::Cached => ResponseSource::Cache,
        LoggedTreatment::Allowed => ResponseSource::Unseen,
        _ => ResponseSource::Origin,
    };
    Some((status, by))
}
