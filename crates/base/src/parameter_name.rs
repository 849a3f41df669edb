//! Decides which names of a query, a form or a cookie an origin may take for the one that a key names.
//!
//! Parsers change names before they look them up: PHP writes `_` for `.` and `[`, Rack and qs read brackets and dots as nesting, ASP.NET
//! ignores case, others trim, cut and normalize. Such a list of parsers has no end, so it is not followed. Names have a canonical
//! grammar, within which all changes are known: letters, digits and `_ - . [ ] ( ) ~ : @ $ !` of ASCII. Within it a name in other case, or
//! with other marks between its words or none, or with more steps of nesting, is an alias. A name outside of the grammar could be any name.
//!
//! # Limits
//! A canonical name has at most [`PARAMETER_NAME_BYTES`] bytes; a name is read in one pass, by a table, without allocation.

use crate::bounds::PARAMETER_NAME_BYTES;
use crate::form_encoding::{PlusMeaning, decoded_bytes};

/// The treatment of names outside of the grammar, and of more names than parsers read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtherNames {
    /// They make the key malformed.
    #[default]
    Canonical,
    /// They are other names, unless they are the key's to the byte.
    Any,
}

/// The name in a key, with which names of a request are compared.
#[derive(Clone, Copy, Debug)]
pub struct WantedName<'n> {
    /// The name.
    pub name: &'n str,
    /// The treatment of other names.
    pub others: OtherNames,
}

/// The relation of a name to the one in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameMatch {
    /// The same name.
    Same,
    /// A name that some origins take for the one in the key.
    Alias,
    /// Another name.
    Other,
    /// A name outside of the grammar, which an origin may take for any name.
    Outside,
}

/// The byte as which each byte of a canonical name is compared: letters in lower case, `_` for all marks between words; 0 for all other
/// bytes.
const FOLDED: [u8; 256] = {
    let mut folded = [0; 256];
    let mut byte: u8 = 0;
    while byte < 0x80 {
        folded[byte as usize] = match byte {
            b'_' | b'-' | b'.' | b'[' | b']' | b':' => b'_',
            b'~' | b'@' | b'$' | b'!' | b'(' | b')' => byte,
            _ if byte.is_ascii_alphanumeric() => byte.to_ascii_lowercase(),
            _ => 0,
        };
        byte += 1;
    }
    folded
};

/// Most bytes of a canonical name with all of it in escapes.
const ESCAPED_NAME_BYTES: usize = 3 * PARAMETER_NAME_BYTES;

/// Text in front of a cookie's name that some parser does not take for a part of it: Sanic the prefixes, WebOb the end of a date.
const COOKIE_PREFIXES: [&[u8]; 3] = [b"__host-", b"__secure-", b"gmt"];

/// The bytes at which some parser of cookies ends or trims a name, or which it decodes.
const IS_CUT: [bool; 256] = {
    let mut is_cut = [true; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        is_cut[byte] = matches!(byte as u8, b'%' | b'+' | b'"' | b',' | b'\\');
        byte += 1;
    }
    is_cut
};

