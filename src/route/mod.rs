//! Decides what is asked for: the one route that takes a request.
//!
//! The most specific route wins, wherever it stands in the file: an exact host before any host; then the path, segment by
//! segment from the left, text before `{name}` before `*`; then more header conditions; then named methods; then the order
//! of the file. A route whose method or headers do not fit gives way to the next less specific one, so a limit on
//! `POST /auth/sendOTP` leaves `GET` to `/*`. `summary` holds that order as one `Ord`; each kind of condition has a file.
//!
//! Paths are compared in the normal form of [`path`], which is wider than what was sent. Where origins are known to read one
//! spelling in two ways, and the two would be treated differently here, the request is refused rather than guessed about.
//!
//! # Invariants
//!
//! 1. The answer is the greatest by `summary` of all routes that take the request, for every reading of its path.
//! 2. A look-up of a path in normal form does not allocate, and costs what the path is long, not what the routes are many.
//!
//! # Limits
//!
//! A look-up visits a node of the trie at most once, and is as deep as the deepest pattern, at most
//! [`PATH_SEGMENTS`](crate::bounds::PATH_SEGMENTS). Only routes that share host and pattern, and differ in methods or
//! headers, are tried one by one; only patterns with text and `{name}` side by side at many levels make it look twice.

mod header;
pub mod host;
mod method;
pub mod path;
mod pattern;
mod summary;
#[cfg(test)]
mod tests;
mod trie;

use std::collections::HashMap;
use std::fmt;

use http::{HeaderMap, Method};

use self::header::HeaderMatch;
use self::method::MethodMatch;
pub use self::path::{NormalPath, PathError};
use self::pattern::Pattern;
use self::summary::{HostRank, Summary};
use self::trie::{Asked, Entry, Node};
use crate::config::rules::{Name, RouteAction, RouteRules};

/// All routes of one configuration, compiled.
#[derive(Debug)]
pub struct Routes {
    hosts: HashMap<Box<str>, Node>,
    any_host: Node,
    /// By route.
    treatments: Box<[Treatment]>,
}

/// What a route does to a request that it takes: two routes with equal treatment can stand for each other.
#[derive(Debug, PartialEq)]
struct Treatment {
    limits: Box<[Name]>,
    action: RouteAction,
    max_body_bytes: Option<u64>,
}

/// The path can be read in two ways, and these are treated differently: answer 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ambiguous {
    /// The route by the path's normal form.
    pub normal: usize,
    /// The route by another reading.
    pub other: Option<usize>,
}

impl Routes {
    /// Compiles routes; what [`find`](Self::find) returns are indices into this slice.
    #[must_use]
    pub fn compile(rules: &[RouteRules]) -> Self {
        let mut routes = Self {
            hosts: HashMap::new(),
            any_host: Node::default(),
            treatments: rules.iter().map(Treatment::of).collect(),
        };
        for (index, rules) in rules.iter().enumerate() {
            let pattern = Pattern::compile(&rules.matches.path);
            let trie = match &rules.matches.host {
                Some(host) => routes.hosts.entry(host::literal(host)).or_default(),
                None => &mut routes.any_host,
            };
            for methods in MethodMatch::compile(&rules.matches.methods) {
                let headers = HeaderMatch::compile(&rules.matches.headers);
                let summary = Summary::of(
                    HostRank::of(rules.matches.host.as_deref()),
                    &pattern,
                    &headers,
                    &methods,
                    index,
                );
                trie.insert(
                    &pattern,
                    Entry {
                        route: index,
                        summary,
                        methods,
                        headers,
                    },
                );
            }
        }
        routes
    }

    /// The route that takes a request; `None` when there is none.
    ///
    /// `host` is in the normal form of [`host::normalise`], or empty where the request named none.
    ///
    /// # Errors
    ///
    /// [`Ambiguous`] when the path has a second reading under which another treatment would apply.
    pub fn find(
        &self,
        host: &str,
        path: &NormalPath<'_>,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Option<usize>, Ambiguous> {
        let asked = Asked { method, headers };
        let named = self.hosts.get(host);
        let best = |path: &str| {
            let entry = named.and_then(|trie| trie.find(path, &asked));
            entry
                .or_else(|| self.any_host.find(path, &asked))
                .map(|entry| entry.route)
        };
        let Some(normal) = best(path.as_str()) else {
            return Ok(None);
        };
        for reading in path.other_readings() {
            let other = best(reading);
            if !other.is_some_and(|other| self.treat_alike(normal, other)) {
                return Err(Ambiguous { normal, other });
            }
        }
        Ok(Some(normal))
    }

    fn treat_alike(&self, a: usize, b: usize) -> bool {
        a == b || self.treatments.get(a) == self.treatments.get(b)
    }
}

impl Treatment {
    fn of(rules: &RouteRules) -> Self {
        Self {
            limits: rules.limits.as_slice().into(),
            action: rules.action.clone(),
            max_body_bytes: rules.max_body_bytes,
        }
    }
}

impl fmt::Display for Ambiguous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the path can be read in two ways that belong to different routes; \
             send it without encoded slashes and dot segments",
        )
    }
}

impl std::error::Error for Ambiguous {}
