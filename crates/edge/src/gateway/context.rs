//! Holds the facts that the stages have found about one request; each stage adds its part, and the record stage reads all.
//!
//! A request may end at any stage, so what a stage finds is optional here. What only forwarded requests have is in a
//! [`ForwardedRequest`], which the stages from the forwarding on take beside the context.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use sluicegate_base::clock;
use sluicegate_decide::outcome::RequestDisposition;
use sluicegate_limiter::Timestamp;

use super::body::BodyPrefix;
use super::cause::Cause;
use super::decision::{DecisionResult, RequestDecision};
use super::forward_auth::ForwardAuthAnswer;
use super::forwarded::ForwardedRequest;
use super::min_body_rate::UploadPace;
use sluicegate_budgets::BytesPermit;
use sluicegate_decide::admission::{
    AdmissionReport, Admitted, ChargeTiming, FinalResponse, LimitNote, OriginContact, RequestEnd,
    ResponseSource,
};
use sluicegate_decide::client::{AddressSource, ConnectionPeer, PeerAddress, TlsFacts};
use sluicegate_decide::locate::{KnownClient, RequestRoute};
use sluicegate_decide::rejection::{MissingKeys, Rejection};
use sluicegate_decide::request_id::RequestId;
use sluicegate_decide::url_scheme::UrlScheme;
use sluicegate_process::snapshot::{ActiveRoute, Snapshot};
use sluicegate_record::{InFlight, TraceContext};

