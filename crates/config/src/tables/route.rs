//! `[[route]]`: which requests go where, under which limits.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method, header};
use sluicegate_base::crawler::CrawlerCondition;
use sluicegate_base::geo::{GeoField, PlaceCondition, PlaceSet};
use sluicegate_base::path::{PathCase, PathRegex};
use toml::de::DeValue;

use super::conditions;
use super::crawler;
use super::geo::{self, NamedPlaces};
use super::list;
use super::parsed_route::ParsedRoute;
use super::respond;
use super::server::LARGEST_BODY;
use super::transform::{self, TemplatePath};
use crate::field::{KeyField, all, describe, quoted};
use crate::host;
use crate::pattern;
use crate::problem::ParseError;
use crate::refusal;
use crate::report::{KeyPlace, PlacedValue};
use crate::rules::{
    ClientCondition, Name, PathPattern, QueryCondition, RequireRules, RouteAction, RouteCacheRules,
    RouteMatch, RouteRules, ShapeRules,
};
use crate::secrets::{SECRET, shown_parameter};
use crate::section::{TableSection, is_name, step};
use crate::suggest;

/// Most limits of a route.
pub(crate) const MOST_LIMITS: usize = 8;
/// Methods that are known: RFC 9110, PATCH, QUERY, WebDAV and what caches use. Others are taken with a warning.
const METHODS: [&str; 24] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "OPTIONS",
    "PATCH",
    "TRACE",
    "CONNECT",
    "QUERY",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "REPORT",
    "SEARCH",
    "MKCALENDAR",
    "ACL",
    "PURGE",
    "BAN",
    "LINK",
];

pub(crate) const EXAMPLE: &str = "with path = \"/*\" and origin = \"app\"";

/// The settings of the rest of the file that hold for every route.
pub(crate) struct RouteDefaults<'r> {
    /// The changes to all that passes.
    pub(crate) shape: Option<&'r ShapeRules>,
    /// The action of a route without one; `None` where each needs one.
    pub(crate) action: Option<RouteAction>,
}

/// Reads a route.
pub(crate) fn read(section: TableSection<'_>, of_all: &RouteDefaults<'_>) -> ParsedRoute {
    let place = section.place.clone();
    let written_name = section.optional("name", "\"login\"", |field| {
        Some(field.placed(field.parsed(name)?))
    });
    let listeners = section.or("listeners", "[\"public\"]", Vec::new(), listeners);
    let named = listeners.iter().flatten();
    let named = named.map(|listener| listener.value.clone()).collect();
    let (path, matches) = matches(&section, named);
    let path = path.as_ref().map(|(path, regex)| TemplatePath {
        path,
        regex: regex.as_ref(),
    });
    let limits = section.or("limits", "[\"otp\"]", Vec::new(), limits);
    let lists = list::uses(&section);
    let origin = section.field("origin", "\"app\"");
    let origin_name = origin
        .as_ref()
        .and_then(|field| Some(field.placed(Name::from(field.text()?))));
    let action = action(&section, origin.as_ref(), path, of_all);
    let max_body_bytes = section.optional("max_body_bytes", "\"1MiB\"", |field| {
        field.size(0..=LARGEST_BODY)
    });
    let require = section.or(
        "require",
        "{ client_certificate = true }",
        RequireRules::default(),
        |field| RequireRules::read(field.section()?),
    );
    let refusal = refusal::from_section(&section);
    let cache = section.optional("cache", "{ stale_if_error = \"1h\" }", |field| {
        RouteCacheRules::read(field.section()?)
    });
    let shape = transform::from_section(&section, path, origin.as_ref(), of_all.shape);
    section.finish();

    let name = written_name.and_then(|written| {
        written.or_else(|| {
            Some(PlacedValue {
                value: described(matches.as_ref()?),
                place: place.clone(),
            })
        })
    });
    let rules = || {
        let limits = limits.as_ref()?.iter();
        listeners.as_ref()?;
        Some(RouteRules {
            name: name.as_ref()?.value.clone(),
            matches: matches?,
            limits: limits.map(|limit| limit.value.clone()).collect(),
            action: action?,
            lists: lists?,
            require: require?,
            max_body_bytes: max_body_bytes?,
            refusal: refusal?,
            cache: cache?,
            shape: shape?,
        })
    };
    let rules = rules();
    ParsedRoute {
        place,
        name,
        limits,
        origin: origin_name,
        listeners: listeners.unwrap_or_default(),
        rules,
    }
}

