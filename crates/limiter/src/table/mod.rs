//! Holds the counters of one limit: a table of fixed size that many threads charge without a lock.
//!
//! A key has a slot, a tag and one state word a rate, in one of two buckets that its tag names. A known key is found,
//! judged and charged by compare-and-swap (`update`); a refusal writes nothing. A new key takes over a slot that owes
//! nothing (`insert`), so there is no sweeper; if every slot of both buckets owes, it is counted together with others
//! in the buckets' overflow words (`overflow`), or refused where its payer has taken its share (`share`).
//!
//! # Invariants
//! 1. *A key has at most one slot.* Claims for a key happen under the lock of its first bucket, after a search of both
//!    buckets that waits out every slot that is changing hands.
//! 2. *A state never comes back under another key.* A slot is claimed only when each word owes nothing. Words of windows
//!    owe by time, whatever was undone, and the words that a claim writes begin later: their stamps or starts grow and
//!    never go back. Words of a debt owe by what is left, which an undo lowers: they carry a generation that grows with
//!    each undo and each claim (`RateAt::follow`). So a compare-and-swap whose expected word was read under a tag can only
//!    succeed under that tag: no ABA. (Stamps repeat after 194 days and more, generations after 511 undos and claims: a
//!    thread would have to sleep between two of its instructions for as long.)
//! 3. *The first state word is the arbiter.* A charge writes the words 0 to K−1 in order and so does a claim. The
//!    first to change word 0 has the slot: if the claim loses, it puts the tag back and has written nothing; if the
//!    charge loses, it looks its key up again. A claim that takes too long loses after all: the slot goes back to the
//!    key it came from, which then counts what the claim wrote (`lock`).
//! 4. *A charged slot stays while its charge counts.* Once a charge has written word 0, the slot owes for as long as that
//!    word counts it. Should the thread sleep longer than that between two words and the slot go to another key meanwhile,
//!    it sees the other tag and starts over: what it charged has expired. An undo looks at the tag before each word.
//! 5. *Overflow never under-counts.* A new key without a slot adds its cost to both its buckets' words, so each counts
//!    at least what the key used, and its tag to a filter (`overflow_filter`); a slot that it gets later begins with the
//!    smaller of the two. Keys that are not in the filter used nothing there, and begin with nothing.
//! 6. *What changes hands is resolved soon.* Between setting the busy bit and clearing it a claim waits for nothing, and
//!    should its process be killed there, a thread that waits for the slot gives it back.
//!
//! # Concurrency
//! Known keys are lock-free: a compare-and-swap fails only because another thread's succeeded. New keys of one bucket
//! take turns, for a few cache lines' time, and the turn of one that does not end is taken away (`lock`). Reading a slot
//! is tag, words, tag again: the words belong to the tag if both readings agree and are not busy, for a claim sets the
//! busy bit before it writes a word (the readers' Acquire on words pairs with the claim's writes of them). Writes are
//! SeqCst where a successor must see them or be told of them; `limit::edit` has that argument. On x86 this costs nothing
//! on top.

mod insert;
mod key_ages;
pub(crate) mod layout;
mod lock;
pub(crate) mod migrate;
mod overflow;
pub(crate) mod overflow_filter;
mod overflow_period;
mod peaks;
#[cfg(any(test, feature = "mmap"))]
mod recover;
pub(crate) mod single_word;
pub(crate) mod slot_weight;
pub(crate) mod stats;
pub(crate) mod tag;
mod update;

use crate::algorithm::{RateAt, RateCharge, Word};
use crate::capacity::Capacity;
use crate::cost::Cost;
use crate::key::KeyHash;
use crate::rate::MAX_RATES;
#[cfg(feature = "mmap")]
use crate::region::Region;
use crate::share::PayerAccount;
use crate::status::{KeyPlacement, RefusingRates};
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

use insert::AbsentKey;
pub use key_ages::KeyAges;
use layout::{Bucket, TableMemory};
use overflow_filter::OverflowFilter;
pub use overflow_period::OverflowPeriod;
pub use peaks::KeyPeak;
use stats::StatCounters;
pub use stats::{Occupancy, TableStats};
use tag::Tag;
pub(crate) use update::{SlotView, WordUpdate};

/// The counters of a limit with K rates.
pub(crate) struct Table<const K: usize> {
    memory: TableMemory<K>,
    counts: StatCounters,
}

