//! Decides how the paths of a host are written, and in which order.
//!
//! nginx looks through expressions in the order of its file, which ingress-nginx sorts: longer paths come first. One Ingress whose paths
//! are expressions makes those of all Ingresses of its host expressions. Here expressions precede patterns, so a prefix that a shorter
//! expression would take is an expression too.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::annotations::IngressAnnotations;
use super::precedence::PathStrength;
use super::yaml::YamlNode;
use crate::model::Route;
use crate::paths;

/// The notation of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathNotation {
    /// An exact path, or a pattern for a prefix.
    Pattern,
    /// An exact path, or an expression for a prefix.
    PrefixExpression,
    /// An expression without regard to case, whatever the type of the path is.
    Expression,
}

/// The paths of a host.
#[derive(Default)]
struct HostPaths {
    /// True if all of them are expressions.
    has_expressions: bool,
    /// Prefixes without a slash at their end, for which there is no pattern.
    prefixes: BTreeSet<String>,
}

/// The notations of hosts.
#[derive(Default)]
pub(super) struct HostNotations(BTreeMap<Option<String>, HostPaths>);

impl HostNotations {
    /// Takes a path of a host.
    pub(super) fn add(
        &mut self,
        host: Option<&str>,
        path: &YamlNode,
        annotations: &IngressAnnotations,
    ) {
        let known = self.0.entry(host.map(str::to_ascii_lowercase)).or_default();
        let text = text(path);
        let is_prefix = !matches!(kind(path), "Exact" | "Prefix");
        known.has_expressions |=
            annotations.use_regex.is_some() || annotations.rewrite_of(text).is_some();
        if is_prefix && !text.ends_with('/') {
            known.prefixes.insert(text.to_owned());
        }
    }

    /// Returns the notation of a path of a host.
    pub(super) fn notation(&self, host: Option<&str>, path: &YamlNode) -> PathNotation {
        let Some(known) = self.0.get(&host.map(str::to_ascii_lowercase)) else {
            return PathNotation::Pattern;
        };
        let text = text(path);
        let has_beginning = paths::beginnings(&known.prefixes, text).next().is_some();
        match has_beginning {
            _ if known.has_expressions => PathNotation::Expression,
            true => PathNotation::PrefixExpression,
            false => PathNotation::Pattern,
        }
    }
}

/// Returns the text of a path.
pub(super) fn text(path: &YamlNode) -> &str {
    path.get("path").and_then(YamlNode::text).unwrap_or("/")
}

/// Returns the type of a path.
pub(super) fn kind(path: &YamlNode) -> &str {
    let kind = path.get("pathType").and_then(YamlNode::text);
    kind.unwrap_or("ImplementationSpecific")
}

/// Returns the paths of routes that stand for a path of an Ingress.
pub(super) fn route_paths(path: &YamlNode, notation: PathNotation) -> Result<Vec<String>, String> {
    let text = text(path);
    let plain = |text: &str| paths::encoded(text).map_err(|c| format!("no path has {c:?}"));
    let beginning = |text: &str| match notation {
        PathNotation::Pattern if text.ends_with('/') => plain(text).map(|path| format!("{path}*")),
        _ => paths::beginning_with(text),
    };
    match (notation, kind(path)) {
        // No path is weaker, and a pattern is weaker than expressions.
        (PathNotation::Expression, _) if text == "/" => Ok(vec!["/*".to_owned()]),
        (PathNotation::Expression, _) => {
            let expression = format!("^{}", text.trim_start_matches('^'));
            paths::searched(&expression).map(|path| vec![path])
        }
        (_, "Exact") => plain(text).map(|path| vec![path]),
        _ if text == "/" => Ok(vec!["/*".to_owned()]),
        (_, "Prefix") => {
            let text = text.trim_end_matches('/');
            Ok(vec![plain(text)?, beginning(&format!("{text}/"))?])
        }
        // nginx's prefix, which also takes `/prefixed`.
        _ => beginning(text).map(|path| vec![path]),
    }
}

/// Returns a path as nginx compares its length with that of others.
pub(super) fn written(path: &YamlNode, notation: PathNotation) -> String {
    let text = text(path);
    match (notation, kind(path)) {
        (PathNotation::Pattern | PathNotation::PrefixExpression, "Prefix") => {
            format!("{}/", text.trim_end_matches('/'))
        }
        _ => text.to_owned(),
    }
}

/// A route, and the path as its Ingress writes it.
pub(super) struct WrittenRoute {
    pub(super) route: Route,
    pub(super) path: String,
    pub(super) strength: PathStrength,
}

/// Returns all routes; those of a host with expressions stand in the order in which nginx looks through them.
pub(super) fn ordered(routes: Vec<WrittenRoute>, notations: &HostNotations) -> Vec<Route> {
    let mut hosts: Vec<(Option<String>, Vec<WrittenRoute>)> = Vec::new();
    let mut places: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for route in routes {
        let host = route.route.host.clone();
        let at = *places.entry(host.clone()).or_insert_with(|| {
            hosts.push((host, Vec::new()));
            hosts.len() - 1
        });
        hosts[at].1.push(route);
    }
    let mut found = Vec::new();
    for (host, mut routes) in hosts {
        let known = notations.0.get(&host);
        if known.is_some_and(|it| it.has_expressions || !it.prefixes.is_empty()) {
            let rank = |it: &WrittenRoute| (it.path.len(), it.path.clone());
            routes.sort_by_cached_key(|it| Reverse(rank(it)));
        }
        found.extend(routes.into_iter().map(|it| it.route));
    }
    found
}
