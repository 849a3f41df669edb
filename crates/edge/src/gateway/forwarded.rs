//! Holds everything about a request on its way to the origin, which only an admitted request has.
//!
//! Each stage can only be made from the stage before: an [`OriginRoute`] has a pool for which the evidence of admission was shown, a
//! [`ForwardedRequest`] is made of that route, and the attempts belong to it. So a request that was rejected has no pool, no permit and no
//! attempt, and what follows admission takes the forwarded request beside the context.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, StatusCode};
use sluicegate_base::clock;
use sluicegate_base::reported_cost::CostReader;
use sluicegate_limiter::Timestamp;

use super::serve::CacheTransaction;
use sluicegate_budgets::{BytesPermit, ClientAccount};
use sluicegate_config::rules::OriginAddress;
use sluicegate_origin::request_failure::ResponseStage;
use sluicegate_origin::{
    AdmittedPool, AttemptFailure, AttemptWait, FailedServers, OriginServer, ServerPermit,
};
use sluicegate_process::snapshot::ActiveRoute;
use sluicegate_record::OriginUse;

/// The choices of a route for a request to its origin.
#[derive(Clone, Default)]
pub(super) struct OriginTarget {
    /// Path and query that the origin gets; `None` for those that were sent.
    pub(super) path: Option<String>,
    /// The hash by which the pool balances; `None` where it balances otherwise.
    pub(super) spread: Option<u64>,
}

/// The origin of an admitted request, and the route there. Only admission makes one.
pub(super) struct OriginRoute {
    /// The route.
    pub(super) route: Arc<ActiveRoute>,
    /// The servers of the origin.
    pub(super) pool: AdmittedPool,
    /// The choices of the route.
    pub(super) target: OriginTarget,
}

/// An admitted request whose answer comes from an origin, or from the cache in its place.
pub(super) struct ForwardedRequest {
    /// The route.
    pub(super) route: Arc<ActiveRoute>,
    /// The servers of the origin.
    pub(super) pool: AdmittedPool,
    /// The choices of the route.
    pub(super) target: OriginTarget,
    /// The account of the client.
    pub(super) account: ClientAccount,
    /// The course through the cache; `None` where the route has none.
    pub(super) cached: Option<Box<CacheTransaction>>,
    /// Servers at which an attempt failed.
    pub(super) failed_servers: FailedServers,
    /// Number of attempts.
    pub(super) attempt_count: u8,
    /// The connection that its server had closed while it was idle, if an attempt met one. Boxed, since few do.
    pub(super) stale: Option<Box<StaleConnection>>,
    /// True once an attempt had a connection, over which a part of the request may have reached an origin.
    pub(super) is_sent: bool,
    /// The server of the last attempt that had one.
    pub(super) server: Option<OriginAddress>,
    /// The origin's time to first byte.
    pub(super) wait: Option<Duration>,
    /// The last attempt; before the first, one that has nothing.
    pub(super) attempt: OriginAttempt,
    /// The permit for the unread bytes of the answer; small answers need none.
    pub(super) unread: Option<BytesPermit>,
    /// The readers of the costs in the body of the response, once no more of it passes.
    pub(super) reported: Vec<CostReader>,
    /// True if that body has passed to its end.
    pub(super) is_whole: bool,
    /// The request id of the origin's response, which the client got in place of the gateway's.
    pub(super) origin_id: Option<HeaderValue>,
    /// True if the trailer of the response exceeds the bounds, and was dropped.
    pub(super) has_large_trailer: bool,
}

impl ForwardedRequest {
    /// Returns the request of the client with this account before its first attempt; `now` is the time of its decision.
    pub(super) fn new(origin: OriginRoute, account: ClientAccount, now: Timestamp) -> Self {
        Self {
            route: origin.route,
            pool: origin.pool,
            target: origin.target,
            account,
            cached: None,
            failed_servers: FailedServers::new(),
            attempt_count: 0,
            stale: None,
            is_sent: false,
            server: None,
            wait: None,
            attempt: OriginAttempt::new(now),
            unread: None,
            reported: Vec::new(),
            is_whole: false,
            origin_id: None,
            has_large_trailer: false,
        }
    }

    /// Begins an attempt at `now`, which ends the one before.
    pub(super) fn begin_attempt(&mut self, now: Timestamp) {
        self.attempt_count = self.attempt_count.saturating_add(1);
        self.attempt = OriginAttempt::new(now);
    }

