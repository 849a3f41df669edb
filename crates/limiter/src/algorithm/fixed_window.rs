//! Judges by windows that do not slide: a count that starts again when the next window begins.
//!
//! Windows are aligned to the Unix epoch, or to days, weeks or months somewhere (`calendar`), or each key's window starts
//! with its first request, or so much later than a multiple of the period as follows from the key (`key_phase`).
//!
//! # The word
//! The start of the latest charge's window, and what was counted in it (`begun_window`). The start of a slot's word grows
//! whenever it changes hands, and an undo leaves it alone: no word comes back under another key.
//!
//! # Guarantee
//! *No window of the chosen alignment admits more than count.* Any other window of the same length overlaps two of them,
//! so it holds at most 2 · count: a client that sends all of one at its end and all of the next at its beginning gets
//! that. With windows from the first request, two bursts of one count are at least one window apart, but a first request
//! alone, then count − 1 at the end, then count at the next begin still come to 2 · count − 1. With windows by key the guarantee holds
//! for the windows of each key, also where its counts were shared with others: such a word ends no earlier than the key's own window.
//!
//! # Clocks
//! A start up to a day ahead is a clock that stepped back: the word is judged in its own window, which ends when it would
//! have ended. Further back, or after 17 years, it is forgotten.

use std::time::Duration;

use super::begun_window::{BegunWindow, CountsSince, MOST, millis};
use super::key_phase::KeyPhase;
use super::peak::RatePeak;
use super::word::{RateCharge, Word};
use crate::cost::Cost;
use crate::rate::{Period, Rate};
use crate::status::{NEVER, RateStatus};
use crate::terms::{CalendarWindow, WindowStart};
use crate::time::Timestamp;

const NANOS_PER_MILLI: u64 = 1_000_000;
const MILLIS_PER_SECOND: i64 = 1_000;

/// The alignment of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowGrid {
    /// At multiples of the period.
    Epoch,
    /// At a key's first request.
    First,
    /// At an offset in each period that belongs to the key. Where no key is named, a word is judged in its own window, as it is for its
    /// key too, and a window that begins does so now: it ends no earlier than that of any key.
    Key(Option<KeyPhase>),
    /// The window that now is in begins at this second and is so long.
    Span {
        /// Seconds since the epoch; a window's begin may lie before it.
        start: i64,
        /// In seconds.
        length: u32,
    },
}

impl WindowGrid {
    /// The alignment as a store receives it, for windows of a period. A calendar window is sent with its neighbors, by the caller
    /// that knows the calendar.
    pub(crate) fn begins(self, period: Period) -> WindowStart {
        match self {
            Self::Epoch => WindowStart::Epoch,
            Self::First | Self::Key(None) => WindowStart::First,
            Self::Key(Some(phase)) => WindowStart::Key {
                millis: phase.millis(period),
            },
            Self::Span { start, length } => WindowStart::Calendar(
                [CalendarWindow {
                    begin: start,
                    length,
                }; 3],
            ),
        }
    }

    /// The window itself, where it is known.
    pub(crate) fn span(self) -> Option<CalendarWindow> {
        match self {
            Self::Epoch | Self::First | Self::Key(_) => None,
            Self::Span { start, length } => Some(CalendarWindow {
                begin: start,
                length,
            }),
        }
    }
}

/// A rate at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedWindowAt {
    rate: Rate,
    shape: WindowGrid,
    now: Timestamp,
    /// Start of a window that begins now, in milliseconds since the epoch.
    start: i64,
    /// Milliseconds of a window.
    length: i64,
}

impl FixedWindowAt {
    pub(crate) fn new(rate: Rate, shape: WindowGrid, now: Timestamp) -> Self {
        let millis = millis(now);
        let period = i64::from(rate.period().as_secs()) * MILLIS_PER_SECOND;
        let (start, length) = match shape {
            WindowGrid::Epoch => (millis - millis % period, period),
            WindowGrid::First | WindowGrid::Key(None) => (millis, period),
            WindowGrid::Key(Some(phase)) => {
                // Less than a period, which is below 2^32.
                let offset = phase.millis(rate.period()) as i64;
                (millis - (millis - offset).rem_euclid(period), period)
            }
            WindowGrid::Span { start, length } => (
                start * MILLIS_PER_SECOND,
                i64::from(length) * MILLIS_PER_SECOND,
            ),
        };
        Self {
            rate,
            shape,
            now,
            start,
            length,
        }
    }

