//! Charges a key that has a slot, all its rates or none, and takes charges back.

use crate::algorithm::{RateAt, RateCharge, Word};
use crate::cost::Cost;
use crate::key::KeyHash;
use crate::status::{KeyPlacement, RefusingRates};
use crate::sync::{AtomicU64, Ordering};

use super::lock::settled_owner;
use super::tag::{SlotOwner, Tag};
use super::{
    ChargeOutcome, KeyState, MadeCharge, SlotPlace, SlotRef, SlotSearch, Table, WordChange,
};

/// The result of changing the words of a key that has a slot.
pub(crate) enum WordUpdate<const K: usize> {
    /// The words that were written.
    Written([Word; K]),
    /// The words that stay, and the rates that refuse; nothing of the change remains.
    Left([Word; K], RefusingRates),
}

/// A key that has a slot, as it was seen before a charge.
pub(crate) struct SlotView<const K: usize> {
    pub(crate) words: [Word; K],
    /// The words after the charge, or the rates that refuse it.
    pub(crate) next: Result<[Word; K], RefusingRates>,
    pub(crate) slot_ref: SlotRef,
}

impl<const K: usize> WordUpdate<K> {
    /// The same of a charge whose key has this seat.
    #[inline(always)]
    pub(super) fn at(self, slot_ref: SlotRef) -> ChargeOutcome<K> {
        match self {
            Self::Written(words) => ChargeOutcome::Admitted(KeyState::Own(words), slot_ref),
            Self::Left(words, _) => ChargeOutcome::Refused(KeyState::Own(words)),
        }
    }
}

impl<const K: usize> Table<K> {
    /// Changes the slot of `tag` at `place`; `None` when the slot is not its own any more and nothing of the change
    /// remains.
    #[inline(always)]
    pub(super) fn change_known(
        place: SlotPlace<'_, K>,
        tag: Tag,
        rates_at: &[RateAt; K],
        change: WordChange<'_, K>,
    ) -> Option<WordUpdate<K>> {
        // Lock-free: another round means that another thread changed the first word. Nothing was written till then
        // (invariant 3), so all words are judged anew.
        let (seen, next) = loop {
            let seen = place.read(tag)?;
            // Judged as a whole first: a refusal writes nothing.
            match change.apply_all(rates_at, &seen) {
                Err(refusing) => return Some(WordUpdate::Left(seen, refusing)),
                Ok(next) if swap(place.state(0), seen[0], next[0]).is_ok() => break (seen, next),
                Ok(_) => {}
            }
        };
        Self::change_others(place, tag, rates_at, change, (seen, next), 1)
    }

    /// Changes the words of the rates from this one on, once those before were changed; as [`change_known`](Self::change_known).
    #[inline(always)]
    fn change_others(
        place: SlotPlace<'_, K>,
        tag: Tag,
        rates_at: &[RateAt; K],
        change: WordChange<'_, K>,
        (mut seen, mut next): ([Word; K], [Word; K]),
        from: usize,
    ) -> Option<WordUpdate<K>> {
        for rate in from..K {
            // Lock-free: another round means that another thread changed this word.
            while swap(place.state(rate), seen[rate], next[rate]).is_err() {
                // Invariant 4: a thread that finds another key's tag has nothing left to undo.
                seen[rate] = place.reread(tag, rate)?;
                match change.apply(&rates_at[rate], rate, seen[rate]) {
                    Some(word) => next[rate] = word,
                    None => {
                        if let WordChange::Charge(cost) = change {
                            let made = rates_at[rate].now();
                            let charges = next.map(|left| RateCharge { cost, left, made });
                            undo(place, tag, rates_at, &charges[..rate]);
                        }
                        // Some do: this rate's word in `seen` is the one that was just judged.
                        let refusing = change.apply_all(rates_at, &seen).err();
                        let refusing = refusing.unwrap_or(RefusingRates::of_bits(1 << rate));
                        return Some(WordUpdate::Left(seen, refusing));
                    }
                }
            }
        }
        Some(WordUpdate::Written(next))
    }

    /// Reads the words of `key`, the words after `cost`, if that fits, and the slot; `None` if the key has none, or
    /// none for sure. Writes nothing.
    #[inline(always)]
    pub(crate) fn see(
        &self,
        key: KeyHash,
        rates_at: &[RateAt; K],
        cost: Cost,
    ) -> Option<SlotView<K>> {
        let tag = Tag::new(key);
        let SlotSearch::At(place) = self.find(tag, self.memory.candidate_buckets(tag)) else {
            return None;
        };
        let words = place.read(tag)?;
        let next = WordChange::Charge(cost).apply_all(rates_at, &words);
        Some(SlotView {
            words,
            next,
            slot_ref: place.slot_ref(),
        })
    }

