//! Builds the calls of the store's script and reads its answers; no other module depends on their encoding.
//!
//! One script makes all decisions ([`TEXT`]). All keys of one call lie in one slot of a Cluster: the caller chooses keys whose
//! [`KeyName`]s share a tag.
//!
//! # Calls
//! - [`decide`] charges all asks, or none.
//! - [`peek`] returns the decision of `decide`. It writes nothing, so a read-only replica answers it too.
//! - [`push`] charges, whether it fits or not, what another node has admitted already. The key remembers the last [`PushNumber`] of each
//!   [`NodeId`], so a push whose answer was lost is repeated within [`PUSH_MEMORY`] and counts once.
//! - [`restore`] makes a key count at least what it had counted before the store lost it. It may be repeated too.
//! - [`settle`] changes a charge to its final cost: refunds, or charges more.
//! - [`charge_unchecked`] charges whether it fits or not, and [`forget`] deletes a key: for an operator.
//!
//! Of these only `push` and `restore` may be repeated when it is not known whether they ran. A `decide` or `settle` that was lost stays
//! lost: then something may stay charged that no request was admitted for, and nothing is charged twice.

mod answer;
mod call;

use std::fmt::Write;
use std::time::Duration;

use sluicegate_limiter::{Cost, KeyHash, Policy, PolicyTerms, RemoteState, Settle, Timestamp};

pub use answer::{AskResult, ChargeResult, ScriptAnswer, ScriptResult, UnreadableAnswer, read};
pub use call::{charge_unchecked, decide, forget, guarded, peek, push, restore, settle};
pub use sluicegate_redis_link::{Call, Reply};

/// The script, for Redis 5 and later and for Valkey.
pub const TEXT: &str = include_str!("decide.lua");

/// The least time for which a key remembers the last push of a node, even when it counts nothing any more: until then a push may be
/// repeated.
pub const PUSH_MEMORY: Duration = Duration::from_secs(60);

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

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The key, by whose hash its windows may begin.
    fn key(&self) -> KeyHash {
        self.key
    }
}

/// The charge that a request asks of one limit in the store.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The policy of the key.
    pub policy: &'a Policy,
    /// The counter. Asks of one name are one ask for all that they cost, by the policy of the first.
    pub name: &'a KeyName,
    /// The cost.
    pub cost: Cost,
}

impl Ask<'_> {
    /// The terms by which the script judges it near a moment.
    fn terms(&self, near: Timestamp) -> PolicyTerms {
        self.policy.terms(self.name.key(), self.cost, near)
    }
}

/// Returns the units that a charge of `cost` comes to when it is settled; zero where it is refunded.
pub(super) const fn settled_units(cost: Cost, settle: Settle) -> u32 {
    match settle {
        Settle::Keep => cost.get(),
        Settle::Refund => 0,
        Settle::Adjust(actual) => actual.get(),
    }
}

/// The identity of a gateway in the keys of the store: a random number of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(pub u64);

/// The number of a push: greater with every push of a node to a key, below 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PushNumber(pub u64);

/// A charge in the store that may still be settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    policy: Policy,
    name: KeyName,
    cost: Cost,
    left: RemoteState,
    made: Timestamp,
}

impl Charge {
    /// The ask that was charged.
    #[must_use]
    pub fn ask(&self) -> Ask<'_> {
        Ask {
            policy: &self.policy,
            name: &self.name,
            cost: self.cost,
        }
    }
}
