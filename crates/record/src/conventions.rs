//! Writes the attributes that spans and log records of a request share: those of OpenTelemetry's conventions for HTTP (v1.37).
//!
//! # Limits
//! Texts of clients are cut as in the access log.

use std::borrow::Cow;

use sluicegate_base::address::address_text;
use sluicegate_telemetry::otlp::AttributeWriter;

use super::line_values::{MAX_HOST, MAX_METHOD, MAX_TARGET};
use super::outcome::Outcome;

/// Writes the attributes of the request and of its client.
pub(super) fn request(into: &mut AttributeWriter<'_>, outcome: &Outcome<'_>) {
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

/// Writes the attributes of the response, and of the bodies.
pub(super) fn response(into: &mut AttributeWriter<'_>, outcome: &Outcome<'_>) {
    if outcome.status != 0 {
        into.number("http.response.status_code", outcome.status.into());
    }
    into.number("http.request.body.size", outcome.bytes_received);
    into.number("http.response.body.size", outcome.bytes_sent);
}

/// Writes the attributes of a method.
pub(super) fn method(into: &mut AttributeWriter<'_>, method: &str) {
    match known_method(method) {
        Some(known) => into.string("http.request.method", known),
        None => {
            into.string("http.request.method", "_OTHER");
            into.string("http.request.method_original", method);
        }
    }
}

/// Returns the method if the conventions know it; a method that a client invents must not become a name.
pub(super) fn known_method(method: &str) -> Option<&'static str> {
    const KNOWN: [&str; 10] = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY",
    ];
    KNOWN.into_iter().find(|known| *known == method)
}

/// Returns the name of a route without the methods that the name of an unnamed route begins with, since the span has the method.
pub(super) fn without_methods(name: &str) -> &str {
    let is_method = |byte: u8| byte.is_ascii_uppercase() || b",-_".contains(&byte);
    match name.split_once(' ') {
        Some((methods, path)) if methods.bytes().all(is_method) => path,
        _ => name,
    }
}

/// Returns at most `most` bytes of a client's text, as UTF-8.
pub(super) fn text(sent: &[u8], most: usize) -> Cow<'_, str> {
    String::from_utf8_lossy(sent.get(..most).unwrap_or(sent))
}
