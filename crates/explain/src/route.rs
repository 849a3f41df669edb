//! Explains one route: its conditions, its limits in their order, and its action.

use std::collections::BTreeMap;

use http::Method;
use serde::Serialize;
use sluicegate_base::path::PathCase;

use super::shape;
use super::text::{listed, span};
use sluicegate_config::rules::{
    CookieMeaning, Name, OriginRules, RouteAction, RouteCacheRules, RouteRules, Rules,
};
use sluicegate_config::{Action, SECRET, Share, shown_parameter};

/// A route in plain words.
#[derive(Debug, Serialize)]
pub struct RouteExplained {
    /// Its name.
    pub name: String,
    /// All its conditions.
    pub takes: Vec<String>,
    /// The proofs that a client must bring.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub require: Option<String>,
    /// Lists whose clients skip the limits.
    pub allow: Vec<String>,
    /// Lists whose clients are rejected.
    pub block: Vec<String>,
    /// Its limits, in the order of evaluation.
    pub limits: Vec<String>,
    /// The limits that are in shadow.
    pub shadow: Vec<String>,
    /// The limits that are enforced for a share of their keys, and in shadow for the others.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub enforced: BTreeMap<String, String>,
    /// The destination of an admitted request.
    pub action: String,
    /// The adaptive limit of the origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overload: Option<String>,
    /// The answers that are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
    /// The changes to requests and responses.
    pub shape: Vec<String>,
}

/// The visibility of values in conditions on headers and parameters: they may be secrets that a proxy before the gateway adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConditionValues {
    Shown,
    Hidden,
}

impl RouteExplained {
    /// Explains `route` among the other `rules`.
    #[must_use]
    pub fn new(route: &RouteRules, rules: &Rules) -> Self {
        Self::telling(route, rules, ConditionValues::Shown)
    }

    /// Explains a route as [`Self::new`] does, for readers who may not see the values of headers and parameters.
    #[must_use]
    pub fn without_secrets(route: &RouteRules, rules: &Rules) -> Self {
        Self::telling(route, rules, ConditionValues::Hidden)
    }

    fn telling(route: &RouteRules, rules: &Rules, values: ConditionValues) -> Self {
        let of_all = &rules.client.lists;
        let is_in_shadow = |name: &&Name| {
            let limit = rules.limits.get(*name);
            limit.is_some_and(|limit| limit.action == Action::Shadow)
        };
        let both = |all: &[Name], own: &[Name]| {
            let more = own.iter().filter(|name| !all.contains(name));
            all.iter().chain(more).map(ToString::to_string).collect()
        };
        Self {
            name: route.name.to_string(),
            takes: conditions(route, values),
            require: (route.require.needs_certificate()).then(|| {
                "Requests without a verified client certificate are rejected with 403.".to_owned()
            }),
            allow: both(&of_all.allow, &route.lists.allow),
            block: both(&of_all.block, &route.lists.block),
            limits: route.limits.iter().map(ToString::to_string).collect(),
            shadow: route
                .limits
                .iter()
                .filter(is_in_shadow)
                .map(ToString::to_string)
                .collect(),
            enforced: enforced(route, rules),
            action: match &route.action {
                RouteAction::Forward(origin) => format!("forwarded to the origin {origin:?}"),
                RouteAction::Respond(fixed) => {
                    format!("answered by the gateway with {}", fixed.status.as_u16())
                }
                RouteAction::Redirect(redirect) => {
                    format!("redirected with {}", redirect.status.as_u16())
                }
            },
            overload: match &route.action {
                RouteAction::Forward(origin) => rules.origins.get(origin).and_then(overload),
                RouteAction::Respond(_) | RouteAction::Redirect(_) => None,
            },
            cache: route.cache.as_ref().map(stores),
            shape: route
                .shape
                .as_deref()
                .map(shape::sentences)
                .unwrap_or_default(),
        }
    }

    /// Returns a line for each property.
    pub(super) fn sentences(&self) -> Vec<String> {
        let mut lines = vec![format!("Matches {}.", listed(&self.takes))];
        for (lists, effect) in [
            (&self.block, "are rejected"),
            (&self.allow, "skip the limits"),
        ] {
            if !lists.is_empty() {
                lines.push(format!("Clients of {} {effect}.", listed(lists)));
            }
        }
        lines.extend(self.require.clone());
        let is_asked = |name: &&String| !self.shadow.contains(name);
        let asked: Vec<String> = self.limits.iter().filter(is_asked).cloned().collect();
        if self.limits.is_empty() {
            lines.push("No limit applies.".to_owned());
        } else if !asked.is_empty() {
            lines.push(format!(
                "Limits, in this order: {}; all of them admit and are charged, or none is.",
                listed(&asked)
            ));
        }
        if !self.shadow.is_empty() {
            lines.push(format!(
                "Limits in shadow, each evaluated by itself for admitted requests: {}.",
                listed(&self.shadow)
            ));
        }
        lines.push(format!("Admitted requests are {}.", self.action));
        lines.extend(self.overload.clone());
        lines.extend(self.cache.clone());
        lines.extend(self.shape.iter().cloned());
        lines
    }
}

