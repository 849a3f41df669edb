//! Owns the problem bodies, RFC 9457, of every answer that the gateway itself gives.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use sluicegate_config::rules::ValueSource;
use sluicegate_http1::HeadError;

use super::forward_auth_fault::ForwardAuthFault;
use super::http_violation::HttpViolation;
use super::template::UnsafePath;
use crate::own_failure::OwnFailure;
use crate::rejection::{MissingKey, MissingReason};

/// The content type of a problem body.
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The reason for which the gateway answers itself, other than a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayProblem {
    /// The path or its escapes are malformed.
    BadPath,
    /// Origins read the path in two ways, under different limits.
    AmbiguousPath,
    /// The host is invalid.
    BadHost,
    /// The request breaks a rule of HTTP.
    BadRequest(HttpViolation),
    /// A proxy that asks about a request does it wrongly.
    ForwardAuth(ForwardAuthFault),
    /// The connection was made for another host.
    Misdirected,
    /// The head has too many fields or bytes.
    HeadTooLarge,
    /// The target alone is too long.
    UriTooLong,
    /// The head did not come in time.
    HeadTimeout,
    /// The body is larger than the route allows.
    BodyTooLarge,
    /// The route needs a certificate of the client, and the connection has none.
    NoClientCertificate,
    /// A list blocks the client.
    Blocked,
    /// The overrides or tiers of a limit block the request.
    KeyBlocked,
    /// The body did not come in time: the beginning that a key needs, or a piece of it, or all of it too slowly.
    BodyTimeout,
    /// No route matches.
    NoRoute,
    /// No server of the origin can be reached, or its answer is malformed.
    BadGateway,
    /// Every server of the origin is out of service.
    NoServer,
    /// Every server of the origin is at its bound on requests, and the queue is full, or the wait was too long.
    OriginFull,
    /// The origin did not answer in time.
    OriginTimeout,
    /// The request was forwarded in a loop.
    Loop,
    /// A failure that has a kind of its own in the log, and for which no origin is to blame.
    Own(OwnFailure),
    /// The gateway failed.
    Internal,
}

impl From<HeadError> for GatewayProblem {
    fn from(error: HeadError) -> Self {
        match error {
            HeadError::Rule(rule) => Self::BadRequest(rule.into()),
            HeadError::TargetTooLong => Self::UriTooLong,
            HeadError::TooLarge => Self::HeadTooLarge,
        }
    }
}

impl From<UnsafePath> for GatewayProblem {
    fn from(why: UnsafePath) -> Self {
        match why {
            UnsafePath::Broken => Self::BadPath,
            UnsafePath::Ambiguous => Self::AmbiguousPath,
        }
    }
}

impl GatewayProblem {
    /// Returns the status.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::BadPath | Self::AmbiguousPath | Self::BadHost | Self::BadRequest(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::ForwardAuth(fault) => fault.status(),
            Self::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::UriTooLong => StatusCode::URI_TOO_LONG,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            // RFC 9110 §15.5.20: 421 would have the client try another connection, which comes to the same listener.
            Self::NoClientCertificate | Self::Blocked | Self::KeyBlocked => StatusCode::FORBIDDEN,
            Self::HeadTimeout | Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::BadGateway => StatusCode::BAD_GATEWAY,
            Self::OriginTimeout => StatusCode::GATEWAY_TIMEOUT,
            Self::NoServer | Self::OriginFull => StatusCode::SERVICE_UNAVAILABLE,
            Self::Own(failure) => failure.status(),
            // RFC 8586 leaves the status open; RFC 5842 §7.2 defines this one.
            Self::Loop => StatusCode::LOOP_DETECTED,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the value of `Retry-After` in seconds; `None` where the time is unknown.
    #[must_use]
    pub fn retry_after(self) -> Option<u64> {
        match self {
            // Requests end all the time.
            Self::OriginFull => Some(1),
            Self::Own(failure) => failure.retry_after(),
            _ => None,
        }
    }

