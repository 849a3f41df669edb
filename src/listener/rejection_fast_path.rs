//! Answers repeated requests of a client on the same connection after a rejection, by a limit or a list (contract C7: rejections
//! cost little).
//!
//! It answers only plain requests that would be rejected: HTTP/1.1 with a path as target, its body already read, no
//! `Transfer-Encoding`, `Upgrade` or `Expect`. The proxy gets everything else, and judges it as if this file did not exist. Nothing is
//! charged here: rejections charge nothing, and the proxy charges a request that may pass. An active ban is answered here, and begun by
//! the proxy.
//!
//! # Limits
//! One buffer of answers a connection, of [`REPEAT_ANSWERS`](bounds::REPEAT_ANSWERS) bytes and one answer more.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use pingora::protocols::IO;
use sluicegate_base::bounds;
use sluicegate_base::clock;
use sluicegate_http1::{HeadProgress, HeaderField, HttpVersion};
use sluicegate_limiter::Timestamp;

use super::connection::{Http1Connection, head_limits};
use crate::admission::{AdmissionReport, KnownBody, key_values, peek_rejection, record_keys};
use crate::client::{ConnectionPeer, ListMatch, TlsFacts, given_request_id};
use crate::gateway::{Located, RequestHead, locate};
use crate::process::{SharedState, warn_of_overflow};
use crate::record::{Outcome, ReplayFacts, RequestDisposition, TraceContext};
use crate::rejection::LimitRejection;
use crate::request_id::RequestId;
use crate::response::{FieldText, GatewayProblem, GrpcDialect, RefusalResponse};
use crate::snapshot::Snapshot;

/// A connection whose last request was rejected.
pub(super) struct RejectionRepeater {
    peer: IpAddr,
    secured: Option<Arc<TlsFacts>>,
    answers: BytesMut,
}

impl RejectionRepeater {
    /// Returns `None` where the connection has no address, from which no key can be made.
    pub(super) fn of(stream: &dyn IO) -> Option<Self> {
        Some(Self {
            peer: super::peer_address(stream)?,
            secured: super::secured_of(stream),
            answers: BytesMut::new(),
        })
    }

    /// Answers as many plain repeats as are already read, with one write. Returns their number; `None` when the connection
    /// broke.
    pub(super) async fn answer(
        &mut self,
        connection: &mut Http1Connection,
        shared: &SharedState,
    ) -> Option<usize> {
        let snapshot = shared.snapshot();
        let arrived = clock::now();
        let limits = head_limits(&snapshot.rules.server);
        let mut answered = 0;
        while self.answers.len() < bounds::REPEAT_ANSWERS
            && let Ok(HeadProgress::Whole(head_bytes)) =
                connection.head.parse(&connection.read, &limits)
            && let (head, behind) = connection.read.split_at(head_bytes)
            && let Some(plain) = PlainRequest::of(&connection.head, head, behind.len(), &snapshot)
            && let Some(body_bytes) = self.answer_one(plain, arrived, &snapshot, shared)
        {
            connection.read.advance(head_bytes + body_bytes);
            connection.head.clear();
            answered += 1;
        }
        if answered > 0 {
            let patience = snapshot.rules.server.client_write_timeout;
            let stream = &mut connection.stream;
            stream.write_within(&self.answers, patience).await.ok()?;
            self.answers.clear();
        }
        Some(answered)
    }

