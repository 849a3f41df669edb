//! Restores the request that a proxy asks about, and adapts the answer to what such a proxy understands.
//!
//! nginx (`auth_request`), Traefik, Caddy (`forward_auth`) and HAProxy forward requests themselves, and ask about each beforehand: by a
//! request of their own, whose fields describe the one that they received. Every later stage reads the restored request, so client, route,
//! keys and limits are those of a request that came here.
//!
//! # Invariants
//!
//! 1. Only a trusted proxy is answered with a decision.
//! 2. Method, host and target come from one field each, the client from that of `client_ip_header`; what the question has in their place
//!    is never read.
//! 3. The restored head passes the parser of received heads, and is located by the same rules.
//! 4. The answer about a request that is not admitted has a status of 400 or above. Callers of gRPC get 200 elsewhere, and a proxy takes
//!    that for leave to forward.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, StatusCode};
use sluicegate_base::received::{FieldValue, ReceivedFields, ReceivedHead};
use sluicegate_decide::client::{AddressSource, PeerTrust, hop, identify};
use sluicegate_decide::response::{ForwardAuthFault, GatewayProblem, HttpViolation, OriginalPart};
use sluicegate_http1::{HeadLimits, HeadProgress, RequestHead};

use super::shape::AnswerKind;
use sluicegate_config::rules::{ListenerProtocol, Rules};

/// Tells the own status of a rejection whose listener has one for all.
const X_SLUICEGATE_STATUS: HeaderName = HeaderName::from_static("x-sluicegate-status");

/// The rules of an answer to a proxy that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ForwardAuthAnswer {
    rejection_status: Option<StatusCode>,
}

impl ForwardAuthAnswer {
    /// Returns the rules of answers at a listener of this protocol; `None` where requests are served.
    pub(super) fn from_protocol(protocol: ListenerProtocol) -> Option<Self> {
        match protocol {
            ListenerProtocol::Http => None,
            ListenerProtocol::ForwardAuth { rejection_status } => Some(Self { rejection_status }),
            ListenerProtocol::RateLimitService => Some(Self::OWN_STATUS),
        }
    }

    /// The rules of answers whose rejections each have their own status.
    pub(super) const OWN_STATUS: Self = Self {
        rejection_status: None,
    };

    /// Returns the rules of the answer to a question that has `problem`. A fault of the question keeps its status, since it says nothing
    /// about the client.
    pub(super) fn about(self, problem: GatewayProblem) -> Self {
        match problem {
            GatewayProblem::ForwardAuth(_) => Self {
                rejection_status: None,
            },
            _ => self,
        }
    }

    /// Gives an answer of this kind a status that says whether the request may be forwarded.
    pub(super) fn adapt(self, status: &mut StatusCode, fields: &mut HeaderMap, kind: AnswerKind) {
        let is_below_400 =
            status.is_informational() || status.is_success() || status.is_redirection();
        let own = match kind {
            AnswerKind::Failure if is_below_400 => StatusCode::TOO_MANY_REQUESTS,
            AnswerKind::Failure | AnswerKind::Content | AnswerKind::Intercepted if is_below_400 => {
                return;
            }
            AnswerKind::Failure | AnswerKind::Content | AnswerKind::Intercepted => *status,
        };
        *status = self.rejection_status.unwrap_or(own);
        if self.rejection_status.is_some() {
            fields.insert(X_SLUICEGATE_STATUS, HeaderValue::from(own.as_u16()));
        }
    }
}

/// Turns the head of a question into that of the request in question.
///
/// # Errors
/// The peer may not ask, the question lacks a field, or the request in question is malformed.
pub(super) fn restore(
    head: &mut ReceivedHead,
    peer: IpAddr,
    rules: &Rules,
) -> Result<(), GatewayProblem> {
    if hop(peer, &rules.client) == PeerTrust::Stranger {
        return Err(GatewayProblem::ForwardAuth(ForwardAuthFault::Untrusted));
    }
    let fields = &head.headers;
    // Parsed as it came to the proxy, so that each rule for received heads holds here.
    let line = [
        only(fields, OriginalPart::Method)?.as_bytes(),
        b" ",
        only(fields, OriginalPart::Uri)?.as_bytes(),
        b" HTTP/1.1\r\nhost: ",
        only(fields, OriginalPart::Host)?.as_bytes(),
        b"\r\n\r\n",
    ];
    if identify(peer, fields, &rules.client).source == AddressSource::Connection {
        return Err(GatewayProblem::ForwardAuth(ForwardAuthFault::NoClient));
    }
    let original = OriginalHead::parse(line.concat(), rules.server.defence.max_uri_bytes)?;
    head.method = original.method;
    head.uri = original.target.into();
    head.headers.insert(HOST, original.host);
    Ok(())
}

