//! Describes a call to a store that charges limits: what is asked, and what an answer says. Its encoding is the script's.

use std::fmt::Write;

use arrayvec::ArrayVec;
use sluicegate_limiter::{
    Cost, Decision, KeyHash, MAX_ASKS, Policy, RemoteState, Settle, Timestamp, Verdict,
};

/// A call that charges all of its asks in a store, or none.
#[must_use]
pub struct StoreCall<'q> {
    /// The asks, which lie in one slot.
    pub asks: ArrayVec<StoreAsk<'q>, MAX_ASKS>,
}

/// The reason why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFailure {
    /// The store has certainly not executed it.
    NotSent,
    /// The store may have executed it.
    Unknown,
}

/// The name of a counter in the store: a key and a limit. Names with the same key hash lie in one slot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyName {
    text: String,
    key: KeyHash,
}

impl KeyName {
    /// Makes `PREFIX{KEY}:LIMIT`; the text in braces is the tag, which decides the slot. The hash is made under the store's seed, not the
    /// process's.
    #[must_use]
    pub fn new(prefix: &str, key: KeyHash, limit: &str) -> Self {
        let mut text = String::with_capacity(prefix.len() + 16 + 3 + limit.len());
        text.push_str(prefix);
        // A string takes whatever is written to it.
        let _ = write!(text, "{{{:016x}}}:{limit}", key.bits());
        Self { text, key }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the key, by whose hash its windows may begin.
    #[must_use]
    pub fn key(&self) -> KeyHash {
        self.key
    }
}

/// The charge that a request asks of one limit in the store.
#[derive(Clone, Copy, Debug)]
pub struct StoreAsk<'a> {
    /// The policy of the key.
    pub policy: &'a Policy,
    /// The counter. Asks of one name are one ask for all that they cost, by the policy of the first.
    pub name: &'a KeyName,
    /// The cost.
    pub cost: Cost,
}

/// A charge in the store that may still be settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreCharge {
    policy: Policy,
    name: KeyName,
    cost: Cost,
    left: RemoteState,
    made: Timestamp,
}

impl StoreCharge {
    /// Returns the charge of `ask`, which was made at this time of the store and left this state.
    #[must_use]
    pub fn new(ask: &StoreAsk<'_>, left: RemoteState, made: Timestamp) -> Self {
        Self {
            policy: ask.policy.clone(),
            name: ask.name.clone(),
            cost: ask.cost,
            left,
            made,
        }
    }

    /// The ask that was charged.
    #[must_use]
    pub fn ask(&self) -> StoreAsk<'_> {
        StoreAsk {
            policy: &self.policy,
            name: &self.name,
            cost: self.cost,
        }
    }
    /// Returns the state of the key after the charge.
    #[must_use]
    pub fn left(&self) -> &RemoteState {
        &self.left
    }

    /// Returns the time of the charge, by the store's clock.
    #[must_use]
    pub fn made(&self) -> Timestamp {
        self.made
    }
}

/// The evaluation of all asks.
#[derive(Clone, Debug)]
pub struct StoreAnswer {
    /// The store's clock.
    pub now: Timestamp,
    /// The result of the charge.
    pub charge_result: ChargeResult,
    /// One for each ask, in their order.
    pub results: Vec<StoreAskResult>,
    /// Fields that could not be read and count as unused: no gateway of this version wrote them.
    pub unreadable: u32,
}

/// The result of the charge of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeResult {
    /// Everything that was asked was charged.
    Charged,
    /// Nothing was charged: some rate refuses, or the call only reads.
    NotCharged,
    /// The key has this push already, or was settled.
    Done,
}

/// The result of one ask.
#[derive(Clone, Debug)]
pub struct StoreAskResult {
    /// The decision of this limit.
    pub decision: Decision,
    /// The state of the key now, to be applied to a cache.
    pub state: RemoteState,
    /// The charge, if one was made.
    pub charge: Option<StoreCharge>,
}

impl StoreAnswer {
    /// Returns the verdict over all asks.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        Verdict::new(self.results.iter().map(|result| result.decision.clone()))
    }
}

/// Returns the units that a charge of `cost` comes to when it is settled; zero where it is refunded.
#[must_use]
pub const fn settled_units(cost: Cost, settle: Settle) -> u32 {
    match settle {
        Settle::Keep => cost.get(),
        Settle::Refund => 0,
        Settle::Adjust(actual) => actual.get(),
    }
}
