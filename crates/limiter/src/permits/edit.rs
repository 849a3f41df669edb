//! Edits permits in use: what is in flight goes on counting.
//!
//! An edit of the number alone keeps the table. Another capacity takes another table, and permits go back to where they
//! were taken; so a key's permits are those of the new table and of the old ones together, as long as these have any. An
//! old table lives as long as a permit of it is held or of one before it: the new one knows it weakly, and neither
//! copies it nor waits. The old one holds the new one, so that a late user finds the newest.
//!
//! # Concurrency
//! A taking in the old table counts there and then looks whether it was replaced; if so, it is given back and made in the
//! new one. A taking in the new table counts there and then looks into the old ones again. Both first write and then look:
//! of two that race one at least sees the other. If that is the taking in the old table, it moves; if it is the one in the
//! new table, it may be refused for a permit that is just moving. They are never let in both beyond the maximum.
//!
//! # Limits
//! At most [`MOST_BEFORE`] older tables are kept in mind. An edit that would make one more keeps the capacity that there
//! is; the next one may change it.

use std::sync::{Arc, PoisonError, Weak};

use crate::capacity::Capacity;
use crate::key::KeyHash;
use crate::sync::{Ordering, fence};
use crate::table::Table;

use super::count::PermitWeight;
use super::{Concurrency, ConcurrencyExceeded, InFlight, Permit, PermitCounters, Permits};

/// Tables of other capacities that a permit from before keeps: each is asked at every taking.
const MOST_BEFORE: usize = 8;

impl Permits {
    /// Edits the permits: requests in flight still count, and permits that were taken before are given back as ever.
    /// Editing permits that were replaced edits their replacement.
    ///
    /// A key that holds more than the new `max` keeps what it holds, and gets nothing until it holds less. Of another
    /// capacity a new table is made, beside the old ones for as long as a permit from before is out. While one from before
    /// eight such edits is out [`capacity`](Self::capacity) stays as it is.
    #[must_use]
    pub fn edited(&self, max: Concurrency, capacity: Capacity) -> Self {
        let mut latest = Arc::clone(&self.counters);
        loop {
            // The lock guards no data, so a poisoned one is as good.
            let turn = latest.edits.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(next) = latest.successor().cloned() {
                drop(turn);
                latest = next;
                continue;
            }
            let mut before: Vec<_> = latest
                .before
                .iter()
                .filter(|old| is_alive(old))
                .cloned()
                .collect();
            if capacity == latest.capacity || before.len() >= MOST_BEFORE {
                drop(turn);
                return Self {
                    max,
                    counters: latest,
                };
            }
            before.push(Arc::downgrade(&latest));
            let table = Table::new(capacity, 0, latest.table.stats());
            let counters = Arc::new(PermitCounters::new(table, capacity, before));
            // No other thread sets it: this is the turn, and it was not set when that began.
            let counters = Arc::clone(latest.successor.get_or_init(|| counters));
            // SeqCst: see above; after the successor is there, so that a thread that sees the flag finds it.
            latest.moved.store(true, Ordering::SeqCst);
            return Self { max, counters };
        }
    }
}

/// Returns whether a permit of a table, or the table itself, is still held.
fn is_alive(old: &Weak<PermitCounters>) -> bool {
    old.strong_count() > 0
}

impl PermitCounters {
    /// The table that took over from this one.
    #[inline]
    pub(super) fn successor(&self) -> Option<&Arc<Self>> {
        // SeqCst: after a taking's compare-and-swap, which is too; pairs with the store of an edit. One load of a line
        // that is written once in its life.
        if self.moved.load(Ordering::SeqCst) {
            self.successor.get()
        } else {
            None
        }
    }

    /// The tables before this one that still have permits.
    pub(super) fn earlier(&self) -> impl Iterator<Item = Arc<Self>> {
        self.before.iter().filter_map(Weak::upgrade)
    }

    /// Counts the permits of `key` in the tables before this one.
    pub(super) fn earlier_in_flight(&self, key: KeyHash) -> InFlight {
        let each = self.earlier().map(|earlier| earlier.in_flight(key));
        each.fold(InFlight::NONE, InFlight::and)
    }

    /// Takes a permit here if the key holds fewer than `max` here and in the tables before.
    #[cold]
    pub(super) fn take_beside_earlier(
        self: &Arc<Self>,
        key: KeyHash,
        max: Concurrency,
    ) -> Result<Permit, ConcurrencyExceeded> {
        let earlier = self.earlier_in_flight(key);
        let room = max.get().saturating_sub(earlier.permits);
        let full = |here: InFlight, earlier| ConcurrencyExceeded {
            in_flight: here.and(earlier),
            max,
        };
        let slot_ref = self
            .take_here(key, room)
            .map_err(|here| full(here, earlier))?;
        let permit = Permit::new(self, slot_ref);
        // SeqCst: puts the taking before the looks into the old tables, in the order that takings there see, too.
        fence(Ordering::SeqCst);
        let here = self.in_flight(key);
        let earlier = self.earlier_in_flight(key);
        if here.and(earlier).permits <= max.get() {
            return Ok(permit);
        }
        drop(permit);
        Err(full(self.in_flight(key), self.earlier_in_flight(key)))
    }

    /// The keys with permits in a slot of this table, or of one before, each once.
    pub(super) fn holders(&self) -> impl Iterator<Item = KeyHash> {
        let here = (0..self.table.slots()).filter_map(|slot| self.holder(slot));
        let before = self
            .earlier()
            .enumerate()
            .flat_map(move |(index, earlier)| {
                let slots = 0..earlier.table.slots();
                slots.filter_map(move |slot| {
                    let key = earlier.holder(slot)?;
                    let elsewhere = |other: &Self| other.has_slot_of(key);
                    let told = elsewhere(self)
                        || self.earlier().take(index).any(|other| elsewhere(&other));
                    (!told).then_some(key)
                })
            });
        here.chain(before)
    }

    fn holder(&self, slot: usize) -> Option<KeyHash> {
        let (key, _) = self.table.occupant(slot, &[PermitWeight])?;
        Some(key)
    }

    /// Returns whether `key` has a slot in this table.
    fn has_slot_of(&self, key: KeyHash) -> bool {
        let word = self.table.word_at(self.table.address(key));
        word.is_some_and(|word| super::PermitCount::from_word(word).permits > 0)
    }
}
