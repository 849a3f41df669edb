//! Makes answers and redirects of `return`, and finds what else answers.

use super::listens::ServerBlock;
use super::location_block::{LocationBlock, LocationMatch};
use super::locations::PlacedLocation;
use super::redirects;
use super::tree::Directive;
use crate::model::RouteAction;
use crate::slots;

/// Directives by which nginx answers without files, and without a server that speaks HTTP.
const OTHER_ANSWERS: [&str; 10] = [
    "api",
    "empty_gif",
    "fastcgi_pass",
    "js_content",
    "memcached_pass",
    "perl",
    "scgi_pass",
    "stub_status",
    "uwsgi_pass",
    "vhost_traffic_status_display",
];

/// Returns the answer that `return` gives.
pub(super) fn answer(
    directive: &Directive,
    placed: &PlacedLocation<'_>,
    server: &ServerBlock<'_>,
) -> Result<RouteAction, String> {
    let (status, text) = match directive.words.as_slice() {
        [url] if url.contains("://") => (302, url.as_str()),
        [status] => (number(status)?, ""),
        [status, text] => (number(status)?, text.as_str()),
        _ => return Err("a status is expected".to_owned()),
    };
    if matches!(status, 301 | 302 | 303 | 307 | 308) && !text.is_empty() {
        let (before, keeps_path) = match text.strip_suffix("$request_uri") {
            Some(before) => (before, true),
            None => (text, false),
        };
        let before = redirects::place_text(before, server)?;
        // The query goes along in any case.
        let prefix = slots::escaped(&placed.location.text);
        let rest = match placed.location.match_kind {
            _ if !keeps_path => String::new(),
            LocationMatch::Exact => prefix,
            LocationMatch::Expression => {
                return Err("a redirect to the path of an expression has no counterpart".to_owned());
            }
            LocationMatch::Prefix | LocationMatch::FinalPrefix => prefix + placed.location.rest,
            LocationMatch::Named => String::new(),
        };
        let to = before + &rest;
        if !to.contains("://") && !to.starts_with('/') {
            return Err("a redirect has a URL or a path".to_owned());
        }
        return Ok(RouteAction::Redirect { to, status });
    }
    if text.contains('$') {
        return Err("bodies have no variables".to_owned());
    }
    let status = if status == 444 { 403 } else { status };
    let has_body = !matches!(status, 204 | 205 | 304);
    if !(200..=599).contains(&status) {
        return Err(format!("{status} cannot be answered"));
    }
    Ok(RouteAction::Respond {
        status,
        body: if has_body {
            text.to_owned()
        } else {
            String::new()
        },
    })
}

/// Returns what the client gets otherwise than by `return`.
pub(super) fn differences(
    directive: &Directive,
    action: &RouteAction,
    location: &LocationBlock<'_>,
) -> Vec<String> {
    let mut differences = Vec::new();
    if directive.word(0) == Some("444") {
        differences.push("nginx closes the connection; here the answer is 403".to_owned());
    }
    let kind = location.scope.default_type.and_then(|it| it.word(0));
    if let RouteAction::Respond { body, .. } = action
        && let Some(kind) = kind.filter(|kind| !body.is_empty() && *kind != "text/plain")
    {
        differences.push(format!("the body is text/plain; nginx sends {kind} unless the ending of the path says otherwise"));
    }
    differences
}

/// Returns the directive by which a location answers without files.
pub(super) fn other_answer<'d>(location: &LocationBlock<'d>) -> Option<&'d Directive> {
    let answers = |it: &&Directive| {
        OTHER_ANSWERS.contains(&it.name.as_str()) || it.name.starts_with("content_by_lua")
    };
    location.children.iter().find(answers)
}

fn number(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("{text:?} is no status"))
}
