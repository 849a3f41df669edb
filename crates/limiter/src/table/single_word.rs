//! Changes the one word of a key by a rule that the caller brings: what permits and bans need of a table.
//!
//! The words of a limit are judged by rates (`Judge`). These are not, but live by the same invariants: a key has at most
//! one slot, only slots that owe nothing change hands, the word is the arbiter between an old key and a claim. So they
//! are found and seated by the same code, and the caller says what a word weighs and what becomes of it. What newcomers
//! without a slot share, if anything, is the caller's too: the overflow word of a bucket is his.
//!
//! # Invariants
//! 1. As 2 of `table`: a word never comes back under another key. The caller sees to it: what it writes to a slot that
//!    it takes over differs from every word that the slot held under other keys.
//! 2. A claim that loses the slot after it wrote there says so, and the caller takes back what it wrote: these words may
//!    stand for something that no time makes right.

use crate::algorithm::{Judge, Word};
use crate::key::KeyHash;
use crate::sync::{AtomicU64, Ordering};

use super::insert::Lost;
#[cfg(feature = "mmap")]
use super::layout::scale;
use super::layout::{Bucket, Memory};
use super::lock::Lock;
use super::stats::Counts;
use super::tag::{Owner, Tag};
use super::update::{revise, swap};
use super::{Found, Seat, Table};

/// Says what a word weighs.
pub(crate) trait Weigh {
    /// Returns whether its slot must stay with its key.
    fn owes(&self, word: Word) -> bool;

    /// The units that it counts.
    fn used_units(&self, word: Word) -> u64;
}

impl Weigh for Judge {
    fn owes(&self, word: Word) -> bool {
        self.owes(word)
    }

    fn used_units(&self, word: Word) -> u64 {
        self.used_units(word)
    }
}

/// The bucket of a key's two that it lives in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    First,
    Second,
}

/// The place where a key may live.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    tag: Tag,
    homes: [usize; 2],
}

/// The result of changing the word of a key that has a slot.
pub(crate) enum Known {
    /// The word that was written, and its slot.
    Written(Word, Seat),
    /// The rule left this as it is.
    Left(Word),
    /// The key has no slot.
    Nowhere,
}

/// The result of looking for a slot for a key that had none.
pub(crate) enum Claimed {
    /// The key has a slot, with this word.
    Seated(Word, Seat),
    /// Another thread came between; whoever asked looks again. A word that was written is still there if one is named.
    Lost(Option<(Word, Seat)>),
    /// Every slot that it could use owes.
    NoRoom,
}

/// The right to seat the newcomers of a bucket, until somebody loses patience.
pub(crate) struct Turn<'t>(Lock<'t>);

impl Turn<'_> {
    /// Returns whether the lock was not taken away; everything done before a `true` is visible to the thread that
    /// takes it later.
    pub(crate) fn is_mine(&self) -> bool {
        self.0.is_mine()
    }
}

impl Table<1> {
    /// Computes where `key` may live in this table.
    #[inline]
    pub(crate) fn address(&self, key: KeyHash) -> Address {
        let tag = Tag::of(key);
        let homes = self.memory.homes(tag);
        Address { tag, homes }
    }

    /// The word of a key that has a slot. Writes nothing.
    #[inline]
    pub(crate) fn word_at(&self, at: Address) -> Option<Word> {
        // Each turn means that another thread claimed this slot since the search.
        loop {
            match self.find(at.tag, at.homes) {
                Found::At(place) => {
                    if let Some([word]) = place.read(at.tag) {
                        return Some(word);
                    }
                }
                Found::Nowhere => return None,
                // Waits until it is not.
                Found::Hidden => _ = self.seated(at.tag, at.homes),
            }
        }
    }

    /// Reads like [`word_at`](Self::word_at), in a table whose overflow words are [signposts](Self::put_signpost):
    /// searches the second bucket only if the first one points there.
    #[inline]
    pub(crate) fn word_by_signpost(&self, at: Address) -> Option<Word> {
        let bucket = self.memory.bucket(at.homes[0]);
        let mut busy = 0;
        for slot in 0..Bucket::<1>::SLOTS {
            // Acquire: pairs with the claim's release of the tag, so that its word is seen.
            let bits = bucket.tag(slot).load(Ordering::Acquire);
            if bits == at.tag.bits() {
                return self.word_at(at);
            }
            busy |= bits;
        }
        // Acquire: behind the tags. A key is seated in its second bucket after its bit was set, so who knows that it was
        // seated finds the bit.
        let points = bucket.overflow(0).load(Ordering::Acquire) & at.signpost() != 0;
        if points || Owner::hides(busy) {
            self.word_at(at)
        } else {
            None
        }
    }

    /// Replaces the word of a key that has a slot by what `next` makes of it, unless that is nothing.
    #[inline]
    pub(crate) fn change_word(&self, at: Address, next: impl Fn(Word) -> Option<Word>) -> Known {
        // Lock-free: another round means that another thread changed the word, or claimed the slot.
        loop {
            match self.find(at.tag, at.homes) {
                Found::At(place) => {
                    let Some([word]) = place.read(at.tag) else {
                        continue;
                    };
                    let Some(wanted) = next(word) else {
                        return Known::Left(word);
                    };
                    // Invariant 3 of `table`: fails if a claim was here first.
                    if swap(place.state(0), word, wanted).is_ok() {
                        return Known::Written(wanted, place.seat());
                    }
                }
                Found::Nowhere => return Known::Nowhere,
                Found::Hidden => _ = self.seated(at.tag, at.homes),
            }
        }
    }

