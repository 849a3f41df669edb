//! Runs logged requests through the stages of one configuration, and counts what becomes of them.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use ahash::AHashMap;
use arrayvec::ArrayVec;
use http::{HeaderMap, HeaderValue, StatusCode};
use sluicegate_access_log::{FieldKind, LogFacts, LoggedRequest, LoggedTreatment};
use sluicegate_limiter::{KeyHash, Timestamp};

use super::coverage::LogCoverage;
use super::in_flight::{InFlightRequest, RequestsInFlight};
use super::limit_counts::{CountedDecision, LimitDecision, LimitTally};
use super::logged_client::locate_logged;
use super::logged_head::LoggedHeads;
use super::recorded_templates::RecordedTemplates;
use crate::admission::{
    Admission, AdmissionReport, ChargeTiming, KeySeed, KnownBody, LimitEvent, LimitNote,
    MAX_LIMIT_KEYS, RequestEnd, RequestFacts, ResponseSource, RouteLimits, admit, admit_as,
    key_values, limit_keys,
};
use crate::client::{AddressSource, ListMatch, PeerTrust, hop};
use crate::config::rules::{LoggedKeys, Name, Rules};
use crate::gateway::Located;
use crate::record::{RequestDisposition, RequestMetrics};
use crate::rejection::{LimitRejection, MissingKeys, Rejection, RejectionReason};
use crate::response::GatewayProblem;
use crate::snapshot::{ActiveRoute, Snapshot};
use crate::state::CounterStorage;

