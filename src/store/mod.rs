//! Shares counters with other nodes through Redis or Valkey: the rules are the limiter's, the counts the store's.
//!
//! The [`script`] decides in the store, by its clock, all asks of one call or none. The [`Link`](sluicegate_redis_link::Link) carries
//! calls and answers, or reports within the timeout that it could not. `strict` has the limits that the store decides, `fallback` their
//! decisions while the store is unavailable; `synced` has those that each node decides at once. `pending_writes` holds what these admit,
//! until `replication` sends it in the next `sync_interval`. `change_feed` publishes to the other gateways what an operator does to a key,
//! and `store_switch` sends what is pending when a reload puts another store in force.

mod change_feed;
mod check_advice;
mod client;
mod counting_store;
mod fallback;
mod link_settings;
mod pending_writes;
mod probe;
mod recovery_cache;
mod replay_queue;
mod replicated_limit;
mod replication;
pub mod script;
mod settle;
mod settlements;
mod shared_rules;
mod store_call;
mod store_check;
mod store_key;
mod store_switch;
mod strict;
mod sync;
mod synced;
#[cfg(test)]
mod tests;

pub use self::check_advice::advice;
pub use self::client::{RemoteWriteStats, Store};
pub use self::counting_store::{CachedKey, CountingStore, KeyChange};
pub use self::link_settings::{link_settings, timestamp};
pub use self::probe::check;
pub use self::replay_queue::{ReplayDelta, ReplayQueue};
pub use self::settle::RemoteCharge;
pub use self::shared_rules::SharedRules;
pub use self::store_call::{
    ChargeResult, KeyName, StoreAnswer, StoreAsk, StoreAskResult, StoreCall, StoreCharge,
    StoreFailure,
};
pub use self::store_check::{
    BackendDecision, BackendDecisions, BackendVerdict, DecisionSource, StoreCheck,
};
pub use self::store_key::StoreKey;
pub use self::strict::{RemoteBackend, Revalidation, SlotQuestion, StoreProgress, reserve};
pub use self::sync::{ReplicationStats, SyncService};
pub use self::synced::{ReplicatedBackend, ReplicatedCharge, reserve_replicated};
