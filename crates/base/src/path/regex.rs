//! Defines regular expressions over a whole path, for paths that patterns cannot express.
//!
//! Expressions see the normal form of [`super`], which is ASCII, whole and nothing else: anchors are required, so that `/otp`
//! cannot be mistaken for "contains". A slash at the end is optional, because most origins serve `/a/` as `/a`, and a limit must
//! hold for both.
//!
//! # Limits
//!
//! One expression compiles to [`PATH_REGEX_BYTES`](crate::bounds::PATH_REGEX_BYTES) at most, or is rejected. Matching never
//! backtracks; its worst case is path × states, and paths are at most [`PATH_REGEX_PATH`](crate::bounds::PATH_REGEX_PATH) long.

use std::sync::Arc;

use regex::bytes::{RegexSet, RegexSetBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::path_case::PathCase;
use crate::bounds;

/// A regular expression over a whole path, which has been compiled once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathRegex {
    text: Arc<str>,
    case: PathCase,
}

/// The reason for which a text is no expression over a path. The operator is to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegexError {
    /// It is not ASCII, which every path in normal form is.
    NotAscii,
    /// It is no regular expression; contains the parser's message.
    Syntax(String),
    /// Some alternative has no `^` at its beginning.
    NoBeginning,
    /// Some alternative has no `$` at its end.
    NoEnd,
    /// Nothing that it matches begins with a slash.
    NoSlash,
    /// It takes more memory than one may.
    TooLarge,
}

impl PathRegex {
    /// Checks an expression such as `^/v[0-9]+/otp$`.
    ///
    /// # Errors
    ///
    /// [`RegexError`] when it does not compile, or would hardly match what was meant.
    pub fn new(text: &str) -> Result<Self, RegexError> {
        if !text.is_ascii() {
            return Err(RegexError::NotAscii);
        }
        let hir = parse(text)?;
        let looks = hir.properties();
        if !looks.look_set_prefix().contains(Look::Start) {
            return Err(RegexError::NoBeginning);
        }
        if !looks.look_set_suffix().contains(Look::End) {
            return Err(RegexError::NoEnd);
        }
        if let Some(beginnings) = Extractor::new().extract(&hir).literals()
            && beginnings
                .iter()
                .all(|literal| !literal.as_bytes().is_empty() && literal.as_bytes()[0] != b'/')
        {
            return Err(RegexError::NoSlash);
        }
        match compile([text], bounds::PATH_REGEX_BYTES) {
            Ok(_) => Ok(Self {
                text: text.into(),
                case: PathCase::Kept,
            }),
            Err(_) => Err(RegexError::TooLarge),
        }
    }

    /// Returns the same expression, with or without regard to case.
    #[must_use]
    pub fn with_case(self, case: PathCase) -> Self {
        Self { case, ..self }
    }

    /// Returns the text for the regular expression engine.
    pub fn pattern(&self) -> String {
        match self.case {
            PathCase::Ignored => format!("(?i){}", self.text),
            PathCase::Kept => self.text.to_string(),
        }
    }

    /// Returns a path that it matches; `None` where none is easily made.
    #[must_use]
    pub fn sample(&self) -> Option<String> {
        let mut path = Vec::new();
        write_sample(&parse(&self.text).ok()?, &mut path)?;
        String::from_utf8(path).ok()
    }

    /// Returns the prefix, in lower case, of all paths that it matches, if it matches every path with this prefix: for
    /// `^/api/.*$` that is `/api/`. `None` where there is none, or none is easily seen.
    pub fn takes_all_behind(&self) -> Option<String> {
        let hir = parse(&self.text).ok()?;
        let HirKind::Concat(parts) = hir.kind() else {
            return None;
        };
        let literal = match &parts[..] {
            [begin, text, rest, end] if is_look(begin, Look::Start) && is_look(end, Look::End) => {
                is_anything(rest).then_some(text)?
            }
            _ => return None,
        };
        let HirKind::Literal(literal) = literal.kind() else {
            return None;
        };
        let text = str::from_utf8(&literal.0).ok()?;
        let folded = text.to_ascii_lowercase();
        // Without regard to case it matches prefixes in other case too.
        (self.case == PathCase::Ignored || folded == *text && !has_letters(text)).then_some(folded)
    }