    /// Appends the answer to a plain request if it is a repeat, and returns how many bytes its body has.
    fn answer_one(
        &mut self,
        mut plain: PlainRequest<'_>,
        arrived: Timestamp,
        snapshot: &Snapshot,
        shared: &SharedState,
    ) -> Option<usize> {
        let review =
            (snapshot.field_policy).review(&plain.fields, self.peer, &snapshot.rules.client);
        for name in &review.remove {
            plain.fields.remove(name);
        }
        if shared.acme.answers.are_below(plain.target) {
            // A challenge of an ACME server is never rejected, whatever other requests came on its connection.
            return None;
        }
        let _in_flight = shared.recorder.metrics.in_flight();
        let peer = ConnectionPeer {
            address: self.peer,
            secured: self.secured.as_deref(),
        };
        let located = locate(snapshot, peer, &plain.head()).ok()?;
        if needs_proxy(&located, &plain) {
            return None;
        }
        let rejected = expected_rejection(&located, shared, arrived)?;
        let decision = clock::since(arrived);
        let given = given_request_id(self.peer, &plain.fields, &snapshot.rules.client);
        let request_id = given.unwrap_or_else(RequestId::next);
        let (status, bytes) = write_answer(
            &mut self.answers,
            (&plain, &located),
            rejected.as_ref(),
            peer.secured,
            request_id,
        );
        if let Some((_, Some(report))) = &rejected {
            warn_of_overflow(located.limits(), report, located.client.address);
        }
        if review.is_untrusted_forwarding {
            shared
                .recorder
                .metrics
                .untrusted_forwarding
                .count(self.peer);
        }
        let answer = RepeatedAnswer {
            arrived,
            decision,
            request_id,
            status,
            bytes,
        };
        self.record(
            &plain,
            &located,
            rejected.as_ref(),
            &answer,
            (snapshot, shared),
        );
        Some(plain.body_bytes)
    }

    /// Records the request, as the proxy does.
    fn record(
        &self,
        plain: &PlainRequest<'_>,
        located: &Located<'_>,
        rejected: Option<&RejectionByLimit>,
        answer: &RepeatedAnswer,
        (snapshot, shared): (&Snapshot, &SharedState),
    ) {
        let rejection = rejected.map(|(rejection, _)| *rejection);
        let report = rejected.and_then(|(_, report)| report.as_ref());
        let key_values = rejection.map_or_else(Vec::new, |rejection| {
            let facts = || located.facts(KnownBody::Unread, answer.arrived);
            let limit = located.limits().get(usize::from(rejection.limit));
            key_values(limit, facts, snapshot.rules.log.keys)
        });
        let replay = snapshot.rules.log.replay.then(|| {
            let facts = located.facts(KnownBody::Unread, answer.arrived);
            ReplayFacts {
                decided: answer.arrived,
                keys: record_keys(&located.route.limits, &facts, &shared.seed),
            }
        });
        let request_id = answer.request_id;
        shared.record(&Outcome {
            replay: replay.as_ref(),
            trace: TraceContext::begin(&snapshot.rules, self.peer, &plain.fields, request_id),
            client: Some(located.client.address),
            peer: Some(self.peer),
            secured: self.secured.as_deref(),
            method: plain.method.as_str().as_bytes(),
            host: located.host.as_bytes(),
            target: plain.target.as_bytes(),
            fields: Some(&plain.fields),
            route: Some(&located.route.metrics),
            verdict: report.map(|report| &report.verdict),
            beside: report.and_then(|report| report.beside.as_deref()),
            list: located.standing.list().map(|name| &**name),
            rejection,
            key_values: &key_values,
            disposition: rejection.map_or(RequestDisposition::Blocked, |rejection| {
                RequestDisposition::rejected_by_limit(rejection.reason)
            }),
            status: answer.status.as_u16(),
            bytes_received: plain.body_bytes as u64,
            bytes_sent: answer.bytes as u64,
            total: clock::since(answer.arrived),
            decision: answer.decision,
            ..Outcome::unhandled(answer.arrived, request_id, "HTTP/1.1")
        });
    }
}

/// A rejection by a limit, with the report of the limits where they were asked.
type RejectionByLimit = (LimitRejection, Option<AdmissionReport>);

/// An answer that was written, for the record.
struct RepeatedAnswer {
    arrived: Timestamp,
    /// Time that the decision took.
    decision: Duration,
    request_id: RequestId,
    status: StatusCode,
    /// Bytes of the body.
    bytes: usize,
}

