//! Makes the path that an origin gets: that of `proxy_pass`, behind what `rewrite` makes.

use super::divisions;
use super::jumps::Destination;
use super::location_block::{LocationMatch, is_prefix};
use super::locations::PlacedLocation;
use super::passes::PassPath;
use super::templates::{self, PathChange};
use crate::slots;

/// Why a path that nginx makes is to be filled in.
const NO_SLOT: &str = "no slot stands for the path that nginx makes";

/// Returns true where the path of a `proxy_pass` is not put in: nginx sends what `rewrite … break` makes as it is.
fn is_sent_whole(destination: &Destination<'_>) -> bool {
    let last = destination.jumps.last();
    last.is_some_and(|it| it.name == "rewrite" && it.word(2) == Some("break"))
}

/// The path that an origin gets.
pub(super) struct SentPath {
    pub(super) strip_prefix: Option<String>,
    pub(super) rewrite: Option<String>,
    pub(super) keeps_query: bool,
    /// True if the new beginning ends with a slash, and the rest of the path can begin with one.
    pub(super) merges_slashes: bool,
}

/// Returns the path that a pass sends for requests of a location.
pub(super) fn sent_path(
    placed: &PlacedLocation<'_>,
    destination: &Destination<'_>,
    pass: &PassPath,
) -> Result<SentPath, String> {
    let changed = match &destination.path {
        PathChange::Unchanged => None,
        PathChange::To(path) => Some(path),
        PathChange::Unknown => {
            return Err(NO_SLOT.to_owned());
        }
    };
    let mut sent = SentPath {
        strip_prefix: None,
        rewrite: changed.map(|path| path.0.clone()),
        keeps_query: true,
        merges_slashes: false,
    };
    match (pass, changed) {
        (PassPath::Unchanged, _) => {}
        (PassPath::WithQuery, _) => return Err(templates::OWN_QUERY.to_owned()),
        (PassPath::Prefix(path), None) => {
            (sent.strip_prefix, sent.rewrite) = rewritten(placed, path);
            let location = &placed.location;
            sent.merges_slashes = is_prefix(location.match_kind)
                && path.ends_with('/')
                && !location.text.ends_with('/');
        }
        (PassPath::Prefix(path), Some(changed)) => {
            let location = &destination.location;
            let prefix = slots::escaped(&location.text);
            let behind = changed.0.strip_prefix(&prefix).map(str::to_owned);
            let rest = behind.or_else(|| divisions::rest_behind(&placed.location, location));
            match rest {
                _ if is_sent_whole(destination) => {}
                Some(rest) => sent.rewrite = Some(slots::escaped(path) + &rest),
                None => return Err(NO_SLOT.to_owned()),
            }
        }
        (PassPath::Whole(text), changed) => {
            let passed = templates::passed(text, &placed.location, changed)?;
            sent.rewrite = passed.template.map(|template| template.0);
            sent.keeps_query = passed.keeps_query;
        }
    }
    Ok(sent)
}

/// Returns `strip_prefix` and `rewrite` for a target that has a path, which takes the place of the location's.
fn rewritten(placed: &PlacedLocation<'_>, path: &str) -> (Option<String>, Option<String>) {
    let location = &placed.location;
    let template = slots::escaped(path);
    match location.match_kind {
        LocationMatch::Exact if location.text == path => (None, None),
        LocationMatch::Exact => (None, Some(template)),
        // nginx refuses a path behind the target of an expression.
        LocationMatch::Expression => (None, None),
        _ if location.text == path => (None, None),
        _ if path == "/" && location.rest == "{rest}" => {
            (Some(location.text.trim_end_matches('/').to_owned()), None)
        }
        _ => (None, Some(template + location.rest)),
    }
}
