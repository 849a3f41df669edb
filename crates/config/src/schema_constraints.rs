//! Turns the noted forms of a value into the constraints of a schema.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use super::form::ValueConstraint;
use super::{cidr, rates, units};

impl ValueConstraint {
    /// The expression that strings of this form match, of the kind that ECMA-262 and every other dialect reads alike.
    fn pattern(&self) -> Option<String> {
        match self {
            Self::Whole(_) | Self::Words(_) => None,
            Self::Duration => Some(format!("^{}$", units::duration_expression())),
            Self::Size => Some(units::size_expression()),
            Self::Rate => Some(rates::expression()),
            Self::Block => Some(cidr::EXPRESSION.to_owned()),
        }
    }
}

/// Returns the constraints of a schema for a value that has these forms, where it is of one of `types`.
pub(super) fn constraints(forms: &[ValueConstraint], types: &[&'static str]) -> Map<String, Value> {
    let mut says = Map::new();
    let ranges = || {
        forms.iter().filter_map(|form| match form {
            ValueConstraint::Whole(range) => Some(range),
            _ => None,
        })
    };
    // Of two places that read one key, the wider range: a schema must not mark what is right.
    let least = ranges().map(RangeInclusive::start).min();
    let most = ranges().map(RangeInclusive::end).max();
    if let (Some(least), Some(most)) = (least, most) {
        says.insert("minimum".to_owned(), json!(least));
        says.insert("maximum".to_owned(), json!(most));
    }
    let words: Vec<&str> = forms
        .iter()
        .filter_map(|form| match form {
            ValueConstraint::Words(words) => Some(words.as_slice()),
            _ => None,
        })
        .flatten()
        .copied()
        .collect();
    let patterns: Vec<String> = forms.iter().filter_map(ValueConstraint::pattern).collect();
    let others: Vec<&str> = types
        .iter()
        .filter(|kind| **kind != "string")
        .copied()
        .collect();
    match (&*words, &*patterns) {
        ([], [pattern]) => {
            says.insert("pattern".to_owned(), json!(pattern));
        }
        ([_, ..], []) if others.is_empty() => {
            says.insert("enum".to_owned(), json!(words));
        }
        ([_, ..], []) => {
            let either = json!([{ "enum": words }, { "type": others }]);
            says.insert("anyOf".to_owned(), either);
        }
        // Nothing is known of the strings, or they have several forms, which is more than an editor needs to hear.
        _ => {}
    }
    says
}
