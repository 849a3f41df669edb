//! Owns what is said about requests that lack a part of a key: which limits are asked all the same, and what was missing.
//!
//! A request without gaps pays for none of this: nothing is allocated, and every limit is asked.

use sluicegate_limiter::MAX_ASKS;

use crate::config::rules::{OnMissing, ValueSource};

/// Why a request has no value for a part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
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

impl Why {
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
pub struct Gap {
    /// The limit, in the order of the route.
    pub limit: usize,
    /// What is missing.
    pub source: ValueSource,
    /// Why.
    pub why: Why,
    /// What the limit does about it.
    pub then: OnMissing,
}

/// What the keys of a request lack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// The limits that are asked.
    pub asked: Asked,
    /// In the order of the route's limits; mostly empty.
    pub list: Vec<Gap>,
}

impl Gaps {
    /// The gap for which the request is answered with 400, if any.
    #[must_use]
    pub fn refusing(&self) -> Option<&Gap> {
        self.list.iter().find(|gap| gap.then == OnMissing::Refuse)
    }
}

/// Which limits of a route a verdict is about: all but those that were skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// A bit for each limit that was not asked.
    skipped: u8,
}

// A bit for each limit of a route.
const _: () = assert!(MAX_ASKS <= u8::BITS as usize);

impl Default for Asked {
    fn default() -> Self {
        Self::ALL
    }
}

impl Asked {
    /// Every limit.
    pub const ALL: Self = Self { skipped: 0 };

    /// All but the limit at `index` too.
    pub(super) fn skip(&mut self, index: usize) {
        self.skipped |= 1 << index;
    }

    /// Of what belongs to the limits of the route, what belongs to the decisions of the verdict.
    pub fn of<T>(self, limits: impl Iterator<Item = T> + Clone) -> impl Iterator<Item = T> + Clone {
        limits
            .enumerate()
            .filter(move |(index, _)| self.skipped >> index & 1 == 0)
            .map(|(_, limit)| limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: decisions are told of the limits that they are about. Method: skip the second of three.
    #[test]
    fn a_skipped_limit_has_no_decision() {
        let mut asked = Asked::ALL;
        assert_eq!(asked.of([1, 2, 3].iter()).count(), 3);
        asked.skip(1);
        assert_eq!(asked.of([1, 2, 3].into_iter()).collect::<Vec<_>>(), [1, 3]);
    }
}
