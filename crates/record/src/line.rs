//! Writes one outcome as one JSON object on one line: the access log's format.
//!
//! Fields that do not apply are left out, so that a line without `limit` was not refused and one without `origin` was not
//! forwarded. Written by hand into a buffer that already exists: nothing is allocated, and nothing is formatted twice. The
//! fields, their units and types are documented in `docs/operations/logs.md`, which the tests below hold to.
//!
//! # Limits
//!
//! `MAX_TARGET`, `MAX_HOST` and `MAX_METHOD` bound what a client can make a line weigh: with every byte escaped to six,
//! no line exceeds 16 KiB plus the operator's own names, and 3 KiB for each field of `[log] fields`.

use std::time::Duration;

use sluicegate_base::bounds::{FAILURE_REASON, LOGGED_FIELD, LOGGED_KEY_VALUE, LOGGED_SUBJECT};
use sluicegate_base::geo::GeoField;
use sluicegate_base::hex::digits_of_u64;
use sluicegate_decide::client::TlsFacts;
use sluicegate_decide::rejection::{LimitRejection, RejectionReason};
use sluicegate_limiter::{KeyPlacement, Verdict};
use sluicegate_telemetry::escape::{ValueTruncation, escape_cut};
use sluicegate_telemetry::rfc3339::TimeFormatter;

use sluicegate_config::rules::{LogFormat, LogRules, OriginAddress};
use sluicegate_decide::admission::LimitEvent;

use super::line_values::{
    MAX_HOST, MAX_METHOD, MAX_TARGET, address, bare_address, hash, micros, nanos, number, plain,
    text, text_cut, thousandths, whole_seconds, word,
};
use super::outcome::{OriginUse, Outcome};
use super::{combined, crawler_fields};

/// Bytes of an origin's own request id that are logged.
const MAX_ORIGIN_ID: usize = 128;

/// A request that has a line, with the rules for the line.
#[derive(Debug)]
pub(super) struct LogEntry<'a> {
    pub(super) outcome: &'a Outcome<'a>,
    pub(super) rules: &'a LogRules,
    /// Lines of refused requests that were left out before this one.
    pub(super) left_out: u64,
}

/// Appends the line of a request, with its line feed.
pub(super) fn write(into: &mut Vec<u8>, stamp: &mut TimeFormatter, entry: &LogEntry<'_>) {
    match entry.rules.format {
        LogFormat::Json => json(into, stamp, entry),
        LogFormat::Combined => combined::write(into, stamp, entry.outcome),
    }
}

