//! Owns the normal form of a path: what routes are matched by, so that a limit cannot be walked around by spelling.
//!
//! | as sent | in normal form | because |
//! |---|---|---|
//! | `%61`, `%2D`, `%40` | `a`, `-`, `@` | RFC 3986 §6.2.2.2; sub-delimiters, `:` and `@` too, since origins decode them alike |
//! | `%c3`, `é`, `{` | `%C3`, `%C3%A9`, `%7B` | what a path must not hold plainly is escaped, in upper case |
//! | `//` | `/` | nginx and most frameworks merge slashes |
//! | `/./`, `/x/../`, `/%2e%2E/` | resolved, never above the root | RFC 3986 §5.2.4 |
//! | `/a;v=1/b` | `/a/b` | servlet containers cut parameters, before they resolve dots |
//! | `%2F`, `%5C`, `\` | `%2F`, `%5C`, `%5C` | not a separator here, see below |
//! | `%zz`, `%`, `%00`, `%0a` | an error | no origin needs them; answer 400 |
//! | `%C0%AF`, `%E0%80%AE` | an error | an overlong form of ASCII, RFC 3629 §10, which old decoders take for `/` and `.` |
//!
//! Case is kept: `/a` and `/A` are two paths. A trailing slash is kept as well; patterns decide about it.
//!
//! The origin gets the path as it was sent (decision 0018 says why), so matching must be at least as wide as the reading of common
//! origins. Three spellings are read in opposite ways by common origins, and no single form is as wide as both:
//!
//! * `%2F`, `%5C` and `\` separate segments for nginx, Go, WSGI or IIS, and do not for Express, Rails or servlets;
//! * `%2561` is `%61` for who decodes once, and `a` behind a second server that decodes again what a first one had decoded;
//! * `/a/../b` is `/b` for nginx and servlets, but Express and WSGI hand it to whatever is mounted at `/a`.
//!
//! For such a path [`NormalPath`] holds the other readings too, and [`Routes::find`](super::Routes::find) refuses it when
//! they would be treated differently. Browsers resolve dots before they send, and a slash in a name is rare; who needs
//! one gives both readings the same limits and origin, for example by a pattern that ends in `*`.
//!
//! What remains outside: an origin that ignores case (Express by default, IIS), that cuts off dots and spaces at the end of a name
//! (Windows), that takes `/a.json` for `/a` (Rails), that cuts parameters
//! behind a server that has decoded `%3B`, or that rewrites paths on its own. Write a limit for such an origin on `/prefix/*`
//! or on `/*`.
//!
//! # Invariants
//!
//! 1. A normal form is its own normal form.
//! 2. A path in normal form without `%2F`, `%5C` and `%25` before two digits is borrowed: one pass over its bytes, no allocation.
//!
//! # Limits
//!
//! A path can be decoded `DECODINGS` times more than once; one that is still escaped then is an error.

use std::borrow::Cow;
use std::fmt;

/// A request's path in normal form, with its other readings where there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalPath<'a> {
    text: Cow<'a, str>,
    others: Option<Box<Readings>>,
}

/// The readings of an ambiguous path beside its normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Readings {
    /// Encoded slashes and backslashes separate.
    split: Option<String>,
    /// `..` is a segment like any other.
    climbing: Option<String>,
    /// Both.
    split_climbing: Option<String>,
    /// Escapes are decoded once more, with all that then can be read.
    decoded: Option<NormalPath<'static>>,
}

/// How often an origin may decode a path beside the first time: a proxy before it, and one more.
const DECODINGS: usize = 2;

/// Why a path has no normal form. The client is to blame: answer 400.
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
    /// Escapes are escaped over and over.
    Nested,
}

/// Why a text cannot be a segment of a pattern. The operator is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiteralError {
    /// It has no normal form.
    Path(PathError),
    /// It is empty, dots, cut by `;`, `?` or `#`, or holds a slash or backslash, so no request's segment equals it.
    NotOneSegment,
}

