//! Lists the request fields that a configuration names: those that it reads, and those that it writes for origins. Another
//! spelling of such a name must not reach an origin that equates the two.

use http::HeaderName;
use sluicegate_config::Action;
use sluicegate_config::rules::{Balance, Rules, ValuePart, ValueSource};

use crate::trace_fields::{TRACEPARENT, TRACESTATE};

/// Returns all of them; some may occur twice.
pub(super) fn list(rules: &Rules) -> Vec<HeaderName> {
    let mut names: Vec<HeaderName> = Vec::new();
    let of_key = |part: &ValuePart| match &part.source {
        ValueSource::Header(name) => Some(name.clone()),
        _ => None,
    };
    for limit in rules.limits.values() {
        names.extend(limit.values_read().filter_map(of_key));
        if let Action::Mark { field, .. } = &limit.action {
            names.push(field.clone());
        }
    }
    for origin in rules.origins.values() {
        if let Balance::Hash(key) = &origin.balance {
            names.extend(key.values().filter_map(of_key));
        }
    }
    for route in &rules.routes {
        names.extend(route.matches.headers.iter().map(|(name, _)| name.clone()));
        names.extend(route.cache.iter().flat_map(|cache| cache.vary_on.clone()));
    }
    let of_routes = rules.routes.iter().filter_map(|route| route.shape.as_ref());
    for shape in of_routes.chain(&rules.shape) {
        let edits = &shape.request;
        names.extend(edits.remove.iter().cloned());
        let written = edits.set.iter().chain(&edits.add);
        names.extend(written.map(|(name, _)| name.clone()));
    }
    names.extend(rules.client.request_id.clone());
    names.extend([TRACEPARENT.clone(), TRACESTATE.clone()]);
    names
}
