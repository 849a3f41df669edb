//! Owns how many requests of each key are in flight, and lets in as many as may be.
//!
//! [`Permits::take`] gives a [`Permit`] or says how many there are already. The permit is the request's place: it is given
//! back when it is dropped, so a place cannot be lost on any way out of a request. There is no time in this: a permit
//! counts from its taking to its end, and no process leaves any behind, so the table never lies in a file.
//!
//! # Guarantee
//! *A key never holds more than `max` permits,* under any interleaving, as long as `max` is not lowered below what it
//! holds already: a taking is one compare-and-swap from a count that was judged. And no key is refused that holds
//! fewer, as long as the keys with permits fit in `capacity`.
//!
//! # Memory
//! A table as a limit's with one rate: fixed, 30 bytes a key at full capacity. A slot without permits is taken over by the
//! next new key; capacity must hold the keys that have requests in flight *at the same time*.
//!
//! # When it is full
//! When every slot that a new key could use has permits, it takes its permit in the overflow words of both its buckets,
//! which count plain numbers; the smaller decides. It counts at least what the key holds there, maybe others too: so it
//! errs towards refusing, and only there. Unlike a limit's, such a count is not inherited by a slot, since each permit goes
//! back to where it was taken; instead the slot of a key that may hold some says so (`count`), and as long as there are
//! any they count for it.
//!
//! # Concurrency
//! As in `table`. A claim that loses its slot after it wrote there takes its permit back, if need be from under the key
//! that has the slot; till then that key counts one more than it holds.

mod concurrency;
mod count;
mod edit;
mod permit;

use std::cmp::Reverse;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use crate::algorithm::Word;
use crate::capacity::Capacity;
use crate::key::KeyHash;
use crate::status::KeyPlacement;
use crate::sync::{AtomicBool, Ordering};
use crate::table::single_word::{ClaimOutcome, WordOutcome};
use crate::table::{KeyAddress, Occupancy, SlotRef, Table, TableStats};

pub use concurrency::{Concurrency, ConcurrencyError};
use count::{PermitCount, PermitWeight, company};
pub use permit::Permit;

/// Most keys that [`Permits::top`] gives.
const MOST_TOP: usize = 1024;

/// The limit of requests in flight for each key, and those that are.
#[derive(Clone)]
pub struct Permits {
    max: Concurrency,
    counters: Arc<PermitCounters>,
}

/// The permits that were taken in one table, and the tables before and after it.
struct PermitCounters {
    table: Table<1>,
    capacity: Capacity,
    /// Tables from before an edit of the capacity. They live as long as a permit of theirs is held.
    before: Vec<Weak<PermitCounters>>,
    /// Set after `successor` is set. A flag of its own, so that a taking can load it with the ordering that it needs
    /// (`edit`).
    moved: AtomicBool,
    /// Keeps the newer table alive, never the other way round: a late user finds the newest, however many edits came between.
    successor: OnceLock<Arc<PermitCounters>>,
    /// Held by an edit; requests never take it.
    edits: Mutex<()>,
}

/// The permits that count for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Permits: what the key holds, and in overflow maybe what others hold.
    pub permits: u32,
    /// Tells if some of them are counted together with permits of other keys.
    pub placement: KeyPlacement,
}

/// The error of [`Permits::take`]: the key has as many permits as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConcurrencyExceeded {
    /// The requests in flight, at least [`max`](Self::max).
    pub in_flight: InFlight,
    /// The maximum.
    pub max: Concurrency,
}

/// A key with permits, as an operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitHolder {
    /// The bits of the key's hash that the table holds: all but the lowest.
    pub key: KeyHash,
    /// The requests in flight.
    pub in_flight: InFlight,
}

impl InFlight {
    const NONE: Self = Self {
        permits: 0,
        placement: KeyPlacement::OwnSlot,
    };

    fn new(permits: u64, placement: KeyPlacement) -> Self {
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        Self { permits, placement }
    }

    /// Both together.
    fn and(self, other: Self) -> Self {
        Self {
            permits: self.permits.saturating_add(other.permits),
            placement: match (self.placement, other.placement) {
                (KeyPlacement::OwnSlot, KeyPlacement::OwnSlot) => KeyPlacement::OwnSlot,
                _ => KeyPlacement::Overflow,
            },
        }
    }
}

impl Permits {
    /// `max` permits for each key, with memory for `capacity` keys that hold some at the same time. None of it is
    /// allocated later.
    #[must_use]
    pub fn new(max: Concurrency, capacity: Capacity) -> Self {
        Self::within(
            max,
            Table::new(capacity, 0, TableStats::default()),
            capacity,
        )
    }

    /// Permits in so many buckets: for tests that need keys to collide.
    #[doc(hidden)]
    #[must_use]
    pub fn with_buckets(max: Concurrency, buckets: usize) -> Self {
        let capacity = Capacity::new(buckets as u64).unwrap_or_default();
        Self::within(
            max,
            Table::with_buckets(buckets, 0, TableStats::default()),
            capacity,
        )
    }

