//! Owns the check of one request against one limit that counts in a store, and the verdict of a backend over several of them.

use std::fmt;
use std::sync::Arc;

use crate::rejection::{LimitRejection, RejectionReason};
use arrayvec::ArrayVec;
use sluicegate_limiter::{
    Ask, Decision, KeyHash, Limit, MAX_ASKS, Policy, RemoteOutcome, RemoteState, Reservation,
    Timestamp,
};

use super::counting_store::CountingStore;
use sluicegate_config::rules::OnStoreFailure;

/// The check of a request against one limit of the backend `B`.
pub struct StoreCheck<'a, B> {
    /// The index of the limit on the route.
    pub limit: u8,
    /// The part of the limit that counts in the store.
    pub backend: &'a Arc<B>,
    /// The key in the tables of this node, the cost and the payer, against the cached state of the store with the policy of the key.
    pub ask: Ask<'a>,
    /// The key in the store; `None` before the seed of the store is known.
    pub remote_key: Option<KeyHash>,
}

/// The source of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionSource {
    /// The store.
    Store,
    /// The cached rejection of the store.
    Cached,
    /// This node, while the store could not be reached.
    Fallback,
}

/// The decision of one limit.
#[derive(Clone, Debug)]
pub struct BackendDecision {
    /// The decision.
    pub decision: Decision,
    /// The source; `None` where it was decided as usual by this node, or another limit rejected before this one was asked.
    pub by: Option<DecisionSource>,
}

/// One decision a check, in the order of the checks.
pub type BackendDecisions = ArrayVec<BackendDecision, MAX_ASKS>;

/// The verdict of a backend over the checks that it reserves together.
#[derive(Clone, Debug)]
pub struct BackendVerdict {
    /// One decision a check, in their order.
    pub decisions: BackendDecisions,
    /// Set if all checks are charged; otherwise some limit rejects.
    pub is_charged: bool,
}

impl DecisionSource {
    /// Every source, in the order of [`DecisionSource::index`].
    pub const ALL: [Self; 3] = [Self::Store, Self::Cached, Self::Fallback];

    /// Returns the place in [`DecisionSource::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name in log and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Cached => "cache",
            Self::Fallback => "fallback",
        }
    }
}

impl BackendVerdict {
    pub(super) const fn charged(decisions: BackendDecisions) -> Self {
        Self {
            decisions,
            is_charged: true,
        }
    }

    pub(super) const fn rejected(decisions: BackendDecisions) -> Self {
        Self {
            decisions,
            is_charged: false,
        }
    }
}

// Derived, they would ask the same of `B`.
impl<B> Clone for StoreCheck<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for StoreCheck<'_, B> {}

impl<B> StoreCheck<'_, B> {
    /// Returns the same ask of another table of this node.
    pub(super) fn ask_of<'t>(&'t self, limit: &'t Limit) -> Ask<'t> {
        Ask { limit, ..self.ask }
    }

    /// Returns a handle of a table of this node in which windows begin as they do in the store, where they begin by the hash of the key: it
    /// has another one there, which all nodes share. `None` where they do not, or before the seed of the store is known.
    pub(super) fn aligned(&self, table: &Limit) -> Option<Limit> {
        table.aligned_to(self.remote_key?)
    }

    /// Returns the decision about a key that has no counts but this request, at a moment of the table that decides.
    pub(super) fn decision_alone(&self, at: Timestamp) -> Decision {
        let none = RemoteState::default();
        Decision::remote(self.ask.limit.policy(), &none, RemoteOutcome::Peeked, at)
    }

    /// Returns the counters that decide while the store cannot be reached, by the `rule` of the limit: those of this node, with its share
    /// of the policy; `None` where every request passes. `own` counts for this node.
    ///
    /// # Errors
    /// The rejection by a limit that admits nothing without the store.
    pub(super) fn share(
        &self,
        own: &Limit,
        rule: OnStoreFailure,
        store: &dyn CountingStore,
    ) -> Result<Option<Limit>, LimitRejection> {
        match rule {
            OnStoreFailure::Closed => Err(self.unavailable()),
            OnStoreFailure::Open => Ok(None),
            OnStoreFailure::Local => {
                let own = with_node_share(own, self.ask.limit.policy(), store);
                Ok(Some(self.aligned(&own).unwrap_or(own)))
            }
        }
    }

    /// Returns the rejection by a limit that admits nothing without the store.
    pub(super) fn unavailable(&self) -> LimitRejection {
        LimitRejection {
            limit: self.limit,
            key: self.ask.key,
            reason: RejectionReason::StoreUnavailable,
            wait: LimitRejection::SOON,
        }
    }
}

/// Returns a handle of this node's own counters, for keys with this policy.
pub(super) fn with_policy(own: &Limit, policy: Policy) -> Limit {
    // All tables of a limit are made for the same policies; if one did not fit, its keys would have the limit's own.
    own.with_policy(policy).unwrap_or_else(|| own.clone())
}

/// Returns a handle of this node's own counters with its share of `policy`, as they decide while the store cannot be reached.
pub(super) fn with_node_share(own: &Limit, policy: &Policy, store: &dyn CountingStore) -> Limit {
    with_policy(own, policy.share(store.nodes()))
}

/// Charges one table of this node, if it has room.
pub(super) fn reserve_one(ask: &Ask<'_>, now: Timestamp) -> (Decision, Option<Reservation>) {
    let (verdict, reservation) = sluicegate_limiter::reserve(&[*ask], now);
    let decision = verdict.decisions().first().cloned();
    // There is one for each ask.
    let decision = decision.unwrap_or_else(|| ask.limit.peek(ask.key, ask.cost, now));
    (decision, reservation)
}

impl<B> fmt::Debug for StoreCheck<'_, B> {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("StoreCheck")
            .field("limit", &self.limit)
            .field("key", &self.ask.key)
            .field("cost", &self.ask.cost)
            .field("remote_key", &self.remote_key)
            .finish_non_exhaustive()
    }
}