/// Returns the value of the one field that has this part.
fn only(fields: &ReceivedFields, part: OriginalPart) -> Result<FieldValue<'_>, GatewayProblem> {
    let mut values = fields.get_all(part.field());
    let fault = match (values.next(), values.next()) {
        (Some(value), None) if !value.is_empty() => return Ok(value),
        (Some(_), Some(_)) => ForwardAuthFault::Repeated(part),
        (Some(_) | None, _) => ForwardAuthFault::Absent(part),
    };
    Err(GatewayProblem::ForwardAuth(fault))
}

/// The parts of a request that its proxy describes in fields.
#[derive(Debug)]
struct OriginalHead {
    method: Method,
    target: PathAndQuery,
    host: HeaderValue,
}

impl OriginalHead {
    /// Parses the head with a target of at most so many bytes.
    fn parse(mut written: Vec<u8>, max_uri_bytes: usize) -> Result<Self, GatewayProblem> {
        let limits = HeadLimits {
            // The fields that it is made of were within those of the question.
            bytes: usize::MAX,
            fields: usize::MAX,
            target: max_uri_bytes,
        };
        let mut parsed = RequestHead::new();
        let progress = parsed.parse(&written, &limits)?;
        if progress == HeadProgress::Whole(written.len()) && parsed.needs_respelling() {
            written = parsed.respelled(&written);
            parsed.clear();
            parsed.parse(&written, &limits)?;
        }
        let written = Bytes::from(written);
        let read = || {
            Some(Self {
                method: Method::from_bytes(parsed.method(&written)).ok()?,
                target: PathAndQuery::from_maybe_shared(written.slice_ref(parsed.target(&written)))
                    .ok()?,
                host: HeaderValue::from_bytes(parsed.host(&written)?).ok()?,
            })
        };
        read().ok_or(GatewayProblem::BadRequest(HttpViolation::Other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the status of an answer of this kind behind a listener with this status for rejections, and the own status that it tells.
    fn adapted(rejection: Option<u16>, kind: AnswerKind, status: u16) -> (u16, Option<String>) {
        let rejection_status = rejection.and_then(|status| StatusCode::from_u16(status).ok());
        let mut status = StatusCode::from_u16(status).unwrap();
        let mut fields = HeaderMap::new();
        let answer = ForwardAuthAnswer { rejection_status };
        answer.adapt(&mut status, &mut fields, kind);
        let own = fields.get(X_SLUICEGATE_STATUS);
        let own = own.map(|own| own.to_str().unwrap().to_owned());
        (status.as_u16(), own)
    }

    /// Goal: what is below 400 is leave to forward, and only that. Method: answers of each kind, with and without a status for rejections.
    #[test]
    fn only_content_below_400_is_leave_to_forward() {
        let told = |status: &str| Some(status.to_owned());
        for (kind, status, plain, as_403) in [
            (AnswerKind::Content, 204, (204, None), (204, None)),
            (AnswerKind::Content, 302, (302, None), (302, None)),
            (AnswerKind::Content, 404, (404, None), (403, told("404"))),
            (AnswerKind::Failure, 429, (429, None), (403, told("429"))),
            (AnswerKind::Failure, 503, (503, None), (403, told("503"))),
            // Callers of gRPC get it.
            (AnswerKind::Failure, 200, (429, None), (403, told("429"))),
        ] {
            assert_eq!(adapted(None, kind, status), plain, "{kind:?} {status}");
            assert_eq!(
                adapted(Some(403), kind, status),
                as_403,
                "{kind:?} {status}"
            );
        }
    }

    /// Goal: the parts of a head stay apart. Method: values that would shift the parts of a request line, or are another form of it.
    #[test]
    fn a_part_cannot_reach_into_another() {
        let parse = |method: &str, uri: &str, host: &str| {
            let written = format!("{method} {uri} HTTP/1.1\r\nhost: {host}\r\n\r\n");
            let head = OriginalHead::parse(written.into_bytes(), 100).ok()?;
            let host = head.host.to_str().unwrap().to_owned();
            Some((head.method.to_string(), head.target.to_string(), host))
        };
        let read = |method: &str, target: &str, host: &str| {
            Some((method.to_owned(), target.to_owned(), host.to_owned()))
        };
        assert_eq!(
            parse("GET", "/a?b=\"", "a:80"),
            read("GET", "/a?b=%22", "a:80")
        );
        assert_eq!(parse("GET", "http://A/b", "a"), read("GET", "/b", "A"));
        for (method, uri, host) in [
            ("GET /x", "/", "a"),
            ("GET", "/ HTTP/1.1", "a"),
            ("GET", "/a b", "a"),
            ("GET", "http://b/", "a"),
            ("GET", "*", "a"),
            ("CONNECT", "a:443", "a"),
            ("GET", &"/".repeat(101), "a"),
        ] {
            assert_eq!(parse(method, uri, host), None, "{method} {uri} {host}");
        }
    }
}
