//! Finds the one route of a request.
//!
//! The most specific route wins, wherever it stands in the file: an exact host before `*.example.com`, the longer of two such
//! before the shorter, and all before any host; then the path: one of text alone, then a regular expression, then patterns,
//! segment by segment from the left, text before `{name}` before `*`; then fewer named listeners; then the narrower condition on the
//! client; then more
//! conditions on headers; then on the query; then named methods; then the order of the file. If one condition of a route is not
//! met, the next less specific route is tried, so a limit on `POST /auth/sendOTP` leaves `GET` to `/*`. `rank` defines that
//! order as one `Ord`; each kind of condition has a file.
//!
//! Paths are compared in the normal form of [`path`](sluicegate_base::path) and without regard to case, unless a route keeps it. That form
//! is wider than the text that was sent. Where origins are known to read one spelling in two ways, the request is rejected,
//! unless its route has every check of the other reading's route and treats what passes the same (`treatment`).
//!
//! # Invariants
//!
//! 1. The result is the greatest by `rank` of all routes that match the request, and it stands for those of every other reading of its
//!    path, and for that of the request without conditions that only some readings of its query meet.
//! 2. A look-up of a path in normal form costs time in proportion to the path, not to the number of routes; it does not
//!    allocate, unless its host has regular expressions.
//!
//! # Limits
//!
//! A look-up visits a node of the trie at most once, and is as deep as the deepest pattern, at most
//! [`PATH_SEGMENTS`](sluicegate_base::bounds::PATH_SEGMENTS). Only routes that share host and path, and differ in other conditions, are
//! tried one by one; only patterns with text and `{name}` side by side at many levels cause a second search. For one host, as
//! many suffixes are looked up as the longest `*.` has labels.

mod client;
mod conditions;
mod entry;
mod header;
mod host_routes;
mod listener;
mod loopholes;
mod method;
mod overlap;
mod pattern;
mod query;
mod rank;
mod regex_set;
mod review;
#[cfg(test)]
mod tests;
mod treatment;
mod trie;
mod unreachable;

use std::fmt;

use ahash::{HashMap, HashMapExt};
use sluicegate_base::bounds;
use sluicegate_base::host;
use sluicegate_base::path::NormalPath;
use sluicegate_config::rules::{HostMatch, RouteRules};

use self::entry::RouteEntry;
pub use self::entry::{RequestFields, RouteCondition};
use self::host_routes::HostRoutes;
pub use self::listener::RequestListener;
pub use self::rank::RankCriterion;
use self::rank::RouteRank;
pub use self::review::review;
use self::treatment::RouteTreatment;

/// All routes of one configuration, compiled.
#[derive(Debug)]
pub struct RouteTable {
    hosts: HashMap<Box<str>, HostRoutes>,
    /// Routes by the part of their host after the `*.`.
    under: HashMap<Box<str>, HostRoutes>,
    /// Labels of the longest key of `under`.
    deepest_under: usize,
    any_host: HostRoutes,
    /// Treatments, by route.
    treatments: Box<[RouteTreatment]>,
    /// True if a route has a condition on the query.
    reads_query: bool,
    longest_path: usize,
}

/// The path or the query has two readings, and the other one is checked more strictly or treated differently: answer 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmbiguousPath {
    /// The route by the path's normal form.
    pub normal: usize,
    /// The route by another reading.
    pub other: Option<usize>,
}

/// A route whose host and path match a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteCandidate {
    /// Its index.
    pub route: usize,
    /// The first of its other conditions that the request does not meet; `None` where it matches.
    pub objection: Option<RouteCondition>,
    /// The reason for which it precedes the next candidate; `None` for the last.
    pub wins_by: Option<RankCriterion>,
}

