//! Looks into a limit in use: which keys owe something, and which are nearest to their limit.
//!
//! Keys show only as hashes. Nothing is locked: what races with the walk is seen before or after, and a key that changes
//! its slot meanwhile may be missed. A walk reads the whole table: for an operator's question, not for a request.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::decision::Decision;
use crate::exact;
use crate::key::KeyHash;
use crate::status::{AskOutcome, RateStatuses, RefusingRates};
use crate::time::Timestamp;

use super::{AnyTable, Limit, in_slot, with_table};

/// Most keys that [`Limit::top`] gives.
const MOST_TOP: usize = 1024;

/// A key that owes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUsage {
    /// The bits of the key's hash that the table holds: all but the lowest.
    pub key: KeyHash,
    decision: Decision,
    /// Thousandths of its fullest rate that are used.
    fullness: u64,
    charged: Option<Timestamp>,
}

impl KeyUsage {
    /// The status of every rate, in the order of the limit's rates.
    #[must_use]
    pub fn statuses(&self) -> RateStatuses {
        self.decision.statuses()
    }

    /// Thousandths of its fullest rate that the key has used; more than 1000 where an edit or a settlement left more.
    #[must_use]
    pub fn fullness(&self) -> u64 {
        self.fullness
    }

    /// Time of the latest charge; `None` for algorithms whose states do not hold it, as in [`Limit::ages`].
    #[must_use]
    pub fn charged(&self) -> Option<Timestamp> {
        self.charged
    }
}

/// The keys of a limit that owe something; see [`Limit::active_keys`].
#[derive(Clone, Debug)]
pub struct ActiveKeys<'l> {
    limit: &'l Limit,
    now: Timestamp,
    next: usize,
}

impl Iterator for ActiveKeys<'_> {
    type Item = KeyUsage;

    fn next(&mut self) -> Option<KeyUsage> {
        let Self { limit, now, .. } = *self;
        let slots =
            with_table!(&limit.counters.table, table => table.slots(), logs => logs.slots());
        with_table!(&limit.counters.table, table => {
            let rates_at = limit.rates_at(now);
            while self.next < slots {
                let slot = self.next;
                self.next += 1;
                let Some((key, words)) = table.occupant(slot, &rates_at) else {
                    continue;
                };
                let mut fullness = 0;
                for (rate_at, word) in rates_at.iter().zip(&words) {
                    let used = rate_at.used_units(*word);
                    let of = used + u64::from(rate_at.status(*word, None).remaining);
                    fullness = fullness.max((1000 * used).checked_div(of).unwrap_or(0));
                }
                let decision = limit.decision(in_slot(AskOutcome::Peeked, RefusingRates::default(), &words), now);
                let charged = rates_at[0].charged(words[0]);
                return Some(KeyUsage { key, decision, fullness, charged });
            }
            None
        }, logs => {
            while self.next < slots {
                let slot = self.next;
                self.next += 1;
                if let Some(exact::LogUsage { key, answer, charged }) = logs.occupant(slot, limit.rates(), now) {
                    let fullness = answer.fullness();
                    let decision = Decision::computed(answer);
                    return Some(KeyUsage { key, decision, fullness, charged: Some(charged) });
                }
            }
            None
        })
    }
}

impl Limit {
    /// The keys that have a slot and owe something.
    #[must_use]
    pub fn active_keys(&self, now: Timestamp) -> ActiveKeys<'_> {
        ActiveKeys {
            limit: self,
            now,
            next: 0,
        }
    }

    /// The `n` keys that have used most of their fullest rate, fullest first; at most 1024.
    #[must_use]
    pub fn top(&self, n: usize, now: Timestamp) -> Vec<KeyUsage> {
        let n = n.min(MOST_TOP);
        // The emptiest of the fullest on top. Ranked without the decision, which is large.
        let mut fullest: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::with_capacity(n + 1);
        let mut kept: Vec<KeyUsage> = Vec::with_capacity(n);
        for occupant in self.active_keys(now) {
            if kept.len() < n {
                fullest.push(Reverse((occupant.fullness, kept.len())));
                kept.push(occupant);
            } else if let Some(mut least) = fullest.peek_mut()
                && least.0.0 < occupant.fullness
            {
                let place = least.0.1;
                least.0.0 = occupant.fullness;
                kept[place] = occupant;
            }
        }
        kept.sort_by_key(|occupant| Reverse(occupant.fullness));
        kept
    }
}
