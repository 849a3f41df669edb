//! Seats a key that has no slot: under a lock, in a slot that owes nothing, already charged.

use arrayvec::ArrayVec;

use crate::algorithm::{Judge, Word};
use crate::share::{Account, RESERVED};
use crate::status::KeyPlacement;
use crate::sync::Ordering;

use super::layout::{Bucket, MOST_SLOTS, Memory};
use super::lock::{Lock, give_back, settled_owner};
use super::single_word::Weigh;
use super::tag::{Owner, Tag};
use super::update::swap;
use super::{Change, Charged, Made, SlotPlace, State, Table};

/// A slot that owed nothing when it was looked at, with what it held.
pub(super) struct Vacancy<'t, const K: usize> {
    pub(super) place: SlotPlace<'t, K>,
    pub(super) owner: Owner,
    pub(super) words: [Word; K],
}

/// The trace of a claim that failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// No word was written.
    Nothing,
    /// Fresh words, which count for the key that has the slot.
    Words,
}

impl<const K: usize> Table<K> {
    /// Reads the state of a key without a slot in `homes`.
    pub(super) fn unseated(&self, tag: Tag, homes: [usize; 2], judges: &[Judge; K]) -> State<K> {
        let vacant = homes
            .iter()
            .any(|home| !self.vacancies(tag, *home, judges).is_empty());
        if !vacant {
            State::Shared(self.rows(homes), KeyPlacement::Overflow)
        } else if self.was_in_overflow(tag, judges) {
            State::Shared(self.rows(homes), KeyPlacement::OwnSlot)
        } else {
            State::Own([Word::UNUSED; K])
        }
    }

    /// Returns whether overflow words may count something of a key; while its bucket's lock is held, no other answer
    /// is wrong.
    fn was_in_overflow(&self, tag: Tag, judges: &[Judge; K]) -> bool {
        let filter = self.overflow_filter(judges);
        filter.contains(tag, judges[0].now())
    }

    /// Reads the state like [`unseated`](Self::unseated), for a request that this account pays for.
    pub(super) fn unseated_for(
        &self,
        tag: Tag,
        homes: [usize; 2],
        judges: &[Judge; K],
        account: Option<Account<'_>>,
    ) -> State<K> {
        let state = self.unseated(tag, homes, judges);
        let is_roomy = |home: &usize| Self::is_roomy(&self.vacancies(tag, *home, judges));
        match account {
            Some(account) if account.is_over() && !homes.iter().any(is_roomy) => State::OverShare,
            _ => state,
        }
    }

