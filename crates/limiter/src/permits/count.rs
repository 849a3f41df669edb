//! Packs how many permits a key holds into one word; pure.
//!
//! # The word
//! ```text
//! 63            25       24           23       0
//! | generation 39 | in overflow 1 | permits 24 |
//! ```
//! The permits stand at the low end, so that giving one back is one subtraction. They are at most [`Concurrency::MAX`], 20
//! bits, and one more for each thread that is just losing a slot that it had claimed; a word with permits belongs to its
//! key, so none is subtracted that was not added.
//!
//! The generation goes on with every change of hands. A count may come back under another key, the whole word cannot
//! (invariant 1 of `table::single_word`), unless a thread sleeps between two of its instructions while the slot changes hands
//! 2^39 times.
//!
//! *In overflow* says that the key may hold permits among those that its buckets' new keys share: it was seated while
//! there were any. What they share counts for it till there is none. A key that was seated before is not concerned by them.
//!
//! [`Concurrency::MAX`]: super::Concurrency::MAX

use crate::algorithm::Word;
use crate::status::KeyPlacement;
use crate::table::slot_weight::SlotWeight;

use super::concurrency::Concurrency;

const PERMIT_BITS: u32 = 24;
const PERMITS: u64 = (1 << PERMIT_BITS) - 1;
const IN_OVERFLOW: u64 = 1 << PERMIT_BITS;
const GENERATION: u32 = PERMIT_BITS + 1;

const _: () = assert!((Concurrency::MAX.get() as u64) < PERMITS / 2);

/// The amount to subtract from a word to give a permit back.
pub(super) const ONE: u64 = 1;

/// The content of a slot's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PermitCount {
    /// Permits that were taken in this slot.
    pub(super) permits: u64,
    /// Tells if the permits that new keys share count for the key, too.
    pub(super) placement: KeyPlacement,
    generation: u64,
}

impl PermitCount {
    pub(super) fn from_word(word: Word) -> Self {
        let bits = word.bits();
        Self {
            permits: bits & PERMITS,
            placement: company(bits & IN_OVERFLOW),
            generation: bits >> GENERATION,
        }
    }

    #[must_use]
    pub(super) fn word(self) -> Word {
        let shares = match self.placement {
            // Permits have no shares.
            KeyPlacement::OwnSlot | KeyPlacement::OverShare => 0,
            KeyPlacement::Overflow => IN_OVERFLOW,
        };
        // The highest bit of a generation falls out at its end.
        Word::from_bits(self.generation << GENERATION | shares | self.permits & PERMITS)
    }

    /// The first permit of a key whose buckets' new keys share `shared`, in a slot where `before` was the last word.
    #[must_use]
    pub(super) fn first(before: Word, shared: u64) -> Self {
        Self {
            permits: 1,
            placement: company(shared),
            generation: Self::from_word(before).generation + 1,
        }
    }

    /// One permit more, while new keys share `shared`. None of them is this key's any more once there are none at all:
    /// who has a slot takes no others there.
    #[must_use]
    pub(super) fn one_more(self, shared: u64) -> Self {
        let placement = match self.placement {
            KeyPlacement::Overflow => company(shared),
            alone => alone,
        };
        Self {
            permits: self.permits + 1,
            placement,
            ..self
        }
    }

    /// `self` without the first permit of a claim that wrote `mine` and lost the slot; `None` when the word is of another
    /// claim.
    #[must_use]
    pub(super) fn withdrawn(self, mine: Word) -> Option<Self> {
        let permits = self.permits.checked_sub(1)?;
        (self.generation == Self::from_word(mine).generation).then_some(Self { permits, ..self })
    }
}

/// Returns the placement of a key that meets `shared` permits of new keys.
pub(super) const fn company(shared: u64) -> KeyPlacement {
    match shared {
        0 => KeyPlacement::OwnSlot,
        _ => KeyPlacement::Overflow,
    }
}

/// A slot is its key's while it counts permits. The overflow words hold the plain number.
pub(super) struct PermitWeight;

impl SlotWeight for PermitWeight {
    fn owes(&self, word: Word) -> bool {
        word.bits() & PERMITS != 0
    }

    fn used_units(&self, word: Word) -> u64 {
        word.bits()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A change to a slot, one after the other.
    #[derive(Clone, Debug)]
    enum Operation {
        Claim { shared: u64 },
        Take { shared: u64 },
        GiveBack,
    }

    fn any_operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            1 => (0_u64..3).prop_map(|shared| Operation::Claim { shared }),
            3 => (0_u64..3).prop_map(|shared| Operation::Take { shared }),
            3 => Just(Operation::GiveBack),
        ]
    }

    proptest! {
        /// Goal: the word counts what a plain counter counts, owes exactly while there are permits, and never comes back
        /// under another key. Method: random claims, takings and returns beside a plain model, the words of each owner
        /// against those of all owners before.
        #[test]
        fn a_word_counts_permits_and_never_comes_back(
            start in any::<u64>(), operations in prop::collection::vec(any_operation(), 1..200),
        ) {
            // Any word that owes nothing.
            let mut word = Word::from_bits(start & !PERMITS);
            let (mut permits, mut shares) = (0_u64, word.bits() & IN_OVERFLOW != 0);
            let (mut past, mut present) = (Vec::new(), vec![word]);
            for operation in operations {
                match operation {
                    Operation::Claim { shared } if permits == 0 => {
                        word = PermitCount::first(word, shared).word();
                        (permits, shares) = (1, shared > 0);
                        past.append(&mut present);
                    }
                    Operation::Claim { .. } => {}
                    Operation::Take { shared } => {
                        word = PermitCount::from_word(word).one_more(shared).word();
                        permits += 1;
                        shares &= shared > 0;
                    }
                    Operation::GiveBack if permits > 0 => {
                        word = Word::from_bits(word.bits() - ONE);
                        permits -= 1;
                    }
                    Operation::GiveBack => {}
                }
                present.push(word);
                prop_assert_eq!(PermitCount::from_word(word).permits, permits);
                prop_assert_eq!(PermitCount::from_word(word).placement == KeyPlacement::Overflow, shares);
                prop_assert_eq!(PermitWeight.owes(word), permits > 0);
                prop_assert!(!past.contains(&word));
            }
        }
    }

    /// Goal: a claim that lost its slot takes back its own permit and no other's. Method: alone, beside permits of the
    /// slot's key, given back already, and after another claim.
    #[test]
    fn a_lost_claim_withdraws_what_it_wrote() {
        let mine = PermitCount::first(Word::UNUSED, 0);
        let withdrawn =
            |count: PermitCount| count.withdrawn(mine.word()).map(|count| count.permits);
        assert_eq!(withdrawn(mine), Some(0));
        assert_eq!(withdrawn(mine.one_more(0).one_more(0)), Some(2));
        assert_eq!(withdrawn(PermitCount { permits: 0, ..mine }), None);
        assert_eq!(withdrawn(PermitCount::first(mine.word(), 0)), None);
    }
}
