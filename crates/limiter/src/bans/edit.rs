//! Edits bans in use without forgetting one, and pardons.
//!
//! Sentences do not depend on the rules, so an edit of the rules alone keeps the table. Another capacity takes another
//! table, filled while requests go on: as in `limit::edit` the old one gets a *successor* first; from then on every ban
//! that begins in the old is also told to the new; then all that the old remembers is copied. Telling and copying may
//! come twice and in any order: of two sentences of a key the later end stays.
//!
//! # Limits
//! A request that still holds the old bans when the new ones are in use does not see what began only there. What a
//! smaller capacity has no room for is forgotten, first of all what is only remembered ([`BanStats::not_kept`]).

use std::sync::{MutexGuard, PoisonError};

use crate::algorithm::Word;
use crate::capacity::Capacity;
use crate::key::KeyHash;
use crate::sync::Ordering;
use crate::table::single_word::{Claimed, Known};
use crate::table::{Table, TableStats};
use crate::time::Timestamp;

use super::ban_state::{Remembering, Sentence};
use super::{ActiveBan, BanRules, Bans, Docket, StrikeOutcome, mark};

impl Bans {
    /// The bans after an edit: those in force go on, and levels are kept.
    ///
    /// A ban goes on to its end, but no longer from now than the new rules make one of its level. Of another capacity a
    /// new table is filled from the old one, which takes about half a second for a million keys and does not hold up
    /// requests. Editing what was replaced edits its replacement.
    #[must_use]
    pub fn edited(&self, rules: BanRules, capacity: Capacity, now: Timestamp) -> Self {
        self.edited_with(rules, capacity, now, |before| {
            Table::new(capacity, 0, before)
        })
    }

    /// Edits like [`edited`](Self::edited), with a table from `make` where a new one is needed.
    pub(super) fn edited_with(
        &self,
        rules: BanRules,
        capacity: Capacity,
        now: Timestamp,
        make: impl FnOnce(TableStats) -> Table<1>,
    ) -> Self {
        // Held until the copy is complete.
        let (latest, _turn) = self.latest();
        if capacity == latest.capacity {
            return Self {
                rules,
                ..latest.clone()
            };
        }
        let table = make(latest.docket.table.stats());
        let next = Self::within(rules, capacity, Docket::new(table));
        let next = latest.docket.successor.get_or_init(|| next).clone();
        // SeqCst: a ban that the copy misses sees the successor. After it is set, so that who sees the flag finds it.
        latest.docket.moved.store(true, Ordering::SeqCst);
        next.docket.counts.add(&latest.docket.counts);
        latest.copy_into(&next, now);
        next
    }

    /// Forgets every ban of `key`: an operator's pardon. What was in force, if anything.
    ///
    /// Waits for an edit of the capacity that is under way, so that its copy brings back nothing.
    pub fn lift(&self, key: KeyHash, now: Timestamp) -> Option<ActiveBan> {
        let (latest, _turn) = self.latest();
        let at = latest.docket.table.address(key);
        let banned = latest.active(key, now);
        let none = Sentence::none(mark(at)).word();
        let _ = latest
            .docket
            .table
            .change_word(at, |word| (word != none).then_some(none));
        banned
    }

    /// The last of those that replace these, or these, and the turn to edit them: nothing replaces them while it is held.
    fn latest(&self) -> (&Self, MutexGuard<'_, ()>) {
        let mut latest = self;
        loop {
            let edits = &latest.docket.edits;
            // The lock guards no data, so a poisoned one is as good.
            let turn = edits.lock().unwrap_or_else(PoisonError::into_inner);
            match latest.docket.successor.get() {
                None => return (latest, turn),
                Some(next) => latest = next,
            }
        }
    }

    /// Handles a strike that found no slot.
    #[cold]
    pub(super) fn not_kept(&self, key: KeyHash, now: Timestamp) -> StrikeOutcome {
        match self.docket.successor() {
            Some(next) => next.strike(key, now),
            None => {
                self.docket.counts.not_kept.fetch_add(1, Ordering::Relaxed);
                StrikeOutcome::NotKept
            }
        }
    }

    /// Tells the successors of a ban that began here; the last of them, where it is counted.
    #[inline]
    pub(super) fn tell_successors(&self, key: KeyHash, word: Word, now: Timestamp) -> &Self {
        let mut from = self;
        while let Some(next) = from.docket.successor() {
            next.adopt(key, word, now);
            from = next;
        }
        from
    }

    fn copy_into(&self, next: &Self, now: Timestamp) {
        let slots = 0..self.docket.table.slots();
        let remembering = [Remembering {
            rules: &self.rules,
            now,
        }];
        // Bans in force first: what is only remembered gives way where there is no room for both.
        for in_force in [ChargeUnchecked::Now, ChargeUnchecked::Before] {
            for slot in slots.clone() {
                let Some((key, [word])) = self.docket.table.occupant(slot, &remembering) else {
                    continue;
                };
                let sentence = Sentence::of(word, mark(self.docket.table.address(key)));
                let standing = sentence.active(&self.rules, now);
                let found = if standing.is_some() {
                    ChargeUnchecked::Now
                } else {
                    ChargeUnchecked::Before
                };
                if found == in_force && sentence.word() == word {
                    next.adopt(key, word, now);
                }
            }
        }
    }

    /// Takes a sentence over from the table before this one.
    fn adopt(&self, key: KeyHash, word: Word, now: Timestamp) {
        let at = self.docket.table.address(key);
        let mark = mark(at);
        // Another round means that another thread seated this key, or had its turn taken away.
        loop {
            // The later end stands at the upper end of the word.
            let later =
                |seen| (Sentence::of(seen, mark).word().bits() < word.bits()).then_some(word);
            match self.docket.table.change_word(at, later) {
                Known::Written(..) | Known::Left(_) => return,
                Known::Nowhere => {}
            }
            match self.seat(at, word, now) {
                Claimed::Seated(..) => return,
                Claimed::Lost(_) => {}
                Claimed::NoRoom => {
                    self.docket.counts.not_kept.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
    }
}

/// Tells a ban in force from one that is only remembered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChargeUnchecked {
    Now,
    Before,
}

impl Docket {
    /// The bans that took over from these.
    fn successor(&self) -> Option<&Bans> {
        // SeqCst: after the compare-and-swap of a strike, which is too; pairs with the store of an edit.
        if self.moved.load(Ordering::SeqCst) {
            self.successor.get()
        } else {
            None
        }
    }
}
