//! Matches parameters of the query.
//!
//! A condition holds when one of the parameters of its name has its value. Origins differ in how they read a query: `;`
//! separates for some, of two parameters with one name they take the first, the last or both, and some change names and cut or trim
//! values before they look. A limit must hold whichever reading the origin uses, so a parameter meets a condition wherever some origin
//! may read it so: by its name or an alias, or by a name outside of the grammar of [names](sluicegate_base::parameter_name) of which some
//! parser makes the name; by a value that is equal but for blanks and invisible characters, or that parsers decode in different ways.
//!
//! A query meets a condition *plainly* where no origin reads it otherwise. Where it does not, the route must stand for the one that the
//! request has without that.

use sluicegate_base::bounds;
use sluicegate_base::form_encoding::{PlusMeaning, decode, decoded_bytes};
use sluicegate_base::parameter_name::{NameMatch, OtherNames, WantedName};
use sluicegate_config::rules::QueryCondition;

/// Conditions that must all hold.
#[derive(Debug)]
pub(super) struct QueryMatch(Box<[QueryCondition]>);

impl QueryMatch {
    pub(super) fn compile(conditions: &[QueryCondition]) -> Self {
        Self(conditions.into())
    }

    /// Returns whether some origin may find every condition met.
    pub(super) fn takes(&self, query: &str) -> bool {
        let query = query.as_bytes();
        self.0.iter().all(|condition| {
            let is_met = |parameter: &[u8]| meets(parameter, condition);
            // What separates for some origins may be a part of the value for others.
            let has_ends = |value: &str| value.contains([';', '?']);
            let is_whole = condition.value.as_deref().is_some_and(has_ends);
            pieces(query).any(is_met) || (is_whole && pairs(query).any(is_met))
        })
    }

