//! Runs logged requests through the stages of one configuration, and counts what becomes of them.

use std::time::Duration;

use arrayvec::ArrayVec;
use http::StatusCode;
use sluicegate_access_log::{LogFacts, LoggedRequest, LoggedTreatment};
use sluicegate_decide::outcome::RequestDisposition;
use sluicegate_decide::rejection::MissingKeys;
use sluicegate_limiter::Timestamp;

use super::conditions::LoggedConditions;
use super::coverage::LogCoverage;
use super::in_flight::{InFlightRequest, RequestsInFlight};
use super::limit_counts::LimitTally;
use super::logged_client::early_end;
use super::logged_costs::{cost_fields, end_costs};
use super::prepare::{
    BatchKeys, KeyedRequest, MAX_BATCH, PreparedBatch, PreparedRequest, RequestStages,
    UnroutedRequest,
};
use super::route_decisions::{read_rejection, read_report, undecided};
use super::route_tallies::{RouteTallies, RouteTally, count_decisions, count_report};
use sluicegate_config::rules::{Name, Rules};
use sluicegate_decide::admission::{
    Admission, Admitted, ChargeTiming, KeySeed, RequestEnd, ResponseSource, evaluate,
};
use sluicegate_decide::compiled_rules::{CompiledRoute, CompiledRules};
use sluicegate_decide::locate::EarlyEnd;

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
        let coverage = LogCoverage::new(&mut rules, facts, facts.has_host || host.is_some());
        let compiled = CompiledRules::alone(rules, seed, start);
        let names: Vec<Name> = compiled.limits.keys().cloned().collect();
        let indexes = |route: &CompiledRoute| {
            let limits = route.limits.iter();
            limits
                .filter_map(|limit| names.iter().position(|name| *name == limit.name))
                .collect()
        };
        let routes = compiled.routes.iter().map(|route| RouteTally {
            name: route.name.to_string(),
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
            conditions: LoggedConditions::new(&compiled, start),
            stages: RequestStages::new(compiled, seed, facts, host),
            coverage,
            in_flight: RequestsInFlight::default(),
            counts: OutcomeCounts::default(),
        }
    }

    /// Returns the rules, as far as they are judged.
    pub(super) fn rules(&self) -> &Rules {
        &self.stages.compiled.rules
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
        let mut batch = PreparedBatch::with_capacity(requests.len());
        for (request, head) in requests.iter().zip(&heads) {
            self.stages.prepare(request, head.as_ref(), &mut batch);
        }
        let PreparedBatch {
            requests: prepared,
            keys,
        } = batch;
        for request in prepared.iter().flatten() {
            self.tallies.fetch(request, &keys);
        }
        let mut decider = RequestDecider {
            compiled: &self.stages.compiled,
            seed: &self.stages.seed,
            keys: &keys,
            tallies: &mut self.tallies,
            in_flight: &mut self.in_flight,
            conditions: &mut self.conditions,
            counts: &mut self.counts,
        };
        let each = requests.iter().zip(&prepared).take(MAX_BATCH);
        each.map(|(request, prepared)| decider.replay(request, prepared))
            .collect()
    }

    /// Settles all requests that are still in flight.
    pub(super) fn finish(&mut self) {
        let end = Timestamp::from_nanos(u64::MAX);
        self.tallies.settle_until(end, &mut self.in_flight);
    }
}

/// Decides over prepared requests.
struct RequestDecider<'e> {
    compiled: &'e CompiledRules,
    seed: &'e KeySeed,
    /// The keys of the batch.
    keys: &'e BatchKeys<'e>,
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
            Ok(located) => self.decide(request, located, now),
            Err(UnroutedRequest::NotReplayed) => ReplayOutcome::NotReplayed,
            Err(UnroutedRequest::Rejected(disposition)) => {
                ReplayOutcome::Rejected(*disposition, None)
            }
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

    /// Decides over a request whose route is found: counts it, asks the limits, counts what each of them decides, and keeps it in flight
    /// where something waits for its end.
    fn decide(
        &mut self,
        request: &LoggedRequest<'_>,
        prepared: &KeyedRequest<'_>,
        now: Timestamp,
    ) -> ReplayOutcome {
        self.counts.hidden_clients += u64::from(prepared.is_hidden);
        let RouteTallies { limits, routes } = &mut *self.tallies;
        let route = routes.get_mut(prepared.route);
        let Some(route) = route else {
            return ReplayOutcome::Admitted;
        };
        route.requests += 1;
        match early_end(&prepared.located, request) {
            Some(EarlyEnd::Blocked) => {
                return ReplayOutcome::Rejected(RequestDisposition::Blocked, None);
            }
            Some(EarlyEnd::Preflight | EarlyEnd::NoCertificate) => return ReplayOutcome::Admitted,
            None => {}
        }
        (self.conditions).look_until(now, self.compiled, self.seed, limits);
        let mut missing = MissingKeys::default();
        let facts = self.keys.facts(prepared);
        let asked = prepared.limits();
        let seed = self.seed;
        let charging = match request.hits {
            Some(0) => ChargeTiming::Held,
            _ => ChargeTiming::AtOnce,
        };
        // The rules of a replay have no store.
        let admission = evaluate(asked, &facts, seed, charging, &mut missing).without_store(now);
        let mut decisions = undecided(asked);
        let report = match &admission {
            Admission::Admitted(_, report) | Admission::Rejected(_, report) => report.as_ref(),
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
        };
        let keys = self.keys.of_limits(prepared);
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
    prepared: &KeyedRequest<'_>,
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
