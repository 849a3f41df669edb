//! Changes what a key used by other ways than a decision: undo, force, set, reset.

use crate::algorithm::{Algorithm, RateAt, Word};
use crate::cost::Cost;
use crate::exact;
use crate::key::KeyHash;
use crate::rate::MAX_RATES;
use crate::remote_state::RemoteState;
use crate::status::KeyPlacement;
use crate::table::{ChargeOutcome, KeyState, MadeCharge, SlotRef, WordChange};
use crate::time::Timestamp;

use super::{AnyTable, ChargeReceipt, Limit, with_table};

/// The place of a charge that was made in another table: it is found by its key.
const NOWHERE: SlotRef = SlotRef::Overflow([0; 2]);

impl Limit {
    /// Forgets what `key` used, for instance when an operator clears a client; a reset that races with a charge comes
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
                table.set(key, &limit.rates_of(key, now), used)
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
            table.adopt(key, &self.rates_of(key, now), &words)
        }, logs => logs.adopt(key, self.rates(), state, now))
    }

    /// Units that `key` has used of the rate of which it has used most, where these are words.
    pub(crate) fn used_in_words(&self, key: KeyHash, now: Timestamp) -> Option<u64> {
        with_table!(&self.counters.table, table => {
            let rates_at = self.rates_of(key, now);
            let state = table.peek(key, &rates_at, None);
            let used = |(rate, rate_at): (usize, &RateAt)| {
                rate_at.used_units(match &state {
                    KeyState::Own(words) => words[rate],
                    KeyState::Shared(rows, _) => rate_at.lighter(rows[rate]),
                    KeyState::OverShare => Word::UNUSED,
                })
            };
            rates_at.iter().enumerate().map(used).max()
        }, _logs => None)
    }

    /// Takes `cost` whether it fits or not.
    pub(crate) fn charge_unchecked(
        &self,
        key: KeyHash,
        cost: Cost,
        now: Timestamp,
    ) -> ChargeReceipt {
        let (placement, receipt) = with_table!(&self.counters.table, table => {
            match table.change(key, &self.rates_of(key, now), WordChange::ChargeUnchecked(cost)) {
                ChargeOutcome::Admitted(state, slot_ref) => {
                    let left = state.left();
                    let made = now;
                    (slot_ref.placement(), ChargeReceipt::Words { slot_ref, left, made })
                }
                // Force is never refused.
                ChargeOutcome::Refused(state) => {
                    let left = state.left();
                    let made = now;
                    (state.placement(), ChargeReceipt::Words { slot_ref: NOWHERE, left, made })
                }
            }
        }, logs => {
            let receipt = logs.charge_unchecked(key, self.rates(), cost, now);
            (receipt.placement(), ChargeReceipt::Log(receipt))
        });
        self.counters.forward(key, placement, cost, now);
        receipt
    }

    /// Takes a charge back whose request never went: it waited in the queue of a leaky bucket. What a queue holds drains in order, and
    /// nothing of a request drains before its turn, so all of its cost still counts, however long it waited.
    pub(crate) fn withdraw(
        &self,
        key: KeyHash,
        receipt: &ChargeReceipt,
        cost: Cost,
        now: Timestamp,
    ) {
        let queued = matches!(self.policy.algorithm(), Algorithm::LeakyBucket { .. });
        match receipt {
            ChargeReceipt::Words { slot_ref, left, .. } if queued => {
                let slot_ref = *slot_ref;
                let left = *left;
                let receipt = ChargeReceipt::Words {
                    slot_ref,
                    left,
                    made: now,
                };
                self.undo(key, &receipt, cost, now);
            }
            _ => self.undo(key, receipt, cost, now),
        }
    }

    /// Takes `cost` of a charge back, here and where it was taken over to.
    pub(crate) fn undo(&self, key: KeyHash, receipt: &ChargeReceipt, cost: Cost, now: Timestamp) {
        // Asked first: see `edit`.
        let complete_successor = self.counters.complete_successor();
        match (receipt, &self.counters.table) {
            (ChargeReceipt::Log(receipt), AnyTable::Log(logs)) => {
                logs.release(&mut receipt.clone(), cost);
            }
            (
                ChargeReceipt::Words {
                    slot_ref,
                    left,
                    made,
                },
                words,
            ) => with_table!(words, table => {
                let made = MadeCharge { left: std::array::from_fn(|rate| left[rate]), at: *made };
                table.undo(key, *slot_ref, &self.rates_of(key, now), &made, cost);
            }, _logs => {}),
            // A table gives receipts of its own kind.
            (ChargeReceipt::Log(_), _) => {}
        }
        if let Some(next) = complete_successor {
            next.undo_taken_over(self, key, receipt, cost, now);
        }
    }

    /// Takes `cost` back of a charge that was made in `from`, which this limit goes on from.
    fn undo_taken_over(
        &self,
        from: &Self,
        key: KeyHash,
        receipt: &ChargeReceipt,
        cost: Cost,
        now: Timestamp,
    ) {
        let complete_successor = self.counters.complete_successor();
        let Some(receipt) = self.told(from, key, receipt, cost, now) else {
            return;
        };
        match (&receipt, &self.counters.table) {
            (ChargeReceipt::Log(receipt), AnyTable::Log(logs)) => {
                logs.release(&mut receipt.clone(), cost);
            }
            (ChargeReceipt::Words { left, made, .. }, words) => with_table!(words, table => {
                let left = std::array::from_fn(|rate| left[rate]);
                table.undo_taken_over(key, &self.rates_of(key, now), &MadeCharge { left, at: *made }, cost);
            }, _logs => {}),
            (ChargeReceipt::Log(_), _) => {}
        }
        if let Some(next) = complete_successor {
            next.undo_taken_over(self, key, &receipt, cost, now);
        }
    }

    /// A receipt of `from` as one of this limit, which goes on from it; `None` when nothing of the charge counts any more.
    fn told(
        &self,
        from: &Self,
        key: KeyHash,
        receipt: &ChargeReceipt,
        cost: Cost,
        now: Timestamp,
    ) -> Option<ChargeReceipt> {
        match (receipt, &self.counters.table) {
            // Moments are kept.
            (ChargeReceipt::Log(_), AnyTable::Log(_)) => Some(receipt.clone()),
            (ChargeReceipt::Log(receipt), _) => {
                let rates_at_moment = |made| self.rates_of::<MAX_RATES>(key, made);
                let (made, left) = receipt.in_words(rates_at_moment, from.rates(), now)?;
                let left = left.map(|word| [word; 2]);
                let slot_ref = NOWHERE;
                Some(ChargeReceipt::Words {
                    slot_ref,
                    left,
                    made,
                })
            }
            // Found if it was made while the words were copied: what they say of earlier charges is not when.
            (ChargeReceipt::Words { slot_ref, made, .. }, AnyTable::Log(_)) => {
                Some(ChargeReceipt::Log(exact::LogReceipt::of_told(
                    key,
                    *made,
                    cost,
                    slot_ref.placement(),
                )))
            }
            (
                ChargeReceipt::Words {
                    slot_ref,
                    left,
                    made,
                },
                _,
            ) => {
                let left = with_table!(&from.counters.table, table => {
                    table.converted(&from.rates_at(now), *left, &self.four_rates_at(now))
                }, _logs => return None);
                let slot_ref = *slot_ref;
                let made = *made;
                Some(ChargeReceipt::Words {
                    slot_ref,
                    left,
                    made,
                })
            }
        }
    }
}
