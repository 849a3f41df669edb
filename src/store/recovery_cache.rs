//! Remembers what the store said last of the keys of strict limits, so that it can be told again to one that has lost it.
//!
//! A key is remembered as long as it owes something. Of one key the gateways remember what each was told last, and the store keeps the most
//! of that, so it counts what it counted when the last of them was answered.
//!
//! # Limits
//! At most [`STORE_REMEMBERED`] keys. Behind that, new ones are not remembered until others owe nothing any more: a flood of keys cannot
//! make a gateway forget what others owe. A key that an operator clears at another gateway is forgotten
//! when a request with it comes; a loss before that makes it count again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_limiter::{Cost, Policy, RateState, RemoteState, Timestamp};

use super::script::{self, Ask, Call, KeyName};
use crate::bounds::STORE_REMEMBERED;

/// How often a full memory looks for keys that owe nothing any more.
const SWEEP: Duration = Duration::from_secs(1);

/// What the store said last.
#[derive(Debug, Default)]
pub(super) struct RecoveryCache(Mutex<RememberedKeys>);

#[derive(Debug, Default)]
struct RememberedKeys {
    known: HashMap<KeyName, RememberedState>,
    swept: Timestamp,
}

/// What it said of one key, and when by its clock.
#[derive(Debug)]
struct RememberedState {
    policy: Policy,
    state: RemoteState,
    at: Timestamp,
    until: Timestamp,
}

impl RecoveryCache {
    /// The store said this of a key; of answers that overtake each other the later one holds.
    pub(super) fn learn(
        &self,
        name: &KeyName,
        policy: &Policy,
        state: &RemoteState,
        at: Timestamp,
    ) {
        let mut keys = self.lock();
        let until = owes_until(policy, state);
        if let Some(known) = keys.known.get_mut(name) {
            if known.at <= at {
                *known = RememberedState {
                    policy: policy.clone(),
                    state: state.clone(),
                    at,
                    until,
                };
            }
            return;
        }
        if keys.known.len() >= STORE_REMEMBERED && !keys.sweep(at) {
            return;
        }
        let known = RememberedState {
            policy: policy.clone(),
            state: state.clone(),
            at,
            until,
        };
        keys.known.insert(name.clone(), known);
    }

    /// An operator cleared the key.
    pub(super) fn forget(&self, name: &KeyName) {
        self.lock().known.remove(name);
    }

    /// Calls that tell it all to a store whose clock says `now`.
    pub(super) fn calls(&self, now: Timestamp) -> Vec<Call> {
        let keys = self.lock();
        let owing = keys.known.iter().filter(|(_, known)| known.until > now);
        owing
            .map(|(name, known)| {
                let (policy, cost) = (&known.policy, Cost::ONE);
                script::restore(&Ask { policy, name, cost }, &known.state, now)
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, RememberedKeys> {
        // Entries are whole, so a poisoned lock still holds some.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RememberedKeys {
    /// Forgets what owes nothing any more; whether there is room then.
    fn sweep(&mut self, now: Timestamp) -> bool {
        if now.saturating_since(self.swept) < SWEEP {
            return false;
        }
        self.swept = now;
        self.known.retain(|_, known| known.until > now);
        self.known.len() < STORE_REMEMBERED
    }
}

/// When a key owes nothing any more at the latest.
fn owes_until(policy: &Policy, state: &RemoteState) -> Timestamp {
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

    fn learn(memory: &RecoveryCache, bits: usize, count: u32, at: Timestamp) {
        memory.learn(&name(bits), &policy(), &used(count, at.as_secs()), at);
    }

    /// Goal: the later of two answers holds, and what owes nothing any more is not told. Method: answers out of order; two windows later.
    #[test]
    fn what_is_told_is_what_the_store_said_last() {
        let memory = RecoveryCache::default();
        let later = NOW.saturating_add(Duration::from_secs(1));
        learn(&memory, 1, 3, later);
        learn(&memory, 1, 2, NOW);
        let calls = memory.calls(later);
        let expected = script::restore(
            &Ask {
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

    /// Goal: the memory is bounded, and a flood of keys does not erase what others owe. Method: more keys than there may be, at once and
    /// after the first ones owe nothing any more.
    #[test]
    fn keys_are_bounded() {
        let memory = RecoveryCache::default();
        for bits in 0..STORE_REMEMBERED + 3 {
            learn(&memory, bits, 1, NOW);
        }
        assert_eq!(memory.calls(NOW).len(), STORE_REMEMBERED);
        let later = NOW.saturating_add(Duration::from_secs(300));
        learn(&memory, STORE_REMEMBERED + 7, 1, later);
        assert_eq!(memory.calls(later).len(), 1);
    }
}
