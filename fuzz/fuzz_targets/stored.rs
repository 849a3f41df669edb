//! Fuzzes what may be stored of answers, and for whom: what an answer forbids in so many words is never done.
//!
//! A case is a status, the fields of an answer, an empty line, and the fields of the request that it was given to.
#![no_main]

use std::time::{Duration, SystemTime};

use http::StatusCode;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue, SET_COOKIE,
};
use libfuzzer_sys::fuzz_target;
use sluicegate_base::received::ReceivedFields;
use sluicegate_cache::freshness::{
    BodyState, CacheAudience, OriginResponse, lifetime, may_be_stale, set_aside,
};
use sluicegate_cache::request_directives::{
    FreshnessLeft, RequestCacheControl, StoredAge, StoredUse,
};
use sluicegate_cache::vary;
use sluicegate_config::rules::{ClientNoCache, CookieMeaning, RouteCacheRules};
use sluicegate_decide::challenge::ChallengeCookies;

const DEFAULT_TTL: Duration = Duration::from_secs(60);
const LARGEST: usize = 1 << 20;

fuzz_target!(|case: &str| {
    let (answer, request) = case.split_once("\n\n").unwrap_or((case, ""));
    let (status, answer) = answer.split_once('\n').unwrap_or((answer, ""));
    let Ok(status) = StatusCode::from_bytes(status.as_bytes()) else {
        return;
    };
    let (answer, request) = (fields(answer), fields(request));
    let asked = ReceivedFields::from(request.clone());
    let audience = CacheAudience::from_fields(
        &asked,
        CookieMeaning::Personal,
        &ChallengeCookies::default(),
    );
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(2_000_000_000);
    let given = OriginResponse {
        status,
        fields: &answer,
        body: BodyState::Delimited,
    };
    let said = directives(&answer);
    let says = |name: &str| said.iter().any(|directive| directive == name);
    if let Ok(lifetime) = lifetime(&given, audience, (&rules(), LARGEST), now) {
        assert!(!says("private"), "{said:?}");
        // The parser takes a blank for a comma, so this word may stand behind another.
        let excused = said.iter().any(|said| said.contains("must-understand"));
        assert!(!says("no-store") || excused, "{said:?}");
        assert!(lifetime.born <= now);
        if says("no-cache") {
            assert!(lifetime.fresh_until < now, "{said:?}");
        }
        if audience != CacheAudience::Anybody && says_nothing_of_all(&answer) {
            let by_cookie = vary::names(&answer).any(|name| name == "cookie");
            assert!(
                audience == CacheAudience::WithCookie && by_cookie,
                "{audience:?}"
            );
        }
        if answer.contains_key(SET_COOKIE) {
            assert!(set_aside(&answer).contains(&SET_COOKIE));
        }
        assert!(!vary::is_of_everything(&answer));
    }
    if says("must-revalidate") || says("no-cache") {
        assert!(!may_be_stale(&answer), "{said:?}");
    }

    // Blanks around the members of a list mean nothing; another value of a field that is named does.
    let variance = vary::variance(&answer, &asked);
    assert_eq!(variance, vary::variance(&answer, &spaced(&request).into()));
    let codes = answer.contains_key("content-encoding");
    if vary::names(&answer).next().is_none() && !codes {
        assert_eq!(variance, None);
    }
    if codes && !request.contains_key(ACCEPT_ENCODING) {
        let mut other = request.clone();
        other.insert(ACCEPT_ENCODING, HeaderValue::from_static("br"));
        assert_ne!(variance, vary::variance(&answer, &other.into()));
    }

    let control = RequestCacheControl::new(&asked, ClientNoCache::Granted);
    let stored = StoredAge {
        age: Duration::from_secs(100),
        freshness: FreshnessLeft::Over(Duration::from_secs(40)),
        may_be_stale: false,
    };
    assert_ne!(
        control.fit(stored),
        StoredUse::Enough,
        "a client overrules the origin"
    );
    let ignored = RequestCacheControl::new(&asked, ClientNoCache::Ignored);
    assert!(!ignored.forbids_storing() && !ignored.is_strict());
});

fn rules() -> RouteCacheRules {
    RouteCacheRules {
        max_object_bytes: None,
        default_ttl: Some(DEFAULT_TTL),
        stale_while_revalidate: Duration::from_secs(10),
        stale_if_error: Duration::from_secs(10),
        statuses: Vec::new(),
        cookies: CookieMeaning::Personal,
        ignore_client_no_cache: ClientNoCache::Granted,
        vary_on: Vec::new(),
    }
}

/// A field a line; what is no field is left out, as it never gets here.
fn fields(lines: &str) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in lines.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = HeaderValue::from_bytes(value.trim().as_bytes());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), value) {
            fields.append(name, value);
        }
    }
    fields
}

/// The bare words of `Cache-Control`, where it has nothing in quotes, in which commas would be text.
fn directives(fields: &HeaderMap) -> Vec<String> {
    let lines = || {
        fields
            .get_all(CACHE_CONTROL)
            .iter()
            .map(HeaderValue::as_bytes)
    };
    if lines().any(|line| line.contains(&b'"')) {
        return Vec::new();
    }
    let members = lines().flat_map(|line| line.split(|byte| *byte == b','));
    members
        .map(|member| String::from_utf8_lossy(member.trim_ascii()).to_ascii_lowercase())
        .collect()
}

/// Whether no word that lets an answer be shared stands anywhere in `Cache-Control`.
fn says_nothing_of_all(fields: &HeaderMap) -> bool {
    let lines = fields.get_all(CACHE_CONTROL).iter();
    let text: String = lines
        .map(|line| String::from_utf8_lossy(line.as_bytes()).to_ascii_lowercase())
        .collect();
    !["public", "must-revalidate", "s-maxage"]
        .iter()
        .any(|word| text.contains(word))
}

/// The same fields with blanks around commas.
fn spaced(fields: &HeaderMap) -> HeaderMap {
    let blank = |value: &HeaderValue| {
        let members: Vec<&[u8]> = value.as_bytes().split(|byte| *byte == b',').collect();
        HeaderValue::from_bytes(&members.join(&b" , "[..])).expect("a value with blanks")
    };
    let spaced = fields
        .iter()
        .map(|(name, value)| (name.clone(), blank(value)));
    let mut all = HeaderMap::new();
    for (name, value) in spaced {
        all.append(name, value);
    }
    all
}
