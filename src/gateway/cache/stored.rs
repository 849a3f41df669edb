//! Decides which part of an origin's answer is stored: a complete, shareable answer, without the fields that are for one client.

use std::time::SystemTime;

use http::header::{
    ACCEPT_RANGES, AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, HeaderMap,
    HeaderName, TRANSFER_ENCODING, VARY,
};
use http::{StatusCode, Version};
use pingora::Result;
use pingora::cache::{CachePhase, NoCacheReason, RespCacheable};
use pingora::http::ResponseHeader;
use pingora::proxy::Session;
use sluicegate_base::clock;

use super::{Lookup, max_object, rules};
use crate::cache::freshness::{self, BodyState, CacheAudience, FreshnessLifetime, OriginResponse};
use crate::cache::moment;
use crate::cache::stored_head::StoredHead;
use crate::gateway::Context;

/// Fields that are for one client or one connection: RFC 9111 §3.1, and those that the gateway adds for each client.
const SAID_TO_ONE: [&str; 10] = [
    "connection",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "ratelimit",
    "ratelimit-policy",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-request-id",
];

/// Keeps the fields of a 304 of the origin that confirms the stored answer. Returns whether it does.
pub(in crate::gateway) fn notice_confirmation(
    session: &Session,
    response: &ResponseHeader,
    context: &mut Context,
) -> bool {
    let confirms = response.status == StatusCode::NOT_MODIFIED
        && session.cache.enabled()
        && session.cache.maybe_cache_meta().is_some();
    if confirms && let Some(dealings) = &mut context.cache {
        dealings.confirmation = Some(response.headers.clone());
    }
    confirms
}

/// Decides whether the origin's answer is stored, and with which head.
pub(in crate::gateway) fn judge_answer(
    session: &Session,
    response: &ResponseHeader,
    context: &mut Context,
) -> Result<RespCacheable> {
    let Some(dealings) = &mut context.cache else {
        return Ok(RespCacheable::Uncacheable(NoCacheReason::NeverEnabled));
    };
    if session.cache.bypassing() {
        dealings.lookup = Lookup::Skipped;
    }
    let asker = dealings.asker;
    let mut head = response.clone();
    let has_end = head.version == Version::HTTP_2 || head.headers.contains_key(TRANSFER_ENCODING);
    let body = match dealings.confirmation.take() {
        Some(fields) => {
            update(&mut head, &fields)?;
            BodyState::Stored
        }
        None if has_end => BodyState::Delimited,
        None => BodyState::UntilClose,
    };
    if session.is_upgrade_req() {
        return Ok(RespCacheable::Uncacheable(NoCacheReason::Custom("upgrade")));
    }
    Ok(match storable_head(head, body, asker, context) {
        Ok(head) => RespCacheable::Cacheable(head.meta()),
        Err(reason) => RespCacheable::Uncacheable(reason),
    })
}

/// Returns the head under which an answer of the origin to the audience `asker` is stored.
///
/// # Errors
/// The reason for which it may not be stored.
pub(in crate::gateway) fn storable_head(
    head: ResponseHeader,
    body: BodyState,
    asker: CacheAudience,
    context: &Context,
) -> std::result::Result<StoredHead, NoCacheReason> {
    let rules = rules(context).ok_or(NoCacheReason::NeverEnabled)?;
    let given = OriginResponse {
        status: head.status,
        fields: &head.headers,
        body,
    };
    let now = moment(clock::wall());
    let lifetime = freshness::lifetime(&given, asker, (rules, max_object(context)), now)?;
    Ok(stored(head, &lifetime, now))
}

/// Updates the stored head. RFC 9111 §3.2: every field of the 304 replaces the stored one, but for those that describe the body,
/// and those that select variants.
pub(in crate::gateway) fn update(
    head: &mut ResponseHeader,
    confirmation: &HeaderMap,
) -> Result<()> {
    const KEPT: [HeaderName; 5] = [
        CONTENT_LENGTH,
        CONTENT_ENCODING,
        CONTENT_RANGE,
        TRANSFER_ENCODING,
        VARY,
    ];
    head.remove_header(&AGE);
    for name in confirmation.keys().filter(|name| !KEPT.contains(name)) {
        head.remove_header(name);
        for value in confirmation.get_all(name) {
            head.append_header(name, value)?;
        }
    }
    Ok(())
}

/// Returns the stored form of an answer, without fields for one client or one connection.
fn stored(mut head: ResponseHeader, lifetime: &FreshnessLifetime, now: SystemTime) -> StoredHead {
    for name in freshness::set_aside(&head.headers) {
        head.remove_header(&name);
    }
    for name in SAID_TO_ONE {
        head.remove_header(name);
    }
    // The age of a hit is computed from the time at which the answer was created.
    for name in [AGE, ACCEPT_RANGES] {
        head.remove_header(&name);
    }
    if !head.headers.contains_key(DATE) {
        // RFC 9110 §6.6.1: a recipient with a clock adds it. A date is a valid value.
        let _ = head.insert_header(DATE, httpdate::fmt_http_date(now));
    }
    StoredHead::new(head, lifetime, now)
}

/// Stops storing a body that exceeds the maximum size; requests that wait for it then go to the origin themselves.
pub(in crate::gateway) fn watch_size(session: &mut Session, bytes: usize, context: &mut Context) {
    if context.cache.is_none() {
        return;
    }
    let max_object = max_object(context);
    let Some(dealings) = &mut context.cache else {
        return;
    };
    let fills = matches!(
        session.cache.phase(),
        CachePhase::Miss | CachePhase::Expired
    );
    dealings.passed = dealings.passed.saturating_add(bytes);
    if fills && dealings.passed > max_object {
        let reason = NoCacheReason::ResponseTooLarge;
        session.cache.response_became_uncacheable(reason);
        session.cache.disable(reason);
    }
}