/// The state of a key, and the counter that it was read from.
#[derive(Clone, Copy)]
pub(crate) enum KeyState<const K: usize> {
    /// The words of its own slot; or of one that it would get, with nothing used.
    Own([Word; K]),
    /// The overflow words of its buckets, of which the smaller counts; or the words that it would begin with in a
    /// slot.
    Shared([[Word; 2]; K], KeyPlacement),
    /// Nowhere: its payer has taken its share.
    OverShare,
}

/// The place of a charge.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SlotRef {
    /// A slot.
    Slot { bucket: usize, slot: usize },
    /// The overflow words of these buckets.
    Overflow([usize; 2]),
}

impl SlotRef {
    /// The placement of a key that is counted there.
    #[inline(always)]
    pub(crate) fn placement(self) -> KeyPlacement {
        match self {
            Self::Slot { .. } => KeyPlacement::OwnSlot,
            Self::Overflow(_) => KeyPlacement::Overflow,
        }
    }
}

/// The words after a charge, one row a rate; the second of a row is the second overflow word.
#[derive(Clone, Copy)]
pub(crate) struct MadeCharge<const K: usize> {
    pub(crate) left: [[Word; 2]; K],
    pub(crate) at: Timestamp,
}

impl<const K: usize> MadeCharge<K> {
    fn charge(&self, left: Word, cost: Cost) -> RateCharge {
        RateCharge {
            cost,
            left,
            made: self.at,
        }
    }
}

/// The place where a key may live.
#[derive(Clone, Copy)]
pub(crate) struct KeyAddress {
    tag: Tag,
    candidate_buckets: [usize; 2],
}

/// The result of a charge.
pub(crate) enum ChargeOutcome<const K: usize> {
    /// Made; the state includes it.
    Admitted(KeyState<K>, SlotRef),
    /// Not made, and nothing written.
    Refused(KeyState<K>),
}

impl<const K: usize> KeyState<K> {
    /// The counter of the key.
    #[inline(always)]
    pub(crate) fn placement(&self) -> KeyPlacement {
        match self {
            Self::Own(_) => KeyPlacement::OwnSlot,
            Self::Shared(_, placement) => *placement,
            Self::OverShare => KeyPlacement::OverShare,
        }
    }

    /// The words, one row a rate and behind the last rate nothing; a slot's word stands twice in its row.
    pub(crate) fn left(&self) -> [[Word; 2]; MAX_RATES] {
        let mut left = [[Word::UNUSED; 2]; MAX_RATES];
        for (rate, row) in left.iter_mut().enumerate().take(K) {
            *row = match self {
                Self::Own(words) => [words[rate]; 2],
                Self::Shared(rows, _) => rows[rate],
                Self::OverShare => *row,
            };
        }
        left
    }
}

/// A change to a key's words.
#[derive(Clone, Copy)]
pub(crate) enum WordChange<'c, const K: usize> {
    /// Take this cost if it fits.
    Charge(Cost),
    /// Take this cost, fit or not.
    ChargeUnchecked(Cost),
    /// Add what these words count.
    Absorb(&'c [Word; K]),
    /// Count what these words count, and nothing else.
    Adopt(&'c [Word; K]),
}

impl<const K: usize> WordChange<'_, K> {
    /// The next word of rate `rate`; `None` when the change is refused.
    #[inline(always)]
    fn apply(&self, rate_at: &RateAt, rate: usize, word: Word) -> Option<Word> {
        match self {
            Self::Charge(cost) => rate_at.charge(word, *cost),
            Self::ChargeUnchecked(_) | Self::Absorb(_) | Self::Adopt(_) => {
                Some(self.charge_unchecked(rate_at, rate, word))
            }
        }
    }

    /// The next word of rate `rate` where several keys share it.
    fn charge_shared(&self, rate_at: &RateAt, rate: usize, word: Word) -> Word {
        match self {
            Self::Charge(cost) | Self::ChargeUnchecked(cost) => rate_at.charge_shared(word, *cost),
            Self::Absorb(words) => rate_at.sum(word, words[rate]),
            // What the others used stays.
            Self::Adopt(words) => rate_at.larger(word, words[rate]),
        }
    }

    /// The next word of rate `rate`, whatever it counts.
    #[inline(always)]
    fn charge_unchecked(&self, rate_at: &RateAt, rate: usize, word: Word) -> Word {
        match self {
            Self::Charge(cost) | Self::ChargeUnchecked(cost) => {
                rate_at.charge_unchecked(word, *cost)
            }
            Self::Absorb(words) => rate_at.sum(word, words[rate]),
            Self::Adopt(words) => rate_at.adopt(word, words[rate]),
        }
    }

    /// The words after the change.
    ///
    /// # Errors
    /// The rates that refuse it.
    #[inline(always)]
    fn apply_all(
        &self,
        rates_at: &[RateAt; K],
        words: &[Word; K],
    ) -> Result<[Word; K], RefusingRates> {
        let mut next = *words;
        let mut refusing = RefusingRates::default();
        for (rate, rate_at) in rates_at.iter().enumerate() {
            match self.apply(rate_at, rate, words[rate]) {
                Some(word) => next[rate] = word,
                None => refusing.add(rate),
            }
        }
        if refusing == RefusingRates::default() {
            Ok(next)
        } else {
            Err(refusing)
        }
    }
}

