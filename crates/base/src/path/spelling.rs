//! Writes one spelling of a path in the dialect of one kind of origin.
//!
//! A [`PathDialect`] defines the separators of segments, the effect of `..` and when parameters are cut; [`PathDialect::NORMAL`]
//! gives the normal form. The flags of [`SpelledPath`] report the undecided properties of a spelling, by which
//! [`super::readings`] selects the dialects that differ.

use super::characters::unescape;
use super::{PathError, case, endings, rewritten, script, undecodable};

/// The rules by which an origin reads a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct PathDialect {
    pub(super) separators: SegmentSeparators,
    pub(super) climbs: DotDotRule,
    pub(super) parameters: ParameterRule,
}

impl PathDialect {
    /// The dialect of the normal form.
    pub(super) const NORMAL: Self = Self {
        separators: 0,
        climbs: DotDotRule::Resolved,
        parameters: ParameterRule::CutFirst,
    };
}

/// Separators of segments beside the slash: a set of [`ENCODED_SLASH`], [`BACKSLASH`] and [`ENCODED_BACKSLASH`].
pub(super) type SegmentSeparators = u8;

/// `%2F` separates for nginx, WSGI and other servers that decode before they split.
pub(super) const ENCODED_SLASH: SegmentSeparators = 1;
/// `\` separates in the URLs of browsers and Node, WHATWG URL §4.4, and on Windows.
pub(super) const BACKSLASH: SegmentSeparators = 2;
/// `%5C` separates on Windows.
pub(super) const ENCODED_BACKSLASH: SegmentSeparators = 4;

/// The part that `..` removes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DotDotRule {
    /// The segment before it, after slashes were merged.
    Resolved,
    /// The segment before it, even if it is empty: RFC 3986 §5.2.4, WHATWG URL §4.4. Empty segments stay.
    OverEmpty,
    /// Nothing: it is a segment like any other.
    Kept,
    /// Itself alone: CodeIgniter 3 leaves such segments out.
    Dropped,
}

/// The time at which `;` and the rest of its segment are cut.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ParameterRule {
    /// Before dots are resolved, as servlet containers do.
    CutFirst,
    /// After dots are resolved, or never: `..;x` is a name.
    CutLast,
}

/// One reading of a path.
pub(super) struct SpelledPath {
    pub(super) text: String,
    /// Separators in it that only some origins use.
    pub(super) hidden: SegmentSeparators,
    /// True if a `..` removed a segment.
    pub(super) is_climbed: bool,
    /// True if two separators follow each other.
    pub(super) has_empty: bool,
    /// True if a segment has parameters.
    pub(super) has_parameters: bool,
    /// True if a segment is empty or dots before its parameters.
    pub(super) has_bare_parameters: bool,
}

/// One character of a path.
enum PathChar {
    Slash,
    /// An encoded slash or any backslash.
    HiddenSlash(u8, SegmentSeparators),
    /// The `;` before a segment's parameters.
    Parameters,
    Plain(u8),
    Escaped(u8),
}

/// Spells a path in a dialect.
pub(super) fn spell(path: &str, manner: PathDialect) -> Result<SpelledPath, PathError> {
    let bytes = path.as_bytes();
    let mut spelled = SpelledPath::new(bytes.len() + 16);
    let mut at = 1;
    loop {
        let start = spelled.text.len();
        spelled.text.push('/');
        let (behind, is_last) = spelled.read_segment(bytes, at, manner)?;
        at = behind;
        let vanished = spelled.end_segment(start, manner, is_last);
        if is_last {
            if vanished {
                spelled.text.push('/');
            }
            return Ok(spelled);
        }
    }
}

impl SpelledPath {
    fn new(capacity: usize) -> Self {
        Self {
            text: String::with_capacity(capacity),
            hidden: 0,
            is_climbed: false,
            has_empty: false,
            has_parameters: false,
            has_bare_parameters: false,
        }
    }

    /// Appends the segment that begins at `at`; returns the start of the next one, or that there is none.
    fn read_segment(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        manner: PathDialect,
    ) -> Result<(usize, bool), PathError> {
        let start = self.text.len();
        let mut name_end = None;
        let mut is_last = true;
        while at < bytes.len() {
            let (piece, width) = piece_at(bytes, at)?;
            at += width;
            let is_written = name_end.is_none() || manner.parameters == ParameterRule::CutLast;
            match piece {
                PathChar::Slash => {
                    is_last = false;
                    break;
                }
                PathChar::HiddenSlash(byte, kind) => {
                    self.hidden |= kind;
                    if manner.separators & kind != 0 {
                        is_last = false;
                        break;
                    }
                    if is_written {
                        push_escape(&mut self.text, byte);
                    }
                }
                PathChar::Parameters => {
                    let end = *name_end.get_or_insert(self.text.len());
                    self.has_parameters = true;
                    self.has_bare_parameters |= is_dots(&self.text[start..end]);
                    if manner.parameters == ParameterRule::CutLast {
                        self.text.push(';');
                    }
                }
                PathChar::Plain(_) | PathChar::Escaped(_) if !is_written => {}
                PathChar::Plain(byte) => self.text.push(char::from(byte)),
                PathChar::Escaped(byte) => push_escape(&mut self.text, byte),
            }
        }
        if let Some(end) = name_end.filter(|&end| !is_dots(&self.text[start..end])) {
            self.text.truncate(end);
        }
        Ok((at, is_last))
    }

