//! Seats a key that has no slot: under a lock, in a slot that owes nothing, already charged.

use arrayvec::ArrayVec;

use crate::algorithm::{Judge, Word};
use crate::decision::Counted;
use crate::sync::{AtomicU64, Ordering, pause};

use super::known::swap;
use super::layout::{Bucket, MOST_SLOTS, Memory};
use super::tag::{Owner, Tag};
use super::{Change, Charged, Place, State, Table};

/// A slot that owed nothing when it was looked at, with what it held.
struct Vacancy<'t, const K: usize> {
    place: Place<'t, K>,
    owner: Owner,
    words: [Word; K],
}

impl<const K: usize> Table<K> {
    /// What a key without a slot in `homes` has used.
    pub(super) fn unseated(&self, tag: Tag, homes: [usize; 2], judges: &[Judge; K]) -> State<K> {
        let vacant = homes
            .iter()
            .any(|home| !self.vacancies(tag, *home, judges).is_empty());
        State::Shared(
            self.rows(homes),
            if vacant {
                Counted::Alone
            } else {
                Counted::InOverflow
            },
        )
    }

    /// The refusal of a newcomer by what its buckets' overflow words count, if they refuse it: it needs neither lock
    /// nor slot.
    pub(super) fn refuse_newcomer(
        &self,
        tag: Tag,
        homes: [usize; 2],
        judges: &[Judge; K],
        change: Change<'_, K>,
    ) -> Option<Charged<K>> {
        let inherited = lighter(&self.rows(homes), judges);
        if change.apply_all(judges, &inherited).is_some() {
            return None;
        }
        let state = self.unseated(tag, homes, judges);
        // The rows may have changed since; a refusal must be one by the state that it shows.
        let State::Shared(rows, counted) = state else {
            return None;
        };
        if change.apply_all(judges, &lighter(&rows, judges)).is_some() {
            return None;
        }
        if counted == Counted::InOverflow {
            self.counts.refused_in_overflow();
        }
        Some(Charged::Refused(state))
    }

    /// Changes a key that was not found; `None` when it has a slot after all.
    pub(super) fn change_newcomer(
        &self,
        tag: Tag,
        homes: [usize; 2],
        judges: &[Judge; K],
        change: Change<'_, K>,
    ) -> Option<Charged<K>> {
        // Invariant 1: whoever seats this key holds this lock.
        let _turn = Lock::take(self.memory.bucket(homes[0]).lock());
        if self.seated(tag, homes) {
            return None;
        }
        let rows = self.rows(homes);
        // Invariant 5: what it may have used in overflow goes with it; a key that had a slot elsewhere brings that along.
        let inherited = match change {
            Change::Absorb(_) => [Word::UNUSED; K],
            Change::Charge(_) | Change::Force(_) => lighter(&rows, judges),
        };
        let Some(fresh) = change.apply_all(judges, &inherited) else {
            return self.refuse_newcomer(tag, homes, judges, change);
        };
        let mut vacancies = homes.map(|home| self.vacancies(tag, home, judges));
        // The first bucket while it has room to spare, since that is where a search begins; else the emptier one: two
        // choices keep the fullest bucket close to the average one.
        let [first, second] = [vacancies[0].len(), vacancies[1].len()];
        if first <= Bucket::<K>::SPARE && first < second {
            vacancies.swap(0, 1);
        }
        for vacancy in vacancies.iter().flatten() {
            let fresh =
                std::array::from_fn(|rate| judges[rate].follow(fresh[rate], vacancy.words[rate]));
            if vacancy.claim(tag, &fresh) {
                if vacancy.owner != Owner::Nobody {
                    self.counts.reused();
                }
                return Some(Charged::Admitted(State::Own(fresh), vacancy.place.seat()));
            }
        }
        self.counts.admitted_in_overflow();
        Some(self.change_overflow(homes, judges, change))
    }

    /// Adds a change to the overflow words of `homes`, unless the key has a slot; whether it did.
    pub(super) fn change_overflow_unless_seated(
        &self,
        tag: Tag,
        homes: [usize; 2],
        judges: &[Judge; K],
        change: Change<'_, K>,
    ) -> bool {
        let _turn = Lock::take(self.memory.bucket(homes[0]).lock());
        let seated = self.seated(tag, homes);
        if !seated {
            self.change_overflow(homes, judges, change);
        }
        !seated
    }

