//! Leads a request through Pingora's cache: whether it looks there, under which key, and what it may be given of what it finds.
//!
//! The limits come first: whoever is refused never gets here, so that a stored answer is no way around a limit. What is stored is the
//! origin's answer as it came; request id and RateLimit fields are added to each client's own copy afterwards, as to any answer.
//!
//! A stale answer that is served meanwhile is fetched anew by a request of the gateway's own, which Pingora sends through the same phases.
//! It asks no limit, since nobody asked for it, and is not recorded as a request.

mod stored;
mod told;

use std::sync::Arc;
use std::sync::atomic::Ordering;

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

pub(super) use stored::{judge_answer, notice_confirmation, watch_size};
pub(super) use told::{cache_use, tell};

use super::Gateway;
use super::answer;
use super::cause::Cause;
use super::context::Context;
use super::error::{ProxyFault, error_for};
use super::locate::{RequestHead, locate};
use crate::admission::{Admitted, ResponseSource};
use crate::bounds;
use crate::cache::freshness::{self, CacheAudience};
use crate::cache::key::{CacheUrl, key};
use crate::cache::request_directives::{FreshnessLeft, RequestCacheControl, StoredAge, StoredUse};
use crate::cache::{ResponseCache, moment, vary};
use crate::client::{ConnectionPeer, told_about_url};
use crate::clock;
use crate::config::rules::RouteCacheRules;
use crate::proxy_fields::{OVERRIDES, X_FORWARDED_PROTO};
use crate::record::Disposition;
use crate::response::GatewayProblem;
use crate::tls::secured;
use crate::url_scheme::UrlScheme;

/// The field by which some origins let a request have come by another scheme.
const X_FORWARDED_SCHEME: HeaderName = HeaderName::from_static("x-forwarded-scheme");

/// Fields by which a client asks for less than the whole answer.
const CONDITIONS: [HeaderName; 6] = [
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_RANGE,
    IF_UNMODIFIED_SINCE,
    RANGE,
];

/// What a request has to do with the cache.
#[derive(Debug)]
pub(super) struct Dealings {
    asker: CacheAudience,
    wish: RequestCacheControl,
    lookup: Lookup,
    head: HeadVersion,
    /// Bytes of the origin's body so far.
    passed: usize,
    /// The fields by which the origin confirmed what is stored.
    confirmation: Option<HeaderMap>,
}

/// Whether the cache was looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lookup {
    /// It was, or never will be.
    Usual,
    /// It was not, since the last answer of this URL could not be stored.
    Skipped,
}

/// How the head of the request reads at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadVersion {
    AsSent,
    /// As one of HTTP/1.1, until the copy of it is made that fetches anew.
    Translated,
}

/// Whether the request is the gateway's own, to fetch a stale answer anew.
pub(super) fn is_refresh(session: &Session) -> bool {
    session.is_subrequest()
}

