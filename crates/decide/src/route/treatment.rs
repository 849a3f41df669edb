//! Compares what routes do to a request, for paths that origins read in several ways.
//!
//! A route may take a request whose path is also that of another route only if the request fares the same under both: otherwise a client
//! would choose the treatment by the spelling of a path, and get a private page stored, or a field that the origin trusts. A route may
//! *check* more than the other one, so that a limited path keeps its limit in spellings that some origin takes for a path without one.
//!
//! # Invariants
//!
//! 1. Each property of a route is in [`RouteChecks`] or in [`AdmittedTreatment`], or says here why it treats nothing: `RouteRules` is taken
//!    apart without `..`, so the compiler asks about each new one.

use std::sync::Arc;

use sluicegate_config::rules::{
    ListUse, Name, RefusalRules, RouteAction, RouteCacheRules, RouteRules, ShapeRules,
};

/// Everything that a route does to the requests that it matches.
#[derive(Debug)]
pub(super) struct RouteTreatment {
    checks: RouteChecks,
    admitted: AdmittedTreatment,
}

/// The checks by which a route rejects requests.
#[derive(Debug)]
struct RouteChecks {
    limits: Box<[Name]>,
    /// The response to rejections by them.
    refusal: Option<Arc<RefusalRules>>,
    lists: ListUse,
    max_body_bytes: u64,
    /// True if the route itself bounds bodies.
    bounds_bodies: bool,
    needs_certificate: bool,
}

/// The course of an admitted request and of its response. Equality is that of all of it.
#[derive(Debug, PartialEq)]
struct AdmittedTreatment {
    action: RouteAction,
    cache: Option<RouteCacheRules>,
    shape: Option<Arc<ShapeRules>>,
    /// The name of the route, where the shape writes it into a field.
    written_name: Option<Name>,
}

impl RouteTreatment {
    /// Returns the treatment by a route; `usual_body` is the length of the largest body where a route says nothing.
    pub(super) fn new(rules: &RouteRules, usual_body: u64) -> Self {
        let RouteRules {
            // A label of metrics and logs.
            name,
            // It decides which requests are treated so.
            matches: _,
            limits,
            action,
            lists,
            require,
            max_body_bytes,
            refusal,
            cache,
            shape,
        } = rules;
        let writes_name = shape.as_ref().is_some_and(|shape| shape.writes_route());
        Self {
            checks: RouteChecks {
                limits: limits.as_slice().into(),
                refusal: refusal.clone(),
                lists: lists.clone(),
                max_body_bytes: max_body_bytes.unwrap_or(usual_body),
                bounds_bodies: max_body_bytes.is_some(),
                needs_certificate: require.needs_certificate(),
            },
            admitted: AdmittedTreatment {
                action: action.clone(),
                cache: cache.clone(),
                shape: shape.clone(),
                written_name: writes_name.then(|| name.clone()),
            },
        }
    }

    /// Returns whether it has every check of `other`, and treats admitted requests the same.
    pub(super) fn stands_for(&self, other: &Self) -> bool {
        self.admitted == other.admitted
            && self.checks.cover(&other.checks)
            && self.checks.reject_as(&other.checks)
    }

    /// Returns whether it takes requests that an application at its origin may read as those of `other`.
    ///
    /// The paths of another origin are not behind its own: an application below `/api` has a front controller of its own there. But two
    /// origins may be one machine, so the checks hold for both, and nothing is stored or edited that the other route has otherwise.
    pub(super) fn stands_for_script(&self, other: &Self) -> bool {
        let own = &self.admitted;
        let others = &other.admitted;
        let is_elsewhere = own.action != others.action
            && matches!(own.action, RouteAction::Forward(_))
            && matches!(others.action, RouteAction::Forward(_));
        if !is_elsewhere {
            return self.stands_for(other);
        }
        self.checks.cover(&other.checks)
            && (own.shape == others.shape || others.shape.is_none())
            && (own.cache == others.cache || own.cache.is_none())
    }

    /// Returns whether it forwards to the origin of `other` without a check that `other` names.
    pub(super) fn is_laxer(&self, other: &Self) -> bool {
        let own = &self.checks;
        let others = &other.checks;
        let is_bounded = !others.bounds_bodies || own.max_body_bytes <= others.max_body_bytes;
        matches!(self.admitted.action, RouteAction::Forward(_))
            && self.admitted.action == other.admitted.action
            && !(own.cover_names(others) && is_bounded)
    }
}

impl RouteChecks {
    /// Returns whether each request that passes these passes `others`.
    fn cover(&self, others: &Self) -> bool {
        self.cover_names(others) && self.max_body_bytes <= others.max_body_bytes
    }

    /// Returns whether these have every limit and list of `others`, and their need for a certificate.
    fn cover_names(&self, others: &Self) -> bool {
        contains(&self.limits, &others.limits)
            && contains(&others.lists.allow, &self.lists.allow)
            && contains(&self.lists.block, &others.lists.block)
            && (self.needs_certificate || !others.needs_certificate)
    }

    /// Returns whether rejections by the limits of `others` look the same.
    fn reject_as(&self, others: &Self) -> bool {
        others.limits.is_empty() || self.refusal == others.refusal
    }
}

fn contains(names: &[Name], others: &[Name]) -> bool {
    others.iter().all(|name| names.contains(name))
}