impl<'a> NormalPath<'a> {
    /// Brings a path into normal form. What follows a `?` or `#` is not part of it.
    ///
    /// # Errors
    ///
    /// [`PathError`] where the path is not absolute, an escape is broken, or a control character occurs.
    pub fn parse(path: &'a str) -> Result<Self, PathError> {
        let path = match memchr::memchr2(b'?', b'#', path.as_bytes()) {
            Some(mark) => &path[..mark],
            None => path,
        };
        if !path.starts_with('/') {
            return Err(PathError::NotAbsolute);
        }
        if is_plainly_normal(path.as_bytes()) {
            return Ok(Self {
                text: Cow::Borrowed(path),
                others: None,
            });
        }
        Self::parse_slowly(path, DECODINGS)
    }

    #[cold]
    fn parse_slowly(path: &'a str, decodings: usize) -> Result<Self, PathError> {
        let normal = spell(path, Separators::Slash, Climbs::Resolved)?;
        if is_overlong(&normal.text) {
            return Err(PathError::Overlong);
        }
        let mut others = Readings {
            split: None,
            climbing: None,
            split_climbing: None,
            decoded: None,
        };
        if let Some(decoded) = decode_again(&normal.text) {
            let fewer = decodings.checked_sub(1).ok_or(PathError::Nested)?;
            others.decoded = Some(NormalPath::parse_slowly(&decoded, fewer)?.into_owned());
        }
        if normal.climbed {
            others.climbing = Some(spell(path, Separators::Slash, Climbs::Kept)?.text);
        }
        if normal.hidden {
            let split = spell(path, Separators::SlashAndHidden, Climbs::Resolved)?;
            if split.climbed {
                let both = spell(path, Separators::SlashAndHidden, Climbs::Kept)?;
                others.split_climbing = Some(both.text);
            }
            others.split = Some(split.text);
        }
        let text = if normal.text == path {
            Cow::Borrowed(path)
        } else {
            Cow::Owned(normal.text)
        };
        let ambiguous = normal.hidden || normal.climbed || others.decoded.is_some();
        let others = ambiguous.then(|| Box::new(others));
        Ok(Self { text, others })
    }

    fn into_owned(self) -> NormalPath<'static> {
        NormalPath {
            text: Cow::Owned(self.text.into_owned()),
            others: self.others,
        }
    }

    /// The normal form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What a limit by `path` counts: the normal form without trailing slash, encoded slashes taken as slashes and escaped escapes as
    /// escapes, so that all spellings of one resource share a counter.
    #[must_use]
    pub fn key(&self) -> &str {
        let others = self.others.as_deref();
        if let Some(decoded) = others.and_then(|others| others.decoded.as_ref()) {
            return decoded.key();
        }
        let text = others
            .and_then(|others| others.split.as_deref())
            .unwrap_or(&self.text);
        match text.strip_suffix('/') {
            Some("") | None => text,
            Some(shorter) => shorter,
        }
    }

    #[cfg(test)]
    pub(super) fn is_borrowed(&self) -> bool {
        matches!(self.text, Cow::Borrowed(_))
    }

    /// Whether origins read it in more than one way.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        self.others.is_some()
    }

    /// How else an origin may read it; empty for all but odd paths.
    pub(super) fn other_readings(&self) -> impl Iterator<Item = &str> {
        let mut path = Some(self);
        // As many rounds as a path can be decoded.
        let decoded = std::iter::from_fn(move || {
            path = path?.others.as_ref()?.decoded.as_ref();
            path
        });
        let first = self.readings_beside();
        first.chain(
            decoded.flat_map(|path| [path.as_str()].into_iter().chain(path.readings_beside())),
        )
    }

    /// Those of the text as it is.
    fn readings_beside(&self) -> impl Iterator<Item = &str> {
        let readings = self
            .others
            .iter()
            .flat_map(|others| [&others.split, &others.climbing, &others.split_climbing]);
        readings.flatten().map(String::as_str)
    }
}