/// Appends the answer to a request that is rejected by a limit, or else by a list. Returns its status and the bytes of its body.
fn write_answer(
    into: &mut BytesMut,
    (plain, located): (&PlainRequest<'_>, &Located<'_>),
    rejected: Option<&RejectionByLimit>,
    secured: Option<&TlsFacts>,
    request_id: RequestId,
) -> (StatusCode, usize) {
    let (status, body) = match rejected {
        Some((rejection, report)) => {
            let report = report.as_ref();
            let refusal = (located.route).refusal(rejection, report, &plain.fields, request_id);
            write_refusal(into, &refusal, request_id);
            (refusal.status, refusal.body)
        }
        None => {
            write_blocked(into, request_id);
            (StatusCode::FORBIDDEN, BLOCKED_BODY.clone())
        }
    };
    write_hsts(into, secured);
    (status, write_body(into, &plain.method, &body))
}

/// Returns whether only the proxy can answer a request on this route.
fn needs_proxy(located: &Located<'_>, plain: &PlainRequest<'_>) -> bool {
    let route = located.route;
    let shape = route.shape.as_ref();
    // The proxy reads the body; and it would verify the token a second time if the request may pass.
    route.reads_body
        || route.reads_token
        // It reads that body too.
        || route.compares_body && plain.fields.contains_key(CONTENT_TYPE)
        // What responses have besides is written in one place.
        || shape.is_some_and(|shape| shape.touches_answers())
}

/// Returns the rejection by a limit that the proxy would come to, or `Some(None)` where a list blocks the client; `None` where the request
/// may pass.
fn expected_rejection(
    located: &Located<'_>,
    shared: &SharedState,
    now: Timestamp,
) -> Option<Option<RejectionByLimit>> {
    match located.standing {
        ListMatch::Blocked(_) => Some(None),
        // A client that faces no limits may pass.
        ListMatch::Ordinary | ListMatch::Allowed(_) => {
            let facts = located.facts(KnownBody::Unread, now);
            peek_rejection(located.limits(), &facts, &shared.seed, now).map(Some)
        }
    }
}

/// A request that the proxy need not see.
struct PlainRequest<'a> {
    method: Method,
    target: &'a str,
    /// `Host` and the other fields that rules may read.
    fields: HeaderMap,
    body_bytes: usize,
}

impl<'a> PlainRequest<'a> {
    /// Reads a plain request from its head, whose bytes are `read`; so many bytes that were read follow it.
    fn of(
        head: &sluicegate_http1::RequestHead,
        read: &'a [u8],
        behind: usize,
        snapshot: &Snapshot,
    ) -> Option<Self> {
        // The proxy gets heads of other forms in this one.
        if head.needs_respelling()
            || head.version() != HttpVersion::Http11
            || head.fields().len() > bounds::REPEAT_FIELDS
        {
            return None;
        }
        // The proxy finds the end of chunks.
        let body_bytes = usize::try_from(head.framing().length()?).ok()?;
        if body_bytes > behind {
            return None;
        }
        let mut fields = HeaderMap::new();
        for field in head.fields().iter(read) {
            match classify(&field) {
                FieldUse::HandOver => return None,
                FieldUse::Framing => {}
                FieldUse::Host => {
                    let value = HeaderValue::from_bytes(field.value).ok()?;
                    fields.insert(http::header::HOST, value);
                }
                FieldUse::Other => {
                    // A name is a token, which is ASCII.
                    let name = std::str::from_utf8(field.name).ok()?;
                    if snapshot.reads_field(name) {
                        let name = HeaderName::from_bytes(field.name).ok()?;
                        fields.append(name, HeaderValue::from_bytes(field.value).ok()?);
                    }
                }
            }
        }
        Some(Self {
            method: Method::from_bytes(head.method(read)).ok()?,
            target: std::str::from_utf8(head.target(read)).ok()?,
            fields,
            body_bytes,
        })
    }

