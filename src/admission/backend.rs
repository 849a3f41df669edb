//! Names the three places where a limit counts, and owns what each of them charged.

use std::sync::Arc;

use sluicegate_limiter::{Reservation, Settle, Timestamp};

use crate::store::{RemoteBackend, RemoteCharge, ReplicatedBackend, ReplicatedCharge, Store};

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

/// A charge of one backend, for some checks of one transaction.
#[must_use = "dropped, it leaves everything charged"]
#[derive(Debug)]
pub(super) enum BackendCharge {
    /// In counters of this node alone.
    Local(Reservation),
    /// In counters of this node that are exchanged.
    Replicated(ReplicatedCharge),
    /// In a store.
    Remote(RemoteCharge),
}

impl Backend {
    /// Returns the store with which it counts; `None` of a local one.
    pub(super) fn store(&self) -> Option<&Arc<Store>> {
        match self {
            Self::Local => None,
            Self::Replicated(backend) => Some(backend.store()),
            Self::Remote(backend) => Some(backend.store()),
        }
    }
}

impl BackendCharge {
    /// Returns whether `backend` makes such charges.
    pub(super) fn is_of(&self, backend: &Backend) -> bool {
        matches!(
            (self, backend),
            (Self::Local(_), Backend::Local)
                | (Self::Replicated(_), Backend::Replicated(_))
                | (Self::Remote(_), Backend::Remote(_))
        )
    }

    /// The charge may still change: other nodes learn of it when it is settled.
    pub(super) fn open(&mut self) {
        match self {
            Self::Replicated(charge) => charge.open(),
            // Nobody else sees the first, and the store corrects the second.
            Self::Local(_) | Self::Remote(_) => {}
        }
    }

    /// Settles each check, by its index among those of the charge.
    pub(super) fn settle_each(self, now: Timestamp, settle: impl Fn(usize) -> Settle) {
        match self {
            Self::Local(charge) => _ = charge.settle_each(now, settle),
            Self::Replicated(charge) => charge.settle_each(now, settle),
            Self::Remote(charge) => charge.settle_each(now, settle),
        }
    }

    /// Refunds the charge of a request that was held back and never went on.
    pub(super) fn withdraw(self, now: Timestamp) {
        match self {
            // A leaky bucket lets the requests behind it move up.
            Self::Local(charge) => charge.withdraw(now),
            Self::Replicated(charge) => charge.settle_each(now, |_| Settle::Refund),
            Self::Remote(charge) => charge.settle_each(now, |_| Settle::Refund),
        }
    }
}