/// The normal form of one segment of a pattern.
///
/// # Errors
///
/// [`LiteralError`] where no request's segment can equal it.
pub fn literal(segment: &str) -> Result<String, LiteralError> {
    if segment.contains(['/', '\\', ';', '?', '#']) {
        return Err(LiteralError::NotOneSegment);
    }
    let normal = spell(&format!("/{segment}"), Separators::Slash, Climbs::Resolved)
        .map_err(LiteralError::Path)?;
    match normal.text.strip_prefix('/') {
        Some(text) if !text.is_empty() && !normal.hidden => Ok(text.to_owned()),
        _ => Err(LiteralError::NotOneSegment),
    }
}

/// What ends a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Separators {
    Slash,
    SlashAndHidden,
}

/// What `..` does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Climbs {
    Resolved,
    Kept,
}

/// One reading of a path.
struct Spelled {
    text: String,
    /// A slash or backslash in it is not taken as a separator by everybody.
    hidden: bool,
    /// A `..` removed a segment.
    climbed: bool,
}

/// One character of a path.
enum Piece {
    Slash,
    /// An encoded slash or any backslash.
    HiddenSlash(u8),
    /// The `;` before a segment's parameters.
    Parameters,
    Plain(u8),
    Escaped(u8),
}

fn spell(path: &str, separators: Separators, climbs: Climbs) -> Result<Spelled, PathError> {
    let bytes = path.as_bytes();
    let mut spelled = Spelled {
        text: String::with_capacity(bytes.len() + 16),
        hidden: false,
        climbed: false,
    };
    let mut at = 1;
    loop {
        let start = spelled.text.len();
        spelled.text.push('/');
        let mut last = true;
        let mut in_parameters = false;
        while at < bytes.len() {
            let (piece, width) = piece_at(bytes, at)?;
            at += width;
            match piece {
                Piece::Slash => {
                    last = false;
                    break;
                }
                Piece::HiddenSlash(byte) => {
                    spelled.hidden = true;
                    if separators == Separators::SlashAndHidden {
                        last = false;
                        break;
                    }
                    if !in_parameters {
                        push_escape(&mut spelled.text, byte);
                    }
                }
                Piece::Parameters => in_parameters = true,
                Piece::Plain(_) | Piece::Escaped(_) if in_parameters => {}
                Piece::Plain(byte) => spelled.text.push(char::from(byte)),
                Piece::Escaped(byte) => push_escape(&mut spelled.text, byte),
            }
        }
        let vanished = spelled.end_segment(start, climbs);
        if last {
            if vanished {
                spelled.text.push('/');
            }
            return Ok(spelled);
        }
    }
}

impl Spelled {
    /// Resolves the segment that begins at `start` if it is empty or dots; says whether nothing is left of it.
    fn end_segment(&mut self, start: usize, climbs: Climbs) -> bool {
        match &self.text[start + 1..] {
            "" | "." => self.text.truncate(start),
            // Above the root there is nothing to climb from, in either reading.
            ".." if climbs == Climbs::Resolved || start == 0 => {
                self.text.truncate(start);
                if let Some(parent) = self.text.rfind('/') {
                    self.text.truncate(parent);
                    self.climbed = true;
                }
            }
            _ => return false,
        }
        true
    }
}

/// Reads one character and how many bytes spell it.
fn piece_at(bytes: &[u8], at: usize) -> Result<(Piece, usize), PathError> {
    let first = bytes[at];
    let (byte, width) = match first {
        b'/' => return Ok((Piece::Slash, 1)),
        b';' => return Ok((Piece::Parameters, 1)),
        b'%' => (
            unescape(&bytes[at + 1..]).ok_or(PathError::Escape { at })?,
            3,
        ),
        _ => (first, 1),
    };
    let piece = match byte {
        0..=0x1f | 0x7f => return Err(PathError::Control { at, byte }),
        b'/' | b'\\' => Piece::HiddenSlash(byte),
        _ if is_plain(byte) => Piece::Plain(byte),
        _ => Piece::Escaped(byte),
    };
    Ok((piece, width))
}

