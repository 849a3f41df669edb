//! Owns the normal form of a path, by which routes match, so that no other spelling of a path bypasses a limit.
//!
//! | as sent | in normal form | because |
//! |---|---|---|
//! | `%61`, `%2D`, `%40` | `a`, `-`, `@` | RFC 3986 §6.2.2.2; sub-delimiters, `:` and `@` too, since origins decode them alike |
//! | `%c3`, `é`, `{` | `%C3`, `%C3%A9`, `%7B` | bytes that a path must not contain plainly are escaped, in upper case |
//! | `//` | `/` | nginx and most frameworks merge slashes |
//! | `/./`, `/x/../`, `/%2e%2E/` | resolved, never above the root | RFC 3986 §5.2.4 |
//! | `/a;v=1/b` | `/a/b` | servlet containers cut parameters, before they resolve dots |
//! | `%2F`, `%5C`, `\` | `%2F`, `%5C`, `%5C` | not a separator here, see below |
//! | `%zz`, `%`, `%00`, `%0a` | an error | no origin needs them; answer 400 |
//! | `%C0%AF`, `%E0%80%AE` | an error | an overlong form of ASCII, RFC 3629 §10, which old decoders take for `/` and `.` |
//!
//! Case is kept; routes that ignore it compare without. A trailing slash is kept as well; patterns decide about it.
//!
//! The origin gets the path as it was sent (decision 0018 has the reasons), so matching must be at least as wide as the reading
//! of common origins. Common origins read many spellings differently, and no single form is as wide as all of them:
//!
//! | as sent | is also | for |
//! |---|---|---|
//! | `/a%2Fb`, `/a%5Cb`, `/a\b` | `/a/b` | nginx, Go, WSGI; IIS; Node's `URL`. Not for Express, Rails, servlets |
//! | `/%2561` | `/a` | origins after a server that decoded once |
//! | `/a/../b` | `/a/../b` | Express and WSGI, which pass it to the application that is mounted at `/a` |
//! | `/a/%2e/../b` | `/a/b` | HAProxy, `path.Clean` of Go, `path.normalize` of Node, which remove plain dots and decode nothing (`dots`) |
//! | `/a//../b`, `/a/..;x/../b` | `/a/b` | Node's `URL`, nginx, and others that resolve dots and do not cut parameters |
//! | `//x/b`, `/\x/b`, `///x/b` | `/b` | Node, PHP, CherryPy and others, which parse a URL reference (`authority`) |
//! | `/a;x/b` | `/a` | Fastify, which ends a path at its first `;` |
//! | `/a%2Fb;x%2Fy` | `/a/b` | servlet containers that allow `%2F`: they cut parameters first, then decode |
//! | `/a/../b` | `/a/b` | CodeIgniter 3, which drops `..` alone |
//! | `/index.php/b`, `/?/b` | `/b` | front controllers (`script`) |
//! | `/index.phpa/b` | `/a/b` | Symfony, Laravel, Slim, CodeIgniter 3, Yii, which cut the script's name off the beginning (`script`) |
//! | `/a%3Fx`, `/a%23x`, `/x&r=a` | `/a` | applications behind a server that made another URL of the decoded path (`rewritten`) |
//! | `/a/index.php/b`, `/a/?/b` | `/a/b`, `/b` | front controllers below `/a` |
//! | `/a.php/x` | `/a.php` | PHP and CGI, which pass on the part after the script |
//! | `/(S(x))/b` | `/b` | ASP.NET |
//! | `/ſ` | `/s` | Python, Ruby, Go and PHP, where they ignore case (`case`) |
//! | `/a.`, `/a%20`, `/%20a`, `/a%3Bx` | `/a` | Windows; CodeIgniter; servlet containers behind a server that decoded once (`endings`) |
//! | `/a%FF`, `/caf%E9` | `/a`, `/caf` | Bottle, which drops what is no UTF-8 (`undecodable`) |
//!
//! For such a path [`NormalPath`] holds the other readings too (`readings`), and the route table rejects it when one of them leads to
//! a route with limits that the route of the normal form lacks, or with another treatment of the request. Browsers resolve dots before
//! they send, and a slash in a name is rare; an operator who needs one gives both readings the same limits and origin, for example
//! by a pattern that ends in `*`.
//!
//! Rails takes `/a.json` for `/a`. Most origins do not, and a page has such a name: `endings` says when the route table rejects it.
//!
//! Not covered: an origin that takes a safe request for `/a.json` as one for `/a` (Rails), that finds its route in a parameter of the
//! query (`?r=a/b`), or that rewrites paths on its own. For a limit by `path` or by a part of it, `/a.json` has a counter of its own, and
//! `/a/index.php/b` is `/b`, whatever the folder is, and so has a second counter beside `/a/b`. Write a limit for such an origin on
//! `/prefix/*` or on `/*`.
//!
//! # Invariants
//!
//! 1. A normal form is its own normal form.
//! 2. A path in normal form that has no other reading is borrowed: one pass over its bytes, no allocation.
//!
//! # Limits
//!
//! `readings` bounds the cost of an artificial path; one with more readings than that, or that is still escaped after three
//! decodings, is an error.

