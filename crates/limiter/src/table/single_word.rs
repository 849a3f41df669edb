//! Changes the one word of a key by a rule that the caller brings: what permits and bans need of a table.
//!
//! The words of a limit are judged by rates (`RateAt`). These are not, but live by the same invariants: a key has at most
//! one slot, only slots that owe nothing change hands, the word is the arbiter between an old key and a claim. So they
//! are found and seated by the same code, and the caller says what a word weighs and what becomes of it. What new keys
//! without a slot share, if anything, is the caller's too: the caller owns the overflow word of a bucket.
//!
//! # Invariants
//! 1. As 2 of `table`: a word never comes back under another key. The caller sees to it: what it writes to a slot that
//!    it takes over differs from every word that the slot held under other keys.
//! 2. A claim that loses the slot after it wrote there says so, and the caller takes back what it wrote: these words may
//!    stand for something that no time makes right.

use std::ops::ControlFlow;

use crate::algorithm::Word;
use crate::sync::{AtomicU64, Ordering};

use super::insert::ClaimTrace;
#[cfg(feature = "mmap")]
use super::layout::scale;
use super::layout::{Bucket, TableMemory};
use super::lock::BucketLock;
use super::slot_weight::SlotWeight;
use super::stats::StatCounters;
use super::tag::SlotOwner;
use super::update::{revise, swap};
use super::{KeyAddress, SlotRef, SlotSearch, Table};

/// The bucket of a key's two that it lives in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CandidateBucket {
    First,
    Second,
}

/// The result of changing the word of a key that has a slot.
pub(crate) enum WordOutcome {
    /// The word that was written, and its slot.
    Written(Word, SlotRef),
    /// The rule left this as it is.
    Left(Word),
    /// The key has no slot.
    Nowhere,
}

/// The result of looking for a slot for a key that had none.
pub(crate) enum ClaimOutcome {
    /// The key has a slot, with this word.
    Claimed(Word, SlotRef),
    /// Another thread came between; the caller looks again. A word that was written is still there if one is named.
    Lost(Option<(Word, SlotRef)>),
    /// Every slot that it could use owes.
    NoRoom,
}

/// The right to seat the new keys of a bucket, until another thread gives up waiting.
pub(crate) struct InsertTurn<'t>(BucketLock<'t>);

impl InsertTurn<'_> {
    /// Returns whether the lock was not taken away; everything done before a `true` is visible to the thread that
    /// takes it later.
    pub(crate) fn is_mine(&self) -> bool {
        self.0.is_mine()
    }
}

impl Table<1> {
    /// The word of a key that has a slot. Writes nothing.
    #[inline]
    pub(crate) fn word_at(&self, at: KeyAddress) -> Option<Word> {
        // Each turn means that another thread claimed this slot since the search.
        loop {
            match self.find(at.tag, at.candidate_buckets) {
                SlotSearch::At(place) => {
                    if let Some([word]) = place.read(at.tag) {
                        return Some(word);
                    }
                }
                SlotSearch::Nowhere => return None,
                // Waits until it is not.
                SlotSearch::Hidden => _ = self.has_slot(at),
            }
        }
    }

    /// Reads like [`word_at`](Self::word_at), in a table whose overflow words are [signposts](Self::put_signpost):
    /// searches the second bucket only if the first one points there.
    #[inline]
    pub(crate) fn word_by_signpost(&self, at: KeyAddress) -> Option<Word> {
        let bucket = self.memory.bucket(at.candidate_buckets[0]);
        let mut busy = 0;
        for slot in 0..Bucket::<1>::SLOTS {
            // Acquire: pairs with the claim's release of the tag, so that its word is seen.
            let bits = bucket.tag(slot).load(Ordering::Acquire);
            if bits == at.tag.bits() {
                return self.word_at(at);
            }
            busy |= bits;
        }
        // Acquire: behind the tags. A key is seated in its second bucket after its bit was set, so a thread that knows that it was
        // seated finds the bit.
        let points = bucket.overflow(0).load(Ordering::Acquire) & at.signpost() != 0;
        if points || SlotOwner::hides(busy) {
            self.word_at(at)
        } else {
            None
        }
    }

    /// Replaces the word of a key that has a slot by what `next` makes of it, unless that is nothing.
    #[inline]
    pub(crate) fn change_word(
        &self,
        at: KeyAddress,
        next: impl Fn(Word) -> Option<Word>,
    ) -> WordOutcome {
        // Lock-free: another round means that another thread changed the word, or claimed the slot.
        loop {
            match self.find(at.tag, at.candidate_buckets) {
                SlotSearch::At(place) => {
                    let Some([word]) = place.read(at.tag) else {
                        continue;
                    };
                    let Some(wanted) = next(word) else {
                        return WordOutcome::Left(word);
                    };
                    // Invariant 3 of `table`: fails if a claim was here first.
                    if swap(place.state(0), word, wanted).is_ok() {
                        return WordOutcome::Written(wanted, place.slot_ref());
                    }
                }
                SlotSearch::Nowhere => return WordOutcome::Nowhere,
                SlotSearch::Hidden => _ = self.has_slot(at),
            }
        }
    }

