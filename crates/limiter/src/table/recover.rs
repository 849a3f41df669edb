//! Completes the changes that killed processes left in a table that no other process uses.
//!
//! Nothing depends on it: a thread that meets a lock that is held or a slot that is changing hands gives up waiting for it
//! (`lock`). But each of them would cost a request half a millisecond, and the process that opens a file can do it at once.
//!
//! # What a process leaves when it is killed
//! | between | is left | which counts |
//! |---|---|---|
//! | taking and freeing a bucket's lock | the lock, held | nothing |
//! | a claim's busy bit and its new tag | the old name with the bit, some of the new key's words | the old key, too much till it is past |
//! | two words of a charge or of an undo | the first words charged | for a request that was never answered |
//! | two words of the overflow | one row charged | nothing: the other row counts |
//!
//! So a live key's count is never too small. After a loss of power words may be of different ages; each is a state that
//! some moment knew, and no pattern of words makes a table panic or wait for ever.

#[cfg(any(feature = "mmap", all(test, not(loom))))]
use crate::algorithm::RateAt;
#[cfg(feature = "mmap")]
use crate::algorithm::Word;
use crate::sync::{AtomicU64, Ordering};

#[cfg(all(test, not(loom)))]
use crate::key::KeyHash;

use super::Table;
use super::layout::Bucket;
use super::lock::{HELD, give_back};
use super::tag::SlotOwner;
#[cfg(all(test, not(loom)))]
use super::tag::Tag;

impl<const K: usize> Table<K> {
    /// Frees every lock and gives back every slot that is changing hands in the words of a table. For who is alone with
    /// them.
    pub(crate) fn heal(words: &[AtomicU64]) {
        for bucket in Bucket::<K>::all(words) {
            // Relaxed, here and below: no other process uses the words.
            bucket.lock().fetch_and(!HELD, Ordering::Relaxed);
            for slot in 0..Bucket::<K>::SLOTS {
                let tag = bucket.tag(slot);
                let bits = tag.load(Ordering::Relaxed);
                if SlotOwner::from_bits(bits) == SlotOwner::Changing {
                    give_back(tag, bits);
                }
            }
        }
    }
}

#[cfg(feature = "mmap")]
impl<const K: usize> Table<K> {
    /// Drops what lies further ahead than a charge could have left it, as in a damaged file; how many keys and overflow words that
    /// concerned. The caller must be alone with the words.
    pub(crate) fn drop_ahead(words: &[AtomicU64], rates_at: &[RateAt; K]) -> u64 {
        // Relaxed: no other process uses the words.
        let believe = |rate: usize, word: &AtomicU64| {
            let found = Word::from_bits(word.load(Ordering::Relaxed));
            let believed = rates_at[rate].believed(found);
            word.store(believed.bits(), Ordering::Relaxed);
            u64::from(believed != found)
        };
        let mut dropped = 0;
        for bucket in Bucket::<K>::all(words) {
            dropped += (0..K)
                .map(|rate| believe(rate, bucket.overflow(rate)))
                .sum::<u64>();
            for slot in 0..Bucket::<K>::SLOTS {
                let changed: u64 = (0..K)
                    .map(|rate| believe(rate, bucket.state(slot, rate)))
                    .sum();
                dropped += changed.min(1);
            }
        }
        dropped
    }
}

#[cfg(all(test, not(loom)))]
impl<const K: usize> Table<K> {
    /// Overwrites all words with any bits; the first slot of each bucket belongs to one of `keys` then.
    pub(crate) fn scrawl(&self, bits: &mut impl Iterator<Item = u64>, keys: &[KeyHash]) {
        for (word, bits) in self.memory.words().iter().zip(bits) {
            word.store(bits, Ordering::Relaxed);
        }
        for (bucket, key) in Bucket::<K>::all(self.memory.buckets_words()).zip(keys.iter().cycle())
        {
            bucket
                .tag(0)
                .store(Tag::new(*key).bits(), Ordering::Relaxed);
        }
    }

