//! Writes the spans of an outcome as OTLP has them: the gateway's own, and that of its request to the origin.
//!
//! Names follow OpenTelemetry's conventions for HTTP spans (v1.37), so that what is built on them works; what they have no word for is
//! called `sluicegate.*`, by the words of the access log. Queries are left out: they hold secrets, and collectors are read by many.
//!
//! # Limits
//! Texts of clients are cut as in the log, so a span has at most some kilobytes.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use sluicegate_limiter::Timestamp;

use super::wire::{FieldNumber, bytes, fixed32, fixed64, message, uint};
use crate::address::address_text;
use crate::record::line::{MAX_HOST, MAX_METHOD, MAX_TARGET};
use crate::record::outcome::{OriginUse, Outcome, RequestDisposition};
use crate::record::trace::TraceContext;

/// `ScopeSpans.spans`: what is buffered are these fields, and a batch is some of them one after the other.
pub(super) const SPANS: FieldNumber = 2;

/// `Span.kind`
#[derive(Clone, Copy)]
enum SpanKind {
    Server = 2,
    Client = 3,
}

/// The fields that begin both spans of a request.
struct SpanHead<'a> {
    trace: &'a TraceContext,
    id: u64,
    parent: Option<u64>,
    kind: SpanKind,
    from: Timestamp,
    to: Timestamp,
}

/// Appends the gateway's span of a request that ended at `ended`, by the wall clock.
///
/// The log's time need not be that of other machines, with whose spans this one is drawn; durations are the same by both.
pub(super) fn server(
    into: &mut Vec<u8>,
    outcome: &Outcome<'_>,
    trace: &TraceContext,
    ended: Timestamp,
) {
    let frame = SpanHead {
        trace,
        id: trace.span(),
        parent: trace.parent(),
        kind: SpanKind::Server,
        from: ended.saturating_sub(outcome.total),
        to: ended,
    };
    message(into, SPANS, |into| {
        begin(into, &frame, |into| {
            let method = text(outcome.method, MAX_METHOD);
            into.extend_from_slice(known_method(&method).unwrap_or("HTTP").as_bytes());
            if let Some(route) = outcome.route {
                into.push(b' ');
                into.extend_from_slice(without_methods(route.name()).as_bytes());
            }
        });
        asked(into, outcome);
        became(into, outcome);
        // The conventions leave what a client did wrong unset at the server, and only there.
        let failed = outcome.status >= 500
            || matches!(
                outcome.disposition,
                RequestDisposition::OriginFailed | RequestDisposition::Internal
            );
        if failed {
            error(into, outcome.status, outcome.disposition.as_str());
        }
    });
}

/// Appends the span of what was asked of the origin, under that of the gateway.
pub(super) fn client(
    into: &mut Vec<u8>,
    outcome: &Outcome<'_>,
    origin: &OriginUse<'_>,
    trace: &TraceContext,
    ended: Timestamp,
) {
    let until_asked = origin.began.saturating_since(outcome.arrived);
    let frame = SpanHead {
        trace,
        id: trace.exit(),
        parent: Some(trace.span()),
        kind: SpanKind::Client,
        from: ended.saturating_sub(outcome.total.saturating_sub(until_asked)),
        to: ended,
    };
    message(into, SPANS, |into| {
        let method = text(outcome.method, MAX_METHOD);
        begin(into, &frame, |into| {
            into.extend_from_slice(known_method(&method).unwrap_or("HTTP").as_bytes());
        });
        asked_by(into, &method);
        address(into, "server.address", origin.server.ip());
        number(into, "server.port", origin.server.port().into());
        string(into, "sluicegate.origin", origin.name);
        if origin.tries > 1 {
            let again = u64::from(origin.tries) - 1;
            number(into, "http.request.resend_count", again);
        }
        if let Some(wait) = origin.wait {
            number(into, "sluicegate.first_byte_ns", nanos(wait));
        }
        match origin.status {
            Some(status) => {
                number(into, "http.response.status_code", status.into());
                if status >= 400 {
                    error(into, status, "");
                }
            }
            None => error(into, 0, outcome.disposition.as_str()),
        }
    });
}

/// Ids, name and times of a span.
fn begin(into: &mut Vec<u8>, frame: &SpanHead<'_>, name: impl FnOnce(&mut Vec<u8>)) {
    /// Bit 0: recorded; bit 8: bit 9 is said; bit 9: the parent is another process.
    const FLAGS: u32 = 0x101;
    const REMOTE: u32 = 0x200;
    bytes(into, 1, &frame.trace.bits().to_be_bytes());
    bytes(into, 2, &frame.id.to_be_bytes());
    if let Some(parent) = frame.parent {
        bytes(into, 4, &parent.to_be_bytes());
    }
    message(into, 5, name);
    uint(into, 6, frame.kind as u64);
    fixed64(into, 7, frame.from.as_nanos());
    fixed64(into, 8, frame.to.as_nanos());
    let remote = match (frame.kind, frame.parent) {
        (SpanKind::Server, Some(_)) => REMOTE,
        _ => 0,
    };
    fixed32(into, 16, FLAGS | remote);
}

