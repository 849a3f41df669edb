//! Changes the one word of a key by a rule that the caller brings: what permits need of a table.
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
use crate::sync::AtomicU64;

use super::census::Counts;
use super::known::{revise, swap};
use super::layout::Memory;
use super::lock::Lock;
use super::newcomer::Lost;
use super::tag::{Owner, Tag};
use super::{Found, Seat, Table};

/// Says what a word weighs.
pub(crate) trait Weigh {
    /// Whether its slot must stay with its key.
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

/// Where a key may live.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    tag: Tag,
    homes: [usize; 2],
}

/// What came of changing the word of a key that has a slot.
pub(crate) enum Known {
    /// Its word was written, here.
    Written(Seat),
    /// The rule left this as it is.
    Left(Word),
    /// The key has no slot.
    Nowhere,
}

/// What came of looking for a slot for a key that had none.
pub(crate) enum Claimed {
    /// It has this one.
    Seated(Seat),
    /// Another thread came between; whoever asked looks again. A word that was written is still there if one is named.
    Lost(Option<(Word, Seat)>),
    /// Every slot that it could use owes.
    NoRoom,
}

/// The right to seat the newcomers of a bucket, until somebody loses patience.
pub(crate) struct Turn<'t>(Lock<'t>);

impl Turn<'_> {
    /// Whether nobody has taken it away; what was done before a yes is seen by whoever has it later.
    pub(crate) fn is_mine(&self) -> bool {
        self.0.is_mine()
    }
}

impl Table<1> {
    /// Where `key` may live in this table.
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
                        return Known::Written(place.seat());
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

    /// Takes a slot that owes nothing over for a key, with the word that `first` makes of the slot's last one.
    pub(crate) fn seat_word(
        &self,
        turn: &Turn<'_>,
        at: Address,
        weigh: &impl Weigh,
        first: impl Fn(Word) -> Word,
    ) -> Claimed {
        let vacancies = self.vacancies_of_both(at.tag, at.homes, std::array::from_ref(weigh));
        for vacancy in vacancies.iter().flatten() {
            let [before] = vacancy.words;
            let (fresh, seat) = (first(before), vacancy.place.seat());
            match vacancy.claim(&turn.0, at.tag, &[fresh]) {
                Ok(()) => {
                    if vacancy.owner != Owner::Nobody {
                        self.counts.reused();
                    }
                    return Claimed::Seated(seat);
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

    /// Whether a key without a slot would get one.
    pub(crate) fn has_room(&self, at: Address, weigh: &impl Weigh) -> bool {
        let vacancies = self.vacancies_of_both(at.tag, at.homes, std::array::from_ref(weigh));
        vacancies.iter().any(|home| !home.is_empty())
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }
}
