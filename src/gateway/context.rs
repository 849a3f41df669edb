//! Holds the facts that the stages have found about one request; each stage adds its part, and the record stage reads all.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use pingora::Result;
use pingora::http::ResponseHeader;
use sluicegate_base::clock;
use sluicegate_limiter::Timestamp;

use super::body::Prefix;
use super::cache::RequestCacheState;
use super::cause::{Cause, Stage};
use super::error::error_for;
use super::locate::Located;
use super::min_body_rate::Pace;
use crate::admission::{AdmissionReport, Admitted, FinalResponse, ResponseSource};
use crate::budgets::{RequestPermit, UnreadPermit};
use crate::client::{AddressSource, TlsFacts};
use crate::config::rules::{HeaderCase, Name};
use crate::origin::{AttemptWait, FailedServers, ServerPermit, TunnelSocket};
use crate::record::{InFlight, OriginUse, RequestDisposition, TraceContext};
use crate::rejection::{MissingKeys, Rejection};
use crate::request_id::RequestId;
use crate::response::GatewayProblem;
use crate::response::compressor::BodyCompressor;
use crate::snapshot::{ActiveAction, ActiveRoute, Snapshot};
use crate::url_scheme::UrlScheme;

/// The route of a request, and the facts that are read from its head under that route.
pub(super) struct RequestRoute {
    /// The route.
    pub(super) route: Arc<ActiveRoute>,
    /// The list that blocks the client or exempts it from the limits.
    pub(super) list: Option<Name>,
    /// The method of the request that a CORS preflight asks about.
    pub(super) preflight: Option<Method>,
    /// The target that the origin gets; `None` for the one that was sent.
    pub(super) target: Option<String>,
    /// The hash by which the pool balances; `None` where it balances otherwise.
    pub(super) spread: Option<u64>,
}

impl From<&Located<'_>> for RequestRoute {
    fn from(located: &Located<'_>) -> Self {
        Self {
            route: Arc::clone(located.route),
            list: located.standing.list().cloned(),
            preflight: located.preflight.clone(),
            target: None,
            spread: None,
        }
    }
}

/// The state of one request.
pub struct Context {
    /// The time at which its head was read.
    pub arrived: Timestamp,
    /// The configuration snapshot of the request, taken once.
    pub snapshot: Arc<Snapshot>,
    /// The request id.
    pub request_id: RequestId,
    /// The peer address of the connection.
    pub peer: Option<SocketAddr>,
    /// The facts of the TLS handshake; `None` in clear text.
    pub secured: Option<Arc<TlsFacts>>,
    /// The client's address, and where it was read from.
    pub client: Option<(IpAddr, AddressSource)>,
    /// The trace that the request belongs to; `None` without tracing.
    pub(super) trace: Option<TraceContext>,
    /// The compressor of the answer; `None` where the answer is not compressed.
    pub(super) compressor: Option<BodyCompressor>,
    /// Bytes of the origin's body that were dropped, because a page or a head alone replaces it; `None` where the body passes.
    pub(super) replaced: Option<usize>,
    /// The head of an answer without a body, written once the origin's answer is stored.
    pub(super) withheld: Option<Box<ResponseHeader>>,
    /// The route and its facts about the request; `None` where the request has no route, or its head was rejected before.
    pub(super) located: Option<RequestRoute>,
    /// The evidence of admission; dropped with the request, it settles the open charges.
    pub admitted: Option<Admitted>,
    /// The decisions of the limits.
    pub report: Option<Box<AdmissionReport>>,
    /// The reason of a rejection by admission.
    pub rejection: Option<Rejection>,
    /// The key parts that the request lacks.
    pub missing_keys: MissingKeys,
    /// The part of the body that was read before the decision; `None` where no key needs it.
    pub(super) body: Option<Prefix>,
    /// Body bytes that were read early and that Pingora does not send to the origin by itself.
    pub(super) held: Option<Bytes>,
    /// True if `100 Continue` was sent.
    pub invited: bool,
    /// The time at which the decision began: at once, or after the body was read.
    pub decided_at: Timestamp,
    /// Duration of the decision.
    pub decision: Duration,
    /// The delay that the limits impose.
    pub delay: Duration,
    /// The state of the cache; `None` where the route has none.
    pub(super) cache: Option<Box<RequestCacheState>>,
    /// The result of the request; `None` until it is known.
    pub disposition: Option<RequestDisposition>,
    /// The server of the last attempt.
    pub server: Option<SocketAddr>,
    /// The permit at that server, while the attempt holds one.
    pub(super) place: Option<ServerPermit>,
    /// The socket of the tunnel to the server, which Pingora does not know.
    pub(super) tunnel: Option<TunnelSocket>,
    /// The waits of the attempt for a permit or a connection, until it has both.
    pub(super) try_wait: Option<Box<AttemptWait>>,
    /// The permit for a request in flight to an origin, from the first attempt to the end.
    pub(super) on_its_way: Option<RequestPermit>,
    /// The permit for the unread bytes of the answer; small answers need none.
    pub(super) unread: Option<UnreadPermit>,
    /// Bytes of an answer of unknown length that were passed to the client's side.
    pub(super) passed: u64,
    /// Servers at which an attempt failed.
    pub(super) tried: FailedServers,
    /// Number of attempts.
    pub tries: u8,
    /// The start of the last attempt.
    pub tried_at: Timestamp,
    /// The time at which the request began to wait for a server permit, if it did.
    pub(super) queued_at: Timestamp,
    /// The origin's time to first byte.
    pub wait: Option<Duration>,
    /// The origin's final status.
    pub(super) origin_status: Option<StatusCode>,
    /// Body bytes that the server of the last attempt sent.
    pub(super) origin_bytes: u64,
    /// The length that its head announced.
    pub(super) origin_length: Option<u64>,
    /// The cause of a missing proper answer; `None` where there is a proper one.
    pub(super) cause: Option<Box<Cause>>,
    /// Body bytes received from the client.
    pub received: u64,
    /// The remaining time for the next body piece, and the time of the last one.
    pub(super) pace: Pace,
    _in_flight: InFlight,
}

