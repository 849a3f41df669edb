//! Owns the limits of one route, and what can be known of them together before a request comes.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use http::HeaderName;

use super::backend::Backend;
use super::limit::ActiveLimit;
use super::settlement::SettlementRule;

/// The limits of a route: those written, in their order, then those that only stand in for others.
#[derive(Debug)]
pub struct RouteLimits {
    limits: Box<[Arc<ActiveLimit>]>,
    /// For each limit that is written the index of the one that stands in for it; as many as are written.
    seconds: Box<[Option<u8>]>,
    mode: EvaluationMode,
    /// Whether some limit is decided in a store.
    asks_store: bool,
    /// Whether the counts of some limit are exchanged.
    exchanges: bool,
    /// Fields in which the origin speaks to the gateway alone.
    confidential: Box<[HeaderName]>,
}

/// How the limits of a route are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EvaluationMode {
    /// All together, and that is all.
    AllPlain,
    /// All together, and then something is left to be done.
    AllEnforced,
    /// All together, unless a request lacks a key or has other rates.
    EnforcedUnlessExempt,
    /// Not all of them together.
    Individual,
}

impl RouteLimits {
    /// These limits, in the order written; `named` finds the second limits that some of them name.
    #[must_use]
    pub fn new(
        written: Vec<Arc<ActiveLimit>>,
        named: impl Fn(&str) -> Option<Arc<ActiveLimit>>,
    ) -> Self {
        let mode = if written.iter().all(|limit| limit.is_plain()) {
            EvaluationMode::AllPlain
        } else if written.iter().all(|limit| limit.always_may_refuse()) {
            EvaluationMode::AllEnforced
        } else if written.iter().all(|limit| limit.may_refuse_whom_it_asks()) {
            EvaluationMode::EnforcedUnlessExempt
        } else {
            EvaluationMode::Individual
        };
        let mut limits = written.clone();
        let second = |limit: &Arc<ActiveLimit>| {
            let second = named(limit.second()?)?;
            let known = limits.iter().position(|other| Arc::ptr_eq(other, &second));
            let index = known.unwrap_or_else(|| {
                limits.push(second);
                limits.len() - 1
            });
            // A route has at most MAX_ASKS limits, and each of them names at most one more.
            u8::try_from(index).ok()
        };
        let seconds = written.iter().map(second).collect();
        let told = limits.iter().filter_map(|limit| limit.settlement.as_ref());
        let mut confidential: Vec<_> = told.filter_map(SettlementRule::told_by).cloned().collect();
        confidential.dedup();
        Self {
            asks_store: limits
                .iter()
                .any(|limit| matches!(limit.backend, Backend::Remote(_))),
            exchanges: limits
                .iter()
                .any(|limit| matches!(limit.backend, Backend::Replicated(_))),
            limits: limits.into(),
            seconds,
            mode,
            confidential: confidential.into(),
        }
    }

    /// Those of a client that faces none.
    #[must_use]
    pub fn none() -> &'static Self {
        static NONE: LazyLock<RouteLimits> =
            LazyLock::new(|| RouteLimits::new(Vec::new(), |_| None));
        &NONE
    }

    /// The indexes of the limits that are written.
    pub(super) fn written(&self) -> impl Iterator<Item = u8> + use<> {
        // As above.
        0..u8::try_from(self.seconds.len()).unwrap_or(u8::MAX)
    }

    /// The index of the limit that stands in for the one at `limit` when that is exceeded.
    pub(super) fn second(&self, limit: u8) -> Option<u8> {
        *self.seconds.get(usize::from(limit))?
    }

    /// Whether one verdict over all limits says everything.
    pub(super) fn are_plain(&self) -> bool {
        self.mode == EvaluationMode::AllPlain
    }

    /// Whether a decision may have to wait for a store.
    #[must_use]
    pub fn ask_store(&self) -> bool {
        self.asks_store
    }

    /// Whether some limit counts with other nodes.
    pub(super) fn count_remotely(&self) -> bool {
        self.asks_store || self.exchanges
    }

    /// Whether every request faces all limits, so that what they show can be written down before.
    #[must_use]
    pub fn are_together(&self) -> bool {
        matches!(
            self.mode,
            EvaluationMode::AllPlain | EvaluationMode::AllEnforced
        )
    }

    /// Whether what they say of a request that has all keys and no other rates can be foreseen.
    pub(super) fn are_foreseeable(&self) -> bool {
        self.mode != EvaluationMode::Individual
    }

    /// The fields of the origin's answer that clients do not get to see.
    #[must_use]
    pub fn confidential(&self) -> &[HeaderName] {
        &self.confidential
    }
}

impl Deref for RouteLimits {
    type Target = [Arc<ActiveLimit>];

    fn deref(&self) -> &Self::Target {
        &self.limits
    }
}
