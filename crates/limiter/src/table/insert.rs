//! Inserts a key that has no slot: under a lock, in a slot that owes nothing, already charged.

use std::ops::ControlFlow;

use arrayvec::ArrayVec;

use crate::algorithm::{RateAt, Word};
use crate::share::{PayerAccount, RESERVED};
use crate::status::KeyPlacement;
use crate::sync::Ordering;

use super::layout::{Bucket, MOST_SLOTS, TableMemory};
use super::lock::{BucketLock, give_back, settled_owner};
use super::slot_weight::SlotWeight;
use super::tag::{SlotOwner, Tag};
use super::update::swap;
use super::{ChargeOutcome, KeyAddress, KeyState, MadeCharge, SlotPlace, Table, WordChange};

/// A key that wants a slot, and what for.
#[derive(Clone, Copy)]
pub(super) struct AbsentKey<'c, const K: usize> {
    pub(super) at: KeyAddress,
    pub(super) rates_at: &'c [RateAt; K],
    pub(super) change: WordChange<'c, K>,
    /// The account that pays for the slot, or for its part in overflow words.
    pub(super) account: Option<PayerAccount<'c>>,
}

/// A slot that owed nothing when it was looked at, with what it held.
pub(super) struct VacantSlot<'t, const K: usize> {
    pub(super) place: SlotPlace<'t, K>,
    pub(super) owner: SlotOwner,
    pub(super) words: [Word; K],
}

/// The vacant slots of a bucket.
type VacantSlots<'t, const K: usize> = ArrayVec<VacantSlot<'t, K>, MOST_SLOTS>;

/// The trace of a claim that failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimTrace {
    /// No word was written.
    Nothing,
    /// Fresh words, which count for the key that has the slot.
    Words,
}

/// Another thread gave up waiting for the lock of a bucket, and took it away.
struct LockLost;

impl<const K: usize> Table<K> {
    /// Reads the state of a key without a slot.
    pub(super) fn state_without_slot(&self, at: KeyAddress, rates_at: &[RateAt; K]) -> KeyState<K> {
        let vacant = at
            .candidate_buckets
            .iter()
            .any(|bucket_index| !self.vacancies(at.tag, *bucket_index, rates_at).is_empty());
        if !vacant {
            KeyState::Shared(self.rows(at.candidate_buckets), KeyPlacement::Overflow)
        } else if self.was_in_overflow(at.tag, rates_at) {
            KeyState::Shared(self.rows(at.candidate_buckets), KeyPlacement::OwnSlot)
        } else {
            KeyState::Own([Word::UNUSED; K])
        }
    }

    /// Returns whether overflow words may count something of a key; while its bucket's lock is held, no other answer
    /// is wrong.
    fn was_in_overflow(&self, tag: Tag, rates_at: &[RateAt; K]) -> bool {
        let filter = self.overflow_filter(rates_at);
        filter.contains(tag, rates_at[0].now())
    }

    /// Reads the state like [`state_without_slot`](Self::state_without_slot), for a request that this account pays for.
    pub(super) fn state_without_slot_for(
        &self,
        at: KeyAddress,
        rates_at: &[RateAt; K],
        account: Option<PayerAccount<'_>>,
    ) -> KeyState<K> {
        let state = self.state_without_slot(at, rates_at);
        let is_roomy =
            |bucket_index: &usize| Self::is_roomy(&self.vacancies(at.tag, *bucket_index, rates_at));
        match account {
            Some(account) if account.is_over() && !at.candidate_buckets.iter().any(is_roomy) => {
                KeyState::OverShare
            }
            _ => state,
        }
    }