impl Context {
    /// Returns the context of a request whose head was just read.
    #[must_use]
    pub fn new(snapshot: Arc<Snapshot>, in_flight: InFlight) -> Self {
        let arrived = clock::now();
        Self {
            arrived,
            snapshot,
            request_id: RequestId::next(),
            peer: None,
            secured: None,
            client: None,
            trace: None,
            compressor: None,
            replaced: None,
            withheld: None,
            located: None,
            admitted: None,
            report: None,
            rejection: None,
            missing_keys: MissingKeys::default(),
            body: None,
            held: None,
            invited: false,
            decided_at: arrived,
            decision: Duration::ZERO,
            delay: Duration::ZERO,
            cache: None,
            disposition: None,
            server: None,
            place: None,
            tunnel: None,
            try_wait: None,
            on_its_way: None,
            unread: None,
            passed: 0,
            tried: FailedServers::new(),
            tries: 0,
            tried_at: arrived,
            queued_at: arrived,
            wait: None,
            origin_status: None,
            origin_bytes: 0,
            origin_length: None,
            cause: None,
            received: 0,
            pace: Pace::default(),
            _in_flight: in_flight,
        }
    }

    /// Returns the peer's address; unspecified where the connection has none, which no rule trusts.
    pub(super) fn peer_address(&self) -> IpAddr {
        self.peer
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer: SocketAddr| {
                peer.ip().to_canonical()
            })
    }

    /// Returns the scheme by which the request came to the gateway.
    pub(super) fn scheme(&self) -> UrlScheme {
        match self.secured {
            Some(_) => UrlScheme::Https,
            None => UrlScheme::Http,
        }
    }

    pub(super) fn client_or_unspecified(&self) -> (IpAddr, crate::client::AddressSource) {
        self.client.unwrap_or((
            self.peer_address(),
            crate::client::AddressSource::Connection,
        ))
    }

    /// Returns the route of a request in a phase that only a located request reaches.
    ///
    /// # Errors
    /// The request has no route: the gateway failed.
    pub(super) fn located(&self) -> Result<&RequestRoute> {
        (self.located.as_ref()).ok_or_else(|| error_for(GatewayProblem::Internal))
    }

    pub(super) fn pool(&self) -> Option<&crate::origin::ServerPool> {
        match &self.located.as_ref()?.route.action {
            ActiveAction::Forward(pool) => Some(pool),
            ActiveAction::Respond(_) | ActiveAction::Redirect(_) => None,
        }
    }

    pub(super) fn header_case(&self) -> HeaderCase {
        self.pool()
            .map_or(HeaderCase::Lower, |pool| pool.rules.header_case)
    }

    /// Returns how far the last attempt got after it had a connection.
    pub(super) fn stage(&self) -> Stage {
        match self.origin_status {
            Some(_) => Stage::Reading {
                bytes: self.origin_bytes,
                of: self.origin_length,
            },
            None => Stage::Waiting,
        }
    }

    pub(super) fn origin_use(&self) -> Option<OriginUse<'_>> {
        Some(OriginUse {
            name: &self.pool()?.name,
            server: self.server?,
            tries: self.tries,
            began: self.tried_at,
            status: self.origin_status.map(|status| status.as_u16()),
            wait: self.wait,
        })
    }

    /// Returns whether the request holds concurrency permits, so that others may wait for its end.
    pub(super) fn holds_permits(&self) -> bool {
        self.admitted.as_ref().is_some_and(Admitted::holds_permits)
    }

    /// Releases the permits that end with the answer: only its last bytes are still to be written.
    pub(super) fn land(&mut self) {
        if let Some(admitted) = &mut self.admitted {
            admitted.finish_response();
        }
    }

    /// Settles the charges that depend on the origin's answer, by its status and fields.
    pub(super) fn settle(&mut self, status: StatusCode, fields: &HeaderMap) {
        self.settle_as(ResponseSource::Origin, status, fields);
    }

    /// Settles the charges by an answer of the given source.
    pub(super) fn settle_as(&mut self, by: ResponseSource, status: StatusCode, fields: &HeaderMap) {
        self.settle_by(Some(FinalResponse { by, status, fields }));
    }

    /// Settles the charges that still wait for an answer when there will be none.
    pub(super) fn settle_unanswered(&mut self) {
        self.settle_by(None);
    }

    fn settle_by(&mut self, answer: Option<FinalResponse<'_>>) {
        if let Some(admitted) = &mut self.admitted
            && admitted.is_pending()
        {
            let notes = admitted.settle(answer, clock::now());
            if let Some(report) = &mut self.report {
                report.note(notes);
            }
        }
    }
}