/// Appends the line in JSON, whatever the format of `[log]` is.
pub(super) fn json(into: &mut Vec<u8>, stamp: &mut TimeFormatter, entry: &LogEntry<'_>) {
    let outcome = entry.outcome;
    plain(into, b"{\"time\":\"", stamp.at(outcome.arrived.as_nanos()));
    into.extend_from_slice(b"\",\"id\":\"");
    into.extend_from_slice(outcome.request_id.as_bytes());
    into.push(b'"');
    match outcome.client_text {
        Some(text) => {
            plain(into, b",\"client\":\"", text.as_bytes());
            into.push(b'"');
        }
        None => address(into, b",\"client\":\"", outcome.client),
    }
    place(into, outcome);
    if let Some(status) = outcome.crawler {
        crawler_fields::write(into, status);
    }
    if let Some(trace) = &outcome.trace {
        plain(into, b",\"trace_id\":\"", trace.id().text().as_bytes());
        plain(into, b"\",\"span_id\":\"", &digits_of_u64(trace.span()));
        into.push(b'"');
    }
    // Without a trusted hop in front, the peer is the client.
    let peer = outcome.peer.filter(|_| outcome.peer != outcome.client);
    address(into, b",\"peer\":\"", peer);
    request(into, outcome);
    request_fields(into, entry);
    if let Some(secured) = outcome.secured {
        handshake(into, secured);
    }
    if let Some(route) = outcome.route {
        plain(into, b",\"route\":\"", route.logged_name());
        into.push(b'"');
    }
    word(into, b",\"outcome\":\"", outcome.disposition.as_str());
    if let Some(failure) = outcome.failure() {
        word(into, b",\"failure\":\"", failure);
    }
    if let Some(reason) = outcome.reason {
        text_cut(into, b",\"reason\":\"", reason.as_bytes(), FAILURE_REASON);
    }
    if let Some(list) = outcome.list {
        text(into, b",\"list\":\"", list.as_bytes());
    }
    limit_results(into, outcome);
    if let Some(missing) = outcome.missing_keys.first() {
        text(
            into,
            b",\"missing\":\"",
            missing.source.to_string().as_bytes(),
        );
        word(into, b",\"missing_reason\":\"", missing.why.as_str());
    }
    number(into, b",\"status\":", outcome.status.into());
    number(into, b",\"bytes_in\":", outcome.bytes_received);
    number(into, b",\"bytes_out\":", outcome.bytes_sent);
    thousandths(into, b",\"duration_ms\":", micros(outcome.total));
    thousandths(into, b",\"limits_us\":", nanos(outcome.decision));
    if let Some(cache) = outcome.cache {
        word(into, b",\"cache\":\"", cache.as_str());
    }
    if let Some(origin) = &outcome.origin {
        forwarded(into, origin);
    }
    if let Some(replay) = outcome.replay {
        replay.write(into);
    }
    if entry.left_out > 0 {
        number(into, b",\"left_out\":", entry.left_out);
    }
    into.extend_from_slice(b"}\n");
}

/// Writes what the databases say of the client, as far as the configuration reads it.
fn place(into: &mut Vec<u8>, outcome: &Outcome<'_>) {
    let Some(place) = outcome.place else { return };
    for field in outcome.place_fields {
        let before: &[u8] = match field {
            GeoField::Country => b",\"country\":\"",
            GeoField::City => b",\"city\":\"",
            GeoField::Asn => b",\"asn\":\"",
        };
        text(into, before, place.text(*field).as_bytes());
    }
}

/// Writes the request line, as sent.
fn request(into: &mut Vec<u8>, outcome: &Outcome<'_>) {
    text_cut(into, b",\"method\":\"", outcome.method, MAX_METHOD);
    if !outcome.host.is_empty() {
        text_cut(into, b",\"host\":\"", outcome.host, MAX_HOST);
    }
    if text_cut(into, b",\"target\":\"", outcome.target, MAX_TARGET) == ValueTruncation::Short {
        number(into, b",\"target_bytes\":", outcome.target.len() as u64);
    }
    word(into, b",\"protocol\":\"", outcome.protocol);
}

/// Writes the request fields of `[log] fields`.
fn request_fields(into: &mut Vec<u8>, entry: &LogEntry<'_>) {
    let Some(fields) = entry.outcome.fields else {
        return;
    };
    let mut before: &[u8] = b",\"fields\":{\"";
    for name in &entry.rules.fields {
        let mut lines = fields.get_all(name);
        let Some(first) = lines.next() else { continue };
        plain(into, before, name.as_str().as_bytes());
        into.extend_from_slice(b"\":\"");
        let mut left = LOGGED_FIELD.saturating_sub(first.len());
        escape_cut(into, first.as_bytes(), LOGGED_FIELD);
        // RFC 9110 §5.3: lines of one name are one list.
        for line in lines {
            if left == 0 {
                break;
            }
            into.extend_from_slice(b", ");
            escape_cut(into, line.as_bytes(), left);
            left = left.saturating_sub(line.len() + 2);
        }
        into.push(b'"');
        before = b",\"";
    }
    if before == b",\"" {
        into.push(b'}');
    }
}

