//! Changes what a key used by other ways than a decision: undo, force, set, reset.

use crate::algorithm::{Algorithm, Judge, Word};
use crate::cost::Cost;
use crate::exact;
use crate::key::KeyHash;
use crate::rate::MAX_RATES;
use crate::remote_state::RemoteState;
use crate::status::KeyPlacement;
use crate::table::{Change, Charged, Made, Seat, State};
use crate::time::Timestamp;

use super::{AnyTable, Limit, Receipt, with_table};

/// The place of a charge that was made in another table: it is found by its key.
const NOWHERE: Seat = Seat::Overflow([0; 2]);

impl Limit {
    /// Forgets what `key` used, for instance when an operator pardons a client; a reset that races with a charge comes
    /// before or after it.
    ///
    /// [`KeyPlacement::Overflow`] says that the key has no counter of its own: what it shares with others stays.
    pub fn reset(&self, key: KeyHash, now: Timestamp) -> KeyPlacement {
        self.put(key, None, now)
    }

    /// Makes `key` have used `used` of every rate and nothing else. [`KeyPlacement::Overflow`] says that it was added to what
    /// the key shares with others instead.
    pub fn set(&self, key: KeyHash, used: Cost, now: Timestamp) -> KeyPlacement {
        self.put(key, Some(used), now)
    }

    fn put(&self, key: KeyHash, used: Option<Cost>, now: Timestamp) -> KeyPlacement {
        let mut limit = self;
        loop {
            let placement = with_table!(&limit.counters.table, table => {
                table.set(key, &limit.judges(now), used)
            }, logs => match used {
                Some(used) => logs.set(key, limit.rates(), used, now),
                None => logs.forget(key, limit.rates(), now),
            });
            match limit.counters.successor() {
                Some(next) => limit = next,
                None => return placement,
            }
        }
    }

    /// Lets `key` have used what a store says, in words, or of logs in `state`.
    pub(crate) fn put_words(
        &self,
        key: KeyHash,
        words: &[Word; MAX_RATES],
        state: &RemoteState,
        now: Timestamp,
    ) -> KeyPlacement {
        with_table!(&self.counters.table, table => {
            let words = std::array::from_fn(|rate| words[rate]);
            table.adopt(key, &self.judges(now), &words)
        }, logs => logs.adopt(key, self.rates(), state, now))
    }

    /// Units that `key` has used of the rate of which it has used most, where these are words.
    pub(crate) fn used_in_words(&self, key: KeyHash, now: Timestamp) -> Option<u64> {
        with_table!(&self.counters.table, table => {
            let judges = self.judges(now);
            let state = table.peek(key, &judges, None);
            let used = |(rate, judge): (usize, &Judge)| {
                judge.used_units(match &state {
                    State::Own(words) => words[rate],
                    State::Shared(rows, _) => judge.lighter(rows[rate]),
                    State::OverShare => Word::UNUSED,
                })
            };
            judges.iter().enumerate().map(used).max()
        }, _logs => None)
    }

    /// Takes `cost` whether it fits or not.
    pub(crate) fn charge_unchecked(&self, key: KeyHash, cost: Cost, now: Timestamp) -> Receipt {
        let (placement, receipt) = with_table!(&self.counters.table, table => {
            match table.change(key, &self.judges(now), Change::ChargeUnchecked(cost)) {
                Charged::Admitted(state, seat) => {
                    let (left, made) = (state.left(), now);
                    (seat.placement(), Receipt::Words { seat, left, made })
                }
                // Force is never refused.
                Charged::Refused(state) => {
                    let (left, made) = (state.left(), now);
                    (state.placement(), Receipt::Words { seat: NOWHERE, left, made })
                }
            }
        }, logs => {
            let receipt = logs.charge_unchecked(key, self.rates(), cost, now);
            (receipt.placement(), Receipt::Log(receipt))
        });
        self.counters.forward(key, placement, cost, now);
        receipt
    }

