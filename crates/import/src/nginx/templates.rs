//! Makes the path that an origin gets, with the slots of the gateway in place of variables of nginx.

use super::keys::{TextPiece, pieces};
use super::location_block::{LocationBlock, LocationMatch};
use crate::paths;
use crate::slots;

/// Why a path with a query of its own is to be filled in.
pub(super) const OWN_QUERY: &str = "a route sends the query of the client, and no key adds one";

/// A path in the words of `rewrite`: text with slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathTemplate(pub(super) String);

/// The path of requests that a location passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathChange {
    Unchanged,
    To(PathTemplate),
    /// No slot stands for a part of the new one.
    Unknown,
}

/// The part of a path that a `rewrite` captures.
pub(super) enum CapturedText {
    Nothing,
    /// Behind this many characters of the location's prefix.
    Behind(usize),
    /// The groups of the location's own expression.
    Groups,
}

/// Returns the path of a request that came to a location.
pub(super) fn received(first: &LocationBlock<'_>) -> Option<PathTemplate> {
    match first.match_kind {
        LocationMatch::Exact => Some(PathTemplate(slots::escaped(&first.text))),
        LocationMatch::Prefix | LocationMatch::FinalPrefix => {
            Some(PathTemplate(slots::escaped(&first.text) + first.rest))
        }
        LocationMatch::Expression | LocationMatch::Named => None,
    }
}

/// Returns the path that `try_files` or `error_page` makes for requests that came to a location.
pub(super) fn internal(text: &str, first: &LocationBlock<'_>) -> PathChange {
    if text.starts_with('@') {
        return PathChange::Unchanged;
    }
    let (path, _) = path_and_query(text);
    let received = received(first);
    match of_pieces(path, first, &CapturedText::Nothing, received.as_ref()) {
        Some(path) => PathChange::To(path),
        None => PathChange::Unknown,
    }
}

/// Returns a text that a path with variables can be, without the query behind it.
pub(super) fn sample(text: &str) -> Option<String> {
    let (path, _) = path_and_query(text);
    let mut sample = String::new();
    for piece in path {
        match piece {
            TextPiece::Text(text) => sample.push_str(&text),
            TextPiece::Variable(name) if is_path(&name) => sample.push_str("/x"),
            // A variable at the beginning has a path.
            TextPiece::Variable(_) if sample.is_empty() => sample.push_str("/x"),
            TextPiece::Variable(_) => sample.push('x'),
        }
    }
    sample.starts_with('/').then_some(sample)
}

/// Returns true for a variable with the path of the request.
fn is_path(variable: &str) -> bool {
    matches!(variable, "uri" | "request_uri" | "document_uri")
}

/// Returns the texts at both ends of a path with variables; `None` where it has none.
pub(super) fn ends(text: &str) -> Option<(String, String)> {
    let (path, _) = path_and_query(text);
    let is_variable = |piece: &TextPiece| matches!(piece, TextPiece::Variable(_));
    let text = |piece: Option<&TextPiece>| match piece {
        Some(TextPiece::Text(text)) => text.clone(),
        _ => String::new(),
    };
    let head = match text(path.first()) {
        // A variable at the beginning has a path.
        head if head.is_empty() => "/".to_owned(),
        head => head,
    };
    let ends = (head, text(path.last()));
    path.iter().any(is_variable).then_some(ends)
}

/// Returns the path that a `rewrite` makes; `None` where requests of the location exist that it leaves as they are. `changed` is the path
/// that a step before made.
pub(super) fn rewritten(
    expression: &str,
    replacement: &str,
    location: &LocationBlock<'_>,
    first: &LocationBlock<'_>,
    changed: &PathChange,
) -> Option<PathChange> {
    let is_first_path =
        *changed == PathChange::Unchanged && location.match_kind == LocationMatch::Named;
    let captured = captured(expression, if is_first_path { first } else { location })?;
    let (path, _) = path_and_query(replacement);
    let is_plain = path.iter().all(|piece| matches!(piece, TextPiece::Text(_)));
    // Behind another step a group has a part of its path.
    let path = match changed {
        PathChange::To(_) | PathChange::Unknown if !is_plain => None,
        _ => of_pieces(path, first, &captured, received(first).as_ref()),
    };
    Some(path.map_or(PathChange::Unknown, PathChange::To))
}

