//! Makes the judges of a limit's rates at a moment.

use crate::algorithm::{Algorithm, Alignment, CompiledRate, RateAt, sliding_window};
use crate::key::KeyHash;
use crate::rate::MAX_RATES;
use crate::time::Timestamp;

use super::Limit;

impl Limit {
    /// A handle of the same counters whose windows begin where those of `other` begin, whatever the key: for a key that has another hash
    /// elsewhere, by which its windows begin everywhere. `None` where windows do not begin by key.
    #[must_use]
    pub fn aligned_to(&self, other: KeyHash) -> Option<Self> {
        let by_key = Algorithm::FixedWindow(Alignment::Key);
        (*self.policy.algorithm() == by_key).then(|| Self {
            compiled_rates: self.compiled_rates.map(|compiled| compiled.for_key(other)),
            ..self.clone()
        })
    }

    /// The rates at `now` for a charge of `key`. A table is made for as many rates as its limit has, and every limit that shares it has
    /// the same periods.
    #[inline(always)]
    pub(super) fn rates_of<const K: usize>(&self, key: KeyHash, now: Timestamp) -> [RateAt; K] {
        self.judges(Some(key), now)
    }

    /// The rates at `now` for words of any keys: what each counts, and until when.
    #[inline(always)]
    pub(super) fn rates_at<const K: usize>(&self, now: Timestamp) -> [RateAt; K] {
        self.judges(None, now)
    }

    #[inline(always)]
    fn judges<const K: usize>(&self, key: Option<KeyHash>, now: Timestamp) -> [RateAt; K] {
        let mut rates_at = std::array::from_fn(|rate| self.compiled_rates[rate].at(now));
        if let CompiledRate::Window(..) = self.compiled_rates[0] {
            self.align(&mut rates_at, key, now);
        }
        rates_at
    }

    /// The rates at `now` of a limit whose first meter is this one. All meters of a limit are of one algorithm; so said, the compiler
    /// provides for no other under one rate and two. Under more it tells them apart all the same.
    #[inline(always)]
    pub(super) fn sliding_rates_at<const K: usize>(
        &self,
        first: sliding_window::SlidingRate,
        now: Timestamp,
    ) -> [RateAt; K] {
        std::array::from_fn(|rate| {
            let compiled = match rate {
                0 => first,
                _ => self.compiled_rates[rate].sliding().unwrap_or(first),
            };
            RateAt::Sliding(compiled.at(now))
        })
    }

    /// The judges of all rates; behind the last, the last again.
    pub(super) fn four_rates_at(&self, now: Timestamp) -> [RateAt; MAX_RATES] {
        self.rates_at(now)
    }

    /// Puts the windows of `now` into judges whose windows follow a calendar, and those of `key` into judges whose windows begin by key.
    #[inline(never)]
    fn align(&self, rates_at: &mut [RateAt], key: Option<KeyHash>, now: Timestamp) {
        for (rate_at, compiled) in rates_at.iter_mut().zip(self.meters_at(now)) {
            *rate_at = key.map_or(compiled, |key| compiled.for_key(key)).at(now);
        }
    }

    /// The meters with the windows of now.
    #[inline(never)]
    pub(super) fn meters_at(&self, now: Timestamp) -> [CompiledRate; MAX_RATES] {
        match self.policy.calendar() {
            None => self.compiled_rates,
            Some((zone, unit)) => {
                let shape = zone.window(unit, now);
                self.compiled_rates
                    .map(|compiled| compiled.in_window(shape))
            }
        }
    }
}
