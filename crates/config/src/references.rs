//! Judges what the tables say about each other: names that are used and not defined, and the reverse.
//!
//! What is unused is asked last, and only of a file without errors: a slip in what uses it would be told twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use http::{HeaderName, Method};
use ipnet::IpNet;

use super::defined_names::DefinedNames;
use super::fallback_limit::FallbackLimits;
use super::field::quoted;
use super::report::{KeyPlace, PlacedValue, ProblemReport};
use super::rules::{
    CacheRules, ClientRules, KeyPart, LimitRules, ListenerRules, Name, OverrideFields, RouteAction,
    RouteRules, ValuePart, ValueSource,
};
use super::section::is_name;
use super::suggest;
use super::tables::parsed_route::ParsedRoute;

/// Undefined names that are guessed about. Each is compared with all that are defined, and in a file with 10,000 limits that
/// are all misspelt the rest would take minutes.
const GUESSES: usize = 20;

/// Reports names that routes or `[client]` use and nobody defines.
pub(super) fn check_defined(
    routes: &[ParsedRoute],
    defined: &DefinedNames,
    report: &ProblemReport<'_>,
) {
    let lists = report.used_lists();
    let limits = routes
        .iter()
        .flat_map(|route| route.limits.iter().flatten());
    let limits = limits.map(|name| ("limit", name, &defined.limits));
    let origins = routes.iter().filter_map(|route| route.origin.as_ref());
    let origins = origins.map(|name| ("origin", name, &defined.origins));
    let lists = lists.iter().map(|name| ("list", name, &defined.lists));
    let undefined = limits
        .chain(origins)
        .chain(lists)
        .filter(|(_, name, defined)| !defined.contains_key(&name.value));
    for (at, (kind, name, defined)) in undefined.enumerate() {
        let candidates = defined.keys().map(|name| &**name);
        let meant = if at < GUESSES {
            suggest::nearest(&name.value, candidates)
        } else {
            None
        };
        let advice = match meant {
            Some(meant) => format!("did you mean \"{meant}\"?"),
            None if is_name(&name.value) => format!("define it with [{kind}.{}]", name.value),
            None => format!("write the name of one, as in [{kind}.NAME]"),
        };
        let message = format!("there is no {kind} {}", quoted(&name.value));
        report.absent(&name.place, message, advice);
    }
}

/// Warns about definitions that no route uses.
pub(super) fn check_used(
    routes: &[ParsedRoute],
    fallbacks: &FallbackLimits,
    defined: &DefinedNames,
    report: &ProblemReport<'_>,
) {
    let limits = routes
        .iter()
        .flat_map(|route| route.limits.iter().flatten())
        .flat_map(|limit| std::iter::once(limit).chain(fallbacks.find(&limit.value)));
    let origins = routes.iter().filter_map(|route| route.origin.as_ref());
    let names = |names: &mut dyn Iterator<Item = &PlacedValue<Name>>| -> BTreeSet<Name> {
        names.map(|name| name.value.clone()).collect()
    };
    for (kind, names, used, advice) in [
        (
            "limit",
            &defined.limits,
            names(&mut limits.into_iter()),
            "write it in the `limits` of a route, or leave it out",
        ),
        (
            "origin",
            &defined.origins,
            names(&mut origins.into_iter()),
            "write it as the `origin` of a route, or leave it out",
        ),
        (
            "list",
            &defined.lists,
            names(&mut report.used_lists().iter()),
            "write it in `allow` or `block` of [client] or of a route, or leave it out",
        ),
    ] {
        for (name, place) in names {
            if !used.contains(name) {
                report.unused(place, format!("no route uses this {kind}"), advice);
            }
        }
    }
}

/// Reports listeners that routes name and nobody defines.
pub(super) fn check_listeners(
    listeners: &[PlacedValue<ListenerRules>],
    routes: &[ParsedRoute],
    report: &ProblemReport<'_>,
) {
    let defined = || {
        let names = listeners.iter().filter_map(|each| each.value.name.as_ref());
        names.map(|name| &**name)
    };
    let named = routes.iter().flat_map(|route| &route.listeners);
    let undefined = named.filter(|name| !defined().any(|other| *other == *name.value));
    for (at, name) in undefined.enumerate() {
        let meant = if at < GUESSES {
            suggest::nearest(&name.value, defined())
        } else {
            None
        };
        let advice = match meant {
            Some(meant) => format!("did you mean \"{meant}\"?"),
            None => format!("write name = {} in its [[listener]]", quoted(&name.value)),
        };
        let message = format!("there is no listener {}", quoted(&name.value));
        report.absent(&name.place, message, advice);
    }
}

