//! Charges a key that has a slot, all its rates or none, and takes charges back.

use crate::cost::Cost;
use crate::sliding_window::{Judge, Word};
use crate::sync::{AtomicU64, Ordering};

use super::lock::settled_owner;
use super::tag::{Owner, Tag};
use super::{Change, Charged, Place, Seat, State, Table};

impl<const K: usize> Table<K> {
    /// Changes the slot of `tag` at `place`; `None` when the slot is not its own any more and nothing of the change
    /// remains.
    pub(super) fn change_known(
        &self,
        place: Place<'_, K>,
        tag: Tag,
        judges: &[Judge; K],
        change: Change<'_, K>,
    ) -> Option<Charged<K>> {
        let mut seen = place.read(tag)?;
        // Judged as a whole first: a refusal writes nothing.
        let Some(mut next) = change.apply_all(judges, &seen) else {
            return Some(Charged::Refused(State::Own(seen)));
        };
        for rate in 0..K {
            // Lock-free: another round means that another thread changed this word.
            while swap(place.state(rate), seen[rate], next[rate]).is_err() {
                // Invariants 3 and 4: at word 0 nothing was written yet; behind it, whoever finds another key's tag has
                // nothing left to undo.
                seen[rate] = place.reread(tag, rate)?;
                match change.apply(&judges[rate], rate, seen[rate]) {
                    Some(word) => next[rate] = word,
                    None => {
                        if let Change::Charge(cost) = change {
                            undo(&place, judges, &next[..rate], cost);
                        }
                        return Some(Charged::Refused(State::Own(seen)));
                    }
                }
            }
        }
        Some(Charged::Admitted(State::Own(next), place.seat()))
    }

    /// Takes back a charge of `cost` made in the windows that start at `windows`, one row a rate; the second of a row
    /// is for the second overflow word.
    pub(crate) fn undo(
        &self,
        seat: Seat,
        judges: &[Judge; K],
        windows: &[[i64; 2]; K],
        cost: Cost,
    ) {
        match seat {
            Seat::Slot { bucket: home, slot } => {
                let place = Place {
                    bucket: self.memory.bucket(home),
                    home,
                    slot,
                };
                for rate in (0..K).rev() {
                    let window = windows[rate][0];
                    revise(place.state(rate), |word| {
                        judges[rate].undo(word, window, cost)
                    });
                }
            }
            Seat::Overflow(homes) => self.undo_overflow(homes, judges, windows, cost),
        }
    }
}

impl<const K: usize> Place<'_, K> {
    /// The word of rate `rate`, once the slot belongs to `tag` for sure; `None` when it belongs to another key.
    fn reread(&self, tag: Tag, rate: usize) -> Option<Word> {
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

/// Takes `cost` out of the first rates of a slot again, last first; `charged` is how the charge left them.
fn undo<const K: usize>(place: &Place<'_, K>, judges: &[Judge; K], charged: &[Word], cost: Cost) {
    for (rate, charged) in charged.iter().enumerate().rev() {
        let window = judges[rate].window_of(*charged);
        revise(place.state(rate), |word| {
            judges[rate].undo(word, window, cost)
        });
    }
}

/// Replaces `seen` by `next`.
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