    /// Returns whether every origin finds every condition met. Some read no more than so many parameters.
    pub(super) fn takes_plainly(&self, query: &str) -> bool {
        if !self.0.is_empty() && pairs(query.as_bytes()).count() > bounds::PARAMETER_NAMES {
            return false;
        }
        let is_plain = |condition: &QueryCondition| {
            let is_named = |parameter: &[u8]| may_be(split(parameter).0, &condition.name);
            let mut is_met = false;
            for pair in pairs(query.as_bytes()) {
                let is_hidden = pieces(pair).skip(1).any(is_named);
                let is_found = is_named(pair);
                if is_hidden || (is_found && !meets_plainly(pair, condition)) {
                    return false;
                }
                is_met |= is_found;
            }
            is_met
        };
        self.0.iter().all(is_plain)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Returns the parameters as all origins separate them.
fn pairs(query: &[u8]) -> impl Iterator<Item = &[u8]> {
    query
        .split(|byte| *byte == b'&')
        .filter(|pair| !pair.is_empty())
}

/// Returns the parameters as some origins separate them.
fn pieces(query: &[u8]) -> impl Iterator<Item = &[u8]> {
    let pieces = query.split(|byte| matches!(byte, b'&' | b';' | b'?'));
    pieces.filter(|piece| !piece.is_empty())
}

/// Splits a parameter into its name and its value.
fn split(parameter: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr(b'=', parameter);
    end.map_or((parameter, b""), |end| {
        (&parameter[..end], &parameter[end + 1..])
    })
}

/// Returns whether some origin may find the condition met by a parameter.
fn meets(parameter: &[u8], condition: &QueryCondition) -> bool {
    let (name, sent) = split(parameter);
    // The value first, which costs less.
    (condition.value.as_deref()).is_none_or(|value| may_spell(sent, value))
        && may_be(name, &condition.name)
}

/// Returns whether every origin finds the condition met by a parameter.
fn meets_plainly(parameter: &[u8], condition: &QueryCondition) -> bool {
    let (name, sent) = split(parameter);
    let decoded = decode(sent, PlusMeaning::Space);
    wanted(&condition.name).compare_encoded(name) == NameMatch::Same
        && (condition.value.as_deref())
            .is_none_or(|value| decoded.is_some_and(|sent| *sent == *value.as_bytes()))
}

fn wanted(name: &str) -> WantedName<'_> {
    let others = OtherNames::Canonical;
    WantedName { name, others }
}

/// Returns whether some parser may take a name for the wanted one.
fn may_be(sent: &[u8], name: &str) -> bool {
    let wanted = wanted(name);
    match wanted.compare_encoded(sent) {
        NameMatch::Same | NameMatch::Alias => true,
        NameMatch::Other => false,
        NameMatch::Outside => wanted.is_at_beginning(sent) || may_become(sent, name),
    }
}

/// Returns whether parsers that drop or replace what is no letter of ASCII may make `name` of a text. A letter that has a form in ASCII
/// may stand for any letters of it, and what begins with an escape that is none for all the rest.
fn may_become(sent: &[u8], name: &str) -> bool {
    let mut letters = name.bytes().filter(u8::is_ascii_alphanumeric);
    let mut is_open = false;
    for byte in decoded_bytes(sent, PlusMeaning::Space) {
        match byte {
            Some(letter) if letter.is_ascii_alphanumeric() => {
                let is_same = |found: &u8| found.eq_ignore_ascii_case(&letter);
                let is_next = match is_open {
                    true => letters.any(|found| is_same(&found)),
                    false => letters.next().is_some_and(|found| is_same(&found)),
                };
                if !is_next {
                    return false;
                }
            }
            None => return true,
            Some(byte) if byte.is_ascii() => {}
            Some(byte) => match WIDE[usize::from(byte - 0x80)] {
                WideByte::MayBeLetters => is_open = true,
                WideByte::Letter => return false,
                WideByte::Dropped => {}
            },
        }
    }
    is_open || letters.next().is_none()
}

/// The use that parsers make of a byte beside ASCII.
#[derive(Clone, Copy)]
enum WideByte {
    /// It continues a character, or begins none, and is dropped or replaced.
    Dropped,
    /// It begins a character which some parser writes in ASCII: a ligature, a letter of full width, a mathematical one, or an overlong
    /// form.
    MayBeLetters,
    /// It begins another letter.
    Letter,
}

/// By byte from 0x80 on: the blocks of Unicode of which characters have a compatible form in ASCII (UAX #15), and C0 and C1, which begin
/// overlong forms.
const WIDE: [WideByte; 128] = {
    let mut wide = [WideByte::Dropped; 128];
    let mut byte: u8 = 0xc0;
    while byte < 0xf5 {
        wide[(byte - 0x80) as usize] = match byte {
            0xc0..=0xc2 | 0xc4 | 0xc5 | 0xc7 | 0xcb | 0xe1 | 0xe2 | 0xef | 0xf0 => {
                WideByte::MayBeLetters
            }
            _ => WideByte::Letter,
        };
        byte += 1;
    }
    wide
};

/// Returns whether an origin may decode `sent` to `text`.
fn may_spell(sent: &[u8], text: &str) -> bool {
    let is_ascii = text.is_ascii();
    // Blanks and control characters are cut or written in other ways, `+` is a blank or itself, and beside ASCII others are invisible.
    let is_seen =
        |byte: &u8| byte.is_ascii_graphic() && *byte != b'+' || (*byte >= 0x80 && !is_ascii);
    let mut wanted = text.bytes().filter(|byte| is_seen(byte));
    if sent.is_empty() {
        return wanted.next().is_none();
    }
    let mut sent = decoded_bytes(sent, PlusMeaning::Space);
    loop {
        match sent.next() {
            // Parsers keep, drop or decode what is no escape.
            Some(None) => return true,
            Some(Some(byte)) if !is_seen(&byte) => {}
            Some(Some(byte)) if wanted.next() != Some(byte) => return false,
            Some(Some(_)) => {}
            None => return wanted.next().is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(name: &str, value: Option<&str>, query: &str) -> bool {
        QueryMatch::compile(&[QueryCondition {
            name: name.into(),
            value: value.map(Into::into),
        }])
        .takes(query)
    }

    /// Goal: no spelling bypasses a limit on a parameter. Method: spellings that some origin reads as page=a b.
    #[test]
    fn every_spelling_of_a_parameter_meets_its_condition() {
        for query in [
            "page=a%20b",
            "page=a+b",
            "x=1&page=a+b",
            "p%61ge=%61%20%62",
            "page=c&page=a+b",
            "page=a+b&page=c",
            "x=1;page=a+b",
            "page=a+b;x=1",
            "+page=a+b",
            "page%00x=a+b",
            "page[]=a+b",
            "[page]=a+b",
            "Page=a+b",
            "?page=a+b",
            "p%u0061ge=a+b",
            "%EF%BD%90age=a+b",
            "page=a+b?x=1",
            "x=1;+page=a+b",
            "page=+a+b%00",
            "page=a%01b",
            "page=%E2%80%8Ba%C2%A0b",
            "page=%u0061+b",
        ] {
            assert!(takes("page", Some("a b"), query), "{query}");
            assert!(takes("page", None, query), "{query}");
        }
        assert!(takes("q", Some("1+1"), "q=1+1"));
        assert!(takes("q", Some("1+1"), "q=1%2B1"));
        assert!(takes("q", Some("100%"), "q=100%"));
        assert!(takes("q", Some("100%"), "q=100%25"));
        assert!(takes("q", Some("a;b?c"), "q=a;b?c"));
        assert!(takes("city", Some("köln"), "city=k%C3%B6ln"));
        assert!(takes("flag", Some(""), "flag"));
        assert!(takes("flag", None, "flag="));
    }

    /// Goal: a treatment by a condition cannot be had for a request that an origin reads otherwise. Method: queries that all origins
    /// read alike, and such that some do not.
    #[test]
    fn a_query_meets_a_condition_plainly_or_not() {
        let plainly = |value: Option<&str>, query: &str| {
            QueryMatch::compile(&[QueryCondition {
                name: "mode".into(),
                value: value.map(Into::into),
            }])
            .takes_plainly(query)
        };
        for query in [
            "mode=read",
            "x=1&mode=read",
            "mode=re%61d&x=;y",
            "mode=read&mode=read",
            "mode=read&stra%C3%9Fe=x&a+b=%zz&/x",
        ] {
            assert!(plainly(Some("read"), query), "{query}");
            assert!(plainly(None, query), "{query}");
        }
        for query in [
            "mode=read&mode[]=x",
            "mode=read;mode=x",
            "mode[]=read",
            "Mode=read",
            "mode%00=read",
            "%EF%BD%8Dode=read",
            "",
        ] {
            assert!(!plainly(Some("read"), query), "{query}");
            assert!(!plainly(None, query), "{query}");
        }
        let many = "x=1&".repeat(bounds::PARAMETER_NAMES - 1) + "mode=read";
        assert!(plainly(None, &many));
        assert!(!plainly(None, &format!("x&{many}")));
        for query in [
            "mode=read&mode=write",
            "mode=%u0&mode=read",
            "mode=read%00",
            "mode=read;x",
            "mode=read?x",
        ] {
            assert!(takes("mode", Some("read"), query), "{query}");
            assert!(!plainly(Some("read"), query), "{query}");
        }
    }

    /// Goal: no name in another script or with other marks is taken for a name of ASCII. Method: names of honest forms beside names that
    /// parsers may change.
    #[test]
    fn a_name_of_another_word_is_another_name() {
        for query in [
            "stra%C3%9Fe=x",
            "%E5%90%8D=x",
            "%E3%81%82=x",
            "First+Name=x",
            "my%20name=x",
            "filter(name)=x",
            "/foo/bar",
            "q'=1",
            "x%2Fy=1",
            "a%2Cb=1",
            "=x",
            "%ff=x",
            "x%20y=x",
            "a+b=%zz",
        ] {
            assert!(!takes("mode", None, query), "{query}");
            assert!(!takes("rest_route", None, query), "{query}");
        }
        assert!(!takes("mode", None, &format!("{}=1", "x".repeat(200))));
        for query in [
            "mo%ffde=x",
            "%EF%BD%8Dode=x",
            "mod%u0065=x",
            "%C1%AD%6f%64%65=x",
            "m%F0%9D%90%A8de=x",
            "mode%20=x",
            "\"mode\"=x",
        ] {
            assert!(takes("mode", None, query), "{query}");
        }
    }

    /// Goal: another parameter or value does not match. Method: near misses.
    #[test]
    fn another_parameter_or_value_does_not_meet_it() {
        for query in [
            "",
            "&&",
            "page",
            "page=A",
            "pages=a",
            "my+page=b",
            "x[page]=a",
            "page=aa",
            "page=ab",
            "page=",
            "xpage=a",
            "page=%2561",
        ] {
            assert!(!takes("page", Some("a"), query), "{query}");
        }
        assert!(!takes("city", Some("köln"), "city=k%C3%A4ln"));
        assert!(!takes("page", None, "x=page"));
        let both = ["a", "b"].map(|name| QueryCondition {
            name: name.into(),
            value: None,
        });
        assert!(!QueryMatch::compile(&both).takes("a=1"));
        assert!(QueryMatch::compile(&both).takes("a=1&b=1"));
    }
}
