//! Matches parameters of the query.
//!
//! A condition holds when one of the parameters of its name has its value. Origins differ in how they read a query: `;`
//! separates for some, `+` is a space for most, of two parameters with one name they take the first, the last or both, and some change
//! names and cut values before they look: `+page` is `page` for PHP. A limit must hold whichever reading the origin uses, so every known
//! reading is tried, and one that meets the condition is enough.

use std::borrow::Cow;

use sluicegate_base::form_encoding::{PlusMeaning, decode};
use sluicegate_base::normal_form::trimmed;
use sluicegate_base::parameter_name::{NameMatch, WantedName};

use crate::config::rules::QueryCondition;

/// Conditions that must all hold.
#[derive(Debug)]
pub(super) struct QueryMatch(Box<[QueryCondition]>);

impl QueryMatch {
    pub(super) fn compile(conditions: &[QueryCondition]) -> Self {
        Self(conditions.into())
    }

    pub(super) fn takes(&self, query: &str) -> bool {
        self.0.iter().all(|condition| {
            let wanted = WantedName::new(&condition.name);
            parameters(query).any(|(name, value)| {
                is_taken_for(name, &wanted)
                    && condition
                        .value
                        .as_deref()
                        .is_none_or(|wanted| spells(value, wanted))
            })
        })
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Returns names and values as sent: separated by `&`, again by `&` and `;` where there is one, and again up to a second `?`, at which some
/// end the query.
fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let separated = query.split('&');
    let semicolons = query.contains(';').then(|| query.split(['&', ';']));
    let before_mark = query.split_once('?').map(|(before, _)| before.split('&'));
    separated
        .chain(semicolons.into_iter().flatten())
        .chain(before_mark.into_iter().flatten())
        .map(|piece| piece.split_once('=').unwrap_or((piece, "")))
}

/// Returns whether some origin takes the name for the wanted one.
fn is_taken_for(sent: &str, wanted: &WantedName<'_>) -> bool {
    decodings(sent).any(|name| wanted.compare(&name) != NameMatch::Other)
}

/// Returns whether a common origin decodes `sent` to `text`.
fn spells(sent: &str, text: &str) -> bool {
    decodings(sent).any(|value| value == text.as_bytes() || trimmed(value) == text.as_bytes())
}

/// Returns the bytes that `sent` encodes, with a plus as a space and, where there is one, as itself.
fn decodings(sent: &str) -> impl Iterator<Item = Cow<'_, [u8]>> {
    let kept = sent.contains('+').then_some(PlusMeaning::Kept);
    [Some(PlusMeaning::Space), kept]
        .into_iter()
        .flatten()
        .map(|plus| decode(sent.as_bytes(), plus))
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
            "page=a+b?x=1",
            "x=1;+page=a+b",
            "page=+a+b%00",
        ] {
            assert!(takes("page", Some("a b"), query), "{query}");
            assert!(takes("page", None, query), "{query}");
        }
        assert!(takes("q", Some("1+1"), "q=1+1"));
        assert!(takes("q", Some("1+1"), "q=1%2B1"));
        assert!(takes("q", Some("100%"), "q=100%"));
        assert!(takes("flag", Some(""), "flag"));
        assert!(takes("flag", None, "flag="));
    }

    /// Goal: another parameter or value does not match. Method: near misses.
    #[test]
    fn another_parameter_or_value_does_not_meet_it() {
        for query in [
            "",
            "page",
            "page=A",
            "pages=a",
            "my+page=a",
            "x[page]=a",
            "page=aa",
            "xpage=a",
            "page=%2561",
        ] {
            assert!(!takes("page", Some("a"), query), "{query}");
        }
        assert!(!takes("page", None, "x=page"));
        let both = ["a", "b"].map(|name| QueryCondition {
            name: name.into(),
            value: None,
        });
        assert!(!QueryMatch::compile(&both).takes("a=1"));
        assert!(QueryMatch::compile(&both).takes("a=1&b=1"));
    }
}