    /// Returns the kind of the failure in the log; `None` where the client is to blame, an origin, whose failure has a kind of its own, or
    /// a defect of the gateway.
    #[must_use]
    pub fn failure(self) -> Option<&'static str> {
        match self {
            Self::Own(failure) => Some(failure.as_str()),
            _ => None,
        }
    }

    /// Returns the body.
    #[must_use]
    pub fn body(self) -> Bytes {
        let mut body = about_blank_json(self.status(), self.detail());
        if let Self::BadRequest(rule) = self {
            // RFC 9457 §3.2: a member beside the standard ones, for programs.
            body["rule"] = rule.name().into();
        }
        Bytes::from(body.to_string())
    }

    /// Returns a sentence about the problem.
    #[must_use]
    pub fn detail(self) -> &'static str {
        match self {
            Self::BadPath => "the path holds an invalid escape or a control character",
            Self::AmbiguousPath => {
                "the path or the query can be read in two ways; send it without `//`, `;`, `..`, encoded slashes, backslashes, and endings \
                 like `.json`, and each parameter once"
            }
            Self::BadHost => {
                "the Host field or the authority is no host name or address with an optional port"
            }
            Self::BadRequest(rule) => rule.detail(),
            Self::ForwardAuth(fault) => fault.detail(),
            Self::Misdirected => "this connection was made for another host; open one for this",
            Self::HeadTooLarge => {
                "the request has too many header fields or too many bytes of them"
            }
            Self::UriTooLong => "the target of the request is too long",
            Self::HeadTimeout => "the head of the request did not come in time",
            Self::BodyTooLarge => "the request body is larger than this route accepts",
            Self::NoClientCertificate => {
                "a client certificate is needed here, and the connection has none that is verified"
            }
            Self::KeyBlocked => "this client, or what it asks for, is blocked here",
            Self::Blocked => "the address that this request comes from is blocked here",
            Self::BodyTimeout => "the request body did not come in time",
            Self::NoRoute => "no route matches this request",
            Self::BadGateway => "the origin could not be reached or gave a broken answer",
            Self::NoServer => "no server of the origin is in service",
            Self::OriginFull => "the origin has all the requests that it may; try again soon",
            Self::OriginTimeout => "the origin did not answer in time",
            Self::Loop => {
                "this request came through this gateway before: an origin leads back to it"
            }
            Self::Own(failure) => failure.detail(),
            Self::Internal => "the gateway failed",
        }
    }
}

/// Returns the body for a request that lacks a part of a key. It names the part to send, and neither limit nor value.
#[must_use]
pub fn key_missing(missing: &MissingKey) -> Bytes {
    let what = match &missing.source {
        ValueSource::Header(name) => format!("the header {name}"),
        ValueSource::Cookie(name) => format!("the cookie {name}"),
        ValueSource::Query(name) => format!("the query parameter {name}"),
        ValueSource::PathParameter(name) => format!("the path parameter {name}"),
        ValueSource::Claim(pointer) => format!("the claim {pointer} of a bearer token"),
        ValueSource::Json(pointer) => format!("{pointer} in a JSON body"),
        ValueSource::Form(name) => format!("the parameter {name} in a form's body"),
        ValueSource::CertificateSubject => "a client certificate with a subject".to_owned(),
        ValueSource::CertificateFingerprint => "a client certificate".to_owned(),
        ValueSource::Ja4 => "a handshake of TLS".to_owned(),
    };
    let wrong = match missing.why {
        MissingReason::Absent => "is missing",
        MissingReason::Repeated => "is given more than once, with different values",
        MissingReason::Malformed => "has not the form that is expected here",
        MissingReason::Unverified => "is missing, since the token is not valid here",
        MissingReason::TooLarge => "cannot be read, since the body is too large for that",
        MissingReason::OtherType => "cannot be read, since the content type is another",
        MissingReason::Encoded => "cannot be read, since the body is compressed",
    };
    about_blank(StatusCode::BAD_REQUEST, &format!("{what} {wrong}"))
}

/// Returns the body of an origin's answer with `status`, without a reason.
#[must_use]
pub fn problem_of_origin(status: StatusCode) -> Bytes {
    about_blank(status, "the origin answered with this status")
}

/// Returns a body of the type `about:blank`, so the title is the status's own (RFC 9457 §4.2.1), where it has one.
fn about_blank(status: StatusCode, detail: &str) -> Bytes {
    Bytes::from(about_blank_json(status, detail).to_string())
}

fn about_blank_json(status: StatusCode, detail: &str) -> Value {
    json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or("Error"),
        "status": status.as_u16(),
        "detail": detail,
    })
}