/// Reports names that two routes have.
pub(super) fn check_route_names(routes: &[ParsedRoute], report: &ProblemReport<'_>) {
    let mut seen: HashMap<&str, &KeyPlace> = HashMap::new();
    for route in routes {
        let Some(name) = &route.name else { continue };
        if let Some(earlier) = seen.get(&*name.value) {
            // Made of their match, two equal names are equal routes, which is told elsewhere.
            if name.place != route.place {
                let line = report.line_of(earlier);
                report.error(
                    &name.place,
                    format!(
                        "{} is the name of the route on line {line}",
                        quoted(&name.value)
                    ),
                    "give each route a name of its own: metrics and log know it by that",
                );
            }
        } else {
            seen.insert(&name.value, &name.place);
        }
    }
}

/// Reports routes whose path lacks a parameter that one of their limits counts by.
pub(super) fn check_parameters(
    limits: &BTreeMap<Name, LimitRules>,
    routes: &[ParsedRoute],
    report: &ProblemReport<'_>,
) {
    for route in routes {
        let (Some(names), Some(rules)) = (&route.limits, &route.rules) else {
            continue;
        };
        let path = &rules.matches.path;
        for name in names {
            let values = limits.get(&name.value).into_iter();
            for value in values.flat_map(|limit| limit.key.values()) {
                let ValueSource::PathParameter(parameter) = &value.source else {
                    continue;
                };
                if !path.has_parameter(parameter) {
                    report.error(
                        &name.place,
                        format!(
                            "the limit {} counts by \"{}\", and the path {} has no such parameter",
                            quoted(&name.value),
                            value.source,
                            quoted(&path.text)
                        ),
                        format!("write {{{parameter}}} as a segment of the path, or use another limit here"),
                    );
                }
            }
        }
    }
}

/// Reports routes that store answers and cannot have any.
pub(super) fn check_stored(
    rules: Option<&CacheRules>,
    routes: &[ParsedRoute],
    report: &ProblemReport<'_>,
) {
    let stores = |rules: &&RouteRules| rules.cache.is_some();
    for route in routes {
        let Some(of_route) = route.rules.as_ref().filter(stores) else {
            continue;
        };
        let place = route.place.inside(".cache", route.place.span.clone());
        if matches!(of_route.action, RouteAction::Respond(_)) {
            report.error(
                &place,
                "the route answers by itself, so there is nothing to store",
                "leave [route.cache] out, or write an origin in place of `respond`",
            );
        }
        let methods = &of_route.matches.methods;
        if !methods.is_empty() && !methods.contains(&Method::GET) {
            report.error(
                &place,
                "the route takes no GET, and no other answers are stored",
                "leave [route.cache] out, or add \"GET\" to `methods`",
            );
        }
        let largest = of_route
            .cache
            .as_ref()
            .and_then(|cache| cache.max_object_bytes);
        if let (Some(largest), Some(rules)) = (largest, rules)
            && largest > rules.max_bytes
        {
            report.error(
                &place,
                "an object of `max_object_bytes` would not fit into the memory of the cache",
                "write less, or raise `max_bytes` in [cache]",
            );
        }
    }
}

/// Reports limits that read claims where no token is believed, and the reverse.
pub(super) fn check_tokens(
    jwt: Option<&KeyPlace>,
    limits: &BTreeMap<Name, LimitRules>,
    defined: &DefinedNames,
    report: &ProblemReport<'_>,
) {
    let mut used = false;
    for (name, limit) in limits {
        let is_claim = |value: &&ValuePart| matches!(value.source, ValueSource::Claim(_));
        let Some(claim) = limit.values_read().find(is_claim) else {
            continue;
        };
        used = true;
        let what = match limit.key.values().find(is_claim) {
            Some(_) => "the key has",
            None => "the tier is",
        };
        if jwt.is_none()
            && let Some(place) = defined.limits.get(name)
        {
            report.absent(
                place,
                format!(
                    "{what} \"{}\", and nothing says which tokens are believed",
                    claim.source
                ),
                "write [jwt] with algorithms = [\"RS256\"] and jwks_file = \"/etc/sluicegate/jwks.json\"",
            );
        }
    }
    // A limit that could not be read may have a claim.
    if let Some(jwt) = jwt
        && !used
        && !report.has_errors()
    {
        report.unused(
            jwt,
            "no limit reads a claim, so no token is ever verified",
            "write \"jwt.sub\" in the key of a limit, or leave [jwt] out",
        );
    }
}

