//! Finds hosts that one listener guards by certificates of clients, and that another one serves without.

use sluicegate_base::pki::ClientAuth;

use super::field::quoted;
use super::report::{PlacedValue, ProblemReport};
use super::rules::{CertificateNeed, HostMatch, ListenerRules, RouteAction, RouteRules};
use super::tables::parsed_route::ParsedRoute;

/// Reports routes that need what no listener asks clients for.
pub(super) fn check_asked(
    listeners: &[PlacedValue<ListenerRules>],
    routes: &[ParsedRoute],
    report: &ProblemReport<'_>,
) {
    let is_asked = listeners.iter().any(|each| {
        let tls = each.value.tls.as_ref();
        !each.value.decides_only() && tls.is_some_and(|tls| tls.clients.is_some())
    });
    let needs = |route: &&ParsedRoute| {
        let rules = route.rules.as_ref();
        rules.is_some_and(|rules| rules.require.needs_certificate())
    };
    if !is_asked && let Some(route) = routes.iter().find(needs) {
        report.absent(
            &route.place,
            "the route requires a client certificate, and no listener asks clients for one",
            "write client_ca_file = \"clients.pem\" in [listener.tls]",
        );
    }
}

/// Warns of routes of hosts that a listener serves to clients with certificates alone, and that another listener serves to everybody.
pub(super) fn check_guarded(
    listeners: &[PlacedValue<ListenerRules>],
    routes: &[ParsedRoute],
    report: &ProblemReport<'_>,
) {
    let Some(open) = listeners.iter().find(|each| is_unguarded(&each.value)) else {
        return;
    };
    let guards = || listeners.iter().filter(|each| is_guard(&each.value));
    for route in routes {
        let Some(open_route) = route.rules.as_ref().filter(|rules| is_open(rules)) else {
            continue;
        };
        let guards_it = |guard: &&PlacedValue<ListenerRules>| {
            let mut rules = routes.iter().filter_map(|route| route.rules.as_ref());
            rules.any(|rules| is_guarded(&guard.value, rules, open_route))
        };
        let Some(guard) = guards().find(guards_it) else {
            continue;
        };
        let name = quoted(guard.value.name.as_deref().unwrap_or("internal"));
        let naming = match guard.value.name {
            Some(_) => String::new(),
            None => format!(" and name = {name} in that [[listener]]"),
        };
        report.warning(
            &route.place,
            format!(
                "the listener on line {} requires certificates of clients for this host, and the one on line {} serves it without",
                report.line_of(&guard.place),
                report.line_of(&open.place)
            ),
            format!(
                "write require = {{ client_certificate = true }}, or listeners = [{name}]{naming}; \
                 require = {{ client_certificate = false }} says that this is meant"
            ),
        );
    }
}

/// Returns whether a route serves clients of every listener without certificates, and nothing says that this is meant.
fn is_open(route: &RouteRules) -> bool {
    route.require.client_certificate == CertificateNeed::Unsaid
        && route.matches.listeners.is_empty()
        && !matches!(route.action, RouteAction::Redirect(_))
}

/// Returns whether requests by this listener can match the route.
fn takes(route: &RouteRules, listener: &ListenerRules) -> bool {
    let named = &route.matches.listeners;
    named.is_empty() || (listener.name.as_ref()).is_some_and(|name| named.contains(name))
}

fn is_guard(listener: &ListenerRules) -> bool {
    let clients = listener.tls.as_ref().and_then(|tls| tls.clients.as_ref());
    clients.is_some_and(|clients| clients.auth() == ClientAuth::Required)
        && !listener.decides_only()
}

fn is_unguarded(listener: &ListenerRules) -> bool {
    !is_guard(listener) && !listener.decides_only() && listener.redirect_to_https.is_none()
}

/// Returns whether `open_route` serves what the listener guards: the hosts of its certificates, by `route`, or by a route for any host that
/// leads to the same place.
fn is_guarded(listener: &ListenerRules, route: &RouteRules, open_route: &RouteRules) -> bool {
    takes(route, listener)
        && is_host_of(listener, route)
        && (open_route.matches.host == route.matches.host
            || open_route.matches.host.is_none() && open_route.action == route.action)
}

/// Returns whether a host of the route has a certificate of the listener. One without names is for any host.
fn is_host_of(listener: &ListenerRules, route: &RouteRules) -> bool {
    let Some(tls) = &listener.tls else {
        return false;
    };
    let ordered = tls.acme.iter().flat_map(|names| names.names());
    let ordered = ordered.map(|name| &**name);
    let shown = tls.certificates.iter().flat_map(|each| each.names());
    let mut names = shown.map(|name| &**name).chain(ordered).peekable();
    let Some(host) = &route.matches.host else {
        return true;
    };
    names.peek().is_none() || names.any(|name| has_common_host(name, host))
}

/// Returns whether a name of a certificate, `*.example.com` for one label, and a condition on the host have a host in common.
fn has_common_host(name: &str, host: &HostMatch) -> bool {
    let is_under = |host: &str, parent: &str| {
        let label = host.strip_suffix(parent);
        label.is_some_and(|label| label.ends_with('.'))
    };
    match (name.strip_prefix("*."), host) {
        (None, HostMatch::Exact(host)) => name.eq_ignore_ascii_case(host),
        (None, HostMatch::Under(parent)) => is_under(name, parent),
        (Some(parent), HostMatch::Exact(host)) => host
            .split_once('.')
            .is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(parent)),
        (Some(parent), HostMatch::Under(under)) => parent == &**under || is_under(parent, under),
    }
}
