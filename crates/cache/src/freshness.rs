//! Decides whether an answer may be stored, and until when it is fresh: RFC 9111 §3 and §4.2, RFC 5861.
//!
//! Only explicit freshness counts: without `s-maxage`, `max-age` or `Expires` an answer is stored if the route has a
//! `default_ttl`; there is no heuristic from `Last-Modified`. Where a rule has two readings, the module takes the one that
//! stores less: a miss costs a request, a wrong hit shows one client's page to another.
//!
//! The age of an answer is the value of `Age`. The age by `Date` is ignored: origins are near, and a clock that is some minutes
//! late is more common than a cache behind the gateway that does not speak HTTP/1.1 (RFC 9111 §4.2.3 allows that then).

use std::time::{Duration, SystemTime};

use http::header::{
    AGE, AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, DATE, ETAG, EXPIRES, LAST_MODIFIED,
    SET_COOKIE,
};
use http::{HeaderMap, HeaderName, StatusCode};
use pingora::Result;
use pingora::cache::NoCacheReason;
use pingora::cache::cache_control::{CacheControl, DirectiveKey};
use sluicegate_base::received::ReceivedFields;
use sluicegate_decide::challenge::ChallengeCookies;

use super::vary;
use sluicegate_config::rules::{CookieMeaning, RouteCacheRules};

/// The audience of a response, as far as its request shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheAudience {
    /// Every client.
    Anybody,
    /// The owner of the cookie.
    WithCookie,
    /// The owner of the credentials.
    Authorised,
}

impl CacheAudience {
    /// Returns the audience of a request with these fields; cookies of challenges are nobody's.
    #[must_use]
    pub fn from_fields(
        fields: &ReceivedFields,
        cookies: CookieMeaning,
        challenges: &ChallengeCookies,
    ) -> Self {
        if fields.contains_key(AUTHORIZATION) {
            Self::Authorised
        } else if cookies == CookieMeaning::Personal && challenges.leave_any(fields) {
            Self::WithCookie
        } else {
            Self::Anybody
        }
    }

    /// Returns whether an answer with these fields may be shared between this client and others. RFC 9111 §3.5 requires it for
    /// credentials in `Authorization`; a cookie often is a credential too, so the same applies to it.
    #[must_use]
    pub fn shares(self, answer: &HeaderMap) -> bool {
        self.shares_under(control(answer).as_ref(), answer)
    }

    fn shares_under(self, control: Option<&CacheControl>, answer: &HeaderMap) -> bool {
        let is_for_all = control.is_some_and(|control| {
            control.public()
                || control.must_revalidate()
                || control.has_directive(&DirectiveKey::SMaxAge)
        });
        match self {
            Self::Anybody => true,
            Self::WithCookie => is_for_all || vary::names(answer).any(|name| name == "cookie"),
            Self::Authorised => is_for_all,
        }
    }
}

/// The parts of an origin's response that decide whether it is stored.
#[derive(Clone, Copy, Debug)]
pub struct OriginResponse<'a> {
    /// Its status.
    pub status: StatusCode,
    /// Its fields.
    pub fields: &'a HeaderMap,
    /// The state of its body.
    pub body: BodyState,
}

/// The state of a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyState {
    /// The body follows, and a length, chunks, or its stream end it.
    Delimited,
    /// The body follows, and ends with its connection.
    UntilClose,
    /// The body was stored before, and is confirmed.
    Stored,
}

/// The freshness lifetime of a response, RFC 9111 §4.2, and its grace periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreshnessLifetime {
    /// The time at which it had age 0.
    pub born: SystemTime,
    /// The end of its freshness.
    pub fresh_until: SystemTime,
    /// Seconds after that in which it may be served during a refresh.
    pub stale_while_revalidate: u32,
    /// Seconds after that in which it may be served when the origin fails.
    pub stale_if_error: u32,
}

