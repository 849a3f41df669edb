//! Walks over the members of a JSON object in one line, without a tree and without allocation.
//!
//! The walk finds where each member begins and ends; it does not judge what is inside of nested values that nobody reads. Depth costs
//! nothing: a nested value is skipped by counting its brackets.

use crate::line::LineError;
use crate::member_order::{MemberOrder, NamePlace};
use crate::scan;
use crate::text::{EscapeSyntax, RawText};

/// The value of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonValue<'a> {
    /// A string.
    Text(RawText<'a>),
    /// A number, as written.
    Number(&'a [u8]),
    /// An object or an array, with its brackets.
    Nested(&'a [u8]),
    /// `true`, `false` or `null`.
    Literal(&'a [u8]),
}

impl<'a> JsonValue<'a> {
    /// Returns the text of a string or a number.
    pub(crate) fn text(self) -> Option<RawText<'a>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(digits) => Some(RawText::plain(digits)),
            Self::Nested(_) | Self::Literal(_) => None,
        }
    }

    /// Returns the text of a string.
    pub(crate) fn string(self) -> Option<RawText<'a>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) | Self::Nested(_) | Self::Literal(_) => None,
        }
    }

    /// Returns the bytes of a string or a number, without a look at its escapes.
    pub(crate) fn raw(self) -> &'a [u8] {
        match self {
            Self::Text(text) => text.raw(),
            Self::Number(bytes) | Self::Nested(bytes) | Self::Literal(bytes) => bytes,
        }
    }

    /// Returns the first string of an array.
    pub(crate) fn first_text(self) -> Option<RawText<'a>> {
        match self {
            Self::Nested(array) => {
                let inside = JsonCursor(array.strip_prefix(b"[")?);
                inside.value().ok()?.0.text()
            }
            other => other.text(),
        }
    }
}

const MALFORMED: LineError = LineError::Malformed("this is not a JSON object");

/// Calls `member` for each member of the object that begins `text`.
///
/// # Errors
/// The text is malformed, or `member` returns an error.
pub(crate) fn members<'a>(
    text: &'a [u8],
    member: impl FnMut(RawText<'a>, JsonValue<'a>) -> Result<(), LineError>,
) -> Result<(), LineError> {
    walk(text, JsonCursor::name, member)
}

/// Walks like [`members`], with the meaning of each name in place of the name. `order` has the order of earlier objects, and learns the one
/// of this object; `meaning` returns the meaning of a name that is not as expected.
///
/// # Errors
/// The text is malformed, or `member` returns an error.
#[inline(always)]
pub(crate) fn members_in_order<'a, M: Copy>(
    text: &'a [u8],
    order: &mut MemberOrder<M>,
    meaning: fn(&[u8]) -> M,
    member: impl FnMut(M, JsonValue<'a>) -> Result<(), LineError>,
) -> Result<(), LineError> {
    let mut before = NamePlace::BEGIN;
    let name = |cursor: JsonCursor<'a>| -> Result<(M, JsonCursor<'a>), LineError> {
        if let Some(found) = order.expected(before, cursor.0) {
            before = found.place;
            return Ok((found.meaning, JsonCursor(found.rest)));
        }
        let (name, rest) = cursor.name()?;
        let found = meaning(name.raw());
        before = order.learn(before, name, found);
        Ok((found, rest))
    };
    walk(text, name, member)
}

/// Calls `member` for each member of the object that begins `text`; `name` reads the name of one, with its colon.
#[inline(always)]
fn walk<'a, N>(
    text: &'a [u8],
    mut name: impl FnMut(JsonCursor<'a>) -> Result<(N, JsonCursor<'a>), LineError>,
    mut member: impl FnMut(N, JsonValue<'a>) -> Result<(), LineError>,
) -> Result<(), LineError> {
    let mut cursor = JsonCursor(text).after_space().expect(b'{')?;
    if cursor.after_space().0.first() == Some(&b'}') {
        return Ok(());
    }
    loop {
        let (name, rest) = name(cursor)?;
        let (value, rest) = rest.after_space().value()?;
        member(name, value)?;
        let rest = rest.after_space();
        match rest.0.split_first() {
            Some((b',', more)) => cursor = JsonCursor(more),
            Some((b'}', _)) => return Ok(()),
            _ => return Err(MALFORMED),
        }
    }
}

