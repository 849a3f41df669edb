//! Declares `[cache]` and `[route.cache]`: which answers are stored, for how long, and in how much memory.

use std::time::Duration;

use http::{HeaderName, StatusCode, header};
use sluicegate_config_derive::Table;

use crate::declaration::{DurationIn, Flag, ListBy, NUMBER, SizeIn, TEXT, WordOf};
use crate::field::{KeyField, all, quoted};
use crate::problem::ParseError;
use crate::section::TableSection;

pub(crate) const EXAMPLE: &str = "{ max_bytes = \"256MiB\" }";

/// Least memory for stored answers: less would hold a handful.
const LEAST: u64 = 1 << 20;
/// Most memory for stored answers: 1 TiB.
const MOST: u64 = 1 << 40;
/// Largest body that is stored where nothing is written.
const USUAL_OBJECT: usize = 1 << 20;
/// Longest time that an answer is fresh or served stale: a year, RFC 9111 §4.2.2 calls more than that never.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);
/// Most fields of a request that a route's answers may differ by.
const FIELDS: usize = 8;

/// The cache of all routes with [route.cache]. Its contents survive a reload, not a restart.
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "the reference has tables in brackets"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Table)]
#[table(path = "cache", check = check_object)]
pub struct CacheRules {
    /// Memory for stored responses, 1MiB to 1TiB, including those that are being stored. The least recently used responses are evicted.
    #[key(example = "\"256MiB\"", default = 256 << 20, reader = SizeIn(LEAST..=MOST))]
    pub max_bytes: usize,
    /// Maximum size of a stored body, 1B to `max_bytes`; a route can override it. Default: 1MiB, or `max_bytes` if that is less.
    #[key(example = "\"1MiB\"", reader = SizeIn(1..=MOST))]
    pub max_object_bytes: Option<usize>,
}

impl CacheRules {
    /// Returns the size of the largest body that is stored for routes that do not say otherwise.
    #[must_use]
    pub fn largest_object(&self) -> usize {
        self.max_object_bytes
            .unwrap_or(USUAL_OBJECT.min(self.max_bytes))
    }
}

/// Caching of responses to GET, as in a shared cache (RFC 9111): responses that have a lifetime, by `Cache-Control: s-maxage` or `max-age`
/// or by `Expires`, and that are not private. Limits come first: a rejected request gets no stored response. docs/caching.md says what is
/// stored, and what a limit counts. Default: none.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "route[].cache")]
pub struct RouteCacheRules {
    /// Maximum size of a stored body, 1B to the `max_bytes` of [cache]. Default: that of [cache].
    #[key(example = "\"1MiB\"", reader = SizeIn(1..=MOST))]
    pub max_object_bytes: Option<usize>,
    /// The lifetime of a response that has none of its own, 1s to 365d. Default: none, it is not stored.
    #[key(example = "\"1m\"", reader = DurationIn(Duration::from_secs(1)..=LONGEST))]
    pub default_ttl: Option<Duration>,
    /// The time after its lifetime for which a response may be served while it is revalidated in the background, where the response itself
    /// says nothing, 0s to 365d. Never where it requires revalidation.
    #[key(example = "\"30s\"", shown = "\"0s\"", default = Duration::ZERO, reader = DurationIn(Duration::ZERO..=LONGEST))]
    pub stale_while_revalidate: Duration,
    /// The time after its lifetime for which a response may be served when the origin fails, with the same exceptions, 0s to 365d.
    #[key(example = "\"1h\"", shown = "\"0s\"", default = Duration::ZERO, reader = DurationIn(Duration::ZERO..=LONGEST))]
    pub stale_if_error: Duration,
    /// Statuses that are stored. Default: those that are cacheable by default (RFC 9110 §15.1).
    #[key(example = "[200, 301, 404]", default = Vec::new(), reader = ListBy(statuses, NUMBER))]
    pub statuses: Vec<StatusCode>,
    /// The treatment of requests with a Cookie: "personal" stores a response only if it says public, s-maxage or Vary: Cookie; "ignored"
    /// stores it as without a cookie. Responses with Set-Cookie are never stored.
    #[key(example = "\"personal\"", default = CookieMeaning::Personal, reader = WordOf(&COOKIES, "{} is not what cookies can mean"))]
    pub cookies: CookieMeaning,
    /// True ignores Cache-Control of requests (no-cache, no-store, max-age…); false lets a client force a request to the origin.
    #[key(example = "false", default = ClientNoCache::Granted, reader = Flag(ClientNoCache::Granted, ClientNoCache::Ignored))]
    pub ignore_client_no_cache: ClientNoCache,
    /// Request fields, at most 8, that are part of the cache key even where `Vary` does not list them. Default: none.
    #[key(example = "[\"x-lang\"]", default = Vec::new(), reader = ListBy(vary_on, TEXT))]
    pub vary_on: Vec<HeaderName>,
}

