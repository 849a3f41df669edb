//! Prepares requests for their decision: makes heads of them, and finds client, route and keys.
//!
//! Nothing here depends on what was decided before. So the requests of one second are prepared together, and their counters are on the way
//! to the processor before the first of them is decided: with many keys each is a cache miss, and misses overlap.

use std::num::NonZeroU32;
use std::ops::Range;

use sluicegate_access_log::{LogFacts, LoggedRequest, LoggedTreatment};
use sluicegate_decide::outcome::RequestDisposition;
use sluicegate_decide::response::GatewayProblem;
use sluicegate_limiter::{KeyHash, Timestamp};

use super::logged_client::{early_end, locate_logged};
use super::logged_costs::reserves;
use super::logged_head::{LoggedHead, LoggedHeads};
use super::recorded_templates::RecordedTemplates;
use sluicegate_decide::admission::{
    KeySeed, KnownBody, RecordedKey, RecordedReserve, RequestFacts, RouteLimits, limit_keys,
    own_key,
};
use sluicegate_decide::client::{AddressSource, PeerTrust, hop};
use sluicegate_decide::compiled_rules::CompiledRules;
use sluicegate_decide::locate::LocatedRequest;

/// Requests that are prepared together: enough that their misses overlap, and few enough that they stay in the nearest cache.
pub(super) const MAX_BATCH: usize = 16;

/// The stages of one configuration before the limits.
pub(super) struct RequestStages {
    pub(super) compiled: CompiledRules,
    pub(super) seed: KeySeed,
    heads: LoggedHeads,
    recorded: RecordedTemplates,
}

/// A request before its limits, with its route or without.
pub(super) type PreparedRequest<'a> = Result<KeyedRequest<'a>, UnroutedRequest>;

/// A request for which no route was looked for, or none found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnroutedRequest {
    /// It was rejected before its limits when it was logged, since it broke a rule.
    NotReplayed,
    /// It is rejected so.
    Rejected(RequestDisposition),
}

/// A request with its route and its keys.
pub(super) struct KeyedRequest<'a> {
    pub(super) located: LocatedRequest<'a>,
    /// The index of its route.
    pub(super) route: usize,
    /// Set for a request of a trusted proxy without the address of a client.
    pub(super) is_hidden: bool,
    /// Its keys by template among those of its batch.
    recorded: Range<usize>,
    /// The reserves that it announced, as far as the log has them.
    reserves: Vec<RecordedReserve>,
    /// The keys of the limits of its route among those of its batch.
    keys: Range<usize>,
    now: Timestamp,
    /// The number of requests that the limits judge.
    hits: NonZeroU32,
}

/// The requests of a batch.
pub(super) struct PreparedBatch<'a> {
    pub(super) requests: Vec<PreparedRequest<'a>>,
    pub(super) keys: BatchKeys<'a>,
}

/// The keys of the requests of a batch. Each is hashed once: admission reads those that no log has like recorded ones.
pub(super) struct BatchKeys<'a> {
    /// By template.
    recorded: Vec<RecordedKey<'a>>,
    /// By limit, in the order of the route; `None` where a limit does not count a request.
    of_limits: Vec<Option<KeyHash>>,
}

impl RequestStages {
    /// Returns the stages of `compiled` for a log; `host` is the host of requests whose line has none.
    pub(super) fn new(
        compiled: CompiledRules,
        seed: &KeySeed,
        facts: &LogFacts,
        host: Option<&str>,
    ) -> Self {
        Self {
            heads: LoggedHeads::new(&compiled, facts, host),
            recorded: RecordedTemplates::new(&compiled.rules, facts),
            seed: seed.clone(),
            compiled,
        }
    }