impl WantedName<'_> {
    /// Compares a name that is written without escapes.
    #[must_use]
    pub fn compare(&self, found: &[u8]) -> NameMatch {
        match self.others {
            _ if is_canonical(found) => self.compare_canonical(found),
            OtherNames::Canonical => NameMatch::Outside,
            OtherNames::Any if found == self.name.as_bytes() => NameMatch::Same,
            OtherNames::Any => NameMatch::Other,
        }
    }

    /// Compares a name of a query or a urlencoded form, as it is written there.
    #[must_use]
    pub fn compare_encoded(&self, written: &[u8]) -> NameMatch {
        if is_canonical(written) {
            return self.compare_canonical(written);
        }
        let mut found = [0; PARAMETER_NAME_BYTES];
        let mut length = 0;
        let may_be_key = |byte: &u8| folded(*byte) != 0 || self.others == OtherNames::Any;
        for byte in decoded_bytes(written, PlusMeaning::Space) {
            let byte = byte.filter(may_be_key);
            let (Some(byte), Some(place)) = (byte, found.get_mut(length)) else {
                // Neither canonical nor the name of a key.
                return self.compare(b"");
            };
            *place = byte;
            length += 1;
        }
        self.compare(&found[..length])
    }

    /// Returns whether the name of a cookie is the key's or an alias, or has it between bytes that belong to no name, at which some
    /// parser cuts or trims.
    #[must_use]
    pub fn is_within(&self, written: &[u8]) -> bool {
        let letters = |text: &[u8]| {
            text.iter()
                .filter(|byte| byte.is_ascii_alphanumeric())
                .count()
        };
        // No shorter word is the name, and an escape has no fewer letters than it stands for.
        let shortest = letters(self.name.as_bytes());
        if written.is_empty() || letters(written) < shortest {
            return false;
        }
        let is_taken = |word: &[u8]| word.len() >= shortest && self.is_taken(word);
        let is_cut = written.iter().any(|byte| IS_CUT[usize::from(*byte)]);
        let mut read = ReadName::new();
        let mut is_first = true;
        for byte in decoded_bytes(written, PlusMeaning::Space) {
            let byte = byte.unwrap_or_default();
            if folded(byte) != 0 && read.push(byte) {
                continue;
            }
            let word = read.word();
            // What stands in brackets belongs to no name.
            let is_ended = is_cut || folded(byte) != 0 || (is_first && word.contains(&b'['));
            if is_ended && is_taken(word) {
                return true;
            }
            is_first &= without_marks(word).is_empty();
            read.end_word(byte);
        }
        let word = read.word();
        let is_ended = is_cut || is_first || word.iter().any(is_bracket);
        (is_ended && is_taken(word)) || is_taken(read.whole())
    }

    /// Returns whether the name, or an alias, is [within](Self::is_within) the beginning of a parameter's name: as much of it as a name
    /// has with all of it in escapes. What stands further behind no parser makes a name.
    #[must_use]
    pub fn is_at_beginning(&self, written: &[u8]) -> bool {
        self.is_within(written.get(..ESCAPED_NAME_BYTES).unwrap_or(written))
    }

    /// Returns whether some parser of cookies takes a word for the name in the key, as it is, behind a prefix or from its last bracket on.
    fn is_taken(&self, word: &[u8]) -> bool {
        let is_named = |word: &[u8]| !word.is_empty() && self.is_alias(word, is_cookie_step);
        let behind = word.iter().rposition(is_bracket).map(|at| &word[at + 1..]);
        let mut unprefixed = COOKIE_PREFIXES.iter().filter_map(|prefix| {
            let (head, rest) = word.split_at_checked(prefix.len())?;
            head.eq_ignore_ascii_case(prefix).then_some(rest)
        });
        is_named(word) || behind.is_some_and(is_named) || unprefixed.any(is_named)
    }

    fn compare_canonical(&self, found: &[u8]) -> NameMatch {
        match self.is_alias(found, is_nesting) {
            false => NameMatch::Other,
            true if found == self.name.as_bytes() => NameMatch::Same,
            true => NameMatch::Alias,
        }
    }

    /// Returns whether some parser may take a canonical name for the one in the key, with a further step behind it. Rack, qs and Spring
    /// drop marks in front.
    fn is_alias(&self, found: &[u8], is_step: fn(u8) -> bool) -> bool {
        let mut name = self.name.as_bytes();
        while let [rest @ .., last] = name
            && is_nesting(*last)
        {
            name = rest;
        }
        let bare = without_marks(found);
        is_nested_in(found, name, is_step)
            || (bare.len() < found.len() && is_nested_in(bare, without_marks(name), is_step))
    }
}

/// The end of a name that is read byte by byte, as much of it as a name of a key has.
struct ReadName {
    /// The words of the whole name, with `_` for the blanks between them, or the last word where the name has other bytes.
    bytes: [u8; PARAMETER_NAME_BYTES],
    length: usize,
    /// The beginning of the last word.
    word_at: usize,
    is_whole: bool,
    /// Set while the rest of a word that is too long is read.
    is_too_long: bool,
}

impl ReadName {
    const fn new() -> Self {
        Self {
            bytes: [0; PARAMETER_NAME_BYTES],
            length: 0,
            word_at: 0,
            is_whole: true,
            is_too_long: false,
        }
    }

    fn word(&self) -> &[u8] {
        &self.bytes[self.word_at..self.length]
    }

    /// Returns the name as PHP joins it, without blanks in front; nothing where it has other bytes.
    fn whole(&self) -> &[u8] {
        let length = if self.is_whole { self.length } else { 0 };
        &self.bytes[..length]
    }

    /// Appends a byte to the last word. Returns `false` where the word is full.
    fn push(&mut self, byte: u8) -> bool {
        if self.is_too_long {
            if !is_bracket(&byte) {
                return true;
            }
            self.is_too_long = false;
        }
        if self.length == self.bytes.len() {
            self.drop_words();
        }
        let Some(place) = self.bytes.get_mut(self.length) else {
            return false;
        };
        *place = byte;
        self.length += 1;
        true
    }

    /// Makes room behind the last word.
    #[cold]
    fn drop_words(&mut self) {
        self.bytes.copy_within(self.word_at.., 0);
        self.length -= self.word_at;
        self.word_at = 0;
        self.is_whole = false;
    }