impl Gateway {
    /// Finds the way of a request of the gateway's own, which asks no limit; whether there is none any more.
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
        context.route = Some(Arc::clone(located.route));
        context.admitted = Some(Admitted::exempt());
        false
    }

    /// Counts a request of the gateway's own that is over.
    pub(super) fn note_refresh(&self) {
        let tally = &self.0.cache.storage.stats.refreshed;
        // Relaxed, here and below: counts for the scrape.
        tally.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that waited for another.
    pub(super) fn note_wait(&self, session: &Session) {
        if session.cache.lock_duration().is_some() {
            let tally = &self.0.cache.storage.stats.waited;
            tally.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes away what is stored of a URL that was written to: RFC 9111 §4.4.
    pub(super) fn invalidate(
        &self,
        session: &Session,
        response: &ResponseHeader,
        context: &Context,
    ) {
        let wrote = !session.req_header().method.is_safe()
            && (response.status.is_success() || response.status.is_redirection());
        if wrote && context.snapshot.stores {
            with_url(session, context, |url| {
                self.0.cache.storage.invalidate(&url.text());
            });
        }
    }
}

/// Lets Pingora look into the cache, where the route and the request allow it.
pub(super) fn allow(session: &mut Session, context: &mut Context, cache: &'static ResponseCache) {
    let Some(rules) = context
        .route
        .as_ref()
        .and_then(|route| route.cache.as_ref())
    else {
        return;
    };
    let refresh = is_refresh(session);
    // A request of the gateway's own has no body, though it may read as one of HTTP/2 that has.
    let has_body = !refresh && !session.is_body_empty();
    let head = session.req_header();
    let dealings = Dealings {
        asker: CacheAudience::of(&head.headers, rules.cookies),
        wish: if refresh {
            RequestCacheControl::default()
        } else {
            RequestCacheControl::of(&head.headers, rules.wishes)
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
        return;
    }
    let mut overrides = CacheOptionOverrides::default();
    overrides.wait_timeout = Some(bounds::FILL_PATIENCE);
    session.cache.enable(
        &cache.storage,
        // The storage makes room by itself.
        None,
        Some(cache.predictor(asker)),
        Some(cache.lock()),
        Some(overrides),
    );
}

/// Whether an answer to this request may be shared at all, as far as its head says. Many frameworks read the body of a GET, and no key has
/// it; over HTTP/2 no field tells of it.
fn is_storable(head: &RequestHeader) -> bool {
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
        // A key does not tell apart what these make of a request, so one that has any is neither looked up nor stored.
        && !fields.contains_key(X_FORWARDED_SCHEME)
        && OVERRIDES.iter().all(|name| !fields.contains_key(*name))
}

/// What the request's answer is known by.
pub(super) fn key_of(session: &Session, context: &Context) -> Result<CacheKey> {
    let (Some(route), Some(rules)) = (&context.route, rules(context)) else {
        return Err(error_for(GatewayProblem::Internal));
    };
    let fields = &session.req_header().headers;
    // Only trusted proxies still say anything under such names, and the origin may write it into its links.
    let told = told_about_url(fields);
    let names = rules.vary_on.iter().chain(&told);
    let name = route.metrics.name();
    let text = with_url(session, context, |url| key(url, name, fields, names));
    Ok(CacheKey::new(text, ""))
}

fn with_url<T>(
    session: &Session,
    context: &Context,
    use_url: impl FnOnce(&CacheUrl<'_>) -> T,
) -> T {
    let head = session.req_header();
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

/// Judges what was found by the wish of the request.
pub(super) fn judge_found(
    session: &mut Session,
    meta: &CacheMeta,
    context: &Context,
) -> Option<ForcedFreshness> {
    let dealings = context.cache.as_ref()?;
    if !dealings.asker.shares(meta.headers()) {
        // Its own answer will not be for the others either, so nobody should wait for it.
        session.cache.set_cache_lock(None, None);
        return Some(ForcedFreshness::ForceMiss);
    }
    let now = moment(clock::wall());
    let freshness = match meta.fresh_until().duration_since(now) {
        Ok(left) => FreshnessLeft::Left(left),
        Err(over) => FreshnessLeft::Over(over.duration()),
    };
    let stored = StoredAge {
        age: now.duration_since(meta.epoch()).unwrap_or_default(),
        freshness,
        may_be_stale: freshness::may_be_stale(meta.headers()),
    };
    match dealings.wish.fit(stored) {
        StoredUse::AsStored => None,
        StoredUse::Enough => Some(ForcedFreshness::ForceFresh),
        // Whether the stale answer is good enough when the origin fails is asked again then.
        StoredUse::Confirm => Some(ForcedFreshness::ForceExpiredServeStale { expired_at: None }),
    }
}

/// Whether the client wants what is stored or nothing: RFC 9111 §5.2.1.7.
pub(super) fn forbids_asking(session: &Session, context: &Context) -> bool {
    let looked = session.cache.enabled() || session.cache.bypassing();
    let wish = context.cache.as_ref().map(|dealings| dealings.wish);
    looked && wish.is_some_and(|wish| wish.forbids_asking())
}

/// Whether a stale answer is served: while it is fetched anew, or when `error` came of the attempt.
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
    match error.etype() {
        // RFC 5861 §4 names these.
        ErrorType::HTTPStatus(status) if *error.esource() == pingora::ErrorSource::Upstream => {
            matches!(status, 500 | 502 | 503 | 504)
        }
        _ => {
            let serves = matches!(ProxyFault::of(error), ProxyFault::Origin(_));
            if serves {
                // Pingora ends the client's connection behind such an answer, and would promise to keep it.
                session.set_keepalive(None);
            }
            serves
        }
    }
}

/// Pingora copies the head of a request by writing and reading it as HTTP/1, and writes one of HTTP/2 so that it cannot be read: with
/// that version, and without `Host`.
fn translate(head: &mut RequestHeader) {
    let host = RequestHead::from(&*head).host().to_owned();
    if !head.headers.contains_key(HOST) {
        // What came as an authority is the value of a field too; were it none, the copy would fail and what is stored stay stale.
        let _ = head.insert_header(HOST, host);
    }
    head.set_version(Version::HTTP_11);
}

/// Makes the head read as it was sent.
pub(super) fn restore(session: &mut Session, context: &mut Context) {
    if let Some(dealings) = &mut context.cache
        && dealings.head == HeadVersion::Translated
    {
        dealings.head = HeadVersion::AsSent;
        session.req_header_mut().set_version(Version::HTTP_2);
    }
}

/// What a client must have in common with the one for whom the answer was fetched.
pub(super) fn variance(meta: &CacheMeta, request: &RequestHeader) -> Option<[u8; 16]> {
    vary::variance(meta.headers(), &request.headers)
}

/// Cuts ranges, which only GET has (RFC 9110 §14.2). A weak validator in `If-Range` matches nothing, §13.1.5.
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

/// Settles charges by what is stored, where the answer comes from there.
pub(super) fn settle_by_stored(session: &Session, context: &mut Context) {
    let by = match session.cache.phase() {
        CachePhase::Hit | CachePhase::StaleUpdating => ResponseSource::Cache,
        // The origin was asked, and failed or had nothing new.
        CachePhase::Stale | CachePhase::Revalidated | CachePhase::RevalidatedNoCache(_) => {
            ResponseSource::Origin
        }
        _ => return,
    };
    let stored = session.cache.cache_meta();
    context.settle_as(by, stored.response_header().status, stored.headers());
}

fn rules(context: &Context) -> Option<&RouteCacheRules> {
    context.route.as_ref()?.cache.as_ref()
}

fn max_object(context: &Context) -> usize {
    let usual = context.snapshot.rules.cache.max_object;
    rules(context)
        .and_then(|rules| rules.max_object)
        .unwrap_or(usual)
}

/// Makes a request of the gateway's own ask for the whole answer: it is made of a client's, who may have asked for less, and Pingora would
/// end it behind the head as well.
fn ask_for_whole(head: &mut RequestHeader) {
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

/// Gives the duty to fetch what others wait for to one of them, where this request is over before all of it was stored: the client of
/// HTTP/1.1 may have its part of an answer before the origin has sent the rest, and then Pingora forgets those who wait.
pub(super) fn let_others_fill(session: &mut Session) {
    if session.cache.enabled() && session.cache.is_cache_lock_writer() {
        session.cache.disable(NoCacheReason::Deferred);
    }
    if let Some(own) = &mut session.subrequest_ctx {
        // It found what it was to fetch, fetched by another.
        own.release_write_lock();
    }
}

/// Answers a request that forbids to ask the origin for what is not stored, with 504.
pub(super) async fn decline(session: &mut Session, context: &mut Context) -> Result<()> {
    let status = StatusCode::GATEWAY_TIMEOUT;
    context.settle_as(ResponseSource::Cache, status, &HeaderMap::new());
    context.land();
    context.disposition = Some(Disposition::Rejected);
    context.cause = Some(Box::new(Cause::of_problem(GatewayProblem::NotStored)));
    answer::reject(session, context, GatewayProblem::NotStored)
        .await
        .map_err(|error| error.into_down())
}