    /// Makes a charge of `cost` that was judged when the key was [seen](Self::see), some time ago: from these words to those. The words
    /// that it left; `None` when the key's are others by now, or the slot is not its own any more, and nothing of the charge remains.
    #[inline(always)]
    pub(crate) fn charge_seen(
        &self,
        key: KeyHash,
        slot_ref: SlotRef,
        [seen, next]: [[Word; K]; 2],
        rates_at: impl FnOnce() -> [RateAt; K],
        cost: Cost,
    ) -> Option<[Word; K]> {
        let SlotRef::Slot { bucket, slot } = slot_ref else {
            return None;
        };
        let place = self.place(bucket, slot);
        let write = |rate: usize| swap(place.state(rate), seen[rate], next[rate]).is_ok();
        // Invariant 3: the first word decides. It can be compared however long ago it was read: invariant 2.
        if !write(0) {
            return None;
        }
        let Some(rate) = (1..K).find(|rate| !write(*rate)) else {
            return Some(next);
        };
        // Another thread changed the word of this rate: the charge goes on from what it is now.
        let change = WordChange::Charge(cost);
        match Self::change_others(
            place,
            Tag::new(key),
            &rates_at(),
            change,
            (seen, next),
            rate,
        )? {
            WordUpdate::Written(words) => Some(words),
            WordUpdate::Left(..) => None,
        }
    }

    /// Takes `cost` of a charge that another table made back, if the key has a slot here.
    pub(crate) fn undo_taken_over(
        &self,
        key: KeyHash,
        rates_at: &[RateAt; K],
        made: &MadeCharge<K>,
        cost: Cost,
    ) {
        let tag = Tag::new(key);
        if let SlotSearch::At(place) = self.find(tag, self.memory.candidate_buckets(tag)) {
            let charges = made.left.map(|[left, _]| made.charge(left, cost));
            undo(place, tag, rates_at, &charges);
        }
    }

    /// Makes a key have used `used` and nothing else, whatever was charged before. A charge that races with it comes
    /// before or after, rate by rate.
    ///
    /// New keys get a slot if there is one and `used` is something; what keys in overflow share is not lowered.
    pub(crate) fn set(
        &self,
        key: KeyHash,
        rates_at: &[RateAt; K],
        used: Option<Cost>,
    ) -> KeyPlacement {
        let at = self.address(key);
        // As in `change`: another round means that another thread claimed or inserted something.
        loop {
            match self.find(at.tag, at.candidate_buckets) {
                SlotSearch::At(place) => {
                    if self.set_known(&place, at.tag, rates_at, used).is_some() {
                        return KeyPlacement::OwnSlot;
                    }
                }
                // Waits until it is not.
                SlotSearch::Hidden => _ = self.has_slot(at),
                SlotSearch::Nowhere => {
                    let Some(used) = used else {
                        return self.state_without_slot(at, rates_at).placement();
                    };
                    return match self.change(key, rates_at, WordChange::ChargeUnchecked(used)) {
                        ChargeOutcome::Admitted(state, _) | ChargeOutcome::Refused(state) => {
                            state.placement()
                        }
                    };
                }
            }
        }
    }

    /// Makes a key have used what these words say, whatever was charged before. A charge that races with it comes before or
    /// after, rate by rate.
    ///
    /// New keys get a slot if there is one and the words owe something; what keys in overflow share counts at least as much.
    pub(crate) fn adopt(
        &self,
        key: KeyHash,
        rates_at: &[RateAt; K],
        words: &[Word; K],
    ) -> KeyPlacement {
        let at = self.address(key);
        let owes = rates_at
            .iter()
            .zip(words)
            .any(|(rate_at, word)| rate_at.owes(*word));
        if !owes {
            // As in `set`.
            loop {
                match self.find(at.tag, at.candidate_buckets) {
                    SlotSearch::At(place) => {
                        let adopt = WordChange::Adopt(words);
                        if Self::change_known(place, at.tag, rates_at, adopt).is_some() {
                            return KeyPlacement::OwnSlot;
                        }
                    }
                    SlotSearch::Hidden => _ = self.has_slot(at),
                    SlotSearch::Nowhere => {
                        return self.state_without_slot(at, rates_at).placement();
                    }
                }
            }
        }
        match self.change(key, rates_at, WordChange::Adopt(words)) {
            ChargeOutcome::Admitted(state, _) | ChargeOutcome::Refused(state) => state.placement(),
        }
    }