    /// Whether `tag` has a slot, once nothing in its buckets is changing hands.
    ///
    /// One pass is enough: a slot passed by can become this key's only by a claim for it, which needs the lock that the
    /// caller holds, or by a claim that fails and puts back the owner it found, which was not this key.
    fn seated(&self, tag: Tag, homes: [usize; 2]) -> bool {
        Memory::<K>::distinct(homes).any(|(_, home)| {
            let bucket = self.memory.bucket(home);
            (0..Bucket::<K>::SLOTS).any(|slot| settled_owner(bucket.tag(slot)) == Owner::Key(tag))
        })
    }

    /// The slots of a bucket that owe nothing, in the order of `tag`.
    fn vacancies(
        &self,
        tag: Tag,
        home: usize,
        judges: &[Judge; K],
    ) -> ArrayVec<Vacancy<'_, K>, MOST_SLOTS> {
        let bucket = self.memory.bucket(home);
        let vacancy = |slot| {
            let place = Place { bucket, home, slot };
            // Acquire: pairs with the release of the tag, so that the words are its own.
            let owner = Owner::of(place.tag().load(Ordering::Acquire));
            let words = match owner {
                Owner::Nobody => [Word::UNUSED; K],
                Owner::Key(tag) => place.read(tag)?,
                Owner::Changing => return None,
            };
            let owes = judges
                .iter()
                .zip(&words)
                .any(|(judge, word)| judge.owes(*word));
            (!owes).then_some(Vacancy {
                place,
                owner,
                words,
            })
        };
        Memory::<K>::order(tag).filter_map(vacancy).collect()
    }
}

impl<const K: usize> Vacancy<'_, K> {
    /// Takes the slot over for `tag`, with `fresh` words; `false` when somebody else was faster, and nothing has
    /// changed.
    fn claim(&self, tag: Tag, fresh: &[Word; K]) -> bool {
        let busy = tag.busy();
        // SeqCst, here and at the words: see `known::swap`. Relaxed on failure: nothing was read.
        let taken = self.place.tag().compare_exchange(
            self.owner.bits(),
            busy,
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        if taken.is_err() {
            return false;
        }
        // Invariant 3: fails if the old key was charged since it was looked at.
        if swap(self.place.state(0), self.words[0], fresh[0]).is_err() {
            // Release: whoever finds the old tag again sees nothing of the attempt, since there is nothing to see.
            self.place.tag().store(self.owner.bits(), Ordering::Release);
            return false;
        }
        for (rate, word) in fresh.iter().enumerate().skip(1) {
            // Not compared: the slot is ours. What may have changed here is an undo, or the end of a charge that slept
            // two windows long after its word 0; both concern charges that owe nothing by now.
            self.place.state(rate).swap(word.bits(), Ordering::SeqCst);
        }
        // Release: pairs with the readers' Acquire of the tag, so that they see the words. SeqCst for the copy to a
        // successor.
        self.place.tag().store(tag.bits(), Ordering::SeqCst);
        true
    }
}

/// Whose slot it is, once it is not changing hands.
pub(super) fn settled_owner(tag: &AtomicU64) -> Owner {
    let mut turn = 0;
    loop {
        // SeqCst: Acquire for the words, and the copy to a successor needs more (`limit::edit`).
        match Owner::of(tag.load(Ordering::SeqCst)) {
            // Invariant 6.
            Owner::Changing => pause(&mut turn),
            owner => return owner,
        }
    }
}

/// For each rate the overflow word that counts less.
fn lighter<const K: usize>(rows: &[[Word; 2]; K], judges: &[Judge; K]) -> [Word; K] {
    std::array::from_fn(|rate| judges[rate].lighter(rows[rate]))
}

/// A bucket's lock, held.
struct Lock<'t>(&'t AtomicU64);

const FREE: u64 = 0;
const HELD: u64 = 1;

impl<'t> Lock<'t> {
    fn take(word: &'t AtomicU64) -> Self {
        let mut turn = 0;
        // Acquire: pairs with the Release of the drop; what the last holder seated is seen.
        while word
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            pause(&mut turn);
        }
        Self(word)
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.0.store(FREE, Ordering::Release);
    }
}