impl RouteTable {
    /// Compiles routes; [`find`](Self::find) returns indices into this slice. `usual_body` is the length in bytes of the largest body
    /// where a route says nothing.
    #[must_use]
    pub fn compile(rules: &[RouteRules], usual_body: u64) -> Self {
        let mut by_host: HashMap<Option<HostMatch>, Vec<(usize, &RouteRules)>> = HashMap::new();
        for (index, rules) in rules.iter().enumerate() {
            let host = rules.matches.host.clone();
            by_host.entry(host).or_default().push((index, rules));
        }
        let mut routes = Self {
            hosts: HashMap::new(),
            under: HashMap::new(),
            deepest_under: 0,
            any_host: HostRoutes::compile(&by_host.remove(&None).unwrap_or_default()),
            treatments: (rules.iter())
                .map(|rules| RouteTreatment::new(rules, usual_body))
                .collect(),
            reads_query: (rules.iter()).any(|rules| !rules.matches.query.is_empty()),
            longest_path: if rules.iter().any(|rules| rules.matches.regex.is_some()) {
                bounds::PATH_REGEX_PATH
            } else {
                usize::MAX
            },
        };
        for (host, of_host) in by_host {
            let site = HostRoutes::compile(&of_host);
            match host {
                None => {}
                Some(HostMatch::Exact(name)) => {
                    routes.hosts.insert(host::literal(&name), site);
                }
                Some(HostMatch::Under(parent)) => {
                    routes.deepest_under = routes.deepest_under.max(parent.split('.').count());
                    routes.under.insert(host::literal(&parent), site);
                }
            }
        }
        routes
    }

    /// Returns the route of a request; `None` when there is none.
    ///
    /// `host` is in the normal form of [`host::normalize`], or empty where the request named none. The path is at most
    /// [`longest_path`](Self::longest_path) long.
    ///
    /// # Errors
    ///
    /// [`AmbiguousPath`] when the path or the query has a second reading for whose route the first one does not stand.
    pub fn find(
        &self,
        host: &str,
        path: &NormalPath<'_>,
        asked: &RequestFields<'_>,
    ) -> Result<Option<usize>, AmbiguousPath> {
        let best = |path: &str| self.best(host, path, asked);
        let entry = self.first(host, path.as_str(), &mut |entry| entry.takes(asked));
        let Some(entry) = entry else {
            return Ok(None);
        };
        let normal = entry.route;
        if self.reads_query && !asked.query.is_empty() {
            let plain = self.first(host, path.as_str(), &mut |entry| entry.takes_plainly(asked));
            let other = plain.map(|entry| entry.route);
            if !other.is_some_and(|other| self.stands_for(normal, other)) {
                return Err(AmbiguousPath { normal, other });
            }
        }
        for reading in path.other_readings() {
            let other = best(reading);
            if !other.is_some_and(|other| self.stands_for(normal, other)) {
                return Err(AmbiguousPath { normal, other });
            }
        }
        // A path of text alone is written for the script itself, so it decides what that script is.
        let is_named = |reading: &&str| entry.summary.is_literal() && path.is_index_of(reading);
        let of_scripts = path
            .readings_of_scripts()
            .filter(|reading| !is_named(reading))
            .filter_map(best);
        for other in of_scripts {
            if normal != other && !self.compare(normal, other, RouteTreatment::stands_for_script) {
                let other = Some(other);
                return Err(AmbiguousPath { normal, other });
            }
        }
        // A page or an image is requested with a safe method, and its name has an ending.
        let formats = (!asked.method.is_safe()).then(|| path.without_formats());
        for other in formats.into_iter().flatten().filter_map(best) {
            if self.compare(normal, other, RouteTreatment::is_laxer) {
                let other = Some(other);
                return Err(AmbiguousPath { normal, other });
            }
        }
        Ok(Some(normal))
    }

