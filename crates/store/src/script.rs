//! Builds the calls of the store's script and reads its answers; no other module depends on their encoding.
//!
//! One script makes all decisions ([`TEXT`]). All keys of one call lie in one slot of a Cluster: the caller chooses keys whose
//! [`KeyName`](sluicegate_decide::store::KeyName)s share a tag.
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

use std::time::Duration;

use sluicegate_limiter::{PolicyTerms, Timestamp};

pub use answer::{ScriptAnswer, UnreadableAnswer, read};
pub use call::{charge_unchecked, decide, forget, guarded, peek, push, restore, settle};
pub use sluicegate_redis_link::{Call, Reply};

use sluicegate_decide::store::StoreAsk;

/// The script, for Redis 5 and later and for Valkey.
pub const TEXT: &str = include_str!("decide.lua");

/// The least time for which a key remembers the last push of a node, even when it counts nothing any more: until then a push may be
/// repeated.
pub const PUSH_MEMORY: Duration = Duration::from_secs(60);

/// The identity of a gateway in the keys of the store: a random number of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(pub u64);

/// The number of a push: greater with every push of a node to a key, below 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PushNumber(pub u64);

/// Returns the terms by which the script judges an ask near a moment.
fn terms(ask: &StoreAsk<'_>, near: Timestamp) -> PolicyTerms {
    ask.policy.terms(ask.name.key(), ask.cost, near)
}
