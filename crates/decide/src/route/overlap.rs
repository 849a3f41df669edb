//! Reports routes that can never be chosen.
//!
//! If two routes match the same requests the earlier wins. So a route is unreachable when earlier ones with the same host, the
//! same path but for the names of its parameters, and the same other conditions match all of its methods. Where conditions
//! differ, [`dead_routes`] checks more.

use std::borrow::Cow;
use std::collections::HashMap;

use http::{HeaderName, HeaderValue, Method};
use sluicegate_base::bounds::{PATH_REGEXES, PATH_REGEXES_OF_HOST};
use sluicegate_base::crawler::CrawlerCondition;
use sluicegate_base::geo::PlaceCondition;
use sluicegate_base::path::{PathCase, PathRegex};
use sluicegate_config::RouteReport;
use sluicegate_config::rules::{
    ClientCondition, HostMatch, Name, QueryCondition, RouteMatch, RouteRules, Segment, Tail,
};

use super::rank::RankCriterion;
use super::unreachable::{UnreachableRoute, dead_routes};

/// The properties that must be equal for two routes to compete.
#[derive(PartialEq, Eq, Hash)]
struct Shape<'r> {
    host: Option<&'r HostMatch>,
    /// `None` stands for any parameter.
    segments: Vec<Option<Cow<'r, str>>>,
    case: PathCase,
    takes_more: bool,
    regex: Option<&'r PathRegex>,
    listeners: &'r [Name],
    client: &'r ClientCondition,
    place: &'r PlaceCondition,
    crawler: &'r CrawlerCondition,
    query: &'r [QueryCondition],
    headers: Vec<(&'r HeaderName, &'r HeaderValue)>,
    takes_any_method: bool,
}

/// The routes of one shape that stand earlier.
#[derive(Default)]
struct EarlierRoutes<'r> {
    /// The methods of each, and its index.
    routes: Vec<(&'r [Method], usize)>,
    methods: Vec<&'r Method>,
}

/// Reports that more routes have a regular expression than the automaton of a host, or memory, has room for.
pub(super) fn check_regexes(report: &RouteReport<'_>) {
    let advice = "write patterns such as /users/{id} where they say the same";
    let mut by_host: HashMap<Option<&HostMatch>, usize> = HashMap::new();
    let mut all = 0;
    for (route, rules) in report.rules().enumerate() {
        let Some(rules) = rules.filter(|rules| rules.matches.regex.is_some()) else {
            continue;
        };
        let of_host = by_host.entry(rules.matches.host.as_ref()).or_default();
        *of_host += 1;
        all += 1;
        if *of_host == PATH_REGEXES_OF_HOST + 1 {
            let message = format!(
                "more than {PATH_REGEXES_OF_HOST} routes of one host have a regular expression as path"
            );
            report.error(route, message, advice);
        }
        if all == PATH_REGEXES + 1 {
            let message =
                format!("more than {PATH_REGEXES} routes have a regular expression as path");
            report.error(route, message, advice);
        }
    }
}

/// Reports every route that no request reaches because of earlier ones.
pub(super) fn check(report: &RouteReport<'_>) {
    let reported = check_alike(report);
    // A file with an invalid route has errors enough.
    let Some(rules) = report.all_rules() else {
        return;
    };
    for (index, reason) in dead_routes(&rules) {
        if reported.contains(&index) {
            continue;
        }
        let UnreachableRoute::Covered { by, since } = reason else {
            let message = "no client is taken: its exceptions hold all of its blocks";
            let advice =
                "write the blocks of `client` that it is for, and narrower ones behind \"!\"";
            report.warning(index, message, advice);
            continue;
        };
        let (reason, advice) = match since {
            RankCriterion::Path if is_regex(rules.get(by)) => (
                "stands before it, since an expression does before a pattern",
                "narrow the expression, or write this path as an expression too, before that one",
            ),
            RankCriterion::Client => (
                "stands before it, since its blocks are narrower",
                "write narrower blocks here, or leave this route out",
            ),
            _ => (
                "stands before it",
                "move this one before it, or leave one of the two out",
            ),
        };
        let line = report.line(by);
        report.warning(
            index,
            format!("no request reaches it: the route on line {line} takes all that it could, and {reason}"),
            advice,
        );
    }
}

/// Reports routes that differ from earlier ones in nothing but methods, and returns their indices.
fn check_alike(report: &RouteReport<'_>) -> Vec<usize> {
    let mut reported = Vec::new();
    let mut shapes: HashMap<Shape<'_>, EarlierRoutes<'_>> = HashMap::new();
    for (index, rules) in report.rules().enumerate() {
        let Some(rules) = rules else { continue };
        let earlier = shapes.entry(shape(&rules.matches)).or_default();
        let methods = &rules.matches.methods[..];
        let same = earlier.routes.iter().find(|(taken, _)| *taken == methods);
        if let Some((_, first)) = same {
            reported.push(index);
            report.error(
                index,
                format!(
                    "the route on line {} takes the same requests",
                    report.line(*first)
                ),
                "leave one of the two out, or tell them apart by host, path, methods, listeners, client, headers or query; \
                 write ignore_case = false in both where they differ in case",
            );
        } else if !methods.is_empty()
            && methods
                .iter()
                .all(|method| earlier.methods.contains(&method))
        {
            reported.push(index);
            let takes = |(taken, _): &&(&[Method], usize)| taken.contains(&methods[0]);
            let line = earlier
                .routes
                .iter()
                .find(takes)
                .map_or(1, |(_, first)| report.line(*first));
            report.warning(
                index,
                format!("earlier routes, the first on line {line}, take all requests that this one could"),
                "move it before them, or take its methods out of theirs",
            );
        } else {
            earlier.routes.push((methods, index));
            earlier.methods.extend(methods);
        }
    }
    reported
}

fn is_regex(rules: Option<&RouteRules>) -> bool {
    rules.is_some_and(|rules| rules.matches.regex.is_some())
}

fn shape(matches: &RouteMatch) -> Shape<'_> {
    let segments = matches.path.segments.iter().map(|segment| match segment {
        Segment::Literal(text) if matches.case == PathCase::Kept => Some(Cow::from(&**text)),
        Segment::Literal(text) => Some(Cow::from(text.to_ascii_lowercase())),
        Segment::Parameter(_) => None,
    });
    Shape {
        host: matches.host.as_ref(),
        segments: segments.collect(),
        case: matches.case,
        takes_more: matches.path.tail == Tail::Any,
        regex: matches.regex.as_ref(),
        listeners: &matches.listeners,
        client: &matches.client,
        place: &matches.place,
        crawler: &matches.crawler,
        query: &matches.query,
        headers: matches
            .headers
            .iter()
            .map(|(name, value)| (name, value))
            .collect(),
        takes_any_method: matches.methods.is_empty(),
    }
}
