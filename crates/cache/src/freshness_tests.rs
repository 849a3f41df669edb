//! Tests which answers are stored, and for how long: each rule at its edges, where end-to-end tests take one example.

use std::time::UNIX_EPOCH;

use http::HeaderValue;

use super::*;
use sluicegate_config::rules::ClientNoCache;

const NOW: Duration = Duration::from_secs(1_000_000_000);

fn rules() -> RouteCacheRules {
    RouteCacheRules {
        max_object_bytes: None,
        default_ttl: None,
        stale_while_revalidate: Duration::from_secs(7),
        stale_if_error: Duration::from_secs(8),
        statuses: Vec::new(),
        cookies: CookieMeaning::Personal,
        ignore_client_no_cache: ClientNoCache::Granted,
        vary_on: Vec::new(),
    }
}

fn fields(all: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in all {
        fields.append(*name, HeaderValue::from_static(value));
    }
    fields
}

fn judged(
    status: u16,
    all: &[(&'static str, &'static str)],
    audience: CacheAudience,
    rules: &RouteCacheRules,
) -> std::result::Result<FreshnessLifetime, NoCacheReason> {
    let fields = fields(all);
    let given = OriginResponse {
        status: StatusCode::from_u16(status).unwrap(),
        fields: &fields,
        body: BodyState::Stored,
    };
    lifetime(&given, audience, (rules, 1_000), UNIX_EPOCH + NOW)
}

/// Returns the seconds for which an answer is fresh from now on; negative when it is stale from the start.
fn fresh(all: &[(&'static str, &'static str)]) -> Option<i64> {
    let lifetime = judged(200, all, CacheAudience::Anybody, &rules()).ok()?;
    Some(
        match lifetime.fresh_until.duration_since(UNIX_EPOCH + NOW) {
            Ok(left) => i64::try_from(left.as_secs()).unwrap(),
            Err(over) => -i64::try_from(over.duration().as_secs()).unwrap(),
        },
    )
}

/// Goal: lifetime and age are those of RFC 9111 §4.2. Method: fields that agree, contradict each other, or are malformed.
#[test]
fn freshness_is_what_is_said_less_the_age() {
    let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    for (all, expected) in [
        (&[("cache-control", "max-age=60")][..], Some(60)),
        (&[("cache-control", "MAX-AGE=\"60\"")][..], Some(60)),
        (&[("cache-control", "max-age=60, s-maxage=5")][..], Some(5)),
        (
            &[("cache-control", "max-age=60"), ("age", "20")][..],
            Some(40),
        ),
        (
            &[("cache-control", "max-age=60"), ("age", "20, 30")][..],
            Some(40),
        ),
        (
            &[("cache-control", "max-age=60"), ("age", "-20")][..],
            Some(60),
        ),
        (
            &[("cache-control", "max-age=60"), ("age", "70")][..],
            Some(-10),
        ),
        (
            &[("cache-control", "max-age=99999999999")][..],
            Some(i64::from(i32::MAX)),
        ),
        (&[("cache-control", "max-age=0")][..], Some(-1)),
        (&[("cache-control", "max-age")][..], Some(-1)),
        (&[("cache-control", "no-cache, max-age=60")][..], None),
        (
            &[date, ("expires", "Sunday, 06-Nov-94 08:50:37 GMT")][..],
            Some(60),
        ),
        (
            &[date, ("expires", "Sun Nov  6 08:50:37 1994")][..],
            Some(60),
        ),
        (
            &[date, ("expires", "Sun, 06 Nov 1994 08:49:36 GMT")][..],
            Some(-1),
        ),
        (&[date, ("expires", "0")][..], Some(-1)),
        // In any case, on either side: RFC 9111 §4.2.
        (
            &[date, ("expires", "sun, 06 nov 1994 08:50:37 gmt")][..],
            Some(60),
        ),
        (
            &[
                ("date", "SUNDAY, 06-NOV-94 08:49:37 GMT"),
                ("expires", "SUN NOV  6 08:50:37 1994"),
            ][..],
            Some(60),
        ),
        (
            &[date, ("expires", "sun, 06 nov 1994 08:50:37 cet")][..],
            Some(-1),
        ),
        // Without a date of the origin it counts from the arrival of the answer.
        (
            &[("expires", "Sun, 09 Sep 2001 01:47:40 GMT")][..],
            Some(60),
        ),
        (
            &[
                ("date", "yesterday"),
                ("expires", "Sun, 09 Sep 2001 01:47:40 GMT"),
            ][..],
            Some(60),
        ),
        // The second value is no date: RFC 9111 §5.3.
        (
            &[
                date,
                ("expires", "Sun, 06 Nov 1994 08:50:37 GMT"),
                ("expires", "Sun, 06 Nov 1994 08:50:37 GMT"),
            ][..],
            Some(-1),
        ),
        (&[date][..], None),
        (&[("cache-control", "public")][..], None),
    ] {
        assert_eq!(fresh(all), expected, "{all:?}");
    }
}

