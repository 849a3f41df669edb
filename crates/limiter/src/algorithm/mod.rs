//! Judges a rate, apart from where its state is stored: pure functions over one packed word a rate.
//!
//! One file an algorithm, which states its guarantee and derives it; here they get one face. A [`CompiledRate`] is a rate with
//! its algorithm, a [`RateAt`] is a meter at a moment, a [`Word`] is what a key used. The sliding window is compiled into
//! its caller, the others are calls: it is what most limits use.

mod begun_window;
mod calendar;
mod drain;
mod fixed_window;
mod gcra;
mod key_phase;
mod leaky_bucket;
mod peak;
mod policy;
pub(crate) mod sliding_window;
#[cfg(any(test, feature = "mmap"))]
mod state_id;
mod token_bucket;
mod word;

use std::time::Duration;

use crate::cost::Cost;
use crate::key::KeyHash;
use crate::rate::{Period, Rate};
use crate::status::RateStatus;
use crate::time::Timestamp;

use begun_window::CountsSince;
pub use calendar::{CalendarUnit, CalendarZone, ZoneError};
use fixed_window::WindowGrid;
use key_phase::KeyPhase;
use peak::RatePeak;
pub use policy::{Algorithm, Alignment, Policy, PolicyError, Refill};
pub(crate) use word::{RateCharge, Word};

/// A rate with its algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CompiledRate {
    Sliding(sliding_window::SlidingRate),
    Window(Rate, WindowGrid),
    Interval(Rate, u32),
    Drain(Rate, drain::DrainBounds),
}

/// A rate at a moment: what all judgements of one decision about this rate share.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RateAt {
    Sliding(sliding_window::SlidingAt),
    Window(fixed_window::FixedWindowAt),
    Interval(token_bucket::TokenBucketAt),
    Drain(drain::DrainAt),
}

impl CompiledRate {
    /// The rate at a moment.
    #[inline(always)]
    pub(crate) fn at(self, now: Timestamp) -> RateAt {
        match self {
            Self::Sliding(compiled) => RateAt::Sliding(compiled.at(now)),
            Self::Window(rate, shape) => {
                RateAt::Window(fixed_window::FixedWindowAt::new(rate, shape, now))
            }
            Self::Interval(rate, burst) => {
                RateAt::Interval(token_bucket::TokenBucketAt::new(rate, burst, now))
            }
            Self::Drain(rate, shape) => RateAt::Drain(drain::DrainAt::new(rate, shape, now)),
        }
    }
}

impl CompiledRate {
    /// The meter of the sliding window, if that is its algorithm.
    #[inline(always)]
    pub(crate) fn sliding(&self) -> Option<sliding_window::SlidingRate> {
        match self {
            Self::Sliding(compiled) => Some(*compiled),
            Self::Window(..) | Self::Interval(..) | Self::Drain(..) => None,
        }
    }

    /// Time for which a request must be held back whose charge of `cost` left `word`. Called for every limit, and few
    /// of them queue anything.
    pub(crate) fn delay(&self, now: Timestamp, word: Word, cost: Cost) -> Duration {
        match *self {
            Self::Drain(rate, shape) => drain::DrainAt::new(rate, shape, now).delay(word, cost),
            Self::Sliding(_) | Self::Window(..) | Self::Interval(..) => Duration::ZERO,
        }
    }

    /// Returns whether windows begin at given moments, whenever charges are made.
    pub(crate) fn has_given_windows(self) -> bool {
        self.window_start(Timestamp::default()).is_some()
    }

    /// Returns whether one given window has both moments.
    pub(crate) fn is_in_one_window(self, first: Timestamp, last: Timestamp) -> bool {
        let start = self.window_start(first);
        start.is_some() && start == self.window_start(last)
    }

    /// The start of the window that has this moment; `None` where charges begin windows, or there are none. A window of a calendar is
    /// taken to have no end.
    fn window_start(self, now: Timestamp) -> Option<i64> {
        match self {
            Self::Sliding(compiled) => Some(compiled.at(now).start()),
            Self::Window(_, WindowGrid::First | WindowGrid::Key(None)) => None,
            Self::Window(rate, grid) => {
                Some(fixed_window::FixedWindowAt::new(rate, grid, now).start())
            }
            Self::Interval(..) | Self::Drain(..) => None,
        }
    }

    /// The same rate with the windows of a key, if windows begin by key and no key is named yet.
    pub(crate) fn for_key(self, key: KeyHash) -> Self {
        match self {
            Self::Window(rate, WindowGrid::Key(None)) => {
                Self::Window(rate, WindowGrid::Key(Some(KeyPhase::new(key))))
            }
            other => other,
        }
    }

