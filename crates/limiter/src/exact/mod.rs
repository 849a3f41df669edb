//! Holds the counters of one limit that is exact: each key's latest admissions, one by one.
//!
//! Where the other algorithms keep a count, this one keeps a log of N moments a key, N the largest count of the limit's
//! rates, or one more to make it even, at most [`MAX_ENTRIES`]. All rates are judged by the same log.
//!
//! # Guarantee
//! *In any span of a rate's period, ends `[x, x + P)` or `(x, x + P]`, at most `count` units are admitted, whatever the
//! order in which threads bring their readings of the clock.* A cost is admitted only if the entry with `count − cost`
//! later ones is `P` old. So of any `count + 1` units in the log the last was admitted at least `P` after the moment
//! that the first was entered as, and nothing is entered as earlier than it came. What was given back does not count.
//!
//! *And nothing else is refused*, but for less than 1 ms: entries are rounded up to milliseconds, now is rounded down.
//! *No wait is longer than the period*, as long as the clock goes forward: that 1 ms is left out of it.
//!
//! # Time
//! When the clock steps back, entries are made at the latest moment that the log has seen, so that the log stays in
//! order. The step blocks for as long as it was, at most. What still counted at the latest reading of the clock counts
//! on; what had expired by then may be forgotten, since its slot may have gone to another key, or its log gone on after
//! 37 idle days. Moments of any age are told apart (`control`): there is no idle time after which a key is misread.
//!
//! # Memory
//! | entries N | bytes a slot | bytes a key at full capacity | keys without a slot, of 10^6 at capacity 10^6 |
//! |---|---|---|---|
//! | 1, 2 | 25.6 | 30.5 | 0 |
//! | 5 | 42.7 | 50.8 | 0 |
//! | 20 | 102 | 122 | 0 |
//! | 100 | 444 | 528 | 0 |
//! | 1024 | 4386 | 5230 | 0 |
//!
//! That is `17 + 4.27 N` bytes a slot, N even, and 0.84 keys a slot; `examples/exact.rs` measures it. At 0.88 keys a
//! slot 25 of 10^6 have none. With N = 1024 the default capacity of 262,144 keys takes 1.4 GB: choose it to fit.
//!
//! # Invariants
//! 1. *A key has at most one slot.* A claim for it writes its tag there, and then looks for the tag in all
//!    other slots of both buckets (a SeqCst fence between, on both sides): of two that do so at once one at least sees
//!    the other, and the one with the higher slot gives way (`insert`).
//! 2. *A slot changes hands through its log's control word.* It is taken as it was when the log was seen to owe
//!    nothing; a charge of the old key compares the same word and fails.
//! 3. *Overflow never under-counts.* New keys that find no slot share the log of their first bucket, that alone: one
//!    log decides, and one compare-and-swap charges. (Two logs, of which the emptier decides, would take twice the
//!    entries out of logs that have only N, and could not be charged in one step.) A slot that such a key gets later
//!    begins with all of it; keys that are not in the filter of those that were there (`table::overflow_filter`) begin with
//!    nothing.
//! 4. *Overflow and slot do not miss each other.* A new key charges the overflow log and then looks for its tag; a
//!    claim writes the tag and then reads the filter and the overflow log (fences again). The claim inherits the charge, or the charge
//!    sees the claim, is taken back, and is made again in the slot. If both happen it counts twice: never not at all.
//!
//! # Concurrency
//! A log has many words, so its writer holds it, for the time of two compare-and-swaps and one for each entry. The writer
//! judges first, and takes the log only in the state that it judged. A refusal takes and writes nothing, and does not
//! wait: what a half-written log refuses is refused (`log`, invariant 1). Other writers wait until their backoff is
//! exhausted. Then the holder is presumed dead, as if its process was killed with the log in a file that both had mapped:
//! the log is repaired and goes on. A charge that the holder had not completed does not count; a refund may count until it
//! expires. If the holder resumes after all, it starts over (`log`, invariant 2). The backoff is as long as with the locks
//! of other tables where holders can die, in a file; in memory of this process they cannot, and [`BACKOFF_LIMIT`] outlasts
//! everything that stops a thread. A process that is alone with a file recovers all its logs at once, without waiting
//! (`persist`).