    /// Resolves the segment that begins at `start` if it is empty or dots; returns whether nothing is left of it.
    fn end_segment(&mut self, start: usize, manner: PathDialect, is_last: bool) -> bool {
        match &self.text[start + 1..] {
            "" => {
                self.has_empty |= !is_last;
                if manner.climbs == DotDotRule::OverEmpty {
                    return false;
                }
                self.text.truncate(start);
            }
            "." => self.text.truncate(start),
            ".." if manner.climbs == DotDotRule::Dropped => self.text.truncate(start),
            // Above the root there is nothing to remove, in any reading.
            ".." if manner.climbs != DotDotRule::Kept || start == 0 => {
                self.text.truncate(start);
                if let Some(parent) = self.text.rfind('/') {
                    self.text.truncate(parent);
                    self.is_climbed = true;
                }
            }
            _ => return false,
        }
        true
    }
}

/// Returns a path without parameters, in which each of `separators` ends them beside a slash; the rest is unchanged.
pub(super) fn without_parameters(
    path: &str,
    separators: SegmentSeparators,
) -> Result<String, PathError> {
    let bytes = path.as_bytes();
    let mut kept = String::with_capacity(path.len());
    let mut start = Some(0);
    let mut at = 0;
    while at < bytes.len() {
        let (piece, width) = piece_at(bytes, at)?;
        let ends = match piece {
            PathChar::Slash => true,
            PathChar::HiddenSlash(_, kind) => separators & kind != 0,
            _ => false,
        };
        if ends {
            start = start.or(Some(at));
        } else if matches!(piece, PathChar::Parameters) {
            kept.push_str(start.take().map_or("", |start| &path[start..at]));
        }
        at += width;
    }
    kept.push_str(start.map_or("", |start| &path[start..]));
    Ok(kept)
}

fn is_dots(name: &str) -> bool {
    matches!(name, "" | "." | "..")
}

/// Reads one character and the number of bytes that spell it.
fn piece_at(bytes: &[u8], at: usize) -> Result<(PathChar, usize), PathError> {
    let first = bytes[at];
    let (byte, width) = match first {
        b'/' => return Ok((PathChar::Slash, 1)),
        b';' => return Ok((PathChar::Parameters, 1)),
        b'%' => (
            unescape(&bytes[at + 1..]).ok_or(PathError::Escape { at })?,
            3,
        ),
        _ => (first, 1),
    };
    let piece = match byte {
        0..=0x1f | 0x7f => return Err(PathError::Control { at, byte }),
        b'/' => PathChar::HiddenSlash(byte, ENCODED_SLASH),
        b'\\' if width == 1 => PathChar::HiddenSlash(byte, BACKSLASH),
        b'\\' => PathChar::HiddenSlash(byte, ENCODED_BACKSLASH),
        _ if is_plain(byte) => PathChar::Plain(byte),
        _ => PathChar::Escaped(byte),
    };
    Ok((piece, width))
}

/// Decodes a path in normal form once more: `%2561` becomes `%61`. `None` where nothing is escaped twice.
pub(super) fn decode_again(text: &str) -> Option<String> {
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

/// Returns whether a path in normal form contains an ASCII character in two to four bytes, RFC 3629 §3. Bytes of an older
/// encoding, as `%C0` for À, do not follow each other so.
pub(super) fn is_overlong(text: &str) -> bool {
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

/// Returns whether a path is in normal form and has no other reading; may return false for some that are.
pub(super) fn is_plainly_normal(path: &[u8]) -> bool {
    let mut at = 0;
    let mut segment = 0;
    let mut dot = None;
    // Where the character ends whose escapes were checked last.
    let mut character_end = 0;
    while let Some(&byte) = path.get(at) {
        let is_first = at == segment;
        match byte {
            b'/' => {
                if is_first && at > 0
                    || dot.is_some_and(|dot| script::is_ending(&path[dot + 1..at]))
                {
                    return false;
                }
                segment = at + 1;
                dot = None;
                at += 1;
                continue;
            }
            // A dot segment, or a name that ends in a dot.
            b'.' if matches!(path[at + 1..], [] | [b'/', ..]) => return false,
            b'.' if script::begins_glued(&path[segment..at], &path[at + 1..]) => return false,
            b'.' => dot = Some(at),
            // Parameters of a query that a path became.
            b'&' => return false,
            b'(' if is_first => return false,
            b'%' => match unescape(&path[at + 1..]) {
                Some(escaped)
                    if path[at + 1..at + 3].iter().any(u8::is_ascii_lowercase)
                        || !stays_escaped(escaped)
                        || may_mean_more(escaped, &path[at + 3..])
                        || is_first && escaped == b' '
                        || case::is_letter(&path[at..]) =>
                {
                    return false;
                }
                Some(0x80..) if at >= character_end => {
                    match undecodable::character_width(&path[at..]) {
                        Some(width) => character_end = at + width,
                        None => return false,
                    }
                    at += 2;
                }
                Some(_) => at += 2,
                None => return false,
            },
            _ if !is_plain(byte) => return false,
            _ => {}
        }
        at += 1;
    }
    !dot.is_some_and(|dot| script::is_ending(&path[dot + 1..]))
}

/// Returns whether an escape may be half of another, begin an overlong form, belong to the ending of a name, or end the path.
fn may_mean_more(escaped: u8, behind: &[u8]) -> bool {
    match escaped {
        b'%' => unescape(behind).is_some(),
        b' ' => endings::ends_in_space(behind),
        b';' => true,
        _ if rewritten::is_end(escaped) => true,
        0xc0 | 0xc1 | 0xe0 | 0xf0 => true,
        _ => false,
    }
}

/// Returns whether the normal form escapes this byte, and no origin treats it as a separator.
fn stays_escaped(byte: u8) -> bool {
    !is_plain(byte) && !byte.is_ascii_control() && !matches!(byte, b'/' | b'\\')
}

/// Returns whether a segment may contain the byte plainly, RFC 3986 §3.3, but for the `;` that begins parameters.
#[must_use]
pub fn is_plain(byte: u8) -> bool {
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
