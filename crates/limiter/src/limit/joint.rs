//! Decides over a limit together with others: looks at what a key may use, and charges it once all of them were looked at.
//!
//! A known key is judged where it is seen. To charge it is then a compare-and-swap of the words that were judged, at the slot where they
//! were; only if they are others by now is the key looked for and judged again.

use crate::algorithm::Word;
use crate::cost::Cost;
use crate::decision::{Decision, KeyFinding};
use crate::exact::{self, LogAnswer, LogTable};
use crate::key::KeyHash;
use crate::rate::MAX_RATES;
use crate::share::Payer;
use crate::status::{AskOutcome, KeyPlacement, RefusingRates};
use crate::table::{ChargeOutcome, SlotRef, SlotView, Table};
use crate::time::Timestamp;

use super::{AnyTable, ChargeReceipt, Limit, admitted, in_slot, padded, refused, with_table};

/// The result of peeking at a key.
pub(crate) enum PeekedKey {
    /// Its words; and its charge, if the cost fits and it has a slot.
    Words(KeyFinding, Option<ReadyCharge>),
    /// The answer of its log.
    Log(LogAnswer),
}

/// A charge that was judged and not made.
#[derive(Clone, Copy)]
pub(crate) struct ReadyCharge {
    slot_ref: SlotRef,
    /// The words after it; behind the last rate they mean nothing.
    next: [Word; MAX_RATES],
}

impl PeekedKey {
    /// Builds the result for a key that has a slot.
    #[inline(always)]
    fn of<const K: usize>(seen: &SlotView<K>, cost: Cost) -> Self {
        let (refusing, ready) = match &seen.next {
            Ok(next) => {
                let (slot_ref, next) = (seen.slot_ref, padded(next));
                (
                    RefusingRates::default(),
                    Some(ReadyCharge { slot_ref, next }),
                )
            }
            Err(refusing) => (*refusing, None),
        };
        let finding = in_slot(AskOutcome::NotCharged(cost), refusing, &seen.words);
        Self::Words(finding, ready)
    }

    /// Returns whether some rate has no room.
    pub(crate) fn refuses(&self) -> bool {
        match self {
            Self::Words(finding, _) => finding.refuses(),
            Self::Log(answer) => answer.refusing().is_some(),
        }
    }

    /// Has it judged again before it is charged: other asks take from the same counter.
    pub(crate) fn forget_charge(&mut self) {
        if let Self::Words(_, ready) = self {
            *ready = None;
        }
    }
}

impl Limit {
    /// Looks at what `key` would be told if it asked for `cost` now. Writes nothing.
    pub(crate) fn peek_key(
        &self,
        payer: Option<Payer>,
        key: KeyHash,
        cost: Cost,
        now: Timestamp,
    ) -> PeekedKey {
        with_table!(&self.counters.table, table => {
            // As in `charge`: what most limits use is compiled for itself.
            let seen = match self.compiled_rates[0].sliding() {
                Some(first) => table.see(key, &self.sliding_rates_at(first, now), cost),
                None => table.see(key, &self.rates_at(now), cost),
            };
            match seen {
                Some(seen) => PeekedKey::of(&seen, cost),
                None => self.peek_without_slot(table, (payer, key), cost, now),
            }
        }, logs => {
            let account = self.account(payer, now);
            PeekedKey::Log(logs.peek_for(key, self.rates(), cost, now, account))
        })
    }

    /// Looks at a key that has no slot, or none for sure.
    #[inline(never)]
    fn peek_without_slot<const K: usize>(
        &self,
        table: &Table<K>,
        (payer, key): (Option<Payer>, KeyHash),
        cost: Cost,
        now: Timestamp,
    ) -> PeekedKey {
        let rates_at = self.rates_at(now);
        let state = table.peek(key, &rates_at, self.account(payer, now));
        PeekedKey::Words(refused(&state, &rates_at, cost), None)
    }

    /// Builds the decision from the result of peeking.
    #[inline(always)]
    pub(crate) fn decision_of(&self, peeked: &PeekedKey, now: Timestamp) -> Decision {
        match peeked {
            PeekedKey::Words(finding, _) => self.decision(*finding, now),
            PeekedKey::Log(answer) => Decision::of_log(answer.clone()),
        }
    }

    /// Makes the charge that a look at `key` has judged; it can be undone. `None` when there is none, or not any more, and nothing of it
    /// remains.
    #[inline(always)]
    pub(crate) fn charge_ready(
        &self,
        peeked: &PeekedKey,
        key: KeyHash,
        cost: Cost,
        now: Timestamp,
    ) -> Option<(Decision, ChargeReceipt)> {
        let PeekedKey::Words(seen, Some(ReadyCharge { slot_ref, next })) = peeked else {
            return None;
        };
        let words = with_table!(&self.counters.table, table => {
            let words = [&seen.words, next].map(|words| std::array::from_fn(|rate| words[rate]));
            padded(&table.charge_seen(key, *slot_ref, words, || self.rates_at(now), cost)?)
        }, _logs => return None);
        self.counters.forward(key, KeyPlacement::OwnSlot, cost, now);
        let finding = KeyFinding {
            asked: AskOutcome::Charged(cost),
            placement: KeyPlacement::OwnSlot,
            refusing: RefusingRates::default(),
            words,
        };
        let receipt = ChargeReceipt::Words {
            slot_ref: *slot_ref,
            left: words.map(|word| [word; 2]),
            made: now,
        };
        Some((self.decision(finding, now), receipt))
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
            let rates_at = self.rates_at(now);
            match table.charge(key, &rates_at, cost, self.account(payer, now)) {
                ChargeOutcome::Refused(state) => (refused(&state, &rates_at, cost), None),
                ChargeOutcome::Admitted(state, slot_ref) => {
                    self.counters.forward(key, slot_ref.placement(), cost, now);
                    let (left, made) = (state.left(), now);
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
            exact::LogCharge::Refused(answer) => (Decision::of_log(answer), None),
            exact::LogCharge::Admitted(answer, receipt) => {
                self.counters.forward(key, answer.placement(), cost, now);
                (Decision::of_log(answer), Some(ChargeReceipt::Log(receipt)))
            }
        }
    }
}