/// The meaning of a `Cookie` in a request for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieMeaning {
    /// The answer may be for this client alone, unless it says that it is for everybody.
    Personal,
    /// Nothing.
    Ignored,
}

const COOKIES: [(&str, CookieMeaning); 2] = [
    ("personal", CookieMeaning::Personal),
    ("ignored", CookieMeaning::Ignored),
];

/// `ignore_client_no_cache`: clients may ask for an answer that is fresher than the stored one, or may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientNoCache {
    /// They may, RFC 9111 §5.2.1.
    Granted,
    /// `Cache-Control` of requests is not looked at.
    Ignored,
}

/// `count`: the requests that a limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountedRequests {
    /// All, wherever their answer comes from.
    #[default]
    All,
    /// Those that an origin is asked for; the charge of one that is answered out of the cache is given back.
    Origin,
}

fn check_object(keys: &CacheRulesKeys, section: &TableSection<'_>) -> Option<()> {
    match (keys.max_bytes, keys.max_object_bytes) {
        (Some(max_bytes), Some(Some(object))) if object > max_bytes => section.refuse(
            "max_object_bytes",
            "an object of this size would not fit into the memory of the cache",
            "write less than `max_bytes`, or raise that",
        ),
        _ => Some(()),
    }
}

/// Reads `count` of a limit.
pub(crate) fn counting(section: &TableSection<'_>) -> Option<CountedRequests> {
    section.or("count", "\"all\"", CountedRequests::default(), |field| {
        let names = [
            ("all", CountedRequests::All),
            ("origin", CountedRequests::Origin),
        ];
        field.word(&names, |got| format!("{got} is not what a limit can count"))
    })
}

/// Statuses that can be stored at all, in their order.
fn statuses(field: &KeyField<'_>) -> Option<Vec<StatusCode>> {
    let each = field.list()?.into_iter().map(|element| {
        let code = element.integer(200..=599)?;
        // RFC 9111 §3.3 and §4.3.3: a part is stored with the whole, and 304 says that something else is current.
        if matches!(code, 206 | 304) {
            return element.refuse(
                format!("answers with {code} are never stored by themselves"),
                "leave it out: parts are cut from what is stored with 200",
            );
        }
        StatusCode::from_u16(u16::try_from(code).ok()?).ok()
    });
    let mut statuses = all(each.collect::<Vec<_>>())?;
    statuses.sort_unstable();
    statuses.dedup();
    Some(statuses)
}

fn vary_on(field: &KeyField<'_>) -> Option<Vec<HeaderName>> {
    let elements = field.list()?;
    if elements.len() > FIELDS {
        let message = format!("{} fields are too many to differ by", elements.len());
        return field.refuse(message, format!("keep at most {FIELDS}"));
    }
    let mut names = all(elements
        .iter()
        .map(|element| element.parsed(vary_name))
        .collect::<Vec<_>>())?;
    names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    names.dedup();
    Some(names)
}

fn vary_name(text: &str) -> Result<HeaderName, ParseError> {
    let name = HeaderName::try_from(text).map_err(|_| {
        ParseError::with_advice(
            format!("{} is not the name of a header", quoted(text)),
            "write one such as \"x-lang\"",
        )
    })?;
    if [header::HOST, header::RANGE, header::AUTHORIZATION].contains(&name) {
        return Err(ParseError::with_advice(
            format!("{name} is taken care of without being named"),
            "leave it out",
        ));
    }
    Ok(name)
}
