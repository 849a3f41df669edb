//! Owns the typed rules of `[store]`, and what a limit says about it.

pub use sluicegate_redis_link::{
    HashSeed as StoreSeed, HostPort, Login, Password, ServerAddress as StoreAddress, Topology,
};

/// When a gateway with a store is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyWhen {
    /// The gateway is ready as soon as it serves: without its store it decides by itself.
    #[default]
    Serving,
    /// Once it was connected to its store.
    Connected,
}

/// That a limit counts in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRules {
    /// The place of the decision.
    pub mode: SharedMode,
    /// The decision while the store is unavailable.
    pub on_failure: OnStoreFailure,
}

/// The place of the decision over a limit that counts in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedMode {
    /// The node, at once; counts are exchanged every `[store] sync_interval`.
    Synced,
    /// The store, in one round trip.
    Strict,
}

/// The decision of a limit while the store is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreFailure {
    /// The node judges by its share of the rates.
    #[default]
    Local,
    /// Everything passes.
    Open,
    /// Nothing passes.
    Closed,
}

impl SharedMode {
    /// Returns the word of the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Synced => "shared",
            Self::Strict => "shared-strict",
        }
    }
}

impl OnStoreFailure {
    /// Returns the word of the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}
