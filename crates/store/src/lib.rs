//! Makes the calls to Redis or Valkey by which several nodes count together; `sluicegate_decide::store` decides what is asked.
//!
//! The [`script`] decides in the store, by its clock, all asks of one call or none. The [`Link`](sluicegate_redis_link::Link) carries
//! calls and answers, or reports within the timeout that it could not. `replication` sends in each `sync_interval` what this node
//! admitted of limits that it decides at once, and `settlements` corrects charges that a response changes. `change_feed` publishes to the
//! other gateways what an operator does to a key, and `store_switch` sends what is pending when a reload puts another store in force.
#![forbid(unsafe_code)]
// A test that unwraps fails where it should.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic))]

mod change_feed;
mod check_advice;
mod client;
mod link_settings;
mod probe;
mod recovery_cache;
mod replication;
pub mod script;
mod settlements;
mod shared_rules;
mod store_key;
mod store_switch;
mod sync;

pub use self::check_advice::advice;
pub use self::client::{RemoteWriteStats, Store};
pub use self::link_settings::{SystemEnvironment, link_settings, timestamp};
pub use self::probe::check;
pub use self::shared_rules::SharedRules;
pub use self::store_key::StoreKey;
pub use self::sync::{ReplicationStats, SyncTask};
