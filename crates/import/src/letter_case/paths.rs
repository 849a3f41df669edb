//! Compares paths of routes with paths of requests, with regard to case and without.

use regex::bytes::{Regex, RegexBuilder};
use sluicegate_base::path::{PathCase, PathRegex};

use crate::bounds;
use crate::model::Route;
use crate::paths;

/// The path of a route.
pub(crate) struct RoutePath {
    kind: PathKind,
    sample: String,
}

/// The precedence of a path among those of a host; the greater one wins.
pub(super) type PathPlace = (u8, usize);

enum PathKind {
    Exact,
    /// All paths that begin with the sample.
    Prefix,
    Expression {
        exact: Regex,
        folded: Regex,
        names_capitals: bool,
    },
}

impl RoutePath {
    /// Returns the path of a route; `None` where no request is known that has it.
    pub(crate) fn new(route: &Route) -> Option<Self> {
        if let Some(expression) = paths::expression(&route.path) {
            return Self::expression(expression);
        }
        if route.path.contains('{') {
            return None;
        }
        Some(match route.path.strip_suffix('*') {
            Some(prefix) => Self {
                kind: PathKind::Prefix,
                sample: prefix.to_owned(),
            },
            None => Self {
                kind: PathKind::Exact,
                sample: route.path.clone(),
            },
        })
    }

    fn expression(text: &str) -> Option<Self> {
        let regex = PathRegex::new(text).ok()?;
        let compiled = |case| {
            let pattern = regex.clone().with_case(case).pattern();
            let mut builder = RegexBuilder::new(&pattern);
            let builder = builder.unicode(false).size_limit(bounds::EXPRESSION_BYTES);
            builder.build().ok()
        };
        let path = |sample: String| match sample.starts_with('/') {
            true => sample,
            false => format!("/{sample}"),
        };
        let found = Self {
            sample: path(regex.sample()?),
            kind: PathKind::Expression {
                exact: compiled(PathCase::Kept)?,
                folded: compiled(PathCase::Ignored)?,
                names_capitals: has_class_of_capitals(text),
            },
        };
        // Without regard to case `[^a-z]` takes less.
        let takes = |case| found.takes(&found.sample, case);
        (takes(PathCase::Kept) && takes(PathCase::Ignored)).then_some(found)
    }

    /// Returns a path that it has.
    pub(crate) fn sample(&self) -> &str {
        &self.sample
    }

    /// Returns true if a request for a path has this one. A slash at the end of an exact path makes no difference to the gateway.
    pub(super) fn takes(&self, asked: &str, case: PathCase) -> bool {
        let folded = |text: &str| match case {
            PathCase::Ignored => text.to_ascii_lowercase(),
            PathCase::Kept => text.to_owned(),
        };
        match &self.kind {
            PathKind::Exact => {
                let whole = |text: &str| folded(text.strip_suffix('/').unwrap_or(text));
                whole(asked) == whole(&self.sample)
            }
            PathKind::Prefix => folded(asked).starts_with(&folded(&self.sample)),
            PathKind::Expression { exact, folded, .. } => {
                let regex = match case {
                    PathCase::Ignored => folded,
                    PathCase::Kept => exact,
                };
                let shorter = asked.strip_suffix('/').filter(|path| !path.is_empty());
                let mut readings = [Some(asked), shorter].into_iter().flatten();
                readings.any(|reading| regex.is_match(reading.as_bytes()))
            }
        }
    }

    /// Returns true if a path is this one, where a slash at the end makes a difference.
    pub(crate) fn takes_as_written(&self, asked: &str, case: PathCase) -> bool {
        let is_begun = |text: &str| match case {
            PathCase::Ignored => text.eq_ignore_ascii_case(&self.sample),
            PathCase::Kept => text == self.sample,
        };
        match &self.kind {
            PathKind::Exact => is_begun(asked),
            PathKind::Prefix => asked.get(..self.sample.len()).is_some_and(is_begun),
            PathKind::Expression { exact, folded, .. } => match case {
                PathCase::Ignored => folded.is_match(asked.as_bytes()),
                PathCase::Kept => exact.is_match(asked.as_bytes()),
            },
        }
    }

