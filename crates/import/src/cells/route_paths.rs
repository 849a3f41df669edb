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
        Some(PathTerm::Ending(text)) => paths::searched(&format!("{}$", paths::escaped(text))),
        Some(PathTerm::Between(begin, end)) => {
            let begin = paths::escaped(begin);
            paths::searched(&format!("^{begin}(.*{})$", paths::escaped(end)))
        }
        Some(PathTerm::Containing(text)) => paths::searched(&paths::escaped(text)),
        Some(PathTerm::Segments(text)) => {
            paths::searched(&format!("/{}(/|$)", paths::escaped(text)))
        }
        Some(PathTerm::Expression(text)) => paths::searched(text),
        Some(PathTerm::Every(parts)) => intersection::expression(parts),
    }
}