/// Writes the facts of the connection's TLS handshake.
fn handshake(into: &mut Vec<u8>, secured: &TlsFacts) {
    text(into, b",\"tls\":\"", secured.version.as_bytes());
    text(into, b",\"tls_cipher\":\"", secured.cipher.as_bytes());
    if let Some(name) = &secured.server_name {
        text(into, b",\"sni\":\"", name.as_bytes());
    }
    if let Some(fingerprint) = &secured.ja4 {
        text(into, b",\"ja4\":\"", fingerprint.as_bytes());
    }
    let Some(certificate) = &secured.certificate else {
        return;
    };
    if let Some(subject) = &certificate.subject {
        text_cut(
            into,
            b",\"tls_client\":\"",
            subject.as_bytes(),
            LOGGED_SUBJECT,
        );
    }
    let fingerprint = certificate.fingerprint.as_bytes();
    text(into, b",\"tls_client_fingerprint\":\"", fingerprint);
}

/// Writes the results of the limits.
fn limit_results(into: &mut Vec<u8>, outcome: &Outcome<'_>) {
    if outcome.hits != 1 {
        number(into, b",\"hits\":", outcome.hits.into());
    }
    if let Some(limit) = outcome.refused_by_name() {
        word(into, b",\"limit\":\"", limit);
    }
    key(into, outcome);
    if let Some(remaining) = outcome.verdict.and_then(Verdict::remaining) {
        number(into, b",\"remaining\":", remaining.into());
    }
    if let Some(wait) = outcome.wait() {
        number(into, b",\"retry_after\":", whole_seconds(wait));
    }
    if let Some(rejection) = outcome.rejection {
        reason(into, &rejection);
    }
    let delay = outcome.verdict.map_or(Duration::ZERO, Verdict::delay);
    if !delay.is_zero() {
        thousandths(into, b",\"delay_ms\":", micros(delay));
    }
    if !outcome.counts_by_own_slots() {
        let overflow = outcome.counted(KeyPlacement::Overflow);
        counted(into, b",\"overflow\":[\"", overflow);
        let over_share = outcome.counted(KeyPlacement::OverShare);
        counted(into, b",\"over_share\":[\"", over_share);
    }
    tiers(into, outcome);
    notes(into, outcome);
}

/// Writes the key by which the limit that rejected counts.
fn key(into: &mut Vec<u8>, outcome: &Outcome<'_>) {
    if let Some(key) = outcome.key() {
        hash(into, b",\"key\":\"", key);
    }
    let mut before: &[u8] = b",\"key_values\":[\"";
    for value in outcome.key_values {
        text_cut(into, before, value.as_bytes(), LOGGED_KEY_VALUE);
        before = b",\"";
    }
    if !outcome.key_values.is_empty() {
        into.push(b']');
    }
}

/// Writes the names of limits, under a name that ends in a bracket and a quotation mark; nothing where there are none.
fn counted<'o>(into: &mut Vec<u8>, name: &'o [u8], limits: impl Iterator<Item = &'o str>) {
    let mut before = name;
    for limit in limits {
        text(into, before, limit.as_bytes());
        before = b",\"";
    }
    if before == b",\"" {
        into.push(b']');
    }
}

/// Writes the tiers that the request names, by limit.
fn tiers(into: &mut Vec<u8>, outcome: &Outcome<'_>) {
    let mut before: &[u8] = b",\"tier\":{\"";
    for (limit, tier) in outcome.tiers() {
        text(into, before, limit.as_bytes());
        text(into, b":\"", tier.as_bytes());
        before = b",\"";
    }
    if before == b",\"" {
        into.push(b'}');
    }
}

/// Writes the details of a rejection beside limit and wait.
fn reason(into: &mut Vec<u8>, rejection: &LimitRejection) {
    match &rejection.reason {
        RejectionReason::Banned(banned) | RejectionReason::BanStarted(banned) => {
            number(into, b",\"ban_level\":", banned.level.into());
            hash(into, b",\"ban_key\":\"", rejection.key);
        }
        RejectionReason::Concurrency(full) => {
            number(into, b",\"in_flight\":", full.in_flight.permits.into());
        }
        RejectionReason::RateLimited(_)
        | RejectionReason::Challenged(_)
        | RejectionReason::StoreUnavailable => {}
    }
}