mod authority;
mod case;
mod characters;
mod dots;
mod endings;
mod groups;
mod path_case;
mod readings;
mod regex;
mod rewritten;
mod script;
mod spelling;
mod undecodable;

use std::borrow::Cow;
use std::fmt;
use std::iter;

pub use self::groups::PathGroups;
pub use self::path_case::PathCase;
use self::readings::PathReadings;
pub use self::regex::compile as compile_regexes;
pub use self::regex::{PathRegex, RegexError};
pub use self::script::{ENDINGS as SCRIPT_ENDINGS, FRONT_CONTROLLERS};
pub use self::spelling::is_plain;
use self::spelling::{PathDialect, is_overlong, is_plainly_normal, spell};

/// A request's path in normal form, with its other readings where there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalPath<'a> {
    text: Cow<'a, str>,
    others: Option<Box<PathReadings>>,
}

/// The reason for which a path has no normal form. The client is to blame: answer 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// It does not begin with a slash.
    NotAbsolute,
    /// The `%` at this byte is not followed by two hexadecimal digits.
    Escape {
        /// Offset in bytes.
        at: usize,
    },
    /// The byte here is a control character, plain or escaped.
    Control {
        /// Offset in bytes.
        at: usize,
        /// The character.
        byte: u8,
    },
    /// An ASCII character is encoded in more bytes than it takes.
    Overlong,
    /// Escapes are nested too deeply.
    Nested,
    /// Origins may read it in more ways than the bound allows.
    Manifold,
}

/// The reason for which a text cannot be a segment of a pattern. The operator is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralError {
    /// It has no normal form.
    Path(PathError),
    /// It is empty, dots, cut by `;`, `?` or `#`, or contains a slash or backslash, so no request's segment equals it.
    NotOneSegment,
}

impl<'a> NormalPath<'a> {
    /// Brings the path of a request's target into normal form. The part after a `?` or `#` is not part of it.
    ///
    /// # Errors
    ///
    /// [`PathError`] where the path is not absolute, an escape is malformed, a control character occurs, or it has too many
    /// readings.
    pub fn parse(target: &'a str) -> Result<Self, PathError> {
        let end = memchr::memchr2(b'?', b'#', target.as_bytes()).unwrap_or(target.len());
        let (path, behind) = target.split_at(end);
        if !path.starts_with('/') {
            return Err(PathError::NotAbsolute);
        }
        let is_in_query = behind.starts_with("?/");
        if is_plainly_normal(path.as_bytes()) && !is_in_query {
            return Ok(Self {
                text: Cow::Borrowed(path),
                others: None,
            });
        }
        Self::parse_slowly(path, behind.strip_prefix('?').unwrap_or_default())
    }

    #[cold]
    fn parse_slowly(path: &'a str, query: &str) -> Result<Self, PathError> {
        let normal = spell(path, PathDialect::NORMAL)?.text;
        if is_overlong(&normal) {
            return Err(PathError::Overlong);
        }
        let others = readings::collect(path, query, &normal)?.map(Box::new);
        let text = if normal == path {
            Cow::Borrowed(path)
        } else {
            Cow::Owned(normal)
        };
        Ok(Self { text, others })
    }