/// Writes the attributes of the request and of its client.
fn asked(into: &mut Vec<u8>, outcome: &Outcome<'_>) {
    asked_by(into, &text(outcome.method, MAX_METHOD));
    let path = outcome.target.split(|byte| *byte == b'?').next();
    string(
        into,
        "url.path",
        &text(path.unwrap_or_default(), MAX_TARGET),
    );
    let scheme = match outcome.secured {
        Some(_) => "https",
        None => "http",
    };
    string(into, "url.scheme", scheme);
    if !outcome.host.is_empty() {
        string(into, "server.address", &text(outcome.host, MAX_HOST));
    }
    if let Some(client) = outcome.client {
        address(into, "client.address", client);
    }
    if let Some(peer) = outcome.peer {
        address(into, "network.peer.address", peer);
    }
    let version = outcome.protocol.trim_start_matches("HTTP/");
    string(into, "network.protocol.version", version);
    if let Some(route) = outcome.route {
        string(into, "http.route", without_methods(route.name()));
    }
}

/// Writes the attributes of the outcome.
fn became(into: &mut Vec<u8>, outcome: &Outcome<'_>) {
    if outcome.status != 0 {
        number(into, "http.response.status_code", outcome.status.into());
    }
    number(into, "http.request.body.size", outcome.bytes_received);
    number(into, "http.response.body.size", outcome.bytes_sent);
    let disposition = outcome.disposition.as_str();
    string(into, "sluicegate.outcome", disposition);
    let id = outcome.request_id.text();
    string(into, "sluicegate.request_id", &id);
    number(into, "sluicegate.decision_ns", nanos(outcome.decision));
    let verdict = match (outcome.rejection, outcome.verdict) {
        (Some(_), _) => Some("refused"),
        (None, Some(_)) => Some("admitted"),
        (None, None) => None,
    };
    if let Some(verdict) = verdict {
        string(into, "sluicegate.verdict", verdict);
    }
    if let Some(limit) = outcome.refused_by_name() {
        string(into, "sluicegate.limit", limit);
    }
    if let Some(list) = outcome.list {
        string(into, "sluicegate.list", list);
    }
    if let Some(cache) = outcome.cache {
        string(into, "sluicegate.cache", cache.as_str());
    }
}

fn asked_by(into: &mut Vec<u8>, method: &str) {
    match known_method(method) {
        Some(known) => string(into, "http.request.method", known),
        None => {
            string(into, "http.request.method", "_OTHER");
            string(into, "http.request.method_original", method);
        }
    }
}

/// `error.type`, a status or else a word, and that the span failed.
fn error(into: &mut Vec<u8>, status: u16, word: &str) {
    const FAILED: u64 = 2;
    if status >= 400 {
        let mut digits = itoa::Buffer::new();
        string(into, "error.type", digits.format(status));
    } else {
        string(into, "error.type", word);
    }
    message(into, 15, |into| uint(into, 3, FAILED));
}

/// Those that the conventions take for names; what a client makes up is none.
fn known_method(method: &str) -> Option<&'static str> {
    const KNOWN: [&str; 10] = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY",
    ];
    KNOWN.into_iter().find(|known| *known == method)
}

/// A route without a name of its own is called by its methods and its path; the method is named anyway.
fn without_methods(name: &str) -> &str {
    let is_method = |byte: u8| byte.is_ascii_uppercase() || b",-_".contains(&byte);
    match name.split_once(' ') {
        Some((methods, path)) if methods.bytes().all(is_method) => path,
        _ => name,
    }
}

/// At most so many bytes of what a client sent, as UTF-8.
fn text(sent: &[u8], most: usize) -> Cow<'_, str> {
    String::from_utf8_lossy(sent.get(..most).unwrap_or(sent))
}

/// An attribute, `Span.attributes`: a key and a value, which is a message of the one field that says its kind.
fn string(into: &mut Vec<u8>, name: &str, value: &str) {
    attribute(into, 9, name, value);
}

/// The same in a message where attributes have another number.
pub(super) fn attribute(into: &mut Vec<u8>, field: FieldNumber, name: &str, value: &str) {
    message(into, field, |into| {
        bytes(into, 1, name.as_bytes());
        message(into, 2, |into| bytes(into, 1, value.as_bytes()));
    });
}

fn number(into: &mut Vec<u8>, name: &str, value: u64) {
    message(into, 9, |into| {
        bytes(into, 1, name.as_bytes());
        message(into, 2, |into| {
            // Written even where it is 0: a value without a field has no kind.
            into.push(3 << 3);
            super::wire::varint(into, value);
        });
    });
}

fn address(into: &mut Vec<u8>, name: &str, address: IpAddr) {
    string(into, name, &address_text(address));
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "span_tests.rs"]
mod tests;