    fn within(max: Concurrency, table: Table<1>, capacity: Capacity) -> Self {
        let counters = Arc::new(PermitCounters::new(table, capacity, Vec::new()));
        Self { max, counters }
    }

    /// Permits that a key may hold.
    #[must_use]
    pub fn max(&self) -> Concurrency {
        self.max
    }

    /// Keys that may hold permits at the same time without sharing a counter.
    #[must_use]
    pub fn capacity(&self) -> Capacity {
        self.counters.capacity
    }

    /// Memory of the counts, with that of tables from before an edit whose permits are still out.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let counters = &self.counters;
        let before: usize = counters
            .earlier()
            .map(|earlier| earlier.table.bytes())
            .sum();
        counters.table.bytes() + before
    }

    /// Computes [`bytes`](Self::bytes) of a new one before any of it is allocated.
    #[must_use]
    pub fn bytes_for(capacity: Capacity) -> u64 {
        Table::<1>::bucket_bytes_for(capacity)
    }

    /// Takes a permit for `key`. A refusal writes nothing.
    ///
    /// Where a request needs permits of several keys: those that it has are given back when it drops them because another
    /// was refused. Meanwhile they count: a request that races with one that is refused may be refused for it.
    ///
    /// # Errors
    /// As many as may be are in flight.
    #[inline]
    pub fn take(&self, key: KeyHash) -> Result<Permit, ConcurrencyExceeded> {
        let taken = self.counters.take(key, self.max);
        match self.counters.successor() {
            None => taken,
            Some(newer) => {
                // Before the next is taken: a request holds one place.
                drop(taken);
                self.take_newer(newer, key)
            }
        }
    }

    /// Takes a permit like [`take`](Self::take), in the table after an edit.
    #[cold]
    fn take_newer(
        &self,
        mut newer: &Arc<PermitCounters>,
        key: KeyHash,
    ) -> Result<Permit, ConcurrencyExceeded> {
        // As many rounds as there were edits since this handle was made.
        loop {
            let taken = newer.take(key, self.max);
            match newer.successor() {
                None => return taken,
                Some(next) => {
                    drop(taken);
                    newer = next;
                }
            }
        }
    }

    /// Checks if `key` would get a permit now. Writes nothing.
    ///
    /// # Errors
    /// As many as may be are in flight.
    pub fn peek(&self, key: KeyHash) -> Result<(), ConcurrencyExceeded> {
        let in_flight = self.in_flight(key);
        let max = self.max;
        if in_flight.permits < max.get() {
            Ok(())
        } else {
            Err(ConcurrencyExceeded { in_flight, max })
        }
    }

    /// The permits that count for `key` now. Writes nothing.
    #[must_use]
    pub fn in_flight(&self, key: KeyHash) -> InFlight {
        self.newest(|counters| counters.in_flight(key).and(counters.earlier_in_flight(key)))
    }

    /// Estimates the occupancy of the table. Reads up to 131,072 buckets: for a status page, not for a request.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        self.newest(|counters| counters.table.occupancy(&[PermitWeight]))
    }

    /// Statistics of new keys since the beginning, edits included.
    #[must_use]
    pub fn stats(&self) -> TableStats {
        self.newest(|counters| counters.table.stats())
    }

    /// The `n` keys with most in flight, most first; at most 1024. Those without a slot are not told apart, so not among
    /// them. Reads the whole table: for an operator's question.
    #[must_use]
    pub fn top(&self, n: usize) -> Vec<PermitHolder> {
        let n = n.min(MOST_TOP);
        self.newest(|counters| {
            let mut top: Vec<PermitHolder> = Vec::with_capacity(2 * n + 1);
            let keep = |top: &mut Vec<PermitHolder>| {
                top.sort_by_key(|holder| Reverse(holder.in_flight.permits));
                top.truncate(n);
            };
            for key in counters.holders() {
                let in_flight = counters.in_flight(key);
                let in_flight = in_flight.and(counters.earlier_in_flight(key));
                top.push(PermitHolder { key, in_flight });
                // Sorted once for every n: a heap would save nothing beside the reading of the table.
                if top.len() > 2 * n {
                    keep(&mut top);
                }
            }
            keep(&mut top);
            top
        })
    }

    /// Runs `look` on the table that the latest edit made.
    fn newest<T>(&self, look: impl FnOnce(&PermitCounters) -> T) -> T {
        let mut newest = &self.counters;
        while let Some(next) = newest.successor() {
            newest = next;
        }
        look(newest)
    }
}

impl PermitCounters {
    fn new(table: Table<1>, capacity: Capacity, before: Vec<Weak<Self>>) -> Self {
        Self {
            table,
            capacity,
            before,
            moved: AtomicBool::new(false),
            successor: OnceLock::new(),
            edits: Mutex::new(()),
        }
    }