/// Returns the lifetime of the response `given` to `audience`.
///
/// # Errors
/// The reason for which it may not be stored. A reason in the answer is remembered for its URL; one in the request is
/// [`NoCacheReason::Custom`], and is not.
pub fn lifetime(
    given: &OriginResponse<'_>,
    audience: CacheAudience,
    (rules, max_object): (&RouteCacheRules, usize),
    now: SystemTime,
) -> std::result::Result<FreshnessLifetime, NoCacheReason> {
    let fields = given.fields;
    let control = control(fields);
    let control = control.as_ref();
    storable(given, control, audience, rules)?;
    if given.body != BodyState::Stored {
        framed(given, max_object)?;
    }
    let fresh = fresh_for(given.status, control, fields, rules, now);
    let fresh = fresh.ok_or(NoCacheReason::OriginNotCache)?;
    let (stale_while_revalidate, stale_if_error) = stale_for(control, rules);
    let is_confirmable = fields.contains_key(ETAG) || fields.contains_key(LAST_MODIFIED);
    if fresh.is_zero() && stale_if_error == 0 && stale_while_revalidate == 0 && !is_confirmable {
        return Err(NoCacheReason::OriginNotCache);
    }
    let born = now.checked_sub(age(fields)).unwrap_or(now);
    let fresh_until = match born.checked_add(fresh) {
        Some(until) if !fresh.is_zero() => until,
        // The expiry is in the past; the comparison is in whole seconds.
        _ => born.checked_sub(Duration::from_secs(1)).unwrap_or(born),
    };
    Ok(FreshnessLifetime {
        born,
        fresh_until,
        stale_while_revalidate,
        stale_if_error,
    })
}

/// Checks that the answer may be stored, RFC 9111 §3.
fn storable(
    given: &OriginResponse<'_>,
    control: Option<&CacheControl>,
    audience: CacheAudience,
    rules: &RouteCacheRules,
) -> std::result::Result<(), NoCacheReason> {
    let status = given.status;
    if !rules.statuses.is_empty() && !rules.statuses.contains(&status) {
        return Err(NoCacheReason::Custom("status"));
    }
    let is_whole = !matches!(
        status,
        StatusCode::PARTIAL_CONTENT | StatusCode::NOT_MODIFIED
    );
    if status.is_informational() || !is_whole {
        return Err(NoCacheReason::Custom("status"));
    }
    if let Some(control) = control {
        // RFC 9111 §5.2.2.3: a cache that understands the status obeys the other directives, which are for caches that do not.
        let understood = control.has_directive(&DirectiveKey::MustUnderstand) && is_usual(status);
        if control.private() || control.no_store() && !understood {
            return Err(NoCacheReason::OriginNotCache);
        }
    }
    if !audience.shares_under(control, given.fields) {
        return Err(NoCacheReason::Custom("personal"));
    }
    // A client that gets the cookie of another can act as that other. The forms no-cache="set-cookie" and private="set-cookie"
    // ask to store the rest.
    let is_set_aside = |control: &CacheControl| {
        let names = control.no_cache_field_names();
        let more = control.private_field_names();
        let mut names = names
            .into_iter()
            .flatten()
            .chain(more.into_iter().flatten());
        names.any(|name| name.eq_ignore_ascii_case(SET_COOKIE.as_str().as_bytes()))
    };
    if given.fields.contains_key(SET_COOKIE) && !control.is_some_and(is_set_aside) {
        return Err(NoCacheReason::Custom("set-cookie"));
    }
    if vary::is_of_everything(given.fields) {
        return Err(NoCacheReason::OriginNotCache);
    }
    Ok(())
}

/// Checks the framing: a body that ends with its connection may be truncated without a sign, so it is not stored.
fn framed(given: &OriginResponse<'_>, max_object: usize) -> std::result::Result<(), NoCacheReason> {
    let bodiless = given.status == StatusCode::NO_CONTENT;
    match given.fields.get(CONTENT_LENGTH) {
        Some(length) => {
            let length = length.to_str().ok().and_then(|text| text.parse().ok());
            match length {
                Some(length) if length <= max_object => Ok(()),
                Some::<usize>(_) => Err(NoCacheReason::ResponseTooLarge),
                None => Err(NoCacheReason::OriginNotCache),
            }
        }
        None if bodiless || given.body == BodyState::Delimited => Ok(()),
        None => Err(NoCacheReason::Custom("close-delimited")),
    }
}

/// Returns the freshness lifetime for a shared cache, RFC 9111 §4.2.1; `None` without an explicit one.
fn fresh_for(
    status: StatusCode,
    control: Option<&CacheControl>,
    fields: &HeaderMap,
    rules: &RouteCacheRules,
    now: SystemTime,
) -> Option<Duration> {
    if let Some(control) = control {
        if control.no_cache() {
            return Some(Duration::ZERO);
        }
        for (directive, seconds) in [
            (DirectiveKey::SMaxAge, control.s_maxage()),
            (DirectiveKey::MaxAge, control.max_age()),
        ] {
            if control.has_directive(&directive) {
                return Some(Duration::from_secs(said(seconds).unwrap_or(0).into()));
            }
        }
    }
    if fields.contains_key(EXPIRES) {
        return Some(until_expiry(fields, now));
    }
    rules.default_ttl.filter(|_| is_usual(status))
}

