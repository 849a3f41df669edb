//! Decides over a limit together with others: looks at what a key may use, and charges it once all of them were looked at.
//!
//! A known key is judged where it is seen. To charge it is then a compare-and-swap of the words that were judged, at the slot where they
//! were; only if they are others by now is the key looked for and judged again.

use crate::algorithm::Word;
use crate::cost::Cost;
use crate::decision::{Decision, Finding};
use crate::exact::{self, Answer, LogTable};
use crate::key::KeyHash;
use crate::rate::MAX_RATES;
use crate::share::Payer;
use crate::status::{Asked, KeyPlacement, Refusing};
use crate::table::{Charged, Seat, Seen, Table};
use crate::time::Timestamp;

use super::{AnyTable, Limit, Receipt, admitted, in_slot, padded, refused, with_table};

/// The result of peeking at a key.
pub(crate) enum Glance {
    /// Its words; and its charge, if the cost fits and it has a slot.
    Words(Finding, Option<Ready>),
    /// The answer of its log.
    Log(Answer),
}

/// A charge that was judged and not made.
#[derive(Clone, Copy)]
pub(crate) struct Ready {
    seat: Seat,
    /// The words after it; behind the last rate they mean nothing.
    next: [Word; MAX_RATES],
}

impl Glance {
    /// Builds the result for a key that has a slot.
    #[inline(always)]
    fn of<const K: usize>(seen: &Seen<K>, cost: Cost) -> Self {
        let (refusing, ready) = match &seen.next {
            Ok(next) => {
                let (seat, next) = (seen.seat, padded(next));
                (Refusing::default(), Some(Ready { seat, next }))
            }
            Err(refusing) => (*refusing, None),
        };
        let finding = in_slot(Asked::Wanted(cost), refusing, &seen.words);
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
    pub(crate) fn look(
        &self,
        payer: Option<Payer>,
        key: KeyHash,
        cost: Cost,
        now: Timestamp,
    ) -> Glance {
        with_table!(&self.counters.table, table => {
            // As in `charge`: what most limits use is compiled for itself.
            let seen = match self.meters[0].sliding() {
                Some(first) => table.see(key, &self.sliding_judges(first, now), cost),
                None => table.see(key, &self.judges(now), cost),
            };
            seen.map_or_else(|| self.look_further(table, (payer, key), cost, now), |seen| Glance::of(&seen, cost))
        }, logs => Glance::Log(logs.peek_for(key, self.rates(), cost, now, self.account(payer, now))))
    }

    /// Looks at a key that has no slot, or none for sure.
    #[inline(never)]
    fn look_further<const K: usize>(
        &self,
        table: &Table<K>,
        (payer, key): (Option<Payer>, KeyHash),
        cost: Cost,
        now: Timestamp,
    ) -> Glance {
        let judges = self.judges(now);
        let state = table.peek(key, &judges, self.account(payer, now));
        Glance::Words(refused(&state, &judges, cost), None)
    }

    /// Builds the decision from the result of peeking.
    #[inline(always)]
    pub(crate) fn say(&self, glance: &Glance, now: Timestamp) -> Decision {
        match glance {
            Glance::Words(finding, _) => self.decision(*finding, now),
            Glance::Log(answer) => Decision::of_log(answer.clone()),
        }
    }

    /// Makes the charge that a look at `key` has judged; it can be undone. `None` when there is none, or not any more, and nothing of it
    /// remains.
    #[inline(always)]
    pub(crate) fn charge_ready(
        &self,
        glance: &Glance,
        key: KeyHash,
        cost: Cost,
        now: Timestamp,
    ) -> Option<(Decision, Receipt)> {
        let Glance::Words(seen, Some(Ready { seat, next })) = glance else {
            return None;
        };
        let words = with_table!(&self.counters.table, table => {
            let words = [&seen.words, next].map(|words| std::array::from_fn(|rate| words[rate]));
            padded(&table.charge_seen(key, *seat, words, || self.judges(now), cost)?)
        }, _logs => return None);
        self.counters.forward(key, KeyPlacement::OwnSlot, cost, now);
        let finding = Finding {
            asked: Asked::Taken(cost),
            placement: KeyPlacement::OwnSlot,
            refusing: Refusing::default(),
            words,
        };
        let receipt = Receipt::Words {
            seat: *seat,
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
    ) -> (Decision, Option<Receipt>) {
        let (finding, receipt) = with_table!(&self.counters.table, table => {
            let judges = self.judges(now);
            match table.charge(key, &judges, cost, self.account(payer, now)) {
                Charged::Refused(state) => (refused(&state, &judges, cost), None),
                Charged::Admitted(state, seat) => {
                    self.counters.forward(key, seat.placement(), cost, now);
                    let (left, made) = (state.left(), now);
                    (admitted(&state, &judges, cost), Some(Receipt::Words { seat, left, made }))
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
    ) -> (Decision, Option<Receipt>) {
        match logs.charge_paid(key, self.rates(), cost, now, self.account(payer, now)) {
            exact::Charged::Refused(answer) => (Decision::of_log(answer), None),
            exact::Charged::Admitted(answer, receipt) => {
                self.counters.forward(key, answer.placement(), cost, now);
                (Decision::of_log(answer), Some(Receipt::Log(receipt)))
            }
        }
    }
}