/// Reads the keys that say which requests the route matches, beside the `listeners`. The path is returned apart as well: it is checked with
/// the templates of the route even where another of these keys is wrong.
fn matches(
    section: &TableSection<'_>,
    listeners: Vec<Name>,
) -> (Option<(PathPattern, Option<PathRegex>)>, Option<RouteMatch>) {
    let host = section.optional("host", "\"api.example.com\"", |field| {
        field.parsed(host::matched)
    });
    let path = section.required("path", "\"/*\"").and_then(|field| {
        if let Some(own) = field.written_text().and_then(pattern::with_own_parameters) {
            field.warn(
                "the path has a parameter as another router writes it, which is plain text here",
                format!("write {}", quoted(&own)),
            );
        }
        field.parsed(pattern::path)
    });
    let case = section.or("ignore_case", "true", PathCase::default(), |field| {
        Some(if field.boolean()? {
            PathCase::Ignored
        } else {
            PathCase::Kept
        })
    });
    let path = path.map(|(path, regex)| {
        let regex = regex.map(|regex| regex.with_case(case.unwrap_or_default()));
        (path, regex)
    });
    let methods = section.or("methods", "[\"POST\"]", Vec::new(), methods);
    let headers = section.or("headers", "{ x-plan = \"free\" }", Vec::new(), headers);
    let client = section.or(
        "client",
        "[\"10.0.0.0/8\"]",
        ClientCondition::default(),
        conditions::client,
    );
    let place = places(section);
    let crawler = section.or(
        "crawlers",
        "[\"search\"]",
        CrawlerCondition::default(),
        |field| {
            let crawler::NamedCrawlers { of, except } = crawler::named(field)?;
            Some(CrawlerCondition { of, except })
        },
    );
    let query = section.or("query", "{ page = \"2\" }", Vec::new(), conditions::query);
    let matches = || {
        let (path, regex) = path.clone()?;
        Some(RouteMatch {
            host: host?,
            path,
            regex,
            case: case?,
            listeners,
            methods: methods?,
            client: client?,
            place: place?,
            crawler: crawler?,
            headers: headers?,
            query: query?,
        })
    };
    let matches = matches();
    (path, matches)
}

/// Reads `countries`, `cities` and `asns`.
fn places(section: &TableSection<'_>) -> Option<PlaceCondition> {
    let read = |key, example, geo| {
        section.or(key, example, NamedPlaces::default(), |field| {
            geo::places(field, geo)
        })
    };
    let countries = read("countries", "[\"DE\", \"AT\"]", GeoField::Country);
    let cities = read("cities", "[\"DE-BE/Berlin\"]", GeoField::City);
    let asns = read("asns", "[64496]", GeoField::Asn);
    let countries = countries?;
    let cities = cities?;
    let asns = asns?;
    Some(PlaceCondition {
        of: PlaceSet {
            countries: countries.of.countries,
            cities: cities.of.cities,
            asns: asns.of.asns,
        },
        except: PlaceSet {
            countries: countries.except.countries,
            cities: cities.except.cities,
            asns: asns.except.asns,
        },
    })
}

/// Reads the action of the route: its origin, `respond` or `redirect`. A second one is refused, and what it says is checked all the same.
fn action(
    section: &TableSection<'_>,
    origin: Option<&KeyField<'_>>,
    path: Option<TemplatePath<'_>>,
    of_all: &RouteDefaults<'_>,
) -> Option<RouteAction> {
    let respond = section.field("respond", "{ status = 204 }");
    let redirect = section.field("redirect", "{ to = \"https://{host}/new\" }");
    match (origin, &respond, &redirect) {
        (Some(origin), None, None) => {
            let name = origin.written_text()?;
            Some(RouteAction::Forward(name.into()))
        }
        (None, Some(respond), None) => respond::read(respond).map(RouteAction::Respond),
        (None, None, Some(redirect)) => {
            let rules = transform::redirect(redirect, path)?;
            Some(RouteAction::Redirect(Arc::new(rules)))
        }
        (Some(_), Some(respond), _) => {
            respond::read(respond);
            respond.refuse(
                "the route has an origin too, and can only have one of the two",
                "leave one out",
            )
        }
        (_, respond, Some(redirect)) => {
            transform::redirect(redirect, path);
            respond.as_ref().and_then(respond::read);
            redirect.refuse(
                "the route has an origin or a `respond` too, and can only have one of them",
                "leave one out",
            )
        }
        (None, None, None) if of_all.action.is_some() => of_all.action.clone(),
        (None, None, None) => {
            section.report.absent(
                &section.place,
                "nothing is said about where requests go",
                "write origin = \"app\", or respond = { status = 403 } to answer here",
            );
            None
        }
    }
}

