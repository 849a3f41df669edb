//! Owns one entry of a route: its conditions on a request beside host and path.
//!
//! The trie and the regular expressions find entries by path; each then checks the same conditions, so a route has the same
//! conditions whichever of the two finds it.

use std::net::IpAddr;

use http::Method;
use sluicegate_base::crawler::ClientCrawler;
use sluicegate_base::geo::ClientPlace;
use sluicegate_base::received::ReceivedFields;
use sluicegate_config::rules::RouteMatch;

use super::conditions::RouteConditions;
use super::listener::RequestListener;
use super::method::MethodMatch;
use super::rank::RouteRank;

/// The parts of a request beside host and path that routes match.
#[derive(Clone, Copy, Debug)]
pub struct RequestFields<'a> {
    /// The method.
    pub method: &'a Method,
    /// The fields.
    pub headers: &'a ReceivedFields,
    /// The query after the `?` of the target, as sent; empty where there is none.
    pub query: &'a str,
    /// The listener by which it came.
    pub listener: RequestListener<'a>,
    /// The client's address.
    pub client: IpAddr,
    /// Its place; `None` for a request that stands for those of every place that a route takes.
    pub place: Option<&'a ClientPlace<'a>>,
    /// The crawler that it is; `None` for a request that stands for all that a route takes.
    pub crawler: Option<&'a ClientCrawler<'a>>,
}

/// A condition of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteCondition {
    /// `methods`
    Methods,
    /// `listeners`
    Listener,
    /// `client`
    Client,
    /// `countries`, `cities` or `asns`
    Place,
    /// `crawlers`
    Crawler,
    /// `headers`
    Headers,
    /// `query`
    Query,
}

/// One entry of a route.
#[derive(Debug)]
pub(super) struct RouteEntry {
    pub(super) route: usize,
    pub(super) summary: RouteRank,
    methods: MethodMatch,
    conditions: RouteConditions,
}

/// The entries of one pattern, the most specific first.
#[derive(Debug, Default)]
pub(super) struct PatternEntries(Vec<RouteEntry>);

impl RouteEntry {
    /// Returns the entries of the route `index`, one or two of them.
    pub(super) fn compile(index: usize, matches: &RouteMatch) -> impl Iterator<Item = Self> {
        MethodMatch::compile(&matches.methods).map(move |methods| {
            let conditions = RouteConditions::compile(matches);
            Self {
                route: index,
                summary: RouteRank::new(matches, &conditions, &methods, index),
                methods,
                conditions,
            }
        })
    }

    pub(super) fn methods(&self) -> &MethodMatch {
        &self.methods
    }

    pub(super) fn takes_client(&self, client: IpAddr) -> bool {
        self.conditions.client.takes(client)
    }

    pub(super) fn takes(&self, asked: &RequestFields<'_>) -> bool {
        self.objection(asked).is_none()
    }

    /// Returns whether it takes the request in every reading of its query.
    pub(super) fn takes_plainly(&self, asked: &RequestFields<'_>) -> bool {
        self.objection_beside_query(asked).is_none()
            && self.conditions.query.takes_plainly(asked.query)
    }

    /// Returns the first condition that the request does not meet.
    pub(super) fn objection(&self, asked: &RequestFields<'_>) -> Option<RouteCondition> {
        self.objection_beside_query(asked).or_else(|| {
            let is_met = self.conditions.query.takes(asked.query);
            (!is_met).then_some(RouteCondition::Query)
        })
    }

    fn objection_beside_query(&self, asked: &RequestFields<'_>) -> Option<RouteCondition> {
        if !self.methods.takes(asked.method) {
            return Some(RouteCondition::Methods);
        }
        let conditions = &self.conditions;
        if !asked.listener.is_of(&conditions.listeners) {
            return Some(RouteCondition::Listener);
        }
        if !conditions.client.takes(asked.client) {
            return Some(RouteCondition::Client);
        }
        if !conditions.place.is_any()
            && let Some(place) = asked.place
            && !conditions.place.takes(place.get())
        {
            return Some(RouteCondition::Place);
        }
        if !conditions.crawler.is_any()
            && let Some(crawler) = asked.crawler
            && !conditions.crawler.takes(crawler.get())
        {
            return Some(RouteCondition::Crawler);
        }
        (!conditions.headers.takes(asked.headers)).then_some(RouteCondition::Headers)
    }
}

impl PatternEntries {
    pub(super) fn insert(&mut self, entry: RouteEntry) {
        let at = self
            .0
            .partition_point(|other| other.summary > entry.summary);
        self.0.insert(at, entry);
    }

    pub(super) fn first(&self, takes: &mut impl FnMut(&RouteEntry) -> bool) -> Option<&RouteEntry> {
        self.0.iter().find(|entry| takes(entry))
    }
}