    /// Ends the last word at a byte that does not belong to it.
    fn end_word(&mut self, byte: u8) {
        self.is_too_long = folded(byte) != 0;
        let is_blank = byte == b' ' || (byte.is_ascii_whitespace() && self.length == 0);
        self.is_whole &= is_blank && !self.is_too_long;
        if !self.is_whole {
            self.length = 0;
        } else if self.length > 0 {
            self.is_whole = self.push(b'_');
        }
        self.word_at = self.length;
    }
}

/// Returns whether a name is one of the grammar.
#[must_use]
pub fn is_canonical(name: &[u8]) -> bool {
    (1..=PARAMETER_NAME_BYTES).contains(&name.len()) && name.iter().all(|byte| folded(*byte) != 0)
}

fn folded(byte: u8) -> u8 {
    FOLDED[usize::from(byte)]
}

fn is_bracket(byte: &u8) -> bool {
    matches!(byte, b'[' | b']' | b'(' | b')')
}

/// Returns whether a byte stands between the steps of a nested name. Rails writes the parts of a date in parentheses: `born_on(1i)`.
fn is_nesting(byte: u8) -> bool {
    matches!(byte, b'.' | b'[' | b']' | b':' | b'(')
}

/// Returns whether a byte begins a further step in the name of a cookie, in which a dot is a letter: `session.sig` signs `session`.
fn is_cookie_step(byte: u8) -> bool {
    byte != b'.' && is_nesting(byte)
}

/// Returns a name without what some parsers drop in front.
fn without_marks(name: &[u8]) -> &[u8] {
    let is_dropped = |byte: &&u8| is_nesting(**byte) || matches!(**byte, b'!' | b'@');
    &name[name.iter().take_while(is_dropped).count()..]
}

