//! Charges a key that has a slot, all its rates or none, and takes charges back.

use crate::algorithm::{Charge, Judge, Word};
use crate::cost::Cost;
use crate::key::KeyHash;
use crate::status::{KeyPlacement, Refusing};
use crate::sync::{AtomicU64, Ordering};

use super::lock::settled_owner;
use super::tag::{Owner, Tag};
use super::{Change, Charged, Found, Made, Seat, SlotPlace, State, Table};

/// The result of changing the words of a key that has a slot.
pub(crate) enum Changed<const K: usize> {
    /// The words that were written.
    Written([Word; K]),
    /// The words that stay, and the rates that refuse; nothing of the change remains.
    Left([Word; K], Refusing),
}

/// A key that has a slot, as it was seen before a charge.
pub(crate) struct Seen<const K: usize> {
    pub(crate) words: [Word; K],
    /// The words after the charge, or the rates that refuse it.
    pub(crate) next: Result<[Word; K], Refusing>,
    pub(crate) seat: Seat,
}

impl<const K: usize> Changed<K> {
    /// The same of a charge whose key has this seat.
    #[inline(always)]
    pub(super) fn at(self, seat: Seat) -> Charged<K> {
        match self {
            Self::Written(words) => Charged::Admitted(State::Own(words), seat),
            Self::Left(words, _) => Charged::Refused(State::Own(words)),
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
        judges: &[Judge; K],
        change: Change<'_, K>,
    ) -> Option<Changed<K>> {
        // Lock-free: another round means that another thread changed the first word. Nothing was written till then
        // (invariant 3), so all words are judged anew.
        let (seen, next) = loop {
            let seen = place.read(tag)?;
            // Judged as a whole first: a refusal writes nothing.
            match change.apply_all(judges, &seen) {
                Err(refusing) => return Some(Changed::Left(seen, refusing)),
                Ok(next) if swap(place.state(0), seen[0], next[0]).is_ok() => break (seen, next),
                Ok(_) => {}
            }
        };
        Self::change_others(place, tag, judges, change, (seen, next), 1)
    }

    /// Changes the words of the rates from this one on, once those before were changed; as [`change_known`](Self::change_known).
    #[inline(always)]
    fn change_others(
        place: SlotPlace<'_, K>,
        tag: Tag,
        judges: &[Judge; K],
        change: Change<'_, K>,
        (mut seen, mut next): ([Word; K], [Word; K]),
        from: usize,
    ) -> Option<Changed<K>> {
        for rate in from..K {
            // Lock-free: another round means that another thread changed this word.
            while swap(place.state(rate), seen[rate], next[rate]).is_err() {
                // Invariant 4: whoever finds another key's tag has nothing left to undo.
                seen[rate] = place.reread(tag, rate)?;
                match change.apply(&judges[rate], rate, seen[rate]) {
                    Some(word) => next[rate] = word,
                    None => {
                        if let Change::Charge(cost) = change {
                            let made = judges[rate].now();
                            let charges = next.map(|left| Charge { cost, left, made });
                            undo(place, tag, judges, &charges[..rate]);
                        }
                        // Some do: this rate's word in `seen` is the one that was just judged.
                        let refusing = change.apply_all(judges, &seen).err();
                        let refusing = refusing.unwrap_or(Refusing::of_bits(1 << rate));
                        return Some(Changed::Left(seen, refusing));
                    }
                }
            }
        }
        Some(Changed::Written(next))
    }

    /// Reads the words of `key`, the words after `cost`, if that fits, and the slot; `None` if the key has none, or
    /// none for sure. Writes nothing.
    #[inline(always)]
    pub(crate) fn see(&self, key: KeyHash, judges: &[Judge; K], cost: Cost) -> Option<Seen<K>> {
        let tag = Tag::of(key);
        let Found::At(place) = self.find(tag, self.memory.homes(tag)) else {
            return None;
        };
        let words = place.read(tag)?;
        let next = Change::Charge(cost).apply_all(judges, &words);
        Some(Seen {
            words,
            next,
            seat: place.seat(),
        })
    }

    /// Makes a charge of `cost` that was judged when the key was [seen](Self::see), some time ago: from these words to those. The words
    /// that it left; `None` when the key's are others by now, or the slot is not its own any more, and nothing of the charge remains.
    #[inline(always)]
    pub(crate) fn charge_seen(
        &self,
        key: KeyHash,
        seat: Seat,
        [seen, next]: [[Word; K]; 2],
        judges: impl FnOnce() -> [Judge; K],
        cost: Cost,
    ) -> Option<[Word; K]> {
        let Seat::Slot { bucket, slot } = seat else {
            return None;
        };
        let place = self.place(bucket, slot);
        let swap = |rate: usize| swap(place.state(rate), seen[rate], next[rate]);
        // However long ago it was: invariant 2.
        swap(0).ok()?;
        let Some(rate) = (1..K).find(|rate| swap(*rate).is_err()) else {
            return Some(next);
        };
        let change = Change::Charge(cost);
        match Self::change_others(place, Tag::of(key), &judges(), change, (seen, next), rate)? {
            Changed::Written(words) => Some(words),
            Changed::Left(..) => None,
        }
    }

    /// Takes `cost` of a charge that another table made back, if the key has a slot here.
    pub(crate) fn undo_taken_over(
        &self,
        key: KeyHash,
        judges: &[Judge; K],
        made: &Made<K>,
        cost: Cost,
    ) {
        let tag = Tag::of(key);
        if let Found::At(place) = self.find(tag, self.memory.homes(tag)) {
            let charges = made.left.map(|[left, _]| made.charge(left, cost));
            undo(place, tag, judges, &charges);
        }
    }

    /// Makes a key have used `used` and nothing else, whatever was charged before. A charge that races with it comes
    /// before or after, rate by rate.
    ///
    /// Newcomers get a slot if there is one and `used` is something; what keys in overflow share is not lowered.
    pub(crate) fn set(
        &self,
        key: KeyHash,
        judges: &[Judge; K],
        used: Option<Cost>,
    ) -> KeyPlacement {
        let tag = Tag::of(key);
        let homes = self.memory.homes(tag);
        // As in `change`: another round means that another thread claimed or seated something.
        loop {
            match self.find(tag, homes) {
                Found::At(place) => {
                    if self.set_known(&place, tag, judges, used).is_some() {
                        return KeyPlacement::OwnSlot;
                    }
                }
                // Waits until it is not.
                Found::Hidden => _ = self.seated(tag, homes),
                Found::Nowhere => {
                    let Some(used) = used else {
                        return self.unseated(tag, homes, judges).placement();
                    };
                    return match self.change(key, judges, Change::ChargeUnchecked(used)) {
                        Charged::Admitted(state, _) | Charged::Refused(state) => state.placement(),
                    };
                }
            }
        }
    }

    /// Makes a key have used what these words say, whatever was charged before. A charge that races with it comes before or
    /// after, rate by rate.
    ///
    /// Newcomers get a slot if there is one and the words owe something; what keys in overflow share counts at least as much.
    pub(crate) fn adopt(
        &self,
        key: KeyHash,
        judges: &[Judge; K],
        words: &[Word; K],
    ) -> KeyPlacement {
        let tag = Tag::of(key);
        let homes = self.memory.homes(tag);
        let owes = judges
            .iter()
            .zip(words)
            .any(|(judge, word)| judge.owes(*word));
        if !owes {
            // As in `set`.
            loop {
                match self.find(tag, homes) {
                    Found::At(place) => {
                        let adopt = Change::Adopt(words);
                        if Self::change_known(place, tag, judges, adopt).is_some() {
                            return KeyPlacement::OwnSlot;
                        }
                    }
                    Found::Hidden => _ = self.seated(tag, homes),
                    Found::Nowhere => return self.unseated(tag, homes, judges).placement(),
                }
            }
        }
        match self.change(key, judges, Change::Adopt(words)) {
            Charged::Admitted(state, _) | Charged::Refused(state) => state.placement(),
        }
    }

    /// `None` when the slot is not the key's any more.
    fn set_known(
        &self,
        place: &SlotPlace<'_, K>,
        tag: Tag,
        judges: &[Judge; K],
        used: Option<Cost>,
    ) -> Option<()> {
        for (rate, judge) in judges.iter().enumerate() {
            // Lock-free: another round means that another thread changed this word.
            loop {
                let seen = place.reread(tag, rate)?;
                if swap(place.state(rate), seen, judge.set(seen, used)).is_ok() {
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
        seat: Seat,
        judges: &[Judge; K],
        made: &Made<K>,
        cost: Cost,
    ) {
        match seat {
            Seat::Slot { bucket: home, slot } => {
                let place = self.place(home, slot);
                let charges = made.left.map(|[left, _]| made.charge(left, cost));
                undo(place, Tag::of(key), judges, &charges);
            }
            Seat::Overflow(homes) => self.undo_overflow(homes, judges, made, cost),
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
            match Owner::of(self.tag().load(Ordering::Acquire)) {
                Owner::Key(owner) => return (owner == tag).then_some(word),
                Owner::Nobody => return None,
                Owner::Changing => settled_owner(self.tag()),
            };
        }
    }
}

/// Takes charges out of the first rates of a slot again, last first.
fn undo<const K: usize>(
    place: SlotPlace<'_, K>,
    tag: Tag,
    judges: &[Judge; K],
    charges: &[Charge],
) {
    for (rate, charge) in charges.iter().enumerate().rev() {
        // Lock-free: another round means that another thread changed this word. A slot that went to another key owes
        // this one nothing any more, nor does this one owe it.
        while let Some(seen) = place.reread(tag, rate) {
            let next = judges[rate].undo(seen, *charge);
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
