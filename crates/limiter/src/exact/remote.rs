//! Tells what a store says of a log, and gives a log what a store says.
//!
//! A log of a store may be a thousand entries long and is not sent. An answer needs three of them for each rate: the latest,
//! the one that is waited for, and the oldest that counts. From these a log is made here that a view of the store can be
//! judged by: at each of the known ages the entry that is known, between two of them the older one. So every entry is at
//! most as late as the one that it stands for: the view counts as much as the store in each rate, refuses the cost that the
//! store refused exactly as long, and any other cost no longer than the store would.

use std::time::Duration;

use crate::cost::Cost;
use crate::key::KeyHash;
use crate::rate::{MAX_RATES, Rate, Rates};
use crate::remote_state::{LogEntry, RateState, RemoteState};
use crate::status::{AskOutcome, KeyPlacement, NEVER, RateStatus};
use crate::time::Timestamp;

use super::change::{LogChange, LogUpdate};
use super::control::SpillState;
use super::evaluate::LogTime;
use super::inherited_entries::InheritedEntries;
use super::insert::SlotInheritance;
use super::{ComputedAnswer, LogTable};

impl LogTable {
    /// Makes `key` have used what a store says, whatever was charged before; in overflow what it shares counts at least as
    /// much.
    ///
    /// A log that adopts is emptied and filled: should its holder die between, or be taken for dead, it has forgotten. So
    /// dominance (`log`, invariant 1) does not hold for it, and need not: the store knows.
    pub(crate) fn adopt(
        &self,
        key: KeyHash,
        rates: &Rates,
        state: &RemoteState,
        now: Timestamp,
    ) -> KeyPlacement {
        let told = InheritedEntries::told(state, self.memory.entries());
        if told.moments.is_empty() {
            return self.forget(key, rates, now);
        }
        let change = LogChange::Adopt(&told);
        match self.change(key, rates, &change, SlotInheritance::Nothing, now) {
            LogUpdate::Made { answer, .. } | LogUpdate::Refused(answer) => answer.placement(),
        }
    }
}

impl ComputedAnswer {
    /// Builds the answer from a store's log; `refusing` has a bit for each rate that refuses.
    pub(crate) fn remote(
        rates: &Rates,
        state: &RemoteState,
        asked: AskOutcome,
        refusing: u8,
        now: Timestamp,
    ) -> Self {
        let moment = LogTime::new(now);
        Self::new(rates.iter().enumerate().map(|(index, rate)| {
            let refuses = refusing & 1 << index != 0;
            let refused = match asked {
                AskOutcome::NotCharged(cost) if refuses => Some(cost),
                _ => None,
            };
            let status = stand(rate, &state.rate(index), refused, moment);
            (status, refuses)
        }))
    }
}

/// Computes the status of a rate like `LogView::status` in `evaluate`, from the entries that the store returned.
fn stand(rate: &Rate, state: &RateState, refused: Option<Cost>, moment: LogTime) -> RateStatus {
    let frees = |entry: u64| moment.until_expiry(entry, rate.period());
    let RateState::Logged {
        latest,
        awaited,
        oldest,
    } = *state
    else {
        return RateStatus {
            rate: *rate,
            remaining: rate.count(),
            next_free: refused.map_or(Duration::ZERO, |_| NEVER),
            reset: Duration::ZERO,
        };
    };
    let used = oldest.map_or(0, |oldest| oldest.age.saturating_add(1));
    let awaited = awaited.map(|entry| frees(entry.millis));
    RateStatus {
        rate: *rate,
        remaining: rate.count().saturating_sub(used),
        next_free: match refused {
            Some(cost) if cost.get() > rate.count() => NEVER,
            Some(_) => awaited.unwrap_or(NEVER),
            None => awaited.unwrap_or(Duration::ZERO),
        },
        reset: if used == 0 {
            Duration::ZERO
        } else {
            frees(latest)
        },
    }
}

impl InheritedEntries {
    /// A log of at most `size` entries of which no entry is later than the store's of the same age, and those that the store
    /// told are as they were told.
    pub(super) fn told(state: &RemoteState, size: u32) -> Self {
        // Of each rate the latest, the awaited and the oldest.
        let mut known = arrayvec::ArrayVec::<LogEntry, { 3 * MAX_RATES }>::new();
        for rate in state.rates() {
            if let RateState::Logged {
                latest,
                awaited,
                oldest,
            } = *rate
            {
                let newest = oldest.map(|_| LogEntry {
                    age: 0,
                    millis: latest,
                });
                known.extend(newest.into_iter().chain(awaited).chain(oldest));
            }
        }
        known.sort_unstable_by_key(|entry| entry.age);
        let mut from = 0;
        // Whatever a store says, a log is in order: no entry is later than one of a lower age.
        let mut bound = u64::MAX;
        let moments = known.into_iter().flat_map(move |entry| {
            let until = entry.age.saturating_add(1).min(size).max(from);
            bound = bound.min(entry.millis);
            let units = (until - from) as usize;
            from = until;
            std::iter::repeat_n(bound, units)
        });
        Self::from_moments(moments, SpillState::None, size)
    }
}