impl<const K: usize> Table<K> {
    /// A table for `capacity` keys, with a filter of so many words.
    pub(crate) fn new(capacity: Capacity, filter_words: usize, before: TableStats) -> Self {
        Self::with_buckets(Self::buckets_for(capacity), filter_words, before)
    }

    /// A table of `buckets` buckets, at least one, with a filter of so many words.
    pub(crate) fn with_buckets(buckets: usize, filter_words: usize, before: TableStats) -> Self {
        Self {
            memory: TableMemory::new(buckets, filter_words),
            counts: StatCounters::new(before),
        }
    }

    /// The table that lies in `region`, which has [`bucket_words_for`](Self::bucket_words_for) words and the filter's.
    #[cfg(feature = "mmap")]
    pub(crate) fn within(region: Region, filter_words: usize, before: TableStats) -> Self {
        Self {
            memory: TableMemory::within(region, filter_words),
            counts: StatCounters::new(before),
        }
    }

    /// Words of the buckets for `capacity` keys.
    #[cfg(feature = "mmap")]
    pub(crate) fn bucket_words_for(capacity: Capacity) -> usize {
        TableMemory::<K>::words_of(Self::buckets_for(capacity))
    }

    fn buckets_for(capacity: Capacity) -> usize {
        // A capacity has at most 2^30 keys; where that does not fit the address space, the allocation fails and says so.
        usize::try_from(TableMemory::<K>::buckets_for(capacity)).unwrap_or(usize::MAX)
    }

    /// Names the layout of the words: how many rates, and which arrangement of them. Another arrangement, or another hash of keys,
    /// takes another number than 3, so that no file is read as what it is not.
    #[cfg(feature = "mmap")]
    pub(crate) const LAYOUT: u64 = 3 << 8 | K as u64;

    /// Memory of the buckets of a table of this capacity, in bytes.
    pub(crate) fn bucket_bytes_for(capacity: Capacity) -> u64 {
        TableMemory::<K>::bytes_for(capacity)
    }

    /// The filter of the keys that were counted in overflow.
    pub(crate) fn overflow_filter(&self, rates_at: &[RateAt; K]) -> OverflowFilter<'_> {
        OverflowFilter::new(self.memory.filter(), rates_at[K - 1].period())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Computes where `key` may live in this table.
    #[inline]
    pub(crate) fn address(&self, key: KeyHash) -> KeyAddress {
        let tag = Tag::new(key);
        let candidate_buckets = self.memory.candidate_buckets(tag);
        KeyAddress {
            tag,
            candidate_buckets,
        }
    }

    /// Reads the state of `key`, for a request that this account pays for. Writes nothing.
    pub(crate) fn peek(
        &self,
        key: KeyHash,
        rates_at: &[RateAt; K],
        account: Option<PayerAccount<'_>>,
    ) -> KeyState<K> {
        let at = self.address(key);
        // As in `change`.
        loop {
            match self.find(at.tag, at.candidate_buckets) {
                SlotSearch::At(place) => {
                    if let Some(words) = place.read(at.tag) {
                        return KeyState::Own(words);
                    }
                }
                SlotSearch::Nowhere => return self.state_without_slot_for(at, rates_at, account),
                // Waits until it is not.
                SlotSearch::Hidden => _ = self.has_slot(at),
            }
        }
    }

    /// Takes `cost` from what `key` may use, if it fits; `account` pays for a slot.
    pub(crate) fn charge(
        &self,
        key: KeyHash,
        rates_at: &[RateAt; K],
        cost: Cost,
        account: Option<PayerAccount<'_>>,
    ) -> ChargeOutcome<K> {
        match self.charge_known(key, rates_at, cost) {
            Ok((changed, slot_ref)) => changed.at(slot_ref),
            Err(absence) => self.charge_absent(key, absence, rates_at, cost, account),
        }
    }

