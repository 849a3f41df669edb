//! Judges what a listener with `protocol = "forward-auth"` needs of the other tables, and what of them has no effect there.
//!
//! A proxy that asks shows the head of a request and keeps the response to itself. What waits for a response, or for the end of a request,
//! cannot work there; it is a warning, since another listener may forward.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::StatusCode;

use super::defined_names::DefinedNames;
use super::field::quoted;
use super::report::{PlacedValue, ProblemReport};
use super::rules::{
    ClientRules, CostRules, CountedRequests, FixedResponse, LimitRules, ListenerRules, Name,
    RouteAction, ValueSource,
};

/// Returns the action of a route without one in a file whose listeners all only decide: requests that the limits admit get 204.
pub(super) fn admitting() -> RouteAction {
    RouteAction::Respond(FixedResponse {
        status: StatusCode::NO_CONTENT,
        body: Bytes::new(),
        content_type: None,
        headers: Vec::new(),
    })
}

/// Reports a listener at which nobody may ask, and limits that count something that no question has.
pub(super) fn check(
    listeners: &[PlacedValue<ListenerRules>],
    client: &ClientRules,
    limits: &BTreeMap<Name, LimitRules>,
    defined: &DefinedNames,
    report: &ProblemReport<'_>,
) {
    let Some(listener) = listeners.iter().find(|each| each.value.decides_only()) else {
        return;
    };
    if client.trusted_proxies.is_empty() {
        report.absent(
            &listener.place,
            "nobody may ask at this listener: a question decides whose address a request counts under, and no proxy is trusted",
            "write [client] trusted_proxies = [\"127.0.0.1/32\"] with the addresses of the proxies that ask",
        );
    }
    for (name, limit) in limits {
        let (Some(place), Some((what, advice))) = (defined.limits.get(name), without_effect(limit))
        else {
            continue;
        };
        let address = quoted(&listener.value.address.to_string());
        report.warning(
            place,
            format!("at the listener {address}, where proxies ask before they forward, {what}"),
            advice,
        );
    }
}

/// Returns what of a limit has no effect on a question, and what to write instead.
fn without_effect(limit: &LimitRules) -> Option<(String, &'static str)> {
    let waits = limit.count_if.is_some()
        || matches!(limit.cost, CostRules::Measured(_))
        || limit.count == CountedRequests::Origin;
    if waits {
        return Some((
            "its charges depend on the response, which nobody shows: every admitted request costs what is reserved".to_owned(),
            "leave out count_if, count and a cost of the response, or let these requests pass through a listener with protocol = \"http\"",
        ));
    }
    if limit.concurrency.is_some() {
        return Some((
            "its concurrency bounds nothing, since a request ends with the decision".to_owned(),
            "leave out concurrency, and bound requests in flight in the proxy that asks",
        ));
    }
    let hidden = limit.values_read().find(|value| {
        matches!(
            value.source,
            ValueSource::Json(_)
                | ValueSource::Form(_)
                | ValueSource::CertificateSubject
                | ValueSource::CertificateFingerprint
                | ValueSource::Ja4
        )
    })?;
    Some(match hidden.source {
        ValueSource::Json(_) | ValueSource::Form(_) => (
            format!("\"{}\" is missing", hidden.source),
            "count by a header or by client.ip, or let the proxy send the body with its question, as Traefik does with forwardBody",
        ),
        _ => (
            format!(
                "\"{}\" is missing, since the connection is that of the proxy that asks",
                hidden.source
            ),
            "let that proxy write it into a header, list it in [client] trusted_headers, and count by header.NAME",
        ),
    })
}