fn unescape(digits: &[u8]) -> Option<u8> {
    let &[high, low, ..] = digits else {
        return None;
    };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// A path in normal form after another decoding: `%2561` becomes `%61`. `None` where nothing is escaped twice.
fn decode_again(text: &str) -> Option<String> {
    if !text.contains("%25") {
        return None;
    }
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("%25") {
        let (before, escape) = rest.split_at(at);
        let behind = &escape[3..];
        decoded.push_str(before);
        decoded.push_str(if unescape(behind.as_bytes()).is_some() {
            "%"
        } else {
            "%25"
        });
        rest = behind;
    }
    decoded.push_str(rest);
    (decoded.len() < text.len()).then_some(decoded)
}

/// Whether a path in normal form holds an ASCII character in two to four bytes, RFC 3629 §3. Bytes of an older encoding, as `%C0` for
/// À, do not follow each other so.
fn is_overlong(text: &str) -> bool {
    let bytes = text.as_bytes();
    let escape = |at: usize| match bytes.get(at) {
        Some(b'%') => unescape(bytes.get(at + 1..)?),
        _ => None,
    };
    let continues = |at| escape(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    memchr::memchr_iter(b'%', bytes).any(|at| match escape(at) {
        Some(0xc0 | 0xc1) => continues(at + 3),
        Some(0xe0) => matches!(escape(at + 3), Some(0x80 | 0x81)) && continues(at + 6),
        Some(0xf0) => {
            escape(at + 3) == Some(0x80)
                && matches!(escape(at + 6), Some(0x80 | 0x81))
                && continues(at + 9)
        }
        _ => false,
    })
}

fn push_escape(text: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.push('%');
    text.push(char::from(DIGITS[usize::from(byte >> 4)]));
    text.push(char::from(DIGITS[usize::from(byte & 15)]));
}

/// Whether a path is in normal form and has no other reading; may be wrong only by saying no.
fn is_plainly_normal(path: &[u8]) -> bool {
    let mut at = 0;
    let mut in_segment = true;
    while let Some(&byte) = path.get(at) {
        match byte {
            b'/' => {
                if !in_segment {
                    return false;
                }
                in_segment = false;
                at += 1;
                continue;
            }
            b'.' if !in_segment
                && matches!(path[at + 1..], [] | [b'/', ..] | [b'.'] | [b'.', b'/', ..]) =>
            {
                return false;
            }
            b'%' => match unescape(&path[at + 1..]) {
                Some(escaped)
                    if path[at + 1..at + 3].iter().any(u8::is_ascii_lowercase)
                        || !stays_escaped(escaped)
                        || may_mean_more(escaped, &path[at + 3..]) =>
                {
                    return false;
                }
                Some(_) => at += 2,
                None => return false,
            },
            _ if !is_plain(byte) => return false,
            _ => {}
        }
        in_segment = true;
        at += 1;
    }
    true
}

/// Whether an escape may be half of another, or begin an overlong form.
fn may_mean_more(escaped: u8, behind: &[u8]) -> bool {
    match escaped {
        b'%' => unescape(behind).is_some(),
        0xc0 | 0xc1 | 0xe0 | 0xf0 => true,
        _ => false,
    }
}

/// Whether the normal form escapes this byte, and nobody takes it for a separator.
fn stays_escaped(byte: u8) -> bool {
    !is_plain(byte) && !byte.is_ascii_control() && !matches!(byte, b'/' | b'\\')
}

/// RFC 3986 §3.3: what a segment may hold plainly, but for the `;` that begins parameters.
fn is_plain(byte: u8) -> bool {
    const PLAIN: [bool; 256] = {
        let mut plain = [false; 256];
        let mut byte = 0;
        while byte < 128 {
            plain[byte] = (byte as u8).is_ascii_alphanumeric();
            byte += 1;
        }
        let others = b"-._~!$&'()*+,=:@";
        let mut at = 0;
        while at < others.len() {
            plain[others[at] as usize] = true;
            at += 1;
        }
        plain
    };
    PLAIN[usize::from(byte)]
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
