//! Leads a request through Pingora's cache: lookup, key, freshness, and the conditions under which a stored answer is served. The gateway's
//! own path ([`super::direct`]) shares the policies: which requests are looked up and under which key, and which answers are stored.
//!
//! The limits come first: a rejected request never gets here, so a stored answer does not bypass a limit. The cache stores the
//! origin's answer unchanged; request id and RateLimit fields are added to each client's copy afterwards, as for any answer.
//!
//! While a stale answer is served, the gateway sends a request of its own to refresh it, which Pingora takes through the same
//! phases. Such a request is not counted by any limit, since no client sent it, and is not recorded.

mod cache_status;
mod stored;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use http::header::{
    CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, IF_MATCH, IF_MODIFIED_SINCE,
    IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE, TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, StatusCode, Version};
use pingora::cache::{
    CacheKey, CacheMeta, CacheOptionOverrides, CachePhase, ForcedFreshness, NoCacheReason,
};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::proxy::{RangeType, Session, range_header_filter};
use pingora::{Error, ErrorType, Result};
use sluicegate_base::bounds;
use sluicegate_base::clock;
use sluicegate_base::proxy_fields::{OVERRIDES, X_FORWARDED_PROTO};

pub(super) use cache_status::{cache_use, write_status};
pub(super) use stored::{judge_answer, notice_confirmation, storable_head, update, watch_size};

use super::Gateway;
use super::answer::{self, OwnAnswer};
use super::cause::Cause;
use super::context::{Context, RequestRoute};
use super::decision::{ForwardedRequest, RequestDecision};
use super::error::{ProxyFault, error_for};
use super::locate::{RequestHead, locate};
use crate::admission::{Admitted, ResponseSource};
use crate::cache::freshness::{self, CacheAudience};
use crate::cache::key::{CacheUrl, key};
use crate::cache::request_directives::{FreshnessLeft, RequestCacheControl, StoredAge, StoredUse};
use crate::cache::{ResponseCache, moment, vary};
use crate::client::{ConnectionPeer, told_about_url};
use crate::config::rules::RouteCacheRules;
use crate::record::RequestDisposition;
use crate::response::GatewayProblem;
use crate::snapshot::ActiveAction;
use crate::tls::secured;
use crate::url_scheme::UrlScheme;

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

/// The state of the cache for one request.
#[derive(Debug)]
pub(super) struct RequestCacheState {
    asker: CacheAudience,
    wish: RequestCacheControl,
    lookup: Lookup,
    head: HeadVersion,
    /// Bytes of the origin's body so far.
    passed: usize,
    /// The fields of the 304 by which the origin confirmed the stored answer.
    confirmation: Option<HeaderMap>,
}

/// The reason for which the cache was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookup {
    /// The cache was read, or is not used for this request.
    Usual,
    /// The cache was skipped, since the last answer of this URL could not be stored.
    Skipped,
}

/// The form of the request's head at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadVersion {
    AsSent,
    /// Rewritten as HTTP/1.1, until Pingora has copied it for the refresh.
    Translated,
}

/// Returns whether the request is one by which the gateway refreshes a stale answer.
pub(super) fn is_refresh(session: &Session) -> bool {
    session.is_subrequest()
}

impl Gateway {
    /// Locates the route of a refresh request, which no limit counts. Returns whether no such route forwards it any more.
    pub(super) fn refresh(&self, session: &mut Session, context: &mut Context) -> bool {
        ask_for_whole(session.req_header_mut());
        let peer = session
            .client_addr()
            .and_then(|address| address.as_inet())
            .copied();
        context.peer = peer;
        let snapshot = Arc::clone(&context.snapshot);
        let head = RequestHead::from(session.req_header());
        let secured = secured(session.digest());
        context.secured = secured.cloned();
        let peer = ConnectionPeer {
            address: context.peer_address(),
            secured: secured.map(|secured| &**secured),
        };
        let Ok(located) = locate(&snapshot, peer, &head) else {
            return true;
        };
        context.client = Some((located.client.address, located.client.source));
        let ActiveAction::Forward(pool) = &located.route.action else {
            return true;
        };
        context.located = Some(RequestRoute::from(&located));
        let pool = Arc::clone(pool);
        let request = ForwardedRequest::new(Admitted::exempt(), pool, context.decided_at);
        context.decision = Some(RequestDecision::exempt(request));
        false
    }

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
    pub(super) fn invalidate(
        &self,
        request: &RequestHeader,
        status: StatusCode,
        context: &Context,
    ) {
        let wrote = !request.method.is_safe() && (status.is_success() || status.is_redirection());
        if wrote && context.snapshot.stores {
            with_url(request, context, |url| {
                self.0.cache.storage.invalidate(&url.text());
            });
        }
    }
}

