//! Holds the course of one request through the cache, and reports it to the client and to the record.

use std::time::Duration;

use http::HeaderMap;
use pingora::cache::CacheKey;
use sluicegate_base::clock;
use sluicegate_decide::outcome::CacheUse;

use sluicegate_cache::fill_lock::FillPermit;
use sluicegate_cache::freshness::CacheAudience;
use sluicegate_cache::memory_storage::StoredResponse;
use sluicegate_cache::moment;
use sluicegate_cache::request_directives::RequestCacheControl;
use sluicegate_cache::status::{CACHE_STATUS, CacheState, Coalescing, ForwardReason, StoreResult};

/// The course of one request through the cache.
pub(crate) struct CacheTransaction {
    /// The audience of the response.
    pub(super) audience: CacheAudience,
    /// The directives of the request.
    pub(super) directives: RequestCacheControl,
    /// The sender of the request.
    pub(super) sender: RequestSender,
    /// The key, with the variant that was looked up; `None` where nothing is looked up or stored.
    pub(super) key: Option<CacheKey>,
    /// The stored response that is sent, or that the origin is asked to confirm.
    pub(super) stored: Option<StoredResponse>,
    /// The permit to fetch for all requests that wait.
    pub(super) permit: Option<FillPermit>,
    /// The progress of the request.
    pub(super) progress: CacheProgress,
    /// The form in which the origin gets the request.
    pub(super) question: OriginQuestion,
    /// True if the request waited for another one that fetched the response.
    pub(super) has_waited: bool,
}

/// The progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheProgress {
    /// The cache is not used for this request.
    Unused,
    /// The response was not looked up, since the last one of its URL could not be stored.
    Skipped,
    /// The request waited too long, or for a response that could not be stored.
    GaveUp,
    /// The origin is asked for a response that is stored.
    Asking(ForwardReason),
    /// The origin's response is being stored.
    Storing(ForwardReason),
    /// The origin's response is not stored.
    NotStored(ForwardReason),
    /// A stored response is sent.
    Hit,
    /// A stale response is sent.
    Stale,
    /// A stored response is sent, which the origin confirmed.
    Confirmed,
    /// The client accepts a stored response only, and there is none.
    Refused,
}

/// The validation of a stored response before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoredValidation {
    /// The origin was not asked, or did not answer properly.
    None,
    /// The origin has confirmed it.
    ByOrigin,
}

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestSender {
    /// A client.
    Client,
    /// The gateway, to refresh a stale response.
    Gateway,
}

/// The form in which the origin gets a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OriginQuestion {
    /// The client's own request.
    AsSent,
    /// A GET for the whole response, with the validators of the stored one.
    Whole,
}

impl CacheTransaction {
    /// Returns the transaction of a request that is not looked up yet.
    pub(super) fn new(audience: CacheAudience, directives: RequestCacheControl) -> Self {
        Self {
            audience,
            directives,
            sender: RequestSender::Client,
            key: None,
            stored: None,
            permit: None,
            progress: CacheProgress::Unused,
            question: OriginQuestion::AsSent,
            has_waited: false,
        }
    }

    /// Returns whether the origin must not be asked: RFC 9111 §5.2.1.7.
    pub(super) fn forbids_asking(&self) -> bool {
        self.progress != CacheProgress::Unused && self.directives.forbids_asking()
    }

    /// Returns the stored response that the client gets, and how it was validated; `None` where the client gets that of the origin.
    pub(super) fn stored_to_send(&self) -> Option<(StoredResponse, StoredValidation)> {
        let validation = match self.progress {
            CacheProgress::Hit | CacheProgress::Stale => StoredValidation::None,
            CacheProgress::Confirmed => StoredValidation::ByOrigin,
            CacheProgress::Unused
            | CacheProgress::Skipped
            | CacheProgress::GaveUp
            | CacheProgress::Asking(_)
            | CacheProgress::Storing(_)
            | CacheProgress::NotStored(_)
            | CacheProgress::Refused => return None,
        };
        Some((self.stored.clone()?, validation))
    }

    /// Returns the stored response that the origin is asked to confirm.
    pub(super) fn revalidated(&self) -> Option<&StoredResponse> {
        let is_asked = self.progress == CacheProgress::Asking(ForwardReason::Stale);
        self.stored.as_ref().filter(|_| is_asked)
    }

    /// Returns whether the gateway sends the request to refresh a stale response.
    pub(crate) fn is_refresh(&self) -> bool {
        self.sender == RequestSender::Gateway
    }

    /// Returns whether it waited for another request.
    pub(crate) fn has_waited(&self) -> bool {
        self.has_waited
    }

    /// Returns how the cache was used, for the record.
    pub(crate) fn cache_use(&self) -> CacheUse {
        match self.progress {
            CacheProgress::Hit => CacheUse::Hit,
            CacheProgress::Stale => CacheUse::Stale,
            CacheProgress::Confirmed => CacheUse::Revalidated,
            CacheProgress::Storing(_) | CacheProgress::Refused => CacheUse::Miss,
            CacheProgress::Unused
            | CacheProgress::Skipped
            | CacheProgress::GaveUp
            | CacheProgress::Asking(_)
            | CacheProgress::NotStored(_) => CacheUse::Bypass,
        }
    }

    /// Adds `Cache-Status` to the answer.
    pub(crate) fn write_status(&self, fields: &mut HeaderMap) {
        fields.append(CACHE_STATUS, self.state().value());
    }

    fn state(&self) -> CacheState {
        let coalescing = if self.has_waited {
            Coalescing::InVain
        } else {
            Coalescing::Alone
        };
        let fetched = |reason, result| CacheState::Fetched(reason, result, coalescing);
        match self.progress {
            CacheProgress::Hit if self.has_waited => CacheState::Collapsed,
            CacheProgress::Hit | CacheProgress::Stale => CacheState::Hit(self.seconds_left()),
            CacheProgress::Confirmed => CacheState::Confirmed,
            CacheProgress::Storing(reason) => fetched(reason, StoreResult::Stored),
            CacheProgress::Asking(reason) | CacheProgress::NotStored(reason) => {
                fetched(reason, StoreResult::Passed)
            }
            CacheProgress::Unused | CacheProgress::Skipped => {
                fetched(ForwardReason::Bypass, StoreResult::Passed)
            }
            CacheProgress::GaveUp | CacheProgress::Refused => {
                fetched(ForwardReason::Miss, StoreResult::Passed)
            }
        }
    }

    /// Returns the seconds for which the stored response is fresh; negative for the time since it became stale.
    fn seconds_left(&self) -> i64 {
        let Some(stored) = &self.stored else {
            return 0;
        };
        let seconds = |span: Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        let now = moment(clock::wall());
        match stored.head.fresh_until().duration_since(now) {
            Ok(left) => seconds(left),
            Err(over) => -seconds(over.duration()).max(1),
        }
    }
}
