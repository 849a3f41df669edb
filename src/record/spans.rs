//! Writes the spans of an outcome: the gateway's own, and that of its request to the origin.
//!
//! Names follow OpenTelemetry's conventions for HTTP spans (v1.37), so that tools for them work; attributes that they lack are
//! called `sluicegate.*`, by the words of the access log. Queries are left out: they hold secrets, and collectors are read by many.
//!
//! # Limits
//! Texts of clients are cut as in the log, so a span has at most some kilobytes.

use std::borrow::Cow;
use std::time::Duration;

use sluicegate_base::address::address_text;
use sluicegate_base::clock;
use sluicegate_limiter::Timestamp;
use sluicegate_telemetry::exposition::SampledFamily;
use sluicegate_telemetry::otlp::{
    CallResult, ExportQueue, RecordResult, SpanAttributes, SpanHead, SpanKind, write_span,
};

use super::line::{MAX_HOST, MAX_METHOD, MAX_TARGET};
use super::outcome::{OriginUse, Outcome, RequestDisposition};
use super::trace::TraceContext;
use crate::config::rules::OriginAddress;

/// Takes the spans of one request, where its trace is exported.
pub(super) fn record(queue: &ExportQueue, outcome: &Outcome<'_>) {
    let Some(trace) = outcome.trace.filter(|trace| trace.is_told()) else {
        return;
    };
    let ended = clock::wall();
    queue.append(|into, _| server(into, outcome, &trace, ended));
    if let Some(origin) = &outcome.origin {
        queue.append(|into, _| client(into, outcome, origin, &trace, ended));
    }
}

/// Returns the metrics of the export; a series appears with its first count.
pub(super) fn families(queue: &ExportQueue) -> [SampledFamily; 2] {
    let mut spans = SampledFamily::counter(
        "sluicegate_otlp_spans_total",
        "Spans for the OpenTelemetry collector, by what became of them.",
    );
    for result in RecordResult::ALL {
        let label = match result {
            RecordResult::Sent => "sent",
            RecordResult::Rejected => "refused",
            RecordResult::Dropped => "dropped",
        };
        push(&mut spans, label, queue.records(result));
    }
    let mut calls = SampledFamily::counter(
        "sluicegate_otlp_calls_total",
        "Calls to the OpenTelemetry collector, by what came of them.",
    );
    for result in CallResult::ALL {
        let label = match result {
            CallResult::Accepted => "ok",
            CallResult::Rejected => "refused",
            CallResult::Failed => "failed",
        };
        push(&mut calls, label, queue.calls(result));
    }
    [spans, calls]
}

fn push(family: &mut SampledFamily, result: &str, count: u64) {
    if count > 0 {
        family.push(&[("result", result)], count);
    }
}

/// Appends the gateway's span of a request that ended at `ended`, by the wall clock.
///
/// The log's time need not be that of other machines, with whose spans this one is drawn; durations are the same by both.
fn server(into: &mut Vec<u8>, outcome: &Outcome<'_>, trace: &TraceContext, ended: Timestamp) {
    let head = SpanHead {
        trace_id: trace.bits(),
        span_id: trace.span(),
        parent_id: trace.parent(),
        kind: SpanKind::Server,
        start_unix_nanos: ended.saturating_sub(outcome.total).as_nanos(),
        end_unix_nanos: ended.as_nanos(),
    };
    let name = |into: &mut Vec<u8>| {
        let method = text(outcome.method, MAX_METHOD);
        into.extend_from_slice(known_method(&method).unwrap_or("HTTP").as_bytes());
        if let Some(route) = outcome.route {
            into.push(b' ');
            into.extend_from_slice(without_methods(route.name()).as_bytes());
        }
    };
    write_span(into, &head, name, |attributes| {
        request(attributes, outcome);
        result(attributes, outcome);
        // The conventions leave the status of a client's mistake unset at the server, and only there.
        let failed = outcome.status >= 500
            || matches!(
                outcome.disposition,
                RequestDisposition::OriginFailed
                    | RequestDisposition::Internal
                    | RequestDisposition::CutOff
            );
        if failed {
            error(attributes, outcome.status, outcome.disposition.as_str());
        }
    });
}

