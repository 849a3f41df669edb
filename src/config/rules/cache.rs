//! Owns the typed rules of `[cache]` and of `[route.cache]`, and which answers a limit counts beside them.

use std::time::Duration;

use http::{HeaderName, StatusCode};

/// `[cache]`: what is kept of answers, for all routes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRules {
    /// Bytes of memory for stored answers, those that are just being stored included; default 256 MiB.
    pub memory: usize,
    /// The largest body that is stored, in bytes, where a route does not say otherwise; default 1 MiB.
    pub max_object: usize,
}

/// `[route.cache]`: the answers of this route may be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteCacheRules {
    /// The largest body that is stored, in bytes; `None`: that of `[cache]`.
    pub max_object: Option<usize>,
    /// How long an answer is fresh that does not say; `None`: it is not stored then.
    pub default_ttl: Option<Duration>,
    /// How long after that it may be served while it is fetched anew, where it does not say; default not at all.
    pub stale_while_revalidate: Duration,
    /// How long after that it may be served when the origin fails, where it does not say; default not at all.
    pub stale_if_error: Duration,
    /// The statuses that are stored; empty: whatever HTTP lets a cache store.
    pub statuses: Vec<StatusCode>,
    /// What a `Cookie` in a request means.
    pub cookies: Cookies,
    /// What `Cache-Control` of a request means.
    pub wishes: Wishes,
    /// Request fields that answers differ by, whether `Vary` says so or not.
    pub vary_on: Vec<HeaderName>,
}

/// `cookies`: what a `Cookie` in a request says about its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cookies {
    /// That it may be for this client alone, unless it says that it is for everybody.
    #[default]
    Personal,
    /// Nothing.
    Ignored,
}

/// `ignore_client_no_cache`: whether clients may ask for an answer that is fresher than the stored one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wishes {
    /// They may, RFC 9111 §5.2.1.
    #[default]
    Granted,
    /// What they wish is not looked at.
    Ignored,
}

/// `count`: which requests a limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// All, wherever their answer comes from.
    #[default]
    All,
    /// Those that an origin is asked for; the charge of one that is answered out of the cache is given back.
    Origin,
}
