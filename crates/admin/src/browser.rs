//! Protects requests without the token from web sites that an operator's browser happens to visit.
//!
//! Such a site can make the browser send requests to any address, the operator's own machine included. Two checks reject them:
//!
//! - A name that the site gives to the listener's address (DNS rebinding) makes the answers readable for the site. So `Host` must be an IP
//!   address, localhost, or a name in `[admin] hosts`.
//! - A request of a foreign page may change something, or occupy a stream, although the page cannot read the answer. So
//!   `Sec-Fetch-Site` and `Origin`, which pages cannot write, must name this site.
//!
//! A request with the token needs neither: a browser adds no `Authorization` by itself, so only who has the token can write it.
//! Decision 0042 has the reasons.

use std::net::Ipv4Addr;
use std::sync::Arc;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, HeaderName, StatusCode};
use sluicegate_base::host;

use super::page::{AdminPage, is_reading};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Returns the page that rejects a request without the token; `None` where it may pass.
pub(super) fn rejection(request: &Parts, hosts: &[Arc<str>]) -> Option<AdminPage> {
    let path = request.uri.path();
    let named = authority(request);
    if !takes_every_host(path) && !named.is_some_and(|named| is_own(named, hosts)) {
        return Some(misdirected(named.unwrap_or_default()));
    }
    let needs_own_page = !is_reading(&request.method) || path == super::events::PATH;
    (needs_own_page && is_foreign(&request.headers, named)).then(foreign)
}

/// Probes and scrapes come from tools that take whatever name they were given, and hold nothing of clients.
fn takes_every_host(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/metrics")
}

/// Returns the authority of the target, which outranks `Host` (RFC 9112 §3.2.2); `None` where there is not exactly one.
fn authority(request: &Parts) -> Option<&str> {
    if let Some(authority) = request.uri.authority() {
        return Some(authority.as_str());
    }
    let mut fields = request.headers.get_all(HOST).iter();
    match (fields.next(), fields.next()) {
        (Some(one), None) => one.to_str().ok(),
        _ => None,
    }
}

/// Returns whether a `Host` cannot be a name that somebody else has chosen.
fn is_own(named: &str, hosts: &[Arc<str>]) -> bool {
    let Ok(name) = host::normalize(named) else {
        return false;
    };
    let is_address = name.starts_with('[') || name.parse::<Ipv4Addr>().is_ok();
    // RFC 6761 §6.3: names of localhost are never looked up elsewhere.
    let is_local = name == "localhost" || name.ends_with(".localhost");
    is_address || is_local || hosts.iter().any(|host| **host == *name)
}

/// Returns whether a page of another site sends the request. Tools send neither field.
fn is_foreign(headers: &HeaderMap, named: Option<&str>) -> bool {
    let from_elsewhere = headers
        .get_all(SEC_FETCH_SITE)
        .iter()
        .any(|site| !matches!(site.as_bytes(), b"same-origin" | b"none"));
    let by_another = headers.get_all(ORIGIN).iter().any(|origin| {
        // The scheme is left out: a proxy in front may end TLS.
        let site = origin.to_str().ok().and_then(|text| text.split_once("://"));
        !site.is_some_and(|(_, site)| named.is_some_and(|named| site.eq_ignore_ascii_case(named)))
    });
    from_elsewhere || by_another
}

fn misdirected(named: &str) -> AdminPage {
    let name = host::normalize(named).map_or_else(|_| named.to_owned(), |name| name.into_owned());
    let error = format!(
        "without the token this listener is addressed by an IP address, localhost, or a name in [admin] hosts; to use {name:?} write \
         [admin] hosts = [{name:?}]"
    );
    AdminPage::error(StatusCode::MISDIRECTED_REQUEST, &error)
}

fn foreign() -> AdminPage {
    let error = "a page of another site sent this; without the token only the listener's own page may, and a proxy in front must pass Host \
                 on as the browser sent it";
    AdminPage::error(StatusCode::FORBIDDEN, error)
}

#[cfg(test)]
mod tests {
    use http::{Method, Request};

    use super::*;

    fn judged(method: Method, path: &str, fields: &[(&str, &str)]) -> Option<u16> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        let hosts = ["gateway.internal".into()];
        rejection(&parts, &hosts).map(|page| page.status.as_u16())
    }

    /// Goal: no name that a web site can give to the address passes. Method: hosts on both sides of the rule.
    #[test]
    fn only_names_that_nobody_else_can_choose_are_taken() {
        for own in [
            "127.0.0.1:9180",
            "10.0.0.7",
            "[::1]:9180",
            "localhost:9180",
            "LOCALHOST",
            "edge1.localhost:9180",
            "gateway.internal:9180",
            "Gateway.Internal.",
        ] {
            assert_eq!(
                judged(Method::GET, "/status", &[("host", own)]),
                None,
                "{own}"
            );
        }
        for foreign in [
            "evil.example",
            "evil.example:9180",
            "localhost.evil.example",
            "notlocalhost",
            "127.0.0.1.evil.example",
            "x.gateway.internal",
            "127.0.0.1:99999",
            "user@127.0.0.1",
            "",
        ] {
            let status = judged(Method::GET, "/status", &[("host", foreign)]);
            assert_eq!(status, Some(421), "{foreign}");
        }
        assert_eq!(judged(Method::GET, "/status", &[]), Some(421));
        let twice = [("host", "127.0.0.1"), ("host", "evil.example")];
        assert_eq!(judged(Method::GET, "/status", &twice), Some(421));
        for path in ["/healthz", "/readyz", "/metrics"] {
            assert_eq!(
                judged(Method::GET, path, &[("host", "any.name")]),
                None,
                "{path}"
            );
        }
    }

    /// Goal: a foreign page can neither reload nor occupy a stream. Method: what browsers send for their own pages, for others, and what
    /// tools send.
    #[test]
    fn pages_of_other_sites_change_nothing() {
        let host = ("host", "127.0.0.1:9180");
        let passes: [&[(&str, &str)]; 3] = [
            &[],
            &[
                ("origin", "http://127.0.0.1:9180"),
                ("sec-fetch-site", "same-origin"),
            ],
            &[("sec-fetch-site", "none")],
        ];
        let fails: [&[(&str, &str)]; 5] = [
            &[
                ("origin", "http://evil.example"),
                ("sec-fetch-site", "cross-site"),
            ],
            &[
                ("origin", "http://127.0.0.1:3000"),
                ("sec-fetch-site", "same-site"),
            ],
            &[("origin", "http://127.0.0.1:3000")],
            &[("origin", "null")],
            &[("sec-fetch-site", "cross-site")],
        ];
        for (method, path) in [(Method::POST, "/reload"), (Method::GET, "/events")] {
            for fields in passes {
                let fields = [&[host], fields].concat();
                assert_eq!(judged(method.clone(), path, &fields), None, "{fields:?}");
            }
            for fields in fails {
                let fields = [&[host], fields].concat();
                assert_eq!(
                    judged(method.clone(), path, &fields),
                    Some(403),
                    "{fields:?}"
                );
            }
        }
        let link = [host, ("sec-fetch-site", "cross-site")];
        assert_eq!(judged(Method::GET, "/ui/", &link), None);
    }
}