/// The rest of a text.
#[derive(Clone, Copy)]
struct JsonCursor<'a>(&'a [u8]);

impl<'a> JsonCursor<'a> {
    #[inline(always)]
    fn after_space(self) -> Self {
        match self.0.first() {
            // Nothing else that may stand here is as small.
            Some(..=b' ') => self.after_spaces(),
            _ => self,
        }
    }

    #[cold]
    fn after_spaces(self) -> Self {
        let space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let spaces = self.0.iter().take_while(space).count();
        Self(self.0.get(spaces..).unwrap_or_default())
    }

    #[inline]
    fn expect(self, byte: u8) -> Result<Self, LineError> {
        match self.0.split_first() {
            Some((first, rest)) if *first == byte => Ok(Self(rest)),
            _ => Err(MALFORMED),
        }
    }

    /// Returns the name that begins here, behind spaces, up to its colon.
    #[inline(always)]
    fn name(self) -> Result<(RawText<'a>, Self), LineError> {
        let (name, rest) = self.after_space().string()?;
        Ok((name, rest.after_space().expect(b':')?))
    }

    /// Returns the string that begins here.
    #[inline(always)]
    fn string(self) -> Result<(RawText<'a>, Self), LineError> {
        let inside = self.expect(b'"')?.0;
        let mut escapes = EscapeSyntax::None;
        let mut from = 0;
        loop {
            let rest = inside.get(from..).unwrap_or_default();
            let at = from + scan::quote_or_backslash(rest).ok_or(MALFORMED)?;
            if inside.get(at) == Some(&b'"') {
                let (text, rest) = inside.split_at(at);
                let rest = rest.get(1..).unwrap_or_default();
                return Ok((RawText::new(text, escapes), Self(rest)));
            }
            escapes = EscapeSyntax::Json;
            from = at + 2;
        }
    }

    /// Returns the value that begins here.
    #[inline(always)]
    fn value(self) -> Result<(JsonValue<'a>, Self), LineError> {
        match self.0.first() {
            Some(b'"') => {
                let (text, rest) = self.string()?;
                Ok((JsonValue::Text(text), rest))
            }
            Some(b'{' | b'[') => {
                let (nested, rest) = self.0.split_at(self.nested_end()?);
                Ok((JsonValue::Nested(nested), Self(rest)))
            }
            Some(b'-' | b'0'..=b'9') => {
                let (number, rest) = self.split(|byte| IN_NUMBER[usize::from(*byte)]);
                let is_ended = rest.0.first().is_none_or(ends_value);
                is_ended
                    .then_some((JsonValue::Number(number), rest))
                    .ok_or(MALFORMED)
            }
            Some(_) => {
                let (bare, rest) = self.split(|byte| !ends_value(byte));
                let is_literal = matches!(bare, b"true" | b"false" | b"null");
                is_literal
                    .then_some((JsonValue::Literal(bare), rest))
                    .ok_or(MALFORMED)
            }
            None => Err(MALFORMED),
        }
    }

    /// Splits behind the first bytes that are `inside`.
    #[inline]
    fn split(self, inside: impl Fn(&u8) -> bool) -> (&'a [u8], Self) {
        let end = self.0.iter().position(|byte| !inside(byte));
        let (before, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        (before, Self(rest))
    }

    /// Returns the length of the object or array that begins here.
    fn nested_end(self) -> Result<usize, LineError> {
        let mut depth = 0_usize;
        let mut at = 0;
        while let Some(byte) = self.0.get(at) {
            match byte {
                b'"' => {
                    let (_, rest) = Self(self.0.get(at..).unwrap_or_default()).string()?;
                    at = self.0.len() - rest.0.len();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(at + 1);
                    }
                }
                _ => {}
            }
            at += 1;
        }
        Err(MALFORMED)
    }
}

