//! Follows the path of a request through the directives that change it.
//!
//! The part of a path that a route does not know is `REST` in a template until the path of the route is written, which has a name for it.

use super::placeholders::{PlaceholderPiece, pieces};
use crate::cells::PathTerm;
use crate::paths::may_begin;

/// The part that a pattern leaves open.
pub(super) const REST: char = '\u{0}';

/// A change of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SitePathChange {
    Strip(String),
    /// The new path with Caddy's placeholders.
    Rewrite(String),
}

impl SitePathChange {
    /// Returns the change that removes a prefix.
    pub(super) fn strip_prefix(prefix: &str) -> Self {
        Self::Strip(prefix.trim_end_matches('/').to_owned())
    }

    /// Reads the words of `rewrite`.
    ///
    /// # Errors
    ///
    /// The reason for which it has no counterpart.
    pub(super) fn rewrite(words: &[String]) -> Result<Self, String> {
        let [to] = words else {
            return Err("it names no path".to_owned());
        };
        let (path, query) = to.split_once('?').unwrap_or((to, "{query}"));
        if !matches!(query, "{query}" | "{http.request.uri.query}") {
            return Err("a rewrite keeps the query".to_owned());
        }
        let path = path.strip_suffix("{?query}").unwrap_or(path);
        let is_path = path.starts_with(['/', '{']);
        if path.is_empty() || !is_path {
            return Err(format!("a rewrite leads to a path, and {to} is none"));
        }
        Ok(Self::Rewrite(path.to_owned()))
    }

    /// Reads the words of `uri`.
    ///
    /// # Errors
    ///
    /// The reason for which it has no counterpart.
    pub(super) fn uri(words: &[String]) -> Result<Self, String> {
        match words {
            [kind, prefix] if kind == "strip_prefix" && !prefix.contains('{') => {
                let slash = if prefix.starts_with('/') { "" } else { "/" };
                Ok(Self::strip_prefix(&format!("{slash}{prefix}")))
            }
            [kind, ..] => Err(format!("a route has no counterpart of `uri {kind}`")),
            [] => Err("it names no change".to_owned()),
        }
    }
}

/// The path at a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CurrentPath {
    /// The paths that it can be; `None` where that is not known.
    pub(super) term: Option<PathTerm>,
    /// `None` where the route has no name for a part of it.
    pub(super) template: Option<String>,
}

impl CurrentPath {
    /// Returns the path of the requests with a path.
    pub(super) fn new(path: Option<&PathTerm>) -> Self {
        let template = match path {
            None => Some(format!("/{REST}")),
            Some(PathTerm::Exact(text)) => Some(text.clone()),
            Some(PathTerm::Beginning(text) | PathTerm::Between(text, _)) => {
                Some(format!("{text}{REST}"))
            }
            Some(_) => None,
        };
        let root = || PathTerm::Beginning("/".to_owned());
        Self {
            term: Some(path.cloned().unwrap_or_else(root)),
            template,
        }
    }

    /// Applies a change.
    ///
    /// # Errors
    ///
    /// The reason for which the path is not known behind it.
    pub(super) fn change(&mut self, change: &SitePathChange) -> Result<(), String> {
        match change {
            SitePathChange::Strip(prefix) => self.strip(prefix),
            SitePathChange::Rewrite(to) => {
                let path = self.fill(to)?;
                self.term = match path.split_once(REST) {
                    None => Some(PathTerm::Exact(path.clone())),
                    Some((before, "")) => Some(PathTerm::Beginning(before.to_owned())),
                    Some(_) => None,
                };
                self.template = Some(path);
                Ok(())
            }
        }
    }

    fn strip(&mut self, prefix: &str) -> Result<(), String> {
        let with_slash = |text: &str| match text.strip_prefix('/') {
            Some(_) => text.to_owned(),
            None => format!("/{text}"),
        };
        let inner = match &self.term {
            Some(
                PathTerm::Exact(text) | PathTerm::Beginning(text) | PathTerm::Between(text, _),
            ) => text,
            // The cells with this beginning are others.
            Some(PathTerm::Ending(_)) => return Ok(()),
            Some(PathTerm::Expression(text)) if !may_begin(text, prefix) => return Ok(()),
            _ => return Err("the path behind the prefix is not known".to_owned()),
        };
        let rest = without_prefix(inner, prefix).map(str::to_owned);
        let is_whole = |rest: &String| rest.is_empty() || rest.starts_with('/');
        let Some(rest) = rest.filter(is_whole) else {
            return Ok(());
        };
        self.term = match &self.term {
            Some(PathTerm::Exact(_)) => Some(PathTerm::Exact(with_slash(&rest))),
            Some(PathTerm::Between(_, end)) => {
                Some(PathTerm::Between(with_slash(&rest), end.clone()))
            }
            _ => Some(PathTerm::Beginning(with_slash(&rest))),
        };
        let template = self.template.as_ref();
        self.template = template
            .and_then(|text| without_prefix(text, prefix))
            .map(with_slash);
        Ok(())
    }