    /// Returns whether windows of one period begin at the same moments.
    pub(crate) fn is_aligned_as(&self, other: &Self) -> bool {
        std::mem::discriminant(&self.shape) == std::mem::discriminant(&other.shape)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// Start of a window that begins now, in milliseconds since the epoch.
    pub(crate) fn start(&self) -> i64 {
        self.start
    }

    fn counts(&self, start: i64) -> bool {
        match self.shape {
            WindowGrid::First | WindowGrid::Key(_) => millis(self.now) < start + self.length,
            WindowGrid::Epoch | WindowGrid::Span { .. } => start >= self.start,
        }
    }

    /// Returns whether the window of the latest charge begins more than a window ahead.
    #[cfg(feature = "mmap")]
    pub(crate) fn is_ahead(&self, word: Word) -> bool {
        BegunWindow::from_word(word, self.now)
            .is_some_and(|begun| begun.start > millis(self.now) + self.length)
    }

    pub(crate) fn fits(&self, word: Word, cost: Cost) -> bool {
        self.has_room(self.begun(word).count, cost)
    }

    fn has_room(&self, count: u32, cost: Cost) -> bool {
        count.saturating_add(cost.get()) <= self.rate.count()
    }

    pub(crate) fn charge(&self, word: Word, cost: Cost) -> Option<Word> {
        let begun = self.begun(word);
        self.has_room(begun.count, cost)
            .then(|| self.after(begun, cost).word())
    }

    pub(crate) fn charge_unchecked(&self, word: Word, cost: Cost) -> Word {
        self.after(self.begun(word), cost).word()
    }

    /// The window after a charge.
    fn after(&self, begun: BegunWindow, cost: Cost) -> BegunWindow {
        let start = match self.shape {
            // It may have begun elsewhere: shared with other keys, or under another alignment. What the key takes now counts to the end
            // of its own window.
            WindowGrid::Key(_) => begun.start.max(self.start),
            _ => begun.start,
        };
        BegunWindow {
            start,
            ..begun.plus(cost.get())
        }
    }

    /// Charges a word that several keys share. Where each key would have a window of its own, the shared window
    /// begins no earlier than that of the latest charge: it ends no earlier than any of theirs.
    pub(crate) fn charge_shared(&self, word: Word, cost: Cost) -> Word {
        let begun = self.begun(word).plus(cost.get());
        let start = begun.start.max(self.start);
        BegunWindow { start, ..begun }.word()
    }

    pub(crate) fn set(&self, word: Word, used: u32) -> Word {
        let start = self.begun(word).start;
        BegunWindow { start, count: used }.word()
    }

    pub(crate) fn adopt(&self, word: Word, told: Word) -> Word {
        let before = BegunWindow::from_word(word, self.now);
        let begun = BegunWindow::from_word(told, self.now);
        match (before, begun) {
            (None, _) => told,
            (Some(before), Some(begun))
                if begun.start >= before.start
                    || self.shape == WindowGrid::First && self.counts(begun.start) =>
            {
                told
            }
            // The slot may have held a window that others began: its start is another key's, so it does not go back.
            (Some(before), Some(begun))
                if matches!(self.shape, WindowGrid::Key(_)) && self.counts(begun.start) =>
            {
                let start = before.start;
                BegunWindow { start, ..begun }.word()
            }
            (Some(before), _) => BegunWindow { count: 0, ..before }.word(),
        }
    }

    pub(crate) fn undo(&self, word: Word, charge: RateCharge) -> Option<Word> {
        let begun = BegunWindow::from_word(word, self.now)?;
        let made = BegunWindow::from_word(charge.left, self.now)?;
        let count = begun.count.saturating_sub(charge.cost.get());
        (begun.start == made.start && begun.count > 0)
            .then(|| BegunWindow { count, ..begun }.word())
    }

    pub(crate) fn undo_unchecked(&self, word: Word, charge: RateCharge) -> Option<Word> {
        let begun = BegunWindow::from_word(word, self.now)?;
        (begun.count < MOST)
            .then(|| self.undo(word, charge))
            .flatten()
    }

    pub(crate) fn status(&self, word: Word, refused: Option<Cost>) -> RateStatus {
        let BegunWindow { start, count } = self.begun(word);
        let end = match count {
            0 => Duration::ZERO,
            _ => self.until(start + self.length),
        };
        RateStatus {
            rate: self.rate,
            remaining: self.room(count),
            next_free: match refused {
                Some(cost) if cost.get() > self.rate.count() => NEVER,
                _ => end,
            },
            reset: end,
        }
    }

    /// Units that fit now.
    pub(crate) fn remaining(&self, word: Word) -> u32 {
        self.room(self.begun(word).count)
    }

    /// The count of the window of the latest charge, over or not.
    pub(crate) fn peak(&self, word: Word) -> Option<RatePeak> {
        let begun = BegunWindow::from_word(word, self.now)?;
        RatePeak::until(begun.count, begun.start + self.length, self.now)
    }

    /// Units that fit on top of so many.
    fn room(&self, count: u32) -> u32 {
        self.rate.count().saturating_sub(count)
    }

    /// Time until this millisecond.
    fn until(&self, millis: i64) -> Duration {
        let nanos = i128::from(millis) * i128::from(NANOS_PER_MILLI);
        Duration::from_nanos((nanos - i128::from(self.now.as_nanos())).max(0) as u64)
    }
}

impl CountsSince for FixedWindowAt {
    fn begun(&self, word: Word) -> BegunWindow {
        match BegunWindow::from_word(word, self.now) {
            Some(begun) if self.counts(begun.start) => begun,
            _ => BegunWindow {
                start: self.start,
                count: 0,
            },
        }
    }

    fn owes(&self, word: Word) -> bool {
        BegunWindow::from_word(word, self.now).is_some_and(|begun| self.counts(begun.start))
    }
}