/// Writes the events of limits: those of one kind under one name, so that a line has each name at most once.
fn notes(into: &mut Vec<u8>, outcome: &Outcome<'_>) {
    if outcome
        .details
        .is_none_or(|details| details.notes.is_empty())
    {
        return;
    }
    for (before, event) in [
        (&b",\"active\":["[..], LimitEvent::Active),
        (b",\"marked\":[", LimitEvent::Marked),
        (b",\"challenge_passed\":[", LimitEvent::ChallengePassed),
        (b",\"challenge_failed\":[", LimitEvent::ChallengeFailed),
        (b",\"unlimited\":[", LimitEvent::Unlimited),
        (b",\"blocked\":[", LimitEvent::Blocked),
        (b",\"shadow_refused\":[", LimitEvent::ShadowRefused),
        (
            b",\"shadow_rates_refused\":[",
            LimitEvent::ShadowRatesRefused,
        ),
        (b",\"refunded\":[", LimitEvent::Released),
        (b",\"cost_malformed\":[", LimitEvent::CostMalformed),
        (b",\"cost_missing\":[", LimitEvent::CostMissing),
    ] {
        list(into, before, outcome, event);
    }
    units(into, b",\"cost\":{\"", outcome, |event| match event {
        LimitEvent::Cost(units) => Some(units),
        _ => None,
    });
    units(
        into,
        b",\"over_reserve\":{\"",
        outcome,
        |event| match event {
            LimitEvent::OverReserve(units) => Some(units),
            _ => None,
        },
    );
    let mut before: &[u8] = b",\"decided_by\":{\"";
    for (_, limit, event) in outcome.notes() {
        if let LimitEvent::Decided(decider) = event {
            text(into, before, limit.as_bytes());
            word(into, b":\"", decider.as_str());
            before = b",\"";
        }
    }
    if before == b",\"" {
        into.push(b'}');
    }
}

/// Returns the names of the limits with this event.
fn list(into: &mut Vec<u8>, before: &[u8], outcome: &Outcome<'_>, what: LimitEvent) {
    let mut limits = outcome.notes().filter(|(_, _, event)| *event == what);
    let Some((_, first, _)) = limits.next() else {
        return;
    };
    into.extend_from_slice(before);
    text(into, b"\"", first.as_bytes());
    for (_, limit, _) in limits {
        text(into, b",\"", limit.as_bytes());
    }
    into.push(b']');
}

/// Writes the units of the events that `units_of` selects, by the names of their limits; nothing where there is none.
fn units(
    into: &mut Vec<u8>,
    mut before: &[u8],
    outcome: &Outcome<'_>,
    units_of: impl Fn(LimitEvent) -> Option<u32>,
) {
    const NEXT: &[u8] = b",\"";
    for (_, limit, event) in outcome.notes() {
        if let Some(units) = units_of(event) {
            text(into, before, limit.as_bytes());
            number(into, b":", units.into());
            before = NEXT;
        }
    }
    if before == NEXT {
        into.push(b'}');
    }
}

fn forwarded(into: &mut Vec<u8>, origin: &OriginUse<'_>) {
    word(into, b",\"origin\":\"", origin.name);
    match origin.server {
        OriginAddress::Tcp(server) => {
            into.extend_from_slice(b",\"origin_addr\":\"");
            bare_address(into, server.ip());
            number(into, b":", server.port().into());
            into.push(b'"');
        }
        OriginAddress::Unix(path) => {
            let before = b",\"origin_addr\":\"unix:";
            text(into, before, path.as_str().as_bytes());
        }
    }
    number(into, b",\"attempts\":", origin.attempts.into());
    if let Some(wait) = origin.wait {
        thousandths(into, b",\"origin_ttfb_ms\":", micros(wait));
    }
    if let Some(id) = origin.request_id {
        text_cut(into, b",\"origin_id\":\"", id.as_bytes(), MAX_ORIGIN_ID);
    }
    if origin.has_large_trailer {
        word(into, b",\"origin_trailer\":\"", "too-large");
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
pub(super) mod tests;