/// The state of one request.
pub struct Context {
    /// The time at which its head was read.
    pub arrived: Timestamp,
    /// The configuration snapshot of the request, taken once.
    pub snapshot: Arc<Snapshot>,
    /// The request id.
    pub request_id: RequestId,
    /// The peer address of the connection.
    pub peer: Option<PeerAddress>,
    /// The address of the listener that it came by; `None` before it is decided.
    pub(super) listener: Option<SocketAddr>,
    /// The facts of the TLS handshake; `None` in clear text.
    pub secured: Option<Arc<TlsFacts>>,
    /// The rules of an answer to a proxy that asks about this request; `None` for a request that is to be served.
    pub(super) forward_auth: Option<ForwardAuthAnswer>,
    /// The number of requests that it counts as; 0 only asks whether there is room for one.
    pub(super) hits: u32,
    /// The time from which its charges stand.
    pub(super) charging: ChargeTiming,
    /// The client's address, and where it was read from.
    pub client: Option<(IpAddr, AddressSource)>,
    /// The facts of the client that were looked up, as far as something has read them.
    pub(super) known: KnownClient,
    /// The trace that the request belongs to; `None` without tracing.
    pub(super) trace: Option<TraceContext>,
    /// The client and the route; `None` where the request has no route, or its head was rejected before.
    pub(super) located: Option<RequestRoute>,
    /// The decision; `None` where the request was rejected before admission.
    pub(super) decision: Option<Box<RequestDecision>>,
    /// The key parts that the request lacks.
    pub missing_keys: MissingKeys,
    /// The part of the body that was read before the decision; `None` where no key needs it.
    pub(super) body: Option<BodyPrefix>,
    /// The permit for its bytes; `None` where nothing is read for keys.
    pub(super) key_body: Option<BytesPermit>,
    /// The time at which the decision began: at once, or after the body was read.
    pub decided_at: Timestamp,
    /// The result of the request; `None` until it is known.
    pub disposition: Option<RequestDisposition>,
    /// The cause of a missing proper answer; `None` where there is a proper one.
    pub(super) cause: Option<Box<Cause>>,
    /// Body bytes received from the client.
    pub received: u64,
    /// The remaining time for the next body piece, and the time of the last one.
    pub(super) pace: UploadPace,
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
            listener: None,
            secured: None,
            forward_auth: None,
            hits: 1,
            charging: ChargeTiming::AtOnce,
            client: None,
            known: KnownClient::default(),
            trace: None,
            located: None,
            decision: None,
            missing_keys: MissingKeys::default(),
            body: None,
            key_body: None,
            decided_at: arrived,
            disposition: None,
            cause: None,
            received: 0,
            pace: UploadPace::default(),
            _in_flight: in_flight,
        }
    }

    /// Returns the number of requests that its limits judge.
    pub(super) fn judged_hits(&self) -> NonZeroU32 {
        NonZeroU32::new(self.hits).unwrap_or(NonZeroU32::MIN)
    }

    /// Returns the peer's address; unspecified where the connection has none, which no rule trusts.
    pub(super) fn peer_address(&self) -> IpAddr {
        (self.peer.as_ref()).map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PeerAddress::ip)
    }

    /// Returns the other end of the connection, with the facts of its handshake.
    pub(super) fn connection_peer<'s>(&self, secured: Option<&'s TlsFacts>) -> ConnectionPeer<'s> {
        ConnectionPeer {
            address: self.peer_address(),
            listener: self.listener,
            secured,
        }
    }

    /// Returns the peer's address with its text, [unspecified](Self::peer_address) where the connection has none.
    pub(super) fn peer_or_unspecified(&self) -> Cow<'_, PeerAddress> {
        let unspecified = || PeerAddress::new((Ipv4Addr::UNSPECIFIED, 0).into());
        (self.peer.as_ref()).map_or_else(|| Cow::Owned(unspecified()), Cow::Borrowed)
    }

    /// Returns the text of the client's address, where the client is the connection's other end.
    pub(super) fn client_text(&self) -> Option<&HeaderValue> {
        let peer = self.peer.as_ref()?;
        let (client, _) = self.client?;
        (client == peer.ip()).then(|| peer.text())
    }

    /// Returns the scheme by which the request came to the gateway.
    pub(super) fn scheme(&self) -> UrlScheme {
        match self.secured {
            Some(_) => UrlScheme::Https,
            None => UrlScheme::Http,
        }
    }

    pub(super) fn client_or_unspecified(
        &self,
    ) -> (IpAddr, sluicegate_decide::client::AddressSource) {
        self.client.unwrap_or((
            self.peer_address(),
            sluicegate_decide::client::AddressSource::Connection,
        ))
    }

    /// Returns what serves its route; `None` where the request has none.
    pub(super) fn route(&self) -> Option<&ActiveRoute> {
        let located = self.located.as_ref()?;
        self.snapshot
            .routes
            .get(located.index)
            .map(|route| &**route)
    }

    /// Returns the decisions of the limits; `None` where no limit decided.
    pub(super) fn report(&self) -> Option<&AdmissionReport> {
        self.decision.as_ref()?.report.as_ref()
    }

    /// Returns the reason of a rejection by admission.
    pub(super) fn rejection(&self) -> Option<&Rejection> {
        match &self.decision.as_ref()?.result {
            DecisionResult::Rejected(rejection) => Some(rejection),
            _ => None,
        }
    }

    /// Returns the delay that the limits impose.
    pub(super) fn delay(&self) -> Duration {
        (self.decision.as_ref()).map_or(Duration::ZERO, |decision| decision.delay)
    }

    /// Returns the end of the decision and of its delay.
    pub(super) fn decision_end(&self) -> Timestamp {
        let spent = |decision: &RequestDecision| decision.duration.saturating_add(decision.delay);
        self.decided_at
            .saturating_add(self.decision.as_deref().map_or(Duration::ZERO, spent))
    }

    /// Returns whether the request holds permits, which others may wait for.
    pub(super) fn holds_permits(&self) -> bool {
        let admitted = self.decision.as_deref().and_then(RequestDecision::admitted);
        admitted.is_some_and(Admitted::holds_permits)
    }

    /// Releases the permits that end with the answer: only its end is still to be sent.
    pub(super) fn finish_response(&mut self) {
        if let Some(decision) = &mut self.decision
            && let Some((admitted, _)) = decision.admitted_mut()
        {
            admitted.finish_response();
        }
    }

    /// Settles the charges of an admitted request by the gateway's own answer, with which it ends.
    pub(super) fn end_admitted(&mut self, status: StatusCode) {
        let is_allowed = self.forward_auth.is_some() && status.is_success();
        let (disposition, by) = if is_allowed {
            (RequestDisposition::Allowed, ResponseSource::Unseen)
        } else {
            (RequestDisposition::Responded, ResponseSource::Origin)
        };
        self.disposition = Some(disposition);
        self.settle_as(by, status, &HeaderMap::new());
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
        self.settle_pending(|admitted, now| admitted.settle(answer, now));
    }

    /// Settles the charges that wait for the end of the request, of whose response so many bytes were sent.
    pub(super) fn settle_at_end(&mut self, sent: u64, forwarded: Option<&ForwardedRequest>) {
        if !self.is_pending() {
            return;
        }
        let received = self.received;
        let decided = self.decision_end();
        let origin = match forwarded {
            Some(request) if request.is_sent => OriginContact::Made,
            _ => OriginContact::Never,
        };
        self.settle_pending(|admitted, now| {
            let duration = now.saturating_since(decided);
            let end = RequestEnd {
                origin,
                reported: forwarded.map_or(&[], |request| &request.reported),
                is_whole: forwarded.is_some_and(|request| request.is_whole),
                sent: Some(sent),
                received: Some(received),
                duration: Some(duration),
                logged: &[],
            };
            admitted.end(&end, now)
        });
    }

    /// Returns whether a charge of the request is not settled.
    pub(super) fn is_pending(&self) -> bool {
        let admitted = self.decision.as_deref().and_then(RequestDecision::admitted);
        admitted.is_some_and(Admitted::is_pending)
    }

    fn settle_pending(&mut self, settle: impl FnOnce(&mut Admitted, Timestamp) -> Vec<LimitNote>) {
        if let Some(decision) = &mut self.decision
            && let Some((admitted, report)) = decision.admitted_mut()
            && admitted.is_pending()
        {
            let notes = settle(admitted, clock::now());
            if let Some(report) = report {
                report.note(notes);
            }
        }
    }
}
