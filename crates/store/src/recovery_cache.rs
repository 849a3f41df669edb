//! Remembers the store's latest answer about each key of strict limits, to restore a store that has lost it.
//!
//! A key is remembered as long as it counts. Each gateway remembers its own latest answer about a key, and the store keeps the largest of
//! them, so a restored key counts what it counted at the latest of these answers.
//!
//! # Limits
//! At most [`STORE_REMEMBERED`] keys. At the bound new keys are not remembered until others no longer count: a flood of keys cannot evict
//! others. A key that an operator clears at another gateway is dropped when a request with it comes; a loss before that makes it count
//! again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_base::bounds::STORE_REMEMBERED;
use sluicegate_limiter::{Cost, Policy, RateState, RemoteState, Timestamp};

use super::script::{self, Call};
use sluicegate_decide::store::{KeyName, StoreAsk};

/// The pause between two sweeps of a full cache.
const SWEEP: Duration = Duration::from_secs(1);

/// The store's latest answers by key.
#[derive(Debug, Default)]
pub(super) struct RecoveryCache(Mutex<RememberedKeys>);

#[derive(Debug, Default)]
struct RememberedKeys {
    known: HashMap<KeyName, RememberedState>,
    swept: Timestamp,
}

/// The latest answer about one key, with its time by the store's clock.
#[derive(Debug)]
struct RememberedState {
    policy: Policy,
    state: RemoteState,
    at: Timestamp,
    until: Timestamp,
}

impl RecoveryCache {
    /// Remembers an answer. Of answers that overtake each other the later one holds.
    pub(super) fn remember(
        &self,
        name: &KeyName,
        policy: &Policy,
        state: &RemoteState,
        at: Timestamp,
    ) {
        let latest = || RememberedState {
            policy: policy.clone(),
            state: state.clone(),
            at,
            until: counts_until(policy, state),
        };
        let mut keys = self.lock();
        if let Some(known) = keys.known.get_mut(name) {
            if known.at <= at {
                *known = latest();
            }
        } else if keys.known.len() < STORE_REMEMBERED || keys.sweep(at) {
            keys.known.insert(name.clone(), latest());
        }
    }

    /// Forgets a key that an operator has cleared.
    pub(super) fn forget(&self, name: &KeyName) {
        self.lock().known.remove(name);
    }

    /// Returns the calls that restore every key, for a store whose time is `now`.
    pub(super) fn calls(&self, now: Timestamp) -> Vec<Call> {
        let keys = self.lock();
        let counting = keys.known.iter().filter(|(_, known)| known.until > now);
        let mut calls: Vec<Call> = counting
            .map(|(name, known)| {
                let policy = &known.policy;
                let cost = Cost::ONE;
                script::restore(&StoreAsk { policy, name, cost }, &known.state, now)
            })
            .collect();
        // The order of a map differs from process to process.
        calls.sort_unstable_by(|one, other| one.keys.cmp(&other.keys));
        calls
    }

    fn lock(&self) -> MutexGuard<'_, RememberedKeys> {
        // Entries are whole, so a poisoned lock still holds some.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RememberedKeys {
    /// Drops keys that no longer count, and returns whether there is room.
    fn sweep(&mut self, now: Timestamp) -> bool {
        if now.saturating_since(self.swept) < SWEEP {
            return false;
        }
        self.swept = now;
        self.known.retain(|_, known| known.until > now);
        self.known.len() < STORE_REMEMBERED
    }
}

/// Returns the time after which a key certainly no longer counts.
fn counts_until(policy: &Policy, state: &RemoteState) -> Timestamp {
    let rates = policy.rates().iter().zip(state.rates());
    let ends = rates.map(|(rate, state)| {
        let period = Duration::from_secs(rate.period().as_secs().into());
        let millis =
            |millis: u64| Timestamp::default().saturating_add(Duration::from_millis(millis));
        match *state {
            RateState::Unused => Timestamp::default(),
            RateState::Sliding { second, .. } => {
                Timestamp::from_secs(second).saturating_add(period * 2)
            }
            // As many periods as it takes to refill; windows of a calendar may be longer than theirs by an hour.
            RateState::Begun {
                millis: begun,
                count,
            } => millis(begun)
                .saturating_add(period * (count / rate.count().max(1)).saturating_add(2)),
            RateState::Owing { millis: end, .. } => millis(end.saturating_add(1)),
            RateState::Logged { latest, .. } => millis(latest).saturating_add(period),
        }
    });
    ends.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use sluicegate_limiter::{KeyHash, Period, Rate, Rates};

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

    fn policy() -> Policy {
        let rate = Rate::new(5, Period::from_secs(60).unwrap()).unwrap();
        Rates::new([rate]).unwrap().into()
    }

    fn name(bits: usize) -> KeyName {
        KeyName::new("sluicegate", KeyHash::from_bits(bits as u64), "a")
    }

    fn used(count: u32, second: u64) -> RemoteState {
        RemoteState::new([RateState::Sliding {
            second,
            previous: 0,
            current: count,
        }])
    }

    fn remember(memory: &RecoveryCache, bits: usize, count: u32, at: Timestamp) {
        memory.remember(&name(bits), &policy(), &used(count, at.as_secs()), at);
    }

    /// Goal: the later of two answers holds, and a key that no longer counts is not restored. Method: answers out of order; two windows
    /// later.
    #[test]
    fn a_key_is_restored_to_the_latest_answer() {
        let memory = RecoveryCache::default();
        let later = NOW.saturating_add(Duration::from_secs(1));
        remember(&memory, 1, 3, later);
        remember(&memory, 1, 2, NOW);
        let calls = memory.calls(later);
        let expected = script::restore(
            &StoreAsk {
                policy: &policy(),
                name: &name(1),
                cost: Cost::ONE,
            },
            &used(3, later.as_secs()),
            later,
        );
        assert_eq!(calls, [expected]);
        let over = later.saturating_add(Duration::from_secs(120));
        assert_eq!(memory.calls(over), []);
        memory.forget(&name(1));
        assert_eq!(memory.calls(later), []);
    }

    /// Goal: the cache is bounded, and a flood of keys does not evict the counts of others. Method: more keys than there may be, at once
    /// and after the first ones no longer count.
    #[test]
    fn keys_are_bounded() {
        let memory = RecoveryCache::default();
        for bits in 0..STORE_REMEMBERED + 3 {
            remember(&memory, bits, 1, NOW);
        }
        assert_eq!(memory.calls(NOW).len(), STORE_REMEMBERED);
        let later = NOW.saturating_add(Duration::from_secs(300));
        remember(&memory, STORE_REMEMBERED + 7, 1, later);
        assert_eq!(memory.calls(later).len(), 1);
    }
}
