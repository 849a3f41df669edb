//! Finds routes that can never be chosen, where that is easily seen.
//!
//! Of two routes that match alike the earlier wins. So a route is dead when earlier ones with the same host, the same path but
//! for the names of its parameters, and the same headers take all of its methods.

use std::collections::HashMap;

use http::{HeaderName, HeaderValue, Method};

use super::report::{Place, Report};
use super::rules::{RouteMatch, Segment, Tail};
use super::tables::route::Route;

/// What must be equal for two routes to compete.
#[derive(PartialEq, Eq, Hash)]
struct Shape<'r> {
    host: Option<&'r str>,
    /// `None` stands for any parameter.
    segments: Vec<Option<&'r str>>,
    takes_more: bool,
    headers: Vec<(&'r HeaderName, &'r HeaderValue)>,
    takes_any_method: bool,
}

/// The routes of one shape seen so far.
#[derive(Default)]
struct Earlier<'r> {
    routes: Vec<(&'r [Method], &'r Place)>,
    methods: Vec<&'r Method>,
}

/// Reports every route that earlier ones leave nothing to.
pub(super) fn check(routes: &[Route], report: &Report<'_>) {
    let mut shapes: HashMap<Shape<'_>, Earlier<'_>> = HashMap::new();
    for route in routes {
        let Some(rules) = &route.rules else { continue };
        let earlier = shapes.entry(shape(&rules.matches)).or_default();
        let methods = &rules.matches.methods[..];
        let same = earlier.routes.iter().find(|(taken, _)| *taken == methods);
        if let Some((_, first)) = same {
            report.error(
                &route.place,
                format!(
                    "the route on line {} takes the same requests",
                    report.line_of(first)
                ),
                "leave one of the two out, or tell them apart by host, path, methods or headers",
            );
        } else if !methods.is_empty()
            && methods
                .iter()
                .all(|method| earlier.methods.contains(&method))
        {
            let takes = |(taken, _): &&(&[Method], &Place)| taken.contains(&methods[0]);
            let line = earlier
                .routes
                .iter()
                .find(takes)
                .map_or(1, |(_, place)| report.line_of(place));
            report.warning(
                &route.place,
                format!("earlier routes, the first on line {line}, take all requests that this one could"),
                "move it before them, or take its methods out of theirs",
            );
        } else {
            earlier.routes.push((methods, &route.place));
            earlier.methods.extend(methods);
        }
    }
}

fn shape(matches: &RouteMatch) -> Shape<'_> {
    let segments = matches.path.segments.iter().map(|segment| match segment {
        Segment::Literal(text) => Some(&**text),
        Segment::Parameter(_) => None,
    });
    Shape {
        host: matches.host.as_deref(),
        segments: segments.collect(),
        takes_more: matches.path.tail == Tail::Any,
        headers: matches
            .headers
            .iter()
            .map(|(name, value)| (name, value))
            .collect(),
        takes_any_method: matches.methods.is_empty(),
    }
}