    /// Returns whether a bucket with these vacancies has room for the new keys of payers that have taken their share.
    fn is_roomy(vacancies: &[VacantSlot<'_, K>]) -> bool {
        vacancies.len() > RESERVED
    }

    /// The refusal of a new key by what its buckets' overflow words count, if they refuse it and it would be counted in them
    /// or begin with them: it needs neither lock nor slot.
    fn refuse_new_key(&self, new_key: &AbsentKey<'_, K>) -> Option<ChargeOutcome<K>> {
        let rates_at = new_key.rates_at;
        let change = new_key.change;
        let inherited = lighter(&self.rows(new_key.at.candidate_buckets), rates_at);
        if change.apply_all(rates_at, &inherited).is_ok() {
            return None;
        }
        let state = self.state_without_slot(new_key.at, rates_at);
        // The rows may have changed since; a refusal must be one by the state that it shows.
        let words = match &state {
            KeyState::Own(words) => *words,
            KeyState::Shared(rows, _) => lighter(rows, rates_at),
            KeyState::OverShare => return None,
        };
        let is_refused = change.apply_all(rates_at, &words).is_err();
        is_refused.then_some(ChargeOutcome::Refused(state))
    }

    /// Changes a key that had no slot, or refuses the change by what overflow words count. `None` as of
    /// [`insert_changed`](Self::insert_changed).
    pub(super) fn change_absent(&self, new_key: &AbsentKey<'_, K>) -> Option<ChargeOutcome<K>> {
        let refusal = self.refuse_new_key(new_key);
        refusal.or_else(|| self.insert_changed(new_key))
    }

    /// Changes a key that was not found. `None` when it has a slot after all, or this took so long that another new key did not wait for
    /// its end.
    pub(super) fn insert_changed(&self, new_key: &AbsentKey<'_, K>) -> Option<ChargeOutcome<K>> {
        let AbsentKey {
            at,
            rates_at,
            change,
            account,
        } = *new_key;
        // Invariant 1: a thread that inserts this key holds this lock.
        let turn = BucketLock::take(self.memory.bucket(at.candidate_buckets[0]).lock());
        if self.has_slot(at) {
            return None;
        }
        let rows = self.rows(at.candidate_buckets);
        let inherited = self.inherited(new_key, &rows);
        let Ok(changed) = change.apply_all(rates_at, &inherited) else {
            return self.refuse_new_key(new_key);
        };
        // A window that others have begun in overflow is not the key's own: what it inherits counts from now on, as it did there.
        let fresh = match change {
            WordChange::Charge(cost) | WordChange::ChargeUnchecked(cost) => {
                std::array::from_fn(|rate| rates_at[rate].charge_shared(inherited[rate], cost))
            }
            WordChange::Absorb(_) | WordChange::Adopt(_) => changed,
        };
        if let Some(admitted) = self.claim_vacancy(&turn, new_key, &fresh).ok()? {
            return Some(admitted);
        }
        if account.is_some_and(|account| account.is_over()) {
            return Some(ChargeOutcome::Refused(KeyState::OverShare));
        }
        let overflow = lighter(&rows, rates_at);
        if change.apply_all(rates_at, &overflow).is_err() {
            return self.refuse_new_key(new_key);
        }
        let charged = self.change_overflow_in_turn(&turn, new_key)?;
        self.counts.admitted_in_overflow();
        if let Some(account) = account {
            account.enter();
        }
        Some(charged)
    }

    /// Returns the words with which a new key begins before its change (invariant 5): what it may have used in overflow goes with it; a
    /// key that had a slot elsewhere brings that along.
    fn inherited(&self, new_key: &AbsentKey<'_, K>, rows: &[[Word; 2]; K]) -> [Word; K] {
        match new_key.change {
            WordChange::Charge(_) | WordChange::ChargeUnchecked(_)
                if self.was_in_overflow(new_key.at.tag, new_key.rates_at) =>
            {
                lighter(rows, new_key.rates_at)
            }
            _ => [Word::UNUSED; K],
        }
    }

    /// Takes the first vacant slot that the key's account may have and that nobody else takes meanwhile; `None` if there is none.
    ///
    /// # Errors
    /// The lock was taken away in the meantime.
    fn claim_vacancy(
        &self,
        turn: &BucketLock<'_>,
        new_key: &AbsentKey<'_, K>,
        fresh: &[Word; K],
    ) -> Result<Option<ChargeOutcome<K>>, LockLost> {
        let AbsentKey {
            at,
            rates_at,
            account,
            ..
        } = *new_key;
        let is_over = account.is_some_and(|account| account.is_over());
        let claimed = self.visit_vacancies(at.tag, at.candidate_buckets, rates_at, |vacancies| {
            if is_over && !Self::is_roomy(vacancies) {
                return ControlFlow::Continue(());
            }
            for vacancy in vacancies {
                let fresh = std::array::from_fn(|rate| {
                    rates_at[rate].follow(fresh[rate], vacancy.words[rate])
                });
                if vacancy.claim(turn, at.tag, &fresh).is_ok() {
                    if vacancy.owner != SlotOwner::Nobody {
                        self.counts.reused();
                    }
                    if let Some(account) = account {
                        account.enter();
                    }
                    let slot_ref = vacancy.place.slot_ref();
                    let admitted = ChargeOutcome::Admitted(KeyState::Own(fresh), slot_ref);
                    return ControlFlow::Break(Ok(admitted));
                }
                if !turn.is_mine() {
                    return ControlFlow::Break(Err(LockLost));
                }
            }
            ControlFlow::Continue(())
        });
        claimed.transpose()
    }

    /// Adds a change to the overflow words, and takes a charge back if the lock was taken away in the meantime: then it is `None`.
    fn change_overflow_in_turn(
        &self,
        turn: &BucketLock<'_>,
        new_key: &AbsentKey<'_, K>,
    ) -> Option<ChargeOutcome<K>> {
        let AbsentKey {
            at,
            rates_at,
            change,
            ..
        } = *new_key;
        let charged = self.change_overflow(at, rates_at, change);
        // Asked after the words were written: a thread that breaks the lock from now on sees them. One that did before may
        // have judged without them.
        if turn.is_mine() {
            return Some(charged);
        }
        if let (WordChange::Charge(cost), ChargeOutcome::Admitted(KeyState::Shared(rows, _), _)) =
            (change, &charged)
        {
            let made = MadeCharge {
                left: *rows,
                at: rates_at[0].now(),
            };
            self.undo_overflow(at.candidate_buckets, rates_at, &made, cost);
        }
        // What is not a charge is added twice then: an edit or a settlement may count twice, never not at all.
        None
    }

    /// Adds a change to the overflow words of a key's buckets, unless the key has a slot; whether it did for sure.
    pub(super) fn change_overflow_unless_resident(
        &self,
        at: KeyAddress,
        rates_at: &[RateAt; K],
        change: WordChange<'_, K>,
    ) -> bool {
        let turn = BucketLock::take(self.memory.bucket(at.candidate_buckets[0]).lock());
        if self.has_slot(at) {
            return false;
        }
        self.change_overflow(at, rates_at, change);
        turn.is_mine()
    }

    /// Returns whether the key has a slot, once nothing in its buckets is changing hands.
    ///
    /// One pass is enough: a slot passed by can become this key's only by a claim for it, which needs the lock that the
    /// caller holds, or by a claim that fails and puts back the owner it found, which was not this key.
    pub(super) fn has_slot(&self, at: KeyAddress) -> bool {
        TableMemory::<K>::distinct(at.candidate_buckets).any(|(_, bucket_index)| {
            let bucket = self.memory.bucket(bucket_index);
            (0..Bucket::<K>::SLOTS)
                .any(|slot| settled_owner(bucket.tag(slot)) == SlotOwner::Key(at.tag))
        })
    }

    /// Calls `visit` with the slots of each bucket that owe nothing, in the order in which they should be taken, until it breaks. The
    /// second bucket is looked at when its slots are asked for, or decide the order: most new keys take a slot of the first, and then the
    /// other lines are never loaded.
    #[inline]
    pub(super) fn visit_vacancies<'t, W: SlotWeight, R>(
        &'t self,
        tag: Tag,
        [first, second]: [usize; 2],
        rates_at: &[W; K],
        mut visit: impl FnMut(&[VacantSlot<'t, K>]) -> ControlFlow<R>,
    ) -> Option<R> {
        let of_first = self.vacancies(tag, first, rates_at);
        // The first bucket while it has room to spare, since that is where a search begins; else the emptier one: two
        // choices keep the fullest bucket close to the average one.
        if of_first.len() > Bucket::<K>::SPARE {
            if let ControlFlow::Break(found) = visit(&of_first) {
                return Some(found);
            }
            return visit(&self.vacancies(tag, second, rates_at)).break_value();
        }
        let of_second = self.vacancies(tag, second, rates_at);
        let in_turn = if of_first.len() < of_second.len() {
            [&of_second, &of_first]
        } else {
            [&of_first, &of_second]
        };
        let mut in_turn = in_turn.into_iter();
        in_turn.find_map(|vacancies| visit(vacancies).break_value())
    }

    /// The slots of a bucket that owe nothing, in the order of `tag`.
    fn vacancies<W: SlotWeight>(
        &self,
        tag: Tag,
        bucket_index: usize,
        rates_at: &[W; K],
    ) -> VacantSlots<'_, K> {
        let bucket = self.memory.bucket(bucket_index);
        let mut vacancies = VacantSlots::new();
        for half in Bucket::<K>::halves(tag) {
            for slot in half.slots() {
                let place = SlotPlace {
                    bucket,
                    bucket_index,
                    slot,
                };
                vacancies.extend(place.vacancy(rates_at));
            }
        }
        vacancies
    }
}

impl<'t, const K: usize> SlotPlace<'t, K> {
    /// Returns the slot if it owes nothing.
    #[inline(always)]
    fn vacancy<W: SlotWeight>(self, rates_at: &[W; K]) -> Option<VacantSlot<'t, K>> {
        // Acquire: pairs with the release of the tag, so that the words are its own.
        let owner = SlotOwner::from_bits(self.tag().load(Ordering::Acquire));
        let words = match owner {
            // All zero, unless a claim was given up after it had written: then it is like any other slot.
            SlotOwner::Nobody => self.words(),
            SlotOwner::Key(tag) => self.read(tag)?,
            SlotOwner::Changing => return None,
        };
        let mut each = rates_at.iter().zip(&words);
        let owes = each.any(|(rate_at, word)| rate_at.owes(*word));
        (!owes).then_some(VacantSlot {
            place: self,
            owner,
            words,
        })
    }
}