/// Returns the time until `Expires`. RFC 9111 §5.3: several values, and an invalid one, count as past. The origin's own `Date`
/// is the reference, since its clock may be wrong; without it, the arrival of the answer (RFC 9110 §6.6.1).
fn until_expiry(fields: &HeaderMap, now: SystemTime) -> Duration {
    let date = |name: HeaderName| {
        let mut lines = fields.get_all(name).iter();
        match (lines.next(), lines.next()) {
            (Some(line), None) => moment_of(line.to_str().ok()?),
            _ => None,
        }
    };
    let Some(expires) = date(EXPIRES) else {
        return Duration::ZERO;
    };
    let begun = date(DATE).unwrap_or(now);
    expires.duration_since(begun).unwrap_or_default()
}

/// Parses a date. RFC 9111 §4.2: a cache reads a date in any case, though RFC 9110 §5.6.7 has names written in one only.
fn moment_of(date: &str) -> Option<SystemTime> {
    let in_its_case = || {
        let mut inside = false;
        let letters = date.chars().map(|letter| {
            let begins = !std::mem::replace(&mut inside, letter.is_ascii_alphabetic());
            match begins {
                true => letter.to_ascii_uppercase(),
                false => letter.to_ascii_lowercase(),
            }
        });
        letters.collect::<String>().replace("Gmt", "GMT")
    };
    let parsed = httpdate::parse_http_date(date).ok();
    parsed.or_else(|| httpdate::parse_http_date(&in_its_case()).ok())
}

/// Returns the grace periods of RFC 5861, and RFC 9111 §4.2.4: an answer that must be confirmed is never served stale. The
/// route's settings apply where the origin has none, and not under `s-maxage`, which requires confirmation unless the origin
/// itself makes an exception.
fn stale_for(control: Option<&CacheControl>, rules: &RouteCacheRules) -> (u32, u32) {
    let whole = |span: Duration| u32::try_from(span.as_secs()).unwrap_or(u32::MAX);
    let mut while_revalidate = whole(rules.stale_while_revalidate);
    let mut if_error = whole(rules.stale_if_error);
    let Some(control) = control else {
        return (while_revalidate, if_error);
    };
    if must_confirm(control) {
        return (0, 0);
    }
    if control.has_directive(&DirectiveKey::SMaxAge) {
        (while_revalidate, if_error) = (0, 0);
    }
    (
        said(control.stale_while_revalidate()).unwrap_or(while_revalidate),
        said(control.stale_if_error()).unwrap_or(if_error),
    )
}

/// Returns whether an answer with these fields may be served when it is no longer fresh, if a client asks for that.
#[must_use]
pub fn may_be_stale(fields: &HeaderMap) -> bool {
    control(fields).is_none_or(|control| {
        !must_confirm(&control) && !control.has_directive(&DirectiveKey::SMaxAge)
    })
}

fn must_confirm(control: &CacheControl) -> bool {
    control.must_revalidate() || control.proxy_revalidate() || control.no_cache()
}

/// Returns whether the status is cacheable by default, RFC 9110 §15.1.
fn is_usual(status: StatusCode) -> bool {
    const USUAL: [u16; 11] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];
    USUAL.contains(&status.as_u16())
}

/// Returns the first value of `Age`, RFC 9111 §5.1, where it is a number.
fn age(fields: &HeaderMap) -> Duration {
    let seconds = fields.get(AGE).and_then(|age| {
        let first = age.to_str().ok()?.split(',').next()?.trim();
        let is_number = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
        // RFC 9111 §1.2.2: a number that does not fit counts as the greatest age.
        is_number.then(|| first.parse().unwrap_or(u32::MAX))
    });
    Duration::from_secs(seconds.unwrap_or(0).into())
}

/// Returns the fields that the answer asks not to store: RFC 9111 §5.2.2.4 and §5.2.2.7.
pub fn set_aside(fields: &HeaderMap) -> Vec<HeaderName> {
    let Some(control) = control(fields) else {
        return Vec::new();
    };
    let names = control.no_cache_field_names();
    let more = control.private_field_names();
    names
        .into_iter()
        .flatten()
        .chain(more.into_iter().flatten())
        .filter_map(|name| HeaderName::from_bytes(name).ok())
        .collect()
}

fn control(fields: &HeaderMap) -> Option<CacheControl> {
    CacheControl::from_headers_named(CACHE_CONTROL.as_str(), fields)
}

/// Returns the seconds of a directive; `None` where it is absent or malformed.
fn said(seconds: Result<Option<u32>>) -> Option<u32> {
    seconds.ok().flatten()
}

#[cfg(test)]
#[path = "freshness_tests.rs"]
mod tests;
