//! Matches parameters of the query.
//!
//! A condition holds when one of the parameters of its name has its value. Origins differ in how they read a query: `;`
//! separates for some, of two parameters with one name they take the first, the last or both, and some change names and cut or trim
//! values before they look. A limit must hold whichever reading the origin uses, so a parameter meets a condition wherever some origin
//! may read it so: by its name or an alias, or by a name outside of the grammar of [names](sluicegate_base::parameter_name), which could
//! be any; by a value that is equal but for blanks and invisible characters, or that parsers decode in different ways.

use sluicegate_base::form_encoding::{PlusMeaning, decoded_bytes};
use sluicegate_base::parameter_name::{NameMatch, OtherNames, WantedName};

use crate::config::rules::QueryCondition;

/// Conditions that must all hold.
#[derive(Debug)]
pub(super) struct QueryMatch(Box<[QueryCondition]>);

impl QueryMatch {
    pub(super) fn compile(conditions: &[QueryCondition]) -> Self {
        Self(conditions.into())
    }

    pub(super) fn takes(&self, query: &str) -> bool {
        let query = query.as_bytes();
        self.0.iter().all(|condition| {
            let wanted = WantedName {
                name: &condition.name,
                others: OtherNames::Canonical,
            };
            let is_met = |parameter: &[u8]| meets(parameter, &wanted, condition.value.as_deref());
            let mut pieces = query.split(|byte| matches!(byte, b'&' | b';' | b'?'));
            // What separates for some origins may be a part of the value for others.
            let has_ends = |value: &str| value.contains([';', '?']);
            let is_whole = condition.value.as_deref().is_some_and(has_ends);
            pieces.any(is_met) || (is_whole && query.split(|byte| *byte == b'&').any(is_met))
        })
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Returns whether some origin may find the wanted name, with the value if there is one, in a parameter.
fn meets(parameter: &[u8], wanted: &WantedName<'_>, value: Option<&str>) -> bool {
    if parameter.is_empty() {
        return false;
    }
    let end = parameter.iter().position(|byte| *byte == b'=');
    let (name, sent) = end.map_or((parameter, &b""[..]), |end| {
        (&parameter[..end], &parameter[end + 1..])
    });
    wanted.compare_encoded(name) != NameMatch::Other
        && value.is_none_or(|value| may_spell(sent, value))
}

/// Returns whether an origin may decode `sent` to `text`.
fn may_spell(sent: &[u8], text: &str) -> bool {
    let is_ascii = text.is_ascii();
    // Blanks and control characters are cut or written in other ways, `+` is a blank or itself, and beside ASCII others are invisible.
    let is_seen =
        |byte: &u8| byte.is_ascii_graphic() && *byte != b'+' || (*byte >= 0x80 && !is_ascii);
    let mut sent = decoded_bytes(sent, PlusMeaning::Space);
    let mut wanted = text.bytes().filter(|byte| is_seen(byte));
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
