//! Judges one rate by the approximated sliding window, and packs its state into one word.
//!
//! Time is cut into windows of the rate's period P, aligned to the Unix epoch. A word holds what was counted in the
//! current window and in the one before; `e` into the current window the rate has used
//!
//! ```text
//! used = ⌊previous · (P − e) / P⌋ + current      and a cost fits iff  used + cost ≤ count
//! ```
//!
//! so the previous window is taken as evenly spread and fades out as the current one passes. Its fraction of a unit counts
//! as nothing: a request passes as long as the approximated rate has not reached the count before it. Counted as a
//! unit it would refuse every second request of a client that asks once a period under a count of 1
//! (`docs/decisions/0007-fractions-of-a-window-count-as-nothing.md` has the numbers).
//!
//! # The word
//! ```text
//! 63           40 39            20 19             0
//! |   stamp 24   |  previous 20   |   current 20   |
//! ```
//! The stamp is the second of the latest charge, a fact that does not depend on the rate's numbers: an edit of the
//! count keeps the word, and what it says of "previous" and "current" follows from the stamp and the period by index,
//! never by time since the last request. It counts 1 to 2^24 − 1 and around again (194 days), so the word of a charge
//! is never 0, and 0 says "never used".
//!
//! # Guarantee and error
//! *Aligned windows are exact.* `current` never exceeds the count, since `cost` fits only if `current + cost ≤ count`.
//! *Any window of length P* ending `e` into a window covers its last `P − e` of the previous one: it holds at most
//! `previous + current`, where the latest charge had `⌊previous · (P − e)/P⌋ + current ≤ count`. With `previous = count`,
//! all of it at the very end of its window, that allows `current = ⌈count · e/P⌉`, so at most `count + ⌈count · e/P⌉` in
//! the span: up to 2 · count, in the last `P / count` of the window. That is reached only by a client that times its bursts
//! to window ends. GCRA has the same bound; only an exact log has none.
//!
//! *A client that leaves `P / count` and 1 ms between requests is never refused.* Of such requests, m came before in this window
//! and k ≤ count in the previous one. Let c = count and x = e/P. From m · P/c < e (m > 0) follows m < c·x, so
//! m ≤ ⌈c·x⌉ − 1, and ⌊k·(1 − x)⌋ ≤ c − ⌈c·x⌉: together with the request itself at most c. With m = 0 and x > 0 the same
//! holds; with m = 0 and x = 0, c earlier requests and this one would span more than P, so k ≤ c − 1. The millisecond pays
//! for rounding e down.
//!
//! *A client that asks all the time gets `count` in every window:* in its last `P / count` the previous one weighs nothing.
//!
//! # Limits
//! Counts saturate at 2^20 − 1. With P ≤ 31 days < 2^32 ms, `previous · P` and `count · P` stay below 2^52 and their
//! sum below 2^54: no product overflows 64 bits. Elapsed milliseconds are rounded down, which errs towards refusing by
//! less than 1 ms.
//!
//! A stamp up to one day ahead of now is taken as a clock that stepped back (or a thread with an older reading): the
//! word is judged in its own window, nothing of which has elapsed. Everything else is past. So a clock that steps back
//! by more than a day forgets, and a word that was not touched for 193 to 194 days reads as one from the coming day; the
//! key it stands for may be refused for that day, which is the price of 24 bits.

use std::time::Duration;

use super::word::{RateCharge, Word};
use crate::cost::Cost;
use crate::rate::{MAX_COUNT, Rate};
use crate::status::{NEVER, RateStatus};
use crate::time::Timestamp;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MILLI: i64 = 1_000_000;
const MILLIS_PER_SECOND: u64 = 1_000;

const COUNT_BITS: u32 = 20;
const COUNT_MASK: u64 = MAX_COUNT as u64;
/// Stamps go round after this many seconds: 2^24 − 1, so that 0 is no stamp.
const STAMPS: i64 = (1 << 24) - 1;
/// Seconds by which a stamp may lie ahead of now before it is read as one from the round before: one day.
const MOST_AHEAD: i64 = 24 * 60 * 60;

const _: () = assert!(MAX_COUNT == (1 << COUNT_BITS) - 1);
const _: () = assert!(
    2 * (crate::rate::MAX_PERIOD as i64) < STAMPS - MOST_AHEAD,
    "what still owes is never taken as ahead"
);

/// The fields of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WindowSnapshot {
    /// 1 + (second of the latest charge mod [`STAMPS`]).
    stamp: u32,
    /// Counted in the window before the stamp's.
    previous: u32,
    /// Counted in the stamp's window.
    current: u32,
}