    /// The same rate in this window, if it follows windows that are given.
    pub(crate) fn in_window(self, shape: WindowGrid) -> Self {
        match self {
            Self::Window(rate, _) => Self::Window(rate, shape),
            other => other,
        }
    }
}

/// Runs `$body` with `$rate_at` bound to the judge inside.
macro_rules! with_rate_at {
    ($any:expr, $rate_at:ident => $body:expr) => {
        match $any {
            RateAt::Sliding($rate_at) => $body,
            RateAt::Window($rate_at) => $body,
            RateAt::Interval($rate_at) => $body,
            RateAt::Drain($rate_at) => $body,
        }
    };
}

impl RateAt {
    /// The moment.
    #[inline(always)]
    pub(crate) fn now(&self) -> Timestamp {
        with_rate_at!(self, rate_at => rate_at.now())
    }

    fn rate(&self) -> Rate {
        with_rate_at!(self, rate_at => rate_at.rate())
    }

    pub(crate) fn period(&self) -> Period {
        self.rate().period()
    }

    /// The word of a key that has just used all that it may use at once.
    pub(crate) fn used_up(&self) -> Word {
        self.set(Word::UNUSED, Cost::new(self.remaining(Word::UNUSED)))
    }

    /// Returns whether `cost` fits now.
    #[inline(always)]
    pub(crate) fn fits(&self, word: Word, cost: Cost) -> bool {
        with_rate_at!(self, rate_at => rate_at.fits(word, cost))
    }

    /// The word after a charge of `cost`, if it fits.
    #[must_use]
    #[inline(always)]
    pub(crate) fn charge(&self, word: Word, cost: Cost) -> Option<Word> {
        with_rate_at!(self, rate_at => rate_at.charge(word, cost))
    }

    /// The word after a charge of `cost` whether it fits or not; counts stop at a ceiling.
    #[must_use]
    pub(crate) fn charge_unchecked(&self, word: Word, cost: Cost) -> Word {
        with_rate_at!(self, rate_at => rate_at.charge_unchecked(word, cost))
    }

    /// Charges a word that several keys share: it counts at least what each of them used.
    #[must_use]
    pub(crate) fn charge_shared(&self, word: Word, cost: Cost) -> Word {
        match self {
            Self::Window(rate_at) => rate_at.charge_shared(word, cost),
            _ => self.charge_unchecked(word, cost),
        }
    }

    /// The word without a charge; `None` when nothing of it counts any more.
    #[must_use]
    pub(crate) fn undo(&self, word: Word, charge: RateCharge) -> Option<Word> {
        with_rate_at!(self, rate_at => rate_at.undo(word, charge))
    }

    /// Takes a charge back from a word that may have been charged beyond its ceiling: a count at its ceiling may
    /// stand for more, and stays.
    #[must_use]
    pub(crate) fn undo_unchecked(&self, word: Word, charge: RateCharge) -> Option<Word> {
        with_rate_at!(self, rate_at => rate_at.undo_unchecked(word, charge))
    }

    /// The word of a key that has used `used` now and nothing else; it goes on owing as long as its windows last.
    #[must_use]
    pub(crate) fn set(&self, word: Word, used: Option<Cost>) -> Word {
        let used = used.map_or(0, Cost::get);
        with_rate_at!(self, rate_at => rate_at.set(word, used))
    }

    /// The word of a key that has used what `told` says and nothing else, in a slot that holds `word`.
    ///
    /// Stamps and starts that could come back under another key do not go back (invariant 2 of `table`): what `told` says is
    /// seen from the later moment of the two. Only windows from a first request begin when they are told to: one that still
    /// lasts is not over before the slot can change hands, and the next owner begins later than this moment. (Where
    /// clocks stepped back, a thread would have to sleep for as long as the step, and the slot to change hands meanwhile.)
    #[must_use]
    pub(crate) fn adopt(&self, word: Word, told: Word) -> Word {
        match self {
            Self::Sliding(rate_at) => rate_at.adopt(word, told),
            Self::Window(rate_at) => rate_at.adopt(word, told),
            Self::Interval(rate_at) => rate_at.adopt(word, told),
            Self::Drain(rate_at) => rate_at.follow(told, word),
        }
    }

    /// `fresh` as the first word of a key in a slot where `before` was the last word of another: it differs from every
    /// word that the slot held, by itself or made to (invariant 2 of `table`).
    #[must_use]
    pub(crate) fn follow(&self, fresh: Word, before: Word) -> Word {
        match self {
            Self::Drain(rate_at) => rate_at.follow(fresh, before),
            _ => fresh,
        }
    }