    /// Charges like [`charge`](Self::charge) a key that has a slot, and returns the slot. Most decisions take this path, so it is compiled
    /// into the caller.
    ///
    /// # Errors
    /// The key has no slot, or none for sure, and nothing is charged.
    #[inline(always)]
    pub(crate) fn charge_known(
        &self,
        key: KeyHash,
        rates_at: &[RateAt; K],
        cost: Cost,
    ) -> Result<(WordUpdate<K>, SlotRef), KeyAbsence> {
        let tag = Tag::new(key);
        let place = match self.find(tag, self.memory.candidate_buckets(tag)) {
            SlotSearch::At(place) => place,
            SlotSearch::Nowhere => return Err(KeyAbsence::Certain),
            SlotSearch::Hidden => return Err(KeyAbsence::Unsure),
        };
        let changed = Self::change_known(place, tag, rates_at, WordChange::Charge(cost));
        let changed = changed.ok_or(KeyAbsence::Unsure)?;
        Ok((changed, place.slot_ref()))
    }

    /// Charges like [`charge`](Self::charge) a key of which [`charge_known`](Self::charge_known) found so little.
    #[inline(never)]
    pub(crate) fn charge_absent(
        &self,
        key: KeyHash,
        absence: KeyAbsence,
        rates_at: &[RateAt; K],
        cost: Cost,
        account: Option<PayerAccount<'_>>,
    ) -> ChargeOutcome<K> {
        let change = WordChange::Charge(cost);
        let inserted = match absence {
            KeyAbsence::Certain => self.change_absent(&AbsentKey {
                at: self.address(key),
                rates_at,
                change,
                account,
            }),
            KeyAbsence::Unsure => None,
        };
        inserted.unwrap_or_else(|| self.change_paid(key, rates_at, change, account))
    }

    /// Makes a change to what `key` used, unless it is refused; no account pays for a slot.
    #[inline]
    pub(crate) fn change(
        &self,
        key: KeyHash,
        rates_at: &[RateAt; K],
        change: WordChange<'_, K>,
    ) -> ChargeOutcome<K> {
        self.change_paid(key, rates_at, change, None)
    }

    /// Makes a change to what `key` used, unless it is refused; `account` pays for a slot.
    #[inline(never)]
    fn change_paid(
        &self,
        key: KeyHash,
        rates_at: &[RateAt; K],
        change: WordChange<'_, K>,
        account: Option<PayerAccount<'_>>,
    ) -> ChargeOutcome<K> {
        let at = self.address(key);
        let new_key = AbsentKey {
            at,
            rates_at,
            change,
            account,
        };
        // Each turn means that another thread claimed this very slot or inserted this very key since the search: the
        // system as a whole went on.
        loop {
            let charged = match self.find(at.tag, at.candidate_buckets) {
                SlotSearch::At(place) => Self::change_known(place, at.tag, rates_at, change)
                    .map(|changed| changed.at(place.slot_ref())),
                SlotSearch::Nowhere => self.change_absent(&new_key),
                SlotSearch::Hidden => self.insert_changed(&new_key),
            };
            if let Some(charged) = charged {
                return charged;
            }
        }
    }

    /// Asks for the line where a search for `key` begins. The search asks for those where one in seven ends.
    #[inline]
    pub(crate) fn prefetch(&self, key: KeyHash) {
        let tag = Tag::new(key);
        let [near, _] = Bucket::<K>::halves(tag);
        self.memory
            .bucket(self.memory.candidate_buckets(tag)[0])
            .ahead(near);
    }

    /// Asks for the lines of both buckets of `key`, and for those of the filter that its insertion reads.
    pub(crate) fn prefetch_insertion(&self, key: KeyHash) {
        let tag = Tag::new(key);
        for index in self.memory.candidate_buckets(tag) {
            let bucket = self.memory.bucket(index);
            for half in Bucket::<K>::halves(tag) {
                bucket.ahead(half);
            }
        }
        OverflowFilter::ahead(self.memory.filter(), tag);
    }