/// Returns whether `found` has the words of `wanted`, and behind them nothing or a further step. Between letters no mark counts: parsers
/// turn one into another, close a step with `]`, and read `userId` as `user_id`.
fn is_nested_in(mut found: &[u8], wanted: &[u8], is_step: fn(u8) -> bool) -> bool {
    let is_mark = |byte: &u8| folded(*byte) == b'_';
    let end = wanted.iter().rposition(|byte| !is_mark(byte));
    let mut is_inside = false;
    for (at, letter) in wanted.iter().enumerate() {
        if is_inside && Some(at) <= end {
            if is_mark(letter) {
                continue;
            }
            let marks = found.iter().take_while(|byte| is_mark(byte)).count();
            found = &found[marks..];
        }
        match found.split_first() {
            Some((first, rest)) if folded(*first) == folded(*letter) => found = rest,
            _ => return false,
        }
        is_inside |= !is_mark(letter);
    }
    found.first().is_none_or(|next| is_step(*next))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wanted(name: &str, others: OtherNames) -> WantedName<'_> {
        WantedName { name, others }
    }

    fn compare(name: &str, found: &str) -> NameMatch {
        wanted(name, OtherNames::Canonical).compare(found.as_bytes())
    }

    /// Goal: each change that a parser makes to a canonical name is known. Method: names that PHP, Rack 2.2, qs, ASP.NET, Spring and Zope
    /// turn into the name, and the name itself.
    #[test]
    fn what_a_parser_takes_for_the_name_is_an_alias() {
        for (name, aliases) in [
            (
                "phone",
                &[
                    "phone[]",
                    "phone[0]",
                    "phone[x][y]",
                    "phone[",
                    "[phone]",
                    "[phone",
                    "phone]",
                    "]phone",
                    "[[phone]]",
                    "[]phone",
                    "[phone]x",
                    "phone]x",
                    "phone.x",
                    ".phone",
                    "Phone",
                    "PHONE",
                    "phone:int",
                    "!phone",
                    "PHONE[]",
                    "phone(1i)",
                    "(phone",
                ][..],
            ),
            (
                "user_id",
                &[
                    "user.id",
                    "user-id",
                    "user[id",
                    "user.id[]",
                    "USER.ID",
                    "user[id]",
                    "[user][id]",
                    "userId",
                    "userid",
                    "user__id",
                ],
            ),
            ("userId", &["user_id", "USER-ID", "user[id]"]),
            ("user__id", &["user..id", "user._id", "user[_id"]),
            (
                "user[id]",
                &[
                    "user.id",
                    "[user][id]",
                    "user[id",
                    "user[id][]",
                    "user[ID]",
                    "user_id",
                ],
            ),
            ("a.b", &["a_b", "a[b]", "A.B"]),
            ("x_", &["x[", "x.", "x_[0]"]),
            ("_token", &[".token", "-token", "_token[]"]),
            ("phone[]", &["phone", "phone[0]"]),
        ] {
            assert_eq!(compare(name, name), NameMatch::Same);
            for alias in aliases {
                assert_eq!(compare(name, alias), NameMatch::Alias, "{name} {alias:?}");
            }
        }
    }

    /// Goal: names that no parser confuses stay apart. Method: neighbors of a name.
    #[test]
    fn other_names_are_others() {
        for (name, others) in [
            (
                "phone",
                &[
                    "phones",
                    "xphone",
                    "phone_type",
                    "phone-type",
                    "x.phone",
                    "user[phone]",
                    "[]",
                    "p",
                    "phon",
                    "_phone",
                ][..],
            ),
            ("user[id]", &["user", "user[x]", "id"]),
            (
                "user_id",
                &["user", "user_i", "user_", "_userid", "user(id)"],
            ),
            ("token", &["_token", "token_", "csrf_token"]),
        ] {
            for other in others {
                assert_eq!(compare(name, other), NameMatch::Other, "{name} {other:?}");
            }
        }
    }

    /// Goal: a name that parsers read in different ways is outside, whatever stands behind it. Method: blanks, control characters, other
    /// scripts, escapes that are none, other signs, lengths; the same with escapes; then what `any` makes of them.
    #[test]
    fn names_outside_of_the_grammar_are_no_names() {
        let longest = "a".repeat(PARAMETER_NAME_BYTES);
        assert_eq!(compare("phone", &longest), NameMatch::Other);
        let long = longest + "a";
        for name in [
            "",
            " phone",
            "phone ",
            "phone\0",
            "\u{feff}phone",
            "ｐhone",
            "phon\u{e9}",
            "?phone",
            "=phone",
            "\"phone\"",
            "phone\n",
            "a b",
            "a/b",
            "a%b",
            "ph%6fne",
            "a+b",
            "a,b",
            "a\\b",
            &long,
        ] {
            assert_eq!(compare("phone", name), NameMatch::Outside, "{name:?}");
        }
        let encoded = |others, name: &str| wanted("phone", others).compare_encoded(name.as_bytes());
        for name in [
            "+phone",
            "phone%00",
            "phone%",
            "phone%6",
            "%u0070hone",
            "%C1%B0hone",
            "%EF%BD%90hone",
            "%2570hone",
            "phone%0a",
        ] {
            assert_eq!(
                encoded(OtherNames::Canonical, name),
                NameMatch::Outside,
                "{name:?}"
            );
            assert_eq!(encoded(OtherNames::Any, name), NameMatch::Other, "{name:?}");
        }
        assert_eq!(encoded(OtherNames::Any, "ph%6fne"), NameMatch::Same);
        assert_eq!(encoded(OtherNames::Any, "ph%6fne%5b]"), NameMatch::Alias);
        let other = wanted("größe", OtherNames::Any);
        assert_eq!(other.compare_encoded(b"gr%C3%B6%C3%9Fe"), NameMatch::Same);
    }

    /// Goal: a name that a parser cuts out of another is seen. Method: escapes of what parsers cut and trim at, and what they leave.
    #[test]
    fn a_name_between_escapes_is_within() {
        let sid = wanted("sid", OtherNames::Canonical);
        for name in [
            "sid",
            "SID",
            "%73id",
            "sid[]",
            "sid%00",
            "sid%00x",
            "%20sid",
            "x%20sid%0a",
            "%C2%A0sid",
            "__Host-sid",
            "__secure-sid[]",
            "GMTsid",
            "sid%",
            "[sid]",
        ] {
            assert!(sid.is_within(name.as_bytes()), "{name}");
        }
        for name in [
            "",
            "sids",
            "xsid",
            "a/sid",
            "a&sid",
            "a?sid",
            "x%40sid",
            "AMCV_1%40AdobeOrg",
            "sid.sig",
            "sid.0",
            "__Hostsid",
        ] {
            assert!(!sid.is_within(name.as_bytes()), "{name}");
        }
    }

    proptest! {
        /// Goal: an alias in another case is an alias, and nothing a client sends stops the process. Method: names of marks and letters.
        #[test]
        fn case_never_matters(name in "[a.\\[\\]_:-]{1,6}", found in "[aA.\\[\\]_:!%0-]{0,8}") {
            let other = wanted(&name, OtherNames::Canonical);
            let is_other = |found: &str| other.compare(found.as_bytes()) == NameMatch::Other;
            prop_assert_eq!(is_other(&found), is_other(&found.to_ascii_uppercase()));
            let _ = other.is_within(found.as_bytes());
        }
    }
}