mod change;
mod control;
mod convert;
mod evaluate;
mod inherited_entries;
mod insert;
mod layout;
mod log;
mod migrate;
mod peaks;
#[cfg(any(test, feature = "mmap"))]
mod persist;
mod release;
mod remote;
mod stats;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::capacity::Capacity;
use crate::cost::Cost;
use crate::key::KeyHash;
use crate::rate::Rates;
use crate::share::PayerAccount;
use crate::status::KeyPlacement;
use crate::sync::{BoundedBackoff, Ordering};
use crate::table::TableStats;
use crate::table::overflow_filter::{OverflowFilter, words_for};
use crate::table::stats::StatCounters;
use crate::table::tag::Tag;
use crate::time::Timestamp;

pub use crate::rate::MAX_ENTRIES;
use change::{LogChange, LogUpdate};
use control::ControlWord;
pub use evaluate::ComputedAnswer;
use evaluate::{LogOutcome, LogTime, longest};
use insert::{NewKey, SlotInheritance};
use layout::{LogMemory, LogShape};
use log::Log;
pub use release::{ForgetOutcome, LogReceipt};
pub use stats::LogUsage;

/// Turns of waiting for a log in the hands of another thread of this process, a tenth of a second or more, before the
/// thread is taken for dead.
pub const BACKOFF_LIMIT: u32 = 1 << 18;

/// The counters of an exact limit.
pub struct LogTable {
    memory: LogMemory,
    counts: StatCounters,
    backoff: BoundedBackoff,
}

/// The result of a charge.
#[derive(Debug)]
pub enum LogCharge {
    /// Made; the answer includes it.
    Admitted(ComputedAnswer, LogReceipt),
    /// Not made, and nothing written.
    Refused(ComputedAnswer),
}

/// The shape of logs that these rates need.
fn shape_for(rates: &Rates) -> LogShape {
    LogShape::new(rates.iter().map(|rate| rate.count()).max().unwrap_or(1))
}

impl LogTable {
    /// A table for the keys of a capacity. Counts above [`MAX_ENTRIES`] are judged as that.
    #[must_use]
    pub fn new(capacity: Capacity, rates: &Rates) -> Self {
        Self::with_filter(
            LogMemory::buckets_for(capacity),
            words_for(Some(capacity)),
            rates,
        )
    }

    /// A table of so many buckets: for tests that need keys to collide.
    #[must_use]
    pub fn with_buckets(buckets: usize, rates: &Rates) -> Self {
        Self::with_filter(buckets, words_for(None), rates)
    }

    fn with_filter(buckets: usize, filter_words: usize, rates: &Rates) -> Self {
        Self {
            memory: LogMemory::new(buckets, shape_for(rates), filter_words),
            counts: StatCounters::new(TableStats::default()),
            backoff: BoundedBackoff::with_limit(BACKOFF_LIMIT),
        }
    }

    /// The same table with another limit of the backoff: for tests of what happens when it ends.
    #[must_use]
    pub fn with_backoff_limit(self, backoff: u32) -> Self {
        Self {
            backoff: BoundedBackoff::with_limit(backoff),
            ..self
        }
    }

    /// The same table, going on from these statistics.
    #[must_use]
    pub fn with_stats(self, before: TableStats) -> Self {
        Self {
            counts: StatCounters::new(before),
            ..self
        }
    }

    /// Returns whether the logs are long enough for these rates.
    #[must_use]
    pub fn holds(&self, rates: &Rates) -> bool {
        shape_for(rates).entries() <= self.memory.entries()
    }

    /// Returns whether the logs are long enough for these rates, and not twice as long as they need. If not, an edit
    /// needs a new table.
    #[must_use]
    pub fn suits(&self, rates: &Rates) -> bool {
        let needed = shape_for(rates).entries();
        let entries = self.memory.entries();
        needed <= entries && entries / 2 < needed
    }

