//! Names the three places where a limit counts.

use std::sync::Arc;

use sluicegate_limiter::{Limit, Policy};

use crate::store::{CountingStore, RemoteBackend, ReplicatedBackend};
use sluicegate_config::rules::OnStoreFailure;

/// The place where a limit counts, and so where it is decided.
#[derive(Debug)]
pub(super) enum Backend {
    /// This node alone.
    Local,
    /// This node, which exchanges its counts with others through a store.
    Replicated(Arc<ReplicatedBackend>),
    /// A store.
    Remote(Arc<RemoteBackend>),
}

/// The kind of a [`Backend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackendKind {
    /// [`Backend::Local`].
    Local,
    /// [`Backend::Replicated`].
    Replicated,
    /// [`Backend::Remote`].
    Remote,
}

impl Backend {
    /// Returns the kind.
    pub(super) const fn kind(&self) -> BackendKind {
        match self {
            Self::Local => BackendKind::Local,
            Self::Replicated(_) => BackendKind::Replicated,
            Self::Remote(_) => BackendKind::Remote,
        }
    }

    /// Returns the counters of this node that decide while the store cannot be reached, with the node's share of `policy`; `None` of a
    /// local one, and where `on_store_failure` is another than `local`.
    pub(super) fn share_without_store(&self, policy: &Policy) -> Option<Limit> {
        match self {
            Self::Local => None,
            Self::Replicated(backend) => backend.share_without_store(policy),
            Self::Remote(backend) => backend.share_without_store(policy),
        }
    }

    /// Returns the rule that decides while the store cannot be reached; `None` of a local one.
    pub(super) fn store_failure_rule(&self) -> Option<OnStoreFailure> {
        match self {
            Self::Local => None,
            Self::Replicated(backend) => Some(backend.store_failure_rule()),
            Self::Remote(backend) => Some(backend.store_failure_rule()),
        }
    }

    /// Returns the store with which it counts; `None` of a local one.
    pub(super) fn store(&self) -> Option<&Arc<dyn CountingStore>> {
        match self {
            Self::Local => None,
            Self::Replicated(backend) => Some(backend.store()),
            Self::Remote(backend) => Some(backend.store()),
        }
    }
}

impl BackendKind {
    /// Every kind, in the order in which a request is charged.
    pub(super) const ALL: [Self; 3] = [Self::Local, Self::Replicated, Self::Remote];
}