/// Appends the span of the request to the origin, whose parent is the gateway's span.
fn client(
    into: &mut Vec<u8>,
    outcome: &Outcome<'_>,
    origin: &OriginUse<'_>,
    trace: &TraceContext,
    ended: Timestamp,
) {
    let before = origin.began.saturating_since(outcome.arrived);
    let start = ended.saturating_sub(outcome.total.saturating_sub(before));
    let head = SpanHead {
        trace_id: trace.bits(),
        span_id: trace.exit(),
        parent_id: Some(trace.span()),
        kind: SpanKind::Client,
        start_unix_nanos: start.as_nanos(),
        end_unix_nanos: ended.as_nanos(),
    };
    let sent = text(outcome.method, MAX_METHOD);
    let name = |into: &mut Vec<u8>| {
        into.extend_from_slice(known_method(&sent).unwrap_or("HTTP").as_bytes());
    };
    write_span(into, &head, name, |attributes| {
        method(attributes, &sent);
        // OpenTelemetry: at a Unix socket the address is its path, and there is no port.
        match origin.server {
            OriginAddress::Tcp(server) => {
                attributes.string("server.address", &address_text(server.ip()));
                attributes.number("server.port", server.port().into());
            }
            OriginAddress::Unix(path) => attributes.string("server.address", path.as_str()),
        }
        attributes.string("sluicegate.origin", origin.name);
        if origin.attempts > 1 {
            let retries = u64::from(origin.attempts) - 1;
            attributes.number("http.request.resend_count", retries);
        }
        if let Some(wait) = origin.wait {
            attributes.number("sluicegate.first_byte_ns", nanos(wait));
        }
        match origin.status {
            Some(status) => {
                attributes.number("http.response.status_code", status.into());
                if status >= 400 {
                    error(attributes, status, "");
                }
            }
            None => error(attributes, 0, outcome.disposition.as_str()),
        }
    });
}

/// Writes the attributes of the request and of its client.
fn request(into: &mut SpanAttributes<'_>, outcome: &Outcome<'_>) {
    method(into, &text(outcome.method, MAX_METHOD));
    let path = outcome.target.split(|byte| *byte == b'?').next();
    into.string("url.path", &text(path.unwrap_or_default(), MAX_TARGET));
    let scheme = match outcome.secured {
        Some(_) => "https",
        None => "http",
    };
    into.string("url.scheme", scheme);
    if !outcome.host.is_empty() {
        into.string("server.address", &text(outcome.host, MAX_HOST));
    }
    if let Some(client) = outcome.client {
        into.string("client.address", &address_text(client));
    }
    if let Some(peer) = outcome.peer {
        into.string("network.peer.address", &address_text(peer));
    }
    let version = outcome.protocol.trim_start_matches("HTTP/");
    into.string("network.protocol.version", version);
    if let Some(route) = outcome.route {
        into.string("http.route", without_methods(route.name()));
    }
}

/// Writes the attributes of the outcome.
fn result(into: &mut SpanAttributes<'_>, outcome: &Outcome<'_>) {
    if outcome.status != 0 {
        into.number("http.response.status_code", outcome.status.into());
    }
    into.number("http.request.body.size", outcome.bytes_received);
    into.number("http.response.body.size", outcome.bytes_sent);
    let disposition = outcome.disposition.as_str();
    into.string("sluicegate.outcome", disposition);
    let id = outcome.request_id.text();
    into.string("sluicegate.request_id", &id);
    into.number("sluicegate.decision_ns", nanos(outcome.decision));
    let verdict = match (outcome.rejection, outcome.verdict) {
        (Some(_), _) => Some("rejected"),
        (None, Some(_)) => Some("admitted"),
        (None, None) => None,
    };
    if let Some(verdict) = verdict {
        into.string("sluicegate.verdict", verdict);
    }
    if let Some(limit) = outcome.refused_by_name() {
        into.string("sluicegate.limit", limit);
    }
    if let Some(list) = outcome.list {
        into.string("sluicegate.list", list);
    }
    if let Some(cache) = outcome.cache {
        into.string("sluicegate.cache", cache.as_str());
    }
}

/// Writes the attributes of a method.
fn method(into: &mut SpanAttributes<'_>, method: &str) {
    match known_method(method) {
        Some(known) => into.string("http.request.method", known),
        None => {
            into.string("http.request.method", "_OTHER");
            into.string("http.request.method_original", method);
        }
    }
}

/// Writes `error.type`, a status or else `word`, and the status of a failed span.
fn error(into: &mut SpanAttributes<'_>, status: u16, word: &str) {
    if status >= 400 {
        let mut digits = itoa::Buffer::new();
        into.string("error.type", digits.format(status));
    } else {
        into.string("error.type", word);
    }
    into.fail();
}

/// Returns the method if the conventions know it; a method that a client invents must not become a name.
fn known_method(method: &str) -> Option<&'static str> {
    const KNOWN: [&str; 10] = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY",
    ];
    KNOWN.into_iter().find(|known| *known == method)
}

/// Returns the name of a route without the methods that the name of an unnamed route begins with, since the span has the method.
fn without_methods(name: &str) -> &str {
    let is_method = |byte: u8| byte.is_ascii_uppercase() || b",-_".contains(&byte);
    match name.split_once(' ') {
        Some((methods, path)) if methods.bytes().all(is_method) => path,
        _ => name,
    }
}

/// Returns at most `most` bytes of a client's text, as UTF-8.
fn text(sent: &[u8], most: usize) -> Cow<'_, str> {
    String::from_utf8_lossy(sent.get(..most).unwrap_or(sent))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "spans_tests.rs"]
mod tests;