    fn head(&self) -> RequestHead<'_> {
        RequestHead {
            method: &self.method,
            target: self.target,
            authority: None,
            headers: &self.fields,
        }
    }
}

/// The meaning of a field for a plain request.
enum FieldUse {
    Host,
    /// It is read already.
    Framing,
    /// The proxy must see the request.
    HandOver,
    Other,
}

fn classify(field: &HeaderField<'_>) -> FieldUse {
    // Dispatch on the length first: most fields differ from all of these in it.
    let is = |other: &str| field.is(other.as_bytes());
    match field.name.len() {
        4 if is("host") => FieldUse::Host,
        14 if is("content-length") => FieldUse::Framing,
        6 if is("expect") => FieldUse::HandOver,
        7 if is("upgrade") || is("trailer") => FieldUse::HandOver,
        10 if is("connection") => {
            if field.value.eq_ignore_ascii_case(b"keep-alive") {
                FieldUse::Other
            } else {
                FieldUse::HandOver
            }
        }
        // The answer to gRPC is made for HTTP/2, and such clients rarely repeat.
        12 if is("content-type") && GrpcDialect::named(field.value).is_some() => FieldUse::HandOver,
        _ => FieldUse::Other,
    }
}

/// The body for a blocked client, always the same.
static BLOCKED_BODY: LazyLock<Bytes> = LazyLock::new(|| GatewayProblem::Blocked.body());

/// Writes the head of a rejection, without the fields that every answer has.
fn write_refusal(into: &mut BytesMut, refusal: &RefusalResponse, request_id: RequestId) {
    write_status(into, refusal.status, request_id);
    let mut number = itoa::Buffer::new();
    let Ok(()) = refusal.each_field(|name, text| -> Result<(), Infallible> {
        into.extend_from_slice(b"\r\n");
        into.extend_from_slice(name.as_str().as_bytes());
        into.extend_from_slice(b": ");
        match text {
            FieldText::Value(value) => into.extend_from_slice(value.as_bytes()),
            FieldText::Number(value) => into.extend_from_slice(number.format(value).as_bytes()),
        }
        Ok(())
    });
}

/// Writes the head of an answer to a blocked client, without the fields that every answer has.
fn write_blocked(into: &mut BytesMut, request_id: RequestId) {
    write_status(into, StatusCode::FORBIDDEN, request_id);
    into.extend_from_slice(b"\r\ncontent-type: application/problem+json");
}

fn write_status(into: &mut BytesMut, status: StatusCode, request_id: RequestId) {
    into.extend_from_slice(b"HTTP/1.1 ");
    into.extend_from_slice(status.as_str().as_bytes());
    into.extend_from_slice(b" ");
    into.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    into.extend_from_slice(b"\r\nx-request-id: ");
    into.extend_from_slice(request_id.text().as_bytes());
}

/// Writes `Strict-Transport-Security` for a TLS listener that is configured so.
fn write_hsts(into: &mut BytesMut, secured: Option<&TlsFacts>) {
    if let Some(value) = secured.and_then(|secured| secured.strict_transport.as_ref()) {
        into.extend_from_slice(b"\r\nstrict-transport-security: ");
        into.extend_from_slice(value.as_bytes());
    }
}

/// Ends the head, writes the body and returns its bytes.
fn write_body(into: &mut BytesMut, method: &Method, body: &[u8]) -> usize {
    into.extend_from_slice(b"\r\ncontent-length: ");
    into.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
    into.extend_from_slice(b"\r\ndate: ");
    into.extend_from_slice(super::http_date().as_bytes());
    into.extend_from_slice(b"\r\nconnection: keep-alive\r\n\r\n");
    if method == Method::HEAD {
        return 0;
    }
    into.extend_from_slice(body);
    body.len()
}
