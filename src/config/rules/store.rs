//! Owns the typed rules of `[store]`, and what a limit says about it.

pub use sluicegate_redis_link::{
    HashSeed as StoreSeed, HostPort, Login, Password, ServerAddress as StorePlace, Topology,
};

/// When a gateway with a store is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadyWhen {
    /// As soon as it serves: without its store it decides by itself.
    #[default]
    Serving,
    /// Once it was connected to its store.
    Connected,
}

/// That a limit counts in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRules {
    /// Who decides.
    pub mode: SharedMode,
    /// What holds while the store is away.
    pub on_failure: OnStoreFailure,
}

/// Who decides over a limit that counts in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedMode {
    /// The node, at once; counts are exchanged every `[store] sync_interval`.
    Synced,
    /// The store, in one round trip.
    Strict,
}

/// What holds of a limit while the store is away.
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
    /// As one would write it in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Synced => "shared",
            Self::Strict => "shared-strict",
        }
    }
}

impl OnStoreFailure {
    /// As one would write it in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}