    /// Returns the other readings of a path that have a route, with that route.
    pub fn routes_of_other_readings<'r>(
        &'r self,
        host: &'r str,
        path: &'r NormalPath<'_>,
        asked: &'r RequestFields<'_>,
    ) -> impl Iterator<Item = (&'r str, usize)> {
        let readings = path.other_readings().chain(path.readings_of_scripts());
        readings.filter_map(move |reading| Some((reading, self.best(host, reading, asked)?)))
    }

    /// Returns every route whose host and path match a request, the most specific first, each with the first condition that is
    /// not met. The first without one is the result of [`find`](Self::find), because both check the same entries in the same
    /// order.
    #[must_use]
    pub fn candidates(
        &self,
        host: &str,
        path: &NormalPath<'_>,
        asked: &RequestFields<'_>,
    ) -> Vec<RouteCandidate> {
        let mut seen: Vec<(RouteCandidate, RouteRank)> = Vec::new();
        self.first(host, path.as_str(), &mut |entry| {
            let objection = entry.objection(asked);
            let known = seen
                .iter_mut()
                .find(|(candidate, _)| candidate.route == entry.route);
            match known {
                // A route that names GET has a second entry, for HEAD.
                Some((candidate, summary)) => {
                    if candidate.objection.is_some() && objection.is_none() {
                        candidate.objection = None;
                        *summary = entry.summary.clone();
                    }
                }
                None => seen.push((
                    RouteCandidate {
                        route: entry.route,
                        objection,
                        wins_by: None,
                    },
                    entry.summary.clone(),
                )),
            }
            false
        });
        seen.sort_by(|(_, a), (_, b)| b.cmp(a));
        let criteria: Vec<_> = seen
            .windows(2)
            .map(|pair| pair[0].1.criterion_against(&pair[1].1))
            .collect();
        let mut candidates: Vec<_> = seen.into_iter().map(|(candidate, _)| candidate).collect();
        for (candidate, criterion) in candidates.iter_mut().zip(criteria) {
            candidate.wins_by = Some(criterion);
        }
        candidates
    }

    /// Returns the length in bytes of the longest path in normal form that may be looked up, since expressions have a bound.
    #[must_use]
    pub fn longest_path(&self) -> usize {
        self.longest_path
    }

    /// Returns the route of a request by one reading of its path.
    fn best(&self, host: &str, path: &str, asked: &RequestFields<'_>) -> Option<usize> {
        self.first(host, path, &mut |entry| entry.takes(asked))
            .map(|entry| entry.route)
    }

    /// Returns the first entry, in the order of precedence, whose host and path match and for which `takes` is true.
    fn first(
        &self,
        host: &str,
        path: &str,
        takes: &mut impl FnMut(&RouteEntry) -> bool,
    ) -> Option<&RouteEntry> {
        let named = self.hosts.get(host);
        named
            .and_then(|site| site.find(path, takes))
            .or_else(|| self.first_under(host, path, takes))
            .or_else(|| self.any_host.find(path, takes))
    }

    /// Returns the first such entry among `*.` hosts, the longest suffix first.
    fn first_under(
        &self,
        host: &str,
        path: &str,
        takes: &mut impl FnMut(&RouteEntry) -> bool,
    ) -> Option<&RouteEntry> {
        if self.deepest_under == 0 {
            return None;
        }
        let dots = host.bytes().filter(|byte| *byte == b'.').count();
        // After the first of n dots there are n labels.
        let endings = host.match_indices('.').map(|(at, _)| &host[at + 1..]);
        endings
            .skip(dots.saturating_sub(self.deepest_under))
            .find_map(|ending| self.under.get(ending)?.find(path, takes))
    }

    /// Returns whether either of two routes may serve a request that is `route`'s by one reading and `other`'s by another.
    fn stands_for(&self, route: usize, other: usize) -> bool {
        route == other || self.compare(route, other, RouteTreatment::stands_for)
    }

    /// Compares the treatments of two routes.
    fn compare(
        &self,
        route: usize,
        other: usize,
        compare: fn(&RouteTreatment, &RouteTreatment) -> bool,
    ) -> bool {
        let treatments = (self.treatments.get(route), self.treatments.get(other));
        matches!(treatments, (Some(route), Some(other)) if compare(route, other))
    }
}

impl fmt::Display for AmbiguousPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the path or the query can be read in two ways that belong to different routes; send it without `//`, `;`, `..`, \
             encoded slashes, backslashes, and endings like `.json`, and each parameter once",
        )
    }
}

impl std::error::Error for AmbiguousPath {}
