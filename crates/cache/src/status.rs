//! Writes `Cache-Status`, RFC 9211: the part of the cache in a response.

use std::fmt::{self, Display};

use http::{HeaderName, HeaderValue};

/// The field.
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// The part of the cache in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// It was stored. Seconds for which it is still fresh; negative for the time since it became stale.
    Hit(i64),
    /// Another request fetched it while this one waited.
    Collapsed,
    /// It was stored and stale, and the origin confirmed it.
    Confirmed,
    /// The origin gave it.
    Fetched(ForwardReason, StoreResult, Coalescing),
}

/// The reason for a request to the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// This request, or this URL, is not looked up.
    Bypass,
    /// No matching response was stored.
    Miss,
    /// The stored response was stale, or not good enough for this request.
    Stale,
}

/// The result of storing the origin's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreResult {
    /// It is stored.
    Stored,
    /// It is not.
    Passed,
}

/// Request coalescing: a request may wait for another one that fetches the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coalescing {
    /// It did not wait.
    Alone,
    /// It waited, and then had to fetch the response itself.
    InVain,
}

impl CacheState {
    /// Returns it as a member of the list.
    #[must_use]
    pub fn value(self) -> HeaderValue {
        let text = self.to_string();
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("sluicegate"))
    }
}

impl Display for CacheState {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.write_str("sluicegate; ")?;
        match self {
            Self::Hit(ttl) => write!(into, "hit; ttl={ttl}"),
            Self::Collapsed => into.write_str("fwd=uri-miss; collapsed"),
            Self::Confirmed => into.write_str("fwd=stale; fwd-status=304"),
            Self::Fetched(reason, result, coalescing) => {
                into.write_str(match reason {
                    ForwardReason::Bypass => "fwd=bypass",
                    ForwardReason::Miss => "fwd=uri-miss",
                    ForwardReason::Stale => "fwd=stale",
                })?;
                if *result == StoreResult::Stored {
                    into.write_str("; stored")?;
                }
                if *coalescing == Coalescing::InVain {
                    into.write_str("; collapsed=?0")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the field is a valid list of structured fields. Method: one of each kind.
    #[test]
    fn each_way_has_its_text() {
        assert_eq!(CacheState::Hit(-5).value(), "sluicegate; hit; ttl=-5");
        assert_eq!(
            CacheState::Fetched(ForwardReason::Miss, StoreResult::Stored, Coalescing::Alone)
                .value(),
            "sluicegate; fwd=uri-miss; stored"
        );
        assert_eq!(
            CacheState::Fetched(
                ForwardReason::Bypass,
                StoreResult::Passed,
                Coalescing::InVain
            )
            .value(),
            "sluicegate; fwd=bypass; collapsed=?0"
        );
        for status in [
            CacheState::Hit(1),
            CacheState::Collapsed,
            CacheState::Confirmed,
        ] {
            let text = status.to_string();
            assert!(sfv::Parser::parse_list(text.as_bytes()).is_ok(), "{text}");
        }
    }
}
