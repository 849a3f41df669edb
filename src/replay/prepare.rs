//! Prepares requests for their decision: makes heads of them, and finds client, route and keys.
//!
//! Nothing here depends on what was decided before. So the requests of one second are prepared together, and their counters are on the way
//! to the processor before the first of them is decided: with many keys each is a cache miss, and misses overlap.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;

use ahash::AHashMap;
use sluicegate_access_log::{LogFacts, LoggedRequest, LoggedTreatment};
use sluicegate_limiter::{KeyHash, Timestamp};

use super::logged_client::locate_logged;
use super::logged_costs::reserves;
use super::logged_head::{LoggedHead, LoggedHeads};
use super::recorded_templates::RecordedTemplates;
use crate::admission::{
    KeySeed, KnownBody, RecordedKey, RecordedReserve, RequestFacts, RouteLimits, limit_keys,
};
use crate::client::{AddressSource, ListMatch, PeerTrust, hop};
use crate::gateway::Located;
use crate::record::RequestDisposition;
use crate::response::GatewayProblem;
use crate::snapshot::{ActiveRoute, Snapshot};

/// Requests that are prepared together: enough that their misses overlap, and few enough that they stay in the nearest cache.
pub(super) const MAX_BATCH: usize = 16;

/// The stages of one configuration before the limits.
pub(super) struct RequestStages {
    pub(super) snapshot: Snapshot,
    pub(super) seed: KeySeed,
    heads: LoggedHeads,
    recorded: RecordedTemplates,
    /// Indexes of routes, by the address of the route.
    route_indexes: AHashMap<usize, usize>,
}

/// A request before its limits.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are of the large variant, and none is moved once a batch has it"
)]
pub(super) enum PreparedRequest<'a> {
    /// It was rejected before its limits when it was logged, since it broke a rule.
    NotReplayed,
    /// It is rejected so, and no route is found.
    Rejected(RequestDisposition),
    /// Its route is found.
    Located(LocatedRequest<'a>),
}

/// A request with its route and its keys.
pub(super) struct LocatedRequest<'a> {
    pub(super) located: Located<'a>,
    /// The index of its route.
    pub(super) route: usize,
    /// Set for a request of a trusted proxy without the address of a client.
    pub(super) is_hidden: bool,
    recorded: Vec<RecordedKey<'a>>,
    /// The reserves that it announced, as far as the log has them.
    reserves: Vec<RecordedReserve>,
    /// The keys of the limits of its route among those of its batch.
    keys: Range<usize>,
    now: Timestamp,
    /// The number of requests that the limits judge.
    hits: NonZeroU32,
}

impl RequestStages {
    /// Returns the stages of `snapshot` for a log; `host` is the host of requests whose line has none.
    pub(super) fn new(
        snapshot: Snapshot,
        seed: &KeySeed,
        facts: &LogFacts,
        host: Option<&str>,
    ) -> Self {
        Self {
            heads: LoggedHeads::new(&snapshot, facts, host),
            recorded: RecordedTemplates::new(&snapshot.rules, facts),
            route_indexes: snapshot.routes.iter().map(address).zip(0..).collect(),
            seed: seed.clone(),
            snapshot,
        }
    }

    /// Returns the heads of the requests; `None` where method or target cannot be those of one.
    pub(super) fn heads<'a>(
        &'a self,
        requests: &[LoggedRequest<'a>],
    ) -> Vec<Option<LoggedHead<'a>>> {
        let heads = requests.iter();
        heads
            .map(|request| self.heads.head(&self.snapshot, request))
            .collect()
    }

    /// Prepares a request with this head, appends its keys to `keys`, and prefetches its counters.
    pub(super) fn prepare<'a>(
        &'a self,
        request: &LoggedRequest<'_>,
        head: Option<&'a LoggedHead<'a>>,
        keys: &mut Vec<Option<KeyHash>>,
    ) -> PreparedRequest<'a> {
        if request.treatment == LoggedTreatment::Malformed {
            return PreparedRequest::NotReplayed;
        }
        let Some(logged) = head else {
            return PreparedRequest::Rejected(RequestDisposition::Rejected);
        };
        let head = logged.as_request();
        let located = match locate_logged(&self.snapshot, request, logged, &head) {
            Ok(located) => located,
            Err(GatewayProblem::NoRoute) => {
                return PreparedRequest::Rejected(RequestDisposition::NoRoute);
            }
            Err(_) => return PreparedRequest::Rejected(RequestDisposition::Rejected),
        };
        let is_hidden = located.client.source == AddressSource::Connection
            && hop(logged.peer, &self.snapshot.rules.client) == PeerTrust::Trusted;
        let route = self.route_indexes.get(&address(located.route)).copied();
        let mut prepared = LocatedRequest {
            reserves: reserves(located.limits(), request),
            located,
            route: route.unwrap_or(0),
            is_hidden,
            recorded: self.recorded.keys(request),
            keys: 0..0,
            now: Timestamp::from_nanos(request.time),
            hits: judged_hits(request),
        };
        if prepared.is_limited() {
            let (begin, limits) = (keys.len(), prepared.limits());
            keys.extend(limit_keys(limits, &prepared.facts(), &self.seed));
            let prefetched = limits.iter().zip(keys.get(begin..).unwrap_or_default());
            for (limit, key) in prefetched {
                if let Some(key) = key {
                    limit.limit.prefetch_insertion(*key);
                }
            }
            prepared.keys = begin..keys.len();
        }
        PreparedRequest::Located(prepared)
    }
}

impl LocatedRequest<'_> {
    /// Returns whether the limits decide: no list blocks the client, and it is not a preflight, which a gateway answers before any limit.
    pub(super) fn is_limited(&self) -> bool {
        !matches!(self.located.standing, ListMatch::Blocked(_)) && self.located.preflight.is_none()
    }

    /// Returns the keys of its limits out of those of its batch.
    pub(super) fn keys<'k>(&self, batch: &'k [Option<KeyHash>]) -> &'k [Option<KeyHash>] {
        batch.get(self.keys.clone()).unwrap_or_default()
    }

    /// Returns the limits that apply.
    pub(super) fn limits(&self) -> &RouteLimits {
        self.located.limits()
    }

    /// Returns the facts of which keys are made.
    pub(super) fn facts(&self) -> RequestFacts<'_> {
        RequestFacts {
            recorded: &self.recorded,
            hits: self.hits,
            reserves: &self.reserves,
            ..self.located.facts(KnownBody::Unread, self.now)
        }
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