    /// `None` when the slot is not the key's any more.
    fn set_known(
        &self,
        place: &SlotPlace<'_, K>,
        tag: Tag,
        rates_at: &[RateAt; K],
        used: Option<Cost>,
    ) -> Option<()> {
        for (rate, rate_at) in rates_at.iter().enumerate() {
            // Lock-free: another round means that another thread changed this word.
            loop {
                let seen = place.reread(tag, rate)?;
                if swap(place.state(rate), seen, rate_at.set(seen, used)).is_ok() {
                    break;
                }
            }
        }
        Some(())
    }

    /// Takes `cost` of the charge made at `made` back.
    pub(crate) fn undo(
        &self,
        key: KeyHash,
        slot_ref: SlotRef,
        rates_at: &[RateAt; K],
        made: &MadeCharge<K>,
        cost: Cost,
    ) {
        match slot_ref {
            SlotRef::Slot {
                bucket: bucket_index,
                slot,
            } => {
                let place = self.place(bucket_index, slot);
                let charges = made.left.map(|[left, _]| made.charge(left, cost));
                undo(place, Tag::new(key), rates_at, &charges);
            }
            SlotRef::Overflow(candidate_buckets) => {
                self.undo_overflow(candidate_buckets, rates_at, made, cost)
            }
        }
    }
}

impl<const K: usize> SlotPlace<'_, K> {
    /// The word of rate `rate`, once the slot belongs to `tag` for sure; `None` when it belongs to another key.
    #[cold]
    fn reread(self, tag: Tag, rate: usize) -> Option<Word> {
        // Another round means that the slot was changing hands: invariant 6.
        loop {
            // Acquire, both: as in `read`, a word that a claim wrote shows the claim's tag, or its busy bit, in the
            // load that follows.
            let word = Word::from_bits(self.state(rate).load(Ordering::Acquire));
            match SlotOwner::from_bits(self.tag().load(Ordering::Acquire)) {
                SlotOwner::Key(owner) => return (owner == tag).then_some(word),
                SlotOwner::Nobody => return None,
                SlotOwner::Changing => settled_owner(self.tag()),
            };
        }
    }
}

/// Takes charges out of the first rates of a slot again, last first.
fn undo<const K: usize>(
    place: SlotPlace<'_, K>,
    tag: Tag,
    rates_at: &[RateAt; K],
    charges: &[RateCharge],
) {
    for (rate, charge) in charges.iter().enumerate().rev() {
        // Lock-free: another round means that another thread changed this word. A slot that went to another key owes
        // this one nothing any more, nor does this one owe it.
        while let Some(seen) = place.reread(tag, rate) {
            let next = rates_at[rate].undo(seen, *charge);
            if next.is_none_or(|next| swap(place.state(rate), seen, next).is_ok()) {
                break;
            }
        }
    }
}

/// Replaces `seen` by `next`.
#[inline(always)]
pub(super) fn swap(word: &AtomicU64, seen: Word, next: Word) -> Result<(), Word> {
    // SeqCst: a charge is either seen by the copy to a successor, or sees that there is one (`limit::edit`). On failure
    // nothing is concluded from the value but that it differs; Acquire keeps the re-reading after it.
    word.compare_exchange(
        seen.bits(),
        next.bits(),
        Ordering::SeqCst,
        Ordering::Acquire,
    )
    .map(drop)
    .map_err(Word::from_bits)
}

/// Replaces a word by what `next` makes of it, until that succeeds or there is nothing to do; returns the last word
/// written.
pub(super) fn revise(word: &AtomicU64, next: impl Fn(Word) -> Option<Word>) -> Option<Word> {
    // Acquire: an undo must not be judged on a word older than the charge that it takes back.
    let mut seen = Word::from_bits(word.load(Ordering::Acquire));
    // Lock-free: another round means that another thread changed the word.
    loop {
        let wanted = next(seen)?;
        match swap(word, seen, wanted) {
            Ok(()) => return Some(wanted),
            Err(now) => seen = now,
        }
    }
}