    /// Returns the part of a path that a slot of the route stands for: `rest`, or a group such as `path.1`.
    pub(crate) fn slot(&self, asked: &str, case: PathCase, name: &str) -> Option<String> {
        match &self.kind {
            PathKind::Exact => None,
            PathKind::Prefix => Some(asked.get(self.sample.len()..)?.to_owned()),
            PathKind::Expression { exact, folded, .. } => {
                let regex = match case {
                    PathCase::Ignored => folded,
                    PathCase::Kept => exact,
                };
                let groups = regex.captures(asked.as_bytes())?;
                let group = name.strip_prefix("path.")?;
                let found = match group.parse() {
                    Ok(number) => groups.get(number),
                    Err(_) => groups.name(group),
                };
                let text = found.map(|it| it.as_bytes()).unwrap_or_default();
                String::from_utf8(text.to_vec()).ok()
            }
        }
    }

    /// Returns true if a request for a path has this one only without regard to case.
    pub(super) fn takes_by_case(&self, asked: &str) -> bool {
        self.takes(asked, PathCase::Ignored) && !self.takes(asked, PathCase::Kept)
    }

    /// Returns the precedence of the path; `at` is the place of the route in the file.
    pub(super) fn rank(&self, at: usize) -> PathPlace {
        match &self.kind {
            PathKind::Exact => (2, 0),
            PathKind::Expression { .. } => (1, usize::MAX - at),
            PathKind::Prefix => (0, self.sample.len()),
        }
    }

    /// Returns true if an expression has a class of capital letters alone: whoever writes `[A-Z]` tells them from others.
    pub(super) fn names_capitals(&self) -> bool {
        match &self.kind {
            PathKind::Expression { names_capitals, .. } => *names_capitals,
            PathKind::Exact | PathKind::Prefix => false,
        }
    }

    /// Returns its sample in other letters.
    pub(super) fn in_other_letters(&self) -> [String; 3] {
        let swapped = |c: char| match c.is_ascii_lowercase() {
            true => c.to_ascii_uppercase(),
            false => c.to_ascii_lowercase(),
        };
        [
            self.sample.to_ascii_lowercase(),
            self.sample.to_ascii_uppercase(),
            self.sample.chars().map(swapped).collect(),
        ]
    }

    /// Returns the sample of a longer path behind the letters of this one; `None` where that one does not begin so.
    pub(super) fn begin(&self, longer: &Self) -> Option<String> {
        let begin = longer.sample.get(..self.sample.len())?;
        let rest = &longer.sample[self.sample.len()..];
        (begin.eq_ignore_ascii_case(&self.sample)).then(|| format!("{}{rest}", self.sample))
    }
}

fn has_class_of_capitals(expression: &str) -> bool {
    let mut characters = expression.chars();
    let mut class: Option<String> = None;
    while let Some(c) = characters.next() {
        match (c, &mut class) {
            ('\\', _) => {
                characters.next();
            }
            ('[', None) => class = Some(String::new()),
            (']', Some(text)) => {
                let is_named = text.ends_with(":upper:") || text.ends_with(":upper:]");
                let has = |is: fn(&char) -> bool| text.chars().any(|c| is(&c));
                let is_capital = has(char::is_ascii_uppercase) && !has(char::is_ascii_lowercase);
                if is_named || is_capital {
                    return true;
                }
                class = None;
            }
            (c, Some(text)) => text.push(c),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: classes of capital letters are found. Method: classes with and without other letters, and brackets that begin none.
    #[test]
    fn classes_of_capitals_are_found() {
        for expression in ["^.*[A-Z].*$", "^/[A-F0-9]+$", "^/[[:upper:]]$", r"^/\[[X]$"] {
            assert!(has_class_of_capitals(expression), "{expression}");
        }
        for expression in ["^/[A-Za-z]+$", "^/[a-z]+$", r"^/\[A\]$", "^/API/$"] {
            assert!(!has_class_of_capitals(expression), "{expression}");
        }
    }
}
