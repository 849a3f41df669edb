//! Lists the parts of keys that a request lacks.
//!
//! A request that lacks none allocates nothing.

use sluicegate_config::rules::{OnMissing, ValueSource};

/// The reason why a request has no value for a part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingReason {
    /// The request does not have it.
    Absent,
    /// The request has several, with different values: origins differ in which one they take.
    Repeated,
    /// The value does not have the form that the key requires.
    Malformed,
    /// The token is not verified.
    Unverified,
    /// The body is longer than the prefix that is read for keys.
    TooLarge,
    /// The body has another type than the key names.
    OtherType,
    /// The body is compressed.
    Encoded,
}

impl MissingReason {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::Absent,
        Self::Repeated,
        Self::Malformed,
        Self::Unverified,
        Self::TooLarge,
        Self::OtherType,
        Self::Encoded,
    ];

    /// Returns the name in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Repeated => "repeated",
            Self::Malformed => "malformed",
            Self::Unverified => "unverified",
            Self::TooLarge => "too-large",
            Self::OtherType => "other-type",
            Self::Encoded => "encoded",
        }
    }

    /// Returns whether the origin finds no value either; a token that is not verified is none for it. Only then may a limit be
    /// skipped: otherwise a client could spoil its value for the gateway alone and bypass the limit.
    #[must_use]
    pub const fn is_absence(self) -> bool {
        matches!(self, Self::Absent | Self::Unverified)
    }
}

/// A part that one limit's key lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingKey {
    /// The index of the limit on the route.
    pub limit: usize,
    /// The part of the request that would have the value.
    pub source: ValueSource,
    /// The reason.
    pub why: MissingReason,
    /// The rule of the limit for such requests.
    pub then: OnMissing,
}

/// The parts of keys that a request lacks, in the order of the route's limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingKeys(pub Vec<MissingKey>);

impl MissingKeys {
    /// Returns the missing part for which the request is rejected with 400, if any.
    #[must_use]
    pub fn refusing(&self) -> Option<&MissingKey> {
        self.0
            .iter()
            .find(|missing| missing.then == OnMissing::Refuse)
    }
}
