//! `[cache]` and `[route.cache]`: which answers are kept, for how long, and in how much memory.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::{HeaderName, Method, StatusCode, header};

use crate::config::field::{Field, all, quoted};
use crate::config::problem::Mistake;
use crate::config::report::Report;
use crate::config::rules::{
    CacheRules, Cookies, Counting, RouteAction, RouteCacheRules, RouteRules, Wishes,
};
use crate::config::section::Section;

use super::route::Route;

pub(in crate::config) const EXAMPLE: &str = "{ max_bytes = \"256MiB\" }";

/// Least memory for stored answers: less would hold a handful.
const LEAST: u64 = 1 << 20;
/// Most: 1 TiB.
const MOST: u64 = 1 << 40;
/// Longest time that an answer is fresh or served stale: a year, RFC 9111 §4.2.2 calls more than that never.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);
/// Fields of a request that a route's answers may differ by.
const FIELDS: usize = 8;

/// Reads `[cache]`.
pub(in crate::config) fn read(section: Section<'_>) -> Option<CacheRules> {
    let memory = section.or("max_bytes", "\"256MiB\"", 256 << 20, |field| {
        bytes(field, LEAST..=MOST)
    });
    let field = section.field("max_object_bytes", "\"1MiB\"");
    let max_object = match &field {
        Some(field) => bytes(field, 1..=MOST),
        None => Some(memory.unwrap_or(1 << 20).min(1 << 20)),
    };
    let memory_key = section.written_name("max_bytes");
    section.finish();
    let (memory, max_object) = (memory?, max_object?);
    if let Some(field) = field
        && max_object > memory
    {
        return field.refuse(
            "an object of this size would not fit into the memory of the cache",
            format!("write less than `{memory_key}`, or raise that"),
        );
    }
    Some(CacheRules { memory, max_object })
}

/// Reads `[route.cache]`; `None` inside where there is none, outside where it is wrong.
pub(in crate::config) fn of_route(section: &Section<'_>) -> Option<Option<RouteCacheRules>> {
    let (written, table) = section.table("cache", "{ stale_if_error = \"1h\" }");
    let max_object = table.optional("max_object_bytes", "\"1MiB\"", |field| {
        bytes(field, 1..=MOST)
    });
    let default_ttl = table.optional("default_ttl", "\"1m\"", |field| {
        field.duration(Duration::from_secs(1)..=LONGEST)
    });
    let stale_while_revalidate = table.or(
        "stale_while_revalidate",
        "\"30s\"",
        Duration::ZERO,
        |field| field.duration(Duration::ZERO..=LONGEST),
    );
    let stale_if_error = table.or("stale_if_error", "\"1h\"", Duration::ZERO, |field| {
        field.duration(Duration::ZERO..=LONGEST)
    });
    let statuses = table.or("statuses", "[200, 301, 404]", Vec::new(), statuses);
    let cookies = table.or("cookies", "\"personal\"", Cookies::default(), cookies);
    let wishes = table.or(
        "ignore_client_no_cache",
        "false",
        Wishes::default(),
        |field| {
            Some(if field.boolean()? {
                Wishes::Ignored
            } else {
                Wishes::Granted
            })
        },
    );
    let vary_on = table.or("vary_on", "[\"x-lang\"]", Vec::new(), vary_on);
    table.finish();
    let rules = RouteCacheRules {
        max_object: max_object?,
        default_ttl: default_ttl?,
        stale_while_revalidate: stale_while_revalidate?,
        stale_if_error: stale_if_error?,
        statuses: statuses?,
        cookies: cookies?,
        wishes: wishes?,
        vary_on: vary_on?,
    };
    Some(written.map(|_| rules))
}

/// `count` of a limit.
pub(in crate::config) fn counting(section: &Section<'_>) -> Option<Counting> {
    section.or("count", "\"all\"", Counting::default(), |field| {
        let names = [("all", Counting::All), ("origin", Counting::Origin)];
        field.word(&names, |got| format!("{got} is not what a limit can count"))
    })
}

/// Reports routes that store answers and cannot have any.
pub(in crate::config) fn check(rules: Option<&CacheRules>, routes: &[Route], report: &Report<'_>) {
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
        let largest = of_route.cache.as_ref().and_then(|cache| cache.max_object);
        if let (Some(largest), Some(rules)) = (largest, rules)
            && largest > rules.memory
        {
            report.error(
                &place,
                "an object of `max_object_bytes` would not fit into the memory of the cache",
                "write less, or raise `max_bytes` in [cache]",
            );
        }
    }
}

fn bytes(field: &Field<'_>, range: RangeInclusive<u64>) -> Option<usize> {
    usize::try_from(field.size(range)?).ok()
}

/// Statuses that can be stored at all, in their order.
fn statuses(field: &Field<'_>) -> Option<Vec<StatusCode>> {
    let each = field.list()?.into_iter().map(|element| {
        let code = element.integer(200..=599)?;
        // RFC 9111 §3.3 and §4.3.3: a part is stored with the whole, and 304 says that something else is current.
        if matches!(code, 206 | 304) {
            return element.refuse(
                format!("answers with {code} are never stored by themselves"),
                "leave it out: parts are cut from what is stored with 200",
            );
        }
        StatusCode::from_u16(u16::try_from(code).ok()?).ok()
    });
    let mut statuses = all(each.collect::<Vec<_>>())?;
    statuses.sort_unstable();
    statuses.dedup();
    Some(statuses)
}

fn cookies(field: &Field<'_>) -> Option<Cookies> {
    let names = [
        ("personal", Cookies::Personal),
        ("ignored", Cookies::Ignored),
    ];
    field.word(&names, |got| format!("{got} is not what cookies can mean"))
}

fn vary_on(field: &Field<'_>) -> Option<Vec<HeaderName>> {
    let elements = field.list()?;
    if elements.len() > FIELDS {
        let message = format!("{} fields are too many to differ by", elements.len());
        return field.refuse(message, format!("keep at most {FIELDS}"));
    }
    let mut names = all(elements
        .iter()
        .map(|element| element.parsed(vary_name))
        .collect::<Vec<_>>())?;
    names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    names.dedup();
    Some(names)
}

fn vary_name(text: &str) -> Result<HeaderName, Mistake> {
    let name = HeaderName::try_from(text).map_err(|_| {
        Mistake::with_advice(
            format!("{} is not the name of a header", quoted(text)),
            "write one such as \"x-lang\"",
        )
    })?;
    if [header::HOST, header::RANGE, header::AUTHORIZATION].contains(&name) {
        return Err(Mistake::with_advice(
            format!("{name} is taken care of without being named"),
            "leave it out",
        ));
    }
    Ok(name)
}
