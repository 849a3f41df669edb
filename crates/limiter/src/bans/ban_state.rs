//! Packs a ban, and what is remembered of those before, into one word; pure functions of rules and time.
//!
//! # The word
//! ```text
//! 63                    19 18     12 11      0
//! | end in ms since 1970 45 | level 7 | mark 12 |
//! ```
//! The level says how many bans in a row; 0 is none. The end is when the latest ends or ended: what is remembered fades from
//! there. 45 bits reach beyond the last moment that a `Timestamp` can tell, so ends never go round.
//!
//! The mark is of the key's hash. A claim that loses its slot after it wrote there must not ban the slot's owner: a
//! word of another mark says nothing of a key. So it does if the claim's process is killed between its two writes, unless
//! the marks agree by chance, 1 of 4096. The mark also tells the words of different keys apart in a slot (invariant 1 of
//! `table::single_word`).
//!
//! # Time
//! An end is the moment of the strike, rounded down to a millisecond, and the length of the ban. One further ahead than
//! the length of its level is there only because the clock stepped back, or because an edit made bans shorter: it is then
//! taken as its length from now, and written so ([`BanState::clamped`]). What is remembered comes back at most as far as
//! the clock steps.

use std::time::Duration;

use crate::algorithm::Word;
use crate::table::slot_weight::SlotWeight;
use crate::time::Timestamp;

use super::ActiveBan;
use super::rules::{BanRules, MAX_LEVEL};

const MARK_BITS: u32 = 12;
const LEVEL_BITS: u32 = 7;
const END_BITS: u32 = 45;
const LAST_END: u64 = (1 << END_BITS) - 1;
const NANOS_PER_MILLI: u64 = 1_000_000;

const _: () = assert!(MARK_BITS + LEVEL_BITS + END_BITS == 64);
const _: () = assert!(MAX_LEVEL < 1 << LEVEL_BITS);
const _: () = assert!(u64::MAX / NANOS_PER_MILLI < LAST_END);

/// Tells the words of keys in one slot apart: 12 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyMark(u16);

impl KeyMark {
    /// The mark of these bits, of which the lowest 12 count.
    pub(super) const fn from_bits(bits: u64) -> Self {
        Self((bits & ((1 << MARK_BITS) - 1)) as u16)
    }
}

/// A ban and what is remembered of those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BanState {
    /// End of the latest ban, in milliseconds since 1970.
    end: u64,
    /// Number of bans in a row.
    level: u8,
    mark: KeyMark,
}

impl BanState {
    /// Reads `word` for a key with this mark.
    pub(super) fn from_word(word: Word, mark: KeyMark) -> Self {
        let ban_state = Self::of_anybody(word);
        if ban_state.mark == mark {
            ban_state
        } else {
            Self::none(mark)
        }
    }

    fn of_anybody(word: Word) -> Self {
        let bits = word.bits();
        Self {
            end: bits >> (LEVEL_BITS + MARK_BITS),
            level: (bits >> MARK_BITS) as u8 & MAX_LEVEL,
            mark: KeyMark::from_bits(bits),
        }
    }

    /// No ban, and none remembered.
    pub(super) const fn none(mark: KeyMark) -> Self {
        Self {
            end: 0,
            level: 0,
            mark,
        }
    }

    #[must_use]
    pub(super) fn word(self) -> Word {
        let level = u64::from(self.level) << MARK_BITS;
        Word::from_bits(self.end << (LEVEL_BITS + MARK_BITS) | level | u64::from(self.mark.0))
    }

    fn is_in_force(self, now: Timestamp) -> bool {
        self.level > 0 && millis(now) < self.end
    }

    /// The ban that is in force, as if its end were [clamped](Self::clamped).
    pub(super) fn active(self, rules: &BanRules, now: Timestamp) -> Option<ActiveBan> {
        if !self.is_in_force(now) {
            return None;
        }
        let ban_state = self.clamped(rules, now).unwrap_or(self);
        let left = Duration::from_millis(ban_state.end)
            .saturating_sub(Duration::from_nanos(now.as_nanos()));
        Some(ActiveBan {
            left,
            level: ban_state.level,
        })
    }

    /// The same with an end that is no further ahead than the ban's length; `None` when that is so already.
    #[must_use]
    pub(super) fn clamped(self, rules: &BanRules, now: Timestamp) -> Option<Self> {
        let end = millis(now) + rules.millis(self.level);
        (self.level > 0 && self.end > end).then_some(Self { end, ..self })
    }

    /// Number of bans in a row that count at `now`: one less for each `max` since the end of the latest.
    pub(super) fn level(self, rules: &BanRules, now: Timestamp) -> u8 {
        let calm = millis(now).saturating_sub(self.end);
        // The longest ban is at least a second.
        let forgotten = calm / rules.max().as_millis().max(1) as u64;
        self.level
            .saturating_sub(u8::try_from(forgotten).unwrap_or(u8::MAX))
    }

    /// The ban state after a strike; `None` when a ban is in force, which stays as it is.
    #[must_use]
    pub(super) fn after_strike(self, rules: &BanRules, now: Timestamp) -> Option<Self> {
        if self.is_in_force(now) {
            return None;
        }
        let level = self.level(rules, now);
        // Never lowered: an edit of the rules keeps levels.
        let level = level.max(rules.top().min(level + 1));
        let end = (millis(now) + rules.millis(level)).min(LAST_END);
        let mark = self.mark;
        Some(Self { end, level, mark })
    }
}

impl BanState {
    /// The ban state of a ban that an operator begins: it lasts `length` from now, at the lowest level whose bans last as long, or the
    /// highest. `None` when that is so already.
    #[must_use]
    pub(super) fn banned_for(
        self,
        rules: &BanRules,
        length: Duration,
        now: Timestamp,
    ) -> Option<Self> {
        let wanted = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let top = rules.top().max(1);
        let fits = |level: &u8| rules.millis(*level) >= wanted;
        let level = (1..=top).find(fits).unwrap_or(top);
        let end = millis(now).saturating_add(wanted.min(rules.millis(level)));
        let begun = Self {
            end: end.min(LAST_END),
            level: level.max(self.level(rules, now)),
            mark: self.mark,
        };
        (begun != self).then_some(begun)
    }
}

/// The rules and the moment by which a word is still needed.
pub(super) struct BanWeight<'r> {
    pub(super) rules: &'r BanRules,
    pub(super) now: Timestamp,
}

impl SlotWeight for BanWeight<'_> {
    /// Holds for any key: a word that a lost claim left behind goes when its time has come.
    fn owes(&self, word: Word) -> bool {
        BanState::of_anybody(word).level(self.rules, self.now) > 0
    }

    /// Zero: new keys without a slot share nothing, since an overflow word holds signposts.
    fn used_units(&self, _signposts: Word) -> u64 {
        0
    }
}

fn millis(now: Timestamp) -> u64 {
    now.as_nanos() / NANOS_PER_MILLI
}

#[cfg(test)]
mod tests;