    /// Returns a text with the path in place of the placeholders that are it; other placeholders stay.
    ///
    /// # Errors
    ///
    /// The route has no name for a part of the path, or another placeholder.
    pub(super) fn fill(&self, text: &str) -> Result<String, String> {
        let mut filled = String::new();
        for piece in pieces(text) {
            match piece {
                PlaceholderPiece::Text(text) => filled.push_str(&text),
                PlaceholderPiece::Placeholder(name) => {
                    let is_path =
                        matches!(name.as_str(), "http.request.uri" | "http.request.uri.path");
                    if !is_path {
                        return Err(format!("a path has no slot for {{{name}}}"));
                    }
                    let path = self.template.as_deref();
                    let path = path.ok_or("the route has no name for the rest of its path")?;
                    filled = filled.trim_end_matches('/').to_owned();
                    filled.push_str(path);
                }
            }
        }
        Ok(filled)
    }
}

/// Returns a term as Caddy compares it: without regard to case, unless it is an expression.
pub(super) fn folded(term: &PathTerm) -> PathTerm {
    let lower = |text: &String| text.to_ascii_lowercase();
    match term {
        PathTerm::Exact(text) => PathTerm::Exact(lower(text)),
        PathTerm::Beginning(text) => PathTerm::Beginning(lower(text)),
        PathTerm::Ending(text) => PathTerm::Ending(lower(text)),
        PathTerm::Between(begin, end) => PathTerm::Between(lower(begin), lower(end)),
        PathTerm::Containing(text) => PathTerm::Containing(lower(text)),
        PathTerm::Segments(_) => term.clone(),
        PathTerm::Expression(text) => {
            let has_upper = text.contains(|c: char| c.is_ascii_uppercase());
            let text = text.strip_prefix("(?i)").filter(|_| !has_upper);
            text.map_or_else(
                || term.clone(),
                |text| PathTerm::Expression(text.to_owned()),
            )
        }
        PathTerm::Every(parts) => PathTerm::Every(parts.iter().map(folded).collect()),
    }
}

/// Returns the rest of a path behind a prefix in any letters.
fn without_prefix<'p>(path: &'p str, prefix: &str) -> Option<&'p str> {
    let begin = path.get(..prefix.len())?;
    begin
        .eq_ignore_ascii_case(prefix)
        .then(|| &path[prefix.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::may_end;

    fn followed(path: Option<PathTerm>, changes: &[SitePathChange]) -> CurrentPath {
        let mut current = CurrentPath::new(path.as_ref());
        for change in changes {
            current.change(change).unwrap();
        }
        current
    }

    /// Goal: a path is that of Caddy behind each change. Method: prefixes that are there and are not, a rewrite around the path.
    #[test]
    fn changes_are_followed() {
        let beginning = |text: &str| Some(PathTerm::Beginning(text.to_owned()));
        let strip = SitePathChange::strip_prefix("/api/");
        let stripped = followed(beginning("/api/v1/"), std::slice::from_ref(&strip));
        assert_eq!(stripped.term, beginning("/v1/"));
        let in_capitals = SitePathChange::strip_prefix("/API/");
        assert_eq!(
            followed(beginning("/api/v1/"), &[in_capitals]).term,
            beginning("/v1/")
        );
        assert_eq!(stripped.template.as_deref(), Some("/v1/\u{0}"));
        let same = followed(None, std::slice::from_ref(&strip));
        assert_eq!(same.template.as_deref(), Some("/\u{0}"));
        let exact = followed(
            Some(PathTerm::Exact("/api".to_owned())),
            std::slice::from_ref(&strip),
        );
        assert_eq!(exact.template.as_deref(), Some("/"));
        let rewrite = SitePathChange::rewrite(&["/x{uri}".to_owned()]).unwrap();
        let both = followed(beginning("/api/"), &[strip, rewrite]);
        assert_eq!(both.template.as_deref(), Some("/x/\u{0}"));
        assert_eq!(both.term, beginning("/x/"));
    }

    /// Goal: a change without a counterpart is an error. Method: other queries, other changes, an expression.
    #[test]
    fn changes_without_a_counterpart_are_errors() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(SitePathChange::rewrite(&words("/x?a=1")).is_err());
        assert!(SitePathChange::rewrite(&words("?a=1")).is_err());
        assert!(SitePathChange::uri(&words("replace a b")).is_err());
        assert!(!may_begin("^/users/[0-9]+$", "/api/") && may_begin("^/api?", "/ap/"));
        assert!(!may_end("^/a/[^/]*/end$", ".php") && may_end("^/a/[0-9]+$", ".php"));
        assert!(may_end(r"^/\d$", ".php") && may_end(r"\.php$", ".php"));
        assert!(may_begin("^(?i)/Api/x$", "/api/") && !may_begin("^(?i)/users$", "/api/"));
        assert!(may_begin("/users", "/api/") && may_begin("^/a|^/api", "/api/"));
        let mut current = CurrentPath::new(Some(&PathTerm::Expression("a".to_owned())));
        assert!(current.change(&SitePathChange::strip_prefix("/a")).is_err());
        let to = SitePathChange::Rewrite("/b{uri}".to_owned());
        assert!(current.change(&to).is_err());
    }
}
