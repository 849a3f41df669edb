//! Owns what is known of the names of addresses that claim to be crawlers, and which of these addresses are looked up.
//!
//! Forward-confirmed reverse DNS: a name of the address lies in a domain of the crawler, and has the address itself. The owner of an
//! address chooses its names, so a name alone proves nothing; only the owner of the domain can give a name there the address.
//!
//! No request waits. One that needs an answer which is not there queues the address, and a task of the gateway takes it out by
//! [`ReverseDns::take`], asks DNS, and ends the [`LookUp`] with what it got.
//!
//! # Limits
//! Clients choose addresses, and some own the zones of their names. The answers are bounded ([`CachedAnswers`]), the queue is, a network
//! has one look-up at a time ([`LookUpQueue`]), and one whose look-ups confirm nothing has a few in a minute
//! ([`LOOK_UP_FAILURES`]). The task bounds look-ups in flight and in a second.
//!
//! # Concurrency
//! A known answer takes a shared lock. The exclusive one is for what look-ups do: some hundreds in a second at most, since an address that
//! is not queued is refused under the shared lock.

mod answers;
mod counts;
mod domain;
mod fault;
mod latest;
mod queue;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::answers::{AnswerAge, CachedAnswers, KnownAnswer};
use self::counts::LookUpBound;
use self::queue::{LookUpPriority, LookUpQueue, NotQueued};
use super::network_failures::NetworkFailures;
use crate::bounds::LOOK_UP_FAILURES;
use crate::wakeup::TaskWakeup;

pub use self::answers::{ConfirmedNames, LookUpResult};
pub use self::counts::LookUpCounts;
pub use self::domain::HostDomain;
pub use self::fault::{NamesFault, ReverseDnsFault};

/// The names of addresses that claim to be a crawler with domains.
#[derive(Debug)]
pub struct ReverseDns {
    /// The domains of all crawlers, in order.
    domains: Vec<HostDomain>,
    state: RwLock<ReverseDnsState>,
    failures: NetworkFailures,
    process: Arc<LookUpProcess>,
}

#[derive(Debug, Default)]
struct ReverseDnsState {
    answers: CachedAnswers,
    queue: LookUpQueue,
}

/// The part of the state that outlives a change of domains.
#[derive(Debug, Default)]
struct LookUpProcess {
    counts: LookUpCounts,
    /// Reports that an address was queued.
    queued: TaskWakeup,
    /// True once a task takes addresses out of the queue.
    is_served: AtomicBool,
}

/// A look-up that began. Its network has no other one until it is dropped.
#[derive(Debug)]
pub struct LookUp {
    address: IpAddr,
    of: Arc<ReverseDns>,
}

impl ReverseDns {
    /// Returns the state for crawlers with these domains; `None` where there are none. It is that of `previous` where the domains are the
    /// same, and else begins with what of it holds for these domains too.
    #[must_use]
    pub fn new(
        domains: impl IntoIterator<Item = HostDomain>,
        previous: Option<&Arc<Self>>,
    ) -> Option<Arc<Self>> {
        let mut domains: Vec<_> = domains.into_iter().collect();
        domains.sort_unstable();
        domains.dedup();
        if domains.is_empty() {
            return None;
        }
        if let Some(previous) = previous.filter(|previous| previous.domains == domains) {
            return Some(Arc::clone(previous));
        }
        let answers = previous.map(|previous| previous.read().answers.for_domains(&domains));
        let state = ReverseDnsState {
            answers: answers.unwrap_or_default(),
            queue: LookUpQueue::default(),
        };
        Some(Arc::new(Self {
            domains,
            state: RwLock::new(state),
            failures: NetworkFailures::default(),
            process: previous
                .map(|previous| Arc::clone(&previous.process))
                .unwrap_or_default(),
        }))
    }