/// Set for the bytes that may be in a number.
const IN_NUMBER: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = matches!(byte as u8, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        byte += 1;
    }
    table
};

fn ends_value(byte: &u8) -> bool {
    matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r')
}

/// Calls `element` for each string of the array that begins `text`, up to the first element that is none.
///
/// # Errors
/// The text is malformed, or `element` returns an error.
pub(crate) fn strings<'a>(
    text: &'a [u8],
    mut element: impl FnMut(RawText<'a>) -> Result<(), LineError>,
) -> Result<(), LineError> {
    let mut cursor = JsonCursor(text).after_space().expect(b'[')?.after_space();
    while cursor.0.first() == Some(&b'"') {
        let (string, rest) = cursor.string()?;
        element(string)?;
        let rest = rest.after_space();
        match rest.0.split_first() {
            Some((b',', more)) => cursor = JsonCursor(more).after_space(),
            _ => return Ok(()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(text: &[u8]) -> Result<Vec<(Vec<u8>, String)>, LineError> {
        let mut found = Vec::new();
        members(text, |name, value| {
            found.push((name.raw().to_vec(), format!("{value:?}")));
            Ok(())
        })?;
        Ok(found)
    }

    /// Goal: members are found whatever stands between them. Method: an object with every kind of value.
    #[test]
    fn every_kind_of_value_is_found() {
        let text =
            br#" { "a" : "x\"}", "b":-1.5e3 ,"c":{"d":["}",{}]},"e":[1,"]"],"f":null,"g":true}"#;
        let mut names = Vec::new();
        members(text, |name, value| {
            names.push(String::from_utf8(name.raw().to_vec()).unwrap());
            match name.raw() {
                b"a" => assert_eq!(
                    value.text(),
                    Some(RawText::new(br#"x\"}"#, EscapeSyntax::Json))
                ),
                b"b" => assert_eq!(value, JsonValue::Number(b"-1.5e3")),
                b"c" => assert_eq!(value, JsonValue::Nested(br#"{"d":["}",{}]}"#)),
                b"e" => assert_eq!(value.first_text(), Some(RawText::plain(b"1"))),
                _ => assert_eq!(value.text(), None),
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(names.join(""), "abcefg");
        assert_eq!(all(b"{}"), Ok(Vec::new()));
    }

    /// Goal: a broken line is an error, not a panic or an endless loop. Method: cuts and slips.
    #[test]
    fn broken_objects_are_errors() {
        for text in [
            &b""[..],
            b"{",
            b"x",
            b"{\"a\"}",
            b"{\"a\":}",
            b"{\"a\":1",
            b"{\"a\":\"",
            b"{\"a\":\"\\",
            b"{\"a\":[",
            b"{\"a\":1;}",
            b"{\"a\":nul}",
            b"[1]",
        ] {
            assert!(all(text).is_err(), "{}", String::from_utf8_lossy(text));
        }
    }

    proptest! {
        /// Goal: objects of other writers are walked through. Method: any map, written by serde_json.
        #[test]
        fn objects_are_read_back(map in proptest::collection::btree_map("[a-z]{1,5}", ".*", 0..6)) {
            let text = serde_json::to_vec(&map).unwrap();
            let mut found = std::collections::BTreeMap::new();
            members(&text, |name, value| {
                let mut bytes = Vec::new();
                value.text().unwrap().append_to(&mut bytes);
                found.insert(String::from_utf8(name.raw().to_vec()).unwrap(), String::from_utf8(bytes).unwrap());
                Ok(())
            }).unwrap();
            prop_assert_eq!(found, map);
        }

        /// Goal: no bytes panic. Method: bytes out of the alphabet of JSON.
        #[test]
        fn any_bytes_end(text in "[{}\\[\\]\",:\\\\a1 ]{0,40}") {
            let _ = all(text.as_bytes());
        }
    }
}
