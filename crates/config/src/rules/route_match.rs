//! Owns the conditions of `[[route]]`: which requests it takes.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method};
use ipnet::IpNet;
use sluicegate_base::crawler::CrawlerCondition;
use sluicegate_base::geo::PlaceCondition;
use sluicegate_base::path::{PathCase, PathRegex};

use super::Name;

/// Which requests a route takes; all conditions must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteMatch {
    /// `host`; any when absent.
    pub host: Option<HostMatch>,
    /// `path`; `/*` where `regex` says it.
    pub path: PathPattern,
    /// `path = "~ ^/v[0-9]+/otp$"`: what the whole path must match.
    pub regex: Option<PathRegex>,
    /// `ignore_case`
    pub case: PathCase,
    /// `listeners`, by name; any when empty.
    pub listeners: Vec<Name>,
    /// `client`; any when it names nobody.
    pub client: ClientCondition,
    /// `countries`, `cities` and `asns`.
    pub place: PlaceCondition,
    /// `crawlers`
    pub crawler: CrawlerCondition,
    /// `query = { page = "2" }`, by name.
    pub query: Vec<QueryCondition>,
    /// `methods`, by name; any when empty.
    pub methods: Vec<Method>,
    /// `headers = { x-plan = "free" }`: each present with exactly this value; by name.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// `host` of a route: lower case, without port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostMatch {
    /// This one.
    Exact(Arc<str>),
    /// `*.example.com`: every name that ends in a dot and this one, at any depth.
    Under(Arc<str>),
}

/// `client` of a route: the longest block that holds the address decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientCondition {
    /// The addresses that match; everybody when there are only exceptions.
    pub of: Vec<IpNet>,
    /// `"!10.1.0.0/16"`: who is not.
    pub except: Vec<IpNet>,
}

/// One parameter of the query that must be there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueryCondition {
    /// Decoded.
    pub name: Arc<str>,
    /// Decoded; `None` takes any.
    pub value: Option<Arc<str>>,
}

/// `path`: exact, `/prefix/*` or with `{name}` segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    /// The pattern as it was written.
    pub text: Arc<str>,
    /// The segments between slashes, without the final `*`; empty text is the end of `/a/`, and the whole of `/`.
    pub segments: Vec<Segment>,
    /// Says whether anything may follow: `/a/*` takes `/a/`, `/a/b` and `/a/b/c`, but not `/a`; `/*` takes everything.
    pub tail: Tail,
}

impl PathPattern {
    /// Returns whether `{name}` is one of its segments.
    #[must_use]
    pub fn has_parameter(&self, name: &str) -> bool {
        self.parameter_position(name).is_some()
    }

    /// Which of its segments, from 0, is `{name}`.
    #[must_use]
    pub fn parameter_position(&self, name: &str) -> Option<usize> {
        self.segments.iter().position(
            |segment| matches!(segment, Segment::Parameter(parameter) if **parameter == *name),
        )
    }

    /// The segment of `path`, which fits and is in normal form, that is `{name}`.
    #[must_use]
    pub fn parameter<'p>(&self, path: &'p str, name: &str) -> Option<&'p str> {
        path.split('/').nth(self.parameter_position(name)? + 1)
    }
}

/// One segment of a path pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// This text, in the normal form that requests are compared in.
    Literal(Arc<str>),
    /// `{name}`: any one segment that is not empty.
    Parameter(Arc<str>),
}

/// The paths that may follow the segments of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    Exact,
    /// Anything.
    Any,
}

impl ClientCondition {
    /// Returns whether every client matches.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.of.is_empty() && self.except.is_empty()
    }
}

impl std::fmt::Display for HostMatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Under(parent) => write!(f, "*.{parent}"),
        }
    }
}

impl std::fmt::Display for ClientCondition {
    /// `10.0.0.0/8,!10.1.0.0/16`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = self.of.iter().map(|block| ("", block));
        let except = self.except.iter().map(|block| ("!", block));
        for (at, (mark, block)) in of.chain(except).enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{mark}{block}")?;
        }
        Ok(())
    }
}

impl std::fmt::Display for QueryCondition {
    /// `page=2`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.value.as_deref().unwrap_or("*"))
    }
}
