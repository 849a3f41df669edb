//! Decides over a limit together with others: judges what a key may use, and charges it once all of them were judged.
//!
//! Judging a known key yields its decision and the receipt that its charge would have. To charge it is then a compare-and-swap of the
//! words that were judged, at the slot where they were; only if they are others by now is the key looked for and judged again. Decision
//! and receipt are written where they stay: a copy of either costs more than the judgement.

use std::array::from_fn;

use arrayvec::ArrayVec;

use crate::algorithm::sliding_window::SlidingRate;
use crate::cost::Cost;
use crate::decision::{Decision, KeyFinding, MAX_ASKS};
use crate::exact::{self, LogTable};
use crate::key::KeyHash;
use crate::share::Payer;
use crate::status::{AskOutcome, KeyPlacement};
use crate::table::{ChargeOutcome, SlotView, Table};
use crate::time::Timestamp;

use super::{AnyTable, ChargeReceipt, Limit, admitted, in_slot, padded, refused, with_table};

/// The decisions about several asks, and their charges: judged, or made already.
pub(crate) struct JointDecisions {
    pub(crate) decisions: Vec<Decision>,
    /// One for each decision. Before a charge is made, its receipt says what the charge would write; `None` where it is refused, or
    /// where the key must be judged again first.
    pub(crate) receipts: ArrayVec<Option<ChargeReceipt>, MAX_ASKS>,
}

impl JointDecisions {
    /// None yet, with room for those about so many asks, up to [`MAX_ASKS`].
    #[inline(always)]
    pub(crate) fn with_capacity(asks: usize) -> Self {
        Self {
            decisions: Vec::with_capacity(asks.min(MAX_ASKS)),
            receipts: ArrayVec::new(),
        }
    }

    /// Adds the decision about an ask that was not charged, and the receipt of its charge, if that was judged.
    #[inline(always)]
    fn add(&mut self, decision: Decision, receipt: Option<ChargeReceipt>) {
        self.decisions.push(decision);
        self.receipts.push(receipt);
    }
}

impl<const K: usize> SlotView<K> {
    /// The finding of a cost that was not charged.
    #[inline(always)]
    fn finding(&self, cost: Cost) -> KeyFinding {
        let refusing = self.next.err().unwrap_or_default();
        in_slot(AskOutcome::NotCharged(cost), refusing, &self.words)
    }

    /// The receipt of the charge, if it fits.
    #[inline(always)]
    fn receipt(&self, now: Timestamp) -> Option<ChargeReceipt> {
        Some(ChargeReceipt::Words {
            slot_ref: self.slot_ref,
            left: padded(&self.next.ok()?).map(|word| [word; 2]),
            made: now,
        })
    }
}

impl Limit {
    /// Adds to `joint` the decision that `key` would get for `cost` now, and the receipt that its charge would have. Charges nothing.
    #[inline(always)]
    pub(crate) fn judge(
        &self,
        payer: Option<Payer>,
        key: KeyHash,
        cost: Cost,
        now: Timestamp,
        joint: &mut JointDecisions,
    ) {
        // As in `charge`: what most limits use is compiled for itself.
        if let Some(first) = self.compiled_rates[0].sliding() {
            with_table!(
                &self.counters.table,
                table => self.judge_sliding(table, first, (payer, key), cost, now, joint),
                _logs => self.judge_otherwise((payer, key), cost, now, joint),
            );
        } else {
            self.judge_otherwise((payer, key), cost, now, joint);
        }
    }

    #[inline(always)]
    fn judge_sliding<const K: usize>(
        &self,
        table: &Table<K>,
        first: SlidingRate,
        (payer, key): (Option<Payer>, KeyHash),
        cost: Cost,
        now: Timestamp,
        joint: &mut JointDecisions,
    ) {
        match table.see(key, &self.sliding_rates_at(first, now), cost) {
            Some(view) => {
                let finding = view.finding(cost);
                joint.add(
                    Decision::new(now, finding, K, &self.compiled_rates),
                    view.receipt(now),
                );
            }
            None => self.judge_otherwise((payer, key), cost, now, joint),
        }
    }

    #[inline(never)]
    fn judge_otherwise(
        &self,
        (payer, key): (Option<Payer>, KeyHash),
        cost: Cost,
        now: Timestamp,
        joint: &mut JointDecisions,
    ) {
        with_table!(&self.counters.table, table => {
            if let Some(view) = table.see(key, &self.rates_of(key, now), cost) {
                return joint.add(self.decision(view.finding(cost), now), view.receipt(now));
            }
        }, _logs => {});
        joint.add(self.peek_for(payer, key, cost, now), None);
    }

    /// Makes the charge that `decision` and `receipt` were judged for, and updates both. `None` when there is none, or the words have
    /// changed since, and nothing of the charge remains.
    #[inline(always)]
    pub(crate) fn charge_judged(
        &self,
        key: KeyHash,
        cost: Cost,
        now: Timestamp,
        decision: &mut Decision,
        receipt: &mut Option<ChargeReceipt>,
    ) -> Option<()> {
        let Some(ChargeReceipt::Words { slot_ref, left, .. }) = receipt else {
            return None;
        };
        let words = decision.words_mut()?;
        with_table!(&self.counters.table, table => {
            let change = [from_fn(|rate| words[rate]), from_fn(|rate| left[rate][0])];
            let made = table.charge_seen(key, *slot_ref, change, || self.rates_of(key, now), cost)?;
            for (rate, word) in made.into_iter().enumerate() {
                (words[rate], left[rate]) = (word, [word; 2]);
            }
        }, _logs => return None);
        self.counters.forward(key, KeyPlacement::OwnSlot, cost, now);
        decision.set_charged(cost);
        Some(())
    }

    /// Takes `cost` from all rates of a key, or from none; it may have to be undone.
    #[inline(never)]
    pub(crate) fn reserve(
        &self,
        payer: Option<Payer>,
        key: KeyHash,
        cost: Cost,
        now: Timestamp,
    ) -> (Decision, Option<ChargeReceipt>) {
        let (finding, receipt) = with_table!(&self.counters.table, table => {
            let rates_at = self.rates_of(key, now);
            match table.charge(key, &rates_at, cost, self.account(payer, now)) {
                ChargeOutcome::Refused(state) => (refused(&state, &rates_at, cost), None),
                ChargeOutcome::Admitted(state, slot_ref) => {
                    self.counters.forward(key, slot_ref.placement(), cost, now);
                    let left = state.left();
                    let made = now;
                    (admitted(&state, &rates_at, cost), Some(ChargeReceipt::Words { slot_ref, left, made }))
                }
            }
        }, logs => return self.reserve_log(logs, (payer, key), cost, now));
        (self.decision(finding, now), receipt)
    }

    fn reserve_log(
        &self,
        logs: &LogTable,
        (payer, key): (Option<Payer>, KeyHash),
        cost: Cost,
        now: Timestamp,
    ) -> (Decision, Option<ChargeReceipt>) {
        match logs.charge_paid(key, self.rates(), cost, now, self.account(payer, now)) {
            exact::LogCharge::Refused(answer) => (Decision::computed(answer), None),
            exact::LogCharge::Admitted(answer, receipt) => {
                self.counters.forward(key, answer.placement(), cost, now);
                (
                    Decision::computed(answer),
                    Some(ChargeReceipt::Log(receipt)),
                )
            }
        }
    }
}
