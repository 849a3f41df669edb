//! Owns what the stages have learned of one request so far; each stage adds its part, the record stage reads it all.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use pingora::http::ResponseHeader;
use sluicegate_limiter::Timestamp;

use super::body::Prefix;
use super::cache::Dealings;
use super::cause::{Cause, Stage};
use super::pace::Pace;
use crate::admission::{AdmissionReport, Admitted, FinalResponse, ResponseSource};
use crate::budgets::{RequestPermit, UnreadPermit};
use crate::client::{AddressSource, TlsFacts};
use crate::clock;
use crate::config::rules::{HeaderCase, Name};
use crate::origin::{AttemptWait, FailedServers, ServerPermit, TunnelSocket};
use crate::record::{Disposition, InFlight, OriginUse, TraceContext};
use crate::rejection::{MissingKeys, Rejection};
use crate::request_id::RequestId;
use crate::response::compressor::BodyCompressor;
use crate::snapshot::{ActiveAction, ActiveRoute, Snapshot};
use crate::url_scheme::UrlScheme;

/// One request on its way.
pub struct Context {
    /// When its head was read.
    pub arrived: Timestamp,
    /// The configuration that it sees, taken once.
    pub snapshot: Arc<Snapshot>,
    /// Its identity.
    pub request_id: RequestId,
    /// The other end of the connection.
    pub peer: Option<SocketAddr>,
    /// What the handshake of the connection said; `None` in clear text.
    pub secured: Option<Arc<TlsFacts>>,
    /// Who asks, and on whose word.
    pub client: Option<(IpAddr, AddressSource)>,
    /// The target that the origin gets; `None`: the one that was sent.
    pub(super) target: Option<String>,
    /// The trace that it belongs to; `None` where none is kept.
    pub(super) trace: Option<TraceContext>,
    /// The method that it asks about, where it is the preflight of a page.
    pub(super) preflight: Option<Method>,
    /// What compresses its answer; `None` where the answer goes as it is.
    pub(super) compressor: Option<BodyCompressor>,
    /// Bytes of the origin's body that were dropped, for a page or for nothing; `None` where the body passes.
    pub(super) replaced: Option<usize>,
    /// The head of an answer without a body, which is written when the origin's answer is stored.
    pub(super) withheld: Option<Box<ResponseHeader>>,
    /// Its route.
    pub route: Option<Arc<ActiveRoute>>,
    /// The list that blocks its client or lets it past the limits.
    pub list: Option<Name>,
    /// The evidence that it passed admission; dropped with the request, it settles what is still owed.
    pub admitted: Option<Admitted>,
    /// The decisions of its limits.
    pub report: Option<Box<AdmissionReport>>,
    /// The reason for which admission rejected it.
    pub rejection: Option<Rejection>,
    /// The parts of keys that it lacks.
    pub missing_keys: MissingKeys,
    /// What was read of its body before the decision; `None` where no key asks for it.
    pub(super) body: Option<Prefix>,
    /// What was read of it and does not go to the origin by itself.
    pub(super) held: Option<Bytes>,
    /// Whether the client was told to send its body.
    pub invited: bool,
    /// When the decision began: at once, or when the body was read.
    pub decided_at: Timestamp,
    /// What admission took.
    pub decision: Duration,
    /// How long admission holds it back.
    pub delay: Duration,
    /// What it has to do with the cache; `None` where its route has none.
    pub(super) cache: Option<Box<Dealings>>,
    /// What became of it; `None` while it is on its way.
    pub disposition: Option<Disposition>,
    /// What the balance of its origin spreads it by.
    pub(super) spread: Option<u64>,
    /// The server of the last try.
    pub server: Option<SocketAddr>,
    /// Its place there, as long as it has one.
    pub(super) place: Option<ServerPermit>,
    /// The socket of its connection there, where Pingora does not know it.
    pub(super) tunnel: Option<TunnelSocket>,
    /// Its waits for that place or for a connection, until it has both.
    pub(super) try_wait: Option<Box<AttemptWait>>,
    /// Its right to be on its way to an origin, from its first try to its end.
    pub(super) on_its_way: Option<RequestPermit>,
    /// Its answer's room among those that wait for clients; small ones need none.
    pub(super) unread: Option<UnreadPermit>,
    /// Bytes of its answer that went to the client's side, of one whose length nobody announced.
    pub(super) passed: u64,
    /// Servers that failed it.
    pub(super) tried: FailedServers,
    /// Tries made.
    pub tries: u8,
    /// When the last try began.
    pub tried_at: Timestamp,
    /// When it began to wait for a place at a server, where it did.
    pub(super) queued_at: Timestamp,
    /// How long the origin took to its first byte.
    pub wait: Option<Duration>,
    /// The final status that it answered.
    pub(super) origin_status: Option<StatusCode>,
    /// Body bytes that the last try's server sent.
    pub(super) origin_bytes: u64,
    /// How many its head announced.
    pub(super) origin_length: Option<u64>,
    /// Why it got no proper answer; `None` where it got one.
    pub(super) cause: Option<Box<Cause>>,
    /// Body bytes received from the client.
    pub received: u64,
    /// How long it is still waited for while it sends them, and when the last of them came.
    pub(super) pace: Pace,
    _in_flight: InFlight,
}

impl Context {
    /// A request whose head was just read.
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
            target: None,
            trace: None,
            preflight: None,
            compressor: None,
            replaced: None,
            withheld: None,
            route: None,
            list: None,
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
            spread: None,
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

    /// The peer's address; unspecified where the connection has none, which no rule trusts.
    pub(super) fn peer_address(&self) -> IpAddr {
        self.peer
            .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer: SocketAddr| {
                peer.ip().to_canonical()
            })
    }

    /// How its request came to the gateway.
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

    pub(super) fn pool(&self) -> Option<&crate::origin::ServerPool> {
        match &self.route.as_ref()?.action {
            ActiveAction::Forward(pool) => Some(pool),
            ActiveAction::Respond(_) | ActiveAction::Redirect(_) => None,
        }
    }

    pub(super) fn header_case(&self) -> HeaderCase {
        self.pool()
            .map_or(HeaderCase::Lower, |pool| pool.rules.header_case)
    }

    /// How far its last try came, once that had a connection.
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

    /// Whether others may wait for the end of this request.
    pub(super) fn holds_permits(&self) -> bool {
        self.admitted.as_ref().is_some_and(Admitted::holds_permits)
    }

    /// The answer is about to end: what follows are its last bytes.
    pub(super) fn land(&mut self) {
        if let Some(admitted) = &mut self.admitted {
            admitted.finish_response();
        }
    }

    /// Settles the charges that wait for the answer: it has this status and, where it is the origin's, these fields.
    pub(super) fn settle(&mut self, status: StatusCode, fields: &HeaderMap) {
        self.settle_as(ResponseSource::Origin, status, fields);
    }

    /// The same of an answer that comes from elsewhere.
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
