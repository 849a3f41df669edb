//! Decides which routes regard the case of letters.
//!
//! A route whose proxy compares paths with regard to case is exact with `ignore_case = false`. Many origins ignore case, so the route
//! ignores it too, as every route does by default, where that only makes it stricter: a limit of `/login` then holds for `/LOGIN`. It does
//! not where the route would take a request away from another route with another origin or answer, or with a guard that it lacks, nor
//! where another route has the same path, or one around it, in other letters. A route that refuses requests is always stricter.
//!
//! # Invariants
//! 1. Routes with one host and one path regard case alike, since the gateway prefers one that does, whatever their other conditions are.
//! 2. So do all routes of a host with an expression, whose order in the file decides.

mod guards;
mod paths;

use std::collections::{BTreeMap, BTreeSet};

use sluicegate_base::path::PathCase;

pub(crate) use self::guards::covers;
use self::paths::PathPlace;
pub(crate) use self::paths::RoutePath;
use crate::bounds;
use crate::closed_hosts;
use crate::model::{Limit, Route};
use crate::paths::expression;
use crate::route_conditions::{share_listeners, takes_all};

/// A host as routes name it.
type HostName = Option<String>;

/// Lets routes ignore case where that makes them stricter at most.
pub(crate) fn relax(routes: &mut [Route], limits: &[Limit]) {
    let mut hosts: BTreeMap<HostName, Vec<usize>> = BTreeMap::new();
    for (at, route) in routes.iter().enumerate() {
        hosts.entry(route.host.clone()).or_default().push(at);
    }
    let paths: Vec<Option<RoutePath>> = routes.iter().map(RoutePath::new).collect();
    let mut kept: BTreeSet<(HostName, String)> = BTreeSet::new();
    for (host, own) in &hosts {
        let around = closed_hosts::around(host.as_deref());
        let others = around.filter_map(|it| hosts.get(&it)).flatten().copied();
        let comparison = CaseComparison {
            routes,
            paths: &paths,
            limits,
            others: others.collect(),
        };
        let own = own.iter().filter(|at| comparison.must_keep(**at));
        kept.extend(own.map(|at| (host.clone(), routes[*at].path.clone())));
    }
    let with_expressions: BTreeSet<HostName> = (kept.iter())
        .filter(|(_, path)| expression(path).is_some())
        .map(|(host, _)| host.clone())
        .collect();
    for route in routes {
        let is_kept = kept.contains(&(route.host.clone(), route.path.clone()));
        let expression = expression(&route.path);
        if let Some(expression) = expression.filter(|_| with_expressions.contains(&route.host)) {
            if route.case == PathCase::Ignored {
                route.path = format!("~ (?i){expression}");
            }
            route.case = PathCase::Kept;
        } else if !is_kept {
            route.case = PathCase::Ignored;
        }
    }
}

/// The routes that can take requests for a host.
struct CaseComparison<'r> {
    routes: &'r [Route],
    paths: &'r [Option<RoutePath>],
    limits: &'r [Limit],
    others: Vec<usize>,
}