fn name(text: &str) -> Result<Name, ParseError> {
    if is_name(text) {
        return Ok(text.into());
    }
    Err(ParseError::with_advice(
        format!("{} cannot be a name", quoted(text)),
        "write 1 to 64 of the characters a-z A-Z 0-9 _ - . as in name = \"login\"",
    ))
}

/// The name of a route without one: `POST example.com/auth/sendOTP x-plan=(secret)`. The value of a header or of a parameter may be a
/// secret, and names are in logs and metrics, so not even a hash of it is shown: short values can be guessed by it.
fn described(matches: &RouteMatch) -> Name {
    let methods: Vec<&str> = matches.methods.iter().map(Method::as_str).collect();
    let mut name = methods.join(",");
    if !name.is_empty() {
        name.push(' ');
    }
    if let Some(host) = &matches.host {
        name.push_str(&host.to_string());
    }
    name.push_str(&matches.path.text);
    if !matches.listeners.is_empty() {
        name.push_str(&format!(" listener={}", matches.listeners.join(",")));
    }
    if !matches.client.is_any() {
        name.push_str(&format!(" client={}", matches.client));
    }
    if !matches.place.is_any() {
        name.push_str(&format!(" {}", matches.place));
    }
    if !matches.crawler.is_any() {
        name.push_str(&format!(" {}", matches.crawler));
    }
    for (header, _) in &matches.headers {
        name.push_str(&format!(" {header}={SECRET}"));
    }
    for QueryCondition {
        name: parameter,
        value,
    } in &matches.query
    {
        let value = shown_parameter(value.as_deref());
        name.push_str(&format!(" ?{parameter}={value}"));
    }
    name.into()
}

/// Numbers the routes without names that differ in hidden values alone, in their order: the second is `/a x-plan=(secret) 2`.
pub(crate) fn number_alike(routes: &mut [ParsedRoute]) {
    let mut seen: HashMap<Name, usize> = HashMap::new();
    for route in routes {
        let place = &route.place;
        let derived = (route.name.as_mut()).filter(|name| name.place == *place);
        let Some(name) = derived.filter(|name| name.value.contains(SECRET)) else {
            continue;
        };
        let number = seen.entry(Name::clone(&name.value)).or_default();
        *number += 1;
        if *number == 1 {
            continue;
        }
        name.value = format!("{} {number}", name.value).into();
        if let Some(rules) = &mut route.rules {
            rules.name = Name::clone(&name.value);
        }
    }
}

/// Reads the names of listeners, in their order, so that the order written makes no other route. Whether they are defined is judged when
/// all are known.
fn listeners(field: &KeyField<'_>) -> Option<Vec<PlacedValue<Name>>> {
    let elements = field.list()?;
    let mut seen: Vec<&str> = Vec::new();
    let names = elements.iter().map(|element| {
        let text = element.text()?;
        if seen.contains(&text) {
            let message = format!("the listener {} stands here already", quoted(text));
            return element.refuse(message, "write it once");
        }
        seen.push(text);
        Some(element.placed(Arc::from(text)))
    });
    let mut names: Vec<PlacedValue<Name>> = all(names.collect::<Vec<_>>())?;
    names.sort_by(|a, b| a.value.cmp(&b.value));
    Some(names)
}

/// Methods in the order of their names, so that the order written makes no other route.
fn methods(field: &KeyField<'_>) -> Option<Vec<Method>> {
    if matches!(field.value, DeValue::Array(elements) if elements.is_empty()) {
        return field.refuse(
            "no method is named",
            "leave the key out to take every method",
        );
    }
    let mut seen: Vec<Method> = Vec::new();
    let read = field.list()?.into_iter().map(|element| {
        let method = element.parsed(method)?;
        if seen.contains(&method) {
            return element.refuse(format!("{method} is named twice"), "write it once");
        }
        if !METHODS.contains(&method.as_str()) {
            let advice = match suggest::nearest(method.as_str(), METHODS) {
                Some(meant) => format!("did you mean \"{meant}\"?"),
                None => "leave it out unless your clients send it".to_owned(),
            };
            let message = format!("{method} is not a method of HTTP that is in use");
            element.report.warning(&element.place, message, advice);
        }
        seen.push(method.clone());
        Some(method)
    });
    let mut methods = all(read.collect::<Vec<_>>())?;
    methods.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    Some(methods)
}

