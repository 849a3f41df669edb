//! Decides limits that several nodes count in a store, without a call: the rules are the limiter's, the counts the store's.
//!
//! `strict` has the limits that the store decides, `fallback` their decisions while the store is unavailable; `synced` has those that each
//! node decides at once, and `pending_writes` what these admit, until it is sent. A [`CountingStore`] is what they know of a store, a
//! [`StoreCall`] what they ask of it; whoever has the connection makes the call.

mod counting_store;
mod fallback;
mod pending_writes;
mod replay_queue;
mod replicated_limit;
mod settle;
mod store_call;
mod store_check;
mod strict;
mod synced;
#[cfg(test)]
mod test_store;
#[cfg(test)]
mod tests;

pub use counting_store::{CachedKey, CountingStore, KeyChange};
pub use pending_writes::{
    ChargeState, ClockPair, Enqueued, PendingBacklog, PendingWrites, RecentUnits, ShardSequence,
    TakenDelta, cost_of,
};
pub use replay_queue::{ReplayDelta, ReplayQueue};
pub use replicated_limit::{CounterId, RegisteredLimit, ReplicatedKey, ReplicatedLimit};
pub use settle::RemoteCharge;
pub use store_call::{
    ChargeResult, KeyName, StoreAnswer, StoreAsk, StoreAskResult, StoreCall, StoreCharge,
    StoreFailure, settled_units,
};
pub use store_check::{
    BackendDecision, BackendDecisions, BackendVerdict, DecisionSource, StoreCheck,
};
pub use strict::{RemoteBackend, Revalidation, SlotQuestion, StoreProgress, reserve};
pub use synced::{ReplicatedBackend, ReplicatedCharge, reserve_replicated};
#[cfg(test)]
pub(crate) use test_store::UnreachableStore;