impl CaseComparison<'_> {
    /// Returns true if a route without regard to case would take requests that it must leave to others.
    fn must_keep(&self, at: usize) -> bool {
        if self.routes[at].case == PathCase::Ignored {
            return false;
        }
        let Some(path) = &self.paths[at] else {
            return true;
        };
        if self.others.len() > bounds::ROUTES_COMPARED_BY_CASE || path.names_capitals() {
            return true;
        }
        self.is_spelled_otherwise(at, path) || self.loses_guard(at, path)
    }

    /// Returns true if the route would take requests from another one that has their path, or its beginning, in other letters.
    fn is_spelled_otherwise(&self, at: usize, path: &RoutePath) -> bool {
        let is_exact =
            |other: &&usize| **other != at && self.routes[**other].case == PathCase::Kept;
        self.others.iter().filter(is_exact).any(|number| {
            let Some(other) = &self.paths[*number] else {
                return false;
            };
            let spelled = other
                .begin(path)
                .into_iter()
                .chain([other.sample().to_owned()]);
            let mut taken = spelled.filter(|asked| path.takes_by_case(asked));
            taken.any(|asked| self.takers(at, path, &asked).contains(number))
        })
    }

    /// Returns true if the route would take requests from another one whose guards it lacks.
    fn loses_guard(&self, at: usize, path: &RoutePath) -> bool {
        let lost = |asked: &String| {
            let mut takers = self.takers(at, path, asked).into_iter();
            takers.any(|other| !covers(&self.routes[at], &self.routes[other], self.limits))
        };
        let others = path.in_other_letters();
        let mut taken = others.iter().filter(|asked| path.takes_by_case(asked));
        taken.any(lost)
    }

    /// Returns the routes from which the route `at` would take a request, were it one of its own.
    fn takers(&self, at: usize, path: &RoutePath, asked: &str) -> Vec<usize> {
        let route = &self.routes[at];
        let mut takers: Vec<(bool, PathPlace, usize)> = Vec::new();
        for other in &self.others {
            let candidate = &self.routes[*other];
            let known = self.paths[*other].as_ref();
            let taking = known.filter(|it| it.takes(asked, candidate.case));
            if let Some(taking) =
                taking.filter(|_| share_listeners(&route.listeners, &candidate.listeners))
            {
                let has_same_host = candidate.host == route.host;
                takers.push((has_same_host, taking.rank(*other), *other));
            }
        }
        takers.sort_unstable();
        let mut found = Vec::new();
        for (has_same_host, rank, other) in takers.into_iter().rev() {
            // An earlier route has the request whatever the case is.
            if !has_same_host || rank <= path.rank(at) {
                found.push(other);
            }
            if takes_all(&self.routes[other], &route.listeners) {
                break;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use crate::{Format, NoFiles, import};

    /// The paths of the routes that an input becomes, with a mark at those that regard case.
    fn paths(format: Format, text: &str) -> Vec<String> {
        let imported = import(format, "x", text, &NoFiles).unwrap();
        let tables = imported.toml.split("[[route]]\n").skip(1);
        let read = |table: &str| {
            let value = |name: &str| {
                let mut lines = table.lines();
                let line = lines.find(|line| line.split(" = ").next().unwrap().trim() == name)?;
                line.split_once(" = ").map(|(_, value)| value.to_owned())
            };
            let mark = match value("ignore_case") {
                Some(_) => "!",
                None => "",
            };
            format!("{mark}{}", value("path").unwrap().trim_matches('"'))
        };
        tables.map(read).collect()
    }

    /// Goal: a route ignores case unless another one has its path in other letters, or a guard that it lacks. Method: each reason alone,
    /// and routes that are stricter than those around.
    #[test]
    fn case_is_regarded_where_routes_differ_by_it() {
        let server = |locations: &str| {
            let zones = "limit_req_zone $binary_remote_addr zone=few:1m rate=1r/m;\n\
                 limit_req_zone $binary_remote_addr zone=more:1m rate=9r/s;\n";
            let text = format!("{zones}server {{ listen 8080; {locations} }}");
            paths(Format::Nginx, &text)
        };
        let pass = "proxy_pass http://127.0.0.1:1;";
        let few = "limit_req zone=few;";
        let more = "limit_req zone=more;";
        let root = format!("location / {{ {pass} }}");
        let limited_root = format!("location / {{ {more} {pass} }}");
        let one = |root: &str, location: &str, inner: &str| {
            server(&format!("{root} location {location} {{ {inner} {pass} }}"))
        };
        assert_eq!(one(&root, "/a/", few), ["/a/*", "/*"]);
        assert_eq!(one(&root, "/a/", ""), ["/a/*", "/*"]);
        assert_eq!(one(&limited_root, "/a/", few), ["/a/*", "/*"]);
        assert_eq!(one(&limited_root, "/a/", ""), ["!/a/*", "/*"]);
        assert_eq!(one(&limited_root, "/a/", "deny all;"), ["/a/*", "/*"]);
        assert_eq!(one(&root, "/a/", "return 301 /b;"), ["!/a/*", "/*"]);
        let elsewhere = "location /a/ { proxy_pass http://127.0.0.1:2; }";
        assert_eq!(server(&format!("{root} {elsewhere}")), ["!/a/*", "/*"]);
        assert_eq!(one(&root, "~ ^/[a-z]+$", few), ["~ ^/[a-z]+$", "/*"]);
        assert_eq!(one(&root, "~ ^/[A-Z]+$", few), ["!~ ^/[A-Z]+$", "/*"]);
        assert_eq!(
            one(&root, "~ ^/[^A-Z]+$", few),
            ["!~ ^/(?:[^A-Z%]|%..)+$", "/*"]
        );
        assert_eq!(one(&root, "~* ^/A$", few), ["~ ^/A$", "/*"]);
        assert_eq!(
            server(&format!(
                "{root} location /A/ {{ {pass} }} location /a/b/ {{ {few} {pass} }}"
            )),
            ["!/a/b/*", "/A/*", "/*"]
        );
        assert_eq!(
            server(&format!(
                "{root} location /A/ {{ {pass} }} location /a/ {{ {pass} }}"
            )),
            ["!/A/*", "!/a/*", "/*"]
        );
        assert_eq!(
            server(&format!(
                "{root} location ^~ /A {{ {pass} }} location /ab/ {{ deny all; }} location ~* /c {{ {pass} }}"
            )),
            ["!~ ^/A(.*)$", "!~ (?i)^.*/c.*$", "/ab/*", "/*"]
        );
    }

    /// Goal: routes of a host regard case because of those for all hosts too. Method: an open path of a host beside a limit for every host.
    #[test]
    fn routes_of_wider_hosts_are_compared() {
        let text = "http:\n  routers:\n    \
             a: { rule: \"Host(`a.test`) && PathPrefix(`/Open/`)\", service: s }\n    \
             all: { rule: \"PathPrefix(`/`)\", service: s, middlewares: [m] }\n    \
             lower: { rule: \"PathPrefix(`/open/`)\", service: s, middlewares: [m] }\n  \
             middlewares: { m: { rateLimit: { average: 1 } } }\n  \
             services: { s: { loadBalancer: { servers: [{ url: \"http://127.0.0.1:1\" }] } } }\n";
        let found = paths(Format::Traefik, text);
        assert!(found.contains(&"!/Open/*".to_owned()), "{found:?}");
    }

    /// Goal: conditions of HAProxy with `-i` ignore case, and others regard it where that matters. Method: one of each below a refusal.
    #[test]
    fn flags_of_haproxy_count() {
        let text = "frontend f\n bind :80\n \
             http-request deny unless { path_beg -i /a/ } or { path_beg /b/ } or { path,lower -m beg /c/ }\n \
             default_backend one\nbackend one\n server s 127.0.0.1:1\n";
        assert_eq!(
            paths(Format::Haproxy, text),
            ["/a/*", "!/b/*", "/c/*", "/*"]
        );
    }

    /// Goal: paths of an Ingress regard case where that matters, and its expressions do not. Method: an open path below a limited one.
    #[test]
    fn paths_of_an_ingress_regard_case() {
        let ingress = |name: &str, annotation: &str, path: &str| {
            format!(
                "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: {name}\n  annotations: {{ {annotation} }}\nspec:\n  \
                 rules:\n  - host: a.test\n    http:\n      paths:\n      - path: {path}\n        pathType: Prefix\n        \
                 backend: {{ service: {{ name: s, port: {{ number: 80 }} }} }}\n---\n"
            )
        };
        let limit = "nginx.ingress.kubernetes.io/limit-rps: \"5\"";
        let text = ingress("all", limit, "/") + &ingress("open", "", "/open");
        assert_eq!(paths(Format::Ingress, &text), ["/*", "!/open", "!/open/*"]);
    }
}