    /// Returns the heads of the requests; `None` where method or target cannot be those of one.
    pub(super) fn heads<'a>(
        &'a self,
        requests: &[LoggedRequest<'a>],
    ) -> Vec<Option<LoggedHead<'a>>> {
        let heads = requests.iter();
        heads
            .map(|request| self.heads.head(&self.compiled, request))
            .collect()
    }

    /// Prepares a request with this head, adds it to `batch`, and prefetches its counters.
    pub(super) fn prepare<'a>(
        &'a self,
        request: &LoggedRequest<'_>,
        head: Option<&'a LoggedHead<'a>>,
        batch: &mut PreparedBatch<'a>,
    ) {
        let PreparedBatch { requests, keys } = batch;
        requests.push(self.locate(request, head));
        // In its place, since it is large.
        if let Some(Ok(located)) = requests.last_mut()
            && early_end(&located.located, request).is_none()
        {
            keys.add(located, self.recorded.keys(request), &self.seed);
            let each = located.limits().iter().zip(keys.of_limits(located));
            for (limit, key) in each {
                if let Some(key) = key {
                    limit.limit.prefetch_insertion(*key);
                }
            }
        }
    }

    /// Finds client and route of a request, without its keys.
    #[inline(always)]
    fn locate<'a>(
        &'a self,
        request: &LoggedRequest<'_>,
        head: Option<&'a LoggedHead<'a>>,
    ) -> PreparedRequest<'a> {
        if request.treatment == LoggedTreatment::Malformed {
            return Err(UnroutedRequest::NotReplayed);
        }
        let logged = head.ok_or(UnroutedRequest::Rejected(RequestDisposition::Rejected))?;
        let located = locate_logged(&self.compiled, request, logged, &logged.as_request());
        let located = located.map_err(|problem| {
            UnroutedRequest::Rejected(match problem {
                GatewayProblem::NoRoute => RequestDisposition::NoRoute,
                _ => RequestDisposition::Rejected,
            })
        })?;
        let is_hidden = located.client().source == AddressSource::Connection
            && hop(logged.peer, &self.compiled.rules.client) == PeerTrust::Trusted;
        Ok(KeyedRequest {
            reserves: reserves(located.limits(), request),
            route: located.index,
            located,
            is_hidden,
            recorded: 0..0,
            keys: 0..0,
            now: Timestamp::from_nanos(request.time),
            hits: judged_hits(request),
        })
    }
}

impl PreparedBatch<'_> {
    /// Returns an empty batch with room for so many requests, with a limit each.
    pub(super) fn with_capacity(requests: usize) -> Self {
        Self {
            requests: Vec::with_capacity(requests),
            keys: BatchKeys {
                recorded: Vec::with_capacity(requests),
                of_limits: Vec::with_capacity(requests),
            },
        }
    }
}

impl<'a> BatchKeys<'a> {
    /// Adds the keys of a request: those that its line has, and those of its own values.
    fn add(
        &mut self,
        request: &mut KeyedRequest<'a>,
        of_line: Vec<RecordedKey<'a>>,
        seed: &KeySeed,
    ) {
        let Self {
            recorded,
            of_limits,
        } = self;
        let first = recorded.len();
        let begin = of_limits.len();
        recorded.extend(of_line);
        let limits = request.limits();
        let values = request.located.facts(KnownBody::Unread, request.now);
        for limit in limits.iter() {
            let mut known = recorded.iter().skip(first);
            if known.all(|key| *key.template != limit.key) {
                recorded.extend(own_key(limit, &values, seed));
            }
        }
        request.recorded = first..recorded.len();
        of_limits.extend(limit_keys(limits, &request.facts(recorded), seed));
        request.keys = begin..of_limits.len();
    }

    /// Returns the facts of which the keys of a request are made.
    pub(super) fn facts<'s>(&'s self, request: &'s KeyedRequest<'_>) -> RequestFacts<'s> {
        request.facts(&self.recorded)
    }

    /// Returns the keys of the limits of a request.
    pub(super) fn of_limits(&self, request: &KeyedRequest<'_>) -> &[Option<KeyHash>] {
        self.of_limits.get(request.keys.clone()).unwrap_or_default()
    }
}

impl<'a> KeyedRequest<'a> {
    /// Returns the limits that apply.
    pub(super) fn limits(&self) -> &'a RouteLimits {
        self.located.limits()
    }

    fn facts<'s>(&'s self, batch: &'s [RecordedKey<'_>]) -> RequestFacts<'s> {
        RequestFacts {
            recorded: batch.get(self.recorded.clone()).unwrap_or_default(),
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
