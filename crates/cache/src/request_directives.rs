//! Decides which stored responses a request accepts, by its own `Cache-Control`: RFC 9111 §5.2.1.

use std::time::Duration;

use http::header::{CACHE_CONTROL, PRAGMA};
use pingora::cache::cache_control::{CacheControl, DirectiveKey};
use sluicegate_base::received::ReceivedFields;

use sluicegate_config::rules::ClientNoCache;

/// The cache directives of a request. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCacheControl {
    /// Maximum age of the response.
    max_age: Option<Duration>,
    /// Minimum time for which it is still fresh.
    min_fresh: Duration,
    /// Maximum time since it became stale.
    max_stale: Option<Duration>,
    storing: StorePolicy,
    asking: OriginPolicy,
}

/// The request's rule for storing the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StorePolicy {
    #[default]
    Allowed,
    /// `no-store`
    Forbidden,
}

/// The request's rule for asking the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OriginPolicy {
    #[default]
    Allowed,
    /// `no-cache`
    Demanded,
    /// `only-if-cached`
    Forbidden,
}

/// A stored answer at the time of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredAge {
    /// Time since it had age 0.
    pub age: Duration,
    /// Time until it becomes stale, or since.
    pub freshness: FreshnessLeft,
    /// True if it may be served stale to a request with `max-stale`.
    pub may_be_stale: bool,
}

/// The distance of a stored response from the end of its freshness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreshnessLeft {
    /// It is fresh for so long.
    Left(Duration),
    /// It has been stale for so long.
    Over(Duration),
}

/// The use of a stored response for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredUse {
    /// The stored response's own freshness decides.
    AsStored,
    /// It is stale, and the request accepts that.
    Enough,
    /// The origin must confirm it first.
    Confirm,
}

impl RequestCacheControl {
    /// Reads the directives of a request, if the route honors them. `only-if-cached` is always honored: it costs the origin nothing.
    #[must_use]
    pub fn new(fields: &ReceivedFields, no_cache: ClientNoCache) -> Self {
        let lines = fields.map_of(&CACHE_CONTROL);
        let control = CacheControl::from_headers_named(CACHE_CONTROL.as_str(), &lines);
        let Some(control) = control else {
            // RFC 9111 §5.4: it means no-cache where there is no Cache-Control.
            let pragma = fields.get_all(PRAGMA).any(|line| {
                let words = line.as_bytes().split(|byte| *byte == b',');
                let mut words = words.map(<[u8]>::trim_ascii);
                words.any(|word| word.eq_ignore_ascii_case(b"no-cache"))
            });
            let demands = pragma && no_cache == ClientNoCache::Granted;
            return Self {
                asking: if demands {
                    OriginPolicy::Demanded
                } else {
                    OriginPolicy::Allowed
                },
                ..Self::default()
            };
        };
        let forbidden = control.only_if_cached();
        if no_cache == ClientNoCache::Ignored {
            return Self {
                asking: if forbidden {
                    OriginPolicy::Forbidden
                } else {
                    OriginPolicy::Allowed
                },
                ..Self::default()
            };
        }
        let seconds = |name: &str| {
            let directive = DirectiveKey::from_lowercase(name);
            let value = control.directives.get(&directive)?.as_ref()?;
            let seconds = value.parse_as_delta_seconds().ok()?;
            Some(Duration::from_secs(seconds.into()))
        };
        let is_said = |name: &str| control.has_directive(&DirectiveKey::from_lowercase(name));
        Self {
            // An unreadable value asks for the newest response.
            max_age: is_said("max-age").then(|| seconds("max-age").unwrap_or_default()),
            min_fresh: seconds("min-fresh").unwrap_or_default(),
            max_stale: is_said("max-stale").then(|| seconds("max-stale").unwrap_or(Duration::MAX)),
            storing: if control.no_store() {
                StorePolicy::Forbidden
            } else {
                StorePolicy::Allowed
            },
            asking: match (forbidden, control.has_directive(&DirectiveKey::NoCache)) {
                (true, _) => OriginPolicy::Forbidden,
                (false, true) => OriginPolicy::Demanded,
                (false, false) => OriginPolicy::Allowed,
            },
        }
    }

    /// Returns whether its answer must be neither stored nor looked up.
    #[must_use]
    pub fn forbids_storing(&self) -> bool {
        self.storing == StorePolicy::Forbidden
    }

