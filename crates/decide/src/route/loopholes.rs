//! Warns about routes whose limits a request bypasses by another method, in another case of letters, or below a path that was meant as a
//! prefix, at the same origin.
//!
//! Frameworks answer more methods than their authors expect, and some equate `/auth/sendotp` with `/auth/sendOTP`. So a request
//! that such a route matches is routed again with the properties that the route leaves open. A separate route for the other
//! methods of the same path counts as intended.

use std::net::IpAddr;

use http::Method;
use sluicegate_base::host;
use sluicegate_base::path::{NormalPath, PathCase};
use sluicegate_base::received::ReceivedFields;
use sluicegate_config::RouteReport;
use sluicegate_config::rules::{
    ClientCondition, HostMatch, Name, RouteAction, RouteMatch, RouteRules, Segment, Tail,
};

use super::{RequestFields, RequestListener, RouteTable};

/// Methods by which frameworks run the code of a route.
const METHODS: [Method; 6] = [
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::GET,
    Method::OPTIONS,
];

/// The routes of a file, and the table that finds one of them for a request.
struct Probe<'r> {
    report: &'r RouteReport<'r>,
    rules: Vec<RouteRules>,
    compiled: RouteTable,
}

/// A request that one route matches.
#[derive(Clone)]
struct Sample {
    host: String,
    path: String,
    method: Method,
    headers: ReceivedFields,
    query: String,
    /// A name of a listener; `None` for one without.
    listener: Option<Name>,
    client: IpAddr,
}

/// Reports every route with limits that a wider one bypasses.
pub(super) fn check(report: &RouteReport<'_>) {
    let is_open = |rules: &RouteRules| {
        let matches = &rules.matches;
        let narrows = !matches.methods.is_empty()
            || matches.case == PathCase::Kept
            || is_meant_as_prefix(matches);
        narrows && !rules.limits.is_empty()
    };
    let rules = report.all_rules();
    let Some(rules) = rules.filter(|rules| rules.iter().any(is_open)) else {
        return;
    };
    let probe = Probe {
        report,
        // The paths of samples have one reading, so no treatments are compared.
        compiled: RouteTable::compile(&rules, u64::MAX),
        rules,
    };
    for (index, rules) in probe.rules.iter().enumerate() {
        if let Some(sample) = Some(rules)
            .filter(|rules| is_open(rules))
            .and_then(Sample::new)
            && probe.find(&sample) == Some(index)
        {
            probe.check_methods(index, &sample);
            probe.check_case(index, &sample);
            probe.check_below(index, &sample);
        }
    }
}

impl Probe<'_> {
    fn check_methods(&self, index: usize, sample: &Sample) {
        let with = |method: &Method| Sample {
            method: method.clone(),
            ..sample.clone()
        };
        let around = |method: &Method| self.way_around(index, &with(method));
        let escaping: Vec<&Method> = METHODS
            .iter()
            .filter(|method| around(method).is_some())
            .collect();
        let Some(wider) = escaping.first().and_then(|method| around(method)) else {
            return;
        };
        let methods = escaping.iter().map(|method| method.as_str());
        let methods = methods.collect::<Vec<_>>().join(", ");
        let what = format!("requests of {methods} at this path");
        let advice = "leave `methods` out, or write a route with this path for the methods that need no limit";
        self.warn(index, wider, &what, advice);
    }

    fn check_case(&self, index: usize, sample: &Sample) {
        let other = Sample {
            path: in_other_case(&sample.path),
            ..sample.clone()
        };
        if let Some(wider) = self.way_around(index, &other) {
            let what = "requests of this path in another case of letters";
            let advice = "leave `ignore_case` out unless the origin tells /a from /A";
            self.warn(index, wider, what, advice);
        }
    }

    /// nginx's `location /api` takes all that begins so; here a path without a star takes itself alone.
    fn check_below(&self, index: usize, sample: &Sample) {
        let Some(rules) = self.rules.get(index) else {
            return;
        };
        if !is_meant_as_prefix(&rules.matches) {
            return;
        }
        let below = Sample {
            path: format!("{}/x", sample.path.trim_end_matches('/')),
            ..sample.clone()
        };
        if let Some(wider) = self.way_around(index, &below) {
            let prefix = rules.matches.path.text.trim_end_matches('/');
            let what = format!("requests below {prefix}, such as {prefix}/x,");
            let advice = format!(
                "write a route with path = \"{prefix}/*\" and these limits too: a path without a star takes nothing below it"
            );
            self.warn(index, wider, &what, &advice);
        }
    }

    fn warn(&self, index: usize, wider: usize, what: &str, advice: &str) {
        let line = self.report.line(wider);
        self.report.warning(
            index,
            format!(
                "{what} go to the same origin by the route on line {line}, without these limits"
            ),
            advice,
        );
    }

    /// Returns the route that takes a request to the origin of the route `index`, but for another path and without all of its
    /// limits.
    fn way_around(&self, index: usize, sample: &Sample) -> Option<usize> {
        let found = self.find(sample).filter(|found| *found != index)?;
        let route = self.rules.get(index)?;
        let wider = self.rules.get(found)?;
        let is_same_origin =
            matches!(route.action, RouteAction::Forward(_)) && route.action == wider.action;
        let is_same_path = route.matches.path.text == wider.matches.path.text
            && route.matches.host == wider.matches.host;
        let has_all = route
            .limits
            .iter()
            .all(|limit| wider.limits.contains(limit));
        (is_same_origin && !is_same_path && !has_all).then_some(found)
    }

    fn find(&self, sample: &Sample) -> Option<usize> {
        let path = NormalPath::parse(&sample.path).ok()?;
        let asked = RequestFields {
            method: &sample.method,
            headers: &sample.headers,
            query: &sample.query,
            listener: RequestListener::Known(sample.listener.as_deref()),
            client: sample.client,
            place: None,
            crawler: None,
        };
        self.compiled.find(&sample.host, &path, &asked).ok()?
    }
}

