//! Follows the path of a request through the middlewares that change it.

use regex::Regex;

use super::tree::{member, text, texts};
use crate::cells;
use crate::cells::PathTerm;
use crate::ingress::yaml::YamlNode;
use crate::paths;
use crate::slots;

/// Rests of paths by which an expression is tried.
const RESTS: [&str; 3] = ["sgrest", "sg/rest.x", "sg-rest/1/"];

/// A step that changes the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathEdit {
    /// Removes the first of these prefixes that the path has.
    Strip(Vec<String>),
    AddPrefix(String),
    Replace(String),
    /// An expression, and the text that takes the place of its match.
    Substitute(String, String),
}

impl PathEdit {
    /// Reads a middleware.
    pub(super) fn read(kind: &str, node: &YamlNode) -> Option<Self> {
        let plain = |name: &str| text(node, name).map(str::to_owned);
        Some(match kind {
            "stripprefix" => Self::Strip(texts(member(node, "prefixes"))),
            "addprefix" => Self::AddPrefix(plain("prefix")?),
            "replacepath" => Self::Replace(plain("path")?),
            "replacepathregex" => Self::Substitute(plain("regex")?, plain("replacement")?),
            "stripprefixregex" => match texts(member(node, "regex")).as_slice() {
                [one] => Self::Substitute(
                    format!("^(?:{})", one.trim_start_matches('^')),
                    String::new(),
                ),
                _ => return None,
            },
            _ => return None,
        })
    }
}

/// The path of a request: a text, and whether a rest follows that differs from request to request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FollowedPath {
    text: String,
    has_rest: bool,
    /// True where a slash that begins the rest is part of the text.
    takes_slash: bool,
    is_changed: bool,
}

impl FollowedPath {
    /// Returns the path of the requests of a cell; `None` where only an expression is known.
    pub(super) fn new(term: Option<&PathTerm>) -> Option<Self> {
        let (text, has_rest) = match term {
            None => ("/", true),
            Some(PathTerm::Exact(text)) => (text.as_str(), false),
            Some(PathTerm::Beginning(text)) => (text.as_str(), true),
            Some(_) => return None,
        };
        Some(Self {
            text: text.to_owned(),
            has_rest,
            takes_slash: false,
            is_changed: false,
        })
    }

    /// Applies a step.
    ///
    /// # Errors
    ///
    /// The reason for which its result is not known.
    pub(super) fn apply(&mut self, edit: &PathEdit) -> Result<(), String> {
        let before = self.text.clone();
        match edit {
            PathEdit::Strip(prefixes) => self.strip(prefixes)?,
            PathEdit::AddPrefix(prefix) => {
                let prefix = format!("/{}", prefix.trim_matches('/'));
                self.text = format!("{}{}", prefix.trim_end_matches('/'), self.text);
            }
            PathEdit::Replace(path) => {
                path.clone_into(&mut self.text);
                self.has_rest = false;
                self.is_changed = true;
            }
            PathEdit::Substitute(expression, replacement) => {
                self.substitute(expression, replacement)?;
            }
        }
        self.is_changed |= self.text != before;
        Ok(())
    }

    fn strip(&mut self, prefixes: &[String]) -> Result<(), String> {
        for prefix in prefixes {
            if let Some(left) = self.text.strip_prefix(prefix.as_str()) {
                self.takes_slash |= left.is_empty() && self.has_rest && !prefix.ends_with('/');
                self.text = format!("/{}", left.trim_start_matches('/'));
                return Ok(());
            }
            self.is_elsewhere(prefix)?;
        }
        Ok(())
    }

    /// Checks that no request of the cell has a prefix that its text lacks. Requests are divided by the prefixes of their own path.
    fn is_elsewhere(&self, prefix: &str) -> Result<(), String> {
        if self.has_rest && self.is_changed && prefix.starts_with(&self.text) {
            return Err(format!("some paths begin with {prefix}, and others do not"));
        }
        Ok(())
    }

    fn substitute(&mut self, expression: &str, replacement: &str) -> Result<(), String> {
        let edit = (expression, replacement);
        let made = match self.has_rest {
            true => substituted_before_rest(edit, &self.text)?,
            false => substituted(edit, &self.text)?.map(|text| (text, false)),
        };
        match made {
            Some((text, has_rest)) => {
                self.text = format!("/{}", text.trim_start_matches('/'));
                self.has_rest = has_rest;
                self.is_changed = true;
                Ok(())
            }
            None if !self.has_rest => Ok(()),
            None => match literal_beginning(expression) {
                Some(prefix) if !self.text.starts_with(&prefix) => self.is_elsewhere(&prefix),
                _ => Err(depends(expression)),
            },
        }
    }

    /// Returns the path as a template of the route.
    pub(super) fn template(&self, term: Option<&PathTerm>, open_prefixes: &[String]) -> String {
        let text = slots::escaped(&self.text);
        match self.has_rest {
            true if cells::is_expression(term, open_prefixes) => text + "{path.1}",
            true => text + "{rest}",
            false => text,
        }
    }

    /// Returns the path of the route, and `rewrite`, which is `None` where the path is not changed.
    pub(super) fn route(
        &self,
        term: Option<&PathTerm>,
        open_prefixes: &[String],
    ) -> Result<(String, Option<String>), String> {
        let plain = cells::path(term, open_prefixes)?;
        if !self.is_changed {
            return Ok((plain, None));
        }
        if !self.text.starts_with('/') || self.text.contains(['?', '#']) {
            return Err(format!("no path is {:?}", self.text));
        }
        let rewrite = self.template(term, open_prefixes);
        let is_open = self.has_rest && cells::is_expression(term, open_prefixes);
        let path = match term {
            Some(PathTerm::Beginning(prefix)) if self.takes_slash && is_open => {
                paths::beginning_with(prefix)?.replace("(.*)$", "/?(.*)$")
            }
            _ => plain,
        };
        Ok((path, Some(rewrite)))
    }
}

