//! Makes redirects of `rewrite` that sends clients elsewhere: with `redirect` or `permanent`, or to a URL.
//!
//! nginx answers them before it looks at limits and access, as it does `return`.

use sluicegate_base::host;

use super::jumps::is_redirect;
use super::keys::{TextPiece, pieces};
use super::listens::ServerBlock;
use super::location_block::{LocationBlock, LocationMatch};
use super::scope::SettingScope;
use super::templates;
use super::tree::Directive;
use crate::slots;

/// The redirect of all requests of a location.
pub(super) struct PathRedirect<'d> {
    pub(super) rewrite: &'d Directive,
    pub(super) to: String,
    pub(super) status: u16,
    /// False where nginx drops the query of the client.
    pub(super) keeps_query: bool,
}

/// Returns the redirect that all requests of a location get; `None` where some do not, or the URL has no counterpart.
pub(super) fn answer<'d>(location: &LocationBlock<'d>) -> Option<PathRedirect<'d>> {
    if let Some(rewrite) = location.rewrite {
        return redirect(rewrite, location);
    }
    let is_step = |it: &&Directive| matches!(it.name.as_str(), "rewrite" | "return" | "break");
    let steps = location.children.iter().filter(is_step);
    steps
        .take_while(|it| is_redirecting(it))
        .find_map(|rewrite| redirect(rewrite, location))
}

/// Returns the `rewrite` of a server block that sends all requests elsewhere.
pub(super) fn of_server<'d>(root: &LocationBlock<'d>) -> Option<&'d Directive> {
    answer(root).map(|redirect| redirect.rewrite)
}

pub(super) fn is_redirecting(directive: &Directive) -> bool {
    directive.name == "rewrite" && is_redirect(directive)
}

fn redirect<'d>(rewrite: &'d Directive, location: &LocationBlock<'d>) -> Option<PathRedirect<'d>> {
    let [expression, replacement, ..] = rewrite.words.as_slice() else {
        return None;
    };
    if !is_redirect(rewrite) {
        return None;
    }
    let (url, query) = match replacement.split_once('?') {
        Some((url, query)) => (url, Some(query)),
        None => (replacement.as_str(), None),
    };
    // Further parameters precede those of the client in nginx.
    if query.is_some_and(|query| !query.is_empty()) {
        return None;
    }
    let to = target(url, expression, location)?;
    Some(PathRedirect {
        rewrite,
        to,
        status: match rewrite.word(2) {
            Some("permanent") => 301,
            _ => 302,
        },
        keeps_query: query.is_none() || url.ends_with("$request_uri"),
    })
}

/// Returns the beginning of a URL of `return` of a server block, with slots in place of variables.
///
/// # Errors
///
/// The reason for which no slot is this.
pub(super) fn place_text(text: &str, server: &ServerBlock<'_>) -> Result<String, String> {
    let scheme = server.scheme();
    // A path leads to the same scheme and host.
    let same = text
        .strip_prefix("$scheme://$host")
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let mut to = String::new();
    for piece in pieces(same.unwrap_or(text)) {
        match piece {
            TextPiece::Text(text) => to.push_str(&slots::escaped(&text)),
            TextPiece::Variable(name) => match (name.as_str(), scheme) {
                ("host" | "http_host", _) => to.push_str("{host}"),
                ("server_name", _) => to.push_str(server_name(&server.scope)?),
                ("scheme", Some(scheme)) => to.push_str(scheme),
                ("scheme", None) => {
                    return Err(
                        "some listeners have TLS and some have not, so no slot is $scheme"
                            .to_owned(),
                    );
                }
                _ => return Err("a redirect has no slot for these variables".to_owned()),
            },
        }
    }
    Ok(to)
}

/// Returns the value of `$server_name`.
fn server_name<'d>(scope: &SettingScope<'d>) -> Result<&'d str, &'static str> {
    let is_host = |it: &&str| host::normalize(it).is_ok_and(|name| name == **it);
    let name = scope.server_name.filter(is_host);
    name.ok_or("the first name of the server block is no host")
}

/// Returns the URL with slots in place of variables.
fn target(url: &str, expression: &str, location: &LocationBlock<'_>) -> Option<String> {
    let captured = templates::captured(expression, location)?;
    // A path leads to the same scheme and host.
    let url = (url.strip_prefix("$scheme://$host"))
        .or_else(|| url.strip_prefix("$scheme://$http_host"))
        .unwrap_or(url);
    let mut to = String::new();
    for piece in pieces(url) {
        match piece {
            TextPiece::Text(text) => to.push_str(&slots::escaped(&text)),
            TextPiece::Variable(name) if matches!(name.as_str(), "host" | "http_host") => {
                to.push_str("{host}");
            }
            TextPiece::Variable(name) if name == "server_name" => {
                to.push_str(server_name(&location.scope).ok()?);
            }
            TextPiece::Variable(name) => {
                to.push_str(&templates::path_variable(&name, location, &captured)?);
            }
        }
    }
    let has_host = to.starts_with("https://") || to.starts_with("http://");
    let to = match to.strip_prefix('/') {
        Some(path) => format!("/{}", path.trim_start_matches('/')),
        None if has_host => to,
        None => return None,
    };
    let is_known = location.match_kind != LocationMatch::Named;
    is_known.then_some(to)
}
