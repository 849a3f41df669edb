//! Owns a value as it stands in a line: its bytes, and the escapes that must be undone before it is the value that was logged.
//!
//! Parsing only finds where values begin and end. The escapes are undone when a value is copied, and most values have none.

/// The escapes of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EscapeSyntax {
    /// None: the bytes are the value.
    #[default]
    None,
    /// Those of JSON, RFC 8259 §7, and `\x22`, which JSON does not have.
    Json,
    /// Those of Apache and nginx: `\"`, `\\`, `\n`, `\t` and so on, `\x22`.
    Backslash,
    /// That of IIS: a plus for each space.
    Plus,
}

/// A value as it stands in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawText<'a> {
    bytes: &'a [u8],
    escapes: EscapeSyntax,
}

impl<'a> RawText<'a> {
    /// Returns the text of bytes that stand for themselves.
    #[must_use]
    pub const fn plain(bytes: &'a [u8]) -> Self {
        Self::new(bytes, EscapeSyntax::None)
    }

    /// Returns the text of bytes with these escapes.
    #[must_use]
    pub const fn new(bytes: &'a [u8], escapes: EscapeSyntax) -> Self {
        Self { bytes, escapes }
    }

    /// Returns the bytes as they stand in the line.
    #[must_use]
    pub const fn raw(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns whether the bytes may have escapes.
    pub(crate) fn has_escapes(self) -> bool {
        self.escapes != EscapeSyntax::None
    }

    /// Returns whether the value is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the part of the value in this range of its raw bytes; the whole where the range is not in it.
    #[must_use]
    pub fn part(self, range: std::ops::Range<usize>) -> Self {
        let bytes = self.bytes.get(range).unwrap_or(self.bytes);
        Self { bytes, ..self }
    }

    /// Appends the value, its escapes undone. A malformed escape stands for itself.
    pub fn append_to(self, into: &mut Vec<u8>) {
        match self.escapes {
            EscapeSyntax::None => into.extend_from_slice(self.bytes),
            EscapeSyntax::Json => undo(self.bytes, into, json_escape),
            EscapeSyntax::Backslash => undo(self.bytes, into, backslash_escape),
            EscapeSyntax::Plus => {
                let spaces = self
                    .bytes
                    .iter()
                    .map(|byte| if *byte == b'+' { b' ' } else { *byte });
                into.extend(spaces);
            }
        }
    }
}

/// Appends `bytes`; `escape` appends the value of an escape, of which it gets what follows the backslash, and returns the length of it.
fn undo(bytes: &[u8], into: &mut Vec<u8>, escape: fn(&[u8], &mut Vec<u8>) -> Option<usize>) {
    let mut rest = bytes;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (before, escaped) = rest.split_at(at);
        into.extend_from_slice(before);
        let behind = escaped.get(1..).unwrap_or_default();
        let length = escape(behind, into).unwrap_or_else(|| {
            into.push(b'\\');
            0
        });
        rest = behind.get(length..).unwrap_or_default();
    }
    into.extend_from_slice(rest);
}

fn backslash_escape(behind: &[u8], into: &mut Vec<u8>) -> Option<usize> {
    let byte = match behind.first()? {
        b'x' => return hex_escape(behind, into),
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 0x08,
        b'f' => 0x0c,
        b'v' => 0x0b,
        quoted @ (b'"' | b'\\' | b'\'') => *quoted,
        _ => return None,
    };
    into.push(byte);
    Some(1)
}

/// Appends the byte of `x22`, and returns the length of the escape.
fn hex_escape(behind: &[u8], into: &mut Vec<u8>) -> Option<usize> {
    let value = hex(behind.get(1..3)?)?;
    into.push(u8::try_from(value).ok()?);
    Some(3)
}

fn json_escape(behind: &[u8], into: &mut Vec<u8>) -> Option<usize> {
    let byte = match behind.first()? {
        b'u' => return unicode_escape(behind, into),
        // Not JSON's, but nginx's in a text of JSON without `escape=json`.
        b'x' => return hex_escape(behind, into),
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 0x08,
        b'f' => 0x0c,
        quoted @ (b'"' | b'\\' | b'/') => *quoted,
        _ => return None,
    };
    into.push(byte);
    Some(1)
}

/// Appends the character of `u00e9`, or of `ud83d\ude00`, and returns the length of the escape.
fn unicode_escape(behind: &[u8], into: &mut Vec<u8>) -> Option<usize> {
    let first = hex(behind.get(1..5)?)?;
    let (code, length) = match first {
        0xd800..=0xdbff => {
            // RFC 8259 §7: a character beyond the basic plane is written as a surrogate pair.
            let second = behind.get(5..7).filter(|begin| *begin == b"\\u");
            let low = second.and(behind.get(7..11)).and_then(hex);
            match low {
                Some(low @ 0xdc00..=0xdfff) => {
                    (0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00), 11)
                }
                _ => (0xfffd, 5),
            }
        }
        other => (other, 5),
    };
    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    into.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Some(length)
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |value, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(value << 4 | digit)
    })
}

/// Returns the value of a text, which a test compares.
#[cfg(test)]
pub(crate) fn value(text: RawText<'_>) -> String {
    let mut bytes = Vec::new();
    text.append_to(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn undone(bytes: &[u8], escapes: EscapeSyntax) -> Vec<u8> {
        let mut into = Vec::new();
        RawText::new(bytes, escapes).append_to(&mut into);
        into
    }

    /// Goal: the escapes of nginx and Apache are undone, and a broken one loses nothing. Method: each kind, and cut ones.
    #[test]
    fn escapes_of_servers_are_undone() {
        let undone = |bytes: &str| undone(bytes.as_bytes(), EscapeSyntax::Backslash);
        assert_eq!(undone(r#"a\x22b\"c\\d\n"#), b"a\"b\"c\\d\n");
        assert_eq!(undone(r"\xFCber"), b"\xfcber");
        assert_eq!(undone(r"a\q"), b"a\\q");
        assert_eq!(undone(r"a\x2"), b"a\\x2");
        assert_eq!(undone("a\\"), b"a\\");
        assert_eq!(super::tests::undone(b"a+b", EscapeSyntax::Plus), b"a b");
    }

    /// Goal: a lone half of a pair is a replacement character and breaks nothing. Method: halves alone and in the wrong order.
    #[test]
    fn half_a_surrogate_pair_is_replaced() {
        let undone = |bytes: &str| undone(bytes.as_bytes(), EscapeSyntax::Json);
        assert_eq!(undone(r"\ud83d\ude00"), "😀".as_bytes());
        assert_eq!(undone(r"\ud83dx"), "\u{fffd}x".as_bytes());
        assert_eq!(undone(r"\ude00"), "\u{fffd}".as_bytes());
        assert_eq!(undone(r"\u12"), br"\u12");
    }

    proptest! {
        /// Goal: JSON strings are read as any reader of JSON reads them. Method: any text, written by serde_json.
        #[test]
        fn json_strings_are_read_back(text in any::<String>()) {
            let written = serde_json::to_string(&text).unwrap();
            let inside = &written[1..written.len() - 1];
            prop_assert_eq!(undone(inside.as_bytes(), EscapeSyntax::Json), text.into_bytes());
        }

        /// Goal: no bytes panic. Method: any bytes under each syntax.
        #[test]
        fn any_bytes_have_a_value(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            for escapes in [EscapeSyntax::None, EscapeSyntax::Json, EscapeSyntax::Backslash, EscapeSyntax::Plus] {
                undone(&bytes, escapes);
            }
        }
    }
}
