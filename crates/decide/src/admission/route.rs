//! Owns the limits of one route, and the facts about them together that do not depend on a request.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};
use sluicegate_base::reported_cost::{CostReader, ReportForm};

use super::backend::Backend;
use super::limit::ActiveLimit;
use super::settlement::SettlementRule;

/// The limits of a route: those written, in their order, then fallback limits that are not written.
#[derive(Debug)]
pub struct RouteLimits {
    limits: Box<[Arc<ActiveLimit>]>,
    /// The index of the fallback limit, for each limit that is written.
    fallbacks: Box<[Option<u8>]>,
    mode: EvaluationMode,
    /// Set if some limit is decided in a store.
    asks_store: bool,
    /// Fields of the origin that are for the gateway alone.
    confidential: Box<[HeaderName]>,
    /// The pointers to costs in the body of the origin's response.
    body_costs: Box<[Arc<[Arc<str>]>]>,
}

/// The way in which the limits of a route are evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EvaluationMode {
    /// All limits are plain: one verdict is everything.
    AllPlain,
    /// All limits may always reject: one verdict, with bans, permits or charges that wait for the response.
    AllEnforced,
    /// Some limits mark, are in shadow, or exempt requests that lack a key or are in a tier.
    Individual,
}

impl RouteLimits {
    /// Returns these limits, in the order written; `named` finds the fallback limits that some of them name.
    #[must_use]
    pub fn new(
        written: Vec<Arc<ActiveLimit>>,
        named: impl Fn(&str) -> Option<Arc<ActiveLimit>>,
    ) -> Self {
        let mode = if written.iter().all(|limit| limit.is_plain()) {
            EvaluationMode::AllPlain
        } else if written.iter().all(|limit| limit.always_applies()) {
            EvaluationMode::AllEnforced
        } else {
            EvaluationMode::Individual
        };
        let mut limits = written.clone();
        let fallback = |limit: &Arc<ActiveLimit>| {
            let fallback = named(limit.fallback()?)?;
            let known = limits
                .iter()
                .position(|other| Arc::ptr_eq(other, &fallback));
            let index = known.unwrap_or_else(|| {
                limits.push(fallback);
                limits.len() - 1
            });
            // A route has at most MAX_ASKS limits, and each of them names at most one more.
            u8::try_from(index).ok()
        };
        let fallbacks = written.iter().map(fallback).collect();
        let rules = limits.iter().filter_map(|limit| limit.settlement.as_ref());
        let mut confidential: Vec<_> = rules
            .filter_map(SettlementRule::reported_by)
            .cloned()
            .collect();
        confidential.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
        confidential.dedup();
        let mut body_costs: Vec<Arc<[Arc<str>]>> = Vec::new();
        let rules = limits.iter().filter_map(|limit| limit.settlement.as_ref());
        for pointer in rules.flat_map(SettlementRule::reported_at) {
            if body_costs.iter().all(|known| **known != *pointer.0) {
                body_costs.push(Arc::from(&*pointer.0));
            }
        }
        Self {
            asks_store: limits
                .iter()
                .any(|limit| matches!(limit.backend, Backend::Remote(_))),
            limits: limits.into(),
            fallbacks,
            mode,
            confidential: confidential.into(),
            body_costs: body_costs.into(),
        }
    }

    /// Returns the limits of a client that is exempt: none.
    #[must_use]
    pub fn none() -> &'static Self {
        static NONE: LazyLock<RouteLimits> =
            LazyLock::new(|| RouteLimits::new(Vec::new(), |_| None));
        &NONE
    }

    /// Returns the indexes of the limits that are written.
    pub(super) fn written(&self) -> impl Iterator<Item = u8> + use<> {
        // A route has at most 2 * MAX_ASKS limits.
        0..u8::try_from(self.fallbacks.len()).unwrap_or(u8::MAX)
    }

    /// Returns the index of the fallback limit of the one at `limit`.
    pub(super) fn fallback(&self, limit: u8) -> Option<u8> {
        *self.fallbacks.get(usize::from(limit))?
    }

    /// Returns whether one verdict over all limits is everything.
    pub(super) fn are_plain(&self) -> bool {
        self.mode == EvaluationMode::AllPlain
    }

    /// Returns whether a decision may have to wait for a store.
    #[must_use]
    pub fn ask_store(&self) -> bool {
        self.asks_store
    }

    /// Returns whether all limits apply to every request, so that the policy field can be written before a request comes.
    #[must_use]
    pub fn are_together(&self) -> bool {
        matches!(
            self.mode,
            EvaluationMode::AllPlain | EvaluationMode::AllEnforced
        )
    }

    /// Returns whether some cost is read out of the body of the origin's response.
    #[must_use]
    pub fn read_response_body(&self) -> bool {
        !self.body_costs.is_empty()
    }

    /// Returns the readers of the costs in the body of a response with these fields; none where it cannot be read.
    #[must_use]
    pub fn cost_readers(&self, fields: &HeaderMap) -> Vec<CostReader> {
        if self.body_costs.is_empty() {
            return Vec::new();
        }
        let mut codings = fields.get_all(CONTENT_ENCODING).iter();
        let is_coded = codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
        let media_type = fields.get(CONTENT_TYPE).filter(|_| !is_coded);
        let form = media_type.and_then(|value| ReportForm::from_content_type(value.as_bytes()));
        form.map_or_else(Vec::new, |form| {
            let pointers = self.body_costs.iter();
            pointers
                .map(|steps| CostReader::new(form, Arc::clone(steps)))
                .collect()
        })
    }

    /// Returns the fields of the origin's response that clients do not see.
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