    /// Returns the names that `client` was confirmed by, at `now` in seconds since 1970. Where that is not known, or has to be
    /// refreshed, it queues a look-up.
    ///
    /// # Errors
    /// The reason for which it is not confirmed.
    pub(super) fn names(
        &self,
        client: IpAddr,
        now: u64,
    ) -> Result<ConfirmedNames, ReverseDnsFault> {
        let client = client.to_canonical();
        let known = self.read().answers.find(client, now);
        match known {
            KnownAnswer::Confirmed(names, AnswerAge::Fresh) => Ok(names),
            KnownAnswer::Confirmed(names, AnswerAge::Stale) => {
                // Whatever keeps the refresh from the queue, the next request tries again.
                let _ = self.request(client, now);
                Ok(names)
            }
            KnownAnswer::Unconfirmed(fault) => Err(fault),
            KnownAnswer::Unknown => Err(self.request(client, now)),
        }
    }

    /// Queues the look-up of an address where the bounds allow it, and returns the reason for which it is not confirmed meanwhile.
    fn request(&self, client: IpAddr, now: u64) -> ReverseDnsFault {
        // Relaxed: the task that it announces shares nothing else by it.
        if !self.process.is_served.load(Ordering::Relaxed) {
            return ReverseDnsFault::NotLookedUp;
        }
        if self.failures.reach(LOOK_UP_FAILURES, client, now) {
            return self.skip(LookUpBound::Failures);
        }
        let refused = {
            let state = self.read();
            let priority = state.priority(client, now);
            state.queue.check(client, priority).err()
        };
        // Another request may have queued it meanwhile, so that is checked again.
        let refused = refused.or_else(|| {
            let mut state = self.write();
            let priority = state.priority(client, now);
            state.queue.push(client, priority).err()
        });
        match refused {
            Some(NotQueued::Network) => self.skip(LookUpBound::Network),
            Some(NotQueued::Full) => self.skip(LookUpBound::Queue),
            Some(NotQueued::Already) => ReverseDnsFault::Pending,
            None => {
                self.process.queued.notify();
                ReverseDnsFault::Pending
            }
        }
    }

    fn skip(&self, bound: LookUpBound) -> ReverseDnsFault {
        self.process.counts.skip(bound);
        ReverseDnsFault::Throttled
    }

    /// Lets requests queue addresses, since a task takes them out from now on.
    pub fn serve(&self) {
        // Relaxed: as in `request`.
        self.process.is_served.store(true, Ordering::Relaxed);
    }

    /// Waits until an address was queued since the last call.
    pub async fn queued(&self) {
        self.process.queued.notified().await;
    }

    /// Takes the next look-up out of the queue.
    #[must_use]
    pub fn take(self: &Arc<Self>) -> Option<LookUp> {
        let address = self.write().queue.pop()?;
        self.process.counts.begin();
        let of = Arc::clone(self);
        Some(LookUp { address, of })
    }

    /// Returns the counts of the process.
    #[must_use]
    pub fn counts(&self) -> &LookUpCounts {
        &self.process.counts
    }

    /// Returns the number of look-ups that wait: beside known crawlers, and elsewhere.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        self.read().queue.waiting()
    }

    /// Returns the number of confirmed addresses that are kept, and that of others.
    #[must_use]
    pub fn cached(&self) -> (usize, usize) {
        self.read().answers.lens()
    }

    fn read(&self) -> RwLockReadGuard<'_, ReverseDnsState> {
        // Every change is complete when the lock is released, so a poisoned one still holds a whole state.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, ReverseDnsState> {
        // As in `read`.
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReverseDnsState {
    fn priority(&self, client: IpAddr, now: u64) -> LookUpPriority {
        if self.answers.has_confirmed_neighbor(client, now) {
            LookUpPriority::Known
        } else {
            LookUpPriority::Unknown
        }
    }
}

impl LookUp {
    /// Returns the address whose names are asked for.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns whether a name, in lower case and without the root dot, is in a domain of a crawler.
    #[must_use]
    pub fn takes(&self, name: &str) -> bool {
        self.of.domains.iter().any(|domain| domain.contains(name))
    }

    /// Ends the look-up with its result, at `now` in seconds since 1970.
    pub fn finish(self, result: &LookUpResult, now: u64) {
        self.of.process.counts.add(result);
        if !matches!(result, LookUpResult::Confirmed { .. }) {
            self.of.failures.add(self.address, now);
        }
        self.of.write().answers.put(self.address, result, now);
    }
}

impl Drop for LookUp {
    fn drop(&mut self) {
        self.of.write().queue.release(self.address);
        self.of.process.counts.end();
    }
}

#[cfg(test)]
mod tests;