    /// Entries of a log of these rates.
    #[must_use]
    pub fn entries_for(rates: &Rates) -> u32 {
        shape_for(rates).entries()
    }

    /// Memory of the logs that a table of this capacity has, in bytes.
    #[must_use]
    pub(crate) fn bucket_bytes_for(capacity: Capacity, rates: &Rates) -> u64 {
        let words = shape_for(rates).words_of(LogMemory::buckets_for(capacity));
        words as u64 * size_of::<u64>() as u64
    }

    /// Memory of the logs and of the filter, fixed when they were made.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// The filter of the keys that were counted in overflow.
    pub(crate) fn overflow_filter(&self, rates: &Rates) -> OverflowFilter<'_> {
        OverflowFilter::new(self.memory.filter(), longest(rates))
    }

    /// Returns the answer that `key` would get for `cost` now. Writes nothing.
    #[must_use]
    pub fn peek(&self, key: KeyHash, rates: &Rates, cost: Cost, now: Timestamp) -> ComputedAnswer {
        self.peek_for(key, rates, cost, now, None)
    }

    /// Peeks like [`peek`](Self::peek), for a request that this account pays for.
    pub(crate) fn peek_for(
        &self,
        key: KeyHash,
        rates: &Rates,
        cost: Cost,
        now: Timestamp,
        account: Option<PayerAccount<'_>>,
    ) -> ComputedAnswer {
        let tag = Tag::new(key);
        let moment = LogTime::new(now);
        let candidate_buckets = self.memory.candidate_buckets(tag);
        let mut backoff = self.backoff;
        // Lock-free: another round means that somebody else wrote this log, or seated or unseated this key.
        loop {
            let slot = self.find(tag, candidate_buckets);
            let log = match slot {
                Some(slot) => self.memory.slot(slot),
                None => self.memory.overflow(candidate_buckets[0]),
            };
            let predicted_placement =
                || self.predicted_placement(tag, candidate_buckets, rates, moment);
            let begins_empty = slot.is_none()
                && !self.was_in_overflow(tag, rates, moment)
                && predicted_placement() == KeyPlacement::OwnSlot;
            let seen = log.control();
            if slot.is_some() && !log.belongs_to(Some(tag)) {
                continue;
            }
            if seen.is_held() {
                wait(log, seen, &mut backoff);
                continue;
            }
            let view = if begins_empty {
                log.view(seen).emptied()
            } else {
                log.view(seen)
            };
            let answer = view.answer(rates, LogOutcome::NotCharged(cost), moment);
            let empty_admits = || view.emptied().fits(rates, cost, moment);
            if log.is(seen) {
                return match slot {
                    Some(_) => answer,
                    None if answer.refusing().is_some() && empty_admits() => {
                        answer.with_placement(KeyPlacement::Overflow)
                    }
                    None if self.is_over_share(tag, candidate_buckets, rates, moment, account) => {
                        ComputedAnswer::over_share(rates)
                    }
                    None => answer.with_placement(predicted_placement()),
                };
            }
        }
    }

    /// Takes `cost` from all rates of `key`, or from none.
    #[must_use]
    pub fn charge(&self, key: KeyHash, rates: &Rates, cost: Cost, now: Timestamp) -> LogCharge {
        self.charge_paid(key, rates, cost, now, None)
    }

    /// Charges like [`charge`](Self::charge); `account` pays for a slot.
    pub(crate) fn charge_paid(
        &self,
        key: KeyHash,
        rates: &Rates,
        cost: Cost,
        now: Timestamp,
        account: Option<PayerAccount<'_>>,
    ) -> LogCharge {
        let change = LogChange::Charge(cost);
        match self.change_paid(
            key,
            rates,
            &change,
            (SlotInheritance::Overflow, account),
            now,
        ) {
            LogUpdate::Refused(answer) => LogCharge::Refused(answer),
            LogUpdate::Made { answer, at } => {
                let receipt = LogReceipt::new(key, at, cost, answer.placement());
                LogCharge::Admitted(answer, receipt)
            }
        }
    }

    /// Takes `cost` whether it fits or not. A log keeps its N latest entries: enough to refuse.
    pub fn charge_unchecked(
        &self,
        key: KeyHash,
        rates: &Rates,
        cost: Cost,
        now: Timestamp,
    ) -> LogReceipt {
        let change = LogChange::ChargeUnchecked(cost);
        let (at, placement) = match self.change(key, rates, &change, SlotInheritance::Overflow, now)
        {
            LogUpdate::Made { answer, at } => (at, answer.placement()),
            // Force is never refused.
            LogUpdate::Refused(answer) => (0, answer.placement()),
        };
        LogReceipt::new(key, at, cost, placement)
    }

    /// Lets `key` have used `used` units by now and nothing before, as far as it has, or gets, a slot of its own; in
    /// overflow it is charged so much.
    pub fn set(&self, key: KeyHash, rates: &Rates, used: Cost, now: Timestamp) -> KeyPlacement {
        match self.change(
            key,
            rates,
            &LogChange::Set(used),
            SlotInheritance::Nothing,
            now,
        ) {
            LogUpdate::Made { answer, .. } | LogUpdate::Refused(answer) => answer.placement(),
        }
    }

    /// Makes a change to what `key` used, unless it is refused; no account pays for a slot.
    fn change(
        &self,
        key: KeyHash,
        rates: &Rates,
        change: &LogChange<'_>,
        inherit: SlotInheritance,
        now: Timestamp,
    ) -> LogUpdate {
        self.change_paid(key, rates, change, (inherit, None), now)
    }

    /// Makes a change to what `key` used, unless it is refused; a new key brings this along, and the account pays for its slot.
    fn change_paid(
        &self,
        key: KeyHash,
        rates: &Rates,
        change: &LogChange<'_>,
        (inherit, account): (SlotInheritance, Option<PayerAccount<'_>>),
        now: Timestamp,
    ) -> LogUpdate {
        let tag = Tag::new(key);
        let moment = LogTime::new(now);
        let candidate_buckets = self.memory.candidate_buckets(tag);
        // Each turn means that another thread took over this very slot or seated this very key since the search.
        loop {
            let applied = match self.find(tag, candidate_buckets) {
                Some(slot) => {
                    self.change_log(self.memory.slot(slot), Some(tag), rates, change, moment)
                }
                None => self.insert_changed(NewKey {
                    tag,
                    candidate_buckets,
                    rates,
                    change,
                    inherit,
                    moment,
                    account,
                }),
            };
            if let Some(applied) = applied {
                return applied;
            }
        }
    }

    /// Asks for the tags among which `key` is looked for.
    #[inline]
    pub fn prefetch(&self, key: KeyHash) {
        let tag = Tag::new(key);
        let candidate_buckets = self.memory.candidate_buckets(tag);
        for bucket_index in candidate_buckets {
            self.memory.ahead(bucket_index, tag);
        }
    }

    /// The slot of `tag`.
    #[inline]
    fn find(&self, tag: Tag, candidate_buckets: [usize; 2]) -> Option<usize> {
        self.find_beside(None, tag, candidate_buckets)
    }

    /// The slot of `tag`, apart from one.
    #[inline]
    fn find_beside(
        &self,
        apart: Option<usize>,
        tag: Tag,
        candidate_buckets: [usize; 2],
    ) -> Option<usize> {
        let tags = self.memory.tags(candidate_buckets, tag);
        // Acquire: pairs with the claim's Release; the fences of invariants 1 and 4 stand before these loads.
        let mut named =
            tags.filter(|(_, word)| log::owner_of(word.load(Ordering::Acquire)) == Some(tag));
        named
            .find(|(slot, _)| Some(*slot) != apart)
            .map(|(slot, _)| slot)
    }
}

/// Waits a turn for a log that was `seen` held by another thread; breaks the hold when the backoff is exhausted.
fn wait(log: Log<'_>, seen: ControlWord, backoff: &mut BoundedBackoff) {
    if backoff.is_exhausted(seen.bits()) {
        log.mend(seen);
    }
}