    /// Excludes the server from the next attempt.
    pub(super) fn exclude_server(&mut self) {
        if let Some(server) = &self.server
            && !self.failed_servers.contains(server)
        {
            // At most one for each attempt.
            self.failed_servers.push(server.clone());
        }
    }

    /// Repeats the request once at the server whose connection was stale. Returns whether it was not repeated so before.
    pub(super) fn repeat_stale(&mut self) -> bool {
        if self.stale.is_some() {
            return false;
        }
        let server = self.attempt.permit.as_ref().map(|permit| &permit.server);
        self.stale = Some(Box::new(StaleConnection {
            noticed: clock::now(),
            again: server.map(Arc::clone),
        }));
        true
    }

    /// Records a failure of the attempt's server. Returns whether there was one.
    pub(super) fn fail(&mut self, failure: AttemptFailure) -> bool {
        self.exclude_server();
        let Some(permit) = &mut self.attempt.permit else {
            return false;
        };
        self.pool.failed(permit, failure, clock::now());
        true
    }

    /// Returns whether a request that was decided at `decided` gets another attempt, which the retry budget then pays for.
    pub(super) fn grants_retry(&self, failure: AttemptFailure, decided: Timestamp) -> bool {
        // The repetition after a stale connection is none of the retries.
        let attempts = (self.attempt_count).saturating_sub(u8::from(self.stale.is_some()));
        self.pool
            .grants_retry(failure, attempts, || clock::since(decided))
    }

    /// Releases the permit at the server of the last attempt, if it holds one.
    pub(super) fn release_server(&mut self) {
        self.attempt.permit = None;
    }

    /// Returns the use of the origin for the record; `None` where no attempt had a server.
    pub(super) fn origin_use(&self) -> Option<OriginUse<'_>> {
        Some(OriginUse {
            name: &self.pool.name,
            server: self.server.as_ref()?,
            attempts: self.attempt_count,
            began: self.attempt.started,
            status: (self.attempt.answer).map(|answer| answer.status.as_u16()),
            wait: self.wait,
            request_id: self.origin_id.as_ref(),
            has_large_trailer: self.has_large_trailer,
        })
    }
}

/// A connection that its server had closed while it was idle.
pub(super) struct StaleConnection {
    /// The time at which an attempt met it. Other idle connections may be closed too, so later attempts use those that were opened since.
    pub(super) noticed: Timestamp,
    /// Its server, until that gets the request again.
    pub(super) again: Option<Arc<OriginServer>>,
}

/// One attempt at a server of the origin.
pub(super) struct OriginAttempt {
    /// The start of the attempt: the choice of its server.
    pub(super) started: Timestamp,
    /// The time at which the request began to wait for a server permit, if it did.
    pub(super) queued_at: Timestamp,
    /// The permit at the server, while the attempt holds one.
    pub(super) permit: Option<ServerPermit>,
    /// The waits for a permit or a connection, until the attempt has both.
    pub(super) wait: Option<Box<AttemptWait>>,
    /// The head of the origin's final answer, once it has come.
    pub(super) answer: Option<OriginHead>,
    /// Body bytes that the server sent.
    pub(super) received: u64,
}

/// The facts in the head of an origin's final answer.
#[derive(Clone, Copy)]
pub(super) struct OriginHead {
    /// The status.
    pub(super) status: StatusCode,
    /// The length that it announces.
    pub(super) length: Option<u64>,
    /// Bytes of memory that the body may take of which the client has taken nothing.
    pub(super) ahead: u32,
}

impl OriginAttempt {
    fn new(now: Timestamp) -> Self {
        Self {
            started: now,
            queued_at: now,
            permit: None,
            wait: None,
            answer: None,
            received: 0,
        }
    }

    /// Counts bytes of the body that the server sent.
    pub(super) fn count_received(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes as u64);
    }

    /// Returns the length that the origin's answer announced.
    pub(super) fn announced_length(&self) -> Option<u64> {
        self.answer?.length
    }

    /// Returns how many bytes of the origin's answer may come before they are read.
    pub(super) fn ahead(&self) -> u64 {
        self.answer.map_or(0, |answer| answer.ahead.into())
    }

    /// Returns how far the attempt got after it had a connection.
    pub(super) fn stage(&self) -> ResponseStage {
        match self.answer {
            Some(answer) => ResponseStage::Reading {
                bytes: self.received,
                of: answer.length,
            },
            None => ResponseStage::Awaited,
        }
    }
}