    /// Returns the expression as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

fn parse(text: &str) -> Result<Hir, RegexError> {
    ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .nest_limit(64)
        .build()
        .parse(text)
        .map_err(|error| {
            RegexError::Syntax(match &error {
                regex_syntax::Error::Parse(error) => error.kind().to_string(),
                regex_syntax::Error::Translate(error) => error.kind().to_string(),
                other => other.to_string(),
            })
        })
}

fn has_letters(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn is_look(hir: &Hir, look: Look) -> bool {
    *hir.kind() == HirKind::Look(look)
}

/// Returns whether it matches any text that a path in normal form may have, the empty one too.
fn is_anything(hir: &Hir) -> bool {
    let HirKind::Repetition(repeated) = hir.kind() else {
        return false;
    };
    let HirKind::Class(Class::Bytes(class)) = repeated.sub.kind() else {
        return false;
    };
    let mut ranges = class.ranges().iter();
    (repeated.min, repeated.max) == (0, None)
        && ranges.any(|range| range.start() <= b'!' && range.end() >= b'~')
}

/// Appends the shortest text that `hir` matches.
fn write_sample(hir: &Hir, path: &mut Vec<u8>) -> Option<()> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => path.extend(&literal.0),
        HirKind::Class(class) => path.push(one_of(class)?),
        HirKind::Repetition(repeated) => {
            for _ in 0..repeated.min {
                write_sample(&repeated.sub, path)?;
            }
        }
        HirKind::Capture(capture) => write_sample(&capture.sub, path)?,
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| write_sample(part, path))?,
        HirKind::Alternation(ways) => write_sample(ways.first()?, path)?,
    }
    (path.len() <= bounds::PATH_REGEX_PATH).then_some(())
}

/// Returns a letter or digit of a class, if it has one.
fn one_of(class: &Class) -> Option<u8> {
    let has = |byte: &u8| match class {
        Class::Bytes(class) => class
            .ranges()
            .iter()
            .any(|range| (range.start()..=range.end()).contains(byte)),
        Class::Unicode(class) => {
            let letter = char::from(*byte);
            class
                .ranges()
                .iter()
                .any(|range| (range.start()..=range.end()).contains(&letter))
        }
    };
    (b'a'..=b'z')
        .chain(b'A'..=b'Z')
        .chain(b'0'..=b'9')
        .chain(b'!'..=b'~')
        .find(has)
}

/// Compiles expressions into one automaton over bytes, of at most `most_bytes`.
///
/// # Errors
/// An expression is invalid, or the automaton is larger.
pub fn compile(
    texts: impl IntoIterator<Item = impl AsRef<str>>,
    most_bytes: usize,
) -> Result<RegexSet, regex::Error> {
    RegexSetBuilder::new(texts)
        .unicode(false)
        .nest_limit(64)
        .size_limit(most_bytes)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an expression covers the whole path, or is rejected with the reason. Method: one text of each kind.
    #[test]
    fn an_expression_says_where_it_begins_and_ends() {
        for right in [
            "^/v[0-9]+/otp$",
            "^/a$|^/b$",
            "^(/a|/b)/.*$",
            "(?i)^/login$",
            r"^/\d{1,9}$",
        ] {
            assert!(PathRegex::new(right).is_ok(), "{right}");
        }
        for (wrong, error) in [
            ("/otp$", RegexError::NoBeginning),
            ("^/otp", RegexError::NoEnd),
            ("^/a$|/b$", RegexError::NoBeginning),
            ("^/a|^/b$", RegexError::NoEnd),
            ("^v[0-9]+$", RegexError::NoSlash),
            ("^/caf\u{e9}$", RegexError::NotAscii),
            ("^(/[a-z]{1000}){1000}$", RegexError::TooLarge),
        ] {
            assert_eq!(PathRegex::new(wrong), Err(error), "{wrong}");
        }
        for wrong in ["^/($", "^/[z-a]$", "^/(?=a)$", "^/*+?{$"] {
            let error = PathRegex::new(wrong).unwrap_err();
            assert!(matches!(error, RegexError::Syntax(_)), "{wrong}: {error:?}");
        }
    }
}
