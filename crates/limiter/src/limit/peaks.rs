//! Reads the largest use of each key from the counters: how close ordinary keys come to a limit, whatever the moment of the walk.

use crate::rate::MAX_RATES;
use crate::table::KeyPeak;
use crate::time::Timestamp;

use super::{AnyTable, Limit, Word, with_table};

impl Limit {
    /// Passes the use of each key right after its latest charge to `visit`, or what is owed now under algorithms that keep a debt
    /// (`gcra`, `leaky-bucket`, `token-bucket` with a greedy refill). Keys whose use has expired are visited too, until another key
    /// takes their slot.
    ///
    /// `now` reads the clock by which keys are charged. It is read again and again during the walk, since keys are charged meanwhile.
    ///
    /// Reads up to 131,072 buckets and blocks no charge. A larger table has n parts of so many buckets, each a fair sample of keys, and
    /// the part with the number `part` modulo n is read; returns n.
    pub fn peaks(
        &self,
        part: usize,
        now: impl Fn() -> Timestamp,
        visit: impl FnMut(&KeyPeak),
    ) -> usize {
        with_table!(
            &self.counters.table,
            table => table.peaks(part, || self.rates_at(now()), visit),
            logs => logs.peaks(part, self.rates(), visit),
        )
    }

    /// The units that a key without history may use at once, of each rate in the order of the limit's rates; 0 behind the last.
    #[must_use]
    pub fn room_of_new_keys(&self, now: Timestamp) -> [u32; MAX_RATES] {
        let rates_at = self.four_rates_at(now);
        let mut room = [0; MAX_RATES];
        let rates = self.rates().iter().zip(rates_at);
        for ((rate, rate_at), room) in rates.zip(&mut room) {
            *room = match &self.counters.table {
                AnyTable::Log(_) => rate.count(),
                _ => rate_at.remaining(Word::UNUSED),
            };
        }
        room
    }
}