    /// Waits for the turn to seat this key; `None` if it has a slot after all.
    pub(crate) fn turn(&self, at: Address) -> Option<Turn<'_>> {
        let lock = Lock::take(self.memory.bucket(at.homes[0]).lock());
        (!self.seated(at.tag, at.homes)).then_some(Turn(lock))
    }

    /// Takes a slot that owes nothing over for a key, with the word that `first` makes of the slot's last one, and of
    /// which bucket it lies in.
    pub(crate) fn seat_word(
        &self,
        turn: &Turn<'_>,
        at: Address,
        weigh: &impl Weigh,
        first: impl Fn(Word, Home) -> Word,
    ) -> Claimed {
        let vacancies = self.vacancies_of_both(at.tag, at.homes, std::array::from_ref(weigh));
        for vacancy in vacancies.iter().flatten() {
            let [before] = vacancy.words;
            let home = if vacancy.place.home == at.homes[0] {
                Home::First
            } else {
                Home::Second
            };
            let (fresh, seat) = (first(before, home), vacancy.place.seat());
            match vacancy.claim(&turn.0, at.tag, &[fresh]) {
                Ok(()) => {
                    if vacancy.owner != Owner::Nobody {
                        self.counts.reused();
                    }
                    return Claimed::Seated(fresh, seat);
                }
                Err(Lost::Words) => return Claimed::Lost(Some((fresh, seat))),
                Err(Lost::Nothing) if turn.is_mine() => {}
                Err(Lost::Nothing) => return Claimed::Lost(None),
            }
        }
        Claimed::NoRoom
    }

    /// Replaces the word of a seat, whoever has it, by what `next` makes of it, unless that is nothing.
    pub(crate) fn change_seat(&self, seat: Seat, next: impl Fn(Word) -> Option<Word>) {
        if let Seat::Slot { bucket, slot } = seat {
            revise(self.memory.bucket(bucket).state(slot, 0), next);
        }
    }

    /// The words that count for a seat: its slot's, or the overflow words of both buckets.
    #[inline]
    pub(crate) fn words_of(&self, seat: Seat) -> impl Iterator<Item = &AtomicU64> {
        let (slot, homes) = match seat {
            Seat::Slot { bucket, slot } => {
                (Some(self.memory.bucket(bucket).state(slot, 0)), [0; 2])
            }
            Seat::Overflow(homes) => (None, homes),
        };
        let rows = Memory::<1>::distinct(homes)
            .filter(move |_| slot.is_none())
            .map(|(_, home)| self.memory.bucket(home).overflow(0));
        slot.into_iter().chain(rows)
    }

    /// The seat of a key that shares the overflow words of its buckets.
    pub(crate) fn seat_in_overflow(at: Address) -> Seat {
        Seat::Overflow(at.homes)
    }

    /// Returns whether a key without a slot would get one.
    pub(crate) fn has_room(&self, at: Address, weigh: &impl Weigh) -> bool {
        let vacancies = self.vacancies_of_both(at.tag, at.homes, std::array::from_ref(weigh));
        vacancies.iter().any(|home| !home.is_empty())
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Leaves a mark in a key's first bucket that it may live in its second.
    pub(crate) fn put_signpost(&self, at: Address) {
        // Relaxed on its own; the claim that follows publishes the tag, and with it this.
        let word = self.memory.bucket(at.homes[0]).overflow(0);
        word.fetch_or(at.signpost(), Ordering::Relaxed);
    }

    /// Puts up exactly the signposts that the slots of a table need: after a loss of power they may be older than the
    /// slots. The caller must be alone with the words; takes 16 bytes a bucket for a moment.
    #[cfg(feature = "mmap")]
    pub(crate) fn mend_signposts(words: &[AtomicU64]) {
        let buckets: Vec<Bucket<'_, 1>> = Bucket::all(words).collect();
        // Relaxed, here and below: nobody else uses the words.
        for bucket in &buckets {
            bucket.overflow(0).store(0, Ordering::Relaxed);
        }
        for (home, bucket) in buckets.iter().enumerate() {
            for slot in 0..Bucket::<1>::SLOTS {
                let Owner::Key(tag) = Owner::of(bucket.tag(slot).load(Ordering::Relaxed)) else {
                    continue;
                };
                let homes = tag.points().map(|point| scale(point, buckets.len()));
                if homes[0] != home {
                    let word = buckets[homes[0]].overflow(0);
                    word.fetch_or(Address { tag, homes }.signpost(), Ordering::Relaxed);
                }
            }
        }
    }
}

impl Address {
    /// The bit that stands for the key among 64. Taken from the middle of the hash: buckets depend on its upper end.
    fn signpost(self) -> u64 {
        1 << (self.tag.bits() >> 8 & 63)
    }

    /// Bits of the key's hash on which neither its buckets nor its signpost depend, at the lower end.
    pub(crate) fn middle(self) -> u64 {
        self.tag.bits() >> 14
    }
}