impl Sample {
    /// Returns a request that meets every condition of a route, where one is easily made.
    fn new(rules: &RouteRules) -> Option<Self> {
        let matches = &rules.matches;
        let query = matches.query.iter().map(|condition| {
            let value = condition.value.as_deref().unwrap_or("x");
            format!("{}={value}", condition.name)
        });
        Some(Self {
            host: match &matches.host {
                None => String::new(),
                Some(HostMatch::Exact(name)) => host::normalize(name).ok()?.into_owned(),
                Some(HostMatch::Under(parent)) => format!("x.{}", host::normalize(parent).ok()?),
            },
            path: match &matches.regex {
                Some(regex) => regex.sample()?,
                None => pattern_sample(rules),
            },
            method: matches.methods.first().cloned().unwrap_or(Method::POST),
            headers: matches.headers.iter().cloned().collect(),
            query: query.collect::<Vec<_>>().join("&"),
            listener: matches.listeners.first().cloned(),
            client: client_sample(&matches.client),
        })
    }
}

/// Last segments of paths that name a part of a site rather than one resource, beside versions: `v1`.
const PARTS_OF_SITES: [&str; 20] = [
    "admin",
    "api",
    "apis",
    "app",
    "assets",
    "downloads",
    "files",
    "images",
    "internal",
    "media",
    "private",
    "public",
    "rest",
    "rpc",
    "service",
    "services",
    "static",
    "uploads",
    "wp-admin",
    "wp-json",
];

/// Returns whether a path without a star looks like a prefix: it ends in a slash, or in the name of a part of a site.
fn is_meant_as_prefix(matches: &RouteMatch) -> bool {
    let pattern = &matches.path;
    let Some(Segment::Literal(last)) = pattern.segments.last() else {
        return false;
    };
    let last = last.to_ascii_lowercase();
    let is_version = last.strip_prefix('v').is_some_and(|number| {
        number.starts_with(|first: char| first.is_ascii_digit()) && number.len() <= 8
    });
    let is_part = match last.is_empty() {
        true => pattern.segments.len() > 1,
        false => is_version || PARTS_OF_SITES.contains(&&*last),
    };
    is_part && pattern.tail == Tail::Exact && matches.regex.is_none()
}

fn pattern_sample(rules: &RouteRules) -> String {
    let pattern = &rules.matches.path;
    let mut path = String::new();
    for segment in &pattern.segments {
        path.push('/');
        path.push_str(match segment {
            Segment::Literal(text) => text,
            Segment::Parameter(_) => "x",
        });
    }
    if pattern.tail == Tail::Any {
        path.push_str("/x");
    }
    path
}

fn client_sample(condition: &ClientCondition) -> IpAddr {
    /// An address of a block for documentation, RFC 5737.
    const SOMEBODY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    condition.of.first().map_or(SOMEBODY, |block| block.addr())
}

fn in_other_case(path: &str) -> String {
    let other = |letter: char| {
        if letter.is_ascii_lowercase() {
            letter.to_ascii_uppercase()
        } else {
            letter.to_ascii_lowercase()
        }
    };
    path.chars().map(other).collect()
}