    /// Takes a charge back whose request never went: it waited in the queue of a leaky bucket. What a queue holds drains in order, and
    /// nothing of a request drains before its turn, so all of its cost still counts, however long it waited.
    pub(crate) fn withdraw(&self, key: KeyHash, receipt: &Receipt, cost: Cost, now: Timestamp) {
        let queued = matches!(self.policy.algorithm(), Algorithm::LeakyBucket { .. });
        match receipt {
            Receipt::Words { seat, left, .. } if queued => {
                let (seat, left) = (*seat, *left);
                let receipt = Receipt::Words {
                    seat,
                    left,
                    made: now,
                };
                self.undo(key, &receipt, cost, now);
            }
            _ => self.undo(key, receipt, cost, now),
        }
    }

    /// Takes `cost` of a charge back, here and where it was taken over to.
    pub(crate) fn undo(&self, key: KeyHash, receipt: &Receipt, cost: Cost, now: Timestamp) {
        // Asked first: see `edit`.
        let heir = self.counters.heir();
        match (receipt, &self.counters.table) {
            (Receipt::Log(receipt), AnyTable::Log(logs)) => {
                logs.release(&mut receipt.clone(), cost);
            }
            (Receipt::Words { seat, left, made }, words) => with_table!(words, table => {
                let made = Made { left: std::array::from_fn(|rate| left[rate]), at: *made };
                table.undo(key, *seat, &self.judges(now), &made, cost);
            }, _logs => {}),
            // A table gives receipts of its own kind.
            (Receipt::Log(_), _) => {}
        }
        if let Some(next) = heir {
            next.undo_taken_over(self, key, receipt, cost, now);
        }
    }

    /// Takes `cost` back of a charge that was made in `from`, which this limit goes on from.
    fn undo_taken_over(
        &self,
        from: &Self,
        key: KeyHash,
        receipt: &Receipt,
        cost: Cost,
        now: Timestamp,
    ) {
        let heir = self.counters.heir();
        let Some(receipt) = self.told(from, key, receipt, cost, now) else {
            return;
        };
        match (&receipt, &self.counters.table) {
            (Receipt::Log(receipt), AnyTable::Log(logs)) => {
                logs.release(&mut receipt.clone(), cost);
            }
            (Receipt::Words { left, made, .. }, words) => with_table!(words, table => {
                let left = std::array::from_fn(|rate| left[rate]);
                table.undo_taken_over(key, &self.judges(now), &Made { left, at: *made }, cost);
            }, _logs => {}),
            (Receipt::Log(_), _) => {}
        }
        if let Some(next) = heir {
            next.undo_taken_over(self, key, &receipt, cost, now);
        }
    }

    /// A receipt of `from` as one of this limit, which goes on from it; `None` when nothing of the charge counts any more.
    fn told(
        &self,
        from: &Self,
        key: KeyHash,
        receipt: &Receipt,
        cost: Cost,
        now: Timestamp,
    ) -> Option<Receipt> {
        match (receipt, &self.counters.table) {
            // Moments are kept.
            (Receipt::Log(_), AnyTable::Log(_)) => Some(receipt.clone()),
            (Receipt::Log(receipt), _) => {
                let judges_at = |made| self.judges_of_four(made);
                let (made, left) = receipt.in_words(judges_at, from.rates(), now)?;
                let (left, seat) = (left.map(|word| [word; 2]), NOWHERE);
                Some(Receipt::Words { seat, left, made })
            }
            // Found if it was made while the words were copied: what they say of earlier charges is not when.
            (Receipt::Words { seat, made, .. }, AnyTable::Log(_)) => Some(Receipt::Log(
                exact::Receipt::of_told(key, *made, cost, seat.placement()),
            )),
            (Receipt::Words { seat, left, made }, _) => {
                let left = with_table!(&from.counters.table, table => {
                    table.converted(&from.judges(now), *left, &self.judges_of_four(now))
                }, _logs => return None);
                let (seat, made) = (*seat, *made);
                Some(Receipt::Words { seat, left, made })
            }
        }
    }
}