/// Returns what an expression captures of the paths of a location; `None` where it does not match all of them.
pub(super) fn captured(expression: &str, location: &LocationBlock<'_>) -> Option<CapturedText> {
    if location.match_kind == LocationMatch::Expression
        && (expression == location.text || location.rewrite.is_some())
    {
        return Some(CapturedText::Groups);
    }
    let anchored = expression.strip_prefix('^');
    let inner = anchored.unwrap_or(expression).trim_end_matches('$');
    if matches!(inner, "" | "/" | ".*" | "/.*" | ".+") && (anchored.is_some() || inner != "/") {
        return Some(CapturedText::Nothing);
    }
    let ends = ["/?(.*)", "(/.*)", "(/.+)", "(.*)", "(.+)", ".*", ".+"];
    let end = ends.into_iter().find(|end| inner.ends_with(end));
    let literal = paths::literal(&inner[..inner.len() - end.map_or(0, str::len)])?;
    let is_open = end.is_some() || !expression.ends_with('$');
    if anchored.is_none() && !literal.is_empty() {
        return None;
    }
    let text = &location.text;
    let behind = match end {
        // Two slashes in a path are one.
        Some("/?(.*)") if *text != literal => literal + "/",
        Some("(/.*)" | "(/.+)") => literal + "/",
        _ => literal,
    };
    match location.match_kind {
        LocationMatch::Exact if is_open && text.starts_with(&behind) => {}
        LocationMatch::Exact if *text == behind => {}
        LocationMatch::Prefix | LocationMatch::FinalPrefix
            if is_open && text.starts_with(&behind) => {}
        LocationMatch::Expression if behind.is_empty() => return Some(CapturedText::Nothing),
        LocationMatch::Named if behind.is_empty() || behind == "/" => {}
        _ => return None,
    }
    Some(match end {
        Some("(/.*)" | "(/.+)") => CapturedText::Behind(behind.len() - 1),
        Some(end) if end.contains('(') => CapturedText::Behind(behind.len()),
        _ => CapturedText::Nothing,
    })
}

/// Returns the prefix that an expression such as `^/a/(.*)$` takes.
pub(super) fn prefix_of(expression: &str) -> Option<String> {
    let inner = expression.strip_prefix('^')?.trim_end_matches('$');
    let ends = ["(/.*)", "(/.+)", "(.*)", "(.+)", ".*", ".+"];
    let end = ends.into_iter().find(|end| inner.ends_with(end));
    if end.is_none() && expression.ends_with('$') {
        return None;
    }
    let mut prefix = paths::literal(&inner[..inner.len() - end.map_or(0, str::len)])?;
    if end.is_some_and(|end| end.starts_with("(/")) {
        prefix.push('/');
    }
    prefix.starts_with('/').then_some(prefix)
}

fn of_pieces(
    pieces: Vec<TextPiece>,
    first: &LocationBlock<'_>,
    captured: &CapturedText,
    received: Option<&PathTemplate>,
) -> Option<PathTemplate> {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            TextPiece::Text(text) => out.push_str(&slots::escaped(&text)),
            TextPiece::Variable(name) => out.push_str(&variable(&name, first, captured, received)?),
        }
    }
    // What is behind a prefix without a slash at its end begins with one, and the gateway makes one of two.
    if out.starts_with("{path.") {
        out.insert(0, '/');
    }
    out.starts_with('/')
        .then(|| PathTemplate(out.replace("//", "/")))
}

/// Returns the text of a variable for requests that came to a location.
pub(super) fn path_variable(
    name: &str,
    first: &LocationBlock<'_>,
    captured: &CapturedText,
) -> Option<String> {
    variable(name, first, captured, received(first).as_ref())
}

