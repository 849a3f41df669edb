//! Writes the spans of an outcome: the gateway's own, and that of its request to the origin.
//!
//! Names follow OpenTelemetry's conventions ([`super::conventions`]), so that tools for them work; attributes that they lack are
//! called `sluicegate.*`, by the words of the access log. Queries are left out: they hold secrets, and collectors are read by many.
//!
//! # Limits
//! Texts of clients are cut as in the log, so a span has at most some kilobytes.

use std::time::Duration;

use sluicegate_base::address::address_text;
use sluicegate_base::clock;
use sluicegate_decide::outcome::RequestDisposition;
use sluicegate_limiter::Timestamp;
use sluicegate_telemetry::otlp::{ExportQueue, SpanAttributes, SpanHead, SpanKind, write_span};

use super::conventions::{self, known_method, text, without_methods};
use super::line_values::MAX_METHOD;
use super::outcome::{OriginUse, Outcome};
use super::trace::TraceContext;
use sluicegate_config::rules::OriginAddress;

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
        conventions::request(attributes, outcome);
        conventions::response(attributes, outcome);
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
        conventions::method(attributes, &sent);
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

/// Writes the attributes of the outcome.
fn result(into: &mut SpanAttributes<'_>, outcome: &Outcome<'_>) {
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

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "spans_tests.rs"]
mod tests;