impl Word {
    #[inline(always)]
    fn snapshot(self) -> Option<WindowSnapshot> {
        let field = |shift: u32| ((self.bits() >> shift) & COUNT_MASK) as u32;
        (self != Self::UNUSED).then(|| WindowSnapshot {
            stamp: (self.bits() >> (2 * COUNT_BITS)) as u32,
            previous: field(COUNT_BITS),
            current: field(0),
        })
    }

    /// The word of a key that was charged last in this second of the epoch; counts beyond what a word holds are as much as it
    /// holds.
    pub(crate) fn sliding(second: u64, previous: u32, current: u32) -> Self {
        // Only the remainder matters.
        Self::pack(stamp_of((second % STAMPS as u64) as i64), previous, current)
    }

    #[inline(always)]
    fn pack(stamp: u32, previous: u32, current: u32) -> Self {
        let count = |count: u32| u64::from(count.min(MAX_COUNT));
        let stamp = u64::from(stamp) << (2 * COUNT_BITS);
        Self::from_bits(stamp | count(previous) << COUNT_BITS | count(current))
    }
}

/// A word as a moment sees it.
#[derive(Clone, Copy, Debug)]
struct WindowPair {
    /// Start of the window it is judged in, in seconds since the epoch.
    start: i64,
    previous: u32,
    current: u32,
    /// Nanoseconds from the window's start to now; negative when the window is ahead of now.
    into: i64,
    /// The stamp of now, or that of the word where it is later: stamps never go back.
    stamp: u32,
}

impl WindowPair {
    /// Milliseconds of the window that have passed, rounded down.
    #[inline(always)]
    fn elapsed(&self) -> u64 {
        (self.into.max(0) / NANOS_PER_MILLI) as u64
    }

    /// The word of this window with `cost` more.
    #[inline(always)]
    fn charged(&self, cost: Cost) -> Word {
        Word::pack(
            self.stamp,
            self.previous,
            self.current.saturating_add(cost.get()),
        )
    }
}

/// A rate, and what makes dividing by its period a multiplication.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlidingRate {
    rate: Rate,
    /// ⌈2^63 / period in seconds⌉.
    inverse: u64,
}

impl SlidingRate {
    pub(crate) const fn new(rate: Rate) -> Self {
        Self {
            rate,
            inverse: (1_u64 << 63).div_ceil(rate.period().as_secs() as u64),
        }
    }

    /// The index of the window that a second lies in.
    ///
    /// Exact: with inverse = (2^63 + r) / period and r < period, the product is second / period plus
    /// second · r / (2^63 · period); that is less than 1 / period, since second < 2^35 and r < 2^22.
    #[inline(always)]
    fn index(&self, second: u64) -> u64 {
        // Twice the product, of which the upper half is one register: a shift by 63 would join two, which takes some processors long.
        ((u128::from(2 * second) * u128::from(self.inverse)) >> 64) as u64
    }

    /// The rate at a moment.
    #[inline(always)]
    pub(crate) fn at(self, now: Timestamp) -> SlidingAt {
        // A u64 of nanoseconds holds 2^35 seconds, a window's start is not after now, and 31 days fit 2^52 ns: no cast
        // here cuts.
        let second = now.as_secs();
        let start = self.index(second) * u64::from(self.rate.period().as_secs());
        let into = now.as_nanos() - start * NANOS_PER_SECOND;
        SlidingAt {
            rate: self.rate,
            second: second as i64,
            start: start as i64,
            into: into as i64,
            stamp: stamp_of(second as i64),
        }
    }
}

/// A rate at a moment: what all judgements of one decision about this rate share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlidingAt {
    rate: Rate,
    /// Now, in whole seconds since the epoch.
    second: i64,
    /// Start of the window that now is in, in seconds since the epoch.
    start: i64,
    /// Nanoseconds from that start to now.
    into: i64,
    /// The stamp of a charge made now.
    stamp: u32,
}

/// The stamp of a second.
#[inline]
fn stamp_of(second: i64) -> u32 {
    // Below 2^24.
    1 + second.rem_euclid(STAMPS) as u32
}

