//! Decides which requests are looked up in the cache, under which key, and which answers are stored. [`super::serve`] leads a request
//! through the cache.
//!
//! The limits come first: a rejected request never gets here, so a stored answer does not bypass a limit. The cache stores the
//! origin's answer unchanged; request id and RateLimit fields are added to each client's copy afterwards, as for any answer.

mod stored;

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use http::header::{
    CONTENT_LENGTH, EXPECT, HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, IF_UNMODIFIED_SINCE, RANGE, TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, StatusCode};
use pingora::cache::CacheKey;
use sluicegate_base::clock;
use sluicegate_base::proxy_fields::{OVERRIDES, X_FORWARDED_PROTO};
use sluicegate_base::received::ReceivedHead;

use sluicegate_decide::client::fields_about_url;
use sluicegate_decide::outcome::RequestDisposition;
use sluicegate_decide::own_failure::OwnFailure;
use sluicegate_decide::response::GatewayProblem;
use sluicegate_decide::url_scheme::UrlScheme;
pub(super) use stored::{storable_head, update};

use super::Gateway;
use super::answer::{self, OwnAnswer};
use super::cause::Cause;
use super::context::Context;
use sluicegate_cache::freshness::{self};
use sluicegate_cache::key::{CacheUrl, key};
use sluicegate_cache::moment;
use sluicegate_cache::request_directives::{FreshnessLeft, StoredAge};
use sluicegate_config::rules::RouteCacheRules;
use sluicegate_decide::admission::ResponseSource;
use sluicegate_decide::request_head::RequestHead;
use sluicegate_process::snapshot::ActiveRoute;

/// The field by which some origins override the scheme of a request.
const X_FORWARDED_SCHEME: HeaderName = HeaderName::from_static("x-forwarded-scheme");

/// Fields by which a client asks for less than the whole answer.
pub(super) const CONDITIONS: [HeaderName; 6] = [
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_RANGE,
    IF_UNMODIFIED_SINCE,
    RANGE,
];

impl Gateway {
    /// Counts a refresh request that has ended.
    pub(super) fn note_refresh(&self) {
        let tally = &self.0.cache.storage.stats.refreshed;
        // Relaxed, here and below: counts for the scrape.
        tally.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that waited for another to fill the cache.
    pub(super) fn note_wait(&self) {
        let tally = &self.0.cache.storage.stats.waited;
        tally.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes the stored answers of a URL after a successful unsafe method: RFC 9111 §4.4.
    pub(super) fn invalidate(&self, request: &ReceivedHead, status: StatusCode, context: &Context) {
        let wrote = !request.method.is_safe() && (status.is_success() || status.is_redirection());
        if wrote && context.snapshot.stores {
            with_url(request, context, |url| {
                self.0.cache.storage.invalidate(&url.text());
            });
        }
    }
}

/// Returns whether an answer to this request may be shared at all, as far as its head says. Many frameworks read the body of a
/// GET, which no cache key contains; over HTTP/2 no field announces a body.
pub(super) fn is_storable(head: &ReceivedHead) -> bool {
    let fields = &head.headers;
    let has_body = fields.contains_key(TRANSFER_ENCODING)
        || fields
            .get(CONTENT_LENGTH)
            .is_some_and(|length| length != "0");
    (head.method == Method::GET || head.method == Method::HEAD)
        && !has_body
        && !fields.contains_key(UPGRADE)
        && !fields.contains_key(EXPECT)
        && !RequestHead::from(head).host().is_empty()
        // The cache key does not contain these fields, so a request that has any is neither looked up nor stored.
        && !fields.contains_key(X_FORWARDED_SCHEME)
        && !fields.iter().any(|(name, _)| OVERRIDES.contains(&name.as_str()))
}

/// Returns the cache key of a request of this route, whose cache has these rules.
pub(super) fn key_of(
    head: &ReceivedHead,
    (route, rules): (&ActiveRoute, &RouteCacheRules),
    context: &Context,
) -> CacheKey {
    let fields = &*(context.snapshot.compiled.challenge_cookies).site_fields(&head.headers);
    // Untrusted clients' fields of these names were removed, so only trusted proxies can set them; the origin may write them
    // into its links.
    let url_fields = fields_about_url(fields);
    let names = rules.vary_on.iter().chain(&url_fields);
    let name = route.metrics.name();
    let text = with_url(head, context, |url| key(url, name, fields, names));
    CacheKey::new(text, "")
}

fn with_url<T>(
    head: &ReceivedHead,
    context: &Context,
    use_url: impl FnOnce(&CacheUrl<'_>) -> T,
) -> T {
    let request = RequestHead::from(head);
    let scheme = match head.headers.get(X_FORWARDED_PROTO) {
        Some(scheme) if scheme == "https" => UrlScheme::Https,
        Some(_) => UrlScheme::Http,
        None => context.scheme(),
    };
    use_url(&CacheUrl {
        scheme,
        authority: request.host(),
        target: request.target,
    })
}

/// Returns the age of a stored answer with these fields, which had age 0 at the first time and is fresh until the second.
pub(super) fn age_of(
    (born, fresh_until): (SystemTime, SystemTime),
    fields: &HeaderMap,
) -> StoredAge {
    let now = moment(clock::wall());
    StoredAge {
        age: now.duration_since(born).unwrap_or_default(),
        freshness: match fresh_until.duration_since(now) {
            Ok(left) => FreshnessLeft::Left(left),
            Err(over) => FreshnessLeft::Over(over.duration()),
        },
        may_be_stale: freshness::may_be_stale(fields),
    }
}

/// Returns whether a stale answer may take the place of one with this status: RFC 5861 §4 lists these.
pub(super) fn is_failure(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}

pub(super) fn max_object(route: &ActiveRoute, context: &Context) -> usize {
    let usual = context.snapshot.compiled.rules.cache.largest_object();
    (route.cache.as_ref())
        .and_then(|rules| rules.max_object_bytes)
        .unwrap_or(usual)
}

/// Settles an `only-if-cached` request whose answer is not stored, and returns the 504 for it.
pub(super) fn not_stored(request: &ReceivedHead, context: &mut Context) -> OwnAnswer {
    let status = StatusCode::GATEWAY_TIMEOUT;
    context.settle_as(ResponseSource::Cache, status, &HeaderMap::new());
    context.disposition = Some(RequestDisposition::Rejected);
    context.cause = Some(Cause::of_problem(GatewayProblem::Own(
        OwnFailure::NotStored,
    )));
    answer::problem(request, context, GatewayProblem::Own(OwnFailure::NotStored))
}