/// Goal: an answer for one client is not shared. Method: clients against answers that state their audience.
#[test]
fn answers_are_shared_as_far_as_they_say() {
    for (control, anybody, with_cookie, authorised) in [
        ("max-age=60", true, false, false),
        ("max-age=60, public", true, true, true),
        ("s-maxage=60", true, true, true),
        ("max-age=60, must-revalidate", true, true, true),
        ("max-age=60, private", false, false, false),
        ("max-age=60, private=\"x-a\"", true, false, false),
        ("max-age=60, no-store", false, false, false),
        ("max-age=60, no-store, must-understand", true, false, false),
    ] {
        for (audience, expected) in [
            (CacheAudience::Anybody, anybody),
            (CacheAudience::WithCookie, with_cookie),
            (CacheAudience::Authorised, authorised),
        ] {
            let stored = judged(200, &[("cache-control", control)], audience, &rules()).is_ok();
            assert_eq!(stored, expected, "{control}: {audience:?}");
        }
    }
    // A cache that does not know the status does not understand it, RFC 9111 §5.2.2.3.
    let understood = [("cache-control", "max-age=60, no-store, must-understand")];
    assert!(judged(299, &understood, CacheAudience::Anybody, &rules()).is_err());
    let varies = [("cache-control", "max-age=60"), ("vary", "Cookie")];
    assert!(judged(200, &varies, CacheAudience::WithCookie, &rules()).is_ok());
    assert!(judged(200, &varies, CacheAudience::Authorised, &rules()).is_err());
}

/// Goal: a reason in the request does not affect its URL. Method: the reasons, by kind.
#[test]
fn reasons_in_the_request_differ_from_those_in_the_answer() {
    let max_age = ("cache-control", "max-age=60");
    let reason = |all: &[(&'static str, &'static str)], audience| {
        judged(200, all, audience, &rules())
            .map(|_| ())
            .unwrap_err()
    };
    let custom = |reason| matches!(reason, NoCacheReason::Custom(_));
    assert!(custom(reason(&[max_age], CacheAudience::Authorised)));
    assert!(custom(reason(
        &[max_age, ("set-cookie", "a=b")],
        CacheAudience::Anybody
    )));
    assert!(!custom(reason(
        &[("cache-control", "no-store")],
        CacheAudience::Anybody
    )));
    assert!(!custom(reason(&[], CacheAudience::Anybody)));
}

/// Goal: the grace periods of RFC 5861 are the origin's, then the route's, and none where confirmation is required. Method: both
/// set, one set, forbidden.
#[test]
fn stale_windows_are_those_of_the_origin_then_of_the_route() {
    for (control, expected) in [
        ("max-age=60", (7, 8)),
        (
            "max-age=60, stale-while-revalidate=1, stale-if-error=2",
            (1, 2),
        ),
        ("max-age=60, stale-if-error=0", (7, 0)),
        ("max-age=60, must-revalidate, stale-if-error=2", (0, 0)),
        ("max-age=60, proxy-revalidate", (0, 0)),
        ("s-maxage=60", (0, 0)),
        ("s-maxage=60, stale-while-revalidate=1", (1, 0)),
    ] {
        let lifetime = judged(
            200,
            &[("cache-control", control)],
            CacheAudience::Anybody,
            &rules(),
        );
        let lifetime = lifetime.unwrap();
        let windows = (lifetime.stale_while_revalidate, lifetime.stale_if_error);
        assert_eq!(windows, expected, "{control}");
    }
}

/// Goal: a body without a detectable end is not stored, nor one that is too large. Method: bodies with a length, in chunks, and up to the
/// end of the connection.
#[test]
fn only_bodies_with_an_end_of_their_own_are_stored() {
    for (body, length, expected) in [
        (BodyState::Delimited, Some("1000"), true),
        (BodyState::Delimited, Some("1001"), false),
        (BodyState::Delimited, Some("x"), false),
        (BodyState::Delimited, None, true),
        (BodyState::UntilClose, None, false),
    ] {
        let length = length.map(|length| ("content-length", length));
        let all: Vec<_> = length
            .into_iter()
            .chain([("cache-control", "max-age=60")])
            .collect();
        let fields = fields(&all);
        let given = OriginResponse {
            status: StatusCode::OK,
            fields: &fields,
            body,
        };
        let now = UNIX_EPOCH + NOW;
        let stored = lifetime(&given, CacheAudience::Anybody, (&rules(), 1_000), now).is_ok();
        assert_eq!(stored, expected, "{body:?} {length:?}");
    }
}
