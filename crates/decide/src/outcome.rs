//! Names the results of a request, and the uses of the cache for it, in the words of log and metrics.

use crate::rejection::{Rejection, RejectionReason};

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestDisposition {
    /// Forwarded, and the origin answered.
    Forwarded,
    /// Answered out of the cache.
    Cached,
    /// Answered by the gateway itself: by the route, a redirect, a preflight, a proof, or since the request may go no further.
    Responded,
    /// Admitted for a proxy that forwards it.
    Allowed,
    /// Rejected by a limit.
    Refused,
    /// Rejected by a limit, with a page that has a challenge.
    Challenged,
    /// Rejected by a ban that was in force.
    Banned,
    /// Rejected because its key has its maximum of requests in flight.
    RefusedConcurrency,
    /// Rejected because a list blocks its client.
    Blocked,
    /// Rejected because the store that decides is unavailable.
    RefusedStoreAway,
    /// No route matched.
    NoRoute,
    /// The request broke a rule: malformed, too large, not allowed.
    Rejected,
    /// The origin failed: unreachable, timed out, broken answer.
    OriginFailed,
    /// The client left or stalled.
    ClientGone,
    /// The gateway failed.
    Internal,
    /// Still in flight when the process ended.
    CutOff,
}

impl RequestDisposition {
    /// Every disposition, in the order of [`RequestDisposition::index`].
    pub const ALL: [Self; 16] = [
        Self::Forwarded,
        Self::Cached,
        Self::Responded,
        Self::Allowed,
        Self::Refused,
        Self::Challenged,
        Self::Banned,
        Self::RefusedConcurrency,
        Self::Blocked,
        Self::RefusedStoreAway,
        Self::NoRoute,
        Self::Rejected,
        Self::OriginFailed,
        Self::ClientGone,
        Self::Internal,
        Self::CutOff,
    ];

    /// Returns its index in [`RequestDisposition::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the disposition of a request that admission rejected.
    #[must_use]
    pub fn rejected(rejection: &Rejection) -> Self {
        match rejection {
            Rejection::ByLimit(by) => Self::rejected_by_limit(by.reason),
            Rejection::KeyBlocked => Self::Blocked,
            Rejection::KeyMissing => Self::Rejected,
        }
    }

    /// Returns the disposition of a request that a limit rejected.
    #[must_use]
    pub fn rejected_by_limit(reason: RejectionReason) -> Self {
        match reason {
            RejectionReason::RateLimited(_) | RejectionReason::BanStarted(_) => Self::Refused,
            RejectionReason::Challenged(_) => Self::Challenged,
            RejectionReason::Banned(_) => Self::Banned,
            RejectionReason::Concurrency(_) => Self::RefusedConcurrency,
            RejectionReason::StoreUnavailable => Self::RefusedStoreAway,
        }
    }

    /// Returns whether the client's next request will probably be rejected too.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        matches!(
            self,
            Self::Refused
                | Self::Challenged
                | Self::Banned
                | Self::RefusedConcurrency
                | Self::Blocked
        )
    }

    /// Returns whether the gateway rejected the request, by a limit, a list or a rule.
    #[must_use]
    pub fn is_rejection(self) -> bool {
        self.is_refusal() || matches!(self, Self::RefusedStoreAway | Self::Rejected)
    }

    /// Returns the name in log and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::Cached => "cached",
            Self::Responded => "responded",
            Self::Allowed => "allowed",
            Self::Refused => "rate-limited",
            Self::Challenged => "challenged",
            Self::Blocked => "blocked",
            Self::Banned => "banned",
            Self::RefusedConcurrency => "refused-concurrency",
            Self::RefusedStoreAway => "store-unavailable",
            Self::NoRoute => "no-route",
            Self::Rejected => "rejected",
            Self::OriginFailed => "origin-failed",
            Self::ClientGone => "client-gone",
            Self::Internal => "internal",
            Self::CutOff => "cut-off",
        }
    }
}

/// The use of the cache for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheUse {
    /// A stored response was served.
    Hit,
    /// A stored response was served although it was stale.
    Stale,
    /// A stored response was served after the origin confirmed it.
    Revalidated,
    /// The origin's answer was served, and stored.
    Miss,
    /// The origin's answer was served, and not stored.
    Bypass,
}

impl CacheUse {
    /// Every use, in the order of [`CacheUse::index`].
    pub const ALL: [Self; 5] = [
        Self::Hit,
        Self::Stale,
        Self::Revalidated,
        Self::Miss,
        Self::Bypass,
    ];

    /// Returns its index in [`CacheUse::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns whether the response came without the origin.
    #[must_use]
    pub fn is_without_origin(self) -> bool {
        matches!(self, Self::Hit | Self::Stale)
    }

    /// Returns the name in log and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Revalidated => "revalidated",
            Self::Miss => "miss",
            Self::Bypass => "bypass",
        }
    }
}
