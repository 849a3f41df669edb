//! Writes the URL of a `redir` for the route of a cell.

use super::evaluation::RequestScheme;
use super::paths::{CurrentPath, REST};
use super::placeholders::{PlaceholderPiece, pieces};
use crate::cells::{self, PathTerm, RequestCell};
use crate::slots;

/// The route of a cell.
pub(super) struct RoutePlace<'c> {
    pub(super) cell: &'c RequestCell,
    pub(super) open_prefixes: &'c [String],
    pub(super) scheme: RequestScheme,
}

impl RoutePlace<'_> {
    /// Returns a template with the slot of the route for the rest of its path.
    pub(super) fn rendered(&self, template: &str) -> String {
        let is_expression = cells::is_expression(self.cell.path.as_ref(), self.open_prefixes);
        let slot = if is_expression { "{path.1}" } else { "{rest}" };
        let parts = template.split(REST).map(slots::escaped);
        parts.collect::<Vec<_>>().join(slot)
    }
}

/// A URL, with what it means otherwise than in Caddy.
#[derive(Debug)]
pub(super) struct RedirectUrl {
    pub(super) to: String,
    pub(super) difference: Option<&'static str>,
}

/// Returns the URL for a route; `path` is the path of the request where directives have changed it.
///
/// # Errors
///
/// The placeholder that has no slot.
pub(super) fn url(
    to: &str,
    place: &RoutePlace<'_>,
    path: Option<&CurrentPath>,
) -> Result<RedirectUrl, String> {
    let own = CurrentPath::new(place.cell.path.as_ref());
    let mut has_query = to.contains('?');
    let mut url = String::new();
    // A redirect keeps the query without being told.
    let to = to.trim_end_matches("{?query}").trim_end_matches("?{query}");
    for piece in pieces(to) {
        let name = match piece {
            PlaceholderPiece::Text(text) => {
                url.push_str(&slots::escaped(&text));
                continue;
            }
            PlaceholderPiece::Placeholder(name) => name,
        };
        let template = match name.as_str() {
            "http.request.host" | "http.request.hostport" => {
                url.push_str("{host}");
                continue;
            }
            "http.request.scheme" => {
                url.push_str(place.scheme.name());
                continue;
            }
            "http.request.uri" | "http.request.uri.path" => path.unwrap_or(&own).template.clone(),
            "http.request.orig_uri" | "http.request.orig_uri.path" => own.template.clone(),
            name => {
                let group = name
                    .strip_prefix("http.regexp.")
                    .and_then(|it| it.rsplit('.').next());
                let is_expression = matches!(place.cell.path, Some(PathTerm::Expression(_)));
                let group = group.filter(|it| is_expression && it.parse::<u8>().is_ok());
                let group =
                    group.ok_or_else(|| format!("a redirect has no slot for {{{name}}}"))?;
                url.push_str(&format!("{{path.{group}}}"));
                continue;
            }
        };
        has_query |= name.ends_with("uri");
        let template = template.ok_or("a redirect has no name for the rest of this path")?;
        let rendered = place.rendered(&template);
        if url.ends_with('/') && rendered.starts_with('/') {
            url.pop();
        }
        url.push_str(&rendered);
    }
    let is_target =
        url.starts_with('/') || url.starts_with("http://") || url.starts_with("https://");
    if !is_target {
        return Err(format!(
            "a redirect leads to a path or a URL, and {to} is none"
        ));
    }
    Ok(RedirectUrl {
        to: url,
        difference: (!has_query).then_some("the query of the request is kept"),
    })
}