/// Enables Pingora's cache lookup, where the route and the request allow it.
pub(super) fn allow(
    session: &mut Session,
    context: &mut Context,
    cache: &'static ResponseCache,
) -> Result<()> {
    let Some(rules) = &context.located()?.route.cache else {
        return Ok(());
    };
    let refresh = is_refresh(session);
    // A refresh request has no body, though one of HTTP/2 may read as if it had.
    let has_body = !refresh && !session.is_body_empty();
    let head = session.req_header();
    let dealings = RequestCacheState {
        asker: CacheAudience::of(&head.headers, rules.cookies),
        wish: if refresh {
            RequestCacheControl::default()
        } else {
            RequestCacheControl::of(&head.headers, rules.ignore_client_no_cache)
        },
        lookup: Lookup::Usual,
        head: HeadVersion::AsSent,
        passed: 0,
        confirmation: None,
    };
    let looks = !has_body && is_storable(head) && !dealings.wish.forbids_storing();
    let asker = dealings.asker;
    context.cache = Some(Box::new(dealings));
    if !looks {
        return Ok(());
    }
    let mut overrides = CacheOptionOverrides::default();
    overrides.wait_timeout = Some(bounds::FILL_PATIENCE);
    session.cache.enable(
        &cache.storage,
        // The storage evicts by itself.
        None,
        Some(cache.predictor(asker)),
        Some(cache.lock()),
        Some(overrides),
    );
    Ok(())
}

/// Returns whether an answer to this request may be shared at all, as far as its head says. Many frameworks read the body of a
/// GET, which no cache key contains; over HTTP/2 no field announces a body.
pub(super) fn is_storable(head: &RequestHeader) -> bool {
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
        && OVERRIDES.iter().all(|name| !fields.contains_key(*name))
}

/// Returns the cache key of the request.
pub(super) fn key_of(head: &RequestHeader, context: &Context) -> Result<CacheKey> {
    let route = &context.located()?.route;
    let Some(rules) = &route.cache else {
        return Err(error_for(GatewayProblem::Internal));
    };
    let fields = &head.headers;
    // Untrusted clients' fields of these names were removed, so only trusted proxies can set them; the origin may write them
    // into its links.
    let told = told_about_url(fields);
    let names = rules.vary_on.iter().chain(&told);
    let name = route.metrics.name();
    let text = with_url(head, context, |url| key(url, name, fields, names));
    Ok(CacheKey::new(text, ""))
}

