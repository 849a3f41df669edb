//! Returns the paths of the routes of cells.

use super::terms::PathTerm;
use super::{intersection, reduction};
use crate::paths;

/// Returns the path of a route.
pub(crate) fn path(term: Option<&PathTerm>, open_prefixes: &[String]) -> Result<String, String> {
    let no_path = |c| format!("no path has {c:?}");
    match term {
        None => Ok("/*".to_owned()),
        Some(PathTerm::Exact(text)) => paths::encoded(text).map_err(no_path),
        Some(PathTerm::Beginning(text)) if reduction::is_expression(term, open_prefixes) => {
            paths::beginning_with(text)
        }
        Some(PathTerm::Beginning(text)) => {
            paths::encoded(text).map(|text| text + "*").map_err(no_path)
        }
        Some(PathTerm::Ending(text)) => paths::searched(&format!("{}$", regex::escape(text))),
        Some(PathTerm::Between(begin, end)) => {
            let begin = regex::escape(begin);
            paths::searched(&format!("^{begin}(.*{})$", regex::escape(end)))
        }
        Some(PathTerm::Containing(text)) => paths::searched(&regex::escape(text)),
        Some(PathTerm::Segments(text)) => {
            paths::searched(&format!("/{}(/|$)", regex::escape(text)))
        }
        Some(PathTerm::Expression(text)) => paths::searched(text),
        Some(PathTerm::Every(parts)) => intersection::expression(parts),
    }
}