    /// Returns whether a bucket with these vacancies has room for the new keys of payers that have taken their share.
    fn is_roomy(vacancies: &[Vacancy<'_, K>]) -> bool {
        vacancies.len() > RESERVED
    }

    /// The refusal of a newcomer by what its buckets' overflow words count, if they refuse it and it would be counted in them
    /// or begin with them: it needs neither lock nor slot.
    pub(super) fn refuse_newcomer(
        &self,
        tag: Tag,
        homes: [usize; 2],
        judges: &[Judge; K],
        change: Change<'_, K>,
    ) -> Option<Charged<K>> {
        let inherited = lighter(&self.rows(homes), judges);
        if change.apply_all(judges, &inherited).is_ok() {
            return None;
        }
        let state = self.unseated(tag, homes, judges);
        // The rows may have changed since; a refusal must be one by the state that it shows.
        let words = match &state {
            State::Own(words) => *words,
            State::Shared(rows, _) => lighter(rows, judges),
            State::OverShare => return None,
        };
        let is_refused = change.apply_all(judges, &words).is_err();
        is_refused.then_some(Charged::Refused(state))
    }

    /// Changes a key that was not found; `account` pays for its slot, or for its part in overflow words. `None` when it has a
    /// slot after all, or this took so long that another newcomer did not wait for its end.
    pub(super) fn change_newcomer(
        &self,
        tag: Tag,
        homes: [usize; 2],
        judges: &[Judge; K],
        change: Change<'_, K>,
        account: Option<Account<'_>>,
    ) -> Option<Charged<K>> {
        // Invariant 1: whoever seats this key holds this lock.
        let turn = Lock::take(self.memory.bucket(homes[0]).lock());
        if self.seated(tag, homes) {
            return None;
        }
        let rows = self.rows(homes);
        // Invariant 5: what it may have used in overflow goes with it; a key that had a slot elsewhere brings that along.
        let inherited = match change {
            Change::Charge(_) | Change::ChargeUnchecked(_) if self.was_in_overflow(tag, judges) => {
                lighter(&rows, judges)
            }
            _ => [Word::UNUSED; K],
        };
        let Ok(fresh) = change.apply_all(judges, &inherited) else {
            return self.refuse_newcomer(tag, homes, judges, change);
        };
        // A window that others have begun in overflow is not the key's own: what it inherits counts from now on, as it did there.
        let fresh = match change {
            Change::Charge(cost) | Change::ChargeUnchecked(cost) => {
                std::array::from_fn(|rate| judges[rate].force_shared(inherited[rate], cost))
            }
            Change::Absorb(_) | Change::Adopt(_) => fresh,
        };
        let is_over = account.is_some_and(|account| account.is_over());
        let vacancies = self.vacancies_of_both(tag, homes, judges);
        let open = vacancies
            .iter()
            .filter(|home| !is_over || Self::is_roomy(home));
        for vacancy in open.flatten() {
            let fresh =
                std::array::from_fn(|rate| judges[rate].follow(fresh[rate], vacancy.words[rate]));
            if vacancy.claim(&turn, tag, &fresh).is_ok() {
                if vacancy.owner != Owner::Nobody {
                    self.counts.reused();
                }
                if let Some(account) = account {
                    account.enter();
                }
                return Some(Charged::Admitted(State::Own(fresh), vacancy.place.seat()));
            }
            if !turn.is_mine() {
                return None;
            }
        }
        if is_over {
            return Some(Charged::Refused(State::OverShare));
        }
        if change.apply_all(judges, &lighter(&rows, judges)).is_err() {
            return self.refuse_newcomer(tag, homes, judges, change);
        }
        let charged = self.change_overflow(tag, homes, judges, change);
        // Asked after the words were written: whoever takes the turn away from now on sees them. Whoever did before may
        // have judged without them.
        if !turn.is_mine() {
            if let (Change::Charge(cost), Charged::Admitted(State::Shared(rows, _), _)) =
                (change, &charged)
            {
                let made = Made {
                    left: *rows,
                    at: judges[0].now(),
                };
                self.undo_overflow(homes, judges, &made, cost);
            }
            // What is not a charge is added twice then: an edit or a settlement may count twice, never not at all.
            return None;
        }
        self.counts.admitted_in_overflow();
        if let Some(account) = account {
            account.enter();
        }
        Some(charged)
    }

    /// Adds a change to the overflow words of `homes`, unless the key has a slot; whether it did for sure.
    pub(super) fn change_overflow_unless_seated(
        &self,
        tag: Tag,
        homes: [usize; 2],
        judges: &[Judge; K],
        change: Change<'_, K>,
    ) -> bool {
        let turn = Lock::take(self.memory.bucket(homes[0]).lock());
        if self.seated(tag, homes) {
            return false;
        }
        self.change_overflow(tag, homes, judges, change);
        turn.is_mine()
    }

    /// Returns whether `tag` has a slot, once nothing in its buckets is changing hands.
    ///
    /// One pass is enough: a slot passed by can become this key's only by a claim for it, which needs the lock that the
    /// caller holds, or by a claim that fails and puts back the owner it found, which was not this key.
    pub(super) fn seated(&self, tag: Tag, homes: [usize; 2]) -> bool {
        Memory::<K>::distinct(homes).any(|(_, home)| {
            let bucket = self.memory.bucket(home);
            (0..Bucket::<K>::SLOTS).any(|slot| settled_owner(bucket.tag(slot)) == Owner::Key(tag))
        })
    }

    /// The slots of both buckets that owe nothing, in the order in which they should be taken.
    pub(super) fn vacancies_of_both<W: Weigh>(
        &self,
        tag: Tag,
        homes: [usize; 2],
        judges: &[W; K],
    ) -> [ArrayVec<Vacancy<'_, K>, MOST_SLOTS>; 2] {
        let mut vacancies = homes.map(|home| self.vacancies(tag, home, judges));
        // The first bucket while it has room to spare, since that is where a search begins; else the emptier one: two
        // choices keep the fullest bucket close to the average one.
        let [first, second] = [vacancies[0].len(), vacancies[1].len()];
        if first <= Bucket::<K>::SPARE && first < second {
            vacancies.swap(0, 1);
        }
        vacancies
    }

    /// The slots of a bucket that owe nothing, in the order of `tag`.
    fn vacancies<W: Weigh>(
        &self,
        tag: Tag,
        home: usize,
        judges: &[W; K],
    ) -> ArrayVec<Vacancy<'_, K>, MOST_SLOTS> {
        let bucket = self.memory.bucket(home);
        let vacancy = |slot| {
            let place = SlotPlace { bucket, home, slot };
            // Acquire: pairs with the release of the tag, so that the words are its own.
            let owner = Owner::of(place.tag().load(Ordering::Acquire));
            let words = match owner {
                // All zero, unless a claim was given up after it had written: then it is like any other slot.
                Owner::Nobody => place.words(),
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
    /// Takes the slot over for `tag`, with `fresh` words, in its newcomers' `turn`.
    ///
    /// # Errors
    /// When that failed, and nothing counts for `tag` here; what it left behind.
    pub(super) fn claim(&self, turn: &Lock<'_>, tag: Tag, fresh: &[Word; K]) -> Result<(), Lost> {
        let (place, busy) = (&self.place, self.owner.busy());
        // SeqCst, here and at the words: see `update::swap`. Relaxed on failure: nothing was read.
        let taken = place.tag().compare_exchange(
            self.owner.bits(),
            busy,
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        if taken.is_err() {
            return Err(Lost::Nothing);
        }
        // Invariant 3: fails if the old key was charged since it was looked at.
        let won = swap(place.state(0), self.words[0], fresh[0]).is_ok();
        // Invariant 1. Whoever takes the turn away after a yes sees the busy bit and waits for it; whoever did before may
        // have seated the key elsewhere. Asked behind word 0, since from there on the slot owes: it is not claimed again
        // before that has run out, so a busy word that is found below is this claim's own (`lock` has the limits).
        if !won || !turn.is_mine() || !self.write_rest(busy, fresh) {
            give_back(place.tag(), busy);
            return Err(if won { Lost::Words } else { Lost::Nothing });
        }
        // Fails if somebody lost patience and gave the slot back. Release: pairs with the readers' Acquire of the tag, so
        // that they see the words. SeqCst for the copy to a successor.
        place
            .tag()
            .compare_exchange(busy, tag.bits(), Ordering::SeqCst, Ordering::Relaxed)
            .map(drop)
            .map_err(|_| Lost::Words)
    }

    /// Writes all words but the first, as long as the slot is still `busy`; whether it was.
    ///
    /// What they hold is not compared with what was judged: a change since then can only be an undo, or the end of a
    /// charge that slept two windows long after its word 0; both concern charges that owe nothing by now.
    fn write_rest(&self, busy: u64, fresh: &[Word; K]) -> bool {
        fresh.iter().enumerate().skip(1).all(|(rate, word)| {
            let state = self.place.state(rate);
            // Lock-free: another round means that another thread changed the word.
            loop {
                // Acquire: keeps the look at the tag behind it. A key that got the slot back and was charged since then
                // has changed the word, so the exchange fails, and the next look finds the tag.
                let seen = Word::from_bits(state.load(Ordering::Acquire));
                if self.place.tag().load(Ordering::Acquire) != busy {
                    return false;
                }
                if swap(state, seen, *word).is_ok() {
                    return true;
                }
            }
        })
    }
}

/// For each rate the overflow word that counts less.
fn lighter<const K: usize>(rows: &[[Word; 2]; K], judges: &[Judge; K]) -> [Word; K] {
    std::array::from_fn(|rate| judges[rate].lighter(rows[rate]))
}