    /// Takes a permit in this table, if the key holds fewer than `max` here and in those before.
    #[inline]
    fn take(
        self: &Arc<Self>,
        key: KeyHash,
        max: Concurrency,
    ) -> Result<Permit, ConcurrencyExceeded> {
        if self.before.is_empty() {
            let slot_ref = self.take_here(key, max.get());
            let full = |in_flight| ConcurrencyExceeded { in_flight, max };
            return slot_ref
                .map(|slot_ref| Permit::new(self, slot_ref))
                .map_err(full);
        }
        self.take_beside_earlier(key, max)
    }

    /// Takes a permit here if `key` holds fewer than `most` here; what it holds otherwise.
    #[inline]
    fn take_here(&self, key: KeyHash, most: u32) -> Result<SlotRef, InFlight> {
        let at = self.table.address(key);
        // Another round means that another thread seated this key, or had its turn taken away.
        loop {
            let one_more = |word| {
                let count = PermitCount::from_word(word);
                let shared = self.shared_by(count, at);
                (count.permits + shared < u64::from(most)).then(|| count.one_more(shared).word())
            };
            match self.table.change_word(at, one_more) {
                WordOutcome::Written(_, slot_ref) => return Ok(slot_ref),
                WordOutcome::Left(word) => return Err(self.told(Some(word), at)),
                WordOutcome::Nowhere => {}
            }
            if let Some(taken) = self.take_as_new_key(at, most) {
                return taken;
            }
        }
    }

    /// Takes a permit like [`take_here`](Self::take_here) for a key without a slot; `None` when it may have one by
    /// now.
    fn take_as_new_key(&self, at: KeyAddress, most: u32) -> Option<Result<SlotRef, InFlight>> {
        if self.shared(at) >= u64::from(most) {
            return Some(self.refuse_new_key(at));
        }
        let turn = self.table.turn(at)?;
        // Read in the turn: what this key holds in overflow was taken in one.
        let shared = self.shared(at);
        if shared >= u64::from(most) {
            return Some(self.refuse_new_key(at));
        }
        let first = |before, _| PermitCount::first(before, shared).word();
        match self.table.claim_word(&turn, at, &PermitWeight, first) {
            ClaimOutcome::Claimed(_, slot_ref) => Some(Ok(slot_ref)),
            ClaimOutcome::Lost(written) => {
                if let Some((mine, slot_ref)) = written {
                    let withdraw = |word| {
                        PermitCount::from_word(word)
                            .withdrawn(mine)
                            .map(PermitCount::word)
                    };
                    self.table.change_word_at(slot_ref, withdraw);
                }
                None
            }
            ClaimOutcome::NoRoom => {
                let slot_ref = Table::overflow_ref(at);
                for word in self.table.words_of(slot_ref) {
                    // AcqRel: the next permit that fits by it sees what was done before it.
                    word.fetch_add(count::ONE, Ordering::AcqRel);
                }
                // Asked after the words were written: a thread that breaks the lock from now on sees them.
                if !turn.is_mine() {
                    self.give_back(slot_ref);
                    return None;
                }
                self.table.counts().admitted_in_overflow();
                Some(Ok(slot_ref))
            }
        }
    }

    fn refuse_new_key(&self, at: KeyAddress) -> Result<SlotRef, InFlight> {
        let in_flight = self.told(None, at);
        if in_flight.placement == KeyPlacement::Overflow {
            self.table.counts().refused(KeyPlacement::Overflow);
        }
        Err(in_flight)
    }

    /// Counts the permits of `key` in this table.
    fn in_flight(&self, key: KeyHash) -> InFlight {
        let at = self.table.address(key);
        self.told(self.table.word_at(at), at)
    }

    /// Counts the permits of a key whose slot has this word, or that has none.
    fn told(&self, word: Option<Word>, at: KeyAddress) -> InFlight {
        match word.map(PermitCount::from_word) {
            Some(count) => {
                let shared = self.shared_by(count, at);
                InFlight::new(count.permits + shared, company(shared))
            }
            None => {
                let shared = self.shared(at);
                let placement = match company(shared) {
                    KeyPlacement::OwnSlot if !self.table.has_room(at, &PermitWeight) => {
                        KeyPlacement::Overflow
                    }
                    placement => placement,
                };
                InFlight::new(shared, placement)
            }
        }
    }

    /// Counts the permits of new keys that count for the key of a slot.
    fn shared_by(&self, count: PermitCount, at: KeyAddress) -> u64 {
        match count.placement {
            KeyPlacement::Overflow => self.shared(at),
            KeyPlacement::OwnSlot | KeyPlacement::OverShare => 0,
        }
    }

    /// Counts the permits that new keys without a slot share, by the word that counts less.
    fn shared(&self, at: KeyAddress) -> u64 {
        let rows = self.table.words_of(Table::overflow_ref(at));
        // Acquire: pairs with the release of a permit that makes room here.
        let row = rows.map(|word| word.load(Ordering::Acquire)).min();
        row.unwrap_or(0)
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_struct("Permits")
            .field("max", &self.max)
            .field("capacity", &self.capacity())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for ConcurrencyExceeded {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let permits = self.in_flight.permits;
        let max = self.max.get();
        write!(into, "{permits} of {max} requests are in flight")
    }
}

impl std::error::Error for ConcurrencyExceeded {}