/// Reports limits that count by what no handshake tells: a client's certificate where no listener asks for one, or anything of TLS where
/// none speaks it.
pub(super) fn check_told(
    listeners: &[PlacedValue<ListenerRules>],
    limits: &BTreeMap<Name, LimitRules>,
    defined: &DefinedNames,
    report: &ProblemReport<'_>,
) {
    let tls = || listeners.iter().filter_map(|each| each.value.tls.as_ref());
    let spoken = tls().count() > 0;
    let asked = tls().any(|tls| tls.clients.is_some());
    for (name, limit) in limits {
        let mut values = limit.key.values();
        let untold = values.find(|value| match value.source {
            ValueSource::CertificateSubject | ValueSource::CertificateFingerprint => !asked,
            ValueSource::Ja4 => !spoken,
            _ => false,
        });
        let (Some(value), Some(place)) = (untold, defined.limits.get(name)) else {
            continue;
        };
        let (why, advice) = match value.source {
            ValueSource::Ja4 => (
                "no listener speaks TLS",
                "write [listener.tls] with certificates = [{ cert_file = \"site.pem\", key_file = \"site.key\" }]",
            ),
            _ => (
                "no listener asks clients for certificates",
                "write client_ca_file = \"clients.pem\" in [listener.tls]",
            ),
        };
        let message = format!("the key has \"{}\", and {why}", value.source);
        report.absent(place, message, advice);
    }
}

/// Reports limits whose tier a field names where no hop is trusted to write it.
pub(super) fn check_tier_fields(
    client: &ClientRules,
    limits: &BTreeMap<Name, LimitRules>,
    defined: &DefinedNames,
    report: &ProblemReport<'_>,
) {
    if !client.trusted_proxies.is_empty() {
        return;
    }
    for (name, limit) in limits {
        if let Some(field) = tier_field(limit)
            && let Some(place) = defined.limits.get(name)
        {
            report.absent(
                place,
                format!("the tier is \"{field}\", which only a trusted hop may say, and none is trusted"),
                "write [client] with trusted_proxies = [\"10.0.0.0/8\"], the addresses of your proxies, or let a claim say it: tier = \
                 \"jwt.plan\"",
            );
        }
    }
}

/// The field that names the tier, where one does.
fn tier_field(limit: &LimitRules) -> Option<&ValueSource> {
    let source = &limit.tier.as_ref()?.named_by.value()?.source;
    matches!(source, ValueSource::Header(_)).then_some(source)
}

/// Warns when clients may choose the address that they are counted by, or their tier.
pub(super) fn check_trust(
    everyone: Option<&PlacedValue<IpNet>>,
    limits: &BTreeMap<Name, LimitRules>,
    routes: &[ParsedRoute],
    report: &ProblemReport<'_>,
) {
    let Some(everyone) = everyone else {
        return;
    };
    let by_address = |limit: &&PlacedValue<Name>| {
        let rules = limits.get(&limit.value);
        let mut parts = rules.into_iter().flat_map(|rules| &rules.key.0);
        parts.any(|part| matches!(part, KeyPart::ClientIp { .. }))
    };
    let by_field =
        |limit: &&PlacedValue<Name>| limits.get(&limit.value).and_then(tier_field).is_some();
    let used = || {
        let limits = routes.iter().map(|route| &route.limits);
        limits.flatten().flatten()
    };
    for (limit, what) in [
        (
            used().find(by_address),
            "the address that the limit {} counts it by",
        ),
        (used().find(by_field), "its tier of the limit {}"),
    ] {
        let Some(limit) = limit else { continue };
        report.warning(
            &everyone.place,
            format!(
                "with {} trusted every client can choose {}",
                everyone.value,
                what.replace("{}", &quoted(&limit.value))
            ),
            "write the addresses of your own proxies",
        );
    }
}

/// Warns of fields that decide something and never arrive: proxies write them, and none is said to.
pub(super) fn check_received(
    client: &ClientRules,
    overrides: OverrideFields,
    limits: &BTreeMap<Name, LimitRules>,
    routes: &[ParsedRoute],
    defined: &DefinedNames,
    report: &ProblemReport<'_>,
) {
    let warn = |place: &KeyPlace, name: &HeaderName| {
        if client.never_receives(name, overrides) {
            report.warning(
                place,
                format!("{name} is removed from every request, since only a proxy may say it and none is said to"),
                format!("write [client] trusted_headers = [\"x-forwarded-proto\", \"{name}\"] if your proxies write it in every request"),
            );
        }
    };
    for (name, limit) in limits {
        let Some(place) = defined.limits.get(name) else {
            continue;
        };
        for value in limit.values_read() {
            if let ValueSource::Header(field) = &value.source {
                warn(place, field);
            }
        }
    }
    for route in routes {
        for (field, _) in route.rules.iter().flat_map(|rules| &rules.matches.headers) {
            warn(&route.place, field);
        }
    }
}