impl<const K: usize> VacantSlot<'_, K> {
    /// Takes the slot over for `tag`, with `fresh` words, in its new keys' `turn`.
    ///
    /// # Errors
    /// When that failed, and nothing counts for `tag` here; what it left behind.
    pub(super) fn claim(
        &self,
        turn: &BucketLock<'_>,
        tag: Tag,
        fresh: &[Word; K],
    ) -> Result<(), ClaimTrace> {
        let place = &self.place;
        let busy = self.owner.busy();
        // SeqCst, here and at the words: see `update::swap`. Relaxed on failure: nothing was read.
        let taken = place.tag().compare_exchange(
            self.owner.bits(),
            busy,
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
        if taken.is_err() {
            return Err(ClaimTrace::Nothing);
        }
        // Invariant 3: fails if the old key was charged since it was looked at.
        let won = swap(place.state(0), self.words[0], fresh[0]).is_ok();
        // Invariant 1. A thread that breaks the lock after a yes sees the busy bit and waits for it; one that did before may
        // have inserted the key elsewhere. Asked behind word 0, since from there on the slot owes: it is not claimed again
        // before that has run out, so a busy word that is found below is this claim's own (`lock` has the limits).
        if !won || !turn.is_mine() || !self.write_rest(busy, fresh) {
            give_back(place.tag(), busy);
            return Err(if won {
                ClaimTrace::Words
            } else {
                ClaimTrace::Nothing
            });
        }
        // Fails if another thread gave up waiting and gave the slot back. Release: pairs with the readers' Acquire of the tag, so
        // that they see the words. SeqCst for the copy to a successor.
        place
            .tag()
            .compare_exchange(busy, tag.bits(), Ordering::SeqCst, Ordering::Relaxed)
            .map(drop)
            .map_err(|_| ClaimTrace::Words)
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
fn lighter<const K: usize>(rows: &[[Word; 2]; K], rates_at: &[RateAt; K]) -> [Word; K] {
    std::array::from_fn(|rate| rates_at[rate].lighter(rows[rate]))
}