    /// Returns whether the origin must not be asked.
    #[must_use]
    pub fn forbids_asking(&self) -> bool {
        self.asking == OriginPolicy::Forbidden
    }

    /// Returns whether a stored answer must be confirmed before it is served, so that it cannot be served meanwhile.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.asking == OriginPolicy::Demanded || self.max_age.is_some() || !self.min_fresh.is_zero()
    }

    /// Returns the use of `stored` for a request with these directives.
    #[must_use]
    pub fn fit(&self, stored: StoredAge) -> StoredUse {
        if self.asking == OriginPolicy::Demanded {
            return StoredUse::Confirm;
        }
        let is_old = self.max_age.is_some_and(|most| stored.age > most);
        match stored.freshness {
            _ if is_old => StoredUse::Confirm,
            FreshnessLeft::Left(left) if left < self.min_fresh => StoredUse::Confirm,
            FreshnessLeft::Over(over) if stored.may_be_stale => match self.max_stale {
                Some(most) if over <= most => StoredUse::Enough,
                _ => StoredUse::AsStored,
            },
            FreshnessLeft::Left(_) | FreshnessLeft::Over(_) => StoredUse::AsStored,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn directives(control: &'static str) -> RequestCacheControl {
        let mut fields = ReceivedFields::new();
        fields.insert(CACHE_CONTROL, HeaderValue::from_static(control));
        RequestCacheControl::new(&fields, ClientNoCache::Granted)
    }

    fn fit(control: &'static str, freshness: FreshnessLeft) -> StoredUse {
        directives(control).fit(StoredAge {
            age: Duration::from_secs(10),
            freshness,
            may_be_stale: true,
        })
    }

    /// Goal: each directive of RFC 9111 §5.2.1 has its effect. Method: an answer of 10 seconds that is fresh for 20 more, or has
    /// been stale for 5, against directives on both sides of these numbers.
    #[test]
    fn directives_of_requests_bound_what_is_served() {
        let fresh = FreshnessLeft::Left(Duration::from_secs(20));
        let stale = FreshnessLeft::Over(Duration::from_secs(5));
        for (control, when_fresh, when_stale) in [
            ("", StoredUse::AsStored, StoredUse::AsStored),
            ("no-cache", StoredUse::Confirm, StoredUse::Confirm),
            ("max-age=10", StoredUse::AsStored, StoredUse::AsStored),
            ("max-age=9", StoredUse::Confirm, StoredUse::Confirm),
            ("max-age=x", StoredUse::Confirm, StoredUse::Confirm),
            ("min-fresh=20", StoredUse::AsStored, StoredUse::AsStored),
            ("min-fresh=21", StoredUse::Confirm, StoredUse::AsStored),
            ("max-stale", StoredUse::AsStored, StoredUse::Enough),
            ("max-stale=5", StoredUse::AsStored, StoredUse::Enough),
            ("max-stale=4", StoredUse::AsStored, StoredUse::AsStored),
            (
                "max-age=9, max-stale",
                StoredUse::Confirm,
                StoredUse::Confirm,
            ),
        ] {
            assert_eq!(fit(control, fresh), when_fresh, "{control}, fresh");
            assert_eq!(fit(control, stale), when_stale, "{control}, stale");
        }
        assert!(directives("no-store").forbids_storing());
        assert!(directives("only-if-cached").forbids_asking());
    }

    /// Goal: clients cannot use directives that the operator ignores, and `only-if-cached` costs nothing. Method: the strictest
    /// directives under both settings.
    /// directives under both settings.
    #[test]
    fn directives_can_be_ignored() {
        let mut fields = ReceivedFields::new();
        let strict = "no-cache, no-store, max-age=0, only-if-cached";
        fields.insert(CACHE_CONTROL, HeaderValue::from_static(strict));
        let ignored = RequestCacheControl::new(&fields, ClientNoCache::Ignored);
        assert!(!ignored.is_strict() && !ignored.forbids_storing() && ignored.forbids_asking());
        let mut pragma = ReceivedFields::new();
        pragma.insert(PRAGMA, HeaderValue::from_static("x, No-Cache"));
        assert!(RequestCacheControl::new(&pragma, ClientNoCache::Granted).is_strict());
        assert!(!RequestCacheControl::new(&pragma, ClientNoCache::Ignored).is_strict());
    }
}
