//! Decides which part of an origin's answer is stored: a complete, shareable answer, without the fields that are for one client.

use std::time::SystemTime;

use http::header::{
    ACCEPT_RANGES, AGE, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, HeaderMap,
    HeaderName, TRANSFER_ENCODING, VARY,
};
use pingora::cache::NoCacheReason;
use pingora::http::ResponseHeader;
use sluicegate_base::clock;

use super::max_object;
use crate::gateway::Context;
use sluicegate_cache::freshness::{
    self, BodyState, CacheAudience, FreshnessLifetime, OriginResponse,
};
use sluicegate_cache::moment;
use sluicegate_cache::stored_head::StoredHead;
use sluicegate_origin::request_failure::Result;
use sluicegate_process::snapshot::ActiveRoute;

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

/// Returns the head under which an answer of the origin to `audience` is stored.
///
/// # Errors
/// The reason for which it may not be stored.
pub(crate) fn storable_head(
    (head, body): (ResponseHeader, BodyState),
    audience: CacheAudience,
    route: &ActiveRoute,
    context: &Context,
) -> std::result::Result<StoredHead, NoCacheReason> {
    let rules = (route.cache.as_ref()).ok_or(NoCacheReason::NeverEnabled)?;
    let given = OriginResponse {
        status: head.status,
        fields: &head.headers,
        body,
    };
    let now = moment(clock::wall());
    let lifetime = freshness::lifetime(&given, audience, (rules, max_object(route, context)), now)?;
    Ok(stored(head, &lifetime, now))
}

/// Updates the stored head. RFC 9111 §3.2: every field of the 304 replaces the stored one, but for those that describe the body,
/// and those that select variants.
pub(crate) fn update(head: &mut ResponseHeader, confirmation: &HeaderMap) -> Result<()> {
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
