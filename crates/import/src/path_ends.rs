//! Tells expressions apart that no path fits together, by the texts that their paths begin and end with.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::{ExtractKind, Extractor};

use crate::paths;

/// The texts with which the paths of a route begin and end, in lower case and without a slash at the end, which the gateway ignores; `None`
/// where they are not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathEnds {
    begins: Option<Vec<Vec<u8>>>,
    ends: Option<Vec<Vec<u8>>>,
}

impl PathEnds {
    /// Reads the path of a route.
    pub(crate) fn new(path: &str) -> Self {
        let expression = paths::expression(path).unwrap_or_default();
        let mut parser = ParserBuilder::new();
        let Ok(parsed) = parser.utf8(false).unicode(false).build().parse(expression) else {
            return Self::default();
        };
        let texts = |kind: ExtractKind| {
            let found = Extractor::new().kind(kind).extract(&parsed);
            let texts = found.literals()?.iter();
            Some(texts.map(|it| it.as_bytes().to_ascii_lowercase()).collect())
        };
        let without_slash = |mut text: Vec<u8>| {
            text.pop_if(|last| *last == b'/');
            text
        };
        let ends: Option<Vec<Vec<u8>>> = texts(ExtractKind::Suffix);
        Self {
            begins: texts(ExtractKind::Prefix),
            ends: ends.map(|all| all.into_iter().map(without_slash).collect()),
        }
    }

    /// Returns false if no path has the ends of both.
    pub(crate) fn may_meet(&self, other: &Self) -> bool {
        may_meet(&self.begins, &other.begins, |text, end| {
            text.starts_with(end)
        }) && may_meet(&self.ends, &other.ends, |text, end| text.ends_with(end))
    }
}

fn may_meet(
    one: &Option<Vec<Vec<u8>>>,
    other: &Option<Vec<Vec<u8>>>,
    has: fn(&[u8], &[u8]) -> bool,
) -> bool {
    let (Some(one), Some(other)) = (one, other) else {
        return true;
    };
    let meets = |it: &Vec<u8>| other.iter().any(|end| has(it, end) || has(end, it));
    one.iter().any(meets)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: expressions are compared only where a path may fit both. Method: beginnings and endings, alternatives, other letters, and
    /// unknown ones.
    #[test]
    fn expressions_that_share_no_path_are_known() {
        let may_meet = |one: &str, other: &str| PathEnds::new(one).may_meet(&PathEnds::new(other));
        for (one, other) in [
            ("~ ^/api(.*)$", "~ ^/api/login(.*)$"),
            ("~ (?i)^/API(.*)$", "~ ^/api/x$"),
            (r"~ ^.*\.php$", "~ ^/api(.*)$"),
            (r"~ ^.*\.(php|js)$", r"~ ^.*\.js$"),
            (r"~ ^.*\d$", "~ ^.*1$"),
            ("~ ^/a/[0-9]+/b/$", "~ ^/.*b$"),
            ("~ ^.*?(?:^/a$|/b).*$", "~ ^/c$"),
        ] {
            assert!(may_meet(one, other) && may_meet(other, one), "{one}");
        }
        for (one, other) in [
            ("~ ^/api(.*)$", "~ ^/app(.*)$"),
            (r"~ ^.*\.php$", r"~ ^.*\.html$"),
            ("~ ^(?:/api/.*/x|/api/x)$", "~ ^/admin.*x$"),
            (r"~ ^.*\.(php|js)$", "~ (?i)^.*JPG$"),
        ] {
            assert!(!may_meet(one, other), "{one}");
        }
    }
}
