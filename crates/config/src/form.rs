//! Describes the forms of values for the schema, as noted by the readers of values themselves.
//!
//! A reader notes its form when it is asked to read ([`KeyField::integer`], [`KeyField::duration`], [`KeyField::choice`] and those beside
//! them), so that what an editor offers is what the parser takes. A list of ranges and words beside the parser would be a second truth.
//! Files are read without notes; only [`super::schema`] asks for them.
//!
//! [`KeyField::integer`]: super::field::KeyField::integer
//! [`KeyField::duration`]: super::field::KeyField::duration
//! [`KeyField::choice`]: super::field::KeyField::choice

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use super::{cidr, rates, units};

/// The forms of every key that was read: `limit.NAME.capacity`, `limit.NAME.rates[]`.
pub(super) type KeyConstraints = BTreeMap<String, Vec<ValueConstraint>>;

/// One form of a value. A key may have several, such as a word or a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ValueConstraint {
    /// A whole number.
    Whole(RangeInclusive<u64>),
    /// One of these strings.
    Words(Vec<&'static str>),
    /// `1h30m`
    Duration,
    /// `100MiB`
    Size,
    /// `5 per 10s`
    Rate,
    /// `10.0.0.0/8`
    Block,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ValueKind {
    String,
    Integer,
    Number,
    Boolean,
    Array,
    Object,
}

impl ValueKind {
    /// Its name in a schema.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

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
