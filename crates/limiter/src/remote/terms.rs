//! Says what a store needs to know to judge a policy's rates: the integers of each algorithm, worked out here.
//!
//! Whatever takes a division or more than 53 bits is done here, once and exactly, so that a script whose numbers are doubles
//! adds and compares small integers only.

use crate::algorithm::{CompiledRate, Policy};
use crate::cost::Cost;
use crate::exact::LogTable;
use crate::key::KeyHash;
use crate::terms::{CalendarWindow, PolicyTerms, RateTerms, WindowStart};
use crate::time::Timestamp;

impl Policy {
    /// The terms by which `cost` of `key` is judged near a moment: of a calendar they hold for the windows beside that moment's too.
    #[must_use]
    pub fn terms(&self, key: KeyHash, cost: Cost, near: Timestamp) -> PolicyTerms {
        let rates = self.rates().as_slice();
        let is_log = self.log_entries().is_some();
        let terms = self
            .compiled_rates()
            .into_iter()
            .zip(rates)
            .map(|(compiled, rate)| {
                if is_log {
                    return RateTerms::Log { rate: *rate };
                }
                match compiled.for_key(key) {
                    CompiledRate::Sliding(_) => RateTerms::Sliding { rate: *rate },
                    CompiledRate::Window(rate, shape) => RateTerms::Window {
                        rate,
                        begins: self
                            .spans(near)
                            .map_or_else(|| shape.begins(rate.period()), WindowStart::Calendar),
                    },
                    CompiledRate::Interval(rate, burst) => RateTerms::Interval { rate, burst },
                    CompiledRate::Drain(rate, shape) => shape.terms(rate, cost),
                }
            });
        PolicyTerms(terms.collect())
    }

    /// Entries that a log keeps; `None` for any other algorithm than `exact`.
    #[must_use]
    pub fn log_entries(&self) -> Option<u32> {
        let is_exact = *self.algorithm() == crate::algorithm::Algorithm::Exact;
        is_exact.then(|| LogTable::entries_for(self.rates()))
    }

    /// The windows around a moment, if they follow a calendar.
    fn spans(&self, near: Timestamp) -> Option<[CalendarWindow; 3]> {
        let (zone, unit) = self.calendar()?;
        let span_of = |second: i64| {
            let moment = Timestamp::from_secs(u64::try_from(second).unwrap_or(0));
            zone.window(unit, moment).span()
        };
        // Below 2^35.
        let here = span_of(near.as_secs() as i64)?;
        let before = span_of(here.begin - 1)?;
        let after = span_of(here.begin + i64::from(here.length))?;
        Some([before, here, after])
    }
}