/// The decisions of all limits of a route over one request, by their index on the route.
type RouteDecisions = ArrayVec<LimitDecision, MAX_LIMIT_KEYS>;

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
    snapshot: Snapshot,
    seed: KeySeed,
    heads: LoggedHeads,
    pub(super) coverage: LogCoverage,
    /// Each limit with its counts.
    pub(super) limits: Vec<(Name, LimitTally)>,
    recorded: RecordedTemplates,
    routes: Vec<RouteTally>,
    /// Indexes of `routes`, by the address of the route.
    route_indexes: AHashMap<usize, usize>,
    in_flight: RequestsInFlight,
    pub(super) counts: OutcomeCounts,
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
        let addresses = snapshot.routes.iter().map(address);
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
        Self {
            heads: LoggedHeads::new(&snapshot, facts, host),
            recorded: RecordedTemplates::new(&snapshot.rules, facts),
            seed: seed.clone(),
            coverage,
            limits: names
                .iter()
                .map(|name| (name.clone(), LimitTally::new(start)))
                .collect(),
            route_indexes: addresses.zip(0..).collect(),
            routes,
            snapshot,
            in_flight: RequestsInFlight::default(),
            counts: OutcomeCounts::default(),
        }
    }

    /// Returns the request fields that must be read from the log.
    pub(super) fn wanted_fields(&self) -> impl Iterator<Item = &str> {
        self.heads.wanted()
    }

    /// Returns the rules, as far as they are judged.
    pub(super) fn rules(&self) -> &Rules {
        &self.snapshot.rules
    }

    /// Returns the routes with their counts.
    pub(super) fn routes(&self) -> &[RouteTally] {
        &self.routes
    }

    /// Returns the counts of the limit with this name.
    pub(super) fn counts_of(&self, name: &str) -> Option<&LimitTally> {
        let mut limits = self.limits.iter();
        let (_, counts) = limits.find(|(other, _)| **other == *name)?;
        Some(counts)
    }

    /// Returns the name of the limit at this index.
    pub(super) fn limit_name(&self, index: usize) -> &str {
        self.limits.get(index).map_or("", |(name, _)| name)
    }

    /// Returns the number of requests whose end came early, since too many were in flight.
    pub(super) fn settled_early(&self) -> u64 {
        self.in_flight.settled_early
    }

    /// Decides over a request. Requests come in the order of time.
    pub(super) fn replay(&mut self, request: &LoggedRequest<'_>) -> ReplayOutcome {
        self.settle_until(Timestamp::from_nanos(request.time));
        let limited_before = request.treatment == LoggedTreatment::Limited;
        self.counts.limited_when_logged += u64::from(limited_before);
        self.counts.requests += 1;
        let outcome = match request.treatment {
            LoggedTreatment::Malformed => ReplayOutcome::NotReplayed,
            _ => self.decide(request),
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

    /// Settles all requests that are still in flight.
    pub(super) fn finish(&mut self) {
        self.settle_until(Timestamp::from_nanos(u64::MAX));
    }

    fn settle_until(&mut self, now: Timestamp) {
        while let Some((route, notes)) = self.in_flight.settle_due(now) {
            self.count_notes(route, &notes);
        }
    }

    fn count_notes(&mut self, route: usize, notes: &[LimitNote]) {
        for note in notes {
            let index = self
                .routes
                .get(route)
                .and_then(|route| route.limits.get(usize::from(note.limit)));
            if note.event == LimitEvent::Released
                && let Some((_, counts)) = index.and_then(|index| self.limits.get_mut(*index))
            {
                counts.refunded += 1;
            }
        }
    }

    fn decide(&mut self, request: &LoggedRequest<'_>) -> ReplayOutcome {
        let rejected = |disposition| ReplayOutcome::Rejected(disposition, None);
        let Some(logged) = self.heads.head(&self.snapshot, request) else {
            return rejected(RequestDisposition::Rejected);
        };
        let head = logged.as_request();
        let located = match locate_logged(&self.snapshot, request, &logged, &head) {
            Ok(located) => located,
            Err(GatewayProblem::NoRoute) => return rejected(RequestDisposition::NoRoute),
            Err(_) => return rejected(RequestDisposition::Rejected),
        };
        let is_hidden = located.client.source == AddressSource::Connection
            && hop(logged.peer, &self.snapshot.rules.client) == PeerTrust::Trusted;
        self.counts.hidden_clients += u64::from(is_hidden);
        let route = self
            .route_indexes
            .get(&address(located.route))
            .copied()
            .unwrap_or(0);
        if let Some(counts) = self.routes.get_mut(route) {
            counts.requests += 1;
        }
        if let ListMatch::Blocked(_) = located.standing {
            return rejected(RequestDisposition::Blocked);
        }
        if located.preflight.is_some() {
            // A gateway answers it before any limit.
            return ReplayOutcome::Admitted;
        }
        let now = Timestamp::from_nanos(request.time);
        let recorded = self.recorded.keys(request);
        let facts = RequestFacts {
            recorded: &recorded,
            hits: judged_hits(request),
            ..located.facts(KnownBody::Unread, now)
        };
        let limits = located.limits();
        let keys = limit_keys(limits, &facts, &self.seed);
        let mut missing = MissingKeys::default();
        let charging = match request.hits {
            Some(0) => ChargeTiming::Held,
            _ => ChargeTiming::AtOnce,
        };
        let admission = match charging {
            ChargeTiming::AtOnce => admit(limits, &facts, &self.seed, now, &mut missing),
            ChargeTiming::Held => admit_as(charging, limits, &facts, &self.seed, now, &mut missing),
        };
        let mut decisions = RouteDecisions::new();
        decisions.extend(
            limits
                .iter()
                .map(|_| LimitDecision::NotEvaluated)
                .take(MAX_LIMIT_KEYS),
        );
        let indexes = self
            .routes
            .get(route)
            .map_or(&[][..], |route| &route.limits);
        let mut refunds = Vec::new();
        let (outcome, pending) = match admission {
            Admission::Admitted(mut admitted, report) => {
                let delay = report
                    .as_ref()
                    .map_or(Duration::ZERO, |report| report.verdict.delay());
                if let Some(report) = &report {
                    read_report(report, &mut decisions);
                    count_report(report, indexes, &mut self.limits);
                }
                if charging == ChargeTiming::Held {
                    refunds = admitted.settle(None, now);
                    admitted.finish_response();
                }
                let is_held = admitted.is_pending() || admitted.holds_permits();
                let flight = is_held.then(|| {
                    let begun = now.saturating_add(delay);
                    let after = |nanos: Option<u64>| {
                        begun.saturating_add(Duration::from_nanos(nanos.unwrap_or(0)))
                    };
                    InFlightRequest {
                        admitted,
                        answered: after(request.first_byte.or(request.duration)),
                        ended: after(request.duration),
                        response: response(request),
                        fields: cost_fields(limits, request),
                        end: RequestEnd {
                            sent: request.bytes,
                            received: None,
                            duration: request.duration.map(Duration::from_nanos),
                            ..RequestEnd::default()
                        },
                        route,
                    }
                });
                (ReplayOutcome::Admitted, flight)
            }
            Admission::Rejected(rejection, report) => {
                if let Some(report) = &report {
                    read_report(report, &mut decisions);
                    count_report(report, indexes, &mut self.limits);
                }
                let by = read_rejection(&rejection, &missing, &mut decisions);
                let by = by.and_then(|limit| indexes.get(limit)).copied();
                (
                    ReplayOutcome::Rejected(RequestDisposition::rejected(&rejection), by),
                    None,
                )
            }
            // No limit has a store here.
            Admission::NeedsStore => (rejected(RequestDisposition::RefusedStoreAway), None),
        };
        // An allowed request has the status of the decision, not that of a response.
        let is_answered =
            request.treatment != LoggedTreatment::Allowed && (200..300).contains(&request.status);
        count_decisions(
            &located,
            &facts,
            &decisions,
            &keys,
            is_answered,
            indexes,
            &mut self.limits,
        );
        if let ReplayOutcome::Rejected(..) = outcome
            && let Some(counts) = self.routes.get_mut(route)
        {
            counts.limited += 1;
        }
        self.count_notes(route, &refunds);
        if let Some((route, notes)) = pending.and_then(|pending| self.in_flight.add(pending)) {
            self.count_notes(route, &notes);
        }
        outcome
    }
}

/// Returns the number of requests that the limits judge: a question whether there is room is judged as one request.
fn judged_hits(request: &LoggedRequest<'_>) -> NonZeroU32 {
    let hits = request.hits.and_then(NonZeroU32::new);
    hits.unwrap_or(NonZeroU32::MIN)
}

/// Returns the address by which a route is known.
fn address(route: &Arc<ActiveRoute>) -> usize {
    Arc::as_ptr(route).addr()
}

/// Enters the decisions of a report.
fn read_report(report: &AdmissionReport, decisions: &mut RouteDecisions) {
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
    for note in beside.map_or(&[][..], |beside| &beside.notes) {
        let decision = match note.event {
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
    located: &Located<'_>,
    facts: &RequestFacts<'_>,
    decisions: &RouteDecisions,
    keys: &[Option<KeyHash>],
    is_answered: bool,
    indexes: &[usize],
    limits: &mut [(Name, LimitTally)],
) {
    let each = decisions
        .iter()
        .zip(keys)
        .zip(indexes)
        .zip(located.limits().iter());
    for (((decision, key), index), active) in each {
        let counted = CountedDecision {
            now: facts.now,
            decision: *decision,
            key: key.map(KeyHash::bits),
            is_answered,
        };
        if let Some((_, counts)) = limits.get_mut(*index) {
            counts.add(&counted, || {
                key_values(Some(active), || *facts, LoggedKeys::Plain).join(" ")
            });
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

/// Returns the fields of the response in which `limits` read their costs, as far as the log has them.
fn cost_fields(limits: &RouteLimits, request: &LoggedRequest<'_>) -> Option<Box<HeaderMap>> {
    let mut fields = None;
    for limit in limits.iter() {
        let Some(name) = limit
            .settlement
            .as_ref()
            .and_then(|rule| rule.reported_by())
        else {
            continue;
        };
        let mut logged = request.fields.iter();
        let cost = logged
            .find(|field| field.kind == FieldKind::Cost && field.name == limit.name.as_bytes());
        let value = match (cost, request.bytes) {
            (Some(cost), _) => HeaderValue::from_bytes(cost.value).ok(),
            (None, Some(bytes)) if *name == http::header::CONTENT_LENGTH => Some(bytes.into()),
            _ => None,
        };
        if let Some(value) = value {
            fields
                .get_or_insert_with(Box::<HeaderMap>::default)
                .insert(name, value);
        }
    }
    fields
}
