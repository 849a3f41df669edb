//! Owns the limits of one route, and what can be known of them together before a request comes.

use std::ops::Deref;
use std::sync::Arc;

use http::HeaderName;

use super::limit::ActiveLimit;
use super::terms::Terms;

/// The limits of a route, in the order written.
#[derive(Debug)]
pub struct RouteLimits {
    limits: Box<[Arc<ActiveLimit>]>,
    course: Course,
    /// Fields in which the origin speaks to the gateway alone.
    confidential: Box<[HeaderName]>,
}

/// How the limits of a route are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// All together, and that is all.
    Plain,
    /// By their parts.
    Weighed,
}

impl RouteLimits {
    /// These limits, in the order written.
    #[must_use]
    pub fn new(limits: Vec<Arc<ActiveLimit>>) -> Self {
        let plain = limits.iter().all(|limit| limit.is_plain());
        let told = limits.iter().filter_map(|limit| limit.terms.as_ref());
        let mut confidential: Vec<_> = told.filter_map(Terms::told_by).cloned().collect();
        confidential.dedup();
        Self {
            limits: limits.into(),
            course: if plain {
                Course::Plain
            } else {
                Course::Weighed
            },
            confidential: confidential.into(),
        }
    }

    /// Whether one verdict over all limits says everything.
    pub(super) fn are_plain(&self) -> bool {
        self.course == Course::Plain
    }

    /// Whether a refusal leaves nothing to be done but to answer.
    pub(super) fn refuse_plainly(&self) -> bool {
        true
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