fn variable(
    name: &str,
    first: &LocationBlock<'_>,
    captured: &CapturedText,
    received: Option<&PathTemplate>,
) -> Option<String> {
    match (name, captured) {
        (name, _) if is_path(name) => Some(received?.0.clone()),
        ("1", CapturedText::Behind(length)) => {
            let prefix = slots::escaped(first.text.get(..*length)?);
            received?.0.strip_prefix(prefix.as_str()).map(str::to_owned)
        }
        (number, CapturedText::Groups) if number.bytes().all(|it| it.is_ascii_digit()) => {
            Some(format!("{{path.{number}}}"))
        }
        _ => None,
    }
}

/// Returns the path of a `proxy_pass` with variables, which takes the place of the whole path; `None` where that is the path as it came.
///
/// # Errors
///
/// The reason for which no template is this.
pub(super) fn passed(
    text: &str,
    first: &LocationBlock<'_>,
    changed: Option<&PathTemplate>,
) -> Result<PassedPath, String> {
    let (path, query) = path_and_query(text);
    let is = |names: &[&str]| match path.as_slice() {
        [TextPiece::Variable(name)] => names.contains(&name.as_str()),
        _ => false,
    };
    if !query.is_empty() && !is_whole_query(&query) {
        return Err(OWN_QUERY.to_owned());
    }
    let keeps_query = ends_with_query(&path) || is_whole_query(&query);
    if is(&["request_uri"]) {
        // The path of the client, whatever the location makes of it.
        return Ok(PassedPath {
            template: None,
            keeps_query,
        });
    }
    if is(&["uri", "document_uri"]) {
        let template = changed.cloned();
        return Ok(PassedPath {
            template,
            keeps_query,
        });
    }
    let received = changed.cloned().or_else(|| received(first));
    let groups = match first.match_kind {
        LocationMatch::Expression if changed.is_none() => CapturedText::Groups,
        _ => CapturedText::Nothing,
    };
    let made = of_pieces(path, first, &groups, received.as_ref());
    let template =
        made.ok_or_else(|| "no slot of `rewrite` stands for these variables".to_owned())?;
    Ok(PassedPath {
        template: Some(template),
        keeps_query,
    })
}

/// A path that a `proxy_pass` with variables sends.
pub(super) struct PassedPath {
    /// `None` where that is the path as it came.
    pub(super) template: Option<PathTemplate>,
    /// True if the query of the client goes along, as it does here.
    pub(super) keeps_query: bool,
}

/// The query of the requests that a directive passes on by a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryChange {
    /// That of the client.
    Kept,
    /// None.
    Dropped,
    /// A text of its own.
    Own,
}

/// Returns the query of a target. `rewrite` keeps that of the client unless it ends with a question mark.
pub(super) fn query_change(text: &str, directive: &str) -> QueryChange {
    let (path, query) = path_and_query(text);
    let has_all = ends_with_query(&path) && query.is_empty();
    let is_written = text.contains('?') || text.contains("$is_args");
    match query.is_empty() {
        _ if text.starts_with('@') || has_all || is_whole_query(&query) => QueryChange::Kept,
        false => QueryChange::Own,
        true if directive == "rewrite" && !is_written => QueryChange::Kept,
        true => QueryChange::Dropped,
    }
}

/// Cuts a text before its query.
fn path_and_query(text: &str) -> (Vec<TextPiece>, Vec<TextPiece>) {
    let mut path = Vec::new();
    let mut all = pieces(text).into_iter();
    while let Some(piece) = all.next() {
        match piece {
            TextPiece::Variable(name) if name == "is_args" => return (path, all.collect()),
            TextPiece::Text(text) if text.contains('?') => {
                let (before, behind) = text.split_once('?').unwrap_or((&text, ""));
                let parts = |text: &str| {
                    let text = (!text.is_empty()).then(|| TextPiece::Text(text.to_owned()));
                    text.into_iter()
                };
                path.extend(parts(before));
                return (path, parts(behind).chain(all).collect());
            }
            piece => path.push(piece),
        }
    }
    (path, Vec::new())
}

/// Returns true for a path behind which nginx finds the query of the client.
fn ends_with_query(path: &[TextPiece]) -> bool {
    matches!(path.last(), Some(TextPiece::Variable(name)) if name == "request_uri")
}

fn is_whole_query(query: &[TextPiece]) -> bool {
    matches!(query, [TextPiece::Variable(name)] if matches!(name.as_str(), "args" | "query_string"))
}
