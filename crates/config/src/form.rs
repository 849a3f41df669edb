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