    /// Returns whether the word may still affect a decision.
    pub(crate) fn owes(&self, word: Word) -> bool {
        with_rate_at!(self, rate_at => rate_at.owes(word))
    }

    /// The word as found in a file: unused if it lies further ahead than a window, which no charge leaves there, and a debt no larger than
    /// unchecked charges make it.
    #[cfg(feature = "mmap")]
    #[must_use]
    pub(crate) fn believed(&self, word: Word) -> Word {
        match self {
            Self::Sliding(rate_at) if rate_at.is_ahead(word) => Word::UNUSED,
            Self::Window(rate_at) if rate_at.is_ahead(word) => Word::UNUSED,
            Self::Interval(rate_at) => rate_at.believed(word),
            Self::Drain(rate_at) => rate_at.believed(word),
            Self::Sliding(_) | Self::Window(_) => word,
        }
    }

    /// Time of the latest charge, to the second; `None` if the word does not hold it. The word of a window holds its
    /// start, that of a debt its end.
    pub(crate) fn charged(&self, word: Word) -> Option<Timestamp> {
        match self {
            Self::Sliding(rate_at) => rate_at.charged(word),
            Self::Window(_) | Self::Interval(_) | Self::Drain(_) => None,
        }
    }

    /// The one of two words that has used less by now.
    #[must_use]
    pub(crate) fn lighter(&self, words: [Word; 2]) -> Word {
        with_rate_at!(self, rate_at => rate_at.lighter(words))
    }

    /// Returns the word that admits `cost` sooner, of two that do not admit it now.
    #[must_use]
    pub(crate) fn sooner(&self, words: [Word; 2], cost: Cost) -> Word {
        let wait = |word| self.status(word, Some(cost)).next_free;
        if wait(words[0]) <= wait(words[1]) {
            words[0]
        } else {
            words[1]
        }
    }

    /// Computes the status of the rate; `refused` is the cost that it did not admit.
    pub(crate) fn status(&self, word: Word, refused: Option<Cost>) -> RateStatus {
        with_rate_at!(self, rate_at => rate_at.status(word, refused))
    }

    /// Whole units that fit now: what [`status`](Self::status) says of them, without the rest.
    pub(crate) fn remaining(&self, word: Word) -> u32 {
        with_rate_at!(self, rate_at => rate_at.remaining(word))
    }

    /// Units used by now, rounded as decisions round them.
    pub(crate) fn used_units(&self, word: Word) -> u64 {
        with_rate_at!(self, rate_at => rate_at.used_units(word))
    }

    /// The largest use that the word proves, whether it still counts or not; `None` if there is none.
    pub(crate) fn peak(&self, word: Word) -> Option<RatePeak> {
        match self {
            Self::Sliding(rate_at) => rate_at.peak(word),
            Self::Window(rate_at) => rate_at.peak(word),
            Self::Interval(rate_at) => rate_at.peak(word),
            Self::Drain(rate_at) => RatePeak::new(rate_at.used_units(word), self.now()),
        }
    }

    /// `word` and `other` together, both words of this rate.
    #[must_use]
    pub(crate) fn sum(&self, word: Word, other: Word) -> Word {
        with_rate_at!(self, rate_at => rate_at.sum(word, other))
    }

    /// A word that counts at least what `word` and what `other` count, both words of this rate.
    #[must_use]
    pub(crate) fn larger(&self, word: Word, other: Word) -> Word {
        with_rate_at!(self, rate_at => rate_at.larger(word, other))
    }

    /// A word of the rate `from`, at the same moment, as one of this rate.
    ///
    /// With the same algorithm and the same period it stays what it is. Else all that `from` still counts is taken as
    /// made now, or in the window of the latest charge: more than the truth for at most two of this rate's periods, or the
    /// time that its burst takes, never less.
    #[must_use]
    pub(crate) fn convert(&self, word: Word, from: &RateAt) -> Word {
        match (self, from) {
            (Self::Sliding(rate_at), Self::Sliding(from)) => rate_at.convert(word, from),
            _ if self.keeps_words_of(from) => word,
            _ => {
                let used = u32::try_from(from.used_units(word)).unwrap_or(u32::MAX);
                Cost::new(used).map_or(Word::UNUSED, |used| {
                    self.charge_unchecked(Word::UNUSED, used)
                })
            }
        }
    }

    /// Returns whether a word of `other` means the same here.
    pub(crate) fn keeps_words_of(&self, other: &RateAt) -> bool {
        let alike = match (self, other) {
            (Self::Window(one), Self::Window(two)) => one.is_aligned_as(two),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        };
        alike && self.period() == other.period()
    }
}