impl SlidingAt {
    /// The moment.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.start as u64 * NANOS_PER_SECOND + self.into as u64)
    }

    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// Start of the window that the moment is in, in seconds since the epoch.
    pub(crate) fn start(&self) -> i64 {
        self.start
    }

    fn period_secs(&self) -> i64 {
        i64::from(self.rate.period().as_secs())
    }

    fn period_millis(&self) -> u64 {
        u64::from(self.rate.period().as_secs()) * MILLIS_PER_SECOND
    }

    fn count(&self) -> u32 {
        self.rate.count()
    }

    /// The second that a stamp means, seen from now: at most [`MOST_AHEAD`] ahead, otherwise past.
    #[inline(always)]
    fn second_of(&self, stamp: u32) -> i64 {
        let behind = match i64::from(self.stamp) - i64::from(stamp) {
            negative if negative < 0 => negative + STAMPS,
            behind => behind,
        };
        let ahead = STAMPS - behind;
        if behind != 0 && ahead <= MOST_AHEAD {
            self.second + ahead
        } else {
            self.second - behind
        }
    }

    /// Start of the window that a second lies in.
    fn start_of(&self, second: i64) -> i64 {
        second - second.rem_euclid(self.period_secs())
    }

    #[inline(always)]
    fn window(&self, word: Word) -> WindowPair {
        let mut window = WindowPair {
            start: self.start,
            previous: 0,
            current: 0,
            into: self.into,
            stamp: self.stamp,
        };
        let Some(WindowSnapshot {
            stamp,
            previous,
            current,
        }) = word.snapshot()
        else {
            return window;
        };
        // Most words of a frequent client: charged in this window, and no round of stamps began since. What is ahead wraps to more
        // than any period.
        let behind = self.stamp.wrapping_sub(stamp);
        if u64::from(behind) <= (self.second - self.start) as u64 {
            (window.previous, window.current) = (previous, current);
            return window;
        }
        let charged = self.second_of(stamp);
        let period = self.period_secs();
        if charged > self.second {
            window.stamp = stamp;
        }
        if charged >= self.start {
            (window.previous, window.current) = (previous, current);
            if charged >= self.start + period {
                window.start = self.start_of(charged);
                window.into -= (window.start - self.start) * NANOS_PER_SECOND as i64;
            }
        } else if charged >= self.start - period {
            window.previous = current;
        }
        window
    }

    /// Returns whether the word may still affect a decision. By time only: a word whose charges were undone owes as
    /// long as any other, so that a state never comes back under another key (invariant 2 of `table`).
    pub(crate) fn owes(&self, word: Word) -> bool {
        word.snapshot().is_some_and(|snapshot| {
            self.second_of(snapshot.stamp) >= self.start - self.period_secs()
        })
    }

    /// Returns whether the latest charge lies more than a window ahead.
    #[cfg(feature = "mmap")]
    pub(crate) fn is_ahead(&self, word: Word) -> bool {
        word.snapshot().is_some_and(|snapshot| {
            self.second_of(snapshot.stamp) > self.second + self.period_secs()
        })
    }

    /// The second of the latest charge.
    pub(crate) fn charged(&self, word: Word) -> Option<Timestamp> {
        let second = self.second_of(word.snapshot()?.stamp);
        u64::try_from(second).ok().map(Timestamp::from_secs)
    }

    /// The amount used, fractions included, times the period in milliseconds.
    #[inline(always)]
    fn used(&self, window: &WindowPair) -> u64 {
        let period = self.period_millis();
        u64::from(window.previous) * (period - window.elapsed())
            + u64::from(window.current) * period
    }

    /// Returns whether `cost` fits now.
    #[inline(always)]
    pub(crate) fn fits(&self, word: Word, cost: Cost) -> bool {
        self.has_room(&self.window(word), cost)
    }

    #[inline(always)]
    fn has_room(&self, window: &WindowPair, cost: Cost) -> bool {
        let taken = u64::from(window.current) + u64::from(cost.get());
        let Some(room) = u64::from(self.count()).checked_sub(taken) else {
            return false;
        };
        // The fraction counts as nothing: ⌊previous · (P − e) / P⌋ ≤ room.
        let period = self.period_millis();
        u64::from(window.previous) * (period - window.elapsed()) < (room + 1) * period
    }

    /// The word after a charge of `cost`, if it fits.
    #[must_use]
    #[inline(always)]
    pub(crate) fn charge(&self, word: Word, cost: Cost) -> Option<Word> {
        let window = self.window(word);
        self.has_room(&window, cost).then(|| window.charged(cost))
    }

    /// The word after a charge of `cost` whether it fits or not; counts saturate.
    #[must_use]
    pub(crate) fn charge_unchecked(&self, word: Word, cost: Cost) -> Word {
        self.window(word).charged(cost)
    }

    /// The word without a charge; `None` when the window that it was made in counts no more.
    #[must_use]
    pub(crate) fn undo(&self, word: Word, charge: RateCharge) -> Option<Word> {
        let window = self.start_of(self.second_of(charge.left.snapshot()?.stamp));
        let WindowSnapshot {
            stamp,
            previous,
            current,
        } = word.snapshot()?;
        let start = self.start_of(self.second_of(stamp));
        if start == window {
            Some(Word::pack(
                stamp,
                previous,
                current.saturating_sub(charge.cost.get()),
            ))
        } else if start - self.period_secs() == window {
            Some(Word::pack(
                stamp,
                previous.saturating_sub(charge.cost.get()),
                current,
            ))
        } else {
            None
        }
    }

    /// The word of a key that has used `used` in the window of now and nothing before.
    #[must_use]
    pub(crate) fn set(&self, word: Word, used: u32) -> Word {
        Word::pack(self.window(word).stamp, 0, used)
    }

    /// Takes a charge back from a word that may have been charged beyond its ceiling: a count at its ceiling may
    /// stand for more, and stays.
    #[must_use]
    pub(crate) fn undo_unchecked(&self, word: Word, charge: RateCharge) -> Option<Word> {
        let before = word.snapshot()?;
        let after = self.undo(word, charge)?.snapshot()?;
        let kept = |before, after| if before == MAX_COUNT { before } else { after };
        Some(Word::pack(
            before.stamp,
            kept(before.previous, after.previous),
            kept(before.current, after.current),
        ))
    }

    /// The one of two words that has used less by now.
    #[must_use]
    pub(crate) fn lighter(&self, [one, other]: [Word; 2]) -> Word {
        if self.used(&self.window(one)) <= self.used(&self.window(other)) {
            one
        } else {
            other
        }
    }

    /// Computes the status of the rate; `refused` is the cost that it did not admit.
    pub(crate) fn status(&self, word: Word, refused: Option<Cost>) -> RateStatus {
        let window = self.window(word);
        let remaining = self.room(&window);
        let next_free = match refused {
            Some(cost) => self.wait(&window, cost.get()),
            None if remaining >= self.count() => Duration::ZERO,
            None => self.wait(&window, remaining + 1),
        };
        RateStatus {
            rate: self.rate,
            remaining,
            next_free,
            reset: self.reset(&window),
        }
    }

    /// Whole units that fit now.
    pub(crate) fn remaining(&self, word: Word) -> u32 {
        self.room(&self.window(word))
    }

    /// `count − current − ⌊previous · (P − e) / P⌋`
    fn room(&self, window: &WindowPair) -> u32 {
        u64::from(self.count()).saturating_sub(self.units(window)) as u32
    }

    /// The amount used, in whole units.
    fn units(&self, window: &WindowPair) -> u64 {
        match window.previous {
            // Most keys ask within one window; a division is what a decision's arithmetic costs.
            0 => u64::from(window.current),
            _ => self.used(window) / self.period_millis(),
        }
    }

    /// Time until `cost` fits.
    ///
    /// In this window it fits from the `e` on where `previous · (P − e) < (room + 1) · P`, with `room = count − current −
    /// cost`. If the room is negative it fits in no part of this window; in the next one `current` is the previous count,
    /// and the current count is zero.
    #[inline(always)]
    fn wait(&self, window: &WindowPair, cost: u32) -> Duration {
        let count = self.count();
        let period = self.period_millis();
        if cost > count {
            return NEVER;
        }
        let fading = |previous: u32, room: u32| match previous {
            0 => 0,
            // The first whole P − e that is too long, at most P + 1 where none is. The product is below 2^53.
            _ => {
                let weighs = ((u64::from(room) + 1) * period).div_ceil(u64::from(previous));
                period + 1 - weighs.min(period + 1)
            }
        };
        let at = match (count - cost).checked_sub(window.current) {
            Some(room) => fading(window.previous, room),
            None => period + fading(window.current, count - cost),
        };
        if at <= window.elapsed() {
            return Duration::ZERO;
        }
        Self::until(at, window)
    }

    /// Time until all of the count is free.
    fn reset(&self, window: &WindowPair) -> Duration {
        match (window.previous, window.current) {
            (0, 0) => Duration::ZERO,
            _ => self.wait(window, self.count()),
        }
    }

    /// The time from now to `millis` after the window's start.
    #[inline(always)]
    fn until(millis: u64, window: &WindowPair) -> Duration {
        let nanos = millis as i64 * NANOS_PER_MILLI - window.into;
        Duration::from_nanos(nanos.max(0) as u64)
    }
}

mod convert;
mod peak;
#[cfg(test)]
mod tests;