fn with_url<T>(
    head: &RequestHeader,
    context: &Context,
    use_url: impl FnOnce(&CacheUrl<'_>) -> T,
) -> T {
    let request = RequestHead::from(head);
    let scheme = match head.headers.get(X_FORWARDED_PROTO) {
        Some(told) if told == "https" => UrlScheme::Https,
        Some(_) => UrlScheme::Http,
        None => context.scheme(),
    };
    use_url(&CacheUrl {
        scheme,
        authority: request.host(),
        target: request.target,
    })
}

/// Decides by the request's directives how a stored answer may be used.
pub(super) fn judge_found(
    session: &mut Session,
    meta: &CacheMeta,
    context: &Context,
) -> Option<ForcedFreshness> {
    let dealings = context.cache.as_ref()?;
    if !dealings.asker.shares(meta.headers()) {
        // This request's own answer will not be shared either, so no other request should wait for it.
        session.cache.set_cache_lock(None, None);
        return Some(ForcedFreshness::ForceMiss);
    }
    let lifetime = (meta.epoch(), meta.fresh_until());
    match dealings.wish.fit(age_of(lifetime, meta.headers())) {
        StoredUse::AsStored => None,
        StoredUse::Enough => Some(ForcedFreshness::ForceFresh),
        // If the origin fails, Pingora asks again then whether the stale answer may be served.
        StoredUse::Confirm => Some(ForcedFreshness::ForceExpiredServeStale { expired_at: None }),
    }
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

/// Returns whether the client accepts a stored answer only (`only-if-cached`): RFC 9111 §5.2.1.7.
pub(super) fn forbids_asking(session: &Session, context: &Context) -> bool {
    let looked = session.cache.enabled() || session.cache.bypassing();
    let wish = context.cache.as_ref().map(|dealings| dealings.wish);
    looked && wish.is_some_and(|wish| wish.forbids_asking())
}

/// Returns whether a stale answer is served: during a refresh, or after the attempt failed with `error`.
pub(super) fn serves_stale(
    session: &mut Session,
    context: &mut Context,
    error: Option<&Error>,
) -> bool {
    let Some(error) = error else {
        let Some(dealings) = &mut context.cache else {
            return false;
        };
        let serves = !dealings.wish.is_strict();
        if serves && session.is_http2() && session.cache.is_cache_lock_writer() {
            dealings.head = HeadVersion::Translated;
            translate(session.req_header_mut());
        }
        return serves;
    };
    let is_answer = matches!(error.etype(), ErrorType::HTTPStatus(_))
        && *error.esource() == pingora::ErrorSource::Upstream;
    let serves = match error.etype() {
        ErrorType::HTTPStatus(status) if is_answer => is_failure(*status),
        _ => matches!(ProxyFault::of(error), ProxyFault::Origin(_)),
    };
    if serves && !is_answer {
        // Pingora closes the client's connection after such an answer, and would announce keep-alive.
        session.set_keepalive(None);
    }
    serves
}

/// Returns whether a stale answer may take the place of one with this status: RFC 5861 §4 lists these.
pub(super) fn is_failure(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}

/// Rewrites the head of a refresh request as HTTP/1.1. Pingora copies a head by writing and parsing it as HTTP/1, and its form
/// of an HTTP/2 head does not parse: it has that version, and no `Host`.
fn translate(head: &mut RequestHeader) {
    let host = RequestHead::from(&*head).host().to_owned();
    if !head.headers.contains_key(HOST) {
        // An authority is a valid field value; if it were not, the copy would fail and the stored answer stay stale.
        let _ = head.insert_header(HOST, host);
    }
    head.set_version(Version::HTTP_11);
}

/// Restores the head to the form in which it was sent.
pub(super) fn restore(session: &mut Session, context: &mut Context) {
    if let Some(dealings) = &mut context.cache
        && dealings.head == HeadVersion::Translated
    {
        dealings.head = HeadVersion::AsSent;
        session.req_header_mut().set_version(Version::HTTP_2);
    }
}

/// Returns the hash of the request fields that `Vary` of the stored answer names.
pub(super) fn variance(meta: &CacheMeta, request: &RequestHeader) -> Option<[u8; 16]> {
    vary::variance(meta.headers(), &request.headers)
}

/// Applies `Range`, which only GET has (RFC 9110 §14.2). A weak validator in `If-Range` matches nothing, §13.1.5.
pub(super) fn cut(session: &Session, response: &mut ResponseHeader) -> RangeType {
    let request = session.req_header();
    if request.method != Method::GET {
        return RangeType::None;
    }
    let weak = request
        .headers
        .get(IF_RANGE)
        .is_some_and(|validator| validator.as_bytes().starts_with(b"W/"));
    if weak {
        return RangeType::None;
    }
    range_header_filter(request, response, Some(bounds::RANGES + 1))
}

/// Settles charges by the stored answer, if the client gets it.
pub(super) fn settle_by_stored(session: &Session, context: &mut Context) {
    let by = match session.cache.phase() {
        CachePhase::Hit | CachePhase::StaleUpdating => ResponseSource::Cache,
        // The origin failed, or answered 304.
        CachePhase::Stale | CachePhase::Revalidated | CachePhase::RevalidatedNoCache(_) => {
            ResponseSource::Origin
        }
        _ => return,
    };
    let stored = session.cache.cache_meta();
    context.settle_as(by, stored.response_header().status, stored.headers());
}

pub(super) fn rules(context: &Context) -> Option<&RouteCacheRules> {
    context.located.as_ref()?.route.cache.as_ref()
}

pub(super) fn max_object(context: &Context) -> usize {
    let usual = context.snapshot.rules.cache.largest_object();
    rules(context)
        .and_then(|rules| rules.max_object_bytes)
        .unwrap_or(usual)
}

/// Removes range and conditions from a refresh request, and makes it a GET: it is a copy of a client's request, which may have
/// asked for less, and Pingora would end a HEAD after the head.
pub(super) fn ask_for_whole(head: &mut RequestHeader) {
    if head.method == Method::HEAD {
        head.set_method(Method::GET);
    }
    for name in &CONDITIONS {
        head.remove_header(name);
    }
}

/// Returns whether the client's answer is what the origin sends, rather than what is stored.
pub(super) fn relays_origin(session: &Session) -> bool {
    matches!(
        session.cache.phase(),
        CachePhase::Disabled(_) | CachePhase::Bypass | CachePhase::Miss | CachePhase::Expired
    )
}

/// Returns whether the origin's answer is being stored.
pub(super) fn fills(session: &Session) -> bool {
    matches!(
        session.cache.phase(),
        CachePhase::Miss | CachePhase::Expired
    )
}

/// Releases the cache lock if this request ends before the answer is stored, so that a waiting request fetches it: a client of
/// HTTP/1.1 may have its part of an answer before the origin has sent the rest, and Pingora would then leave the lock held.
pub(super) fn let_others_fill(session: &mut Session) {
    if session.cache.enabled() && session.cache.is_cache_lock_writer() {
        session.cache.disable(NoCacheReason::Deferred);
    }
    if let Some(own) = &mut session.subrequest_ctx {
        // The refresh found that another request had fetched the answer.
        own.release_write_lock();
    }
}

/// Answers 504 to an `only-if-cached` request whose answer is not stored.
pub(super) async fn answer_not_stored(session: &mut Session, context: &mut Context) -> Result<()> {
    let answer = not_stored(session.req_header(), context)?;
    answer::send(session, context, answer)
        .await
        .map_err(|error| error.into_down())
}

/// Settles an `only-if-cached` request whose answer is not stored, and returns the 504 for it.
pub(super) fn not_stored(request: &RequestHeader, context: &mut Context) -> Result<OwnAnswer> {
    let status = StatusCode::GATEWAY_TIMEOUT;
    context.settle_as(ResponseSource::Cache, status, &HeaderMap::new());
    context.finish_response();
    context.disposition = Some(RequestDisposition::Rejected);
    context.cause = Some(Box::new(Cause::of_problem(GatewayProblem::NotStored)));
    answer::problem(request, context, GatewayProblem::NotStored)
}