fn method(text: &str) -> Result<Method, ParseError> {
    let upper = text.to_ascii_uppercase();
    let method = Method::from_bytes(text.as_bytes()).map_err(|_| {
        ParseError::with_advice(
            format!("{} is not a method", quoted(text)),
            "write one such as \"POST\", or leave out `methods` to take every method",
        )
    })?;
    if upper == text {
        return Ok(method);
    }
    Err(ParseError::with_advice(
        format!("{} is not in upper case, as methods are sent", quoted(text)),
        format!("write {upper:?}"),
    ))
}

/// Conditions on headers, in the order of their names.
fn headers(field: &KeyField<'_>) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let section = field.section()?;
    if section.entries().is_empty() {
        return field.refuse(
            "no header is named",
            "leave the key out to take any headers",
        );
    }
    let mut seen: Vec<HeaderName> = Vec::new();
    let conditions = section.entries().into_iter().map(|(key, span, value)| {
        let place = field.place.inside(&step(key), Some(span));
        let refuse = |span: Option<Range<usize>>, mistake: ParseError| {
            let place = KeyPlace {
                span: span.or(place.span.clone()),
                ..place.clone()
            };
            let advice = mistake.advice.unwrap_or_else(|| field.advice());
            field.report.error(&place, mistake.message, advice);
        };
        let name = condition_name(key, &seen).map_err(|mistake| refuse(None, mistake));
        let of_value = Some(value.span());
        let value =
            condition_value(key, value.get_ref()).map_err(|mistake| refuse(of_value, mistake));
        let name = name.ok()?;
        let value = value.ok()?;
        seen.push(name.clone());
        Some((name, value))
    });
    let mut conditions = all(conditions.collect::<Vec<_>>())?;
    conditions.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
    Some(conditions)
}

fn condition_name(key: &str, seen: &[HeaderName]) -> Result<HeaderName, ParseError> {
    let name = HeaderName::try_from(key).map_err(|_| {
        ParseError::with_advice(
            format!("{} is not the name of a header", quoted(key)),
            "write one such as x-plan",
        )
    })?;
    if name == header::HOST {
        return Err(ParseError::with_advice(
            "the host is matched by a key of its own",
            "write host = \"api.example.com\" in the route",
        ));
    }
    if seen.contains(&name) {
        let message = format!("{name} is named twice, since case does not matter");
        return Err(ParseError::with_advice(message, "write it once"));
    }
    Ok(name)
}

fn condition_value(key: &str, value: &DeValue<'_>) -> Result<HeaderValue, ParseError> {
    let DeValue::String(text) = value else {
        let message = format!("expected a string, got {}", describe(value));
        return Err(ParseError::with_advice(
            message,
            format!("write {} = \"free\"", quoted(key)),
        ));
    };
    if text.trim_matches([' ', '\t']).len() != text.len() {
        let message = format!(
            "{} has white space at an end, which headers lose on their way",
            quoted(text)
        );
        return Err(ParseError::with_advice(
            message,
            format!("write {}", quoted(text.trim())),
        ));
    }
    HeaderValue::from_str(text).map_err(|_| {
        let message = format!("{} cannot be the value of a header", quoted(text));
        ParseError::with_advice(message, "write visible characters and spaces")
    })
}

/// Names of limits; whether they are defined is judged when all are known.
fn limits(field: &KeyField<'_>) -> Option<Vec<PlacedValue<Name>>> {
    let elements = field.elements()?;
    if elements.len() > MOST_LIMITS {
        let message = format!("{} limits are too many for a route", elements.len());
        return field.refuse(message, format!("keep at most {MOST_LIMITS}"));
    }
    let mut seen: Vec<&str> = Vec::new();
    let names = elements.iter().map(|element| {
        let text = element.text()?;
        if seen.contains(&text) {
            let message = format!("the limit {} stands here already", quoted(text));
            return element.refuse(message, "write it once: a request is charged once");
        }
        seen.push(text);
        Some(element.placed(Arc::from(text)))
    });
    all(names.collect::<Vec<_>>())
}
