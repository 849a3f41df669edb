//! Owns what is said about requests that lack a part of a key: what was missing, and how they are counted all the same.
//!
//! A request without gaps pays for none of this: nothing is allocated.

use super::key::{KeySubstitute, MissingPart};
use crate::config::rules::{OnMissing, ValueSource};

/// Why a request has no value for a part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingReason {
    /// It is not there.
    Absent,
    /// It is there more than once, with different values: which one the origin would take is anybody's guess.
    Repeated,
    /// It is there, and has not the form that the key asks for.
    Malformed,
    /// The token is not to be believed.
    Unverified,
    /// The body is longer than what is read for keys.
    TooLarge,
    /// The body is of another type than the key names.
    OtherType,
    /// The body is compressed.
    Encoded,
}

impl MissingReason {
    /// The name in the log.
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

    /// Whether the origin finds no value either; a token that is not verified is none for it. Only then may a limit be skipped: a
    /// client that could spoil its value for the gateway alone would walk around the limit.
    #[must_use]
    pub const fn is_absence(self) -> bool {
        matches!(self, Self::Absent | Self::Unverified)
    }
}

/// One limit's key that lacks a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingKey {
    /// The limit, in the order of the route.
    pub limit: usize,
    /// What is missing.
    pub source: ValueSource,
    /// Why.
    pub why: MissingReason,
    /// What the limit does about it.
    pub then: OnMissing,
}

/// What the keys of a request lack, in the order of the route's limits; mostly nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingKeys(pub Vec<MissingKey>);

impl MissingKeys {
    /// The gap for which the request is answered with 400, if any.
    #[must_use]
    pub fn refusing(&self) -> Option<&MissingKey> {
        self.0.iter().find(|gap| gap.then == OnMissing::Refuse)
    }

    /// Notes what the limit at `limit` lacks, and says how the request is counted there; `None` where it is not.
    #[cold]
    pub(super) fn fill(
        &mut self,
        limit: usize,
        on_missing: Option<OnMissing>,
        lack: &MissingPart<'_>,
    ) -> Option<KeySubstitute> {
        // The rules have a choice wherever a part can be absent; without one nothing passes uncounted.
        let then = on_missing.unwrap_or(OnMissing::Shared);
        self.0.push(MissingKey {
            limit,
            source: lack.source.clone(),
            why: lack.why,
            then,
        });
        match then {
            OnMissing::Ip => Some(KeySubstitute::Address),
            OnMissing::Skip if !lack.why.is_absence() => Some(KeySubstitute::None),
            OnMissing::Shared => Some(KeySubstitute::None),
            OnMissing::Refuse | OnMissing::Skip => None,
        }
    }
}