/// Returns what an expression makes of a text; `None` where it does not match.
fn substituted(
    (expression, replacement): (&str, &str),
    text: &str,
) -> Result<Option<String>, String> {
    let regex = compiled(expression)?;
    let made = regex.replace(text, replacement).into_owned();
    Ok(regex.is_match(text).then_some(made))
}

fn compiled(expression: &str) -> Result<Regex, String> {
    Regex::new(expression).map_err(|_| format!("the expression {expression:?} is not read"))
}

/// Returns what an expression makes of a text with a rest, and true if the rest is at the end of that; `None` where it does not match.
///
/// # Errors
///
/// The reason for which that is not known: the result depends on the rest.
pub(super) fn substituted_before_rest(
    (expression, replacement): (&str, &str),
    text: &str,
) -> Result<Option<(String, bool)>, String> {
    let regex = compiled(expression)?;
    // The rest is taken as a whole, or not at all.
    let is_whole = TAILS.iter().any(|it| expression.ends_with(it));
    if !is_whole && (!expression.starts_with('^') || expression.ends_with('$')) {
        return Err(depends(expression));
    }
    let results = RESTS.map(|rest| {
        let text = format!("{text}{rest}");
        let made = regex.replace(&text, replacement).into_owned();
        regex
            .is_match(&text)
            .then(|| match made.strip_suffix(rest) {
                Some(made) => (made.to_owned(), true),
                None => (made, false),
            })
    });
    let [first, others @ ..] = &results;
    let has_rest_inside = |it: &(String, bool)| RESTS.iter().any(|rest| it.0.contains(rest));
    if others.iter().any(|it| it != first) || first.as_ref().is_some_and(has_rest_inside) {
        return Err(depends(expression));
    }
    Ok(first.clone())
}

fn depends(expression: &str) -> String {
    format!("the result of {expression:?} depends on the path")
}

/// Ends of expressions that take all that follows.
const TAILS: [&str; 10] = [
    "(.*)", "(.*)$", "(.+)", "(.+)$", ".*", ".*$", ".+", ".+$", "/?(.*)", "/?(.*)$",
];

/// Returns the text with which all matches of an expression begin.
pub(super) fn literal_beginning(expression: &str) -> Option<String> {
    let inner = expression.strip_prefix('^')?;
    let inner = inner.strip_prefix("(?:").unwrap_or(inner);
    let end = inner.find(|c| "^$|?*+()[]{}.".contains(c));
    let end = end.unwrap_or(inner.len());
    let is_repeated = inner[end..].starts_with(['?', '*', '{']);
    let mut text = super::rules::literal(inner[..end].trim_end_matches('\\'))?;
    if is_repeated {
        text.pop();
    }
    (text.len() > 1 && !inner.contains('|')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(
        term: Option<PathTerm>,
        edits: &[PathEdit],
    ) -> Result<(String, Option<String>), String> {
        let open: Vec<String> = match &term {
            Some(PathTerm::Beginning(text)) if !text.ends_with('/') => vec![text.clone()],
            _ => Vec::new(),
        };
        let mut path = FollowedPath::new(term.as_ref()).unwrap();
        for edit in edits {
            path.apply(edit)?;
        }
        path.route(term.as_ref(), &open)
    }

    /// Goal: the origin gets the path that it gets behind Traefik. Method: each step over paths of each kind.
    #[test]
    fn paths_are_changed_as_in_traefik() {
        let beginning = |text: &str| Some(PathTerm::Beginning(text.to_owned()));
        let strip = |text: &str| PathEdit::Strip(vec![text.to_owned()]);
        let made = |term, edits: &[PathEdit]| {
            let (path, rewrite) = sent(term, edits).unwrap();
            (path, rewrite.unwrap_or_default())
        };
        let pair = |path: &str, rewrite: &str| (path.to_owned(), rewrite.to_owned());
        assert_eq!(
            made(beginning("/api/"), &[strip("/api")]),
            pair("/api/*", "/{rest}")
        );
        assert_eq!(
            made(beginning("/api"), &[strip("/api")]),
            pair("~ ^/api/?(.*)$", "/{path.1}")
        );
        assert_eq!(made(beginning("/x/"), &[strip("/api")]), pair("/x/*", ""));
        let again = [strip("/a"), strip("/api")];
        assert!(sent(beginning("/a/"), &again).is_err());
        let exact = Some(PathTerm::Exact("/api".to_owned()));
        assert_eq!(made(exact, &[strip("/api")]), pair("/api", "/"));
        let add = PathEdit::AddPrefix("/v1".to_owned());
        assert_eq!(
            made(None, std::slice::from_ref(&add)),
            pair("/*", "/v1/{rest}")
        );
        assert_eq!(
            made(beginning("/api/"), &[strip("/api"), add]),
            pair("/api/*", "/v1/{rest}")
        );
        let replace = PathEdit::Replace("/fixed".to_owned());
        assert_eq!(made(None, &[replace]), pair("/*", "/fixed"));
        let substitute =
            |one: &str, other: &str| PathEdit::Substitute(one.to_owned(), other.to_owned());
        assert_eq!(
            made(beginning("/api/"), &[substitute("^/api/(.*)", "/v2/$1")]),
            pair("/api/*", "/v2/{rest}")
        );
        assert_eq!(
            made(None, &[substitute("^/api/(.*)", "/v2/$1")]),
            pair("/*", "")
        );
        assert!(sent(None, &[substitute("(\\.php)", "")]).is_err());
    }
}