    /// Runs [`recover`](Self::heal) on the table's own words.
    pub(crate) fn healed(&self) {
        Self::heal(self.memory.buckets_words());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::algorithm::Policy;
    use crate::cost::Cost;
    use crate::key::Seed;
    use crate::rate::{Period, Rate, Rates};
    use crate::table::overflow_filter::words_for;
    use crate::table::tag::BUSY;
    use crate::table::{ChargeOutcome, KeyState, SlotSearch, TableStats, WordChange};
    use crate::time::Timestamp;

    const NOW: Timestamp = Timestamp::from_secs(1_900_000_000);
    const COUNT: u32 = 3;

    fn key(number: u64) -> KeyHash {
        let mut hasher = Seed::from_bytes([3; 16]).hasher();
        hasher.part(&number.to_le_bytes()).finish()
    }

    fn rates_at_moment<const K: usize>(now: Timestamp) -> [RateAt; K] {
        let rate = |rank| {
            let period = Period::from_secs(60 * rank).expect("a period");
            Rate::new(COUNT, period).expect("a rate")
        };
        let policy = Policy::from(Rates::new((1..=K as u32).map(rate)).expect("rates"));
        std::array::from_fn(|rate| policy.compiled_rates()[rate].at(now))
    }

    fn rates_at<const K: usize>() -> [RateAt; K] {
        rates_at_moment(NOW)
    }

    fn admits<const K: usize>(table: &Table<K>, number: u64) -> bool {
        let charged = table.change(key(number), &rates_at(), WordChange::Charge(Cost::ONE));
        matches!(charged, ChargeOutcome::Admitted(..))
    }

    /// The tag of a key's slot.
    fn tag_of<const K: usize>(table: &Table<K>, number: u64) -> &AtomicU64 {
        let tag = Tag::new(key(number));
        match table.find(tag, table.memory.candidate_buckets(tag)) {
            SlotSearch::At(place) => place.tag(),
            _ => unreachable!("it was charged"),
        }
    }

    /// A table in which key 1 has used two of three, left as by a process that was killed in a claim of its slot.
    fn abandoned<const K: usize>() -> Table<K> {
        let table = Table::<K>::with_buckets(2, words_for(None), TableStats::default());
        assert!(admits(&table, 1) && admits(&table, 1));
        tag_of(&table, 1).fetch_or(BUSY, Ordering::Relaxed);
        for bucket_index in 0..2 {
            table
                .memory
                .bucket(bucket_index)
                .lock()
                .fetch_or(HELD, Ordering::Relaxed);
        }
        table
    }

    /// Goal: what a killed process held is finished, and nothing forgotten. Method: a claim that never ends, healed or
    /// not; the old key goes on where it was, new keys are seated.
    #[test]
    fn an_abandoned_claim_keeps_nobody_waiting_and_forgets_nobody() {
        fn go_on<const K: usize>(table: &Table<K>) {
            assert!(admits(table, 2), "a newcomer");
            assert!(
                admits(table, 1) && !admits(table, 1),
                "one of three was left"
            );
            let KeyState::Own(words) = table.peek(key(2), &rates_at(), None) else {
                unreachable!("it was seated");
            };
            assert_eq!(
                rates_at::<K>()[0].status(words[0], None).remaining,
                COUNT - 1
            );
        }
        go_on(&abandoned::<1>());
        go_on(&abandoned::<2>());
        let healed = abandoned::<4>();
        healed.healed();
        for bucket_index in 0..2 {
            assert_eq!(
                healed
                    .memory
                    .bucket(bucket_index)
                    .lock()
                    .load(Ordering::Relaxed)
                    & HELD,
                0
            );
        }
        let owner = SlotOwner::from_bits(tag_of(&healed, 1).load(Ordering::Relaxed));
        assert_eq!(owner, SlotOwner::Key(Tag::new(key(1))));
        go_on(&healed);
    }

    /// Goal: a slot that a killed claim took from nobody comes back. Method: the words of a new key under no name;
    /// they count for nobody, and two windows later the slot has an owner.
    #[test]
    fn a_slot_that_was_claimed_from_nobody_is_used_again() {
        let table = Table::<1>::with_buckets(1, words_for(None), TableStats::default());
        assert!(admits(&table, 1));
        tag_of(&table, 1).store(BUSY, Ordering::Relaxed);
        assert!((2..9).all(|number| admits(&table, number)));
        assert_eq!(
            table.stats().admitted_in_overflow,
            1,
            "one slot of seven is not free yet"
        );
        let later = rates_at_moment(NOW.saturating_add(std::time::Duration::from_secs(120)));
        for number in 10..17 {
            table.change(key(number), &later, WordChange::Charge(Cost::ONE));
        }
        assert_eq!(table.occupancy(&later).live, 7);
    }
}
