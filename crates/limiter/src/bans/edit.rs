//! Edits bans in use without forgetting one, and lifts them.
//!
//! Ban states do not depend on the rules, so an edit of the rules alone keeps the table. Another capacity takes another
//! table, filled while requests go on: as in `limit::edit` the old one gets a *successor* first; from then on every ban
//! that begins in the old is also told to the new; then all that the old remembers is copied. Telling and copying may
//! come twice and in any order: of two ban states of a key the later end stays.
//!
//! # Limits
//! A request that still holds the old bans when the new ones are in use does not see what began only there. What a
//! smaller capacity has no room for is forgotten, first of all what is only remembered ([`BanStats::not_kept`](super::BanStats::not_kept)).

use std::sync::{MutexGuard, PoisonError};

use crate::algorithm::Word;
use crate::capacity::Capacity;
use crate::key::KeyHash;
use crate::sync::Ordering;
use crate::table::single_word::{ClaimOutcome, WordOutcome};
use crate::table::{Table, TableStats};
use crate::time::Timestamp;

use super::ban_state::{BanState, BanWeight};
use super::{ActiveBan, BanRules, BanTable, Bans, StrikeOutcome, mark};

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
        let table = make(latest.ban_table.table.stats());
        let next = Self::within(rules, capacity, BanTable::new(table));
        let next = latest.ban_table.successor.get_or_init(|| next).clone();
        // SeqCst: a ban that the copy misses sees the successor. After it is set, so that a thread that sees the flag finds it.
        latest.ban_table.moved.store(true, Ordering::SeqCst);
        next.ban_table.counts.add(&latest.ban_table.counts);
        latest.copy_into(&next, now);
        next
    }

    /// Forgets every ban of `key`: an operator lifts it. Returns the ban that was in force.
    ///
    /// Waits for an edit of the capacity that is under way, so that its copy brings back nothing.
    pub fn lift(&self, key: KeyHash, now: Timestamp) -> Option<ActiveBan> {
        let (latest, _turn) = self.latest();
        let at = latest.ban_table.table.address(key);
        let banned = latest.active(key, now);
        let none = BanState::none(mark(at)).word();
        let _ = latest
            .ban_table
            .table
            .change_word(at, |word| (word != none).then_some(none));
        banned
    }

    /// The last of those that replace these, or these, and the turn to edit them: nothing replaces them while it is held.
    fn latest(&self) -> (&Self, MutexGuard<'_, ()>) {
        let mut latest = self;
        loop {
            let edits = &latest.ban_table.edits;
            // The lock guards no data, so a poisoned one is as good.
            let turn = edits.lock().unwrap_or_else(PoisonError::into_inner);
            match latest.ban_table.successor.get() {
                None => return (latest, turn),
                Some(next) => latest = next,
            }
        }
    }

    /// Handles a strike that found no slot.
    #[cold]
    pub(super) fn not_kept(&self, key: KeyHash, now: Timestamp) -> StrikeOutcome {
        match self.ban_table.successor() {
            Some(next) => next.strike(key, now),
            None => {
                self.ban_table
                    .counts
                    .not_kept
                    .fetch_add(1, Ordering::Relaxed);
                StrikeOutcome::NotKept
            }
        }
    }

    /// Tells the successors of a ban that began here; the last of them, where it is counted.
    #[inline]
    pub(super) fn tell_successors(&self, key: KeyHash, word: Word, now: Timestamp) -> &Self {
        let mut from = self;
        while let Some(next) = from.ban_table.successor() {
            next.adopt(key, word, now);
            from = next;
        }
        from
    }

    fn copy_into(&self, next: &Self, now: Timestamp) {
        let slots = 0..self.ban_table.table.slots();
        let remembering = [BanWeight {
            rules: &self.rules,
            now,
        }];
        // Bans in force first: what is only remembered gives way where there is no room for both.
        for in_force in [BanForce::Now, BanForce::Before] {
            for slot in slots.clone() {
                let Some((key, [word])) = self.ban_table.table.occupant(slot, &remembering) else {
                    continue;
                };
                let ban_state = BanState::from_word(word, mark(self.ban_table.table.address(key)));
                let active = ban_state.active(&self.rules, now);
                let found = if active.is_some() {
                    BanForce::Now
                } else {
                    BanForce::Before
                };
                if found == in_force && ban_state.word() == word {
                    next.adopt(key, word, now);
                }
            }
        }
    }

    /// Takes a ban state over from the table before this one.
    fn adopt(&self, key: KeyHash, word: Word, now: Timestamp) {
        let at = self.ban_table.table.address(key);
        let mark = mark(at);
        // Another round means that another thread seated this key, or had its turn taken away.
        loop {
            // The later end stands at the upper end of the word.
            let later = |seen| {
                (BanState::from_word(seen, mark).word().bits() < word.bits()).then_some(word)
            };
            match self.ban_table.table.change_word(at, later) {
                WordOutcome::Written(..) | WordOutcome::Left(_) => return,
                WordOutcome::Nowhere => {}
            }
            match self.claim_slot(at, word, now) {
                ClaimOutcome::Claimed(..) => return,
                ClaimOutcome::Lost(_) => {}
                ClaimOutcome::NoRoom => {
                    self.ban_table
                        .counts
                        .not_kept
                        .fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
    }
}

/// Tells a ban in force from one that is only remembered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BanForce {
    Now,
    Before,
}

impl BanTable {
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
