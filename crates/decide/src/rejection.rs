//! Owns the reasons for which admission rejects a request. Each has one status, one outcome in the log and one counter of its limit.
//!
//! A leaf: the store and admission make the values, response and record read them, and none of the four imports another for it.

mod missing_key;

use std::time::Duration;

use http::StatusCode;
use sluicegate_limiter::{ActiveBan, ConcurrencyExceeded, KeyHash, NEVER};

use crate::challenge::OpenChallenge;

pub use missing_key::{MissingKey, MissingKeys, MissingReason};

/// Why a request is rejected. Nothing is charged for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// A limit rejects it.
    ByLimit(LimitRejection),
    /// The overrides of a limit block its key; no limit was asked.
    KeyBlocked,
    /// It lacks a part of a key; [`MissingKeys::refusing`] returns which.
    KeyMissing,
}

/// The rejection of a request by one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRejection {
    /// The index of the limit on the route.
    pub limit: u8,
    /// The key by which the limit counts the request.
    pub key: KeyHash,
    /// The reason.
    pub reason: RejectionReason,
    /// Time after which the client may come back; [`NEVER`] or more for a request that takes more than the limit ever admits.
    pub wait: Duration,
}

/// The part of a limit that rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionReason {
    /// The rate at this index has no room.
    RateLimited(usize),
    /// A rate has no room, and a ban of the key begins with this request.
    BanStarted(ActiveBan),
    /// A rate has no room, and the browser gets a page with this challenge.
    Challenged(OpenChallenge),
    /// A ban of the key is in force.
    Banned(ActiveBan),
    /// The limit's maximum of requests of the key is in flight.
    Concurrency(ConcurrencyExceeded),
    /// The store that decides cannot be reached, and the limit admits nothing without it.
    StoreUnavailable,
}

impl LimitRejection {
    /// The wait of a client where the end of a request in flight, or of an outage of the store, is unknown.
    /// RFC 9110 §10.2.3 allows to leave the field out; but clients that find none mostly try again at once, and one second is the
    /// least value of the field.
    pub const SOON: Duration = Duration::from_secs(1);

    /// Returns the time after which the client may come back; `None` where no waiting helps.
    #[must_use]
    pub fn wait_that_helps(&self) -> Option<Duration> {
        (self.wait < NEVER).then_some(self.wait)
    }
}

impl RejectionReason {
    /// The status of the response, unless the operator words it otherwise.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            // RFC 6585 §4: browsers render its content, and what is no browser backs off; 200 would be indexed and kept.
            Self::RateLimited(_)
            | Self::BanStarted(_)
            | Self::Challenged(_)
            | Self::Banned(_)
            | Self::Concurrency(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::StoreUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns whether the client itself has caused the rejection.
    #[must_use]
    pub fn is_caused_by_client(self) -> bool {
        self.status() == StatusCode::TOO_MANY_REQUESTS
    }

    /// Returns whether the verdict over the limits has their state: a ban, a full limit or an unavailable store leaves that open.
    #[must_use]
    pub fn shows_status(self) -> bool {
        matches!(self, Self::RateLimited(_))
    }
}
