//! Decides precedence: of two routes that take a request, the greater summary wins.
//!
//! The order of the fields is the order of the criteria, so the derived `Ord` is the whole rule.

use std::cmp::Reverse;

use super::header::HeaderMatch;
use super::method::{MethodMatch, MethodRank};
use super::pattern::{Pattern, SegmentRank};

/// How specific a route is; greater is more specific, and no two are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Summary {
    host: HostRank,
    /// Compared from the left. Each list ends with its only end rank, so none is the beginning of another.
    path: Box<[SegmentRank]>,
    headers: usize,
    methods: MethodRank,
    /// The earlier in the file wins.
    order: Reverse<usize>,
}

/// Whether a route names its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HostRank {
    Any,
    Exact,
}

impl Summary {
    pub(super) fn of(
        host: HostRank,
        pattern: &Pattern,
        headers: &HeaderMatch,
        methods: &MethodMatch,
        order: usize,
    ) -> Self {
        Self {
            host,
            path: pattern.rank(),
            headers: headers.len(),
            methods: methods.rank(),
            order: Reverse(order),
        }
    }
}

impl HostRank {
    pub(super) fn of(host: Option<&str>) -> Self {
        if host.is_some() {
            Self::Exact
        } else {
            Self::Any
        }
    }
}
