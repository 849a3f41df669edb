//! Decides precedence: of two routes that match a request, the one with the greater rank wins.
//!
//! The order of the fields is the order of the criteria, so the derived `Ord` is the whole rule. Criteria that the client cannot
//! choose precede those that it can: its address, what databases say of that and what it proves, then headers, then the query.

use std::cmp::Reverse;

use sluicegate_base::path::PathCase;
use sluicegate_config::rules::{HostMatch, RouteMatch};

use super::client::ClientRank;
use super::conditions::RouteConditions;
use super::listener::ListenerRank;
use super::method::{MethodMatch, MethodRank};
use super::pattern::{CompiledPattern, SegmentRank};

/// The specificity of a route; greater is more specific, and no two are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RouteRank {
    host: HostRank,
    path: PathRank,
    /// True if case matters: a path in one case is narrower than one in any.
    keeps_case: bool,
    listener: ListenerRank,
    client: ClientRank,
    /// Number of fields of the client's place that it names.
    place: usize,
    /// True if it names crawlers.
    crawler: bool,
    headers: usize,
    query: usize,
    methods: MethodRank,
    /// Position in the file: the earlier one wins.
    order: Reverse<usize>,
}

/// The specificity of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HostRank {
    Any,
    /// Number of labels after `*.`: more are more specific.
    Under(usize),
    Exact,
}

/// The specificity of a path. Lists of ranks are compared from the left; each ends with its only end rank, so none is a prefix
/// of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathRank {
    /// A pattern with `{name}` or `*`.
    Open(Box<[SegmentRank]>),
    /// An expression. It ranks above patterns because an expression beside them is meant as an exception.
    Regex,
    /// A pattern of text alone.
    Literal(Box<[SegmentRank]>),
}

/// The criterion by which one route is more specific than another, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RankCriterion {
    /// It names a host, or more of it.
    Host,
    /// Its path.
    Path,
    /// It names fewer listeners.
    Listener,
    /// Its condition on the client is narrower.
    Client,
    /// It has more conditions on the client's country, city and network.
    Place,
    /// It has a condition on the client's crawler.
    Crawler,
    /// It has more conditions on headers.
    Headers,
    /// It has more conditions on the query.
    Query,
    /// It names the method.
    Methods,
    /// It stands earlier in the file.
    Order,
}

impl RouteRank {
    pub(super) fn new(
        matches: &RouteMatch,
        conditions: &RouteConditions,
        methods: &MethodMatch,
        order: usize,
    ) -> Self {
        Self {
            host: HostRank::from_host(matches.host.as_ref()),
            path: PathRank::from_matches(matches),
            keeps_case: matches.case == PathCase::Kept,
            listener: ListenerRank::new(&conditions.listeners),
            client: conditions.client.rank(),
            place: conditions.place.fields().count(),
            crawler: !conditions.crawler.is_any(),
            headers: conditions.headers.len(),
            query: conditions.query.len(),
            methods: methods.rank(),
            order: Reverse(order),
        }
    }

    /// Returns whether its path is text alone.
    pub(super) fn is_literal(&self) -> bool {
        matches!(self.path, PathRank::Literal(_))
    }

    /// Returns the criterion that decides between this and another rank.
    pub(super) fn criterion_against(&self, other: &Self) -> RankCriterion {
        let differs = [
            (self.host != other.host, RankCriterion::Host),
            (
                (&self.path, self.keeps_case) != (&other.path, other.keeps_case),
                RankCriterion::Path,
            ),
            (self.listener != other.listener, RankCriterion::Listener),
            (self.client != other.client, RankCriterion::Client),
            (self.place != other.place, RankCriterion::Place),
            (self.crawler != other.crawler, RankCriterion::Crawler),
            (self.headers != other.headers, RankCriterion::Headers),
            (self.query != other.query, RankCriterion::Query),
            (self.methods != other.methods, RankCriterion::Methods),
        ];
        differs
            .into_iter()
            .find(|(differs, _)| *differs)
            .map_or(RankCriterion::Order, |(_, criterion)| criterion)
    }
}

impl HostRank {
    fn from_host(host: Option<&HostMatch>) -> Self {
        match host {
            None => Self::Any,
            Some(HostMatch::Under(parent)) => Self::Under(parent.split('.').count()),
            Some(HostMatch::Exact(_)) => Self::Exact,
        }
    }
}

impl PathRank {
    fn from_matches(matches: &RouteMatch) -> Self {
        if matches.regex.is_some() {
            return Self::Regex;
        }
        let pattern = CompiledPattern::compile(&matches.path, matches.case);
        if pattern.is_literal() {
            Self::Literal(pattern.rank())
        } else {
            Self::Open(pattern.rank())
        }
    }
}