    /// Waits for the turn to seat this key; `None` if it has a slot after all.
    pub(crate) fn turn(&self, at: KeyAddress) -> Option<InsertTurn<'_>> {
        let lock = BucketLock::take(self.memory.bucket(at.candidate_buckets[0]).lock());
        (!self.has_slot(at)).then_some(InsertTurn(lock))
    }

    /// Takes a slot that owes nothing over for a key, with the word that `first` makes of the slot's last one, and of
    /// which bucket it lies in.
    pub(crate) fn claim_word(
        &self,
        turn: &InsertTurn<'_>,
        at: KeyAddress,
        weigh: &impl SlotWeight,
        first: impl Fn(Word, CandidateBucket) -> Word,
    ) -> ClaimOutcome {
        let weigh = std::array::from_ref(weigh);
        let claimed = self.visit_vacancies(at.tag, at.candidate_buckets, weigh, |vacancies| {
            for vacancy in vacancies {
                let [before] = vacancy.words;
                let candidate = if vacancy.place.bucket_index == at.candidate_buckets[0] {
                    CandidateBucket::First
                } else {
                    CandidateBucket::Second
                };
                let fresh = first(before, candidate);
                let slot_ref = vacancy.place.slot_ref();
                let outcome = match vacancy.claim(&turn.0, at.tag, &[fresh]) {
                    Ok(()) => {
                        if vacancy.owner != SlotOwner::Nobody {
                            self.counts.reused();
                        }
                        ClaimOutcome::Claimed(fresh, slot_ref)
                    }
                    Err(ClaimTrace::Words) => ClaimOutcome::Lost(Some((fresh, slot_ref))),
                    Err(ClaimTrace::Nothing) if turn.is_mine() => continue,
                    Err(ClaimTrace::Nothing) => ClaimOutcome::Lost(None),
                };
                return ControlFlow::Break(outcome);
            }
            ControlFlow::Continue(())
        });
        claimed.unwrap_or(ClaimOutcome::NoRoom)
    }

    /// Replaces the word of a slot, of any owner, by what `next` makes of it, unless that is nothing.
    pub(crate) fn change_word_at(&self, slot_ref: SlotRef, next: impl Fn(Word) -> Option<Word>) {
        if let SlotRef::Slot { bucket, slot } = slot_ref {
            revise(self.memory.bucket(bucket).state(slot, 0), next);
        }
    }

    /// The words that count for a seat: its slot's, or the overflow words of both buckets.
    #[inline]
    pub(crate) fn words_of(&self, slot_ref: SlotRef) -> impl Iterator<Item = &AtomicU64> {
        let (slot, candidate_buckets) = match slot_ref {
            SlotRef::Slot { bucket, slot } => {
                (Some(self.memory.bucket(bucket).state(slot, 0)), [0; 2])
            }
            SlotRef::Overflow(candidate_buckets) => (None, candidate_buckets),
        };
        let rows = TableMemory::<1>::distinct(candidate_buckets)
            .filter(move |_| slot.is_none())
            .map(|(_, bucket_index)| self.memory.bucket(bucket_index).overflow(0));
        slot.into_iter().chain(rows)
    }

    /// The seat of a key that shares the overflow words of its buckets.
    pub(crate) fn overflow_ref(at: KeyAddress) -> SlotRef {
        SlotRef::Overflow(at.candidate_buckets)
    }

    /// Returns whether a key without a slot would get one.
    pub(crate) fn has_room(&self, at: KeyAddress, weigh: &impl SlotWeight) -> bool {
        let weigh = std::array::from_ref(weigh);
        let is_there = |vacancies: &[_]| match vacancies {
            [] => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        };
        (self.visit_vacancies(at.tag, at.candidate_buckets, weigh, is_there)).is_some()
    }

    pub(crate) fn counts(&self) -> &StatCounters {
        &self.counts
    }

    /// Leaves a mark in a key's first bucket that it may live in its second.
    pub(crate) fn put_signpost(&self, at: KeyAddress) {
        // Relaxed on its own; the claim that follows publishes the tag, and with it this.
        let word = self.memory.bucket(at.candidate_buckets[0]).overflow(0);
        word.fetch_or(at.signpost(), Ordering::Relaxed);
    }

    /// Puts up exactly the signposts that the slots of a table need: after a loss of power they may be older than the
    /// slots. The caller must be alone with the words; takes 16 bytes a bucket for a moment.
    #[cfg(feature = "mmap")]
    pub(crate) fn mend_signposts(words: &[AtomicU64]) {
        let buckets: Vec<Bucket<'_, 1>> = Bucket::all(words).collect();
        // Relaxed, here and below: no other process uses the words.
        for bucket in &buckets {
            bucket.overflow(0).store(0, Ordering::Relaxed);
        }
        for (bucket_index, bucket) in buckets.iter().enumerate() {
            for slot in 0..Bucket::<1>::SLOTS {
                let SlotOwner::Key(tag) =
                    SlotOwner::from_bits(bucket.tag(slot).load(Ordering::Relaxed))
                else {
                    continue;
                };
                let candidate_buckets = tag.points().map(|point| scale(point, buckets.len()));
                if candidate_buckets[0] != bucket_index {
                    let word = buckets[candidate_buckets[0]].overflow(0);
                    word.fetch_or(
                        KeyAddress {
                            tag,
                            candidate_buckets,
                        }
                        .signpost(),
                        Ordering::Relaxed,
                    );
                }
            }
        }
    }
}

impl KeyAddress {
    /// The bit that stands for the key among 64. Taken from the middle of the hash: buckets depend on its upper end.
    fn signpost(self) -> u64 {
        1 << (self.tag.bits() >> 8 & 63)
    }

    /// Bits of the key's hash on which neither its buckets nor its signpost depend, at the lower end.
    pub(crate) fn middle(self) -> u64 {
        self.tag.bits() >> 14
    }
}
