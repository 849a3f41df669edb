//! Owns one way into a route: what must hold of a request beside host and path.
//!
//! The trie and the regular expressions find entries by path; each then asks the same conditions, so that no route can be
//! reached by one way under other terms than by the other.

use std::net::IpAddr;

use http::{HeaderMap, Method};

use super::client::ClientMatch;
use super::header::HeaderMatch;
use super::method::MethodMatch;
use super::query::QueryMatch;
use super::summary::Summary;
use crate::config::rules::RouteMatch;

/// What a request asks for beside host and path.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Its fields.
    pub headers: &'a HeaderMap,
    /// What follows the `?` of its target, as sent; empty where nothing does.
    pub query: &'a str,
    /// Who asks.
    pub client: IpAddr,
}

/// A condition of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// `methods`
    Methods,
    /// `client`
    Client,
    /// `headers`
    Headers,
    /// `query`
    Query,
}

/// One way into a route.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) route: usize,
    pub(super) summary: Summary,
    methods: MethodMatch,
    conditions: Conditions,
}

/// What must hold of a request beside host, path and method.
#[derive(Debug)]
pub(super) struct Conditions {
    pub(super) client: ClientMatch,
    pub(super) headers: HeaderMatch,
    pub(super) query: QueryMatch,
}

/// The entries of one pattern, the most specific first.
#[derive(Debug, Default)]
pub(super) struct Entries(Vec<Entry>);

impl Entry {
    /// The entries of the route `index`, one or two of them.
    pub(super) fn compile(index: usize, matches: &RouteMatch) -> impl Iterator<Item = Self> {
        MethodMatch::compile(&matches.methods).map(move |methods| {
            let conditions = Conditions::compile(matches);
            Self {
                route: index,
                summary: Summary::of(matches, &conditions, &methods, index),
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

    pub(super) fn takes(&self, asked: &Asked<'_>) -> bool {
        self.objection(asked).is_none()
    }

    /// The first condition that the request does not meet.
    pub(super) fn objection(&self, asked: &Asked<'_>) -> Option<Condition> {
        if !self.methods.takes(asked.method) {
            return Some(Condition::Methods);
        }
        let conditions = &self.conditions;
        if !conditions.client.takes(asked.client) {
            return Some(Condition::Client);
        }
        if !conditions.headers.takes(asked.headers) {
            return Some(Condition::Headers);
        }
        (!conditions.query.takes(asked.query)).then_some(Condition::Query)
    }
}

impl Conditions {
    pub(super) fn compile(matches: &RouteMatch) -> Self {
        Self {
            client: ClientMatch::compile(&matches.client),
            headers: HeaderMatch::compile(&matches.headers),
            query: QueryMatch::compile(&matches.query),
        }
    }
}

impl Entries {
    pub(super) fn insert(&mut self, entry: Entry) {
        let at = self
            .0
            .partition_point(|other| other.summary > entry.summary);
        self.0.insert(at, entry);
    }

    pub(super) fn first(&self, takes: &mut impl FnMut(&Entry) -> bool) -> Option<&Entry> {
        self.0.iter().find(|entry| takes(entry))
    }
}