    /// The slot `slot` of the bucket `bucket_index`.
    #[inline(always)]
    fn place(&self, bucket_index: usize, slot: usize) -> SlotPlace<'_, K> {
        SlotPlace {
            bucket: self.memory.bucket(bucket_index),
            bucket_index,
            slot,
        }
    }

    /// Looks for the slot of `tag`.
    #[inline(always)]
    fn find(&self, tag: Tag, candidate_buckets: [usize; 2]) -> SlotSearch<'_, K> {
        let [near, far] = Bucket::<K>::halves(tag);
        let [bucket, other] =
            candidate_buckets.map(|bucket_index| self.memory.bucket(bucket_index));
        let search = bucket.search(near, tag);
        // What the search comes to if it finds nothing, while the first line is on its way.
        bucket.ahead(far);
        other.ahead(near);
        match search.slot {
            Some(slot) => SlotSearch::At(SlotPlace {
                bucket,
                bucket_index: candidate_buckets[0],
                slot,
            }),
            None => match self.find_further(tag, candidate_buckets) {
                FurtherSearch::At { candidate, slot } => SlotSearch::At(
                    self.place(candidate_buckets[usize::from(candidate)], slot.into()),
                ),
                FurtherSearch::Nowhere if search.hides => SlotSearch::Hidden,
                FurtherSearch::Nowhere => SlotSearch::Nowhere,
                FurtherSearch::Hidden => SlotSearch::Hidden,
            },
        }
    }

    /// Looks where one key in seven is, and where new keys are looked for in vain.
    #[inline(never)]
    fn find_further(&self, tag: Tag, candidate_buckets: [usize; 2]) -> FurtherSearch {
        let [near, far] = Bucket::<K>::halves(tag);
        let mut hides = false;
        for (candidate, half) in [(0, far), (1, near), (1, far)] {
            // Both buckets may be one and the same.
            if candidate == 1 && candidate_buckets[0] == candidate_buckets[1] {
                break;
            }
            let search = self
                .memory
                .bucket(candidate_buckets[usize::from(candidate)])
                .search(half, tag);
            if let Some(slot) = search.slot {
                // At most MOST_SLOTS.
                let slot = slot as u8;
                return FurtherSearch::At { candidate, slot };
            }
            hides |= search.hides;
        }
        if hides {
            FurtherSearch::Hidden
        } else {
            FurtherSearch::Nowhere
        }
    }
}

/// The result of the longer part of a search, small enough for a register.
enum FurtherSearch {
    /// In this one of the key's two buckets, in this slot.
    At { candidate: u8, slot: u8 },
    /// Not there.
    Nowhere,
    /// Not there, unless a slot that is changing hands goes back to it.
    Hidden,
}

/// The certainty with which a key that was not found has no slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyAbsence {
    /// It had no slot.
    Certain,
    /// A slot that is changing hands may have been its own, or its slot went to another key meanwhile.
    Unsure,
}

/// The result of a search.
enum SlotSearch<'t, const K: usize> {
    /// The key's slot.
    At(SlotPlace<'t, K>),
    /// The key has no slot.
    Nowhere,
    /// The key has no slot, unless one that is changing hands goes back to it.
    Hidden,
}

/// One slot.
#[derive(Clone, Copy)]
struct SlotPlace<'t, const K: usize> {
    bucket: Bucket<'t, K>,
    bucket_index: usize,
    slot: usize,
}

impl<'t, const K: usize> SlotPlace<'t, K> {
    #[inline(always)]
    fn slot_ref(&self) -> SlotRef {
        SlotRef::Slot {
            bucket: self.bucket_index,
            slot: self.slot,
        }
    }

    #[inline(always)]
    fn tag(&self) -> &'t AtomicU64 {
        self.bucket.tag(self.slot)
    }

    #[inline(always)]
    fn state(&self, rate: usize) -> &'t AtomicU64 {
        self.bucket.state(self.slot, rate)
    }

    /// The words, of any owner.
    #[inline(always)]
    fn words(&self) -> [Word; K] {
        // Acquire: pairs with the writes of a claim, whose busy bit the next load of the tag then sees.
        std::array::from_fn(|rate| Word::from_bits(self.state(rate).load(Ordering::Acquire)))
    }

    /// The words of `tag`; `None` if the slot is not, or not for sure, its own.
    #[inline(always)]
    fn read(&self, tag: Tag) -> Option<[Word; K]> {
        let words = self.words();
        // The caller saw the tag before, so words between two equal tags are the tag's; the load is after them since
        // theirs are Acquire.
        (self.tag().load(Ordering::Acquire) == tag.bits()).then_some(words)
    }
}
