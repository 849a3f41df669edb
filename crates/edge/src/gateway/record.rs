//! Implements stage 7: makes one [`Outcome`] of the facts that the stages found about a request.

use std::time::Duration;

use http::StatusCode;
use sluicegate_base::clock;
use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::outcome::{CacheUse, RequestDisposition};

use super::Gateway;
use super::body::BodyPrefix;
use super::context::Context;
use super::decide;
use sluicegate_config::rules::LoggedKeys;
use sluicegate_decide::admission::{RejectedKey, key_values, record_keys, record_reserves};
use sluicegate_decide::locate::{LocatedRequest, NormalForms};
use sluicegate_decide::rejection::{LimitRejection, Rejection};
use sluicegate_decide::request_head::RequestHead;
use sluicegate_record::{OriginUse, Outcome, ReplayFacts};

/// The response that the client got, for the record.
pub(super) struct ClientResponse<'a> {
    /// Its status; `None` where no final head was written.
    pub(super) status: Option<StatusCode>,
    /// Bytes of its body.
    pub(super) body_bytes: u64,
    /// The use of the cache.
    pub(super) cache: Option<CacheUse>,
    /// The use of the origin; `None` where no attempt had a server.
    pub(super) origin: Option<OriginUse<'a>>,
}

/// The words of a request line that a record has.
#[derive(Clone, Copy)]
pub(super) struct RequestWords<'a> {
    pub(super) method: &'a [u8],
    pub(super) target: &'a [u8],
}

impl Gateway {
    /// Records a request that has ended.
    pub(super) fn record(
        &self,
        head: &ReceivedHead,
        response: &ClientResponse<'_>,
        context: &Context,
    ) {
        let words = RequestWords {
            method: head.method.as_str().as_bytes(),
            target: RequestHead::from(head).target.as_bytes(),
        };
        self.record_as(words, head, response, context);
    }

    /// Records a request that has ended, with the first words of its head as they were sent.
    pub(super) fn record_as(
        &self,
        words: RequestWords<'_>,
        head: &ReceivedHead,
        response: &ClientResponse<'_>,
        context: &Context,
    ) {
        let request = RequestHead::from(head);
        let rejection = match context.rejection() {
            Some(Rejection::ByLimit(by)) => Some(*by),
            Some(Rejection::KeyBlocked | Rejection::KeyMissing) | None => None,
        };
        let located = context.located.as_ref();
        let report = context.report();
        let key_values = rejection.map_or_else(Vec::new, |by| {
            values(request, context, usize::from(by.limit))
        });
        let is_replayed = context.snapshot.compiled.rules.log.replay;
        let again = is_replayed.then(|| located_again(request, context));
        if let Some(by) = &rejection {
            note_rejection(by, &key_values, context);
        }
        let replay = again.flatten().map(|located| {
            let facts = located.facts(BodyPrefix::known(context.body.as_ref()), context.decided_at);
            ReplayFacts {
                decided: context.decided_at,
                keys: record_keys(&located.route.limits, &facts, &self.0.seed),
                reserves: record_reserves(&located.route.limits, &facts),
            }
        });
        self.0.record(&Outcome {
            replay: replay.as_ref(),
            trace: context.trace,
            client: context.client.map(|(address, _)| address),
            place: context.known.place.as_ref(),
            crawler: context.known.crawler.as_ref(),
            place_fields: context.snapshot.compiled.geo.fields(),
            client_places: context.snapshot.client_places.as_ref(),
            client_text: context.client_text(),
            peer: context.peer.as_ref().map(|peer| peer.socket().ip()),
            secured: context.secured.as_deref(),
            method: words.method,
            host: without_port(request.host_bytes()),
            target: words.target,
            fields: Some(&head.headers),
            route: context.route().map(|route| &route.metrics),
            hits: context.hits,
            verdict: report.map(|report| &report.verdict),
            details: report.and_then(|report| report.details.as_deref()),
            list: located
                .and_then(|located| located.list())
                .map(|name| &**name),
            missing_keys: &context.missing_keys.0,
            rejection,
            key_values: &key_values,
            disposition: context.disposition.unwrap_or(RequestDisposition::Internal),
            status: response.status.map_or(0, |status| status.as_u16()),
            bytes_received: context.received,
            bytes_sent: response.body_bytes,
            total: clock::since(context.arrived),
            decision: (context.decision.as_ref())
                .map_or(Duration::ZERO, |decision| decision.duration),
            cache: response.cache,
            origin: response.origin,
            failure: context.cause.as_ref().and_then(|cause| cause.failure),
            reason: context.cause.as_ref().map(|cause| &*cause.reason),
            ..Outcome::unhandled(context.arrived, context.request_id, protocol(head.version))
        });
    }
}

/// Returns the key values of the limit that rejected the request, where the log shows them.
fn values(head: RequestHead<'_>, context: &Context, limit: usize) -> Vec<String> {
    let shown = context.snapshot.compiled.rules.log.keys;
    if shown == LoggedKeys::Hash {
        return Vec::new();
    }
    let Some(located) = located_again(head, context) else {
        return Vec::new();
    };
    let facts = || located.facts(BodyPrefix::known(context.body.as_ref()), context.decided_at);
    key_values(located.limits().get(limit), facts, shown)
}

/// Notes the key of a rejected request for operators.
fn note_rejection(by: &LimitRejection, key_values: &[String], context: &Context) {
    let located = context.located.as_ref();
    let limits = located.map(|located| &located.route.limits);
    if let Some(limit) = limits.and_then(|limits| limits.get(usize::from(by.limit))) {
        let (client, _) = context.client_or_unspecified();
        let key = RejectedKey {
            values: key_values,
            missing: &context.missing_keys,
            client,
        };
        limit.note_rejection(by, &key);
    }
}

/// Returns the located request, for what few logs have; `None` where it has no route.
fn located_again<'a>(head: RequestHead<'a>, context: &'a Context) -> Option<LocatedRequest<'a>> {
    let route = context.located.as_ref()?;
    let forms = NormalForms::parse(&head).ok()?;
    let snapshot = &context.snapshot;
    let secured = context.secured.as_deref();
    Some(decide::located_again(
        route, forms, snapshot, secured, head, context,
    ))
}

/// Returns `a.test:80` and `[::1]:80` without their port.
fn without_port(host: &[u8]) -> &[u8] {
    // Hosts are short.
    match (host.iter()).rposition(|byte| matches!(byte, b':' | b']')) {
        Some(colon) if host[colon] == b':' => &host[..colon],
        _ => host,
    }
}

fn protocol(version: http::Version) -> &'static str {
    match version {
        http::Version::HTTP_3 => "HTTP/3",
        http::Version::HTTP_2 => "HTTP/2",
        http::Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}
