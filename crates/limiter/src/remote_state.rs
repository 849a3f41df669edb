//! Holds what a store says of a key: the fields of each rate's word, or for `exact` as much of a log as an answer needs.
//!
//! Fields are absolute, where words go round: a store has room. Whatever a store says is taken without a panic; what a word
//! cannot hold is brought to what it can.

use arrayvec::ArrayVec;

use crate::cost::Cost;
use crate::rate::MAX_RATES;

/// The state of one rate of one key in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateState {
    /// Nothing was counted.
    Unused,
    /// The state of [`RateTerms::Sliding`](crate::RateTerms::Sliding).
    Sliding {
        /// Unix second of the latest charge.
        second: u64,
        /// Counted in the window before that second's.
        previous: u32,
        /// Counted in that second's window.
        current: u32,
    },
    /// The state of [`RateTerms::Window`](crate::RateTerms::Window): the count of the latest charge's window; and of
    /// [`RateTerms::Interval`](crate::RateTerms::Interval): the tokens missing in the latest charge's period.
    Begun {
        /// Start of that window or period, in milliseconds since the epoch.
        millis: u64,
        /// The count, or the missing tokens.
        count: u32,
    },
    /// The state of [`RateTerms::Drain`](crate::RateTerms::Drain): the moment at which the debt is drained.
    Owing {
        /// In milliseconds since the epoch.
        millis: u64,
        /// And so many ticks of 1/count ms.
        ticks: u32,
        /// Goes on with each undo, 1 to 511.
        generation: u16,
    },
    /// The state of [`RateTerms::Log`](crate::RateTerms::Log).
    Logged {
        /// The latest entry, in milliseconds since the epoch; it may count no more.
        latest: u64,
        /// The entry whose end frees what is waited for: of a rate that refuses what the refused cost waits for, of another
        /// one more unit.
        awaited: Option<LogEntry>,
        /// The oldest entry that counts: it has as many later ones as are used, less one.
        oldest: Option<LogEntry>,
    },
}

/// One unit of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Number of later entries.
    pub age: u32,
    /// Time of admission, in milliseconds since the epoch.
    pub millis: u64,
}

/// The state of one key in a store: one for each rate, in the order of the policy's rates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteState(ArrayVec<RateState, MAX_RATES>);

/// The outcome of an ask in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteOutcome {
    /// The cost was charged; the state is after it.
    Charged(Cost),
    /// The cost was not charged: some rate refuses, here or in another limit of the request.
    NotCharged {
        /// The cost that was not charged.
        cost: Cost,
        /// A bit for each rate of this limit that refuses, the lowest for the first; none if this limit has room.
        refusing: u8,
    },
    /// No cost was given.
    Peeked,
}

impl RemoteState {
    /// Collects the first [`MAX_RATES`] states.
    #[must_use]
    pub fn new(states: impl IntoIterator<Item = RateState>) -> Self {
        Self(states.into_iter().take(MAX_RATES).collect())
    }

    /// The states.
    #[must_use]
    pub fn rates(&self) -> &[RateState] {
        &self.0
    }

    /// The state of a rate; a store that said nothing of it holds nothing.
    pub(crate) fn rate(&self, rate: usize) -> RateState {
        self.0.get(rate).copied().unwrap_or(RateState::Unused)
    }
}
