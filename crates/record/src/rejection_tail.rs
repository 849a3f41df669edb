//! Keeps the latest rejections for the pages that follow them: a sample of bounded size, and none while no page follows.
//!
//! A request pays one relaxed load while no page follows, or while the sample of the present tick is full. Otherwise it tries a lock
//! once; a request that does not get it is left out of the sample, as are those behind the first
//! [`EVENTS_REJECTIONS`](bounds::EVENTS_REJECTIONS) of a tick. The counters count all of them.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_base::bounds;
use sluicegate_decide::outcome::RequestDisposition;
use sluicegate_limiter::{KeyHash, Timestamp};

use super::outcome::Outcome;
use super::rejected_clients::ClientGroups;
use sluicegate_config::rules::Name;

/// The sample of the present tick.
#[derive(Debug, Default)]
pub struct RejectionTail {
    has_room: AtomicBool,
    sample: Mutex<Vec<TailedRejection>>,
}

/// One rejected request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailedRejection {
    /// The time at which its head was read.
    pub arrived: Timestamp,
    /// The client's address.
    pub client: Option<IpAddr>,
    /// The groups by which the client is counted; `None` where operators are not shown them.
    pub groups: Option<ClientGroups>,
    /// The route; `None` where the request was rejected before one was found.
    pub route: Option<Name>,
    /// The limit that rejected it, or whose key it lacks.
    pub limit: Option<Name>,
    /// The key by which that limit counts it.
    pub key: Option<KeyHash>,
    /// The values of that key, where `[log] keys` shows them.
    pub key_values: Vec<String>,
    /// The kind of the rejection.
    pub disposition: RequestDisposition,
    /// Status sent; 0 when the client left before.
    pub status: u16,
    /// The `Retry-After` of the response.
    pub wait: Option<Duration>,
    /// The reason in words, where a stage recorded one; cut at [`EVENTS_REASON`](bounds::EVENTS_REASON) bytes.
    pub reason: Option<String>,
}

impl RejectionTail {
    /// Begins a sample.
    pub fn open(&self) {
        let mut sample = self.lock();
        sample.clear();
        sample.reserve_exact(bounds::EVENTS_REJECTIONS);
        // Relaxed, here and below: the lock orders the entries. A request that reads the former value is in the sample or is not, as by
        // any other accident.
        self.has_room.store(true, Ordering::Relaxed);
    }

    /// Returns the sample and begins another one.
    #[must_use]
    pub fn take(&self) -> Vec<TailedRejection> {
        let mut sample = self.lock();
        let taken = sample.drain(..).collect();
        self.has_room.store(true, Ordering::Relaxed);
        taken
    }

    /// Ends the sampling.
    pub fn close(&self) {
        let mut sample = self.lock();
        self.has_room.store(false, Ordering::Relaxed);
        *sample = Vec::new();
    }

    /// Adds the request to the sample, if it was rejected and there is room.
    #[inline]
    pub(super) fn record(&self, outcome: &Outcome<'_>) {
        if self.has_room.load(Ordering::Relaxed) {
            self.add(outcome);
        }
    }

    #[cold]
    fn add(&self, outcome: &Outcome<'_>) {
        if !outcome.disposition.is_rejection() {
            return;
        }
        let Ok(mut sample) = self.sample.try_lock() else {
            return;
        };
        // Checked again under the lock: `close` may have come first.
        if !self.has_room.load(Ordering::Relaxed) {
            return;
        }
        sample.push(TailedRejection::new(outcome));
        if sample.len() >= bounds::EVENTS_REJECTIONS {
            self.has_room.store(false, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<TailedRejection>> {
        // A sample is whole after each push, so a poisoned lock still holds one.
        self.sample.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TailedRejection {
    fn new(outcome: &Outcome<'_>) -> Self {
        let rejecting = outcome.rejection.map(|by| usize::from(by.limit));
        let lacking = outcome.missing_keys.first().map(|missing| missing.limit);
        let limit = rejecting.or(lacking);
        Self {
            arrived: outcome.arrived,
            client: outcome.client,
            groups: ClientGroups::new(outcome),
            route: outcome.route.map(|route| route.shared_name().clone()),
            limit: (outcome.route.zip(limit))
                .and_then(|(route, limit)| route.limits().get(limit).cloned()),
            key: outcome.key(),
            key_values: outcome.key_values.to_vec(),
            disposition: outcome.disposition,
            status: outcome.status,
            wait: outcome.wait(),
            reason: outcome.reason.map(cut),
        }
    }
}

fn cut(reason: &str) -> String {
    reason[..reason.floor_char_boundary(bounds::EVENTS_REASON)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::example::{Example, refused};
    use super::*;

    /// Goal: requests leave nothing behind while nobody follows, and at most a sample while somebody does. Method: more rejections than a
    /// sample has, before, while and after it is open; an admitted request.
    #[test]
    fn the_sample_is_bounded_and_only_there_while_it_is_followed() {
        let tail = RejectionTail::default();
        let (route, verdict) = refused();
        let example = Example {
            verdict: Some(&verdict),
            route: Some(&route),
            ..Example::default()
        };
        let flood = || (0..100).for_each(|_| tail.record(&example.outcome()));
        flood();
        assert_eq!(tail.lock().capacity(), 0);
        tail.open();
        tail.record(&Example::default().outcome());
        assert_eq!(tail.take(), []);
        flood();
        let sample = tail.take();
        assert_eq!(sample.len(), bounds::EVENTS_REJECTIONS);
        assert_eq!(sample[0].limit.as_deref(), Some("otp"));
        assert_eq!(sample[0].disposition, RequestDisposition::Refused);
        assert!(sample[0].key.is_some() && sample[0].wait.is_some());
        flood();
        assert_eq!(tail.take().len(), bounds::EVENTS_REJECTIONS);
        tail.close();
        flood();
        assert_eq!(tail.lock().capacity(), 0);
    }

    /// Goal: a reason that a client can lengthen is cut, and stays text. Method: a reason of letters of two bytes.
    #[test]
    fn a_long_reason_is_cut_between_letters() {
        let long = "\u{e9}".repeat(500);
        let kept = cut(&format!("x{long}"));
        assert!(kept.len() <= bounds::EVENTS_REASON && kept.len() >= bounds::EVENTS_REASON - 1);
        assert_eq!(cut("short"), "short");
    }
}