/// Returns the limits of a route that are enforced for a share of their keys, with the share.
fn enforced(route: &RouteRules, rules: &Rules) -> BTreeMap<String, String> {
    let limits = route.limits.iter().filter_map(|name| {
        let limit = rules.limits.get(name)?;
        let is_partial = limit.enforce != Share::ALL && limit.action != Action::Shadow;
        is_partial.then(|| (name.to_string(), limit.enforce.to_string()))
    });
    limits.collect()
}

/// Describes the adaptive limit of an origin; `None` where it has none.
fn overload(origin: &OriginRules) -> Option<String> {
    let adaptive = origin.adaptive_concurrency?;
    let most = (origin.circuit_breaker)
        .and_then(|circuit| circuit.max_requests)
        .map_or(adaptive.max, |most| most.min(adaptive.max));
    let queue = origin
        .circuit_breaker
        .filter(|circuit| circuit.max_pending > 0);
    let beyond = match queue {
        Some(circuit) => format!(
            "beyond that up to {} wait for {:?}, and others get 503",
            circuit.max_pending, circuit.pending_timeout
        ),
        None => "near that the clients with the most requests get 503 first".to_owned(),
    };
    Some(format!(
        "Each server gets as many requests at once as its latency allows, {} to {most}, {} at first; {beyond}.",
        adaptive.min,
        adaptive.first_limit()
    ))
}

/// Describes which answers of the route are stored.
fn stores(cache: &RouteCacheRules) -> String {
    let mut text = match cache.default_ttl {
        None => "Responses with a lifetime are stored".to_owned(),
        Some(ttl) => format!(
            "Responses are stored for their lifetime, or else for {}",
            span(ttl.as_secs())
        ),
    };
    text.push_str(match cache.cookies {
        CookieMeaning::Personal => {
            "; those to requests with a cookie or credentials only if they are explicitly public."
        }
        CookieMeaning::Ignored => {
            ", whatever cookies a request has; those to requests with credentials only if they are explicitly public."
        }
    });
    for (window, when) in [
        (cache.stale_while_revalidate, "while they are revalidated"),
        (cache.stale_if_error, "when the origin fails"),
    ] {
        if !window.is_zero() {
            text.push_str(&format!(
                " For {} more they are served stale {when}, unless they forbid it.",
                span(window.as_secs())
            ));
        }
    }
    text
}

fn conditions(route: &RouteRules, values: ConditionValues) -> Vec<String> {
    let matches = &route.matches;
    let methods: Vec<&str> = matches.methods.iter().map(Method::as_str).collect();
    let mut all = vec![if methods.is_empty() {
        "any method".to_owned()
    } else {
        methods.join(" or ")
    }];
    all.push(match &matches.host {
        Some(host) => format!("the host {host}"),
        None => "any host".to_owned(),
    });
    all.push(match matches.case {
        PathCase::Ignored => format!("the path {}", matches.path.text),
        PathCase::Kept => format!("the path {} in this case", matches.path.text),
    });
    if !matches.listeners.is_empty() {
        all.push(format!("the listener {}", matches.listeners.join(" or ")));
    }
    if !matches.client.is_any() {
        all.push(format!("clients in {}", matches.client));
    }
    if !matches.place.is_any() {
        all.push(format!("clients of {}", matches.place));
    }
    if !matches.crawler.is_any() {
        all.push(format!("clients of {}", matches.crawler));
    }
    let headers = matches.headers.iter();
    all.extend(headers.map(|(name, value)| match values {
        ConditionValues::Shown => format!("the header {name}: {}", value.as_bytes().escape_ascii()),
        ConditionValues::Hidden => format!("the header {name}: {SECRET}"),
    }));
    let query = matches.query.iter();
    all.extend(query.map(|condition| match values {
        ConditionValues::Shown => format!("the parameter {condition}"),
        ConditionValues::Hidden => {
            let value = shown_parameter(condition.value.as_deref());
            format!("the parameter {}={value}", condition.name)
        }
    }));
    all
}