    /// Returns the path and its key, for a request whose route is found. The other readings, which may be far larger, are left out.
    #[must_use]
    pub fn without_readings(&self) -> NormalPath<'static> {
        let others = self.others.as_deref().map(PathReadings::without_texts);
        NormalPath {
            text: Cow::Owned(self.text.clone().into_owned()),
            others: others.map(Box::new),
        }
    }

    /// Returns the normal form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the key of a limit by `path`: the normal form without trailing slash, encoded slashes treated as slashes, escaped
    /// escapes as escapes, and without cookieless segments, bytes that are no UTF-8, the part after an escaped `?` or `#`, the name of a
    /// front controller or the part after a script, so that all spellings of one resource share a counter.
    #[must_use]
    pub fn key(&self) -> &str {
        let others = self.others.as_deref();
        let text = others
            .and_then(|others| others.key.as_deref())
            .unwrap_or(&self.text);
        match text.strip_suffix('/') {
            Some("") | None => text,
            Some(shorter) => shorter,
        }
    }

    /// Returns whether origins separate, resolve or decode it in more than one way.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        self.others
            .as_ref()
            .is_some_and(|others| others.is_ambiguous)
    }

    /// Returns whether some origin reads another resource, which a client can write in any number of normal forms: a limit that
    /// counts by the path must not use it.
    #[must_use]
    pub fn is_disputed(&self) -> bool {
        self.others
            .as_ref()
            .is_some_and(|others| others.is_disputed)
    }

    /// Returns the other readings of the path; empty for all but odd paths.
    pub fn other_readings(&self) -> impl Iterator<Item = &str> {
        let others = self.others.iter().flat_map(|others| &others.texts);
        others.map(String::as_str)
    }

    /// Returns the readings by which an application may see the part after the name of a script, the script alone, other letters, or
    /// names without their endings or without bytes that are no UTF-8; all belong to the origin of the path.
    pub fn readings_of_scripts(&self) -> impl Iterator<Item = &str> {
        let others = self.others.iter().flat_map(|others| &others.of_scripts);
        others.map(String::as_str)
    }

    /// Returns whether it ends with the name of a front controller, and `folder` is what that serves: the root, or its own folder.
    #[must_use]
    pub fn is_index_of(&self, folder: &str) -> bool {
        script::is_index_of(self.as_str(), folder)
    }

    /// Returns each of its readings up to a format that the last name may have, as `/a` of `/a.json`; empty where there is no dot.
    pub fn without_formats(&self) -> impl Iterator<Item = &str> {
        let others = self.other_readings().chain(self.readings_of_scripts());
        let readings = iter::once(self.as_str()).chain(others);
        readings.flat_map(endings::formats)
    }
}

/// Returns whether two segments of paths in normal form are equal, but for letters that some origins equate with ASCII letters.
#[must_use]
pub fn are_alike(one: &str, other: &str) -> bool {
    let folded = |segment| case::folded(segment).map_or(Cow::Borrowed(segment), Cow::Owned);
    one == other || folded(one) == folded(other)
}

/// Returns the normal form of one segment of a pattern.
///
/// # Errors
///
/// [`LiteralError`] where no request's segment can equal it.
pub fn literal(segment: &str) -> Result<String, LiteralError> {
    if segment.contains(['/', '\\', ';', '?', '#']) {
        return Err(LiteralError::NotOneSegment);
    }
    let normal = spell(&format!("/{segment}"), PathDialect::NORMAL).map_err(LiteralError::Path)?;
    match normal.text.strip_prefix('/') {
        Some(text) if !text.is_empty() && normal.hidden == 0 => Ok(text.to_owned()),
        _ => Err(LiteralError::NotOneSegment),
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAbsolute => f.write_str("the path does not begin with '/'"),
            Self::Escape { at } => {
                write!(
                    f,
                    "the '%' at byte {at} of the path is not followed by two hexadecimal digits"
                )
            }
            Self::Control { at, byte } => {
                write!(
                    f,
                    "byte {at} of the path is the control character 0x{byte:02x}"
                )
            }
            Self::Overlong => f.write_str("the path holds an overlong form of a character"),
            Self::Nested => f.write_str("the path holds escapes that are escaped over and over"),
            Self::Manifold => f.write_str("the path can be read in too many ways"),
        }
    }
}

impl std::error::Error for PathError {}

impl fmt::Display for LiteralError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(error) => error.fmt(f),
            Self::NotOneSegment => f.write_str(
                "the segment is empty, dots, or holds a slash, a backslash, ';', '?' or '#', so no request can match it",
            ),
        }
    }
}

impl std::error::Error for LiteralError {}
